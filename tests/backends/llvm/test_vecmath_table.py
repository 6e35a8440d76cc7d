"""Every emitter of the table against the eager kernel, for every dtype that it takes."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import fx
import fx.special
from fx.backends.cpu.llvm.machines import emitting_for, host
from fx.backends.cpu.llvm.vecmath.table import BINARY, EMIT, UNARY, supported
from fx.dtypes import ALL, COMPLEX, FLOATING, INTEGRAL
from fx.errors import FxError
from fx.primitive import registry
from fx.prims.bessel import KINDS
from fx.spec import TensorSpec
from tests.backends.llvm.element_kernel import element_kernel

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

REAL = [d for d in ALL if d not in COMPLEX]
THREE, TWO = {"where", "betainc"}, {
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "copysign", "nextafter", "fmod",
    "remainder", "floor_divide", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
    "bitwise_xor", "left_shift", "right_shift", "gammainc", "gammaincc", *BINARY,
}  # fmt: skip


CHOICES = {
    "astype": [{"dtype": d} for d in REAL],
    "part": [{"turn": t} for t in range(4)],
    "bessel": [{"kind": k, "order": n} for k in KINDS for n in range(3)],
}


def _arity(name):
    return 3 if name in THREE else 2 if name in TWO else 1


def _numbers(dtype, seed, n=2000):
    """Small and large numbers, and the special ones again and again."""
    r = np.random.default_rng(seed)
    if dtype == np.bool_:
        return r.integers(0, 2, n).astype(bool)
    if dtype in INTEGRAL:
        info = np.iinfo(dtype)
        anywhere = r.integers(info.min, info.max, n // 2, dtype=dtype, endpoint=True)
        near = r.integers(max(info.min, -9), 9, n // 2).astype(dtype)
        anywhere[:6] = [info.min, info.max, 0, 1, info.min, info.max]
        return r.permutation(np.concatenate([anywhere, near]))
    special = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, 3, -3, np.inf, -np.inf, np.nan, 1e-3, 7.5, 100]
    word = np.dtype(f"u{dtype.itemsize}")
    bits = r.integers(0, np.iinfo(word).max, n // 4, dtype=word, endpoint=True).view(dtype)
    bits[np.isnan(bits.astype(np.float64))] = 1  # a signalling NaN is treated in many ways
    parts = [np.resize(special, n // 4), r.normal(size=n // 4) * 3, r.integers(-20, 20, n // 4)]
    return r.permutation(np.concatenate([p.astype(dtype) for p in parts] + [bits]))


def _cases():
    for name in EMIT:
        for dtype in REAL:
            dtypes = [dtype] * _arity(name)
            if name == "where":
                dtypes[0] = np.dtype(bool)
            choices = CHOICES.get(name, [{}])
            for params in choices:
                try:
                    out = registry[name].spec(*[TensorSpec((1,), d) for d in dtypes], **params)
                except FxError:
                    assert not supported(name, dtypes, dtype, params), (name, dtype)
                    continue
                if supported(name, dtypes, out.dtype, params):
                    yield name, tuple(dtypes), out.dtype, tuple(params.items())


def _agree(got, want, name, dtype):
    """Equal bits but for the sign of zero; functions with a formula to rounding."""
    if dtype not in FLOATING:
        return got == want
    g, w = got.astype(np.float64), want.astype(np.float64)
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    if name not in UNARY and name not in BINARY:
        return same
    info = ml_dtypes.finfo(dtype)
    ulps = 40 if name == "erfc" else 6  # SciPy's own error
    return same | (
        np.abs(g - w) <= ulps * float(info.eps) * np.maximum(np.abs(w), float(info.tiny))
    )


@pytest.mark.parametrize("name", EMIT)
def test_emitter_agrees_with_the_eager_kernel(name):
    cases = [c for c in _cases() if c[0] == name]
    assert cases
    for name, dtypes, out, params in cases:
        xs = [_numbers(d, seed) for seed, d in enumerate(dtypes)]
        if name in ("power", "logaddexp"):  # where the result is near 0, what counts is its sum
            xs = [np.abs(x) for x in xs]
        if name in ("floor_divide", "fmod", "remainder") and dtypes[1] in INTEGRAL:
            xs[1] = np.where(xs[1] == 0, np.ones_like(xs[1]), xs[1])
        got = element_kernel(name, dtypes, out, 16, params)(*xs)
        want = registry[name].cpu(*xs, **dict(params))
        right = _agree(got, want, name, out)
        if out in INTEGRAL and dtypes[0] in FLOATING:  # what does not fit may become anything
            info, x = np.iinfo(out), np.trunc(xs[0].astype(np.float64))
            right |= ~((x >= info.min) & (x <= info.max))
        wrong = [(*[x[i] for x in xs], got[i], want[i]) for i in np.flatnonzero(~right)[:3]]
        assert not wrong, (name, dtypes, params)


@pytest.mark.parametrize("name", ["add", "astype", "where", "remainder", "maximum", "floor_divide"])
def test_scalars_and_vectors_agree(name):
    for case in [c for c in _cases() if c[0] == name][::3]:
        _, dtypes, out, params = case
        xs = [_numbers(d, seed, 400) for seed, d in enumerate(dtypes)]
        one = element_kernel(name, dtypes, out, None, params)(*xs)
        many = element_kernel(name, dtypes, out, 8, params)(*xs)
        assert np.array_equal(one.view(np.uint8), many.view(np.uint8)) or np.array_equal(
            one.astype(np.float64), many.astype(np.float64), equal_nan=True
        )


def test_complex_has_no_emitter():
    assert not supported("add", (fx.complex64, fx.complex64), fx.complex64)
    assert not supported("astype", (fx.float32,), fx.complex64)
    assert not supported("no such primitive", (fx.float32,), fx.float32)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_number_goes_through_a_register(dtype):
    dtype = fx.dtypes.as_dtype(dtype)
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    got = element_kernel("stop_gradient", (dtype,), dtype, 16)(x)
    nan = np.isnan(x.astype(np.float32))
    assert np.array_equal(got.view(np.uint16)[~nan], x.view(np.uint16)[~nan])
    assert np.isnan(got[nan].astype(np.float32)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_without_the_instructions_of_this_cpu(dtype):
    dtype = fx.dtypes.as_dtype(dtype)
    r = np.random.default_rng(0)
    some = np.arange(2**16, dtype=np.uint16).view(dtype).astype(np.float32)
    ties = (some[:-1] + some[1:]) / 2
    x = np.concatenate([r.integers(0, 2**32, 100_000, dtype=np.uint64).astype(np.uint32).view("f4"),
                        ties, np.nextafter(ties, np.float32(0)), some])  # fmt: skip
    element_kernel.cache_clear()
    with emitting_for(replace(host(), half=False)):
        got = element_kernel("astype", ("f4",), dtype, 8, (("dtype", dtype),))(x)
        back = element_kernel("astype", (dtype,), "f4", 8, (("dtype", np.dtype("f4")),))(got)
    element_kernel.cache_clear()
    want = x.astype(dtype)
    assert np.array_equal(got.astype(np.float32), want.astype(np.float32), equal_nan=True)
    assert np.array_equal(back, want.astype(np.float32), equal_nan=True)
