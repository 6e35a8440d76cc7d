"""Values and slopes at NaN, infinities, zeros, kinks and ties, against PyTorch's.

PyTorch says one thing of a vector of equal numbers and another of one number alone where its
vectorised code differs from the rest; either will do. Differences that are meant stand by name in
``special_functions.py``.
"""

import numpy as np
import pytest
import torch

import fx
import fx.torch as face
from tests.laws.special_functions import (
    ELEMENTWISE,
    INF,
    NUMBERS,
    OTHER_ROWS,
    OTHER_SLOPES,
    OTHER_VALUES,
    ROWS,
    ROWWISE,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def differs(got, want):
    """Where numbers are not of one class (NaN, infinite, signed), or apart by more than 1e-5."""
    g, w = np.asarray(got, np.float64), np.asarray(want, np.float64)
    close = np.abs(g - w) <= 2e-5 * np.abs(w) + np.where(np.abs(w) < 1e3, 1e-6, 1e-38)
    return ~((g == w) | (np.isnan(g) & np.isnan(w)) | close)


def shown(wrong, *arrays):
    return [tuple(a[tuple(i)].tolist() for a in arrays) for i in np.argwhere(wrong)[:5]]


def among(numbers, others):
    return np.array(
        [any(x == y or (x != x and y != y) for y in np.float32(others)) for x in numbers]
    )


def in_torch(f, numbers):
    x = torch.tensor(numbers, requires_grad=True)
    y = f(torch, x)
    if y.requires_grad:
        y.sum().backward()
    slope = torch.zeros_like(x) if x.grad is None else x.grad
    return y.detach().numpy(), slope.numpy()


def in_fx(f):
    """Values and slopes: by reverse mode, compiled, in lanes, and by forward mode."""
    value = lambda x: f(face, x)
    both = lambda x: (value(x), fx.grad(lambda x: value(x).sum())(x))
    alone = fx.vmap(lambda x: tuple(y[0] for y in both(x[None])))
    forward = lambda x: fx.jvp(value, (x,), (fx.ones_like(x),))
    return {"eager": both, "jit": fx.jit(both), "vmap": alone, "jvp": forward}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elements(name):
    f = ELEMENTWISE[name]
    many = [a[32::64] for a in in_torch(f, np.repeat(NUMBERS, 64))]
    each = [np.concatenate(a) for a in zip(*[in_torch(f, x[None]) for x in NUMBERS])]
    for way, run in in_fx(f).items():
        found = run(fx.tensor(NUMBERS))
        for k, meant in enumerate((OTHER_VALUES, OTHER_SLOPES)):
            got, (others, _) = found[k].numpy(), meant.get(name, ((), ""))
            wrong = differs(got, many[k]) & differs(got, each[k])
            wrong &= ~among(NUMBERS, others)
            assert not wrong.any(), (way, k, shown(wrong, NUMBERS, got, many[k], each[k]))


@pytest.mark.parametrize("name", ROWWISE)
def test_rows(name):
    """Values of all rows; slopes of those that hold no infinity."""
    f = ROWWISE[name]
    x = torch.tensor(ROWS, requires_grad=True)
    y = f(torch, x)
    weights = np.linspace(-1.0, 2.0, 7, dtype=np.float32)
    weigh = lambda y, w: (y * w[: y.shape[-1]]).sum() if y.ndim > 1 else y.sum()
    value = lambda x: f(face, x)
    slope = fx.grad(lambda x: weigh(value(x), fx.tensor(weights)))
    for way in (lambda f: f, fx.jit):
        got = way(value)(fx.tensor(ROWS)).numpy()
        wrong = differs(got, y.detach().numpy())
        assert not wrong.any(), (way, shown(wrong, got, y.detach()))
    if not y.requires_grad or name == "norm 0":
        return
    weigh(y, torch.tensor(weights)).backward()
    meant, _ = OTHER_ROWS.get(name, (np.zeros(len(ROWS), bool), ""))
    for way in (lambda f: f, fx.jit):
        got = way(slope)(fx.tensor(ROWS)).numpy()
        wrong = differs(got, x.grad.numpy()).any(1) & ~np.isinf(ROWS).any(1) & ~meant
        assert not wrong.any(), (way, shown(wrong, ROWS, got, x.grad))


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_differences_of_rows_are_differences(name):
    """What is excused differs: an excuse that is not needed any more goes."""
    f, (meant, _) = ROWWISE[name], OTHER_ROWS[name]
    x = torch.tensor(ROWS, requires_grad=True)
    (f(torch, x) * 1.5).sum().backward()
    got = fx.grad(lambda x: (f(face, x) * 1.5).sum())(fx.tensor(ROWS)).numpy()
    assert differs(got, x.grad.numpy())[meant & ~np.isinf(ROWS).any(1)].any()


@pytest.mark.parametrize("name", {**OTHER_VALUES, **OTHER_SLOPES})
def test_differences_of_elements_are_differences(name):
    want = in_torch(ELEMENTWISE[name], np.repeat(NUMBERS, 64))
    got = in_fx(ELEMENTWISE[name])["eager"](fx.tensor(NUMBERS))
    for k, meant in enumerate((OTHER_VALUES, OTHER_SLOPES)):
        if name in meant and name != "cosine loss":  # whose reverse mode is PyTorch's
            assert differs(got[k].numpy(), want[k][32::64]).any()


def test_a_sum_of_nothing_but_minus_infinity_has_no_slope():
    """PyTorch's is NaN; fx's is 0, so that rows that are masked as a whole do not spread NaN."""
    x = fx.full((2, 3), -np.inf)
    assert (fx.grad(lambda x: fx.logsumexp(x, 1).sum())(x).numpy() == 0).all()


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, INF])
@pytest.mark.parametrize("name", ["cdist", "pdist"])
def test_distances_of_rows_of_ties(name, p):
    """Whole numbers of a small range: rows that are equal, and several farthest elements."""
    x = np.random.default_rng(5).integers(-2, 3, (9, 4)).astype(np.float32)
    found = []
    for m in (torch, face):
        t = m.tensor(x, requires_grad=True)
        y = m.cdist(t[:4], t[3:], p=p) if name == "cdist" else m.nn.functional.pdist(t, p=p)
        (y * m.arange(1.0, 1.0 + y.numel()).reshape(y.shape)).sum().backward()
        found += [y.detach().numpy(), t.grad.numpy()]
    assert not differs(found[2], found[0]).any() and not differs(found[3], found[1]).any()
