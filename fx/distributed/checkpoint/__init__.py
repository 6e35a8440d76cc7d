"""Checkpoints of a state that lies in several ranks: saved together, loaded on any number of ranks.

Names are PyTorch's (``torch.distributed.checkpoint``); ``README.md`` says what a folder holds.
"""

from __future__ import annotations

from fx.distributed.checkpoint.entries import Shard as Shard
from fx.distributed.checkpoint.loading import FileSystemReader as FileSystemReader
from fx.distributed.checkpoint.loading import RandomState as RandomState
from fx.distributed.checkpoint.loading import load as load
from fx.distributed.checkpoint.loading import (
    load_sharded_optimizer_state_dict as load_sharded_optimizer_state_dict,
)
from fx.distributed.checkpoint.loading import whole_state as whole_state
from fx.distributed.checkpoint.manifest import Manifest as Manifest
from fx.distributed.checkpoint.planners import DefaultLoadPlanner as DefaultLoadPlanner
from fx.distributed.checkpoint.planners import DefaultSavePlanner as DefaultSavePlanner
from fx.distributed.checkpoint.saving import FileSystemWriter as FileSystemWriter
from fx.distributed.checkpoint.saving import async_save as async_save
from fx.distributed.checkpoint.saving import save as save
