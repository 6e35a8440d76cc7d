"""Messages from one rank to another: the works of eager calls, and the node of compiled ones.

A node sends and receives any number of messages together. It is an effect in the order of all
messages; only the two ranks know of one, so it is not among what all ranks compare
(``agreement.py``). Its step (``node_steps/pairs.py``) goes by the group's communicator and the
user's tag, so that a compiled rank and an eager one understand each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fx.config import modes
from fx.devices import backend
from fx.distributed import mpi
from fx.distributed.errors import DistError
from fx.distributed.filling import Array, refuse_staging
from fx.distributed.mpi import raw
from fx.distributed.staged import axis_of
from fx.distributed.work import Steps, Work
from fx.dtypes import bool_
from fx.primitive import NOT_DIFFERENTIABLE, Primitive
from fx.prims.collective import MESSAGES
from fx.spec import TensorSpec
from fx.tensor import Tensor

collective: Any = backend("cpu").between_ranks()


# works ------------------------------------------------------------------------------------------


def sent(x: Array, group: Any, peer: int, tag: int) -> Work:
    """The work of a message to a rank of a group."""

    def steps() -> Steps:
        yield (group.comm.Isend(raw(x), peer, tag),)

    return Work(group, "send", steps(), lambda out: None, x.nbytes).begin()


def received(
    out: Array, fill: Callable[[Any], Any], group: Any, peer: int | None, tag: int
) -> Work:
    """The work of a message that comes into an array, from a rank or from any."""
    MPI = mpi.start()
    source = MPI.ANY_SOURCE if peer is None else peer
    status = MPI.Status()

    def steps() -> Steps:
        yield (_WithStatus(group.comm.Irecv(raw(out), source, tag), status),)
        got, who = status.Get_count(MPI.BYTE), group.ranks[status.Get_source()]
        if got != out.nbytes:
            raise DistError(
                f"recv: {out.dtype.name}{list(out.shape)} is {out.nbytes} bytes, and rank {who} "
                f"sent {got}"
            )
        work._source = who
        return out

    work = Work(group, "recv", steps(), fill, out.nbytes)
    return work.begin()


class _WithStatus:
    """A request that tells who sent, and how much."""

    def __init__(self, request: Any, status: Any) -> None:
        self._request, self._status = request, status
        self._done = False

    def Test(self) -> bool:
        self._done = self._done or self._request.Test(self._status)
        return self._done


# the node ---------------------------------------------------------------------------------------

Ends = Sequence[tuple[int, int]]  # a rank of the group and a tag for each message


def _kernel(*xs: Array, among: str, sends: Ends, receives: Any) -> tuple[Array, ...]:
    group = collective.ranks_of(among).group
    coming = [
        received(np.empty(shape, dtype), lambda out: out, group, peer, tag)
        for shape, dtype, peer, tag in receives
    ]
    going = [sent(np.ascontiguousarray(x), group, *end) for x, end in zip(xs, sends, strict=True)]
    for work in (*coming, *going):
        work.wait()
    return tuple([work.value() for work in coming]) or (np.zeros((), bool),)


def _spec(*xs: Any, among: str, sends: Ends, receives: Any) -> tuple[TensorSpec, ...]:
    found = tuple([TensorSpec(shape, dtype) for shape, dtype, *_ in receives])
    return found or (TensorSpec((), bool_),)


def _no_lanes(*args: Any, **params: Any) -> Any:
    raise NotImplementedError  # ``staged.value_of`` refuses lanes


pair_messages = Primitive(
    "pair_messages", cpu=_kernel, spec=_spec, multiple=True,
    batch=_no_lanes, effectful=MESSAGES, differentiable=False,
    jvp=NOT_DIFFERENTIABLE, vjp=NOT_DIFFERENTIABLE, sample=None,
)  # fmt: skip


def stage_messages(
    group: Any, going: Sequence[tuple[Tensor, int, int]], coming: Sequence[tuple[Tensor, int, int]]
) -> list[Tensor]:
    """What comes, in the function that is being staged, of messages that begin together.

    Args:
        group: the ranks.
        going: what is sent, to which rank of the group, by which tag.
        coming: the tensors that are filled, from which rank, by which tag.
    """
    stage = modes.stage
    if getattr(stage, "program", None) is None:
        refuse_staging(stage, "send and recv inside of a loop or branch")
    params = {
        "among": axis_of(group)["axis"],
        "sends": tuple([(peer, tag) for _, peer, tag in going]),
        "receives": tuple([(x.shape, x.dtype, peer, tag) for x, peer, tag in coming]),
    }
    found = stage.emit(pair_messages, [x for x, *_ in going], params)
    return list(found) if coming else []
