"""How an argument lies in memory decides what shares its elements, under jit as without it."""

import numpy as np
import pytest

import fx
import fx.torch as torch

LAYOUTS = {
    "dense": lambda: torch.arange(24.0).reshape(2, 3, 4),
    "reversed axes": lambda: torch.arange(24.0).reshape(4, 3, 2).permute(2, 1, 0),
    "first two exchanged": lambda: torch.arange(24.0).reshape(3, 2, 4).transpose(0, 1),
    "last two exchanged": lambda: torch.arange(24.0).reshape(2, 4, 3).mT,
    "every second": lambda: torch.arange(48.0).reshape(2, 3, 8)[:, :, ::2],
}


def reshaped(x):
    y = x.reshape(-1)
    y[0] = 7.0
    return x.sum()


def in_order(x):
    y = x.transpose(0, 1).contiguous()
    y.mul_(2)
    return x * 1


def merged(x):
    x.reshape(6, 4).add_(1)
    return (x * 2).sum(-1)


def flattened(x):
    x.flatten(1).zero_()
    return x + 1


def asked(x):
    return x + (1.0 if x.is_contiguous() else 2.0) * x.stride(0) + x.stride()[-1]


def detached(x):
    y = x.detach().permute(2, 1, 0).contiguous()
    y[0] = 5.0
    return x * 1


def nested(x):
    return fx.jit(in_order)(x) + 1


def nested_view(x):
    return fx.jit(in_order)(x.transpose(1, 2)) + 1


FUNCTIONS = {
    f.__name__: f
    for f in (reshaped, in_order, merged, flattened, asked, detached, nested, nested_view)
}
ORDERS = [list(LAYOUTS), [*reversed(LAYOUTS)], ["every second", "dense", "dense", "reversed axes"]]


@pytest.mark.parametrize("order", range(len(ORDERS)))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments(name, order):
    function = FUNCTIONS[name]
    compiled = fx.jit(function)
    for layout in ORDERS[order] * 2:
        eager, staged = LAYOUTS[layout](), LAYOUTS[layout]()
        want, got = function(eager), compiled(staged)
        np.testing.assert_array_equal(got.numpy(), want.numpy(), layout)
        np.testing.assert_array_equal(staged.numpy(), eager.numpy(), layout)


def test_a_tensor_turned_in_place_is_another_layout():
    def run(step):
        x = torch.arange(9.0).reshape(3, 3)
        x = step(step(x))
        x.t_()
        step(x)
        return x

    def step(x):
        x.t().contiguous().add_(1.0)
        return (x * 1).contiguous()

    np.testing.assert_array_equal(run(fx.jit(step)).numpy(), run(step).numpy())
    assert run(step)[0, 0] == 1.0  # the last call wrote into it


held = {}


def write_held(x):
    held["w"].reshape(-1)[1] = 3.0
    return x + held["w"]


def ask_held(x):
    return x * (2.0 if held["w"].t().is_contiguous() else 3.0)


@pytest.mark.parametrize("function", [write_held, ask_held])
def test_tensors_from_outside(function):
    compiled, x = fx.jit(function), torch.ones(2, 2)
    for turned in (False, True, False, True):
        outcomes = []
        for f in (function, compiled):
            w = torch.arange(4.0).reshape(2, 2)
            held["w"] = w.t() if turned else w
            outcomes.append((f(x).numpy(), held["w"].numpy()))
        np.testing.assert_array_equal(*[result for result, _ in outcomes])
        np.testing.assert_array_equal(*[after for _, after in outcomes])


def test_arguments_of_a_derivative():
    compiled = fx.jit(lambda x: (x * x).sum() * (1.0 if x.is_contiguous() else 3.0))
    for layout in ("dense", "reversed axes", "dense", "every second"):
        x = LAYOUTS[layout]()
        times = 2.0 if layout == "dense" else 6.0
        np.testing.assert_array_equal(fx.grad(compiled)(x).numpy(), x.numpy() * times)


def test_what_repeats_elements_is_known_while_a_function_is_staged():
    held["w"] = torch.tensor([[1.0], [2.0]]).expand(2, 3)

    def step(x):
        return x + (1.0 if held["w"].is_contiguous() else 2.0)

    assert fx.jit(step)(torch.zeros(1)).item() == step(torch.zeros(1)).item() == 2.0


def test_a_question_about_the_layout_costs_no_program_more():
    compiled = fx.jit(lambda x: x.reshape(-1) * 2)
    for _ in range(3):
        compiled(torch.ones(2, 3))
    assert compiled.cache_size() == 1
    compiled(torch.ones(3, 2).t())
    compiled(torch.ones(3, 2).t())
    compiled(torch.ones(2, 3))
    assert compiled.cache_size() <= 2
