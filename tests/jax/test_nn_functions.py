"""``fx.nn.relu`` and its siblings against ``jax.nn``: values, derivatives, arguments, defaults."""

import numpy as np
import pytest

import fx
import fx.nn
from fx.nn.functions import NAMES

jax = pytest.importorskip("jax")
jnp = jax.numpy
X = np.array([[-30.0, -3.5, -1.0, -0.3], [0.0, 0.4, 1.0, 7.0], [2.0, -2.0, 25.0, -0.1]], np.float32)
MASK = np.array([[True, False, True, True], [True, True, False, True], [False, True, True, True]])
ALONE = """
celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid mish relu
relu6 selu sigmoid silu soft_sign softplus sparse_plus sparse_sigmoid squareplus swish tanh
""".split()  # noqa: SIM905
CALLS = {
    "celu": lambda nn, x, a: nn.celu(x, 0.7),
    "elu": lambda nn, x, a: nn.elu(x, 0.7),
    "leaky_relu": lambda nn, x, a: nn.leaky_relu(x, negative_slope=0.2),
    "gelu exact": lambda nn, x, a: nn.gelu(x, approximate=False),
    "glu": lambda nn, x, a: nn.glu(x),
    "glu axis": lambda nn, x, a: nn.glu(x[:2], axis=0),
    "squareplus": lambda nn, x, a: nn.squareplus(x, 2.0),
    "log1mexp": lambda nn, x, a: nn.log1mexp(x * x + 1e-3),
    "softmax": lambda nn, x, a: nn.softmax(x),
    "softmax axis": lambda nn, x, a: nn.softmax(x, 0),
    "softmax axes": lambda nn, x, a: nn.softmax(x, axis=(0, 1)),
    "softmax where": lambda nn, x, a: nn.softmax(x, where=a(MASK)),
    "log_softmax": lambda nn, x, a: nn.log_softmax(x),
    "log_softmax axes": lambda nn, x, a: nn.log_softmax(x, axis=(0, 1)),
    "logsumexp": lambda nn, x, a: nn.logsumexp(x),
    "logsumexp axis": lambda nn, x, a: nn.logsumexp(x, axis=1, keepdims=True),
    "logsumexp b": lambda nn, x, a: nn.logsumexp(x, axis=0, b=a(X * X)),
    "logsumexp where": lambda nn, x, a: nn.logsumexp(x, axis=0, where=a(MASK)),
    "logmeanexp": lambda nn, x, a: nn.logmeanexp(x, axis=1),
    "logmeanexp where": lambda nn, x, a: nn.logmeanexp(x, axis=1, where=a(MASK), keepdims=True),
    "standardize": lambda nn, x, a: nn.standardize(x),
    "standardize axes": lambda nn, x, a: nn.standardize(x, axis=(0, 1), epsilon=0.1),
    "standardize where": lambda nn, x, a: nn.standardize(x, where=a(MASK)),
    "standardize mean": lambda nn, x, a: nn.standardize(x, -1, a(X[:, :1]), a(X[:, 1:2] ** 2)),
    **{name: (lambda nn, x, a, name=name: getattr(nn, name)(x)) for name in ALONE},
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_values_and_slopes(name):
    call = CALLS[name]
    weight = np.random.default_rng(0).normal(size=64).astype(np.float32)

    def ours(x):
        y = call(fx.nn, x, fx.asarray)
        return (y * fx.asarray(weight[: y.numel()].reshape(y.shape))).sum(), y

    def theirs(x):
        y = call(jax.nn, x, jnp.asarray)
        return (y * weight[: y.size].reshape(y.shape)).sum(), y

    (_, want), slope = jax.value_and_grad(theirs, has_aux=True)(jnp.asarray(X))
    (_, got), own = fx.value_and_grad(ours, has_aux=True)(fx.asarray(X))
    np.testing.assert_allclose(got.numpy(), want, rtol=3e-6, atol=1e-6)
    np.testing.assert_allclose(own.numpy(), slope, rtol=2e-5, atol=2e-6)
    compiled = fx.jit(ours)(fx.asarray(X))[1]
    np.testing.assert_allclose(compiled.numpy(), want, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
def test_one_hot(axis):
    n = np.array([[0, 2], [5, -1]])
    want = jax.nn.one_hot(n, 3, axis=axis)
    got = fx.nn.one_hot(fx.asarray(n), 3, axis=axis)
    np.testing.assert_array_equal(got.numpy(), want)
    assert got.dtype == fx.float32
    assert fx.nn.one_hot(fx.asarray(n), 3, dtype=fx.int32).dtype == fx.int32
    with pytest.raises(fx.errors.DTypeError, match="one_hot takes integers"):
        fx.nn.one_hot(fx.ones(2), 3)


def test_sign_of_a_weighted_sum():
    a, b = X[0], np.array([1.0, -2.0, -1.0, -3.0], np.float32)
    want = jax.nn.logsumexp(a, b=b, return_sign=True)
    got = fx.nn.logsumexp(fx.asarray(a), b=fx.asarray(b), return_sign=True)
    np.testing.assert_allclose([float(x) for x in got], [float(x) for x in want], rtol=1e-6)


ATTENTION = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "bias": {"bias": (2, 4, 5, 6)},
    "bias of a row": {"bias": (1, 1, 5, 6), "is_causal": True},
    "mask": {"mask": (2, 1, 5, 6)},
    "mask and bias": {"mask": (1, 4, 5, 6), "bias": (2, 4, 5, 6)},
    "lengths": {"query_seq_lengths": [3, 5], "key_value_seq_lengths": [6, 2]},
    "window": {"local_window_size": 1},
    "windows": {"local_window_size": (2, 0), "is_causal": True},
}


@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("case", ATTENTION)
def test_attention(case, heads):
    rng = np.random.default_rng(1)
    q, k, v = (
        rng.normal(size=s).astype(np.float32)
        for s in ((2, 5, 4, 8), (2, 6, heads, 8), (2, 6, heads, 8))
    )
    options = dict(ATTENTION[case])
    if "bias" in options:
        options["bias"] = rng.normal(size=options["bias"]).astype(np.float32)
    if "mask" in options:
        options["mask"] = rng.random(options["mask"]) < 0.7
    for name in ("query_seq_lengths", "key_value_seq_lengths"):
        if name in options:
            options[name] = np.array(options[name], np.int32)

    def converted(to):
        return {n: to(x) if isinstance(x, np.ndarray) else x for n, x in options.items()}

    def theirs(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, **converted(jnp.asarray))

    def ours(q, k, v):
        return fx.nn.dot_product_attention(q, k, v, **converted(fx.asarray))

    want = theirs(q, k, v)
    tensors = [fx.asarray(x) for x in (q, k, v)]
    np.testing.assert_allclose(ours(*tensors).numpy(), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fx.jit(ours)(*tensors).numpy(), want, rtol=1e-5, atol=1e-5)
    slopes = jax.grad(lambda *x: (theirs(*x) ** 2).sum(), (0, 1, 2))(q, k, v)
    for own, slope in zip(fx.grad(lambda *x: (ours(*x) ** 2).sum(), (0, 1, 2))(*tensors), slopes):
        np.testing.assert_allclose(own.numpy(), slope, rtol=1e-4, atol=1e-4)
    if "lengths" not in case:
        alone = jax.nn.dot_product_attention(q[0], k[0], v[0], is_causal=True)
        one = fx.nn.dot_product_attention(*[x[0] for x in tensors], is_causal=True)
        np.testing.assert_allclose(one.numpy(), alone, rtol=1e-5, atol=1e-5)


def test_every_name_is_there():
    ours = {n for n in NAMES if callable(getattr(fx.nn, n))}
    theirs = {n for n in dir(jax.nn) if n[0] != "_" and callable(getattr(jax.nn, n))}
    assert theirs - ours == {"get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"}


def test_masks_are_bool():
    with pytest.raises(fx.errors.DTypeError, match="where must be bool"):
        fx.nn.softmax(fx.ones(2), where=fx.ones(2))
    with pytest.raises(fx.errors.DTypeError, match="mask must be bool"):
        x = fx.ones(1, 2, 1, 2)
        fx.nn.dot_product_attention(x, x, x, mask=fx.ones(1, 1, 2, 2))
    with pytest.raises(fx.errors.ShapeError, match="must be a multiple"):
        fx.nn.dot_product_attention(fx.ones(1, 2, 3, 2), x, fx.ones(1, 2, 2, 2))
