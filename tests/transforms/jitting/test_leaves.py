"""Leaves that a jitted function makes of what it knows: their gradients are there, as eagerly."""

import numpy as np
import pytest

import fx
import fx.torch as torch
from fx.errors import BackwardError, InPlaceError

A = np.array([1.0, 2.0], np.float32)
MADE = {
    "of a list": lambda: torch.tensor([1.0, 2.0], requires_grad=True),
    "of an array": lambda: fx.tensor(A, requires_grad=True),
    "that shares memory": lambda: torch.from_numpy(A).requires_grad_(),
    "asarray": lambda: fx.asarray(A).requires_grad_(),
    "of ones": lambda: torch.ones(2, requires_grad=True),
    "a parameter": lambda: torch.nn.Parameter(torch.tensor(A)),
    "detached": lambda: torch.tensor(A).detach().requires_grad_(),
}
USED = {
    "backward": lambda w, x: ((w * w * x).sum().backward(), w.grad + 0)[1],
    "grad": lambda w, x: torch.autograd.grad((w * w * x).sum(), w)[0],
    "twice": lambda w, x: ([(w * x).sum().backward() for _ in range(2)], w.grad + 0)[1],
    "flags": lambda w, x: w * (w.requires_grad + 2 * w.is_leaf),
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("used", USED)
def test_gradients_of_leaves_that_are_made_inside(made, used):
    def f(x):
        return USED[used](MADE[made](), x)

    fast = fx.jit(f)
    for number in (2.0, 3.0, 2.0):
        x = torch.tensor(number)
        assert fast(x).tolist() == f(x).tolist()


@pytest.mark.parametrize("make", [lambda: torch.tensor(A), lambda: torch.ones(2)])
def test_the_leaf_has_to_be_kept(make):
    def marked(x):
        w = make()
        w.requires_grad_()
        (w * x).sum().backward()
        return w.grad

    def flagged(x):
        w = make()
        w.requires_grad = True
        return w * x

    with pytest.raises(BackwardError, match=r"keep it: x = x.requires_grad_\(\)"):
        fx.jit(marked)(torch.tensor(2.0))
    with pytest.raises(InPlaceError, match=r"write x = x.requires_grad_\(\)"):
        fx.jit(flagged)(torch.tensor(2.0))
