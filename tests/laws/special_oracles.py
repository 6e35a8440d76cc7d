"""Reference functions of special functions: their integrals and series, a number at a time."""

import math
import statistics

import numpy as np

from tests.laws.scipy_oracles import MORE

NORMAL = statistics.NormalDist()


def integral(function, low, high, places=4000):
    """By Gauss and Legendre on pieces."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    ends = np.linspace(low, high, places // 20 + 1)
    half = (ends[1:] - ends[:-1])[:, None] / 2
    at = (ends[1:] + ends[:-1])[:, None] / 2 + half * nodes
    return float((function(at) * weights * half).sum())


def bessel(x, *, kind, order):
    return np.vectorize(lambda x: _bessel(float(x), kind, order), otypes="d")(x)


def _bessel(x, kind, n):
    if kind == "j":
        return integral(lambda t: np.cos(n * t - x * np.sin(t)), 0, math.pi) / math.pi
    if kind == "y":
        near = integral(lambda t: np.sin(x * np.sin(t) - n * t), 0, math.pi)
        both = lambda t: np.exp(n * t) + (-1) ** n * np.exp(-n * t)
        return (near - integral(lambda t: both(t) * np.exp(-x * np.sinh(t)), 0, 8)) / math.pi
    if kind in ("i", "ie"):
        found = integral(lambda t: np.exp(x * np.cos(t)) * np.cos(n * t), 0, math.pi) / math.pi
        return found * math.exp(-abs(x)) if kind == "ie" else found
    found = integral(lambda t: np.exp(-x * np.cosh(t)) * np.cosh(n * t), 0, 8)
    return found * math.exp(x) if kind == "ke" else found


def airy(x, derived):
    """The sum of its two power series, or of their derivatives."""
    total = 0.0
    first = 3 ** (-2 / 3) / math.gamma(2 / 3)
    second = -(3 ** (-1 / 3)) / math.gamma(1 / 3)
    for start, factor in ((0, first), (1, second)):
        for k in range(start, 90, 3):
            total += factor * (k * x ** (k - 1) if derived and k else 0 if derived else x**k)
            factor /= (k + 2) * (k + 3)
    return total


def zeta(s, q):
    """The sum of 20 terms, and the tail by Euler and Maclaurin."""
    z, factor = q + 20, s
    total = math.fsum((q + k) ** -s for k in range(20)) + z ** (1 - s) / (s - 1) + z**-s / 2
    for k, bernoulli in ((1, 1 / 6), (2, -1 / 30), (3, 1 / 42), (4, -1 / 30), (5, 5 / 66)):
        total += bernoulli * factor * z ** (1 - s - 2 * k) / math.factorial(2 * k)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    return total


def gammainc(a, x):
    """By t = u^12, which takes the root at 0 out of the integral."""
    root = x ** (1 / 12)
    inside = integral(lambda u: 12 * u ** (12 * a - 1) * np.exp(-(u**12)), 0, root)
    return inside / math.gamma(a)


def betainc(a, b, x):
    """The same, from whichever end is nearer."""
    if x > 0.5:
        return 1 - betainc(b, a, 1 - x)
    inside = integral(lambda u: 12 * u ** (12 * a - 1) * (1 - u**12) ** (b - 1), 0, x ** (1 / 12))
    return inside * math.gamma(a + b) / math.gamma(a) / math.gamma(b)


def _each(function):
    return np.vectorize(function, otypes="d")


def _mpmaths():
    """The functions that fx takes from SciPy, by mpmath's names."""
    import mpmath as m

    kelvins = {n: getattr(m, n) for n in ("ber", "bei", "ker", "kei")}

    def invert(f, low, high):
        low, high = m.mpf(low), m.mpf(high)
        falls = f(low) > 0
        for _ in range(90):  # halved until a double is exact, however flat f is elsewhere
            middle = (low + high) / 2
            if (f(middle) > 0) is falls:
                low = middle
            else:
                high = middle
        return high

    student = lambda v, t: 1 - m.betainc(v / 2, 0.5, 0, v / (v + t * t), regularized=True) / 2
    side = lambda v, t: student(v, t) if t >= 0 else 1 - student(v, t)
    spherical = lambda f, sign=1: lambda n, x: m.sqrt(m.pi / (2 * x)) * f(n + 0.5, x) * sign
    return {
        "expi": m.ei, "exp1": m.e1, "expn": m.expint, "sici.0": m.si, "sici.1": m.ci,
        "shichi.0": m.shi, "shichi.1": m.chi, "fresnel.0": m.fresnels, "fresnel.1": m.fresnelc,
        "dawsn": lambda x: m.exp(-x * x) * m.erfi(x) * m.sqrt(m.pi) / 2, "erfi": m.erfi,
        "spence": lambda x: m.polylog(2, 1 - x).real, "wrightomega": lambda x: m.lambertw(m.exp(x)),
        "ellipk": m.ellipk, "ellipe": m.ellipe, "ellipkm1": lambda p: m.ellipk(1 - p),
        "ellipkinc": m.ellipf, "ellipeinc": m.ellipe, "hyp0f1": m.hyp0f1, "hyp1f1": m.hyp1f1,
        "hyp2f1": m.hyp2f1, "hyperu": m.hyperu, "jv": m.besselj, "yv": m.bessely,
        "iv": m.besseli, "kv": m.besselk, "ive": lambda v, x: m.besseli(v, x) * m.exp(-abs(x)),
        "kve": lambda v, x: m.besselk(v, x) * m.exp(x), "spherical_jn": spherical(m.besselj),
        "spherical_yn": spherical(m.bessely), "spherical_in": spherical(m.besseli),
        "spherical_kn": spherical(m.besselk), "struve": m.struveh, "modstruve": m.struvel,
        **{n: (lambda x, f=f: f(0, x)) for n, f in kelvins.items()},
        **{f"{n}p": (lambda x, f=f: m.diff(lambda y: f(0, y), x)) for n, f in kelvins.items()},
        "airy.2": m.airybi, "airy.3": lambda x: m.airybi(x, derivative=1),
        "eval_genlaguerre": m.laguerre, "eval_gegenbauer": m.gegenbauer, "eval_jacobi": m.jacobi,
        "owens_t": lambda h, a: m.quad(
            lambda t: m.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * m.pi),
        "ndtri_exp": lambda y: invert(lambda x: m.log(m.ncdf(x)) - y, -9, 9),
        "gammaincinv": lambda a, p: invert(
            lambda x: m.gammainc(a, 0, x, regularized=True) - p, 1e-9, 40),
        "gammainccinv": lambda a, p: invert(
            lambda x: m.gammainc(a, x, regularized=True) - p, 1e-9, 40),
        "betaincinv": lambda a, b, p: invert(
            lambda x: m.betainc(a, b, 0, x, regularized=True) - p, 1e-12, 1 - 1e-12),
        "stdtr": side, "stdtrit": lambda v, p: invert(lambda t: side(v, t) - p, -30, 30),
    }  # fmt: skip


def scipy_function(*args, function):
    """By mpmath; what has no other source by SciPy's, a number at a time and with whole orders."""
    f = _mpmaths().get(function) or MORE.get(function) or _scipys(function)
    return np.vectorize(lambda *at: float(f(*map(float, at)).real), otypes="d")(*args)


def _scipys(function):
    import scipy.special

    name, _, which = function.partition(".")
    f = getattr(scipy.special, name)
    whole = {"legendre_p": 1, "assoc_legendre_p": 2, "sph_legendre_p": 2}.get(name, 0)

    def one(*at):
        found = f(*map(int, at[:whole]), *at[whole:])
        return np.ravel(found[int(which)] if which else found)[0]

    return one


SPECIAL = {
    "scipy_function": scipy_function,
    "airy_ai": _each(lambda x: airy(x, False)),
    "airy_ai_slope": _each(lambda x: airy(x, True)),
    "bessel": bessel,
    "betainc": _each(betainc),
    "entr": _each(lambda x: -x * math.log(x)),
    "erfcinv": _each(lambda x: -NORMAL.inv_cdf(x / 2) / math.sqrt(2)),
    "erfcx": _each(lambda x: math.exp(x * x) * math.erfc(x)),
    "gamma": _each(math.gamma),
    "gammainc": _each(gammainc),
    "gammaincc": _each(lambda a, x: 1 - gammainc(a, x)),
    "log_ndtr": _each(lambda x: math.log(math.erfc(-x / math.sqrt(2)) / 2)),
    "logit": _each(lambda x: math.log(x / (1 - x))),
    "ndtri": _each(NORMAL.inv_cdf),
    "xlog1py": _each(lambda x, y: x * math.log1p(y)),
    "xlogy": _each(lambda x, y: x * math.log(y)),
    "zeta": _each(zeta),
}
