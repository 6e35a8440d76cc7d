"""Arguments that a jitted function writes into: they are state, as a parameter is.

A tensor that is an argument is an input, whatever its name held before. One that the function
writes into is passed as the object that it is: what is stored in it after a call is seen outside.
So is what shows the elements of a parameter, or of another cell, that the function rebinds: a view
of it, ``p.data``, a value of a state dict.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

from fx import tree
from fx.config import modes, writing
from fx.handles import Data, Gradient
from fx.state import Cell
from fx.tensor import Tensor
from fx.transforms.jitting.signature import holds_state
from fx.writing import host
from fx.writing.records import CUT
from fx.writing.storing import refresh

_SHARED = "it writes into a tensor that shares its memory with a NumPy array"
_MIXED = (
    "it writes into a parameter that an optimizer steps as well, and there is what detach() gave "
    "of it, which shows the one and not the other; write p.detach().clone()"
)
_MOST = 4  # tensors that are compiled for, before the function runs as it is for others


class Writes:
    """The places, among the leaves of the arguments, of what is written into."""

    __slots__ = ("_cells", "_looked", "_met", "_mixed", "asked", "written")

    def __init__(self) -> None:
        self._cells: dict[int, Any] = {}  # weakly, by id, what it rebinds of what lives outside
        self._looked = False  # whether a call ran as it is, after which the views are known
        self._met: dict[int, set[int]] = {}  # the ids of the tensors at each place
        self.written: dict[int, Any] = {}  # of these the ones it writes into as a script does
        self._mixed: set[int] = set()  # and the ones that get values in other ways as well
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
        """What is passed for a tensor: itself if it shows what is written into, else its value.

        Args:
            x: a tensor that was written, a handle, or a view of a cell.
            shared: the families of which all members are passed as such.
        """
        cell, family = _held_by(x)
        stored = self._stores(cell) and (not is_kept(x) or id(cell) in self.written)
        if modes.stage is None and (id(family) in shared or stored):
            if type(x) is Tensor:
                from fx.writing.checking import begun

                begun(x)
            return x
        if type(x) is Tensor:
            return x
        value = x.read()
        if writing.watched and type(value) is Tensor and value is not getattr(cell, "value", None):
            value._view = CUT  # no tensor of the program, where views of its memory are looked for
        return value

    def _stores(self, cell: Any) -> bool:
        known = self._cells.get(id(cell))
        return known is not None and known() is cell

    def concerns(self, signature: Any) -> bool:
        """Whether it rebinds a cell of which an argument is passed as a value."""
        cells = [c for x in signature.given if self._stores(c := _held_by(x)[0])]
        return any(shown(cell, signature, id(cell) in self.written) for cell in cells)

    def knows(self, cells: Iterable[Any]) -> None:
        """The function rebinds these cells."""
        for cell in cells:
            if not self._stores(cell):
                self._cells[id(cell)] = ref(cell)

    def stores(self, stage: Any, cell: Any) -> None:
        """The function that is being staged rebinds a cell that lives outside."""
        self.knows((cell,))
        if writing.watched and not writing.started and not self._looked:
            self._looked = True  # for views of views, which lie in memory that this call may reuse
            stage.postpone()
        if shown(cell, stage.call.signature):
            stage.postpone()  # the argument must be passed as such

    def exposes(self, stage: Any, cell: Any) -> None:
        """The function that is being staged writes into a cell that lives outside.

        What ``detach()`` gave sees it, as it does not see an optimizer's step.
        """
        if host.is_shared(cell):
            stage.give_up(_SHARED)
        self.knows((cell,))
        self.written[id(cell)] = self._cells[id(cell)]
        stage.program.written.append(self._cells[id(cell)])
        if shown(cell, stage.call.signature, True):
            stage.postpone()

    def mixes(self, cell: Any, count: Any) -> str:
        """Why it cannot be compiled if it has given a cell other values so often, too."""
        if not count:
            return ""
        self._mixed.add(id(cell))
        return _MIXED if _keeps(cell) else ""

    def stands_apart(self) -> str:
        """Why a call runs as it is, though there is a program; nothing where it need not."""
        for key, held in self.written.items():
            cell = held()
            if cell is not None:
                if host.is_shared(cell):
                    return _SHARED
                if key in self._mixed and _keeps(cell):
                    return _MIXED
        return ""

    def tell(self) -> None:
        """The function was called: let what shows the cells that it wrote into see it."""
        for held in self.written.values():
            cell = held()
            family = _family_of(cell)
            if family is not None and family.of_user and family.cell is cell and family.members:
                if modes.stage is None:
                    refresh(family)
                elif modes.stage.lasts(cell):
                    modes.stage.writes(cell)

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


def shown(cell: Any, signature: Any, written: bool = False) -> bool:
    """Whether an argument that is passed as a value shows what a cell gets.

    Args:
        written: whether a script writes it, which what ``detach()`` gave shows too.
    """
    given = [x for x in signature.given if _held_by(x)[0] is cell]
    return any(written or not is_kept(x) for x in given)


def is_kept(x: Any) -> bool:
    """Whether a tensor shows what a parameter held before an optimizer's step."""
    record = getattr(x, "_view", None)
    return record is not None and record.kept and record.family.of_user


def _family_of(cell: Any) -> Any:
    return getattr(getattr(cell, "_view", None), "family", None)


def _keeps(cell: Any) -> bool:
    family = _family_of(cell)
    return family is not None and any(map(is_kept, family.alive()))


def is_given(owner: Any, signature: Any) -> bool:
    """Whether an argument is the gradient of a cell, ``p.grad``, or of a tensor."""
    return any(type(x) is Gradient and x.place.owner is owner for x in signature.given)


def _held_by(x: Any) -> tuple[Any, Any]:
    """The cell that holds the values of a tensor, if there is one, and its family."""
    cell = x if isinstance(x, Cell) else None
    while isinstance(cell, Data) and cell.owner is not None:
        cell = cell.owner
    record = getattr(x if cell is None else cell, "_view", None)
    family = None if record is None else record.family
    if cell is None and family is not None:
        cell = family.root() if family.cell is None else family.cell
    return cell, family


def _value_of(x: Any) -> Any:
    """What the family of a written tensor holds; of another None."""
    written = isinstance(x, Tensor) and x.written
    return getattr(x._view.family.cell, "value", None) if written else None
