"""Costs, liveness and recomputation."""

import numpy as np
import pytest
from hypothesis import given, settings

import fx
from fx.graph import Graph, Node, validate
from fx.graph.cost import cheap, cost_of, flops_of, live_bytes
from fx.graph.passes import recompute
from tests.graph.test_passes import Effect, single
from tests.graph.test_programs import seeds
from tests.graph.tools import Build, Program, argument, assert_same_bits, names, run

torch = pytest.importorskip("torch")


def counted(function, *args):
    """PyTorch's count of the operations of matrix products and convolutions."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        function(*args)
    return counter.get_total_flops()


def test_products_count_as_in_torch():
    a, b = (3, 5, 7), (3, 7, 11)
    ours = cost_of(single("matmul", argument(a), argument(b)).nodes[0])
    assert ours.flops == counted(torch.matmul, torch.zeros(a), torch.zeros(b))
    assert (ours.read, ours.written) == (4 * (105 + 231), 4 * 165)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_count_as_in_torch(groups):
    x, w = torch.zeros(2, 4, 9, 9), torch.zeros(6, 4 // groups, 3, 3)
    params = {"stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": groups}
    graph = single("conv", argument(tuple(x.shape)), argument(tuple(w.shape)), **params)
    call = lambda: torch.nn.functional.conv2d(x, w, stride=2, padding=1, groups=groups)
    forward = cost_of(graph.nodes[0]).flops
    assert forward == counted(call)
    g = argument(graph.outputs[0].spec.shape)
    back = single("conv_input_grad", g, argument(tuple(w.shape)), input_size=(9, 9), **params)
    weight = single("conv_weight_grad", argument(tuple(x.shape)), g, kernel_size=(3, 3), **params)
    assert cost_of(back.nodes[0]).flops == cost_of(weight.nodes[0]).flops == forward


def test_views_are_free_and_arguments_are_read_once():
    x = argument((8, 8))
    assert cost_of(single("reshape", x, shape=(64,)).nodes[0]).bytes == 0
    assert cost_of(single("multiply", x, x).nodes[0]).read == 256
    cut = single("slice", x, start=(0, 0), stop=(1, 8), step=(1, 1))
    assert cost_of(cut.nodes[0]).read == 32


def test_loops_cost_their_bodies():
    x = argument((8, 8))
    body = single("exp", x)
    once = cost_of(body.nodes[0])
    loop = Node(Effect("scan"), [x], {"body": body, "length": 5})
    assert cost_of(loop).flops == 5 * once.flops
    other = single("negative", x)
    branch = Node(Effect("cond"), [x], {"branches": (other, body)})
    assert cost_of(branch).flops == once.flops


def test_a_graph_costs_the_sum():
    graph = fx.make_graph(lambda x, w: fx.sum(fx.tanh(x @ w)))(fx.ones((4, 8)), fx.ones((8, 2)))
    assert graph.cost().flops == 128 + 14 * 8 + 8
    assert flops_of(graph) == {"matmul": 128, "tanh": 112, "sum": 8}


def test_liveness_ends_with_the_last_use_and_views_keep_what_they_show():
    x = argument((256,))  # 1 KiB
    b = Build(x)
    one = b.exp(x)
    view = b.reshape(one, shape=(16, 16))
    two = b.sin(x)
    three = b.sin(two)
    out = b.add(b.reshape(three, shape=(16, 16)), view)
    assert [n // 1024 for n in live_bytes(b.graph(out))] == [1, 1, 2, 3, 2, 3]


def test_cheap_is_elementwise():
    x = argument((4, 4))
    assert cheap(single("tanh", x).nodes[0])
    assert cheap(single("full", shape=(3,), value=0, dtype=np.dtype("f4"), device="cpu").nodes[0])
    for dear in ("lgamma", "digamma"):
        assert not cheap(single(dear, x).nodes[0])
    assert not cheap(single("matmul", x, x).nodes[0])
    assert not cheap(single("sum", x, axes=(0,), keepdims=False).nodes[0])


@settings(max_examples=60)
@given(seed=seeds)
def test_recomputation_changes_no_bit_and_raises_no_peak(seed):
    program = Program(seed, steps=50)
    want = run(program.graph, *program.arrays)
    for allowed in (None, lambda node: True):
        new = validate(recompute(program.graph, cheap=allowed))
        assert_same_bits(run(new, *program.arrays), want)
        assert new.cost().peak <= program.graph.cost().peak


def residual_chain(depth):
    """A forward and backward pass by hand, which keeps products and their tanh."""
    x, w = argument((64, 64)), argument((64, 64))
    b = Build(x, w)
    at, kept = x, []
    for _ in range(depth):
        product = b.matmul(at, w)
        at = b.tanh(product)
        kept.append((product, at))
    for product, activation in reversed(kept):
        at = b.matmul(b.multiply(at, b.multiply(activation, product)), w)
    return b.graph(at)


def test_recomputation_lowers_the_peak_of_a_backward_pass():
    graph = residual_chain(6)
    new = recompute(graph)
    assert new.cost().peak < 0.7 * graph.cost().peak
    assert names(new).count("matmul") == names(graph).count("matmul")
    data = [np.random.default_rng(0).normal(size=(64, 64)).astype("f4") / 8 for _ in range(2)]
    assert_same_bits(run(new, *data), run(graph, *data))


def test_recomputation_of_a_gradient_halves_its_memory():
    def loss(x, weights):
        for w in weights:
            x = fx.nn.functional.gelu(x @ w)
        return (x * x).sum()

    from fx.graph import optimize

    weights = [fx.ones((16, 16))] * 8
    graph = optimize(fx.make_graph(fx.grad(loss, argnums=1))(fx.ones((32, 16)), weights))
    new = recompute(graph)
    assert new.cost().peak < 0.75 * graph.cost().peak
    assert new.cost().flops < 1.2 * graph.cost().flops


def test_recomputation_stops_at_the_budget():
    graph = residual_chain(4)
    assert recompute(graph, budget=graph.cost().peak) is graph


def test_effects_are_not_repeated():
    x = argument((64,))
    b = Build(x)
    shout = Node(Effect(multiple=False), [x], {}, [x.spec])
    b.nodes.append(shout)
    big = b.broadcast_to(b.sin(x), shape=(64, 64))
    out = b.add(b.sum(b.multiply(big, big), axes=(0,), keepdims=False), shout.outs[0])
    graph = b.graph(out)
    new = recompute(graph, cheap=lambda node: True)
    assert names(new).count("shout") == 1
    assert isinstance(new, Graph)
