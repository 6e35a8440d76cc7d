"""The gamma function, its logarithm and that one's derivatives; float32 goes by float64.

Small arguments are stepped to where a table or Stirling's series is good, negative ones mirrored.
The tables are interpolations at Chebyshev's points of values of 45 digits.
"""

from __future__ import annotations

import math

from fx.backends.cpu.llvm.ir import f64
from fx.backends.cpu.llvm.vecmath.algebra import Num, estrin, polynomial
from fx.backends.cpu.llvm.vecmath.exponential import exp_of_pair
from fx.backends.cpu.llvm.vecmath.logarithm import log, log_pair

# log gamma y = (y - 1) * (y - 2) * p(y - 1.75) for 1 <= y <= 2.5
_LGAMMA = (
    0.4501393121092563, -0.11948158662524266, 0.044520447198509394, -0.019053957830261353,
    0.008776370425278911, -0.00422619412516532, 0.0020955338792023144, -0.001060566094315156,
    0.0005448970031374375, -0.0002831903542270387, 0.00014851663517558285,
    -7.846409510572801e-05, 4.17062857959138e-05, -2.2268005883145954e-05,
    1.1945816117960494e-05, -6.488497543800692e-06, 3.516893875615291e-06,
    -1.7663730867731053e-06, 9.41640126227377e-07, -7.578504570526509e-07,
    4.3563120177338296e-07, 3.517591929231488e-08, -3.4055420585841766e-08,
    -1.581232626868646e-07, 9.133153705117035e-08,
)  # fmt: skip
# digamma y = (y - root) * p(2 * y - 3) for 1 <= y <= 2
_DIGAMMA = (
    0.9510558760318328, -0.2118137106407303, 0.06013562106019684, -0.018550615381735008,
    0.005936795278301761, -0.0019350666648613071, 0.0006368880303865817,
    -0.00021074841138175561, 6.995018825112794e-05, -2.3258242519113285e-05,
    7.741234508636364e-06, -2.578093954045772e-06, 8.589060721930695e-07,
    -2.863161166883193e-07, 9.543298288278275e-08, -3.162911147408454e-08,
    1.0527692435026686e-08, -3.7083753242807277e-09, 1.2469984616707403e-09,
    -2.7580994814377e-10, 8.734528429142953e-11, -8.50550766013261e-11, 2.918622732168261e-11,
)  # fmt: skip
_ROOT, _ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17
# sin(pi r) = r * p(8 * r * r - 1) for abs(r) <= 1 / 2
_SIN = (
    2.534324262661598, -0.5697036803076341, 0.03645310559709345, -0.001092432005489253,
    1.8956829192485415e-05, -2.1447169597692547e-07, 1.7069665378821027e-09,
    -1.0077340315799801e-11, 4.588274523967674e-14,
)  # fmt: skip
# 1 / gamma(1 + t) = 1 + t * (t - 1) * p(t - 1 / 2) for 0 <= t <= 1
_INVERSE = (
    -0.5135166683820503, 0.1646981057811324, 0.05255106857397921, -0.04161568105120782,
    0.006336833304923994, 0.002157953269256171, -0.0011042580831499755, 0.000148887308180788,
    2.588862672911073e-05, -1.3881269473509407e-05, 2.1341211068273184e-06,
    6.22845254166883e-08, -9.01276868758033e-08, 1.6796002705931017e-08,
)  # fmt: skip
_HALF_LOG = (0.9189385332046728, -3.878294158067242e-17)  # log(2 pi) / 2
_TINY = 1e-150  # below it 1 / x ** 2 may be infinite, and is all there is
_FAR = 8.0  # from here on Stirling's series, in 1 / y ** 2, is good
_STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
    43867 / 244188,
)  # fmt: skip
# derivatives of its terms: Bernoulli's numbers over their places, and themselves
_SLOPE = (
    -1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12, 3617 / 8160,
    -43867 / 14364,
)  # fmt: skip
_BEND = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330,
)  # fmt: skip


def _sine(r: Num) -> Num:
    """sin(pi r) for abs(r) <= 1 / 2."""
    return r * polynomial((r * r) * 8.0 - 1.0, _SIN)


def _down(y: Num, most: float) -> tuple[Num, Num]:
    """A number up to 8 by whole steps below ``most``, and the product of all after a step."""
    product = y.full(1.0)
    for _ in range(6):
        down = y >= most
        y = down.pick(y - 1.0, y)
        product = down.pick(product * y, product)
    return y, product


def gamma(x: Num) -> Num:
    """The gamma function; float32 goes by float64.

    At most 0.51 ulp in float32, 4 in float64; below 0 it is mirrored, with 7.
    """
    wide = x.to(f64)
    a = abs(wide)
    small, far, negative = a < 1.0, a >= _FAR, wide < 0.0
    y, product = _down(a.smaller(_FAR), 2.0)
    t = small.pick(a, y - 1.0)  # exact
    r = (t * (t - 1.0)).mad(estrin(t - 0.5, _INVERSE), 1.0)
    n = a.rint()
    sine = _sine(a - n)
    half = n * 0.5
    sine = half.ne(half.rint()).pick(sine, -sine)
    mirror = (math.pi / sine) / small.pick(1.0, a)  # -sin(pi a) in it
    near = small.pick(negative.pick(r, 1.0 / (a * r)), negative.pick(r / product, product / r))
    # Stirling's logarithm as a sum of two; of its half below 0, where gamma(a) would overflow
    b = far.pick(a.smaller(200.0), _FAR)
    high, low = log_pair(b)
    over = b - 0.5
    p = over * high
    p_low = over.fma(high, -p) + over * low
    u = p - b
    p_low = ((p - u) - b) + p_low
    inverse = 1.0 / b
    v = u + _HALF_LOG[0]
    rest = inverse * polynomial(inverse * inverse, _STIRLING) + _HALF_LOG[1]
    p_low = ((u - v) + _HALF_LOG[0]) + (p_low + rest)
    e = exp_of_pair(negative.pick(v * -0.5, v), negative.pick(p_low * -0.5, p_low))
    above = far.pick(e, near)
    below = far.pick((e * mirror) * e, near * mirror)
    below = sine.eq(0.0).pick(math.nan, below)
    found = negative.pick(below, above)
    return a.eq(0.0).pick(a.full(math.inf).copysign(wide), found).to(x.scalar)


def lgamma(x: Num) -> Num:
    """log(abs(gamma(x))).

    At most 0.51 ulp in float32, 3.3 in float64, for positive arguments.
    """
    wide = x.to(f64)
    a = abs(wide)
    small, far = a < 1.0, a >= _FAR
    y, product = _down(a.smaller(_FAR), 2.5)
    over1, over2 = small.pick(a, y - 1.0), small.pick(a - 1.0, y - 2.0)  # exact
    inner = over1 * over2 * estrin(over1 - 0.75, _LGAMMA)
    logs = log((small | far).pick(a, product))
    inverse = 1.0 / a
    series = inverse * polynomial(inverse * inverse, _STIRLING)
    outer = (a - 0.5) * (logs - 1.0) + (series + 0.5 * math.log(2 * math.pi) - 0.5)
    found = far.pick(outer, inner + small.pick(-logs, logs))
    sine = abs(_sine(a - a.rint())) * (1 / math.pi)
    mirrored = -log(small.pick(sine, sine * a)) - small.pick(inner, found)
    mirrored = sine.eq(0.0).pick(math.inf, mirrored)  # a pole, also where ``found`` is infinite
    found = (wide < 0.0).pick(mirrored, found)
    return a.eq(math.inf).pick(a, found).to(x.scalar)


def _stepped(a: Num, power: int) -> tuple[Num, Num]:
    """y >= 8 and the sum of (a + k) ** -power over the steps k from a to y."""
    near = a < _FAR
    b = near.pick(a, 1.0)
    above, below = a.full(1.0), b if power == 1 else b * b
    for k in range(1, int(_FAR)):
        step = b + float(k)
        step = step if power == 1 else step * step
        above, below = above.mad(step, below), below * step
    return near.pick(a + _FAR, a), near.pick(above / below, 0.0)


def digamma(x: Num) -> Num:
    """The derivative of ``lgamma``.

    At most 0.51 ulp in float32, 8 in float64, for positive arguments.
    """
    wide = x.to(f64)
    a = abs(wide)
    y, steps = _stepped(a, 1)
    inverse = 1.0 / y
    square = inverse * inverse
    found = log(y) - (0.5 * inverse - square * polynomial(square, _SLOPE)) - steps
    above, below = a > 2.0, a < 1.0  # within a step of the table
    inside = (a > 3.0).pick(1.5, above.pick(a - 1.0, below.pick(a + 1.0, a)))
    near = ((inside - _ROOT) - _ROOT_LOW) * estrin(inside * 2.0 - 3.0, _DIGAMMA)
    near = near + (above | below).pick(1.0 / above.pick(inside, -a), 0.0)
    found = (a <= 3.0).pick(near, found)
    r = a - a.rint()
    cosine = _sine(0.5 - abs(r))
    mirrored = (math.pi * (cosine / _sine(r)) + 1.0 / a) + found
    mirrored = (a < _TINY).pick(1.0 / a, mirrored)  # of which both terms could be infinite
    mirrored = r.eq(0.0).pick(math.nan, mirrored)  # a pole, from above and below
    found = (wide < 0.0).pick(mirrored, found)
    return wide.eq(0.0).pick(wide.full(math.inf).copysign(-wide), found).to(x.scalar)


def trigamma(x: Num) -> Num:
    """The derivative of ``digamma``.

    At most 0.51 ulp in float32, 5 in float64, for positive arguments.
    """
    wide = x.to(f64)
    a = abs(wide)
    y, steps = _stepped(a, 2)
    inverse = 1.0 / y
    square = inverse * inverse
    found = inverse + (square * 0.5 + inverse * (square * polynomial(square, _BEND))) + steps
    of_sine = math.pi / _sine(a - a.rint())
    mirrored = of_sine * of_sine - (found - 1.0 / (a * a))
    mirrored = ((a < _TINY) | a.eq(math.inf)).pick(math.inf, mirrored)
    return (wide < 0.0).pick(mirrored, found).to(x.scalar)
