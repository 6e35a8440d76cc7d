"""Recording: the stage of ``jit``, which finds cells, gradients and numbers, and asks questions.

When Python asks for a value, the segment that was staged so far runs, and its result answers. The
answer is noted: a later call with another answer stages the function again, told the answers that
lead to the fork, and what it does from there on becomes another branch. A function of pure
operations does the same operations again; that it does is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn
from weakref import ref

import fx.prims.shape as shape_prims
from fx import limits
from fx.config import modes
from fx.devices import name_of
from fx.frames import user_line
from fx.graph.ir import Node, Value, constant_value, input_value
from fx.graph.named import Named, array_of, node_of
from fx.graph.passes.effects import is_effectful
from fx.graph.staging import Stage, StageTracer
from fx.graph.surroundings import Outside
from fx.levels import Level
from fx.prims.compare import stop_gradient
from fx.spec import TensorSpec
from fx.staged_number import StagedNumber
from fx.tensor import Tensor, new_tensor
from fx.transforms.jitting.program import (
    Argument,
    Captured,
    Counted,
    Effect,
    Found,
    Gathered,
    Given,
    GiveUp,
    Held,
    Predicate,
    Program,
    Question,
    Segment,
    Source,
)
from fx.transforms.jitting.recording.cells import CellRecording
from fx.transforms.jitting.recording.elements import ElementRecording
from fx.transforms.jitting.recording.gradients import PLAIN, GradientRecording, Lifted
from fx.transforms.jitting.recording.numbers import NumberRecording
from fx.transforms.jitting.recording.places import PlaceRecording
from fx.versions import touch
from fx.writing.layouts import steps_after, steps_of

_VIEWS = (shape_prims.transpose, shape_prims.slice, shape_prims.reshape)


class Recording(
    CellRecording, PlaceRecording, NumberRecording, ElementRecording, GradientRecording, Stage
):
    """A function that is being staged for ``jit``.

    Args:
        program: what is found goes there.
        level: of its tracers.
        call: the call in progress: it runs segments and answers questions.
        path: the segments that are known to come first, each with its answer.
    """

    def __init__(
        self, program: Program, level: Level, call: Any, path: Sequence[tuple[Segment, Any]] = ()
    ) -> None:
        super().__init__(program.name, level)
        self.program = program
        self.call = call
        self.path = list(path)
        self.depth = 0
        self.place = 0  # in the nodes of a known segment
        self.made: list[tuple[Any, Value]] = []  # the tracers of this segment's values, weakly
        self.known: set[Value] = set()  # values of this segment
        self.lifted: dict[int, Lifted] = {}  # by the id of the leaf on the tape of this stage
        self.lifted_of: dict[int, tuple[Any, Tensor]] = {}  # by the id of the tensor or the cell
        self.given: dict[int, Tensor] = {}  # arguments, by the id of the leaf on the outer tape
        self.rebound: dict[int, tuple[Any, Tensor]] = {}
        self.seen: dict[int, Any] = {}  # what was last written, by the id of the cell
        self.stepped: dict[int, int] = {}  # how often one got a value otherwise
        self.reread: Any = None  # a cell that requires grad, and was read after it was rebound
        self.reached: Any = None  # what was there before
        self.grafted: Any = None  # whose history a value got that was written without recording
        self.written: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}
        self.slots: dict[tuple[int, Any], StagedNumber] = {}
        self.replaced: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}
        self.effects: list[Effect] = []  # of this segment
        self.expects: list[Predicate] = []  # of this segment
        self.last_draw: int | None = None
        self.items: dict[Value, None] = {}  # of this segment, whose elements are numbers
        self.told: dict[Any, Any] = {}  # what was asked about such numbers
        self.counters: set[int] = set()  # places in the table of numbers that the function counts
        self.time = 0  # how many there were in all
        self.ended: GiveUp | None = None  # why it must not go on, whatever the function does then
        self.ends: list[Callable[[], str]] = []
        self.begun: list[tuple[Any, Any]] = []  # state that began here, by the dicts that have it
        self.inert: set[Value] = set()
        self.stopped: dict[Value, Value] = {}
        self.records = modes.record0
        self.by_source: dict[Any, Value] = {
            _identity(source): value for value, source in program.sources.items()
        }

    def meets_rule(self, application: Any) -> None:
        """The function calls one that has a derivative rule of its own, which Python runs.

        Here the rule is part of what is staged. Who differentiates the results outside of the
        function would run it again, unwatched; or miss it, where a loop was differentiated inside.
        """
        if modes.stage is not self or not application.closed:
            self.program.rule = self.program.rule or (
                f"{application.called} has a derivative rule of its own ({user_line()}), and what "
                f"the function returns is differentiated outside; call backward(), or fx.grad, "
                f"inside of it, which compiles the rule as well"
            )
        super().meets_rule(application)

    def asked_of_history(self) -> None:
        self.program.asks_history = True
        super().asked_of_history()

    def inherits(self, program: Program) -> None:
        self.program.asks_history = self.program.asks_history or program.asks_history
        self.program.rule = self.program.rule or program.rule
        self.program.silences = self.program.silences or program.silences
        super().inherits(program)

    def at_end(self, check: Callable[[], str]) -> None:
        """Ask, when the function is through, why it cannot be compiled; nothing where it can."""
        self.ends.append(check)

    def check_ends(self) -> None:
        """The function is through."""
        for check in self.ends:
            if why := check():
                self.give_up(why)

    # inputs ------------------------------------------------------------------------------------

    def input(self, source: Source, spec: TensorSpec) -> Value:
        """The input of the program that comes from ``source``."""
        key = _identity(source)
        found = self.by_source.get(key)
        if found is None:
            found = self.by_source[key] = input_value(spec)
            self.program.sources[found] = source
        return found

    def note(self, tracer: StageTracer, value: Value) -> None:
        self.made.append((ref(tracer), value))

    def read_named(self, x: Any) -> Tensor:
        if self.call.finder(x) is None and self.outer is not None:
            return super().read_named(x)
        if node_of(x) is not None and self.records:
            return self.with_leaf(x)  # type: ignore[no-any-return]
        return self.tracer(self.capture(x))

    def asked(self, x: Any) -> None:
        """An input, though nothing computes with it: another call compares how it is made."""
        if type(x) is Named:
            if id(x) not in self.captured and self.call.finder(x) is not None:
                self.capture(x)
        elif x.born < self.number and id(x) not in self.cells and type(x.value) is Tensor:
            self.input(Held(ref(x), x.name), x.value.spec)

    def memory_steps(self, x: Any) -> tuple[int, ...] | None:
        if type(x) is Named:
            self.asked(x)
            _, known = self.captured.get(id(x), (None, None))
            return self._noted(known, x)
        if type(x) is StageTracer and x.stage is self:
            value, path = x.ref, []
            while (node := value.node) is not None and node.primitive in _VIEWS:
                path.append((node.primitive, node.params))
                value = node.inputs[0]
            source = self.program.sources.get(value)
            steps = None
            if type(source) is Argument:
                steps = self._noted(value, self.call.signature.tensors[source.number])
            elif type(source) is Held:  # the same object in each call
                with Outside(self):
                    steps = steps_of(getattr(source.cell(), "value", None))
            return steps_after(value.spec.shape, steps, path[::-1]) if path else steps
        return None

    def _noted(self, value: Value | None, x: Any) -> tuple[int, ...] | None:
        """The steps of an input, of which another call must have the same."""
        with Outside(self):
            found = steps_of(x)
        if value in self.program.sources:
            self.program.layouts[value] = found
        return found

    def capture(self, x: Tensor) -> Value:
        found = self.captured.get(id(x))
        if found is None:
            finder = self.call.finder(x)
            if finder is None and type(x) is Tensor and x._node is None:
                value = constant_value(new_tensor(x._a.copy()) if x.device.name == "cpu" else x)
            else:
                value = input_value(_spec_of(x))
                source = Captured(finder or (lambda F, O: x), getattr(finder, "name", "a constant"))
                self.program.sources[value] = source
                self.call.holds(value, x)  # which the function may replace before it is asked for
            found = self.captured[id(x)] = (x, value)
        return found[1]

    # operations --------------------------------------------------------------------------------

    def emit(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        for x in args:
            if type(x) in PLAIN and node_of(x) is not None and modes.record0:
                return primitive(*[self.with_leaf(a) for a in args], **params)
        return super().emit(primitive, args, params)

    def add(self, primitive: Any, values: Sequence[Value], params: Any, specs: Any) -> Node:
        if modes.barrier >= self.number:  # inside no_grad: nothing is differentiated through this
            values = [self._stop(v) for v in values]
        node = self._add(primitive, values, params, specs)
        if modes.barrier >= self.number:
            self.inert.update(node.outs)
        return node

    def _add(self, primitive: Any, values: Sequence[Value], params: Any, specs: Any) -> Node:
        if self.depth < len(self.path):
            nodes = self.path[self.depth][0].nodes
            node = nodes[self.place] if self.place < len(nodes) else None
            if (
                node is None
                or not _is_same(node.primitive, primitive)
                or [v.spec for v in node.outs] != list(specs)
            ):
                self.give_up(
                    f"it does other operations when it runs again ({primitive.name} at "
                    f"{user_line()}), so it depends on something besides its arguments"
                )
            self.place += 1
            return node
        node = Node(primitive, values, params, specs, user_line())
        self.nodes.append(node)
        return node

    def _stop(self, value: Value) -> Value:
        if value.constant is not None or value.spec.dtype.kind in "biu" or value in self.inert:
            return value
        found = self.stopped.get(value)
        if found is None:
            self.program.silences = True
            node = self._add(stop_gradient, [value], {}, [value.spec])
            found = self.stopped[value] = node.outs[0]
        return found

    # questions ---------------------------------------------------------------------------------

    def unknown(self, tracer: StageTracer) -> Tensor:
        return self._ask((tracer.ref,), None)  # type: ignore[no-any-return]

    def boundary(self, function: Callable[..., Any], args: Sequence[Tensor]) -> Any:
        values = tuple([self.value_of(self.lower(x)) for x in args])
        found = self._ask(values, function)
        return tuple([self.tracer(v) for v in found])

    def _ask(
        self, values: tuple[Value, ...], function: Callable[..., Any] | None, number: Any = None
    ) -> Any:
        if self.depth < len(self.path):
            segment, answer = self.path[self.depth]
        else:
            segment = self.close([*values, *self._live()])
            segment.question = Question(values, function, user_line(), number)
            self.program.segments += 1
            if self.program.segments > limits.SEGMENTS:
                self.give_up(f"it branches more than {limits.SEGMENTS} times on values of tensors")
            answer = self._outside(self.call.advance, segment)
            self.path.append((segment, answer))
        assert segment.question is not None
        branch = segment.question.branches[answer]
        self.depth += 1
        self.place = 0
        self.nodes = []
        self.made = []
        self.effects = []
        self.expects = []
        self.items = {}
        # nobody holds these: the segment that has made them does not hand them on
        self.stopped = {}
        self.constants = {k: v for k, v in self.constants.items() if v.constant is not None}
        return branch.results

    def _live(self) -> list[Value]:
        """The values of this segment that Python still holds."""
        mine = {v for node in self.nodes for v in node.outs}
        return [value for tracer, value in self.made if value in mine and tracer() is not None]

    def close(self, gives: Sequence[Value]) -> Segment:
        """The segment that was staged so far."""
        mine = {v for node in self.nodes for v in node.outs}
        given = [v for v in dict.fromkeys(gives) if v in mine]
        needs: dict[Value, None] = {}
        for node in self.nodes:
            for v in node.inputs:
                if v.constant is None and v not in mine:
                    needs[v] = None
        given += [v for e in self.effects for v in e.values if v in mine and v not in given]
        given += [v for v in self.items if v in mine and v not in given]
        segment = Segment(
            self.nodes, list(needs), given, self.effects, self.last_draw, self.expects
        )
        if not self.path:
            self.program.root = segment
        else:
            before, answer = self.path[-1]
            assert before.question is not None
            before.question.branches[answer].follows = segment
        return segment

    # the end of staging --------------------------------------------------------------------------

    def give_up(self, why: str) -> NoReturn:
        """Let the function run as it is."""
        self.ended = self.ended or GiveUp(why)
        raise self.ended

    gives_up = give_up  # for stages inside

    def postpone(self) -> None:
        self.ended = self.ended or GiveUp("", lasting=False)
        raise self.ended

    def makes(self, held: Any, key: Any) -> None:
        self.begun.append((held, key))

    def unmake(self) -> None:
        """Let go of the state that was begun: the function runs as it is, and begins its own."""
        for held, key in self.begun:
            dict.pop(held, key, None)
        if self.begun:
            touch()
        self.begun = []

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if error[0] is not None:
            self.unmake()
        elif self.outer is not None:
            for held, key in self.begun:
                self.outer.makes(held, key)

    def registers(self, holder: Any, name: str) -> None:
        if self.reached is not None and self.reached.knows(holder):
            self.changes(f"which tensor {name} is; write {name}.copy_(x) under no_grad")
        super().registers(holder, name)

    def shown(self, x: Any) -> None:
        self.give_up(
            f"it makes a text of {x.spec!r}, which has other values in each call; to show them "
            f"write fx.debug.print('{{}}', x)"
        )

    def grafts(self, x: Any) -> None:
        self.grafted = x if self.grafted is None else self.grafted

    def changes(self, what: str) -> NoReturn:
        self.ended = self.ended or self.call.jitted.changing(self.call.signature.key, what)
        raise self.ended

    def refused(self, error: Exception) -> bool:
        self._end(GiveUp(f"it handles an error of staging: {error}"), error)
        return True

    def _end(self, reason: GiveUp, error: Exception) -> None:
        if self.ended is None:
            self.ended = reason
            reason.__cause__ = error

    def _outside(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a part of the program.

        What fails there has failed earlier as Python sees it, perhaps where the function would have
        handled it; if it handles it here, it must not go on.
        """
        try:
            with Outside(self):
                return function(*args)
        except GiveUp as reason:
            self.ended = self.ended or reason
            raise
        except Exception as error:
            self._end(GiveUp("", lasting=False), error)
            raise

    def fail_before(self) -> None:
        """The function has failed: raise what an operation before, as ``x[i]``, raises eagerly."""
        with Outside(self):
            values: dict[Value, Any] = {}
            for node in self.nodes:
                args = [values[v] if v in values else self.call.get(v) for v in node.inputs]
                if is_effectful(node) or any(x.level >= 0 for x in args):
                    return  # it must not happen twice, or who differentiates it sees to it
                outs = node.primitive(*args, **node.params)
                values.update(zip(node.outs, outs if node.primitive.multiple else (outs,)))


def _identity(source: Source) -> Any:
    """What makes two sources the same one."""
    kind = type(source)
    if kind is Held:
        return kind, id(source.cell)  # an object has one weak reference
    if kind is Gathered:
        owner = source.owner
        if type(owner) is Given:
            return kind, owner
        return kind, owner.find.key if type(owner) is Found else id(owner)
    if kind is Captured:
        return kind, getattr(source.find, "key", id(source))
    return (kind, source.host.place, source.dtype) if kind is Counted else (kind, source.number)


def _spec_of(x: Tensor) -> TensorSpec:
    """How a tensor from outside is made; of a named one without asking it."""
    if type(x) is not Named:
        return TensorSpec(x.shape, x.dtype, x.device.name)
    array = array_of(x)
    return TensorSpec(array.shape, array.dtype, name_of(array))


def _is_same(known: Any, primitive: Any) -> bool:
    """Whether an operation is what it was: a call of a user's function is another object."""
    return known is primitive or (
        known.is_applied and type(known) is type(primitive) and known.name == primitive.name
    )
