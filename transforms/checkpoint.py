"""``checkpoint``: keep a function's arguments, not its intermediate results, and run it again.

The function runs once at a level of its own, whose tracers carry values that nothing is recorded
of, and note what the function closes over (parameters, values of other transforms). Its results are
then bound, with the arguments and what was closed over, to an operation that returns them unchanged
and whose pullback runs the function again. So what it closes over gets its gradient too.

The second run draws the random numbers of the first, and leaves no trace in cells: a running mean
is updated once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from itertools import compress
from typing import Any

from fx import tree
from fx.config import NEVER, modes, set_modes
from fx.dtypes import INEXACT
from fx.errors import BackwardError
from fx.levels import Level, Tracer, live
from fx.prims.compare import stop_gradient
from fx.prims.creation import zeros_like_spec
from fx.random.lanes import Replay
from fx.tape import CELL
from fx.tensor import Tensor, _new
from fx.transforms._arguments import check_function, leave, name_of
from fx.transforms.application import Application, Pullback, lanes_first
from fx.transforms.batching import lanes_to
from fx.transforms.forward import jvp
from fx.transforms.reverse import vjp

Tensors = Sequence[Tensor]
# each says what stands around a call now and must stand around its second run, a context; or None
surroundings: list[Callable[[], Callable[[], AbstractContextManager[None]] | None]] = []


class _Way:
    """What a run met that was not computed from its arguments, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.captured: list[Tensor] = []
        self.met: list[int | None] = []  # for each one met, its place among the captured
        self.known: dict[int, int] = {}

    def meet(self, x: Tensor) -> Tensor:
        """The first run: a value without a derivative."""
        if _only_staged(x):
            return x
        if type(x) is Tensor and x._node is None:
            self.met.append(None)
            return x
        place = self.known.get(id(x))
        if place is None:
            place = self.known[id(x)] = len(self.captured)
            self.captured.append(x)  # which keeps its id its own
        self.met.append(place)
        return stop_gradient(x)

    def again(self, given: Tensors) -> Callable[[Tensor | None], Any]:
        """A later run: what stands for the one that is met now; None says that it has ended."""
        places = iter(self.met)

        def meet(x: Tensor | None) -> Any:
            if x is not None and _only_staged(x):
                return x
            place = next(places, -1)
            if (place == -1) != (x is None) or (
                place is not None and x is not None and given[place].shape != x.shape
            ):
                raise BackwardError(
                    f"checkpoint: {self.name} took another way when it ran again for its "
                    f"gradient; it must not depend on anything that changes between the runs"
                )
            return x if place is None or x is None else given[place]

        return meet


class Run(Level):
    """A run of a checkpointed function.

    Attributes:
        again: whether it runs for its gradient.
    """

    __slots__ = ("again",)

    def __init__(self, again: bool) -> None:
        super().__init__("checkpoint")
        self.again = again


class CheckpointTracer(Tracer):
    """A value inside a checkpointed function."""

    __slots__ = ("meet",)
    transform = "checkpoint"
    fuses = True
    meet: Callable[[Tensor], Tensor]

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        level, meet = self.level, self.meet
        out = primitive(*[x.value if x.level == level else meet(x) for x in args], **params)
        if not primitive.differentiable:  # no longer computed from the arguments, so to speak
            return out
        if primitive.multiple:
            return tuple([_tracer(level, meet, o) for o in out])
        return _tracer(level, meet, out)


def _tracer(level: int, meet: Callable[[Tensor], Tensor], value: Tensor) -> CheckpointTracer:
    tracer = _new(CheckpointTracer)
    tracer.level = level
    tracer.value = value
    tracer.meet = meet
    tracer._node = None
    return tracer


class _Rerun(Application):
    """Results, arguments and captured tensors in; the results out, with the pullback of a rerun."""

    def __init__(
        self,
        name: str,
        floating: Sequence[bool],
        rerun: Callable[..., Tensors],
        place: Callable[[Tensors], Tensors],
    ) -> None:
        super().__init__(name, "Checkpoint")
        self.floating, self.count = floating, len(floating)
        self.rerun, self.place = rerun, place
        self.gives_arguments = place is list

    def run(self, *args: Tensor) -> Tensors:
        return self.place(args[: self.count])

    def _moving(self, args: Tensors, needs: Sequence[Any]) -> tuple[list[int], Callable[..., Any]]:
        """The arguments with a derivative, and the function of these."""
        moving = [
            i
            for i, (x, need) in enumerate(zip(args, needs))
            if i >= self.count and need is not None and x.dtype in INEXACT
        ]
        rerun, floating = self.rerun, self.floating

        def of_moving(*xs: Tensor) -> list[Tensor]:
            every = list(args)
            for i, x in zip(moving, xs):
                every[i] = x
            return list(compress(rerun(*every[len(floating) :]), floating))

        return moving, of_moving

    def _results(self, args: Tensors, moving: list[int], transform: Any) -> Tensors:
        """The results, which transforms around this one differentiate as those of ``transform``.

        A rule of the user's own in the function gives other results to the transform that meets it
        than to nobody, and these are what the next one around it differentiates.
        """
        count, floating, rerun = self.count, self.floating, self.rerun
        places = [i - count for i in moving]

        def as_seen(*every: Tensor) -> list[Tensor]:
            def of_moving(*xs: Tensor) -> Any:
                given = list(every)
                for i, x in zip(places, xs):
                    given[i] = x
                outs = rerun(*given)
                whole = [o for o, f in zip(outs, floating) if not f]
                return list(compress(outs, floating)), whole

            outs, whole = transform(of_moving, [every[i] for i in places])
            floats, others = iter(outs), iter(whole)
            return [next(floats if f else others) for f in floating]

        return _Rerun(self.called, floating, as_seen, self.place)(*args)

    def forward(self, args: Tensors, needs: Sequence[Any]) -> tuple[Tensors, Pullback]:
        moving, of_moving = self._moving(args, needs)
        total, floating = len(args), self.floating

        def pullback(cts: list[Any]) -> list[Tensor | None]:
            _, pull = vjp(of_moving, *[args[i] for i in moving])
            out: list[Tensor | None] = [None] * total
            for i, ct in zip(moving, pull(list(compress(cts, floating)))):
                out[i] = ct
            return out

        def recorded(f: Callable[..., Any], xs: Tensors) -> Any:
            outs, _, rest = vjp(f, *xs, has_aux=True)
            return outs, rest

        return self._results(args, moving, recorded), pullback

    def jvp(
        self, primals: Tensors, tangents: Sequence[Tensor | None]
    ) -> tuple[Tensors, Sequence[Tensor | None]]:
        moving, of_moving = self._moving(primals, tangents)
        at = tuple([primals[i] for i in moving])
        _, pushed = jvp(of_moving, at, tuple([tangents[i] for i in moving]))
        rest = iter(pushed)

        def followed(f: Callable[..., Any], xs: Tensors) -> Any:
            outs, _, rest = jvp(
                f, tuple(xs), tuple([zeros_like_spec(x.spec) for x in xs]), has_aux=True
            )
            return outs, rest

        outs = self._results(primals, moving, followed)
        return outs, [next(rest) if f else None for f in self.floating]

    def lanes(self, size: int, axis_name: Any, dims: Sequence[int | None]) -> Application:
        own = dims[: self.count]

        def place(outs: Tensors) -> Tensors:
            return [lanes_to(o, d, 0, size) for o, d in zip(self.place(outs), own)]

        rerun = lanes_first(self.rerun, size, axis_name, dims[self.count :])
        return _Rerun(self.called, self.floating, rerun, place)


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, of which backward keeps the arguments only, and runs it again for the rest.

    Saves memory for the price of a second forward pass. Whatever it closes over is differentiated
    as well. Also called rematerialization.

    Args:
        function: takes and returns pytrees; it must compute the same when it runs again.

    Returns:
        a function with the same values and derivatives.

    Source: Griewank and Walther, "Algorithm 799: revolve", 2000; ``torch.utils.checkpoint``.

    Example:
        >>> import fx
        >>> w = fx.tensor(2.0, requires_grad=True)
        >>> block = fx.checkpoint(lambda x: fx.sin(w * x))
        >>> block(fx.tensor(0.0, requires_grad=True)).backward()
        >>> fx.grad(block)(fx.tensor(0.0))
        tensor(2., grad_fn=<...>)
    """
    check_function(function, "checkpoint")

    @wraps(function)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, kwargs))
        leaves = [x.read() if isinstance(x, Tensor) and x.level == CELL else x for x in leaves]
        places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
        xs = [leaves[i] for i in places]
        static = [None if isinstance(x, Tensor) else x for x in leaves]
        if modes.stage is not None and not any(moves(x) for x in xs):
            return function(*args, **kwargs)  # what a graph keeps is decided when it is split
        way, count = _Way(name_of(function)), len(xs)

        def run(
            values: Tensors, meet: Callable[[Tensor], Tensor], again: bool
        ) -> tuple[list[Any], Any]:
            with draws, Run(again) as level:
                number = level.number
                filled = list(static)
                for i, x in zip(places, values):
                    filled[i] = _tracer(number, meet, x)
                new_args, new_kwargs = tree.unflatten(treedef, filled)
                outs, treedef_out = tree.flatten(function(*new_args, **new_kwargs))
                outs = [leave(o, number) for o in outs]
                mine = [isinstance(o, CheckpointTracer) and o.level == number for o in outs]
                return [(o.value if m else o, m) for o, m in zip(outs, mine)], treedef_out

        draws, around = Replay(), dict(live)
        stood = [found for look in surroundings if (found := look()) is not None]
        recorded = (modes.barrier, modes.silent)
        before = modes.journal
        modes.journal = journal = []
        try:
            pairs, treedef_out = run([stop_gradient(x) for x in xs], way.meet, again=False)
        finally:
            modes.journal = before
            if before is not None:
                before.extend(journal)
        way.known.clear()
        started: dict[Any, Any] = {}  # what the cells held that it rebinds, but for generators
        for cell, value in journal:
            if value is not None and cell not in draws.cells:
                started.setdefault(cell, value)

        def rerun(*every: Tensor) -> list[Tensor]:
            ended = [(cell, cell.value) for cell in started]
            # what it does to values of transforms that have returned is done again, and replaced
            returned = {n: level for n, level in around.items() if n not in live}
            live.update(returned)
            before, modes.journal = modes.journal, None
            pulling, modes.pulling = modes.pulling, NEVER
            now = (modes.barrier, modes.silent)
            set_modes(*recorded)  # what it makes of captured tensors alone is met as it was
            try:
                for cell, value in started.items():
                    cell.value = value
                meet = way.again(every[count:])
                with ExitStack() as stack:
                    for stands in stood:
                        stack.enter_context(stands())
                    outs, _ = run(every[:count], meet, again=True)
                meet(None)
            finally:
                modes.journal, modes.pulling = before, pulling
                set_modes(*now)
                for number in returned:
                    del live[number]
                for cell, value in ended:
                    cell.value = value
            return [o for o, m in outs if m]

        outs = [o for o, _ in pairs]
        derived = [i for i, (_, m) in enumerate(pairs) if m]
        inputs, way.captured = [*xs, *way.captured], []
        if derived and any(moves(x) for x in inputs):
            floating = [outs[i].dtype in INEXACT for i in derived]
            bound = _Rerun(way.name, floating, rerun, list)
            for i, o in zip(derived, bound(*[outs[i] for i in derived], *inputs)):
                outs[i] = o
        return tree.unflatten(treedef_out, outs)

    return checkpointed


def _only_staged(x: Any) -> bool:
    """Whether it is a constant of a graph in the making, of which each run may make its own."""
    return isinstance(x, Tracer) and x.transform == "jit" and x._node is None


def moves(x: Any) -> bool:
    """Whether a transform or the tape differentiates this tensor."""
    while isinstance(x, Tracer):
        if x._node is not None or x.transform in ("jvp", "checkpoint"):
            return True
        if x.transform == "jit":
            return False
        x = x.value
    return x._node is not None
