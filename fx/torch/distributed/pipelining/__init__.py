"""``torch.distributed.pipelining``: a model in stages, and schedules of its micro-batches."""

from fx.distributed import pipelining as _pipelining
from fx.torch._absent import refusing

_SAME = """
    Pipe PipelineStage Schedule1F1B ScheduleGPipe ScheduleInterleaved1F1B
    ScheduleInterleavedZeroBubble ScheduleLoopedBFS ScheduleZBVZeroBubble SplitPoint build_stage
    pipe_split pipeline"""

globals().update({_name: getattr(_pipelining, _name) for _name in _SAME.split()})

__getattr__ = refusing("distributed.pipelining")
