"""``autograd.Function``: both styles, every nesting of transforms, against torch."""

import numpy as np
import pytest

import fx

torch = pytest.importorskip("torch")
X = np.array([0.3, -1.2, 2.0])


def exp_of(m, base):
    """A Function in PyTorch's older style, which keeps its result."""

    class Exp(base):
        runs = 0

        @staticmethod
        def forward(ctx, x):
            Exp.runs += 1
            y = m.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    return Exp


def product_of(m, base):
    """In the newer style: two inputs, a number, two results."""

    class Product(base):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y, scale):
            return scale * x * y, m.sin(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y, scale = inputs
            ctx.save_for_backward(x, y)
            ctx.scale = scale

        @staticmethod
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            return ctx.scale * g * y + h * m.cos(x), ctx.scale * g * x, None

    return Product


OURS, THEIRS = product_of(fx, fx.autograd.Function), product_of(torch, torch.autograd.Function)


def f(m, product, x):
    a, b = product.apply(x, x * x, 3.0)
    return (a * b).sum()


def near(found, expected, rtol=1e-9):
    np.testing.assert_allclose(found.detach().numpy(), np.asarray(expected.detach()), rtol)


def test_backward_equals_torch():
    x, t = fx.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    y, u = f(fx, OURS, x), f(torch, THEIRS, t)
    near(y, u)
    y.backward()
    u.backward()
    near(x.grad, t.grad)


@pytest.mark.parametrize("order", [2, 3])
def test_higher_orders_equal_torch(order):
    x, t = fx.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    for m, v, product in ((fx, x, OURS), (torch, t, THEIRS)):
        y = f(m, product, v)
        for _ in range(order):
            (y,) = m.autograd.grad(y.sum(), v, create_graph=True)
        v.grad = y.detach()
    near(x.grad, t.grad)


WORDS = {
    "grad": lambda m, f: m.grad(f),
    "vmap of grad": lambda m, f: lambda x: m.vmap(m.grad(lambda s: f(s * x)))(x),
    "grad of grad": lambda m, f: m.grad(lambda x: (m.grad(f)(x) ** 2).sum()),
    "grad of vmap": lambda m, f: m.grad(lambda x: m.vmap(lambda s: f(s * x))(x).sum()),
    "vmap of vmap": lambda m, f: lambda x: m.vmap(lambda s: m.vmap(lambda r: f(s * r * x))(x))(x),
    "jacrev of grad": lambda m, f: m.jacrev(m.grad(f)),
    "vmap of grad of vmap": lambda m, f: (
        lambda x: m.vmap(m.grad(lambda r: m.vmap(lambda s: f(s * r * x))(x).sum()))(x)
    ),
    "shared argument": lambda m, f: (
        lambda x: m.vmap(m.grad(lambda y, s: f(y * s)), (None, 0))(x, x)
    ),
}


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_words_equal_torch(word):
    ours = word(fx, lambda x: f(fx, OURS, x))(fx.tensor(X))
    theirs = word(torch.func, lambda x: f(torch, THEIRS, x))(torch.tensor(X))
    near(ours, theirs)


FORWARD = {
    "jvp": lambda f: lambda x: fx.jvp(f, (x,), (x,))[1],
    "jvp of grad": lambda f: lambda x: fx.jvp(fx.grad(f), (x,), (x,))[1],
    "grad of jvp": lambda f: fx.grad(lambda x: fx.jvp(f, (x,), (x,))[1]),
    "vmap of jvp": lambda f: lambda x: fx.vmap(lambda s: fx.jvp(f, (x,), (s * x,))[1])(x),
    "jvp of vmap": lambda f: (
        lambda x: fx.jvp(lambda y: fx.vmap(lambda s: f(s * y))(x), (x,), (x,))[1]
    ),
    "hessian": fx.hessian,
    "linearize": lambda f: lambda x: fx.linearize(f, x)[1](x),
    "checkpoint": lambda f: fx.grad(fx.checkpoint(f)),
}


@pytest.mark.parametrize("word", FORWARD.values(), ids=FORWARD)
def test_forward_mode_is_derived_from_backward(word):
    def plain(x):
        return (3.0 * x * (x * x) * fx.sin(x)).sum()

    near(word(lambda x: f(fx, OURS, x))(fx.tensor(X)), word(plain)(fx.tensor(X)))


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_forward_runs_once_whatever_is_around_it(word):
    exp = exp_of(fx, fx.autograd.Function)
    word(fx, lambda x: exp.apply(x).sum())(fx.tensor(X))
    assert exp.runs == 1


def test_a_kept_result_is_differentiated_by_the_rule_itself():
    ours, theirs = exp_of(fx, fx.autograd.Function), exp_of(torch, torch.autograd.Function)
    x, t = fx.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    (g,) = fx.autograd.grad(ours.apply(x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(theirs.apply(t).sum(), t, create_graph=True)
    (g * g).sum().backward()
    (h * h).sum().backward()
    near(x.grad, t.grad)
    near(fx.vmap(fx.grad(fx.grad(ours.apply)))(fx.tensor(X)), np_exp())


def np_exp():
    return torch.exp(torch.tensor(X))


class StraightThrough(fx.autograd.Function):
    """NumPy inside, and a gradient that is not the derivative."""

    @staticmethod
    def forward(ctx, x):
        return fx.from_numpy(np.round(x.numpy()))

    @staticmethod
    def backward(ctx, g):
        return g


def test_numpy_inside_forward_at_every_order():
    x = fx.tensor(X, requires_grad=True)
    StraightThrough.apply(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]

    def g(x):
        return (StraightThrough.apply(x) ** 3).sum()

    # y = round(x) passes gradients: dg/dx = 3 y^2 and its derivative 6 y
    y = np.round(X)
    np.testing.assert_allclose(fx.grad(g)(fx.tensor(X)).numpy(), 3 * y**2)
    np.testing.assert_allclose(fx.grad(lambda x: fx.grad(g)(x).sum())(fx.tensor(X)).numpy(), 6 * y)
    np.testing.assert_allclose(
        fx.jvp(g, (fx.tensor(X),), (fx.tensor(X),))[1].numpy(), (3 * y**2) @ X
    )


class Clamp(fx.autograd.Function):
    """Whatever is hung on the context comes back: tensors of every kind, lists, numbers."""

    @staticmethod
    def forward(ctx, x, low):
        inside = x > low
        shifted = x - low
        ctx.inside = inside
        ctx.parts = {"inputs": [x], "made": shifted, "low": low, "none": None}
        ctx.y = fx.where(inside, shifted * shifted, 0.0)
        return ctx.y

    @staticmethod
    def backward(ctx, g):
        assert ctx.parts["low"] == 0.5 and ctx.parts["none"] is None
        (x,) = ctx.parts["inputs"]
        assert ctx.y.shape == x.shape
        return fx.where(ctx.inside, 2.0 * ctx.parts["made"] * g, 0.0), None


@pytest.mark.parametrize("around", ["plain", "vmap", "vmap of vmap", "grad of vmap"])
def test_attributes_of_the_context(around):
    x = fx.tensor([0.1, 0.7, 2.0])
    expected = fx.where(x > 0.5, 2.0 * (x - 0.5), 0.0)
    g = fx.grad(lambda x: Clamp.apply(x, 0.5).sum())
    if around == "plain":
        found = g(x)
    elif around == "vmap":
        found = fx.vmap(g)(x)
    elif around == "vmap of vmap":
        found = fx.vmap(fx.vmap(g))(x[:, None])[:, 0]
    else:
        found = fx.grad(lambda x: fx.vmap(lambda v: Clamp.apply(v, 0.5))(x).sum())(x)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
