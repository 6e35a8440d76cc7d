"""``torch.distributed.collective_utils``: objects, or an error, for all ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fx.distributed.errors import DistError
from fx.distributed.groups import world
from fx.distributed.messages import all_gather_object, broadcast_object_list

__all__ = ["SyncPayload", "all_gather", "all_gather_object_enforce_type", "broadcast"]

T = TypeVar("T")


@dataclass
class SyncPayload(Generic[T]):
    """What a rank tells the others: a value, or how it failed."""

    stage_name: str | None
    success: bool
    payload: T | None
    exception: Exception | None = None


def _told(given: Any, stage_name: str | None, success: bool = True) -> SyncPayload[Any]:
    """A value, or what a function gives or raises."""
    if not callable(given):
        return SyncPayload(stage_name, success, given)
    try:
        return SyncPayload(stage_name, success, given())
    except Exception as error:
        return SyncPayload(stage_name, False, None, error)


def broadcast(
    data_or_fn: T | Callable[[], T],
    *,
    success: bool = True,
    stage_name: str | None = None,
    rank: int = 0,
    pg: Any = None,
) -> T:
    """What one rank has, or a function gives there: all get it, or all raise what it raised.

    Args:
        data_or_fn: the value, or a function without arguments.
        success: False, with None: all raise.
        stage_name: what it is for, in the message.
        rank: whose value it is, by its number in the group.
        pg: the ranks; None: this one alone.

    Raises:
        RuntimeError: in all ranks, from what the function raised.

    Example:
        >>> from fx.torch.distributed.collective_utils import broadcast
        >>> broadcast(lambda: 3)
        3
    """
    if not success and data_or_fn is not None:
        raise AssertionError("broadcast(success=False): data_or_fn must be None")
    mine = rank == 0 if pg is None else world(pg).rank() == rank
    told = (
        _told(data_or_fn, stage_name, success) if mine else SyncPayload(stage_name, success, None)
    )
    if pg is not None:
        held = [told]
        broadcast_object_list(held, group=pg, group_src=rank)
        told = held[0]
    if not told.success:
        stage = "" if stage_name is None else f": stage {told.stage_name}"
        cause = "" if told.exception is None else f": exception {told.exception}"
        raise DistError(f"Rank {rank} failed{stage}{cause}") from told.exception
    return told.payload  # type: ignore[return-value]


def all_gather(
    data_or_fn: T | Callable[[], T], stage_name: str | None = None, pg: Any = None
) -> list[T]:
    """What each rank has, or a function gives there, in the order of ranks.

    Args:
        data_or_fn: the value, or a function without arguments.
        stage_name: what it is for, the same in all ranks.
        pg: the ranks; None: this one alone.

    Raises:
        RuntimeError: in all ranks, if a function raised in one, or stages differ.

    Example:
        >>> from fx.torch.distributed.collective_utils import all_gather
        >>> all_gather(3)
        [3]
    """
    told = _told(data_or_fn, stage_name)
    if pg is None:
        if not told.success:
            raise DistError(f"all_gather failed with exception {told.exception}") from (
                told.exception
            )
        return [told.payload]  # type: ignore[list-item]
    listed: list[Any] = [None] * world(pg).size()
    all_gather_object_enforce_type(pg, listed, told)
    stage = listed[0].stage_name
    other = [f"rank {i}: {each.stage_name}" for i, each in enumerate(listed)
             if each.stage_name != stage]  # fmt: skip
    failed = [(i, each.exception) for i, each in enumerate(listed) if not each.success]
    if other:
        raise DistError(f"all_gather: rank 0 is at stage {stage}, and {', '.join(other)}")
    if failed:
        raise DistError("all_gather", failed) from failed[0][1]
    return [each.payload for each in listed]


def all_gather_object_enforce_type(
    pg: Any,
    object_list: list[Any],
    obj: Any,
    type_checker: Callable[[Any, Any], bool] = lambda x, y: type(x) is type(y),
) -> None:
    """``all_gather_object``, whose objects must be of one type.

    Args:
        pg: the ranks.
        object_list: filled with the objects, as long as there are ranks.
        obj: that of this rank.
        type_checker: whether two objects go together.

    Raises:
        TypeError: in all ranks, if one is of another type than rank 0's.
    """
    all_gather_object(object_list, obj, group=pg)
    for i, each in enumerate(object_list[1:], 1):
        if not type_checker(object_list[0], each):
            raise TypeError(
                f"Object type at index {i} is {type(each)}, while first object type is "
                f"{type(object_list[0])}"
            )
