"""Host numbers: what a program computes of Python numbers, done by Python in each call.

Numbers have no size and no overflow in Python, and errors of their own. So what a staged function
does with the numbers that it is given is written down in a ``Table`` and done again, operator by
operator, in each call; only a number that meets a tensor becomes an input of the graph.

    n * m + 1                 0: number 0    1: number 1    2: mul(0, 1)    3: add(2, 1)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from fx.dtypes import plain
from fx.host_values import StagedValue
from fx.staged_number import StagedNumber
from fx.transforms.jitting.guards.reads import origin
from fx.transforms.jitting.handled import was_sent

ERRORS = (ArithmeticError, ValueError, TypeError)  # what Python raises about numbers
_TOTAL = frozenset(
    (operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.abs)
)


class Table:
    """What a program computes of numbers: entries that name earlier ones."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, tuple[tuple[bool, Any], ...]]] = []
        self.known: dict[Any, int] = {}
        self.draws: dict[int, int | None] = {}  # places of draws, each with that of the one before
        self.generators: list[Any] = []  # that are drawn from; None for a clock
        self.clocks: set[int] = set()  # places of times
        self.items: dict[int, Any] = {}  # by place, values of the graph whose one element it is
        self._steps: dict[int, tuple[int, ...]] = {}

    def root(self, index: int, time: int) -> Host:
        """A number of the call as it is after ``time`` effects."""
        return self._entry((None, index, time), None, ((False, index), (False, time)))

    def draw(self, again: Any, before: int | None, generator: Any) -> Host:
        """What ``again`` gives, which is called anew in each call, after the draw ``before``."""
        args = tuple([(True, x.host.place) for x in again.staged])
        found = self._entry(("draw", before, again, args), again, args)
        if found.place not in self.draws:
            self.draws[found.place] = before
            if not any(x is generator for x in self.generators):
                self.generators.append(generator)
            if generator is None:
                self.clocks.add(found.place)
        return found

    def item(self, value: Any) -> Host:
        """The one element of a value of the graph, which is there when its segment has run."""
        found = self._entry(("item", value), _element, ((False, value),))
        self.items[found.place] = value
        return found

    def items_of(self, place: int) -> list[int]:
        """The places of elements of tensors that an entry needs."""
        return [at for at in self.steps(place) if at in self.items] if self.items else []

    def is_drawn(self, place: int, by: Any = None) -> bool:
        """Whether an entry depends on a draw, or on one of ``by``."""
        by = self.draws if by is None else by
        return bool(by) and any(at in by for at in self._needed(place))

    def computed(self, function: Callable[..., Any], args: Sequence[Any]) -> Host:
        """What ``function`` gives for numbers, some of them staged."""
        found = tuple(
            [
                (True, x.host.place) if type(x) in (StagedNumber, StagedValue) else (False, x)
                for x in args
            ]
        )  # fmt: skip
        key = (function, *[(s, x) if s else (s, type(x), repr(x)) for s, x in found])
        return self._entry(key, function, found)

    def _entry(self, key: Any, function: Any, args: Any) -> Host:
        place = self.known.get(key)
        if place is None:
            place = self.known[key] = len(self.entries)
            self.entries.append((function, args))
        return Host(self, place)

    def steps(self, place: int) -> tuple[int, ...]:
        """The entries that one needs, itself the last, and all draws before those that it needs."""
        found = self._steps.get(place)
        if found is None:
            found = self._steps[place] = tuple(sorted(self._needed(place, self.draws)))
        return found

    def roots(self, places: Sequence[int]) -> set[int]:
        """The numbers of the call that some entries need."""
        entries = [self.entries[at] for place in places for at in self.steps(place)]
        return {args[0][1] for function, args in entries if function is None}

    def _needed(self, place: int, draws: dict[int, int | None] | None = None) -> set[int]:
        needed, waiting = set(), [place]
        while waiting:
            at = waiting.pop()
            if at not in needed:
                needed.add(at)
                function, args = self.entries[at]
                if function is not None:
                    waiting += [x for staged, x in args if staged]
                before = draws.get(at) if draws else None
                if before is not None:
                    waiting.append(before)
        return needed

    def time(self, place: int) -> int:
        """How many effects come before the last of the numbers that an entry needs."""
        entries = [self.entries[i] for i in self.steps(place)]
        return max([args[1][1] for function, args in entries if function is None], default=0)

    def evaluate(self, place: int, numbers: Any, values: dict[int, Any]) -> Any:
        """An entry for the numbers of a call; ``values`` keeps what was computed."""
        from fx.transforms.jitting.program import GiveUp

        for at in self.steps(place):
            if at in values:
                continue
            function, args = self.entries[at]
            if function is _element:
                values[at] = numbers.get(args[0][1]).item()
                continue
            if function is not None:
                values[at] = function(*[values[x] if staged else x for staged, x in args])
                continue
            index, time = args[0][1], args[1][1]
            if time and not hasattr(numbers, "number"):
                raise GiveUp(
                    "Python asks for a number after a scheduler has changed it; call the scheduler "
                    "last"
                )
            values[at] = numbers.number(index, time) if time else numbers[index]
        return values[place]

    def function(
        self,
        wanted: Sequence[tuple[int, Any]],
        given: Sequence[int],
        count: int,
        asked: Sequence[Any] = (),
        drawn: int | None = None,
    ) -> Callable[..., tuple[Any, ...]]:
        """Entries as a function of ``count`` numbers before any effect, written for them.

        Args:
            wanted: entries that it gives as arrays (), with their dtypes.
            given: entries that it gives as they are.
            asked: assumptions that are looked at on the way; where one fails it gives None.
            drawn: the last draw that it makes.
        """
        names: dict[str, Any] = {"array": _fresh if self.draws else np.array}
        lines = [f"def compute({', '.join([f'n{i}' for i in range(count)])}):"]
        last = () if drawn is None else (drawn,)
        places = (*[p for p, _ in wanted], *given, *[p.host.place for p in asked], *last)
        asks: dict[int, list[int]] = {}
        for i, p in enumerate(asked):
            asks.setdefault(p.host.place, []).append(i)
            names[f"ask{i}"] = p.is_so
        for at in sorted({i for p in places for i in self.steps(p)}):
            function, args = self.entries[at]
            if function is None:
                lines.append(f"    v{at} = n{args[0][1]}")
                lines += [f"    if not ask{i}(v{at}): return None" for i in asks.get(at, ())]
                continue
            names[f"f{at}"] = function
            names.update({f"c{at}_{i}": x for i, (staged, x) in enumerate(args) if not staged})
            listed = [f"v{x}" if staged else f"c{at}_{i}" for i, (staged, x) in enumerate(args)]
            lines.append(f"    v{at} = f{at}({', '.join(listed)})")
            lines += [f"    if not ask{i}(v{at}): return None" for i in asks.get(at, ())]
        names.update({f"d{i}": dtype for i, (_, dtype) in enumerate(wanted)})
        made = [f"array(v{p}, d{i}), " for i, (p, _) in enumerate(wanted)]
        lines.append(f"    return ({''.join([*made, *[f'v{p}, ' for p in given]])})")
        exec(compile("\n".join(lines), "<numbers>", "exec"), names)
        return names["compute"]  # type: ignore[no-any-return]


class Host:
    """An entry of a table, as a function of the numbers of a call."""

    __slots__ = ("place", "table")

    def __init__(self, table: Table, place: int) -> None:
        self.table = table
        self.place = place

    def __call__(self, numbers: Any) -> Any:
        return self.table.evaluate(self.place, numbers, {})


class Fits:
    """Whether a number can be a tensor of a dtype; raises what NumPy says if not."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __call__(self, x: Any) -> bool:
        if type(x) is StagedNumber:  # of a function around this one
            return x.known(self)  # type: ignore[no-any-return]
        array_of(x, self.dtype)
        return True

    def __eq__(self, other: object) -> bool:
        return type(other) is Fits and other.dtype is self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


def _element(x: Any) -> Any:
    """The one element of an array that has come out, as a Python number."""
    return x.item()


def _fresh(x: Any, dtype: Any) -> np.ndarray:
    """A number, or an array, as a new dense array."""
    return np.array(x, dtype, order="C")


def array_of(x: Any, dtype: Any) -> np.ndarray:
    """A number as an array () of a dtype, weak as Python's own where it is NumPy's."""
    return np.asarray(plain(x.item() if isinstance(x, np.generic) else x, dtype), dtype)


def may_change(function: Callable[..., Any], nows: Sequence[Any]) -> bool:
    """Whether an operator may raise, or give another type, for other numbers of these types."""
    return function not in _TOTAL or len(set(map(type, nows))) > 1


def itself(x: Any) -> Any:
    """The question what a number is."""
    return x


def kind_of(x: Any) -> Any:
    """The question of which type it is."""
    return x.known(type) if type(x) is StagedNumber else type(x)


def answer(
    ask: Callable[[Any], Any], host: Host, numbers: Any, values: dict[int, Any] | None = None
) -> Any:
    """What a question gives for the numbers of a call; an error is an answer: its type and text."""
    try:
        found = ask(host.table.evaluate(host.place, numbers, {} if values is None else values))
    except ERRORS as error:
        if was_sent(error):
            raise
        return type(error), str(error)
    return found.known(itself) if type(found) is StagedNumber else found


def asks_types(function: Any) -> bool:
    """Whether a function, or one of the user's that it names, calls ``type``."""
    seen: set[Any] = set()
    waiting = [function]
    while waiting:
        f = waiting.pop()
        f = getattr(f, "__func__", f)
        if not isinstance(f, FunctionType) or f.__code__ in seen:
            continue
        if origin(f.__code__.co_filename) != "user":
            continue
        codes = [f.__code__]
        while codes:
            code = codes.pop()
            seen.add(code)
            if "type" in code.co_names:
                return True
            codes += [x for x in code.co_consts if isinstance(x, CodeType)]
            waiting += [f.__globals__[n] for n in code.co_names if n in f.__globals__]
        for cell in f.__closure__ or ():
            try:
                waiting.append(cell.cell_contents)
            except ValueError:  # it is not bound yet
                continue
    return False
