"""Pipelines: a model in stages, each in a rank, and schedules of what a rank does when.

The names are PyTorch's (``torch.distributed.pipelining``); ``README.md`` says how it works.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "actions": "Action",
    "proof": "Proof prove",
    "microbatches": "TensorChunkSpec split_args_kwargs_into_chunks merge_chunks",
    "stage": "PipelineStage",
    "cutting": "pipe_split",
    "splitting": "Pipe SplitPoint pipeline build_stage split_evenly",
    "schedules": """
        ScheduleGPipe Schedule1F1B ScheduleInterleaved1F1B ScheduleLoopedBFS
        ScheduleInterleavedZeroBubble ScheduleZBVZeroBubble get_schedule_class
        PipelineScheduleSingle PipelineScheduleMulti""",
}
_LAZY = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_LAZY)
