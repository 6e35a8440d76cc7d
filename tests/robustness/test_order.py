"""What has no order, no bits or no fraction is refused alike on the CPU and on ``meta``."""

from __future__ import annotations

from typing import Any

import pytest

import fx
import fx.nn.functional as F

NO_ORDER = {
    "less": lambda c: c < c,
    "less_scalar": lambda c: c < 1.0,
    "less_reflected": lambda c: c > 1,
    "less_equal": lambda c: fx.less_equal(c, c),
    "greater": lambda c: fx.greater(c, 2.0),
    "greater_equal": lambda c: c >= c,
    "maximum": lambda c: fx.maximum(c, c),
    "minimum": lambda c: c.minimum(c),
    "clip": lambda c: fx.clip(c, 0.0, 1.0),
    "clamp": lambda c: c.clamp(min=0.0),
    "max": fx.max,
    "min": lambda c: c.min(dim=0),
    "sort": fx.sort,
    "argsort": lambda c: c.argsort(),
    "argmax": fx.argmax,
    "argmin": lambda c: c.argmin(),
    "topk": lambda c: c.topk(1),
    "median": fx.median,
    "cummax": lambda c: c.cummax(0),
    "searchsorted": lambda c: fx.searchsorted(c, c),
    "floor": fx.floor,
    "floor_divide": lambda c: c // c,
    "remainder": lambda c: c % c,
    "relu": fx.relu,
    "F.relu": F.relu,
    "softplus": fx.softplus,
    "atan2": lambda c: fx.atan2(c, c),
    "signbit": fx.signbit,
}
NO_BOOL = {
    "subtract": lambda b: b - b,
    "negative": lambda b: -b,
    "floor_divide": lambda b: b // b,
    "remainder": lambda b: b % b,
    "power": lambda b: b**b,
    "square": fx.square,
    "left_shift": lambda b: b << b,
    "right_shift": lambda b: b >> b,
    "sign": fx.sign,
    "relu": fx.relu,
    "mean": fx.mean,
}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", NO_ORDER)
def test_complex_numbers_have_no_order(name: str, device: str) -> None:
    x = fx.tensor([1 + 2j, 3j], device=device)
    with pytest.raises(fx.errors.DTypeError, match=r"complex64.*(x.real|x.astype)"):
        NO_ORDER[name](x)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", NO_BOOL)
def test_truth_values_are_no_numbers(name: str, device: str) -> None:
    x = fx.tensor([True, False], device=device)
    with pytest.raises(fx.errors.DTypeError, match=r"bool.*write"):
        NO_BOOL[name](x)


def test_complex_numbers_are_refused_inside_vmap() -> None:
    x = fx.tensor([1 + 2j, 3j])
    with pytest.raises(fx.errors.DTypeError, match=r"maximum.*complex64"):
        fx.vmap(lambda z: fx.maximum(z, z))(x)
    with pytest.raises(fx.errors.DTypeError, match=r"less.*complex64"):
        fx.vmap(lambda z: z < 1.0)(x)


@pytest.mark.parametrize("mask", [1, [1], fx.tensor([1, 0]), fx.tensor([0.5, 1.0])])
def test_a_condition_is_bool(mask: Any) -> None:
    with pytest.raises(fx.errors.DTypeError, match=r"where"):
        fx.where(mask, fx.ones(2), fx.zeros(2))


@pytest.mark.parametrize("name", ["sin", "exp", "log", "sqrt", "sigmoid", "erf", "tanh", "atan2"])
@pytest.mark.parametrize("dtype", [fx.int8, fx.int64, fx.uint8, fx.bool])
def test_integers_become_floats(name: str, dtype: Any) -> None:
    x = fx.tensor([0, 1]).astype(dtype)
    args = (x, x) if name == "atan2" else (x,)
    floats = tuple(a.astype(fx.float32) for a in args)
    got, want = getattr(fx, name)(*args), getattr(fx, name)(*floats)
    assert got.dtype == fx.float32
    assert fx.equal(got, want).all()
    if hasattr(x, name):
        assert getattr(x, name)(*args[1:]).dtype == fx.float32


def test_an_integer_to_a_negative_power_says_what_to_write() -> None:
    with pytest.raises(ValueError, match=r"power: int64.*x.astype\(fx.float32\) \*\* y"):
        fx.tensor([2]) ** fx.tensor([-1])
