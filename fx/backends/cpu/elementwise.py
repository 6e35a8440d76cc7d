"""Elementwise kernels: NumPy's ufuncs, and the few functions that NumPy lacks."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from fx import limits
from fx.backends.cpu._arrays import copied, memory_order, transposed_back, zero_of
from fx.backends.cpu.creation import full
from fx.backends.cpu.formulas import Elements
from fx.backends.cpu.llvm import any_size
from fx.backends.cpu.many import of_formula, or_compiled
from fx.errors import DIVIDED_BY_0, DivisionError
from fx.primitive import registry


def _without(kinds: str, kernel: Any) -> Any:
    """A kernel that refuses dtypes which NumPy computes with and the spec rule does not take."""

    def one(x: np.ndarray) -> np.ndarray:
        if x.dtype.kind in kinds:
            raise TypeError(f"no kernel for {x.dtype}")
        return kernel(x)

    def two(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype.kind in kinds:
            raise TypeError(f"no kernel for {x.dtype}")
        return kernel(x, y)

    arity = getattr(kernel, "nin", None) or kernel.__code__.co_argcount
    return one if arity == 1 else two


def _of_numbers(name: str) -> Any:
    """The same of what is no bool: NumPy has loops for those."""
    usual, compiled = getattr(np, name), or_compiled(name)

    def two(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (usual if x.dtype.kind == "b" else compiled)(x, y)  # type: ignore[no-any-return]

    return two


def divisor(y: np.ndarray) -> np.ndarray:
    """y, integers among which there is no 0.

    Raises DivisionError where there is one.
    """
    if y.dtype.kind not in "iu":
        raise TypeError(f"no kernel for {y.dtype}")
    if not (y.all() if y.ndim else y):
        raise DivisionError(DIVIDED_BY_0)
    return y


def _divided(ufunc: Any) -> Any:
    """A kernel that refuses bools, and integers that are divided by 0."""

    def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        kind = x.dtype.kind
        if kind == "b":
            raise TypeError(f"no kernel for {x.dtype}")
        if kind in "iu" and x.size:
            divisor(y)
        return ufunc(x, y)

    return kernel


add, subtract, multiply, divide = np.add, np.subtract, np.multiply, np.divide
floor_divide, remainder, fmod = [
    _divided(or_compiled(name)) for name in ("floor_divide", "remainder", "fmod")
]
maximum, minimum = _without("c", np.maximum), _without("c", np.minimum)
hypot = or_compiled("hypot")
logaddexp, copysign, nextafter = map(or_compiled, ("logaddexp", "copysign", "nextafter"))
negative, abs, sign, sqrt = np.negative, np.abs, or_compiled("sign"), np.sqrt
square = _without("b", np.square)
exp, exp2, expm1, log, log2, log10, log1p = (
    np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p
)  # fmt: skip
sin, cos, tan, arcsin, arccos, arctan = np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan
sinh, cosh, tanh, arcsinh, arccosh, arctanh = (
    np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh
)  # fmt: skip
arctan2, reciprocal = np.arctan2, or_compiled("reciprocal")
equal, not_equal = np.equal, np.not_equal
less, less_equal, greater, greater_equal = (
    _without("c", f) for f in (np.less, np.less_equal, np.greater, np.greater_equal)
)
logical_and, logical_or, logical_xor = [
    _of_numbers(name) for name in ("logical_and", "logical_or", "logical_xor")
]
logical_not, isnan, isinf, isfinite, signbit = (
    np.logical_not, np.isnan, np.isinf, np.isfinite, np.signbit
)  # fmt: skip
bitwise_and, bitwise_or, bitwise_xor = np.bitwise_and, np.bitwise_or, np.bitwise_xor
bitwise_not = np.invert
left_shift, right_shift = _without("b", np.left_shift), _without("b", np.right_shift)
conj = np.conjugate


def stop_gradient(x: np.ndarray) -> np.ndarray:
    """x itself."""
    return x


def elementary(x: np.ndarray, *, function: str) -> np.ndarray:
    """A ufunc of NumPy's by name."""
    return getattr(np, function)(x)  # type: ignore[no-any-return]


def part(x: np.ndarray, *, turn: int) -> np.ndarray:
    """The real part of x * (-i)^turn."""
    out = x.imag if turn & 1 else x.real
    return -out if turn & 2 else out


def complex(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + i y."""
    if x.dtype.itemsize < 4:
        raise TypeError(f"there are no complex numbers of parts in {x.dtype.name}")
    shape = np.broadcast_shapes(x.shape, y.shape)
    out = np.empty(shape, np.complex128 if x.dtype == np.float64 else np.complex64)
    out.real, out.imag = x, y
    return out


def _wider(x: Any) -> Any:
    """float32 as float64, in which a product of few is rounded but once to it."""
    return registry["astype"](x, dtype=np.dtype(np.float64))


def _cube(x: Any) -> Any:
    wide = _wider(x)
    return registry["astype"](wide * wide * wide, dtype=x.dtype)


_power = of_formula("power", 2)
_POWERS = {  # by the exponent
    number: Elements(f"power of {number}", formula).of(1)
    for number, formula in (
        (3.0, _cube), (-1.0, lambda x: 1.0 / x), (-2.0, lambda x: x**-2.0),
        (0.5, lambda x: x**0.5), (-0.5, lambda x: x**-0.5),
    )
}  # fmt: skip


def _ones(x: np.ndarray) -> np.ndarray:
    if not x.flags.c_contiguous:
        return np.ones_like(x)
    return full(shape=x.shape, value=1, dtype=x.dtype, device="cpu")


@partial(_without, "b")
def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x to the power y. ValueError for an integer to a negative power."""
    number = y.item() if y.size == 1 and y.ndim <= x.ndim else None
    if number in (0, 1, 2) and x.dtype.kind != "c":
        return np.square(x) if number == 2 else x.copy("K") if number else _ones(x)
    if x.dtype.kind == "f":
        compiled = _POWERS.get(number)
        if compiled is not None:
            found = compiled(x)
            if found is not None:
                return found
        if y.size == 1 and y.item() == 0.5:
            # NumPy takes the square root, which is another number at -inf and at -0.0
            return np.sqrt(np.where(x == -np.inf, -x, x) + y.dtype.type(0.0))
        # NumPy is quick where bases are positive, and takes 60 ns for a negative one
        if number is None or number.is_integer():
            found = _power(x, y)
            if found is not None:
                return found
    try:
        return np.power(x, y)
    except ValueError:
        raise ValueError(
            f"power: {x.dtype} to a negative power is no integer; write x.astype(fx.float32) ** y"
        ) from None


_ROUNDING_KEEPS = "biu"  # rounding an integer gives the integer itself


def _rounding(ufunc: Any) -> Any:
    def kernel(x: np.ndarray) -> np.ndarray:
        return x.copy() if x.dtype.kind in _ROUNDING_KEEPS else ufunc(x)

    return kernel


floor, ceil, trunc, round = map(_rounding, (np.floor, np.ceil, np.trunc, np.rint))


_rsqrt = of_formula("rsqrt")


def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)."""
    found = _rsqrt(x) if x.size >= limits.WHERE_FROM else None
    return np.reciprocal(np.sqrt(x)) if found is None else found


_relu = of_formula("relu")


@partial(_without, "bc")
def relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0); nan stays nan."""
    wide = x.dtype.itemsize > 2  # of 16 bits NumPy's zeros keep their signs
    found = _relu(x) if wide and x.size >= limits.WHERE_FROM else None
    return np.maximum(x, zero_of(x.dtype)) if found is None else found


def relu_into(x: np.ndarray, out: np.ndarray) -> None:
    """``relu`` of floats, into another array or the same."""
    np.maximum(x, zero_of(x.dtype), out=out)


_sigmoid = of_formula("sigmoid")


@partial(_without, "c")
def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without overflow, and precise in both tails."""
    found = _sigmoid(x)
    if found is not None:
        return found
    small = np.exp(-np.abs(x))
    one = x.dtype.type(1)
    return np.where(x >= 0, one, small) / (one + small)


_softplus = of_formula("softplus")


@partial(_without, "c")
def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + exp(x)) without overflow."""
    found = _softplus(x)
    if found is not None:
        return found
    return np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x)))


_where = of_formula("where", 3)


def where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> Any:
    """x where the condition holds, y elsewhere."""
    if condition.size >= limits.WHERE_FROM:
        found = _where(condition, x, y)
        if found is not None:
            return found
    if condition.shape and condition.flags.c_contiguous:
        return np.where(condition, x, y)
    full = [a for a in (condition, x, y) if a.shape]
    axes = memory_order(full) if full and not full[0].flags.c_contiguous else None
    if axes is None:
        return np.where(condition, x, y)
    turned = [a.transpose(axes) if a.shape else a for a in (condition, x, y)]
    return transposed_back(np.where(*turned), axes)


def astype(x: np.ndarray, *, dtype: Any) -> np.ndarray:
    """Convert; a complex loses its imaginary part without a warning, but to bool it is not 0."""
    silent = _SILENT.get((x.dtype, dtype))
    if silent is None:
        silent = _SILENT[x.dtype, dtype] = _is_silent(x.dtype, dtype)
    to = _HALF_CASTS.get((x.dtype, dtype))
    if to is not None and x.size >= limits.CASTS_FROM and any_size.available():
        return _cast_half(x, *to)
    if silent:
        if not x.flags.c_contiguous:
            if x.dtype is dtype and x.size >= limits.WHERE_FROM and min(x.strides) < 0:
                found = _forwards(x)
                if found is not None:
                    return found
            if 0 in x.strides:  # "K" would put what is repeated last
                return x.astype(dtype, "C")
            if x.dtype is dtype and sorted(x.strides, reverse=True) == list(x.strides):
                return copied(x)
        return x.astype(dtype)
    if x.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
        x = x.real
    return x.astype(dtype)


_HALVES = {np.dtype(np.float16): "float16", np.dtype(ml_dtypes.bfloat16): "bfloat16"}
_WIDE = np.dtype(np.float32)
# (kernel, dtype of 16 bits, an array of what is made)
_HALF_CASTS = {
    **{(h, _WIDE): ("widen", name, np.zeros(1, np.float32)) for h, name in _HALVES.items()},
    **{(_WIDE, h): ("narrow", name, np.zeros(1, h)) for h, name in _HALVES.items()},
}


def _cast_half(x: np.ndarray, kernel: str, name: str, like: np.ndarray) -> np.ndarray:
    flags = x.flags
    if not (flags.c_contiguous and flags.aligned):
        x = x.copy("C")
    out = any_size.empty([like, *x.shape])
    n, block = x.size, limits.FUSED_BLOCK
    tasks = -(-n // block)
    any_size.kernel("casts", kernel, name)(
        [tasks, any_size.chunk_of(tasks, 0.1 * min(n, block)), x, out, n]
    )
    return out


def _forwards(x: np.ndarray) -> np.ndarray | None:
    """A copy of an array whose last axes, as they lie, run backwards in what is dense otherwise."""
    steps = x.strides
    order = sorted(range(x.ndim), key=lambda i: min(steps[i], -steps[i]))
    if order != sorted(order):
        turned = _forwards(x.transpose(order))
        return None if turned is None else transposed_back(turned, tuple(order))
    back = x.ndim
    while back and steps[back - 1] < 0:
        back -= 1
    dense = x[(..., *[slice(None, None, -1)] * (x.ndim - back))]
    n = prod(x.shape[back:])
    if not (dense.flags.c_contiguous and dense.flags.aligned and n > limits.ROW_SHORT):
        return None
    if x.dtype.char not in "fd" or not any_size.available():
        return None
    blocks = -(-n // limits.FUSED_BLOCK)
    tasks = x.size // n * blocks
    out = any_size.empty([x, *x.shape])
    any_size.kernel("turned", "backwards", x.dtype.name)(
        [tasks, any_size.chunk_of(tasks, 0.1 * min(n, limits.FUSED_BLOCK)), dense, out, n, blocks]
    )
    return out


def _is_silent(source: Any, target: Any) -> bool:
    """Whether a cast tells of nothing: to what holds every value, and of integers among them."""
    if source.kind in "biu" and (target.kind in "biu" or target in (np.float32, np.float64)):
        return True
    return bool(np.can_cast(source, target)) or (target.kind == "b" and source.kind == "f")


_SILENT: dict[tuple[Any, Any], bool] = {}  # whether a cast warns of nothing, as it is met
