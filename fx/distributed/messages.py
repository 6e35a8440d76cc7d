"""Messages from one rank to another, and Python objects between ranks."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from fx.config import modes
from fx.distributed import exchange
from fx.distributed.errors import DistError
from fx.distributed.filling import Array, Place, array_of, kept, refuse_staging
from fx.distributed.groups import ProcessGroup, world
from fx.distributed.pairs import received, sent, stage_messages
from fx.distributed.staged import value_of
from fx.distributed.work import Steps, Work
from fx.errors import ArgumentError
from fx.tensor import new_tensor


def _peer(group: ProcessGroup, rank: int | None, within: int | None, what: str) -> int:
    if (rank is None) == (within is None):
        raise ArgumentError(f"{what}: give the rank by its number in the world, or in the group")
    peer = group.group_rank(rank) if rank is not None else within
    assert peer is not None
    group.global_rank(peer)
    if group.comm is None:
        raise DistError(f"{what}: the backend 'fake' has nobody to talk to")
    return peer


def isend(
    tensor: Any,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work:
    """Send a tensor to a rank; a ``Work``."""
    g, x = world(group), array_of(tensor, "isend")
    return sent(x, g, _peer(g, dst, group_dst, "send"), tag)


def irecv(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work:
    """Receive a tensor of this shape and dtype from a rank, or from any; a ``Work``.

    Raises:
        DistError: by its ``wait``, if the message has another number of bytes.
    """
    place = Place(tensor, "recv")
    kept([place], "irecv", "work = irecv(x, src), and x = work.value()")
    return _receive(tensor, place, src, group, tag, group_src)


def _receive(
    tensor: Any, place: Place, src: int | None, group: Any, tag: int, within: int | None
) -> Work:
    x, g = array_of(tensor, "recv"), world(group)
    return received(np.empty_like(x), place.filled, g, _source(g, src, within), tag)


def _source(g: ProcessGroup, src: int | None, within: int | None) -> int | None:
    """Who sends; None: any rank."""
    return None if src is None and within is None else _peer(g, src, within, "recv")


def send(
    tensor: Any,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to a rank; it may be written to afterwards."""
    if modes.stage is None:
        isend(tensor, dst, group, tag, group_dst).wait()
        return
    g, x = world(group), value_of(tensor, "send")
    stage_messages(g, [(x, _peer(g, dst, group_dst, "send"), tag)], [])


def recv(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive into a tensor; the rank that sent. One that keeps its value: ``irecv(x).value()``."""
    place = Place(tensor, "recv")
    if not place.writes:
        kept([place], "recv", "x = irecv(x, src).value()")
        raise TypeError("recv fills a tensor, and this one keeps its value; write irecv(x).value()")
    if modes.stage is None:
        work = _receive(tensor, place, src, group, tag, group_src)
        work.wait()
        return work.source_rank()
    g, x = world(group), value_of(tensor, "recv")
    peer = _source(g, src, group_src)
    if peer is None:
        refuse_staging(modes.stage, "recv from any rank")
    place.filled(stage_messages(g, [], [(x, peer, tag)])[0])  # type: ignore[list-item]
    return g.ranks[peer]  # type: ignore[index]


class P2POp:
    """A message for ``batch_isend_irecv``.

    Args:
        op: ``isend`` or ``irecv``.
        tensor: what is sent or filled.
        peer: the other rank's number in the world; ``group_peer``: in the group.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if getattr(op, "__name__", "") not in ("isend", "irecv"):
            raise ArgumentError(f"P2POp: op is isend or irecv, not {op!r}")
        self.op, self.tensor, self.group, self.tag = op, tensor, world(group), tag
        self.group_peer = _peer(self.group, peer, group_peer, "P2POp")
        self.peer = self.group.ranks[self.group_peer]

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, peer={self.peer}, group={self.group!r})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin messages in both directions together; their works."""
    if not p2p_op_list or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ArgumentError("batch_isend_irecv: expected a list of P2POp, with at least one")
    if modes.stage is not None:
        return _staged(p2p_op_list)
    works = []
    for p in p2p_op_list:
        other = "group_dst" if p.op.__name__ == "isend" else "group_src"
        works.append(p.op(p.tensor, group=p.group, tag=p.tag, **{other: p.group_peer}))
    return works


def _staged(ops: list[P2POp]) -> list[Work]:
    """The same in a function that is being staged: one node for a group, and its works are done."""
    g = ops[0].group
    if any(p.group is not g for p in ops):
        refuse_staging(modes.stage, "batch_isend_irecv among several groups")
    sends = [p.op.__name__ == "isend" for p in ops]
    places = [Place(p.tensor, "recv") for p in ops]
    ends = [(value_of(p.tensor, p.op.__name__), p.group_peer, p.tag) for p in ops]
    going = [end for end, is_sent in zip(ends, sends) if is_sent]
    coming = [end for end, is_sent in zip(ends, sends) if not is_sent]
    found = iter(stage_messages(g, going, coming))
    return [
        Work.complete(
            g, "send" if is_sent else "recv", None if is_sent else place.filled(next(found))
        )
        for place, is_sent in zip(places, sends)
    ]


# objects, which travel pickled --------------------------------------------------------------------


def _now(group: ProcessGroup, key: tuple[Any, ...], steps: Steps) -> Any:
    """Arrays, at once."""
    whole = exchange.checked(group, key, steps)
    return Work(group, key[0], whole, lambda x: x).begin().value()


def _pickled(thing: Any) -> Array:
    return np.frombuffer(pickle.dumps(thing), np.uint8)


def _padded(x: Array, size: int) -> Array:
    out = np.zeros(size, np.uint8)
    out[: x.size] = x
    return out


def _unpickled(parts: Any, sizes: Any) -> list[Any]:
    return [pickle.loads(part[:n].tobytes()) for part, n in zip(parts, sizes)]


def _root(group: ProcessGroup, rank: int | None, within: int | None) -> int:
    """The number in the group; 0 if none is given."""
    if within is None:
        return 0 if rank is None else group.group_rank(rank)
    group.global_rank(within)
    return within


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """The objects of all ranks, into a list of as many. They are pickled: trust the other ranks."""
    g, x = world(group), _pickled(obj)
    if len(object_list) != g.size():
        raise ArgumentError(
            f"all_gather_object: a list of {len(object_list)}, and the group has {g.size()} ranks"
        )
    key = ("all_gather_object",)
    sizes = _now(g, key, exchange.gather_all(g, np.array([x.size]))).ravel()
    got = _now(g, key, exchange.gather_all(g, _padded(x, sizes.max())))
    object_list[:] = _unpickled(got, sizes)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """The objects of all ranks, into the list of rank ``dst``."""
    g, x = world(group), _pickled(obj)
    root = _root(g, dst, group_dst)
    here = g.rank() == root
    if here and (object_gather_list is None or len(object_gather_list) != g.size()):
        raise ArgumentError(f"gather_object: rank dst gives a list of {g.size()} entries")
    key = ("gather_object", f"dst={g.ranks[root]}")
    sizes = _now(g, key, exchange.gather_all(g, np.array([x.size]))).ravel()
    got = _now(g, key, exchange.gather_to(g, _padded(x, sizes.max()), root))
    if here and object_gather_list is not None:
        object_gather_list[:] = _unpickled(got, sizes)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """The objects of rank ``src``, into the lists of the others, which are as long."""
    g = world(group)
    root = _root(g, src, group_src)
    parts = [_pickled(obj) for obj in object_list] if g.rank() == root else []
    sizes = np.array([p.size for p in parts] or [0] * len(object_list), np.int64)
    key = ("broadcast_object_list", len(object_list), f"src={g.ranks[root]}")
    sizes = _now(g, key, exchange.broadcast(g, sizes, root))
    whole = np.concatenate(parts) if parts else np.zeros(sizes.sum(), np.uint8)
    whole = _now(g, key, exchange.broadcast(g, whole, root))
    if g.rank() != root:
        object_list[:] = _unpickled(np.split(whole, np.cumsum(sizes)[:-1]), sizes)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Of the objects that rank ``src`` lists, this rank's, into the first entry of a list."""
    g = world(group)
    root = _root(g, src, group_src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ArgumentError("scatter_object_list: the output is a list with at least one entry")
    sizes, parts = np.zeros(g.size(), np.int64), None
    if g.rank() == root:
        if scatter_object_input_list is None or len(scatter_object_input_list) != g.size():
            raise ArgumentError(f"scatter_object_list: rank src gives a list of {g.size()} entries")
        pickled = [_pickled(obj) for obj in scatter_object_input_list]
        sizes = np.array([p.size for p in pickled])
        parts = np.stack([_padded(p, sizes.max()) for p in pickled])
    key = ("scatter_object_list", f"src={g.ranks[root]}")
    sizes = _now(g, key, exchange.broadcast(g, sizes, root))
    got = _now(g, key, exchange.scatter(g, parts, np.empty(sizes.max(), np.uint8), root))
    scatter_object_output_list[0] = _unpickled([got], [sizes[g.rank()]])[0]


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to a rank, which calls ``recv_object_list`` with a list as long."""
    parts = [_pickled(obj) for obj in object_list]
    send(new_tensor(np.array([p.size for p in parts], np.int64)), dst, group, 0, group_dst)
    send(new_tensor(np.concatenate(parts)), dst, group, 0, group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects into a list; the rank that sent them."""
    g = world(group)
    sizes = np.zeros(len(object_list), np.int64)
    work = received(sizes, lambda x: x, g, _source(g, src, group_src), 0)
    work.wait()
    whole = np.empty(sizes.sum(), np.uint8)
    received(whole, lambda x: x, g, _source(g, work.source_rank(), None), 0).wait()
    object_list[:] = _unpickled(np.split(whole, np.cumsum(sizes)[:-1]), sizes)
    return work.source_rank()
