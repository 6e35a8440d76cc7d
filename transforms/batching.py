"""``vmap``: run a function written for one example on a whole batch of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any

import fx.prims.shape as shape_prims
from fx import tree
from fx.config import modes, writing
from fx.dtypes import int64
from fx.errors import AxisError, BatchedValueError, ShapeError, TreeError
from fx.levels import Level, Tracer, live
from fx.ops.convert import as_tensor
from fx.prims.creation import iota
from fx.random.lanes import Turn
from fx.tape import CELL
from fx.tensor import Tensor, _new
from fx.transforms._arguments import check_function, leave, name_of, write_back


class Lanes(Level):
    """A running ``vmap``: collectives find its axis by name, and draws find the number of a lane.

    Args:
        size: the number of lanes.
        axis_name: the name of the mapped axis.
        first: the number of the first lane; None where draws are the same for all lanes.
        inner: whether a rule runs a function on the lanes of a ``vmap`` that runs already.
    """

    __slots__ = ("_saved", "first", "inner")

    def __init__(
        self,
        size: int,
        axis_name: Hashable | None = None,
        first: int | None = 0,
        inner: bool = False,
    ) -> None:
        super().__init__("vmap", size, axis_name)
        self.first, self.inner = first, inner

    def __enter__(self) -> Lanes:
        self._saved = modes.axes, modes.lanes
        if self.axis_name is not None:
            modes.axes = (*modes.axes, self)
        modes.lanes = self._instead() if self.inner else (*modes.lanes, self)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        modes.axes, modes.lanes = self._saved
        super().__exit__(*error)

    def _instead(self) -> tuple[Any, ...]:
        """The running lanes with this level in the place of the outermost that is set aside."""
        for i, entry in enumerate(modes.lanes):
            if type(entry) is _Aside:
                self.first = entry.first
                return (*modes.lanes[:i], self, *modes.lanes[i + 1 :])
        return modes.lanes

    def index(self, device: str) -> Tensor | None:
        """The number of each lane for draws, int64 (); None where they draw the same."""
        if self.first is None:
            return None
        return batch_tracer(self.number, _numbers(self, self.first, device), 0)

    def batch(self, rules: Any, values: Any, dims: Any) -> Any:
        """Run the batching rule of a function that has rules of its own, this level set aside."""
        saved = modes.lanes
        modes.lanes = tuple([_Aside(self.first) if e is self else e for e in saved])
        try:
            return rules.batch(self, values, dims)
        finally:
            modes.lanes = saved


class _Aside:
    """The place among the running lanes of a level whose lanes another level runs."""

    __slots__ = ("first",)

    def __init__(self, first: int | None) -> None:
        self.first = first

    def index(self, device: str) -> None:
        """No number: nothing is drawn for these lanes until the other level runs."""


class BatchTracer(Tracer):
    """One lane's view of a tensor: ``dim`` is the axis of ``value`` along which the lanes lie."""

    __slots__ = ("dim",)
    transform = "vmap"
    dim: int

    @property
    def shape(self) -> tuple[int, ...]:
        shape, d = self.value.shape, self.dim
        return (*shape[:d], *shape[d + 1 :])

    def concrete(self) -> Tensor:
        raise BatchedValueError(
            f"inside vmap a value {self.spec!r} differs from lane to lane, and Python asked for "
            f"one concrete value (bool(), int(), float(), .item(), if, while, np.asarray). "
            f"Choose with fx.where(condition, x, y), or return the value and look at it outside"
        )

    def graft(self, value: Any, cut: bool, below: Any) -> Any:
        held, dim = self.value, None
        if type(held) is Tensor and held._node is None:
            return value
        if isinstance(value, BatchTracer) and value.level == self.level:
            value, dim = value.value, value.dim
        views, modes.views = modes.views, False
        try:
            value = lanes_to(value, dim, self.dim, held.shape[self.dim])
        finally:
            modes.views = views
        return batch_tracer(self.level, below(value, held, cut), self.dim)

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        number = self.level
        level = live[number]
        values = tuple([x.value if x.level == number else x for x in args])
        dims = tuple([x.dim if x.level == number else None for x in args])
        if primitive.is_applied:
            out, dim = level.batch(primitive, values, dims)
        else:
            out, dim = primitive.batch(level, values, dims, **params)
        if primitive.multiple:
            return tuple([batch_tracer(number, o, d) for o, d in zip(out, dim, strict=True)])
        return batch_tracer(number, out, dim)


def lane_index(level: Level) -> Tensor:
    """0, 1, 2, ... lane by lane: a 0-d int64 tensor of a running ``vmap``."""
    return batch_tracer(level.number, _numbers(level, 0, "cpu"), 0)


def _numbers(level: Level, first: int, device: str) -> Tensor:
    """first, first + 1, ...: made where the level was started, not in a body that is staged now."""
    saved = stage = modes.stage
    while stage is not None and stage.number > level.number:
        stage = stage.outer
    modes.stage = stage
    try:
        return iota(shape=(level.size,), axis=0, start=first, step=1, dtype=int64, device=device)
    finally:
        modes.stage = saved


def batch_tracer(level: int, value: Tensor, dim: int | None) -> Tensor:
    """A tracer, or the value alone where it is the same for all lanes."""
    if dim is None:
        return value
    tracer = _new(BatchTracer)
    tracer.level = level
    tracer.value = value
    tracer.dim = dim
    tracer._node = None
    return tracer


def vmap(
    function: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: Hashable | None = None,
    chunk_size: int | None = None,
    randomness: str = "different",
) -> Callable[..., Any]:
    """Map ``function`` over an axis of its arguments, all lanes at once.

    Args:
        function: takes and returns pytrees of tensors, written for one lane.
        in_axes: the mapped axis of each positional argument: an int, None (the same for every
            lane), or a pytree prefix of the arguments of these. Keyword arguments map along 0.
        out_axes: where the lanes go in each result: an int or a pytree prefix; None for a result
            that is the same for every lane.
        axis_size: the number of lanes, needed only if every axis is None.
        axis_name: a name by which ``fx.psum``, ``fx.pmean``, ``fx.pmax`` reach across the lanes.
        chunk_size: at most so many lanes at once, to bound memory; then ``axis_name`` is refused.
        randomness: ``"different"``: every lane draws numbers of its own from a generator, those
            that a loop over ``with fx.random.lane(i)`` draws; ``"same"``: all draw the same.

    Returns:
        the mapped function.

    Raises:
        ShapeError: if the mapped axes differ in size.
        AxisError: if an argument has no such axis.
        TreeError: if ``in_axes`` or ``out_axes`` does not fit.

    Example:
        >>> import fx
        >>> fx.vmap(fx.dot, (0, None))(fx.ones((3, 2)), fx.tensor([1.0, 2.0]))
        tensor([3., 3., 3.])
    """
    check_function(function, "vmap")
    if randomness not in ("different", "same"):
        raise ValueError(f"vmap: randomness must be 'different' or 'same', got {randomness!r}")
    if chunk_size is not None:
        if chunk_size < 1:
            raise ValueError(f"vmap: chunk_size must be at least 1, got {chunk_size}")
        if axis_name is not None:
            raise ValueError(
                f"vmap: collectives over {axis_name!r} need all lanes at once; leave out chunk_size"
            )

    @wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, kwargs))
        dims = _input_dims(in_axes, args, kwargs, function)
        values = [x if d is None else _mapped_leaf(x, function) for x, d in zip(leaves, dims)]
        dims = [_check_axis(x, d, function) for x, d in zip(values, dims)]
        size = _size(values, dims, axis_size, function)

        def run(
            values: list[Any], size: int, first: int = 0
        ) -> tuple[list[Tensor], list[int | None], Any, dict[int, Tensor]]:
            with Lanes(size, axis_name, first if randomness == "different" else None) as level:
                number = level.number
                traced = [
                    x if d is None else batch_tracer(number, x, d) for x, d in zip(values, dims)
                ]
                new_args, new_kwargs = tree.unflatten(treedef, traced)
                outs, treedef_out = tree.flatten(function(*new_args, **new_kwargs))
                out_dims = _spread(out_axes, treedef_out, "out_axes", function)
                landed = [
                    _land(leave(x, number), d, number, size, function)
                    for x, d in zip(outs, out_dims)
                ]
                changed = {
                    i: _land(leave(x.read(), number), dims[i], number, size, function)
                    for i, x in enumerate(traced)
                    if writing.started and dims[i] is not None and x.written
                }
            return landed, out_dims, treedef_out, changed

        if chunk_size is None or size <= chunk_size:
            results, _, treedef_out, changed = run(values, size)
        else:
            chunks = []
            for start in range(0, size, chunk_size):
                stop = min(start + chunk_size, size)
                part = [
                    x if d is None else shape_prims._along(x, d, start, stop)
                    for x, d in zip(values, dims)
                ]
                with Turn(range(start, stop)):
                    chunks.append(run(part, stop - start, start))
            _, out_dims, treedef_out, changed = chunks[0]
            columns = zip(*[landed for landed, *_ in chunks])
            results = [_joined(list(xs), d) for xs, d in zip(columns, out_dims)]
            changed = {i: _joined([told[i] for *_, told in chunks], dims[i]) for i in changed}
        write_back(leaves, changed)
        return tree.unflatten(treedef_out, results)

    return mapped


def _joined(parts: list[Tensor], d: int | None) -> Tensor:
    """One result of all chunks."""
    return parts[0] if d is None else shape_prims.concatenate(*parts, axis=d % parts[0].ndim)


def _mapped_leaf(x: Any, function: Any) -> Tensor:
    try:
        x = as_tensor(x)
    except Exception:
        raise TypeError(
            f"vmap of {name_of(function)}: an argument of type {type(x).__name__} has no axis to "
            f"map; pass None for it in in_axes"
        ) from None
    return x.read() if x.level == CELL else x


def _input_dims(in_axes: Any, args: Any, kwargs: Any, function: Any) -> list[int | None]:
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise TreeError(
            f"vmap: in_axes has {len(in_axes)} entries, but {name_of(function)} was called with "
            f"{len(args)} positional arguments; give one entry an argument, or one int for all"
        )
    positional = _spread(in_axes, tree.structure(args), "in_axes", function)
    return positional + [0] * len(tree.leaves(kwargs))


def _is_none(x: Any) -> bool:
    return x is None


def _spread(axes: Any, treedef: Any, what: str, function: Any) -> list[int | None]:
    """One entry a leaf, from an int, None, or a pytree prefix of them."""
    if axes is None or isinstance(axes, int):
        return [axes] * treedef.num_leaves
    prefix, structure = tree.flatten(axes, is_leaf=_is_none)
    marks = tree.unflatten(treedef, list(range(treedef.num_leaves)))
    try:
        subtrees = structure.flatten_up_to(marks)
    except (ValueError, TypeError):
        raise TreeError(
            f"vmap: {what}={axes} is no prefix of {treedef}, the "
            f"{'arguments' if what == 'in_axes' else 'results'} of {name_of(function)}"
        ) from None
    out: list[int | None] = [None] * treedef.num_leaves
    for d, subtree in zip(prefix, subtrees, strict=True):
        if d is not None and not isinstance(d, int):
            raise TreeError(f"vmap: {what} takes ints and None, got {d!r}")
        for i in tree.leaves(subtree):
            out[i] = d
    return out


def _check_axis(x: Any, d: int | None, function: Any) -> int | None:
    if d is None:
        return None
    if not -x.ndim <= d < x.ndim:
        raise AxisError(
            f"vmap of {name_of(function)}: axis {d} is out of range for an argument of shape "
            f"{x.shape}; pass None in in_axes for what is the same in every lane"
        )
    return d % x.ndim


def _size(values: Any, dims: Any, axis_size: int | None, function: Any) -> int:
    sizes = {x.shape[d] for x, d in zip(values, dims, strict=True) if d is not None}
    if axis_size is not None:
        sizes.add(axis_size)
    if not sizes:
        raise ShapeError(f"vmap of {name_of(function)}: no argument is mapped; give axis_size=")
    if len(sizes) > 1:
        shapes = ", ".join(
            f"{x.shape} along {d}" for x, d in zip(values, dims, strict=True) if d is not None
        )
        raise ShapeError(f"vmap of {name_of(function)}: mapped axes differ in size: {shapes}")
    return sizes.pop()


def _land(x: Any, d: int | None, number: int, size: int, function: Any) -> Tensor:
    """A result below the level, its lanes along ``d``."""
    source = None
    if isinstance(x, BatchTracer) and x.level == number:
        if d is None:
            raise AxisError(
                f"vmap: a result {x.spec!r} of {name_of(function)} differs from lane to lane, but "
                f"out_axes says None; give it an axis"
            )
        x, source = x.value, x.dim
    else:
        try:
            x = as_tensor(x)
        except Exception:
            raise TypeError(
                f"vmap: {name_of(function)} returned {x!r} of type {type(x).__name__}; return "
                f"tensors, numbers, or pytrees of them"
            ) from None
        if d is None:
            return x
    rank = x.ndim + (source is None)
    if not -rank <= d < rank:
        shape = x.shape if source is None else (*x.shape[:source], *x.shape[source + 1 :])
        raise AxisError(f"vmap: out_axes={d} is out of range for a result of shape {shape}")
    return lanes_to(x, source, d % rank, size)


def lanes_to(x: Tensor, source: int | None, dim: int, size: int) -> Tensor:
    """Move the lanes from axis ``source`` to ``dim``; repeat what is the same for all lanes."""
    if source is None:
        x, source = shape_prims.broadcast_to(x, shape=(size, *x.shape)), 0
    if dim == source:
        return x
    rest = [i for i in range(x.ndim) if i != source]
    return shape_prims.transpose(x, axes=(*rest[:dim], source, *rest[dim:]))
