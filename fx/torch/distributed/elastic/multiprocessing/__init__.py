"""``torch.distributed.elastic.multiprocessing``: how errors reach the launcher."""

from fx.torch._absent import refusing
from fx.torch.distributed.elastic.multiprocessing.errors import ChildFailedError as ChildFailedError
from fx.torch.distributed.elastic.multiprocessing.errors import ProcessFailure as ProcessFailure
from fx.torch.distributed.elastic.multiprocessing.errors import record as record

__getattr__ = refusing("distributed.elastic.multiprocessing")
