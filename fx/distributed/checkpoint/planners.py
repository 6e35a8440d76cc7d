"""Planners, as scripts hand them over: what is read and written is planned in ``plan.py`` anyway.

Source: ``torch.distributed.checkpoint.default_planner``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from fx.errors import ArgumentError

T = TypeVar("T")


@dataclass
class DefaultSavePlanner:
    """How ``save`` plans; every option is accepted, and changes no value that is saved.

    Args:
        flatten_state_dict, flatten_sharded_tensors: a state is always saved by the paths in it.
        dedup_replicated_tensors: what all ranks have alike is always written once.
        dedup_save_to_lowest_rank: by the rank that writes least so far.
        enable_plan_caching: a plan is made for each save.

    Example:
        >>> import fx, tempfile
        >>> from fx.distributed import checkpoint
        >>> folder, planner = tempfile.mkdtemp(), checkpoint.DefaultSavePlanner()
        >>> manifest = checkpoint.save({"epoch": 3}, checkpoint_id=folder, planner=planner)
        >>> [entry.name for entry in manifest.entries]
        ['epoch']
    """

    flatten_state_dict: bool = True
    flatten_sharded_tensors: bool = True
    dedup_replicated_tensors: bool | None = None
    dedup_save_to_lowest_rank: bool = False
    enable_plan_caching: bool = False


@dataclass
class DefaultLoadPlanner:
    """How ``load`` plans.

    Args:
        flatten_state_dict, flatten_sharded_tensors: a state is always loaded by the paths in it.
        allow_partial_load: leave what the checkpoint does not hold as it is.

    Example:
        >>> import fx, tempfile
        >>> from fx.distributed import checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> manifest = checkpoint.save({"epoch": 3}, checkpoint_id=folder)
        >>> state = {"epoch": 0, "best": 1.5}
        >>> planner = checkpoint.DefaultLoadPlanner(allow_partial_load=True)
        >>> checkpoint.load(state, checkpoint_id=folder, planner=planner)
        >>> state
        {'epoch': 3, 'best': 1.5}
    """

    flatten_state_dict: bool = True
    flatten_sharded_tensors: bool = True
    allow_partial_load: bool = False


def checked(what: str, planner: Any, kind: type[T]) -> T:
    """The planner that is meant; None means that of no options.

    Raises:
        ArgumentError: of another class, whose methods nobody would call.
    """
    if planner is None:
        return kind()
    if type(planner) is not kind:
        raise ArgumentError(
            f"{what}: fx plans itself, and calls no method of {type(planner).__name__}; leave out "
            f"planner, or write {kind.__name__}()"
        )
    return planner
