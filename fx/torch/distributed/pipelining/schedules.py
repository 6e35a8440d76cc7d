"""``torch.distributed.pipelining.schedules``: the schedules, and one by its name."""

from fx.distributed.pipelining import schedules as _schedules
from fx.torch._absent import refusing

_SAME = """
    PipelineScheduleMulti PipelineScheduleSingle Schedule1F1B ScheduleGPipe ScheduleInterleaved1F1B
    ScheduleInterleavedZeroBubble ScheduleLoopedBFS ScheduleZBVZeroBubble get_schedule_class"""

globals().update({_name: getattr(_schedules, _name) for _name in _SAME.split()})

__getattr__ = refusing("distributed.pipelining.schedules")
