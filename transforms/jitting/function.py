"""``jit``: a function that is staged once for each kind of arguments, and compiled."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from importlib import import_module
from inspect import isgenerator
from time import perf_counter
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from fx import config, tree
from fx.config import modes
from fx.errors import StagingError
from fx.frames import user_line
from fx.graph.ir import Value, input_value
from fx.graph.named import Named, naming
from fx.graph.staging import StageTracer
from fx.levels import Level
from fx.numbers import StagedNumber, is_dynamic, number_dtype, on_host
from fx.ops.convert import as_tensor
from fx.tape import CELL, GradTracer
from fx.tensor import Tensor, new_tensor
from fx.transforms._arguments import check_function, name_of
from fx.transforms.jitting.call import call_of
from fx.transforms.jitting.donation import donated_leaves, give_away
from fx.transforms.jitting.fast import MISS, make_plan
from fx.transforms.jitting.program import (
    Argument,
    Branch,
    Captured,
    Counted,
    Effect,
    Finish,
    Found,
    Given,
    GiveUp,
    Held,
    Leaf,
    Program,
    Segment,
    concrete,
)
from fx.transforms.jitting.recording import Recording

if TYPE_CHECKING:
    from fx.transforms.jitting.explain import Explanation, Lowered

MOST_ANSWERS = 16  # to one question, of one program
MOST_PROGRAMS = 32  # for arguments of one kind
MOST_CHANGES = 4  # of what a function reads, by itself
MOST_PLANS = 8  # that are tried before the arguments are looked up


class Signature:
    """The arguments of a call: what varies from call to call, and the key of what does not."""

    __slots__ = ("donated", "key", "numbers", "objects", "parts", "tensors", "treedef")

    def __init__(self, jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, self.treedef = tree.flatten(jitted.dynamic(args, kwargs), is_leaf=holds_state)
        self.tensors: list[Tensor] = []
        self.numbers: list[Any] = []
        self.objects: list[Any] = []
        self.parts: list[tuple[str, Any]] = []  # of each leaf: what it is, and its place
        kinds: list[Any] = [self.treedef, jitted.static(args, kwargs)]
        records = modes.record0
        for leaf in leaves:
            if type(leaf) is Named:
                leaf = leaf.read()
            if isinstance(leaf, Tensor) and leaf.level != CELL:
                needs = records and type(leaf) is Tensor and leaf._node is not None
                self.parts.append(("tensor", len(self.tensors)))
                self.tensors.append(leaf)
                kinds.append((leaf.shape, leaf.dtype, leaf.device.name, needs))
            elif is_dynamic(leaf) and _fits(leaf):
                self.parts.append(("number", len(self.numbers)))
                self.numbers.append(leaf)
                kinds.append(type(leaf.now if type(leaf) is StagedNumber else leaf))
            elif isinstance(leaf, np.ndarray | np.generic):
                self.parts.append(("tensor", len(self.tensors)))
                leaf = as_tensor(leaf)
                self.tensors.append(leaf)
                kinds.append((leaf.shape, leaf.dtype, leaf.device.name, False))
            else:
                self.parts.append(("object", len(self.objects)))
                self.objects.append(leaf)
                kinds.append(_key_of(leaf))
        self.donated: set[int] = set()
        if jitted.donate_argnums:
            self.donated = donated_leaves(
                jitted.dynamic(args, kwargs)[0], jitted.donate_argnums, holds_state
            )
        settings = (modes.barrier >= 0, modes.inference, modes.device)
        self.key = (*kinds, *settings, config.default_dtype(), config.default_device())


def _fits(x: Any) -> bool:
    return type(x) is not int or -(2**63) <= x < 2**63


def holds_state(x: Any) -> bool:
    """Whether an argument is passed as the object that it is, because it holds cells."""
    return getattr(type(x), "__jit_object__", False) and x.__jit_object__()


def _key_of(leaf: Any) -> Any:
    if isinstance(leaf, str | bytes | bool | int | float | complex | np.dtype | type(None)):
        return type(leaf), repr(leaf) if isinstance(leaf, float | complex) else leaf
    return Identity(leaf)


class Identity:
    """An object as a key: the same object and no other."""

    __slots__ = ("_hash", "held")

    def __init__(self, held: Any) -> None:
        self._hash = id(held)
        try:
            self.held: Callable[[], Any] = ref(held)
        except TypeError:
            self.held = lambda: held

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        held = self.held()
        return held is not None and isinstance(other, Identity) and held is other.held()

    def __hash__(self) -> int:
        return self._hash


class Call:
    """A call in progress: its values so far, and the way through the tree of segments."""

    def __init__(self, jitted: Jitted, program: Program, signature: Signature) -> None:
        self.jitted = jitted
        self.program = program
        self.signature = signature
        self.numbers = self._numbers()
        self.records = program.differentiates
        self.env: dict[Value, Any] = {}
        self.path: list[tuple[Segment, Any]] = []
        self.affected: dict[int, Effect] = {}  # by id
        self.staged = False  # whether the function ran
        self.found: dict[int, Any] | None = None  # what gets tensors from outside anew, by id
        self.before: list[tuple[dict[Any, Any], dict[Any, Any]]] = []  # for undoing effects

    def _numbers(self) -> list[Any]:
        found = []
        for owner, key, _ in self.program.numbers:
            found.append(self.signature.numbers[key] if owner == "argument" else owner[key])
        return found

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
            owner, key, _ = self.program.numbers[source.number]
            now = self.signature.numbers[key] if owner == "argument" else owner[key]
            if type(now) is StagedNumber:
                return now.tensor
            return new_tensor(np.asarray(now, number_dtype(now)))
        return self.jitted.owner(source.owner, self.signature).grad

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

    # running -------------------------------------------------------------------------------------

    def affect(self, effect: Effect) -> None:
        """Do an effect on Python numbers, after the numbers that are read before it."""
        if effect.values or id(effect) in self.affected:
            return
        for value, source in self.program.sources.items():
            if type(source) is Counted and source.time == len(self.affected):
                self.get(value)
        self.affected[id(effect)] = effect
        self._run_effect(effect)

    def _run_effect(self, effect: Effect, *args: Any) -> None:
        self.before += [(held, dict(dict.items(held))) for held in effect.held]
        on_host(effect.run, effect.held, *args)

    def undo(self) -> None:
        """Put back the numbers that effects have changed: the call failed."""
        for held, was in reversed(self.before):
            dict.clear(held)
            dict.update(held, was)
        self.before, self.affected = [], {}

    def execute(self, segment: Segment) -> None:
        """Run a segment."""
        for effect in segment.effects:
            self.affect(effect)
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
        if question.function is None:
            array = known[0]._a
            answer: Any = (array.shape, array.dtype.str, array.tobytes())
            told: Any = known[0]
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
            if len(question.branches) >= MOST_ANSWERS:
                raise GiveUp(
                    f"at {question.line} Python asked for a value that was different "
                    f"{MOST_ANSWERS} times"
                )
            if told is None:
                told = tuple([input_value(x.spec) for x in outs])
            branch = question.branches[answer] = Branch(told)
        if question.function is not None:
            self.env.update(zip(branch.results, outs))
        self.path.append((segment, answer))
        return answer

    def run(self, args: Any, kwargs: Any) -> Any:
        """Go through the known segments, stage what is not known, and hand out the results."""
        program = self.program
        if program.root is None:
            finish = self._stage()
            plan = make_plan(self.jitted, program, self.signature)
            if plan is not None:
                self.jitted.add_plan(program, plan)
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
                    out = plan(args, kwargs)
                    if out is not MISS:
                        return out
            at_once = program.root.finish
            if at_once is not None and self._learns(at_once):
                self.records = program.differentiates = True
            finish = self._to_the_end()
        if self._learns(finish):
            self.program.differentiates = self.records = True
            counted = {v for v, s in self.program.sources.items() if type(s) is Counted}
            self.env = {v: x for v, x in self.env.items() if v in counted}
            self.path = []
            finish = self._to_the_end()
        return self._hand_out(finish)

    def _learns(self, finish: Finish) -> bool:
        """Whether ``.backward()`` may go on from a result, which nobody has seen to yet."""
        if self.records or not any(leaf.differentiable for leaf in finish.leaves):
            return False
        inputs = (self._fetch(v) for v, s in self.program.sources.items() if type(s) is not Counted)
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
        jitted, program, signature = self.jitted, self.program, self.signature
        self.staged = True
        if program.root is not None and self.path:
            before, answer = self.path[-1]
            assert before.question is not None
            shown = _lazy("explain").shown_answer(answer)
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
            originals: dict[int, Tensor] = {}
            for kind, place in signature.parts:
                if kind == "tensor":
                    x = signature.tensors[place]
                    value = recording.input(Argument(place), x.spec)
                    needs = recording.records and type(x) is Tensor and x._node is not None
                    given.append(recording.argument(x, value, needs))
                    originals[id(given[-1])] = x
                elif kind == "number":
                    now = signature.numbers[place]
                    now = now.now if type(now) is StagedNumber else now
                    given.append(recording.number_argument(place, now))
                else:
                    given.append(signature.objects[place])
            args, kwargs = jitted.restored(tree.unflatten(signature.treedef, given), signature)
            out = jitted.function(*args, **kwargs)
            finish = self._finish(recording, out)
        if any(recording.program.random and x for x in (modes.lanes, modes.turn)):
            raise GiveUp("it draws random numbers inside vmap or a lane")
        return finish

    def _finish(self, recording: Recording, out: Any) -> Finish:
        leaves, treedef = tree.flatten(out, is_leaf=holds_state)
        gives: list[Value] = []

        def value_of(x: Any) -> Value:
            value = recording.value_of(recording.lower(x))
            gives.append(value)
            return value

        found = []
        for leaf in leaves:
            if type(leaf) is Named:
                leaf = leaf.read()
            if isinstance(leaf, StagedNumber):
                found.append(Leaf(value_of(leaf.tensor), number=type(leaf.now)))
            elif isgenerator(leaf):
                raise StagingError(
                    f"jit of {recording.name}: it returns a generator, which would run after it "
                    f"was staged; return a list"
                )
            elif not isinstance(leaf, Tensor) or leaf.level == CELL:
                found.append(Leaf(None, leaf))
            else:
                live = isinstance(leaf, GradTracer) and leaf.level == recording.number | 1
                freed = live and getattr(leaf._node, "pullback", True) is None
                found.append(Leaf(value_of(leaf), differentiable=live and not freed))
        rebinds = []
        for cell, value in recording.rebound.values():
            rebinds.append((_reference(cell), value_of(value)))
        grads, program = [], recording.program
        for lifted in recording.lifted.values():
            now = lifted.leaf.grad
            if now is not lifted.before or lifted.dropped:
                grads.append((lifted.owner, None if now is None else value_of(now)))
            if lifted.needed or (now is not lifted.before and not lifted.dropped):
                program.gathered.append((lifted.owner, lifted.before is not None))
        numbers = []
        for held, key, written in recording.written.values():
            leaf = (
                Leaf(value_of(written.tensor), number=type(written.now))
                if isinstance(written, StagedNumber)
                else Leaf(None, written)
            )
            numbers.append((held, key, leaf))
        finish = Finish(treedef, found, rebinds, grads, numbers)
        self._last = recording.close(gives)
        self._last.finish = finish
        self.path = recording.path
        return finish

    def _hand_out(self, finish: Finish) -> Any:
        results = [self._result(leaf) for leaf in finish.leaves]
        rebinds = [(cell, self.get(v)) for cell, v in finish.rebinds]
        grads = [(owner, None if v is None else self.get(v)) for owner, v in finish.grads]
        numbers = [(held, key, self._result(leaf)) for held, key, leaf in finish.numbers]
        for effect in [e for s in self.segments(finish) for e in s.effects if e.values]:
            self._run_effect(effect, *[self.get(v) for v in effect.values])
        for cell, x in rebinds:
            cell().rebind(x)
        for owner, x in grads:
            held = self.jitted.owner(owner, self.signature)
            if held is not None:
                held.grad = x if x is None or type(x) is not Tensor else new_tensor(x._a)
        for held, key, x in numbers:
            if modes.stage is None or not modes.stage.write_number(held, key, x):
                dict.__setitem__(held, key, x)
        return tree.unflatten(finish.treedef, results)

    def segments(self, finish: Finish) -> list[Segment]:
        """The segments that this call went through."""
        last = self.program.root
        found = []
        for segment, answer in self.path:
            found.append(segment)
            assert segment.question is not None
            last = segment.question.branches[answer].follows
        return found if last is None else [*found, last]

    def _result(self, leaf: Leaf) -> Any:
        if leaf.value is None:
            return leaf.held
        x = self.get(leaf.value)
        if leaf.number is not None:
            if modes.stage is not None and x.level == modes.stage.number:
                now = leaf.number(0)
                raise GiveUp(f"it returns a Python number ({now!r}) out of a jitted function")
            return leaf.number(x.item())
        if not leaf.differentiable and type(x) is Tensor and x._node is not None:
            return new_tensor(x._a)
        return x


def _is_staged(xs: list[Any]) -> bool:
    """Whether tensors are values of the stage that runs, and of nothing inside of it."""
    stage = modes.stage
    if stage is None:
        return False
    lowered = [stage.lower(x) for x in xs]
    return any(type(x) is StageTracer for x in lowered) and all(
        x.level <= stage.number for x in lowered
    )


def _lazy(name: str) -> Any:
    """A module of this folder that is loaded when a function is first compiled."""
    return import_module(f"fx.transforms.jitting.{name}")


def _reference(x: Any) -> Any:
    from weakref import ref

    return ref(x)


class _alone:
    """Staging knows no lanes and turns of what is around it."""

    def __enter__(self) -> None:
        self.saved = (modes.lanes, modes.turn, modes.journal)
        modes.lanes, modes.turn, modes.journal = (), None, None

    def __exit__(self, *error: object) -> None:
        modes.lanes, modes.turn, modes.journal = self.saved


class Jitted:
    """A jitted function. Calling it runs compiled code; ``jit`` makes one."""

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: Sequence[int] = (),
        static_argnames: Sequence[str] = (),
        donate_argnums: Sequence[int] = (),
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.static_argnums = frozenset(static_argnums)
        self.static_argnames = frozenset(static_argnames)
        self.donate_argnums = frozenset(donate_argnums)
        self.programs: dict[Any, list[Program]] = {}
        self.eager: dict[Any, str] = {}
        self.made = 0  # programs so far
        self.unsettled: dict[Any, set[str]] = {}  # what the function changed of what it reads
        self.plans: tuple[Any, ...] = ()  # the short ways of programs
        self._lock = threading.RLock()

    # arguments -----------------------------------------------------------------------------------

    def dynamic(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments without the static ones."""
        if not self.static_argnums and not self.static_argnames:
            return args, kwargs
        count = len(args)
        nums = {i % count for i in self.static_argnums if -count <= i < count}
        return (
            tuple([None if i in nums else x for i, x in enumerate(args)]),
            {k: v for k, v in kwargs.items() if k not in self.static_argnames},
        )

    def static(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The static arguments, as a key.

        Raises:
            StagingError: if one is not hashable.
        """
        if not self.static_argnums and not self.static_argnames:
            return ()
        count = len(args)
        found: list[Any] = [
            (i % count, args[i]) for i in self.static_argnums if -count <= i < count
        ]
        found += [(k, v) for k, v in kwargs.items() if k in self.static_argnames]
        found.sort(key=lambda pair: (isinstance(pair[0], str), pair[0]))
        for which, value in found:
            try:
                hash(value)
            except TypeError:
                raise StagingError(
                    f"jit of {name_of(self.function)}: the static argument {which!r} is a "
                    f"{type(value).__name__}, which is not hashable; pass a tuple or another "
                    f"immutable value, or leave it out of static_argnums and static_argnames"
                ) from None
        return tuple([(which, type(value), value) for which, value in found])

    def restored(self, dynamic: Any, signature: Signature) -> tuple[Any, dict[str, Any]]:
        """The arguments of a call, the static ones put back."""
        args, kwargs = dynamic
        args, kwargs = list(args), dict(kwargs)
        for which, _, value in signature.key[1]:
            if isinstance(which, int):
                args[which] = value
            else:
                kwargs[which] = value
        return tuple(args), kwargs

    # calls ---------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for plan in self.plans:
            out = plan(args, kwargs)
            if out is not MISS:
                return out
        if modes.axes:  # collectives name a vmap around this call
            return self.function(*args, **kwargs)
        signature = Signature(self, args, kwargs)
        with self._lock:
            if signature.key in self.eager:
                return self.function(*args, **kwargs)
            try:
                program = self._find(signature, args)
            except GiveUp as reason:
                self._forget(signature.key, reason)
                return self.function(*args, **kwargs)
            if program.random and (modes.lanes or modes.turn is not None):
                return self.function(*args, **kwargs)
            call = Call(self, program, signature)
            try:
                began, tally = perf_counter(), program.tally[0]
                out = call.run(args, kwargs)
                program.calls += program.tally[0] == tally
                if call.staged:
                    if program.seconds is None:
                        program.seconds = perf_counter() - began
                    _lazy("explain").report(self, program, call.path)
                    self._settle(program, signature)
                if signature.donated:
                    given = [signature.parts[i] for i in signature.donated]
                    give_away(
                        [signature.tensors[i] for kind, i in given if kind == "tensor"],
                        name_of(self.function),
                    )
                return out
            except GiveUp as reason:
                call.undo()
                self._forget(signature.key, reason)
            except BaseException:
                call.undo()
                if program.root is None or (call.staged and not program.calls):
                    self._drop(signature.key, program)
                raise
        return self.function(*args, **kwargs)

    def _find(self, signature: Signature, args: tuple[Any, ...]) -> Program:
        """The program that serves these arguments now, a new one if there is none."""
        known = self.programs.setdefault(signature.key, [])
        for program in known:
            if self._serves(program, signature):
                return program
        found = _lazy("shared").adopt(self, signature)
        if found is not None:
            found.reason = "a function of the same code was compiled for such arguments"
            return self._add(found, signature)
        self._sweep()
        if len(known) >= MOST_PROGRAMS:
            why = _lazy("explain").reason_of(self, known[-1], signature)
            raise GiveUp(f"{MOST_PROGRAMS} programs were compiled for them; the last time {why}")
        program = Program(name_of(self.function))
        program.reason = _lazy("explain").reason_of(self, known[-1] if known else None, signature)
        program.guards = _lazy("guards").watch(self.function, signature.objects, args)
        program.guards.death.then = self._dropper(signature.key, program)
        return self._add(program, signature)

    def _add(self, program: Program, signature: Signature) -> Program:
        self.made += 1
        program.key, program.number, program.line = signature.key, self.made, user_line()
        self.programs.setdefault(signature.key, []).append(program)
        return program

    def _serves(self, program: Program, signature: Signature) -> bool:
        if program.guards is not None and not program.guards.hold(self.function, signature.objects):
            return False
        for value, source in program.sources.items():
            if type(source) is Held:
                cell = source.cell()
                if cell is None or (cell.shape, cell.dtype) != (value.spec.shape, value.spec.dtype):
                    return False
            elif type(source) is Captured:
                x = source.find(self.function, signature.objects)
                if not isinstance(x, Tensor) or x.spec != value.spec:
                    return False
        for owner, had in program.gathered:
            held = self.owner(owner, signature)
            if held is None or (held.grad is not None) != had:
                return False
        if program.predicates or program.numbers:
            numbers = []
            for owner, key, kind in program.numbers:
                now = signature.numbers[key] if owner == "argument" else owner[key]
                if type(now.now if type(now) is StagedNumber else now) is not kind:
                    return False
                numbers.append(now)
            return all(p.holds(numbers) for p in program.predicates)
        return True

    def owner(self, owner: Any, signature: Signature) -> Any:
        """The tensor or cell that a gradient belongs to in a call; None if it is gone."""
        if type(owner) is Given:
            return signature.tensors[owner.number]
        if type(owner) is Found:
            return owner.find(self.function, signature.objects)
        return owner()

    def _dropper(self, key: Any, program: Program) -> Callable[[], None]:
        """What drops a program, keeping neither of them alive."""
        itself, which = ref(self), ref(program)

        def drop() -> None:
            jitted, program = itself(), which()
            if jitted is not None and program is not None:
                jitted._drop(key, program)

        return drop

    def _sweep(self) -> None:
        """Forget what was about objects that are gone."""
        for kept in (self.programs, self.eager, self.unsettled):
            for key in list(kept):
                if any(type(k) is Identity and k.held() is None for k in key):
                    kept.pop(key, None)
        for key, known in list(self.programs.items()):
            for program in list(known):
                sources = program.sources.values()
                if any(type(s) is Held and s.cell() is None for s in sources):
                    self._drop(key, program)

    def _settle(self, program: Program, signature: Signature) -> None:
        """What becomes of a program whose staging changed something that the function reads.

        It is dropped, since a call that finds things as they were must change them again. A
        function that changes them to something new each time runs as it is from then on.
        """
        if (
            program.guards.death.dead
            or not program.guards.reusable
            or any(
                type(s) is Captured and s.find(self.function, signature.objects) is None
                for s in program.sources.values()
            )
        ):
            self._drop(signature.key, program)
        elif not program.guards.hold(self.function, signature.objects):
            self._drop(signature.key, program)
            why = program.guards.why(self.function, signature.objects)
            seen = self.unsettled.setdefault(signature.key, set())
            seen.add(why)
            if len(seen) >= MOST_CHANGES:
                self._forget(signature.key, GiveUp(f"it changes what it reads: {why}"))
        else:
            _lazy("shared").publish(self, program)

    def _drop(self, key: Any, program: Program) -> None:
        known = self.programs.get(key, [])
        if program in known:
            known.remove(program)
        self.plans = tuple([p for p in self.plans if p is not program.plan])

    def add_plan(self, program: Program, plan: Any) -> None:
        """Note the short way of a program; those that were found last are tried first."""
        program.plan = plan
        self.plans = (plan, *self.plans)[:MOST_PLANS]

    def _forget(self, key: Any, reason: GiveUp) -> None:
        """Run the function as it is for such arguments from here on, and say so once."""
        if modes.lanes or modes.turn is not None:
            return
        if reason.lasting:
            self.programs.pop(key, None)
            self.eager[key] = str(reason)
        warnings.warn(
            f"jit: {name_of(self.function)} runs uncompiled for these arguments, since {reason}",
            RuntimeWarning,
            stacklevel=3,
        )

    # seeing inside -------------------------------------------------------------------------------

    def explain(self) -> Explanation:
        """Each program that was compiled and why, as data that prints as a table.

        Example:
            >>> import fx
            >>> f = fx.jit(lambda x: x * 2)
            >>> y = f(fx.ones(3)), f(fx.ones(4))
            >>> [entry.reason for entry in f.explain().entries]
            ['first call', 'argument x: float32[3] -> float32[4]']
        """
        return _lazy("explain").explain(self)  # type: ignore[no-any-return]

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """What the function is compiled to for some arguments, without running it to the end.

        The function is staged if it was not; where it asks for values, parts of it run.

        Returns:
            with ``graph``, ``schedule``, ``memory`` and ``code()``.

        Raises:
            StagingError: inside a transform, or if the function cannot be compiled for them.

        Example:
            >>> import fx
            >>> f = fx.jit(lambda x: fx.exp(x) + 1)
            >>> [node.primitive.name for node in f.lower(fx.ones(3)).graph.nodes]
            ['exp', 'add']
        """
        signature = Signature(self, args, kwargs)
        _lazy("explain").refuse_tracers(name_of(self.function), signature.tensors)
        with self._lock:
            try:
                program = self._find(signature, args)
                call = Call(self, program, signature)
                try:
                    call._to_the_end()
                finally:
                    call.undo()
            except GiveUp as reason:
                raise StagingError(
                    f"lower of {name_of(self.function)}: it runs uncompiled for these arguments, "
                    f"since {reason}"
                ) from None
            return _lazy("explain").lowered(program, call.path)  # type: ignore[no-any-return]

    def cache_size(self) -> int:
        """The number of programs that are kept."""
        return sum(map(len, self.programs.values()))

    def cache_clear(self) -> None:
        """Forget every program, and what runs uncompiled."""
        with self._lock:
            self.plans = ()
            _lazy("shared").forget(self)
            for kept in (self.programs, self.eager, self.unsettled):
                kept.clear()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jitted {name_of(self.function)}>"


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """Compile ``function``: it is staged once for each kind of arguments, and runs as native code.

    Cells that it reads or rebinds (parameters, buffers, optimizer state, the random generator) are
    inputs and outputs of the compiled code, so a whole training step may be jitted. Python control
    flow on values works: each way through the function that is met is compiled.

    Args:
        function: of pytrees of tensors, numbers and other objects. Numbers are inputs; what is no
            tensor and no number is compared with that of earlier calls.
        static_argnums: positional arguments that the function is compiled for by value; hashable.
        static_argnames: the same for keyword arguments.
        donate_argnums: positional arguments whose memory results may take; they must not be used
            after the call.

    Raises:
        StagingError: if a static argument is not hashable.

    Example:
        >>> import fx
        >>> @fx.jit
        ... def f(x, n):
        ...     return fx.sin(x) * n if x.sum() > 0 else x
        >>> f(fx.tensor([0.0, 1.0]), 2)
        tensor([0.0000, 1.6829])
    """
    if function is None:
        return partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
        )
    check_function(function, "jit")
    if holds_state(function):  # a Module: its forward
        function.compile(  # type: ignore[attr-defined]
            static_argnums=static_argnums, static_argnames=static_argnames
        )
        return function
    return Jitted(
        function,
        (static_argnums,) if isinstance(static_argnums, int) else static_argnums,
        (static_argnames,) if isinstance(static_argnames, str) else static_argnames,
        (donate_argnums,) if isinstance(donate_argnums, int) else donate_argnums,
    )
