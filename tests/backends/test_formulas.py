"""Kernels of formulas: one serves every size, and the sizes are found as Python would."""

import random

import ml_dtypes
import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu.formulas import Along, Elements
from fx.backends.cpu.llvm import any_size, formulas
from fx.compiler.extents import Extent, larger, smaller
from fx.prims import norms
from fx.prims.compare import where
from fx.prims.elementwise import exp, sqrt, tanh
from fx.prims.reduction import softmax
from fx.prims.shape import flip

SIZES = (1, 2, 3, 5, 7, 16, 17, 33, 64, 130, 2050, 5000)


def numbers(rng, shape, dtype):
    return rng.normal(size=shape).astype(dtype)


# extents ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_an_extent_is_the_int_and_its_formula_gives_others(seed):
    draw = random.Random(seed)
    known = {"m": 1009, "n": 499}
    real = {"m": draw.randint(1, 60), "n": draw.randint(1, 60)}
    made = [(Extent(v, 1, [k]), v, real[k]) for k, v in known.items()]
    for _ in range(8):
        x, y = draw.choice(made), draw.choice([*made, (draw.randint(1, 9),) * 3])
        operation = draw.choice((
            lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a // larger(b, 1),
            lambda a, b: -(-a // larger(b, 1)), lambda a, b: a % larger(b, 1), larger, smaller,
        ))  # fmt: skip
        now = [operation(a, b) for a, b in zip(x, y)]
        if isinstance(now[0], Extent):
            made.append(tuple(now))
    for extent, told, wanted in made:
        assert int(extent) == told
        assert eval(repr(extent), dict(real)) == wanted
        assert extent != told and extent


def test_equal_formulas_are_equal_extents():
    m, n = Extent(7, 1, ["m"]), Extent(7, 1, ["n"])
    assert m * n == n * m and hash(m * n) == hash(n * m)
    assert m != n and m * n // n == m and m // m == 1


# formulas of elements ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("least", [None, 1])
def test_one_kernel_for_all_sizes(dtype, least):
    kernel = Elements("a test's tanh", lambda x, s: tanh(x) * s, ["s"])
    rng = np.random.default_rng(0)
    with limits.given(**({} if least is None else {"FUSED_FROM": least, "TASK": 10.0})):
        for n in SIZES:
            x = numbers(rng, n, dtype)
            found = kernel(x, s=0.5)
            if found is None:
                assert n < limits.FUSED_FROM
                continue
            assert found.dtype == dtype
            np.testing.assert_allclose(
                found, np.tanh(x) * 0.5, rtol=1e-5 if dtype[-1] == "2" else 1e-14
            )
        assert len(kernel.kernels) == 1


@pytest.mark.parametrize("seed", range(16))
def test_arrays_broadcast(seed):
    kernel = Elements("a test's where", lambda c, x, y: where(c, x, exp(y)))
    rng = np.random.default_rng(seed)
    rank = rng.integers(1, 5)
    shape = rng.integers(1, 9, rank)
    arrays = []
    for k in range(3):
        own = np.where(rng.random(rank) < 0.7, shape, 1)[rng.integers(0, rank) * (k > 0) :]
        x = numbers(rng, own, "float64")
        if rng.random() < 0.3:
            x = np.broadcast_to(x, np.broadcast_shapes(x.shape, shape))
        if rng.random() < 0.3:
            x = np.asfortranarray(x)[..., ::-1]
        arrays.append(x if k else x > 0)
    wanted = np.where(arrays[0], arrays[1], np.exp(arrays[2]))
    with limits.given(FUSED_FROM=1):
        found = kernel(*arrays)
    if found is not None:
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    else:
        assert rank > 3


def test_the_layout_of_the_arrays_is_that_of_the_result():
    x = numbers(np.random.default_rng(0), (30, 40), "float32").T
    kernel = Elements("a test's tanh", lambda x: tanh(x))
    assert kernel(x).flags.f_contiguous


def test_other_dtypes_have_no_kernel():
    kernel = Elements("a test's tanh", lambda x: tanh(x))
    for dtype in ("int64", "complex64"):
        assert kernel(np.ones(100, dtype)) is None
    assert Elements("a test's sum", lambda x, y: x + y)(np.ones(99), np.ones(99, "float32")) is None


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_halves_are_rounded_after_each_operation(dtype):
    with np.errstate(all="ignore"):
        x = np.concatenate([np.random.default_rng(0).normal(size=999), [np.inf, np.nan, 0.0, 6e-8]])
        x = x.astype(dtype)
        found = Elements("a test's roots", lambda x: sqrt(x * x) - x)(x)
        wanted = np.sqrt(x * x) - x
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found.astype("float32"), wanted.astype("float32"))


def test_what_is_no_product_of_sizes_has_no_kernel():
    assert formulas.program("a test's flip", lambda x: flip(x, axes=(0,)), [("n",)], "f") is None


def test_more_arrays_than_a_kernel_takes_have_no_kernel():
    def many(*xs):
        return tuple([x + x for x in xs])

    shapes = [("n",)] * 40
    assert formulas.program("a test's many", many, shapes, "f" * 40) is None
    with pytest.raises(TypeError):  # and the way there refuses them
        any_size.kernel("sums", "rows_to_float32", "f")([1, 0, *range(200)])


# formulas of rows -------------------------------------------------------------------------------


def reference(x, axes):
    wide = x.astype("float64")
    top = wide - wide.max(axes, keepdims=True)
    return np.exp(top) / np.exp(top).sum(axes, keepdims=True)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("tiny", [False, True])
def test_along_axes_of_any_size(seed, tiny):
    rng = np.random.default_rng(seed)
    shape = [int(rng.choice([1, 2, 3, 9, 40, 65, 130])) for _ in range(rng.integers(1, 4))]
    if rng.random() < 0.3:
        shape[-1] = int(rng.choice([2049, 16500]))
    first = rng.integers(0, len(shape))
    axes = tuple(range(first, rng.integers(first + 1, len(shape) + 1)))
    x = numbers(rng, shape, rng.choice(["float32", "float64"])) * 3
    with limits.tiny() if tiny else limits.given(FUSED_FROM=1):
        made = Along("a test's softmax", lambda x: softmax(x, axis=1)).call(x, axes=axes)
        spread = SPREAD(x, axes=axes, freedom=3.0)
    if made is None:
        assert x.size < 16
        return
    digits = 1e-6 if x.dtype == "float32" else 1e-14
    np.testing.assert_allclose(made, reference(x, axes), rtol=20 * digits, atol=digits)
    count = np.prod([x.shape[a] for a in axes])
    wide = x.astype("float64")
    wanted = wide.var(axes, keepdims=True) * count / 3.0
    np.testing.assert_allclose(spread, wanted, rtol=9 * digits, atol=9 * digits)


SPREAD = norms.variance.cpu


@pytest.mark.parametrize("rows", [6, 17, 9000])
@pytest.mark.parametrize("n", [3, 64, 100])
def test_sums_over_rows_and_along_them(rows, n):
    rng = np.random.default_rng(0)
    ct, x, weight = (numbers(rng, s, "float32") for s in ((rows, n), (rows, n), (n,)))
    found = norms.layer_norm_grad.cpu(ct, x, weight, eps=1e-5)
    wide = [fx.asarray(a.astype("float64")) for a in (ct, x, weight)]
    for a, b in zip(found, norms.layer_norm_grad.reference(*wide, eps=1e-5), strict=True):
        scale = max(1.0, abs(b.numpy()).max())
        np.testing.assert_allclose(a / scale, b.numpy() / scale, atol=2e-6)
