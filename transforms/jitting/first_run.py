"""The first run of a function for some arguments: what it does becomes segments of a program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from inspect import isgenerator
from typing import TYPE_CHECKING, Any
from weakref import ref

from fx import tree
from fx.config import modes, writing
from fx.errors import StagingError
from fx.frames import is_of_handler
from fx.graph.ir import Value
from fx.graph.named import Named, naming
from fx.handles import Handle
from fx.host_values import StagedValue
from fx.levels import Level
from fx.prims.shape import transpose
from fx.staged_number import StagedNumber
from fx.tape import CELL, GradTracer, Select
from fx.tape import Leaf as TapeLeaf
from fx.tensor import Tensor
from fx.transforms.jitting.program import (
    Again,
    Argument,
    Finish,
    Given,
    GiveUp,
    Leaf,
    Program,
    Segment,
    lazily,
    staging,
)
from fx.transforms.jitting.recording.host import asks_types, itself
from fx.transforms.jitting.recording.reach import Reach
from fx.transforms.jitting.recording.recording import Recording
from fx.transforms.jitting.recording.results import Results, called_argument, containers_of
from fx.transforms.jitting.signature import Signature
from fx.transforms.jitting.writes import is_given


class Stages:
    """The part of a call that runs the function, along the answers so far and on from there."""

    jitted: Any
    program: Program
    signature: Signature
    path: list[tuple[Segment, Any]]
    staged: bool
    _last: Segment

    if TYPE_CHECKING:

        def named(self) -> list[Tensor]: ...

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
            tells = bool(signature.numbers or program.axes)
            typed = tells and asks_types(jitted.function)
            if recording.outer is not None or typed or signature.key in jitted.plain:
                program.axes = ()
            if program.axes:
                recording.varies(program.axes, signature.tensors)
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
                looked = lazily("guards.guards").watch(
                    jitted.function, signature.objects, touched=looked.touched
                )
            reached = recording.reached = looked.reached
            args, kwargs = jitted.restored(tree.unflatten(signature.treedef, given), signature)
            places = containers_of((args, kwargs))
            given_by = Reach([x for x, _ in places.values()], called_argument)
            changes, effects, done = None, lazily("recording.effects"), False
            culprit = ""
            placed: list[Any] = effects.place_counters(reached.parts, jitted.touched, recording)
            program.outward |= bool(placed)
            watching = lazily("watching.watch").Watching(program.guards.opaque, recording)
            try:
                try:
                    with watching as touched:
                        recording.touched = touched
                        touched.counters |= jitted.touched.counters
                        touched.identity |= {id(owner) for *_, owner in placed}
                        out = jitted.function(*args, **kwargs)
                        recording.check_ends()
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
                    watching.close()
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
                if is_of_handler(error):
                    raise
                if recording.ended is None and recording.varying:
                    jitted.plain.add(signature.key)  # what stands for a size may be why
                    raise Again from None
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
                finish = self._finish(recording, out, results, changes or [], looked, given)
            except effects.Undescribed:
                raise jitted.changing(signature.key, changed) from None
            looked.forget_places()
        program.guards.renew(touched)
        self._watch(touched, args)
        if modes.stage is not None:  # a function around this one assumes what this one does
            for predicate in program.predicates:
                predicate.holds(self)
        if any(recording.program.random and x for x in (modes.lanes, modes.turn)):
            recording.unmake()
            raise GiveUp("it draws random numbers inside vmap or a lane")
        return finish

    def _watch(self, touched: Any, args: Any) -> None:
        """Guard what the function was seen to read, if it is as it was before it ran."""
        jitted, program, objects = self.jitted, self.program, self.signature.objects
        jitted.touched.merge(touched)
        if program.guards.hold(jitted.function, objects):
            guards = lazily("guards.guards")
            death = program.guards.death
            program.guards = guards.widen(
                program.guards,
                jitted.function,
                objects,
                args,
                touched,
                partial(jitted.changing, self.signature.key),
            )
            program.guards.death.then = death.then
            program.guards.death.dead |= death.dead

    def _finish(
        self,
        recording: Recording,
        out: Any,
        results: Results,
        changes: list[Any],
        looked: Any,
        given: Sequence[Any],
    ) -> Finish:
        seen: set[int] = set()

        def is_leaf(x: Any) -> bool:
            if type(x) is list or isinstance(x, dict):
                if id(x) in seen:
                    recording.give_up(f"it returns one {type(x).__name__} in several places")
                seen.add(id(x))
            return bool(results.is_leaf(x))

        leaves, treedef = tree.flatten_in_order(out, is_leaf=is_leaf)
        gives: list[Value] = []
        known: dict[int, int] = {}  # places of tensors among the leaves

        def value_of(x: Any) -> Value:
            value = recording.value_of(recording.lower(x))
            gives.append(value)
            return value

        def turn(place: int, axes: tuple[int, ...]) -> None:
            turned = transpose(recording.lower(alive[place]), axes=axes)
            before, found[place].value = found[place].value, recording.value_of(turned)
            gives[gives.index(before)] = found[place].value

        found: list[Leaf] = []
        objects: list[Any] = []  # that the leaves are made of, where these are tensors

        def add(leaf: Any) -> int:
            made = leaf
            objects.append(None)
            read = type(leaf) is Named or isinstance(leaf, Handle)
            if not read and isinstance(leaf, Tensor) and leaf.written:
                read = not results.knows(leaf)  # a tensor, or a view, that is made inside
            if read:
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
                    objects.pop()
                    return known[id(leaf)]
                known[id(leaf)] = len(found)
                objects[-1] = made
                alive[len(found)] = leaf
                live = isinstance(leaf, GradTracer) and leaf.level == recording.number | 1
                freed = _primitive_of(leaf._node) if live and _freed(leaf._node) else None
                flows = live and freed is None
                found.append(Leaf(value_of(leaf), differentiable=flows, freed=freed))
            return len(found) - 1

        alive: dict[int, Any] = {}  # by places; and so that ids stay theirs
        places = [add(leaf) for leaf in leaves]
        if places != [*range(len(leaves))]:
            found, objects, known, gives = [], [], {}, []
            for leaf in leaves:
                known = {}
                add(leaf)
        if recording.reread is not None and any(leaf.differentiable for leaf in found):
            recording.give_up(
                f"gradients of what it returns would flow to {recording.reread.name or 'a cell'} "
                f"{recording.reread.spec!r}, which it writes into before it uses it"
            )
        if recording.grafted is not None and any(leaf.differentiable for leaf in found):
            recording.give_up(
                f"gradients of what it returns would take the history of "
                f"{recording.grafted.spec!r}, which it writes into without recording"
            )
        try:
            stores = lazily("recording.effects").stores_of(changes, out, add, looked, results)
        except GiveUp:  # what a result can be, or not
            if recording.ended is None or not changes:
                raise
            recording.ended = None
            raise lazily("recording.effects").Undescribed from None
        rebinds = []
        for cell, value in recording.rebound.values():
            rebinds.append((ref(cell), value_of(value)))
        grads, program = [], recording.program
        for lifted in recording.lifted.values():
            now = lifted.leaf.grad
            if now is not lifted.before or lifted.dropped:
                if type(lifted.owner) is Given:
                    argument = self.signature.tensors[lifted.owner.number]
                    if type(argument) is GradTracer:
                        recording.postpone()  # the function around this one goes backward
                    if type(argument._node) is not TapeLeaf:
                        recording.give_up(
                            f"backward() inside goes on through an argument {argument.spec!r}, "
                            f"which was computed outside of it"
                        )
                grads.append((lifted.owner, None if now is None else value_of(now)))
                if is_given(lifted.owner, self.signature):
                    recording.give_up("it changes a gradient that is one of its arguments")
            if lifted.needed or (now is not lifted.before and not lifted.dropped):
                program.gathered.append((lifted.owner, lifted.before is not None))
        numbers = []
        for held, key, written in recording.written.values():
            leaf = Leaf(None, written)
            if type(written) is StagedNumber:
                stored = recording.stored(written)
                leaf = Leaf(stored and value_of(stored), number=written.host)
            numbers.append((held, key, leaf))
        aliases = {}
        if writing.enabled:
            aliases = lazily("recording.aliases").aliases_of(
                recording, objects, found, self._standing(given), results, turn
            )
        finish = Finish(treedef, found, rebinds, grads, numbers, aliases, stores)
        self.program.outward |= bool(stores)
        self.jitted.rebinds |= bool(rebinds)
        self._last = recording.close(gives)
        self._last.finish = finish
        self.path = recording.path
        return finish

    def _standing(self, given: Sequence[Any]) -> dict[int, Given]:
        """By the ids of what stood for the arguments that are tensors and stay: which they are."""
        return {
            id(x): Given(place)
            for i, (x, (kind, place)) in enumerate(zip(given, self.signature.parts, strict=True))
            if kind == "tensor" and i not in self.signature.donated
        }


class _alone:
    """Staging knows no lanes and turns of what is around it."""

    def __enter__(self) -> None:
        self.saved = (modes.lanes, modes.turn, modes.journal)
        modes.lanes, modes.turn, modes.journal = (), None, None

    def __exit__(self, *error: object) -> None:
        modes.lanes, modes.turn, modes.journal = self.saved


def _primitive_of(node: Any) -> Any:
    return (node.of if type(node) is Select else node).primitive


def _freed(node: Any) -> bool:
    """Whether a backward pass inside has freed what one from this node would go through."""
    todo, seen = [node], {node}
    while todo:
        node = todo.pop()
        if getattr(node, "pullback", True) is None:  # leaves have none
            return True
        new = set(node.parents) - seen - {None}
        todo += new
        seen |= new
    return False
