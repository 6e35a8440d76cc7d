"""What jitted functions return and leave is PyTorch's: views, gradients of calls inside."""

import pytest

pytest.importorskip("torch")

from fx.testing.fuzz import twins

VIEWS = {
    "of a view from outside": """
        x = torch.tensor([[0.25, -1.125], [-1.125, -0.5]])
        v = x.T
        @jit
        def f(p):
            return v[None], v[0], v
        r = f(x)
        r[0].mul_(2)
        s = f(x)
        s[1].add_(1)
        s[2][1, 1] = 5.0
        """,
    "of what was written are new in each call": """
        x = torch.ones(2, 2)
        x[0] = 3
        @jit
        def f(p):
            return x.reshape(-1, 2), x[:1]
        r, s = f(x), f(x)
        s[0].resize_(3)
        s[1].unsqueeze_(0)
        r[1].add_(1)
        """,
    "of all that a function can reach": """
        x = torch.ones(2, 2)
        x[0] = 3
        v = x[0]
        class C: pass
        c = C(); c.v = x[1]; c.l = [x.T]
        @jit
        def f(p, a):
            return x, v, c.v, c.l[0], a, x[0], p[0], v[:1], c.l[0][:1], a[:1]
        a, p = x[1], torch.zeros(2)
        r, s = f(p, a), f(p, a)
        for i in range(10): r[i].add_(i)
        for i in range(10): s[i].mul_(i)
        same = [r[i] is s[i] for i in range(10)]
        named = r[0] is x and r[1] is v and r[2] is c.v and r[3] is c.l[0] and r[4] is a
        """,
    "of a tensor that is gone": """
        x = torch.ones(2, 2)
        x[0] = 3
        v = x[0]
        x = None
        @jit
        def f(p):
            return v[:1], v[1:]
        p = torch.zeros(2)
        r, s = f(p), f(p)
        s[0].add_(1)
        s[1].add_(3)
        """,
}
INSIDE = {
    "a leaf": "f(w)",
    "what is computed of it": "f(w * 3)",
    "an argument": "f(p)",
    "what is computed of an argument": "f(p * 3)",
}


@pytest.mark.parametrize("started", [True, False], ids=["written", "first"])
@pytest.mark.parametrize("what", VIEWS)
def test_views(what, started):
    if started:
        twins.agree("x = torch.ones(2)\nx[0] = 2.0")
    twins.agree(VIEWS[what], first=not started)


@pytest.mark.parametrize("more", ["", " + (w * w).sum()"], ids=["alone", "and a leaf"])
@pytest.mark.parametrize("what", INSIDE)
def test_a_backward_pass_of_a_call_inside_goes_on_through_its_argument(what, more):
    twins.agree(f"""
w = torch.tensor([1.0, 2.0], requires_grad=True)
@jit
def f(p):
    ((p * p).sum(){more}).backward()
    return p.detach() * 1
@jit
def g(p):
    return {INSIDE[what]} * 1
y = g(w)
y = g(w)
y = g(w)
""")
