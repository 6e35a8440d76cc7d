"""What a jitted function gives has memory of its own, and the bits of what it was made of."""

import numpy as np
import pytest

import fx
import fx.torch as torch
from fx import nn

PARAMETER = nn.Parameter(fx.tensor([1.0, 2.0, 3.0]), requires_grad=False)
OUTSIDE = fx.tensor([1.0, 2.0, 3.0])

# passes make one value of what these compute, or an argument itself
ALIKE = {
    "the same twice": lambda x: (x * 2, x * 2),
    "the same in another way": lambda x: (x + 0.0, x * 1.0, x - 0.0, x / 1.0),
    "an argument": lambda x: (x + 0.0, x * 2),
    "an argument, turned twice": lambda x: (fx.flip(fx.flip(x, axis=0), axis=0), x + 1),
    "a constant": lambda x: (torch.ones(3), torch.ones(3), x * 2),
    "an outer tensor": lambda x: (OUTSIDE * 1.0, OUTSIDE + 0.0, x * 1.0),
    "a parameter": lambda x: (PARAMETER * 1.0, PARAMETER + 0.0, x * 1.0),
    "a part": lambda x: (fx.concat([x, x])[:3], fx.concat([x, x])[3:]),
}


@pytest.mark.parametrize("name", ALIKE)
def test_who_writes_into_a_result_writes_into_nothing_else(name):
    function = fx.jit(ALIKE[name])
    for _ in range(4):
        x = torch.tensor([1.0, 2.0, 3.0])
        want = [y.tolist() for y in ALIKE[name](x)]
        for i, _ in enumerate(want):
            found = list(function(x))
            assert [y.tolist() for y in found] == want
            found[i].numpy()[...] = 99.0
            found[i].add_(1.0)
            written = found.pop(i)
            assert written.tolist() == [100.0] * 3
            assert [y.tolist() for y in found] == want[:i] + want[i + 1 :]
            assert x.tolist() == OUTSIDE.tolist() == PARAMETER.tolist() == [1.0, 2.0, 3.0]


ZEROS = {
    "both zeros": [0.0, -0.0, 0.0, -0.0],
    "negative zeros": [-0.0] * 4,
    "one among many": [0.0] * 99 + [-0.0],
    "complex zeros": [0j] * 3 + [complex(0.0, -0.0)],
    "negative complex zeros": [complex(-0.0, -0.0)] * 4,
    "conjugate zeros": [complex(0.0, -0.0)] * 4,
    "NaN of both signs": [float("nan")] * 3 + [-float("nan")],
}


@pytest.mark.parametrize("name", ZEROS)
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_constants_keep_their_bits(name, kind):
    given = np.array(ZEROS[name])
    given = given.astype(
        given.dtype.kind + str(int(kind[1]) * (2 if given.dtype.kind == "c" else 1))
    )
    functions = (
        lambda c, x: fx.where(x > 0, c, 1 + c),
        lambda c, x: fx.where(x > 0, fx.stack([c, c]), 1 + c),
        lambda c, x: fx.where(x > 0, fx.broadcast_to(c[-1], c.shape), 1 + c),
    )
    x = fx.ones(given.shape)
    for function in functions:
        constant = fx.from_numpy(given)
        jitted = fx.jit(lambda x, f=function, c=constant: f(fx.asarray(c.numpy()), x))
        want = function(constant, x).numpy().tobytes()
        assert [jitted(x).numpy().tobytes() for _ in range(3)] == [want] * 3


VIEWS = {
    "detached": lambda x: (x.detach()[0], x[1]),
    "detached, with the rest": lambda x: (x.detach(), x * 2),
    "a part and a detached part": lambda x: (x[0], x[0].detach()),
    "of a result": lambda x: ((y := x * 2)[0], y.detach()[1], y),
    "itself": lambda x: (x, x.detach()),
    "without gradients": lambda x: (x[1], *without_gradients(x)),
    "of a result, without gradients": lambda x: (y := x * 2, *without_gradients(y)),
    "of what is without gradients": lambda x: (x[1], without_gradients(x)[1][0]),
}


def without_gradients(x):
    with torch.no_grad():
        return x[0], x.t()


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_flow_through_those_results_that_are_not_detached(name):
    function, jitted = VIEWS[name], fx.jit(VIEWS[name])
    for needs in (False, False, True, True, False, True):
        told = []
        for call in (function, jitted):
            leaf = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=needs)
            outs = call(leaf * 1.0 if needs else leaf)
            told.append([(y.requires_grad, y.tolist()) for y in outs])
            if needs:
                sum([y.sum() for y in outs if y.requires_grad]).backward()
                told[-1].append(leaf.grad.tolist())
        assert told[0] == told[1]

    def slope(call):  # of a transform around the call, to which the argument needs no gradient
        return fx.grad(lambda x: sum([y.sum() for y in call(x)]))(fx.ones((2, 2))).tolist()

    assert slope(jitted) == slope(jitted) == slope(function)
