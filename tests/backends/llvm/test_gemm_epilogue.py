"""What is computed from the elements of a product before they are stored, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from llvmlite import ir

import fx
from fx import limits
from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.gemm import product
from fx.graph.ir import Node, input_value
from fx.prims.linear import matmul
from fx.prims.shape import transpose
from tests.backends.llvm.run_step import compile_step


@pytest.fixture(autouse=True)
def without_tiles():
    """16-bit numbers by vectors too: what tiles make of them is tested in ``test_halves.py``."""
    with limits.given(TILES_FROM=1 << 62):
        yield


BFLOAT16 = ml_dtypes.bfloat16


def value(array):
    return input_value(fx.TensorSpec(array.shape, array.dtype))


class Sum:
    """relu(product + operands), and, where asked for, whether the sum is positive."""

    cost = 0.1

    def __init__(self, out, reads, light, mask=None):
        self.reads = tuple(reads)
        self.writes = (out,) if mask is None else (out, mask)
        self.light = light
        self.key = ("sum", len(self.reads), light, mask is None)

    def emit(self, b, x, at):
        for i in range(len(self.reads)):
            x = b.fadd(x, at.operand(i))
        zero = v.zeros(x.type.element, at.width)
        positive = b.fcmp_ordered(">", x, zero)
        out = [b.select(positive, x, zero)]
        if len(self.writes) == 2:
            out.append(b.zext(positive, ir.VectorType(v.i8, at.width)))
        return out


def run(steps, arrays, pieces=1):
    arrays = dict(arrays)
    for step in steps:
        found = compile_step(step)(*[arrays[v] for v in step.reads], pieces=pieces)
        arrays.update(zip(step.writes, found, strict=True))
    return found


def compare(x_shape, y_shape, operands, light, dtype="float32", mask=False, left=False):
    rng = np.random.default_rng(len(operands) + sum(x_shape))
    x, y = (rng.standard_normal(s).astype(dtype) for s in (x_shape, y_shape))
    x = (x * np.dtype(dtype).type(y_shape[-2] ** -0.5)).astype(dtype)
    extra = [rng.standard_normal(s).astype(dtype) for s in operands]
    xv, yv = value(x), value(y)
    x_in = xv
    if left:
        xv = Node(transpose, [xv], {"axes": (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)}).out
    node = Node(matmul, [xv, yv], {})
    values = [value(e) for e in extra]
    out = input_value(node.out.spec)
    flag = input_value(node.out.spec.with_(dtype=fx.dtypes.bool_)) if mask else None
    steps = product(node, Sum(out, values, light, flag))
    assert steps[-1].writes == ((out, flag) if mask else (out,))
    arrays = {x_in: x, yv: y, **dict(zip(values, extra, strict=True))}
    found = run(steps, arrays, pieces=2)
    seen = x.swapaxes(-1, -2) if left else x
    want = seen.astype(np.float64) @ y.astype(np.float64)
    for e in extra:
        want = want + e.astype(np.float64)
    relu = np.maximum(want, 0)
    eps = 1e-4 if dtype == "float32" else 2e-2
    np.testing.assert_allclose(found[0].astype(np.float64), relu, rtol=eps, atol=eps)
    if mask:
        sure = np.abs(want) > eps
        np.testing.assert_array_equal(found[1][sure], (want > 0)[sure])


@pytest.mark.parametrize("light", [False, True])
@pytest.mark.parametrize("shape", [(32, 64, 10), (50, 20, 70), (1, 9, 40), (40, 9, 1), (3, 4, 1)])
def test_bias_and_residual(shape, light):
    m, k, n = shape
    operands = [(n,), (m, n), (m, 1), (), (1, n), (1, 1)]
    compare((m, k), (k, n), operands, light)
    compare((m, k), (k, n), operands[:1], light, mask=True)


@pytest.mark.parametrize("light", [False, True])
@pytest.mark.parametrize("lead", [(4,), (2, 3)])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("n", [1, 21])
def test_operands_of_batches(lead, light, shared, n):
    operands = [(n,), (*lead, 5, n), (*lead, 1, 1), (*lead[:-1], 1, 5, 1), (lead[-1], 1, n), (5, 1)]
    compare((*lead, 5, 6), (6, n) if shared else (*lead, 6, n), operands, light)
    compare((6, 5), (*lead, 6, n), operands, light, left=True)


@pytest.mark.parametrize("light", [False, True])
@pytest.mark.parametrize("dtype", ["float32", BFLOAT16])
def test_long_sums_in_several_parts(light, dtype):
    compare((40, 2100), (2100, 35), [(35,)], light, dtype, mask=True)


@pytest.mark.parametrize("dtype", ["float64", "float16", BFLOAT16])
def test_other_dtypes(dtype):
    compare((20, 30), (30, 40), [(40,), (20, 1)], True, dtype)
    compare((1, 30), (30, 40), [(40,)], False, dtype)


def test_tasks_of_large_products():
    compare((300, 100), (100, 200), [(200,), (300, 200)], True, mask=True)
    compare((300, 100), (100, 200), [(200,), (300, 1)], False)


@pytest.mark.parametrize("light", [False, True])
def test_sums_that_were_split(light):
    compare((40000, 20), (40000, 35), [(35,), (20, 1)], light, mask=True, left=True)


@pytest.mark.parametrize("light", [False, True])
def test_few_rows_by_a_large_matrix(light):
    compare((1, 200), (200, 4101), [(4101,), (1, 1)], light, mask=True)
    compare((2, 4, 200), (2, 200, 2053), [(4, 1), (2, 1, 2053)], light)


@pytest.mark.parametrize("light", [False, True])
@pytest.mark.parametrize("k", [30, 3000, 40000])
def test_a_parameter_is_updated_in_its_own_memory(k, light):
    rng = np.random.default_rng(k)
    x, y, w = (rng.standard_normal(s).astype("float32") for s in ((k, 20), (k, 35), (20, 35)))
    xv, yv, wv = value(x), value(y), value(w)
    x *= np.float32(k**-0.5)
    turned = Node(transpose, [xv], {"axes": (1, 0)}).out
    node = Node(matmul, [turned, yv], {})
    update = Sum(input_value(node.out.spec), [wv], light)
    update.inplace = ((0, 0),)
    *before, step = product(node, update)
    assert step.inplace == ((0, len(step.reads) - 1),)
    arrays = {xv: x, yv: y, wv: w}
    for s in before:
        arrays.update(zip(s.writes, compile_step(s)(*[arrays[v] for v in s.reads]), strict=True))
    call = compile_step(step)
    apart, own = (call(*[arrays[v] for v in step.reads], pieces=3, inplace=i)[0] for i in (0, 1))
    np.testing.assert_array_equal(apart, own)
    want = np.maximum(x.T.astype(np.float64) @ y + w, 0)
    np.testing.assert_allclose(own, want, rtol=1e-4, atol=2e-4)


def test_a_factor_is_never_overwritten():
    square = input_value(fx.TensorSpec((8, 8), fx.float32))
    update = Sum(input_value(square.spec), [square], True)
    update.inplace = ((0, 0),)
    assert product(Node(matmul, [square, square], {}), update)[-1].inplace == ()


def test_keys_name_the_epilogue():
    def key(light):
        specs = [fx.TensorSpec(s, fx.float32) for s in ((4, 8), (8, 5))]
        node = Node(matmul, [input_value(s) for s in specs], {})
        bias = input_value(fx.TensorSpec((5,), fx.float32))
        return product(node, Sum(node.out, [bias], light))[-1].key

    assert key(True) == key(True) != key(False)
