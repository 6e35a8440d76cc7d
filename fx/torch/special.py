"""``torch.special``: ``fx.special`` under PyTorch's names of arguments."""

from __future__ import annotations

from typing import Any

import fx
from fx.tensor import Tensor
from fx.torch._functions import into, with_numpys_words

_ONE = """
    airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma entr erf erfc erfcx erfinv exp2 expit
    expm1 gammaln i0 i0e i1 i1e log1p log_ndtr modified_bessel_i0 modified_bessel_i1
    modified_bessel_k0 modified_bessel_k1 ndtr ndtri psi scaled_modified_bessel_k0
    scaled_modified_bessel_k1 sinc spherical_bessel_j0"""
_TWO = "gammainc gammaincc xlog1py xlogy zeta"


def _named(name: str, make: Any) -> Any:
    function = make(getattr(fx.special, name))
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (getattr(fx.special, name).__doc__ or "").split("\n")[0]
    return with_numpys_words(function)


def _one(work: Any) -> Any:
    def function(input: Any, *, out: Any = None) -> Tensor:
        return _given(out, work, "input", input)

    return function


def _two(work: Any) -> Any:
    def function(input: Any, other: Any, *, out: Any = None) -> Tensor:
        return _given(out, work, "input, other", input, other)

    return function


def _degree(work: Any) -> Any:
    def function(input: Any, n: Any, *, out: Any = None) -> Tensor:
        return _given(out, work, "input, n", input, n)

    return function


def _given(out: Any, work: Any, example: str, *args: Any) -> Tensor:
    if out is not None:
        return into(out, f"special.{work.__name__}", example, work, *args)
    return work(*args)  # type: ignore[no-any-return]


_POLYNOMIALS = " ".join(name for name in fx.special.__all__ if "_polynomial_" in name)
_KINDS = {_one: _ONE, _two: _TWO, _degree: _POLYNOMIALS}
globals().update({name: _named(name, make) for make, s in _KINDS.items() for name in s.split()})
igamma, igammac = fx.special.gammainc, fx.special.gammaincc


def polygamma(n: int, input: Any, *, out: Any = None) -> Tensor:
    """The derivative of order n of ``digamma``."""
    return _given(out, fx.special.polygamma, "n, input", n, input)


def multigammaln(input: Any, p: int, *, out: Any = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
    return _given(out, fx.special.multigammaln, "input, p", input, p)


def logit(input: Any, eps: float | None = None, *, out: Any = None) -> Tensor:
    """log(x / (1 - x)); with ``eps`` x is brought into [eps, 1 - eps] first."""
    return _given(out, fx.special.logit, "input, eps", input, eps)


def round(input: Any, *, decimals: int = 0, out: Any = None) -> Tensor:
    """The nearest whole number, or one of some decimals; of two, the even one."""
    return _given(out, fx.round, "input, decimals", input, decimals)


def logsumexp(input: Any, dim: Any, keepdim: bool = False, *, out: Any = None) -> Tensor:
    """log(sum(exp(x))) along axes, without overflow."""
    return _given(out, fx.logsumexp, "input, dim", input, dim, keepdim)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis."""
    return fx.softmax(input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of softmax."""
    return fx.log_softmax(input, dim, dtype)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"fx has no torch.special.{name}; there is: {', '.join(__all__)}")


__all__ = sorted({
    *_ONE.split(), *_TWO.split(), *_POLYNOMIALS.split(), "polygamma", "multigammaln", "logit",
    "round", "logsumexp", "softmax", "log_softmax",
})  # fmt: skip
