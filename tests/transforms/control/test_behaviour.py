"""What runs when: Python loops, one operation under jit, memory, lanes, cells, random numbers."""

import numpy as np
import pytest

import fx
from fx.graph.staging import stage
from fx.random.lanes import Turn
from tests.transforms.oracle import array, same

X = fx.tensor(np.array([0.5, 1.5, -0.7, 2.0]))


def nodes(graph, name):
    """The nodes of a primitive, those in bodies too."""
    found = [n for n in graph.nodes if n.primitive.name == name]
    for n in graph.nodes:
        for p in n.params.values():
            for g in p if isinstance(p, tuple) else (p,):
                if hasattr(g, "nodes"):
                    found += nodes(g, name)
    return found


# eager calls are ordinary Python ------------------------------------------------------------------


def test_eager_calls_run_python():
    seen = []
    fx.scan(lambda c, a: (c, seen.append(float(a))), 0.0, X)
    assert seen == array(X).tolist()
    fx.cond(X.sum() > 0, lambda: seen.append("yes"), lambda: seen.append("no"))
    assert seen[-1] == "yes"
    fx.fori_loop(0, 3, lambda i, v: (seen.append(int(i)), v)[1], 0.0)
    assert seen[-3:] == [0, 1, 2]
    fx.while_loop(lambda v: v < 2, lambda v: (seen.append(float(v)), v + 1)[1], 0.0)
    assert seen[-2:] == [0.0, 1.0]


def test_backward_goes_through_eager_loops():
    x = fx.tensor(2.0, requires_grad=True)
    y = fx.while_loop(lambda v: v < 20, lambda v: v * x, x)
    z, _ = fx.scan(lambda c, a: (c * a + x, None), y, fx.stack([x, x * x]))
    fx.cond(z > 0, lambda: z * 3, lambda: z).backward()
    t = torch_leaf()
    w = t
    while w < 20:
        w = w * t
    for a in (t, t * t):
        w = w * a + t
    (w * 3).backward()
    same(x.grad, t.grad.numpy())


def torch_leaf():
    torch = pytest.importorskip("torch")
    return torch.tensor(2.0, requires_grad=True)


def test_rows_are_put_together_once():
    """Going back through a loop over rows does not add up a tensor of zeros a row."""
    x = fx.ones(50, requires_grad=True)
    y = fx.scan(lambda c, a: (c * a, None), 1.0, x)[0]
    names, stack = set(), [y._node]
    while stack:
        node = stack.pop()
        names.add(node.name())
        stack += [p for p in node.parents if p is not None]
    assert "UnbindBackward0" in names
    assert not any("Slice" in n for n in names)


# under jit one operation --------------------------------------------------------------------------


def test_staged_calls_are_one_node():
    def f(x):
        x = fx.scan(lambda c, a: (c + a, None), x[0], x)[0]
        x = fx.fori_loop(0, 100, lambda i, v: v * 0.5 + i, x)
        x = fx.while_loop(lambda v: v > 1, lambda v: v / 2, x)
        return fx.cond(x > 0.7, lambda: x, lambda: -x)

    names = [n.primitive.name for n in fx.make_graph(f)(X).nodes]
    assert names.count("scan") == 2 and names.count("while") == 1 and names.count("cond") == 1
    assert len(names) < 10
    same(fx.jit(f)(X), array(f(X)))


def test_the_forward_pass_runs_once():
    """Staged values and residuals come from one loop, not from two."""

    def loss(x):
        last, ys = fx.scan(lambda c, a: (fx.exp(fx.sin(c) @ a), c), x, fx.stack([x[:, None] * x]))
        return (last * ys).sum()

    graph = fx.make_graph(lambda x: fx.value_and_grad(loss)(x))(X)
    assert len(nodes(graph, "scan")) == 2
    branch = lambda x: fx.cond(x.sum() > 0, lambda: fx.exp(x @ (x[:, None] * x)), lambda: x).sum()
    graph = fx.make_graph(fx.value_and_grad(branch))(X)
    assert len(nodes(graph, "cond")) == 2


def test_residuals_are_what_going_back_reads():
    """Of a linear recurrence nothing is stored; of a product with a constant, not the constant."""
    w = fx.ones((4, 4), dtype=fx.float64)

    def linear(x):
        return fx.scan(lambda c, a: (c * 0.5 + a, None), x[0], x)[0].square()

    def with_weights(x):
        rows = fx.stack([x, x * 2, x * 3])
        return fx.scan(lambda h, a: (fx.tanh(w @ h + a), None), x, rows)[0].sum()

    forwards, _ = nodes(fx.make_graph(fx.value_and_grad(linear))(X), "scan")
    assert len(forwards.outs) == 1  # no residual
    forwards, _ = nodes(fx.make_graph(fx.value_and_grad(with_weights))(X), "scan")
    stored = [v.spec.shape for v in forwards.outs[1:]]
    assert stored == [(3, 4)]


def test_checkpoint_stores_carries_only():
    def loss(x, checkpoint):
        def step(c, a):
            h = c @ (c[:, None] * x)
            return fx.sin(h) @ (a[:, None] * fx.exp(fx.cos(h))), None

        return fx.scan(step, x, fx.stack([x] * 3), checkpoint=checkpoint)[0].sum()

    stored = {}
    for checkpoint in (False, True):
        graph = fx.make_graph(fx.grad(lambda x: loss(x, checkpoint)))(X)  # noqa: B023
        stored[checkpoint] = sum(v.spec.nbytes for v in nodes(graph, "scan")[0].outs[1:])
        same(fx.jit(fx.grad(lambda x: loss(x, checkpoint)))(X), array(fx.grad(loss)(X, checkpoint)))  # noqa: B023
    assert stored[True] == 3 * 4 * 8
    assert stored[False] > stored[True]


def test_memory_is_linear_in_the_length():
    def loss(x, n):
        return fx.scan(lambda c, a: (fx.sin(c) * a, None), x[0], fx.broadcast_to(x[1], (n,)))[0]

    stored = []
    for n in (10, 1000):
        graph = fx.make_graph(fx.grad(lambda x: loss(x, n)))(X)  # noqa: B023
        stored.append(sum(v.spec.nbytes for node in graph.nodes for v in node.outs))
    assert stored[1] < 120 * stored[0]


@pytest.mark.parametrize("unroll", [1, 2, 3, 5, 8, True, False])
@pytest.mark.parametrize("reverse", [False, True])
def test_unroll(unroll, reverse):
    def f(x):
        return fx.scan(
            lambda c, a: (fx.sin(c) + a, c * a), x[0], fx.concat([x, x[:1]]), reverse=reverse,
            unroll=unroll,
        )  # fmt: skip

    same(applied_staged(f), [array(y) for y in f(X)])


def applied_staged(f):
    graph, captured = stage(lambda x: fx.tree.leaves(f(x)), [X.spec])
    return graph.run(X, *captured)


def test_loops_compile_to_native_code():
    from fx.backends.cpu.llvm.driver import compile_graph

    def f(x):
        y = fx.scan(lambda c, a: (fx.sin(c) * a, c), x, fx.stack([x, x]))[1]
        z = fx.while_loop(lambda v: v.sum() < 9, lambda v: v + fx.abs(x), x)
        return fx.cond(x[0] > 0, lambda: y * z, lambda: y)

    graph = fx.make_graph(f)(X)
    compiled = compile_graph(graph)
    assert "python" not in compiled.schedule
    same(compiled.run([array(X), *[array(X)] * (len(graph.inputs) - 1)]), [array(f(X))])


# lanes --------------------------------------------------------------------------------------------


def test_no_nan_from_the_branch_not_taken():
    def f(x):
        return fx.cond(x > 1, lambda: fx.sqrt(x - 1), lambda: fx.log(2 - x) / 3)

    xs = fx.tensor([0.5, 1.5, 3.0, 1.0])
    slopes = np.array([0.5 / np.sqrt(x - 1) if x > 1 else -1 / (2 - x) / 3 for x in array(xs)])
    for g in (fx.vmap(fx.grad(f)), fx.jit(fx.vmap(fx.grad(f)))):
        same(g(xs), slopes, rtol=1e-5)
    same(fx.grad(lambda x: fx.vmap(f)(x).sum())(xs), slopes, rtol=1e-5)
    same(fx.vmap(lambda x: fx.jvp(f, (x,), (fx.ones(()),))[1])(xs), slopes, rtol=1e-5)


def test_no_nan_from_a_branch_that_no_lane_takes():
    w = fx.tensor(0.0)
    f = lambda w, x: fx.cond(x > 9, lambda: fx.sqrt(w) * x, lambda: x * w)
    gradient = fx.grad(lambda w: fx.vmap(f, (None, 0))(w, fx.tensor([1.0, 2.0])).sum())
    same(gradient(w), 3.0)


def test_lanes_that_have_ended_stay():
    def f(x, n):
        return fx.while_loop(lambda v: v[0] < n, lambda v: (v[0] + 1, v[1] * x), (0, x * 0 + 1))

    count, power = fx.vmap(f)(fx.tensor([2.0, 3.0, 0.5]), fx.tensor([3, 0, 5]))
    assert array(count).tolist() == [3, 0, 5]
    same(power, np.array([8.0, 1.0, 0.5**5]))


def test_a_carry_that_all_lanes_have_alike_after_a_run():
    f = lambda x: fx.scan(lambda c, e: (e * 2.0, c + e), x, fx.tensor([1.0, 2.0, 3.0]))
    last, rows = fx.jit(fx.vmap(f))(xs := fx.tensor([5.0, 7.0]))
    same(last, np.array([6.0, 6.0]))
    same(rows, np.stack([f(x)[1] for x in xs]))


def test_lanes_that_have_ended_do_no_harm():
    """What they hold may be what the body cannot take: a matrix that has no inverse."""

    def f(x, n):
        body = lambda c: (c[0] + 1, fx.linalg.inv(c[1]) - fx.eye(2))
        return fx.while_loop(lambda c: c[0] < n, body, (fx.tensor(0), x))[1]

    xs, counts = fx.tensor([1.0, 2.0, 3.0])[:, None, None] * fx.eye(2), fx.tensor([1, 2, 2])
    want = np.stack([f(x, n) for x, n in zip(xs, counts, strict=True)])
    same(fx.vmap(f)(xs, counts), want, rtol=1e-5)


def test_bounds_that_differ_between_lanes():
    f = lambda n: fx.fori_loop(0, n, lambda i, v: v + i, 0)
    assert array(fx.vmap(f)(fx.tensor([3, 0, 5]))).tolist() == [3, 0, 10]


def test_collectives_inside_bodies():
    def f(x):
        step = lambda c, a: (c + fx.psum(a, "i"), fx.pmax(c, "i"))
        last, ys = fx.scan(step, x[0], x)
        total = fx.psum(x.sum(), "i")
        return last, ys, fx.cond(total > 3, lambda: fx.psum(x, "i"), lambda: x)

    xs = fx.stack([X, X * 2])
    found = fx.vmap(f, axis_name="i")(xs)
    for g in (fx.jit(fx.vmap(f, axis_name="i")), fx.vmap(_staged_tree(f), axis_name="i")):
        same(g(xs), [array(y) for y in found])


def _staged_tree(f):
    def run(x):
        graph, captured = stage(lambda x: fx.tree.leaves(f(x)), [x.spec])
        return tuple(graph.run(x, *captured))

    return run


def test_no_lanes_at_all():
    f = lambda x: fx.cond(x > 1, lambda: x, lambda: fx.while_loop(lambda v: v < 2, fx.exp, x))
    assert fx.vmap(f)(fx.ones(0)).shape == (0,)


# numbers, cells, random numbers -------------------------------------------------------------------


def test_python_numbers_take_the_dtype_that_comes_out():
    seen = []

    def f(x):
        return fx.scan(lambda c, a: (seen.append(c) or c + a, c), 0.1, x)

    for g in (f, fx.jit(f)):
        last, ys = g(X)
        assert last.dtype == ys.dtype == fx.float64
        same(last, 0.1 + array(X).sum())
    assert fx.scan(lambda c, a: (c + a, None), 0, X)[0].dtype == fx.float64
    assert fx.fori_loop(0, 2, lambda i, v: v + X[0], 0).dtype == fx.float64
    assert fx.while_loop(lambda v: v < 1, lambda v: v + X[0], 0).dtype == fx.float64
    assert fx.jit(lambda n: fx.scan(lambda c, a: (c * a, None), n, X)[0])(2.0).dtype == fx.float64


def test_the_first_step_leaves_one_trace():
    """A number that takes another dtype makes the first step run twice; cells and draws do not."""
    cell = fx.nn.Buffer(fx.tensor(0.0))

    def f(x):
        def step(c, a):
            cell.add_(1.0)
            return c + a * fx.rand(()), None

        return fx.scan(step, 0, x)[0]

    fx.manual_seed(3)
    total = f(X)
    assert float(cell) == 4.0
    fx.manual_seed(3)
    same(total, sum([a * float(fx.rand(())) for a in array(X)]), rtol=1e-6)


def test_branches_with_python_numbers():
    f = lambda x: fx.cond(x > 0, lambda: x, lambda: 0)
    for g in (f, fx.jit(f)):
        assert array(g(X[0])) == 0.5
        assert array(g(X[2])) == 0.0
    assert fx.jit(f)(X[2]).dtype == fx.float64


def test_cells_and_draws_are_the_same_under_jit():
    def run(jit):
        fx.manual_seed(0)
        count = fx.nn.Buffer(fx.tensor(0.0))

        def f(x):
            def step(c, a):
                count.add_(a)
                return c + a * fx.rand(()), count * 2

            out = fx.scan(step, 0.0, x)
            chosen = fx.cond(x.sum() > 2, lambda: count.add_(10.0) * 1, lambda: x.sum())

            def more(v):
                count.add_(1.0)
                return v + 1

            n = fx.while_loop(lambda v: v + count < 25, more, 0.0)
            y = fx.fori_loop(0, 3, lambda i, v: v * fx.rand(()), 1.0)
            return out, chosen, n, y, fx.rand(())

        g = fx.jit(f) if jit else f
        x = fx.tensor([1.0, 2.0, 3.0])
        return [array(y) for y in fx.tree.leaves([g(x), g(x / 10), count])]

    same(run(True), run(False), rtol=1e-6)


DRAWS = {
    "while": lambda x: fx.while_loop(
        lambda v: v < 1, lambda v: v + fx.rand((), dtype=fx.float64), x
    ),
    "cond": lambda x: fx.cond(x > 0, lambda: fx.rand(()), lambda: fx.zeros(())),
    "scan": lambda x: fx.scan(lambda c, _: (c + fx.rand(()), None), 0.0, None, length=3)[0],
}


@pytest.mark.parametrize("f", DRAWS.values(), ids=DRAWS)
def test_draws_of_lanes_are_those_of_a_loop(f):
    """Lane by lane, and the generator goes on where the lane that drew most left it."""
    xs = [0.5, -1.5, 0.7, 2.0]
    fx.manual_seed(0)
    rows = []
    for i, x in enumerate(xs):
        with Turn([i]), fx.random.lane(i):
            rows.append(float(f(fx.tensor(x, dtype=fx.float64))))
    after = float(fx.rand(()))
    for mapped in (fx.vmap(f), fx.jit(fx.vmap(f)), fx.vmap(fx.jit(f))):
        fx.manual_seed(0)
        assert array(mapped(fx.tensor(xs, dtype=fx.float64))).tolist() == rows
        assert float(fx.rand(())) == after


def test_a_module_in_a_scanned_body():
    """Parameters get their gradients, running statistics move on, under jit as eagerly."""
    results = []
    for jit in (False, True):
        fx.manual_seed(1)
        cell = fx.nn.Sequential(fx.nn.Linear(4, 4), fx.nn.BatchNorm1d(4))

        def step(x, cell=cell):
            def body(h, _):
                return fx.tanh(cell(h)), None

            loss = fx.scan(body, x, None, length=3)[0].square().sum()
            loss.backward()
            return loss

        (fx.jit(step) if jit else step)(fx.randn(5, 4))
        grads = [array(p.grad) for p in cell.parameters()]
        results.append([*grads, *[array(b) for b in cell.buffers()]])
    same(results[1], results[0], rtol=1e-3, atol=1e-4)


# shapes, trees, edges -----------------------------------------------------------------------------


def test_nothing_to_carry_and_nothing_to_return():
    assert fx.scan(lambda c, a: (None, None), None, X) == (None, None)
    assert fx.jit(lambda x: fx.scan(lambda c, a: (None, a * 2), None, x)[1])(X).shape == (4,)
    assert fx.while_loop(lambda v: False, lambda v: v, {"a": 1})["a"].dtype == fx.int64


def test_shapes_without_values():
    spec = fx.TensorSpec((5, 3), fx.float32)

    def f(x):
        last, ys = fx.scan(lambda c, a: (c + a.sum(), a * c), 0.0, x)
        y = fx.while_loop(lambda v: v < 3, lambda v: v * 2, last)
        return fx.cond(y > 1, lambda: ys, lambda: ys * 2), fx.map(lambda r: r.max(), x)

    out = fx.eval_shape(f, spec)
    assert [tuple(s.shape) for s in out] == [(5, 3), (5,)]


def test_scan_of_nothing_learns_the_shapes():
    last, ys = fx.scan(lambda c, a: (c, {"y": fx.stack([a, c])}), 1.0, fx.zeros((0,)))
    assert ys["y"].shape == (0, 2) and float(last) == 1.0


def test_carries_that_swap_and_stay():
    def f(x):
        return fx.scan(lambda c, a: ((c[1], c[0] + a, c[2]), (c[0], c[2])), (x, x * 2, x * 3), x)

    found = [array(y) for y in fx.tree.leaves(f(X))]
    same(fx.jit(f)(X), found)
    same(applied_staged(f), found)


def test_switch_cuts_its_index_off():
    f = lambda i: fx.switch(i, [lambda: 10, lambda: 20, lambda: 30])
    for g in (f, fx.jit(f)):
        found = [int(g(fx.tensor(i))) for i in (-5, 0, 1, 2, 7)]
        assert found == [10, 10, 20, 30, 30]
    assert array(fx.vmap(f)(fx.tensor([-5, 0, 1, 2, 7]))).tolist() == [10, 10, 20, 30, 30]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_any_length(n, reverse):
    """Products of matrices, which do not commute."""
    values = np.random.default_rng(n).normal(size=(2, n, 2, 2))
    found = fx.associative_scan(
        lambda a, b: b @ a if reverse else a @ b, fx.tensor(values), reverse=reverse, axis=1
    )
    expected = values.copy()
    for k in range(1, n):
        if reverse:
            expected[:, n - 1 - k] = expected[:, n - 1 - k] @ expected[:, n - k]
        else:
            expected[:, k] = expected[:, k - 1] @ expected[:, k]
    same(found, expected)


@pytest.mark.parametrize("batch_size", [None, 1, 3, 4, 9])
def test_map_in_batches(batch_size):
    xs = {"a": X, "b": fx.stack([X, X * 2, X * 3, X * 4])}
    f = lambda row: (row["a"] * row["b"], row["b"].sum())
    expected = [array(X)[:, None] * array(xs["b"]), array(xs["b"]).sum(1)]
    same(fx.map(f, xs, batch_size=batch_size), expected)
    same(fx.jit(lambda xs: fx.map(f, xs, batch_size=batch_size))(xs), expected)
