"""The tables of ``writes.py``: methods that write, expressions, optimizers.

A form names the feature that it needs. ``ON`` lists the features that programs may use.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from fx.testing.fuzz.write_views import Array

FEATURES = (
    "assign", "augmented", "method", "detach", "data", "data_set", "out", "inplace",
    "init", "meta", "flags", "grad", "numpy", "optim", "parameter", "set",
    "shared",
    "strided", "layers", "more", "state",
)  # fmt: skip
# those that programs may use
ON = {
    "assign", "augmented", "method", "out", "inplace", "init", "meta", "grad", "optim", "detach",
    "data", "data_set", "set", "shared", "strided", "flags", "parameter", "layers", "more",
    "numpy", "state",
}  # fmt: skip


def rooted(path: str) -> tuple[str, str]:
    """The name at the beginning of an expression, and the rest of it."""
    n = next((i for i, c in enumerate(path) if not (c.isalnum() or c == "_")), len(path))
    return path[:n], path[n:]


# writes -----------------------------------------------------------------------------------------


@attrs.frozen
class Write:
    """A statement that writes into ``{t}``.

    Attributes:
        text: with ``{v}`` and ``{w}`` for values, ``{dim}``, ``{places}`` for an axis and a tensor
            of its indices, ``{mask}`` for a mask.
        feature: what it needs.
        kinds: of the dtypes of the target.
        test: whether a target has the right shape.
        shape: the shape of the values.
    """

    text: str
    feature: str = "method"
    kinds: str = "f"
    test: Callable[[Array], bool] = lambda a: True
    shape: Callable[[Array], tuple[int, ...]] = np.shape

    def fits(self, a: Array) -> bool:
        if self.feature == "out" and any(n > 1 and not s for n, s in zip(a.shape, a.strides)):
            return False  # what torch sums there it adds up several times
        return a.dtype.kind in self.kinds and self.test(a)


def _rank(n: int) -> Callable[[Array], bool]:
    return lambda a: a.ndim == n


def _some_axis(a: Array) -> bool:
    return a.ndim > 0


def _square(a: Array) -> bool:
    return a.ndim == 2 and a.shape[0] == a.shape[1]


def _method(calls: str, **options: Any) -> list[Write]:
    return [Write("{t}." + call.strip(), **options) for call in calls.split(";")]


_F = "torch.nn.functional."
NUMBERS = (
    "zero_(); fill_(2); mul_(2); add_(1); sub_(3); neg_(); abs_(); square_(); clamp_(-1, 1);"
    "clamp_(min=0); clamp_max_(1); sign_(); copy_(torch.ones_like({t}))"
)
ALONE = (
    "sin_(); cos_(); tanh_(); sigmoid_(); relu_(); exp_().clamp_(max=3); erf_(); floor_();"
    "round_(); trunc_(); frac_(); pow_(2); div_(2); mul_(0.5); add_(0.25); fill_(-0.5);"
    "clamp_(-0.4, 0.4); clamp_min_(0.1); nan_to_num_(); true_divide_(4); subtract_(0.5);"
    "multiply_(-1); negative_(); arctan_(); masked_fill_({mask}, 0.5); masked_fill_({mask}, -2)"
)
OF_VALUES = (
    "add_({v}); add_({v}); sub_({v}, alpha=0.5); mul_({v}); mul_({v}); div_(1.5 + ({v}) ** 2);"
    "copy_(torch.zeros_like({t}) + {v}); copy_({t}.clone() * {v});"
    "addcmul_(torch.ones_like({t}) * {v}, torch.ones_like({t}) * {w}, value=0.5);"
    "addcdiv_(torch.ones_like({t}) * {v}, 1.5 + (torch.ones_like({t}) * {w}) ** 2);"
    "lerp_(torch.zeros_like({t}) + {v}, 0.3); mul_(0.9).add_({v}, alpha=0.1)"
)
ALONG = (
    "index_fill_({dim}, {places}, 0.5); cumsum_({dim}); scatter_({dim}, {full_places}, 0.5);"
    "index_add_({dim}, {all_places}, torch.ones_like({t}) * {v});"
    "index_copy_({dim}, {all_places}, torch.ones_like({t}) * {v});"
    "scatter_({dim}, {full_places}, torch.ones_like({t}) * {v});"
    "scatter_add_({dim}, {full_places}, torch.ones_like({t}) * {v});"
    "index_put_(({places0},), torch.tensor(0.5));"
    "index_put_(({places0},), torch.tensor(0.5), accumulate=True)"
)
WRITES = [
    *_method(NUMBERS, kinds="fi"), *_method(ALONE), *_method(OF_VALUES),
    *_method(ALONG, test=_some_axis),
    Write("{t}.masked_scatter_({mask}, torch.ones_like({t}) * {v})"),
    *_method("tril_(); triu_(); fill_diagonal_(0.5)", test=_rank(2)),
    Write("{t}.fill_diagonal_(0)", kinds="i", test=_rank(2)),
    *_method("logical_not_(); fill_(True)", kinds="b"),
    *_method("normal_().zero_(); uniform_(2, 3).clamp_(max=1); bernoulli_(1.0)"),
    *[Write(f"torch.{name}({args}, out={{t}})", "out") for name, args in (
        ("add", "{t}.clone(), {v}"), ("mul", "torch.ones_like({t}), {v}"), ("sin", "{t}.clone()"),
        ("clamp", "{t}.clone(), -0.5, 0.5"), ("sub", "{t}.clone(), {v}"), ("exp", "{t} * 0.1"),
        ("maximum", "{t}.clone(), torch.ones_like({t}) * {v}"), ("cat", "[{t}.clone()]"),
        ("where", "{mask}, {t}.clone(), torch.ones_like({t}) * {v}"), ("abs", "{t} * 2"))],
    *[Write(f"torch.{call}, out={{t}})", "out", test=_square) for call in (
        "matmul({t}.clone(), {t}.T.clone()", "mm({t}.clone(), {t}.clone()", "tril({t}.clone()",
        "stack([{t}[0].clone(), *{t}[1:].clone()]")],
    *[Write(f"torch.{call}, out={{t}})", "out", test=_some_axis) for call in (
        "cumsum({t}.clone(), {dim}", "stack([*{t}.clone()]", "softmax({t}.clone(), {dim}",
        "index_select({t}.clone(), {dim}, {all_places}", "gather({t}.clone(), {dim}, {full_places}",
        "sum({t}[None].clone(), 0", "mean({t}[None].clone(), 0", "div({t}.clone(), 2.0",
        "lerp({t}.clone(), torch.ones_like({t}), 0.3", "pow({t}.clone(), 2")],
    Write("torch.arange({t}.numel(), out={t})", "out", test=_rank(1)),
    Write("torch.linspace(0, 1, {t}.numel(), out={t})", "out", test=_rank(1)),
    Write("torch.zeros({t}.shape, out={t})", "out"),
    Write("torch.full({t}.shape, 0.5, out={t})", "out"),
    *[Write(text, "inplace") for text in (
        _F + "relu({t}, inplace=True)", _F + "leaky_relu({t}, 0.1, inplace=True)",
        _F + "elu({t}, inplace=True)", _F + "silu({t}, inplace=True)",
        _F + "hardtanh({t}, inplace=True)", _F + "dropout({t}, 0.0, inplace=True)",
        "torch.nn.ReLU(inplace=True)({t})", "torch.nn.LeakyReLU(0.2, inplace=True)({t})",
        "torch.relu_({t})", _F + "relu_({t})", "torch.nn.Dropout(0.0, inplace=True)({t})")],
    *[Write(f"torch.nn.init.{text}", "init") for text in (
        "constant_({t}, 0.25)", "zeros_({t})", "ones_({t})")],
    Write("torch.nn.init.eye_({t})", "init", test=_rank(2)),
    Write("torch.nn.init.uniform_({t}, 0.25, 0.25)", "init"),
]  # fmt: skip


def filled(rng: random.Random, line: str, a: Array) -> str:
    """The line with an axis, indices and a mask in their places."""
    if a.ndim:
        dim = rng.randrange(a.ndim)
        n = a.shape[dim]
        places = sorted(rng.sample(range(n), rng.randrange(1, n + 1)))
        every = rng.sample(range(n), n)
        first = sorted(rng.sample(range(a.shape[0]), rng.randrange(1, a.shape[0] + 1)))
        full = np.empty(a.shape, int)
        full[...] = np.reshape(every, [n if d == dim else 1 for d in range(a.ndim)])
        for key, value in (("places", places), ("all_places", every), ("places0", first),
                           ("full_places", full.tolist())):  # fmt: skip
            line = line.replace(f"{{{key}}}", f"torch.tensor({value})")
        line = line.replace("{dim}", str(dim))
    mask = np.asarray([rng.random() < 0.5 for _ in range(a.size)]).reshape(a.shape)
    return line.replace("{mask}", f"torch.tensor({mask.tolist()})")


FLAGS = [
    ("{t}.requires_grad_()", "flags"), ("{t}.requires_grad = True", "flags"),
    ("{t}.grad = None\n{t}.requires_grad_(False)", "flags"), ("{t}.detach_()", "flags"),
    ("{t}.register_hook(lambda g: g * 2)", "grad"), ("{t}.register_hook(lambda g: None)", "grad"),
    ("{t}.grad = None", "grad"), ("{t}.grad.zero_()", "grad"), ("{t}.grad.mul_(2)", "grad"),
    ("{t}.grad[...] = 1", "grad"), ("{t}.grad.data.zero_()", "grad"),
    ("{t}.grad.clamp_(-0.5, 0.5)", "grad"), ("{t}.grad += 1", "grad"),
    ("if {t}.grad is not None:\n    torch.nn.utils.clip_grad_norm_([{t}], 1.0)", "grad"),
    ("if {t}.grad is not None:\n    torch.nn.utils.clip_grad_value_([{t}], 0.5)", "grad"),
]  # fmt: skip

# expressions ------------------------------------------------------------------------------------

SAME_SHAPE = ("{}", "{}", "{}.clone()", "{} * 0.5", "-{}", "{} + 1", "{}.sin()", "{} * {}")
TO_SCALAR = ("{}.sum()", "{}.mean()", "{}.sin().sum()", "{}.max().clone()", "{}.mean().item()")
LOSSES = (
    "{}.sum()", "({} ** 2).sum()", "{}.sin().mean()", "({} * 0.5).sum()", "{}.mean()",
    "({} * {}).mean()",
)  # fmt: skip


def _like(a: Array) -> Array:
    return a


def _outer(a: Array) -> Array:
    if a.ndim != 1:
        raise ValueError
    return np.outer(a, a)


EXPRESSIONS: list[tuple[str, Callable[[Array], Array]]] = [
    *[(text, _like) for text in (
        "{a} * {b}", "{a} + {b}", "{a} - {b} * 0.5", "{a} / (1.5 + {b} * {b})", "{a} * {b}",
        "{a} * 2", "{a}.sin()", "{a}.tanh()", "{a}.sigmoid()", "({a} * 0.1).exp()", "{a} ** 2",
        "torch.relu({a})", "{a}.clone()", "{a}.clone()", "torch.where({a} > 0.123, {a}, {b})",
        "{a}.abs() + 0.5", "torch.zeros_like({a})", "torch.lerp({a}, {b} + {a} * 0, 0.3)",
        "(1.5 + {a} * {a}).sqrt()", "(1.5 + {a} * {a}).log()", "{a}.clamp(-0.6, 0.7)",
    )],
    ("{a}.sum()", np.sum), ("{a}.mean()", np.mean), ("{a}.sum(0)", lambda a: a[:].sum(0)),
    ("{a}.sum(-1, keepdim=True)", lambda a: a[:].sum(-1, keepdims=True)),
    ("{a}.softmax(-1)", lambda a: a[..., :]), ("{a}.cumsum(0)", lambda a: a[:]),
    ("{a}.max(0).values", lambda a: a[:].max(0)), ("{a}.sort(0).values", lambda a: a[:]),
    ("{a} @ {a}.T", lambda a: a[:] @ a.T),
    ("torch.stack([{a}, {a} * 2])", lambda a: np.stack([a, a])),
    ("torch.cat([{a}, {a}])", lambda a: np.concatenate([a, a])),
    ("{a}[[0]]", lambda a: a[[0]]), ("torch.einsum('i,j->ij', {a}, {a})", _outer),
    ("{a}.repeat(2, 1, 1, 1)", lambda a: np.tile(a, (2, 1, 1, 1))),
    ("{a}.flip(0)", lambda a: a[::-1].copy()),
    ("{a}.roll(1)", lambda a: a.copy()),
]  # fmt: skip
STRIDED = ("{a}.repeat(2, 1, 1, 1)", "{a}.flip(0)")  # whose results NumPy does not lay out densely

OPTIMIZERS = (
    "torch.optim.SGD([{}], lr=0.1)", "torch.optim.SGD([{}], lr=0.1, momentum=0.9)",
    "torch.optim.Adam([{}], lr=0.1)", "torch.optim.AdamW([{}], lr=0.05, weight_decay=0.1)",
    "torch.optim.RMSprop([{}], lr=0.05)", "torch.optim.Adagrad([{}], lr=0.1)",
)  # fmt: skip
