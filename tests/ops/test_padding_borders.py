"""Borders made of a tensor's own elements: one kernel, the composition that it is, NumPy's."""

import numpy as np
import pytest

import fx
from fx.ops.shapes import padding

MODES = ["reflect", "symmetric", "edge", "wrap"]
SHAPES = [(5,), (4, 6), (3, 4, 5), (1,), (1, 2), (0, 3)]


def cases(shape, mode):
    """Widths of every kind: none, as far as a border reaches, and between."""
    rng = np.random.default_rng(0)
    most = [max({"reflect": n - 1, "edge": n and n + 3}.get(mode, n), 0) for n in shape]
    yield tuple([(m, m) for m in most])
    yield tuple([(m, 0) for m in most])
    for _ in range(8):
        yield tuple([tuple(map(int, rng.integers(0, m + 1, 2))) for m in most])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES)
def test_borders_are_those_of_numpy(shape, mode):
    x = np.random.default_rng(0).normal(size=shape)
    for widths in cases(shape, mode):
        for a in (x, (x * 9).astype("int64"), x > 0, x + 1j, np.asfortranarray(x), x[..., ::-1]):
            found = fx.pad(fx.tensor(a), widths, mode)
            assert found.numpy().dtype == a.dtype
            np.testing.assert_array_equal(found.numpy(), np.pad(a, widths, mode))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_cotangents_are_those_of_the_composition(shape, mode, dtype):
    rng = np.random.default_rng(0)
    for widths in cases(shape, mode):
        longer = [n + a + b for n, (a, b) in zip(shape, widths, strict=True)]
        # whole numbers, whose sums are exact
        ct = fx.tensor(rng.integers(-4, 5, longer)).astype(dtype)
        how = {"widths": widths, "mode": mode}
        found, wanted = padding._folded(ct, **how), padding._folded_in_steps(ct, **how)
        assert (found.shape, found.dtype) == (shape, ct.dtype)
        assert bool((found == wanted).all()), widths


def test_borders_under_transforms():
    x, ct = (fx.tensor(np.random.default_rng(0).normal(size=s)) for s in ((3, 5), (7, 9)))
    f = lambda x: (fx.pad(x, ((2, 2), (1, 3)), "reflect") ** 2 * ct).sum()
    leaf = fx.tensor(x, requires_grad=True)
    f(leaf).backward()
    for other in (fx.grad(f), fx.jit(fx.grad(f)), lambda x: fx.vmap(fx.grad(f))(x[None])[0]):
        np.testing.assert_allclose(other(x).numpy(), leaf.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(fx.hessian(f)(x).reshape(15, 15).numpy(), np.diag(
        fx.hessian(f)(x).reshape(15, 15).numpy().diagonal()), atol=1e-12)  # fmt: skip
