"""Shape functions against NumPy for random shapes and arguments, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fx
from fx.errors import AxisError, DTypeError, ShapeError

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)


def numbers(shape, dtype=np.float32):
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


def equal(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_array_equal(got.numpy(), want)


def axes_of(shape, draw):
    return draw(st.permutations(range(-len(shape), 0)))[: draw(st.integers(1, len(shape)))]


@given(shape=SHAPES, data=st.data())
def test_permutations(shape, data):
    x = numbers(shape)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    equal(fx.permute_dims(fx.asarray(x), order), np.transpose(x, order))
    source = axes_of(shape, data.draw)
    target = axes_of(shape, lambda s: data.draw(s))[: len(source)]
    source = source[: len(target)]
    equal(fx.moveaxis(fx.asarray(x), source, target), np.moveaxis(x, source, target))
    equal(fx.flip(fx.asarray(x), axis=tuple(source)), np.flip(x, tuple(source)))
    equal(fx.swapaxes(fx.asarray(x), source[0], target[0]), np.swapaxes(x, source[0], target[0]))


@given(shape=SHAPES, data=st.data())
def test_rolls(shape, data):
    x = numbers(shape)
    axes = axes_of(shape, data.draw)
    shifts = [data.draw(st.integers(-6, 6)) for _ in axes]
    equal(fx.roll(fx.asarray(x), shifts, axis=tuple(axes)), np.roll(x, shifts, tuple(axes)))
    equal(fx.roll(fx.asarray(x), shifts[0]), np.roll(x, shifts[0]))


@given(shape=SHAPES, data=st.data())
def test_sizes_of_one(shape, data):
    shape = tuple(n if data.draw(st.booleans()) else 1 for n in shape)
    x = numbers(shape)
    ones = tuple(i - len(shape) for i, n in enumerate(shape) if n == 1)
    if ones:
        equal(fx.squeeze(fx.asarray(x), axis=ones), np.squeeze(x, ones))
        equal(fx.squeeze(fx.asarray(x), axis=ones[0]), np.squeeze(x, ones[0]))
    equal(fx.squeeze(fx.asarray(x)), np.squeeze(x))
    places = data.draw(st.sets(st.integers(-4, 3), max_size=2))
    rank = len(shape) + len(places)
    if len({p % rank for p in places if -rank <= p < rank}) == len(places) > 0:
        equal(fx.expand_dims(fx.asarray(x), axis=tuple(places)), np.expand_dims(x, tuple(places)))


@given(shape=SHAPES, times=st.lists(st.integers(0, 3), max_size=5), n=st.integers(0, 3))
def test_repetition(shape, times, n):
    x = numbers(shape)
    equal(fx.tile(fx.asarray(x), tuple(times)), np.tile(x, times))
    equal(fx.repeat(fx.asarray(x), n), np.repeat(x, n))
    for axis in range(-len(shape), len(shape)):
        counts = [(k + n) % 3 for k in range(shape[axis])]
        equal(fx.repeat(fx.asarray(x), n, axis=axis), np.repeat(x, n, axis))
        equal(fx.repeat(fx.asarray(x), fx.asarray(counts), axis=axis), np.repeat(x, counts, axis))


@given(shape=SHAPES, data=st.data())
def test_splitting_and_joining(shape, data):
    x = numbers(shape)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n = data.draw(st.integers(1, 5))
    pieces = fx.tensor_split(fx.asarray(x), n, axis=axis)
    for got, want in zip(pieces, np.array_split(x, n, axis), strict=True):
        equal(got, want)
    equal(fx.concat(pieces, axis=axis), x)
    slices = fx.unstack(fx.asarray(x), axis=axis)
    assert len(slices) == shape[axis]
    if slices:
        equal(fx.stack(slices, axis=axis), x)
    cuts = data.draw(st.lists(st.integers(-5, 5), max_size=3))
    for got, want in zip(
        fx.tensor_split(fx.asarray(x), cuts, axis=axis), np.array_split(x, cuts, axis), strict=True
    ):
        equal(got, want)


@given(
    shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=3, max_side=5),
    widths=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=3, max_size=3),
    mode=st.sampled_from(("constant", "edge", "reflect", "symmetric", "wrap")),
)
def test_borders(shape, widths, mode):
    x, widths = numbers(shape), widths[: len(shape)]
    equal(fx.pad(fx.asarray(x), widths, mode=mode), np.pad(x, widths, mode=mode))
    equal(fx.pad(fx.asarray(x), widths[0], mode=mode), np.pad(x, widths[0], mode=mode))
    equal(fx.pad(fx.asarray(x), 1, mode=mode), np.pad(x, 1, mode=mode))


@given(shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=5), data=st.data())
def test_windows(shape, data):
    x = numbers(shape)
    sides = tuple(data.draw(st.integers(1, n)) for n in shape)
    want = np.lib.stride_tricks.sliding_window_view(x, sides)
    equal(fx.sliding_window_view(fx.asarray(x), sides), want)
    equal(
        fx.sliding_window_view(fx.asarray(x), sides[0], axis=0),
        np.lib.stride_tricks.sliding_window_view(x, sides[0], 0),
    )


@given(shape=SHAPES)
def test_reshapes(shape):
    x = numbers(shape)
    equal(fx.ravel(fx.asarray(x)), x.ravel())
    equal(fx.reshape(fx.asarray(x), (-1,)), x.reshape(-1))
    if x.size:
        equal(fx.reshape(fx.asarray(x), (shape[-1], -1)), x.reshape(shape[-1], -1))
        equal(fx.flatten(fx.asarray(x), 0, -1), x.ravel())


@given(shapes=hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3))
def test_broadcasting(shapes):
    arrays = [numbers(s) for s in shapes.input_shapes]
    assert fx.broadcast_shapes(*shapes.input_shapes) == shapes.result_shape
    for got, want in zip(
        fx.broadcast_arrays(*map(fx.asarray, arrays)), np.broadcast_arrays(*arrays), strict=True
    ):
        equal(got, want)


def test_joined_tensors_are_promoted():
    parts = [fx.asarray([1]), fx.asarray([2.0]), fx.asarray([True])]
    assert fx.concat(parts).dtype == fx.stack(parts).dtype == fx.float32
    assert fx.concat([fx.ones((2, 2)), fx.ones(3)], axis=None).shape == (7,)
    assert fx.concat(fx.ones((2, 3, 4))).shape == (6, 4)
    assert fx.hstack([fx.asarray(1), fx.asarray(2)]).tolist() == [1, 2]


def test_what_shapes_are_refused():
    x = fx.ones((2, 3))
    for error, words, call in (
        (ShapeError, r"concat along axis 0: shapes \(2, 3\), \(2, 4\) must agree.*fx.stack",
         lambda: fx.concat([x, fx.ones((2, 4))])),
        (ShapeError, r"stack: shapes \(2, 3\), \(3, 2\) must be equal.*fx.concat",
         lambda: fx.stack([x, fx.ones((3, 2))])),
        (ShapeError, "concat needs at least one tensor", lambda: fx.concat([])),
        (ShapeError, r"stack takes a sequence.*write fx.stack\(\[x, y\]\)", lambda: fx.stack(3)),
        (ShapeError, r"reshape: \(2, 3\) has 6 elements", lambda: fx.reshape(x, (4, 2))),
        (ShapeError, r"reshape: \(2, 3\) has 6 elements", lambda: fx.reshape(x, (4, -1))),
        (ShapeError, "only one size", lambda: fx.reshape(x, (-1, -1))),
        (ShapeError, "axis 0 of .* has size 2, not 1", lambda: fx.squeeze(x, axis=0)),
        (ShapeError, "must add up to 3", lambda: fx.split(x, [1, 1], axis=1)),
        (ShapeError, "2 places from 2 on", lambda: fx.narrow(x, 1, 2, 2)),
        (ShapeError, "broadcast_to", lambda: fx.broadcast_to(x, (3, 3))),
        (ShapeError, "reach beyond axis 1", lambda: fx.pad(x, ((0, 0), (3, 0)), mode="reflect")),
        (ShapeError, "3 pairs", lambda: fx.pad(fx.ones((1, 1, 1)), ((1, 1), (1, 1)))),
        (ShapeError, "windows of 4 elements", lambda: fx.unfold(x, 1, 4)),
        (ShapeError, "2 counts", lambda: fx.repeat(x, [1, 2], axis=1)),
        (AxisError, "permute_dims: axis 5 is out of range", lambda: fx.permute_dims(x, (0, 5))),
        (AxisError, "names 1 of the 2 axes", lambda: fx.permute_dims(x, (0,))),
        (AxisError, "twice", lambda: fx.permute_dims(x, (0, 0))),
        (AxisError, "equally many", lambda: fx.moveaxis(x, (0, 1), 0)),
        (AxisError, "new axis at 4 is out of range", lambda: fx.expand_dims(x, axis=4)),
        (AxisError, "2 shifts", lambda: fx.roll(x, (1, 2), axis=0)),
        (AxisError, "comes after", lambda: fx.flatten(x, 1, 0)),
        (DTypeError, "reshape takes tensors, got list", lambda: fx.reshape([1], (1,))),
        (ValueError, "mode must be one of", lambda: fx.pad(x, 1, mode="mirror")),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize(
    "shapes", [[(40, 300), (40,)], [(40, 300), (40, 300, 1)], [(40, 300), (41, 300)]]
)
def test_joining_many_elements_says_what_does_not_fit(shapes):
    for axis in (1, -1):
        with pytest.raises(fx.errors.ShapeError, match="concat along axis 1: shapes"):
            fx.concat([fx.ones(s) for s in shapes], axis)
