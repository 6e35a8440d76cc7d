"""Where scripts of PyTorch find ``context_parallel_unshard``."""

from fx.distributed.context import context_parallel, context_parallel_unshard
from fx.torch._absent import refusing

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


def set_rotate_method(rotate_method: str) -> None:
    """``"allgather"`` or ``"alltoall"``: the same numbers; parts go from rank to rank in either.

    Example:
        >>> set_rotate_method("alltoall")
    """
    if rotate_method not in ("allgather", "alltoall"):
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method}")


__getattr__ = refusing("distributed.tensor.experimental._attention")
