"""Functions that SciPy computes, of one result and of several; DLMF has them by chapter.

``fx/prims/scipy_functions.py`` has their slopes. An argument without a known slope (an order, a
number of degrees of freedom) refuses a gradient by name.
"""

from __future__ import annotations

from typing import Any

from fx.errors import ArgumentError
from fx.ops.operands import alike
from fx.prims.scipy_functions import named
from fx.special.named import _function
from fx.tensor import Tensor

# name: arguments and meaning
SAYS = {
    # distributions and their inverses
    "bdtrik": "y n p: the k with bdtr(k, n, p) = y",
    "bdtrin": "k y p: the n with bdtr(k, n, p) = y",
    "btdtria": "p b x: the a with betainc(a, b, x) = p",
    "btdtrib": "a p x: the b with betainc(a, b, x) = p",
    "chdtriv": "p x: the v with chdtr(v, x) = p",
    "chndtr": "x df nc: the noncentral chi-squared distribution's function",
    "chndtridf": "x p nc: the df with chndtr(x, df, nc) = p",
    "chndtrinc": "x df p: the nc with chndtr(x, df, nc) = p",
    "chndtrix": "p df nc: the x with chndtr(x, df, nc) = p",
    "fdtridfd": "dfn p x: the dfd with fdtr(dfn, dfd, x) = p",
    "gdtria": "p b x: the a with gdtr(a, b, x) = p",
    "gdtrib": "a p x: the b with gdtr(a, b, x) = p",
    "kolmogi": "p: the x with kolmogorov(x) = p",
    "kolmogorov": "x: the chance that Kolmogorov's statistic exceeds x in the limit",
    "nbdtrik": "y n p: the k with nbdtr(k, n, p) = y",
    "nbdtrin": "k y p: the n with nbdtr(k, n, p) = y",
    "ncfdtr": "dfn dfd nc f: the noncentral F distribution's function",
    "ncfdtri": "dfn dfd nc p: the f with ncfdtr(dfn, dfd, nc, f) = p",
    "ncfdtridfd": "dfn p nc f: the dfd with ncfdtr(dfn, dfd, nc, f) = p",
    "ncfdtridfn": "p dfd nc f: the dfn with ncfdtr(dfn, dfd, nc, f) = p",
    "ncfdtrinc": "dfn dfd p f: the nc with ncfdtr(dfn, dfd, nc, f) = p",
    "nctdtr": "df nc t: the noncentral Student distribution's function",
    "nctdtridf": "p nc t: the df with nctdtr(df, nc, t) = p",
    "nctdtrinc": "df p t: the nc with nctdtr(df, nc, t) = p",
    "nctdtrit": "df nc p: the t with nctdtr(df, nc, t) = p",
    "pdtrik": "p m: the k with pdtr(k, m) = p",
    "smirnov": "n d: the chance that Smirnov's one-sided statistic of n samples exceeds d",
    "smirnovi": "n p: the d with smirnov(n, d) = p",
    "stdtridf": "p t: the df with stdtr(df, t) = p",
    "tklmbda": "x lmbda: the distribution function of Tukey's lambda",
    # elliptic integrals, DLMF 19.16
    "elliprc": "x y: Carlson's degenerate elliptic integral R_C",
    "elliprd": "x y z: Carlson's elliptic integral R_D, of the second kind",
    "elliprf": "x y z: Carlson's elliptic integral R_F, of the first kind",
    "elliprg": "x y z: Carlson's elliptic integral R_G, symmetric, of the second kind",
    # Bessel functions, their integrals, Wright's: DLMF 10, 11 and 12
    "besselpoly": "a lmb nu: the integral of x^lmb jv(nu, 2 a x) from 0 to 1",
    "it2struve0": "x: the integral of struve(0, t) / t from x on",
    "itmodstruve0": "x: the integral of modstruve(0, t) from 0 to x",
    "itstruve0": "x: the integral of struve(0, t) from 0 to x",
    "jve": "v z: jv(v, z) exp(-abs(z.imag))",
    "yve": "v z: yv(v, z) exp(-abs(z.imag))",
    "log_wright_bessel": "a b x: the logarithm of ``wright_bessel``",
    "wright_bessel": "a b x: Wright's function, the sum of x^k / (k! gamma(a k + b))",
    # Legendre's, Mathieu's, spheroidal: DLMF 14, 28 and 30
    "lpmv": "m v x: the associated Legendre function of whole order m and real degree v",
    "mathieu_a": "m q: the characteristic value of the even Mathieu function of order m",
    "mathieu_b": "m q: the characteristic value of the odd Mathieu function of order m",
    "obl_cv": "m n c: the characteristic value of oblate spheroidal functions",
    "pro_cv": "m n c: the characteristic value of prolate spheroidal functions",
}
# name: how many results, then as above
SEVERAL = {
    "airye": "4 z: Airy's functions Ai, Ai', Bi and Bi', scaled by exp(2/3 z^1.5) or its inverse",
    "ellipj": "4 u m: Jacobi's elliptic functions sn, cn and dn, and the amplitude",
    "it2i0k0": "2 x: the integrals of (i0(t) - 1) / t up to x, and of k0(t) / t from x on",
    "it2j0y0": "2 x: the integrals of (1 - j0(t)) / t up to x, and of y0(t) / t from x on",
    "itairy": "4 x: the integrals from 0 to x of Ai(t), Bi(t), Ai(-t) and Bi(-t)",
    "iti0k0": "2 x: the integrals of i0 and k0 from 0 to x",
    "itj0y0": "2 x: the integrals of j0 and y0 from 0 to x",
    "mathieu_cem": "2 m q x: the even Mathieu function at x degrees, and its derivative in radians",
    "mathieu_sem": "2 m q x: the odd Mathieu function at x degrees, and its derivative in radians",
    "mathieu_modcem1": "2 m q x: the even modified Mathieu function of the first kind, with slope",
    "mathieu_modcem2": "2 m q x: the even modified Mathieu function of the second kind, with slope",
    "mathieu_modsem1": "2 m q x: the odd modified Mathieu function of the first kind, with slope",
    "mathieu_modsem2": "2 m q x: the odd modified Mathieu function of the second kind, with slope",
    "pbdv": "2 v x: the parabolic cylinder function D, and its derivative in x",
    "pbvv": "2 v x: the parabolic cylinder function V, and its derivative in x",
    "pbwa": "2 a x: the parabolic cylinder function W, and its derivative in x",
}
for _kind, _word in (("pro", "prolate"), ("obl", "oblate")):
    for _name, _what in (
        ("ang1", "angular function of the first kind"),
        ("rad1", "radial function of the first kind"),
        ("rad2", "radial function of the second kind"),
    ):
        SEVERAL[f"{_kind}_{_name}"] = f"2 m n c x: the {_word} spheroidal {_what}, with slope"
        SEVERAL[f"{_kind}_{_name}_cv"] = (
            f"2 m n c cv x: the {_word} spheroidal {_what}, of a known characteristic value"
        )


def _several(name: str, count: int, words: list[str], says: str) -> Any:
    def function(*args: Any) -> tuple[Tensor, ...]:
        if len(args) != len(words):
            raise ArgumentError(f"{name} takes {', '.join(words)}; got {len(args)} arguments")
        given = alike(name, *args)
        return tuple([named(f"{name}.{k}", *given) for k in range(count)])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{says[0].upper()}{says[1:]}; takes {', '.join(words)}, which broadcast."
    return function


for _name, _line in SAYS.items():
    _words, _, _says = _line.partition(": ")
    globals()[_name] = _function(_name, _words.split(), _says)
for _name, _line in SEVERAL.items():
    _words, _, _says = _line.partition(": ")
    _count, *_names = _words.split()
    globals()[_name] = _several(_name, int(_count), _names, _says)

__all__ = [*SAYS, *SEVERAL]
