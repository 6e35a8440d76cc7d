"""Parameters: what their views see of what becomes of them.

A parameter is a cell of the user's. A write into it, or into what is cut of it, is seen by all of
its views; a step of an optimizer by all but those that ``detach()`` and ``state_dict()`` gave,
which keep what they show until the next write.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

from fx.config import modes, writing
from fx.errors import InPlaceError
from fx.handles import Data
from fx.levels import Tracer
from fx.prims.compare import stop_gradient
from fx.state import Cell
from fx.tape import CELL
from fx.tensor import Tensor
from fx.writing import host
from fx.writing.inplace import user_writes
from fx.writing.noting import behind, link, start
from fx.writing.records import Family, origins, view_of
from fx.writing.storing import left, refresh
from fx.writing.written import begin, keep_histories

_TURNS = frozenset(("t_", "transpose_", "swapaxes_", "swapdims_"))


def seen(rebinding: Callable[..., Any]) -> Callable[..., Any]:
    """A write into a parameter, which its views see where the user's module writes."""

    def _renew(self: Any, operation: str, value: Any) -> Any:
        if operation in _TURNS and isinstance(self, Data):
            raise InPlaceError(
                f"{operation} on {self.name} would turn the parameter itself, where PyTorch turns "
                f"the tensor that p.data gave; write v = p.data.{operation[:-1]}(...)"
            )
        record = getattr(behind(self)[0], "_view", None)
        family = None if record is None else record.family
        staged = modes.stage is not None  # later calls write, and see no views that are not noted
        if (family is not None or staged) and not user_writes():
            family, staged = None, False
        if (family is not None or staged) and not writing.started:
            start()
            if staged and family is not None and family.alive():
                modes.stage.postpone()
        if family is not None and family.cell is None and family.alive():
            begin(family)
        if modes.stage is None and host.memories:
            out = host.renewed(self, family, lambda: rebinding(self, operation, value))
        else:
            out = rebinding(self, operation, value)
        if family is not None and family.cell is not None and modes.stage is None:
            refresh(family)
        elif staged and modes.stage.lasts(self):
            modes.stage.writes(behind(self)[0])
        return out

    return _renew


def keeping(mark: Callable[..., Any]) -> Callable[..., Any]:
    """A parameter becomes a leaf, or none: then what was cut of it keeps its history."""

    def _set_node(self: Any, node: Any) -> None:
        family = getattr(getattr(self, "_view", None), "family", None)
        if node is None and family is not None and family.cell is not None:
            keep_histories(family)
        mark(self, node)

    return _set_node


def leaving(leave: Callable[[Any], None]) -> Callable[[Any], None]:
    """A parameter gets other memory, ``p.data = value``: what was cut of it keeps the old."""

    def _leave(self: Any) -> None:
        family = getattr(getattr(self, "_view", None), "family", None)
        if family is not None:
            if not writing.started and user_writes():
                start()
            members = family.alive()
            outside = [x for x in members if not isinstance(x, Tracer)]
            if outside and modes.stage is not None:
                modes.stage.give_up(
                    f"it assigns to {self.name or 'the data of a parameter'} {self.spec!r} while "
                    f"there are views of it outside, which keep the old values; write x.copy_(v), "
                    f"or p.data.copy_(v)"
                )
            left(family, self.read(), members)
        leave(self)

    return _leave


def tell(x: Any) -> None:
    """Before a write into what was detached of a parameter: let it see what is there now."""
    family = x._view.family
    if not family.of_user or modes.stage is not None:
        return
    start()
    if family.cell is None:
        begin(family)
    if isinstance(family.cell, Cell):
        refresh(family)


def share(cell: Any, value: Any) -> Any:
    """``value``, noted to have the elements of a cell; or another object for it."""
    if type(value) is Tensor or (modes.stage is not None and value.level != CELL):
        return link(cell, value, stop_gradient, {})
    return value


def follow_steps(called: bool = False) -> None:
    """After an optimizer's step: let the views of parameters be read through these.

    What was detached keeps the values that it has.

    Args:
        called: whether a compiled function is about to be called, which may write and may be given
            any of them: then those are read through the parameters too.
    """
    if not user_writes():
        return
    if modes.stage is not None:
        _follow_staged()
        return
    families = _watched()
    writing.watched.clear()
    for family in families:
        family.watched = False
        if family.cell is not None:
            continue
        members = family.alive()
        if _is_lent(family) if not members else called or not all(view_of(x).kept for x in members):
            start()
            if family.cell is None and family.alive():
                begin(family)


def _follow_staged() -> None:
    """The same of views that the function which is staged took; others wait for its end."""
    for family in _watched():
        staged = [x for x in family.alive() if isinstance(x, Tracer)]
        if family.cell is not None or all(view_of(x).kept for x in staged):
            continue
        if not writing.started:
            start()
            modes.stage.postpone()  # later calls find what this one took noted
        begin(family)


def _watched() -> list[Family]:
    """The families of parameters of which views were taken since the last step."""
    return [f for r in writing.watched.valuerefs() if (f := r()) is not None]  # at one instant


def _is_lent(family: Family) -> bool:
    """Whether views of views of a parameter, which are not noted, may hold its memory."""
    root = family.root()
    held = getattr(getattr(root, "value", None), "_a", None)
    for found, known, *_ in origins.values():
        owner = found() if known is family or known is False else None
        # `owner` and the call hold it; and so do `held` and the parameter's tensor, if it is that
        if owner is not None and getrefcount(owner) > (4 if owner is held else 2):
            return True
    return False
