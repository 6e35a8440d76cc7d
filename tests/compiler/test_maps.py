"""Index maps: views followed back to their argument, against NumPy's own views."""

import itertools

import numpy as np
import pytest

from fx.compiler.maps import NoMap, Space, covers, linear, through
from tests.backends.llvm.run_step import node_of


def _elements(space, form, loops):
    """The value of a form for each iteration of the loops."""
    form = space.resolve(form)
    order = [d for d in range(len(space.sizes)) if d not in space.splits]
    assert set(loops) <= set(order)
    out = {}
    for index in itertools.product(*[range(space.sizes[d]) for d in order]):
        at = dict(zip(order, index))
        out[index] = form[0] + sum(c * at[d] for d, c in form[1])
    return list(out.values())


@pytest.mark.parametrize(
    ("name", "shape", "params"),
    [
        ("reshape", (4, 6), {"shape": (24,)}),
        ("reshape", (24,), {"shape": (2, 3, 4)}),
        ("reshape", (4, 6), {"shape": (2, 2, 6)}),
        ("reshape", (4, 6), {"shape": (8, 3)}),
        ("reshape", (2, 3, 4), {"shape": (6, 1, 4)}),
        ("transpose", (2, 3, 4), {"axes": (2, 0, 1)}),
        ("broadcast_to", (3, 1), {"shape": (2, 3, 4)}),
        ("slice", (5, 6), {"start": (1, 0), "stop": (5, 6), "step": (2, 3)}),
        ("slice", (5, 6), {"start": (1, 2), "stop": (2, 6), "step": (1, 1), "drop": (0,)}),
        ("flip", (3, 4), {"axes": (1,)}),
        ("stop_gradient", (3, 4), {}),
    ],
)
def test_a_view_reads_what_numpy_reads(name, shape, params):
    numbers = np.arange(np.prod(shape)).reshape(shape)
    node = node_of(name, [numbers.astype(np.float32)], **params)
    want = node.primitive.cpu(numbers, **params)
    space = Space()
    index = tuple([space.axis(n) for n in node.out.spec.shape])
    inner = through(space, node, index)
    got = _elements(space, linear(inner, shape), [])
    here = _elements(space, linear(space.resolve_map(index), node.out.spec.shape), [])
    assert dict(zip(here, got)) == dict(enumerate(want.reshape(-1).tolist()))


def test_a_reshape_that_tears_a_loop_apart_has_no_map():
    space = Space()
    index = (space.axis(4), space.axis(9))
    with pytest.raises(NoMap):
        space.reshape(index, (4, 9), (6, 6))


def test_a_reshape_of_a_slice_has_no_map_where_it_would_carry():
    space = Space()
    (form,) = (space.axis(3),)
    with pytest.raises(NoMap):  # elements 5, 6, 7 of rows of 6
        space.reshape(((5, form[1]),), (8,), (2, 6))


def test_forms_from_before_a_split_are_brought_up_to_date():
    space = Space()
    index = (space.axis(24),)
    before = index[0]
    space.reshape(index, (24,), (2, 3, 4))
    assert len(space.resolve(before)[1]) == 3
    assert sorted(_elements(space, before, [])) == list(range(24))


def test_covers_tells_whether_each_element_is_met_once():
    space = Space()
    i, j = space.axis(3), space.axis(4)
    loops = [0, 1]
    assert covers(space, (i, j), (3, 4), loops)
    assert covers(space, (j, i), (4, 3), loops)
    assert not covers(space, (i,), (3,), loops)  # four times
    assert not covers(space, (i, j), (3, 8), loops)  # half of it
    assert covers(space, ((2, ((0, -1),)), j), (3, 4), loops)  # from the end
    assert not covers(space, ((1, ((0, 1),)), j), (4, 4), loops)
