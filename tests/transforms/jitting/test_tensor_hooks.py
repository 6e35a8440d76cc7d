"""Hooks of plain tensors that come, go and change between the calls of a jitted function."""

import pytest

import fx
import fx.torch as torch

OWN = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)


class Holds:
    """An object of the user's that holds the tensor."""

    def __init__(self, x):
        self.x = x


def step_of(where, x, wrap):
    """A step that calls ``backward`` on a function of ``x``, which it finds in some place."""
    held, listed, named = Holds(x), [x], {"x": x}
    if where == "argument":
        f = wrap(lambda a: (a.sin() * 3).sum().backward())
        return lambda: f(x)
    if where == "argument in a dict":
        g = wrap(lambda d: (d["x"].sin() * 3).sum().backward())
        return lambda: g(named)
    if where == "optimizer":
        optimizer = torch.optim.SGD([x], lr=0.1, momentum=0.5)

        def train():
            (x.sin() * 3).sum().backward()
            optimizer.step()

        return wrap(train)
    found = {
        "closure": lambda: x, "attribute": lambda: held.x, "list": lambda: listed[0],
        "dict": lambda: named["x"], "global": lambda: OWN,
    }[where]  # fmt: skip
    return wrap(lambda: (found().sin() * 3).sum().backward())


def history(where, wrap):
    """Gradients and values while hooks come and go."""
    if where == "global":
        x, OWN.grad = OWN, None
    else:
        x = torch.tensor([1.625, 0.125], dtype=torch.float64, requires_grad=True)
    step, factor, seen, found = step_of(where, x, wrap), [2.0], [], []

    def run():
        for _ in range(2):
            step()
            found.append((x.grad.tolist(), x.tolist(), len(seen)))

    run()
    first = x.register_hook(lambda g: g * 2)
    run()
    second = x.register_hook(lambda g: g * factor[0])
    run()
    factor[0] = 5.0
    run()
    first.remove()
    run()
    second.remove()
    post = x.register_post_accumulate_grad_hook(lambda p: seen.append(1))
    run()
    post.remove()
    run()
    return found


PLACES = (
    "argument", "argument in a dict", "optimizer", "closure", "attribute", "list", "dict", "global"
)  # fmt: skip


@pytest.mark.parametrize("where", PLACES)
def test_hooks_that_come_and_go(where):
    expected, got = history(where, lambda f: f), history(where, fx.jit)
    assert [n for _, _, n in got] == [n for _, _, n in expected]
    for (a, b, _), (c, d, _) in zip(got, expected):
        assert a == pytest.approx(c, rel=1e-9)
        assert b == pytest.approx(d, rel=1e-9)


def test_a_tensor_without_hooks_is_compiled_once():
    f = fx.jit(lambda a: (a.sin() * 3).sum().backward())
    for _ in range(3):
        f(torch.tensor([1.0, 2.0], requires_grad=True))
    assert f.cache_size() == 1


def made(hooked, wrap):
    """The gradient of a tensor that a function made here sees from outside."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    step = wrap(lambda: (x.sin() * 3).sum().backward())
    if hooked:
        x.register_hook(lambda g: g * 2)
    step()
    step()
    return x.grad.tolist()


def test_functions_of_one_code_share_no_program_with_other_hooks():
    for hooked in (False, True, False, True, True, False):
        assert made(hooked, fx.jit) == pytest.approx(made(hooked, lambda f: f), rel=1e-6)
