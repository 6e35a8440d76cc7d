"""Application: a user's function with rules of its own, bound as a primitive is.

Custom rules, ``autograd.Function`` and ``checkpoint`` make one for each call. It answers what a
tracer asks of a primitive (``jvp``, ``vjp``, ``batch``, ``spec``), but it runs a Python function
instead of a kernel, and where it is recorded it computes results and pullback together, because
a user's forward function must run once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx import tape
from fx.config import modes
from fx.devices import Device, backend
from fx.dtypes import INEXACT
from fx.errors import BackwardError, TreeError
from fx.graph.staging import StageTracer
from fx.levels import check_live
from fx.primitive import Primitive
from fx.prims.creation import zeros_like_spec
from fx.spec import TensorSpec
from fx.tape import CELL, GradTracer, Node, Select, grad_tracer
from fx.tensor import Tensor, bare, new_tensor
from fx.transforms._arguments import fitting, leave
from fx.transforms.batching import Lanes, batch_tracer, lanes_to
from fx.transforms.reverse import vjp

Pullback = Callable[..., Sequence[Tensor | None]]


class _Recorded:
    """What a node knows of its application: less than the arguments that it holds."""

    __slots__ = ("name", "saves", "torch_name")
    multiple = True
    sparing = False

    def __init__(self, application: Application) -> None:
        self.name = application.called
        self.torch_name = application.torch_name
        self.saves = application.saves


class Application(Primitive):
    """A function of tensors, given and returned as flat sequences, with rules of its own.

    A subclass says what runs (``run``), and what is recorded (``forward``); ``jvp`` and ``lanes``
    (the same for a batch) follow from them unless it knows better.
    """

    is_applied = True
    ruled = False  # whether a graph computes it by operations, and has it for the derivative alone
    closed = False  # whether its rules read nothing but their arguments
    gives_arguments = False  # whether the results are the first arguments as they are
    multiple = True
    sparing = False
    differentiable = True
    saves: tuple[int, ...] = ()
    kind, weight, formula = "", 1, None
    commutative = no_minus_zero = partial = False
    literals: tuple[int, ...] = ()

    def __init__(self, name: str, torch_name: str = "") -> None:
        self.called = name
        self.name = f"call {name}"  # a function that a user calls sin is not the primitive sin
        self.torch_name = torch_name or name

    # what a subclass gives ----------------------------------------------------------------------

    def run(self, *args: Tensor) -> Sequence[Tensor]:
        """The results, by ordinary operations."""
        raise NotImplementedError

    def forward(self, args: Sequence[Tensor], needs: Sequence[Any]) -> tuple[Any, Pullback]:
        """The results and the pullback: ``(cotangents, *saved results)`` to one an argument."""
        raise NotImplementedError

    def lanes(self, size: int, axis_name: Any, dims: Sequence[int | None]) -> Application:
        """The same for batches: arguments with lanes along ``dims``, results along 0."""
        raise NotImplementedError

    # what follows from it -----------------------------------------------------------------------

    def remember(self, args: Sequence[Tensor], needs: Sequence[Any]) -> Callable[[], Pullback]:
        """What makes the pullback a function of recorded arguments, should it be recorded."""
        return lambda: self.forward(args, needs)[1]

    def __call__(self, *args: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        level, top = 0, None
        for x in args:
            if x.level > level:
                level, top = x.level, x
        if level == CELL:
            return self(*[x.read() if x.level == CELL else x for x in args])
        if top is None:
            if modes.record0 and any(x._node is not None for x in args):
                return self._record(0, args, [_bare(x) for x in args])
            return tuple(self.run(*args))
        check_live(top)
        stage = modes.stage
        if stage is not None and stage.number > level:
            stage = stage.enclosing(level)
            if stage is not None:  # a branch, which takes it in
                return self(*[stage.tracer(stage.value_of(x)) for x in args])
        if type(top) is not GradTracer:
            if self.ruled and type(top) is StageTracer:
                return tuple(self._with_rule(self.run(*args), args))
            return top.process(self, args, {})
        values = [x.value if x.level == level else x for x in args]
        if not _records(level):
            return self(*values)
        return self._record(level, args, values)

    def _record(
        self, level: int, args: tuple[Tensor, ...], values: list[Tensor]
    ) -> tuple[Tensor, ...]:
        parents = tuple([tape.node_at(x, level) for x in args])
        outs, pullback = self.forward(values, parents)
        outs = [_owned(o, level, self.called) for o in outs]
        if level & 1 and self.ruled:  # who differentiates what the graph gives goes by this rule
            outs = self._with_rule(outs, values)
        if level == 0 or level & 1:  # the tapes of .backward() may be asked to record the pass
            bare, recorded = pullback, self.remember(args, parents)

            def pullback(cts: list[Any], *saved: Tensor) -> Sequence[Tensor | None]:
                return (recorded() if _records(level) else bare)(cts, *saved)

            pullback.bare = bare  # type: ignore[attr-defined]  # for one that can be had in parts

        node = tape._node(_Recorded(self), pullback, parents, level)
        node.specs = self.cotangent_specs(outs)
        node.saved = tuple([(i, outs[i]) for i in self.saves])
        return tuple([self._placed(level, o, node, i) for i, o in enumerate(outs)])

    def _with_rule(self, outs: Sequence[Tensor], args: Sequence[Tensor]) -> Sequence[Tensor]:
        """Results that operations of a graph computed, with these rules for their derivative."""
        staged = [x for x in args if type(x) is StageTracer]
        if not staged or any(isinstance(o, GradTracer) for o in outs):
            return outs
        if modes.stage is not None:
            modes.stage.meets_rule(self)
        rule = Ruled(self, len(outs), list)
        return staged[0].process(rule, (*outs, *args), {})  # type: ignore[no-any-return]

    def cotangent_specs(self, outs: Sequence[Tensor]) -> tuple[TensorSpec, ...]:
        """The specs of the cotangents that the pullback gets where none arrived."""
        return tuple([o.spec for o in outs])

    def _placed(self, level: int, out: Tensor, node: Node, index: int) -> Tensor:
        if not self.wants_cotangent(index, out):
            return out
        place = Select(node, index)
        if level:
            return grad_tracer(level, out, place)
        out = bare(out)
        out._node = place
        return out

    def wants_cotangent(self, index: int, out: Tensor) -> bool:
        """Whether a result is differentiable."""
        return out.dtype in INEXACT

    def vjp(self, needs: Sequence[Any], *args: Tensor) -> Pullback:
        """The rule of a primitive: the pullback alone."""
        return self.forward(args, needs)[1]

    def batch(
        self, level: Any, args: Sequence[Tensor], dims: Sequence[int | None]
    ) -> tuple[Sequence[Tensor], Sequence[int | None]]:
        """The batching rule: bind the function of lanes below."""
        outs = self.lanes(level.size, level.axis_name, dims)(*args)
        return outs, (0,) * len(outs)

    def spec(self, *specs: TensorSpec) -> tuple[TensorSpec, ...]:
        """The spec rule: run without values."""
        backend("meta")  # loads it
        with Device("meta"):  # for what the function makes
            outs = self.run(*[new_tensor(TensorSpec(s.shape, s.dtype, "meta")) for s in specs])
        device = specs[0].device if specs else "cpu"
        return tuple([TensorSpec(o.shape, o.dtype, device) for o in outs])

    def cpu(self, *arrays: Any) -> tuple[Any, ...]:
        """The kernel: run on bare arrays."""
        return tuple([o._a for o in self.run(*[new_tensor(a) for a in arrays])])


class Ruled(Application):
    """Results of a user's function, then its arguments; the results out, with the user's rules.

    A graph computes the results by ordinary operations, which are optimised and compiled as others
    are; this stands behind them while the graph may be differentiated.

    Args:
        of: the function.
        count: the number of results.
        place: moves lanes of results to the front.
    """

    gives_arguments = True

    def __init__(
        self,
        of: Application,
        count: int,
        place: Callable[[Sequence[Tensor]], Sequence[Tensor]],
    ) -> None:
        super().__init__(of.called, of.torch_name)
        self.of, self.count, self.place = of, count, place
        self.gives_arguments = place is list

    @property
    def saves(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.of.saves

    def run(self, *args: Tensor) -> Sequence[Tensor]:
        return self.place(args[: self.count])

    def forward(self, args: Sequence[Tensor], needs: Sequence[Any]) -> tuple[Any, Pullback]:
        outs, pullback = self.of.forward(args[self.count :], needs[self.count :])
        none = [None] * self.count
        return outs, lambda cts, *saved: [*none, *pullback(cts, *saved)]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> Any:
        return self.of.jvp(primals[self.count :], tangents[self.count :])  # type: ignore[attr-defined]

    def cotangent_specs(self, outs: Sequence[Tensor]) -> tuple[TensorSpec, ...]:
        return self.of.cotangent_specs(outs)

    def wants_cotangent(self, index: int, out: Tensor) -> bool:
        return self.of.wants_cotangent(index, out)

    def lanes(self, size: int, axis_name: Any, dims: Sequence[int | None]) -> Application:
        own = dims[: self.count]

        def place(outs: Sequence[Tensor]) -> Sequence[Tensor]:
            return [lanes_to(o, d, 0, size) for o, d in zip(self.place(outs), own)]

        of = self.of.lanes(size, axis_name, dims[self.count :])
        return Ruled(of, self.count, place)


def _records(level: int) -> bool:
    """Whether the tape of ``level`` records now."""
    return modes.record0 if level == 0 else level > modes.barrier and level != modes.silent


def _bare(x: Tensor) -> Tensor:
    return x if x._node is None else bare(x)


def _owned(out: Tensor, level: int, name: str) -> Tensor:
    """A result that depends on nothing at ``level`` but the arguments, whose node it will get.

    Raises:
        BackwardError: if it does.
    """
    if out.level == CELL:
        out = out.read()
    if out.level >= max(level, 1) or (level == 0 and out._node is not None):
        where = f" inside {out.transform}" if out.level > 0 else ""
        raise BackwardError(
            f"{name} has its own derivative rule and closes over a tensor{where} that requires "
            f"grad, which the rule would not see; pass it as an argument, or use x.detach()"
        )
    return out


def transposed(
    function: Callable[..., Sequence[Tensor]],
    specs: Sequence[TensorSpec],
) -> tuple[Sequence[Tensor], Pullback]:
    """The results at zero of a linear function of tensors, and its transpose."""
    outs, pullback = vjp(lambda *xs: list(function(*xs)), *map(zeros_like_spec, specs))
    return outs, lambda cts: pullback(list(cts))


def returned(ct: Any, x: TensorSpec, what: str, index: int) -> Tensor | None:
    """A cotangent (or tangent) that a user's rule returned, checked against its argument.

    Raises:
        TreeError, ShapeError, DTypeError: if it does not fit.
    """
    if ct is None:
        return None
    if isinstance(ct, tuple | list | dict):
        raise TreeError(f"{what} {index} is a {type(ct).__name__}, expected a tensor {x!r}")
    found = fitting(ct, x, f"{what} {index}")
    return found.read() if found.level == CELL else found


def in_lanes(
    function: Callable[..., Sequence[Any]],
    size: int,
    axis_name: Any,
    values: Sequence[Any],
    dims: Sequence[int | None],
) -> tuple[list[Any], list[int | None]]:
    """Run a function of lanes on batches; its results below the level, and where their lanes lie.

    What is no tensor passes unchanged, with dim None.
    """
    with Lanes(size, axis_name, inner=True) as level:
        number = level.number
        outs = function(
            *[batch_tracer(number, x, d) if d is not None else x for x, d in zip(values, dims)]
        )
        pairs = [
            (x.value, x.dim) if isinstance(x, Tensor) and x.level == number else (x, None)
            for x in [leave(o, number) for o in outs]
        ]
    return [x for x, _ in pairs], [d for _, d in pairs]


def lanes_first(
    function: Callable[..., Sequence[Tensor]], size: int, axis_name: Any, dims: Sequence[int | None]
) -> Callable[..., list[Tensor]]:
    """A function of lanes as one of batches, every result with its lanes along 0."""

    def batched(*values: Tensor) -> list[Tensor]:
        outs, out_dims = in_lanes(function, size, axis_name, values, dims)
        return [lanes_to(x, d, 0, size) for x, d in zip(outs, out_dims)]

    return batched
