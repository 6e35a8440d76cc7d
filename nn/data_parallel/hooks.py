"""Communication hooks: how ``DistributedDataParallel`` sends its gradients.

Each takes its state and a ``GradBucket``, and gives a ``Future`` of what becomes of the bucket.
Those here keep no state between steps, so a compiled step can hold them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.config import modes
from fx.distributed import exchange, staged
from fx.distributed.filling import array_of
from fx.distributed.groups import world
from fx.distributed.reductions import ReduceOp
from fx.distributed.work import Future, Work
from fx.dtypes import bfloat16, float16
from fx.nn.data_parallel.buckets import GradBucket
from fx.tensor import Tensor, new_tensor

Hook = Callable[[Any, GradBucket], Future]


def summed(group: Any, x: Tensor) -> Future:
    """The sum of all ranks' ``x``, begun now; under ``jit`` a node."""
    group = world(group)
    if modes.stage is not None:
        return settled(group, staged.reduce_all(group, x, ReduceOp.SUM))
    array = array_of(x, "a communication hook")
    key = ("gradients", (array.dtype, array.shape))
    steps = exchange.checked(group, key, exchange.reduce_all(group, array, ReduceOp.SUM), True)
    work = Work(group, "gradients", steps, new_tensor, array.nbytes).begin()
    return work.get_future().then(lambda future: future.wait()[0])


def settled(group: Any, value: Tensor) -> Future:
    """A future that is there."""
    work = Work.complete(group, "gradients", value)
    return work.get_future().then(lambda future: future.wait()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean over the ranks: what happens without a hook.

    Args:
        process_group: the ranks; None: all.
    """
    group = world(process_group)
    return summed(group, bucket.buffer() / group.size())


def _compressed(process_group: Any, x: Tensor, dtype: Any) -> Future:
    group = world(process_group)
    sent = summed(group, x.astype(dtype) / group.size())
    return sent.then(lambda future: future.value().astype(x.dtype))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, sent as float16: half the bytes, three digits; beyond 65504 infinite."""
    return _compressed(process_group, bucket.buffer(), float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, sent as bfloat16: half the bytes, two digits, the range of float32."""
    return _compressed(process_group, bucket.buffer(), bfloat16)


def noop_hook(_: Any, bucket: GradBucket) -> Future:
    """Nothing is sent, each rank keeps its own: to see what the messages cost."""
    return settled(world(), bucket.buffer())


for _hook in (allreduce_hook, fp16_compress_hook, bf16_compress_hook, noop_hook):
    _hook.keeps_no_state = True  # type: ignore[attr-defined]


def _wrapper(hook: Hook, dtype: Any) -> Hook:
    def wrapped(state: Any, bucket: GradBucket) -> Future:
        given = bucket.buffer()
        bucket.set_buffer(given.astype(dtype))
        return hook(state, bucket).then(lambda future: future.value().astype(given.dtype))

    wrapped.keeps_no_state = getattr(hook, "keeps_no_state", False)  # type: ignore[attr-defined]
    return wrapped


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that another one's messages are float16 of."""
    return _wrapper(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that another one's messages are bfloat16 of."""
    return _wrapper(hook, bfloat16)
