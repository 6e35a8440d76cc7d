"""Functions whose values and slopes at special numbers are compared with PyTorch's.

``ELEMENTWISE``: of a vector, element by element; ``ROWWISE``: of the rows of a matrix. Each takes a
library, torch or fx's face of it, and the tensor.
"""

import math

import numpy as np

NAN, INF = math.nan, math.inf
NUMBERS = np.array(
    [
        NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 6.0, -6.0, 7.0, 25.0,
        -25.0, 1e-45, -1e-45, 3e38, -3e38, 1e-30, -1e-30, 100.0, -100.0,
    ],
    np.float32,
)  # fmt: skip
_ONE = """
    abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc erfinv exp exp2 expm1 floor frac
    lgamma digamma log log10 log2 log1p logit neg reciprocal round rsqrt sigmoid sinc sin sinh sqrt
    square tan tanh trunc nan_to_num"""
_LAYERS = """
    relu relu6 leaky_relu elu selu celu hardtanh softshrink hardshrink softplus tanhshrink softsign
    logsigmoid gelu silu mish hardsigmoid hardswish rrelu"""
_POWERS = (0, 1, 2, 3, 0.0, 0.5, -0.5, -1, -2, 1.5, INF, -INF, NAN)
_LOSSES = {  # of a tensor and its target
    "l1": lambda F, x, y: F.l1_loss(x, y, reduction="none"),
    "mse": lambda F, x, y: F.mse_loss(x, y, reduction="none"),
    "smooth l1": lambda F, x, y: F.smooth_l1_loss(x, y, reduction="none"),
    "smooth l1 of 0": lambda F, x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.0),
    "smooth l1 of 2": lambda F, x, y: F.smooth_l1_loss(x, y, reduction="none", beta=2.0),
    "huber": lambda F, x, y: F.huber_loss(x, y, reduction="none"),
    "huber of 2": lambda F, x, y: F.huber_loss(x, y, reduction="none", delta=2.0),
    "hinge": lambda F, x, y: F.hinge_embedding_loss(x, y, reduction="none"),
    "logits": lambda F, x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
    "kl": lambda F, x, y: F.kl_div(x, y, reduction="none"),
    "poisson": lambda F, x, y: F.poisson_nll_loss(x, y, reduction="none"),
    "ranking": lambda F, x, y: F.margin_ranking_loss(x, x * 0, y, reduction="none"),
}


def _named(name):
    return lambda m, x: getattr(m, name)(x)


def _layer(name):
    return lambda m, x: getattr(m.nn.functional, name)(x)


def _power(y):
    return lambda m, x: x**y


def _loss(f, target):
    return lambda m, x: f(m.nn.functional, x, m.full((len(x),), target))


ELEMENTWISE = {
    **{name: _named(name) for name in _ONE.split()},
    **{name: _layer(name) for name in _LAYERS.split()},
    **{f"x ** {y!r}": _power(y) for y in _POWERS},
    **{f"{k}, {t}": _loss(f, t) for k, f in _LOSSES.items() for t in (0.0, 1.0, -1.0)},
    **{f"{k}, {t}": _loss(_LOSSES[k], t) for k in ("smooth l1", "huber") for t in (INF, NAN)},
    "gelu by tanh": lambda m, x: m.nn.functional.gelu(x, approximate="tanh"),
    "leaky_relu of 0": lambda m, x: m.nn.functional.leaky_relu(x, 0.0),
    "elu of 2": lambda m, x: m.nn.functional.elu(x, 2.0),
    "hardtanh beside": lambda m, x: m.nn.functional.hardtanh(x, -2.0, 0.5),
    "softplus of 2": lambda m, x: m.nn.functional.softplus(x, 2.0, 3.0),
    "softshrink of 0": lambda m, x: m.nn.functional.softshrink(x, 0.0),
    "threshold": lambda m, x: m.nn.functional.threshold(x, 0.5, 2.0),
    "prelu": lambda m, x: m.nn.functional.prelu(x, m.tensor([0.3])),
    "clamp": lambda m, x: m.clamp(x, -1.0, 2.0),
    "clamp below": lambda m, x: m.clamp(x, min=0.0),
    "clamp above": lambda m, x: m.clamp(x, max=0.5),
    "clamp crossed": lambda m, x: m.clamp(x, 2.0, -1.0),
    "clamp to nothing": lambda m, x: m.clamp(x, NAN, 2.0),
    "clamp to tensors": lambda m, x: m.clamp(x, m.zeros(len(x)), m.full((len(x),), NAN)),
    "2 ** x": lambda m, x: 2**x,
    "0 ** x": lambda m, x: 0**x,
    "1 ** x": lambda m, x: 1.0**x,
    "1 / x": lambda m, x: 1 / x,
    "x / 0": lambda m, x: x / 0.0,
    "x % 2": lambda m, x: x % 2.0,
    "where": lambda m, x: m.where(x > 0, x, x * 2.0),
    "masked_fill": lambda m, x: x.masked_fill(x > 0, 1.0),
    "hypot": lambda m, x: m.hypot(x, m.zeros_like(x)),
    "logaddexp": lambda m, x: m.logaddexp(x, x),
    "maximum": lambda m, x: m.maximum(x, m.zeros_like(x)),
    "multi margin": lambda m, x: m.nn.functional.multi_margin_loss(
        m.stack([x, x * 0 + 1], 1), m.zeros(len(x), dtype=m.int64), reduction="none"
    ),
    "cosine loss": lambda m, x: m.nn.functional.cosine_embedding_loss(
        x[:, None] * m.ones((1, 2)), m.ones((len(x), 2)), -m.ones(len(x)), reduction="none"
    ),
    "cosine of 0": lambda m, x: m.nn.functional.cosine_similarity(
        x[:, None] * m.ones((1, 2)), m.zeros((len(x), 2))
    ),
    "normalize": lambda m, x: m.nn.functional.normalize(x[:, None] * m.ones((1, 3)), dim=1)[:, 0],
}

# where fx says another thing than PyTorch, and why
HUGE, SUBNORMAL = (3e38, -3e38), (1e-45, -1e-45)
OTHER_VALUES = {
    "x ** 0.5": ((-INF,), "IEEE 754's pow"),
    "x ** -0.5": ((-INF, 0.0), "IEEE 754's pow"),
    "multi margin": ((NAN, INF, -INF), "a NaN is no loss of 0"),
}
OTHER_SLOPES = {
    "digamma": (tuple(x for x in NUMBERS if x < 0), "an infinity at a pole, not a large number"),
    "x ** 0.5": ((-INF, 0.0), "IEEE 754's pow"),
    "x ** 1.5": ((-INF,), "IEEE 754's pow"),
    "multi margin": ((NAN, INF, -INF), "a NaN is no loss of 0"),
    "normalize": (HUGE, "the square of the norm is infinite"),
    "cosine of 0": (HUGE, "the square of the norm is infinite"),
    "cosine loss": ((*HUGE, NAN, INF, -INF), "forward mode has no 0 * NaN where it cuts off"),
}


# rows -----------------------------------------------------------------------------------------

ROWS = np.array(
    [
        [1, 2, 3, 4], [NAN] * 4, [1, NAN, 3, 4], [NAN, 1, 2, NAN], [INF, 1, 2, 3], [-INF] * 4,
        [INF, -INF, 1, 2], [-INF, 1, 2, 3], [0, -0.0, 0, 0], [INF] * 4, [1, 1, 1, 1], [0, 3, 0, 2],
        [2, 2, 1, 1], [3, 1, 3, 1], [4, 4, 4, -1], [1, 0, 2, 0], [0, 0, 0, 5], [-1, -1, -2, -2],
        [2, 1, 1, 3], [-3, 3, -3, 3],
    ],
    np.float32,
)  # fmt: skip
_ORDER = "max min median cummax cummin"
_OVER = """
    sum mean prod nansum var std amax amin logsumexp softmax log_softmax cumsum cumprod
    logcumsumexp"""


def _over(name):
    return lambda m, x: getattr(m, name)(x, -1)


def _found(name, which):
    return lambda m, x: getattr(m, name)(x, -1)[which]


def _whole(name, *args):
    return lambda m, x: m.stack([getattr(m, name)(row, *args) for row in x.unbind(0)])


def _pool(name, *args, **kwargs):
    return lambda m, x: getattr(m.nn.functional, name)(x[:, None], *args, **kwargs)[:, 0]


def _norm(p):
    return lambda m, x: m.norm(x, p, dim=-1)


def _distance(p):
    return lambda m, x: m.cdist(x[:, None, :2], x[:, None, 2:], p=float(p)).reshape(len(x))


ROWWISE = {
    **{name: _over(name) for name in _OVER.split()},
    **{name: _found(name, 0) for name in _ORDER.split()},
    **{f"place of {name}": _found(name, 1) for name in _ORDER.split()},
    **{
        f"{name} of all": _whole(name)
        for name in ["median", "nanmedian", "max", "min", "prod", "std"]
    },
    **{f"norm {p}": _norm(p) for p in (0, 0.5, 1, 1.5, 2, 3, INF, -INF, -1)},
    **{f"cdist {p}": _distance(p) for p in (0.5, 1, 2, 3)},
    **{f"dist {p}": lambda m, x, p=p: m.norm(x[:, :2] - x[:, 2:], p, dim=1) for p in (1, 2)},
    "sort": lambda m, x: m.sort(x, dim=-1, stable=True)[0],
    "place of sort": lambda m, x: m.sort(x, dim=-1, stable=True)[1],
    "descending": lambda m, x: m.sort(x, dim=-1, descending=True, stable=True)[0],
    "topk": lambda m, x: m.topk(x, 2, -1)[0],
    "kthvalue": lambda m, x: m.kthvalue(x, 2, -1)[0],
    "nanmedian": lambda m, x: m.nanmedian(x, -1)[0],
    "quantile": lambda m, x: m.quantile(x, 0.3, -1),
    "nanquantile": lambda m, x: m.nanquantile(x, 0.3, -1),
    "nearest": lambda m, x: m.quantile(x, 0.5, -1, interpolation="nearest"),
    "max_pool": _pool("max_pool1d", 3, 1, 1),
    "adaptive max": _pool("adaptive_max_pool1d", 3),
    "even adaptive max": _pool("adaptive_max_pool1d", 2),
    "place of adaptive max": lambda m, x: m.nn.functional.adaptive_max_pool1d(
        x[:, None], 3, return_indices=True
    )[1],
    "lp_pool": _pool("lp_pool1d", 2, 2),
    "var of one": lambda m, x: m.var(x[:, :1], -1),
    "std of one": lambda m, x: m.std(x[:, :1], -1, correction=0),
    "cosine of 0": lambda m, x: m.nn.functional.cosine_similarity(x, m.zeros_like(x)),
    "cosine": lambda m, x: m.nn.functional.cosine_similarity(x, m.ones_like(x)),
    "normalize": lambda m, x: m.nn.functional.normalize(x, dim=-1),
    "normalize by 1": lambda m, x: m.nn.functional.normalize(x, 1.0, -1),
    "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, (4,)),
    "power": lambda m, x: x[:, :2] ** x[:, 2:],
    "atan2": lambda m, x: m.atan2(x[:, :2], x[:, 2:]),
    "huber": lambda m, x: m.nn.functional.huber_loss(x[:, :2], x[:, 2:], reduction="none"),
    "ranking": lambda m, x: m.nn.functional.margin_ranking_loss(
        x[:, :2], x[:, 2:], m.ones((len(x), 1)), reduction="none"
    ),
}
_NAN, _TIED = np.isnan(ROWS).any(1), np.array([len(set(row)) < 4 for row in ROWS.tolist()])
OTHER_ROWS = {
    "median of all": (_NAN, "as the slope of amax at a NaN"),
    "nanmedian": (np.isnan(ROWS).all(1), "which NaN of four"),
    "nanmedian of all": (_NAN, "as the slope of amax at a NaN"),
    "max of all": (_NAN, "as the slope of amax at a NaN"),
    "min of all": (_NAN, "as the slope of amax at a NaN"),
    "norm inf": (_NAN, "as the slope of amax at a NaN"),
    "norm -inf": (_NAN, "as the slope of amin at a NaN"),
    "cdist 1": (_NAN, "as that of abs at a NaN"),
    "topk": (_TIED | _NAN, "PyTorch's order of equal numbers is its own"),
    "kthvalue": (_TIED | _NAN, "PyTorch's order of equal numbers is its own"),
    "cumprod": (_NAN, "what stands before a NaN does not depend on it"),
    "prod of all": (_NAN, "what is multiplied by a NaN is NaN, not the NaN's own slope"),
}
