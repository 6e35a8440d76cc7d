"""How many messages of which kind a block sends: ``CommDebugMode``.

Eager messages are noted where they begin: those of meshes by the names of PyTorch's functional
collectives, those of groups by the names under ``c10d``. Compiled code counts its own in the slots
of the flight recorder, without their kind.

Source: ``torch.distributed.tensor.debug.CommDebugMode``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from fx.distributed import recorder

COMPILED = "fx.compiled"  # a message of compiled code, of any kind
_OF_GROUPS = {
    "all_gather": "c10d.allgather_",
    "all_gather_into_tensor": "c10d._allgather_base_",
    "all_reduce": "c10d.allreduce_",
    "all_to_all": "c10d.alltoall_",
    "all_to_all_single": "c10d.alltoall_base_",
    "broadcast": "c10d.broadcast_",
    "gather": "c10d.gather_",
    "gradients": "c10d.allreduce_",
    "recv": "c10d.recv_",
    "reduce": "c10d.reduce_",
    "reduce_scatter": "c10d.reduce_scatter_",
    "reduce_scatter_tensor": "c10d._reduce_scatter_base_",
    "scatter": "c10d.scatter_",
    "send": "c10d.send",
}
modes: list[CommDebugMode] = []  # whose blocks are open


def note(name: str) -> None:
    """A message begins."""
    for mode in modes:
        mode.comm_counts[name] += 1


def note_of_group(what: str) -> None:
    """A collective of a group begins; nobody counts a barrier."""
    if what != "barrier":
        note(_OF_GROUPS.get(what, f"fx.{what}"))


class CommDebugMode:
    """A block whose messages are counted, by the names that PyTorch's operators have.

    Messages of compiled code count as ``fx.compiled``: it does not say of which kind they are. The
    comparison with which a compiled function begins is one of them.

    Example:
        >>> import fx, fx.distributed as dist
        >>> from fx.torch.distributed.tensor.debug import CommDebugMode
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = dist.distribute_tensor(fx.ones(4), mesh, [dist.Shard(0)], src_data_rank=None)
        >>> with CommDebugMode() as comm_mode:
        ...     whole = (x + 1).full_tensor()
        >>> comm_mode.get_total_counts(), dict(comm_mode.get_comm_counts())
        (1, {'c10d_functional.all_gather_into_tensor': 1})
    """

    def __init__(self) -> None:
        self.comm_counts: defaultdict[str, int] = defaultdict(int)
        self._before: dict[str, int] = {}

    def get_total_counts(self) -> int:
        """How many messages were sent."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self) -> dict[str, int]:
        """How many of each kind; 0 of those that were not."""
        return self.comm_counts

    def __enter__(self) -> CommDebugMode:
        self.comm_counts.clear()
        self._before = recorder.sent_by_compiled()
        modes.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        modes.remove(self)
        for group, count in recorder.sent_by_compiled().items():
            before = self._before.get(group, 0)
            if count != before:  # a group that moved to other communicators begins anew
                self.comm_counts[COMPILED] += count - before if count > before else count

    def __repr__(self) -> str:
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"CommDebugMode has no {name}: fx counts messages, not the modules that send them; "
            f"write get_comm_counts()"
        )
