"""``torch.distributed.rpc``: functions that run in other workers."""

from fx.distributed import rpc as _rpc
from fx.torch._absent import refusing
from fx.torch.distributed.rpc import functions as functions

_SAME = """
    BackendType Future RpcBackendOptions RRef TensorPipeRpcBackendOptions WorkerInfo get_rpc_timeout
    get_worker_info init_rpc remote rpc_async rpc_sync shutdown"""

globals().update({_name: getattr(_rpc, _name) for _name in _SAME.split()})
_set_rpc_timeout = _rpc.set_rpc_timeout


def is_available() -> bool:
    """True: calls need Python alone."""
    return True


__getattr__ = refusing("distributed.rpc")
