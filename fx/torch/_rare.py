"""Functions of ``torch`` that few scripts use; they load when first asked for."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import fx
from fx.errors import ShapeError
from fx.tensor import Tensor
from fx.torch._functions import into


class Frexp(NamedTuple):
    """What ``torch.frexp`` gives."""

    mantissa: Tensor
    exponent: Tensor


class HistogramDD(NamedTuple):
    """What ``torch.histogramdd`` gives."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def frexp(input: Any) -> Frexp:
    """Mantissas in (-1, -0.5] or [0.5, 1) and exponents: ``input = mantissa * 2**exponent``."""
    return Frexp(*fx.frexp(input))


def histogramdd(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> HistogramDD:
    """How many points lie in each cell of a grid; see ``fx.histogramdd``.

    Args:
        input: (..., coordinates).
        bins: a number, or for each coordinate a number or edges.
        range: the ends of all coordinates in one sequence, (low, high, low, high, ...).
        weight: (...).
        density: divide by the total and by the size of each cell.
    """
    ends = None if range is None else list(zip(range[::2], range[1::2]))
    points = input.reshape(-1, input.shape[-1])
    weight = None if weight is None else weight.reshape(-1)
    hist, edges = fx.histogramdd(points, bins, ends, weight, density)
    return HistogramDD(hist, tuple(edges))


def nonzero_static(input: Any, *, size: int, fill_value: int = -1, out: Any = None) -> Tensor:
    """The first ``size`` places (size, axes) that are not 0; ``fill_value`` where there are fewer.

    Raises:
        ShapeError: for a negative size.
    """
    if out is not None:
        options = {"size": size, "fill_value": fill_value}
        return into(out, "nonzero_static", "input, size=size", nonzero_static, input, **options)
    if size < 0:
        raise ShapeError(f"torch.nonzero_static: size must not be negative, got {size}")
    found = input.nonzero()[:size]
    return fx.concat([found, fx.full((size - found.shape[0], input.ndim), fill_value)])


def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """How many of ``count`` trials succeed that do so with ``prob``; floats, both broadcast.

    Raises:
        ValueError: for a negative count, or a probability outside [0, 1].
        NotImplementedError: for a generator of one's own.
    """
    from fx.torch.distributions import Binomial

    if generator is not None:
        raise NotImplementedError(
            "torch.binomial draws from the current generator; write fx.manual_seed(...) before it"
        )
    return Binomial(count, prob, validate_args=True).sample()  # type: ignore[no-any-return]


_START = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}


def segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
    axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """Sums, means, products or extremes of consecutive rows.

    Args:
        data: (rows, ...), floating.
        reduce: ``"sum"``, ``"mean"``, ``"max"``, ``"min"`` or ``"prod"``.
        lengths: (segments,) how many rows each has, or
        offsets: (segments + 1,) where each begins, and the end of the last.
        axis: 0.
        unsafe: whether not to look if ``lengths`` add up to the rows.
        initial: what every segment begins with; of an empty one the result, otherwise the
            neutral element (NaN of a mean).

    Returns:
        (segments, ...).

    Raises:
        ValueError: for another ``reduce`` or ``axis``, lengths that do not fit, or none.
        NotImplementedError: for ``indices``, which PyTorch has not either.
    """
    if reduce not in _START:
        raise ValueError(f"torch.segment_reduce: reduce is one of {[*_START]}, got {reduce!r}")
    if axis != 0:
        raise ValueError(f"torch.segment_reduce: axis must be 0, got {axis}; move that axis first")
    if indices is not None:
        raise NotImplementedError("torch.segment_reduce takes lengths or offsets, not indices")
    if offsets is not None:
        lengths = offsets.diff()
    if lengths is None:
        raise ValueError("torch.segment_reduce: give lengths or offsets")
    if lengths.ndim != 1:
        raise ShapeError(f"torch.segment_reduce: lengths must be (segments,), got {lengths.shape}")
    if not unsafe and (bool((lengths < 0).any()) or int(lengths.sum()) != data.shape[0]):
        raise ValueError(
            f"torch.segment_reduce: lengths must not be negative and add up to the "
            f"{data.shape[0]} rows of data"
        )
    tail = data.shape[1:]
    number = fx.repeat_interleave(fx.arange(lengths.shape[0]), lengths)
    index = number.reshape((-1, *[1] * len(tail))).expand(-1, *tail)
    kind = {"max": "amax", "min": "amin", "mean": "sum"}.get(reduce, reduce)
    begin = _START[reduce] if initial is None else initial
    out = fx.full((lengths.shape[0], *tail), begin, dtype=data.dtype)
    out = out.scatter_reduce(0, index, data, kind)
    if reduce == "mean":
        count = lengths.reshape((-1, *[1] * len(tail)))
        empty = math.nan if initial is None else initial
        out = fx.where(count == 0, empty, out / count.clamp(min=1))
    return out  # type: ignore[no-any-return]


def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Tensor:
    """A tensor of ``size`` whose axes lie in memory in the order of ``physical_layout``.

    Raises:
        ValueError: if ``physical_layout`` is no order of the axes.
    """
    from fx.torch import empty

    order = list(physical_layout)
    if sorted(order) != list(range(len(size))):
        raise ValueError(
            f"torch.empty_permuted: physical_layout must order the axes of {tuple(size)}, "
            f"got {tuple(order)}"
        )
    back = sorted(range(len(order)), key=order.__getitem__)
    return empty(tuple(size[i] for i in order), **options).permute(back)  # type: ignore[no-any-return]


def to_dlpack(tensor: Any) -> Any:
    """A DLPack capsule of the tensor, for ``from_dlpack`` of another library."""
    return tensor.__dlpack__()


def is_distributed(input: Any) -> bool:
    """False: a tensor lies in one process."""
    return False


# what PyTorch asks of sizes that may be symbols; here they are numbers ----------------------------


def sym_float(a: Any) -> float:
    """``float(a)``."""
    return float(a)


def sym_int(a: Any) -> int:
    """``int(a)``: towards 0."""
    return int(a)


def sym_not(a: Any) -> bool:
    """``not a``."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers; a float if one of them is."""
    return max(a, b) if type(a) is type(b) else type(a + b)(max(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers; a float if one of them is."""
    return min(a, b) if type(a) is type(b) else type(a + b)(min(a, b))


def sym_sum(args: Any) -> Any:
    """The sum of numbers."""
    return sum(args)


def sym_sqrt(a: Any) -> float:
    """The square root of a number."""
    return math.sqrt(a)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """``t if b else f``, of two numbers of one type.

    Raises:
        TypeError: if they are of two.
    """
    if type(t) is not type(f):
        raise TypeError(f"torch.sym_ite: {t!r} and {f!r} must be of one type")
    return t if b else f


def sym_constrain_range(size: Any, *, min: Any = None, max: Any = None) -> None:
    """See that a number lies between two others.

    Raises:
        ValueError: if it does not.
    """
    if (min is not None and size < min) or (max is not None and size > max):
        raise ValueError(f"torch.sym_constrain_range: {size} does not lie in {min} .. {max}")


sym_constrain_range_for_size = sym_constrain_range


def sym_fresh_size(expr: Any) -> Any:
    """The size as it is."""
    return expr
