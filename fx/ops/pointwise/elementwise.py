"""Elementwise functions of one and of two operands, each a row of a table.

The standard's name comes first, PyTorch's and JAX's follow as aliases. On plain floating tensors a
function of one operand is one Python call above its primitive, and one of two operands is the
operator's own path.

Source: Python Array API standard 2024.12, "Element-wise functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx.prims.compare as compare
import fx.prims.complex as complex_prims
import fx.prims.elementwise as prims
import fx.prims.special as special
from fx.config import modes, writing
from fx.dtypes import COMPLEX
from fx.ops.operands import argument, floating, known_scalar, operands, public, same_view, viewed
from fx.primitive import Primitive, bind_two
from fx.prims.creation import full
from fx.quick import quick
from fx.tensor import Tensor

__test__: dict[str, str] = {}  # doctest finds the examples of functions made elsewhere here

_UNARY_DOC = """{sentence}

    Args:
        x: a tensor of any shape{dtypes}.

    Raises:
        DTypeError: if ``x`` is no tensor, array or Python scalar.

    Example:
        >>> import fx
        >>> fx.{name}(fx.tensor({value}))
        tensor({result})
    """

_BINARY_DOC = """{sentence}

    Args:
        x, other: tensors of shapes that broadcast, promoted to a common {kind}dtype; one of them
            may be a Python scalar.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError: if the dtypes have no common one.

    Example:
        >>> import fx
        >>> fx.{name}(fx.tensor({left}), {right})
        tensor({result})
    """


def _named(function: Callable[..., Tensor], name: str, doc: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = doc
    return function


def _float(
    name: str, prim: Primitive, sentence: str, value: str, result: str, of_complex: Any = None
) -> Any:
    """A function of one operand with a floating result; ``of_complex`` is the same in others."""

    fast = quick(prim)

    def function(x: Any, /) -> Tensor:
        if type(x) is Tensor and x._a.dtype.kind == "f":
            return fast(x)  # type: ignore[no-any-return]
        x = floating(name, x)
        if of_complex is not None and x._dtype in COMPLEX:
            return of_complex(x)  # type: ignore[no-any-return]
        return fast(x)  # type: ignore[no-any-return]

    kinds = "; integers and bool become the default floating dtype"
    fields = {"sentence": sentence, "name": name, "value": value, "result": result}
    return _named(function, name, _UNARY_DOC.format(dtypes=kinds, **fields))


def _any(name: str, prim: Primitive, sentence: str, value: str, result: str) -> Any:
    """A function of one operand that takes every dtype as it is."""

    fast = quick(prim)

    def function(x: Any, /) -> Tensor:
        return fast(x if type(x) is Tensor else argument(name, x))  # type: ignore[no-any-return]

    fields = {"sentence": sentence, "name": name, "value": value, "result": result}
    return _named(function, name, _UNARY_DOC.format(dtypes=" and dtype", **fields))


def _two(
    name: str,
    prim: Primitive,
    sentence: str,
    example: tuple[str, str, str],
    float_only: bool = False,
) -> Any:
    """A function of two operands."""

    def otherwise(x: Any, other: Any) -> Tensor:
        known = known_scalar(x, other, float_only)
        if known is not None:
            return fast(x, known)
        return prim(*operands(name, x, other, float_only))

    function = fast = bind_two(prim, otherwise)
    if float_only:

        def function(x: Any, other: Any) -> Tensor:
            if type(x) is Tensor and x._a.dtype.kind == "f":
                return fast(x, other)
            return otherwise(x, other)

    kind = "floating " if float_only else ""
    fields = {"sentence": sentence, "name": name, "kind": kind}
    left, right, result = example
    doc = _BINARY_DOC.format(left=left, right=right, result=result, **fields)
    if not float_only:
        __test__[name] = doc
    return _named(function, name, doc)


# fmt: off
# exponentials and logarithms --------------------------------------------------------------------
exp = _float("exp", prims.exp, "e to the power x.", "0.0", "1.")
exp2 = _float("exp2", prims.exp2, "2 to the power x.", "3.0", "8.")
expm1 = _float("expm1", prims.expm1, "exp(x) - 1, exact near 0.", "0.0", "0.")
log = _float("log", prims.log, "The natural logarithm.", "1.0", "0.")
log2 = _float("log2", prims.log2, "The logarithm to base 2.", "8.0", "3.")
log10 = _float("log10", prims.log10, "The logarithm to base 10.", "1.0", "0.")
log1p = _float("log1p", prims.log1p, "log(1 + x), exact near 0.", "0.0", "0.")

# roots and powers -------------------------------------------------------------------------------
sqrt = _float("sqrt", prims.sqrt, "The square root.", "4.0", "2.")
rsqrt = _float("rsqrt", prims.rsqrt, "1 / sqrt(x).", "4.0", "0.5000")
reciprocal = _float("reciprocal", prims.reciprocal, "1 / x.", "2.0", "0.5000")
square = _any("square", prims.square, "x * x.", "[1, 2, 3]", "[1, 4, 9]")

# trigonometry -----------------------------------------------------------------------------------
sin = _float("sin", prims.sin, "The sine of x in radians.", "0.0", "0.")
cos = _float("cos", prims.cos, "The cosine of x in radians.", "0.0", "1.")
tan = _float("tan", prims.tan, "The tangent of x in radians.", "0.0", "0.")
asin = arcsin = _float(
    "asin", prims.arcsin, "The inverse sine in radians, in [-pi/2, pi/2].", "0.0", "0.")
acos = arccos = _float(
    "acos", prims.arccos, "The inverse cosine in radians, in [0, pi].", "1.0", "0.")
atan = arctan = _float(
    "atan", prims.arctan, "The inverse tangent in radians, in [-pi/2, pi/2].", "0.0", "0.")
sinh = _float("sinh", prims.sinh, "The hyperbolic sine.", "0.0", "0.")
cosh = _float("cosh", prims.cosh, "The hyperbolic cosine.", "0.0", "1.")
tanh = _float("tanh", prims.tanh, "The hyperbolic tangent.", "0.0", "0.")
asinh = arcsinh = _float(
    "asinh", prims.arcsinh, "The inverse hyperbolic sine.", "0.0", "0.")
acosh = arccosh = _float(
    "acosh", prims.arccosh, "The inverse hyperbolic cosine; NaN below 1.", "1.0", "0.")
atanh = arctanh = _float(
    "atanh", prims.arctanh, "The inverse hyperbolic tangent; NaN outside [-1, 1].", "0.0", "0.")

# special functions ------------------------------------------------------------------------------
sigmoid = _float(
    "sigmoid", prims.sigmoid, "1 / (1 + exp(-x)), of floats without overflow.", "0.0", "0.5000",
    lambda x: 1.0 / (1.0 + exp(-x)))
erf = _float("erf", special.erf, "The error function.", "0.0", "0.")
erfc = _float("erfc", special.erfc, "1 - erf(x), exact where erf(x) is near 1.", "0.0", "1.")
erfinv = _float("erfinv", special.erfinv, "The inverse of erf on (-1, 1).", "0.0", "0.")
lgamma = _float("lgamma", special.lgamma, "log |gamma(x)|.", "1.0", "0.")
digamma = _float(
    "digamma", special.digamma, "The derivative of lgamma.", "1.0", "-0.5772")

# sign and rounding ------------------------------------------------------------------------------
abs = absolute = _any("abs", prims.abs, "The magnitude, real for complex x.", "[-2, 3]", "[2, 3]")
negative = neg = _any("negative", prims.negative, "-x.", "[1, -2]", "[-1,  2]")
sign = _any(
    "sign", prims.sign, "-1, 0 or 1 by the sign; NaN stays NaN.", "[-3, 0, 2]", "[-1,  0,  1]")
ceil = _any("ceil", prims.ceil, "The smallest integer not below x.", "[0.5, -0.5]", "[1., -0.]")
floor = _any("floor", prims.floor, "The largest integer not above x.", "[0.5, -0.5]", "[ 0., -1.]")
trunc = fix = _any("trunc", prims.trunc, "The integer towards 0.", "[1.5, -1.5]", "[ 1., -1.]")

# complex numbers --------------------------------------------------------------------------------
def conj(x: Any, /) -> Tensor:
    """The complex conjugate; a real tensor stays itself.

    Example:
        >>> import fx
        >>> fx.conj(fx.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    x = viewed("conj", x)
    if x.dtype.kind != "c":
        return x if type(x) is Tensor or x.written or modes.views else same_view(x)
    out = complex_prims.conj(x)
    if writing.elsewhere is not None and type(x) is Tensor:  # in PyTorch it is a view
        return writing.elsewhere(x, out, complex_prims.conj, {})  # type: ignore[no-any-return]
    return out  # type: ignore[no-any-return]


def real(x: Any, /) -> Tensor:
    """The real part; a real tensor stays itself.

    Example:
        >>> import fx
        >>> fx.real(fx.tensor([1 + 2j]))
        tensor([1.])
    """
    x = viewed("real", x)
    if x.dtype.kind == "c":
        return complex_prims.part(x, turn=0)  # type: ignore[no-any-return]
    return x if type(x) is Tensor or x.written or modes.views else same_view(x)


def imag(x: Any, /) -> Tensor:
    """The imaginary part; zeros of a real tensor.

    Example:
        >>> import fx
        >>> fx.imag(fx.tensor([1 + 2j]))
        tensor([2.])
    """
    x = viewed("imag", x)
    if x.dtype.kind == "c":
        return complex_prims.part(x, turn=1)
    return full(shape=x._shape, value=0, dtype=x._dtype, device=x.device.name)


# predicates -------------------------------------------------------------------------------------
isnan = _any("isnan", compare.isnan, "Whether x is NaN.", "[1.0, float('nan')]", "[False,  True]")
isinf = _any(
    "isinf", compare.isinf, "Whether x is infinite.", "[1.0, float('inf')]", "[False,  True]")
isfinite = _any(
    "isfinite", compare.isfinite, "Whether x is neither infinite nor NaN.",
    "[1.0, float('inf')]", "[ True, False]")
signbit = _any(
    "signbit", compare.signbit, "Whether the sign bit is set, as it is in -0.0.",
    "[1.0, -0.0]", "[False,  True]")
logical_not = _any(
    "logical_not", compare.logical_not, "Whether x is 0 (or False).",
    "[True, False]", "[False,  True]")
bitwise_invert = bitwise_not = _any(
    "bitwise_invert", compare.bitwise_not, "Every bit of an integer turned over; not of a bool.",
    "[0, 5]", "[-1, -6]")

# arithmetic of two operands ---------------------------------------------------------------------
add = _two("add", prims.add, "x + other.", ("[1, 2]", "3", "[4, 5]"))
subtract = sub = _two("subtract", prims.subtract, "x - other.", ("[1, 2]", "3", "[-2, -1]"))
multiply = mul = _two("multiply", prims.multiply, "x * other.", ("[1, 2]", "3", "[3, 6]"))
divide = true_divide = _two(
    "divide", prims.divide, "x / other.", ("[1, 2]", "2", "[0.5000, 1.0000]"), float_only=True)
floor_divide = _two(
    "floor_divide", prims.floor_divide, "x / other rounded down.", ("[-3, 3]", "2", "[-2,  1]"))
remainder = _two(
    "remainder", prims.remainder, "The remainder of floor_divide, with the sign of other.",
    ("[-3, 3]", "2", "[1, 1]"))
fmod = _two(
    "fmod", prims.fmod, "The remainder of division towards 0, with the sign of x.",
    ("[-3, 3]", "2", "[-1,  1]"))
pow = power = _two("pow", prims.power, "x to the power other.", ("[1, 2, 3]", "2", "[1, 4, 9]"))
maximum = _two("maximum", prims.maximum, "The larger operand; NaN wins.", ("[1, 5]", "3", "[3, 5]"))
minimum = _two(
    "minimum", prims.minimum, "The smaller operand; NaN wins.", ("[1, 5]", "3", "[1, 3]"))
atan2 = arctan2 = _two(
    "atan2", prims.arctan2, "The angle of the point (other, x), in [-pi, pi].",
    ("[0.0, 0.0]", "1.0", "[0., 0.]"), float_only=True)
hypot = _two(
    "hypot", prims.hypot, "sqrt(x^2 + other^2), without overflow.",
    ("[3.0]", "4.0", "[5.]"), float_only=True)
logaddexp = _two(
    "logaddexp", prims.logaddexp, "log(exp(x) + exp(other)), without overflow.",
    ("[0.0]", "-float('inf')", "[0.]"), float_only=True)
copysign = _two(
    "copysign", prims.copysign, "The magnitude of x with the sign of other.",
    ("[1.0, -2.0]", "-1.0", "[-1., -2.]"), float_only=True)
nextafter = _two(
    "nextafter", prims.nextafter, "The floating number next to x towards other.",
    ("[1.0]", "1.0", "[1.]"), float_only=True)

# relations --------------------------------------------------------------------------------------
equal = eq = _two("equal", compare.equal, "x == other.", ("[1, 2]", "2", "[False,  True]"))
not_equal = ne = _two(
    "not_equal", compare.not_equal, "x != other.", ("[1, 2]", "2", "[ True, False]"))
less = lt = _two("less", compare.less, "x < other.", ("[1, 2]", "2", "[ True, False]"))
less_equal = le = _two(
    "less_equal", compare.less_equal, "x <= other.", ("[1, 3]", "2", "[ True, False]"))
greater = gt = _two("greater", compare.greater, "x > other.", ("[1, 3]", "2", "[False,  True]"))
greater_equal = ge = _two(
    "greater_equal", compare.greater_equal, "x >= other.", ("[1, 2]", "2", "[False,  True]"))

# logic and bits ---------------------------------------------------------------------------------
logical_and = _two(
    "logical_and", compare.logical_and, "Whether both are not 0.",
    ("[True, False]", "True", "[ True, False]"))
logical_or = _two(
    "logical_or", compare.logical_or, "Whether one is not 0.",
    ("[True, False]", "True", "[True, True]"))
logical_xor = _two(
    "logical_xor", compare.logical_xor, "Whether exactly one is not 0.",
    ("[True, False]", "True", "[False,  True]"))
bitwise_and = _two("bitwise_and", compare.bitwise_and, "x & other.", ("[5, 6]", "3", "[1, 2]"))
bitwise_or = _two("bitwise_or", compare.bitwise_or, "x | other.", ("[5, 6]", "3", "[7, 7]"))
bitwise_xor = _two("bitwise_xor", compare.bitwise_xor, "x ^ other.", ("[5, 6]", "3", "[6, 5]"))
bitwise_left_shift = _two(
    "bitwise_left_shift", compare.left_shift, "x << other.", ("[1, 2]", "3", "[ 8, 16]"))
bitwise_right_shift = _two(
    "bitwise_right_shift", compare.right_shift, "x >> other.", ("[8, 16]", "3", "[1, 2]"))
# fmt: on


def positive(x: Any, /) -> Tensor:
    """+x: the same tensor.

    Example:
        >>> import fx
        >>> fx.positive(fx.tensor(2.0))
        tensor(2.)
    """
    return argument("positive", x)


def round(x: Any, /, decimals: int = 0) -> Tensor:
    """The nearest integer, or number with so many decimals; halves go to the even neighbour.

    Args:
        x: a tensor of any shape; integers stay as they are.
        decimals: digits kept after the point; negative ones round tens, hundreds …

    Example:
        >>> import fx
        >>> fx.round(fx.tensor([0.5, 1.5, 2.6]))
        tensor([0., 2., 3.])
    """
    x = argument("round", x)
    if not decimals or x._dtype.kind in "biu":
        return prims.round(x)
    scale = 10.0 ** max(decimals, -decimals)
    if decimals > 0:
        return prims.round(x * scale) / scale
    return prims.round(x / scale) * scale


__all__ = public(globals())
