"""checkpoint: the same derivatives with less kept; closures, cells, draws, nesting."""

import gc
import weakref

import numpy as np
import pytest

import fx
from fx.errors import BackwardError
from tests.transforms.oracle import array, jax, jnp, ours, same, says, x64

X = np.array([0.3, -1.2, 2.0])
W = np.array([[1.0, 2.0, -0.5], [0.2, 0.1, 3.0], [0.5, 0.4, -1.0]])


def block(m, x):
    return m.tanh(W_OF[m] @ m.sin(x)) * x


W_OF = {fx: ours(W), jnp: W}


def test_equal_to_jax_at_the_second_order():
    f = lambda x: (fx.checkpoint(lambda x: block(fx, x))(x) ** 2).sum()
    found = fx.hessian(f)(ours(X))
    with x64():
        g = lambda x: jnp.sum(jax.checkpoint(lambda x: block(jnp, x))(x) ** 2)
        same(found, jax.hessian(g)(jnp.asarray(X)))


def test_nothing_inside_is_kept():
    probes = []

    def f(x):
        h = fx.exp(x)
        probes.append(weakref.ref(h))
        return fx.exp(h)

    gc.disable()
    try:
        for run in (f, fx.checkpoint(f)):
            y = run(ours(X).requires_grad_())
            probes.append(y)
    finally:
        gc.enable()
    _, y, gone, z = probes
    assert gone() is None and z.grad_fn.name() == "CheckpointBackward0"
    same(y, z.detach().numpy())


def test_it_runs_once_forward_and_once_backward():
    runs = []

    def f(x):
        runs.append(1)
        return fx.exp(x)

    y = fx.checkpoint(f)(ours(X).requires_grad_())
    assert len(runs) == 1
    y.sum().backward()
    assert len(runs) == 2
    fx.checkpoint(f)(ours(X))  # nothing to differentiate
    assert len(runs) == 3


@pytest.mark.parametrize("of", ["leaf", "parameter", "grad", "jvp", "both"])
def test_what_it_closes_over_is_differentiated(of):
    x = ours(X)

    def through(ck):
        def f(w):
            return (ck(lambda x: fx.tanh((w * 2.0) @ x) * w[0] * fx.sin(w).sum())(x) ** 2).sum()

        if of in ("leaf", "parameter"):
            w = ours(W).requires_grad_() if of == "leaf" else fx.nn.Parameter(ours(W))
            f(w).backward()
            return w.grad
        if of == "both":
            v = ours(W).requires_grad_()
            g = fx.grad(lambda w: (ck(lambda x: fx.tanh(w @ x) * v[0])(x)).sum())(ours(W))
            (g * g).sum().backward()
            return v.grad
        if of == "jvp":
            return fx.jvp(f, (ours(W),), (ours(W),))[1]
        return fx.grad(lambda w: (fx.grad(f)(w) ** 2).sum())(ours(W))

    same(through(fx.checkpoint), array(through(lambda f: f)))


def test_a_lane_that_it_closes_over_is_differentiated_after_vmap_has_returned():
    def through(ck):
        w = ours(X).requires_grad_()
        v = ours(W).requires_grad_()
        rows = fx.vmap(lambda v: ck(lambda w: fx.tanh(fx.sin(v) * w) * v[0])(w))(v)
        (rows**2).sum().backward()
        return w.grad, v.grad

    same(through(fx.checkpoint), [array(g) for g in through(lambda f: f)])


def test_trees_keywords_and_what_is_no_tensor():
    @fx.checkpoint
    def f(tree, n, *, scale):
        return {"y": tree["x"] * scale, "n": n + 1, "i": tree["i"] * 2, "w": "word", "none": None}

    tree = {"x": ours(X).requires_grad_(), "i": fx.tensor([1, 2])}
    out = f(tree, 2, scale=ours(X))
    assert (out["n"], out["w"], out["none"], out["i"].tolist()) == (3, "word", None, [2, 4])
    out["y"].sum().backward()
    same(tree["x"].grad, X)
    pushed = fx.jvp(lambda x: f({"x": x, "i": tree["i"]}, 2, scale=x)["y"], (ours(X),), (ours(X),))[
        1
    ]
    same(pushed, 2 * X**2)


def test_draws_are_the_same_in_both_runs():
    def f(x):
        return x * fx.rand(3) * fx.rand(3)

    for ck in (fx.checkpoint, lambda f: f):
        fx.manual_seed(0)
        x = ours(X).astype(fx.float32).requires_grad_()
        y = ck(f)(x)
        y.sum().backward()
        if ck is fx.checkpoint:
            first = y.detach().numpy(), x.grad.numpy(), fx.rand(2).numpy()
            np.testing.assert_allclose(first[1] * X, first[0], rtol=1e-5)
        else:
            second = y.detach().numpy(), x.grad.numpy(), fx.rand(2).numpy()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_cells_are_rebound_once():
    total = fx.nn.Buffer(fx.zeros(3, dtype=fx.float64))

    def f(x):
        total.data = total + x.detach()
        return x * total

    x = ours(X).requires_grad_()
    y = fx.checkpoint(lambda x: fx.checkpoint(f)(x) * 2.0)(x)
    same(total.data, X)
    y.sum().backward()
    same(total.data, X)
    same(x.grad, 2 * X)  # the running total is a constant to the derivative
    y = fx.checkpoint(lambda x: fx.checkpoint(f)(f(x)))(x)
    expected = X + X + X * (X + X)
    same(total.data, expected)
    y.sum().backward()
    same(total.data, expected)


def test_a_parameter_that_changes_in_between_does_not_matter():
    p = fx.nn.Parameter(ours(X))
    y = fx.checkpoint(lambda x: p * x)(ours(X).requires_grad_()).sum()
    p.data = ours(X * 100)
    y.backward()
    same(p.grad, X)
    x = ours(X).requires_grad_()
    z = fx.checkpoint(lambda x: p * x)(x).sum()
    p.data = ours(X)
    z.backward()
    same(x.grad, X * 100)


def test_a_function_that_takes_another_way_is_refused():
    flag = []

    def f(x):
        w = ours(X).requires_grad_()
        return x * w if flag else x * w * w

    y = fx.checkpoint(f)(ours(X).requires_grad_()).sum()
    flag.append(1)
    with says(BackwardError, "checkpoint: f took another way when it ran again"):
        y.backward()


@pytest.mark.parametrize("compiled", [False, True])
def test_what_it_makes_of_parameters_alone_is_met_again(compiled):
    """Backward records nothing, so that without care the second run met it without a history."""
    w, shift = fx.nn.Parameter(ours(W)), fx.nn.Parameter(ours(X))
    inner = lambda x: fx.tanh(x @ (w * 2).T + shift * 3)
    outer = lambda keep: keep(lambda x: keep(inner)(x) * x)

    def step(x, keep):
        w.grad = shift.grad = None
        y = outer(keep)(x * shift).sum()
        y.backward()
        return y.detach(), w.grad, shift.grad

    run = lambda keep: lambda x: step(x, keep)
    found = (fx.jit(run(fx.checkpoint)) if compiled else run(fx.checkpoint))(ours(X))
    for a, b in zip(found, run(lambda f: f)(ours(X)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12)


def test_control_flow_on_values():
    def f(x):
        return x * 3.0 if x.sum() > 0 else x

    same(fx.grad(lambda x: fx.checkpoint(f)(x).sum())(ours(X)), np.full(3, 3.0))


def test_a_long_chain_of_segments():
    segment = fx.checkpoint(lambda x: fx.sin(fx.sin(x)) * 1.01)
    x = ours(X).requires_grad_()
    y = x
    for _ in range(300):
        y = segment(y)
    y.sum().backward()
    z = ours(X).requires_grad_()
    w = z
    for _ in range(300):
        w = fx.sin(fx.sin(w)) * 1.01
    w.sum().backward()
    same(x.grad, z.grad.numpy())


def test_a_network_with_dropout_and_batch_norm():
    def train(ck):
        fx.manual_seed(0)
        net = fx.nn.Sequential(
            fx.nn.Linear(3, 4), fx.nn.BatchNorm1d(4), fx.nn.Dropout(0.5), fx.nn.Linear(4, 1)
        )
        x = fx.randn(8, 3)
        for _ in range(3):
            ck(net)(x).sum().backward()
        return [p.grad for p in net.parameters()], list(net.buffers()), fx.rand(2)

    same(train(fx.checkpoint), [array(a) for a in fx.tree.leaves(train(lambda f: f))], 0, 0)


def test_a_jitted_function_that_differentiates_one_is_one_native_call():
    x = fx.asarray(np.random.default_rng(0).normal(size=(4, 4)))
    plain = lambda x, s: ((fx.sin(x) @ x.mT * x).sum(), s)
    kept = fx.checkpoint(plain)
    outer = lambda f: lambda x, s: (fx.grad(lambda x: f(x, s)[0] ** 2)(x), f(x, s)[1], s)
    f = fx.jit(outer(kept))
    assert [e.native for e in f.lower(x, fx.ones(2)).executables] == [True]
    for a, b in zip(f(x, fx.ones(2)), outer(plain)(x, fx.ones(2)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12)
    # what differentiates the jitted function differentiates the checkpointed one
    second = lambda f: fx.grad(lambda x: (f(x, x)[0] ** 2).sum())
    np.testing.assert_allclose(second(f)(x).numpy(), second(outer(plain))(x).numpy(), 1e-10)
    lanes = fx.jit(fx.vmap(outer(kept), (0, None)))
    rows = fx.stack([x, x + 1])
    found, want = lanes(rows, x)[0], fx.vmap(outer(plain), (0, None))(rows, x)[0]
    np.testing.assert_allclose(found.numpy(), want.numpy(), 1e-12)


def test_what_a_jitted_step_gives_back_of_its_arguments_is_its_own():
    kept = fx.checkpoint(lambda x, s: (fx.sin(x), s))

    @fx.jit(donate_argnums=0)
    def step(x, s):
        return fx.grad(lambda x: kept(x, s)[0].sum())(x), kept(x, s)[1]

    s = fx.ones(3)
    for _ in range(3):
        slope, same = step(fx.zeros(3), s)
        assert slope.tolist() == [1.0] * 3 and same.tolist() == [1.0] * 3 == s.tolist()
