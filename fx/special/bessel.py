"""Bessel functions, of whole orders by code of our own, of others by SciPy's; and Airy's first."""

from __future__ import annotations

import math
from typing import Any

import fx.prims.bessel as prims
from fx import dtypes
from fx.ops.axes import integer
from fx.ops.indexing.searching import where
from fx.ops.operands import alike, cast, floating
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import sin
from fx.ops.pointwise.torch_names import sinc
from fx.prims.scipy_functions import named
from fx.tensor import Tensor

_SAYS = {
    "j": "The Bessel function of the first kind",
    "y": "The Bessel function of the second kind",
    "i": "The modified Bessel function of the first kind",
    "k": "The modified Bessel function of the second kind",
    "ie": "exp(-abs(x)) times the modified Bessel function of the first kind",
    "ke": "exp(x) times the modified Bessel function of the second kind",
}


def _fixed(kind: str, order: int, name: str) -> Any:
    def function(x: Any) -> Tensor:
        return prims.bessel(floating(name, x), kind=kind, order=order)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    at_0 = ("-inf", "inf")[kind[0] == "k"] if kind[0] in "yk" else f"{1 - order}."
    function.__doc__ = f"""{_SAYS[kind]}, of order {order}; differentiable to any order.

    Args:
        x: floating, or whole numbers, which become so; of any shape.

    Source: DLMF 10.2 and 10.25.

    Example:
        >>> import fx
        >>> fx.special.{name}(fx.tensor(0.0))
        tensor({at_0})
    """
    return function


def _any(kind: str, name: str) -> Any:
    def function(n: int, x: Any) -> Tensor:
        order = integer(name, "the order", n)
        return prims.at_order(floating(name, x), kind, order)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{_SAYS[kind]}, of a whole order n; differentiable in x to any order."
    return function


j0, j1, y0, y1 = [_fixed(k, n, f"{k}{n}") for k in "jy" for n in (0, 1)]
i0, i1, k0, k1 = [_fixed(k, n, f"{k}{n}") for k in "ik" for n in (0, 1)]
i0e, i1e, k0e, k1e = [_fixed(f"{k}e", n, f"{k}{n}e") for k in "ik" for n in (0, 1)]
jn, yn, kn = [_any(k, name) for k, name in zip("jyk", ("jn", "yn", "kn"), strict=True)]


def _real(kind: str, name: str) -> Any:
    whole = _any(kind, name)

    def function(v: Any, x: Any) -> Tensor:
        return whole(v, x) if type(v) is int else named(name, *alike(name, v, x))  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{_SAYS[kind]}, of order v; differentiable in x to any order."
    return function


jv, yv, iv, kv = [_real(k, f"{k}v") for k in "jyik"]


def _derived(name: str, function: Any, signs: tuple[float, float]) -> Any:
    def derivative(v: Any, z: Any, n: int = 1) -> Tensor:
        order = integer(name, "n", n)
        if order == 0:
            return function(v, z)  # type: ignore[no-any-return]
        pair = [derivative(v + step, z, order - 1) for step in (-1, 1)]
        return pair[0] * signs[0] + pair[1] * signs[1]  # type: ignore[no-any-return]

    derivative.__name__ = derivative.__qualname__ = name
    derivative.__doc__ = f"The derivative of order n of ``{function.__name__}(v, z)`` in z."
    return derivative


jvp, yvp = [_derived(f"{f.__name__}p", f, (0.5, -0.5)) for f in (jv, yv)]
ivp, kvp = _derived("ivp", iv, (0.5, 0.5)), _derived("kvp", kv, (-0.5, -0.5))


def spherical_j0(x: Any) -> Tensor:
    """The spherical Bessel function of the first kind, of order 0: sin(x) / x, 1 at 0."""
    x = floating("spherical_j0", x)
    wide = cast(x, dtypes.float64)  # x / pi and its product with pi are rounded there
    near, end = absolute(wide) < 1, absolute(wide) == math.inf
    apart = where(near | end, 1.0, wide)
    found = where(near, sinc(where(near, wide, 0.0) * (1.0 / math.pi)), sin(apart) / apart)
    return cast(where(end, 0.0, found), x.dtype)


def airy_ai(x: Any) -> Tensor:
    """Airy's function Ai.

    Example:
        >>> import fx
        >>> fx.special.airy_ai(fx.tensor([0.0, 1.0]))
        tensor([0.3550, 0.1353])
    """
    return prims.airy_ai(floating("airy_ai", x))  # type: ignore[no-any-return]
