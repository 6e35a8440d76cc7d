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
