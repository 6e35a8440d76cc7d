"""``x.at[index]`` against NumPy's ``x[index] = v`` and ``ufunc.at``, and against JAX."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fx
from fx.errors import BatchedValueError, DTypeError, IndexingError, ShapeError

from .indices import mixed_index, numbers, random_shape, sources

many = settings(max_examples=200)


def numpy_at(mode, array, index, value):
    """What the update gives in NumPy."""
    out = np.array(array)
    if mode == "set":
        out[index] = value
    else:
        name = {"min": "minimum", "max": "maximum"}.get(mode, mode)
        getattr(np, name).at(out, index, value)
    return out


def random_update(rng):
    """A shape, an index, and a value that broadcasts to what it selects; None for a bad index."""
    shape = random_shape(rng)
    index = mixed_index(rng, shape)
    try:
        selected = np.shape(numbers(shape)[index])
    except IndexError:
        return None
    kept = selected if rng.random() < 0.7 else selected[rng.integers(0, len(selected) + 1) :]
    own = tuple(n if rng.random() < 0.8 else 1 for n in kept)
    return shape, index, rng.integers(1, 4, own).astype(np.float32)


UPDATES = sources().map(random_update).filter(bool)


def has_duplicates(shape, index):
    places = np.arange(np.prod(shape, dtype=int)).reshape(shape)[index].ravel()
    return len(set(places.tolist())) < len(places)


@many
@given(UPDATES, st.sampled_from(["set", "add", "multiply", "min", "max", "subtract"]))
def test_any_update_as_numpy(update, mode):
    shape, index, value = update
    if mode == "set" and has_duplicates(shape, index) and value.size > 1:
        return  # NumPy does not say which one wins
    array = numbers(shape)
    got = getattr(fx.from_numpy(array).at[index], mode)(fx.from_numpy(value))
    assert got.dtype == fx.float32
    np.testing.assert_array_equal(got.numpy(), numpy_at(mode, array, index, value))
    np.testing.assert_array_equal(array, numbers(shape))  # the original is as it was


@many
@given(UPDATES, st.sampled_from(["set", "add"]))
def test_updates_under_grad_and_vmap(update, mode):
    if mode == "set" and has_duplicates(*update[:2]):
        return
    shape, index, value = update
    x, v = fx.from_numpy(numbers(shape)), fx.from_numpy(value)

    def changed(x, v):
        return getattr(x.at[index], mode)(v)

    _, pullback = fx.vjp(changed, x, v)
    ct = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    dx, dv = pullback(fx.from_numpy(ct))
    expected = ct if mode == "add" else numpy_at("set", ct, index, 0)
    np.testing.assert_array_equal(dx.numpy(), expected)
    # <ct, d changed/dv w> = <dv, w>
    w = np.random.default_rng(2).standard_normal(value.shape).astype(np.float32)
    tangent = fx.jvp(lambda v: changed(x, v), (v,), (fx.from_numpy(w),))[1].numpy()
    np.testing.assert_allclose((ct * tangent).sum(), (dv.numpy() * w).sum(), rtol=1e-3, atol=1e-4)

    lanes = fx.from_numpy(np.stack([numbers(shape), numbers(shape) + 1]))
    got = fx.vmap(changed, (0, None))(lanes, v).numpy()
    loop = [numpy_at(mode, lane, index, value) for lane in lanes.numpy()]
    np.testing.assert_array_equal(got, np.stack(loop))
    values = fx.from_numpy(np.stack([value, value * 2]))
    got = fx.vmap(changed, (None, 0))(x, values).numpy()
    loop = [numpy_at(mode, numbers(shape), index, value * k) for k in (1, 2)]
    np.testing.assert_array_equal(got, np.stack(loop))


@given(st.data())
def test_index_tensors_of_lanes(data):
    i = data.draw(hnp.arrays(np.int64, (3, 2), elements=st.integers(-4, 3)))
    array = numbers((4, 5))
    x = fx.from_numpy(array)
    got = fx.vmap(lambda i: x.at[i, 1:3].add(1.0))(fx.from_numpy(i)).numpy()
    loop = [numpy_at("add", array, (k, slice(1, 3)), 1.0) for k in i]
    np.testing.assert_array_equal(got, np.stack(loop))
    got = fx.vmap(lambda k: x.at[:, k].set(7.0))(fx.from_numpy(i[:, 0])).numpy()
    loop = [numpy_at("set", array, (slice(None), k), 7.0) for k in i[:, 0]]
    np.testing.assert_array_equal(got, np.stack(loop))


@pytest.mark.parametrize("mode", ["add", "multiply", "min", "max", "divide", "power"])
def test_repeated_indices_as_jax(mode):
    jnp = pytest.importorskip("jax.numpy")
    x = np.array([2.0, 3.0, 4.0], np.float32)
    i, v = np.array([0, 0, 2]), np.array([2.0, 3.0, 0.5], np.float32)
    got = getattr(fx.tensor(x).at[fx.tensor(i)], mode)(fx.tensor(v)).numpy()
    expected = np.asarray(getattr(jnp.asarray(x).at[i], mode)(v))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_the_last_of_repeated_values_is_set():
    assert fx.zeros(2).at[[0, 0, 0]].set(fx.tensor([1.0, 2.0, 3.0])).tolist() == [3.0, 0.0]


@pytest.mark.parametrize(
    "index",
    [
        (slice(None), [0, 1], None, [1, 2]),
        (slice(None), 0, None, [1, 2]),
        (Ellipsis, [0, 1], slice(1, None), [1, 2]),
        ([0, 1], slice(None), 1, [1, 2]),
        (slice(None), slice(None), [0, 1], [[1], [2]]),
    ],
    ids=str,
)
def test_where_the_axes_of_index_tensors_land(index):
    array = numbers((3, 3, 3, 3))
    value = np.random.default_rng(0).standard_normal(array[index].shape).astype(np.float32)
    got = fx.from_numpy(array).at[index].set(fx.from_numpy(value)).numpy()
    np.testing.assert_array_equal(got, numpy_at("set", array, index, value))


def test_get_apply_and_the_short_names():
    x = fx.tensor([1.0, 4.0, 9.0])
    assert x.at[1:].get().tolist() == [4.0, 9.0]
    assert x.at[1:].apply(lambda v: v * 2).tolist() == [1.0, 8.0, 18.0]
    assert x.at[0].mul(3).tolist() == x.at[0].multiply(3).tolist() == [3.0, 4.0, 9.0]
    assert x.at[0].div(2).tolist() == [0.5, 4.0, 9.0]
    assert x.at[0].sub(2).tolist() == [-1.0, 4.0, 9.0]


@pytest.mark.parametrize("mode", ["set", "add", "multiply", "min", "max"])
def test_a_mask_of_lanes_chooses_element_by_element(mode):
    array = np.array([[1.0, -2.0, 3.0], [-1.0, 2.0, -3.0]], np.float32)
    got = fx.vmap(lambda x: getattr(x.at[x > 0], mode)(10.0))(fx.tensor(array)).numpy()
    np.testing.assert_array_equal(got, numpy_at(mode, array, array > 0, 10.0))


def test_a_mask_of_lanes_with_a_value_an_element_is_refused():
    with pytest.raises(BatchedValueError, match="how many elements it selects"):
        fx.vmap(lambda x: x.at[x > 0].set(fx.ones(1)))(fx.ones(2, 3))


def test_a_mask_over_some_axes_and_a_value_a_row():
    array = numbers((3, 2))
    mask = np.array([True, False, True])
    value = np.array([7.0, 8.0], np.float32)
    got = fx.tensor(array).at[mask].set(fx.tensor(value)).numpy()
    np.testing.assert_array_equal(got, numpy_at("set", array, mask, value))


def test_the_gradient_through_a_masked_division_is_finite():
    x = fx.tensor([0.0, 2.0])
    (gradient,) = fx.vjp(lambda x: 1.0 / x.at[x == 0].set(1.0), x)[1](fx.ones(2))
    assert gradient.tolist() == [0.0, -0.25]


@pytest.mark.parametrize("dtype", [fx.int32, fx.bool, fx.float64, fx.bfloat16, fx.complex64])
def test_the_dtype_stays(dtype):
    x = fx.ones(3, dtype=dtype)
    assert x.at[0].set(False).dtype == dtype
    assert x.at[1:].set(fx.zeros(2, dtype=fx.bool)).dtype == dtype


@pytest.mark.parametrize(
    ("dtype", "value", "words"),
    [
        (fx.int64, 1.5, r"set: a value of float32 does not fit a tensor of int64; write x.astype"),
        (fx.bool, 2, r"a value of int64 does not fit a tensor of bool"),
        (fx.float32, 1j, r"a value of complex64 does not fit a tensor of float32"),
        (fx.uint8, 300, r"300 does not fit uint8"),
    ],
)
def test_a_value_that_does_not_fit(dtype, value, words):
    with pytest.raises(DTypeError, match=words):
        fx.ones(2, dtype=dtype).at[0].set(value)


def test_integers_do_not_divide():
    with pytest.raises(DTypeError, match=r"x.astype\(fx.float32\)"):
        fx.ones(2, dtype=fx.int64).at[0].divide(2)


def test_errors_name_the_shapes():
    words = r"x.at\[:, 0\].set: a value of shape \(3,\) does not broadcast to \(2,\)"
    with pytest.raises(ShapeError, match=words):
        fx.ones(2, 3).at[:, 0].set(fx.ones(3))
    with pytest.raises(IndexingError, match="index 5 is out of range for axis 0 of size 2"):
        fx.ones(2, 3).at[5].set(0)
    with pytest.raises(IndexingError, match="index 5 is out of range for axis 0 of size 2"):
        fx.ones(2, 3).at[[0, 5]].set(0)
    with pytest.raises(IndexingError, match="index -9 is out of range for axis 1 of size 3"):
        fx.ones(2, 3).at[1:, [0, -9]].set(0)
    with pytest.raises(IndexingError, match="index 7 is out of range for axis 1"):
        fx.ones(2, 3).at[0, 7].add(1)


def test_on_meta():
    x = fx.zeros(1000, 2000, device="meta")
    out = x.at[3, 5:7].set(1.0)
    assert out.shape == (1000, 2000)
    assert out.device == "meta"
