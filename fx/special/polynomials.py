"""Orthogonal polynomials by their recurrences: p(k + 1) from p(k) and p(k - 1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fx.errors import ArgumentError, BatchedValueError
from fx.ops.indexing.searching import where
from fx.ops.operands import floating
from fx.tensor import Tensor

_Step = Callable[[int, Tensor, Tensor, Tensor], Tensor]


def _chebyshev(k: int, x: Tensor, p: Tensor, before: Tensor) -> Tensor:
    return 2.0 * x * p - before


# the polynomial of degree 1, and the step
_FAMILIES: dict[str, tuple[Callable[[Tensor], Tensor], _Step, str]] = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev, "Chebyshev's, of the first kind"),
    "chebyshev_polynomial_u": (lambda x: 2.0 * x, _chebyshev, "Chebyshev's, of the second kind"),
    "chebyshev_polynomial_v": (
        lambda x: 2.0 * x - 1.0, _chebyshev, "Chebyshev's, of the third kind",
    ),
    "chebyshev_polynomial_w": (
        lambda x: 2.0 * x + 1.0, _chebyshev, "Chebyshev's, of the fourth kind",
    ),
    "hermite_polynomial_h": (
        lambda x: 2.0 * x, lambda k, x, p, q: 2.0 * x * p - 2.0 * k * q, "Hermite's, of physicists",
    ),
    "hermite_polynomial_he": (
        lambda x: x, lambda k, x, p, q: x * p - float(k) * q, "Hermite's, of probability",
    ),
    "laguerre_polynomial_l": (
        lambda x: 1.0 - x,
        lambda k, x, p, q: ((2.0 * k + 1.0 - x) * p - float(k) * q) / (k + 1.0), "Laguerre's",
    ),
    "legendre_polynomial_p": (
        lambda x: x, lambda k, x, p, q: ((2.0 * k + 1.0) * x * p - float(k) * q) / (k + 1.0),
        "Legendre's",
    ),
}  # fmt: skip


def _known(name: str, n: Tensor) -> list[int]:
    try:
        known = n.reshape((-1,)).tolist()
    except BatchedValueError as error:
        raise ArgumentError(
            f"{name}: degrees have to be known; inside vmap give an int, or a tensor that it does "
            f"not map"
        ) from error
    return sorted({int(k) for k in known if -1 < k < math.inf})


def _made(name: str, first: Any, step: _Step, says: str, shift: bool) -> Any:
    def function(x: Any, n: Any) -> Tensor:
        if isinstance(x, int | float) and isinstance(n, Tensor):
            x = floating(name, n) * 0.0 + x
        x = floating(name, x)
        at = 2.0 * x - 1.0 if shift else x
        one = at * 0.0 + 1.0
        if not isinstance(n, Tensor):
            return _last(first, step, at, one, int(n))
        degrees = floating(name, n)
        # no polynomial has a degree that is not finite
        out = where(degrees - degrees == 0, one * 0.0, math.nan)
        for k in _known(name, degrees):
            this = degrees.trunc() == k  # elsewhere a high degree may overflow, and its slope too
            out = where(this, _last(first, step, where(this, at, 0.0), one, k), out)
        return out  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{says} polynomial of degree n at {"2 x - 1" if shift else "x"}.

    Args:
        x: a tensor.
        n: the degree, an int; or a tensor of degrees, whose shape broadcasts. Fractions are cut
            off; below 0 the result is 0.

    Returns:
        A floating tensor; differentiable in x to any order.
    """
    return function


def _last(first: Any, step: _Step, x: Tensor, one: Tensor, n: int) -> Tensor:
    if n < 1:
        return one if n == 0 else one * 0.0
    before, p = one, first(x)
    for k in range(1, n):
        before, p = p, step(k, x, p, before)
    return p  # type: ignore[no-any-return]


for _name, (_first, _step, _says) in _FAMILIES.items():
    globals()[_name] = _made(_name, _first, _step, _says, False)
    if _name.startswith("chebyshev"):
        globals()[f"shifted_{_name}"] = _made(f"shifted_{_name}", _first, _step, _says, True)


def _scipys(name: str, function: Any) -> Any:
    def scipys(n: Any, x: Any) -> Tensor:
        given = n.tolist() if type(n) is Tensor and n._dtype.kind == "f" else n
        for k in np.ravel(given) if not isinstance(n, Tensor) or given is not n else ():
            if math.isfinite(k) and (k < 0 or int(k) != k):
                raise ArgumentError(f"{name}: degrees are whole numbers from 0 on, got {k}")
        return function(x, n)  # type: ignore[no-any-return]

    scipys.__name__ = scipys.__qualname__ = name
    scipys.__doc__ = f"``{function.__name__}(x, n)``, in SciPy's order of arguments."
    return scipys


for _name, _of in {
    "eval_chebyt": "chebyshev_polynomial_t", "eval_chebyu": "chebyshev_polynomial_u",
    "eval_hermite": "hermite_polynomial_h", "eval_hermitenorm": "hermite_polynomial_he",
    "eval_laguerre": "laguerre_polynomial_l", "eval_legendre": "legendre_polynomial_p",
}.items():  # fmt: skip
    globals()[_name] = _scipys(_name, globals()[_of])
