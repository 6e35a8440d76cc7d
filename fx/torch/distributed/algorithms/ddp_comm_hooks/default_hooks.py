"""``torch.distributed.algorithms.ddp_comm_hooks.default_hooks``: hooks without a state."""

from fx.nn.data_parallel.hooks import allreduce_hook as allreduce_hook
from fx.nn.data_parallel.hooks import bf16_compress_hook as bf16_compress_hook
from fx.nn.data_parallel.hooks import bf16_compress_wrapper as bf16_compress_wrapper
from fx.nn.data_parallel.hooks import fp16_compress_hook as fp16_compress_hook
from fx.nn.data_parallel.hooks import fp16_compress_wrapper as fp16_compress_wrapper
