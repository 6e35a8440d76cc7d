"""Products of groups, and products of numbers that come with scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import fx
from fx.errors import ArgumentError, ShapeError
from fx.lax.products import dot_general
from fx.ops.operands import argument
from fx.tensor import Tensor


class RaggedDotDimensionNumbers(NamedTuple):
    """Which axes of a ragged product are contracted, batched, cut into groups.

    Attributes:
        dot_dimension_numbers: as ``dot_general`` takes them.
        lhs_ragged_dimensions: the axis of lhs that groups cut, in a sequence.
        rhs_group_dimensions: the axis of rhs that has an entry a group, in a sequence; empty where
            the ragged axis is contracted or of the batch.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def ragged_dot_general(
    lhs: Any, rhs: Any, group_sizes: Any, ragged_dot_dimension_numbers: Any,
    precision: Any = None, preferred_element_type: Any = None, group_offset: Any = None,
) -> Tensor:  # fmt: skip
    """``dot_general`` of groups that lie behind one another along an axis of lhs.

    With m for what is left of lhs, k for what is contracted and b for the batch, the ragged axis

    * among m: (*b, *m, *k), (g, *b, *k, *n) -> (*b, *m, *n): each group has a matrix of its own,
      and behind the last group there are zeros;
    * among k: (*b, *m, *k), (*b, *k, *n) -> (g, *b, *m, *n): a sum a group;
    * among b: as without groups.

    Args:
        lhs, rhs: tensors.
        group_sizes: (g,), integers; or (*outer, g), where the axes of lhs of the same kind that
            come before the ragged one, and those of the batch, have groups of their own.
        ragged_dot_dimension_numbers: ``RaggedDotDimensionNumbers``, or a tuple like it.
        precision: nothing here depends on it.
        preferred_element_type: the dtype to compute in.
        group_offset: None.

    Raises:
        ArgumentError: for a ``group_offset``, or other than one ragged axis.
        ShapeError: if the sizes do not fit.

    Source: ``jax.lax.ragged_dot_general``.

    Example:
        >>> import fx, fx.lax
        >>> numbers = fx.lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
        >>> x = fx.ones((4, 1))
        >>> fx.lax.ragged_dot_general(x, x, fx.tensor([1, 2]), numbers).tolist()
        [[[1.0]], [[2.0]]]
    """
    name = "lax.ragged_dot_general"
    x, y, sizes = (argument(name, v) for v in (lhs, rhs, group_sizes))
    if group_offset is not None:
        raise ArgumentError(f"{name} takes no group_offset; cut rhs and group_sizes before")
    if not isinstance(ragged_dot_dimension_numbers, tuple):  # JAX's own class
        numbers = RaggedDotDimensionNumbers(*[
            getattr(ragged_dot_dimension_numbers, field)
            for field in RaggedDotDimensionNumbers._fields
        ])  # fmt: skip
    else:
        numbers = RaggedDotDimensionNumbers(*ragged_dot_dimension_numbers)
    (cx, cy), (bx, by) = [[list(side) for side in pair] for pair in numbers.dot_dimension_numbers]
    ragged, own = list(numbers.lhs_ragged_dimensions), list(numbers.rhs_group_dimensions)
    if len(ragged) != 1 or len(own) > 1:
        raise ArgumentError(f"{name}: one axis of lhs is ragged, got {ragged} and {own} of rhs")
    axis = ragged[0]
    left = [i for i in range(x.ndim) if i not in (*cx, *bx)]
    if axis in bx:
        return dot_general(x, y, ((cx, cy), (bx, by)), precision, preferred_element_type)
    kind = cx if axis in cx else left
    outer = [*bx, *kind[: kind.index(axis)]]
    if sizes.ndim > 1 and sizes.shape[:-1] != tuple(x.shape[i] for i in outer):
        want = tuple(x.shape[i] for i in outer)
        raise ShapeError(f"{name}: group_sizes {sizes.shape} are (g,) or {want} and g")
    count = sizes.shape[-1]
    if bool(own) != (axis in left) or (own and y.shape[own[0]] != count):
        raise ShapeError(
            f"{name}: rhs has an axis of the {count} groups where the ragged axis is not "
            f"contracted, and else none; got {y.shape} and {own}"
        )
    ends = fx.cumsum(sizes.astype(fx.int64), -1)

    def inside(g: int, shape: Sequence[int], at: int, before: Sequence[int]) -> Tensor:
        """Which elements of an operand are of group g."""
        line = [1] * len(shape)
        line[at] = shape[at]
        place = fx.arange(shape[at], dtype=fx.int64, device=x.device).reshape(line)
        wide = [shape[i] if sizes.ndim > 1 and i in before else 1 for i in range(len(shape))]
        order = sorted(range(len(before)), key=lambda i: before[i])
        spread = lambda v: (v.permute(order) if sizes.ndim > 1 else v).reshape(wide)
        high, low = spread(ends[..., g]), spread(ends[..., g] - sizes[..., g])
        return (place < high) & (place >= low)  # type: ignore[no-any-return]

    kept = lambda v, mask: fx.where(mask, v, 0.0).astype(v.dtype)
    rest = (precision, preferred_element_type)
    of_x = [inside(g, x.shape, axis, outer) for g in range(count)]
    if axis in cx:
        matched = {**dict(zip(cx, cy, strict=True)), **dict(zip(bx, by, strict=True))}
        before = [matched[i] for i in outer]
        of_y = [inside(g, y.shape, matched[axis], before) for g in range(count)]
        return fx.stack([
            dot_general(kept(x, a), kept(y, b), ((cx, cy), (bx, by)), *rest)
            for a, b in zip(of_x, of_y, strict=True)
        ])  # fmt: skip
    lower = lambda axes: [i - (i > own[0]) for i in axes]
    axes = ((cx, lower(cy)), (bx, lower(by)))
    found = None
    for g, mask in enumerate(of_x):
        one = dot_general(kept(x, mask), fx.take(y, g, axis=own[0]), axes, *rest)
        # no row of another group sees what is not finite here
        shown = mask.expand(x.shape).any(tuple(cx)) if cx else mask.expand(x.shape)
        kinds = [i for i in range(x.ndim) if i not in cx]
        shown = shown.permute([kinds.index(i) for i in (*bx, *left)])
        shown = shown.reshape((*shown.shape, *[1] * (one.ndim - shown.ndim)))
        found = fx.where(shown, one, 0.0 if found is None else found)
    return found.astype(one.dtype)  # type: ignore[union-attr]


def scaled_dot(
    lhs: Any, rhs: Any, *, lhs_scale: Any = None, rhs_scale: Any = None,
    dimension_numbers: Any = None, preferred_element_type: Any = None,
) -> Tensor:  # fmt: skip
    """``dot_general`` of numbers times scales, which stand for blocks of the contracted axes.

    Args:
        lhs, rhs: tensors.
        lhs_scale, rhs_scale: of as many axes as the operand, and of its sizes but for the
            contracted axes, which have a scale for each block of some neighbours; 1 unless given.
        dimension_numbers: as of ``dot_general``; the product of matrices, or of stacks of them,
            unless given.
        preferred_element_type: the dtype to compute in and of the result; bfloat16 unless given, as
            in JAX.

    Raises:
        ShapeError: if a scale does not fit.
        ArgumentError: if the axes have to be told.

    Source: ``jax.lax.scaled_dot``; unlike that it has derivatives.

    Example:
        >>> import fx, fx.lax
        >>> x, scale = fx.ones((1, 4)), fx.tensor([[1.0, 10.0]])
        >>> fx.lax.scaled_dot(x, x.mT, lhs_scale=scale, preferred_element_type=fx.float32)
        tensor([[22.]])
    """
    name = "lax.scaled_dot"
    x, y = argument(name, lhs), argument(name, rhs)
    if dimension_numbers is None:
        if x.ndim != y.ndim or x.ndim not in (2, 3):
            raise ArgumentError(
                f"{name}: of {x.shape} and {y.shape} give dimension_numbers; without them it takes "
                f"two matrices or two stacks of them"
            )
        batch = x.ndim - 2
        dimension_numbers = (((batch + 1,), (batch,)), (tuple(range(batch)),) * 2)
    dtype = fx.bfloat16 if preferred_element_type is None else preferred_element_type
    wide = fx.float32 if dtype in (fx.bfloat16, fx.float16) else dtype
    operands = [
        _scaled(name, word, v.astype(wide), scale, axes)
        for word, v, scale, axes in zip(
            ("lhs", "rhs"), (x, y), (lhs_scale, rhs_scale), dimension_numbers[0], strict=True
        )
    ]
    return dot_general(*operands, dimension_numbers).astype(dtype)


def _scaled(name: str, word: str, x: Tensor, scale: Any, contracted: Sequence[int]) -> Tensor:
    if scale is None:
        return x
    scale = argument(name, scale).astype(x.dtype)
    blocks = [n if i in contracted else None for i, n in enumerate(x.shape)]
    fits = scale.ndim == x.ndim and all(
        (n == m) if block is None else (m > 0 and n % m == 0)
        for n, m, block in zip(x.shape, scale.shape, blocks, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"{name}: {word}_scale {scale.shape} has the sizes of {word} {x.shape}, and along the "
            f"contracted axes {tuple(contracted)} divisors of them"
        )
    for i in contracted:
        scale = fx.repeat(scale, x.shape[i] // scale.shape[i], axis=i)
    return x * scale
