"""``torch.distributed.checkpoint``: folders that all ranks save into, and load from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from fx.distributed.checkpoint import DefaultLoadPlanner as DefaultLoadPlanner
from fx.distributed.checkpoint import DefaultSavePlanner as DefaultSavePlanner
from fx.distributed.checkpoint import FileSystemReader as FileSystemReader
from fx.distributed.checkpoint import FileSystemWriter as FileSystemWriter
from fx.distributed.checkpoint import async_save as async_save
from fx.distributed.checkpoint import load as load
from fx.distributed.checkpoint import (
    load_sharded_optimizer_state_dict as load_sharded_optimizer_state_dict,
)
from fx.distributed.checkpoint import save as save
from fx.errors import ArgumentError
from fx.torch._absent import refusing


def save_state_dict(
    state_dict: Mapping[str, Any],
    storage_writer: FileSystemWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> Any:
    """``save`` by its older name and arguments; rank 0 writes the manifest.

    Example:
        >>> import fx, tempfile
        >>> import fx.torch.distributed.checkpoint as dcp
        >>> folder = tempfile.mkdtemp()
        >>> manifest = dcp.save_state_dict({"x": 1}, dcp.FileSystemWriter(folder), no_dist=True)
        >>> state = {"x": 0}
        >>> dcp.load_state_dict(state, dcp.FileSystemReader(folder), no_dist=True)
        >>> state
        {'x': 1}
    """
    _older("save", coordinator_rank)
    return save(
        state_dict,
        storage_writer=storage_writer,
        planner=planner,
        process_group=process_group,
        no_dist=no_dist,
    )


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: FileSystemReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> None:
    """``load`` by its older name and arguments, as ``save_state_dict`` shows."""
    _older("load", coordinator_rank)
    load(
        state_dict,
        storage_reader=storage_reader,
        planner=planner,
        process_group=process_group,
        no_dist=no_dist,
    )


def _older(name: str, coordinator: int) -> None:
    if coordinator:
        raise ArgumentError(
            f"{name}_state_dict: coordinator_rank={coordinator}: the first rank of a group writes "
            f"the manifest; leave it out"
        )
    warnings.warn(
        f"'{name}_state_dict' is deprecated and will be removed in future versions. Please use "
        f"'{name}' instead.",
        FutureWarning,
        stacklevel=3,
    )


__getattr__ = refusing("distributed.checkpoint")
