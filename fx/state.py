"""Cell: the only thing that mutates. It holds an immutable tensor and is rebound, never written.

A cell is a tensor to whoever reads it; ``bind`` reads it before anything else, so that no rule and
no pullback ever keeps the cell itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from weakref import ref

from numpy import ndarray

from fx.away import Away, value_of
from fx.commit import Stores
from fx.config import is_grad_enabled, modes, writing
from fx.devices import Device
from fx.dtypes import DType
from fx.errors import BatchedValueError, InPlaceError
from fx.levels import live
from fx.modes import level_here
from fx.tape import CELL, Leaf, grad_tracer
from fx.tensor import Tensor, bare, new_tensor
from fx.versions import touch


class Held:
    """What is a tensor to whoever reads it: of cells, handles and written tensors alike.

    ``read`` gives the tensor of now, ``_set_node`` makes it a leaf, or no leaf any more.
    """

    __slots__ = ()
    level = CELL

    if TYPE_CHECKING:

        def read(self) -> Any: ...
        def _set_node(self, node: Any) -> None: ...

    @property
    def _a(self) -> Any:
        return self.read()._a

    @property
    def _node(self) -> Any:
        return self.read()._node

    @_node.setter
    def _node(self, node: Any) -> None:
        self._set_node(node)

    @property
    def device(self) -> Device:
        return self.read().device  # type: ignore[no-any-return]


class Cell(Held, Tensor):
    """A named place that holds a tensor: parameters, buffers, generator and optimizer state.

    Args:
        value: the tensor that it holds at first.
        requires_grad: whether gradients are accumulated for it.
        name: what messages call it.
        reduction: ``"mean"``, ``"max"`` or ``"min"``: what becomes of the values of lanes when a
            ``vmap`` that started after the cell was made rebinds it. Without one that is an error.

    Example:
        >>> import fx
        >>> from fx.state import Cell
        >>> count = Cell(fx.tensor(1.0))
        >>> count += 2
        >>> count * 10
        tensor(30.)
    """

    __slots__ = ("born", "handle", "leaf", "name", "reduction", "value")
    value: Tensor
    leaf: Leaf | None
    name: str
    reduction: str | None
    handle: Any  # None, or a weak reference to what `data` gave (fx.handles)

    if TYPE_CHECKING:  # attached by fx.handles
        data: Any
        grad: Any
        _leave: Any

    def __init__(
        self,
        value: Tensor,
        requires_grad: bool = False,
        name: str = "",
        reduction: str | None = None,
    ) -> None:
        if reduction not in (None, "mean", "max", "min"):
            raise ValueError(f"a cell's reduction is 'mean', 'max' or 'min', got {reduction!r}")
        self.name = name
        self.reduction = reduction
        self.born = level_here()
        self.handle = None
        self.leaf = Leaf(owner=ref(self)) if requires_grad else None
        self.rebind(value)

    def read(self) -> Tensor:
        """The tensor that the cell holds now; what stands for it while a function is staged."""
        if live and (stage := modes.stage) is not None:  # without levels there are no stages
            return stage.read(self)  # type: ignore[no-any-return]
        value = self.value
        return value if type(value) is not Away else value_of(self)

    def rebind(self, value: Tensor) -> None:
        """Hold another tensor; its own history is dropped, a gradient leaf stays the cell's.

        Raises:
            BatchedValueError: if ``value`` has one value a lane of a ``vmap`` that started after
                this cell was made, and the cell has no reduction: it can hold only one value.
        """
        stage = modes.stage
        if stage is not None and not stage.lasts(self):
            stage = None
        if modes.journal is not None:  # for what runs again and must leave no trace
            modes.journal.append((self, self.read() if hasattr(self, "value") else None))
        if type(value) is not Tensor:
            value = value.detach()
            outermost = self.born if stage is None else stage.number
            while type(value) is not Tensor and value.level > outermost:
                value = self._of_lanes(value)
        if stage is not None:
            stage.rebind(self, value)
            return
        if type(getattr(self, "value", None)) is Away:
            value_of(self)
        if type(value) is Tensor:
            self.value = self.holding(value)
            return
        # a tracer: held as it is by a cell that was made inside its transform
        if self.leaf is not None:
            tape = value.level | 1
            value = grad_tracer(tape, value, self._leaf_on(tape))
        self.value = value

    def holding(self, value: Tensor) -> Tensor:
        """The tensor that the cell would hold: these values, with its own leaf."""
        hosted = writing.hosted
        array = value._a
        if type(array) is not ndarray and hasattr(array, "held_as"):
            array = array.held_as(getattr(getattr(self, "value", None), "_a", None))
        held = new_tensor(array if hosted is None or not hosted(array) else array.copy())
        held._node = self.leaf if self.leaf is None or not self.leaf.level else self._leaf_on(0)
        return held

    def _of_lanes(self, value: Any) -> Tensor:
        """The one value, a level below, that the values of all lanes are reduced to."""
        if self.reduction is None or value.transform != "vmap":
            raise BatchedValueError(_OUTLIVES.format(self.name or "a cell", value.spec))
        import fx.prims.reduction as prims

        lanes, dim = value.value, (value.dim,)
        if self.reduction == "mean":
            total: Tensor = prims.sum(lanes, axes=dim, keepdims=False)
            return total / lanes.shape[value.dim]  # type: ignore[no-any-return]
        extremum: Tensor = getattr(prims, self.reduction)(lanes, axes=dim, keepdims=False)
        return extremum

    def _forgets(self, value: Any) -> None:
        """A value is about to lose its history here; for those who say so."""

    def _leaf_on(self, level: int) -> Leaf:
        """The cell's gradient leaf, moved to the tape of ``level`` with what it has gathered."""
        leaf = self.leaf
        if leaf is None or leaf.level != level:
            self.leaf = Leaf(level, owner=ref(self))
            self.leaf.grad = None if leaf is None else leaf.grad
        return self.leaf  # type: ignore[return-value]

    def _set_node(self, node: Any) -> None:
        """Make the cell a leaf, or no leaf any more."""
        if (node is None) != (self.leaf is None):
            touch()
        value_of(self)._node = node
        self.leaf = node

    @property
    def shape(self) -> tuple[int, ...]:
        if live and modes.stage is not None:
            modes.stage.asked(self)
        value = self.value
        return value._a.shape if type(value) is Tensor else value._shape

    @property
    def dtype(self) -> DType[Any]:
        if live and modes.stage is not None:
            modes.stage.asked(self)
        value = self.value
        return value._a.dtype if type(value) is Tensor else value._dtype

    @property
    def device(self) -> Device:
        if live and modes.stage is not None:
            modes.stage.asked(self)
        return self.value.device

    # a copy is another cell; gradients stay behind, as in PyTorch --------------------------------

    def __reduce__(self) -> Any:
        return type(self), (
            value_of(self).detach(),
            self.leaf is not None,
            self.name,
            self.reduction,
        )

    def __copy__(self) -> Cell:
        make, args = self.__reduce__()
        return make(*args)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> Cell:
        out = memo[id(self)] = self.__copy__()
        if writing.enabled and type(held := getattr(out, "value", None)) is Tensor:
            held._a = copied(held._a)
        return out

    # a write elsewhere rebinds a cell; fx.ops.methods.rebinding adds the methods ------------------

    def __iadd__(self, other: Any) -> Cell:
        return self._renew("+=", self.read() + other)

    def __isub__(self, other: Any) -> Cell:
        return self._renew("-=", self.read() - other)

    def __imul__(self, other: Any) -> Cell:
        return self._renew("*=", self.read() * other)

    def __itruediv__(self, other: Any) -> Cell:
        return self._renew("/=", self.read() / other)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._renew("[...] =", self.read().at[index].set(value))

    def _renew(self, operation: str, value: Tensor) -> Cell:
        """Rebind to what an operation in place gives: of this shape, and cast to this dtype."""
        if self.leaf is not None and is_grad_enabled():
            raise InPlaceError(
                f"{operation} on {self.name or 'a tensor'} that requires grad would lose its "
                f"history; write it inside `with fx.no_grad():`"
            )
        self._forgets(value)
        dtype, given = self._dtype, value._dtype
        if given is not dtype and given != dtype and _fits(given, dtype):
            value, given = value.astype(dtype), dtype
        if value._shape != self._shape or given != dtype:
            raise InPlaceError(
                f"{operation} on {self.name or 'a tensor'} gives {value.spec!r}, but it holds "
                f"{self.spec!r} and keeps its shape and dtype"
            )
        self.rebind(value)
        return self


def rebind_all(pairs: Sequence[tuple[Cell, Tensor]]) -> None:
    """Rebind cells, all at once: what interrupts it finds each of them as before, or each after.

    Their views see it, where a program has taken some.
    """
    if _rebind_by_stores(pairs):
        held = [cell.holding(value) for cell, value in pairs]
        before = [getattr(cell, "value", None) for cell, _ in pairs]  # its end may run anything
        deque(map(setattr, [cell for cell, _ in pairs], _VALUE, held), 0)  # one call in C
        del before
    else:
        for cell, value in pairs:
            cell.rebind(value)
    if writing.watched:
        writing.stepped()


def plan_rebinds(stores: Stores, pairs: Sequence[tuple[Cell, Tensor]]) -> bool:
    """List the stores that rebind cells; False where each must be told itself."""
    if not _rebind_by_stores(pairs):
        return False
    for cell, value in pairs:
        stores.add(cell, "value", cell.holding(value))
    return True


def _rebind_by_stores(pairs: Sequence[tuple[Cell, Tensor]]) -> bool:
    """Whether cells are rebound by storing alone; then none of their values is away."""
    if modes.journal is not None or (live and modes.stage is not None):
        return False
    for cell, value in pairs:
        if type(value) is not Tensor or type(cell).rebind is not Cell.rebind:
            return False
        if type(getattr(cell, "value", None)) is Away:
            value_of(cell)
    return True


def copied(array: Any) -> Any:
    """A backend's array in memory of its own, where it has any."""
    return array.copy("K") if type(array) is ndarray else array


_held, _VALUE = attrgetter("value"), repeat("value")


def snapshot(cells: Sequence[Cell]) -> list[Tensor]:
    """The values of cells, all of one instant and without history, that no step changes."""
    if modes.stage is not None or not all(
        getattr(type(c), "read", None) is Cell.read for c in cells
    ):
        return [cell.detach() for cell in cells]
    while True:
        held = [*map(_held, cells)]  # one call: no other thread runs in between
        away = [cell for cell, x in zip(cells, held) if type(x) is Away]
        if not away:
            return [x.detach() for x in held]
        value_of(away[0])


_RANKS = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}  # of the kinds of dtypes; V is bfloat16


def _fits(dtype: DType[Any], into: DType[Any]) -> bool:
    """Whether values may be cast in place: not floats into ints, nor numbers into bools."""
    return _RANKS[dtype.kind] <= _RANKS[into.kind]


def free_value(x: Tensor) -> Tensor:
    """The same values without their history; itself where it has none."""
    if type(x) is not Tensor:
        return x.detach()  # type: ignore[no-any-return]
    return x if x._node is None else bare(x)


def lasting(make: Callable[[], Tensor], name: str = "") -> Cell:
    """A cell that outlives the staging of the function that asks for it.

    State that is made when it is first needed, as an optimizer's, is made at once and from nothing
    that is staged; the staged function then reads the cell as if it had been there before.

    Args:
        make: gives the first value.
        name: what messages call it.
    """
    stage = modes.stage
    if stage is None:
        return Cell(make(), name=name)
    outermost, level = stage, modes.level
    while outermost.outer is not None:
        outermost = outermost.outer
    modes.stage, modes.level = None, outermost.below
    try:
        return Cell(make(), name=name)
    finally:
        modes.stage, modes.level = stage, level


_OUTLIVES = (
    "vmap: {0} was made outside and would hold {1} values, one a lane, of which none is the one to "
    "keep. Say what becomes of them, fx.nn.Buffer(x, reduction='mean') or "
    "fx.nn.declare_reduction(model, {{'running_*': 'mean'}}), or give each lane its own state: "
    "fx.nn.functional_call(module, params_and_buffers, args) with buffers mapped by in_axes"
)
