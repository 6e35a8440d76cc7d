"""Kernels of formulas along rows and over channels, by the axes that their arrays have.

Each function here takes the formula of the primitive that has its name, and gives the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import blas, sums
from fx.backends.cpu._arrays import contiguous
from fx.backends.cpu.formulas import Along, Rows, dense
from fx.backends.cpu.llvm import any_size
from fx.backends.cpu.matmul import matmul
from fx.primitive import registry

Kernel = Callable[..., Any]


def along(primitive: Any) -> Kernel:
    """The kernel of a fused function along axes."""
    fixed = {"axes": (1,), **({"keepdims": True} if "r" in primitive.pattern else {})}
    formula = partial(primitive.reference, **fixed)
    return Along(primitive.name, formula, primitive.pattern, primitive.words).call


def _derivative(name: str, formula: Kernel) -> Kernel:
    kernel = Along(name, lambda ct, y: formula(ct, y, axis=1), "xx>x").call
    return lambda ct, y, *, axis: kernel(ct, y, axes=(axis,))


def softmax_grad(formula: Kernel) -> Kernel:
    """The cotangent of softmax's argument, from that of its result y."""
    return _derivative("softmax_grad", formula)


def log_softmax_grad(formula: Kernel) -> Kernel:
    """The same for its logarithm."""
    return _derivative("log_softmax_grad", formula)


def layer_norm(formula: Kernel) -> Kernel:
    """x (..., *sizes) over the axes of weight and bias (*sizes)."""
    rows = Rows("layer_norm", formula, "ab b b", ["eps"], keeps=False).call

    def kernel(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, eps: float) -> Any:
        n = weight.size
        return rows((x, weight, bias), (x.size // n, n), (x.shape,), eps)

    return kernel


def layer_norm_grad(formula: Kernel) -> Kernel:
    """The cotangents of x, weight and bias."""
    rows = Rows("layer_norm_grad", formula, "ab ab b", ["eps"]).call

    def kernel(ct: np.ndarray, x: np.ndarray, weight: np.ndarray, *, eps: float) -> Any:
        n, shape = weight.size, weight.shape
        return rows((ct, x, weight), (x.size // n, n), (x.shape, shape, shape), eps)

    return kernel


def group_norm(formula: Kernel) -> Kernel:
    """x (batch, groups, channels, positions) over its last two axes."""
    rows = Rows("group_norm", formula, "abcd bc bc", ["eps"], along="d").call

    def kernel(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, eps: float) -> Any:
        return rows((x, weight, bias), x.shape, (x.shape,), eps)

    return kernel


def group_norm_grad(formula: Kernel) -> Kernel:
    """The cotangents of x, weight and bias."""
    rows = Rows("group_norm_grad", formula, "abcd abcd bc", ["eps"], along="d").call

    def kernel(ct: np.ndarray, x: np.ndarray, weight: np.ndarray, *, eps: float) -> Any:
        shape = weight.shape
        return rows((ct, x, weight), x.shape, (x.shape, shape, shape), eps)

    return kernel


def _over_channels(
    name: str, formula: Kernel, whole: int, vectors: int, results: str, words: Sequence[str] = ()
) -> Kernel:
    """``whole`` arrays (batch, channels, ...), ``vectors`` (channels,); results of such shapes.

    Args:
        name: of the formula.
        formula: of arrays with two or three axes.
        whole, vectors: how many there are.
        results: a letter each, "x" for a whole one and "v" for a vector.
        words: the names of its numbers.
    """
    ways: dict[tuple[int, ...], tuple[Any, ...]] = {}  # by the shape of a whole array
    flat, deep = (
        Rows(name, formula, " ".join([shape] * whole + ["b"] * vectors), words, along, False).call
        for shape, along in (("ab", "a"), ("abc", "c"))
    )

    def kernel(*arrays: np.ndarray, **numbers: float) -> Any:
        x = arrays[0]
        shape = x.shape
        way = ways.get(shape)
        if way is None:
            batch, channels = shape[:2]
            if not x.size:
                return None
            shapes = tuple([shape if r == "x" else (channels,) for r in results])
            positions = x.size // (batch * channels)
            if positions == 1:
                way = flat, (batch, channels), shapes
            else:
                way = deep, (batch, channels, positions), shapes
            if len(ways) >= _MOST:
                ways.clear()
            ways[shape] = way
        rows, sizes, shapes = way
        return rows(arrays, sizes, shapes, *[numbers[w] for w in words])

    return kernel


_MOST = 1024  # shapes that a kernel remembers


def moments(formula: Kernel) -> Kernel:
    """Mean and biased variance of each channel of x (batch, channels, ...)."""
    return _over_channels("moments", formula, 1, 0, "vv")


def batch_norm(formula: Kernel) -> Kernel:
    """(x - mean) / sqrt(variance + eps) * weight + bias, channel by channel."""
    return _over_channels("normalised", formula, 1, 4, "x", ["eps"])


normalised = batch_norm


def batch_norm_step(formula: Kernel) -> Kernel:
    """That of the moments of x itself, these, and the running statistics after them."""
    words = ["eps", "keep", "share", "wide"]
    return _over_channels("batch_norm_step", formula, 1, 4, "xvvvv", words)


def batch_norm_grad(formula: Kernel) -> Kernel:
    """The cotangents of x, weight and bias, where mean and variance are those of x."""
    return _over_channels("batch_norm_grad", formula, 2, 3, "xvv", ["eps"])


def dot(formula: Kernel) -> Kernel:
    """The sum of products along axes; BLAS adds up short vectors."""
    compiled = Along("dot", partial(formula, axes=(1,), keepdims=True), "xx>r").call

    def kernel(x: np.ndarray, y: np.ndarray, *, axes: tuple[int, ...], keepdims: bool) -> Any:
        short = x.ndim == 1 and x.size <= limits.DOT_SHORT and blas.ready and not keepdims
        if short and x.dtype is y.dtype and x.shape == y.shape:
            return np.dot(dense(x), dense(y), any_size.empty([x]))
        return compiled(x, y, axes=axes, keepdims=keepdims)

    return kernel


def cross_entropy(formula: Kernel) -> Kernel:
    """The loss of logits x (rows, classes) at the classes y int64 (rows,).

    The kernel raises IndexError for a class that there is not.
    """
    ways = _by_reduction("cross_entropy", formula, lambda how: "ab a:l :l")

    def kernel(x: np.ndarray, y: np.ndarray, *, ignore_index: int, reduction: str) -> Any:
        shape = (x.shape[0],) if reduction == "none" else ()
        found = ways[reduction]((x, y, _index(ignore_index)), x.shape, (shape, ()))
        if found is None:
            return None
        if found[1].item():
            raise IndexError("a class outside of the logits")
        return found[0]

    return kernel


def cross_entropy_grad(formula: Kernel) -> Kernel:
    """The cotangent of the logits."""
    ways = _by_reduction(
        "cross_entropy_grad", formula, lambda how: f"{'a' if how == 'none' else ''} ab a:l :l"
    )

    def kernel(
        ct: np.ndarray, x: np.ndarray, y: np.ndarray, *, ignore_index: int, reduction: str
    ) -> Any:
        return ways[reduction]((ct, x, y, _index(ignore_index)), x.shape, (x.shape,))

    return kernel


def _by_reduction(name: str, formula: Kernel, shapes: Callable[[str], str]) -> dict[str, Kernel]:
    return {
        how: Rows(f"{name}, {how}", partial(formula, reduction=how), shapes(how), keeps=False).call
        for how in ("none", "sum", "mean")
    }


@lru_cache(64)
def _index(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def distances(formula: Kernel) -> Kernel:
    """The p-norms of x[i] - y[j], of x (*batch, m, d) and y (*batch, n, d), for p > 0."""
    one = _distances(formula)

    def kernel(x: np.ndarray, y: np.ndarray, *, p: float) -> np.ndarray:
        (*_, m, d), n = x.shape, y.shape[-2]
        many = p == 2 and d >= limits.DISTANCE_LONG and min(m, n) >= limits.DISTANCE_ROWS
        if many and x.dtype == y.dtype and x.dtype.char in _CLOSE and any_size.available():
            return _in_batches(_by_products, x, y)
        return _in_batches(partial(one, p=p), x, y)

    return kernel


# the share of the sum of two squares that is enough of their distance's, and the least of these
_CLOSE = {"f": np.array([1 / 16, 1e-30], "f"), "d": np.array([1 / 16, 1e-290], "d")}


def _by_products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Euclidean distances of matrices, by a product of them; of close rows by differences."""
    (m, d), n = x.shape, len(y)
    x, y = contiguous(x), contiguous(y)
    with np.errstate(all="ignore"):
        squares, others = (sums.total(a * a, (1,)) for a in (x, y))
        out = contiguous(matmul(x, y.T))
    run = any_size.kernel("distances", "of_products", x.dtype.char)
    limit = _CLOSE[x.dtype.char]
    run([m, any_size.chunk_of(m, 1.0 * n), out, x, y, squares, others, limit, n, d])
    return out


def _distances(formula: Kernel) -> Kernel:
    """Of matrices; of short rows y is turned: vectors across its rows fold nothing in the end."""

    @cache
    def ways(p: float) -> tuple[Kernel, Kernel]:
        def across(x: Any, y: Any) -> Any:  # x (m, d), y (d, n)
            return formula(x, registry["transpose"](y, axes=(1, 0)), p=p)

        return (
            Rows(f"distances of {p} across rows", across, "ac cb", along="c", keeps=False).call,
            Rows(f"distances of {p}", partial(formula, p=p), "ac bc", along="c", keeps=False).call,
        )

    def one(x: np.ndarray, y: np.ndarray, *, p: float) -> np.ndarray:
        m, n, d = len(x), *y.shape
        found = None
        if x.size and n:
            across, along = ways(p)
            way, other = (across, y.T) if d <= limits.ROW_SHORT else (along, y)
            found = way((x, other), (m, n, d), ((m, n),))
        return _by_numpy(x[:, None] - y, p) if found is None else found

    return one


def pair_distances(formula: Kernel) -> Kernel:
    """Those of all pairs of rows of x (n, d), at places of the matrix (n, n) of all.

    A block of rows is compared with those from its first one on.
    """
    one = _distances(formula)

    def kernel(x: np.ndarray, places: np.ndarray, *, p: float) -> np.ndarray:
        n, block = len(x), limits.PAIR_ROWS
        if n <= block:
            return one(x, x, p=p).ravel()[places]  # type: ignore[no-any-return]
        out, end = np.empty(len(places), x.dtype), 0
        for first in range(0, n, block):
            part = one(x[first : first + block], x[first:], p=p)
            for i, row in enumerate(part, 1):
                start, end = end, end + len(row) - i
                out[start:end] = row[i:]
        return out

    return kernel


def _by_numpy(gaps: np.ndarray, p: float) -> np.ndarray:
    size = np.abs(gaps)
    if p == np.inf:
        return size.max(-1, initial=0)  # type: ignore[no-any-return]
    whole = np.power(size, gaps.dtype.type(p)).sum(-1, gaps.dtype)
    return np.power(whole, gaps.dtype.type(1 / p))  # type: ignore[no-any-return]


def pulls(formula: Kernel) -> Kernel:
    """The sums over j of s[i, j] times the slopes of the distances of x[i] and y[j]."""

    @cache
    def rows(p: float) -> Kernel:
        formula_of_p = partial(formula, p=p)
        return Rows(f"pulls of {p}", formula_of_p, "ab ab ac bc", along="c", keeps=False).call

    def one(s: np.ndarray, r: np.ndarray, x: np.ndarray, y: np.ndarray, *, p: float) -> Any:
        if p == 2 and s.dtype == np.float32:  # float64 has digits enough for what cancels
            wide = s.astype(np.float64)
            found = x * wide.sum(1, keepdims=True) - matmul(wide, y.astype(np.float64))
            return found.astype(np.float32)
        if not (s.size and x.size):
            return np.zeros(x.shape, x.dtype)
        found = rows(p)((s, r, x, y), (*s.shape, x.shape[1]), (x.shape,))
        if found is None:
            raise _NoKernelError
        return found

    def kernel(s: np.ndarray, r: np.ndarray, x: np.ndarray, y: np.ndarray, *, p: float) -> Any:
        try:
            return _in_batches(partial(one, p=p), s, r, x, y)
        except _NoKernelError:
            return None

    return kernel


class _NoKernelError(Exception):
    """The reference is to be called."""


def _in_batches(one: Kernel, *arrays: np.ndarray) -> np.ndarray:
    """A function of matrices, of those in arrays (*batch, ...)."""
    batch = arrays[0].shape[:-2]
    if not batch:
        return one(*arrays)  # type: ignore[no-any-return]
    parts = [one(*[a[at] for a in arrays]) for at in np.ndindex(batch)]
    if not parts:
        shape = (arrays[-2].shape[-2], arrays[-1].shape[-2 if len(arrays) == 2 else -1])
        return np.zeros((*batch, *shape), arrays[0].dtype)
    return np.stack(parts).reshape(*batch, *parts[0].shape)
