"""What ranks exchange apart from gradients: the values of parameters and buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.config import modes, no_grad
from fx.distributed import exchange, staged
from fx.distributed.errors import DistError
from fx.distributed.filling import array_of
from fx.distributed.messages import all_gather_object
from fx.distributed.work import Work
from fx.tensor import new_tensor

NAME = "DistributedDataParallel"


def now(group: Any, steps: Any) -> Any:
    """The result of an exchange."""
    return Work(group, NAME, steps, lambda out: out).begin().value()


def take(group: Any, cells: list[Any], root: int) -> None:
    """Give parameters and buffers the values of one rank."""
    if modes.stage is not None:
        values = [staged.value_of(c, NAME) for c in cells]
        for c, value in zip(cells, staged.broadcast_each(group, values, root)):
            with no_grad():
                c._renew("broadcast", value)
        return
    by_dtype: dict[Any, list[Any]] = {}
    for cell in cells:
        by_dtype.setdefault(cell._dtype, []).append(cell)
    for dtype, members in by_dtype.items():
        flat = np.concatenate([array_of(c, NAME).reshape(-1) for c in members])
        key = ("the module's values", np.dtype(dtype).name, flat.size)
        steps = exchange.checked(group, key, exchange.broadcast(group, flat, root))
        whole, at = now(group, steps), 0
        for c in members:
            at += c.size
            if group.rank() != root:
                with no_grad():
                    c._renew("broadcast", new_tensor(whole[at - c.size : at].reshape(c._shape)))


def same_models(group: Any, named: list[tuple[str, Any]]) -> None:
    """Refuse models whose parameters differ.

    Raises:
        DistError: naming the first difference.
    """
    mine = [(n, f"{p._dtype.name}{list(p._shape)}", p.requires_grad) for n, p in named]
    listed: list[Any] = [None] * group.size()
    all_gather_object(listed, mine, group)
    for rank, other in zip(group.ranks, listed):
        for a, b in zip(listed[0], other):
            if a != b:
                raise DistError(
                    f"the models differ: {a[0]} is {a[1]} in rank {group.ranks[0]}, and {b[0]} "
                    f"{b[1]} in rank {rank}" + (": one requires grad" if a[:2] == b[:2] else "")
                )
        if len(listed[0]) != len(other):
            raise DistError(
                f"the models differ: rank {group.ranks[0]} has {len(listed[0])} parameters, and "
                f"rank {rank} has {len(other)}"
            )
