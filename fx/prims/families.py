"""What the primitives of a family share: spec rules, batching rules, one-line constructors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx.prims.shape as shape_prims
from fx.dtypes import COMPLEX, FLOATING, INEXACT, INTEGRAL, bool_
from fx.errors import DTypeError, ShapeError
from fx.primitive import NOT_DIFFERENTIABLE, Primitive, define
from fx.prims.creation import constant_like
from fx.prims.sampling import Draw, Sample
from fx.spec import TensorSpec
from fx.tensor import Tensor


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of ``shapes`` by NumPy's rule.

    Raises:
        ShapeError: naming the operation, the shapes and the axis that does not fit.
    """
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    rank = max(map(len, shapes))
    out = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            if n != 1:
                if out[i] not in (1, n):
                    raise ShapeError(
                        f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast: "
                        f"axis {i - rank} is {out[i]} in one and {n} in another; "
                        f"line the axes up with x.reshape(...) or x[:, None]"
                    )
                out[i] = n
    return tuple(out)


def same_dtype(name: str, *specs: TensorSpec) -> Any:
    """The dtype that all specs share.

    Raises:
        DTypeError: if they differ.
    """
    dtype = specs[0].dtype
    for s in specs[1:]:
        if s.dtype != dtype:
            listed = ", ".join(s.dtype.name for s in specs)
            raise DTypeError(f"{name}: dtypes {listed} differ; cast with x.astype(fx.{dtype.name})")
    return dtype


REAL = INTEGRAL | FLOATING
ORDERED = REAL | {bool_}
NUMBERS = REAL | COMPLEX
_KINDS = {"bool": {bool_}, "integer": INTEGRAL, "floating": FLOATING, "complex": COMPLEX}


def accept(name: str, dtype: Any, takes: frozenset[Any] | None) -> None:
    """Refuse a dtype that is not among ``takes`` (None: all are).

    Raises:
        DTypeError: naming the operation, the dtype and the kinds that it takes.
    """
    if takes is not None and dtype not in takes:
        kinds = " or ".join(kind for kind, dtypes in _KINDS.items() if takes & dtypes)
        article = "an" if kinds.startswith("int") else "a"
        line = "x.real or fx.abs(x)" if dtype in COMPLEX else "x.astype(fx.float32)"
        raise DTypeError(f"{name} takes {article} {kinds} dtype, got {dtype.name}; write {line}")


def elementwise_spec(
    name: str, result: Any = None, takes: frozenset[Any] | None = None
) -> Callable[..., TensorSpec]:
    """Broadcast shapes, equal dtypes among ``takes``; the result has that dtype or ``result``."""

    def spec(*specs: TensorSpec, **params: Any) -> TensorSpec:
        dtype = same_dtype(name, *specs)
        accept(name, dtype, takes)
        shape = broadcast_shapes(name, *[s.shape for s in specs])
        return TensorSpec(shape, result or dtype, specs[0].device)

    return spec


def float_spec(name: str, takes: frozenset[Any] = INEXACT) -> Callable[..., TensorSpec]:
    """The argument's own spec, which must be floating (or complex, unless ``takes`` says not)."""

    def spec(x: TensorSpec, **params: Any) -> TensorSpec:
        accept(name, x.dtype, takes)
        return x

    return spec


def unbroadcast(ct: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum a cotangent over the axes along which its primal was broadcast."""
    return ct if ct._shape == shape else shape_prims.sum_to(ct, shape=shape)


def broadcast_zero(x: Tensor) -> Tensor:
    """Zeros of the shape of ``x``, as a view of one zero."""
    return shape_prims.stretched(constant_like(0, x), x.shape)


def to_front(x: Tensor, dim: int) -> Tensor:
    """Move axis ``dim`` to the front."""
    if dim == 0:
        return x
    axes = (dim, *[i for i in range(x.ndim) if i != dim])
    return shape_prims.transposed(x, axes)


def align_lanes(args: tuple[Tensor, ...], dims: tuple[int | None, ...]) -> list[Tensor]:
    """Bring mapped axes to the front, with ones inserted so that what follows broadcasts."""
    rank = max([x.ndim - (d is not None) for x, d in zip(args, dims, strict=True)])
    out = []
    for x, d in zip(args, dims, strict=True):
        if d is not None:
            x = to_front(x, d)
            missing = rank + 1 - x.ndim
            if missing:
                x = shape_prims.reshaped(x, (x.shape[0], *[1] * missing, *x.shape[1:]))
        out.append(x)
    return out


def elementwise_batch(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The batching rule of anything that broadcasts elementwise."""

    def batch(level: Any, args: Any, dims: Any, **params: Any) -> tuple[Tensor, int]:
        return get()(*align_lanes(args, dims), **params), 0

    return batch


def same_dim_batch(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The batching rule of an elementwise function of one argument: the lane stays where it is."""

    def batch(level: Any, args: Any, dims: Any, **params: Any) -> tuple[Tensor, int]:
        return get()(args[0], **params), dims[0]

    return batch


def unary(
    name: str,
    *,
    from_in: Callable[[Tensor], Tensor] | None = None,
    from_out: Callable[[Tensor], Tensor] | None = None,
    sample: Callable[[Draw], Sample] | None = None,
    domain: tuple[float, float] = (-2.0, 2.0),
    spec: Callable[..., TensorSpec] | None = None,
    takes: frozenset[Any] = INEXACT,
    **traits: Any,
) -> Primitive:
    """An elementwise function of one argument, by its derivative.

    Give the derivative as a function of the input (``from_in``: the input is kept) or of the output
    (``from_out``: the output is kept); neither means that it has none. ``traits`` are those of
    ``Primitive``: its name in PyTorch, weight, formula.
    """
    prim: Primitive
    derivative: Any = from_in or from_out

    def jvp(primals: Any, tangents: Any) -> tuple[Tensor, Tensor]:
        (x,), (t,) = primals, tangents
        y = prim(x)
        return y, t * derivative(x if from_out is None else y)

    if from_out is not None:

        def vjp(needs: Any, x: Tensor) -> Any:
            return lambda ct, y: (ct * from_out(y),)

    else:

        def vjp(needs: Any, x: Tensor) -> Any:
            return lambda ct: (ct * derivative(x),)

    prim = define(
        name,
        spec=spec or float_spec(name, takes),
        jvp=jvp if derivative else NOT_DIFFERENTIABLE,
        vjp=vjp if derivative else NOT_DIFFERENTIABLE,
        batch=same_dim_batch(lambda: prim),
        sample=sample or (lambda d: Sample([d.floats(d.shape(), *domain)])),
        saves=(0,) if from_out is not None else (),
        kind="elementwise",
        **traits,
    )
    return prim


def two_floats(d: Draw, low: float = -2.0, high: float = 2.0) -> Sample:
    """Two arrays that broadcast together."""
    shape = d.shape()
    return Sample([d.floats(shape, low, high), d.floats(d.broadcastable(shape), low, high)])


def binary(
    name: str,
    *,
    dx: Callable[..., Callable[[Tensor], Tensor]] | None,
    dy: Callable[..., Callable[[Tensor], Tensor]] | None,
    same_shape: Callable[..., Any] | None = None,
    sample: Callable[[Draw], Sample] = two_floats,
    takes: frozenset[Any] | None = None,
    **traits: Any,
) -> Primitive:
    """An elementwise function of two broadcasting arguments, by its two partial derivatives.

    ``dx(x, y)`` returns the linear map ``t -> t * df/dx``, which keeps only what it closes over and
    serves the JVP and, being diagonal, the VJP as well. ``same_shape(needs, x, y)`` is the VJP rule
    for two arguments of one shape: hot primitives give it, for a recording of one closure.
    """
    prim: Primitive

    def jvp(primals: Any, tangents: Any) -> tuple[Tensor, Tensor]:
        x, y = primals
        tx, ty = tangents
        out = prim(x, y)
        shape = out.shape
        if tx is not None:
            tx = spread(dx(x, y)(tx), shape)  # type: ignore[misc]
        if ty is not None:
            ty = spread(dy(x, y)(ty), shape)  # type: ignore[misc]
        return out, ty if tx is None else tx if ty is None else tx + ty

    def vjp(needs: Any, x: Tensor, y: Tensor) -> Any:
        if type(x) is Tensor and type(y) is Tensor:  # a property costs a call
            shape_x, shape_y = x._a.shape, y._a.shape
        else:
            shape_x, shape_y = x._shape, y._shape
        if same_shape is not None and shape_x == shape_y:
            return same_shape(needs, x, y)
        if needs[1] is None:
            from_x = dx(x, y)  # type: ignore[misc]
            return lambda ct: (unbroadcast(from_x(ct), shape_x), None)
        if needs[0] is None:
            from_y = dy(x, y)  # type: ignore[misc]
            return lambda ct: (None, unbroadcast(from_y(ct), shape_y))
        map_x, map_y = dx(x, y), dy(x, y)  # type: ignore[misc]
        return lambda ct: (unbroadcast(map_x(ct), shape_x), unbroadcast(map_y(ct), shape_y))

    prim = define(
        name,
        spec=elementwise_spec(name, takes=takes),
        jvp=jvp if dx else NOT_DIFFERENTIABLE,
        vjp=vjp if dx else NOT_DIFFERENTIABLE,
        batch=elementwise_batch(lambda: prim),
        sample=sample,
        kind="elementwise",
        **traits,
    )
    return prim


def spread(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Broadcast a tangent to the shape of the result."""
    return t if t.shape == shape else shape_prims.stretched(t, shape)


def comparison(name: str, *, takes: frozenset[Any] | None = None, **traits: Any) -> Primitive:
    """An elementwise relation of two arguments: bool, without a derivative."""
    prim: Primitive
    prim = define(
        name,
        spec=elementwise_spec(name, bool_, takes),
        jvp=NOT_DIFFERENTIABLE,
        vjp=NOT_DIFFERENTIABLE,
        batch=elementwise_batch(lambda: prim),
        sample=lambda d: Sample(
            [
                d.integers(s := d.shape(), 0, 3).astype(d.dtype),
                d.integers(d.broadcastable(s), 0, 3).astype(d.dtype),
            ]
        ),
        kind="elementwise",
        **traits,
    )
    return prim


def piecewise_constant(
    name: str,
    *,
    sample: Callable[[Draw], Sample],
    takes: frozenset[Any] | None = None,
    **traits: Any,
) -> Primitive:
    """An elementwise step function: differentiable, with derivative 0 wherever it is defined."""
    prim: Primitive
    prim = define(
        name,
        spec=elementwise_spec(name, takes=takes),
        jvp=lambda primals, tangents: (prim(*primals), tangents[0] * 0.0),
        vjp=lambda needs, x: lambda ct: (ct * 0.0,),
        batch=same_dim_batch(lambda: prim),
        sample=sample,
        kind="elementwise",
        **traits,
    )
    return prim
