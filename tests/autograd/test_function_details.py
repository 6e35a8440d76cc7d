"""The details of ``autograd.Function``: contexts, cotangents, results, and what is refused."""

import numpy as np
import pytest

import fx

torch = pytest.importorskip("torch")
X = np.array([0.3, -1.2, 2.0])


class Exp(fx.autograd.Function):
    """It keeps its result."""

    @staticmethod
    def forward(ctx, x):
        y = fx.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


def near(found, expected, rtol=1e-9):
    np.testing.assert_allclose(found.detach().numpy(), np.asarray(expected.detach()), rtol)


def test_gradients_that_are_not_needed_are_not_asked_for():
    class Multiply(fx.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, flag):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            seen.append(ctx.needs_input_grad)
            return g * y, g * x, None

    seen = []
    x, y = fx.ones(2, requires_grad=True), fx.ones(2)
    Multiply.apply(x, y, True).sum().backward()
    fx.grad(lambda y: Multiply.apply(x.detach(), y, True).sum())(y)
    fx.vmap(fx.grad(lambda a, b: Multiply.apply(a, b, True), (0, 1)))(y, y)
    assert seen == [(True, False, False), (False, True, False), (True, True, False)]
    assert y.grad is None


@pytest.mark.parametrize("materialize", [True, False])
def test_cotangents_of_unused_results(materialize):
    class Two(fx.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            seen.append(None if h is None else h.tolist())
            return g * 2 if h is None else g * 2 + h * 3

    seen = []
    x = fx.ones(2, requires_grad=True)
    Two.apply(x)[0].sum().backward()
    fx.grad(lambda x: Two.apply(x)[0].sum())(fx.ones(2))
    assert seen == [[0.0, 0.0] if materialize else None] * 2 and x.grad.tolist() == [2.0, 2.0]


def test_results_without_a_gradient():
    class Sort(fx.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            order = fx.argsort(x)
            ranks = order.astype(fx.float32)
            ctx.mark_non_differentiable(ranks)
            ctx.order = order
            return x[order], order, ranks, "a word"

        @staticmethod
        def backward(ctx, g, *rest):
            return fx.zeros(3).at[ctx.order].set(g)

    x = fx.tensor([3.0, 1.0, 2.0], requires_grad=True)
    values, order, ranks, word = Sort.apply(x)
    assert values.requires_grad and not order.requires_grad and not ranks.requires_grad
    assert word == "a word"
    (values * fx.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [3.0, 1.0, 2.0]


def test_an_input_returned_as_it_is():
    class Reverse(fx.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return -g

    x = fx.ones(2, requires_grad=True)
    y = Reverse.apply(x)
    assert y is not x and x.is_leaf and not y.is_leaf
    with fx.no_grad():
        assert not Reverse.apply(x).requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [-1.0, -1.0]
    assert fx.grad(lambda x: Reverse.apply(x).sum())(fx.ones(2)).tolist() == [-1.0, -1.0]


def test_a_gradient_is_made_to_fit_as_in_torch():
    class Scale(fx.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.save_for_backward(x, s)
            return x * s

        @staticmethod
        def backward(ctx, g):
            x, s = ctx.saved_tensors
            return (g * s).astype(fx.float64), g * x  # the second has the shape of x

    x, s = fx.tensor([1.0, 2.0, 3.0], requires_grad=True), fx.tensor(2.0, requires_grad=True)
    Scale.apply(x, s).sum().backward()
    assert x.grad.dtype == fx.float32 and s.grad.item() == 6.0


def test_a_jvp_of_its_own():
    class Cube(fx.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 3.0 * g * ctx.saved_tensors[0] ** 2

        @staticmethod
        def jvp(ctx, t):
            used.append(1)
            return 3.0 * t * ctx.saved_tensors[0] ** 2

    used = []
    x = fx.tensor(X)
    near(fx.jvp(Cube.apply, (x,), (x,))[1], 3.0 * x**3)
    near(fx.vmap(lambda s: fx.jvp(Cube.apply, (s,), (s,))[1])(x), 3.0 * x**3)
    near(fx.jvp(lambda x: fx.vmap(Cube.apply)(x), (x,), (x,))[1], 3.0 * x**3)
    assert len(used) == 3
    near(fx.vmap(fx.grad(Cube.apply))(x), 3.0 * x**2)


def test_a_vmap_of_its_own():
    def own(m, base):
        class Times(base):
            @staticmethod
            def forward(x, y):
                return x * y

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            @staticmethod
            def backward(ctx, g):
                x, y = ctx.saved_tensors
                return g * y, g * x

            @staticmethod
            def vmap(info, in_dims, x, y):
                seen.append((info.batch_size, in_dims))
                return Times.apply(x, y), 0

        return Times

    seen = []
    ours, theirs = own(fx, fx.autograd.Function), own(torch, torch.autograd.Function)
    x, t = fx.tensor(X), torch.tensor(X)
    near(fx.vmap(ours.apply)(x, x), torch.vmap(theirs.apply)(t, t))
    near(
        fx.vmap(fx.grad(ours.apply), (0, None))(x, x[0]),
        torch.vmap(torch.func.grad(theirs.apply), (0, None))(t, t[0]),
    )
    near(
        fx.grad(lambda x: fx.vmap(ours.apply)(x, x).sum())(x),
        torch.func.grad(lambda t: torch.vmap(theirs.apply)(t, t).sum())(t),
    )
    assert seen[0] == seen[1] == (3, (0, 0))


def test_keywords_and_defaults():
    class Scale(fx.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale=2.0, shift=1.0):
            ctx.scale = scale
            return x * scale + shift

        @staticmethod
        def backward(ctx, g):
            return g * ctx.scale, None, None

    x = fx.ones(2, requires_grad=True)
    assert Scale.apply(x, shift=0.0).tolist() == [2.0, 2.0]
    Scale.apply(x, scale=5.0).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_parameters_are_arguments():
    p = fx.nn.Parameter(fx.ones(2))
    Exp.apply(p).sum().backward()
    np.testing.assert_allclose(p.grad.numpy(), np.exp([1.0, 1.0]), rtol=1e-6)


def test_once_differentiable_results_are_constants():
    class Square(fx.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @fx.autograd.once_differentiable
        def backward(ctx, g):
            return 2.0 * g * ctx.saved_tensors[0]

    x = fx.tensor(3.0, requires_grad=True)
    (g,) = fx.autograd.grad(Square.apply(x), x, create_graph=True)
    assert g.item() == 6.0 and not g.requires_grad


def test_without_a_gradient_nothing_is_kept():
    assert not Exp.apply(fx.tensor(X)).requires_grad
    with fx.no_grad():
        assert not Exp.apply(fx.tensor(X, requires_grad=True)).requires_grad


# what goes wrong --------------------------------------------------------------------------------


def broken(backward, forward=lambda ctx, x: x * 2.0):
    return type(
        "Broken",
        (fx.autograd.Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(backward)},
    )


CASES = {
    "wrong count": (
        broken(lambda ctx, g: g, lambda ctx, x, y=1.0: x),
        (2.0,),
        "Broken.backward returned 1 gradients for the 2 arguments of forward",
    ),
    "gradient of a number": (
        broken(lambda ctx, g: (g, g), lambda ctx, x, y=1.0: x),
        (2.0,),
        "argument 1 of forward, which is no tensor; return None there",
    ),
    "wrong shape": (
        broken(lambda ctx, g: g[0]),
        (),
        r"Broken.backward: the gradient of argument 0 has shape (), expected (2,)",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_wrong_backward_is_named(case):
    function, more, message = case
    x = fx.ones(2, requires_grad=True)
    with pytest.raises(fx.errors.FxError) as info:
        function.apply(x, *more).sum().backward()
    assert message in str(info.value)


def test_missing_methods_and_instances():
    class Nothing(fx.autograd.Function):
        pass

    with pytest.raises(TypeError, match="needs a static method forward"):
        Nothing.apply(fx.ones(2))
    with pytest.raises(TypeError, match=r"write Nothing\.apply"):
        Nothing()
    with pytest.raises(fx.errors.InPlaceError, match="mark_dirty: tensors are immutable"):
        broken(None, lambda ctx, x: ctx.mark_dirty(x)).apply(fx.ones(2))
