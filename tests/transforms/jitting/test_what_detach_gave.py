"""What ``detach()`` and NumPy share with what a jitted function writes: as without jit.

A write into a parameter is seen by what was detached of it, a step of an optimizer is not; an array
in its memory sees a write. Programs are made of what is written and how, of what is given and when.
"""

import itertools
import subprocess
import sys
import warnings

import pytest

import fx
import fx.torch as torch

MADE = {"parameter": "p = torch.nn.Parameter(torch.ones(4))", "tensor": "p = torch.ones(4)"}
SHOWN = {
    "array": "p.detach().numpy()",
    "part of an array": "p.detach().numpy()[1:3]",
    "array of a part": "p.detach()[1:].numpy()",
    "detached": "p.detach()",
    "view of what is detached": "p.detach().view(2, 2)[0]",
    "data": "p.data",
    "view": "p.view(2, 2)[0]",
}
WRITES = {
    "step": "p.grad = torch.ones(4); o.step()",
    "add": "with torch.no_grad(): p.add_(0.25)",
    "data": "p.data.mul_(2)",
    "item": "with torch.no_grad(): p[1] = 7.0",
}
ARGUMENTS = {
    "argument": ("a", "v", ""),
    "captured": ("", "", "a = v"),
    "in a list": ("b", "[v]", "a = b[0]"),
}
PROGRAM = """
{made}
o = torch.optim.SGD([p], lr=0.5) if p.requires_grad else None
seen = []
@jit
def f({given}):
    {inside}
    before = torch.as_tensor(a) * 1
    {write}
    with torch.no_grad():
        return before, torch.as_tensor(a) * 1, p * 1
v = {shown}
{late}
for _ in range(3):
    {anew}
    out = f({passed})
    seen.append([*[x.tolist() for x in out], v.tolist(), p.tolist()])
"""
LATE = "k, v = v, 0 * torch.as_tensor(v) if isinstance(v, torch.Tensor) else 0 * v; f({}); v = k"


def _seen(text, jit):
    names = {"torch": torch, "jit": jit}
    exec(compile(text, "<program>", "exec"), names)
    return names["seen"]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("made", MADE)
def test_what_shows_a_tensor_sees_what_a_jitted_function_writes(made, write):
    if made == "tensor" and write == "step":
        return
    orders = itertools.cycle(itertools.product(ARGUMENTS, ("before", "anew", "after a call")))
    for shown, (how, when) in itertools.islice(zip(itertools.cycle(SHOWN), orders), 27):
        given, passed, inside = ARGUMENTS[how]
        text = PROGRAM.format(
            made=MADE[made], shown=SHOWN[shown], write=WRITES[write], given=given, passed=passed,
            inside=inside or "pass", anew=f"v = {SHOWN[shown]}" if when == "anew" else "pass",
            late=LATE.format(passed) if when == "after a call" else "",
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            got = _seen(text, fx.jit)
        assert got == _seen(text, lambda f: f), text


def _trained(jit, first):
    """Calls of functions that step, write, do both, or only look, in many orders."""
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([p], lr=0.5)
    best, seen = p.detach(), []

    def step():
        p.grad = torch.ones(3)
        optimizer.step()

    def write():
        with torch.no_grad():
            p.mul_(2)

    if first:
        p.data.mul_(2)

    @jit
    def looks():
        return best * 1

    @jit
    def given(b):
        return b * 1

    @jit
    def steps(b):
        step()
        return b * 1, best * 1

    @jit
    def writes(b):
        write()
        return b * 1, best * 1

    @jit
    def both(b):
        step()
        write()
        between = b * 1
        step()
        return between, b * 1, best * 1

    def call(f, *args):
        out = f(*args)
        out = out if isinstance(out, tuple) else (out,)
        seen.append([*[x.tolist() for x in out], best.tolist(), p.tolist()])

    for turn in range(2):
        call(looks), call(given, best), step()
        for f in (looks, given, steps, looks, given, steps, writes, looks, given, steps, looks):
            call(f) if f is looks else call(f, best)
        call(both, best), call(looks), call(given, best), call(both, best)
        best = best if turn else p.detach()
    return seen


@pytest.mark.parametrize("first", [False, True])
def test_what_detach_gave_keeps_what_it_shows_when_a_step_comes(first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        got = _trained(fx.jit, first)
    assert got == _trained(lambda f: f, first)


def test_what_detach_gave_is_not_read_after_a_loop_that_writes_it():
    p = torch.nn.Parameter(torch.ones(3))
    held = p.detach()
    p.data.mul_(1)

    def body(i, x):
        p.data.mul_(2)
        return x + 1

    @fx.jit
    def f():
        x = fx.fori_loop(0, 3, body, fx.zeros(()))
        return x, held * 1

    for _ in range(3):
        p.data.fill_(1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            x, seen = f()
        assert (x.item(), seen.tolist(), held.tolist()) == (3, [8, 8, 8], [8, 8, 8])


EARLY = """
import itertools, json, os, sys, warnings
import fx
import fx.torch as torch
warnings.simplefilter("ignore")

def told(jit, order, views):
    p = torch.nn.Parameter(torch.arange(4.0))
    optimizer = torch.optim.SGD([p], lr=0.5)
    names = {}
    exec(views, {"p": p}, names)

    @jit
    def f(a, b):
        p.grad = torch.ones(4)
        optimizer.step()
        with torch.no_grad():
            return (a * 1).sum(), (b * 1).sum()

    seen = []
    for a, b in order:
        seen.append([x.item() for x in f(names[a], names[b])])
        seen.append([x.tolist() for x in (*names.values(), p)])
    return seen

VIEWS = (
    "v = p.view(2, 2); w = v[0]; d = p.data; u = w[:1]",
    "d = p.data; v = d.view(2, 2); w = v.t(); u = w[0]",
)
ORDERS = "wd dw", "dw ww", "uv vu", "dd uw", "vw wd", "uu ud"
for views, order in itertools.product(VIEWS, ORDERS):
    both = []
    for jit in (fx.jit, lambda f: f):  # each in a process that has not written yet
        read, write = os.pipe()
        if not os.fork():
            os.write(write, json.dumps(told(jit, order.split(), views)).encode())
            os._exit(0)
        os.close(write)
        both.append(os.fdopen(read).read())
        os.wait()
    assert both[0] and both[0] == both[1], (views, order, both)
"""


def test_views_of_views_that_were_taken_before_a_first_step_follow_it():
    subprocess.run([sys.executable, "-c", EARLY], check=True, timeout=300)
