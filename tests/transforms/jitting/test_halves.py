"""The backward pass of a compiled call in two: together the whole, and nothing is done twice."""

import pytest

import fx
from fx import nn
from fx.transforms.jitting.call import GraphPullback
from fx.transforms.jitting.halves import first_half

MODELS = {
    "layers": lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)),
    "norms and draws": lambda: nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 4)
    ),
    "attention": lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    "recurrence": lambda: nn.LSTM(4, 4, batch_first=True),
    "no weights": lambda: nn.Softmax(-1),
}


def run(model, function):
    fx.manual_seed(1)
    shape = (2, 5, 4) if isinstance(model, nn.LSTM | nn.TransformerEncoderLayer) else (5, 4)
    x = fx.random.normal(fx.random.key(0), shape).requires_grad_(True)
    model.zero_grad()
    out = function(x)
    out = out[0] if isinstance(out, tuple) else out
    return x, out, fx.cos(fx.arange(out.size, dtype=fx.float32)).reshape(out.shape)


def gradients(model):
    return [p.grad.numpy().copy() for p in model.parameters()]


@pytest.mark.parametrize("name", MODELS)
def test_both_halves_are_the_whole(name):
    fx.manual_seed(0)
    model = MODELS[name]()
    function = fx.jit(model)
    for _ in range(2):
        x, out, ct = run(model, function)
        out.backward(ct)
        known = [x.grad.numpy(), *gradients(model)]
        x, out, ct = run(model, function)
        (first,) = first_half([out], [ct], [x])
        assert x.grad is None and all(p.grad is None for p in model.parameters())
        fx.autograd.backward([out], [ct])
        assert x.grad is None
        for a, b in zip([first.numpy(), *gradients(model)], known, strict=True):
            assert (a == b).all()


def test_no_product_is_computed_in_both_halves():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))
    _, out, _ = run(model, fx.jit(model))
    pullback = out._node.of.pullback.bare
    assert type(pullback) is GraphPullback
    whole = pullback.split.backward
    pullback.halves([fx.ones(out.shape)], frozenset([0]))
    ((_, (ahead, rest, _)),) = [kv for kv in whole.cache.items() if kv[0][:1] == ("halves",)]
    count = lambda graph: [n.primitive.name for n in graph.nodes].count("matmul")
    assert count(ahead) == 2 and count(rest) == 2 and count(whole) == 4
    assert len(ahead.nodes) + len(rest.nodes) == len(whole.nodes)


def test_what_is_not_one_compiled_call_is_left_alone():
    model = nn.Linear(4, 4)
    x, out, ct = run(model, model)
    assert first_half([out], [ct], [x]) is None
    x, out, ct = run(model, lambda x: fx.jit(model)(x) * 2)
    assert first_half([out], [ct], [x]) is None
    out.backward(ct)
    assert x.grad is not None and model.weight.grad is not None
