"""``scan`` and ``map``: a function over the rows of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx import tree
from fx.config import modes
from fx.errors import ShapeError, TreeError
from fx.frames import user_line
from fx.prims.shape import concatenate, reshape
from fx.tensor import Tensor
from fx.transforms.batching import vmap
from fx.transforms.checkpoint import checkpoint as checkpointed
from fx.transforms.control.carrying import Carry, Tensors, _part, bind, bind_unrolled, loop
from fx.transforms.control.leaves import (
    as_leaf,
    check_callable,
    described,
    flat,
    path_of,
)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    checkpoint: bool = False,
) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` over the rows of ``xs``: the last carry, and all ``y`` stacked.

    Called as it is, this is a Python loop. Inside ``jit`` it is one operation whose body is staged
    once. Its memory for going back is linear in the length.

    Args:
        f: takes the carry and one row of ``xs``; returns a pair of the next carry, which has the
            structure, the shapes and the dtypes of ``init``, and a pytree.
        init: the carry at the start. A Python number takes the dtype that ``f`` returns for it.
        xs: a pytree of tensors (length, ...), or None.
        length: the number of runs; needed where ``xs`` has no tensors.
        reverse: whether to start with the last row.
        unroll: under ``jit``, how many runs are laid out one after the other in the body; True for
            all of them.
        checkpoint: keep only the carries for going back, and run ``f`` again for the rest.

    Returns:
        the carry, and the pytree of ``y`` with an axis (length, ...) in front.

    Raises:
        ShapeError: if tensors of ``xs`` differ in length, or ``length`` is something else.
        TreeError, ShapeError, DTypeError: if ``f`` returns another carry than it takes.

    Source: ``jax.lax.scan``.

    Example:
        >>> import fx
        >>> fx.scan(lambda total, x: (total + x, total), 0.0, fx.tensor([1.0, 2.0, 3.0]))
        (tensor(6.), tensor([0., 1., 3.]))
    """
    check_callable(f, "scan", "f")
    carry = Carry("scan", f, init)
    rows, treedef, length = _rows("scan", xs, length)
    by = _unroll(unroll, length)
    checkpoint = bool(checkpoint)
    treedef_out: list[Any] = []
    staging = modes.stage is not None
    body = checkpointed(f) if checkpoint and not staging else f

    def step(now: Tensors, row: Tensors) -> tuple[Tensors, Tensors]:
        out = body(carry.tree(now), tree.unflatten(treedef, row))
        if not isinstance(out, tuple | list) or len(out) != 2:
            got = "a tensor" if isinstance(out, Tensor) else type(out).__name__
            raise TypeError(
                f"scan: {described(f)} must return a pair (carry, y), got {got}; "
                f"write return carry, None where there is no y (called at {user_line()})"
            )
        ys, structure, _ = flat(out[1], "scan: a result y")
        if not treedef_out:
            treedef_out.append(structure)
        elif treedef_out[0] != structure:
            raise TreeError(
                f"scan: y of {described(f)} has the structure {structure} in one run and "
                f"{treedef_out[0]} in another; return the same (called at {user_line()})"
            )
        return carry.returned(now, out[0]), ys

    if not staging or (by >= length and by > 1):
        now, ys = loop(carry, step, rows, length, reverse)
    elif by > 1:
        now, ys = bind_unrolled(carry, step, rows, length, reverse, checkpoint, by)
    else:
        now, ys = bind(carry, step, rows, length, reverse, checkpoint)
    return carry.tree(now), tree.unflatten(treedef_out[0], ys)


def _rows(what: str, xs: Any, length: int | None) -> tuple[Tensors, Any, int]:
    """The tensors that are scanned, their structure, and the number of rows."""
    leaves, treedef = tree.flatten(xs)
    rows = [as_leaf(x, f"{what}: a leaf of xs") for x in leaves]
    if length is not None:
        if isinstance(length, bool) or not hasattr(length, "__index__"):
            raise TypeError(f"{what}: length must be an int, got {length!r}")
        length = length.__index__()
        if length < 0:
            raise ValueError(f"{what}: length must not be negative, got {length}")
    for i, x in enumerate(rows):
        if not x.ndim:
            raise ShapeError(
                f"{what}: {path_of(treedef, i, 'xs')} is {x.spec!r} and has no rows; close over "
                f"what is the same in every run"
            )
    sizes = {x.shape[0] for x in rows}
    if length is not None and sizes - {length}:
        listed = ", ".join([f"{path_of(treedef, i, 'xs')} {x.shape}" for i, x in enumerate(rows)])
        raise ShapeError(f"{what}: length={length}, but the first axes of xs differ: {listed}")
    if len(sizes) > 1:
        listed = ", ".join([f"{path_of(treedef, i, 'xs')} {x.shape}" for i, x in enumerate(rows)])
        raise ShapeError(f"{what}: the first axes of xs differ in size: {listed}")
    if length is None:
        if not sizes:
            raise ValueError(f"{what}: xs has no tensors; say how many runs: length=n")
        length = sizes.pop()
    return rows, treedef, length


def _unroll(unroll: Any, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 2) if unroll else 1
    if not isinstance(unroll, int) or unroll < 1:
        raise ValueError(f"scan: unroll must be a positive int or a bool, got {unroll!r}")
    return unroll


def map(f: Callable[[Any], Any], xs: Any, batch_size: int | None = None) -> Any:
    """``f`` of each row of ``xs``, one after the other, the results stacked.

    ``vmap`` does all rows at once; this needs the memory of one, or of ``batch_size`` of them.

    Args:
        f: takes one row of ``xs``.
        xs: a pytree of tensors (length, ...).
        batch_size: so many rows at once, by ``vmap``.

    Raises:
        ShapeError: if tensors of ``xs`` differ in length.

    Source: ``jax.lax.map``.

    Example:
        >>> import fx
        >>> fx.map(lambda x: x.sum(), fx.ones((3, 2)))
        tensor([2., 2., 2.])
    """
    check_callable(f, "map", "f")
    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"map: batch_size must be a positive int, got {batch_size!r}")
    rows, treedef, length = _rows("map", xs, None)
    several = vmap(f)
    whole = length - length % batch_size
    parts = []
    if whole:
        chunks = [
            reshape(_part(x, 0, whole), shape=(whole // batch_size, batch_size, *x.shape[1:]))
            for x in rows
        ]
        out = scan(lambda _, x: (None, several(x)), None, tree.unflatten(treedef, chunks))[1]
        parts.append(tree.map(lambda y: reshape(y, shape=(whole, *y.shape[2:])), out))
    if whole < length or not whole:
        parts.append(several(tree.unflatten(treedef, [_part(x, whole, length) for x in rows])))
    if len(parts) == 1:
        return parts[0]
    return tree.map(lambda a, b: concatenate(a, b, axis=0), *parts)
