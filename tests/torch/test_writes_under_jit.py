"""Writes in functions under ``jit`` agree with PyTorch in every call."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch as face
from fx.testing.fuzz import twins

PROGRAMS = {
    "a part of a parameter's data, at a position": """
x0 = torch.nn.Parameter(torch.tensor([0.75, 0.5, 0.25]))
x1 = torch.nn.Buffer(torch.zeros(2, 3))
@jit
def f(p, k):
    x0.data[...][k % 3][...] = -1.5
    w = x1.data[:, k : k + 2]
    w[0].add_(p)
    w.detach()[1, 0] = 2
    return x0 * p, x1.data[1].sum() * p
y = f(torch.ones(1), 0)
z = f(torch.ones(1) * 2, 1)
y[0].sum().backward()""",
    "what a backward pass inside has gone through requires grad": """
x0 = torch.tensor([0.25, -0.875], requires_grad=True)
@jit
def f3(p4):
    y5 = x0 * p4
    (y5.mean() + x0.sum()).backward()
    return y5 * 1, y5.detach(), y5.max(0).values
y9, y10, y11 = f3(torch.ones(2))
y9, y10, y11 = f3(torch.ones(2))
y9, y10, y11 = f3(torch.ones(2))
y9.sum().backward()""",
    "all of a leaf from outside that was written": """
x0 = torch.ones(2, 3, requires_grad=True)
with torch.no_grad():
    x0[0].mul_(2)
@jit
def f7(p8):
    v9 = x0[...]
    v11 = v9.swapdims(-1, 1)
    return v11 * p8, v9.is_leaf
y = f7(torch.tensor(2.0))
y = f7(torch.tensor(3.0))
y[0].sum().backward()""",
    "what depends on no leaf of a call inside requires none": """
x2 = torch.tensor([0.625, -0.125], requires_grad=True)
@jit
def f3(p4):
    v7 = torch.clone(x2)
    return p4 * 1, v7 * 1, v7.detach() * 1
@jit
def f15(p16):
    a, b, c = f3(p16)
    g = torch.autograd.grad((x2 * x2).mean(), [x2], retain_graph=True)
    return a * 1, b * 1, c * 1, g[0]
y = f15(torch.ones(2))
y = f15(torch.ones(2))""",
    "values of a state dict": """
m2 = torch.nn.Linear(3, 1, False); m2.load_state_dict({'weight': torch.ones(1, 3)})
@jit
def f3(p4):
    for v5 in m2.state_dict().values():
        v5.mul_(0.5)
    return (m2.weight.detach() * p4).contiguous()
y7 = f3(torch.tensor(1.0))
y7 = f3(torch.tensor(2.0))
y7 = f3(torch.tensor(3.0))""",
    "a view of a buffer that is an argument": """
m2 = torch.nn.Module()
m2.register_buffer('kept', torch.zeros(3))
@jit
def f3(p4):
    v7 = m2.kept.unsqueeze(-1)
    p4[2] = 0.25
    return (v7 * 1).contiguous()
y8 = f3(m2.kept)
m2.kept.zero_()
y9 = f3(m2.kept)
m2.kept.zero_()
y10 = f3(m2.kept)""",
    "views of a parameter that is written between": """
m2 = torch.nn.Linear(3, 1, False); m2.load_state_dict({'weight': torch.ones(1, 3)})
@jit
def f3(p4):
    with torch.no_grad():
        v5 = m2.weight.view(-1)[1:]
        m2.weight.add_(p4)
        v6 = m2.weight[0]
        m2.weight[0, 1] = 3.0
        return v5 * 1, v6 * 1
y7, y8 = f3(torch.tensor(1.0))
y7, y8 = f3(torch.tensor(2.0))
y7, y8 = f3(torch.tensor(3.0))""",
    "all of a written tensor is another object": """
x0 = torch.tensor([2.0, -1.625, -0.75, 0.0])
x1 = torch.tensor([[-3, -3], [-1, -3]])
x2 = torch.tensor([[-1.625, 1.0], [1.0, -0.625]])
@jit
def f4(p5):
    x1.square_()
    v6 = x1.split(2, 1)[0]
    z8 = x1
    return x0 * 1
y9 = f4(x2)
y10 = f4(x2)
y11 = f4(x2)""",
    "a mask of an argument, whose places are a question": """
x2 = torch.tensor([[0.5, 1.0], [-2.0, 1.5]])
@jit
def f3(p4, p5):
    p5.t()[p5.t() > 0.123] -= torch.full((), -0.75)
    return x2 * 1
y7 = f3(x2, x2)
y8 = f3(x2, y7)
y8 = f3(x2, y7)""",
    "a view from outside of an argument": """
x0 = torch.tensor(0.625)
v2 = x0.unsqueeze(0)
@jit
def f3(p4):
    v6 = v2.chunk(2, 0)[0]
    v6.sub_(v6.sum(), alpha=0.5)
    return p4 * 1
y8 = f3(x0)
y9 = f3(x0)
y9 = f3(x0)""",
    "a view of a view from outside": """
x0 = torch.zeros(2, 3)
v3 = x0.unsqueeze(-1)
@jit
def f4(p5, p6):
    v3[None] -= v3 * v3
    p5.clamp_(-0.4, 0.4)
    return p5 * 1
y8 = f4(x0, v3)
y8 = f4(x0, v3)
y8 = f4(x0, v3)""",
    "what was written outside has a history": """
x0 = torch.tensor([0.75, 0.25], requires_grad=True)
x1 = torch.ones(3, 4)
x1 -= x0.mean()
@jit
def f2(p3):
    return x1 * 1
y7 = f2(x0)
y7 = f2(x0)
y7.sum().backward()""",
    "what a call gives is no object of another call": """
x0 = torch.tensor([[-1.375, 0.875, 1.0], [-0.875, -1.125, 1.875]])
x2 = torch.tensor(-1.375)
@jit
def f4(p5):
    x2[...] = x0.mean().item()
    return x2 * 1
y9 = f4(x0)
y10 = f4(x0)
y11 = f4(x0)
x12 = torch.zeros((), requires_grad=True)
y10 *= x12 + 1""",
    "a backward pass in a function inside of another": """
x0 = torch.ones((), requires_grad=True)
x2 = torch.zeros(4)
@jit
def f3(p4, p5):
    (x0.mean() + x0.sum() + (x0 ** 2).sum()).backward()
    x8 = torch.tensor([[0.125, 1.5, 1.5], [-0.125, 0.75, -1.25], [0.625, 1.875, 1.375]])
    return x8 * 1, p5 * 1
@jit
def f10(p11):
    y12, y13 = f3(x0, x0)
    return x2 * 1
y20 = f10(x2)
y21 = f10(y20)
y21 = f10(y20)""",
    "an argument with a history is written": """
x0 = torch.tensor(-2.0, requires_grad=True)
x1 = torch.ones(())
@jit
def f3(p4, p5):
    p4.unsqueeze(0).sin_()
    return x0 * 1
y8 = f3(x1, x1)
y10 = f3(y8, x1)
y10 = f3(y8, x1)
g11 = torch.autograd.grad((y8 * y8).mean() + (y8 ** 2).sum(), [x0])""",
    "an argument twice": """
x1 = torch.tensor([0.0, -1.875])
@jit
def f2(p3, p4):
    p4.mul_(x1 * 0.5)
    return p3 * 1
y6 = f2(x1, x1)
y7 = f2(y6, y6)
y8 = f2(y6, y7)
y9 = f2(y7, y7)
y9 = f2(y7.view(-1), y7)
y9 = f2(y7.view(-1), y7)
y9 = f2(y9.view(-1), y9)""",
    "a leaf is changed, and used after that": """
x0 = torch.zeros(2, 2, requires_grad=True)
@jit
def f4(p5):
    with torch.no_grad():
        p5.add_(1)
    return x0 * 1
y7 = f4(x0)
y8 = f4(x0)
y9 = f4(x0)
y9.sum().backward()""",
    "a backward pass through an argument that was computed": """
x0 = torch.ones(4, requires_grad=True)
y = x0 * 1
@jit
def f4(p5, p6):
    (p5.sum() + (p6 * p6).mean()).backward(retain_graph=True)
    return p6 * 1
y13 = f4(x0, y)
y13 = f4(x0, y)
y13 = f4(y, x0)
@jit
def f5(p6):
    (p6 * p6).mean().backward(retain_graph=True)
    return p6 * 1
y13 = f5(y)
y13 = f5(y)""",
    "all of a leaf is no leaf": """
w = torch.ones(5, 2, requires_grad=True)
with torch.no_grad():
    w.add_(1)
@jit
def f(i):
    loss = (w[i] * w[...]).sum()
    w.grad = None
    loss.backward()
    with torch.no_grad():
        w.sub_(0.1 * w.grad)
    return i * 1
for k in range(3):
    f(torch.tensor([0, 1, 4, 4, 0]))""",
    "an attribute of a layer without parameters": """
class Loss(nn.Module):
    def forward(self, x):
        t = x.clone()
        t[0] = 0.5
        self.last = t
        return (x * t).sum()
_loss = Loss()
@jit
def f(m, x):
    return m(x)
last = []
for k in range(3):
    y = f(_loss, torch.ones(3) * k)
    last.append(_loss.last)
    _loss.last += 1""",
    "parameters in a list": """
ps = [torch.ones(2), torch.zeros(2)]
for p in ps:
    p.requires_grad = True
@jit
def step(ps, x):
    loss = (ps[0] * x).sum() + (ps[1] * x).mean()
    for p in ps:
        p.grad = None
    loss.backward()
    for p in ps:
        p.data += -0.1 * p.grad
    return x * 1
for k in range(4):
    step(ps, torch.tensor([1.0, 2.0]))""",
    "a cache of a layer": """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = torch.zeros(2, 4)
    def forward(self, x, pos):
        self.c = self.c.to(x)
        self.c[:, pos : pos + 1] = x
        return self.c.sum(1)
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])
    def forward(self, x, pos):
        for layer in self.layers:
            x = x + layer(x, pos)[:, None]
        return x
_m = Both()
@jit
def step(m, x, pos):
    return m(x, pos)
for k in range(4):
    y = step(_m, torch.ones(2, 1), k)
    a, b = _m.layers[0].c, _m.layers[1].c""",
    "a result that equals a tensor from outside": """
x0 = torch.ones(2, 2, requires_grad=True)
x1 = torch.tensor([[-0.75, -1.125], [-1.125, 0.0]])
@jit
def f(p):
    return (x1 * 1).contiguous()
y = f(x0)
y.frac_()
y = f(x0)
y += 1""",
    "an error after operations on scalars from outside": """
x = torch.ones(3)
s = torch.tensor(1.75)
x.multiply_(-1)
@jit
def f(p):
    y = -(s * 1) * 2
    x.view(2, 2).mul_(y)
f(s)""",
    "another written tensor under the same name": """
a, b = torch.zeros(2), torch.ones(2)
a += 1
b += 1
@jit
def f(x):
    a.add_(x)
    return b * x
for k in range(3):
    y = f(torch.ones(2))
a, b = b, a
for k in range(3):
    y = f(torch.ones(2))
c = a
a = b.view(2)
y = f(torch.ones(2))""",
    "what is written outside between calls gets a history": """
w = torch.ones(2, requires_grad=True)
a = torch.zeros(2)
a += 1
@jit
def f(x):
    return (a * x).contiguous()
for k in range(3):
    y = f(torch.ones(2))
a.mul_(w)
y = f(torch.ones(2))
(y * y).sum().backward()""",
    "an attribute that is bound to a part of itself": """
q = torch.zeros(2)
q.add_(1)
class State: pass
s = State()
s.w = torch.zeros(3, 2)
@jit
def f(x):
    s.w = s.w[-2:]
f(torch.ones(2))
s.w[-1] = torch.ones(2)
f(torch.ones(2))
s.w[0] += 1""",
    "a view of a leaf through which a pass has gone": """
x = torch.tensor([2., 3.], requires_grad=True)
@jit
def f(p):
    v = x[...]
    (v * v).sum().backward()
    return (x * p).sum(), v.view(-1)
for _ in range(3):
    y, v = f(torch.ones(2))
(v * 3).sum().backward()""",
    "a view that lost its history, and what is written in a step": """
x, w = torch.zeros(4, requires_grad=True), torch.ones(2, requires_grad=True)
v = x[:2]
x.requires_grad_(False)
x[1:] = 5
@jit
def f(p):
    x[:2] = p * 2
    return v * 1
for _ in range(2):
    y = f(w)
    y.sum().backward()""",
    "a leaf that a function makes anew in a step": """
w = torch.ones(2, requires_grad=True)
@jit
def f(p):
    with torch.no_grad():
        torch.full((2,), 3., out=w)
    return w * p
for _ in range(3):
    y = f(torch.ones(2))""",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_agrees(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twins.agree(text)


ALIASES = {
    "an argument and its views": """
x = torch.zeros(2, 3)
@jit
def f(x):
    return x, x[0], x.view(-1), x.sum()
for k in range(4):
    same, row, flat, _ = f(x)
    row[0] = 5.0 + k
    flat[4] = 7.0 + k
    same[1, 2] = k
    see(same is x)
see(x, row, flat)""",
    "a result and its views": """
@jit
def f(x):
    y = x * 2
    return y, y[0], y, y.T
for k in range(4):
    y, row, again, turned = f(torch.ones(2, 3))
    row[0] = 5.0 + k
    turned[2, 1] += 1
    see(again is y)
    see(y, row, turned)""",
    "views that share no element": """
@jit
def f(x):
    return (x * 2).chunk(2, 1)
for k in range(4):
    a, b = f(torch.ones(2, 4))
    a[0] = k
    see(a, b)""",
    "tensors from outside": """
cache = torch.zeros(2, 3)
layer = torch.nn.Linear(2, 2)
@jit
def f(x):
    return cache, cache[0], layer.weight.detach().view(-1), x.sum()
with torch.no_grad():
    layer.weight.fill_(0.5)
for k in range(4):
    c, row, weights, _ = f(torch.ones(2))
    row[1] = 5.0 + k
    weights[0] = k
    c[1, 1] = k
    see(c is cache, cache, row, layer.weight.detach())""",
    "gradients": """
x = torch.ones(2, 3, requires_grad=True)
@jit
def f(x):
    y = x * 2
    return y, y.view(-1), x.detach()[0]
for k in range(3):
    y, flat, free = f(x)
    y[0, 0] = 0.0
    (flat * flat).sum().backward()
    free[0] = 3.0 + k
    see(x.grad, x.detach())""",
    "diagonals, windows, transposes": """
x = torch.zeros(4, 4)
@jit
def f(x):
    return x.diagonal(), x.T.reshape(-1), x.chunk(2, 1), x.unfold(0, 2, 2)
for k in range(3):
    diagonal, turned, (a, b), windows = f(x)
    diagonal += 1
    turned += 10
    b[0] = 3 + k
    windows[0, 0, 0] = 7
    see(x, turned)""",
    "a list of views": """
x = torch.zeros(3)
rows = []
@jit
def f(x):
    rows.append(x[:2])
    return x * 1
for k in range(4):
    f(x)
    rows[-1][0] += 1
    see(x)""",
}


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("text", ALIASES.values(), ids=ALIASES)
def test_results_that_are_views(text, started):
    """Who writes into one writes into what it is a view of, before the process first writes too."""
    torch = pytest.importorskip("torch")
    found = []

    def see(*xs):
        found[-1] += [x if isinstance(x, bool) else x.tolist() for x in xs]

    for module, jit in ((torch, lambda f: f), (face, fx.jit)):
        found.append([])
        if started:
            module.zeros(2).add_(1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(text, {"torch": module, "jit": jit, "see": see})
    assert found[0] == found[1]


def test_views_of_what_is_not_returned():
    @fx.jit
    def f(x):
        y = x * 2
        return y[0], y[:, 0]

    x = face.ones(2, 3)
    with pytest.warns(RuntimeWarning, match="share elements"):
        f(x)
    row, column = f(x)
    column[0] = 5.0
    assert row.tolist() == [5, 2, 2]


def test_views_at_a_position_of_each_call():
    """Of an argument: what writes into one needs the view, and a functional module takes values."""
    text = """
a = torch.zeros(3, 2)
@jit
def f(x, k):
    return x[k], x.T[k:k + 1], x
for k in (0, 1, 0):
    row, column, whole = f(a, k)
    row += 1
    column.mul_(2)
"""
    with pytest.warns(RuntimeWarning, match="a view at a position"):
        space = {"torch": face, "jit": fx.jit}
        exec(text, space)
    twins.agree(text)

    library = {"torch": face, "__name__": "of_the_user"}
    exec("def g(k):\n    x = torch.arange(6.).view(2, 3) * 2\n    return x.T[k], x", library)
    caller = {"fx": fx, "__name__": "of_another"}
    exec("call = lambda f, k: f(k)", caller)  # which does not write
    g = fx.jit(library["g"])
    with pytest.warns(RuntimeWarning, match="a view at a position"):
        for k in (0, 1, 0):
            row, whole = caller["call"](g, k)
            row.add_(100.0)
            assert whole[:, k].tolist() == row.tolist()

    functional = {"fx": fx}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(
            "f = fx.jit(lambda x, k: x[k])\na = fx.zeros((3, 2))\nr = [f(a, k) for k in (0, 1)]",
            functional,
        )
    assert functional["f"].cache_size() == 1


@pytest.mark.parametrize("kind", ["optimizer", "buffer", "of the same code"])
def test_views_between_compiled_calls_see_the_next_ones(kind):
    """A view that a script takes of a parameter or buffer when the step is compiled already."""

    def run(t, jit):
        seen = []
        for _ in range(2 if kind == "of the same code" else 1):
            m = t.nn.Module()
            m.weight = t.nn.Parameter(t.tensor([1.0, 2.0, 3.0]))
            m.register_buffer("kept", t.zeros(3))
            optimizer = t.optim.SGD(m.parameters(), lr=0.1)

            def step(x, m=m, optimizer=optimizer):
                if kind == "buffer":
                    m.kept.add_(x)
                else:
                    optimizer.zero_grad()
                    ((m.weight * x) ** 2).sum().backward()
                    optimizer.step()

            step = jit(step)
            step(t.tensor(1.0)), step(t.tensor(1.0))
            of = m.kept if kind == "buffer" else m.weight
            views = of[1], of.view(3, 1)
            for k in (2.0, 3.0):
                step(t.tensor(k))
                seen += [of.tolist(), *[v.tolist() for v in views]]
        return seen

    np.testing.assert_allclose(
        np.hstack([np.ravel(x) for x in run(face, fx.jit)]),
        np.hstack([np.ravel(x) for x in run(torch, lambda f: f)]), 1e-6,
    )  # fmt: skip


def test_ravel_where_scripts_write():
    """It knows how many elements there are: the primitive takes no -1."""
    x = fx.torch.arange(6.0).reshape(2, 3)
    for y in (x, x.T):
        assert fx.jit(lambda y: fx.torch.ravel(y) * 2)(y).tolist() == (y.ravel() * 2).tolist()
    assert fx.vmap(lambda y: y.ravel())(x[None]).shape == (1, 6)
