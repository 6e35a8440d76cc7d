"""Forward mode: ``jvp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx import tree
from fx.config import modes, writing
from fx.errors import TreeError
from fx.levels import Level, Tracer
from fx.ops.convert import as_tensor
from fx.prims.creation import zeros_like_spec
from fx.tensor import Tensor, _new
from fx.transforms._arguments import (
    check_function,
    check_tuples,
    differentiable_leaf,
    fitting,
    leave,
    pair,
    write_back,
)


class JVPTracer(Tracer):
    """A tensor with its tangent, both one level below."""

    __slots__ = ("tangent",)
    transform = "jvp"
    tangent: Tensor

    def graft(self, value: Any, cut: bool, below: Any) -> Any:
        own = None
        if _is_at(value, self.level):
            value, own = value.value, value.tangent
        return jvp_tracer(self.level, below(value, self.value, cut), self.tangent if cut else own)

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        level = self.level
        primals = tuple([x.value if x.level == level else x for x in args])
        if not primitive.differentiable:
            return primitive(*primals, **params)
        tangents = tuple([x.tangent if x.level == level else None for x in args])
        out, tangent = primitive.jvp(primals, tangents, **params)
        if primitive.multiple:
            if not all(map(_known, out)) and all(map(_known, primals)):
                out = primitive(*primals, **params)  # a loop that computes both together
            return tuple([jvp_tracer(level, o, t) for o, t in zip(out, tangent, strict=True)])
        return jvp_tracer(level, out, tangent)


def _known(x: Tensor) -> bool:
    """Whether a tensor has a value: linear functions are written down, not run."""
    while isinstance(x, Tracer) and x.known:
        if x.transform == "jit":
            return True
        x = x.value
    return not isinstance(x, Tracer)


def jvp_tracer(level: int, value: Tensor, tangent: Tensor | None) -> Tensor:
    """A tracer, or the value alone where the tangent is None (zero)."""
    if tangent is None:
        return value
    tracer = _new(JVPTracer)
    tracer.level = level
    tracer.value = value
    tracer.tangent = tangent
    tracer._node = None
    return tracer


def jvp(
    function: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """The value of ``function`` and its directional derivative, in one forward pass.

    Args:
        function: takes and returns pytrees of tensors.
        primals: a tuple of the arguments; every leaf floating.
        tangents: a tuple of the same structure, shapes and dtypes: the direction.
        has_aux: whether ``function`` returns ``(result, aux)``.

    Returns:
        ``(result, tangent of the result)``, and ``aux`` as a third where ``has_aux``.

    Raises:
        TreeError, ShapeError, DTypeError: if ``tangents`` does not match ``primals``.

    Example:
        >>> import fx
        >>> fx.jvp(lambda x: x * x, (fx.tensor(3.0),), (fx.tensor(1.0),))
        (tensor(9.), tensor(6.))
    """
    check_function(function, "jvp")
    check_tuples(primals, tangents, "jvp")
    leaves, treedef = tree.flatten(tuple(primals))
    directions, structure = tree.flatten(tuple(tangents))
    if structure != treedef:
        raise TreeError(f"jvp: tangents {structure} must have the structure of primals {treedef}")
    values = [differentiable_leaf(x, "jvp") for x in leaves]
    directions = [
        fitting(t, x.spec, "jvp: a tangent", ", its primal has", "t")
        for t, x in zip(directions, values, strict=True)
    ]
    if modes.stage is not None:
        directions = [modes.stage.seeded(t) for t in directions]
    with Level("jvp") as level:
        number = level.number
        tracers = [jvp_tracer(number, x, t) for x, t in zip(values, directions, strict=True)]
        out = function(*tree.unflatten(treedef, tracers))
        aux = None
        if has_aux:
            out, aux = pair(out, "jvp", function)
            aux = tree.map(lambda x: _below(leave(x, number), number), aux)
        outs, treedef_out = tree.flatten(out)
        outs = [leave(x, number) for x in outs]
        results = [_below(x, number) for x in outs]
        pushed = [
            x.tangent if _is_at(x, number) else zeros_like_spec(as_tensor(x).spec) for x in outs
        ]
        changed = {
            i: _below(leave(x.read(), number), number)
            for i, x in enumerate(tracers)
            if writing.started and x.written
        }
    write_back(leaves, changed)
    both = (tree.unflatten(treedef_out, results), tree.unflatten(treedef_out, pushed))
    return (*both, aux) if has_aux else both


def _is_at(x: Any, level: int) -> bool:
    return isinstance(x, JVPTracer) and x.level == level


def _below(x: Any, level: int) -> Any:
    return x.value if _is_at(x, level) else x
