"""Bessel functions of whole orders, and Airy's.

One primitive serves all kinds: the derivative of each order is a sum of its neighbours, which holds
at 0 too and to any order.
"""

from __future__ import annotations

from fx.dtypes import FLOATING
from fx.primitive import define
from fx.prims.elementwise import sign
from fx.prims.families import float_spec, same_dim_batch, unary
from fx.prims.sampling import Sample

KINDS = ("j", "y", "i", "k", "ie", "ke")  # "e": times exp(-abs(x)) or exp(x)


def at_order(x, kind, n):
    """The function of any whole order, of which -1 is 1 up to its sign."""
    if n >= 0:
        return bessel(x, kind=kind, order=n)
    mirrored = bessel(x, kind=kind, order=-n)
    return -mirrored if kind in ("j", "y") and n % 2 else mirrored


def _slope(x, kind, n):
    below, above = at_order(x, kind, n - 1), at_order(x, kind, n + 1)
    if kind in ("j", "y"):
        return (below - above) * 0.5
    mean = (below + above) * 0.5
    if kind == "i":
        return mean
    if kind == "k":
        return -mean
    own = bessel(x, kind=kind, order=n)
    return mean - sign(x) * own if kind == "ie" else own - mean


def _jvp(primals, tangents, *, kind, order):
    (x,), (t,) = primals, tangents
    return bessel(x, kind=kind, order=order), t * _slope(x, kind, order)


def _vjp(needs, x, *, kind, order):
    return lambda ct: (ct * _slope(x, kind, order),)


bessel = define(
    "bessel", kind="elementwise", weight=80, spec=float_spec("bessel", FLOATING),
    jvp=_jvp,
    vjp=_vjp,
    batch=same_dim_batch(lambda: bessel),
    sample=lambda d: Sample(
        [d.floats(d.shape(), 0.3, 3.0)], {"kind": d.choice(KINDS), "order": d.integer(0, 2)}
    ),
)  # fmt: skip

airy_ai = unary(
    "airy_ai", weight=120, takes=FLOATING, domain=(-3.0, 3.0),
    from_in=lambda x: airy_ai_slope(x),
)  # fmt: skip
airy_ai_slope = unary(  # Airy's equation: Ai'' = x Ai
    "airy_ai_slope", weight=120, takes=FLOATING, domain=(-3.0, 3.0),
    from_in=lambda x: x * airy_ai(x),
)  # fmt: skip
