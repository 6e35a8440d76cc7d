"""Plain tensors that meet tensors of a mesh, where a program says that all ranks have the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fx.config import modes
from fx.distributed.placed import DEVICE


@contextmanager
def implicit_replication() -> Iterator[None]:
    """Where plain tensors that meet tensors of a mesh count as replicated, in this thread.

    Outside of it such a call is refused, as a plain tensor may differ from rank to rank. Nothing is
    sent and nothing is compared: that all ranks have the same is the program's word.

    Example:
        >>> import fx
        >>> import fx.distributed as dist
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = dist.distribute_tensor(fx.ones(3), mesh, [dist.Shard(0)])
        >>> with dist.implicit_replication():
        ...     (x + fx.tensor([1.0, 2.0, 3.0])).full_tensor()
        tensor([2., 3., 4.])
    """
    before, modes.joined = modes.joined, DEVICE
    try:
        yield
    finally:
        modes.joined = before
