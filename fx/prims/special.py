"""Special functions of the error, gamma and beta families: each primitive one row."""

from __future__ import annotations

import math

from fx.dtypes import FLOATING
from fx.errors import ArgumentError
from fx.primitive import define
from fx.prims.compare import equal, less, less_equal, logical_and, where
from fx.prims.creation import constant_like
from fx.prims.elementwise import exp, log, log1p
from fx.prims.families import (
    binary,
    broadcast_shapes,
    elementwise_batch,
    elementwise_spec,
    spread,
    unary,
    unbroadcast,
)  # fmt: skip
from fx.prims.gamma_ratios import in_double, log_beta
from fx.prims.sampling import Sample
from fx.prims.shape import stretched
from fx.prims.slopes import beta_slope, gamma_log_slope, zeta_order_slope

_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)

erf = unary("erf", weight=16, from_in=lambda x: exp(-(x * x)) * _TWO_OVER_SQRT_PI)
erfc = unary("erfc", weight=30, from_in=lambda x: exp(-(x * x)) * -_TWO_OVER_SQRT_PI)
erfinv = unary(
    "erfinv", weight=30, takes=FLOATING, domain=(-0.8, 0.8),
    from_out=lambda y: exp(y * y) * (1.0 / _TWO_OVER_SQRT_PI),
)  # fmt: skip
erfcinv = unary(
    "erfcinv", weight=80, takes=FLOATING, domain=(0.2, 1.8),
    from_out=lambda y: exp(y * y) * (-1.0 / _TWO_OVER_SQRT_PI),
)  # fmt: skip
erfcx = unary(  # exp(x^2) erfc(x)
    "erfcx", weight=80, takes=FLOATING,
    from_in=lambda x: _erfcx_slope(x),
)  # fmt: skip
ndtri = unary(
    "ndtri", weight=80, takes=FLOATING, domain=(0.1, 0.9),
    from_out=lambda y: exp(y * y * 0.5) * math.sqrt(2.0 * math.pi),
)  # fmt: skip
log_ndtr = unary(  # by erfcx the slope is exact in the tail, where both its parts vanish
    "log_ndtr", weight=80, takes=FLOATING,
    from_in=lambda x: math.sqrt(2.0 / math.pi) / erfcx(x * -math.sqrt(0.5)),
)  # fmt: skip
logit = unary(
    "logit", weight=30, takes=FLOATING, domain=(0.1, 0.9), from_in=lambda x: _logit_slope(x)
)
gamma = unary(
    "gamma", weight=80, takes=FLOATING, domain=(0.3, 3.0),
    from_in=lambda x: gamma(x) * digamma(x),
)  # fmt: skip
lgamma = unary(
    "lgamma", weight=60, takes=FLOATING, domain=(0.3, 3.0),
    from_in=lambda x: digamma(x),
)  # fmt: skip
digamma = unary(
    "digamma", weight=60, takes=FLOATING, domain=(0.3, 3.0),
    from_in=lambda x: trigamma(x),
)  # fmt: skip
trigamma = unary(
    "trigamma", weight=80, takes=FLOATING, domain=(0.5, 3.0),
    from_in=lambda x: polygamma(constant_like(2.0, x), x),
)  # fmt: skip
polygamma = define(
    "polygamma", kind="elementwise", weight=200,
    spec=elementwise_spec("polygamma", takes=FLOATING),
    jvp=lambda primals, tangents: _polygamma_jvp(primals, tangents),
    vjp=lambda needs, n, x: _polygamma_vjp(needs, n, x),
    batch=elementwise_batch(lambda: polygamma),
    sample=lambda d: Sample(
        [d.integers(s := d.shape(), 1, 4).astype(d.dtype), d.floats(s, 0.5, 3.0)], fixed=(0,)
    ),
)  # fmt: skip


def error_tail(x, sign):
    """1 - 2 x f(x) of Dawson's f (sign 1), of which erfcx has the analogue (-1), for large x."""
    s = 0.5 / (x * x)
    total = constant_like(0.0, x)
    for k in range(7, 0, -1):
        total = 1.0 + total * s * (sign * (2 * k + 1))
    return -s * total


@in_double
def _erfcx_slope(x):
    far = less(constant_like(30.0, x), x)
    near, away = where(far, constant_like(0.0, x), x), where(far, x, constant_like(30.0, x))
    direct = near * erfcx(near) * 2.0 - _TWO_OVER_SQRT_PI
    return where(far, error_tail(away, -1.0) * _TWO_OVER_SQRT_PI, direct)


def _logit_slope(x):
    d = x * (1.0 - x)
    return 1.0 / where(d < 0.0, constant_like(math.nan, d), d)  # NaN where the value is


def _polygamma_jvp(primals, tangents):
    n, x = primals
    out = polygamma(n, x)
    if tangents[1] is None:
        return out, None
    return out, tangents[1] * polygamma(n + 1.0, x)


def _polygamma_vjp(needs, n, x):
    if needs[1] is None:
        return None
    shape = x.shape
    return lambda ct: (None, unbroadcast(ct * polygamma(n + 1.0, x), shape))


# several arguments ------------------------------------------------------------------------------


def slope_rules(get, table):
    """The jvp and vjp of an elementwise function by the slope for each argument.

    ``table`` gives, of the primitive's parameters, its name and the slopes; None in place of one
    refuses that derivative.
    """

    def checked(wanted, params):
        name, rules = table(**params)
        for place, (rule, want) in enumerate(zip(rules, wanted, strict=True), 1):
            if want is not None and rule is None:
                raise ArgumentError(
                    f"fx has no derivative of {name} with respect to its argument {place}; for a "
                    f"constant write x.detach()"
                )
        return rules

    def jvp(primals, tangents, **params):
        rules = checked(tangents, params)
        pairs = zip(tangents, rules, strict=True)
        terms = [t * rule(*primals) for t, rule in pairs if t is not None]
        out, total = get()(*primals, **params), terms[0]
        for term in terms[1:]:
            total = total + term
        return out, spread(total, out.shape)

    def vjp(needs, *primals, **params):
        rules = checked(needs, params)

        def pullback(ct):
            return tuple([
                None if need is None else unbroadcast(ct * rule(*primals), x._shape)
                for need, rule, x in zip(needs, rules, primals, strict=True)
            ])  # fmt: skip

        return pullback

    return jvp, vjp


def _by_slopes(name, sample, *slopes):
    """An elementwise function by the slope for each argument."""
    prim = None
    jvp, vjp = slope_rules(lambda: prim, lambda: (name, slopes))
    prim = define(
        name, kind="elementwise", weight=200, spec=elementwise_spec(name, takes=FLOATING), jvp=jvp,
        vjp=vjp, batch=elementwise_batch(lambda: prim), sample=sample,
    )  # fmt: skip
    return prim


@in_double
def gamma_density(a, x):
    return exp((a - 1.0) * log(x) - x - lgamma(a))


@in_double
def beta_density(a, b, x):
    shape = broadcast_shapes("betainc", a.shape, b.shape, x.shape)
    a, b = stretched(a, shape), stretched(b, shape)
    return exp((a - 1.0) * log(x) + (b - 1.0) * log1p(-x) - log_beta(a, b))


def _inside(name, x, end, *orders):
    """Where 0 < x < end, and orders and x of the common shape, with x inside everywhere."""
    shape = broadcast_shapes(name, *[y.shape for y in orders], x.shape)
    *orders, x = [stretched(y, shape) for y in (*orders, x)]
    inside = logical_and(less(constant_like(0.0, x), x), less(x, constant_like(end, x)))
    return inside, *orders, where(inside, x, constant_like(min(end, 2.0) / 2, x))


@in_double
def gammainc_by_order(a, x):
    """dP/da; at both ends P is 0 or 1 for every a."""
    inside, a, x = _inside("gammainc", x, math.inf, a)
    logs = log(x)
    slope = gamma_log_slope(a, logs, digamma(a)) * (gamma_density(a, x) * x)
    return where(inside, -slope, constant_like(0.0, x))


@in_double
def betainc_by_first(a, b, x):
    """dI/da; at both ends I is 0 or 1 for all a and b."""
    inside, a, b, x = _inside("betainc", x, 1.0, a, b)
    return where(inside, _betainc_slope(a, b, log(x), log1p(-x)), constant_like(0.0, x))


@in_double
def betainc_by_second(a, b, x):
    """dI/db: I(a, b, x) = 1 - I(b, a, 1 - x)."""
    inside, a, b, x = _inside("betainc", x, 1.0, a, b)
    return where(inside, -_betainc_slope(b, a, log1p(-x), log(x)), constant_like(0.0, x))


def _betainc_slope(a, b, log_x, log_rest):
    mean = digamma(a) - digamma(a + b)
    density = exp(a * log_x + b * log_rest - log_beta(a, b))
    return beta_slope(a, b, log_x, log_rest, mean) * density


def _two_positive(d):
    return Sample([d.floats(s := d.shape(), 0.5, 3.0), d.floats(s, 0.4, 3.0)])


zeta = _by_slopes(  # Hurwitz's: sum over k of (q + k)^-s
    "zeta",
    lambda d: Sample([d.floats(s := d.shape(), 1.5, 4.0), d.floats(s, 0.5, 3.0)]),
    zeta_order_slope, lambda s, q: -s * zeta(s + 1.0, q),
)  # fmt: skip
gammainc = _by_slopes("gammainc", _two_positive, gammainc_by_order, gamma_density)
gammaincc = _by_slopes(
    "gammaincc", _two_positive,
    lambda a, x: -gammainc_by_order(a, x), lambda a, x: -gamma_density(a, x),
)  # fmt: skip
betainc = _by_slopes(
    "betainc",
    lambda d: Sample(
        [d.floats(s := d.shape(), 0.5, 3.0), d.floats(s, 0.5, 3.0), d.floats(s, 0.1, 0.9)]
    ),
    betainc_by_first, betainc_by_second, beta_density,
)  # fmt: skip


# x log(y) and its kin, which are 0 where x is --------------------------------------------------


def _xlogy(x, y):
    nothing = logical_and(equal(x, constant_like(0, x)), equal(y, y))
    return where(nothing, constant_like(0, x), x * log(y))


def _xlog1py(x, y):
    nothing = logical_and(equal(x, constant_like(0, x)), equal(y, y))
    return where(nothing, constant_like(0, x), x * log1p(y))


def _factor_slope(root, logarithm):
    def dx(x, y):
        zero = equal(x, constant_like(0, x))  # kept in place of x

        def times(t):
            nothing = logical_and(zero, less_equal(y, constant_like(root, y)))
            return t * where(nothing, constant_like(0, y), logarithm(y))

        return times

    return dx


xlogy = binary(
    "xlogy", weight=20, takes=FLOATING, formula=_xlogy,
    dx=_factor_slope(0.0, log), dy=lambda x, y: lambda t: t * (x / y),
    sample=lambda d: Sample([d.floats(s := d.shape()), d.floats(d.broadcastable(s), 0.3, 2.0)]),
)  # fmt: skip
xlog1py = binary(
    "xlog1py", weight=20, takes=FLOATING, formula=_xlog1py,
    dx=_factor_slope(-1.0, log1p), dy=lambda x, y: lambda t: t * (x / (y + 1.0)),
    sample=lambda d: Sample([d.floats(s := d.shape()), d.floats(d.broadcastable(s), -0.6, 2.0)]),
)  # fmt: skip
entr = unary(
    "entr", weight=20, takes=FLOATING, domain=(0.2, 2.0),
    from_in=lambda x: -log(x) - 1.0,
    formula=lambda x: where(
        less(x, constant_like(0, x)), constant_like(-math.inf, x), -x * _safe_log(x)
    ),
)  # fmt: skip


def _safe_log(x):
    return log(where(equal(x, constant_like(0, x)), constant_like(1, x), x))
