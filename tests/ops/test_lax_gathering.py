"""``fx.lax.gather`` and ``scatter`` against ``jax.lax``: dimension numbers drawn at random."""

import itertools

import numpy as np
import pytest

import fx
import fx.lax as lax
from tests.thorough import pairs

jax = pytest.importorskip("jax")

MODES = ("clip", "fill", "promise_in_bounds", None)


def drawn(seed, unique=False):
    """An operand, indices and numbers that fit: (operand, rows, sizes, without, starts, ...)."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape = rng.integers(1, 5, rank)
    axes = list(rng.permutation(rank))
    batching = axes[: rng.integers(0, min(3, rank))] if seed % 3 == 0 else []
    rest = [a for a in axes if a not in batching]
    starts = rest[: rng.integers(1, len(rest) + 1)]  # XLA forgets updates where there are none
    sizes = [int(rng.integers(1, n + 1)) if rng.random() < 0.6 else int(n) for n in shape]
    without = sorted(a for a in range(rank) if a not in batching and rng.random() < 0.4)
    for a in (*batching, *without):
        sizes[a] = 1
    batching = sorted(batching)
    lead = list(rng.integers(1, 4, rng.integers(len(batching), len(batching) + 2)))
    along = list(rng.permutation(len(lead))[: len(batching)])
    for a, i in zip(batching, along):
        lead[i] = shape[a]
    rows = rng.integers(-2, 6, (*lead, len(starts)))
    if rng.random() < 0.6 and starts:  # most of them inside
        rows = rows % [shape[a] - sizes[a] + 1 for a in starts]
    window = [a for a in range(rank) if a not in (*batching, *without)]
    among = sorted(rng.permutation(len(lead) + len(window))[: len(window)])
    operand = rng.normal(size=shape)
    new_shape = [0] * (len(lead) + len(window))
    for place, a in zip(among, window):
        new_shape[place] = sizes[a]
    left = iter(lead)
    new_shape = [n if i in among else int(next(left)) for i, n in enumerate(new_shape)]
    ints = lambda xs: tuple(map(int, xs))
    return {
        "operand": operand, "rows": rows.astype("int32"), "sizes": ints(sizes),
        "updates": rng.normal(size=new_shape), "mode": MODES[seed % 4],
        "numbers": [ints(x) for x in (among, without, starts, batching, along)],
    }  # fmt: skip


def numbers(kind, found):
    """Those of fx and of JAX, which are not equal classes."""
    return [getattr(r, f"{kind}DimensionNumbers")(*found["numbers"]) for r in (lax, jax.lax)]


def compared(ours, theirs, arrays, dtype, slopes=True):
    """Values eagerly, compiled and in lanes; pushed tangents; gradients."""
    with jax.enable_x64(True):
        cast = [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]
        want = np.asarray(theirs(*map(jax.numpy.asarray, cast)))
        given = list(map(fx.asarray, cast))
        lanes = fx.vmap(ours)(*[fx.stack([x, x]) for x in given])
        for got in (ours(*given), fx.jit(ours)(*given), lanes[1]):
            assert got.numpy().dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == "float32" else 1e-12)
        meta = ours(*[x.to("meta") for x in given])
        assert meta.shape == want.shape
        if not slopes or dtype == "float32":
            return
        wide = tuple(i for i, a in enumerate(arrays) if a.dtype.kind == "f")
        weights = np.cos(np.arange(want.size)).reshape(want.shape)
        flat = lambda f, room: (
            lambda *xs: room.sum(
                room.where(room.isnan(y := f(*xs)), 0.0, y) * room.asarray(weights)
            )
        )
        got = fx.grad(flat(ours, fx), argnums=wide)(*given)
        expected = jax.grad(flat(theirs, jax.numpy), argnums=wide)(*map(jax.numpy.asarray, cast))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("seed", "dtype"), pairs(range(24), ["float32", "float64"], 2))
def test_gather(seed, dtype):
    found = drawn(seed)
    mine, peers = numbers("Gather", found)
    there = {"slice_sizes": found["sizes"], "mode": found["mode"]}
    ours = lambda x, i: lax.gather(x, i, mine, **there)
    theirs = lambda x, i: jax.lax.gather(x, i, peers, **there)
    # JAX's own rule for promises that are broken is no derivative
    compared(ours, theirs, [found["operand"], found["rows"]], dtype, found["mode"] in MODES[:2])


SCATTERED = [*itertools.product(("add", "sub", "mul", "min", "max"), ("float32", "float64"))]


@pytest.mark.parametrize(("seed", "how"), pairs(range(12), SCATTERED, 3))
def test_scatter(seed, how):
    name, dtype = how
    found = drawn(seed)
    if found["mode"] == "promise_in_bounds":
        found["mode"] = "drop"
    mine, peers = numbers("Scatter", found)
    ours = lambda x, i, v: getattr(lax, f"scatter_{name}")(x, i, v, mine, mode=found["mode"])
    theirs = lambda x, i, v: getattr(jax.lax, f"scatter_{name}")(x, i, v, peers, mode=found["mode"])
    # of JAX's products of several updates there is no derivative
    arrays = [found["operand"], found["rows"], found["updates"]]
    compared(ours, theirs, arrays, dtype, name in ("add", "sub"))
    if dtype == "float64":  # the others' by differences, which have no ties here
        ds = [np.cos(np.arange(a.size)).reshape(a.shape) for a in (arrays[0], arrays[2])]
        at = lambda h: ours(
            fx.asarray(arrays[0] + h * ds[0]), fx.asarray(arrays[1]),
            fx.asarray(arrays[2] + h * ds[1]),
        ).numpy()  # fmt: skip
        want = (8 * (at(1e-5) - at(-1e-5)) - (at(2e-5) - at(-2e-5))) / 12e-5
        f = lambda x, v: ours(x, fx.asarray(arrays[1]), v)
        _, got = fx.jvp(
            f, (fx.asarray(arrays[0]), fx.asarray(arrays[2])), tuple(map(fx.asarray, ds))
        )
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("seed", range(16))
def test_scatter_in_place_of(seed):
    """The last of several updates stays, as on JAX's CPU."""
    found = drawn(seed)
    mine, peers = numbers("Scatter", found)
    ours = lambda x, i, v: lax.scatter(x, i, v, mine, mode=found["mode"])
    theirs = lambda x, i, v: jax.lax.scatter(x, i, v, peers, mode=found["mode"])
    arrays = [found["operand"], found["rows"], found["updates"]]
    compared(ours, theirs, arrays, "float64", slopes=False)


@pytest.mark.parametrize("seed", range(16))
def test_scatter_apply(seed):
    found = drawn(seed)
    mine, peers = numbers("Scatter", found)
    there = {"update_shape": found["updates"].shape, "mode": found["mode"]}
    ours = lambda x, i: lax.scatter_apply(x, i, lambda v: v * 2.0 + 1.0, mine, **there)
    theirs = lambda x, i: jax.lax.scatter_apply(x, i, lambda v: v * 2.0 + 1.0, peers, **there)
    compared(ours, theirs, [found["operand"], found["rows"]], "float64", slopes=False)
    x, i = fx.asarray(found["operand"]), fx.asarray(found["rows"])
    slope = fx.grad(lambda x: ours(x, i).sum())(x)
    step = (ours(x + 0.5, i) - ours(x - 0.5, i)).numpy()  # it is linear
    np.testing.assert_allclose(slope.numpy(), step, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bool", "float32", "complex64"])
def test_what_fills(dtype):
    x = np.ones((3, 2), dtype)
    mine, peers = (r.GatherDimensionNumbers((1,), (0,), (0,)) for r in (lax, jax.lax))
    rows = np.array([[0], [-1], [3], [2]])
    want = jax.lax.gather(x, rows, peers, (1, 2), mode="fill")
    got = lax.gather(fx.asarray(x), fx.asarray(rows), mine, (1, 2), mode="fill")
    np.testing.assert_array_equal(got.numpy(), want)
    if dtype != "bool":
        want = jax.lax.gather(x, rows, peers, (1, 2), mode="fill", fill_value=7)
        got = lax.gather(fx.asarray(x), fx.asarray(rows), mine, (1, 2), mode="fill", fill_value=7)
        np.testing.assert_array_equal(got.numpy(), want)


def test_nothing_to_gather_or_scatter():
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    into = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    none = fx.zeros((0, 1), dtype=fx.int32)
    assert lax.gather(fx.ones((3, 2)), none, rows, (1, 2)).shape == (0, 2)
    assert lax.gather(fx.ones((3, 0)), fx.tensor([[1]]), rows, (1, 0)).shape == (1, 0)
    x = fx.ones((3, 2))
    assert (lax.scatter_add(x, none, fx.ones((0, 2)), into) == x).all()
    with pytest.raises(ValueError, match="a window of 1 elements along axis 0 of 0"):
        lax.gather(fx.ones((0, 2)), fx.tensor([[0]]), rows, (1, 2))


def test_large_unsigned_indices_are_outside():
    rows = lax.GatherDimensionNumbers((), (0,), (0,))
    far = fx.asarray(np.array([[2**64 - 1], [1]], "uint64"))
    got = lax.gather(fx.arange(3.0), far, rows, (1,), mode="fill")
    assert fx.isnan(got[0]) and got[1] == 1.0


def test_dropped_infinities_leave_no_nan():
    into = lax.ScatterDimensionNumbers((), (0,), (0,))
    rows, v = fx.tensor([[5], [0]]), fx.tensor([float("inf"), 2.0])
    for name in ("scatter_mul", "scatter_add", "scatter_max"):
        f = lambda x, v, name=name: getattr(lax, name)(x, rows, v, into).sum()
        a, b = fx.grad(f, argnums=(0, 1))(fx.ones(3), v)
        assert fx.isfinite(a).all() and b[0] == 0.0


def test_index_take():
    x, a, b = np.arange(24.0).reshape(2, 3, 4), np.array([1, -1, 5]), np.array([0, 2, -4])
    for axes, given in (((0,), [a]), ((2, 0), [a, b]), ((1, 2), [a, b])):
        places = tuple(i % x.shape[a] for i, a in zip(given, axes))  # JAX's own call fails here
        want = np.moveaxis(x, axes, range(len(axes)))[places]
        got = lax.index_take(fx.asarray(x), [fx.asarray(i) for i in given], axes)
        np.testing.assert_array_equal(got.numpy(), want)


def test_what_does_not_fit_says_so():
    x, one = fx.ones((3, 2)), fx.tensor([[1]])
    rows, into = (
        lax.GatherDimensionNumbers((1,), (0,), (0,)),
        lax.ScatterDimensionNumbers((1,), (0,), (0,)),
    )
    with pytest.raises(ValueError, match=r"write indices\[..., None\]"):
        lax.gather(x, fx.tensor([1, 2]), rows, (1, 2))
    with pytest.raises(TypeError, match=r"indices.astype\(fx.int64\)"):
        lax.gather(x, fx.tensor([[1.0]]), rows, (1, 2))
    with pytest.raises(ValueError, match="a window of 2 elements along axis 0 of 3, which has"):
        lax.gather(x, one, rows, (2, 2))
    with pytest.raises(ValueError, match="'clip', 'fill'"):
        lax.gather(x, one, rows, (1, 2), mode="wrap")
    with pytest.raises(ValueError, match="slice_sizes has a number for each axis"):
        lax.gather(x, one, rows, (1,))
    with pytest.raises(TypeError, match=r"updates.astype\(operand.dtype\)"):
        lax.scatter_add(x, one, fx.ones((1, 2), dtype=fx.float64), into)
    with pytest.raises(ValueError, match="without their window axes"):
        lax.scatter_add(x, one, fx.ones((3, 2)), into)
    with pytest.raises(ValueError, match="no axes of an operand"):
        lax.gather(x, one, lax.GatherDimensionNumbers((1,), (0,), (4,)), (1, 2))
    with pytest.raises(TypeError, match="no order"):
        z = fx.ones((3, 2), dtype=fx.complex64)
        lax.scatter_max(z, one, z[:1], into)
