"""``jit``: a function that is staged once for each kind of arguments, and compiled."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from time import perf_counter
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import ref

from fx import limits
from fx.config import modes
from fx.errors import StagingError
from fx.frames import user_line
from fx.staged_number import StagedNumber
from fx.tensor import Tensor
from fx.transforms._arguments import check_function, name_of, several
from fx.transforms.jitting.donation import give_away
from fx.transforms.jitting.fast import MISS
from fx.transforms.jitting.handled import may_handle
from fx.transforms.jitting.program import (
    Again,
    Busy,
    Captured,
    Found,
    Given,
    GiveUp,
    Held,
    Program,
)

if TYPE_CHECKING:
    from fx.transforms.jitting.explain import Explanation, Lowered

from fx.transforms.jitting.progress import Call, lazily
from fx.transforms.jitting.signature import Identity, Signature, holds_state
from fx.transforms.jitting.writes import Writes

MOST_CHANGES = 4  # of what a function reads, by itself


class Jitted:
    """A jitted function. Calling it runs compiled code; ``jit`` makes one.

    No lock is held while user code runs. One thread at a time stages a program (``staging``);
    another one that would need it meanwhile runs the function as it is, and waits for nobody.
    """

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
        self.writes = Writes()  # the arguments that it writes into
        self.touched: Any = lazily("touched").Touched()  # what it was seen to read

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
        handled, failed = False, None
        try:
            for plan in self.plans:
                out = plan(args, kwargs)
                if out is not MISS:
                    return out
        except Exception as error:
            programs = [p for known in list(self.programs.values()) for p in known]
            handled, failed = may_handle(self, error, programs), error
            if not handled:
                raise
        if handled and any(p.table.draws for p in programs):
            lazily("draws").put_back_of(failed)
        if handled or modes.axes:  # collectives name a vmap around this call
            return self.function(*args, **kwargs)
        signature = Signature(self, args, kwargs)
        if signature.key in self.eager:
            return self.function(*args, **kwargs)
        try:
            program = self._find(signature, args)
        except Busy:
            return self.function(*args, **kwargs)
        except GiveUp as reason:
            self._forget(signature.key, reason)
            return self.function(*args, **kwargs)
        in_turn = modes.lanes or modes.turn is not None
        if (program.random and in_turn) or (program.outward and not self._may_draw()):
            return self.function(*args, **kwargs)
        call = Call(self, program, signature)
        try:
            began, tally = perf_counter(), program.tally[0]
            out = call.run(args, kwargs)
            program.calls += program.tally[0] == tally
            if call.staged:
                if program.seconds is None:
                    program.seconds = perf_counter() - began
                lazily("explain").report(self, program, call.path)
                self._settle(program, signature)
            if signature.donated:
                given = [signature.parts[i] for i in signature.donated]
                give_away(
                    [signature.tensors[i] for kind, i in given if kind == "tensor"],
                    name_of(self.function),
                )
            return out
        except Busy:
            call.undo()
        except Again:
            call.undo()
            self._drop(signature.key, program)
            call.drawn.put_back()
            return self(*args, **kwargs)
        except GiveUp as reason:
            call.undo()
            if program.root is None or (call.staged and not program.calls):
                self._drop(signature.key, program)
            self._forget(signature.key, reason)
        except BaseException as error:
            call.undo()
            if program.root is None or (call.staged and not program.calls):
                self._drop(signature.key, program)
            if call.stores.done or not may_handle(self, error, [program]):
                raise
        call.drawn.put_back()
        if self.writes.asked:
            return self.writes.found(self, args, kwargs)
        return self.function(*args, **kwargs)

    def _may_draw(self) -> bool:
        """Whether a program may draw and change Python's state; else what is around it does."""
        return modes.stage is None and not modes.lanes and modes.turn is None

    def _find(self, signature: Signature, args: tuple[Any, ...]) -> Program:
        """The program that serves these arguments now, a new one if there is none."""
        known = self.programs.setdefault(signature.key, [])
        self.programs.pop(signature.key, None)
        self.programs[signature.key] = known  # the last used
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
        program.reason = lazily("explain").reason_of(self, known[-1] if known else None, signature)
        program.guards = lazily("guards").watch(
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
        if len(program.gathered) > 1 and any(type(o) is Given for o, _ in program.gathered):
            leaves = {id(self.owner(owner, signature)._node) for owner, _ in program.gathered}
            if len(leaves) < len(program.gathered):
                return False  # what was two leaves is one now
        if program.predicates or program.numbers or program.table.draws:
            numbers = []
            for owner, key, kind in program.numbers:
                now = signature.numbers[key] if owner == "argument" else owner[key]
                if type(now.now if type(now) is StagedNumber else now) is not kind:
                    return False
                numbers.append(now)
            if program.table.draws:
                return not self._may_draw() or lazily("draws").serves(program, numbers, signature)
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
        if not str(reason):
            return
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
        return lazily("explain").explain(self)  # type: ignore[no-any-return]

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
        lazily("explain").refuse_tracers(name_of(self.function), signature.tensors)
        try:
            program = self._find(signature, args)
            call = Call(self, program, signature)
            try:
                call._to_the_end()
            finally:
                call.undo()
        except Busy:
            raise StagingError(
                f"lower of {name_of(self.function)}: another thread compiles it for these "
                f"arguments now; call lower again when it has"
            ) from None
        except Again:
            self._drop(signature.key, program)
            return self.lower(*args, **kwargs)
        except GiveUp as reason:
            raise StagingError(
                f"lower of {name_of(self.function)}: it runs uncompiled for these arguments, "
                f"since {reason}"
            ) from None
        return lazily("explain").lowered(program, call.path)  # type: ignore[no-any-return]

    def cache_size(self) -> int:
        """The number of programs that are kept."""
        return sum(map(len, self.programs.values()))

    def cache_clear(self) -> None:
        """Forget every program, and what runs uncompiled."""
        self.plans = ()
        lazily("shared").forget(self)
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
    check: bool | int | None = None,
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
        check: run every ``check``-th call (each for True) eagerly too, in a copy of the process,
            and compare results, cells, gradients and numbers. None: as ``FX_CHECK`` says, where a
            difference is a warning.

    Raises:
        StagingError: if a static argument is not hashable.
        CheckError: if a checked call differs from its eager run: it names the first node that does.

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
            check=check,
        )
    check_function(function, "jit")
    if holds_state(function):  # a Module: its forward
        function.compile(  # type: ignore[attr-defined]
            static_argnums=static_argnums, static_argnames=static_argnames, check=check
        )
        return function
    options = (
        function,
        several("static_argnums", static_argnums, int),
        several("static_argnames", static_argnames, str),
        several("donate_argnums", donate_argnums, int),
    )
    every = int(os.environ.get("FX_CHECK") or 0) if check is None else int(check)
    if not every:
        return Jitted(*options)
    if not hasattr(os, "fork"):
        raise StagingError(
            "jit: a checked call copies the process, which this system cannot; "
            "leave out check= and FX_CHECK"
        )
    return lazily("check").Checked(*options, every=every, raises=check is not None)


_compiled: Any = Jitted.__call__


def _plainly(self: Jitted, *args: Any, **kwargs: Any) -> Any:
    return self.function(*args, **kwargs)


def run_plainly(plainly: bool) -> None:
    """Let every call of a jitted function run the function itself; or compiled, as at first."""
    Jitted.__call__ = _plainly if plainly else _compiled  # type: ignore[method-assign]
