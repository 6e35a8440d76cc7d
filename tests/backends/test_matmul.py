"""Matrix products against NumPy, on every arrangement of operands that takes a path of its own."""

import ml_dtypes
import numpy as np
import pytest

from fx.backends.cpu.matmul import matmul

SHAPES = [
    ((2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),  # one shared right operand
    ((5, 2, 3), (1, 3, 4)),
    ((2, 3), (5, 3, 4)),  # one shared left operand
    ((2, 3), (5, 3, 1)),  # one matrix, many vectors
    ((1, 1, 2, 3), (5, 6, 3, 1)),
    ((2, 3), (1, 3, 1)),
    ((5, 1, 2, 3), (6, 3, 4)),  # batch dimensions that broadcast
    ((2, 3), (4, 1, 3, 4)),
    ((5, 2, 3), (1, 1, 3, 4)),
    ((5, 7, 1), (5, 1, 6)),  # outer products
    ((7, 1), (5, 1, 6)),
    ((5, 1, 7), (5, 7, 1)),  # inner products
    ((3, 20, 30), (3, 30, 25)),
    ((0, 2, 3), (3, 4)),
    ((5, 0, 3), (3, 4)),
    ((5, 2, 0), (0, 4)),
    ((2, 0), (5, 0, 1)),
    ((5, 2, 3), (3, 0)),
    ((0, 0, 0), (0, 0)),
    ((1, 2, 0), (5, 0, 4)),
    ((1, 2, 3), (0, 3, 1)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64, np.complex64, bool])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_agrees_with_numpy(shapes, dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, s).astype(dtype) for s in shapes)
    # The same values laid out as transposed, as strided and as read-only arrays.
    xs = [
        x,
        np.asfortranarray(x),
        np.repeat(x, 2, axis=-1)[..., ::2],
        np.repeat(x, 2, -2)[..., ::2, :],
    ]
    ys = [y, np.asfortranarray(y), np.repeat(y, 2, axis=-1)[..., ::2], y.mT.copy().mT]
    expected = np.matmul(x, y)
    for x in xs:
        for y in ys:
            y.flags.writeable = False
            out = matmul(x, y)
            assert out.dtype == expected.dtype
            assert out.flags.c_contiguous
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_narrow_floats_are_computed_in_float32_and_rounded_once(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype(dtype) for s in ((4, 8, 16), (16, 8)))
    out = matmul(x, y)
    assert out.dtype == dtype
    expected = np.matmul(x.astype(np.float32), y.astype(np.float32))
    np.testing.assert_allclose(out.astype(np.float32), expected, rtol=np.exp2(-7), atol=1e-6)
    assert matmul(x, y.astype(np.float32)).dtype == np.float32


def test_integers_wrap_and_nan_passes():
    x = np.full((40, 40), 100, np.int8)
    assert (matmul(x, x) == np.int64(400_000).astype(np.int8)).all()
    x = np.array([[np.inf], [0]], np.float32)
    np.testing.assert_array_equal(matmul(x, np.zeros((1, 1), np.float32)), [[np.nan], [0]])


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="3 != 4"):
        matmul(np.ones((2, 3)), np.ones((4, 5)))
    with pytest.raises(ValueError, match="ndim >= 2"):
        matmul(np.ones(3), np.ones((3, 5)))
