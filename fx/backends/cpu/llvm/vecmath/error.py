"""The error function and its relatives."""

from __future__ import annotations

from fx.backends.cpu.llvm.vecmath.algebra import Num, estrin, polynomial
from fx.backends.cpu.llvm.vecmath.exponential import exp, power_of_two, reduced
from fx.backends.cpu.llvm.vecmath.types import F32, F64

# erf x = x + x * p(x * x) for |x| <= 0.95 and 0.9
_NEAR = {
    32: (
        1.2837917e-01, -3.7612632e-01, 1.12836726e-01, -2.6858104e-02, 5.1977974e-03,
        -8.1059657e-04, 8.215424e-05,
    ),
    64: (
        0.1283791670955126, -0.3761263890318373, 0.1128379167095382, -0.0268661706448288,
        0.005223977621820394, -0.0008548326767346813, 0.00012055321485877897,
        -1.4925309919261787e-05, 1.645536405092424e-06, -1.6276851369048122e-07,
        1.40531698878721e-08, -8.497784908724309e-10,
    ),
}  # fmt: skip
# erf x = 1 - exp(-p(x)) for 0.9 <= x <= 3.95
_FAR32 = (
    1.7750908e-04, 1.1277494e+00, 6.3705987e-01, 1.0403724e-01, -2.2277026e-02, 3.0555907e-03,
    -1.9717985e-04,
)  # fmt: skip
# (1 + 2 * x) * exp(x * x) * erfc x = p((x - 4) / (x + 4)) for 0 <= x <= 28, and to 31 bits to 10
_TAIL = (
    1.2329951186255526, -0.1396211168405629, 0.015379652102619924, 0.06809705425473522,
    -0.10103906603630879, 0.0937328349968648, -0.06633036581241702, 0.03716751556131122,
    -0.016197734049913294, 0.005031969767360603, -0.000757773395874158, -0.0001992555764566247,
    0.00015062243748109282, -2.4402906362992e-05, -1.1225200900955313e-05, 5.7172520667505185e-06,
    3.0183419196688923e-07, -8.342227554334618e-07, 6.24920314614088e-08, 1.1457540313900377e-07,
    -7.817517894392851e-09, -1.3398891287386637e-08, -1.716232295040732e-09,
)  # fmt: skip
_TAIL_SHORT = (
    1.232995118714497, -0.13962113044940547, 0.015379632147970938, 0.06809782213087426,
    -0.10103786413274428, 0.09372141374179961, -0.06635424331103018, 0.03722173710726026,
    -0.01602552565086871, 0.005042866513805277, -0.0011359255569115215, -0.0006415160973866332,
)  # fmt: skip


def _near(x: Num) -> Num:
    return x.mad((polynomial if x.width == 32 else estrin)(x * x, _NEAR[x.width]), x)


def _tail(a: Num, coefficients: tuple[float, ...]) -> Num:
    """erfc a of a float64 0 <= a <= 28."""
    square = a * a
    low = a.fma(a, -square)
    e = exp(-square)
    y = estrin((a - 4.0) / (a + 4.0), coefficients) / a.mad(2.0, 1.0)
    return y * e.mad(-low, e)


def erf(x: Num) -> Num:
    """2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x."""
    a = abs(x)
    if x.width == 32:
        r, rest, k = reduced(-polynomial(a.smaller(3.95), _FAR32))
        far = (1.0 + (r + rest)).mad(-power_of_two(k), 1.0)
        limit = 0.95
    else:
        far = 1.0 - _tail(a.smaller(6.0), _TAIL)
        limit = 0.9
    return (a < limit).pick(_near(x), far.copysign(x))


def erfc(x: Num) -> Num:
    """1 - erf(x), precise where that is small."""
    if x.width == 32:
        wide = x.to(F64)
        tail = _tail(abs(wide).smaller(11.0), _TAIL_SHORT)
        return (wide < 0.0).pick(2.0 - tail, tail).to(F32)
    a = abs(x)
    tail = _tail(a.smaller(28.0), _TAIL)
    far = (x < 0.0).pick(2.0 - tail, tail)
    near = (x < 0.25).pick(1.0 - _near(x), 0.5 - (_near(x) + -0.5))
    return (a < 0.5).pick(near, far)
