"""``torch.distributed.elastic.multiprocessing``: how errors reach the launcher."""

from fx.torch.distributed.elastic.multiprocessing.errors import record as record
