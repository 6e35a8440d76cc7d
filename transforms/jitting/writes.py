"""Arguments that a jitted function writes into: they are state, as a parameter is.

A tensor that is an argument is an input, whatever its name held before. One that the function
writes into is passed as the object that it is: what is stored in it after a call is seen outside.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from fx import tree
from fx.config import modes
from fx.tensor import Tensor
from fx.transforms.jitting.signature import holds_state

_MOST = 4  # tensors that are compiled for, before the function runs as it is for others


class Writes:
    """The places, among the leaves of the arguments, of what is written into."""

    __slots__ = ("_cells", "_met", "asked")

    def __init__(self) -> None:
        self._cells: dict[int, Any] = {}  # weakly, by id, what it writes of what lives outside
        self._met: dict[int, set[int]] = {}  # the ids of the tensors at each place
        self.asked = False  # whether the call in progress runs as it is to find more of them

    def families(self, leaves: list[Any]) -> Any:
        """The families of the tensors at these places, of which all members are passed as such."""
        if not self._met or modes.stage is not None:
            return ()
        found = set()
        for place, met in self._met.items():
            x = leaves[place] if place < len(leaves) else None
            if not isinstance(x, Tensor) or (len(met) >= _MOST and id(x) not in met):
                continue
            if not x.written:
                if type(x) is not Tensor:
                    continue
                from fx.writing.checking import begun

                begun(x)
            met.add(id(x))
            found.add(id(x._view.family))
        return found

    def argument(self, x: Tensor, shared: Any) -> Any:
        """What is passed for a written tensor: itself if it is written into, else its value."""
        family = x._view.family
        if modes.stage is None and (id(family) in shared or self._stores(family.cell)):
            return x
        return x.read()

    def _stores(self, cell: Any) -> bool:
        known = self._cells.get(id(cell))
        return known is not None and known() is cell

    def stores(self, stage: Any, cell: Any) -> None:
        """The function that is being staged writes into a tensor that lives outside."""
        if not self._stores(cell):
            self._cells[id(cell)] = ref(cell)
            if id(cell) in stage.call.signature.cells:
                self.asked = True
                stage.postpone()  # an argument is the same tensor, and must be passed as such

    def note(self, stage: Any, value: Any) -> None:
        """The function that is being staged writes into the argument that ``value`` stands for."""
        signature = stage.call.signature
        source = stage.program.sources.get(value)
        part = ("tensor", getattr(source, "number", -1))
        place = signature.parts.index(part) if part in signature.parts else -1
        known = place in self._met
        if place < 0 or known or stage.outer is not None:
            stage.give_up("it writes into one of its arguments, another tensor in each call")
        self._met[place] = set()
        self.asked = True
        stage.postpone()

    def found(self, jitted: Any, args: Any, kwargs: Any) -> Any:
        """What the function gives as it is; which arguments it writes into is noted on the way."""
        self.asked = False
        leaves, _ = tree.flatten_in_order(jitted.dynamic(args, kwargs), is_leaf=holds_state)
        # while a value is kept here nothing is written into its memory
        before = [_value_of(x) for x in leaves]
        try:
            return jitted.function(*args, **kwargs)
        finally:
            for place, (x, value) in enumerate(zip(leaves, before)):
                if isinstance(x, Tensor) and x.written and _value_of(x) is not value:
                    self._met.setdefault(place, set())


def _value_of(x: Any) -> Any:
    """What the family of a written tensor holds; of another None."""
    written = isinstance(x, Tensor) and x.written
    return getattr(x._view.family.cell, "value", None) if written else None
