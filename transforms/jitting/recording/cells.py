"""Cells of a recording: what it reads is an input, what it rebinds an output, of each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn
from weakref import ref

from fx.config import modes
from fx.graph.staging import Stage
from fx.graph.surroundings import Outside
from fx.spec import TensorSpec
from fx.state import Cell
from fx.tape import grad_tracer
from fx.tensor import Tensor
from fx.transforms.jitting.program import Held, Program
from fx.transforms.jitting.recording.gradients import Lifted


class CellRecording(Stage):
    """The part of a recording that finds cells, and keeps what they hold now."""

    give_up: Callable[[str], NoReturn]
    program: Program
    call: Any
    records: bool
    rebound: dict[int, tuple[Any, Tensor]]
    seen: dict[int, Any]
    stepped: dict[int, int]
    reread: Any
    replaced: dict[tuple[int, Any], tuple[Any, Any, Any]]
    lifted: dict[int, Lifted]

    def read(self, cell: Any) -> Tensor:
        if cell.born >= self.number:
            return cell.value  # type: ignore[no-any-return]
        known = self.cells.get(id(cell))
        if known is None:
            with Outside(self):
                value = cell.read()
            if cell.name == "generator":
                self.program.random = True
            spec = TensorSpec(value.shape, value.dtype, value.device.name)
            tracer: Tensor = self.tracer(self.input(Held(ref(cell), cell.name), spec))
            if cell.leaf is not None and self.records:
                self.refuse_given(value)
                tracer = self.lift(value, tracer, cell)
            elif self.records and type(value) is Tensor and value._node is not None:
                self.give_up(
                    f"it uses {value.spec!r}, which was written into, requires grad and was "
                    f"computed outside of it"
                )
            known = self.cells[id(cell)] = (cell, tracer)
        elif cell.leaf is not None and id(cell) in self.rebound and modes.barrier < self.number:
            self.reread = cell
        return known[1]

    def rebind(self, cell: Any, value: Tensor) -> None:
        self.call.jitted.writes.stores(self, cell)
        before = self.read(cell)
        value = self.lower(value)
        if (value.shape, value.dtype) != (before.shape, before.dtype):
            self.give_up(f"it rebinds {cell.name or 'a cell'} of {before.spec!r} to {value.spec!r}")
        with Outside(self):
            held = cell.read()
        if cell.leaf is None and type(held) is Tensor and held._node is not None:
            self.give_up(f"it writes into {held.spec!r}, whose history another one would replace")
        kept = getattr(getattr(held, "_a", None), "staged_as", lambda: None)()
        if kept is not None:  # the cell of a device that keeps where its values lie
            value = self.emit(kept[0], [value], kept[1])
        self.rebound[id(cell)] = (cell, value)
        self.stepped[id(cell)] = self.stepped.get(id(cell), 0) + 1
        if before.level == self.number | 1:
            leaf = next(
                x.leaf for x in self.lifted.values() if type(x.owner) is ref and x.owner() is cell
            )
            value = grad_tracer(before.level, value, leaf)
        self.cells[id(cell)] = (cell, value)

    def writes(self, cell: Any) -> None:
        if id(cell) not in self.seen:
            self.call.jitted.writes.exposes(self, cell)
            self.at_end(lambda: self.call.jitted.writes.mixes(cell, self.stepped.get(id(cell))))
        self.stepped[id(cell)] = self.stepped.get(id(cell), 1) - 1
        self.seen[id(cell)] = self.cells[id(cell)][1]

    def blurs(self, cell: Any) -> None:
        self.call.jitted.writes.exposes(self, cell)
        self.seen[id(cell)] = None

    def written_of(self, cell: Any) -> Tensor | None:
        if id(cell) not in self.seen:
            return super().written_of(cell)
        found = self.seen[id(cell)]
        if found is None:
            self.give_up("it reads what detach() gave of a parameter that a loop inside writes")
        return found  # type: ignore[no-any-return]

    def replace(self, held: Any, key: Any, before: Any, cell: Any) -> None:
        """A cell is put into a dict in the place of another, which gets its value in the end."""
        if not isinstance(before, Cell):
            self.postpone()
        self.replaced.setdefault((id(held), key), (held, key, before))

    def put_back(self) -> list[tuple[Any, Any]]:
        """The cells that were replaced are where they were; pairs of one and the other."""
        pairs = []
        for held, key, before in self.replaced.values():
            pairs.append((before, dict.get(held, key)))
            dict.__setitem__(held, key, before)
        self.replaced = {}
        return pairs
