"""Inverses of distributions in closed form, counting, polynomials as SciPy's objects, tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fx.errors import ArgumentError, DTypeError
from fx.ops.indexing.searching import where
from fx.ops.operands import alike, argument, cast, floating
from fx.ops.pointwise.elementwise import exp, floor, lgamma, log
from fx.special import named as _named
from fx.special.functions import ndtri, together, widened
from fx.special.named import _constants
from fx.tensor import Tensor

_by = vars(_named)


def bdtri(k: Any, n: Any, y: Any) -> Tensor:
    """The p with bdtr(k, n, p) = y."""
    dtype = alike("bdtri", k, n, y)[0]._dtype
    k, n, y = together("bdtri", k, n, y)
    k = floor(k)
    return cast(1.0 - _by["betaincinv"](n - k, k + 1.0, y), dtype)


def nbdtri(k: Any, n: Any, y: Any) -> Tensor:
    """The p with nbdtr(k, n, p) = y."""
    k, n, y = alike("nbdtri", k, n, y)
    return _by["betaincinv"](n, floor(k) + 1.0, y)  # type: ignore[no-any-return]


def nrdtrimn(p: Any, std: Any, x: Any) -> Tensor:
    """The mean of the normal distribution of a deviation that reaches p at x."""
    p, std, x = alike("nrdtrimn", p, std, x)
    return x - std * ndtri(p)


def nrdtrisd(mn: Any, p: Any, x: Any) -> Tensor:
    """The deviation of the normal distribution of mean ``mn`` that reaches p at x."""
    mn, p, x = alike("nrdtrisd", mn, p, x)
    return (x - mn) / ndtri(p)  # type: ignore[no-any-return]


def assoc_laguerre(x: Any, n: Any, k: Any = 0.0) -> Tensor:
    """The associated Laguerre polynomial: ``eval_genlaguerre(n, k, x)``."""
    return _by["eval_genlaguerre"](n, k, x)  # type: ignore[no-any-return]


def factorialk(n: Any, k: int) -> Tensor:
    """The product of every k-th number up to a whole number n; 0 of negative ones.

    Raises:
        ArgumentError: unless k is positive.
    """
    if k < 1:
        raise ArgumentError(f"factorialk: k must be at least 1, got {k}")
    n = floating("factorialk", n)
    below = n < 0
    whole = widened(where(below, 0.0, n))
    steps = floor((whole + 0.5) / k)
    last = whole - steps * k
    rest = where(last == 0, float(k), last)
    first = where(last == 0, steps - 1.0, steps)  # of factors beside the least, ``rest``
    logs = lgamma(rest / k + first + 1.0) - lgamma(rest / k + 1.0) + first * math.log(k) + log(rest)
    found = where(below, 0.0, where(whole == 0, 1.0, exp(logs)))
    return cast(found, n._dtype)


def stirling2(N: Any, K: Any) -> Tensor:
    """In how many ways N things are parted into K groups; ints or arrays of them, not staged.

    Raises:
        DTypeError: for other numbers.
    """
    import scipy.special

    given = [np.asarray(argument("stirling2", x).numpy()) for x in (N, K)]
    for x in given:
        if x.dtype.kind not in "iu":
            raise DTypeError(f"stirling2 takes ints, got {x.dtype.name}; write x.astype(fx.int64)")
    given = [x.astype(np.int64) for x in given]
    return argument("stirling2", np.asarray(scipy.special.stirling2(*given), np.float64))


# numbers that stand in a table, and polynomials, which are no tensors -----------------------------

_TABLES = {
    "mathieu_even_coef": "Fourier coefficients of an even Mathieu function of order m and q",
    "mathieu_odd_coef": "Fourier coefficients of an odd Mathieu function of order m and q",
    "pro_cv_seq": "characteristic values of prolate spheroidal functions, of m, degrees m..n and c",
    "obl_cv_seq": "characteristic values of oblate spheroidal functions, of m, degrees m..n and c",
    "ellip_normal": "the constant that normalises ``ellip_harm``, of h2, k2, n and p",
}
_POLYNOMIALS = """
    chebyc chebys chebyt chebyu gegenbauer genlaguerre hermite hermitenorm jacobi laguerre legendre
    sh_chebyt sh_chebyu sh_jacobi sh_legendre"""


def _checked(name: str, table: Any) -> Any:
    """A table that SciPy fills only where it has room for what is wanted."""

    def function(*args: Any) -> Any:
        m, *_, size = numbers = [float(x) for x in args]
        if name.startswith("mathieu"):
            root = abs(size) ** 0.5
            inside = 17 + (3.1 - 0.126 * root + 0.0037 * abs(size)) * root + m / 2 <= 200
        else:
            inside = size >= 0 and numbers[1] + size <= 100
        if not inside:  # so for what is no number too
            raise ArgumentError(
                f"{name}{tuple(args)}: SciPy's tables have no room for these numbers"
            )
        return table(*args)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{table.__doc__}\n\n    Raises:\n        ArgumentError: beyond its tables."
    return function


def _polynomial(name: str) -> Any:
    def function(*args: Any, **options: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args, **options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"SciPy's polynomial object ``{name}``, of NumPy arrays; no tensor."
    return function


for _name, _says in _TABLES.items():
    _table = _constants(_name, f"A table by SciPy, float64: {_says}.")
    globals()[_name] = _table if _name == "ellip_normal" else _checked(_name, _table)
for _name in _POLYNOMIALS.split():
    globals()[_name] = _polynomial(_name)

__all__ = [
    "bdtri", "nbdtri", "nrdtrimn", "nrdtrisd", "assoc_laguerre", "factorialk", "stirling2",
    *_TABLES, *_POLYNOMIALS.split(),
]  # fmt: skip
