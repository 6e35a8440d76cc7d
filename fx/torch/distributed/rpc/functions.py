"""``torch.distributed.rpc.functions``: functions that answer later."""

from fx.distributed.calls import async_execution

__all__ = ["async_execution"]
