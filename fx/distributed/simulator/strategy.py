"""Strategies: how the ranks of a cluster share a step."""

from __future__ import annotations

from collections.abc import Callable

from fx.distributed.pipelining import orders
from fx.distributed.pipelining.actions import Order
from fx.errors import ArgumentError
from fx.slotted import slotted

SCHEDULES: dict[str, Callable[[int, int, int], Order]] = {
    "gpipe": orders.gpipe,
    "1f1b": orders.one_f_one_b,
    "interleaved": orders.interleaved,
    "zero_bubble": orders.interleaved_zero_bubble,
}


@slotted(frozen=True)
class Strategy:
    """How a step is shared. Ranks are numbered with ``tensor`` fastest, then ``data``.

    Attributes:
        data: replicas, each with its own part of the batch.
        tensor: ranks that share every layer.
        pipeline: stages.
        zero: what of a replica is cut into ``data`` parts: 0 nothing, 1 the optimizer's state, 2
            also gradients, 3 also parameters (FSDP).
        microbatches: parts of a replica's batch, one after the other.
        schedule: of a pipeline: ``"gpipe"``, ``"1f1b"``, ``"interleaved"``, ``"zero_bubble"``.
        virtual: stages of a rank, for the last two.
        bucket: bytes of gradients that are sent in one message; infinite for one message.
        overlap: whether messages pass while gradients are computed.
        recompute: keep the inputs of layers alone, and compute the rest again.
        exchanges: sums over ``tensor`` ranks of a layer's result, in each direction.

    Raises:
        ArgumentError: if a figure is not positive, or the schedule is none.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    zero: int = 0
    microbatches: int = 1
    schedule: str = "1f1b"
    virtual: int = 1
    bucket: float = 25 * 2**20
    overlap: bool = True
    recompute: bool = False
    exchanges: int = 1

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "pipeline", "microbatches", "virtual"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ArgumentError(f"Strategy: {name} is an int of 1 or more, got {value!r}")
        if self.zero not in (0, 1, 2, 3):
            raise ArgumentError(f"Strategy: zero is 0, 1, 2 or 3, got {self.zero!r}")
        if self.schedule not in SCHEDULES:
            raise ArgumentError(
                f"Strategy: schedule is one of {', '.join(SCHEDULES)}, got {self.schedule!r}"
            )
        if self.virtual > 1 and self.schedule in ("gpipe", "1f1b"):
            raise ArgumentError(f"Strategy: {self.schedule} has one stage a rank; write virtual=1")
        if not self.bucket > 0:
            raise ArgumentError(f"Strategy: bucket must be positive, got {self.bucket!r}")

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.data * self.tensor * self.pipeline

    @property
    def stages(self) -> int:
        """Of the pipeline, in all ranks."""
        return self.pipeline * self.virtual
