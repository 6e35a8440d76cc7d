"""Relations, logic, bits, selection and casts."""

from __future__ import annotations

import numpy as np

import fx.prims.factors as factors
from fx.dtypes import COMPLEX, INEXACT, bool_, is_integral
from fx.errors import DTypeError
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.creation import constant_like
from fx.prims.families import (
    ORDERED,
    REAL,
    accept,
    broadcast_shapes,
    comparison,
    elementwise_batch,
    same_dim_batch,
    same_dtype,
    spread,
    unbroadcast,
)  # fmt: skip
from fx.prims.sampling import Sample
from fx.quick import quick
from fx.spec import TensorSpec

# relations --------------------------------------------------------------------------------------

equal = comparison("equal", commutative=True)
not_equal = comparison("not_equal", commutative=True)
less = comparison("less", takes=ORDERED)
less_equal = comparison("less_equal", takes=ORDERED)
greater = comparison("greater", takes=ORDERED)
greater_equal = comparison("greater_equal", takes=ORDERED)
logical_and = comparison("logical_and", commutative=True)
logical_or = comparison("logical_or", commutative=True)
logical_xor = comparison("logical_xor", commutative=True)


# predicates -------------------------------------------------------------------------------------


def _special_values(d):
    """Numbers, zeros, infinities and NaN side by side."""
    shape = d.shape()
    zero_or_number = d.floats(shape) * d.bools(shape)
    return Sample([(zero_or_number / d.bools(shape)).astype(d.dtype)])


def _predicate(name, takes=None):
    def spec(x):
        accept(name, x.dtype, takes)
        return x.with_(dtype=bool_)

    prim = define(
        name, spec=spec,
        jvp=NOT_DIFFERENTIABLE,
        vjp=NOT_DIFFERENTIABLE,
        batch=same_dim_batch(lambda: prim),
        sample=_special_values,
        kind="elementwise",
    )  # fmt: skip
    return prim


logical_not = _predicate("logical_not")
isnan = _predicate("isnan")
isinf = _predicate("isinf")
isfinite = _predicate("isfinite")
signbit = _predicate("signbit", takes=REAL | {bool_})


# bits -------------------------------------------------------------------------------------------


def _bits(name, high=100, bools=True, **traits):
    def spec(*specs):
        dtype = same_dtype(name, *specs)
        if not is_integral(dtype) and not (bools and dtype == bool_):
            raise DTypeError(
                f"{name} takes integers{' or bool' if bools else ''}, got {dtype.name}; "
                f"write x.astype(fx.int64)"
            )
        return specs[0].with_(shape=broadcast_shapes(name, *[s.shape for s in specs]))

    prim = define(
        name, spec=spec,
        jvp=NOT_DIFFERENTIABLE,
        vjp=NOT_DIFFERENTIABLE,
        batch=elementwise_batch(lambda: prim),
        sample=lambda d: Sample(
            [d.integers(s := d.shape(), 0, 100), d.integers(d.broadcastable(s), 0, high)]
        ),
        kind="elementwise",
        **traits,
    )  # fmt: skip
    return prim


bitwise_and = _bits("bitwise_and", commutative=True)
bitwise_or = _bits("bitwise_or", commutative=True)
bitwise_xor = _bits("bitwise_xor", commutative=True)
left_shift = _bits("left_shift", high=8, bools=False)
right_shift = _bits("right_shift", high=8, bools=False)


def _bitwise_not_spec(x):
    if not is_integral(x.dtype) and x.dtype != bool_:
        raise DTypeError(
            f"bitwise_not takes integers or bool, got {x.dtype.name}; write x.astype(fx.int64)"
        )
    return x


bitwise_not = define(
    "bitwise_not", kind="elementwise", spec=_bitwise_not_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    batch=same_dim_batch(lambda: bitwise_not),
    sample=lambda d: Sample([d.integers(d.shape(), -50, 50)]),
)  # fmt: skip


# selection --------------------------------------------------------------------------------------


def _where_spec(condition, x, y):
    if condition.dtype != bool_:
        raise DTypeError(f"where: the condition must be bool, got {condition.dtype}; write c != 0")
    dtype = same_dtype("where", x, y)
    return TensorSpec(broadcast_shapes("where", condition.shape, x.shape, y.shape), dtype, x.device)


def _where_jvp(primals, tangents):
    condition, x, y = primals
    _, tx, ty = tangents
    zero = constant_like(0, x)
    out = where(condition, x, y)
    t = where(condition, zero if tx is None else tx, zero if ty is None else ty)
    return out, spread(t, out.shape)


def _where_vjp(needs, condition, x, y):
    shapes = (x._shape, y._shape)

    def pullback(ct):
        zero = constant_like(0, ct)
        return (
            None,
            unbroadcast(where(condition, ct, zero), shapes[0]) if needs[1] is not None else None,
            unbroadcast(where(condition, zero, ct), shapes[1]) if needs[2] is not None else None,
        )

    return pullback


where = define(
    "where", kind="elementwise", spec=_where_spec,
    jvp=_where_jvp,
    vjp=_where_vjp,
    sharding=factors.elementwise((1, 2)),
    batch=elementwise_batch(lambda: where),
    sample=lambda d: Sample(
        [d.bools(d.broadcastable(s := d.shape())), d.floats(s), d.floats(d.broadcastable(s))]
    ),
)  # fmt: skip
chosen = quick(where, tensors=3)


# casts ------------------------------------------------------------------------------------------


def _astype_jvp(primals, tangents, *, dtype):
    out = astype(*primals, dtype=dtype)
    return out, astype(*tangents, dtype=dtype) if dtype in INEXACT else None


def _astype_vjp(needs, x, *, dtype):
    source = x._dtype
    if dtype not in INEXACT or source not in INEXACT:
        return None
    return lambda ct: (astype(ct, dtype=source),)


astype = define(
    "astype", kind="elementwise", torch_name="ToCopy",
    spec=lambda x, *, dtype: x.with_(dtype=dtype),
    jvp=_astype_jvp,
    vjp=_astype_vjp,
    sharding=factors.cast,
    batch=same_dim_batch(lambda: astype),
    sample=lambda d: Sample([d.floats(d.shape())], {"dtype": d.dtype}),
)  # fmt: skip
converted = quick(astype, "dtype")


# bits -------------------------------------------------------------------------------------------


def _same_width(x, dtype):
    if COMPLEX & {x.dtype, dtype} or bool_ in (x.dtype, dtype):
        raise DTypeError(f"bitcast reads integers and floats, got {x.dtype.name} as {dtype.name}")
    if x.dtype.itemsize != dtype.itemsize:
        raise DTypeError(
            f"bitcast reads the bits of {x.dtype.name} as a dtype as wide, got {dtype.name}"
        )


def _bitcast_kernel(x, *, dtype):
    _same_width(x, dtype)
    return np.ascontiguousarray(x).reshape(x.shape).view(dtype)


def _bitcast_spec(x, *, dtype):
    _same_width(x, dtype)
    return x.with_(dtype=dtype)


def _bits_sample(d):  # the laws try floats, and dtypes of floats, in all widths
    x = d.integers(d.shape(), -9, 9).astype(np.int32)
    return Sample([x], {"dtype": np.dtype(d.choice(("uint32", "int32")))})


bitcast = define(  # the same bits, read as another dtype as wide
    "bitcast", weight=1,
    cpu=_bitcast_kernel,
    spec=_bitcast_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.elementwise(),
    batch=same_dim_batch(lambda: bitcast),
    sample=_bits_sample,
)  # fmt: skip
stop_gradient = define(  # the identity through which no derivative passes
    "stop_gradient", kind="view", weight=0, formula=lambda x: x,
    dissolves=True, spec=lambda x: x,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.elementwise((0,)),
    batch=same_dim_batch(lambda: stop_gradient),
    sample=lambda d: Sample([d.floats(d.shape())]),
)  # fmt: skip
