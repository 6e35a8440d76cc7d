"""A call in progress: its values so far, and its way through the tree of segments."""

from __future__ import annotations

from importlib import import_module
from inspect import isgenerator
from typing import Any
from weakref import ref

from fx import limits, tree
from fx.autograd.methods import plan_gradients
from fx.commit import Stores
from fx.config import modes
from fx.errors import StagingError
from fx.graph.ir import Value, input_value
from fx.graph.named import Named, naming
from fx.graph.staging import StageTracer
from fx.handles import Handle
from fx.host_values import StagedValue
from fx.levels import Level
from fx.numbers import on_host
from fx.staged_number import StagedNumber
from fx.state import plan_rebinds
from fx.tape import CELL, GradTracer
from fx.tape import Leaf as TapeLeaf
from fx.tensor import Tensor, new_tensor
from fx.transforms.jitting.call import call_of
from fx.transforms.jitting.drawn import Drawn
from fx.transforms.jitting.fast import MISS, make_plan
from fx.transforms.jitting.fast_outputs import put_back
from fx.transforms.jitting.handled import was_sent
from fx.transforms.jitting.host import ERRORS, Host, array_of, asks_types, itself
from fx.transforms.jitting.program import (
    Again,
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
    staging,
)
from fx.transforms.jitting.reach import Reach
from fx.transforms.jitting.recording import Recording
from fx.transforms.jitting.results import Results, called_argument, containers_of
from fx.transforms.jitting.signature import Signature


class Call:
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
            return new_tensor(x._a)
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
        if time < len(self.moments) and index < len(self.moments[time]):
            return self.moments[time][index]
        owner, key, _ = self.program.numbers[index]
        return self.signature.numbers[key] if owner == "argument" else owner[key]

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
        outs = call_of(segment.graph)(*[self.get(v) for v in segment.needs])
        self.env.update(zip(segment.gives, outs))

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

    def _stage(self) -> Finish:
        """Stage the function along the answers so far, and on from there."""
        with staging(self.program):
            return self._staged()

    def _staged(self) -> Finish:
        jitted, program, signature = self.jitted, self.program, self.signature
        self.staged = True
        if program.root is not None and self.path:
            before, answer = self.path[-1]
            assert before.question is not None
            shown = lazily("explain").shown_answer(answer)
            program.history.append(
                f"at {before.question.line} the answer was {shown} for the first time"
            )
        with (
            Level("jit") as level,
            naming(self.named()),
            Recording(program, level, self, self.path) as recording,
            _alone(),
        ):
            given: list[Any] = []
            # type(n) would say what stands for a number; who asks gets the number, for this one
            typed = bool(signature.numbers) and asks_types(jitted.function)
            for kind, place in signature.parts:
                if kind == "tensor":
                    x = signature.tensors[place]
                    value = recording.input(Argument(place), x.spec)
                    given.append(recording.argument(x, value))
                elif kind == "number":
                    now = signature.numbers[place]
                    now = now.now if type(now) is StagedNumber else now
                    number = recording.number_argument(place, now)
                    given.append(recording.assume(number, itself) if typed else number)
                else:
                    given.append(signature.objects[place])
            looked = program.guards
            if looked.reached is None:
                looked = lazily("guards").watch(
                    jitted.function, signature.objects, touched=looked.touched
                )
            reached = looked.reached
            args, kwargs = jitted.restored(tree.unflatten(signature.treedef, given), signature)
            places = containers_of((args, kwargs))
            given_by = Reach([x for x, _ in places.values()], called_argument)
            changes, effects, done = None, lazily("effects"), False
            culprit = ""
            placed: list[Any] = effects.place_counters(reached.parts, jitted.touched, recording)
            program.outward |= bool(placed)
            try:
                try:
                    with lazily("watching").Watching(program.guards.opaque, recording) as touched:
                        recording.touched = touched
                        touched.counters |= jitted.touched.counters
                        touched.identity |= {id(owner) for *_, owner in placed}
                        out = jitted.function(*args, **kwargs)
                    done = True
                    written = effects.take_out(placed)
                    try:
                        changes = effects.changes_of(
                            reached.parts, touched, given_by.parts, written
                        )
                    except effects.Undescribed as other:
                        culprit = reached.name(other.part) if other.part is not None else ""
                except effects.Counted as counted:
                    if not asks_types(jitted.function):  # it would be told what stands for one
                        jitted.touched.counters |= counted.places
                        raise Again from None
                finally:
                    pairs = recording.put_back()
                    effects.take_out(placed)
                    changed = reached.put_back() or given_by.put_back()
                    if changed and changes is None and recording.ended is None:
                        recording.ended = (
                            jitted.changing(signature.key, culprit or changed)
                            if done
                            else GiveUp("", lasting=False)
                        )
            except Exception as error:
                if recording.ended is None:
                    recording.fail_before()
                if recording.ended is None or recording.ended.__cause__ is error:
                    raise
                raise recording.ended from None
            if recording.ended is not None:  # the function has caught it
                raise recording.ended
            for cell, other in pairs:
                cell.rebind(other.read())
            results = Results(looked, reached, places, signature.objects)
            if changes and recording.outer is not None:
                recording.postpone()  # the function around this one changes it
            try:
                finish = self._finish(recording, out, results, changes or [])
            except effects.Undescribed:
                raise jitted.changing(signature.key, changed) from None
            looked.forget_places()
        program.guards.renew()
        self._watch(touched, args)
        if modes.stage is not None:  # a function around this one assumes what this one does
            for predicate in program.predicates:
                predicate.holds(self)
        if any(recording.program.random and x for x in (modes.lanes, modes.turn)):
            raise GiveUp("it draws random numbers inside vmap or a lane")
        return finish

    def _watch(self, touched: Any, args: Any) -> None:
        """Guard what the function was seen to read, if it is as it was before it ran."""
        jitted, program, objects = self.jitted, self.program, self.signature.objects
        jitted.touched.merge(touched)
        if program.guards.hold(jitted.function, objects):
            guards = lazily("guards")
            death = program.guards.death
            program.guards = guards.widen(program.guards, jitted.function, objects, args, touched)
            program.guards.death.then = death.then
            program.guards.death.dead |= death.dead

    def _finish(
        self, recording: Recording, out: Any, results: Results, changes: list[Any]
    ) -> Finish:
        leaves, treedef = tree.flatten_in_order(out, is_leaf=results.is_leaf)
        gives: list[Value] = []
        known: dict[int, int] = {}  # places of tensors among the leaves

        def value_of(x: Any) -> Value:
            value = recording.value_of(recording.lower(x))
            gives.append(value)
            return value

        found: list[Leaf] = []

        def add(leaf: Any) -> int:
            read = type(leaf) is Named or isinstance(leaf, Handle)
            if read or (isinstance(leaf, Tensor) and recording.made_inside(leaf)):
                leaf = leaf.read()
            if type(leaf) is StagedNumber or type(leaf) is StagedValue:
                found.append(Leaf(None, number=leaf.host))
            elif isgenerator(leaf):
                raise StagingError(
                    f"jit of {recording.name}: it returns a generator, which would run after it "
                    f"was staged; return a list"
                )
            elif not isinstance(leaf, Tensor) or leaf.level == CELL:
                found.append(Leaf(None, results.held(leaf, recording)))
            else:
                if id(leaf) in known:
                    return known[id(leaf)]
                known[id(leaf)] = len(found)
                alive.append(leaf)
                live = isinstance(leaf, GradTracer) and leaf.level == recording.number | 1
                freed = live and getattr(leaf._node, "pullback", True) is None
                found.append(Leaf(value_of(leaf), differentiable=live and not freed))
            return len(found) - 1

        alive: list[Any] = []  # so that ids stay theirs
        places = [add(leaf) for leaf in leaves]
        if places != [*range(len(leaves))]:
            found, known, gives = [], {}, []
            for leaf in leaves:
                known = {}
                add(leaf)
        if recording.reread is not None and any(leaf.differentiable for leaf in found):
            recording.give_up(
                f"gradients of what it returns would flow to {recording.reread.name or 'a cell'} "
                f"{recording.reread.spec!r}, which it writes into before it uses it"
            )
        try:
            stores = lazily("effects").stores_of(changes, out, add, self.program.guards, results)
        except GiveUp:  # what a result can be, or not
            if recording.ended is None or not changes:
                raise
            recording.ended = None
            raise lazily("effects").Undescribed from None
        rebinds = []
        for cell, value in recording.rebound.values():
            rebinds.append((_reference(cell), value_of(value)))
        grads, program = [], recording.program
        for lifted in recording.lifted.values():
            now = lifted.leaf.grad
            if now is not lifted.before or lifted.dropped:
                if type(lifted.owner) is Given:
                    argument = self.signature.tensors[lifted.owner.number]
                    if type(argument._node) is not TapeLeaf:
                        recording.give_up(
                            f"backward() inside goes on through an argument {argument.spec!r}, "
                            f"which was computed outside of it"
                        )
                grads.append((lifted.owner, None if now is None else value_of(now)))
            if lifted.needed or (now is not lifted.before and not lifted.dropped):
                program.gathered.append((lifted.owner, lifted.before is not None))
        numbers = []
        for held, key, written in recording.written.values():
            leaf = Leaf(None, written)
            if type(written) is StagedNumber:
                stored = recording.stored(written)
                leaf = Leaf(stored and value_of(stored), number=written.host)
            numbers.append((held, key, leaf))
        finish = Finish(treedef, found, rebinds, grads, numbers, stores)
        self.program.outward |= bool(stores)
        self._last = recording.close(gives)
        self._last.finish = finish
        self.path = recording.path
        return finish

    def _hand_out(self, finish: Finish) -> Any:
        results = [self._result(leaf) for leaf in finish.leaves]
        where = self.jitted.function, self.signature.objects, *self.given
        changes = [(s.run, s.arguments(s.target(*where), results)) for s in finish.stores]
        changes += lazily("effects").noted(finish.stores) if finish.stores else []
        rebinds = [(cell, self.get(v)) for cell, v in finish.rebinds]
        grads = [(owner, None if v is None else self.get(v)) for owner, v in finish.grads]
        numbers = [(held, key, self._result(leaf)) for held, key, leaf in finish.numbers]
        for effect in [e for s in self.segments() for e in s.effects if e.values]:
            self._run_effect(effect, *[self.get(v) for v in effect.values])
        out = tree.unflatten(finish.treedef, results[: finish.treedef.num_leaves])
        rebound = [(cell(), x) for cell, x in rebinds]
        gathered = [
            (held, x if type(x) is not Tensor else new_tensor(x._a))
            for held, x in [(self.jitted.owner(o, self.signature), x) for o, x in grads]
            if held is not None
        ]
        if plan_rebinds(self.stores, rebound) and plan_gradients(self.stores, gathered):
            for held, key, x in numbers:
                self.stores.put(held, key, x)
            self.stores.calls += changes
            self.stores.commit()
            return out
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
        return out

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
        out = new_tensor(x._a)  # an object of its own, which may be written into
        if leaf.differentiable:
            out._node = x._node
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


def _reference(x: Any) -> Any:

    return ref(x)


class _alone:
    """Staging knows no lanes and turns of what is around it."""

    def __enter__(self) -> None:
        self.saved = (modes.lanes, modes.turn, modes.journal)
        modes.lanes, modes.turn, modes.journal = (), None, None

    def __exit__(self, *error: object) -> None:
        modes.lanes, modes.turn, modes.journal = self.saved


def lazily(name: str) -> Any:
    """A module of this folder that is loaded when a function is first compiled."""
    return import_module(f"fx.transforms.jitting.{name}")
