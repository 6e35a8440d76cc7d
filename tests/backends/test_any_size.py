"""Kernels with extents as arguments: any size and layout, the same bits on any threads."""

import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu import draws, matmul, pool
from fx.backends.cpu.llvm import any_size
from fx.backends.cpu.llvm.any_size import products
from fx.primitive import registry
from fx.prims import activations, losses, norms

pytestmark = pytest.mark.skipif(not any_size.available(), reason="no compiler for this platform")


def numbers(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


LAYOUTS = {
    "dense": lambda x: x,
    "transposed": lambda x: np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2),
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "backwards": lambda x: x[..., ::-1, :].copy()[..., ::-1, :],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("y_layout", LAYOUTS)
@pytest.mark.parametrize("x_layout", LAYOUTS)
def test_products(x_layout, y_layout, dtype):
    for m, k, n in [(1, 1, 1), (5, 7, 3), (6, 16, 64), (13, 33, 65), (100, 300, 17)]:
        for lead_x, lead_y in [((), ()), ((3,), ()), ((), (2, 3)), ((2, 1), (2, 3)), ((2, 3),) * 2]:
            x = LAYOUTS[x_layout](numbers(*lead_x, m, k, dtype=dtype))
            y = LAYOUTS[y_layout](numbers(*lead_y, k, n, dtype=dtype, seed=1))
            got = products.multiply(x, y, np.broadcast_shapes(lead_x, lead_y))
            want = np.matmul(x.astype("float64"), y.astype("float64"))
            tolerance = 1e-5 if dtype == "float32" else 1e-13
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * k)


@pytest.mark.parametrize("k", [1023, 1024, 1025, 3000])
def test_long_sums_and_bias(k):
    x, y, bias = numbers(20, k), numbers(k, 150, seed=1), numbers(150, seed=2)
    for right in (y, LAYOUTS["transposed"](y)):
        plain = products.multiply(x, right, ())
        np.testing.assert_allclose(plain, x.astype("float64") @ y, rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(products.multiply(x, right, (), bias), plain + bias)


def test_a_large_right_factor_is_packed():
    x, y = numbers(100, 700), numbers(700, 300, seed=1)
    tall = products.multiply(x, y, ())
    np.testing.assert_array_equal(products.multiply(x[:50], y, ()), tall[:50])  # read in place


@pytest.mark.parametrize("y_layout", ["dense", "transposed"])
@pytest.mark.parametrize("x_layout", ["dense", "transposed"])
def test_how_a_product_is_cut_changes_no_bit(x_layout, y_layout):
    x = LAYOUTS[x_layout](numbers(400, 300))
    y = LAYOUTS[y_layout](numbers(300, 200, seed=1))
    found = []
    for task in (1 << 40, 1 << 12):
        with limits.given(EAGER_GEMM_TASK=task):
            (tasks, _) = products.planned(x, y, ()).tasks
            found.append((tasks, products.multiply(x, y, ())))
    (few, whole), (many, parts) = found
    assert few < 4 < many
    np.testing.assert_array_equal(parts, whole)
    np.testing.assert_allclose(whole, x.astype("float64") @ y, rtol=1e-4, atol=1e-3)


def test_no_kernel_for_three_axes_of_batches():
    x = numbers(2, 3, 2, 8, 8)[:, :, ::2]
    strided = np.broadcast_to(numbers(2, 1, 2, 8, 8), (2, 3, 2, 8, 8))
    few = np.swapaxes(strided, 0, 1)[:, :, :1]
    assert products.multiply(np.swapaxes(x, 0, 1), few, (3, 2, 1)) is not None
    x = numbers(2, 3, 2, 8, 8)
    assert products.multiply(np.swapaxes(x, 0, 2), np.swapaxes(x, 0, 2), (2, 3, 2)) is None
    want = np.matmul(np.swapaxes(x, 0, 2), np.swapaxes(x, 0, 2))
    np.testing.assert_allclose(matmul.matmul(*[np.swapaxes(x, 0, 2)] * 2), want, rtol=1e-4)


def run_all():
    x, y = numbers(500, 300), numbers(300, 200, seed=1)
    ct = numbers(500, 300, seed=2)
    weight, bias = numbers(300, seed=3), numbers(300, seed=4)
    target = np.random.default_rng(0).integers(0, 300, 500)
    how = {"ignore_index": -100, "reduction": "mean"}
    return [
        matmul.matmul(x, y),
        registry["softmax"].cpu(x, axis=1),
        activations.gelu.cpu(x),
        norms.layer_norm.cpu(x, weight, bias, eps=1e-5),
        *norms.layer_norm_grad.cpu(ct, x, weight, eps=1e-5),
        losses.cross_entropy.cpu(x, target, **how),
        losses.cross_entropy_grad.cpu(np.ones((), np.float32), x, target, **how),
    ]


def test_the_same_bits_on_any_number_of_threads():
    before = fx.get_num_threads()
    try:
        fx.set_num_threads(1)
        alone = run_all()
        fx.set_num_threads(2)
        for _ in range(3):
            for a, b in zip(run_all(), alone, strict=True):
                np.testing.assert_array_equal(a, b)
    finally:
        fx.set_num_threads(before)


def test_what_a_kernel_is_called_with():
    run = any_size.kernel("sums", "rows_to_float32", "f")
    with pytest.raises(TypeError, match="arrays, ints, floats, None"):
        run([1, 0, "x", None, 3])


def test_memory_is_used_again():
    like = np.zeros(1, np.float64)
    first = any_size.empty([like, 50, 40])
    assert first.shape == (50, 40) and first.dtype == np.float64 and first.flags.owndata
    address = first.ctypes.data
    assert address % 64 == 0
    del first
    assert any_size.empty([like, 2000]).ctypes.data == address
    assert any_size.empty([like]).shape == ()


def test_kernels_that_nothing_stands_in_for_need_no_layout_of_objects(monkeypatch):
    x = numbers(1, 2, 7, 7)
    how = {"window": (3, 3), "stride": (1, 1), "padding": ((1, 1),) * 2, "dilation": (1, 1)}
    key, rate = np.arange(6, dtype=np.uint32), np.linspace(0.0, 30.0, 50)

    def run():
        return *pool.max_pool(x, **how), draws.random_poisson(
            key, rate, shape=(50,), dtype=np.dtype("int64")
        )

    want = run()
    monkeypatch.setattr(any_size, "available", lambda: False)
    monkeypatch.setattr(any_size, "_made", {})
    any_size._under_new_limits()
    got = run()
    assert any_size.kernel("windows", "max_pool", "f").__name__ == "run"  # no builtin of ours
    monkeypatch.undo()
    any_size._under_new_limits()
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "uint16",
        "float16",
        "bfloat16",
        "float32",
        "int64",
        "complex64",
        "complex128",
    ],
)
def test_arrays_of_one_number(dtype):
    kind = getattr(fx, dtype)
    values = [1, -0.0, 1.5, float("nan")] if kind.kind in "fV" else [1]
    values += [complex(2, -0.0), complex(2, 0.0)] if kind.kind == "c" else []
    with limits.given(FILL_FROM=64, FILL_BLOCK=128):
        for _ in range(limits.EARLY_CALLS + 2):
            fx.full(64, 1, dtype=kind)
        for value in values:
            for shape in [(63,), (64,), (65,), (3, 43), (2, 3, 101), (1000,)]:
                got = registry["full"].cpu(shape=shape, value=value, dtype=kind, device="cpu")
                want = np.full(shape, value, got.dtype)
                assert got.shape == shape
                assert got.tobytes() == want.tobytes()
