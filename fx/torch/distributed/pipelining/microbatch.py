"""``torch.distributed.pipelining.microbatch``: batches cut, and results put together."""

from fx.distributed.pipelining.microbatches import TensorChunkSpec as TensorChunkSpec
from fx.distributed.pipelining.microbatches import merge_chunks as merge_chunks
from fx.distributed.pipelining.microbatches import (
    split_args_kwargs_into_chunks as split_args_kwargs_into_chunks,
)
