"""A captured tensor of which a jitted function asks only how it is made is not frozen."""

import pytest

import fx

QUESTIONS = {
    "shape": lambda t: t.shape[0],
    "len": len,
    "size": lambda t: t.size,
    "ndim": lambda t: t.ndim,
    "numel": lambda t: t.numel(),
    "dtype": lambda t: 1 if t.dtype is fx.float32 else 2,
    "is_floating_point": lambda t: 1 if t.is_floating_point() else 2,
    "zeros_like": lambda t: fx.zeros_like(t).sum() + fx.zeros(t.shape).shape[0],
    "under a condition": lambda t: 2.0 if t.shape == (3,) else 1.0,
}
TENSORS = [
    fx.ones(3), fx.ones(3) * 2, fx.ones(5), fx.ones((2, 2)), fx.ones(3, dtype=fx.int32), fx.ones(3),
]  # fmt: skip


class Holder:
    pass


def _of_global(ask):
    space = {"ask": ask, "t": None}
    exec("def f(y): return y * ask(t)", space)
    return space["f"], lambda t: space.update(t=t)


def _of_closure(ask):
    held = None

    def put(t):
        nonlocal held
        held = t

    return (lambda y: y * ask(held)), put


def _of_attribute(ask):
    holder = Holder()
    return (lambda y: y * ask(holder.t)), lambda t: setattr(holder, "t", t)


def _of_list(ask):
    held = [None]
    return (lambda y: y * ask(held[0])), lambda t: held.__setitem__(0, t)


def _of_buffer(ask):
    module = fx.nn.Module()
    module.register_buffer("t", fx.ones(3))
    return (lambda y: y * ask(module.t)), lambda t: setattr(module, "t", t)


def _of_parameter_of_another_value(ask):
    parameter = fx.nn.Parameter(fx.ones(3), requires_grad=False)
    return (lambda y: y * ask(parameter)), lambda t: setattr(parameter, "data", t)


PLACES = [
    _of_global, _of_closure, _of_attribute, _of_list, _of_buffer, _of_parameter_of_another_value,
]  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("place", PLACES)
def test_asked_again_in_each_call(place, question):
    function, put = place(QUESTIONS[question])
    jitted, y = fx.jit(function), fx.ones(1)
    for t in (TENSORS[0], *TENSORS, TENSORS[0]):
        put(t)
        assert jitted(y).tolist() == function(y).tolist()
