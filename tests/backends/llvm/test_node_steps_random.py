"""Native random bits, keys and samples: the bits of the eager kernels."""

import ctypes

import numpy as np
import pytest
from llvmlite import ir

import fx
from fx.backends.cpu import _np_draws
from fx.backends.cpu.llvm.node_steps import STEPS, quantiles
from fx.backends.cpu.llvm.vecmath.algebra import Int
from fx.dtypes import as_dtype
from fx.prims.draws import FAMILIES
from tests.backends.llvm.run_step import Compiled, compile_step, node_of


def _keys(*shape, seed=0):
    words = np.random.default_rng(seed).integers(0, 2**32, (*shape, 6), dtype=np.uint64)
    return words.astype(np.uint32)


def _check(name, arrays, **params):
    step = STEPS[name](node_of(name, arrays, **params))
    want = fx.primitive.registry[name].cpu(*arrays, **params)
    run = compile_step(step)
    for pieces in {1, step.tasks}:
        (got,) = run(*arrays, pieces=pieces)
        assert got.dtype == want.dtype and got.shape == want.shape
        word = f"u{want.dtype.itemsize}"
        a, b = got.reshape(-1), np.ascontiguousarray(want).reshape(-1)
        assert np.array_equal(a.view(word), b.view(word))
    return step


@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
def test_random_bits(lead):
    for shape in ((), (1,), (7,), (3, 11), (2048,), (5000,)):
        _check("random_bits", [_keys(*lead)], shape=shape)


def test_many_bits_are_split_into_tasks():
    assert _check("random_bits", [_keys()], shape=(200_001,)).tasks > 1


@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
def test_next_key(lead):
    key = _keys(*lead)
    _check("next_key", [key])
    key[..., 3] = 2**32 - 1
    _check("next_key", [key])
    key[..., 2] = 2**32 - 1
    _check("next_key", [key])


@pytest.mark.parametrize("name", ["derive", "with_lane"])
def test_keys_of_numbers(name):
    rng = np.random.default_rng(1)
    for dtype in ("int64", "int8", "uint32", "uint64"):
        low = 0 if dtype[0] == "u" else -100
        _check(name, [_keys(2, 3), rng.integers(low, 100, (2, 3)).astype(dtype)])
        _check(name, [_keys(), rng.integers(low, 100, ()).astype(dtype)])
    _check(name, [_keys(4, 1), rng.integers(0, 2**40, (3,))])
    _check(name, [_keys(), rng.integers(0, 9, (3, 2))])
    _check(name, [_keys(3), rng.integers(0, 9, (2, 1))])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_samples(family, dtype):
    dtype = as_dtype(dtype)
    for lead, shape in (((), (5000,)), ((3,), (7,)), ((2,), (2049,)), ((), ()), ((), (4, 5))):
        _check("random_draw", [_keys(*lead)], family=family, shape=shape, dtype=dtype)


@pytest.mark.parametrize("planes", [2, 4])
def test_whole_numbers_below_a_span(planes):
    rng = np.random.default_rng(2)
    for lead, shape in (((), (5001,)), ((3,), (7,)), ((), ()), ((2,), (4, 5))):
        for high in (1, 10, 2**40, 2**63):
            span = np.array(high, np.uint64)
            _check("random_below", [_keys(*lead), span], planes=planes, shape=shape)
        spans = rng.integers(0, 2**64, (*lead, *shape), dtype=np.uint64)
        spans.reshape(-1)[::3] = 0
        _check("random_below", [_keys(*lead), spans], planes=planes, shape=shape)
    column = np.ones((4, 1), np.uint64)
    node = node_of("random_below", [_keys(), column], planes=planes, shape=(4, 5))
    assert STEPS["random_below"](node) is None


def test_samples_at_the_ends_of_the_words():
    module = ir.Module("ends")
    function = ir.Function(module, ir.FunctionType(ir.FloatType(), [ir.IntType(32)]), "normal")
    b = ir.IRBuilder(function.append_basic_block())
    b.ret(quantiles.normal32_of(Int(b, function.args[0])).v)
    compiled = Compiled(module)
    call = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int32)(compiled.address("normal"))
    for w in (0, 1, -1, 2**31 - 1, -(2**31), 2**30, -(2**30)):
        assert call(w) == _np_draws._normal32(np.array([w], np.int32).view(np.uint32))[0]
