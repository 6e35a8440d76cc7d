"""Reference functions of SciPy's special functions: definitions as integrals and sums."""

import mpmath as m


def _chndtr(x, df, nc):
    terms = range(120)
    weight = lambda j: m.exp(-nc / 2) * (nc / 2) ** j / m.factorial(j)
    return sum(weight(j) * m.gammainc(df / 2 + j, 0, x / 2, regularized=True) for j in terms)


def _ncfdtr(dfn, dfd, nc, f):
    y = dfn * f / (dfd + dfn * f)
    weight = lambda j: m.exp(-nc / 2) * (nc / 2) ** j / m.factorial(j)
    part = lambda j: m.betainc(dfn / 2 + j, dfd / 2, 0, y, regularized=True)
    return sum(weight(j) * part(j) for j in range(60))


def _nctdtr(df, nc, t):
    density = lambda s: (
        2 * (df / 2) ** (df / 2) / m.gamma(df / 2) * s ** (df - 1) * m.exp(-df * s * s / 2)
    )
    return m.quad(lambda s: m.ncdf(t * s - nc) * density(s), [0, 0.5, 1, 2, 4, 12])


def _smirnov(n, d):
    n = int(n)
    terms = [v for v in range(n + 1) if d + m.mpf(v) / n < 1]
    part = lambda v, at: m.binomial(n, v) * at ** (v - 1) * (1 - at) ** (n - v)
    return d * sum(part(v, d + m.mpf(v) / n) for v in terms)


def _integral(f, factor=1):
    return lambda x: factor * m.quad(f, [0, x])


MORE = {
    "elliprf": m.elliprf, "elliprc": m.elliprc, "elliprd": m.elliprd, "elliprj": m.elliprj,
    "elliprg": m.elliprg,
    **{f"ellipj.{k}": (lambda u, q, f=f: m.ellipfun(f, u, m=q))
       for k, f in enumerate(("sn", "cn", "dn"))},
    "ellipj.3": lambda u, q: m.quad(lambda t: m.ellipfun("dn", t, m=q), [0, u]),
    "chndtr": _chndtr, "ncfdtr": _ncfdtr, "nctdtr": _nctdtr, "smirnov": _smirnov,
    "kolmogorov": lambda x: 2 * m.nsum(
        lambda k: (-1) ** (int(k) - 1) * m.exp(-2 * k * k * x * x), [1, 60], method="d"),
    "jve": m.besselj, "yve": m.bessely,
    "wright_bessel": lambda a, b, x: m.nsum(
        lambda k: x**k * m.rgamma(a * k + b) / m.factorial(k), [0, 80], method="d"),
    "besselpoly": lambda a, l, v: m.quad(lambda x: x**l * m.besselj(v, 2 * a * x), [0, 1]),
    "iti0k0.0": _integral(lambda t: m.besseli(0, t)),
    "iti0k0.1": _integral(lambda t: m.besselk(0, t)),
    "itj0y0.0": _integral(lambda t: m.besselj(0, t)),
    "itj0y0.1": _integral(lambda t: m.bessely(0, t)),
    "it2i0k0.0": _integral(lambda t: (m.besseli(0, t) - 1) / t),
    "it2i0k0.1": lambda x: m.quad(lambda t: m.besselk(0, t) / t, [x, x + 3, x + 30]),
    "it2j0y0.0": _integral(lambda t: (1 - m.besselj(0, t)) / t),
    "itstruve0": _integral(lambda t: m.struveh(0, t)),
    "itmodstruve0": _integral(lambda t: m.struvel(0, t)),
        "airy.0": m.airyai, "airy.1": lambda x: m.airyai(x, derivative=1),
    **{f"airye.{k}": (lambda x, f=f, d=k % 2, s=1 - k // 2 * 2: (
        f(x, derivative=d) * m.exp(s * 2 * x**1.5 / 3)))
       for k, f in enumerate((m.airyai, m.airyai, m.airybi, m.airybi))},
    "legendre_p.0": m.legendre,
    "lpmv": lambda o, v, x: m.legenp(v, o, x),
    "pbdv.0": m.pcfd, "pbdv.1": lambda v, x: m.diff(lambda y: m.pcfd(v, y), x),
    "pbvv.0": lambda v, x: m.pcfv(-v - 0.5, x),
    "pbvv.1": lambda v, x: m.diff(lambda y: m.pcfv(-v - 0.5, y), x),
}  # fmt: skip
