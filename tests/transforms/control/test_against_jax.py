"""Values and derivatives against ``jax.lax``, in float64; the same under ``fx.jit`` as without."""

import numpy as np
import pytest

import fx
from tests.transforms.control import cases
from tests.transforms.control.words import POINT, Ours, applied, values, words
from tests.transforms.oracle import array, same

SMOOTH = pytest.mark.parametrize("case", cases.SMOOTH, ids=lambda c: c.__name__)
FORWARD = pytest.mark.parametrize("case", cases.FORWARD, ids=lambda c: c.__name__)


@SMOOTH
def test_values_gradients_and_lanes(case):
    for word in ("", "g", "vg", "jv"):
        same(*values(case, word))


@FORWARD
def test_loops_of_unknown_length_forwards(case):
    for word in ("", "j", "v", "vj"):
        same(*values(case, word))


@SMOOTH
def test_third_order_of_words(case):
    """Each word against the same word with the order of vmap and derivative exchanged."""
    same(ours(case, "gg"), ours(case, "gg", jitted=True))
    for one, other in (("jg", "jg"), ("vgg", "vgg"), ("gvg", "gvg")):
        same(ours(case, one), ours(case, other, jitted=True), rtol=1e-8)


def ours(case, word, jitted=False):
    """What fx gives; with the function inside, or every derivative of it, jitted."""
    f = case(fx, fx)
    x = fx.tensor(POINT)
    if not jitted:
        return array(applied(Ours, word, f, fx.tensor)(x))
    inside = array(applied(Ours, word + "c", f, fx.tensor)(x))
    outside = array(applied(Ours, "c" + word, f, fx.tensor)(x))
    np.testing.assert_allclose(inside, outside, 1e-8, 1e-10)
    return inside


@SMOOTH
def test_short_words_under_jit(case):
    for word in words("gjv", 1):
        same(ours(case, word), ours(case, word, jitted=True))


@FORWARD
def test_going_back_through_a_loop_of_unknown_length(case):
    """JAX refuses; the oracle is forward mode."""
    f, x = case(fx, fx), fx.tensor(POINT)
    forwards = fx.jacfwd(f)(x)
    for g in (f, fx.jit(f), fx.vmap(f)):
        if g is not f and not isinstance(g, type(fx.jit(f))):
            same(fx.jacrev(g)(x[None])[0, :, 0], forwards)
        else:
            same(fx.jacrev(g)(x), forwards)
    same(fx.jit(fx.jacrev(f))(x), forwards)
    same(fx.vmap(fx.jacrev(f))(x[None])[0], forwards)
    same(fx.hessian(lambda x: f(x).sum())(x), fx.jit(fx.jacrev(fx.grad(lambda x: f(x).sum())))(x))
