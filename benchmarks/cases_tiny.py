"""Operations on 100 elements: what one eager call costs, unrecorded, recorded and gone back over.

The work itself takes a fraction of a microsecond here; what is measured is what stands around it,
by the time of the processor on one thread. These rows run only when they are named: ``python -m
benchmarks tiny`` prints first the thirty operations that scripts call most, each with its share of
all calls (``benchmarks/called.py`` counts them), then others, the slowest by comparison first.
Views come once more at the end, after a first write, when they are noted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import called
from benchmarks.harness import Case, Run
from fx import limits

Operation = Callable[[Any], Run]

_RANDOM = np.random.default_rng(0)
X = _RANDOM.normal(size=(10, 10)).astype(np.float32)
Y = _RANDOM.normal(size=(10, 10)).astype(np.float32)
ROWS = _RANDOM.integers(0, 10, size=10)
PLACES = _RANDOM.integers(0, 10, size=(10, 10))


class Operands:
    """One library's module, and tensors of a hundred elements in it.

    Args:
        m: torch, or the face of fx that has its names.
        recorded: whether ``x`` requires a gradient.
    """

    def __init__(self, m: Any, recorded: bool) -> None:
        self.m = m
        self.F = m.nn.functional
        self.x = m.tensor(X.tolist(), requires_grad=recorded)  # (10, 10)
        self.y = m.tensor(Y.tolist())  # (10, 10)
        self.rows = m.tensor(ROWS.tolist())  # (10,), int64
        self.places = m.tensor(PLACES.tolist())  # (10, 10), int64
        self.mask = self.y > 0  # (10, 10)
        self.positive = m.tensor((X**2 + 0.1).tolist(), requires_grad=recorded)  # (10, 10)
        self.line = m.tensor([X.tolist()], requires_grad=recorded)  # (1, 10, 10)
        self.image = m.tensor([[X.tolist()]], requires_grad=recorded)  # (1, 1, 10, 10)
        self.kernel = m.tensor([[X[:3, :3].tolist()]] * 2, requires_grad=recorded)  # (2, 1, 3, 3)
        self.vector = m.tensor(X[0].tolist(), requires_grad=recorded)  # (10,)
        self.hundred = m.tensor(X.reshape(100).tolist(), requires_grad=recorded)  # (100,)
        self.zeros, self.ones = m.nn.Buffer(m.zeros(10)), m.nn.Buffer(m.ones(10))
        self.parameter = m.nn.Parameter(m.tensor(X.tolist()))  # (10, 10)
        self.parameter.grad = m.tensor(Y.tolist())
        self.chances = m.tensor((1 / (1 + Y**2)).tolist())  # (10, 10), in (0, 1]


OFTEN: dict[str, float] = {  # the rows of what is called most, with its share
    row: share for name, share in called.most() for row in called.ROWS.get(name, ())
}
DIFFERENTIABLE: dict[str, Callable[[Operands], Run]] = {
    "x[i]": lambda o: lambda: o.x[3],
    "x[i, j]": lambda o: lambda: o.x[3, 4],
    "x[2:5]": lambda o: lambda: o.x[2:5],
    "x[:, 1:]": lambda o: lambda: o.x[:, 1:],
    "x[None]": lambda o: lambda: o.x[None],
    "x[mask]": lambda o: lambda: o.x[o.mask],
    "x[idx]": lambda o: lambda: o.x[o.rows],
    "x[idx, idx]": lambda o: lambda: o.x[o.rows, o.rows],
    "x * y": lambda o: lambda: o.x * o.y,
    "x * 2.0": lambda o: lambda: o.x * 2.0,
    "x + y": lambda o: lambda: o.x + o.y,
    "x + 1.0": lambda o: lambda: o.x + 1.0,
    "x - y": lambda o: lambda: o.x - o.y,
    "x / y": lambda o: lambda: o.x / o.y,
    "item()": lambda o: _item(o),
    "view": lambda o: lambda: o.x.view(-1),
    "reshape": lambda o: lambda: o.x.reshape(5, 20),
    "linear": lambda o: lambda: o.F.linear(o.y, o.x),
    "to(float64)": lambda o: lambda: o.x.to(o.m.float64),
    "to(float32)": lambda o: lambda: o.x.to(o.m.float32),
    "detach": lambda o: lambda: o.x.detach(),
    "unsqueeze": lambda o: lambda: o.x.unsqueeze(0),
    "squeeze": lambda o: lambda: o.line.squeeze(0),
    "sum": lambda o: lambda: o.x.sum(),
    "sum(dim)": lambda o: lambda: o.x.sum(dim=1),
    "clone": lambda o: lambda: o.x.clone(),
    "transpose": lambda o: lambda: o.x.transpose(0, 1),
    "permute": lambda o: lambda: o.x.permute(1, 0),
    "t": lambda o: lambda: o.x.t(),
    "T": lambda o: lambda: o.x.T,
    "max(dim)": lambda o: lambda: o.x.max(dim=1),
    "cat": lambda o: lambda: o.m.cat([o.x, o.y], dim=1),
    "relu": lambda o: lambda: o.F.relu(o.x),
    "mean": lambda o: lambda: o.x.mean(),
    "cross_entropy": lambda o: lambda: o.F.cross_entropy(o.x, o.rows),
    "x ** 2": lambda o: lambda: o.x**2,
    "sqrt": lambda o: lambda: o.positive.sqrt(),
    "exp": lambda o: lambda: o.m.exp(o.x),
    "log": lambda o: lambda: o.positive.log(),
    "matmul": lambda o: lambda: o.x @ o.y,
    "embedding": lambda o: lambda: o.F.embedding(o.rows, o.x),
    "softmax": lambda o: lambda: o.F.softmax(o.x, dim=-1),
    "log_softmax": lambda o: lambda: o.F.log_softmax(o.x, dim=-1),
    "stack": lambda o: lambda: o.m.stack([o.x, o.y]),
    "split": lambda o: lambda: o.m.split(o.x, 5),
    "chunk": lambda o: lambda: o.x.chunk(2, dim=1),
    "unbind": lambda o: lambda: o.x.unbind(0),
    "gather": lambda o: lambda: o.x.gather(1, o.places),
    "scatter_add": lambda o: lambda: o.x.scatter_add(1, o.places, o.y),
    "index_select": lambda o: lambda: o.m.index_select(o.x, 0, o.rows),
    "where": lambda o: lambda: o.m.where(o.mask, o.x, o.y),
    "masked_fill": lambda o: lambda: o.x.masked_fill(o.mask, 0.0),
    "topk": lambda o: lambda: o.m.topk(o.x, 3),
    "sort": lambda o: lambda: o.m.sort(o.x),
    "var": lambda o: lambda: o.x.var(dim=1),
    "std": lambda o: lambda: o.x.std(),
    "cumsum": lambda o: lambda: o.x.cumsum(dim=1),
    "sigmoid": lambda o: lambda: o.m.sigmoid(o.x),
    "tanh": lambda o: lambda: o.m.tanh(o.x),
    "abs": lambda o: lambda: o.x.abs(),
    "-x": lambda o: lambda: -o.x,
    "clamp": lambda o: lambda: o.x.clamp(0.0, 1.0),
    "pad": lambda o: lambda: o.F.pad(o.x, (1, 1)),
    "tril": lambda o: lambda: o.m.tril(o.x),
    "triu": lambda o: lambda: o.m.triu(o.x),
    "flatten": lambda o: lambda: o.x.flatten(),
    "expand": lambda o: lambda: o.line.expand(3, -1, -1),
    "mse_loss": lambda o: lambda: o.F.mse_loss(o.x, o.y),
    "layer_norm": lambda o: lambda: o.F.layer_norm(o.x, (10,)),
    "dropout": lambda o: lambda: o.F.dropout(o.x, 0.5),
    "nll_loss": lambda o: lambda: o.F.nll_loss(o.x, o.rows),
    "trace": lambda o: lambda: o.m.trace(o.x),
    "diagonal": lambda o: lambda: o.x.diagonal(),
    "unfold": lambda o: lambda: o.x.unfold(0, 3, 1),
    "index_add": lambda o: lambda: o.x.index_add(0, o.rows, o.y),
    "conv2d": lambda o: lambda: o.F.conv2d(o.image, o.kernel),
    "conv2d, padded": lambda o: lambda: o.F.conv2d(o.image, o.kernel, padding=1),
    "max_pool2d": lambda o: lambda: o.F.max_pool2d(o.image, 2),
    "avg_pool2d": lambda o: lambda: o.F.avg_pool2d(o.image, 2),
    "batch_norm": lambda o: (
        lambda: o.F.batch_norm(o.x, o.zeros, o.ones, o.vector, o.vector, training=True)
    ),
    "batch_norm without weights": lambda o: (
        lambda: o.F.batch_norm(o.x, o.zeros, o.ones, training=True)
    ),
    "batch_norm in evaluation": lambda o: (
        lambda: o.F.batch_norm(o.x, o.zeros, o.ones, o.vector, o.vector)
    ),
    "layer_norm with weights": lambda o: lambda: o.F.layer_norm(o.x, (10,), o.vector, o.vector),
    "linear with a bias": lambda o: lambda: o.F.linear(o.x, o.y, o.vector),
    "binary_cross_entropy": lambda o: lambda: o.F.binary_cross_entropy(o.x.sigmoid(), o.chances),
    "bce_with_logits": lambda o: lambda: o.F.binary_cross_entropy_with_logits(o.x, o.chances),
    "smooth_l1_loss": lambda o: lambda: o.F.smooth_l1_loss(o.x, o.y),
    "bmm": lambda o: lambda: o.m.bmm(o.line, o.line),
    "matrix @ vector": lambda o: lambda: o.x @ o.vector,
    "dot": lambda o: lambda: o.m.dot(o.hundred, o.hundred),
    "outer": lambda o: lambda: o.m.outer(o.vector, o.vector),
    "addmm": lambda o: lambda: o.m.addmm(o.vector, o.x, o.y),
    "einsum": lambda o: lambda: o.m.einsum("ij,jk->ik", o.x, o.y),
    "median": lambda o: lambda: o.hundred.median(),
    "max": lambda o: lambda: o.x.max(),
    "norm": lambda o: lambda: o.x.norm(),
    "prod": lambda o: lambda: o.x.prod(),
    "logsumexp": lambda o: lambda: o.m.logsumexp(o.x, 1),
    "gelu": lambda o: lambda: o.F.gelu(o.x),
    "silu": lambda o: lambda: o.F.silu(o.x),
    "leaky_relu": lambda o: lambda: o.F.leaky_relu(o.x),
    "softplus": lambda o: lambda: o.F.softplus(o.x),
    "normalize": lambda o: lambda: o.F.normalize(o.x),
    "maximum": lambda o: lambda: o.m.maximum(o.x, o.y),
    "repeat": lambda o: lambda: o.x.repeat(2, 1),
    "flip": lambda o: lambda: o.x.flip(0),
    "roll": lambda o: lambda: o.x.roll(1, 0),
}
OTHERS: dict[str, Callable[[Operands], Run]] = {
    "argmax": lambda o: lambda: o.x.argmax(dim=1),
    "x > 0": lambda o: lambda: o.x > 0,
    "x == y": lambda o: lambda: o.x == o.y,
    "randn": lambda o: lambda: o.m.randn(10, 10),
    "rand": lambda o: lambda: o.m.rand(10, 10),
    "randint": lambda o: lambda: o.m.randint(0, 10, (10, 10)),
    "randperm": lambda o: lambda: o.m.randperm(100),
    "bernoulli": lambda o: lambda: o.m.bernoulli(o.chances),
    "zeros": lambda o: lambda: o.m.zeros(10, 10),
    "zeros_like": lambda o: lambda: o.m.zeros_like(o.x),
    "ones": lambda o: lambda: o.m.ones(10, 10),
    "full": lambda o: lambda: o.m.full((10, 10), 3.0),
    "eye": lambda o: lambda: o.m.eye(10),
    "arange": lambda o: lambda: o.m.arange(100),
    "tensor": lambda o: lambda: o.m.tensor([1.0, 2.0, 3.0]),
    "one_hot": lambda o: lambda: o.F.one_hot(o.rows, 10),
    "nonzero": lambda o: lambda: o.mask.nonzero(),
    "any": lambda o: lambda: o.mask.any(),
    "normal": lambda o: lambda: o.m.normal(0.0, 1.0, (10, 10)),
    "linspace": lambda o: lambda: o.m.linspace(0.0, 1.0, 100),
    "multinomial": lambda o: lambda: o.m.multinomial(o.chances, 5, replacement=True),
    "unique": lambda o: lambda: o.places.unique(),
    "isin": lambda o: lambda: o.m.isin(o.places, o.rows),
    "equal": lambda o: lambda: o.m.equal(o.x, o.y),
    "allclose": lambda o: lambda: o.m.allclose(o.x, o.y),
    "randn_like": lambda o: lambda: o.m.randn_like(o.x),
    "argsort": lambda o: lambda: o.x.argsort(),
    "multinomial, one": lambda o: lambda: o.m.multinomial(o.chances, 1),
    "empty": lambda o: lambda: o.m.empty(10, 10),
    "tolist": lambda o: lambda: o.x.tolist(),
    "contiguous": lambda o: lambda: o.x.contiguous(),
    "from_numpy": lambda o: _from_numpy(o),
    "with no_grad": lambda o: lambda: _without(o),
    **{
        text: lambda o, text=text: _in_script(o, text)
        for text in (
            "x.size()",
            "x.size(0)",
            "x.shape",
            "x.shape[0]",
            "x.dtype",
            "x.device",
            "x.numel()",
            "x.grad",
            "x.data",
            "x.numpy()",
            "p.detach()",
            "p.view(-1)",
            "p[3]",
            "p.data",
            "p.grad",
            "p.requires_grad",
        )
    },
}
# what begins to write, and the views of a tensor that was not written once something was
AFTER: dict[str, Callable[[Operands], Run]] = {
    text: lambda o, text=text: _in_script(o, text, write=True)
    for text in ("x[3] = 1.0", "x[3, 4] = 1.0", "x[mask] = 0.0", "x[:, 3] = v")
}
_VIEWS = {
    "x[i]": "x[3]",
    "x[i, j]": "x[3, 4]",
    "x[2:5]": "x[2:5]",
    "x[:, 1:]": "x[:, 1:]",
    "x[None]": "x[None]",
    "view": "x.view(-1)",
    "reshape": "x.reshape(5, 20)",
    "flatten": "x.flatten()",
    "transpose": "x.transpose(0, 1)",
    "permute": "x.permute(1, 0)",
    "t": "x.t()",
    "T": "x.T",
    "unsqueeze": "x.unsqueeze(0)",
    "squeeze": "line.squeeze(0)",
    "detach": "x.detach()",
    "p.detach()": "p.detach()",
    "x.data": "x.data",
    "p.data": "p.data",
}
# the way back alone, over an operation that was recorded once
BACK: dict[str, Callable[[Operands], Any]] = {
    "x * y": lambda o: o.x * o.y,
    "x[2:5]": lambda o: o.x[2:5],
    "x[idx]": lambda o: o.x[o.rows],
    "cat": lambda o: o.m.cat([o.x, o.y], dim=1),
    "stack": lambda o: o.m.stack([o.x, o.y]),
    "gather": lambda o: o.x.gather(1, o.places),
    "topk": lambda o: o.m.topk(o.x, 3)[0],
    "max(dim)": lambda o: o.x.max(dim=1)[0],
    "sum": lambda o: o.x.sum(),
    "view": lambda o: o.x.view(-1),
    "transpose": lambda o: o.x.transpose(0, 1),
    "matmul": lambda o: o.x @ o.y,
    "relu": lambda o: o.F.relu(o.x),
    "cross_entropy": lambda o: o.F.cross_entropy(o.x, o.rows),
    "embedding": lambda o: o.F.embedding(o.rows, o.x),
    "linear": lambda o: o.F.linear(o.y, o.x),
    "nll_loss": lambda o: o.F.nll_loss(o.x, o.rows),
    "mse_loss": lambda o: o.F.mse_loss(o.x, o.y),
    "softmax": lambda o: o.F.softmax(o.x, dim=-1),
    "log_softmax": lambda o: o.F.log_softmax(o.x, dim=-1),
    "layer_norm": lambda o: o.F.layer_norm(o.x, (10,)),
    "batch_norm": lambda o: o.F.batch_norm(o.x, None, None, o.ones, o.zeros, training=True),
    "matrix @ vector": lambda o: o.x @ o.vector.detach(),
    "mean": lambda o: o.x.mean(),
    "var": lambda o: o.x.var(dim=1),
    "gelu": lambda o: o.F.gelu(o.x),
    "tanh": lambda o: o.x.tanh(),
    "where": lambda o: o.m.where(o.mask, o.x, o.y),
}


def _in_script(o: Operands, text: str, write: bool = False) -> Run:
    """A line of a module that has ``torch``, which sees PyTorch's sizes and dtypes, and may write.

    Args:
        write: whether something is written first: from then on views are noted.
    """
    space = {"torch": o.m, "x": o.x, "line": o.line, "p": o.parameter, "mask": o.mask}
    space |= {"v": o.vector.detach(), "other": o.m.zeros(3)}
    if write:
        exec("other[0] = 1.0", space)
    exec(f"def run():\n {text}", space)
    return space["run"]  # type: ignore[no-any-return]


def _from_numpy(o: Operands) -> Run:
    array = Y.copy()
    return lambda: o.m.from_numpy(array)


def _without(o: Operands) -> None:
    with o.m.no_grad():
        pass


def _back(build: Callable[[Operands], Any]) -> Callable[[Operands], Run]:
    def setup(o: Operands) -> Run:
        y = build(o)
        ct = o.m.ones_like(y).detach()
        return lambda: o.m.autograd.grad(y, o.x, ct, retain_graph=True)

    return setup


def _item(o: Operands) -> Run:
    one = o.x.sum()
    return lambda: one.item()


def _fx() -> Any:
    import fx.torch

    fx.set_num_threads(1)
    return fx.torch


def _torch() -> Any:
    import torch

    torch.set_num_threads(1)  # beside a busy neighbour its barrier takes milliseconds
    return torch


def _warm(run: Run) -> Run:
    """The same after the calls that a reference serves while a kernel would have to be made."""
    for _ in range(limits.EARLY_CALLS + 2):
        run()
    return run


_SIGNS = {
    "+": "plus",
    "-": "minus",
    "*": "times",
    "/": "over",
    ">": "above",
    "=": "equal",
    "@": "by",
}


def _case(title: str, setup: Callable[[Operands], Run], recorded: bool, way: str = "") -> Case:
    name = "".join(c if c.isalnum() else _SIGNS.get(c, "_") for c in title).strip("_")
    way = way or ("recorded" if recorded else "")
    share = OFTEN.get(title)
    return Case(
        f"tiny_{name}{way and '_'}{way.replace(' ', '_')}",
        f"`{title}`{way and f', {way}'}{'' if share is None else f' ({share:.1%})'}",
        {
            "fx": lambda: _warm(setup(Operands(_fx(), recorded))),
            "torch": lambda: _warm(setup(Operands(_torch(), recorded))),
        },
        table="tiny" if share is None else "often",
    )


CASES = [
    *(_case(title, setup, False) for title, setup in {**DIFFERENTIABLE, **OTHERS}.items()),
    *(_case(title, setup, True) for title, setup in DIFFERENTIABLE.items()),
    *(_case(title, _back(build), True, "back") for title, build in BACK.items()),
    *(_case(title, setup, False) for title, setup in AFTER.items()),
    *(
        _case(title, lambda o, text=text: _in_script(o, text, write=True), recorded, way)
        for title, text in _VIEWS.items()
        for recorded, way in ((False, "after a write"), (True, "recorded after a write"))
    ),
]
