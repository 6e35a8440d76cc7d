"""Bags of equal length, whose rows a kernel of their own adds up."""

import numpy as np
import pytest

import fx
import fx.nn.functional as F


@pytest.mark.parametrize("width", [1, 3, 16, 17, 40])
@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_bags_are_sums_of_rows(width, mode, dtype):
    rng = np.random.default_rng(width)
    weight = fx.asarray(rng.normal(size=(9, width)).astype(dtype))
    idx = fx.asarray(rng.integers(0, 9, (7, 5)))
    ct = fx.asarray(rng.normal(size=(7, width)).astype(dtype))

    def plain(weight):
        rows = F.embedding(idx, weight)
        return rows.sum(1) if mode == "sum" else rows.mean(1)

    close = {"float16": 5e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    bags = lambda weight: F.embedding_bag(idx, weight, mode=mode)
    for wrap in (lambda f: f, fx.jit):
        for ours, want in (
            (wrap(bags)(weight), plain(weight)),
            (
                wrap(fx.grad(lambda w: (bags(w) * ct).sum()))(weight),
                fx.grad(lambda w: (plain(w) * ct).sum())(weight),
            ),
        ):
            np.testing.assert_allclose(ours.numpy(), want.numpy(), rtol=close, atol=4 * close)
    lanes = fx.vmap(bags)(fx.stack([weight, weight * 2.0]))
    np.testing.assert_allclose(lanes[1].numpy(), plain(weight * 2.0).numpy(), close, 4 * close)


@pytest.mark.parametrize("bad", [9, -1, 2**40])
def test_an_index_beyond_the_table_is_refused(bad):
    idx = fx.asarray([[0, 1], [2, bad]])
    with pytest.raises(fx.errors.IndexingError, match=r"an index lies outside 0\.\.8"):
        F.embedding_bag(idx, fx.ones((9, 3)))
