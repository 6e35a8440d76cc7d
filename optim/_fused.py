"""One native update for all parameters of a group, in their own memory.

A rule whose arithmetic is elementwise is staged once for each dtype and set of switches, with its
numbers (learning rate, betas) as inputs, and compiled to a loop that serves arrays of every length
(``fx/backends/cpu/llvm/sweep.py``). A step then is one call for all groups, of a builtin
(``commit`` beside it). It writes into the arrays that parameters and slots hold where nobody
else holds them, and into copies where somebody does, so that a tensor that was read before keeps
its value; and what comes out is stored before anything else can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fx import limits
from fx.away import pause, value_of
from fx.dtypes import float32, float64
from fx.graph.staging import Stage
from fx.levels import Level
from fx.spec import TensorSpec
from fx.staged_number import StagedNumber
from fx.state import Cell
from fx.tensor import Tensor

Values = list[Any]


class _Unfit(Exception):
    """The options hold something that no program takes, as a learning rate that is a tensor."""


class _Rule(Stage):
    """A rule that is being staged: what it asks of numbers becomes a condition of the program."""

    def __init__(self, name: str, level: Level, dtype: Any) -> None:
        super().__init__(name, level)
        self.dtype = dtype
        self.inputs: list[tuple[Any, Callable[[Values], Any]]] = []
        self.asked: list[tuple[Callable[[Values], Any], Callable[[Any], Any], Any]] = []

    def new_number(self, now: Any, host: Callable[[Values], Any]) -> StagedNumber:
        """A number as an input in the dtype of the parameters."""
        from fx.graph.ir import input_value

        value = input_value(TensorSpec((), self.dtype))
        self.inputs.append((value, host))
        return StagedNumber(self, self.tracer(value), now, host)

    def computed(self, function: Callable[..., Any], args: tuple[Any, ...]) -> StagedNumber:
        """What a function gives for numbers, without an input: it is asked about."""
        staged = [x.host if type(x) is StagedNumber else None for x in args]
        now = function(*[x.now if type(x) is StagedNumber else x for x in args])
        host = lambda values: function(
            *[x if h is None else h(values) for x, h in zip(args, staged)]
        )
        return StagedNumber(self, None, now, host)

    def on_numbers(self, function: Callable[..., Any], args: tuple[Any, ...]) -> StagedNumber:
        """An operator on numbers, done in Python in every step."""
        now = function(*[x.now if type(x) is StagedNumber else x for x in args])
        one = args[0]
        if len(args) == 1:
            host = one.host
            return self.new_number(now, lambda values: function(host(values)))
        other = args[1]
        if type(one) is not StagedNumber:
            host = other.host
            return self.new_number(now, lambda values: function(one, host(values)))
        first = one.host
        if type(other) is not StagedNumber:
            return self.new_number(now, lambda values: function(first(values), other))
        second = other.host
        return self.new_number(now, lambda values: function(first(values), second(values)))

    def assume(self, number: StagedNumber, ask: Callable[[Any], Any]) -> Any:
        """The answer now; the program serves steps that have the same."""
        answer = ask(number.now)
        self.asked.append((number.host, ask, answer))
        return answer


class _Options(Mapping[str, Any]):
    """The options of a group as a rule that is staged reads them."""

    def __init__(self, stage: _Rule, group: Mapping[str, Any]) -> None:
        self._stage, self._group = stage, group
        self.paths: list[tuple[str, int | None]] = []  # of the numbers
        self.fixed: dict[str, Any] = {}  # what is no number
        self._made: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key in self._made:
            return self._made[key]
        value = self._group[key]
        if type(value) is float or type(value) is int:
            out: Any = self._number(value, key, None)
        elif type(value) in (tuple, list) and all(type(x) in (float, int) for x in value):
            out = tuple([self._number(x, key, i) for i, x in enumerate(value)])
        elif value is None or isinstance(value, bool | str):
            out = self.fixed[key] = value
        else:
            raise _Unfit
        self._made[key] = out
        return out

    def _number(self, value: Any, key: str, place: int | None) -> StagedNumber:
        index = len(self.paths)
        self.paths.append((key, place))
        return self._stage.new_number(value, lambda values: values[index])

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)


class Program:
    """The compiled update of a rule, for one dtype and one set of switches."""

    def __init__(
        self,
        rule: Any,
        dtype: Any,
        names: Sequence[str],
        scalars: Sequence[str],
        group: Mapping[str, Any],
    ) -> None:
        from fx.backends.cpu.llvm.sweep import LENGTH, Sweep
        from fx.graph.ir import Graph, input_value
        from fx.graph.manager import optimize

        vectors = [input_value(TensorSpec((LENGTH,), dtype)) for _ in range(2 + len(names))]
        given = [input_value(TensorSpec((), dtype)) for _ in scalars]
        with Level("jit") as level, _Rule("an optimizer's rule", level, dtype) as staged:
            x, g, *slots = map(staged.tracer, vectors)
            told = dict(zip(scalars, map(staged.tracer, given)))
            options = _Options(staged, group)
            x, new = rule.update(x, g, dict(zip(names, slots)), told, options)
            outs = [staged.value_of(staged.lower(v)) for v in (x, *[new[n] for n in names])]
        if staged.captured:
            raise _Unfit
        into = [0, *range(2, len(vectors))]
        kept = [(v, i) for v, i in zip(outs, into) if v is not vectors[i]]
        inputs = [*vectors, *given, *[v for v, _ in staged.inputs]]
        graph = optimize(Graph(inputs, staged.nodes, [v for v, _ in kept], "update"))
        self.sweep = Sweep(graph, len(vectors), [i for _, i in kept])
        self.given = len(given)
        self.hosts = [host for _, host in staged.inputs]
        self.asked = staged.asked
        self.paths = options.paths
        self.fixed = options.fixed
        self.layouts: dict[tuple[int, ...], list[Any]] = {}  # those that no call uses

    def values(self, group: Mapping[str, Any]) -> Values | None:
        """The numbers of a step; None if this program is not for these options."""
        for key, expected in self.fixed.items():
            if group[key] is not expected and group[key] != expected:
                return None
        values = [group[k] if place is None else group[k][place] for k, place in self.paths]
        for value in values:
            if type(value) is not float and type(value) is not int:
                return None
        for host, ask, answer in self.asked:
            if ask(host(values)) != answer:
                return None
        return values

    def job(self, items: list[Any], lengths: list[int], told: Values, values: Values) -> Job:
        """The update of some parameters, by cells and gradients."""
        key = tuple(lengths)
        free = self.layouts.get(key)
        if free is None:
            if len(self.layouts) >= _LAYOUTS:
                self.layouts.clear()
            free = self.layouts[key] = []
        layout = free.pop() if free else self.sweep.layout(lengths)
        if told or self.hosts:
            layout.scalars[:, 0] = [*told, *[host(values) for host in self.hosts]]
        return Job([layout.words, *items], layout, free)


class Job(NamedTuple):
    """One sweep of a step.

    Attributes:
        items: the words of the layout, then for each parameter its cell, the array of its gradient
            and the cells of its slots.
        layout: where the tasks begin.
        free: where the layout waits for the next step.
    """

    items: list[Any]
    layout: Any
    free: list[Any]


_slot = dict.__getitem__
_LAYOUTS = 16
_programs: dict[Any, list[Program]] = {}
limits.on_change(_programs.clear)
_hopeless: set[Any] = set()


def _program(
    rule: Any, dtype: Any, names: tuple[str, ...], scalars: tuple[str, ...], group: Any
) -> tuple[Program, Values] | None:
    """The program for a group's options with their numbers; None if there can be none."""
    key = rule, dtype, names, scalars
    for known in _programs.get(key, ()):
        values = known.values(group)
        if values is not None:
            return known, values
    if key in _hopeless:
        return None
    try:
        made = Program(rule, dtype, names, scalars, group)
    except _Unfit:
        return None
    except (ValueError, RuntimeError, ImportError):  # no loop of its own, or no compiler here
        _hopeless.add(key)
        return None
    _programs.setdefault(key, []).insert(0, made)
    values = made.values(group)
    return None if values is None else (made, values)


def _dtype(cell: Cell, g: Tensor, held: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The dtype of a parameter whose arrays a program can take; None for another."""
    x = cell.value
    if type(x) is not Tensor:
        x = value_of(cell)
        if type(x) is not Tensor:
            return None
    array = x._a
    dtype, shape = array.dtype, array.shape
    if dtype is not float32 and dtype is not float64:
        return None
    tensors = [x, g]
    for name in names:
        slot = _slot(held, name)
        y = slot.value
        tensors.append(y if type(y) is Tensor else value_of(slot))
    for y in tensors:
        if type(y) is not Tensor:
            return None
        array = y._a
        if type(array) is not np.ndarray or array.dtype is not dtype or array.shape != shape:
            return None
    return dtype


def jobs(
    rule: Any,
    group: Mapping[str, Any],
    moving: Sequence[tuple[Cell, Tensor, dict[str, Any], Any]],
    names: tuple[str, ...],
) -> list[Job] | None:
    """What is to be called to update parameters and slots: a sweep a dtype.

    Args:
        rule: elementwise.
        group: its options.
        moving: for each parameter its cell, its gradient, its slots by name, and the clock of its
            step.
        names: of the slots.

    Returns:
        None if not all of them can be updated so.
    """
    buckets: dict[Any, list[Any]] = {}
    for one in moving:
        dtype = _dtype(*one[:3], names)
        if dtype is None:
            return None
        buckets.setdefault((id(one[3]), dtype), []).append(one)
    plans = []
    for (_, dtype), listed in buckets.items():
        told = listed[0][3].scalars(dtype)
        found = _program(rule, dtype, names, tuple(told), group)
        if found is None:
            return None
        plans.append((*found, [float(v) for v in told.values()], listed))
    made = []
    for program, values, told, listed in plans:
        items: list[Any] = []
        lengths = []
        for cell, g, held, _ in listed:
            slope = g._a
            if not slope.size:
                continue
            flags = slope.flags
            dense = flags.c_contiguous and flags.aligned
            items += [cell, slope if dense else np.array(slope, order="C")]
            items += [_slot(held, name) for name in names]
            lengths.append(slope.size)
        if lengths:
            made.append(program.job(items, lengths, told, values))
    return made


@cache
def _updater() -> Any:
    from fx.backends.cpu.llvm.commit import updater

    return updater()


def run(work: Sequence[Job], stores: Sequence[tuple[Cell, Tensor]]) -> bool:
    """Do all of the work, and let cells hold other tensors: the whole of it or nothing.

    Returns:
        False if some array is not as it was when the work was planned; then nothing has happened.
    """
    update = _updater()
    if update is None:
        return False
    pairs = [x for cell, held in stores for x in (cell, held)]
    call: list[Any] = [*[job.items for job in work], pairs]
    while (done := update(call)) is None:
        pause()
    for job in work:
        job.free.append(job.layout)
    return done  # type: ignore[no-any-return]
