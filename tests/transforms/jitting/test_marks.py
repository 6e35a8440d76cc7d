"""Attributes that a program puts on parameters and buffers: kept, and followed by ``fx.jit``."""

import pickle
import warnings

import pytest

import fx
import fx.torch as torch
from fx import nn


class Scaled(nn.Parameter):
    scale = 2.0


def model():
    net = nn.Linear(2, 2)
    net.register_buffer("count", fx.ones(2))
    net.own = Scaled(fx.ones(2))
    return net


WAYS = {
    "by its name": lambda net: net.weight.mark,
    "of a buffer": lambda net: net.count.mark,
    "with a default": lambda net: sum(getattr(p, "mark", 1.0) for p in net.parameters()),
    "asked for": lambda net: sum(hasattr(p, "mark") for p in net.parameters()),
    "by their names": lambda net: len(vars(net.weight)) + sum(vars(net.weight).values()),
    "all of them": lambda net: sum(p.__dict__.get("mark", 1.0) for p in net.parameters()),
    "of a class": lambda net: net.own.scale,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_compiled_function_sees_them_change(way):
    net = model()
    net.weight.mark = net.count.mark = 3.0

    def f(x, net=net):
        return x * WAYS[way](net)

    fast = fx.jit(f)
    x = fx.ones(2)

    def check():
        try:
            want = f(x).tolist()
        except AttributeError as error:
            with pytest.raises(AttributeError, match=str(error)):
                fast(x)
            return
        assert fast(x).tolist() == want

    check()
    net.weight.mark = net.count.mark = 5.0
    check()
    net.bias.mark = 7.0
    check()
    net.own.scale = 4.0
    check()
    Scaled.scale, before = 6.0, Scaled.scale
    try:
        del net.own.scale
        check()
    finally:
        Scaled.scale = before
    del net.weight.mark
    check()


def test_what_a_compiled_function_marks_is_marked_in_every_call():
    net = model()

    @fx.jit
    def count(x):
        net.weight.calls = getattr(net.weight, "calls", 0) + 1
        return x + net.weight.calls

    @fx.jit
    def name(x):
        setattr(net.bias, "calls", getattr(net.bias, "calls", 0) + 1)  # noqa: B010
        return x + net.bias.calls

    for f, p in ((count, net.weight), (name, net.bias)):
        with pytest.warns(RuntimeWarning, match="changes the attribute 'calls' of a tensor"):
            first = f(fx.zeros(1)).item()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert [first, *(f(fx.zeros(1)).item() for _ in range(2))] == [1, 2, 3]
        assert p.calls == 3


def test_they_stay_through_steps_and_travel_with_the_module():
    net = model()
    net.weight._no_weight_decay = True
    before = net.weight
    torch.optim.SGD(net.parameters(), 0.1).step()
    net.weight.data = net.weight.data * 2
    assert net.to(fx.float64).weight is before
    assert net.weight._no_weight_decay
    assert pickle.loads(pickle.dumps(net)).weight._no_weight_decay
    assert [hasattr(p, "_no_weight_decay") for p in net.parameters()] == [True, False, False]
