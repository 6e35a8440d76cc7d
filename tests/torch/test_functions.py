"""``fx.torch`` against torch: the same expression gives the same values, dtypes and shapes."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch
from tests.torch import expressions

rng = np.random.default_rng(0)
ARRAYS = {
    "x": rng.standard_normal((3, 4)),
    "y": rng.standard_normal((3, 4)),
    "p": rng.random((3, 4)) + 0.5,
    "u": rng.random((3, 4)) * 0.8 + 0.1,
    "v": rng.standard_normal(5),
    "w": rng.standard_normal(5),
    "s": rng.standard_normal((3, 3)),
    "c": rng.standard_normal((2, 3, 4)),
    "d": rng.standard_normal((2, 4, 5)),
    "i": rng.integers(-3, 4, (3, 4)),
    "j": rng.integers(0, 4, (3, 4)),
    "k": np.array([[0, 3], [1, 2], [2, 0]]),
    "b": rng.random((3, 4)) < 0.5,
    "z": np.array([1 + 2j, -3j, 0], dtype="complex128"),
    "n": np.array([1.0, np.nan, 3.0, -2.0, np.nan, 0.5]),
}
LINES = [
    *(f"torch.{name}(x)" for name in expressions.UNARY.split()),
    *(f"torch.{name}(u)" for name in expressions.UNARY_UNIT.split()),
    *(f"torch.{name}(p)" for name in expressions.UNARY_POSITIVE.split()),
    *(f"torch.{name}(x, y)" for name in expressions.BINARY.split()),
    *(f"torch.{name}(j, j)" for name in expressions.BITS.split()),
    *expressions.LINES.strip().split("\n"),
]


def value(line, library):
    """What the expression gives under a library, as plain data."""
    names = {name: library.from_numpy(array.copy()) for name, array in ARRAYS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(eval(line, {"torch": library, **names}))


def plain(result):
    if isinstance(result, torch.Tensor | fx.Tensor):
        return result.detach().resolve_conj().numpy()
    if isinstance(result, dict):
        return {key: plain(v) for key, v in result.items()}
    if isinstance(result, tuple | list):
        return [plain(v) for v in result]
    if isinstance(result, torch.dtype):
        return str(result).removeprefix("torch.")
    return result.name if isinstance(result, np.dtype) else result


def compare(got, expected, what):
    if isinstance(expected, dict):
        assert list(got) == list(expected), what
        got, expected = list(got.values()), list(expected.values())
    if isinstance(expected, list):
        assert len(got) == len(expected), what
        for a, b in zip(got, expected):
            compare(a, b, what)
    elif isinstance(expected, np.ndarray):
        assert isinstance(got, np.ndarray), what
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype), what
        close = (
            {"rtol": 2e-5, "atol": 1e-6}
            if got.dtype.itemsize < 8
            else {"rtol": 1e-9, "atol": 1e-12}
        )
        np.testing.assert_allclose(got, expected, **close, err_msg=what)
    elif isinstance(expected, float):
        assert got == pytest.approx(expected, rel=1e-9), what
    else:
        assert got == expected, what


@pytest.mark.parametrize("line", LINES)
def test_same_as_torch(line):
    compare(value(line, fx.torch), value(line, torch), line)


def test_the_tails_of_ndtri():
    from scipy.special import ndtri

    for dtype, least, tolerance in (("float64", 299, 1e-14), ("float32", 36, 3e-7)):
        tails = 10.0 ** -np.arange(1.0, least)
        p = np.concatenate([tails, np.linspace(0.001, 0.999, 101), 1 - tails[:6]]).astype(dtype)
        found = fx.torch.special.ndtri(fx.asarray(p)).numpy()
        np.testing.assert_allclose(found, ndtri(p.astype("float64")), rtol=tolerance, atol=1e-9)
    ends = fx.torch.special.ndtri(fx.asarray([0.0, 1.0, 0.5, -1.0, 2.0, float("nan")]))
    np.testing.assert_array_equal(ends.numpy(), [-np.inf, np.inf, 0, np.nan, np.nan, np.nan])
    x = fx.asarray([0.1, 0.5, 0.9, 1e-5], dtype=fx.float64)
    slope = fx.vmap(fx.grad(fx.torch.special.ndtri))
    np.testing.assert_allclose(slope(x).numpy() * np.exp(-(ndtri(x.numpy()) ** 2) / 2), 2.5066283)


def test_numbers_that_differed():
    """The sign of NaN, and dtypes in which unsigned integers add up."""
    import torch

    for name in ("cumsum", "cumprod"):
        for m in (torch, fx.torch):
            x = m.tensor([250, 3, 7], dtype=m.uint8)
            assert getattr(x, name)(0).dtype == m.int64 == getattr(m, name)(x, 0).dtype
            assert x.nansum().dtype == m.int64
    x = [float("nan"), -2.0, 0.0, 3.0]
    assert fx.torch.sign(fx.tensor(x)).tolist() == torch.sign(torch.tensor(x)).tolist()
    assert fx.tensor([1, -2]).sign().dtype == fx.int64
