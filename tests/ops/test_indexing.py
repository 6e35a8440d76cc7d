"""``x[index]`` against NumPy: values, shapes, errors, and every transform."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fx
from fx.errors import BatchedValueError, IndexingError

from .indices import mixed_index, numbers, random_shape, sources

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
many = settings(max_examples=300)


def check(array, index, fx_index=None):
    """fx gives what NumPy gives, or both refuse."""
    x = fx.from_numpy(array)
    given_index = index if fx_index is None else fx_index
    try:
        expected = array[index]
    except IndexError:
        with pytest.raises(IndexError):
            x[given_index]
        return
    got = x[given_index]
    assert got.shape == np.shape(expected)
    np.testing.assert_array_equal(got.numpy(), expected)


@many
@given(sources())
def test_any_mixture_as_numpy(rng):
    shape = random_shape(rng)
    index = mixed_index(rng, shape)
    check(numbers(shape), index)
    as_tensors = tuple(fx.from_numpy(e) if isinstance(e, np.ndarray) else e for e in index)
    check(numbers(shape), index, as_tensors)


@many
@given(st.data())
def test_basic_indices_as_numpy(data):
    shape = data.draw(SHAPES)
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    check(numbers(shape), index)


@many
@given(st.data())
def test_integer_array_indices_as_numpy(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    check(numbers(shape), data.draw(hnp.integer_array_indices(shape)))


@pytest.mark.parametrize(
    "index",
    [
        [0, 2],
        [[0, 1], [2, 0]],
        [],
        [True, False, True],
        (0, [1, 2]),
        ([0, 1], slice(None), [1, 2]),
        (0, slice(None), [1, 2]),
        (slice(None), 0, [1, 2]),
        (slice(None), [[0], [1]], [0, 1]),
        ([0, 1], None, [1, 2]),
        (0, None, [1, 2]),
        (Ellipsis, [1, 2]),
        ([0, 1], Ellipsis, [1, 2]),
        (0, Ellipsis, [1, 2]),
        (slice(None, None, -1), [2, 1], slice(None, None, -2)),
        range(2),
        np.int32(1),
        (np.uint8(1), np.int64(-1)),
        True,
        (False, [0]),
        (slice(None), True, [0, 1]),
    ],
    ids=str,
)
def test_forms_of_an_index(index):
    array = numbers((3, 3, 4))
    if isinstance(index, range):
        check(array, list(index), index)
    else:
        check(array, index)


def test_views_share_memory():
    x = fx.from_numpy(numbers((2, 3)))
    assert np.shares_memory(x.numpy(), x[1:, ::-1].numpy())


def test_a_subclass_of_tuple_is_an_index_of_several_axes():
    from collections import namedtuple

    point = namedtuple("point", "i j")
    assert fx.from_numpy(numbers((2, 3)))[point(1, 2)].item() == 5


def test_slices_of_integer_tensors():
    x = fx.arange(10)
    assert x[fx.tensor(2) : fx.tensor(5)].tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("index", "binds"),
    [
        (0, ["slice"]),
        (slice(1, 2), ["slice"]),
        (slice(None, None, -1), ["flip"]),
        (None, ["reshape"]),
        ((0, slice(1, 3), None), ["slice", "reshape"]),
        ([0, 1], ["take"]),
        ((slice(None), [0, 1]), ["take"]),
        (([0, 1], [1, 2]), ["reshape", "take"]),
    ],
    ids=str,
)
def test_the_number_of_operations(index, binds):
    graph = fx.make_graph(lambda x: x[index])(fx.from_numpy(numbers((2, 3))))
    seen = [n.primitive.name for n in graph.nodes]
    assert sorted(n for n in seen if n not in ("multiply", "add")) == sorted(binds)


@pytest.mark.parametrize("index", [0, (0, slice(1, 3), None), slice(None, None, -2)], ids=str)
def test_a_view_is_one_node(index):
    x = fx.from_numpy(numbers((2, 3)).astype("float64")).requires_grad_()
    assert [parent for parent, _ in x[index].grad_fn.next_functions] == [x._node]


def test_the_whole_shares_its_memory():
    x = fx.ones(2, 3)
    assert np.shares_memory(x.numpy(), x[...].numpy())
    assert np.shares_memory(x.numpy(), x[:, :].numpy())


def test_a_view_remembers_where_it_was_cut():
    """A bound may be a cell, which holds another number when the pullback runs."""
    x = fx.zeros(4).requires_grad_()
    n = fx.nn.Buffer(fx.tensor(2))
    y = x[:n]
    n.rebind(fx.tensor(3))
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 0, 0]


# errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (5, r"index 5 is out of range for axis 0 of size 2 \(shape \(2, 3\)\); valid are -2 to 1"),
        ((0, -4), r"index -4 is out of range for axis 1 of size 3"),
        ((slice(None), [0, 7]), r"index 7 is out of range for axis 1 of size 3 \(shape \(2, 3\)\)"),
        (([0, -3], [0, 1]), r"index -3 is out of range for axis 0 of size 2"),
        ((0, 1, 2), r"x\[0, 1, 2\]: too many indices: 3 for a tensor of shape \(2, 3\)"),
        ((..., 0, 1, 2), r"too many indices: 3"),
        ((..., ...), r"at most one '\.\.\.'"),
        ((..., [0], ...), r"at most one '\.\.\.'"),
        (1.5, r"must be integer or bool, got float32; write i.astype\(fx.int64\)"),
        ([0.5], r"must be integer or bool, got float32"),
        ("a", r"x\['a'\]: 'a' is no index"),
        ({"a": 1}, r"is no index"),
        (slice(0.5, 2), r"x\[0.5:2\]: slice indices must be integers"),
        (slice(None, None, 0), r"x\[::0\]: slice step cannot be zero"),
        ([True, False, True], r"a mask of shape \(3,\) does not fit the axes of sizes \(2,\)"),
        (([0, 1], [0, 1, 2]), r"shapes \(2,\), \(3,\) do not broadcast together.*i\[:, None\]"),
    ],
    ids=str,
)
def test_errors_name_what_came(index, words):
    with pytest.raises(IndexingError, match=words):
        fx.ones(2, 3)[index]


def test_an_index_out_of_range_on_an_empty_axis():
    with pytest.raises(IndexingError, match="an empty axis has no element"):
        fx.ones(0)[0]


def test_a_mask_of_lanes_is_refused_with_the_line_to_write():
    with pytest.raises(BatchedValueError, match=r"x\[mask\].*fx.where\(mask, x, 0\)"):
        fx.vmap(lambda x: x[x > 0])(fx.ones(2, 3))


def test_an_index_of_lanes_out_of_range_is_named():
    with pytest.raises(IndexingError, match="index 9 is out of range for axis 0 of size 3"):
        fx.vmap(lambda i: fx.ones(3)[i])(fx.tensor([0, 9]))


def test_a_bound_of_lanes_is_refused():
    with pytest.raises(BatchedValueError):
        fx.vmap(lambda i: fx.ones(3)[:i])(fx.tensor([0, 1]))


# transforms -------------------------------------------------------------------------------------


@many
@given(sources())
def test_the_gradient_is_one_where_an_element_was_taken(rng):
    shape = random_shape(rng, max_dims=3)
    index = mixed_index(rng, shape)
    try:
        expected = np.zeros(shape, np.float32)
        np.add.at(expected, index, 1.0)
    except IndexError:
        return
    x = fx.from_numpy(numbers(shape))
    tangent = fx.jvp(lambda x: x[index], (x,), (x,))[1]
    np.testing.assert_array_equal(tangent.numpy(), numbers(shape)[index])
    (gradient,) = fx.vjp(lambda x: x[index], x)[1](fx.ones_like(x[index]))
    np.testing.assert_array_equal(gradient.numpy(), expected)


@many
@given(sources())
def test_vmap_is_the_loop(rng):
    shape = random_shape(rng, max_dims=3)
    index = mixed_index(rng, shape)
    lanes = np.stack([numbers(shape), numbers(shape) * 2])
    try:
        expected = np.stack([lane[index] for lane in lanes])
    except IndexError:
        return
    got = fx.vmap(lambda x: x[index])(fx.from_numpy(lanes))
    np.testing.assert_array_equal(got.numpy(), expected)


@given(st.data())
def test_vmap_over_index_tensors_is_the_loop(data):
    array = numbers((3, 4))
    i = data.draw(hnp.arrays(np.int64, (5, 2), elements=st.integers(-3, 2)))
    j = data.draw(hnp.arrays(np.int64, (5,), elements=st.integers(-4, 3)))
    x = fx.from_numpy(array)
    rows = fx.vmap(lambda i, j: x[i, j])(fx.from_numpy(i), fx.from_numpy(j))
    np.testing.assert_array_equal(rows.numpy(), array[i, j[:, None]])
    lanes = np.stack([array + k for k in range(5)])
    both = fx.vmap(lambda x, i, j: x[::-1, j][i])(*map(fx.from_numpy, (lanes, i, j)))
    expected = [lane[::-1, b][a] for lane, a, b in zip(lanes, i, j, strict=True)]
    np.testing.assert_array_equal(both.numpy(), np.stack(expected))


def test_meta_indexing_gives_shapes():
    x = fx.zeros(1000, 2000, device="meta")
    assert x[3].shape == (2000,)
    assert x[[0, 1], :5].shape == (2, 5)
    assert x[fx.zeros(7, dtype=fx.int64, device="meta")].shape == (7, 2000)
    with pytest.raises(fx.errors.DeviceError, match="how many elements it selects"):
        x[x > 0]


@pytest.mark.parametrize(
    "index",
    [1, (slice(None), 0), [0, 0, 1], ([0, 1], [1, 1]), (None, slice(None, None, 2)), ..., "mask"],
    ids=str,
)
def test_backward_as_torch(index):
    torch = pytest.importorskip("torch")
    array = numbers((2, 3)) - 2
    x = fx.tensor(array, requires_grad=True)
    t = torch.tensor(array, requires_grad=True)
    y, u = (x[x > 0], t[t > 0]) if index == "mask" else (x[index], t[index])
    (y * y).sum().backward()
    (u * u).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), t.grad.numpy())


def test_a_cell_is_indexed_as_what_it_holds():
    from fx.state import Cell

    cell = Cell(fx.from_numpy(numbers((2, 3))))
    places = Cell(fx.tensor([1, 0]))
    assert cell[1].tolist() == [3, 4, 5]
    assert cell[places, 0].tolist() == [3, 0]
    assert cell[places].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert cell[Cell(cell.read() > 3)].tolist() == [4, 5]
    assert cell.at[places[0]].set(0.0).tolist() == [[0, 1, 2], [0, 0, 0]]


@pytest.mark.parametrize(
    "index",
    [
        lambda i, m: (i, i),
        lambda i, m: (i, slice(1, None)),
        lambda i, m: (i, None, i),
        lambda i, m: m,
        lambda i, m: (slice(None), i),
    ],
)
def test_index_tensors_are_one_node_with_the_gradient_of_the_steps(index):
    """Small arrays go to NumPy's own indexing; the limit moves nothing but the way."""
    from fx import limits

    i, mask = fx.tensor([2, 0, -1, 2]), fx.from_numpy(numbers((3, 3)) % 2 == 0)
    x = fx.from_numpy(numbers((3, 3)).astype("float64")).requires_grad_()
    out = x[index(i, mask)]
    assert out.grad_fn.next_functions[0][0] is x._node
    weights = fx.arange(float(out.numel())).reshape(out.shape).astype(fx.float64)
    (out * weights).sum().backward()
    found, x.grad = x.grad.tolist(), None
    with limits.given(INDEX_WHOLE=0):
        again = x[index(i, mask)]
    assert again.tolist() == out.tolist()
    (again * weights).sum().backward()
    assert found == x.grad.tolist()
