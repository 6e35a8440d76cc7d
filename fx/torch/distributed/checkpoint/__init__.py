"""``torch.distributed.checkpoint``: folders that all ranks save into, and load from."""

from fx.distributed.checkpoint import FileSystemReader as FileSystemReader
from fx.distributed.checkpoint import FileSystemWriter as FileSystemWriter
from fx.distributed.checkpoint import async_save as async_save
from fx.distributed.checkpoint import load as load
from fx.distributed.checkpoint import save as save
