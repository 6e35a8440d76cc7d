"""Handles: cells that stand for a part of another one, ``p.data``, ``p.data[i]`` and ``p.grad``.

Scripts write through them: ``p.data.normal_(0, 0.02)``, ``p.data[0] = 0``, ``p.grad.zero_()``. What
is written goes to the cell behind, and what is read comes from there.
"""

from __future__ import annotations

from functools import partial
from sys import getrefcount
from typing import Any
from weakref import ref

from fx.config import modes
from fx.devices import Device
from fx.dtypes import DType
from fx.errors import BackwardError, InPlaceError
from fx.gradients import at_rest
from fx.levels import live
from fx.modes import level_here
from fx.state import Cell, free_value
from fx.tape import CELL, Leaf
from fx.tensor import Tensor, _new


class Handle(Cell):
    """A cell that was not made by the user; a copy of it is a plain tensor."""

    __slots__ = ()

    def _set_node(self, node: Any) -> None:
        """Refuse: what it stands for has the gradient."""
        raise InPlaceError(
            f"{self.name or 'p.data'} has no gradient of its own; write p.requires_grad_() to mark "
            f"the parameter, or x = p.detach().requires_grad_() for a tensor of its own"
        )

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """A tensor of its own, of these values, that requires grad or does not.

        Raises:
            InPlaceError: if this one has a name, under which it would go on as it is.
        """
        if requires_grad and getrefcount(self) > _UNNAMED:
            self._set_node(None)
        return self.read().detach().requires_grad_(requires_grad)  # type: ignore[no-any-return]

    def detach_(self) -> Handle:
        """Hold the same values without their history."""
        return self._renew("detach_", self.read().detach())  # type: ignore[return-value]

    def __reduce__(self) -> Any:
        return self.read().detach().__reduce__()

    def __copy__(self) -> Tensor:  # type: ignore[override]
        return self.read()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:  # type: ignore[override]
        return self.read().detach()  # type: ignore[no-any-return]


class Data(Handle):
    """The values of a cell without their history: ``p.data``.

    It follows the cell until another tensor is assigned to ``p.data``, and keeps what it held then.

    Example:
        >>> import fx
        >>> p = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> _ = p.data.mul_(10)
        >>> p.data[0] = 7
        >>> p
        Parameter containing:
        tensor([ 7., 20.], requires_grad=True)
    """

    __slots__ = ("made_in", "owner")
    owner: Cell | None
    made_in: int  # the id of the stage in which it was made
    leaf = reduction = None

    @property
    def name(self) -> str:  # type: ignore[override] # asked by messages alone
        owner = self.owner
        return f"{owner.name}.data" if owner is not None and owner.name else "p.data"

    def _own(self, value: Tensor) -> Tensor:
        """What stands here of a value of the owner."""
        return free_value(value)

    def read(self) -> Tensor:
        owner = self.owner
        return super().read() if owner is None else self._own(owner.read())

    def rebind(self, value: Tensor) -> None:
        if self.owner is None:
            super().rebind(value)
        else:
            self.owner.rebind(value)

    def sever(self) -> None:
        """Keep the values of now, and let the cell go its own way."""
        if modes.stage is not None and self.made_in != id(modes.stage):
            modes.stage.give_up(
                f"it assigns to {self.name} while something outside holds what {self.name} gave "
                f"before, which keeps the old values; write p.data.copy_(v), or keep a "
                f"p.detach() instead"
            )
        value, self.owner = self.read(), None
        self.born = level_here()
        super().rebind(value)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.value if self.owner is None else self.owner)._shape

    @property
    def dtype(self) -> DType[Any]:
        return (self.value if self.owner is None else self.owner)._dtype

    @property
    def device(self) -> Device:
        return (self.value if self.owner is None else self.owner).device

    def __getitem__(self, index: Any) -> Tensor:
        """A part; of basic indices one that can be written to, as PyTorch's views can."""
        if self.owner is None:
            return self.read()[index]
        if modes.stage is not None:
            from fx.ops.indexing.positions import positioned

            places = positioned(self, index)
            if places is not index:
                return _part(self, places)
        return _part(self, index) if _is_basic(index) else self.read()[index]

    # what is cut of it can be written to as well; else these are the methods of tensors ----------

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """``length`` slices along an axis from ``start`` on."""
        start = start + self.shape[dim] if start < 0 else start
        self.read().narrow(dim, start, length)  # refuses what does not fit
        return self[(*[slice(None)] * (dim % self.ndim), slice(start, start + length))]

    def select(self, dim: int, index: int) -> Tensor:
        """One slice along an axis."""
        return self[(*[slice(None)] * (dim % self.ndim), index)]

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Cut along an axis, into so many parts."""
        return self._cut(self.read().chunk(chunks, dim), dim)

    def split(self, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Cut along an axis, into parts of this size, or of these sizes."""
        return self._cut(self.read().split(split_size, dim), dim)

    def _cut(self, parts: Any, dim: int) -> tuple[Tensor, ...]:
        sizes = [part.shape[dim] for part in parts]
        return tuple([self.narrow(dim, sum(sizes[:i]), n) for i, n in enumerate(sizes)])


class Part(Data):
    """A part of a handle: what is written to it is written into its place."""

    __slots__ = ("index",)
    index: Any

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.owner.name}[...]" if self.owner is not None else "p.data[...]"

    @property
    def born(self) -> int:  # type: ignore[override]
        """Of what it is a part of, which may become a tensor of its own."""
        owner = self.owner
        return _born.__get__(self) if owner is None else owner.born  # type: ignore[no-any-return]

    @born.setter
    def born(self, level: int) -> None:
        _born.__set__(self, level)

    def _own(self, value: Tensor) -> Tensor:
        return value[self.index]

    def rebind(self, value: Tensor) -> None:
        assert self.owner is not None
        self.owner.rebind(self.owner.read().at[self.index].set(value))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.read()._shape


class Gradient(Handle):
    """What has been gathered for a cell: ``p.grad``.

    It keeps the gradient of the moment at which it was read; what is written to it is also what
    ``p.grad`` gives from then on, unless that has become another one.
    """

    __slots__ = ("place",)
    place: Leaf
    name = "p.grad"
    leaf = reduction = handle = None

    def rebind(self, value: Tensor) -> None:
        if value.level == CELL:
            value = value.read()
        leaf = self.place
        if leaf.grad is self.value:
            if value.level > leaf.level:
                raise BackwardError(
                    f"{self.name}: {value.spec!r} is a value inside {value.transform}, and the "
                    f"gradient lives longer than it; return it from the transformed function and "
                    f"assign it outside"
                )
            if modes.stage is not None:
                modes.stage.write_gradient(leaf)
            leaf.grad = value
        self.value = value

    @property
    def data(self) -> Tensor:
        """The gradient without its own history."""
        return self if self.value._node is None else _handle(_blank_data, self)

    @data.setter
    def data(self, value: Any) -> None:
        _set_data(self, value)


def _is_basic(index: Any) -> bool:
    """Whether an index is of ints, slices, None and ``...`` alone."""
    if isinstance(index, tuple):
        return all(map(_is_basic, index))
    return type(index) in _BASIC


_NOTHING = id(None)  # that is staged
_born: Any = Cell.__dict__["born"]
_UNNAMED = 2  # references to what has no name: that of a method, and that which asks
_BASIC = frozenset((int, slice, type(None), type(...)))


# what reading p.data and p.grad gives -----------------------------------------------------------


def _get_data(cell: Cell) -> Tensor:
    """The values alone: a handle, through which the cell can be written to without its history."""
    held = cell.handle
    found = None if held is None else held()
    if found is None:
        found = _handle(_blank_data, cell)
        cell.handle = ref(found)
    return found


def _set_data(cell: Cell, value: Any) -> None:
    from fx.ops.convert import as_tensor

    if isinstance(value, Data) and value.owner is cell:  # `p.data -= v` ends with `p.data = p.data`
        return
    value = as_tensor(value)
    if value.level == CELL:
        value = value.read()
    if isinstance(cell, Data) and cell.owner is not None:  # what `p.data` gave, and not p
        cell.owner.handle = None
        cell.sever()
    cell._leave()
    cell.rebind(value)


def _leave(cell: Cell) -> None:
    """Before ``p.data = value``: what was read of the cell's memory keeps it."""
    held = cell.handle
    found = None if held is None else held()
    if found is not None:
        found.sever()
        cell.handle = None


def _get_grad(cell: Cell) -> Tensor | None:
    """The gradient that ``.backward()`` accumulated, as a handle; None before."""
    try:
        held = cell.value
    except AttributeError:  # `p.data` has none of its own
        held = None
    grad = None
    if not live or modes.stage is None:
        node = held._node if type(held) is Tensor else cell._node
        if type(node) is Leaf:
            grad = node.grad
    else:
        node = cell._node
    if type(grad) is not Tensor:
        grad = cell.read_grad()
        if grad is None:
            return None
        node = node or at_rest(cell)
        if type(node) is not Leaf:
            return grad
    handle = node.handle
    if handle is not None:
        found = handle()
        if found is not None and found.value is grad:
            return found  # type: ignore[no-any-return]
    found = _blank_gradient()
    found.value = grad
    found.place = node
    found.born = level_here() if live else 1
    node.handle = ref(found)
    return found  # type: ignore[no-any-return]


def _handle(blank: Any, owner: Cell) -> Any:
    """A handle of a cell, with its slots filled here: ``__init__`` takes as long as the rest."""
    made = blank()
    made.owner = owner
    made.made_in = id(modes.stage) if live else _NOTHING
    made.born = owner.born
    made.handle = None
    return made


def _part(owner: Data, index: Any) -> Part:
    """What an index gives of a handle."""
    made: Part = _handle(_blank_part, owner)
    made.index = index
    return made


_blank_data, _blank_part, _blank_gradient = (partial(_new, k) for k in (Data, Part, Gradient))


def attach() -> None:
    """Put ``data`` and ``grad`` on cells; a gradient is set as on any tensor."""
    Cell._leave = _leave
    Cell.data = property(_get_data, _set_data, doc=_get_data.__doc__)
    Cell.grad = property(_get_grad, Tensor.__dict__["grad"].fset, doc=_get_grad.__doc__)
