"""Tensor parallel: modules whose parameters are cut along an axis of a mesh; see ``README.md``."""

from fx.distributed.parallel.loss import loss_parallel
from fx.distributed.parallel.plan import parallelize_module
from fx.distributed.parallel.styles import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel",
    "parallelize_module",
]  # fmt: skip
