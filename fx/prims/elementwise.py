"""Elementwise arithmetic and functions: each primitive one row."""

from __future__ import annotations

import math

import fx.prims.factors as factors
from fx.dtypes import COMPLEX, FLOATING, INEXACT, INTEGRAL, bool_, real_of
from fx.errors import DTypeError
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.compare import astype, equal, greater, greater_equal, less, logical_and, where
from fx.prims.complex import conj, part
from fx.prims.creation import constant_like
from fx.prims.families import (
    NUMBERS,
    ORDERED,
    REAL,
    binary,
    elementwise_spec,
    piecewise_constant,
    same_dim_batch,
    unary,
)  # fmt: skip
from fx.prims.fused import elements
from fx.prims.sampling import Sample

_LN2, _LN10 = math.log(2.0), math.log(10.0)


def _keep(t):
    return t


def _add_vjp(needs, x, y):
    return _to_x if needs[1] is None else _to_y if needs[0] is None else _to_both


def _to_x(ct):
    return ct, None


def _to_y(ct):
    return None, ct


def _to_both(ct):
    return ct, ct


def _subtract_vjp(needs, x, y):
    return _to_x if needs[1] is None else _less_to_y if needs[0] is None else _less_to_both


def _less_to_y(ct):
    return None, negative(ct)


def _less_to_both(ct):
    return ct, negative(ct)


def _multiply_vjp(needs, x, y):
    if needs[1] is None:
        return lambda ct: (ct * y, None)
    if needs[0] is None:
        return lambda ct: (None, ct * x)
    return lambda ct: (ct * y, ct * x)


def _zero(x, y):
    return lambda t: t * 0.0


def _share(t, loses, ties):
    """None of t where x loses, half at a tie: the symmetric subgradient; a NaN loses to nothing."""
    zero = constant_like(0, t)
    return where(loses, zero, where(ties, t * 0.5, t))


def _apart(d):
    """Two arrays no element of which ties with its partner."""
    shape = d.shape()
    y = d.floats(d.broadcastable(shape))
    return Sample([y + d.away_from(0.0, shape), y])


def _positive_base(d):
    shape = d.shape()
    return Sample([d.floats(shape, 0.2, 3.0), d.floats(d.broadcastable(shape))])


def _nonzero_divisor(d):
    shape = d.shape()
    return Sample([d.floats(shape), d.away_from(0.0, d.broadcastable(shape), gap=0.3)])


def _whole_quotient(d):
    """Operands whose quotient is far from an integer, where floor and mod jump."""
    shape = d.shape()
    y = d.away_from(0.0, d.broadcastable(shape), gap=0.5)
    return Sample([y * (d.integers(shape, -3, 4) + d.floats(shape, 0.2, 0.8)), y])


# arithmetic -------------------------------------------------------------------------------------

add = binary(
    "add", commutative=True,
    dx=lambda x, y: _keep,
    dy=lambda x, y: _keep,
    same_shape=_add_vjp,
    sharding=factors.elementwise((0, 1)),
)  # fmt: skip
subtract = binary(
    "subtract", takes=NUMBERS, torch_name="Sub",
    dx=lambda x, y: _keep,
    dy=lambda x, y: negative,
    same_shape=_subtract_vjp,
    sharding=factors.elementwise((0, 1)),
)  # fmt: skip
multiply = binary(
    "multiply", commutative=True, torch_name="Mul",
    dx=lambda x, y: lambda t: t * y,
    dy=lambda x, y: lambda t: t * x,
    same_shape=_multiply_vjp,
    sharding=factors.elementwise((0,), (1,)),
)  # fmt: skip
divide = binary(
    "divide", weight=4, takes=INEXACT, torch_name="Div", sample=_nonzero_divisor,
    dx=lambda x, y: lambda t: t / y,
    dy=lambda x, y: lambda t: -t * (x / y / y),  # y * y may be 0 or infinite where this is not
    sharding=factors.elementwise((0,)),
)  # fmt: skip
power = binary(
    "power", partial=True, literals=(1,), weight=40, takes=NUMBERS, torch_name="Pow",
    sample=_positive_base,
    dx=lambda x, y: lambda t: t * _power_dx(x, y),
    dy=lambda x, y: lambda t: t * _power_dy(x, y),
)  # fmt: skip
floor_divide = binary(
    "floor_divide", partial=True, weight=8, takes=REAL,
    sample=_whole_quotient,
    dx=_zero, dy=_zero,
)  # fmt: skip
divisor = define(  # integers as they are; one that is 0 is refused
    "divisor", partial=True, spec=elementwise_spec("divisor", takes=INTEGRAL),
    sharding=factors.elementwise(),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    batch=same_dim_batch(lambda: divisor),
    sample=lambda d: Sample([d.integers(d.shape(), 1, 9)]),
)  # fmt: skip
remainder = binary(
    "remainder", partial=True, weight=8, takes=REAL,
    sample=_whole_quotient,
    dx=lambda x, y: _keep,
    dy=lambda x, y: lambda t: -t * floor_divide(x, y),
)  # fmt: skip
fmod = binary(
    "fmod", partial=True, weight=8, takes=REAL,
    sample=_whole_quotient,
    dx=lambda x, y: _keep,
    dy=lambda x, y: lambda t: -t * trunc(x / y),
)  # fmt: skip
maximum = binary(
    "maximum", weight=2, takes=ORDERED, sample=_apart,
    dx=lambda x, y: lambda t: _share(t, less(x, y), equal(x, y)),
    dy=lambda x, y: lambda t: _share(t, less(y, x), equal(x, y)),
)  # fmt: skip
minimum = binary(
    "minimum", weight=2, takes=ORDERED, sample=_apart,
    dx=lambda x, y: lambda t: _share(t, greater(x, y), equal(x, y)),
    dy=lambda x, y: lambda t: _share(t, greater(y, x), equal(x, y)),
)  # fmt: skip
arctan2 = binary(
    "arctan2", weight=24, takes=FLOATING, torch_name="Atan2",
    sample=_nonzero_divisor,
    dx=lambda x, y: lambda t: t * _over_square(y, _distance(x, y)),
    dy=lambda x, y: lambda t: -t * _over_square(x, _distance(x, y)),
)  # fmt: skip
hypot = binary(
    "hypot", weight=6, takes=FLOATING, sample=_nonzero_divisor,
    dx=lambda x, y: lambda t: t * x / hypot(x, y),
    dy=lambda x, y: lambda t: t * y / hypot(x, y),
)  # fmt: skip
logaddexp = binary(
    "logaddexp", weight=26, takes=FLOATING,
    dx=lambda x, y: lambda t: t * sigmoid(x - y),
    dy=lambda x, y: lambda t: t * sigmoid(y - x),
)  # fmt: skip
copysign = binary(
    "copysign", takes=FLOATING, sample=_nonzero_divisor,
    dx=lambda x, y: lambda t: t * (sign(x) * copysign(constant_like(1.0, y), y)),
    dy=lambda x, y: lambda t: t * 0.0,
)  # fmt: skip
nextafter = binary("nextafter", takes=FLOATING, dx=None, dy=None)


def _distance(x, y):
    # at the origin, where an angle has no slope, 1 makes that 0 and not nan
    length = hypot(x, y)
    return where(length == 0, constant_like(1.0, length), length)


def _over_square(x, r):
    # x / (r * r), of which the square may be 0 or infinite
    return x / r / r


def _power_dx(x, y):
    # x ** (y - 1) * y, which must be 0 and not nan at y = 0, x = 0
    safe = where(y == 0, constant_like(1.0, y), y)
    return y * power(x, safe - 1.0)


def _power_dy(x, y):
    # x ** y * log x, with the limit 0 at x = 0 for y >= 0
    flat = x == 0 if x.dtype in COMPLEX else logical_and(x == 0, y >= 0)
    safe = where(flat, constant_like(1.0, x), x)
    return power(x, y) * log(safe)


# functions of one argument ----------------------------------------------------------------------


def _away_from_zero(d):
    return Sample([d.away_from(0.0, d.shape(), gap=0.2)])


def _away_from_integers(d):
    shape = d.shape()
    return Sample([d.integers(shape, -3, 3) + d.floats(shape, 0.1, 0.4)])


def _gate(t, y):
    return where(y <= 0, constant_like(0, t), t)  # a NaN is let through


def _real_result(x):
    return x.with_(dtype=real_of(x.dtype))


def _no_bool(name):
    def spec(x):
        if x.dtype == bool_:
            raise DTypeError(f"{name} does not take bool; write fx.logical_not(x) or x.astype(...)")
        return x

    return spec


negative = define(
    "negative", kind="elementwise", spec=_no_bool("negative"), torch_name="Neg",
    jvp=lambda primals, tangents: (negative(*primals), negative(*tangents)),
    vjp=lambda needs, x: lambda ct: (negative(ct),),
    sharding=factors.elementwise((0,)),
    batch=same_dim_batch(lambda: negative),
    sample=lambda d: Sample([d.floats(d.shape())]),
)  # fmt: skip
abs = define(
    "abs", kind="elementwise", no_minus_zero=True, spec=_real_result,
    jvp=lambda primals, tangents: (abs(*primals), _abs_slope(*primals, *tangents)),
    vjp=lambda needs, x: lambda ct: (_abs_pull(x, ct),),
    batch=same_dim_batch(lambda: abs),
    sample=_away_from_zero,
)  # fmt: skip
sign = define(  # x / abs(x)
    "sign", kind="elementwise", spec=elementwise_spec("sign", takes=NUMBERS),
    jvp=lambda primals, tangents: (sign(*primals), _sign_slope(*primals, *tangents)),
    vjp=lambda needs, x: _sign_vjp(x),
    batch=same_dim_batch(lambda: sign),
    sample=_away_from_zero,
)  # fmt: skip


# what some are by others, as their kernels compute them ------------------------------------------


def _reciprocal_formula(x):
    return None if x.dtype in COMPLEX else 1.0 / x


def _rsqrt_formula(x):
    return None if x.dtype in COMPLEX else 1.0 / sqrt(x)


def _sigmoid_formula(x):
    small, one = exp(negative(abs(x))), constant_like(1.0, x)
    return where(greater_equal(x, constant_like(0.0, x)), one, small) / (one + small)


def _softplus_formula(x):
    return maximum(x, constant_like(0.0, x)) + log1p(exp(negative(abs(x))))


_abs_grad = elements(  # of real numbers; the slope at NaN is 0, as in PyTorch
    "abs_grad", lambda t, x: t * where(x == x, sign(x), constant_like(0, x)),
)  # fmt: skip


def _abs_slope(x, t):
    return part(t * conj(sign(x)), turn=0) if x.dtype in COMPLEX else _abs_grad(t, x)


def _abs_pull(x, ct):
    return astype(ct, dtype=x.dtype) * conj(sign(x)) if x.dtype in COMPLEX else _abs_grad(ct, x)


def _across(x, t, along, scale):
    """``(t - Re(t * along) * scale) / abs(x)``: what is left of t across a direction."""
    common = astype(part(t * along, turn=0), dtype=x.dtype)
    return (t - common * scale) / astype(abs(x), dtype=x.dtype)


def _sign_slope(x, t):
    s = sign(x)
    return _across(x, t, conj(s), s) if x.dtype in COMPLEX else t * 0.0


def _sign_vjp(x):
    if x._dtype not in COMPLEX:
        return lambda ct: (ct * 0.0,)
    return lambda ct: (_across(x, ct, sign(x), conj(sign(x))),)


square = unary(
    "square", formula=lambda x: x * x, dissolves=True, no_minus_zero=True,
    takes=NUMBERS, from_in=lambda x: x * 2.0,
)  # fmt: skip
sqrt = unary("sqrt", weight=4, domain=(0.2, 3.0), from_out=lambda y: 0.5 / y)
rsqrt = unary(
    "rsqrt", formula=_rsqrt_formula, weight=6, domain=(0.2, 3.0),
    from_out=lambda y: y * y * y * -0.5,
)  # fmt: skip
reciprocal = unary(
    "reciprocal", formula=_reciprocal_formula, dissolves=True, weight=4,
    sample=_away_from_zero, from_out=lambda y: -(y * y),
)  # fmt: skip
exp = unary("exp", no_minus_zero=True, weight=10, from_out=lambda y: y)
exp2 = unary("exp2", no_minus_zero=True, weight=9, from_out=lambda y: y * _LN2)
expm1 = unary("expm1", weight=14, from_in=lambda x: exp(x))  # y + 1 loses the small ones
log = unary("log", weight=12, domain=(0.2, 3.0), from_in=lambda x: 1.0 / x)
log2 = unary("log2", weight=12, domain=(0.2, 3.0), from_in=lambda x: (1.0 / _LN2) / x)
log10 = unary("log10", weight=12, domain=(0.2, 3.0), from_in=lambda x: (1.0 / _LN10) / x)
log1p = unary("log1p", weight=16, domain=(-0.8, 2.0), from_in=lambda x: 1.0 / (x + 1.0))
sin = unary("sin", weight=14, from_in=lambda x: cos(x))
cos = unary("cos", weight=14, from_in=lambda x: -sin(x))
tan = unary("tan", weight=24, domain=(-1.2, 1.2), from_out=lambda y: y * y + 1.0)
arcsin = unary(
    "arcsin", weight=18, domain=(-0.9, 0.9), torch_name="Asin",
    from_in=lambda x: rsqrt(1.0 - x * x),
)  # fmt: skip
arccos = unary(
    "arccos", weight=18, domain=(-0.9, 0.9), torch_name="Acos",
    from_in=lambda x: -rsqrt(1.0 - x * x),
)  # fmt: skip
arctan = unary("arctan", weight=18, torch_name="Atan", from_in=lambda x: 1.0 / (x * x + 1.0))
sinh = unary("sinh", weight=18, from_in=lambda x: cosh(x))
cosh = unary("cosh", no_minus_zero=True, weight=18, from_in=lambda x: sinh(x))
tanh = unary("tanh", weight=14, from_out=lambda y: 1.0 - y * y)
arcsinh = unary("arcsinh", weight=24, torch_name="Asinh", from_in=lambda x: rsqrt(x * x + 1.0))


def _arccosh_slope(x):
    if x._dtype in COMPLEX:  # the root of the product lies on another branch
        return rsqrt(x - 1.0) * rsqrt(x + 1.0)
    return rsqrt(x * x - 1.0)


arccosh = unary(
    "arccosh", weight=24, torch_name="Acosh", domain=(1.2, 3.0),
    from_in=_arccosh_slope,
)  # fmt: skip
arctanh = unary(
    "arctanh", weight=20, torch_name="Atanh", domain=(-0.8, 0.8),
    from_in=lambda x: 1.0 / (1.0 - x * x),
)  # fmt: skip
sigmoid = unary(
    "sigmoid", formula=_sigmoid_formula, no_minus_zero=True, weight=14,
    takes=FLOATING, from_out=lambda y: y * (1.0 - y),
)  # fmt: skip
softplus = unary(
    "softplus", formula=_softplus_formula, no_minus_zero=True, weight=26,
    takes=FLOATING, from_in=lambda x: sigmoid(x),
)  # fmt: skip
relu = define(
    "relu", formula=lambda x: maximum(x, constant_like(0, x)),
    kind="elementwise", spec=elementwise_spec("relu", takes=REAL), saves=(0,),
    jvp=lambda primals, tangents: (y := relu(*primals), _gate(tangents[0], y)),
    vjp=lambda needs, x: lambda ct, y: (_gate(ct, y),),
    batch=same_dim_batch(lambda: relu),
    sample=_away_from_zero,
)  # fmt: skip

floor = piecewise_constant("floor", takes=ORDERED, sample=_away_from_integers)
ceil = piecewise_constant("ceil", takes=ORDERED, sample=_away_from_integers)
trunc = piecewise_constant("trunc", takes=ORDERED, sample=_away_from_integers)
round = piecewise_constant("round", sample=_away_from_integers)
