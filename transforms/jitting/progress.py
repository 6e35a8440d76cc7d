"""A call in progress: its values so far, and its way through the tree of segments."""

from __future__ import annotations

from itertools import count
from typing import Any

from numpy import ndarray

from fx import limits, tree
from fx.commit import Stores
from fx.config import modes, writing
from fx.gradients import plan_gradients
from fx.graph.ir import Value, input_value
from fx.graph.staging import StageTracer
from fx.levels import Tracer
from fx.numbers import on_host
from fx.staged_number import StagedNumber
from fx.state import plan_rebinds
from fx.tape import freed_node
from fx.tensor import Tensor, bare, new_tensor
from fx.transforms.checkpoint import moves
from fx.transforms.jitting.call import call_of
from fx.transforms.jitting.first_run import Stages
from fx.transforms.jitting.handled import was_sent
from fx.transforms.jitting.program import (
    Anew,
    Argument,
    Branch,
    Captured,
    Counted,
    Effect,
    Finish,
    Given,
    GiveUp,
    Held,
    Leaf,
    Program,
    Segment,
    Told,
    concrete,
    lazily,
    number_of,
)
from fx.transforms.jitting.recording.drawn import Drawn
from fx.transforms.jitting.recording.host import ERRORS, Host, array_of
from fx.transforms.jitting.short.alone import alone
from fx.transforms.jitting.short.outputs import put_back
from fx.transforms.jitting.short.plan import MISS, make_plan
from fx.transforms.jitting.signature import Signature

_runs = count()  # of functions inside of others


class Call(Stages):
    """A call in progress: its values so far, and the way through the tree of segments."""

    def __init__(self, jitted: Any, program: Program, signature: Signature) -> None:
        self.jitted = jitted
        self.program = program
        self.signature = signature
        self.records = program.differentiates
        self.env: dict[Value, Any] = {}
        self.path: list[tuple[Segment, Any]] = []
        self.affected: dict[int, Effect] = {}  # by id
        self.given: tuple[Any, ...] = ()  # the arguments as they are
        self.staged = False  # whether the function ran
        self.found: dict[int, Any] | None = None  # what gets tensors from outside anew, by id
        self.before: list[tuple[dict[Any, Any], dict[Any, Any]]] = []  # for undoing effects
        self.stores = Stores()  # of what comes out
        self.moments: list[list[Any]] = []  # the numbers before each effect
        self.counted: dict[int, Any] = {}  # by index, numbers that the function is counting now
        self.drawn = signature.drawn or Drawn()
        self.numbers = self.drawn.values  # what was computed of them, by its place in the table

    # values --------------------------------------------------------------------------------------

    def get(self, value: Value) -> Any:
        """What a value is in this call."""
        if value.constant is not None:
            return value.constant
        found = self.env.get(value)
        if found is None:
            found = self.env[value] = self._bare(self._fetch(value))
        return found

    def holds(self, value: Value, x: Any) -> None:
        """What an input is in this call."""
        self.env[value] = self._bare(x)

    def peek(self, value: Value) -> Any:
        """The same without a history, and not kept: who differentiates may not be known yet."""
        x = value.constant if value.constant is not None else self.env.get(value)
        x = self._fetch(value) if x is None else x
        return bare(x) if x.level < 0 and x._node is not None else x

    def _fetch(self, value: Value) -> Any:
        source = self.program.sources[value]
        kind = type(source)
        if kind is Argument:
            return self.signature.tensors[source.number]
        if kind is Held:
            return source.cell().read()
        if kind is Captured:
            return source.find(self.jitted.function, self.signature.objects)
        if kind is Counted:
            now = self.compute(source.host)
            if type(now) is StagedNumber:
                return now.in_dtype(source.dtype)
            return new_tensor(array_of(now, source.dtype))
        return self.jitted.owner(source.owner, self.signature).read_grad()

    def _bare(self, x: Any) -> Any:
        if not self.records and x.level < 0 and x._node is not None:
            return bare(x)
        return x

    def finder(self, x: Tensor) -> Any:
        """What gets a tensor from outside anew in another call, or None."""
        if self.found is None:
            self.found = self.program.guards.finders(self.jitted.function, self.signature.objects)
        return self.found.get(id(x))

    def named(self) -> list[Tensor]:
        """The tensors from outside that variables hold now."""
        f, objects = self.jitted.function, self.signature.objects
        self.found = self.program.guards.finders(f, objects)
        return [find(f, objects) for find in self.found.values()]

    # numbers -------------------------------------------------------------------------------------

    def __getitem__(self, index: int) -> Any:
        """A Python number of this call as it was before any effect."""
        return self.number(index, 0)

    def number(self, index: int, time: int) -> Any:
        """A Python number of this call as it was after ``time`` effects."""
        if index in self.counted:  # where it lives is what stands for it
            return self.counted[index]
        if time < len(self.moments) and index < len(self.moments[time]):
            return self.moments[time][index]
        owner, key, _ = self.program.numbers[index]
        return number_of(self.signature, owner, key)

    def compute(self, host: Host) -> Any:
        """What the program computes of numbers."""
        return host.table.evaluate(host.place, self, self.numbers)

    # running -------------------------------------------------------------------------------------

    def affect(self, effect: Effect) -> None:
        """Do an effect on Python numbers, after the numbers that are read before it."""
        if effect.values or id(effect) in self.affected:
            return
        time, count = len(self.moments), len(self.program.numbers)
        self.moments.append([self.number(i, time) for i in range(count)])
        self.affected[id(effect)] = effect
        self._run_effect(effect)

    def _run_effect(self, effect: Effect, *args: Any) -> None:
        self.before += [(held, dict(dict.items(held))) for held in effect.held]
        on_host(effect.run, effect.held, *args)

    def undo(self) -> None:
        """Put back the numbers that effects have changed: the call failed before its results were
        stored."""
        if not self.stores.done:
            put_back(self.before[::-1])
        self.before, self.affected, self.moments = [], {}, []
        if not self.program.table.draws:
            self.numbers = {}

    def execute(self, segment: Segment) -> None:
        """Run a segment."""
        for effect in segment.effects:
            self.affect(effect)
        if segment.drawn is not None:
            self.drawn.note(self.program.table.generators)
            self.program.table.evaluate(segment.drawn, self, self.numbers)
            if not all(p.holds(self, self.numbers) for p in segment.expects):
                raise GiveUp("", lasting=False)
        if "dynamic" not in segment.graph.cache:
            segment.graph.cache["varied"] = self.program.varied
            if not any(segment.graph is known for known in self.program.graphs):
                self.program.graphs.append(segment.graph)
            segment.graph.cache["dynamic"] = self.jitted.sizes_vary  # last: it tells of the others
        args = [self.get(v) for v in segment.needs]
        self._check_rules(args)
        outs = call_of(segment.graph)(*args)
        self.env.update(zip(segment.gives, outs))

    def _check_rules(self, args: list[Tensor]) -> None:
        """Leave a derivative that is taken outside to Python, where a graph has another one."""
        program = self.program
        if modes.stage is not None:
            modes.stage.inherits(program)
        if program.rule and any(map(moves, args)):
            raise GiveUp(program.rule, lasting=all(x.level <= 0 for x in args))
        if program.asks_history and any(x.level > 0 and moves(x) for x in args):
            raise GiveUp(
                "it asks whether something requires grad, and is differentiated outside; take the "
                "derivative inside of it",
                lasting=False,
            )
        if program.silences and any(map(_is_pushed, args)):
            raise GiveUp(
                "it computes something under no_grad, through which forward mode goes; take the "
                "derivative inside of it",
                lasting=False,
            )

    def advance(self, segment: Segment) -> Any:
        """Run a segment that ends with a question; the answer, whose branch exists then."""
        self.execute(segment)
        question = segment.question
        assert question is not None
        asked = [self.get(v) for v in question.values]
        staged = question.function is not None and _is_staged(asked)
        known = asked if staged else [concrete(x) for x in asked]
        if question.number is not None:
            host, ask = question.number
            told: Any = self._answer(ask, self.compute(host))
            answer: Any = Told(type(told), repr(told))
        elif question.function is None:
            array = known[0]._a
            answer = (array.shape, array.dtype.str, array.tobytes())
            told = known[0]
        else:
            outs = (
                modes.stage.boundary(question.function, known)
                if staged
                else question.function(*known)
            )
            answer = tuple([(x.shape, x.dtype.str) for x in outs])
            told = None
        branch = question.branches.get(answer)
        if branch is None:
            if len(question.branches) >= limits.ANSWERS:
                raise GiveUp(
                    f"at {question.line} Python asked for a value that was different "
                    f"{limits.ANSWERS} times"
                )
            if question.function is not None:
                told = tuple([input_value(x.spec) for x in outs])
            branch = question.branches[answer] = Branch(told)
        if question.function is not None:
            self.env.update(zip(branch.results, outs))
        self.path.append((segment, answer))
        return answer

    def _answer(self, ask: Any, number: Any) -> Any:
        try:
            return ask(number)
        except ERRORS as error:
            if was_sent(error):
                raise
            raise GiveUp("", lasting=False) from None

    def run(self, args: Any, kwargs: Any) -> Any:
        """Go through the known segments, stage what is not known, and hand out the results."""
        program = self.program
        around = modes.stage
        while around is not None:  # functions around this one read what this one was seen to read
            if around.touched is not None and program.guards is not None:
                around.touched.merge(program.guards.touched, held=True)
            around = around.outer
        if modes.stage is not None:
            modes.stage.was_told(next(_runs))  # nobody noted what it was told
        self.given = args, kwargs
        if program.root is None:
            finish = self._stage()
            plan = make_plan(self.jitted, program, self.signature)
            if plan is not None:
                self.jitted.add_plan(program, plan)
            if plan is not None and not program.table.draws:
                self.undo()  # the plan does it all again
                out = plan(args, kwargs)
                if out is not MISS:
                    return out
            if not self.path and self._learns(finish):
                self.records = program.differentiates = True
            self.execute(self._last)
        else:
            if program.plan is None and program.calls == 1:  # it may have been too early for one
                plan = make_plan(self.jitted, program, self.signature)
                if plan is not None:
                    self.jitted.add_plan(program, plan)
                if plan is not None and not program.table.draws:
                    out = plan(args, kwargs)
                    if out is not MISS:
                        return out
            at_once = program.root.finish
            if at_once is not None and self._learns(at_once):
                self.records = program.differentiates = True
            finish = self._to_the_end()
        if self._learns(finish):
            self.program.differentiates = self.records = True
            counted = {v for v, s in list(self.program.sources.items()) if type(s) is Counted}
            self.env = {v: x for v, x in self.env.items() if v in counted}
            self.path = []
            finish = self._to_the_end()
        return self._hand_out(finish)

    def _learns(self, finish: Finish) -> bool:
        """Whether ``.backward()`` may go on from a result, which nobody has seen to yet."""
        if self.records or not any(leaf.differentiable for leaf in finish.leaves):
            return False
        sources = list(self.program.sources.items())
        inputs = (self._fetch(v) for v, s in sources if type(s) is not Counted)
        return modes.record0 and any(type(x) is Tensor and x._node is not None for x in inputs)

    def _to_the_end(self) -> Finish:
        segment = self.program.root
        while segment is not None:
            if segment.finish is not None:
                self.execute(segment)
                return segment.finish
            answer = self.advance(segment)
            assert segment.question is not None
            segment = segment.question.branches[answer].follows
        finish = self._stage()
        self.execute(self._last)
        return finish

    def _hand_out(self, finish: Finish) -> Any:
        results = [self._result(leaf) for leaf in finish.leaves]
        captured = [self.env[v] for v in self.program.sources if v in self.env]
        given = [*self.signature.tensors, *captured]
        views = {i for i, alias in finish.aliases.items() if alias.base != i}
        values = [None if i in views else leaf.value for i, leaf in enumerate(finish.leaves)]
        results = alone(results, values, given)
        for place, alias in finish.aliases.items():
            results[place] = alias.taken(self._base(alias.base, results))
        where = self.jitted.function, self.signature.objects, *self.given
        changes = [(s.run, s.arguments(s.target(*where), results)) for s in finish.stores]
        changes += lazily("recording.effects").noted(finish.stores) if finish.stores else []
        rebinds = [(cell, self.get(v)) for cell, v in finish.rebinds]
        grads = [(owner, None if v is None else self.get(v)) for owner, v in finish.grads]
        numbers = [(held, key, self._result(leaf)) for held, key, leaf in finish.numbers]
        for effect in [e for s in self.segments() for e in s.effects if e.values]:
            self._run_effect(effect, *[self.get(v) for v in effect.values])
        rebound = [(cell(), x) for cell, x in rebinds]
        gathered = [
            (held, x if type(x) is not Tensor else bare(x))
            for held, x in [(self.jitted.owner(o, self.signature), x) for o, x in grads]
            if held is not None
        ]
        if plan_rebinds(self.stores, rebound) and plan_gradients(self.stores, gathered):
            for held, key, x in numbers:
                self.stores.put(held, key, x)
            self.stores.calls += changes
            self.stores.commit()
            return self._built(finish, results)
        for held, x in rebound:  # inside a transform: values of it, which end with it
            held.rebind(x)
        for owner, _ in self.program.gathered:  # and what is around it depends on the same
            asked = self.jitted.owner(owner, self.signature)
            _ = None if asked is None else asked.grad
        for held, x in gathered:
            held.grad = x
        for held, key, x in numbers:
            if modes.stage is None or not modes.stage.write_number(held, key, x):
                dict.__setitem__(held, key, x)
        for run, args in changes:
            run(*args)
        return self._built(finish, results)

    def _built(self, finish: Finish, results: list[Any]) -> Any:
        """What the function returns, once all is written: what it detached shows what it wrote."""
        if finish.rebinds and not finish.stores:
            for place, alias in finish.aliases.items():
                if type(alias.base) is not int:
                    results[place] = alias.taken(self._base(alias.base, results))
        return tree.unflatten(finish.treedef, results[: finish.treedef.num_leaves])

    def _base(self, base: Any, results: list[Any]) -> Any:
        """What a result is a view of."""
        if type(base) is int:
            return results[base]
        return self.signature.given[base.number] if type(base) is Given else self._result(base)

    def segments(self) -> list[Segment]:
        """The segments that this call went through."""
        last = self.program.root
        found = []
        for segment, answer in self.path:
            found.append(segment)
            assert segment.question is not None
            last = segment.question.branches[answer].follows
        return found if last is None else [*found, last]

    def _result(self, leaf: Leaf) -> Any:
        if leaf.number is not None:
            return self.compute(leaf.number)
        if leaf.value is None:
            held = leaf.held
            if type(held) is Anew:
                held = held.get(self.jitted.function, self.signature.objects, *self.given)
            return held
        x = self.get(leaf.value)
        if type(x) is not Tensor:
            return x
        array = x._a
        if leaf.value.constant is not None and writing.enabled and type(array) is ndarray:
            array = array.copy()
        out = new_tensor(array)  # an object of its own, which may be written into
        if leaf.differentiable:
            out._node = x._node
        elif leaf.freed is not None:
            out._node = freed_node(leaf.freed)
        return out


def _is_staged(xs: list[Any]) -> bool:
    """Whether tensors are values of the stage that runs, and of nothing inside of it."""
    stage = modes.stage
    if stage is None:
        return False
    lowered = [stage.lower(x) for x in xs]
    return any(type(x) is StageTracer for x in lowered) and all(
        x.level <= stage.number for x in lowered
    )


def _is_pushed(x: Tensor) -> bool:
    """Whether forward mode differentiates this tensor, outside of what is staged."""
    while isinstance(x, Tracer) and x.transform != "jit":
        if x.transform == "jvp":
            return True
        x = x.value
    return False
