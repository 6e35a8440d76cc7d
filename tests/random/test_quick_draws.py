"""Draws that move the generator on by themselves draw the bits of those that do not."""

from __future__ import annotations

import numpy as np
import pytest

import fx
import fx.random.generator as generator
from fx.backends.cpu import draws, philox


def sequence():
    return [
        fx.randn(3, 5), fx.rand(7), fx.randint(-3, 9, (4, 4)), fx.randn(3, dtype=fx.float64),
        fx.nn.functional.dropout(fx.ones((6, 6)), 0.3), fx.get_rng_state(),
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
    assert quick[-1][2] == 3 + (call > 2**32 - 6)


def test_wrong_ranges_are_refused_as_before():
    with pytest.raises(ValueError, match="low must be less than high"):
        fx.randint(5, 5, (2,))
    with pytest.raises(fx.errors.ShapeError):
        fx.randint(0, 5, (-2,))
    with pytest.raises(fx.errors.DTypeError, match="only floating tensors can require grad"):
        fx.randint(0, 5, (2,), requires_grad=True)
