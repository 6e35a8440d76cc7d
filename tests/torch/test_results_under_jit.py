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
    "of what is expanded": """
        x = torch.arange(6.).reshape(2, 3)
        @jit
        def f(p):
            y = p * 1
            return y.expand(2, 2, 3), y.sum().expand(2)
        r, s = f(x), f(x)
        r[0].flatten(0, 1).neg_()
        r[0][0] += 1
        s[1][:1] = 5
        s[0][1, 0].mul_(2)
        """,
    "of an argument that was detached": """
        x = torch.zeros(2, requires_grad=True)
        x.data[0] = 1  # what is detached from now on is told apart
        v = x.data
        @jit
        def f(p):
            w = x.detach()
            return p, p.unsqueeze(0), w[:1], x.detach()
        r, s = f(v), f(v)
        s[1][...] = x.sum()
        r[2][...] = 3.0
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
APART = {
    "in memory of their own, also where NumPy writes into what they were computed of": """
        x = torch.ones(2)
        w = torch.nn.Parameter(torch.ones(2))
        @jit
        def f(p, q):
            return p * 1, w * 1, q * 2
        r, s = f(x, x), f(x, x)
        x[0] = 4.0
        t = f(x, x)
        x.numpy()[1] = 5.0
        w.data.numpy()[0] = 6.0
        """,
    "of two arguments that were one leaf": """
        x = torch.zeros(2, requires_grad=True)
        a, b = torch.ones(2), torch.ones(2) * 2
        @jit
        @torch.no_grad()
        def f(p, q):
            return q * 1, p * 3
        r = f(x, x)
        s, t, u = f(a, b), f(a, x), f(x, a)
        """,
    "that say whether an argument requires grad": """
        x = torch.zeros(2, requires_grad=True)
        a = torch.ones(2)
        @jit
        def f(p):
            return p.requires_grad, p.detach() * 2
        r, s, t = f(x), f(a), f(x * 2)
        """,
}
INSIDE = {
    "a leaf": "f(w)",
    "what is computed of it": "f(w * 3)",
    "an argument": "f(p)",
    "what is computed of an argument": "f(p * 3)",
}


@pytest.mark.parametrize("started", [True, False], ids=["written", "first"])
@pytest.mark.parametrize("text", [*VIEWS.values(), *APART.values()], ids=[*VIEWS, *APART])
def test_results(text, started):
    """Also where the process has not written before."""
    if started:
        twins.agree("x = torch.ones(2)\nx[0] = 2.0")
    twins.agree(text, first=not started)


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


UNCHANGED = ("p * 1", "p + 0", "p.reshape(-1).reshape(2, 2)", "p.T.T", "p / 1", "p.clone()")


@pytest.mark.parametrize("expression", UNCHANGED)
@pytest.mark.parametrize("place", ["inner(x)", "inner(p)", "inner(x) * 1", "inner(inner(x))"])
def test_what_an_inner_call_only_passes_on_is_no_argument(expression, place):
    """The simplifier drops such a node, and the result is the argument in the inner graph."""
    twins.agree(f"""
        x = torch.tensor([[0.25, -1.125], [-1.125, -0.5]], requires_grad=True)
        @jit
        def inner(p):
            return ({expression}) * 1
        @jit
        def outer(p):
            return {place}
        y = outer(x * 2)
        y.sum().backward()
        z = outer(x)
        leaf, needs = z.is_leaf, z.requires_grad
        z.sum().backward()
        with torch.no_grad():
            z.add_(1)
    """)


TURNED = {
    "p.T": "(p * 2).T",
    "of a constant": "torch.tensor([[0.75, -0.375], [0.5, 1.375]]).mT",
    "twice": "(lambda y: (y.mT, y.mT))(p * 2)",
    "with what it is of": "(lambda y: (y.mT, y, y.mT[0]))(p * 2)",
    "detached": "(p * 2).mT.detach()",
    "among others": "{'a': (p * 2).mT, 'b': 3, 'c': [p, (p > 0).T, p * 3]}",
    "three axes": "(p[None] * torch.ones(3, 1, 1)).permute(2, 0, 1)",
    "written": "written(p * 2)",
}


@pytest.mark.parametrize("name", TURNED)
@pytest.mark.parametrize("needs", [False, True])
def test_results_lie_as_without_jit(name, needs):
    twins.agree(f"""
        x = torch.tensor([[0.25, -1.125], [-1.125, -0.5]], requires_grad={needs})
        def written(y):
            v = y.mT
            v[0] = 5.0
            return v
        @jit
        def f(p):
            return {TURNED[name]}
        def all_of(r):
            if isinstance(r, dict):
                r = list(r.values())
            return sum(map(all_of, r), []) if isinstance(r, (list, tuple)) else [r]
        def tensors(r):
            return [y for y in all_of(r) if isinstance(y, torch.Tensor) and y is not x]
        f(x)
        r = tensors(f(x))
        lie = [(y.stride(), y.is_contiguous(), y.requires_grad) for y in r]
        total = sum([(y * torch.arange(1.0, 1 + y.numel()).view(y.shape)).sum() for y in r])
        if total.requires_grad:
            total.backward()
        with torch.no_grad():
            for y in r:
                if y.dtype == torch.float32:
                    torch.ravel(y)[1:2] = 7.0
    """)


OF_A_LEAF = (
    "x.view(1, 4)",
    "x.T",
    "x[0]",
    "x.reshape(4)[1:]",
    "x.detach()",
    "x.unflatten(0, (1, 2))",
)


@pytest.mark.parametrize("view", OF_A_LEAF)
@pytest.mark.parametrize("given", ["v", "p", "v, p", "v[:1], v", "v.detach(), v"])
def test_a_view_from_outside_is_itself_where_nothing_is_recorded(view, given):
    twins.agree(f"""
        w = torch.zeros(2)
        w[0] = 1.0
        x = torch.tensor([[0.25, -1.125], [-1.125, -0.5]], requires_grad=True)
        v = {view}
        @jit
        def f(p):
            return {given}, w * 2
        with torch.no_grad():
            r, s = f(v), f(v)
            t = f(torch.ones(2))
        q = f(v)
        same = [a is v for a in (*r, *s, *t, *q)]
    """)
