"""One leaf in several places: arguments, captured tensors, containers; its gradient is the sum."""

from itertools import product

import numpy as np
import pytest

import fx

PLACES = ("first", "second", "listed", "outside")


def leaves():
    rng = np.random.default_rng(0)
    return [fx.tensor(rng.normal(size=3), requires_grad=True) for _ in PLACES]


def run(wrap, patterns):
    """Gradients of all leaves after a call for each pattern: which leaf stands in which place."""
    held = leaves()
    around = [held[0]]

    def step(a, b, listed):
        loss = a.sin().sum() + (b * b).sum() * 2 + listed["x"].exp().sum() * 3
        loss = loss + (around[0] * a).sum() * 5
        loss.backward()
        return loss

    wrapped = wrap(step)
    found = []
    for a, b, c, d in patterns:
        around[0] = held[d]
        loss = wrapped(held[a], held[b], {"x": held[c]})
        found.append(float(loss))
    return found, [None if x.grad is None else x.grad.numpy() for x in held]


@pytest.mark.filterwarnings("ignore:jit")
@pytest.mark.parametrize("seed", range(6))
def test_gradients_of_leaves_that_stand_in_several_places(seed):
    every = list(product(range(3), repeat=4))
    rng = np.random.default_rng(seed)
    patterns = [every[i] for i in rng.integers(len(every), size=6)]
    patterns += patterns[:2]
    losses, gradients = run(lambda f: f, patterns)
    jitted, compiled = run(fx.jit, patterns)
    np.testing.assert_allclose(jitted, losses)
    for ours, theirs in zip(compiled, gradients):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs)


def test_a_leaf_given_twice_stays_compiled(recwarn):
    x = fx.tensor([1.0, 2.0], requires_grad=True)

    @fx.jit
    def step(p, q):
        (p.sum() + (q * q).sum()).backward()

    step(x, x)
    np.testing.assert_allclose(x.grad.numpy(), [3.0, 5.0])
    assert not recwarn.list and len(step.programs) == 1


def test_a_leaf_that_no_result_depends_on_gets_no_gradient():
    """Zeros would be another step: weight decay and momentum move what has a gradient."""

    def run(wrap):
        held = leaves()

        @wrap
        def f(a, b):
            held[2].T.shape, held[3].detach().sum()
            return b * 1 + held[3].detach(), (a > 0).sum()

        f(held[0], held[1])[0].sum().backward()
        return [None if x.grad is None else x.grad.numpy().tolist() for x in held]

    assert run(fx.jit) == run(lambda f: f)
