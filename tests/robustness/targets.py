"""What a hostile user calls: every public function, method, layer, optimizer and transform."""

from __future__ import annotations

import inspect
from typing import Any

import fx
import fx.nn.functional as F
from tests.nn.tables import LAYERS

# these change what later calls mean, or wait for input
LEFT_OUT = {
    "set_default_dtype", "set_default_device", "set_printoptions", "set_rng_state",
    "set_num_threads", "get_worker_info", "register_optimizer_step_pre_hook",
    "register_optimizer_step_post_hook", "functional_datapipe", "non_deterministic",
    "argument_validation", "runtime_validation", "count", "pad", "as_matrix", "scaled", "drop_hook",
    "load", "save", "register_backend",
}  # fmt: skip
INNER = ("utils.rnn", "parametrizations", "prune")
SKIPPED = {
    "__class__", "__init_subclass__", "__subclasshook__", "__new__", "__reduce_ex__", "__dir__",
    "__getattribute__", "__setattr__", "__delattr__", "__init__", "__getstate__", "__sizeof__",
}  # fmt: skip
MORE = {  # inputs of layers that have no row in the table
    "Embedding": (lambda nn: nn.Embedding(5, 3), (2, 3)),
    "EmbeddingBag": (lambda nn: nn.EmbeddingBag(5, 3), (2, 3)),
    "RNN": (lambda nn: nn.RNN(3, 2), (4, 2, 3)),
    "LSTM": (lambda nn: nn.LSTM(3, 2, bidirectional=True), (4, 2, 3)),
    "GRU": (lambda nn: nn.GRU(3, 2, 2, batch_first=True), (4, 2, 3), (2, 4, 2)),
    "LSTMCell": (lambda nn: nn.LSTMCell(3, 2), (4, 3)),
    "GRUCell": (lambda nn: nn.GRUCell(3, 2), (4, 3), (4, 2)),
    "MultiheadAttention": (lambda nn: nn.MultiheadAttention(4, 2), *[(3, 2, 4)] * 3),
    "TransformerEncoderLayer": (lambda nn: nn.TransformerEncoderLayer(4, 2, 3), (3, 2, 4)),
    "TransformerDecoderLayer": (
        lambda nn: nn.TransformerDecoderLayer(4, 2, 3), (3, 2, 4), (5, 2, 4),
    ),
    "Transformer": (lambda nn: nn.Transformer(4, 2, 1, 1, 3), (3, 2, 4), (5, 2, 4)),
    "AdaptiveLogSoftmax": (lambda nn: nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2]), (3, 4), (3,)),
    "MaxUnpool2d": (lambda nn: nn.MaxUnpool2d(2), (1, 2, 3, 3), (1, 2, 3, 3)),
    "LazyConv2d": (lambda nn: nn.LazyConv2d(3, 2), (1, 2, 3, 3)),
    "LazyBatchNorm1d": (lambda nn: nn.LazyBatchNorm1d(), (3, 2)),
    **{
        name: (lambda nn, name=name: getattr(nn, name)(), (3, 4), (3, 4))
        for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "BCELoss", "KLDivLoss",
                     "BCEWithLogitsLoss", "PoissonNLLLoss", "HingeEmbeddingLoss", "SoftMarginLoss",
                     "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss")
    },
    **{
        name: (lambda nn, name=name: getattr(nn, name)(), (3, 4), (3,))
        for name in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss")
    },
    **{
        name: (lambda nn, name=name: getattr(nn, name)(), (3, 4), (3, 4), (3,))
        for name in ("CosineEmbeddingLoss", "GaussianNLLLoss")
    },
    "MarginRankingLoss": (lambda nn: nn.MarginRankingLoss(), (3,), (3,), (3,)),
    "TripletMarginLoss": (lambda nn: nn.TripletMarginLoss(), *[(3, 4)] * 3),
    "CTCLoss": (lambda nn: nn.CTCLoss(), (5, 2, 4), (2, 3), (2,), (2,)),
}  # fmt: skip


class Layer:
    """A valid layer, called with inputs that may not fit."""

    def __init__(self, make: Any, shapes: Any) -> None:
        self.make, self.shapes = make, shapes

    def __call__(self, *inputs: Any) -> Any:
        layer = self.make(fx.nn)
        return (layer.eval() if len(inputs) % 2 else layer)(*inputs)


class Made:
    """An object made with options that may not fit, and then used."""

    def __init__(self, make: Any, use: Any, left_out: tuple[str, ...] = ()) -> None:
        signature = inspect.signature(make)
        kept = [p for p in signature.parameters.values() if p.name not in left_out]
        self.__signature__ = signature.replace(parameters=kept)
        self.make, self.use = make, use

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.use(self.make, args, named)


def _trained(kind: Any, args: Any, named: Any) -> None:
    """Two steps of an optimizer."""
    p = fx.nn.Parameter(fx.ones(2, 3))
    optimizer = kind([p], *args, **named)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    closure()
    optimizer.step() if kind is not fx.optim.LBFGS else optimizer.step(closure)
    optimizer.load_state_dict(optimizer.state_dict())


def _scheduled(kind: Any, args: Any, named: Any) -> None:
    """Three steps of a scheduler."""
    optimizer = fx.optim.SGD([fx.nn.Parameter(fx.ones(2))], lr=0.1, momentum=0.9)
    scheduler = kind(optimizer, *args, **named)
    for _ in range(3):
        optimizer.step()
        scheduler.step(1.0) if kind is fx.optim.lr_scheduler.ReduceLROnPlateau else scheduler.step()
    scheduler.get_last_lr()


def _looped(kind: Any, args: Any, named: Any) -> None:
    """The first items of something that is iterated over."""
    list(zip(range(4), kind(*args, **named), strict=False))


def _transformed(kind: Any, args: Any, named: Any) -> Any:
    return kind(*args, **{k: v for k, v in named.items() if k != "img"})(named["img"])


def _classes(module: Any, root: type) -> list[tuple[str, type]]:
    found = [(name, getattr(module, name)) for name in sorted(dir(module))]
    return [
        (name, c)
        for name, c in found
        if isinstance(c, type) and issubclass(c, root) and c is not root and name[0] != "_"
    ]


def _functions() -> list[tuple[str, Any, bool]]:
    found: list[tuple[str, Any, bool]] = []
    utils, data = fx.nn.utils, fx.data
    places = [
        ("fx", fx), ("F", F), ("fx.random", fx.random), ("init", fx.nn.init), ("utils", utils),
        ("utils.rnn", utils.rnn), ("parametrizations", utils.parametrizations),
        ("prune", utils.prune), ("data", data), ("transforms", data.transforms.functional),
    ]  # fmt: skip
    for title, module in places:
        for name in sorted(set(dir(module))):
            value = getattr(module, name)
            if name.startswith("_") or name in LEFT_OUT or not callable(value):
                continue
            if isinstance(value, type) or getattr(value, "__module__", "fx").startswith("typing"):
                continue
            if title in INNER and value.__module__ != module.__name__:  # a helper from elsewhere
                continue
            found.append((f"{title}.{name}", value, False))
    return found


def targets() -> list[tuple[str, Any, bool]]:
    """Name, what to call, and whether it is a method."""
    found = _functions()
    for name in sorted(dir(fx.Tensor)):
        value = inspect.getattr_static(fx.Tensor, name)
        if name in SKIPPED or (name.startswith("_") and not name.startswith("__")):
            continue
        if callable(value) and not isinstance(value, type):
            found.append((f"Tensor.{name}", value, True))
    nn, optim, data = fx.nn, fx.optim, fx.data
    for make, *shapes in [*LAYERS, *MORE.values()]:
        found.append((f"{make(nn)!r}", Layer(make, shapes), False))
    for name, kind in _classes(nn, nn.Module):
        recurrent = name in ("RNN", "LSTM", "GRU")
        signature = inspect.signature(nn.RNNBase if recurrent else kind)
        made = Made(kind, lambda kind, args, named: kind(*args, **named))
        kept = [p for p in signature.parameters.values() if not recurrent or p.name != "mode"]
        made.__signature__ = signature.replace(parameters=kept)
        found.append((f"nn.{name}", made, False))
    for name, kind in _classes(optim, optim.Optimizer):
        found.append((f"optim.{name}", Made(kind, _trained, ("params",)), False))
    for name, kind in _classes(optim.lr_scheduler, optim.lr_scheduler.LRScheduler):
        found.append((f"lr_scheduler.{name}", Made(kind, _scheduled, ("optimizer",)), False))
    for name, kind in [*_classes(data, data.Sampler), ("DataLoader", data.DataLoader)]:
        found.append((f"data.{name}", Made(kind, _looped), False))
    for name, kind in _classes(data.transforms, object):
        if name != "InterpolationMode":
            made = Made(kind, _transformed)
            image = inspect.Parameter("img", inspect.Parameter.KEYWORD_ONLY)
            options = [*made.__signature__.parameters.values(), image]
            made.__signature__ = made.__signature__.replace(parameters=options)
            found.append((f"transforms.{name}", made, False))
    return found
