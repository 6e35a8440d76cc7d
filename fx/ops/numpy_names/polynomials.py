"""NumPy's names of polynomials: vectors of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

from fx.errors import ShapeError
from fx.ops.making.creation import zeros
from fx.ops.making.interop import asarray
from fx.ops.making.ranges import arange
from fx.ops.numpy_names.statistics import convolve
from fx.ops.operands import floating, promoted
from fx.ops.pointwise import elementwise
from fx.ops.shapes.assembly import atleast_1d
from fx.ops.shapes.joining import concat, stack
from fx.tensor import Tensor


def _coefficients(name: str, p: Any) -> Tensor:
    x = atleast_1d(asarray(p))
    if x.ndim != 1:
        raise ShapeError(f"{name} takes coefficients (n,), the highest power first, got {x.shape}")
    return x  # type: ignore[no-any-return]


def _of_one_length(name: str, a1: Any, a2: Any) -> tuple[Tensor, Tensor]:
    x, y = promoted(name, _coefficients(name, a1), _coefficients(name, a2))
    n = max(x.shape[0], y.shape[0])
    blank = lambda z: zeros((n - z.shape[0],), dtype=z.dtype, device=z.device)
    return concat([blank(x), x]), concat([blank(y), y])


def poly(seq_of_zeros: Any) -> Tensor:
    """The coefficients of the polynomial with the given zeros, 1 first.

    Example:
        >>> import fx
        >>> fx.poly(fx.tensor([1.0, -1.0]))
        tensor([ 1.,  0., -1.])
    """
    zeros_ = floating("poly", seq_of_zeros)
    if zeros_.ndim != 1:
        raise ShapeError(f"poly takes zeros (n,), got shape {zeros_.shape}")
    out = zeros_[:0].sum(keepdim=True) + 1
    for i in range(zeros_.shape[0]):
        out = convolve(out, stack([out[0] * 0 + 1, -zeros_[i]]))
    return out  # type: ignore[no-any-return]


def polyval(p: Any, x: Any) -> Tensor:
    """The values of a polynomial at places ``x``, by Horner's scheme.

    Example:
        >>> import fx
        >>> fx.polyval([1.0, 0.0, -2.0], fx.tensor([2.0, 3.0]))
        tensor([2., 7.])
    """
    p = _coefficients("polyval", p)
    p, x = promoted("polyval", p, asarray(x))
    out = x * 0
    for i in range(p.shape[0]):
        out = out * x + p[i]
    return out  # type: ignore[no-any-return]


def polyadd(a1: Any, a2: Any) -> Tensor:
    """The sum of two polynomials.

    Example:
        >>> import fx
        >>> fx.polyadd([1.0, 2.0], [1.0])
        tensor([1., 3.])
    """
    x, y = _of_one_length("polyadd", a1, a2)
    return x + y


def polysub(a1: Any, a2: Any) -> Tensor:
    """The difference of two polynomials.

    Example:
        >>> import fx
        >>> fx.polysub([1.0, 2.0], [1.0])
        tensor([1., 1.])
    """
    x, y = _of_one_length("polysub", a1, a2)
    return x - y


def polymul(a1: Any, a2: Any) -> Tensor:
    """The product of two polynomials.

    Example:
        >>> import fx
        >>> fx.polymul([1.0, 1.0], [1.0, -1.0])
        tensor([ 1.,  0., -1.])
    """
    return convolve(_coefficients("polymul", a1), _coefficients("polymul", a2))


def polydiv(u: Any, v: Any) -> tuple[Tensor, Tensor]:
    """Quotient and remainder of two polynomials.

    Example:
        >>> import fx
        >>> fx.polydiv([1.0, 0.0, -1.0], [1.0, 1.0])
        (tensor([ 1., -1.]), tensor([0.]))
    """
    x, y = promoted("polydiv", _coefficients("polydiv", u), _coefficients("polydiv", v))
    x, y = floating("polydiv", x), floating("polydiv", y)
    n, m = x.shape[0], y.shape[0]
    if n < m:
        return x[:1] * 0, x
    quotient = []
    for i in range(n - m + 1):
        share = x[i] / y[0]
        quotient.append(share)
        x = x.at[i : i + m].add(-share * y)
    rest = x[n - m + 1 :]
    return stack(quotient), rest if rest.shape[0] else x[:1] * 0


def polyder(p: Any, m: int = 1) -> Tensor:
    """The ``m``-th derivative of a polynomial.

    Example:
        >>> import fx
        >>> fx.polyder([1.0, 0.0, -2.0])
        tensor([2., 0.])
    """
    x = _coefficients("polyder", p)
    for _ in range(m):
        n = x.shape[0] - 1
        x = x[:n] * arange(n, 0, -1, dtype=x.dtype, device=x.device)
    return x


def polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    """The ``m``-th integral of a polynomial.

    Args:
        k: the constants, one an integration; 0 unless told.

    Example:
        >>> import fx
        >>> fx.polyint([2.0, 1.0])
        tensor([1., 1., 0.])
    """
    x = floating("polyint", _coefficients("polyint", p))
    constants = atleast_1d(asarray(0.0 if k is None else k, dtype=x.dtype, device=x.device))
    if constants.shape[0] not in (1, m):
        raise ShapeError(f"polyint: {m} integrations take {m} constants, got {constants.shape}")
    for i in range(m):
        powers = elementwise.positive(arange(x.shape[0], 0, -1, dtype=x.dtype, device=x.device))
        j = i if constants.shape[0] > 1 else 0
        x = concat([x / powers, constants[j : j + 1]])
    return x
