"""Collectives of a group inside a function that ``jit`` compiles: nodes whose steps are native.

They are the primitives by which the ranks of a mesh talk (``fx/prims/collective.py``), on the
group's own communicator. What has no such primitive runs uncompiled (``filling.refuse_staging``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fx.prims.collective as prims
from fx.config import modes, no_grad
from fx.distributed import mpi
from fx.distributed.filling import Place, refuse_inside
from fx.distributed.reductions import ReduceOp
from fx.distributed.work import Work
from fx.dtypes import float32, float64
from fx.ops.shapes.joining import concat
from fx.prims.elementwise import add, astype, maximum, minimum
from fx.prims.mesh import mesh_index
from fx.tensor import PLAIN, Tensor

_MESSAGES = {"sum": prims.psum, "max": prims.pmax, "min": prims.pmin}
_PAIRS = {"sum": add, "max": maximum, "min": minimum}


def serves(op: ReduceOp) -> bool:
    """Whether a function is being staged, and a reduction can be a node of it."""
    return modes.stage is not None and op.work in _PAIRS


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


def given(group: Any, what: str, place: Place, out: Tensor, later: bool) -> Tensor | Work:
    """The result where it goes; a ``Work`` that is complete where ``later``."""
    filled = place.given(out)
    return Work.complete(group, what, filled) if later else filled


def _moves(group: Any) -> bool:
    return group.comm is not None and group.size() > 1


def _axis(group: Any) -> dict[str, Any]:
    """The parameters that name a group's ranks."""
    if group.axis is None:
        from fx.distributed.ranks import Ranks

        key = f"group{group.number}/{group.size()}"
        group.axis = Ranks(key, group.ranks, group.rank(), group)
    return {"axis": group.axis.key, "size": group.size()}


def reduce_all(group: Any, xs: Sequence[Tensor], op: ReduceOp) -> list[Tensor]:
    """The reductions of all ranks' ``xs``, in each: one message a dtype."""
    with no_grad():
        if op.factor is not None:
            xs = [x * op.factor for x in xs]
        if not _moves(group):
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
    if not _moves(group) or group.ordered or dtype not in (float32, float64):
        return None
    from fx.transforms import jit

    axis, size = _axis(group), group.size()
    return jit(lambda *xs: [x / size for x in prims.psum(*xs, **axis)])


def summed(group: Any, xs: Sequence[Tensor]) -> Sequence[Tensor]:
    """The sums of all ranks' ``xs``, which are of one dtype, in each: gradients flow through."""
    return prims.psum(*xs, **_axis(group)) if _moves(group) else xs  # type: ignore[no-any-return]


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
        found = message(*xs, **_axis(group))
    else:
        found = [message(x, **_axis(group)) for x in xs]
    return [x / group.size() for x in found] if op._name == "AVG" else found


def _ordered(group: Any, x: Tensor, op: ReduceOp) -> Tensor:
    """A reduction by pairs in the order of the ranks (``reductions.tree``)."""
    n, dtype, by = group.size(), x.dtype, _PAIRS[op.work]
    rows = prims.all_gather(x, _index(group), **_axis(group))
    if mpi.datatype(dtype) is None:  # 16 bits count in 32
        rows = astype(rows, dtype=float32)
    level = [rows[i] for i in range(n)]
    while len(level) > 1:
        pairs = [by(a, b) for a, b in zip(level[::2], level[1::2])]
        level = pairs + level[len(pairs) * 2 :]
    out = level[0] / n if op._name == "AVG" else level[0]
    return out if out.dtype == dtype else astype(out, dtype=dtype)  # type: ignore[no-any-return]


def broadcast(group: Any, xs: Sequence[Tensor], root: int) -> list[Tensor]:
    """What one rank has, in each: one message a dtype."""
    out = list(xs)
    if _moves(group):
        with no_grad():
            for places in _by_dtype(xs):
                found = side_by_side([xs[i] for i in places], lambda flat: _sent(group, flat, root))
                for i, x in zip(places, found):
                    out[i] = x
    return out


def _sent(group: Any, x: Tensor, root: int) -> Tensor:
    return prims.pbroadcast(x, _index(group), source=root, **_axis(group))  # type: ignore[no-any-return]


def _index(group: Any) -> Tensor:
    return mesh_index(axis=_axis(group)["axis"], device="cpu")  # type: ignore[no-any-return]


def side_by_side(xs: list[Tensor], move: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Tensors of one dtype as one."""
    if len(xs) == 1:
        return [move(xs[0])]
    whole, out, at = move(concat([x.reshape(-1) for x in xs])), [], 0
    for x in xs:
        out.append(whole[at : at + x.size].reshape(x.shape))
        at += x.size
    return out
