"""Sizes, steps and indices at the edge: empty, huge, out of range; torch is the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fx
import fx.nn.functional as F

HUGE = [2**31 - 1, 2**32, 2**62, 2**63 - 1]
X, W = fx.ones(1, 2, 5, 5), fx.ones(2, 2, 3, 3)

# without memory for their results, each of them
TOO_LARGE: dict[str, Callable[[int], Any]] = {
    "conv padding": lambda n: F.conv2d(X, W, padding=n),
    "conv dilation": lambda n: F.conv2d(X, W, dilation=n),
    "conv transpose": lambda n: F.conv_transpose2d(X, W, stride=n),
    "tile": lambda n: fx.tile(fx.ones(1), (n, n)),
    "broadcast": lambda n: fx.broadcast_to(fx.ones(1), (n, n)),
    "reshape": lambda n: fx.ones(0).reshape(n, n, 0),
    "zeros": lambda n: fx.zeros((n, n, 2)),
    "eye": lambda n: fx.eye(n, n),
    "pad": lambda n: fx.pad(fx.ones(2, 2, 2), n),
    "rand": lambda n: fx.rand(n, n),
}


@pytest.mark.parametrize("size", [2**62, 2**63 - 1])  # less might be found and filled
@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_memory_cannot_hold_is_refused_by_name(name: str, size: int) -> None:
    with pytest.raises((fx.errors.ShapeError, MemoryError)) as caught:
        TOO_LARGE[name](size)
    text = str(caught.value)
    assert any(word in text for word in ("write", "take a smaller", "pieces")), text
    assert "arr." not in text and "C long" not in text, text


@pytest.mark.parametrize("size", HUGE)
def test_huge_steps_and_places_do_no_harm(size: int) -> None:
    assert F.conv2d(X, W, stride=size).shape == (1, 2, 1, 1)
    assert F.max_pool2d(X, 2, stride=size, ceil_mode=True).shape == (1, 2, 1, 1)
    assert fx.roll(fx.tensor([1, 2, 3]), size).tolist() == np.roll([1, 2, 3], size % 3).tolist()
    assert fx.tensor([1, 2, 3])[size:-size:size].shape == (0,)
    assert fx.tensor([1, 2, 3])[::-size].tolist() == [3]
    assert fx.diff(fx.ones(3), n=size).shape == (0,)
    with pytest.raises(fx.errors.IndexingError, match=r"valid are -3 to 2"):
        fx.ones(3)[size]


def test_more_axes_than_memory_knows_are_refused() -> None:
    with pytest.raises(fx.errors.ShapeError, match="number of axes"):
        fx.zeros((1,) * 70)


@pytest.mark.parametrize("index", [3, -4, 2**31, 2**62, -(2**63)])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.gather(0, i),
        lambda x, i: x.take(i),
        lambda x, i: fx.take(x, i, axis=0),
        lambda x, i: fx.take_along_axis(x, i, axis=0),
        lambda x, i: x.scatter(0, i, 1.0),
        lambda x, i: fx.scatter_add(x, 0, i, fx.ones(2)),
        lambda x, i: x.index_select(0, i),
        lambda x, i: fx.index_add(x, 0, i, fx.ones(2)),
        lambda x, i: x[i],
        lambda x, i: x.at[i].add(1.0),
        lambda x, i: F.embedding(i, fx.ones(3, 2)),
    ],
)
def test_an_index_out_of_range_reads_and_writes_nothing(call: Any, index: int) -> None:
    x = fx.tensor([1.0, 2.0, 3.0])
    with pytest.raises(IndexError, match=r"range|outside"):
        call(x, fx.tensor([0, index]))
    assert x.tolist() == [1.0, 2.0, 3.0]


NAMED = {
    "take": lambda x, i: fx.take(x, i, axis=0),
    "take_along_axis": lambda x, i: fx.take_along_axis(x, i[:, None], axis=0),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0),
    "scatter_add": lambda x, i: fx.scatter_add(x, 0, i[:, None], fx.ones((i.size, 1))),
    "an index": lambda x, i: x[i],
    "at": lambda x, i: x.at[i].add(1.0),
    "index_add": lambda x, i: fx.index_add(x, 0, i, fx.ones((i.size, 9))),
}


@pytest.mark.parametrize("name", NAMED)
def test_of_many_indices_the_first_that_lies_outside_is_named(name: str) -> None:
    call, x = NAMED[name], fx.ones((50, 9))
    jitted = fx.jit(call)
    for n in (2, 3, 37, 38, 39, 40, 4000):  # also by code that serves any size
        index = np.random.default_rng(n).integers(-50, 50, n)
        jitted(x, fx.tensor(index))
        index[n // 3], index[-1] = 77, -99
        for way in (call, jitted):
            with pytest.raises(fx.errors.IndexingError, match="index 77 is out of range"):
                way(x, fx.tensor(index))
        index[n // 3] = 0
        for way in (call, jitted):
            with pytest.raises(fx.errors.IndexingError, match="index -99 is out of range"):
                way(x, fx.tensor(index))


CLASSES = {
    "nll_loss": lambda x, y: F.nll_loss(x, y),
    "nll_loss, each": lambda x, y: F.nll_loss(x, y, reduction="none").sum(),
    "nll_loss, sum": lambda x, y: F.nll_loss(x, y, reduction="sum"),
    "nll_loss, weighted": lambda x, y: F.nll_loss(x, y, weight=fx.ones(7, dtype=x.dtype)),
    "nll_loss of an image": lambda x, y: F.nll_loss(x.T[None], y[None]),
    "cross_entropy": lambda x, y: F.cross_entropy(x, y),
    "cross_entropy, each": lambda x, y: F.cross_entropy(x, y, reduction="none").sum(),
    "cross_entropy, weighted": lambda x, y: F.cross_entropy(x, y, weight=fx.ones(7, dtype=x.dtype)),
    "cross_entropy, smoothed": lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
    "cross_entropy of an image": lambda x, y: F.cross_entropy(x.T[None], y[None]),
    "multi_margin_loss": lambda x, y: F.multi_margin_loss(x, y),
    "embedding": lambda x, y: F.embedding(y, fx.ones((7, 2))).sum() * x.sum(),
    "one_hot": lambda x, y: F.one_hot(y, 7).sum() * x.sum(),
}


@pytest.mark.parametrize("name", CLASSES)
def test_one_class_among_many_that_there_is_not_is_refused(name: str) -> None:
    call = CLASSES[name]
    ways = call, fx.jit(call), fx.grad(call), fx.jit(fx.grad(call))
    for n in (2, 37, 38, 39, 40, 600):
        numbers = np.random.default_rng(n)
        x, good = fx.tensor(numbers.standard_normal((n, 7))), numbers.integers(0, 7, n)
        for way in ways:
            way(x, fx.tensor(good))
        for place, bad in ((0, 7), (n - 1, -1), (n // 2, 2**40), (n - 1, -(2**63))):
            wrong = good.copy()
            wrong[place] = bad
            for way in ways:
                with pytest.raises((IndexError, ValueError), match=r"outside|range|between|class"):
                    way(x, fx.tensor(wrong))


def test_negative_classes_and_rows_do_not_count_from_the_end() -> None:
    for loss in (F.cross_entropy, F.nll_loss):
        with pytest.raises(fx.errors.IndexingError, match=r"outside 0\.\.2"):
            loss(fx.ones(2, 3), fx.tensor([0, -1]))
        assert loss(fx.ones(2, 3), fx.tensor([0, -1]), ignore_index=-1).shape == ()
    weight = fx.nn.Parameter(fx.ones(3, 2))
    with pytest.raises(fx.errors.IndexingError, match=r"outside 0\.\.2"):
        F.embedding(fx.tensor([-1]), weight, max_norm=0.1)
    assert fx.equal(weight, fx.ones(3, 2)).all()


def test_weights_that_are_all_zero_draw_nothing() -> None:
    with pytest.raises(RuntimeError, match=r"multinomial.*sum of probabilities <= 0"):
        fx.multinomial(fx.tensor([[1.0, 2.0], [0.0, 0.0]]), 1)


GRID = list(itertools.product([1, 2, 6], [1, 2, 4], [1, 5], [0, 1, 3], [1, 3]))


def _both(got: Callable[[], Any], want: Callable[[], Any], case: Any) -> None:
    """The same values, or an error from both."""
    try:
        expected = want().numpy()
    except (RuntimeError, ValueError):
        with pytest.raises(ValueError):
            got()
        return
    out = np.asarray(got())
    assert out.shape == expected.shape, case
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4, err_msg=str(case))


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("rank", [1, 2])
def test_convolutions_of_extreme_geometry(rank: int, groups: int) -> None:
    torch = pytest.importorskip("torch")
    numbers = np.random.default_rng(0)
    ours = getattr(F, f"conv{rank}d")
    theirs = getattr(torch.nn.functional, f"conv{rank}d")
    for n, k, s, p, d in GRID:
        x = numbers.standard_normal((2, 3, *[n, n + 1][:rank]), np.float32)
        w = numbers.standard_normal((6, 3 // groups, *[k, 1][:rank]), np.float32)
        how = {"stride": s, "padding": p, "dilation": d, "groups": groups}
        _both(
            lambda x=x, w=w, how=how: ours(fx.tensor(x), fx.tensor(w), **how),
            lambda x=x, w=w, how=how: theirs(torch.tensor(x), torch.tensor(w), **how),
            (x.shape, w.shape, how),
        )


@pytest.mark.parametrize("name", ["max", "avg"])
def test_pools_of_extreme_geometry(name: str) -> None:
    torch = pytest.importorskip("torch")
    numbers = np.random.default_rng(0)
    ours = getattr(F, f"{name}_pool2d")
    theirs = getattr(torch.nn.functional, f"{name}_pool2d")
    for n, k, s, p, _ in GRID:
        if n + 2 * p < k or 2 * p > k:
            continue
        x = numbers.standard_normal((2, 3, n, n + 1), np.float32)
        for ceil_mode in (False, True):
            how = {"kernel_size": (k, 1 if p == 0 else k), "stride": s, "padding": p}
            _both(
                lambda x=x, how=how, c=ceil_mode: ours(fx.tensor(x), ceil_mode=c, **how),
                lambda x=x, how=how, c=ceil_mode: theirs(torch.tensor(x), ceil_mode=c, **how),
                (x.shape, how, ceil_mode),
            )
