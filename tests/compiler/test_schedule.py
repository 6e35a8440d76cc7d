"""The scheduler: what is fused with what, what is shared, what is left out."""

import numpy as np
import pytest

import fx
import fx.nn.functional as F
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule
from fx.graph.ir import Graph, Node, input_value
from fx.primitive import registry
from fx.spec import TensorSpec
from tests.compiler.schedules import check, staged

RNG = np.random.default_rng(1)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def scalar(value):
    return np.asarray(value, np.float32)


def test_a_chain_is_one_kernel():
    x, w, b = floats(64, 48), floats(48), floats(48)
    plan = check(staged(lambda x, w, b: F.gelu(x * w + b), x, w, b), x, w, b)
    (step,) = plan.steps
    assert len(step.reads) == 3 and len(step.writes) == 1


def test_nodes_that_no_output_needs_are_left_out():
    x = input_value(TensorSpec((8,), np.dtype("float32")))
    lost, kept = (Node(registry[name], (x,), {}) for name in ("exp", "tanh"))
    plan = schedule(Graph((x,), (lost, kept), kept.outs), this_cpu())
    assert [v for step in plan.steps for v in step.writes] == [kept.out]


def test_what_is_cheap_is_computed_again_and_what_is_heavy_is_kept():
    x, w = floats(64, 48), floats(48, 48)
    # two sums over different axes read the same array
    sums = staged(lambda x: (fx.sum(x * 2, axis=0), fx.sum(x * 2, axis=1)), x)
    light = schedule(sums, this_cpu())
    assert not any((64, 48) in [v.spec.shape for v in s.writes] for s in light.steps)
    heavy = check(staged(lambda x, w: fx.tanh(x) @ w + fx.tanh(x), x, w), x, w)
    assert sum("tanh" in s.name for s in heavy.steps) >= 1


def test_the_gate_of_a_relu_and_the_sum_of_what_passes_are_one_kernel():
    ct, y, w = floats(64, 48), np.abs(floats(64, 48)), floats(48, 20)

    def backward(ct, y, w):
        g = fx.where(y > 0.5, ct, 0.0)
        return g @ w, fx.sum(g, axis=0)

    plan = check(staged(backward, ct, y, w), ct, y, w)
    assert sum("greater" in step.name for step in plan.steps) == 1


def _adam(x, g, m, v, lr, step):
    m = m + (g - m) * 0.1
    v = v * 0.999 + fx.square(g) * 0.001
    size, root = lr / (1 - 0.9**step), 1 / fx.sqrt(1 - 0.999**step)
    return x - m / (fx.sqrt(v) * root + 1e-8) * size, m, v


def test_updates_of_many_parameters_are_tasks_of_one_kernel():
    shapes = [(30, 20), (20,), (7,), (20, 9)]
    arrays = [np.abs(floats(*s)) for s in shapes for _ in range(4)]

    def update(lr, step, *flat):
        parts = [flat[i : i + 4] for i in range(0, len(flat), 4)]
        return [_adam(*p, lr, step) for p in parts]

    graph = staged(update, scalar(0.1), scalar(3), *arrays)
    plan = check(graph, scalar(0.1), scalar(3), *arrays)
    loops = [s for s in plan.steps if "sqrt" in s.name and s.cost > 30]
    assert len(loops) == 1 and len(loops[0].writes) == 12
    assert len(loops[0].inplace) >= 9  # the parameter and both moments stay where they are


def test_flat_kernels_of_different_lengths_share_their_body():
    short, long = floats(100), floats(70_000)
    plan = check(staged(lambda a, b: (fx.tanh(a), fx.tanh(b)), short, long), short, long)
    assert len({step.body for step in plan.steps}) == 1


def test_equal_blocks_share_code():
    x = floats(32, 24)

    def blocks(x):
        for _ in range(3):
            x = fx.cumsum(fx.softmax(x, axis=1) * 2, axis=0)
        return x

    plan = schedule(staged(blocks, x), this_cpu())
    keys = [step.key for step in plan.steps if "exp" in step.name]
    assert len(keys) == 3 and len(set(keys)) == 1


def test_scalars_are_computed_together():
    lr, n = scalar(0.1), scalar(4.0)
    plan = check(staged(lambda lr, n: (lr * 2, n + 1, fx.sqrt(n) * lr, lr**n), lr, n), lr, n)
    assert len(plan.steps) == 1


@pytest.mark.parametrize("sizes", [(16, 8, 32), (64, 48, 80), (33, 65, 100), (1, 64, 64)])
def test_bias_and_activation_are_part_of_a_product(sizes):
    m, k, n = sizes
    x, w, b, rest = floats(m, k), floats(k, n), floats(n), floats(m, n)
    plan = check(staged(lambda x, w, b: fx.relu(x @ w + b), x, w, b), x, w, b, tolerance=1e-5)
    assert not any(step.name.startswith("loop") for step in plan.steps)
    graph = staged(lambda x, w, b, r: (F.gelu(x @ w + b), (x @ w + b) + r), x, w, b, rest)
    check(graph, x, w, b, rest, tolerance=1e-5)


def test_a_product_takes_one_of_two_kernels_that_follow_it():
    a, b, c, d = floats(16, 1), floats(1, 5), floats(5, 5), floats(5)

    def both(a, b, c, d):
        p = a @ b
        return (b @ c) - p, p * d, fx.tanh(p)

    check(staged(both, a, b, c, d), a, b, c, d)


def test_the_order_of_kernels_respects_who_reads_what():
    # tanh(x) feeds a product whose result is needed by another user of tanh(x)
    x, w = floats(16, 16), floats(16, 16)
    check(staged(lambda x, w: fx.sum((h := fx.tanh(x)) * (h @ w) + h, axis=1), x, w), x, w)
    check(staged(lambda x, w: ((h := fx.exp(x)) + (h @ w), fx.max(h, axis=0), h.T), x, w), x, w)


def test_in_place_pairs_name_reads_that_are_read_only_where_they_are_written():
    x, y = floats(40, 30), floats(30, 40)
    (step,) = schedule(staged(lambda x, y: x * 2 + y.T, x, y), this_cpu()).steps
    pairs = [(step.writes[w].spec.shape, step.reads[r]) for w, r in step.inplace]
    graph_x = [r for shape, r in pairs if r.spec.shape == (40, 30)]
    assert len(graph_x) == 1 and len(pairs) == 1
    z = floats(80, 64)
    (row,) = schedule(staged(lambda z: (fx.softmax(z, axis=1), fx.exp(z)), z), this_cpu()).steps
    assert [row.writes[w].node.primitive.name for w, _ in row.inplace] == ["multiply"]


def test_one_array_under_two_shapes_is_not_overwritten_while_it_is_read():
    x = floats(6, 6)
    # a reshape that tears the rows apart: the same memory is read at two places
    graph = staged(lambda x: fx.exp(x) + fx.exp(x).T.reshape(4, 9).reshape(6, 6), x)
    (*_, last) = check(graph, x).steps
    roots = [schedule(graph, this_cpu()).root(v) for v in last.reads]
    assert len(set(roots)) == len(roots)
    w = floats(6, 6)
    (step, *_) = schedule(
        staged(lambda x, w: x @ w + x.reshape(36).reshape(6, 6), x, w), this_cpu()
    ).steps
    assert step.inplace == ()


def test_long_rows_are_not_passed_over_several_times_by_one_task():
    x = floats(1_000_000)
    plan = check(staged(lambda x: (x / fx.sqrt(fx.sum(x * x)), fx.std(x)), x), x, tolerance=1e-4)
    assert all(step.tasks > 1 for step in plan.steps if step.cost > 20_000)


def test_long_chains_are_cut():
    x = input_value(TensorSpec((8,), np.dtype("float32")))
    value, nodes = x, []
    for i in range(3000):
        nodes.append(Node(registry[("tanh", "negative", "sin")[i % 3]], (value,), {}))
        value = nodes[-1].out
    plan = schedule(Graph((x,), nodes, (value,)), this_cpu())
    assert 10 < len(plan.steps) < 60
    available = {x}
    for step in plan.steps:
        assert available.issuperset(step.reads)
        available.update(step.writes)


def test_a_listing_shows_steps_shapes_and_lines():
    x = floats(64, 48)
    text = str(schedule(staged(lambda x: fx.softmax(x, axis=1), x), this_cpu()))
    assert "loop: exp" in text and "float32[64,48]" in text and "test_schedule.py" in text
