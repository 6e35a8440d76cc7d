"""Lanes and turns: which copy of a program a draw of the generator belongs to.

Under ``vmap`` a program runs once for all lanes; in a Python loop it runs once a lane. For both to
draw the same numbers, the n-th draw of every lane takes the same call index, and the lane goes into
the key. The first is what a ``Turn`` does; the second is ``modes.lanes``, the running lanes of a
thread, outermost first: ``lane`` blocks and whatever else has ``index(device)``, as the levels of
``vmap`` do. ``README.md`` tells the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import fx.prims.random as prims
from fx.config import modes
from fx.dtypes import int64
from fx.errors import DTypeError
from fx.prims.creation import constant
from fx.tensor import Tensor

if TYPE_CHECKING:
    from fx.random.generator import Generator


class _Group:
    """Turns of one program: the first takes keys from the source and notes them for the others."""

    __slots__ = ("keys", "marks", "numbers")

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.keys: dict[tuple[Generator, int], list[Tensor]] = {}
        self.marks: dict[Generator, Any] = {}  # where the source stood when the last turn ended


class _Outside(threading.local):
    """The source of keys outside every turn: the generator itself."""

    group: _Group | None = None

    def take(self, generator: Generator) -> Tensor:
        return generator.advance()

    def mark(self, generator: Generator) -> Any:
        return generator.seeded, generator.calls


_outside = _Outside()


class Turn:
    """One of several runs of a program, one after another, that draw with the same call indices.

    A turn goes on with the group of the turn before it unless one of its numbers has had its turn,
    or something was drawn or seeded in between; then it starts a new group.

    Args:
        numbers: which copies of the program run in this turn.
    """

    __slots__ = ("_shared", "_taken", "group", "numbers", "source")

    def __init__(self, numbers: Iterable[int]) -> None:
        self.numbers = set(numbers)

    def __enter__(self) -> Turn:
        self.group: _Group | None = None  # of the turns within this one
        self._taken: dict[tuple[Generator, int], int] = {}
        self.source: Any = modes.turn or _outside
        self._shared = self._joined()
        modes.turn = self
        return self

    def _joined(self) -> _Group:
        """The group of the turns before this one, or a new one."""
        group: _Group | None = self.source.group
        if (
            group is None
            or group.numbers & self.numbers
            or any(self.source.mark(g) != mark for g, mark in group.marks.items())
        ):
            group = self.source.group = _Group()
        group.numbers |= self.numbers
        return group

    def __exit__(self, *error: Any) -> None:
        modes.turn = self.source if self.source is not _outside else None
        self._shared.marks = {g: self.source.mark(g) for g, _ in self._shared.keys}

    def take(self, generator: Generator) -> Tensor:
        """The key of this turn's next draw: the one that the other turns took there."""
        name = self._name(generator)
        keys = self._shared.keys.setdefault(name, [])
        n = self._taken.get(name, 0)
        self._taken[name] = n + 1
        if n == len(keys):
            keys.append(self.source.take(generator))
        return keys[n]

    def mark(self, generator: Generator) -> Any:
        """Where this turn stands."""
        name = self._name(generator)
        return name[1], self._taken.get(name, 0)

    def _name(self, generator: Generator) -> tuple[Generator, int]:
        """What keys are noted under: a new seed within a turn starts a new list."""
        return generator, generator.seeded


class lane(Turn):
    """Run a block as one lane of a loop, with the numbers that ``vmap`` gives to that lane.

    Blocks with different indices, one after another, are lanes of one loop: the n-th draw of each
    takes the same call index of the generator and the lane's own numbers. A draw outside, a new
    seed or an index that comes again starts a new loop. Blocks nest as ``vmap`` does.

    Args:
        index: the lane, an int >= 0.

    Raises:
        DTypeError: if it is no integer.
        ValueError: if it is negative.

    Example:
        >>> import fx
        >>> def noisy(x):
        ...     return x + fx.randn(2)
        >>> state = fx.get_rng_state()
        >>> mapped = fx.vmap(noisy)(fx.zeros((3, 2)))
        >>> fx.set_rng_state(state)
        >>> rows = []
        >>> for i in range(3):
        ...     with fx.random.lane(i):
        ...         rows.append(noisy(fx.zeros(2)))
        >>> bool((mapped == fx.stack(rows)).all())
        True
    """

    __slots__ = ("_saved", "number")

    def __init__(self, index: int) -> None:
        try:
            self.number = index.__index__()
        except (AttributeError, TypeError):
            raise DTypeError(
                f"lane: the index is an int, got {index!r:.60}; "
                f"write for i in range(n): with fx.random.lane(i): ..."
            ) from None
        if self.number < 0:
            raise ValueError(f"lane: the index must not be negative, got {index}")
        super().__init__((self.number,))

    def __enter__(self) -> lane:
        super().__enter__()
        self._saved = modes.lanes
        modes.lanes = (*modes.lanes, self)
        return self

    def __exit__(self, *error: Any) -> None:
        modes.lanes = self._saved
        super().__exit__(*error)

    def index(self, device: str) -> Tensor:
        """The lane's number, int64 ()."""
        return constant(self.number, int64, device)


class Replay(Turn):
    """A block that may be entered again, and then draws what it drew the first time.

    For what runs a program twice, as ``checkpoint`` does: make it where the program runs first. The
    lanes that ran then run again; generators move on only the first time.
    """

    __slots__ = ("_base", "_lanes", "_notes", "_saved")

    def __init__(self) -> None:
        super().__init__(())
        self._lanes = modes.lanes
        self._notes = _Group()

    def __enter__(self) -> Replay:
        self._base: dict[Generator, int] = {}
        super().__enter__()
        self._saved = modes.lanes
        modes.lanes = self._lanes
        return self

    def __exit__(self, *error: Any) -> None:
        modes.lanes = self._saved
        super().__exit__(*error)

    @property
    def cells(self) -> set[Any]:
        """The cells of the generators that were drawn from."""
        return {generator.cell for generator, _ in self._notes.keys}

    def _joined(self) -> _Group:
        return self._notes

    def _name(self, generator: Generator) -> tuple[Generator, int]:
        # a seed between the runs is nothing to the second one
        return generator, generator.seeded - self._base.setdefault(generator, generator.seeded)


def take(generator: Generator) -> Tensor:
    """The key of a generator's next draw in the running turns."""
    return generator.advance() if modes.turn is None else modes.turn.take(generator)


def enter_lanes(key: Tensor) -> Tensor:
    """The key of the running lanes: the lane words of the first, a derived key for each further."""
    device = key.device.name
    numbers = [entry.index(device) for entry in modes.lanes]
    for depth, number in enumerate([n for n in numbers if n is not None]):
        if depth:
            key = prims.derive(key, constant(0, int64, device))
        key = prims.with_lane(key, number)
    return key
