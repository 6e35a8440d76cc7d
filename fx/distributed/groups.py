"""Groups of ranks: the world, what is cut of it, and who is in which."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from fx.distributed import mpi
from fx.distributed.errors import DistError, DistStoreError
from fx.distributed.timeouts import span
from fx.errors import ArgumentError
from fx.frames import user_line

default_pg_timeout = timedelta(minutes=30)


class ProcessGroup:
    """Ranks that compute together. ``new_group`` makes one, ``init_process_group`` the first.

    Its numbers of ranks are its own, from 0; ``ranks`` has those of the world.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        rank: int,
        comm: Any,
        backend: str,
        timeout: timedelta,
        name: str,
        desc: str = "",
    ) -> None:
        self.ranks = tuple(ranks)
        self.comm = comm  # an MPI.Comm; None of a group that only has shapes
        self.backend = backend
        self.timeout = timeout
        self.group_name = name
        self.group_desc = desc or name
        self.bound_device_id = None
        self._rank = rank
        self.apart: Any = None  # a communicator for steps whose order between calls is not fixed
        self.closed = False
        self.asked = 0  # calls whose like in the other ranks was looked for
        self.spoiled = 0  # the last of them that did not fit while its data was under way
        self._left: list[Any] = []  # what MPI may still read and write for ever
        self.ordered = False  # whether all sums are fx's own
        self.calls = 0  # collectives by messages so far: the same number in all ranks
        self.pending: set[Any] = set()  # works that MPI still reads and writes memory for
        self.store: Any = None
        self.label = (
            ""  # of no other group in this process, and as a rule the same in all its ranks
        )
        self.axis: Any = None  # its ranks as compiled code knows them (``staged.py``)

    def rank(self) -> int:
        """This process's number in the group."""
        return self._rank

    def size(self) -> int:
        """How many ranks there are."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend."""
        return self.backend

    @property
    def seconds(self) -> float:
        """The timeout in seconds."""
        return self.timeout.total_seconds()

    def open(self) -> ProcessGroup:
        """Take the second communicator: every rank of the group does."""
        label = re.sub(r"\W", "_", self.group_name, flags=re.ASCII)
        again = _opened[label]  # code of a group that is closed may still be there, and name it
        _opened[label] += 1
        self.label = f"{label}.{again}" if again else label
        if self.comm is not None:
            self.apart = self.comm.Dup()
        return self

    def count(self) -> int:
        """The number of one more call."""
        self.asked += 1
        return self.asked

    def leave(self, number: int, moving: Any, comm: Any, apart: Any) -> None:
        """Go on by other communicators: on these is the data of a call that did not fit."""
        self._left.append((moving, self.comm, self.apart))
        self.comm, self.apart, self.spoiled, self.calls = comm, apart, number, 0
        if self.axis is not None:
            self.axis.move(comm, apart)

    def close(self) -> None:
        """Give the communicators back."""
        self.closed = True
        if self.axis is not None:
            self.axis.close()
        for comm in (self.apart, self.comm):
            if comm is not None:
                comm.Free()
        self.pending.clear()

    def global_rank(self, rank: int) -> int:
        """The number in the world of a number here."""
        if not 0 <= rank < len(self.ranks):
            raise ArgumentError(f"{self!r} has no rank {rank}; it has 0 to {len(self.ranks) - 1}")
        return self.ranks[rank]

    def group_rank(self, rank: int) -> int:
        """The number here of a number in the world."""
        if rank not in self.ranks:
            raise ArgumentError(
                f"Global rank {rank} is not part of group {self!r}; it has {list(self.ranks)}"
            )
        return self.ranks.index(rank)

    def __getattr__(self, name: str) -> Any:
        function = _FUNCTIONS.get(name)
        hint = f"; write {function}(..., group=group, async_op=True)" if function else ""
        raise AttributeError(f"'ProcessGroup' object has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        return f"ProcessGroup({self.group_name}: ranks {_listed(self.ranks)})"


_FUNCTIONS = {  # for what are methods of PyTorch's groups
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    **{name: name for name in ("broadcast", "reduce", "gather", "scatter", "reduce_scatter")},
    **{name: name for name in ("barrier", "monitored_barrier", "send", "recv")},
}


def _listed(ranks: tuple[int, ...]) -> str:
    if len(ranks) > 8 and ranks == tuple(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]} to {ranks[-1]}"
    return ", ".join(map(str, ranks))


class GroupMember:
    """What ``new_group`` gives to processes that are not in the group."""

    NON_GROUP_MEMBER = -100


class group:
    """``group.WORLD``: all ranks."""

    WORLD: ProcessGroup | None = None


class NotInGroup(DistError, ValueError):
    """This rank is not in the group whose collective it called; a ValueError, as in PyTorch."""


_groups: dict[str, ProcessGroup] = {}
_opened: Counter[str] = Counter()  # labels of groups that this process was in, also of closed ones
_made = 0  # groups since the world was made: the same number in all ranks, as all make them


def world(group_or_none: Any = None) -> ProcessGroup:
    """The group that is meant: the one that is given, else all ranks.

    Raises:
        ValueError: if there is none yet.
        NotInGroup: if this rank is not in it.
    """
    if group_or_none is None:
        if group.WORLD is None:
            raise ArgumentError(
                "Default process group has not been initialized, please make sure to call "
                "init_process_group."
            )
        return group.WORLD
    if isinstance(group_or_none, ProcessGroup):
        if group_or_none.closed:
            raise DistError(f"{group_or_none!r} is destroyed; make another one with new_group")
        return group_or_none
    if group_or_none == GroupMember.NON_GROUP_MEMBER:
        rank = "?" if group.WORLD is None else group.WORLD.rank()
        raise NotInGroup(
            f"rank {rank} does not belong to the group whose collective it calls at {user_line()}; "
            f"guard the line with `if fx.distributed.get_rank(group) >= 0:`"
        )
    raise TypeError(f"a group is what new_group gave, not {group_or_none!r}")


def is_initialized() -> bool:
    """Whether ``init_process_group`` was called."""
    return group.WORLD is not None


def set_world(made: ProcessGroup) -> None:
    """Let this be the group of all ranks."""
    global _made
    _made = 0
    group.WORLD = _groups[made.group_name] = made


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some ranks of the world. Every rank of the world calls it, with the same ranks.

    Args:
        ranks: numbers of the world; None: all.
        timeout: of its collectives; the world's if None.
        use_local_synchronization: only the members call it.
        sort_ranks: number them by their numbers in the world, not by their places in ``ranks``.

    Returns:
        The group; ``GroupMember.NON_GROUP_MEMBER`` in ranks that are not in it.

    Raises:
        ValueError: if ranks are not of the world, or named twice.
        DistStoreError: if a member does not come in time.
    """
    global _made
    whole = world()
    chosen = list(range(whole.size())) if ranks is None else [int(r) for r in ranks]
    if sort_ranks:
        chosen.sort()
    if len(chosen) > whole.size():
        raise ArgumentError(
            f"the new group's world size should be less or equal to the world size set by "
            f"init_process_group: {len(chosen)} ranks of a world of {whole.size()}"
        )
    late = whole.timeout if timeout is None else span(timeout, "new_group")
    wrong = [r for r in chosen if not 0 <= r < whole.size()]
    if wrong:
        raise ArgumentError(
            f"The new group's rank should be within the world_size set by init_process_group: "
            f"{wrong} of a world of {whole.size()}"
        )
    if len(set(chosen)) < len(chosen) or not chosen:
        raise ArgumentError(f"the ranks of a group are different ones, at least one: {chosen}")
    if use_local_synchronization:
        name = f"of {_listed(tuple(chosen))}"
        while name in _groups:
            name += "'"
    else:
        _made += 1
        name = str(_made)
    if whole.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    mine, comm = chosen.index(whole.rank()), None
    if whole.comm is not None:
        meet(whole, chosen, late.total_seconds(), f"new_group({chosen})")
        members = whole.comm.Get_group().Incl(chosen)
        comm = whole.comm.Create_group(members, tag=_TAG)
    made = ProcessGroup(
        chosen, mine, comm, backend or whole.backend, late, name, group_desc or ""
    ).open()
    made.ordered = whole.ordered
    _groups[name] = made
    return made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """The world in groups of ``group_size`` (None: the ranks of one machine); mine, and all."""
    whole = world(group)
    size = group_size or int(os.environ.get("LOCAL_WORLD_SIZE", whole.size()))
    if size <= 0:
        raise ArgumentError(f"The arg 'group_size' ({size}) must be positive")
    if whole.size() < size or whole.size() % size:
        raise ArgumentError(
            f"The world size ({whole.size()}) must be divisible by 'group_size={size}'"
        )
    ranks = whole.ranks
    cut = [list(ranks[i : i + size]) for i in range(0, len(ranks), size)]
    return new_subgroups_by_enumeration(cut, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of these ranks, none of which is in two; mine (or None), and all."""
    if not ranks_per_subgroup_list:
        raise ArgumentError("The arg 'ranks_per_subgroup_list' cannot be empty")
    listed = [r for ranks in ranks_per_subgroup_list for r in ranks]
    twice = {r for r in listed if listed.count(r) > 1}
    if twice:
        raise ArgumentError(f"The new subgroups are not disjoint: {sorted(twice)} are in several")
    made = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        for ranks in ranks_per_subgroup_list
    ]
    mine = [g for g in made if isinstance(g, ProcessGroup)]
    return (mine[0] if mine else None), made


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> Any:
    """The part of a group, whose ranks are listed by their numbers in it, that this rank is in.

    All ranks of the parent call it; None for those that no part names.
    """
    parent = world(parent_pg)
    if not split_ranks:
        raise ArgumentError("split_ranks cannot be None")
    whole = world()
    made = None
    for part in split_ranks:
        ranks = [parent.global_rank(r) for r in part]
        if whole.rank() in ranks:
            made = new_group(
                ranks, timeout, backend, None, use_local_synchronization=True, group_desc=group_desc
            )
    return made


def destroy_process_group(group_or_none: Any = None) -> None:
    """End a group; without one all of them. Every rank of it calls this."""
    if group_or_none == GroupMember.NON_GROUP_MEMBER:
        return
    ended = group.WORLD if group_or_none is None else group_or_none
    ended = ended if isinstance(ended, ProcessGroup) else world(ended)
    everything = ended is group.WORLD
    for name, each in list(_groups.items()):
        if each is ended or everything:
            each.close()
            del _groups[name]
    if everything:
        group.WORLD = None


# questions ----------------------------------------------------------------------------------------


def get_rank(group: Any = None) -> int:
    """This process's number in a group; -1 if it is not in it."""
    return -1 if group == GroupMember.NON_GROUP_MEMBER else world(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many ranks a group has; -1 if this process is not in it."""
    return -1 if group == GroupMember.NON_GROUP_MEMBER else world(group).size()


def get_backend(group: Any = None) -> str:
    """What was asked for: ``"gloo"``, ``"mpi"``, ``"ray"`` or ``"fake"``."""
    return world(group).backend


def get_backend_config(group: Any = None) -> str:
    """The backend by the device."""
    return f"cpu:{world(group).backend}"


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The members, by their numbers in the world."""
    return list(world(group).ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The number in the world of a rank of a group."""
    return world(group).global_rank(group_rank)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number in a group of a rank of the world."""
    return world(group).group_rank(global_rank)


def get_pg_count() -> int:
    """How many groups there are."""
    return len(_groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number among the ranks of this machine, which the launcher told in ``LOCAL_RANK``."""
    told = os.environ.get("LOCAL_RANK")
    if told is not None:
        return int(told)
    if fallback_rank is not None:
        return int(fallback_rank)
    raise DistError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank, or start the "
        "program with python -m fx.run"
    )


# meeting, where some may not come -----------------------------------------------------------------

_TAG = 1 << 14


def meet(
    whole: ProcessGroup, ranks: Sequence[int], seconds: float, what: str, every: bool = True
) -> None:
    """Wait until all of some ranks are here; the first of them learns who is missing.

    Args:
        ranks: numbers in ``whole``, whose first waits for the others.
        every: wait for all before saying who is missing, not for the first alone.

    Raises:
        DistStoreError: in the first, naming the ranks that did not come; in the others, if the
            first did not answer.
    """
    import numpy as np

    mine, first = whole.rank(), ranks[0]
    token, comm = [np.zeros(1, np.uint8) for _ in ranks], whole.apart
    if mine != first:
        comm.Isend(token[0], first, _TAG)
        answer = comm.Irecv(token[1], first, _TAG + 1)
        if not mpi.wait(answer.Test, seconds):
            answer.Cancel()
            raise DistStoreError(
                f"{what} at {user_line()}: rank {whole.ranks[first]} did not answer rank "
                f"{whole.ranks[mine]} within {seconds:g} s"
            )
        return
    asked = {r: comm.Irecv(token[i], r, _TAG) for i, r in enumerate(ranks) if r != first}
    mpi.wait(lambda: all(a.Test() for a in asked.values()), seconds)
    missing = {r: a for r, a in asked.items() if not a.Test()}
    if missing:
        for a in missing.values():
            a.Cancel()
        late = [whole.ranks[r] for r in missing]
        named = late if every else late[:1]
        raise DistStoreError(
            f"{what} at {user_line()}: rank {', '.join(map(str, named))} did not come within "
            f"{seconds:g} s"
        )
    for r in asked:
        comm.Isend(token[0], r, _TAG + 1)
