"""What a function under ``vmap`` or ``jvp`` writes into an argument goes into what was given."""

import pytest

oracle = pytest.importorskip("torch")

import fx
import fx.torch as torch
from fx.testing.fuzz import twins

FUNCTIONS = {
    "whole": "x.add_(1)\n    return x * 2",
    "a result": "return x.mul_(2).add_(1) + 1",
    "a place": "x[0] = 5\n    return x.sum()",
    "a view": "v = x[:1]\n    v += 1\n    return x.sum()",
    "detached": "y = x.detach()\n    y.add_(1)\n    return x.sum()",
    "unmapped": "y.add_(1)\n    return x + y",
    "nothing": "return x * 2",
}
CALLS = {
    "vmap": "torch.func.vmap(f, (0, None))(b, c)",
    "of columns": "torch.func.vmap(f, (1, None))(w, c)",
    "twice": "torch.func.vmap(torch.func.vmap(f, (0, None)), (1, None))(torch.stack([b, w.T]), c)",
    "of what was cut": "torch.func.vmap(f, (0, None))(b[1:], c)",
    "jvp": "torch.func.jvp(f, (b, c), (b + 1, c + 1))",
    "jitted": "jit(lambda b, c: torch.func.vmap(f, (0, None))(b, c))(b, c)",
}


@pytest.mark.parametrize("call", CALLS)
def test_writes_reach_what_was_given(call):
    for n, body in enumerate(FUNCTIONS.values()):
        call_ = CALLS[call]
        twins.agree(
            f"b = torch.zeros(3, 2); w = torch.zeros(2, 3); c = torch.ones(2)\n"
            f"def f(x, y):\n    {body}\n"
            f"r = {call_}\ns = {call_}\nb.add_(1)\nr = {call_}\n",
            first=n % 2 == 0,
        )


def test_statistics_of_an_ensemble():
    twins.agree(
        """
        ms = [torch.nn.BatchNorm1d(2) for _ in range(3)]
        p, held = torch.func.stack_module_state(ms)
        base = torch.nn.BatchNorm1d(2)
        f = lambda p, held, x: torch.func.functional_call(base, (p, held), (x,))
        x = torch.arange(24.0).reshape(3, 4, 2)
        y = torch.func.vmap(f)(p, held, x)
        mean, seen = held['running_mean'], held['num_batches_tracked']
        y = torch.func.vmap(f)(p, held, x)
        """
    )


BEHIND = (
    "y = x.detach(); y.add_(1); return (x * x).sum()",
    "y = x.detach()[:1]; y.fill_(7); return (x * x).sum()",
    "v = x[:1]; v.detach().mul_(3); return (x * x).sum() + v.sum()",
    "z = x * 2; z.detach().mul_(3); return (z * x).sum()",
    "z = x * 2; z.detach()[0] = 5; return (z * x).sum()",
)
HIDDEN = "z = x * 2\n    with torch.no_grad():\n        z.mul_(3)\n    return (z * x).sum()"
DERIVED = {
    "jvp": "torch.func.jvp(f, (a,), (b,))",
    "lanes of jvp": "torch.func.vmap(lambda x, t: torch.func.jvp(f, (x,), (t,)))(c, d)",
    "jvp of lanes": "torch.func.jvp(torch.func.vmap(f), (c,), (d,))",
    "jacfwd": "torch.func.jacfwd(f)(a)",
    "grad": "torch.func.grad(f)(a)",
    "lanes of grad": "torch.func.vmap(torch.func.grad(f))(c)",
    "hessian": "torch.func.hessian(f)(a)",
    "twice backward": "torch.func.jacrev(torch.func.jacrev(f))(a)",
}


@pytest.mark.parametrize("call", DERIVED)
def test_derivatives_of_what_is_written_behind_them(call):
    for body in (*BEHIND, HIDDEN):
        theirs = _derived(oracle, body, DERIVED[call])
        assert _derived(torch, body, DERIVED[call]) == theirs, body
        assert _derived(torch, body, DERIVED[call], fx.jit) == theirs, body


def _derived(torch, body, call, jit=lambda f: f):
    a, b, c = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), torch.tensor([[1.0, 2], [3, 4]])
    names = {"torch": torch}
    exec(f"def f(x):\n    {body}\ndef derived(a, b, c, d):\n    return {call}\n", names)
    r = jit(names["derived"])(a, b, c, c * c)
    return [x.tolist() for x in r] if isinstance(r, tuple) else r.tolist()


def test_writes_of_each_chunk():
    found = []
    for library in (oracle, torch):
        b = library.zeros(5, 2)
        out = library.func.vmap(lambda x: x.add_(1).sum() * 2, chunk_size=2)(b)
        found.append((out.tolist(), b.tolist()))
    assert found[0] == found[1]


def test_a_tangent_that_cannot_be_kept_is_refused():
    def f(x):
        y = x.detach()
        y.mul_(x)
        return y.sum()

    with pytest.raises(RuntimeError, match="with a tangent is written into a detached tensor"):
        torch.func.jvp(f, (torch.ones(2),), (torch.ones(2),))
