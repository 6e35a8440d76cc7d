"""Uneven inputs: what ranks with different numbers of batches tell each other before each pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.distributed import exchange
from fx.distributed.errors import DistError
from fx.distributed.reductions import ReduceOp
from fx.distributed.uneven import EXHAUSTED, JoinHook
from fx.nn.data_parallel.values import now, take


class Joining:
    """A block of ``DistributedDataParallel.join``."""

    def __init__(self, model: Any, by_all: bool, throws: bool) -> None:
        self.model, self.by_all, self.throws = model, by_all, throws
        self.group = model.process_group
        self.first, self.passes = 0, 0

    def tell(self, syncs: bool) -> None:
        """This rank begins a pass."""
        self.passes += 1
        self._agree(1, syncs)

    def _agree(self, goes_on: int, syncs: bool) -> tuple[int, bool]:
        """How many ranks go on, and whether they average."""
        size, rank = self.group.size(), self.group.rank()
        mine = np.zeros((2, size), np.int64)
        mine[:, rank] = goes_on, syncs
        told = now(self.group, exchange.reduce_all(self.group, mine, ReduceOp.SUM))
        going = np.flatnonzero(told[0])
        if self.throws and 0 < len(going) < size:
            raise DistError(EXHAUSTED if goes_on else f"Rank {rank} exhausted all inputs.")
        if len(going):
            self.first = int(going[-1])
        self.model._reducer.divisor = None if self.by_all else max(len(going), 1)
        return len(going), bool(told[1].any())

    def shadow(self) -> None:
        """This rank is through: take part in what others do, then take the last one's values."""
        while self.follow():
            pass
        self.finish()

    def follow(self) -> bool:
        """Take part in one pass of the others; False where there is none."""
        model = self.model
        going, syncs = self._agree(0, False)
        if not going:
            return False
        if model.require_forward_param_sync and model.broadcast_buffers:
            take(self.group, model._synced(), self.first)
        if syncs:
            model._reducer.shadow(takes=model.gradient_as_bucket_view)
        return True

    def finish(self) -> None:
        """Take the values of the rank with the most passes."""
        model = self.model
        size, rank = self.group.size(), self.group.rank()
        last = now(
            self.group,
            exchange.reduce_all(self.group, np.array([self.passes * size + rank]), ReduceOp.MAX),
        )
        named = [p for n, p in model.module.named_parameters() if n not in model._ignored]
        take(self.group, named + model._synced(), int(last[0]) % size)


class Hook(JoinHook):
    """``DistributedDataParallel`` in a block of ``Join``."""

    def __init__(self, joining: Joining) -> None:
        self.joining = joining

    def main_hook(self) -> None:
        """Take part in one pass of the others."""
        self.joining.follow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take the values of the rank with the most passes."""
        self.joining.finish()
