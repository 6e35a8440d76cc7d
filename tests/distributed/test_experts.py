"""Mixture of experts: against a loop over tokens, and on ranks against one process."""

import math

import numpy as np
import pytest

import fx
from fx.autograd.gradcheck import gradcheck
from fx.distributed import mixture_of_experts
from tests.distributed.ranks import cases


@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("case", cases("cases_experts.py"))
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_experts.py", size)[case]


def given(t=12, d=4, e=6, h=5, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=n) for n in ((t, d), (d, e), (e, d, h), (e, h, d))]


def one_by_one(x, router, up, down, k, factor, groups=1):
    """A token after the other: first choices before second ones."""
    out, share, mean, experts = np.zeros_like(x), 0, 0, router.shape[1]
    for rows in np.split(np.arange(len(x)), groups):
        scores = x[rows] @ router
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        best = np.argsort(-p, 1)[:, :k]
        room = np.full(experts, max(1, math.ceil(len(rows) * k / experts * factor)))
        for choice in range(k):
            for i, row in enumerate(rows):
                e = best[i, choice]
                if room[e]:
                    room[e] -= 1
                    weight = p[i, e] / (p[i, best[i]].sum() if k > 1 else 1)
                    out[row] += weight * (np.tanh(x[row] @ up[e]) @ down[e])
        share = share + np.bincount(best[:, 0], minlength=experts) / len(x)
        mean = mean + p.sum(0) / len(x)
    return out, experts * (share * mean).sum()


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("factor", [0.3, 1.0, 6.0])
@pytest.mark.parametrize("groups", [1, 3])
def test_it_is_what_a_loop_over_tokens_gives(k, factor, groups):
    arrays = given(seed=k)
    want, balance = one_by_one(*arrays, k, factor, groups)
    f = lambda *xs: mixture_of_experts(
        *xs, k=k, capacity_factor=factor, groups=groups, activation=fx.tanh
    )
    for g in (f, fx.jit(f)):
        y, told = g(*map(fx.from_numpy, arrays))
        np.testing.assert_allclose(y.numpy(), want, 1e-10, 1e-12)
        np.testing.assert_allclose(float(told), balance, 1e-12)
    if factor < 1:
        assert (abs(want).sum(1) == 0).any()  # some tokens have no expert


def test_derivatives():
    tensors = [fx.from_numpy(a).requires_grad_() for a in given(6, 3, 4, 2)]
    assert gradcheck(lambda *xs: mixture_of_experts(*xs, capacity_factor=0.8), tensors)


def test_leading_axes_are_tokens():
    x, *weights = map(fx.from_numpy, given(t=12))
    y, balance = mixture_of_experts(x.reshape(3, 4, 4), *weights)
    flat, same = mixture_of_experts(x, *weights)
    assert y.shape == (3, 4, 4) and (y.reshape(12, 4) == flat).all() and balance == same


def test_equal_shares_have_balance_one():
    x = fx.eye(4).repeat(3, 1)
    router = 100 * fx.eye(4)
    zeros = fx.zeros((4, 4, 2)), fx.zeros((4, 2, 4))
    assert float(mixture_of_experts(x, router, *zeros, k=1)[1]) == pytest.approx(1)
    lonely = fx.eye(4)[:1].repeat(12, 1)  # all want one expert
    assert float(mixture_of_experts(lonely, router, *zeros, k=1)[1]) == pytest.approx(4)


def test_floats_of_16_bits_are_routed_in_32():
    arrays = [fx.from_numpy(a).astype(fx.bfloat16) for a in given()]
    y, balance = mixture_of_experts(*arrays)
    assert y.dtype == fx.bfloat16 and balance.dtype == fx.float32
    want, _ = mixture_of_experts(*[a.astype(fx.float32) for a in arrays])
    assert float(abs(y.astype(fx.float32) - want).max()) < 0.05 * float(abs(want).max())


def test_what_does_not_fit_is_named():
    x, router, up, down = map(fx.from_numpy, given())
    with pytest.raises(ValueError, match=r"down \(experts, hidden, features\), got \(12, 4\)"):
        mixture_of_experts(x, router, up, down.mT)
    with pytest.raises(ValueError, match="k is from 1 to the 6 experts, got 7"):
        mixture_of_experts(x, router, up, down, k=7)
    with pytest.raises(ValueError, match="1 ranks of 3 experts, where the router knows 6"):
        mixture_of_experts(x, router, up[:3], down[:3])
    with pytest.raises(ValueError, match="12 tokens in 5 groups"):
        mixture_of_experts(x, router, up, down, groups=5)
    with pytest.raises(TypeError, match="one floating dtype"):
        mixture_of_experts(x.astype(fx.float32), router, up, down)
