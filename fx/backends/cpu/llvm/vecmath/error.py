"""The error function and its relatives."""

from __future__ import annotations

from fx.backends.cpu.llvm.vecmath.algebra import Num, polynomial
from fx.backends.cpu.llvm.vecmath.exponential import exp

# erf x = x + x * p(x * x) for |x| <= 1
_NEAR32 = (
    1.2837917e-01, -3.7612626e-01, 1.12836e-01, -2.6854444e-02, 5.1895357e-03, -8.020843e-04,
    7.889125e-05,
)  # fmt: skip
# erf x = 1 - exp(-p(x)) beyond
_FAR32 = (
    -1.6310443e-04, 1.1294488e+00, 6.3350934e-01, 1.0805645e-01, -2.4930641e-02, 4.0711043e-03,
    -4.020643e-04, 1.5221337e-05, 4.558369e-07,
)  # fmt: skip


def erf(x: Num) -> Num:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x."""
    a = abs(x).smaller(3.95)
    near = x.mad(polynomial(x * x, _NEAR32), x)
    far = (1.0 - exp(-polynomial(a, _FAR32))).copysign(x)
    return (a < 0.95).pick(near, far)
