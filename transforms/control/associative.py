"""``associative_scan``: all prefixes of an associative operation in few steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx import tree
from fx.errors import AxisError, ShapeError, TreeError
from fx.ops.convert import promote
from fx.prims.shape import concatenate, flip, reshape
from fx.prims.shape import slice as slice_prim
from fx.tensor import Tensor
from fx.transforms.control.leaves import as_leaf, check_callable, described, path_of
from fx.transforms.control.rows import stack

Tensors = list[Tensor]


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """The results of ``fn`` over the first one, two, three, ... elements along an axis.

    ``fn`` is called on many pairs at once, about ``2 log2(n)`` times, so that a recurrence of ``n``
    steps needs no loop of ``n`` steps.

    Args:
        fn: associative; takes two pytrees of the structure of ``elems`` and combines them element
            by element along ``axis``.
        elems: a pytree of tensors of equal size along ``axis``.
        reverse: whether to start with the last element.
        axis: along which the elements lie.

    Returns:
        a pytree of the structure and shapes of ``elems``.

    Raises:
        ShapeError: if tensors differ in size along ``axis``.
        AxisError: if a tensor has no such axis.
        TreeError: if ``fn`` returns another structure.

    Source: Blelloch, "Prefix sums and their applications", 1990; ``jax.lax.associative_scan``.

    Example:
        >>> import fx
        >>> fx.associative_scan(lambda a, b: a * b, fx.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([ 1.,  2.,  6., 24.])
    """
    check_callable(fn, "associative_scan", "fn")
    leaves, treedef = tree.flatten(elems)
    xs = [as_leaf(x, "associative_scan: a leaf of elems") for x in leaves]
    if not xs:
        raise ValueError("associative_scan: elems has no tensors")
    for i, x in enumerate(xs):
        if not isinstance(axis, int) or not -x.ndim <= axis < x.ndim:
            raise AxisError(
                f"associative_scan: axis {axis} is out of range for "
                f"{path_of(treedef, i, 'elems')} of shape {x.shape}"
            )
    axes = [axis % x.ndim for x in xs]
    sizes = {x.shape[a] for x, a in zip(xs, axes)}
    if len(sizes) > 1:
        listed = ", ".join([str(x.shape) for x in xs])
        raise ShapeError(f"associative_scan: shapes {listed} differ in size along axis {axis}")

    def combine(a: Tensors, b: Tensors) -> Tensors:
        out, structure = tree.flatten(fn(tree.unflatten(treedef, a), tree.unflatten(treedef, b)))
        if structure != treedef:
            raise TreeError(
                f"associative_scan: {described(fn)} takes the structure {treedef} and returns "
                f"{structure}; return what it takes"
            )
        found = [as_leaf(x, "associative_scan: a result of fn") for x in out]
        for i, (x, y) in enumerate(zip(a, found)):
            if x.shape != y.shape:
                raise ShapeError(
                    f"associative_scan: {path_of(treedef, i, 'elems')} goes into {described(fn)} "
                    f"with shape {x.shape} and comes out with {y.shape}; fn combines element by "
                    f"element along axis {axis}"
                )
        return found

    if reverse:
        xs = [flip(x, axes=(a,)) for x, a in zip(xs, axes)]
    out = _prefixes(combine, xs, axes)
    if reverse:
        out = [flip(x, axes=(a,)) for x, a in zip(out, axes)]
    return tree.unflatten(treedef, out)


def _prefixes(combine: Callable[[Tensors, Tensors], Tensors], xs: Tensors, axes: Any) -> Tensors:
    """The prefixes at odd places from pairs, by the same for half as many; then those between."""
    size = xs[0].shape[axes[0]]
    if size < 2:
        return xs

    def part(values: Tensors, start: int, stop: int, step: int = 1) -> Tensors:
        return [_along(x, a, start, stop, step) for x, a in zip(values, axes)]

    pairs = combine(part(xs, 0, size - 1, 2), part(xs, 1, size, 2))
    odd = _prefixes(combine, pairs, axes)
    if size > 2:
        before = odd if size % 2 else part(odd, 0, size // 2 - 1)
        between = combine(before, part(xs, 2, size, 2))
        even = [
            concatenate(first, rest, axis=a)
            for first, rest, a in zip(part(xs, 0, 1), between, axes)
        ]
    else:
        even = part(xs, 0, 1)
    return [_interleaved(e, o, a) for e, o, a in zip(even, odd, axes)]


def _along(x: Tensor, axis: int, start: int, stop: int, step: int) -> Tensor:
    return slice_prim(
        x,
        start=tuple([start if i == axis else 0 for i in range(x.ndim)]),
        stop=tuple([stop if i == axis else n for i, n in enumerate(x.shape)]),
        step=tuple([step if i == axis else 1 for i in range(x.ndim)]),
    )


def _interleaved(even: Tensor, odd: Tensor, axis: int) -> Tensor:
    """Elements of two tensors in turn, the first one beginning."""
    even, odd = promote(even, odd)
    n, m = even.shape[axis], odd.shape[axis]
    last = _along(even, axis, m, n, 1) if n > m else None
    both = stack(_along(even, axis, 0, m, 1), odd, axis=axis + 1)
    shape = (*odd.shape[:axis], 2 * m, *odd.shape[axis + 1 :])
    both = reshape(both, shape=shape)
    return both if last is None else concatenate(both, last, axis=axis)
