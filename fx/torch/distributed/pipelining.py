"""``torch.distributed.pipelining``: a model in stages, and schedules of its micro-batches."""

from fx.distributed import pipelining as _pipelining

globals().update({_name: getattr(_pipelining, _name) for _name in dir(_pipelining)})
