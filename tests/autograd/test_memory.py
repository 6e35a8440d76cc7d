"""Long graphs and forgotten ones: no recursion, no reference cycles, memory given back."""

import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import fx

LONG = 100_000


@pytest.fixture
def no_gc():
    gc.disable()
    yield
    gc.enable()


def chain(x, n=LONG):
    for _ in range(n):
        x = x * 1.0
    return x


def used():
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def traced(no_gc):
    tracemalloc.start(1)
    yield
    tracemalloc.stop()


def test_a_long_chain_is_passed_and_its_memory_given_back(traced):
    x = fx.ones((), requires_grad=True)
    before = used()
    y = chain(x)
    held = used() - before
    y.backward()
    assert x.grad.item() == 1.0
    assert used() - before < held / 50
    assert y.grad_fn is not None


def test_a_long_chain_dropped_without_a_pass(no_gc):
    x = fx.ones((), requires_grad=True)
    before = len(gc.get_objects())
    y = chain(x)
    assert len(gc.get_objects()) - before > LONG
    del y
    assert len(gc.get_objects()) - before < 50


def test_a_long_chain_in_a_thread_with_a_small_stack(no_gc):
    """Deallocation must not go deep either."""

    def run(result):
        x = fx.ones((), requires_grad=True)
        y = chain(x, 20_000)
        del y
        y = chain(x, 20_000)
        y.backward()
        result.append(x.grad.item())

    result = []
    size = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=run, args=(result,))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
    assert result == [1.0]


def test_grad_of_a_long_chain(no_gc):
    before = len(gc.get_objects())
    assert fx.grad(chain)(fx.tensor(2.0)).item() == 1.0
    assert len(gc.get_objects()) - before < 50


def test_a_long_chain_under_the_other_transforms():
    n = 5_000
    x = fx.tensor(2.0)
    assert fx.jvp(lambda x: chain(x, n), (x,), (x,))[1].item() == 2.0
    assert fx.linearize(lambda x: chain(x, n), x)[1](x).item() == 2.0
    assert fx.vmap(fx.grad(lambda x: chain(x, n)))(fx.ones(2)).tolist() == [1.0, 1.0]
    assert fx.linear_transpose(lambda x: chain(x, 200), x)(x)[0].item() == 2.0


def test_a_long_chain_through_autograd_grad():
    x = fx.ones((), requires_grad=True)
    y = chain(x, 20_000)
    assert fx.autograd.grad(y, x, create_graph=True)[0].item() == 1.0


def test_a_wide_and_deep_graph_is_passed_once_a_node():
    """Each level doubles the paths; every node must be visited once."""
    x = fx.ones((), requires_grad=True)
    y = x
    for _ in range(100):
        y = (y + y) * 0.5
    y.backward()
    assert x.grad.item() == 1.0


GRAPHS = {
    "output kept by its rule": lambda x: fx.exp(x).sum(),
    "input kept": lambda x: (x * x).sum(),
    "matmul": lambda x: (x.reshape(2, 2) @ x.reshape(2, 2)).sum(),
    "several outputs": lambda x: x.sort()[0].sum(),
    "reduction": lambda x: x.max() * x.mean(),
    "norm": lambda x: fx.nn.functional.softmax(x, dim=0)[0],
    "checkpoint": lambda x: fx.checkpoint(lambda x: fx.exp(x).sum())(x),
    "vmap": lambda x: fx.vmap(lambda v: v * v)(x).sum(),
    "vmap of grad": lambda x: fx.vmap(fx.grad(lambda v: v * v * v))(x).sum(),
    "custom": lambda x: squared(x).sum(),
    "function": lambda x: Exp.apply(x).sum(),
}


@fx.custom_vjp
def squared(x):
    return x * x


squared.defvjp(lambda x: (squared(x), x), lambda x, ct: (2.0 * x * ct,))


class Exp(fx.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = fx.exp(x)
        ctx.save_for_backward(y)
        ctx.also = y
        ctx.x = x
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


@pytest.mark.parametrize("passed", [False, True], ids=["dropped", "passed"])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_graphs_die_by_reference_counts(graph, passed, no_gc):
    x = fx.tensor([0.1, 0.4, 0.2, 0.3], requires_grad=True)
    h = x * 1.0
    y = graph(h)
    leaf, inner = weakref.ref(h), weakref.ref(x._node)
    if passed:
        y.backward()
    del h, y
    assert leaf() is None
    x.grad = None
    del x
    assert inner() is None


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_a_kept_loss_keeps_no_graph_after_its_pass(graph, no_gc):
    x = fx.tensor([0.1, 0.4, 0.2, 0.3], requires_grad=True)
    h = x * 1.0
    inner = weakref.ref(h)
    y = graph(h)
    del h
    y.backward()
    assert inner() is None and y.item() is not None


ROOTS = {
    "custom": lambda x: squared(x),
    "function": lambda x: Exp.apply(x),
    "checkpoint": lambda x: fx.checkpoint(lambda x: x * x)(x),
    "lanes": lambda x: fx.vmap(Exp.apply)(x[None])[0],
}


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
def test_the_last_node_keeps_no_arguments_after_its_pass(root, no_gc):
    x = fx.tensor(0.5, requires_grad=True)
    h = x * 1.0
    inner = weakref.ref(h)
    y = root(h)
    del h
    y.backward()
    assert inner() is None and y.requires_grad


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_transforms_leave_nothing_behind(graph, no_gc):
    x = fx.tensor([0.1, 0.4, 0.2, 0.3])
    probes = []

    def f(x):
        h = x * 1.0
        probes.append(weakref.ref(h))
        return graph(h)

    fx.grad(f)(x)
    fx.jvp(f, (x,), (x,))
    fx.vmap(f)(fx.stack([x, x]))
    fx.hessian(f)(x)
    assert len(probes) >= 4 and all(p() is None for p in probes)


def test_training_does_not_grow(no_gc):
    w = fx.nn.Parameter(fx.ones((20, 20)))
    x = fx.ones((20, 20))

    def steps(n):
        for _ in range(n):
            loss = fx.tanh(x @ w).sum()
            loss.backward()
            w.data = w.data - 0.01 * w.grad
            w.grad = None

    steps(5)
    before = len(gc.get_objects())
    steps(50)
    assert len(gc.get_objects()) - before < 20


def test_threads_train_as_they_would_one_after_another():
    def train(seed):
        rng = np.random.default_rng(seed)
        w1, w2 = (fx.tensor(rng.standard_normal(s), requires_grad=True) for s in ((4, 8), (8, 1)))
        x, y = fx.tensor(rng.standard_normal((16, 4))), fx.tensor(rng.standard_normal((16, 1)))
        for step in range(30):
            with fx.enable_grad():
                loss = ((fx.tanh(x @ w1) @ w2 - y) ** 2).mean()
            loss.backward()
            per_sample = fx.vmap(fx.grad(lambda v, w: (fx.tanh(v @ w) ** 2).sum(), 1), (0, None))(
                x, w1.detach()
            )
            with fx.no_grad():
                w1 = (w1 - 0.1 * w1.grad + 1e-3 * per_sample.mean(0)).requires_grad_()
                w2 = (w2 - 0.1 * w2.grad).requires_grad_()
            if step % 10 == 0:
                fx.hessian(lambda v: (v * v * v).sum())(x[0])
        return w1.detach().numpy(), w2.detach().numpy()

    expected = [train(seed) for seed in range(4)]
    found = [None] * 4

    def work(i):
        found[i] = train(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[1])
