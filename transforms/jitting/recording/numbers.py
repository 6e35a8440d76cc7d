"""Recording of Python numbers: those that are given, computed and drawn."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Sequence
from operator import index
from types import CellType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fx.config import modes
from fx.dtypes import INEXACT, float64, int64
from fx.frames import user_line
from fx.graph.staging import StageTracer
from fx.graph.surroundings import Outside
from fx.host_values import StagedValue
from fx.prims.compare import astype, stop_gradient
from fx.slotted import slotted
from fx.spec import TensorSpec
from fx.staged_number import (
    Length,
    StagedNumber,
    is_dynamic,
    is_dynamic_argument,
    own_value,
)
from fx.tensor import Tensor
from fx.transforms.jitting.program import (
    ARGUMENT,
    Counted,
    Effect,
    Enclosed,
    GiveUp,
    Predicate,
)
from fx.transforms.jitting.recording.host import ERRORS, Fits, itself, kind_of, may_change
from fx.transforms.jitting.recording.sizes import SizeRecording

_TIMES = (datetime.date, datetime.time, datetime.timedelta)
_VALUES = (itself, own_value, float, complex)  # questions that tell numbers apart


class NumberRecording(SizeRecording):
    """The part of a recording that knows Python numbers."""

    call: Any
    path: list[Any]
    depth: int
    time: int
    outer: Any
    written: dict[tuple[int, Any], tuple[Any, Any, Any]]
    slots: dict[tuple[int, Any], StagedNumber]
    effects: list[Effect]
    expects: list[Predicate]
    last_draw: int | None
    counters: set[int]
    told: dict[Any, Any]

    if TYPE_CHECKING:

        def give_up(self, why: str) -> NoReturn: ...
        def postpone(self) -> NoReturn: ...
        def input(self, source: Any, spec: TensorSpec) -> Any: ...
        def tracer(self, value: Any) -> Any: ...
        def lower(self, x: Any) -> Any: ...
        def value_of(self, x: Any) -> Any: ...
        def _outside(self, function: Callable[..., Any], *args: Any) -> Any: ...
        def _ask(self, values: Any, function: Any, number: Any = None) -> Any: ...
        def is_total(self, function: Any, args: Any) -> bool: ...
        def _end(self, reason: GiveUp, error: Exception) -> None: ...

    def number_argument(self, place: int, now: Any) -> StagedNumber:
        """What stands for a Python number among the arguments."""
        return self._number((ARGUMENT, place), now)

    def counter(self, held: Any, key: Any, now: Any) -> StagedNumber:
        """What stands for a number that the function counts, in a dict or a closure's cell."""
        numbers = self.program.numbers
        owners = [owner.cell if type(owner) is Enclosed else owner for owner, _, _ in numbers]
        known = [i for i, owner in enumerate(owners) if owner is held and numbers[i][1] == key]
        place = known[0] if known else len(numbers)
        if not known:
            numbers.append((Enclosed(held) if type(held) is CellType else held, key, type(now)))
        host = self.program.table.root(place, 0)
        self.counters.add(host.place)
        self.call.counted[place] = now
        return StagedNumber(self, None, now, host)

    def read_number(self, held: dict[Any, Any], key: Any) -> Any:
        """What stands for a number that lives in a dict."""
        written = self.written.get((id(held), key))
        if written is not None:
            return written[2]
        return self._number((held, key), dict.__getitem__(held, key))

    def write_number(self, held: dict[Any, Any], key: Any, value: Any) -> bool:
        """Note that a number is written; False for what is no number."""
        if isinstance(value, Tensor) and isinstance(self.lower(value), StageTracer):
            self.give_up(f"it stores a tensor under {key!r}, where a Python number was expected")
        if not is_dynamic(value):
            return False
        self.written[(id(held), key)] = (held, key, value)
        return True

    def _number(self, place: Any, now: Any) -> StagedNumber:
        owner, key = place
        time = 0 if isinstance(owner, str) else self.time
        slot = (owner if isinstance(owner, str) else id(owner), key, time)
        found = self.slots.get(slot)
        if found is None:
            numbers = self.program.numbers
            index = next(
                (i for i, (o, k, _) in enumerate(numbers) if o is owner and k == key), None
            )
            if index is None:
                index = len(numbers)
                numbers.append((owner, key, type(now)))
            found = StagedNumber(self, None, now, self.program.table.root(index, time))
            self.slots[slot] = found
        return found

    def host(self, effect: Any, held: Any, args: Sequence[Any]) -> None:
        changed = {id(x) for x in held}
        if any(id(x) in changed for x, _, _ in self.written.values()):
            self.give_up("a scheduler steps after the same numbers were written")
        values = tuple([self.value_of(self.lower(x)) for x in args])
        self.time += 1
        if self.depth >= len(self.path):  # else the call has run it already
            self.effects.append(Effect(effect, tuple(held), values))
            self._outside(self.call.affect, self.effects[-1])

    def on_numbers(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A Python operator on numbers, some of them staged."""
        found = self.computed(function, args)
        return found if is_dynamic_argument(found.now) else self.assume(found, itself)

    def computed(self, function: Callable[..., Any], args: tuple[Any, ...]) -> StagedNumber:
        """What a function gives for numbers, which Python computes in each call."""
        nows = [x.now if type(x) is StagedNumber else x for x in args]
        host = self.program.table.computed(function, args)
        try:
            found = StagedNumber(self, None, function(*nows), host)
        except ERRORS as error:  # it may not be one with other numbers
            if self.program.table.items_of(host.place):
                self._end(GiveUp("", lasting=False), error)
            else:
                self._suppose(host, itself, (type(error), str(error)))
            raise
        if may_change(function, nows) and not self.is_total(function, args):
            self._suppose(host, kind_of, type(found.now))
        return found

    def meet(self, number: StagedNumber, dtype: Any) -> Tensor:
        """A number as an input of the graph, in a dtype.

        Raises:
            OverflowError: if it does not fit.
        """
        host: Any = number.host
        element = self.program.table.items.get(host.place)
        if element is not None and dtype in INEXACT and isinstance(number.now, float):
            return astype(stop_gradient(self.tracer(element)), dtype=dtype)  # type: ignore[no-any-return]
        if not isinstance(number.now, float) or dtype not in INEXACT:
            self.assume(number, Fits(dtype))
        elif self.program.table.items_of(host.place):
            self.assume(number, kind_of)
        source = Counted(host, dtype, host.table.time(host.place))
        return self.tracer(self.input(source, TensorSpec((), dtype)))

    def stored(self, number: StagedNumber) -> Tensor | None:
        """A number that is written somewhere as a tensor that holds it; None where none does."""
        dtype = {int: int64, float: float64}.get(type(number.now))
        if dtype is None or not (type(number.now) is float or -(2**63) <= number.now < 2**63):
            return None
        return self.meet(number, dtype)

    def assume(self, number: StagedNumber, ask: Callable[[Any], Any]) -> Any:
        """Ask about a number, and let the program serve only calls with the same answer."""
        if self.counters and (ask in _VALUES or ask in (int, index)):
            self._may_tell(number)
        whole = ask is int or isinstance(number.now, int)  # a float is no index
        if ask in (int, index) and whole and self.becomes_length(number):
            ask = Length()
        if self.program.table.items_of(number.host.place):
            return self._ask_number(number, ask)
        if self.program.table.is_drawn(number.host.place):
            self._may_ask(number, ask)
            if self.depth and not is_layout(ask):
                return self._ask_number(number, ask)
        try:
            found = ask(number.now)
        except ERRORS as error:  # int() of inf
            self._suppose(number.host, ask, (type(error), str(error)))
            raise
        self._suppose(number.host, ask, found)
        return found

    def _suppose(self, host: Any, ask: Callable[[Any], Any], found: Any) -> None:
        known = self.program.predicates
        self.measured = self.measured or type(ask) is Length
        if self.program.table.items_of(host.place):
            self._ask_number(StagedNumber(self, None, None, host), ask)
            return
        if self.depth and self.program.table.is_drawn(host.place):
            known = self.expects
        if not any(p.host.place == host.place and p.ask == ask for p in known):
            known.append(Predicate(host, ask, found, user_line()))

    # draws ---------------------------------------------------------------------------------------

    def draw(self, function: Any, generator: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call what gives something else each time, and note to call it again in every call.

        Args:
            function: what is called.
            generator: the random generator that it draws from; None for a clock.
            name: what messages call it.
            args, kwargs: its own.
        """
        from fx.transforms.jitting.recording.draws import Again, Unfit

        if self.outer is not None:  # the function around this one draws
            self.postpone()
        if modes.stage is not self:
            self._undrawn(f"it calls {name}() in a body that runs any number of times")
        try:
            again = Again(function, args, kwargs)
        except Unfit as what:
            self._undrawn(f"it draws by {name}() from a {what}")
        host = self.program.table.draw(again, self.last_draw, generator)
        self.last_draw = host.place
        self.program.outward = True
        drawn = self.call.drawn
        drawn.note((generator,))
        if host.place not in drawn.values:
            try:
                with Outside(self):  # type: ignore[arg-type]
                    drawn.values[host.place] = again(*[x.now for x in again.staged])
            except Exception as error:  # if it is handled, this call goes its own way
                self._end(GiveUp("", lasting=False), error)
                raise
        return self.held(host, drawn.values[host.place], name, bool(again.staged))

    def shuffle(self, function: Any, generator: Any, name: str, x: Any) -> None:
        """Shuffle a list in place."""
        x[:] = self.draw(Shuffled(function), generator, name, x)

    def applied(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """What a function gives for values, some of them drawn: Python calls it in each call."""
        from fx.transforms.jitting.recording.draws import Again, Unfit

        name = getattr(function, "__name__", "a function")
        try:
            again = Again(function, args, kwargs)
        except Unfit as what:
            self._undrawn(f"it gives {name}() a {what}, and what it draws")
        host = self.program.table.computed(again, again.staged)
        try:
            with Outside(self):  # type: ignore[arg-type]
                value = again(*[x.now for x in again.staged])
        except ERRORS as error:
            self._suppose(host, itself, (type(error), str(error)))
            raise
        return self.held(host, value, name, True)

    def held(self, host: Any, value: Any, name: str, varies: bool) -> Any:
        """What stands for a value that Python computes in each call.

        Args:
            host: what computes it.
            value: in this call.
            name: what messages call the function that gives it.
            varies: whether it may be of another type, shape or length in another call.
        """
        kind = type(value)
        if value is None:
            return None
        if isinstance(value, bool | np.bool_ | str):
            return self.assume(StagedNumber(self, None, value, host), itself)
        if is_dynamic_argument(value):
            if varies:
                self._suppose(host, kind_of, kind)
            return StagedNumber(self, None, value, host)
        if kind is np.ndarray and value.dtype.kind in "biufc":
            if varies:
                self._suppose(host, layout_of, layout_of(value))
            return StagedValue(self, value, host)
        if isinstance(value, _TIMES):
            return StagedValue(self, value, host)
        if kind is list or kind is tuple:
            if varies:
                self._suppose(host, length_of, length_of(value))
            whole, found = StagedValue(self, value, host), []
            for i, item in enumerate(value):
                part = self.program.table.computed(_item, (whole, i))
                found.append(self.held(part, item, name, varies))
            return kind(found)
        return self._undrawn(f"it draws a {kind.__name__} by {name}()")

    def meet_array(self, x: StagedValue, dtype: Any) -> Tensor:
        """An array that is drawn as an input of the graph, in a dtype."""
        host: Any = x.host
        source = Counted(host, dtype, host.table.time(host.place))
        return self.tracer(self.input(source, TensorSpec(x.now.shape, dtype)))  # type: ignore[no-any-return]

    def _may_ask(self, number: Any, ask: Any) -> None:
        """Give up where a question has another answer in each call."""
        if is_layout(ask) or ask is bool or isinstance(number.now, bool | np.bool_ | str):
            return
        clock = self.program.table.is_drawn(number.host.place, self.program.table.clocks)
        exact = ask in _VALUES and isinstance(number.now, float | np.floating)
        if clock or exact or (type(number) is StagedValue and ask not in (int, index)):
            what = "the clock" if clock else "a number that it draws"
            self._undrawn(f"it asks for the value of {what}")

    def _may_tell(self, number: Any) -> None:
        """Give up where a number that is counted is asked for: it is another one in each call."""
        entries, waiting = self.program.table.entries, [number.host.place]
        while waiting:
            place = waiting.pop()
            if place in self.counters:
                self._undrawn("it asks for the value of a number that it counts")
            function, args = entries[place]
            if function in (operator.add, operator.sub, operator.mul):
                waiting += [x for staged, x in args if staged]

    def _undrawn(self, why: str) -> NoReturn:
        self.give_up(
            f"{why} ({user_line()}), which no compiled code can do again; do that outside, and "
            f"pass the result"
        )

    def _ask_number(self, number: Any, ask: Callable[[Any], Any]) -> Any:
        """A question about what was drawn after another question: its answer picks a branch."""
        table, place = self.program.table, number.host.place
        if (place, ask) in self.told:
            return self.told[place, ask]
        items = tuple([table.items[at] for at in table.items_of(place)])
        if self.depth >= len(self.path) and number.now is not None:
            try:
                ask(number.now)
            except ERRORS as error:
                self._end(GiveUp("", lasting=False), error)
                raise
        found = self._ask(items, None, (number.host, ask))
        if items:
            self.told[place, ask] = found
        return found


def is_layout(ask: Any) -> bool:
    """Whether a question is about how a number is kept, and hardly ever has another answer."""
    return isinstance(ask, Fits) or ask in (kind_of, type, layout_of, length_of)


def layout_of(x: Any) -> Any:
    """The question of which dtype and shape an array is."""
    return type(x), str(x.dtype), x.shape


def length_of(x: Any) -> Any:
    """The question how long a list is."""
    return type(x), len(x)


def _item(x: Any, i: int) -> Any:
    return x[i]


@slotted(frozen=True)
class Shuffled:
    """The shuffling of a list, as a function that gives a new one."""

    shuffle: Callable[[Any], None]

    def __call__(self, x: list[Any]) -> list[Any]:
        x = list(x)
        self.shuffle(x)
        return x
