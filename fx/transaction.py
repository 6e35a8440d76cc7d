"""Transaction: what a load changes, gathered first and then stored at once.

``load_state_dict``, ``Module.to`` and ``Checkpoint.restore`` list what they would change; one call
in C does it (``fx.commit``). An error, a signal or another thread finds all of it done or nothing.
A load within a load takes part in the one around it.

Code of the user's, such as a hook, may look at what was loaded so far: before it runs, what is
listed is stored, and what was there is kept until the end, for an error to put it back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, TypeVar

from fx.away import Away, pause
from fx.blocks import Block
from fx.commit import Stores
from fx.config import modes
from fx.gradients import plan_gradients
from fx.numbers import Numbers
from fx.state import Cell, plan_rebinds
from fx.tensor import Tensor
from fx.versions import changes

F = TypeVar("F", bound=Callable[..., Any])
_missing = object()
_loads = count(1).__next__


class Transaction:
    """Changes that wait for ``flush``, and what undoes those that were made.

    Example:
        >>> import fx
        >>> from fx.transaction import Transaction
        >>> cell, numbers = fx.nn.Parameter(fx.zeros(2)), {"lr": 0.1}
        >>> changes = Transaction()
        >>> changes.rebind(cell, fx.ones(2))
        >>> changes.put(numbers, "lr", 0.01)
        >>> changes.flush()
        >>> cell.tolist(), numbers
        ([1.0, 1.0], {'lr': 0.01})
        >>> changes.undo()
        >>> cell.tolist(), numbers
        ([0.0, 0.0], {'lr': 0.1})
    """

    __slots__ = ("_calls", "_cells", "_grads", "_past", "_puts", "_sets", "_undo")

    def __init__(self) -> None:
        self._past: dict[Any, tuple[Any, Any, bool, Any]] = {}  # what was there first, by place
        self._undo: list[Callable[[], None]] = []  # what else an error runs, the last one first
        self._begin()

    def _begin(self) -> None:
        self._cells: list[tuple[Cell, Tensor]] = []
        self._grads: list[tuple[Cell, Tensor | None]] = []
        self._puts: list[tuple[dict[Any, Any], Any, Any]] = []
        self._sets: list[tuple[Any, str, Any]] = []
        self._calls: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = []

    # what is to change ----------------------------------------------------------------------------

    def rebind(self, cell: Cell, value: Tensor) -> None:
        """Let a cell hold another tensor."""
        self._cells.append((cell, value))

    def gradient(self, cell: Cell, grad: Tensor | None) -> None:
        """Let a cell have another gradient, of the shape and dtype that it will have."""
        self._grads.append((cell, grad))

    def put(self, held: dict[Any, Any], key: Any, value: Any) -> None:
        """Store into a dict; one of numbers (``fx.numbers``) hears of it."""
        self._puts.append((held, key, value))

    def update(self, held: dict[Any, Any], items: dict[Any, Any]) -> None:
        """Store several."""
        for key, value in items.items():
            self.put(held, key, value)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Let an object have another attribute: one of its dict, or else a slot."""
        self._sets.append((owner, name, value))

    def call(self, run: Any, args: tuple[Any, ...], back: tuple[Any, ...]) -> None:
        """Call a function in C with ``args``, and with ``back`` where an error undoes it."""
        self._calls.append((run, args, back))

    def keep(self, owner: Any, *names: str) -> None:
        """Note what an object has under these names, which somebody else is about to change."""
        for name in names:
            was = getattr(owner, name, _missing)
            self._past.setdefault((id(owner), name, False), (owner, name, False, was))

    # doing and undoing ----------------------------------------------------------------------------

    def flush(self) -> None:
        """Do what is listed, at once."""
        listed = self._cells, self._grads, self._puts, self._sets, self._calls
        if not any(listed):
            return
        cells = [(c, x if type(x) is Tensor or modes.stage is not None else x.detach())
                 for c, x in self._cells]  # fmt: skip
        while True:
            stores = Stores()
            journal, modes.journal = modes.journal, None
            try:
                native = plan_rebinds(stores, cells) and plan_gradients(stores, self._grads)
            finally:
                modes.journal = journal
            if not native and modes.stage is not None:
                self._one_by_one()
                break
            if not native:
                self._tell()
                cells, stores = [], Stores()
            for owner, name, value in self._sets:
                own = getattr(owner, "__dict__", None)
                if own is None or name == "__class__":
                    stores.add(owner, name, value)
                else:
                    stores.put(own, name, value)
            for held, key, value in self._puts:
                if isinstance(held, Numbers):
                    held.plan(stores, key, value)
                else:
                    stores.put(held, key, value)
            for run, args, _ in self._calls:
                stores.call(run, *args)
            stores.noted = True
            if self._keep(stores):
                if journal is not None:
                    journal += [(cell, cell.value) for cell, _ in cells]
                stores.call(setattr, changes, "loads", _loads())
                if stores.commit(refused=Away):
                    break
            pause()
        self._begin()

    def _keep(self, stores: Stores) -> bool:
        """Note what is there now, for ``undo``; False where a step has it."""
        past = dict(self._past)
        for owner, name, is_dict in stores.places():
            was = (dict.get if is_dict else getattr)(owner, name, _missing)  # type: ignore[operator]
            if type(was) is Away:
                return False
            past.setdefault((id(owner), name, is_dict), (owner, name, is_dict, was))
        self._past = past
        self._undo += [lambda run=run, back=back: run(*back) for run, _, back in self._calls]  # type: ignore[misc]
        return True

    def _tell(self) -> None:
        """Rebind cells one by one: those that are written into, and those of transforms."""
        journal, modes.journal = modes.journal, []
        mine = modes.journal
        try:
            for cell, value in self._cells:
                cell.rebind(value)
            for cell, grad in self._grads:
                self.keep(cell._node, "grad")
                cell.grad = grad
        finally:
            modes.journal = journal
            self._note(mine, journal)
        self._cells, self._grads = [], []

    def _one_by_one(self) -> None:
        """Tell each change to what stages a function; its results come out at once."""
        self._tell()
        for held, key, value in self._puts:
            held[key] = value
        for owner, name, value in self._sets:
            setattr(owner, name, value)
        for run, args, _ in self._calls:
            run(*args)

    def _note(self, mine: list[Any], outer: list[Any] | None) -> None:
        """Note what cells held before somebody else rebound them."""
        if outer is not None:
            outer += mine
        for cell, value in mine:
            key = id(cell), "value", False
            if value is not None and key not in self._past:
                self._past[key] = cell, "value", False, value

    def outside(self, run: Callable[..., Any], *args: Any) -> Any:
        """Call code that is the user's: what was listed is done, and its own loads are its own."""
        self.flush()
        journal, modes.journal = modes.journal, []
        mine = modes.journal
        modes.transaction = None
        try:
            return run(*args)
        finally:
            modes.transaction = self
            modes.journal = journal
            self._note(mine, journal)

    def load(self, part: Any, state: Any, before: Callable[[], Any] | None = None) -> None:
        """``part.load_state_dict(state)``.

        Args:
            part: an object of fx, which takes part; or one of the user's.
            state: what it is to have.
            before: gives what one of the user's is to have again after an error.
        """
        if takes_part(part):
            part.load_state_dict(state)
            return
        if before is not None:
            self.flush()
            was = before()
            self._undo.append(lambda: part.load_state_dict(was))
        self.outside(part.load_state_dict, state)

    def undo(self) -> None:
        """Put back what was there before, at once."""
        self._begin()
        undo, self._undo = self._undo, []
        past, self._past = self._past, {}
        for run in reversed(undo):
            try:
                run()
            except Exception:  # what failed may fail again; the others go back
                continue
        stores, told = Stores(), []
        for owner, name, is_dict, was in past.values():
            if is_dict and was is not _missing:
                stores.put(owner, name, was)
            elif is_dict:
                stores.drop(owner, name)
            elif was is _missing:
                stores.call(object.__delattr__, owner, name)
            elif isinstance(owner, Cell) and name == "value":
                if type(owner).rebind is not Cell.rebind or modes.stage is not None:
                    told.append((owner, was))
                else:
                    stores.add(owner, name, was if type(was) is Tensor else was.detach())
            else:
                stores.add(owner, name, was)
        if past:
            stores.noted = True
            stores.call(setattr, changes, "loads", _loads())
            while not stores.commit(refused=Away):
                pause()
        for cell, was in told:
            cell.rebind(was)


class _Running(Block):
    """The block in which a transaction gathers what loads change."""

    __slots__ = ("_mine",)

    def __init__(self, mine: Transaction) -> None:
        self._entries, self._watch = (), None
        self._mine = mine

    def __enter__(self) -> None:
        self._entries = (*self._entries, (modes.transaction, modes.journal, self._watch))
        self._watch = None
        modes.transaction = self._mine

    def leave(self) -> None:
        modes.transaction, modes.journal, _ = self._entries[-1]
        self._entries = self._entries[:-1]


def whole(change: F) -> F:
    """A method whose changes happen at once: it lists them in ``modes.transaction``."""

    @wraps(change)
    def changed(*args: Any, **more: Any) -> Any:
        if modes.transaction is not None:
            return change(*args, **more)
        mine = Transaction()
        try:
            with _Running(mine):
                out = change(*args, **more)
                mine.flush()
            return out
        except BaseException:
            mine.undo()
            raise

    changed.whole = True  # type: ignore[attr-defined]
    return changed  # type: ignore[return-value]


def takes_part(part: Any) -> bool:
    """Whether ``part.load_state_dict`` lists its changes: it is fx's own."""
    return getattr(getattr(type(part), "load_state_dict", None), "whole", False)


def consistent(read: Callable[[], Any]) -> Any:
    """What a function reads, again if a load came in between."""
    while True:
        seen = changes.loads
        found = read()
        if changes.loads == seen:
            return found
