"""``jit``: a function that is staged once for each kind of arguments, and compiled."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from time import perf_counter
from types import MethodType
from typing import TYPE_CHECKING, Any

from fx.config import modes, on_plain, writing
from fx.errors import ArgumentError, StagingError
from fx.transforms._arguments import check_function, name_of, several
from fx.transforms.jitting.donation import give_away
from fx.transforms.jitting.handled import may_handle
from fx.transforms.jitting.program import (
    Again,
    Busy,
    GiveUp,
    Program,
    lazily,
)
from fx.transforms.jitting.short.plan import MISS

if TYPE_CHECKING:
    from fx.transforms.jitting.explain import Explanation
    from fx.transforms.jitting.lowered import Lowered

from fx.transforms.jitting.progress import Call
from fx.transforms.jitting.serving import Programs
from fx.transforms.jitting.signature import Signature, StaticArguments, holds_state
from fx.transforms.jitting.writes import Writes

_TRIES = 4  # to stage a function that is not called


class Jitted(StaticArguments, Programs):
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
        sizes_vary: bool = True,
    ) -> None:
        update_wrapper(self, function)
        self.sizes_vary = sizes_vary
        self.function = function
        self.static_argnums = frozenset(static_argnums)
        self.static_argnames = frozenset(static_argnames)
        self.donate_argnums = frozenset(donate_argnums)
        self.programs: OrderedDict[Any, list[Program]] = OrderedDict()
        self.eager: dict[Any, str] = {}
        self.made = 0  # programs so far
        self.unsettled: dict[Any, set[str]] = {}  # what the function changed of what it reads
        self.plans: tuple[Any, ...] = ()  # the short ways of programs
        self.plain: set[Any] = set()  # kinds of arguments for which sizes are told as they are
        self.writes = Writes()  # the arguments that it writes into
        self.said: set[str] = set()  # why calls ran uncompiled that had a program
        self.rebinds = False  # whether a program of it gives cells other values
        self.touched: Any = lazily("guards.touched").Touched()  # what it was seen to read

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        failed = None
        if self.rebinds:
            if writing.watched:  # views that scripts took of what it rebinds
                writing.stepped(True)
            if self.writes.written:
                return self._writing(args, kwargs)
        try:
            for plan in self.plans:
                out = plan(args, kwargs)
                if out is not MISS:
                    return out
        except Exception as error:
            failed = error
        return self._long_way(args, kwargs, failed)

    def _writing(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of what writes into cells as scripts do, not by steps of optimizers alone."""
        why, failed = self.writes.stands_apart(), None
        if why:
            if why not in self.said:
                self.said.add(why)
                self._say(why)
            return self.function(*args, **kwargs)
        try:
            for plan in self.plans:
                out = plan(args, kwargs)
                if out is not MISS:
                    self.writes.tell()
                    return out
        except Exception as error:
            failed = error
        return self._long_way(args, kwargs, failed)

    def _long_way(self, args: tuple[Any, ...], kwargs: dict[str, Any], failed: Any) -> Any:
        """A call for which no short way is known, or the short way of which failed."""
        handled = False
        if failed is not None:
            programs = [p for known in list(self.programs.values()) for p in known]
            handled = may_handle(self, failed, programs)
            if not handled:
                raise failed
        if handled and any(p.table.draws for p in programs):
            lazily("recording.draws").put_back_of(failed)
        if handled or modes.axes:  # collectives name a vmap around this call
            return self.function(*args, **kwargs)
        signature = Signature(self, args, kwargs)
        if signature.key in self.eager or (
            modes.stage is not None and self.writes.concerns(signature)
        ):
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
            if self.rebinds and writing.watched:
                writing.stepped()
            if self.writes.written:
                self.writes.tell()
            program.calls += program.tally[0] == tally
            if call.staged:
                if program.seconds is None:
                    program.seconds = perf_counter() - began
                lazily("lowered").report(self, program, call.path)
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
                if call.stores.done:
                    self.writes.tell()
                raise
        call.drawn.put_back()
        if self.writes.asked:
            return self.writes.found(self, args, kwargs)
        return self.function(*args, **kwargs)

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
        return lazily("lowered").lowered(*self.program_of(*args, **kwargs))  # type: ignore[no-any-return]

    def program_of(self, *args: Any, **kwargs: Any) -> tuple[Program, Any]:
        """What the function is staged to for some arguments, and the answers on the way to the end.

        Raises:
            StagingError: as ``lower`` does.
        """
        why = ""
        for _ in range(_TRIES):
            signature = Signature(self, args, kwargs)
            lazily("lowered").refuse_tracers(name_of(self.function), signature.tensors)
            try:
                program = self._find(signature, args)
                call = Call(self, program, signature)
                try:
                    call._to_the_end()
                finally:
                    call.undo()
                return program, call.path
            except Busy:
                raise StagingError(
                    f"lower of {name_of(self.function)}: another thread compiles it for these "
                    f"arguments now; call lower again when it has"
                ) from None
            except Again:
                self._drop(signature.key, program)
            except GiveUp as reason:
                why = str(reason)
                if why:
                    break
                self._drop(signature.key, program)  # it was for that call alone
        raise StagingError(
            f"lower of {name_of(self.function)}: it runs uncompiled for these arguments, since "
            f"{why or 'it changes what it reads'}"
        )

    def cache_size(self) -> int:
        """The number of programs that are kept."""
        return sum(map(len, self.programs.values()))

    def cache_clear(self) -> None:
        """Forget every program, and what runs uncompiled."""
        self.plans = ()
        lazily("shared").forget(self)
        for kept in (self.programs, self.eager, self.unsettled, self.plain):
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
    dynamic: bool = True,
    check: bool | int | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
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
        dynamic: share code between sizes: the first size on an axis is compiled for itself, from
            the second one on code serves every size that is about as large, so that a new batch
            size costs a staging but no compilation. False: each size has code of its own, which is
            a few percent faster.
        check: run every ``check``-th call (each for True) eagerly too, in a copy of the process,
            and compare results, cells, gradients and numbers. None: as ``FX_CHECK`` says, where a
            difference is a warning.
        in_shardings: of tensors on a mesh (``fx.NamedSharding``): how the positional arguments that
            are not static come to the function: one sharding, or a pytree prefix of their tuple.
            Those that lie otherwise are brought there, and those of the CPU, the same on all ranks,
            are distributed, in the same native call. None, also in the prefix: as they are.
        out_shardings: the same of the result.

    Raises:
        StagingError: if a static argument is not hashable.
        TreeError: of shardings that are no prefix; ``fx.with_sharding_constraint`` says what else.
        CheckError: if a checked call differs from its eager run: it names the first node that does.

    Example:
        >>> import fx
        >>> @fx.jit
        ... def f(x, n):
        ...     return fx.sin(x) * n if x.sum() > 0 else x
        >>> f(fx.tensor([0.0, 1.0]), 2)
        tensor([0.0000, 1.6829])

        Sizes that vary: ``g.explain()`` says which axes are not fixed in the code.

        >>> g = fx.jit(lambda x: (x * x).sum())
        >>> [float(g(fx.ones(n))) for n in (40, 50, 60)]
        [40.0, 50.0, 60.0]
        >>> g.explain().entries[-1].sizes
        ('x axis 0: a = 60',)
    """
    if function is None:
        return partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            dynamic=dynamic,
            check=check,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
        )
    check_function(function, "jit")
    placed = in_shardings is not None or out_shardings is not None
    if holds_state(function):  # a Module: its forward
        if placed:
            raise ArgumentError(
                f"jit of {name_of(function)}: in_shardings and out_shardings are of functions; jit "
                f"one that calls the module"
            )
        function.compile(  # type: ignore[attr-defined]
            static_argnums=static_argnums, static_argnames=static_argnames, dynamic=dynamic,
            check=check,
        )  # fmt: skip
        return function
    static = (
        several("static_argnums", static_argnums, int),
        several("static_argnames", static_argnames, str),
    )
    if placed:
        from fx.distributed.constraints import between

        function = between(function, in_shardings, out_shardings, *static)
    options = (
        function,
        *static,
        several("donate_argnums", donate_argnums, int),
        bool(dynamic),
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


@on_plain
def _run_plainly(plainly: bool) -> None:
    Jitted.__call__ = _plainly if plainly else _compiled  # type: ignore[method-assign]
