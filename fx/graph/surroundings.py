"""What a function does while it is staged that is no operation on tensors.

The stage is told of it, or asked about it. A graph of its own, a body that runs any number of
times, has no place for what changes the state around it: it refuses, or tells the stage around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx.config import modes, set_modes
from fx.errors import StagingError
from fx.graph.named import Named
from fx.tensor import Tensor


class Surroundings:
    """The part of a stage that knows what is around the function.

    Attributes:
        name: of the function, for messages.
        number: of its level; what was born at a lower one was there before.
        outer: the stage around it, or None.
        around: the grad mode there.
        touched: what the function was seen to read, where it is watched.
    """

    name: str
    number: int
    outer: Any
    around: tuple[int, int]
    touched: Any

    def at_end(self, check: Callable[[], str]) -> None:
        """Ask, when the function is through, why it cannot be compiled; nothing where it can."""
        if self.outer is not None:
            self.outer.at_end(check)

    def reads(self, x: Any, name: str) -> None:
        """The function reads an attribute of Python state, in code that is not watched."""
        if self.touched is not None:
            self.touched.ids.add(id(x))
            self.touched.names.setdefault(id(x), set()).add(name)

    def writes(self, cell: Any) -> None:
        """The program has written into a cell from outside, just rebound: all views see it."""
        if self.outer is not None:
            self.outer.blurs(cell)

    def tells(self, shape: Any, own: bool = False) -> Any:
        """Somebody asks for the shape of a tracer, of this stage if ``own``: what they are told."""
        return shape if self.outer is None else self.outer.tells(shape)

    def serves_sizes(self) -> bool:
        """Whether what is staged may serve other sizes of arguments than are at hand."""
        return self.outer is not None and self.outer.serves_sizes()

    def called(self, x: Any) -> Any:
        """What ``x.size`` is for who calls it at once; None where it is the number of elements."""

    def was_told(self, shape: Any) -> None:
        """Somebody was told a shape otherwise, or at another time."""
        if self.outer is not None:
            self.outer.was_told(shape)

    def asked_of_history(self) -> None:
        """Somebody asks whether a value of the graph requires grad, is a leaf, or has a history."""
        if self.outer is not None:
            self.outer.asked_of_history()

    def gives_up(self, why: str) -> None:
        """What is met cannot be staged.

        Raises:
            StagingError: unless a function around this one can run as it is.
        """
        if self.outer is None:
            raise StagingError(f"{self.name}: {why}")
        self.outer.gives_up(why)

    def inherits(self, program: Any) -> None:
        """The function calls a jitted one."""
        if self.outer is not None:
            self.outer.inherits(program)

    def meets_rule(self, application: Any) -> None:
        """The function calls one that has a derivative rule of its own."""
        if self.outer is not None:
            self.outer.meets_rule(application)

    def blurs(self, cell: Any) -> None:
        """A body that runs any number of times writes into a cell from outside."""
        if self.outer is not None:
            self.outer.blurs(cell)

    def written_of(self, cell: Any) -> Tensor | None:
        """What was written into a cell here; None where nothing was."""
        return None if self.outer is None else self.outer.written_of(cell)  # type: ignore[no-any-return]

    def give_up(self, why: str) -> None:
        """Refuse what no graph can hold.

        Raises:
            StagingError: saying why.
        """
        raise StagingError(f"{self.name} cannot be staged: {why}")

    def postpone(self) -> None:
        """Stage nothing of this call, which changes what later ones find."""
        if self.outer is None:
            self.give_up("it changes which state there is; do that outside")
        self.outer.postpone()

    def changes(self, what: str) -> None:
        """Something outside is about to change that what is staged depends on: not in here."""
        if self.outer is None:
            self.give_up(f"it changes {what}; do that outside")
        self.outer.changes(what)

    def makes(self, held: Any, key: Any) -> None:
        """A dict gets an entry that is as if it had been there before: an optimizer's state."""
        if self.outer is not None:
            self.outer.makes(held, key)

    def registers(self, holder: Any, name: str) -> None:
        """A Module gets a parameter or buffer whose value is not known yet."""
        if self.outer is not None:
            self.outer.registers(holder, name)

    def grafts(self, x: Any) -> None:
        """A value gets the history of ``x``, from which it was not computed."""

    def keeps_flag(self, x: Any, requires_grad: bool) -> bool:
        """Whether a tensor is one from outside, which requires grad, or not, as it shall."""
        if type(x) is not Named and not self.lasts(x):
            return False
        with Outside(self):
            same = x.requires_grad is requires_grad
        if not same:
            self.changes(f"requires_grad of {getattr(x, 'name', '') or 'a tensor'}")
        return True

    def shown(self, x: Any) -> None:
        """A text is made of a staged tensor: where no value can be had, its spec stands there."""

    def replace(self, held: Any, key: Any, before: Any, cell: Any) -> None:
        """A cell is put into a dict in the place of another: not in here."""
        self.postpone()

    def refused(self, error: Exception) -> bool:
        """An error is raised that is of staging alone; whether this stage has taken note of it."""
        return False

    def read_gradient(self, leaf: Any) -> None:
        """Somebody asks for the gradient of a leaf."""

    def hooked(self, leaf: Any) -> None:
        """Somebody puts a hook on a leaf."""

    def write_gradient(self, leaf: Any) -> None:
        """Somebody sets the gradient of a leaf."""

    def read_number(self, held: dict[Any, Any], key: Any) -> Any:
        """A Python number that lives in a dict: itself, a constant of this graph."""
        return dict.__getitem__(held, key)

    def number_of(self, x: Any) -> Any:
        """What stands for the one element of a tensor as a number; None: its value is asked for."""
        return None

    def write_number(self, held: dict[Any, Any], key: Any, value: Any) -> bool:
        """Whether the stage keeps a number that is written; no."""
        return False

    def host(self, effect: Any, held: Any, args: Sequence[Any]) -> None:
        """Refuse what is done to Python numbers in a body that runs any number of times.

        Raises:
            StagingError: do it outside.
        """
        raise StagingError(
            f"a scheduler's step is inside {self.name}, whose body runs any number of times; call "
            f"it outside"
        )

    def memory_steps(self, x: Any) -> tuple[int, ...] | None:
        """The steps in memory, in elements, of what stands for a tensor of the call's.

        None where that lies in the order of its axes, as everything does that is computed here.
        """
        return None

    def lasts(self, cell: Any) -> bool:
        """Whether a cell was there before this function was staged."""
        return cell.born < self.number  # type: ignore[no-any-return]


class Outside:
    """A block that runs outside of a stage, in what is around it, and in its grad mode."""

    __slots__ = ("_grad", "_saved", "_stage")

    def __init__(self, stage: Surroundings) -> None:
        self._stage = stage

    def __enter__(self) -> None:
        self._saved, self._grad = modes.stage, (modes.barrier, modes.silent)
        modes.stage = self._stage.outer
        set_modes(*self._stage.around)

    def __exit__(self, *error: object) -> None:
        modes.stage = self._saved
        set_modes(*self._grad)
