"""Samples of distributions, drawn with keys: uint32 (*B, 6) -> (*B, *shape).

Which words an element gets is the contract of every backend. A draw of k words an element reads
``random_bits`` of shape (k, *shape): the first plane holds the highest words. A float32 draw takes
one plane and a float64 draw two, so the float32 numbers are the float64 numbers, rounded. The
rejection samplers are described in ``_nb_rejection``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fx.backends.cpu._arrays import contiguous
from fx.backends.cpu.philox import KEY_WORDS, random_bits

_FLOAT64 = np.dtype(np.float64)
_TRUNCATED = {"float16": np.uint32(0xFFFFE000), "bfloat16": np.uint32(0xFFFF0000)}

_nb: Any = None


def _kernels() -> Any:
    global _nb
    if _nb is None:
        from fx.backends.cpu import _nb_draws

        _nb = _nb_draws
    return _nb


def _words(key: np.ndarray, planes: int, shape: tuple[int, ...]) -> np.ndarray:
    """Words as the kernels take them: (rows, planes, n)."""
    words = random_bits(key, shape=(planes, *shape))
    return words.reshape(math.prod(key.shape[:-1]), planes, math.prod(shape))


def draw(key: np.ndarray, *, family: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Samples of a standard distribution: uniform, normal, exponential, gumbel, laplace, logistic.

    float16 and bfloat16 are the float32 numbers rounded, uniform ones rounded down so that 1 is
    never reached.
    """
    wide = dtype == _FLOAT64
    words = _words(key, 2 if wide else 1, shape)
    out = np.empty((*key.shape[:-1], *shape), np.float64 if wide else np.float32)
    nb = _kernels()
    if family == "uniform":
        kernel = nb.uniform64 if wide else nb.uniform32
    elif family == "normal":
        kernel = nb.standard_normal64 if wide else nb.standard_normal32
    else:
        kernel = getattr(nb, family)
    kernel(words, out.reshape(words.shape[0], words.shape[2]))
    if out.dtype == dtype:
        return out
    if family == "uniform":  # keep the bits that the narrow dtype has, drop the others
        out = (out.view(np.uint32) & _TRUNCATED[dtype.name]).view(np.float32)
    return out.astype(dtype)


def truncated_normal(
    key: np.ndarray, *, lower: float, upper: float, shape: tuple[int, ...], dtype: Any
) -> np.ndarray:
    """A standard normal under the condition that it lies in [lower, upper]."""
    mirrored = lower > 0.0  # probabilities near 0 are precise, those near 1 are not
    a, b = (-upper, -lower) if mirrored else (lower, upper)
    words = _words(key, 2 if dtype == _FLOAT64 else 1, shape)
    out = np.empty((*key.shape[:-1], *shape), np.float64)
    rows = out.reshape(words.shape[0], words.shape[2])
    root = math.sqrt(0.5)
    _kernels().truncated_normal(
        words, rows, 0.5 * math.erfc(-a * root), 0.5 * math.erfc(-b * root)
    )
    if mirrored:
        np.negative(out, out=out)
    clipped = np.clip(out.astype(dtype), *_inside(lower, upper, dtype))  # bfloat16: in float32
    return clipped.astype(dtype, copy=False)


def _inside(lower: float, upper: float, dtype: Any) -> list[Any]:
    """The bounds in ``dtype``, rounded inwards."""
    out = []
    for bound, other in ((lower, upper), (upper, lower)):
        rounded = np.asarray(bound, dtype)
        outside = rounded < bound if bound < other else rounded > bound
        out.append(np.nextafter(rounded, np.asarray(other, dtype)) if outside else rounded)
    return out


def below(key: np.ndarray, span: np.ndarray, *, planes: int, shape: tuple[int, ...]) -> np.ndarray:
    """Whole numbers in [0, span): span uint64 (0 stands for 2 ** 64), broadcast; -> uint64.

    floor(w * span / 2 ** bits) for a word w of 64 bits (2 planes) or 128 (4 planes). No value is
    likelier than another by more than span / 2 ** bits of its probability.
    """
    words = _words(key, planes, shape)
    out = np.empty((*key.shape[:-1], *shape), np.uint64)
    _kernels().below(words, _flat(span, out), out.reshape(words.shape[0], words.shape[2]))
    return out


def gamma(
    key: np.ndarray, alpha: np.ndarray, *, shape: tuple[int, ...], logarithm: bool
) -> np.ndarray:
    """Standard gamma variates of shape parameter ``alpha``, broadcast, in its dtype; or their logs."""
    out, keys = _rejection(key, shape)
    from fx.backends.cpu import _nb_rejection as nb

    nb.gamma(keys, _flat(alpha, out, _FLOAT64), out.reshape(keys.shape[0], math.prod(shape)), logarithm)
    return out.astype(alpha.dtype, copy=False)


def poisson(key: np.ndarray, rate: np.ndarray, *, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Poisson variates of ``rate``, broadcast; an invalid rate gives NaN, or -1 for integers."""
    out, keys = _rejection(key, shape)
    from fx.backends.cpu import _nb_rejection as nb

    table = np.array([math.lgamma(k + 1) for k in range(16)])
    nb.poisson(keys, _flat(rate, out, _FLOAT64), table, out.reshape(keys.shape[0], math.prod(shape)))
    if np.dtype(dtype).kind in "iu":
        out[np.isnan(out)] = -1.0
    return out.astype(dtype, copy=False)


def _rejection(key: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The output in float64, and the keys (rows, 6)."""
    out = np.empty((*key.shape[:-1], *shape), np.float64)
    rows = math.prod(key.shape[:-1])
    return out, contiguous(key).reshape(rows, KEY_WORDS)


def _flat(x: np.ndarray, out: np.ndarray, dtype: Any = None) -> np.ndarray:
    """A parameter as the kernels take it: one value, or one for each element of ``out``."""
    if dtype is not None and x.dtype != dtype:
        x = x.astype(dtype)
    if x.size != 1:
        x = np.broadcast_to(x, out.shape)
    return contiguous(x).reshape(-1)
