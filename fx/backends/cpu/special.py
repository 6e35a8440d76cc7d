"""Special functions: SciPy's ufuncs, and compiled code where there is a formula."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from fx.backends.cpu._bessel_names import scipys_name
from fx.backends.cpu.formulas import Elements
from fx.backends.cpu.many import of_formula
from fx.backends.cpu.special_slopes import carlson, smirnov_slope
from fx.primitive import registry


def _special(name: str, native: Elements | None = None) -> Any:
    """A ufunc of scipy.special, imported when first called; float16 and bfloat16 go by float32.

    Where compilers have code for it that comes first: SciPy's takes an element at a time.
    """
    ufunc: Any = None

    def kernel(*arrays: np.ndarray) -> np.ndarray:
        nonlocal ufunc
        found = None if native is None else native(*arrays)
        if found is not None:
            return found
        if ufunc is None:
            import scipy.special

            ufunc = getattr(scipy.special, name)
        dtype = arrays[-1].dtype
        if dtype.itemsize < 4:
            return np.asarray(ufunc(*[a.astype(np.float32) for a in arrays])).astype(dtype)
        return ufunc(*arrays)

    return kernel


erf, erfc, erfinv = [_special(name, of_formula(name)) for name in ("erf", "erfc", "erfinv")]
_gammaln, digamma = _special("gammaln"), _special("psi", of_formula("digamma"))
_lgamma, _trigamma, zeta = of_formula("lgamma"), of_formula("trigamma"), _special("zeta")
xlogy, xlog1py = [_special(name, of_formula(name, 2)) for name in ("xlogy", "xlog1py")]
erfcx, erfcinv, log_ndtr, ndtri, logit, entr = [
    _special(name, of_formula(name))
    for name in ("erfcx", "erfcinv", "log_ndtr", "ndtri", "logit", "entr")
]
_gamma = of_formula("gamma")
gammainc, gammaincc, _betainc = [_special(f) for f in ("gammainc", "gammaincc", "betainc")]


def betainc(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The regularized incomplete beta function, in float64: SciPy's float32 loses large a and b."""
    wide = [y.astype(np.float64) for y in (a, b, x)]
    return np.asarray(_betainc(*wide)).astype(x.dtype)


def lgamma(x: np.ndarray) -> np.ndarray:
    """log(abs(gamma(x))); +inf at both infinities, as in C."""
    found = _lgamma(x)
    return _gammaln(np.where(x == -np.inf, -x, x)) if found is None else found  # type: ignore[no-any-return]


def gamma(x: np.ndarray) -> np.ndarray:
    """The gamma function; SciPy's is 0 where it would not be normal."""
    found = _gamma(x)
    if found is None:
        import scipy.special as s

        wide = x.astype(np.float64)
        small = s.gammasgn(wide) * np.exp(s.gammaln(wide))
        found = np.asarray(np.where(wide < -170.0, small, s.gamma(wide))).astype(x.dtype)
    return found


def polygamma(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(-1)^(n+1) n! zeta(n + 1, x), for an order n >= 1 given as a float array."""
    import scipy.special

    order = n.astype(np.float64)
    sign = np.where(order % 2 == 0, -1.0, 1.0)
    wide = sign * scipy.special.gamma(order + 1) * scipy.special.zeta(order + 1, x)
    return np.asarray(wide).astype(x.dtype)


def trigamma(x: np.ndarray) -> np.ndarray:
    """The derivative of digamma."""
    found = _trigamma(x)
    return polygamma(np.asarray(1.0), x) if found is None else found


@lru_cache
def _bessel(kind: str, order: int) -> Any:
    name, first = scipys_name(kind, order)
    if first is not None:
        function = _special(name)
        return lambda x: function(x.dtype.type(first), x)
    from fx.backends.cpu.llvm.vecmath.table import BESSEL

    if (kind, order) not in BESSEL:
        return _special(name)
    compiled = Elements(f"bessel_{name}", lambda x: registry["bessel"](x, kind=kind, order=order))
    scipys = _special(name)

    def kernel(x: np.ndarray) -> np.ndarray:
        found = compiled(x)
        if found is None:
            found = scipys(x)
            if kind == "i":  # SciPy's is NaN there
                found = np.where(np.isinf(x), x if order else abs(x), found)
        return found

    return kernel


def bessel(x: np.ndarray, *, kind: str, order: int) -> np.ndarray:
    """A Bessel function of a kind and a whole order."""
    out: np.ndarray = _bessel(kind, order)(x)
    return out


def _airy(which: int) -> Any:
    def kernel(x: np.ndarray) -> np.ndarray:
        import scipy.special

        return np.asarray(scipy.special.airy(x.astype(np.float64))[which]).astype(x.dtype)

    return kernel


airy_ai, airy_ai_slope = _airy(0), _airy(1)


# arguments that SciPy takes as int64, and of complex functions those that are real
_WHOLE = {
    "expn": (0,), "lambertw": (1,), "legendre_p": (0,), "assoc_legendre_p": (0, 1),
    "sph_legendre_p": (0, 1),
}  # fmt: skip
_ORDERS = dict.fromkeys(("jve", "yve", "hankel1", "hankel1e", "hankel2", "hankel2e"), (0,))
_OWN = {"carlson": carlson, "smirnov_slope": smirnov_slope}


def scipy_function(*arrays: np.ndarray, function: str) -> np.ndarray:
    """A function of ``fx/prims/scipy_functions.py``, in double precision."""
    import scipy.special

    name, _, which = function.partition(".")
    wide = [a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in arrays]
    broken: Any = False
    for i in _WHOLE.get(name, ()):
        order = wide[i].real
        whole = (order == np.floor(order)) & (np.abs(order) < 2.0**31)  # so for NaN too
        broken = broken | ~whole
        wide[i] = np.where(whole, order, 0.0).astype(np.int64)
    for i in _ORDERS.get(name, ()):
        wide[i] = wide[i].real
    outside = None
    if name.startswith(("pro_", "obl_", "mathieu_")):
        outside, wide = _kept_inside(name, wide)
    if name in _OWN:
        return _OWN[name](*wide, which=which).astype(arrays[0].dtype)
    found = getattr(scipy.special, name)(*wide)
    out = np.asarray(found[int(which)] if which else found)
    if outside is not None:
        out = np.where(outside, np.nan, out)
    if np.any(broken):
        out = np.where(broken, np.nan, out)
    return out.astype(arrays[0].dtype)


def _kept_inside(name: str, xs: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Where SciPy's functions would write past their tables, and other arguments there.

    Of spheroidal functions the tables of Bessel functions have 252 numbers, of which 50 + n + 2 c
    are used; of Mathieu's those of coefficients have 251, of which about 0.0037 q^1.5 + 3.1 q^0.5 +
    m / 2 are (Zhang and Jin, "Computation of Special Functions", 15 and 14). Beyond them, at a
    negative c, and where these are not finite or another argument is NaN, values are NaN.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        if name.startswith("mathieu_"):
            m, q = np.abs(xs[0]), np.abs(xs[1])
            inside = m <= 400
            if name not in ("mathieu_a", "mathieu_b"):
                root = np.sqrt(q)
                inside = inside & (17 + (3.1 - 0.126 * root + 0.0037 * q) * root + m / 2 <= 200)
        else:
            _, n, c = xs[:3]
            inside = (c >= 0) & (n + c <= 100)
    sizes = 2 if name.startswith("mathieu_") else 3
    for i, x in enumerate(xs):
        inside = inside & (np.isfinite(x) if i < sizes else x == x)
    return ~inside, [np.where(inside, x, 0.5 if i > 2 else 0.0) for i, x in enumerate(xs)]
