"""NumPy's and JAX's forms of arguments: each call gives what NumPy or JAX gives for it."""

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, IndexingError, ShapeError

jax = pytest.importorskip("jax")
jnp = jax.numpy
RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4)).astype(np.float32)
MASK = RNG.random((3, 4)) < 0.6
V = np.array([3, 1, 3, 0, 1, 1], np.int32)


def same(got, want, exact=True):
    got = got if isinstance(got, tuple | list) else [got]
    want = want if isinstance(want, tuple | list) else [want]
    assert len(got) == len(want)
    for g, w in zip(got, want):
        g, w = np.asarray(g), np.asarray(w)
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=0 if exact else 3e-6, atol=0 if exact else 1e-6)


# creation ---------------------------------------------------------------------------------------

CREATION = {
    "zeros tuple": lambda xp: xp.zeros((2, 3), xp.int32),
    "zeros int": lambda xp: xp.zeros(3, xp.float16),
    "ones list": lambda xp: xp.ones([2], xp.int32),
    "ones name": lambda xp: xp.ones((2,), "int8"),
    "ones type": lambda xp: xp.ones(3, bool),
    "empty": lambda xp: xp.empty((0, 2), xp.int32),
    "full": lambda xp: xp.full((2,), 3, xp.float32),
    "zeros_like": lambda xp: xp.zeros_like(xp.asarray(A), xp.int32),
    "ones_like": lambda xp: xp.ones_like(xp.asarray(A), xp.int32),
    "full_like": lambda xp: xp.full_like(xp.asarray(A), 2, xp.int32),
    "arange": lambda xp: xp.arange(1, 7, 2, xp.float32),
    "eye": lambda xp: xp.eye(3, 4, 1, xp.int32),
    "eye words": lambda xp: xp.eye(N=2, M=3, k=-1),
    "linspace": lambda xp: xp.linspace(0, 1, 5, retstep=True),
    "linspace open": lambda xp: xp.linspace(0, 2, 4, endpoint=False, retstep=True),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation(name):
    got, want = CREATION[name](fx), CREATION[name](jnp)
    same(got, want)
    if not isinstance(got, tuple):
        assert got.dtype == want.dtype


def test_a_size_is_no_dtype():
    with pytest.raises(DTypeError, match="sizes must be integers"):
        fx.zeros((2,), (3,))
    with pytest.raises(DTypeError, match="sizes must be integers"):
        fx.ones(2, 3.5)
    assert fx.zeros(2, np.int64(3)).shape == (2, 3)


# axes -------------------------------------------------------------------------------------------

TURNS = {
    "none": lambda x: x.transpose(),
    "three": lambda x: x.transpose(1, 2, 0),
    "tuple": lambda x: x.transpose((2, 0, 1)),
    "negative": lambda x: x.transpose(-1, 0, 1),
}


@pytest.mark.parametrize("name", TURNS)
def test_transposing(name):
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    same(TURNS[name](fx.asarray(x)), TURNS[name](x))
    same(fx.jit(TURNS[name])(fx.asarray(x)), TURNS[name](x))


def test_transpose_of_fx():
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    t = fx.asarray(x)
    same(fx.transpose(t), np.transpose(x))
    same(fx.transpose(t, (1, 0, 2)), np.transpose(x, (1, 0, 2)))
    same(fx.transpose(t, axes=(1, 0, 2)), np.transpose(x, (1, 0, 2)))
    same(fx.transpose(t, 0, 2), np.swapaxes(x, 0, 2))
    same(fx.transpose(t, axis1=0, axis2=2), np.swapaxes(x, 0, 2))
    same(t.transpose(dim0=0, dim1=2), np.swapaxes(x, 0, 2))
    with pytest.raises(fx.errors.AxisError):
        t.transpose(0, 0, 1)
    with pytest.raises(TypeError, match="two axes, or axes="):
        fx.transpose(t, 0, axes=(1, 0, 2))


REDUCTIONS = ["sum", "prod", "max", "min", "mean", "std", "var", "any", "all"]


# reductions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REDUCTIONS)
def test_where_and_initial(name):
    x, m = fx.asarray(A), fx.asarray(MASK)
    for axis in (None, 0, 1, (0, 1)):
        for keep in (False, True):
            for initial in (None, 0.5):
                for where in (False, True):
                    if initial is not None and name not in ("sum", "prod", "max", "min"):
                        continue
                    if name in ("max", "min") and where and initial is None:
                        continue
                    options = {"axis": axis, "keepdims": keep}
                    if initial is not None:
                        options["initial"] = initial
                    if name in ("std", "var"):
                        options["ddof"] = 1 if axis is None else 0
                    want = getattr(np, name)(A, **options, **({"where": MASK} if where else {}))
                    own = {"where": m} if where else {}
                    got = getattr(fx, name)(x, **options, **own)
                    same(got, want, exact=False)
    compiled = fx.jit(lambda x, m: getattr(fx, name)(x, where=m, **options, initial=0.25)) if (
        name in ("sum", "prod", "max", "min")
    ) else None  # fmt: skip
    if compiled is not None:
        options.pop("initial", None)
        same(compiled(x, m), getattr(np, name)(A, where=MASK, initial=0.25, **options), exact=False)


def test_slopes_under_a_mask():
    x, m = fx.asarray(A), fx.asarray(MASK)
    for name in ("sum", "mean", "var", "std"):
        want = jax.grad(lambda a, name=name: getattr(jnp, name)(a, where=MASK) ** 2)(A)
        got = fx.grad(lambda a, name=name: getattr(fx, name)(a, where=m) ** 2)(x)
        same(got, want, exact=False)


def test_extrema_of_nothing():
    assert fx.max(fx.zeros(0), initial=3).item() == 3
    assert fx.min(fx.zeros(0, 2), axis=0, initial=-1).tolist() == [-1, -1]
    assert fx.sum(fx.zeros(0), initial=2).item() == 2
    with pytest.raises(ValueError, match="write initial= as well"):
        fx.max(fx.ones(2), where=fx.ones(2) > 0)
    with pytest.raises(DTypeError, match="where must be bool"):
        fx.sum(fx.ones(2), where=fx.ones(2))
    with pytest.raises(TypeError, match="all takes no initial"):
        fx.all(fx.ones(2), initial=True)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "any", "all"])
def test_a_dtype_is_no_flag(name):
    with pytest.raises(TypeError, match=f"{name}: the argument after the axis is keepdims"):
        getattr(fx, name)(fx.ones(2, 2), 0, fx.float64)
    assert getattr(fx, name)(fx.ones(2, 2), 0, np.True_).shape == (1, 2)


@pytest.mark.parametrize("name", ["std", "var"])
def test_a_dtype_is_no_correction(name):
    with pytest.raises(TypeError, match=f"{name}: the argument after the axis is correction"):
        getattr(fx, name)(fx.ones(2, 2), 0, fx.float64)
    same(fx.asarray(A).std(ddof=0), A.std(), exact=False)
    same(fx.asarray(A).var(axis=0, ddof=2), A.var(axis=0, ddof=2), exact=False)


# sizes that are told ----------------------------------------------------------------------------

SIZED = {
    "nonzero": lambda xp, x: xp.nonzero(x, size=5, fill_value=-1),
    "nonzero cut": lambda xp, x: xp.nonzero(x, size=2),
    "nonzero matrix": lambda xp, x: xp.nonzero(x.reshape(2, 3), size=6, fill_value=(7, 8)),
    "where": lambda xp, x: xp.where(x > 1, size=4, fill_value=9),
    "argwhere": lambda xp, x: xp.argwhere(x.reshape(3, 2), size=7, fill_value=-1),
    "flatnonzero": lambda xp, x: xp.flatnonzero(x.reshape(3, 2), size=3),
    "unique": lambda xp, x: xp.unique(x, size=5),
    "unique fill": lambda xp, x: xp.unique(x, size=5, fill_value=-7),
    "unique cut": lambda xp, x: xp.unique(x, size=2),
    "unique all": lambda xp, x: xp.unique(x, return_inverse=True, return_counts=True, size=4),
    "bincount": lambda xp, x: xp.bincount(x, length=6),
    "bincount cut": lambda xp, x: xp.bincount(x, length=2),
    "bincount weights": lambda xp, x: xp.bincount(x, weights=x * 0.5, length=4),
    "repeat": lambda xp, x: xp.repeat(x, xp.asarray([0, 2, 1, 0, 3, 1]), total_repeat_length=7),
    "repeat longer": lambda xp, x: xp.repeat(x, 2, total_repeat_length=14),
    "repeat cut": lambda xp, x: xp.repeat(
        x.reshape(2, 3), xp.asarray([1, 2, 1]), axis=1, total_repeat_length=2
    ),
}


@pytest.mark.parametrize("name", SIZED)
def test_sizes(name):
    want = SIZED[name](jnp, jnp.asarray(V))
    same(SIZED[name](fx, fx.asarray(V)), want)
    compiled = fx.jit(lambda x: SIZED[name](fx, x))
    same(compiled(fx.asarray(V)), want)
    if name != "repeat":  # another shape of the result is no other program
        compiled(fx.asarray(V[::-1].copy()))
        assert compiled.cache_size() == 1
    lanes = fx.vmap(lambda x: SIZED[name](fx, x))(fx.asarray(np.stack([V, V[::-1]])))
    lanes = lanes if isinstance(lanes, tuple) else (lanes,)
    same([lane[0] for lane in lanes], want)


def test_not_a_number_is_one_value():
    x = np.array([np.nan, 1.0, np.nan, 0.0], np.float32)
    same(fx.unique(fx.asarray(x), size=4), jnp.unique(x, size=4))


# indices out of range ---------------------------------------------------------------------------

PLACES = np.array([-7, -2, 0, 4, 9])


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize("mode", ["clip", "fill", "wrap"])
def test_take(mode, dtype):
    x = np.arange(5).astype(dtype)
    for options in ({}, {"fill_value": 1}) if mode == "fill" else ({},):
        want = jnp.take(x, PLACES, mode=mode, **options)
        same(fx.take(fx.asarray(x), fx.asarray(PLACES), mode=mode, **options), want)
    table = np.arange(20).reshape(4, 5).astype(dtype)
    want = jnp.take(table, PLACES, axis=1, mode=mode)
    got = fx.jit(lambda x, i: fx.take(x, i, axis=1, mode=mode))(
        fx.asarray(table), fx.asarray(PLACES)
    )
    same(got, want)


INDICES = {
    "vector": lambda a: a(PLACES),
    "number": lambda a: 9,
    "rows": lambda a: (a(PLACES), slice(1, 3)),
    "columns": lambda a: (slice(None), a(PLACES)),
    "pairs": lambda a: (a(PLACES), a(PLACES[::-1].copy())),
    "new axis": lambda a: (None, a(PLACES), Ellipsis),
    "last": lambda a: (Ellipsis, -9),
}


@pytest.mark.parametrize("name", INDICES)
def test_at(name):
    x = np.arange(30, dtype=np.float32).reshape(5, 6)
    ours, theirs = fx.asarray(x), jnp.asarray(x)
    i, j = INDICES[name](fx.asarray), INDICES[name](jnp.asarray)
    for mode in ("clip", "fill"):
        same(ours.at[i].get(mode=mode), theirs.at[j].get(mode=mode))
    same(
        ours.at[i].get(mode="fill", fill_value=-5.0), theirs.at[j].get(mode="fill", fill_value=-5.0)
    )
    for mode in ("clip", "drop"):
        for method in ("add", "multiply", "min", "max"):
            want = getattr(theirs.at[j], method)(3.0, mode=mode)
            same(getattr(ours.at[i], method)(3.0, mode=mode), want)
        if mode == "drop":
            same(ours.at[i].set(3.0, mode=mode), theirs.at[j].set(3.0, mode=mode))
    slope = jax.grad(lambda x: (x.at[j].multiply(3.0, mode="drop") ** 2).sum())(theirs)
    same(fx.grad(lambda x: (x.at[i].multiply(3.0, mode="drop") ** 2).sum())(ours), slope)
    with pytest.raises(IndexingError):
        ours.at[i].get()
    same(fx.jit(lambda x: x.at[i].add(1.0, mode="drop"))(ours), theirs.at[j].add(1.0, mode="drop"))


def test_modes_are_checked():
    with pytest.raises(ValueError, match="mode must be one of clip"):
        fx.take(fx.ones(2), fx.tensor([0]), mode="nearest")
    with pytest.raises(ValueError, match=r"is fx\.take's"):
        fx.ones(2).at[0].get(mode="wrap")


@pytest.mark.parametrize("name", ["segment_sum", "segment_prod", "segment_max", "segment_min"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_segments(name, dtype):
    import fx.ops

    ids = np.array([0, 2, 2, -1, 5, 0])
    data = RNG.integers(-5, 5, (6, 2)).astype(dtype)
    for count in (4, 6):
        want = getattr(jax.ops, name)(data, ids, count)
        got = fx.jit(lambda d, i, count=count: getattr(fx.ops, name)(d, i, count))
        same(got(fx.asarray(data), fx.asarray(ids)), want)
    same(
        getattr(fx.ops, name)(fx.asarray(data), fx.asarray(ids)), getattr(jax.ops, name)(data, ids)
    )
    if dtype == "float32" and name != "segment_prod":
        slope = jax.grad(
            lambda d: (getattr(jax.ops, name)(d, ids, 6)[np.array([0, 2])] ** 2).sum()
        )(data)
        own = fx.grad(
            lambda d: (getattr(fx.ops, name)(d, fx.asarray(ids), 6)[np.array([0, 2])] ** 2).sum()
        )(fx.asarray(data))
        same(own, slope)


# words ------------------------------------------------------------------------------------------


def test_words():
    x = fx.asarray(A)
    same(fx.clip(x, a_min=-0.5, a_max=0.5), np.clip(A, a_min=-0.5, a_max=0.5))
    same(fx.cumsum(x), np.cumsum(A), exact=False)
    same(fx.cumprod(x), np.cumprod(A), exact=False)
    same(x.repeat(2, axis=1), A.repeat(2, axis=1))
    assert fx.matmul(x, x.T, precision="highest").shape == (3, 3)
    half = x.astype(fx.bfloat16)
    assert fx.dot(half, half.T, preferred_element_type=fx.float32).dtype == fx.float32
    assert fx.einsum("ij,kj", half, half, preferred_element_type="float32").dtype == fx.float32
    assert fx.tensordot(half, half, 2, preferred_element_type=fx.float64).dtype == fx.float64
    same(fx.linalg.cholesky(fx.eye(2) * 4, lower=False), np.eye(2) * 2)
    assert x.block_until_ready() is x


PLACES_OF = {
    "diff": lambda xp, x: xp.diff(x, 2),
    "diff axis": lambda xp, x: xp.diff(x, 1, 0),
    "linspace": lambda xp, x: xp.linspace(0.0, 1.0, 5, False),
    "reshape": lambda xp, x: xp.reshape(x, (2, 6), "F"),
    "reshape order": lambda xp, x: xp.reshape(x, (4, -1), order="F"),
    "reshape c": lambda xp, x: xp.reshape(x, (6, 2), "C"),
    "ravel": lambda xp, x: xp.ravel(x, "F"),
    "tile": lambda xp, x: xp.tile(x, reps=(2, 1)),
}


@pytest.mark.parametrize("name", PLACES_OF)
def test_places_of_arguments(name):
    want = PLACES_OF[name](np, A)
    same(PLACES_OF[name](fx, fx.asarray(A)), want, exact=False)
    same(fx.jit(lambda x: PLACES_OF[name](fx, x))(fx.asarray(A)), want, exact=False)


def test_what_would_mean_something_else_is_refused():
    x = fx.asarray(A)
    refused = {
        "logspace: the argument after num is base": lambda: fx.logspace(0, 1, 5, True),
        "nan_to_num: the argument after x is nan": lambda: fx.nan_to_num(x, False),
        "nanvar: the argument after the axis is ddof": lambda: fx.nanvar(x, 0, fx.float64),
        "nansum: the argument after the axis is keepdims": lambda: fx.nansum(x, 0, fx.float64),
        "nanmax: the argument after the axis is keepdims": lambda: fx.nanmax(x, 0, fx.float64),
        "tile takes the repetitions once": lambda: fx.tile(x, 2, reps=2),
        "while_loop takes what it begins with once": lambda: fx.while_loop(bool, bool),
        "fori_loop takes what it begins with once": lambda: fx.fori_loop(
            0, 1, lambda i, v: v, x, init_val=x
        ),
    }
    for words, call in refused.items():
        with pytest.raises(TypeError, match=words):
            call()
    with pytest.raises(ValueError, match="order must be 'C' or 'F'"):
        fx.reshape(x, (2, 6), order="A")


def test_loops_by_jaxs_words():
    assert fx.fori_loop(0, 3, lambda i, v: v + i, init_val=1).item() == 4
    assert fx.while_loop(lambda v: v < 9, lambda v: v * 2, init_val=fx.tensor(1)).item() == 16


def test_products_and_convolutions_of_lax():
    import jax.lax

    import fx.lax

    x = RNG.normal(size=(2, 6, 5, 3)).astype(np.float32)
    w = RNG.normal(size=(3, 2, 3, 4)).astype(np.float32)
    layout = ("NHWC", "HWIO", "NHWC")
    found = []
    for lax, a in ((fx.lax, fx.asarray), (jax.lax, jnp.asarray)):
        numbers = lax.conv_dimension_numbers(x.shape, w.shape, layout)
        y = lax.conv_general_dilated(
            a(x), a(w), (1, 2), "SAME", dimension_numbers=numbers, precision=None
        )
        back = lax.conv_transpose(
            y, a(w), (1, 2), "SAME", dimension_numbers=layout, transpose_kernel=True
        )
        dot = lax.dot_general(
            a(x),
            a(x),
            (((3,), (3,)), ((0,), (0,))),
            None,
            jnp.float32 if lax is jax.lax else fx.float32,
        )
        found.append((y, back, dot))
    for got, want in zip(*found):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
    with pytest.raises(fx.errors.ArgumentError, match="no groups of the batch"):
        fx.lax.conv_general_dilated(
            fx.ones(2, 1, 3, 3), fx.ones(2, 1, 1, 1), (1, 1), "VALID", batch_group_count=2
        )


def test_names():
    assert fx.Array is fx.ndarray is fx.Tensor and fx.ShapeDtypeStruct is fx.TensorSpec
    assert fx.remat is fx.checkpoint and fx.jacobian is fx.jacrev and fx.bool_ == fx.bool
    assert fx.issubdtype(fx.bfloat16, fx.floating) and fx.issubdtype(fx.int8, fx.signedinteger)
    assert fx.device_get({"a": fx.ones(1)})["a"].dtype == np.float32
    assert fx.device_put({"a": 1.5}, "cpu")["a"].item() == 1.5
    for name, line in (("pmap", "fx.vmap"), ("numpy", "import fx as jnp"), ("scipy", "fx.special")):
        with pytest.raises(AttributeError, match=line):
            getattr(fx, name)


def test_a_dtype_that_is_called(tmp_path):
    import subprocess
    import sys

    script = tmp_path / "script.py"
    script.write_text("import fx\nfx.float32(3)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert "write fx.tensor(x, dtype=fx.float32)" in done.stderr


def test_shapes_are_checked():
    with pytest.raises(ShapeError, match="size must not be negative"):
        fx.nonzero(fx.ones(2), size=-1)
    with pytest.raises(ShapeError, match="without an axis"):
        fx.unique(fx.ones(2, 2), axis=0, size=2)
    with pytest.raises(ShapeError, match="counts of shape"):
        fx.repeat(fx.ones(3), fx.tensor([1, 2]), total_repeat_length=3)
