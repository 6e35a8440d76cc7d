"""Special functions of the error and gamma families: each primitive one row."""

from __future__ import annotations

import math

from fx.dtypes import FLOATING
from fx.primitive import define
from fx.prims.creation import constant_like
from fx.prims.elementwise import exp
from fx.prims.families import elementwise_batch, elementwise_spec, unary, unbroadcast
from fx.prims.sampling import Sample

_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)

erf = unary("erf", weight=16, from_in=lambda x: exp(-(x * x)) * _TWO_OVER_SQRT_PI)
erfc = unary("erfc", weight=30, from_in=lambda x: exp(-(x * x)) * -_TWO_OVER_SQRT_PI)
erfinv = unary(
    "erfinv", weight=30, takes=FLOATING, domain=(-0.8, 0.8),
    from_out=lambda y: exp(y * y) * (1.0 / _TWO_OVER_SQRT_PI),
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
