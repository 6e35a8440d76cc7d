"""What depends on no argument but on sizes: nothing of it may be known when it is compiled.

Three sizes below a bound, or above it, agree in what a fourth on the other side of it does not:
which numbers of a row lie below 12, how far a table is one number, what is left of 13.
"""

import numpy as np
import pytest

import fx
from fx.nn import functional as F
from tests.thorough import pairs

_TABLE = [1.0] * 12 + [9.0] * 60
_KEY = fx.random.key(3)

# tensors of sizes that no argument has a part in
SOURCES = {
    "counted": lambda n: fx.arange(n),
    "from 13": lambda n: fx.arange(13, n),
    "what is left of 13": lambda n: fx.arange(13 - n),
    "ones": lambda n: fx.ones(n),
    "of int8": lambda n: fx.full((n,), 10, dtype=fx.int8),
    "squares": lambda n: fx.full((n, n), 2.0),
    "repeated": lambda n: fx.broadcast_to(fx.tensor(2.0), (n,)),
    "a table": lambda n: fx.tensor(_TABLE)[:n],
    "a table in rows": lambda n: fx.tensor(range(5040)).reshape(n, -1)[0],
    "a diagonal": lambda n: fx.eye(13, n),
    "another diagonal": lambda n: fx.eye(n, 13),
    "a triangle": lambda n: fx.tril(fx.ones((n, n)), -9),
    "draws": lambda n: fx.random.uniform(_KEY, (n,)),
    "the slope of a mean": lambda n: fx.grad(lambda v: v.mean())(fx.ones(n)),
    "the slope of a variance": lambda n: fx.grad(lambda v: v.var())(fx.arange(n) * 1.0),
}
MADE = {
    "sum": lambda c: fx.sum(c),
    "below 12": lambda c: fx.all(c < 12),
    "some above 12": lambda c: fx.where(c > 12, 1.0, 0.0).sum(),
    "12 at most": lambda c: fx.minimum(c, 12).max() if c.size else c.sum(),
    "a sum of 20 at most": lambda c: fx.minimum(fx.sum(c), 20),
    "a mean of 0.1 at most": lambda c: fx.minimum(fx.mean(c), 0.1) if c.size else c.sum(),
    "a small number at most": lambda c: fx.minimum(c, 0.08).sum(),
    "how many": lambda c: fx.count_nonzero(c > 0.5),
    "products": lambda c: fx.minimum((c @ c.mT if c.ndim > 1 else c @ c).sum(), 20),
    "running": lambda c: fx.cumsum(c, -1).sum(),
    "around": lambda c: F.pad(c, (1, 1)).sum().clip(0, 15),
    "twice": lambda c: fx.stack([c, c]).sum().clip(0, 24),
}
ALONE = {
    "a mask": lambda x: fx.where(fx.arange(x.shape[0])[:, None] < 12, x, 0),
    "a window": lambda x: fx.triu(x @ x.T, -9),
    "clipped places": lambda x: x * fx.clip(fx.arange(x.shape[0])[:, None], 0, 12),
    "one of them": lambda x: x * (fx.arange(x.shape[0]) == 12)[:, None],
    "a table as a mask": lambda x: fx.where(fx.tensor(_TABLE)[: x.shape[0], None] == 1, x, 0),
    "no freedom": lambda x: x.var(0, correction=13),
    "no freedom of a deviation": lambda x: fx.std(x, axis=0, correction=13),
    "half a freedom": lambda x: x.var(0, correction=0.5),
    "a slope": lambda x: fx.minimum(fx.grad(lambda v: v.mean())(x), 0.015),
    "a slope of a sum": lambda x: x * fx.minimum(fx.grad(lambda v: v.sum())(x).sum(), 70),
    "pulled back": lambda x: x * fx.minimum(fx.vjp(fx.sum, x)[1](fx.tensor(1.0))[0].sum(), 70),
    "pushed": lambda x: x * fx.minimum(_pushed(x), 70),
    "a branch": lambda x: x * 2 if fx.arange(x.shape[0]).sum() > 66 else x * 3,
    "a branch on a slope": lambda x: x * 2 if fx.grad(fx.sum)(x).sum() > 70 else x * 3,
    "an element": lambda x: x * min(float(fx.ones(x.shape[0]).sum()), 12),
    "a list": lambda x: x * min(len(fx.ones(x.shape[0]).tolist()), 12),
    "a place": lambda x: x[int(fx.arange(x.shape[0]).max() > 12)],
    "sizes that are no integers": lambda x: fx.ones(1 / (x.shape[0] + 1)) * x,
}


def _pushed(x):
    return fx.jvp(lambda s: s + x, (fx.tensor(1.0),), (fx.tensor(1.0),))[1].sum()


BELOW = (6, 7, 9, 10, 11, 8, 5, 14, 20, 40, 13, 12, 2, 3, 17)
ABOVE = (16, 17, 19, 20, 21, 24, 40, 12, 7, 5, 13, 14, 9, 2, 3)


def _x(n):
    return fx.asarray(np.random.default_rng(n).normal(size=(n, 6)).astype(np.float32))


def _outcome(function, *args):
    try:
        return np.asarray(function(*args))
    except Exception as error:
        return type(error)


def _is_eager_at_each_size(function, order):
    jitted = fx.jit(function)
    for n in order:
        want, got = _outcome(function, _x(n)), _outcome(jitted, _x(n))
        if isinstance(want, type) or isinstance(got, type):
            assert want is got, (n, want, got)
            continue
        assert want.shape == got.shape and want.dtype == got.dtype
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5, err_msg=f"size {n}")


@pytest.mark.parametrize(("source", "made"), pairs(SOURCES, MADE, 3))
def test_what_is_made_of_sizes_alone_is_another_at_each(source, made):
    """One order a case, in turn: below a bound first, or above it."""
    counted, number = SOURCES[source], MADE[made]

    def scaled(x):
        return x * number(counted(x.shape[0]))

    orders = (BELOW, ABOVE)
    first = list(SOURCES).index(source) % 2
    _is_eager_at_each_size(scaled, orders[first])


@pytest.mark.parametrize(("name", "order"), pairs(ALONE, (BELOW, ABOVE), 2))
def test_a_bound_that_sizes_pass_is_none_of_the_code(name, order):
    function = ALONE[name]
    _is_eager_at_each_size(lambda x: function(x), order)


COUNTED = ("counted", "from 13", "what is left of 13", "ones", "a table")
BOUNDED = ("sum", "below 12", "12 at most", "a sum of 20 at most")


@pytest.mark.parametrize(("source", "made"), pairs(COUNTED, BOUNDED, 2))
def test_so_it_is_of_lengths_that_are_arguments(source, made):
    counted, number = SOURCES[source], MADE[made]

    def scaled(x, n):
        return x[:n].sum(0) * number(counted(n))

    jitted, x = fx.jit(scaled), _x(50)
    for n in BELOW:
        np.testing.assert_allclose(
            _outcome(jitted, x, n), _outcome(scaled, x, n), rtol=2e-5, atol=2e-5, err_msg=str(n)
        )


def test_two_functions_of_one_form_do_not_take_each_others_code():
    """From the lines of two graphs a formula may say that an axis has less than no elements."""

    def rows(x):
        return x * fx.eye(x.shape[0], 13).sum()

    def columns(x):
        return x * fx.eye(13, x.shape[0]).sum()

    for function in (rows, columns):
        _is_eager_at_each_size(function, BELOW)
