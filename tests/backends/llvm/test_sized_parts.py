"""Parts of an axis, as every second element is: for each rest a program that serves any size."""

import numpy as np
import pytest

import fx
from fx.graph.family import Family, Numbered
from tests.backends.llvm.test_sized import served

assert served  # a fixture

CASES = {
    "every second": lambda x: x[::2] * 2,
    "the others": lambda x: fx.exp(x[1::2]),
    "across": lambda x: x.T[:, ::2].sum(1) + x[1:].sum(0),
    "backwards": lambda x: x[::-2] * 3,
    "pairs": lambda x: x[: x.shape[0] // 2 * 2 : 2] - x[1::2],
    "the first half": lambda x: x[: x.shape[0] // 2] @ x.T,
    "turned": lambda x: fx.flip(x[::2], axis=0) + x[-1],
    "softmax": lambda x: fx.softmax(x[1::2], axis=0),
    "summed": lambda x: fx.cumsum(x[::2], axis=0),
    "gradient": lambda x: fx.grad(lambda x: (x[::2] ** 2).sum() + (x[1::2] ** 3).sum())(x),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_even_and_odd_sizes_are_served_by_one_program_each(served, name):
    f = CASES[name]
    jitted, emitted, sized = fx.jit(f), [], []
    sizes = (40, 41, 60, 61, 44, 47, 32, 33, 58, 59, 126, 125, 1, 2, 3, 4, 5, 10, 9)
    for n in sizes:
        x = fx.tensor(np.random.default_rng(n).normal(size=(n, 6)).astype("f"))
        before = dict(served)
        np.testing.assert_allclose(jitted(x), f(x), rtol=2e-5, atol=2e-5)
        emitted.append(served["kernels"] - before["kernels"])
        sized.append(served["sized"] - before["sized"])
    assert sized[4:12] == [1] * 8, sized
    assert not any(emitted[4:12]), emitted
    assert sized[-2:] == [1, 1]


def families(f, *sizes):
    graphs = [fx.make_graph(f)(fx.ones((n, 3))) for n in sizes]
    numbered = [Numbered(g) for g in graphs]
    return graphs, numbered, Family(numbered[0], numbered[1])


def test_a_part_of_an_axis_gets_the_name():
    graphs, (_, _, even, odd), known = families(lambda x: x[::2], 20, 28, 34, 35)
    assert known.parts == {"a": (2, 0)} and known.axes == {(0, 0): "2*a"}
    assert known.sizes_of(even.numbers) == {"a": 17} and known.sizes_of(odd.numbers) is None
    assert known.at(graphs[0], {"a": 50}).outputs[0].spec.shape == (50, 3)
    _, (_, _, odd, even), known = families(lambda x: x[::2], 21, 27, 35, 34)
    assert known.parts == {"a": (2, 1)} and known.axes == {(0, 0): "2*a + 1"}
    assert known.sizes_of(odd.numbers) == {"a": 17} and known.sizes_of(even.numbers) is None
    _, _, whole = families(lambda x: x[2:], 20, 28)
    assert not whole.parts
