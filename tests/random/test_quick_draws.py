"""Draws that move the generator on by themselves draw the bits of those that do not."""

from __future__ import annotations

import numpy as np
import pytest

import fx
import fx.random.generator as generator
from fx.backends.cpu import draws, philox
from fx.random import order

NAN, INF = float("nan"), float("inf")


def sequence():
    return [
        fx.randn(3, 5), fx.rand(7), fx.randint(-3, 9, (4, 4)), fx.randn(3, dtype=fx.float64),
        fx.nn.functional.dropout(fx.ones((6, 6)), 0.3), fx.randperm(70), fx.randperm(300),
        fx.bernoulli(fx.linspace(0, 1, 40)), fx.bernoulli(fx.full((5, 4), 0.3, dtype=fx.float64)),
        fx.normal(1.0, 2.0, (6,)), fx.rand_like(fx.ones((2, 3))), fx.get_rng_state(),
    ]  # fmt: skip


def slowly(monkeypatch):
    monkeypatch.setattr(generator, "with_next_key", lambda *args: None)


@pytest.mark.parametrize("call", [0, 5, 2**32 - 3, 2**32 - 1])
def test_bits_and_states_are_the_same(call, monkeypatch):
    draws.random_draw(np.zeros(6, np.uint32), family="normal", shape=(5000,), dtype=np.dtype("f4"))
    for f in (lambda: fx.randn(5000), lambda: fx.rand(5000), lambda: fx.randint(5, (5000,)),
              lambda: fx.nn.functional.dropout(fx.ones(5000)),
              lambda: fx.randn(5000, dtype=fx.float64)):  # fmt: skip
        f()  # kernels are loaded
    assert ("bits", np.dtype("uint32")) in philox.loaded
    state = fx.asarray(np.array([1, 2, 3, call, 5, 6], np.uint32))
    fx.set_rng_state(state)
    quick = [x.numpy().copy() for x in sequence()]
    slowly(monkeypatch)
    fx.set_rng_state(state)
    for got, want in zip(quick, sequence(), strict=True):
        np.testing.assert_array_equal(got, want.numpy())
    assert quick[-1][2] == 3 + (call > 2**32 - 12)


@pytest.mark.parametrize("chances", [[0.5, 1.5], [0.1, float("nan")], [-1e-9, 0.2]])
def test_what_is_no_probability_is_refused_and_draws_nothing(chances):
    fx.randn(5000)  # kernels are loaded
    before = fx.get_rng_state()
    with pytest.raises(ValueError, match="probabilities must lie in"):
        fx.bernoulli(fx.tensor(chances))
    np.testing.assert_array_equal(before.numpy(), fx.get_rng_state().numpy())


@pytest.mark.parametrize("weights", [[0.0, 0.0], [NAN, 0.1], [0.1, NAN], [0.1, INF], [-1.0, 2.0]])
def test_what_are_no_weights_is_refused(weights):
    for given in (weights, [[1.0, 1.0], weights], [weights * 200]):
        with pytest.raises(RuntimeError, match="multinomial: "):
            fx.multinomial(fx.tensor(given), 1)


def test_wrong_ranges_are_refused_as_before():
    with pytest.raises(ValueError, match="low must be less than high"):
        fx.randint(5, 5, (2,))
    with pytest.raises(fx.errors.ShapeError):
        fx.randint(0, 5, (-2,))
    with pytest.raises(
        fx.errors.DTypeError, match="only floating and complex tensors can require grad"
    ):
        fx.randint(0, 5, (2,), requires_grad=True)


@pytest.mark.parametrize("shape", [(5,), (1, 4), (3, 7), (100, 6)])
@pytest.mark.parametrize("count", [1, 5, 40])
def test_places_by_weight_are_those_of_the_key(shape, count):
    weights = fx.rand(shape) + 0.1
    fx.manual_seed(count)
    found = [fx.multinomial(weights, count, replacement=True) for _ in range(3)]
    generator = fx.Generator().manual_seed(count)
    for one in found:
        key = fx.random.next_key(generator)
        assert one.tolist() == order.weighted(key, weights, count, True).tolist()
    assert fx.random.next_key().tolist() == fx.random.next_key(generator).tolist()


@pytest.mark.parametrize("rows", [1, 3, 200])
@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), -float("inf"), 0.0])
def test_weights_that_are_none_are_refused_and_draw_nothing(rows, bad):
    for at in {0, rows - 1}:
        weights = fx.ones((rows, 3)).at[at].set(0.0).at[at, 1].set(bad)
        fx.manual_seed(1)
        with pytest.raises(RuntimeError):
            fx.multinomial(weights, 2, replacement=True)
        with pytest.raises(RuntimeError):
            fx.multinomial(weights[at], 2, replacement=True)
        assert (
            fx.random.next_key().tolist()
            == fx.random.next_key(fx.Generator().manual_seed(1)).tolist()
        )
