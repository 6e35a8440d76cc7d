"""Borders made of a tensor's own elements, and windows: kernels and the compositions they are."""

import itertools
from importlib import import_module

import numpy as np
import pytest

import fx
from fx.ops.shapes import padding

fold = import_module("fx.nn.functional.fold")  # beside a function of its name
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


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64"])
@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((3, 9), 1), ((9, 3), 0), ((2, 9, 4), 1)])
def test_cotangents_of_windows_add_up(shape, axis, dtype):
    rng = np.random.default_rng(0)
    for size, step in itertools.product(range(9), (1, 2, 3, 9)):
        longer = fx.unfold(fx.zeros(shape), axis, size, step).shape
        ct = fx.tensor(rng.integers(-4, 5, longer)).astype(dtype)
        how = {"n": shape[axis], "axis": axis, "size": size, "step": step}
        found, wanted = padding._unfold_grad(ct, **how), padding._unfold_grad_in_steps(ct, **how)
        assert (found.shape, found.dtype) == (shape, ct.dtype)
        assert bool((found == wanted).all()), (size, step)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "complex64"])
@pytest.mark.parametrize("window", [(1, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (2, 0)])
def test_columns_of_images_and_their_sums(window, pads, dtype):
    rng = np.random.default_rng(0)
    for dilation, stride in itertools.product((1, (1, 2)), (1, 2, (3, 1))):
        sizes = (7, 9)
        _, _, counts, steps = fold._plan("fold", sizes, window, dilation, pads, stride)
        how = {"sizes": sizes, "window": window, "pads": pads, "counts": counts, "steps": steps}
        x = fx.tensor(rng.integers(-4, 5, (2, 3, *sizes))).astype(dtype)
        found = fold._columns(x, **how)
        assert found.dtype == x.dtype
        assert bool((found == fold._columns_in_steps(x, **how)).all())
        image = fold._image(found, **how)
        assert (image.shape, image.dtype) == (x.shape, x.dtype)
        assert bool((image == fold._image_in_steps(found, **how)).all())
