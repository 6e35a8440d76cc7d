"""The programs of a jitted function: which of them serves a call, and which are forgotten."""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

from fx import limits
from fx.config import modes
from fx.frames import is_internal, user_line
from fx.prims.placing import placements_of
from fx.staged_number import StagedNumber
from fx.tensor import Tensor
from fx.transforms._arguments import name_of
from fx.transforms.jitting.program import (
    Argument,
    Busy,
    Captured,
    Found,
    Gathered,
    Given,
    GiveUp,
    Held,
    Program,
    lazily,
    number_of,
)
from fx.transforms.jitting.signature import Identity, Signature
from fx.writing.layouts import steps_of

MOST_CHANGES = 4  # of what a function reads, by itself


class Programs:
    """The part of a jitted function that keeps its programs, by the kind of their arguments."""

    function: Callable[..., Any]
    programs: OrderedDict[Any, list[Program]]
    eager: dict[Any, str]
    unsettled: dict[Any, set[str]]
    plans: tuple[Any, ...]
    made: int
    touched: Any
    sizes_vary: bool

    if TYPE_CHECKING:

        def cache_size(self) -> int: ...

    def _may_draw(self) -> bool:
        """Whether a program may draw and change Python's state; else what is around it does."""
        return modes.stage is None and not modes.lanes and modes.turn is None

    def _find(self, signature: Signature, args: tuple[Any, ...]) -> Program:
        """The program that serves these arguments now, a new one if there is none."""
        known = self.programs.setdefault(signature.key, [])
        with suppress(KeyError):  # another thread may have forgotten it
            self.programs.move_to_end(signature.key)  # the last used
        busy = False
        for program in list(known):
            if program.staged_elsewhere():
                busy = True
            elif self._serves(program, signature):
                return program
        if busy:
            raise Busy
        found = lazily("shared").adopt(self, signature)
        if found is not None:
            found.reason = "a function of the same code was compiled for such arguments"
            return self._add(found, signature)
        self._sweep()
        if len(known) >= limits.PROGRAMS:
            why = lazily("explain").reason_of(self, known[-1], signature)
            raise GiveUp(f"{limits.PROGRAMS} programs were compiled for them; the last time {why}")
        program = Program(name_of(self.function))
        others = [key for key in self.programs if key != signature.key]
        alike = bool(known) or any(key[0] == signature.key[0] for key in others)
        program.varied = alike and self.sizes_vary
        if program.varied:
            program.kind, program.axes = signature.sizes_among(self.programs)
        program.reason = lazily("explain").reason_of(self, known[-1] if known else None, signature)
        program.guards = lazily("guards.guards").watch(
            self.function, signature.objects, args, self.touched
        )
        program.guards.death.then = self._dropper(signature.key, program)
        return self._add(program, signature)

    def _add(self, program: Program, signature: Signature) -> Program:
        self.made += 1
        program.key, program.number, program.line = signature.key, self.made, user_line()
        self.programs.setdefault(signature.key, []).append(program)
        self._evict()
        return program

    def _evict(self) -> None:
        """Drop programs that were used longest ago, where there are too many of all kinds."""
        spare = self.cache_size() - limits.KEPT_PROGRAMS
        for key, known in list(self.programs.items())[:-1]:
            if spare <= 0:
                return
            for program in [p for p in known if p.plan is None or p.plan not in self.plans]:
                self._drop(key, program)
                spare -= 1
            if not known:
                del self.programs[key]

    def _serves(self, program: Program, signature: Signature) -> bool:
        if program.guards is not None and not program.guards.hold(self.function, signature.objects):
            return False
        for value, source in list(program.sources.items()):
            if type(source) is Held:
                cell = source.cell()
                if cell is None or cell.value is None:
                    return False
                if (cell.shape, cell.dtype) != (value.spec.shape, value.spec.dtype):
                    return False
                if cell.device.name != value.spec.device:
                    return False
            elif type(source) is Captured:
                x = source.find(self.function, signature.objects)
                if not isinstance(x, Tensor) or x.spec != value.spec:
                    return False
        if not self.laid_so(program, signature):
            return False
        for owner, had in program.gathered:
            held = self.owner(owner, signature)
            if held is None or (held.grad is not None) != had:
                return False
            if had and program.reads_gradients and modes.record0 and held.grad._node is not None:
                return False
        if program.lies and not self.lie_so(program, signature):
            return False
        if len(program.gathered) > 1 and any(type(o) is Given for o, _ in program.gathered):
            leaves = {id(self.owner(owner, signature)._node) for owner, _ in program.gathered}
            if len(leaves) < len(program.gathered):
                return False  # what was two leaves is one now
        if program.predicates or program.numbers or program.table.draws:
            numbers = []
            for owner, key, kind in program.numbers:
                now = number_of(signature, owner, key)
                if type(now.now if type(now) is StagedNumber else now) is not kind:
                    return False
                numbers.append(now)
            if program.table.draws:
                return not self._may_draw() or lazily("recording.draws").serves(
                    program, numbers, signature
                )
            return all(p.holds(numbers) for p in program.predicates)
        return True

    def owner(self, owner: Any, signature: Signature) -> Any:
        """The tensor or cell that a gradient belongs to in a call; None if it is gone."""
        if type(owner) is Given:
            return signature.tensors[owner.number]
        if type(owner) is Found:
            return owner.find(self.function, signature.objects)
        return owner()

    def lie_so(self, program: Program, given: Any) -> bool:
        """Whether the parts of inputs lie where a program assumes them.

        Args:
            given: has the ``tensors`` and ``objects`` of the call.
        """
        return all(
            placements_of(self._input(program.sources[value], given)) == where
            for value, where in program.lies.items()
        )

    def laid_so(self, program: Program, given: Any) -> bool:
        """Whether inputs lie in memory as a program assumes; ``given`` as of ``lie_so``."""
        return all(
            steps_of(self._input(program.sources[value], given)) == steps
            for value, steps in program.layouts.items()
        )

    def _input(self, source: Any, given: Any) -> Any:
        """The tensor, cell or gradient that an input comes from in a call."""
        kind = type(source)
        if kind is Argument:
            return given.tensors[source.number]
        if kind is Held:
            return source.cell()
        if kind is Captured:
            return source.find(self.function, given.objects)
        if kind is Gathered:
            owner = self.owner(source.owner, given)
            return None if owner is None else owner.read_grad()
        return None

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
            lazily("shared").publish(self, program)

    def changing(self, key: Any, what: str) -> GiveUp:
        """What becomes of a function that has changed something, which was put back.

        This call runs as it is; if it does the same when it is staged again, all calls do.
        """
        seen = self.unsettled.setdefault(key, set())
        again = what in seen or len(seen) >= MOST_CHANGES
        seen.add(what)
        return GiveUp(f"it changes {what}" if again else "", lasting=again)

    def _drop(self, key: Any, program: Program) -> None:
        known = self.programs.get(key, [])
        if program in known:
            known.remove(program)
        self.plans = tuple([p for p in self.plans if p is not program.plan])

    def add_plan(self, program: Program, plan: Any) -> None:
        """Note the short way of a program; those that were found last are tried first."""
        program.plan = plan
        self.plans = (plan, *self.plans)[: limits.PLANS]

    def _forget(self, key: Any, reason: GiveUp) -> None:
        """Run the function as it is for such arguments from here on, and say so once."""
        if modes.lanes or modes.turn is not None:
            return
        if reason.lasting:
            self.programs.pop(key, None)
            self.eager[key] = str(reason)
        if str(reason):
            self._say(str(reason))

    def _say(self, why: str) -> None:
        """Warn that the function runs as it is, at the line that calls it."""
        level, frame = 1, sys._getframe(0)
        while frame.f_back is not None and is_internal(frame.f_code.co_filename):
            level, frame = level + 1, frame.f_back
        warnings.warn(
            f"jit: {name_of(self.function)} runs uncompiled for these arguments, since {why}",
            RuntimeWarning,
            stacklevel=level,
        )
