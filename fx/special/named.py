"""Functions that SciPy computes; ``fx/prims/scipy_functions.py`` has their slopes."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.dtypes import COMPLEX, complex64, complex128, float64
from fx.errors import ArgumentError
from fx.ops.operands import alike, argument, cast, floating, public
from fx.prims.bessel import airy_ai, airy_ai_slope
from fx.prims.scipy_functions import ROWS, named
from fx.tensor import Tensor

# name: arguments and meaning
_SAYS = {
    "bei": "x: Kelvin's function bei",
    "beip": "x: the derivative of ``bei``",
    "ber": "x: Kelvin's function ber",
    "berp": "x: the derivative of ``ber``",
    "betaincinv": "a b y: the x with betainc(a, b, x) = y",
    "dawsn": "x: Dawson's integral, exp(-x^2) times that of exp(t^2)",
    "ellipe": "m: the complete elliptic integral of the second kind",
    "ellipeinc": "phi m: the incomplete elliptic integral of the second kind",
    "ellipk": "m: the complete elliptic integral of the first kind",
    "ellipkinc": "phi m: the incomplete elliptic integral of the first kind",
    "ellipkm1": "p: ellipk(1 - p), precise near p = 0",
    "erfi": "x: the imaginary error function, -i erf(i x)",
    "eval_gegenbauer": "n alpha x: Gegenbauer's polynomial of degree n",
    "eval_genlaguerre": "n alpha x: the associated Laguerre polynomial of degree n",
    "eval_jacobi": "n alpha beta x: Jacobi's polynomial of degree n",
    "exp1": "x: the exponential integral E1, of exp(-t) / t from x on",
    "expi": "x: the exponential integral Ei, of exp(t) / t up to x",
    "expn": "n x: the exponential integral of a whole order n",
    "gammainccinv": "a y: the x with gammaincc(a, x) = y",
    "gammaincinv": "a y: the x with gammainc(a, x) = y",
    "hyp0f1": "b x: the confluent hypergeometric limit function",
    "hyp1f1": "a b x: Kummer's confluent hypergeometric function",
    "hyp2f1": "a b c x: Gauss's hypergeometric function",
    "hyperu": "a b x: Tricomi's confluent hypergeometric function",
    "ive": "v x: iv(v, x) exp(-abs(x))",
    "kei": "x: Kelvin's function kei",
    "keip": "x: the derivative of ``kei``",
    "ker": "x: Kelvin's function ker",
    "kerp": "x: the derivative of ``ker``",
    "kve": "v x: kv(v, x) exp(x)",
    "modstruve": "v x: the modified Struve function of order v",
    "ndtri_exp": "y: ndtri(exp(y)), precise where exp(y) is small",
    "owens_t": "h a: Owen's T, the chance that X > h and 0 < Y < a X",
    "spence": "x: Spence's dilogarithm, the integral of log(t) / (1 - t) from 1 to x",
    "stdtr": "df t: Student's distribution function",
    "stdtrit": "df p: the t with stdtr(df, t) = p",
    "struve": "v x: Struve's function of order v",
    "wrightomega": "x: the y with y + log(y) = x",
}


def _function(name: str, words: list[str], says: str) -> Any:
    def function(*args: Any) -> Tensor:
        if len(args) != len(words):
            raise ArgumentError(f"{name} takes {', '.join(words)}; got {len(args)} arguments")
        return named(name, *alike(name, *args))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{says[0].upper()}{says[1:]}; takes {', '.join(words)}, which broadcast."
    return function


for _name, _line in _SAYS.items():
    _words, _, _says = _line.partition(": ")
    globals()[_name] = _function(_name, _words.split(), _says)


def _pair(name: str, x: Any) -> tuple[Tensor, Tensor]:
    x = floating(name, x)
    return named(f"{name}.0", x), named(f"{name}.1", x)


def sici(x: Any) -> tuple[Tensor, Tensor]:
    """The integrals of sin(t) / t and, from infinity, of cos(t) / t.

    Example:
        >>> import fx
        >>> fx.special.sici(fx.tensor(1.0))[0]
        tensor(0.9461)
    """
    return _pair("sici", x)


def shichi(x: Any) -> tuple[Tensor, Tensor]:
    """The hyperbolic integrals: of sinh(t) / t, and of (cosh(t) - 1) / t with log(x) + gamma."""
    return _pair("shichi", x)


def fresnel(x: Any) -> tuple[Tensor, Tensor]:
    """Fresnel's integrals of sin(pi t^2 / 2) and of cos(pi t^2 / 2)."""
    return _pair("fresnel", x)


def airy(x: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Airy's functions Ai, its derivative, Bi, and its derivative."""
    x = floating("airy", x)
    return airy_ai(x), airy_ai_slope(x), named("airy.2", x), named("airy.3", x)


def wofz(z: Any) -> Tensor:
    """Faddeeva's function exp(-z^2) erfc(-i z) of complex numbers; holomorphic.

    Example:
        >>> import fx
        >>> fx.special.wofz(0.0)
        tensor(1.+0.j)
    """
    z = floating("wofz", z)
    if z.dtype not in COMPLEX:
        z = cast(z, complex128 if z.dtype == float64 else complex64)
    return named("wofz", z)


def _spherical(kind: str, says: str) -> Any:
    name = f"spherical_{kind}n"

    def function(n: Any, z: Any, derivative: bool = False) -> Tensor:
        n, z = alike(name, n, z)
        slope = ROWS[name].slopes[1]
        return slope(n, z) if derivative and slope else named(name, n, z)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The spherical Bessel function {says}, of a whole order n >= 0."
    return function


spherical_jn, spherical_yn, spherical_in, spherical_kn = [
    _spherical(kind, says)
    for kind, says in zip(
        "jyik",
        ("of the first kind", "of the second kind", "modified, of the first kind",
         "modified, of the second kind"),
        strict=True,
    )
]  # fmt: skip

# tables of constants ----------------------------------------------------------------------------

_ROOTS = {
    "roots_legendre": "p_roots", "roots_chebyt": "t_roots", "roots_chebyu": "u_roots",
    "roots_chebyc": "c_roots", "roots_chebys": "s_roots", "roots_hermite": "h_roots",
    "roots_hermitenorm": "he_roots", "roots_laguerre": "l_roots", "roots_genlaguerre": "la_roots",
    "roots_jacobi": "j_roots", "roots_gegenbauer": "cg_roots", "roots_sh_legendre": "ps_roots",
    "roots_sh_chebyt": "ts_roots", "roots_sh_chebyu": "us_roots", "roots_sh_jacobi": "js_roots",
}  # fmt: skip
_TABLES = """
    jn_zeros jnp_zeros yn_zeros ynp_zeros ai_zeros bi_zeros erf_zeros fresnel_zeros fresnels_zeros
    fresnelc_zeros y0_zeros y1_zeros y1p_zeros jnjnp_zeros jnyn_zeros ber_zeros bei_zeros ker_zeros
    kei_zeros berp_zeros beip_zeros kerp_zeros keip_zeros kelvin_zeros bernoulli euler"""


def _constants(name: str, says: str) -> Any:
    def function(*args: Any) -> Any:
        import scipy.special

        found = getattr(scipy.special, name)(*args)
        as_tensor = lambda x: argument(name, np.asarray(x))
        return tuple(map(as_tensor, found)) if isinstance(found, tuple | list) else as_tensor(found)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = says
    return function


for _name, _short in _ROOTS.items():
    _family = _name.removeprefix("roots_")
    globals()[_name] = globals()[_short] = _constants(
        _name, f"Places and weights of Gauss's rule of n points, of SciPy's family {_family}."
    )
for _name in _TABLES.split():
    globals()[_name] = _constants(_name, "A table of numbers, by SciPy: float64 or complex128.")

__all__ = public(globals())
