"""Sets: the unique elements of a tensor, and membership.

The number of unique elements depends on the values, so these functions need known values: they work
neither inside ``vmap`` over ``x`` nor on ``meta``. NaNs are all distinct, as the standard demands.

Source: Python Array API standard 2024.12, "Set functions".
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import fx.prims.compare as compare
import fx.prims.cumulative as cumulative
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
import fx.prims.sorting as sorting
from fx.dtypes import COMPLEX, bool_, int64
from fx.errors import ShapeError
from fx.levels import live
from fx.ops.axes import normal_axis
from fx.ops.indexing import sized
from fx.ops.indexing.searching import true_places
from fx.ops.indexing.views import along
from fx.ops.operands import argument, cast, flattened, iota, operands, public
from fx.ops.pointwise.elementwise import imag, real
from fx.ops.shapes.manipulation import moveaxis
from fx.prims.creation import constant_like, full, zeros_like_spec
from fx.tensor import Tensor


class UniqueAll(NamedTuple):
    """What ``unique_all`` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What ``unique_counts`` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What ``unique_inverse`` returns."""

    values: Tensor
    inverse_indices: Tensor


def _order(flat: Tensor) -> Tensor:
    """The places (n,) of the elements in ascending order; complex ones by real part first."""
    if flat._dtype not in COMPLEX:
        return sorting.argsort(flat, axis=0, descending=False)
    order = sorting.argsort(imag(flat), axis=0, descending=False)
    ranked = indexing.take(real(flat), order, axis=0)
    step = sorting.argsort(ranked, axis=0, descending=False)  # it is stable
    return indexing.take(order, step, axis=0)


def _ranks(tests: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Integers that are equal where a complex x is equal to a test (n,), and tell tests apart."""
    of_tests: list[Tensor] = []
    of_x: list[Tensor] = []
    for part in (real, imag):
        values = part(tests)
        order = sorting.argsort(values, axis=0, descending=False)
        ranked = indexing.take(values, order, axis=0)
        of_tests.append(sorting.searchsorted(ranked, values, side="left"))
        of_x.append(sorting.searchsorted(ranked, part(x), side="left"))
    each = tests._shape[0] + 1  # numbers of a part
    return of_tests[0] * each + of_tests[1], of_x[0] * each + of_x[1]


class _Runs:
    """The runs of equal elements in sorted order."""

    def __init__(self, name: str, order: Tensor, new: Tensor) -> None:
        self.order = order  # (n,)
        self.new = new  # (n,): whether a run starts here
        self.starts = true_places(name, new)  # (m,)
        self.n = order._shape[0]

    def first(self) -> Tensor:
        """The place of the first element of each run; the order is stable, so it is the lowest."""
        return indexing.taken(self.order, self.starts, 0)  # type: ignore[no-any-return]

    def inverse(self) -> Tensor:
        """The number of the run of each element."""
        number = cumulative.cumsum(cast(self.new, int64), axis=0, reverse=False) - 1
        zeros = zeros_like_spec(number.spec)
        return indexing.scattered(zeros, self.order, number, 0, "set")  # type: ignore[no-any-return]

    def counts(self) -> Tensor:
        """The length of each run."""
        m = self.starts._shape[0]
        device = self.order.device.name
        end = full(shape=(min(m, 1),), value=self.n, dtype=int64, device=device)
        following = shape_prims.concatenate(along(self.starts, 0, min(1, m), m), end, axis=0)
        return following - self.starts


def _starts(differs: Tensor, n: int) -> Tensor:
    """Whether a run starts at each of n places; ``differs`` (n - 1,) tells of all but the first."""
    first = full(shape=(min(n, 1),), value=True, dtype=bool_, device=differs.device.name)
    return shape_prims.concatenate(first, differs, axis=0)


def _runs(name: str, x: Any) -> tuple[Tensor, _Runs]:
    """The runs of the flattened tensor."""
    flat = flattened(argument(name, x))  # (n,)
    n = flat._shape[0]
    order = _order(flat)
    ranked = indexing.taken(flat, order, 0)
    differs = compare.not_equal(along(ranked, 0, min(1, n), n), along(ranked, 0, 0, max(n - 1, 0)))
    return flat, _Runs(name, order, _starts(differs, n))


def unique_all(x: Any) -> UniqueAll:
    """The unique elements, where each occurs first, the way back, and how often each occurs.

    Args:
        x: a tensor of any shape.

    Returns:
        ``(values, indices, inverse_indices, counts)``: sorted values (m,); the place of the first
        occurrence of each in the flattened tensor; a tensor of the shape of ``x`` such that
        ``values[inverse_indices]`` is ``x``; and the counts.

    Raises:
        BatchedValueError: inside ``vmap`` over ``x``.

    Example:
        >>> import fx
        >>> fx.unique_all(fx.tensor([3, 1, 3])).counts
        tensor([1, 2])
    """
    flat, runs = _runs("unique_all", x)
    first = runs.first()
    inverse = shape_prims.reshaped(runs.inverse(), argument("unique_all", x).shape)
    return UniqueAll(indexing.take(flat, first, axis=0), first, inverse, runs.counts())


def unique_counts(x: Any) -> UniqueCounts:
    """The unique elements, sorted, and how often each occurs: ``(values, counts)``.

    Example:
        >>> import fx
        >>> fx.unique_counts(fx.tensor([3, 1, 3])).counts
        tensor([1, 2])
    """
    flat, runs = _runs("unique_counts", x)
    return UniqueCounts(indexing.take(flat, runs.first(), axis=0), runs.counts())


def unique_inverse(x: Any) -> UniqueInverse:
    """The unique elements, sorted, and for each element of ``x`` which of them it is.

    Example:
        >>> import fx
        >>> fx.unique_inverse(fx.tensor([3, 1, 3])).inverse_indices
        tensor([1, 0, 1])
    """
    flat, runs = _runs("unique_inverse", x)
    inverse = shape_prims.reshaped(runs.inverse(), argument("unique_inverse", x).shape)
    return UniqueInverse(indexing.take(flat, runs.first(), axis=0), inverse)


def unique_values(x: Any) -> Tensor:
    """The unique elements, sorted.

    Example:
        >>> import fx
        >>> fx.unique_values(fx.tensor([3, 1, 3]))
        tensor([1, 3])
    """
    flat, runs = _runs("unique_values", x)
    return indexing.take(flat, runs.first(), axis=0)


def unique(
    x: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    dim: int | None = None,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The unique elements, or the unique slices along an axis, in PyTorch's form.

    Args:
        x: a tensor of any shape.
        sorted: accepted for PyTorch's sake; the result always is sorted.
        return_inverse: whether to return the way back to ``x`` as well.
        return_counts: whether to return how often each occurs as well.
        axis: the axis whose slices are compared; None compares elements.
        dim: PyTorch's word for ``axis``.
        size: how many elements are given, as in JAX: the smallest ones, and then ``fill_value``. No
            value is asked for under ``jit`` then.
        fill_value: the smallest element unless told.

    Returns:
        the values, or a tuple ``(values, inverse, counts)`` of what was asked for.

    Example:
        >>> import fx
        >>> fx.unique(fx.tensor([[1, 2], [0, 5], [1, 2]]), axis=0)
        tensor([[0, 5],
                [1, 2]])
    """
    x = argument("unique", x)
    axis = axis if dim is None else dim
    if size is not None:
        if axis is not None:
            raise ShapeError("unique: size= is for elements, without an axis")
        return sized.unique(x, size, fill_value, return_inverse, return_counts)
    if axis is None:
        rows, runs = _runs("unique", x)
        shape: tuple[int, ...] = x._shape
        at = 0
    else:
        at = normal_axis("unique", axis, x._shape)
        rows, runs = _row_runs(moveaxis(x, at, 0))
        shape = rows.shape[:1]
    values = indexing.taken(rows, runs.first(), 0)
    if at:
        values = moveaxis(values, 0, at)
    out: list[Tensor] = [values]
    if return_inverse:
        out.append(shape_prims.reshaped(runs.inverse(), shape))
    if return_counts:
        out.append(runs.counts())
    return tuple(out) if len(out) > 1 else values


def _row_runs(rows: Tensor) -> tuple[Tensor, _Runs]:
    """The runs of equal slices along the first axis, in lexicographic order."""
    n = rows._shape[0]
    width = rows.size // n if n else 0
    table = shape_prims.reshaped(rows, (n, width))
    differs = full(shape=(max(n - 1, 0),), value=False, dtype=bool_, device=rows.device.name)
    order = iota(n, rows)
    if rows.device.name == "meta":  # refused as every shape that depends on values is
        return rows, _Runs("unique", order, _starts(differs, n))
    columns = [shape_prims.reshaped(along(table, 1, i, i + 1), (n,)) for i in range(width)]
    for column in reversed(columns):  # a stable sort by each column, the first one last
        step = _order(indexing.take(column, order, axis=0))
        order = indexing.take(order, step, axis=0)
    for column in columns:
        ranked = indexing.take(column, order, axis=0)
        changes = compare.not_equal(
            along(ranked, 0, min(1, n), n), along(ranked, 0, 0, max(n - 1, 0))
        )
        differs = compare.logical_or(differs, changes)
    return rows, _Runs("unique", order, _starts(differs, n))


_PAIRS = 4096  # pairs of elements that are compared sooner than a few are sorted


def isin(elements: Any, test_elements: Any, *, invert: bool = False) -> Tensor:
    """Whether each element occurs among the test elements.

    Args:
        elements: a tensor or scalar.
        test_elements: a tensor or scalar, promoted with ``elements``.
        invert: whether to tell which do not occur instead.

    Example:
        >>> import fx
        >>> fx.isin(fx.tensor([1, 2, 3]), fx.tensor([3, 1]))
        tensor([ True, False,  True])
    """
    x, tests = operands("isin", elements, test_elements)
    tests = flattened(tests)
    n = tests._shape[0]
    if not n:
        found = full(shape=x._shape, value=False, dtype=bool_, device=x.device.name)
    elif type(x) is type(tests) is Tensor and not live and n * prod(x._shape) <= _PAIRS:
        beside = shape_prims.reshaped(tests, (n, *[1] * x.ndim))
        found = reduction.any(compare.equal(x, beside), axes=(0,), keepdims=False)  # of (n, *A)
    else:
        keys, sought = _ranks(tests, x) if x._dtype in COMPLEX else (tests, x)
        order = sorting.argsort(keys, axis=0, descending=False)
        ranked = indexing.taken(keys, order, 0)
        place = sorting.searchsorted(ranked, sought, side="left")
        place = elementwise.minimum(place, constant_like(n - 1, place))
        near = ranked if keys is tests else indexing.taken(tests, order, 0)
        found = compare.equal(indexing.taken(near, place, 0), x)
    return compare.logical_not(found) if invert else found


__all__ = public(globals())
