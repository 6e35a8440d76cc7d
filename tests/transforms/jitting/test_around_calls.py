"""What surrounds a call: modes, defaults and limits, of which each has programs of its own.

A function is called in one of them until it goes its shortest way, then in another one, and back.
"""

import contextlib
import itertools

import numpy as np
import pytest

import fx
import fx.torch as torch
from fx import limits, nn


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


AROUND = {
    "nothing": contextlib.nullcontext,
    "no_grad": fx.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast to float16": lambda: torch.autocast("cpu", torch.float16),
    "float64": lambda: default_dtype(torch.float64),
    "the meta device": lambda: torch.device("meta"),
    "tiny limits": limits.tiny,
}
PARAMETER = nn.Parameter(fx.tensor([[1.0, 2.0], [3.0, 4.0]]))
PLAIN = fx.tensor([[1.0, 2.0], [3.0, 4.0]])
FUNCTIONS = {
    "of a parameter": lambda x: x @ PARAMETER,
    "of what is detached": lambda x: x @ PARAMETER.detach(),
    "of arguments": lambda x: (x @ x, x.sum()),
    "what asks": lambda x: x * (2 if torch.is_grad_enabled() else 3),
    "what asks of inference": lambda x: x * (2 if torch.is_inference_mode_enabled() else 3),
    "what asks for the dtype": lambda x: x * (2 if torch.get_default_dtype() is x.dtype else 3),
    "what makes tensors": lambda x: (x * 2, torch.ones(2)),
}


def told(out):
    found = []
    for x in out if isinstance(out, tuple) else (out,):
        values = None if x.device.type == "meta" else np.asarray(x.detach().float()).tolist()
        found.append((x.dtype, x.shape, x.requires_grad, x.is_inference(), x.device.type, values))
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("needs", [False, True], ids=["plain", "leaf"])
def test_each_call_is_one_of_what_surrounds_it(name, needs):
    plain, x = FUNCTIONS[name], PLAIN.detach().clone().requires_grad_(needs)
    jitted = fx.jit(plain)
    for one, other in itertools.permutations(AROUND, 2):
        for around in (one, one, one, other, one, other, other):
            with AROUND[around]():
                want, got = told(plain(x)), told(jitted(x))
            assert got == want, (one, other, around)


ARGUMENTS = {
    "plain": lambda: PLAIN.clone(),
    "a leaf": lambda: PLAIN.clone().requires_grad_(),
    "a result": lambda: PLAIN.clone().requires_grad_() * 1,
    "detached": lambda: (PLAIN.clone().requires_grad_() * 1).detach(),
    "an array": lambda: PLAIN.numpy().copy(),
    "a parameter": lambda: nn.Parameter(PLAIN.clone()),
    "of float64": lambda: PLAIN.double(),
    "of other steps": lambda: PLAIN.T.clone().T,
}


@pytest.mark.parametrize("name", ["of a parameter", "of arguments"])
def test_each_call_is_one_of_its_kind_of_argument(name):
    plain = FUNCTIONS[name]
    if name == "of a parameter":
        plain = lambda x: fx.tanh(fx.asarray(x)) * PARAMETER  # of any dtype
    jitted = fx.jit(plain)
    for one, other in itertools.permutations(ARGUMENTS, 2):
        for kind in (one, one, one, other, one, other, other):
            if kind == "an array" and name == "of arguments":
                continue
            x, y = ARGUMENTS[kind](), ARGUMENTS[kind]()
            want, got = plain(x), jitted(y)
            assert told(got) == told(want), (one, other, kind)
            for out, z in ((want, x), (got, y)):
                out = out[0] if isinstance(out, tuple) else out
                if out.requires_grad:
                    PARAMETER.grad = None
                    if isinstance(z, fx.Tensor) and z.requires_grad:
                        z.retain_grad()
                    out.sum().backward()
            assert gradient(x) == gradient(y), (one, other, kind)


def gradient(x):
    grad = getattr(x, "grad", None)
    return None if grad is None else grad.tolist()


class Holder:
    """An object of the user's."""


def held_in(p):
    """Functions of a parameter, by where they find it."""
    holder, model = Holder(), nn.Linear(2, 2, bias=False)
    holder.p, model.weight = p, p
    listed, named = [p], {"p": p}
    return {
        "a closure": lambda x: x @ p,
        "an object": lambda x: x @ holder.p,
        "a list": lambda x: x @ listed[0],
        "a dict": lambda x: x @ named["p"],
        "a layer": lambda x: model(x),
        "what a layer holds": lambda x: x @ model.weight,
    }


@pytest.mark.parametrize("place", held_in(PARAMETER))
@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
def test_each_call_is_one_of_what_its_parameter_is(place, inside):
    """Frozen or not, and with which hooks: gradients are those of a plain call."""
    found = []
    for wrap in (lambda f: f, fx.jit):
        p, hooks, told = nn.Parameter(PLAIN.clone()), [], []
        function = held_in(p)[place]

        def step(x, function=function):
            out = function(x)
            if inside and out.requires_grad:
                out.sum().backward()
            return out.detach() if inside else out

        call = wrap(step)
        for change in ("", "", "freeze", "", "thaw", "", "hook", "", "another", "", "unhook", ""):
            if change in ("freeze", "thaw"):
                p.requires_grad_(change == "thaw")
            elif change in ("hook", "another"):
                factor = 3.0 if change == "another" else 2.0
                hooks.append(p.register_hook(lambda g, factor=factor: g * factor))
            elif change == "unhook":
                hooks.pop(0).remove()
            p.grad = None
            out = call(PLAIN)
            told.append((change, out.requires_grad, out.tolist()))
            if out.requires_grad:
                out.sum().backward()
            told.append(gradient(p))
        found.append(told)
    assert found[0] == found[1]


def test_the_order_of_layers_is_looked_at():
    model = nn.ModuleDict({"a": nn.Tanh(), "b": nn.ReLU(), "c": nn.Softplus()})

    def through(x):
        for layer in model.values():
            x = layer(x) - 0.5
        return x

    jitted = fx.jit(through)
    for first in ("", "a", "b", "c", "a"):
        if first:
            model[first] = model.pop(first)
        for _ in range(3):
            np.testing.assert_allclose(jitted(PLAIN).numpy(), through(PLAIN).numpy(), rtol=1e-6)
