"""Elementwise functions made of several primitives: limits, interpolation, closeness."""

from __future__ import annotations

from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.elementwise as prims
import fx.prims.reduction as reduction
import fx.prims.special as special
from fx._namespace import finfo
from fx.dtypes import COMPLEX, FLOATING
from fx.ops.operands import argument, cast, floating, operands, own, partner, promoted, public
from fx.prims.creation import constant_like
from fx.prims.families import unbroadcast
from fx.prims.fused import elements, fuse, of_reference
from fx.quick import quick
from fx.tensor import Tensor


def clip(
    x: Any, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None
) -> Tensor:
    """The elements, brought to the nearest of two limits where they lie outside.

    Args:
        x: a tensor of any shape.
        min, max: numbers or tensors that broadcast with ``x``, or None for no limit.
        a_min, a_max: NumPy's words for them.

    Returns:
        a tensor of the promoted dtype. At a limit the gradient is that of ``x``; NaN stays NaN.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import fx
        >>> fx.clip(fx.tensor([-2, 0, 5]), 0, 3)
        tensor([0, 0, 3])
    """
    x = argument("clip", x)
    low = high = None
    if a_min is not None or a_max is not None:
        min, max = a_min if min is None else min, a_max if max is None else max
    if min is not None:
        x, low = operands("clip", x, min)
    if max is not None:
        x, high = operands("clip", x, max)
    if low is None:
        return x if high is None else _at_most(x, high)  # type: ignore[no-any-return]
    low = cast(low, x._dtype)
    return _at_least(x, low) if high is None else _between(x, low, high)  # type: ignore[no-any-return]


clamp = clip


def _limited(x: Tensor, limit: Tensor, choose: Any, inside: Any) -> Tensor:
    if type(x) is type(limit) is Tensor and x._node is limit._node is None:
        return choose(x, limit)  # type: ignore[no-any-return]
    if x._dtype not in FLOATING:
        return compare.where(inside(x, limit), x, limit)
    beside = compare.where(inside(limit, x), limit, constant_like(float("nan"), x))
    return compare.where(inside(x, limit), x, beside)  # a tie is no half; a NaN has no slope


_Side = tuple[Any, Any]  # what chooses between element and limit, and what says which it was
_LOW: _Side = (prims.maximum, compare.greater_equal)
_HIGH: _Side = (prims.minimum, compare.less_equal)


def _limits(name: str, *sides: _Side) -> Any:
    """A fused primitive of x and a limit for each side."""

    def in_steps(x: Tensor, *ends: Tensor) -> Tensor:
        for limit, side in zip(ends, sides, strict=True):
            x = _limited(x, limit, *side)
        return x

    kernels = [choose.cpu_of_many or choose.cpu for choose, _ in sides]
    at_once = elements(name, lambda x, low, high: in_steps(x, low, high)).cpu

    def kernel(x: np.ndarray, *ends: np.ndarray) -> Any:
        if len(ends) > 1:
            found = at_once(x, *ends)
            if found is not None:
                return found
        try:
            for limit, choose in zip(ends, kernels):
                x = choose(x, limit)
        except (TypeError, ValueError):  # the reference says what is wrong
            return None
        return x

    kernel.into = at_once.into  # type: ignore[attr-defined]
    back = of_reference(in_steps)

    def vjp(needs: Any, x: Tensor, *ends: Tensor) -> Any:
        if needs[1:].count(None) != len(ends):
            return back(needs, x, *ends)

        def pullback(ct: Tensor) -> Any:
            inside: Any = None
            for limit, (_, within) in zip(ends, sides):
                mask = within(x, limit)
                inside = mask if inside is None else compare.logical_and(inside, mask)
            own = compare.where(inside, ct, constant_like(0, ct))
            return unbroadcast(own, x._shape), *[None] * len(ends)

        return pullback

    return fuse(name, cpu=kernel, reference=in_steps, vjp=vjp, torch_name="Clamp")


_at_least, _at_most = [
    quick(_limits(name, side), tensors=2) for name, side in (("at_least", _LOW), ("at_most", _HIGH))
]
# functions of three tensors that have a kernel of their own, which also writes in place
AT_ONCE = {"clamp": _limits("between", _LOW, _HIGH)}
_between = quick(AT_ONCE["clamp"], tensors=3)


def lerp(start: Any, end: Any, weight: Any) -> Tensor:
    """start + weight * (end - start), from the nearer side: for a weight of 1 it is ``end``.

    Example:
        >>> import fx
        >>> fx.lerp(fx.tensor([0.0, 10.0]), fx.tensor([10.0, 20.0]), 0.5)
        tensor([ 5., 15.])
    """
    start, end = operands("lerp", start, end)
    if type(weight) is float and start._dtype in FLOATING:
        return _lerp(start, end, partner("lerp", "weight", weight, start))  # type: ignore[no-any-return]
    return _lerp(*promoted("lerp", start, end, weight))  # type: ignore[no-any-return]


def _between_both(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    step = end - start
    near = prims.abs(weight) < 0.5
    return compare.where(near, start + weight * step, end - step * (1 - weight))


AT_ONCE["lerp"] = elements("lerp", _between_both, torch_name="Lerp")
_lerp = quick(AT_ONCE["lerp"], tensors=3)


def addcmul(x: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """x + value * tensor1 * tensor2.

    Example:
        >>> import fx
        >>> fx.addcmul(fx.ones(2), fx.ones(2), fx.ones(2), value=0.5)
        tensor([1.5000, 1.5000])
    """
    x, a, b = promoted("addcmul", x, tensor1, tensor2)
    return _addcmul(x, a, b, value)  # type: ignore[no-any-return]


def _addcmul_vjp(needs: Any, x: Tensor, a: Tensor, b: Tensor, *, value: Any) -> Any:
    def pullback(ct: Tensor) -> Any:
        scaled = ct if value == 1 else ct * value
        return _summed(needs, (x, a, b), (lambda: ct, lambda: scaled * b, lambda: scaled * a))

    return pullback


def _summed(needs: Any, primals: Any, cotangents: Any) -> Any:
    """Those cotangents that are wanted, each in the shape of its argument."""
    return tuple([
        None if need is None else unbroadcast(of(), x._shape)
        for need, x, of in zip(needs, primals, cotangents, strict=True)
    ])  # fmt: skip


AT_ONCE["addcmul"] = elements(
    "addcmul", lambda x, a, b, *, value: x + a * b * value, ["value"], vjp=_addcmul_vjp,
    torch_name="Addcmul",
)  # fmt: skip
_addcmul = quick(AT_ONCE["addcmul"], "value", tensors=3)


def addcdiv(x: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """x + value * tensor1 / tensor2.

    Example:
        >>> import fx
        >>> fx.addcdiv(fx.ones(2), fx.ones(2), fx.ones(2), value=0.5)
        tensor([1.5000, 1.5000])
    """
    x, a, b = promoted("addcdiv", x, tensor1, tensor2)
    return _addcdiv(x, a, b, value)  # type: ignore[no-any-return]


def _addcdiv_vjp(needs: Any, x: Tensor, a: Tensor, b: Tensor, *, value: Any) -> Any:
    def pullback(ct: Tensor) -> Any:
        scaled = (ct if value == 1 else ct * value) / b
        return _summed(needs, (x, a, b), (lambda: ct, lambda: scaled, lambda: -scaled * (a / b)))

    return pullback


AT_ONCE["addcdiv"] = elements(
    "addcdiv", lambda x, a, b, *, value: x + a / b * value, ["value"], vjp=_addcdiv_vjp,
    torch_name="Addcdiv",
)  # fmt: skip
_addcdiv = quick(AT_ONCE["addcdiv"], "value", tensors=3)


def div(x: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """x / other, perhaps rounded.

    Args:
        x, other: tensors or scalars, promoted.
        rounding_mode: None for the quotient itself, ``"floor"`` to round it down, ``"trunc"`` to
            round it towards 0; then integers stay integers.

    Raises:
        ValueError: for another ``rounding_mode``.

    Example:
        >>> import fx
        >>> fx.div(fx.tensor([-3, 3]), 2, rounding_mode="trunc")
        tensor([-1,  1])
    """
    if rounding_mode is None:
        return prims.divide(*operands("div", x, other, True))
    if isinstance(rounding_mode, str) and rounding_mode == "floor":
        return prims.floor_divide(*operands("div", x, other))
    if not isinstance(rounding_mode, str) or rounding_mode != "trunc":
        raise ValueError(
            f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}"
        )
    x, other = operands("div", x, other)
    if x.dtype in FLOATING:
        return prims.trunc(prims.divide(x, other))
    return prims.floor_divide(prims.subtract(x, prims.fmod(x, other)), other)


def nan_to_num(
    x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """The elements, with numbers for NaN and the infinities.

    Args:
        x: a tensor of any shape.
        nan: what stands for NaN.
        posinf, neginf: what stands for the infinities; the largest and the smallest number of the
            dtype for None.

    Example:
        >>> import fx
        >>> fx.nan_to_num(fx.tensor([1.0, float("nan")]), nan=2.0)
        tensor([1., 2.])
    """
    if isinstance(nan, bool):
        raise TypeError("nan_to_num: the argument after x is nan, a number; NumPy's copy= is not")
    x = argument("nan_to_num", x)
    if x._dtype.kind in "biu":
        return own(x)
    finite = finfo(x._dtype)
    high = finite.max if posinf is None else posinf
    low = finite.min if neginf is None else neginf
    return _finite(  # type: ignore[no-any-return]
        x,
        partner("nan_to_num", "nan", nan, x),
        partner("nan_to_num", "posinf", high, x),
        partner("nan_to_num", "neginf", low, x),
    )


def _replaced(x: Tensor, nan: Tensor, high: Tensor, low: Tensor) -> Tensor:
    infinity = constant_like(float("inf"), x)
    out = compare.where(compare.isnan(x), nan, x)
    out = compare.where(compare.equal(x, infinity), high, out)
    return compare.where(compare.equal(x, prims.negative(infinity)), low, out)


_finite = elements("nan_to_num", _replaced)


def frac(x: Any) -> Tensor:
    """x - trunc(x): what stands after the point, with the sign of x.

    Example:
        >>> import fx
        >>> fx.frac(fx.tensor([1.5, -1.5]))
        tensor([ 0.5000, -0.5000])
    """
    return _frac(floating("frac", x))  # type: ignore[no-any-return]


_frac = elements("frac", lambda x: x - prims.trunc(x), torch_name="Frac")


def logit(x: Any, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid; ``eps`` keeps x inside [eps, 1 - eps].

    Example:
        >>> import fx
        >>> fx.logit(fx.tensor(0.5))
        tensor(0.)
    """
    x = floating("logit", x)
    if eps is not None:
        low = partner("logit", "eps", eps, x)
        x = clip(x, low, 1.0 - low)
    return prims.log(x) - prims.log1p(-x) if x._dtype in COMPLEX else special.logit(x)


def xlogy(x: Any, other: Any) -> Tensor:
    """x * log(other), 0 where x is 0 and other is not NaN; the slope there is log(other).

    Example:
        >>> import fx
        >>> fx.xlogy(fx.tensor([0.0, 1.0]), fx.tensor([0.0, 1.0]))
        tensor([0., 0.])
    """
    x, other = operands("xlogy", x, other, True)
    if other._dtype not in COMPLEX:
        return special.xlogy(x, other)
    zero = (x == 0) & (other == 0)
    return x * prims.log(compare.where(zero, constant_like(1, other), other))


# closeness --------------------------------------------------------------------------------------


def isclose(
    x: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether ``|x - other| <= atol + rtol * |other|``, by elements; equal infinities are close.

    Args:
        x, other: tensors or scalars whose shapes broadcast, promoted.
        rtol, atol: the relative and the absolute tolerance.
        equal_nan: whether NaN is close to NaN.

    Example:
        >>> import fx
        >>> fx.isclose(fx.tensor([1.0, 2.0]), fx.tensor([1.0 + 1e-7, 2.1]))
        tensor([ True, False])
    """
    for word, value in (("rtol", rtol), ("atol", atol)):
        if isinstance(value, float | int) and value < 0:
            raise ValueError(f"isclose: {word} must not be negative, got {value}")
    x, other = operands("isclose", x, other)
    if x._dtype.kind in "biu":
        x, other = floating("isclose", x), floating("isclose", other)
    near = compare.less_equal(prims.abs(x - other), rtol * prims.abs(other) + atol)
    out = compare.logical_or(
        compare.equal(x, other), compare.logical_and(near, compare.isfinite(other))
    )
    if equal_nan:
        both = compare.logical_and(compare.isnan(x), compare.isnan(other))
        out = compare.logical_or(out, both)
    return out


def allclose(
    x: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close; see ``isclose``. The answer is Python's.

    Example:
        >>> import fx
        >>> fx.allclose(fx.tensor([1.0]), fx.tensor([1.0 + 1e-7]))
        True
    """
    return _whole(isclose(x, other, rtol, atol, equal_nan))


def array_equal(x: Any, other: Any, equal_nan: bool = False) -> bool:
    """Whether shapes and all elements are equal; the method ``x.equal(other)`` is the same.

    Example:
        >>> import fx
        >>> fx.array_equal(fx.tensor([1, 2]), fx.tensor([1, 2]))
        True
    """
    if type(x) is type(other) is Tensor:
        a, b = x._a, other._a
        if type(a) is type(b) is np.ndarray and a.dtype is b.dtype and not equal_nan:
            return a.shape == b.shape and _all(compare.equal.cpu(a, b))
    else:
        x, other = argument("array_equal", x), argument("array_equal", other)
    if x._shape != other._shape:
        return False
    x, other = operands("array_equal", x, other)
    same = compare.equal(x, other)
    if equal_nan and x._dtype.kind not in "biu":
        same = compare.logical_or(same, compare.logical_and(compare.isnan(x), compare.isnan(other)))
    return _whole(same)


_FEW = 2000  # elements of which a copy is looked through sooner than NumPy begins to reduce them


def _whole(mask: Tensor) -> bool:
    if type(mask) is Tensor and type(mask._a) is np.ndarray:
        return _all(mask._a)
    return bool(reduction.all(mask, axes=tuple(range(mask.ndim)), keepdims=False))


def _all(mask: Any) -> bool:
    if mask.size <= _FEW:
        return b"\0" not in mask.tobytes()
    return bool(np.logical_and.reduce(mask, None))


__all__ = public(globals())
