"""Complex numbers in nests: pairs of real expressions.

An expression of a nest is real. What a graph computes of complex numbers is computed of their
parts, so that ``z * w`` is four products and two sums, which fuse with what stands around them as
any others do. Arrays keep complex elements: a load is of the real part (``re``) or of the imaginary
one (``im``), and an output stores the expression ``complex(re, im)``, which no other one reads. The
product of r0 and r1:

    e0 = r0.re[i0]: float32
    e1 = r0.im[i0]: float32
    e2 = r1.re[i0]: float32
    e3 = r1.im[i0]: float32
    e4 = op multiply(e0, e2): float32
    e5 = op multiply(e1, e3): float32
    e6 = op subtract(e4, e5): float32
    ...
    w0[i0] = complex(e6, e9)

Infinities, NaN and zeros come out as the eager kernels give them: products are written out, as
PyTorch and NumPy do; quotients follow R. L. Smith, Algorithm 116, Comm. of the ACM 5, 1962.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fx.compiler import pair_functions
from fx.compiler.nest import Nest
from fx.compiler.real_terms import Parts, Real
from fx.dtypes import COMPLEX, bool_, real_of

PARTS = ("re", "im")  # how loads name them


class Pair(NamedTuple):
    """The parts of a complex number, expressions of a nest."""

    re: int
    im: int


def computed(nest: Nest, name: str, args: list[Any], dtype: Any, params: Mapping[str, Any]) -> Any:
    """What a primitive gives, where an argument or the result is complex: a Pair or an expression.

    Args:
        nest: takes the expressions.
        name: of the primitive, one of ``KNOWN``.
        args: expressions and Pairs.
        dtype: of the result.
        params: of the primitive.
    """
    terms = [
        (Real(nest, a.re), Real(nest, a.im)) if type(a) is Pair else Real(nest, a) for a in args
    ]
    found = KNOWN[name](*terms, **({"dtype": dtype} if name == "astype" else params))
    return Pair(found[0].e, found[1].e) if type(found) is tuple else found.e


def constant(nest: Nest, value: Any, dtype: Any) -> Pair:
    """A complex number."""
    real, value = real_of(dtype), complex(value)
    return Pair(nest.constant(value.real, real), nest.constant(value.imag, real))


def stored(nest: Nest, e: Any, dtype: Any) -> int:
    """What an output stores: of a Pair the expression that joins its parts."""
    return nest.op("complex", e, dtype) if type(e) is Pair else e


# the primitives ---------------------------------------------------------------------------------


def _each(name: str) -> Callable[..., Parts]:
    """The same of both parts."""

    def each(*terms: Parts) -> Parts:
        return tuple([parts[0](name, *parts[1:]) for parts in zip(*terms)])  # type: ignore[return-value]

    return each


def _either(name: str) -> Callable[[Parts], Real]:
    return lambda z: z[0](name, dtype=bool_) | z[1](name, dtype=bool_)


def truth(z: Parts | Real) -> Real:
    """Whether not zero."""
    if type(z) is tuple:
        return z[0].is_("not_equal", 0) | z[1].is_("not_equal", 0)
    return z if z.dtype == bool_ else z.is_("not_equal", 0)


def _logical(name: str) -> Callable[..., Real]:
    def logical(*terms: Parts) -> Real:
        first, *rest = [truth(z) for z in terms]
        return first(name, *rest)

    return logical


def _astype(z: Parts | Real, *, dtype: Any) -> Parts | Real:
    if type(z) is not tuple:
        x = z.cast(real_of(dtype))
        return x, x.like(0)
    if dtype in COMPLEX:
        return z[0].cast(real_of(dtype)), z[1].cast(real_of(dtype))
    return truth(z) if dtype == bool_ else z[0].cast(dtype)


def _part(z: Parts, *, turn: int) -> Real:
    return -z[turn & 1] if turn & 2 else z[turn & 1]


def _multiply(z: Parts, w: Parts) -> Parts:
    (a, b), (c, d) = z, w
    return a * c - b * d, a * d + b * c


def _divide(z: Parts, w: Parts) -> Parts:
    (a, b), (c, d) = z, w
    upright = abs(c).is_("greater_equal", abs(d))
    p, q = upright.pick(c, d), upright.pick(d, c)
    x, y = upright.pick(a, b), upright.pick(b, a)
    zero = upright & p.is_("equal", 0)
    ratio = q / zero.pick(p.like(1), p)
    scale = p.like(1) / zero.pick(abs(p), p + q * ratio)
    across = x * ratio
    real = x + y * ratio
    imaginary = upright.pick(y, across) - upright.pick(across, y)
    return zero.pick(a, real) * scale, zero.pick(b, imaginary) * scale


def _reciprocal(z: Parts) -> Parts:
    a, b = z
    upright = abs(b).is_("less_equal", abs(a))
    p, q = upright.pick(a, b), upright.pick(b, a)
    ratio = q / p
    size = p + q * ratio
    inverse, other = p.like(1) / size, ratio / size
    return upright.pick(inverse, other), -upright.pick(other, inverse)


def _square(z: Parts) -> Parts:
    a, b = z
    across = a * b
    return a * a - b * b, across + across


KNOWN: dict[str, Callable[..., Any]] = {
    **{name: _each(name) for name in ("add", "subtract", "negative", "round")},
    "conj": lambda z: (z[0], -z[1]),
    "part": _part,
    "multiply": _multiply,
    "divide": _divide,
    "reciprocal": _reciprocal,
    "square": _square,
    **{name: getattr(pair_functions, name) for name in pair_functions.NAMES},
    "rsqrt": lambda z: _reciprocal(pair_functions.sqrt(z)),
    "abs": lambda z: z[0]("hypot", z[1]),
    "astype": _astype,
    "complex": lambda x, y: (x, y),
    "where": lambda test, z, w: (test.pick(z[0], w[0]), test.pick(z[1], w[1])),
    "equal": lambda z, w: z[0].is_("equal", w[0]) & z[1].is_("equal", w[1]),
    "not_equal": lambda z, w: z[0].is_("not_equal", w[0]) | z[1].is_("not_equal", w[1]),
    **{name: _logical(f"logical_{name[8:]}") for name in (
        "logical_and", "logical_or", "logical_xor", "logical_not"
    )},
    "isnan": _either("isnan"),
    "isinf": _either("isinf"),
    "isfinite": lambda z: z[0]("isfinite", dtype=bool_) & z[1]("isfinite", dtype=bool_),
}  # fmt: skip
