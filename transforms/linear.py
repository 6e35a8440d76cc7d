"""Linear functions: ``linearize`` and ``linear_transpose``, by recording what is done to tangents.

A ``LinearTracer`` has a spec and no value. Operations on it are not run but written down, one after
the other; everything else is computed at once. The list is then run on actual tangents
(``linearize``), or backwards by the VJP rules of its primitives (``linear_transpose``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fx import tree
from fx.dtypes import INEXACT
from fx.errors import BackwardError, DTypeError, FxError, TreeError
from fx.levels import Level, Tracer
from fx.ops.convert import as_tensor
from fx.prims.compare import equal, isnan, logical_or
from fx.prims.creation import constant_like, zeros_like_spec
from fx.prims.reduction import all as all_true
from fx.spec import TensorSpec
from fx.tensor import Tensor, _new
from fx.transforms._arguments import (
    check_function,
    differentiable_leaf,
    fitting,
    leave,
    name_of,
    pair,
)
from fx.transforms.forward import jvp


class Equation(NamedTuple):
    """One operation that was written down: arguments are slots (ints) or known tensors."""

    primitive: Any
    args: tuple[int | Tensor, ...]
    params: dict[str, Any]
    outs: tuple[int, ...]


class Program:
    """A straight list of operations from input slots to output slots."""

    __slots__ = ("equations", "inputs", "outputs", "purpose", "specs")

    def __init__(self, specs: Sequence[TensorSpec], purpose: str = "linear_transpose") -> None:
        self.purpose = purpose
        self.specs = list(specs)  # of every slot
        self.inputs = range(len(self.specs))
        self.equations: list[Equation] = []
        self.outputs: list[int | Tensor] = []  # a tensor where a result is known

    def slot(self, spec: TensorSpec) -> int:
        """A new slot."""
        self.specs.append(spec)
        return len(self.specs) - 1

    def prune(self) -> None:
        """Drop what no output needs."""
        needed = {o for o in self.outputs if isinstance(o, int)}
        kept = []
        for eq in reversed(self.equations):
            if not needed.isdisjoint(eq.outs):
                needed.update(a for a in eq.args if isinstance(a, int))
                kept.append(eq)
        self.equations = kept[::-1]

    def run(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The results for values of the inputs."""
        env: dict[int, Tensor] = dict(zip(self.inputs, values))
        for eq in self.equations:
            args = [env[a] if isinstance(a, int) else a for a in eq.args]
            out = eq.primitive(*args, **eq.params)
            if eq.primitive.multiple:
                env.update(zip(eq.outs, out))
            else:
                env[eq.outs[0]] = out
        return [env[o] if isinstance(o, int) else o for o in self.outputs]

    def pull(self, cts: Sequence[Tensor]) -> list[Tensor]:
        """The cotangents of the inputs: the list backwards, by VJP rules."""
        env: dict[int, Tensor] = {}

        def add(slot: Any, ct: Tensor | None) -> None:
            if isinstance(slot, int) and ct is not None:
                env[slot] = env[slot] + ct if slot in env else ct

        for slot, ct in zip(self.outputs, cts):
            add(slot, ct)
        for eq in reversed(self.equations):
            if not any(o in env for o in eq.outs):
                continue
            needs = tuple([True if isinstance(a, int) else None for a in eq.args])
            # a linear rule looks at the shapes of its linear arguments only
            args = [self._zeros(a) if isinstance(a, int) else a for a in eq.args]
            pullback = eq.primitive.vjp(needs, *args, **eq.params)
            if pullback is None:
                continue
            given = [env.pop(o) if o in env else self._zeros(o) for o in eq.outs]
            saved = [self._zeros(eq.outs[i]) for i in eq.primitive.saves]
            found = pullback(given if eq.primitive.multiple else given[0], *saved)
            for slot, ct in zip(eq.args, found):
                add(slot, ct)
        return [env[i] if i in env else self._zeros(i) for i in self.inputs]

    def _zeros(self, slot: int) -> Tensor:
        return zeros_like_spec(self.specs[slot])


class LinearTracer(Tracer):
    """A tangent that is not known yet: its place in a program."""

    __slots__ = ("program", "slot")
    known = False
    program: Program
    slot: int

    @property
    def transform(self) -> str:  # type: ignore[override]
        """What records the program, for messages."""
        return self.program.purpose

    @property
    def shape(self) -> tuple[int, ...]:
        return self.program.specs[self.slot].shape

    @property
    def dtype(self) -> Any:
        return self.program.specs[self.slot].dtype

    @property
    def device(self) -> Any:
        from fx.devices import Device

        return Device(self.program.specs[self.slot].device)

    def concrete(self) -> Tensor:
        raise BackwardError(
            f"a tangent {self.spec!r} has no value while a function is linearized or transposed, "
            f"and Python asked for one (bool(), float(), .item(), if). A linear function does not "
            f"depend on the values of what it is linear in"
        )

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        program, level = self.program, self.level
        if not primitive.differentiable:
            raise BackwardError(_NOT_LINEAR.format(primitive.name))
        specs = primitive.spec(*[x.spec for x in args], **params)
        several = specs if primitive.multiple else (specs,)
        outs = tuple([program.slot(s) for s in several])
        places = tuple([x.slot if x.level == level else x for x in args])
        program.equations.append(Equation(primitive, places, params, outs))
        tracers = tuple([linear_tracer(level, program, slot) for slot in outs])
        return tracers if primitive.multiple else tracers[0]


_NOT_LINEAR = (
    "the function is not linear: it applies {} to what it should be linear in. fx.linearize gives "
    "the linear part of any function, fx.vjp its transpose"
)


def linear_tracer(level: int, program: Program, slot: int) -> LinearTracer:
    """A tracer for a slot."""
    tracer = _new(LinearTracer)
    tracer.level = level
    tracer.program = program
    tracer.slot = slot
    tracer._node = None
    return tracer


def _output(x: Any, level: int) -> int | Tensor:
    x = as_tensor(leave(x, level))
    return x.slot if isinstance(x, LinearTracer) and x.level == level else x


def linearize(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Run ``function`` once, and return its result with its derivative there, a linear function.

    Args:
        function: takes and returns pytrees of tensors.
        primals: the arguments; every leaf floating.
        has_aux: whether ``function`` returns ``(result, aux)``.

    Returns:
        ``(result, push)``, and ``aux`` as a third where ``has_aux``. ``push(*tangents)`` takes
        tangents of the structure of ``primals`` and gives the tangent of the result; it runs only
        what depends on them, and may be called, mapped and differentiated as any function.

    Raises:
        DTypeError: if a leaf of ``primals`` is not floating.

    Example:
        >>> import fx
        >>> y, push = fx.linearize(lambda x: fx.sin(x) * x, fx.tensor(0.0))
        >>> push(fx.tensor(2.0)), push(fx.tensor(3.0))
        (tensor(0.), tensor(0.))
    """
    check_function(function, "linearize")
    leaves, treedef = tree.flatten(primals)
    values = [differentiable_leaf(x, "linearize") for x in leaves]
    program = Program([x.spec for x in values], "linearize")
    with Level("linearize") as level:
        number = level.number
        tangents = [linear_tracer(number, program, i) for i in program.inputs]

        def flat(*xs: Tensor) -> Any:
            out = function(*tree.unflatten(treedef, xs))
            return pair(out, "linearize", function) if has_aux else (out, None)

        out, pushed, aux = jvp(flat, tuple(values), tuple(tangents), has_aux=True)
        results, treedef_out = tree.flatten(pushed)
        program.outputs = [_output(x, number) for x in results]
    program.prune()
    specs = [x.spec for x in values]

    def push(*directions: Any) -> Any:
        given = _checked(directions, treedef, specs, "linearize: a tangent")
        return tree.unflatten(treedef_out, program.run(given))

    return (out, push, aux) if has_aux else (out, push)


def linear_transpose(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """The transpose of a linear function, without running it.

    Args:
        function: linear in all its arguments; takes and returns pytrees of tensors.
        examples: tensors, or ``fx.TensorSpec``, of the shapes and dtypes of its arguments.

    Returns:
        a function that takes a cotangent of the structure of the result, and gives a tuple with the
        cotangent of each argument.

    Raises:
        BackwardError: if the function is not linear, naming the operation that is not.

    Example:
        >>> import fx
        >>> transpose = fx.linear_transpose(lambda x: 3.0 * x[::2], fx.TensorSpec((4,), fx.float32))
        >>> transpose(fx.tensor([1.0, 2.0]))
        (tensor([3., 0., 6., 0.]),)
    """
    check_function(function, "linear_transpose")
    leaves, treedef = tree.flatten(examples)
    specs = [x if isinstance(x, TensorSpec) else as_tensor(x).spec for x in leaves]
    for spec in specs:
        if spec.dtype not in INEXACT:
            raise DTypeError(
                f"linear_transpose takes floating arguments, got {spec!r}; close over what the "
                f"function is not linear in"
            )
    program = Program(specs)
    with Level("linear_transpose") as level:
        number = level.number
        tracers = [linear_tracer(number, program, i) for i in program.inputs]
        outs, treedef_out = tree.flatten(function(*tree.unflatten(treedef, tracers)))
        program.outputs = [_output(x, number) for x in outs]
    program.prune()
    for eq in program.equations:
        _check_linear(eq, program, name_of(function))
    for out in program.outputs:
        if isinstance(out, Tensor) and not _is_zero(out):
            raise BackwardError(
                f"linear_transpose: {name_of(function)} is not linear: a result {out.spec!r} does "
                f"not depend on its arguments and is not zero"
            )
    out_specs = [program.specs[o] if isinstance(o, int) else o.spec for o in program.outputs]

    def transpose(ct: Any) -> tuple[Any, ...]:
        cts = _checked(ct, treedef_out, out_specs, "linear_transpose: a cotangent")
        return tree.unflatten(treedef, program.pull(cts))

    return transpose


def _checked(given: Any, treedef: Any, specs: Sequence[TensorSpec], what: str) -> list[Tensor]:
    leaves, structure = tree.flatten(given)
    if structure != treedef:
        raise TreeError(f"{what} of structure {structure} was given, expected {treedef}")
    return [fitting(x, spec, what, word="t") for x, spec in zip(leaves, specs)]


# is an operation linear? ------------------------------------------------------------------------


class _Unknown(LinearTracer):
    """A value that may be asked for anything: only what depends on it is of interest."""

    __slots__ = ()

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        specs = primitive.spec(*[x.spec for x in args], **params)
        several = specs if primitive.multiple else (specs,)
        outs = tuple([_unknown(self.level, self.program, s) for s in several])
        return outs if primitive.multiple else outs[0]


def _unknown(level: int, program: Program, spec: TensorSpec) -> _Unknown:
    tracer = _new(_Unknown)
    tracer.level = level
    tracer.program = program
    tracer.slot = program.slot(spec)
    tracer._node = None
    return tracer


def _check_linear(eq: Equation, program: Program, name: str) -> None:
    """Refuse an operation whose derivative depends on where it is taken, or that adds a constant.

    Raises:
        BackwardError: naming the primitive.
    """
    primitive = eq.primitive
    with Level("linear_transpose") as values, Level("linear_transpose") as tangents:
        at = Program([])
        primals = [
            _unknown(values.number, at, program.specs[a]) if isinstance(a, int) else a
            for a in eq.args
        ]
        moving = [program.specs[a] for a in eq.args if isinstance(a, int)]
        pushed = Program(moving)
        slots = iter(pushed.inputs)
        given = [
            linear_tracer(tangents.number, pushed, next(slots)) if isinstance(a, int) else None
            for a in eq.args
        ]
        try:
            primitive.jvp(primals, given, **eq.params)
            linear = not any(isinstance(x, _Unknown) for e in pushed.equations for x in e.args)
        except FxError:
            linear = False
    if not linear:
        raise BackwardError(f"linear_transpose of {name}: " + _NOT_LINEAR.format(primitive.name))
    known = [a for a in eq.args if isinstance(a, Tensor)]
    if known and not any(isinstance(x, Tracer) for x in known):
        zeros = [program._zeros(a) if isinstance(a, int) else a for a in eq.args]
        out = primitive(*zeros, **eq.params)
        if not all(_is_zero(o) for o in (out if primitive.multiple else (out,))):
            raise BackwardError(
                f"linear_transpose: {name} is affine, not linear: {primitive.name} adds a constant "
                f"to what it should be linear in"
            )


def _is_zero(x: Tensor) -> bool:
    """Whether a known tensor is zero (or 0 * inf) everywhere; a tracer is taken to be."""
    if isinstance(x, Tracer) or x.device.name == "meta":
        return True
    hits = logical_or(equal(x, constant_like(0, x)), isnan(x))
    return bool(all_true(hits, axes=tuple(range(x.ndim)), keepdims=False)._a)
