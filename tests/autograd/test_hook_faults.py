"""Hooks of a backward pass that raise, write, replace gradients, or come and go while it runs.

What a hook raises leaves every gradient and mode as before; what one writes into its argument
is the gradient from there on, as in PyTorch, and no other one.
"""

import itertools

import numpy as np
import pytest
import torch

import fx
import fx.torch as face

WRITES = {
    "add_": lambda g: g.add_(1),
    "mul_": lambda g: g.mul_(3),
    "item": lambda g: g.__setitem__(0, 0.0),
    "row": lambda g: g[1:].zero_(),
    "+=": lambda g: g.__iadd__(2),
    "fill_": lambda g: g.fill_(0.5),
    "copy_": lambda g: g.copy_(g * g),
    "twice": lambda g: g.mul_(2).sub_(1),
}
REPLACED = {
    "nothing": lambda g: None,
    "another": lambda g: g * 2 + 1,
    "itself": lambda g: g,
    "a view": lambda g: g.flip(0),
    "a constant": lambda g: g.detach() * 0 + 7,
    "written": lambda g: g.mul_(3),
}
PLACES = ("leaf", "middle", "both", "kept", "two")


def quietly(write):
    def hook(g):
        write(g)

    return hook


def gradients(T, hook, place, jit=lambda f: f):
    """What a pass with the hook gives: two leaves' gradients and one that is retained."""
    w, b = (T.tensor(x, requires_grad=True) for x in ([1.0, 2.0, 3.0], [1.0, -1.0, 2.0]))
    c = T.tensor([2.0, 3.0, 4.0])
    kept = []

    def loss():
        x = w * 2
        y = x * b
        if place in ("middle", "both", "two", "kept"):
            x.register_hook(hook)
        if place == "two":
            x.register_hook(lambda g: g * g)
        if place == "kept":
            x.retain_grad()
            kept[:] = [x]
        return (y * c).sum() + (w + b * b).sum()

    if place in ("leaf", "both"):
        b.register_hook(hook)
    jit(lambda: loss().backward())()
    found = [w.grad, b.grad, *[x.grad for x in kept]]
    first = [g.numpy().copy() for g in found]
    w.grad.mul_(0)  # which is nobody else's memory
    return first + [g.numpy().copy() for g in found[1:]]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", [*WRITES, *REPLACED])
def test_what_a_hook_does_with_a_gradient_is_what_it_does_in_pytorch(name, place):
    hook = quietly(WRITES[name]) if name in WRITES else REPLACED[name]
    want = gradients(torch, hook, place)
    for how in (lambda f: f, fx.jit) if place != "kept" else (lambda f: f,):
        for got, expected in zip(gradients(face, hook, place, how), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_write_in_a_hook_changes_no_other_gradient():
    w, b = (face.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    seen = []
    w.register_hook(seen.append)
    b.register_hook(quietly(lambda g: g.mul_(5)))
    ((w + b) * 3).sum().backward()
    w.grad.zero_()
    assert (seen[0].tolist(), b.grad.tolist()) == ([3.0, 3.0], [15.0, 15.0])


# what a hook raises -------------------------------------------------------------------------------


class Hit(BaseException):
    pass


class World:
    """A model with hooks everywhere, of which the ``at``-th call raises."""

    def __init__(self, how, error):
        fx.manual_seed(0)
        layers = fx.nn.Linear(3, 4), fx.nn.Tanh(), fx.nn.Linear(4, 2)
        self.model = fx.nn.Sequential(*layers)
        self.x = fx.random.normal(fx.random.key(0), (5, 3))
        self.calls, self.at, self.error = 0, 0, error
        for p in self.model.parameters():
            p.register_hook(lambda g: self.hit())
        for layer in self.model:
            layer.register_full_backward_hook(lambda *_: self.hit())
            layer.register_full_backward_pre_hook(lambda *_: self.hit())
        self.loss = fx.jit(self.plain) if how == "jit" else self.plain

    def plain(self, x):
        return (self.model(x) ** 2).mean()

    def hit(self):
        self.calls += 1
        if self.calls == self.at:
            raise self.error

    def state(self):
        return [None if p.grad is None else p.grad.tolist() for p in self.model.parameters()]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, Hit])
@pytest.mark.parametrize(
    ("how", "filled"), list(itertools.product(("eager", "jit"), (False, True)))
)
def test_what_a_hook_raises_leaves_gradients_as_they_were(how, filled, error):
    calm = World(how, error)
    if filled:
        calm.loss(calm.x).backward()
    calm.calls = 0
    calm.loss(calm.x).backward()
    after, calls = calm.state(), calm.calls
    assert calls >= 4
    for at in range(1, calls + 1):
        world = World(how, error)
        if filled:
            world.loss(world.x).backward()
        out = world.loss(world.x)
        before, world.calls, world.at = world.state(), 0, at
        with pytest.raises(error):
            out.backward(retain_graph=True)
        assert world.state() == before and fx.is_grad_enabled()
        world.calls = -1000
        out.backward()
        np.testing.assert_allclose(*map(np.concatenate, map(flat, (world.state(), after))), 1e-6)


def flat(state):
    return [np.ravel(g) for g in state]


@pytest.mark.parametrize("what", ["itself", "the next", "the one before", "one more"])
def test_hooks_that_come_and_go_while_they_run(what):
    found = []
    for T in (torch, face):
        w, log, handles = T.tensor([1.0, 2.0], requires_grad=True), [], []

        def change(g, w=w, log=log, handles=handles):
            log.append("change")
            if what == "one more":
                w.register_hook(lambda g: g + 1)
            else:
                handles[("the one before", "itself", "the next").index(what)].remove()
            return g * 2

        handles.append(w.register_hook(lambda g, log=log: log.append("before")))
        handles.append(w.register_hook(change))
        handles.append(w.register_hook(lambda g, log=log: log.append("after")))
        for _ in range(3):
            (w * 3).sum().backward()
            log.append(w.grad.tolist())
        found.append(log)
    assert found[0] == found[1]
