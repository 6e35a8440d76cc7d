"""Collectives across the lanes of a named vmap: values, derivatives, every word of transforms.

The laws see a collective at levels that are not its own. Here its own level runs inside the
function that is tested, so that the function of all lanes at once is an ordinary one.
"""

import random

import numpy as np
import pytest

from fx.config import modes
from fx.levels import live
from fx.prims.reduction import sum as sum_of
from fx.prims.sampling import Draw
from fx.testing import broken_words, primitive, words
from fx.testing.case import array_of, directions, numeric, tensor
from fx.testing.words import Subject
from fx.transforms import grad, jvp, vjp, vmap
from fx.transforms.batching import lane_index
from tests.thorough import THOROUGH

LANES = 3
SOURCES = (2, -1, 0)  # nobody sends to lane 1

MORE = {"ppermute": {"sources": SOURCES}, "pbroadcast": {"source": 1}}
REFERENCE = {
    "psum": lambda rows: np.broadcast_to(rows.sum(0), rows.shape),
    "pmax": lambda rows: np.broadcast_to(rows.max(0), rows.shape),
    "pmin": lambda rows: np.broadcast_to(rows.min(0), rows.shape),
    "all_gather": lambda rows: np.broadcast_to(rows, (LANES, *rows.shape)),
    "pbroadcast": lambda rows: np.broadcast_to(rows[1], rows.shape),
    "ppermute": lambda rows: np.stack([rows[s] if s >= 0 else 0 * rows[0] for s in SOURCES]),
}


def in_a_lane(name):
    """The collective as a function of what one lane of the innermost vmap holds."""

    def call(x):
        axis = modes.axes[-1].number
        args = (x, lane_index(live[axis])) if name not in ("psum", "pmax", "pmin") else (x,)
        out = primitive(name)(*args, axis=axis, size=LANES, **MORE.get(name, {}))
        return out[0] if name == "psum" else out

    return call


def across(name):
    """The collective as a function of all lanes."""
    return vmap(in_a_lane(name), axis_name="lanes")


@pytest.fixture(params=[(LANES,), (LANES, 2)], ids=str)
def rows(request):
    return 1.0 + Draw(random.Random(0)).distinct(request.param)  # the squares are distinct too


@pytest.mark.parametrize("name", REFERENCE)
def test_values(name, rows):
    (got,) = numeric(across(name))(rows)
    np.testing.assert_allclose(got, REFERENCE[name](rows), rtol=1e-15)


@pytest.mark.parametrize("name", REFERENCE)
def test_every_word_holds(name, rows):
    function = across(name)
    subject = Subject(lambda x: (function(x * x),), rows)
    adds_and_moves = ("psum", "ppermute") if rows.ndim == 1 else ()
    turn = list(REFERENCE).index(name) + rows.ndim

    def met(i, word):
        """All of two letters; of three a third, with jit on one that adds or one that moves."""
        if len(word) < 3 or THOROUGH:
            return True
        if "c" in word:
            return name in adds_and_moves and i % 2 == adds_and_moves.index(name)
        return i % 3 == turn % 3

    only = [word for i, word in enumerate(words(3)) if met(i, word)]
    broken = broken_words(primitive(name), subject=subject, only=only)
    assert not broken, "\n".join(map(str, broken.values()))


@pytest.mark.parametrize("name", REFERENCE)
def test_derivatives_inside_the_lanes_are_those_of_the_sum_over_lanes(name, rows):
    weights = directions([REFERENCE[name](rows)])[0]
    (tangent,) = directions([rows], 1)
    _, pullback = vjp(across(name), tensor(rows))
    (whole,) = pullback(tensor(weights))

    def loss(x, w):
        y = in_a_lane(name)(x) * w
        return sum_of(y, axes=tuple(range(y.ndim)), keepdims=False)

    inside = vmap(grad(loss), axis_name="lanes")(tensor(rows), tensor(weights))
    np.testing.assert_allclose(array_of(inside), array_of(whole), rtol=1e-14)

    pushed = vmap(lambda x, t: jvp(in_a_lane(name), (x,), (t,))[1], axis_name="lanes")
    want = jvp(across(name), (tensor(rows),), (tensor(tangent),))[1]
    got = pushed(tensor(rows), tensor(tangent))
    np.testing.assert_allclose(array_of(got), array_of(want), rtol=1e-14)


@pytest.mark.parametrize("name", REFERENCE)
def test_what_every_lane_shares(name):
    x = np.asarray([0.5, -1.5])
    function = vmap(lambda lane, x: in_a_lane(name)(x) + 0.0 * lane, (0, None), axis_name="lanes")
    got = array_of(function(tensor(np.zeros(LANES)), tensor(x)))
    np.testing.assert_allclose(got, REFERENCE[name](np.stack([x] * LANES)), rtol=1e-15)
