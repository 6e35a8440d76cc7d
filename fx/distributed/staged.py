"""Collectives of a group inside a function that ``jit`` compiles: nodes whose steps are native.

They are the primitives by which the ranks of a mesh talk (``fx/prims/collective.py``), on the
group's own communicator. What has no such primitive runs uncompiled (``filling.refuse_staging``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fx.prims.collective as prims
from fx.config import modes, no_grad
from fx.distributed import exchange, mpi
from fx.distributed.filling import refuse_inside, refuse_staging
from fx.distributed.ordered import ordered_sum, widened
from fx.distributed.reductions import ReduceOp
from fx.dtypes import float32, float64
from fx.ops.shapes.joining import concat, stack
from fx.prims.elementwise import astype, maximum, minimum
from fx.prims.mesh import mesh_index
from fx.tensor import PLAIN, Tensor

_MESSAGES = {"sum": prims.psum, "max": prims.pmax, "min": prims.pmin}
_PAIRS = {"sum": ordered_sum, "max": maximum, "min": minimum}


def value_of(x: Any, what: str) -> Tensor:
    """What stands for a tensor in the function that is being staged.

    Raises:
        TypeError: if it is no tensor.
        FxError: if it is a value inside of another transform.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{what}: expected a Tensor, got {type(x).__name__}")
    stage = modes.stage
    found = stage.lower(x)
    if found.level not in (PLAIN, stage.number):
        refuse_inside(what, x, found)
    return stage.tracer(stage.value_of(found))  # type: ignore[no-any-return]


def moves(group: Any) -> bool:
    """Whether there is somebody to talk to."""
    return group.comm is not None and group.size() > 1


def axis_of(group: Any) -> dict[str, Any]:
    """The parameters that name a group's ranks."""
    if group.axis is None:
        from fx.distributed.ranks import Ranks

        key = f"group{group.label}/{group.size()}"
        group.axis = Ranks(key, group.ranks, group.rank(), group)
    return {"axis": group.axis.key, "size": group.size()}


def reduce_each(group: Any, xs: Sequence[Tensor], op: ReduceOp) -> list[Tensor]:
    """The reductions of all ranks' ``xs``, in each: one message a dtype."""
    if op.work not in _PAIRS:
        refuse_staging(modes.stage, f"a reduction by {op}")
    with no_grad():
        if op.factor is not None:
            xs = [x * op.factor for x in xs]
        if not moves(group):
            return list(xs)
        out = list(xs)
        for places in _by_dtype(xs):
            found = _reduced(group, [xs[i] for i in places], op)
            for i, x in zip(places, found):
                out[i] = x
        return out


def native_means(group: Any, dtype: Any) -> Callable[..., Any] | None:
    """The means over the ranks of any tensors of a dtype, as one native call; None: there is none.

    It compares nothing: ask ``exchange.agreed`` first.
    """
    if not moves(group) or group.ordered or dtype not in (float32, float64):
        return None
    from fx.transforms import jit

    axis, size = axis_of(group), group.size()
    return jit(lambda *xs: [x / size for x in prims.psum(*xs, **axis)])


def summed(group: Any, xs: Sequence[Tensor]) -> Sequence[Tensor]:
    """The sums of all ranks' ``xs``, which are of one dtype, in each: gradients flow through."""
    return prims.psum(*xs, **axis_of(group)) if moves(group) else xs  # type: ignore[no-any-return]


def _by_dtype(xs: Sequence[Tensor]) -> list[list[int]]:
    groups: dict[Any, list[int]] = {}
    for i, x in enumerate(xs):
        groups.setdefault(x.dtype, []).append(i)
    return list(groups.values())


def _reduced(group: Any, xs: list[Tensor], op: ReduceOp) -> Sequence[Tensor]:
    """The same of one dtype."""
    if group.ordered or mpi.operation(op.work, xs[0].dtype) is None:
        return side_by_side(xs, lambda flat: _ordered(group, flat, op))
    message = _MESSAGES[op.work]
    if message is prims.psum:
        found = message(*xs, **axis_of(group))
    else:
        found = [message(x, **axis_of(group)) for x in xs]
    return [x / group.size() for x in found] if op.name == "AVG" else found


def _ordered(group: Any, x: Tensor, op: ReduceOp) -> Tensor:
    """A reduction by pairs in the order of the ranks."""
    return _tree(group, prims.all_gather(x, index_of(group), **axis_of(group)), op)


def _tree(group: Any, rows: Tensor, op: ReduceOp) -> Tensor:
    """The same of what the ranks have, (ranks, *shape), as ``reductions.tree`` does it."""
    n, dtype, by = group.size(), rows.dtype, _PAIRS[op.work]
    rows = widened(rows)
    level = [rows[i] for i in range(n)]
    if by is ordered_sum:
        level = [ordered_sum(*level)]
    while len(level) > 1:
        pairs = [by(a, b) for a, b in zip(level[::2], level[1::2])]
        level = pairs + level[len(pairs) * 2 :]
    out = level[0] / n if op.name == "AVG" else level[0]
    return out if out.dtype == dtype else astype(out, dtype=dtype)  # type: ignore[no-any-return]


def means_in_order(
    group: Any, xs: Sequence[Tensor], terms: int, dtypes: Sequence[Any]
) -> list[Tensor]:
    """The sums of all ranks' ``xs`` in their order, over ``terms``, each in a dtype of its own."""
    out = list(xs)
    with no_grad():
        for places in _by_dtype(xs) if moves(group) else []:
            part = [xs[i] for i in places]
            nbytes, native = sum(x.nbytes for x in part), part[0].dtype in (float32, float64)
            if native and exchange.by_pieces(group.size(), nbytes, ReduceOp.SUM):
                found = prims.psum(*part, **axis_of(group))
            else:
                found = side_by_side(part, lambda flat: _ordered(group, flat, ReduceOp.SUM))
            for i, x in zip(places, found):
                out[i] = x
        return [astype(x / terms, dtype=d) for x, d in zip(out, dtypes, strict=True)]


def broadcast_each(group: Any, xs: Sequence[Tensor], root: int) -> list[Tensor]:
    """What one rank has, in each: one message a dtype."""
    out = list(xs)
    if moves(group):
        with no_grad():
            for places in _by_dtype(xs):
                found = side_by_side([xs[i] for i in places], lambda flat: _sent(group, flat, root))
                for i, x in zip(places, found):
                    out[i] = x
    return out


def _sent(group: Any, x: Tensor, root: int) -> Tensor:
    return prims.pbroadcast(x, index_of(group), source=root, **axis_of(group))  # type: ignore[no-any-return]


def index_of(group: Any) -> Tensor:
    """The rank in a group, int64 (), known when the function runs."""
    return mesh_index(axis=axis_of(group)["axis"], device="cpu")  # type: ignore[no-any-return]


def side_by_side(xs: list[Tensor], move: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Tensors of one dtype as one."""
    if len(xs) == 1:
        return [move(xs[0])]
    whole, out, at = move(concat([x.reshape(-1) for x in xs])), [], 0
    for x in xs:
        out.append(whole[at : at + x.size].reshape(x.shape))
        at += x.size
    return out


# the functions of ``exchange.py``, of tensors that are being staged -----------------------------


def reduce_all(group: Any, x: Tensor, op: ReduceOp) -> Tensor:
    """The reduction of all ranks' ``x``, in each."""
    return reduce_each(group, [x], op)[0]


def reduce_to(group: Any, x: Tensor, op: ReduceOp, root: int) -> Tensor | None:
    """The reduction in one rank; None in the others, which compute it too."""
    out = reduce_all(group, x, op)
    return out if group.rank() == root else None


def reduce_scatter(group: Any, x: Tensor, op: ReduceOp) -> Tensor:
    """Of ``x``, a part for each rank, (ranks, *shape): the reduction of this rank's part."""
    if op.work not in _PAIRS:
        refuse_staging(modes.stage, f"a reduction by {op}")
    with no_grad():
        if op.factor is not None:
            x = x * op.factor
        if not moves(group):
            return x[group.rank()]
        if op.work != "sum" or group.ordered or mpi.operation(op.work, x.dtype) is None:
            return _tree(group, _exchanged(group, x), op)
        out = prims.psum_scatter(x, index_of(group), **axis_of(group))
        return out / group.size() if op.name == "AVG" else out


def reduce_scatter_ragged(group: Any, parts: Sequence[Tensor], op: ReduceOp) -> Tensor:
    """There is none, as for ``all_to_all``."""
    refuse_staging(modes.stage, "reduce_scatter of parts of several shapes")


def gather_all(group: Any, x: Tensor) -> Tensor:
    """All ranks' ``x``, in each: (ranks, *shape)."""
    with no_grad():
        if not moves(group):
            return stack([x] * group.size())
        return prims.all_gather(x, index_of(group), **axis_of(group))  # type: ignore[no-any-return]


def gather_to(group: Any, x: Tensor, root: int) -> Tensor | None:
    """All ranks' ``x`` in one, (ranks, *shape); None in the others, which get it too."""
    out = gather_all(group, x)
    return out if group.rank() == root else None


def scatter(group: Any, parts: Tensor | None, like: Tensor, root: int) -> Tensor:
    """Of ``parts`` in one rank, (ranks, *shape), this rank's: all get all of them."""
    if not moves(group):
        return like if parts is None else parts[group.rank()]
    if parts is None:
        parts = stack([like] * group.size())
    return broadcast(group, parts, root)[group.rank()]


def broadcast(group: Any, x: Tensor, root: int) -> Tensor:
    """One rank's ``x``, in each."""
    return broadcast_each(group, [x], root)[0]


def all_to_all_ragged(group: Any, parts: Sequence[Tensor], out: Sequence[Tensor]) -> list[Tensor]:
    """A part for each rank, all of one shape: nodes know their shapes before anything comes."""
    shapes = {x.shape for x in (*parts, *out)}
    if len(shapes) > 1:
        refuse_staging(modes.stage, "all_to_all of parts of several shapes")
    with no_grad():
        if not moves(group):
            return list(parts)
        rows = _exchanged(group, stack(parts))
        return [rows[i] for i in range(group.size())]


def _exchanged(group: Any, x: Tensor) -> Tensor:
    return prims.all_to_all(x, index_of(group), **axis_of(group))  # type: ignore[no-any-return]


def barrier(group: Any) -> None:
    """There is none: messages are one."""
    refuse_staging(modes.stage, "barrier")
