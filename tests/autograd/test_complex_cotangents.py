"""Cotangents of complex tensors, where PyTorch's interface takes or gives them, against PyTorch."""

import numpy as np
import pytest

import fx
import fx.torch as fxt

torch = pytest.importorskip("torch")
X = np.array([[0.4, -1.3], [1.7, 0.6]])
CT = np.array([[1j, 1 + 1j], [0.5 - 2j, -1.5 + 0.25j]])

FUNCTIONS = {
    "complex": lambda T, x: T.complex(x, 2 * x * x),
    "polar": lambda T, x: T.polar(x * x, 3 * x),
    "view_as_complex": lambda T, x: T.view_as_complex(T.stack([x, x.sin()], -1)),
    "exp": lambda T, x: T.exp(T.complex(x, x * x)),
    "product": lambda T, x: T.complex(x, x * x) * T.complex(x.cos(), x) * (2 - 3j),
    "conj": lambda T, x: T.complex(x, 2 * x * x).conj() * 1j,
    "matmul": lambda T, x: T.complex(x, x * x) @ T.complex(x.sin(), x),
    "quotient": lambda T, x: T.complex(x, x * x) / T.complex(x.cos(), x),
}


def near(found, expected):
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), 1e-9, 1e-12)


def both(run):
    """The results of ``run`` in PyTorch and in fx."""
    found, expected = run(fxt), run(torch)
    assert len(found) == len(expected) > 0
    for mine, theirs in zip(found, expected):
        near(mine, theirs)


def leaf(T):
    return T.tensor(X, dtype=T.float64, requires_grad=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_backward_and_grad_take_pytorchs_cotangents(name):
    def run(T):
        x = leaf(T)
        FUNCTIONS[name](T, x).backward(T.tensor(CT))
        other = T.autograd.grad(FUNCTIONS[name](T, x), x, T.tensor(CT))
        _, pulled = T.autograd.functional.vjp(
            lambda x: FUNCTIONS[name](T, x), x.detach(), T.tensor(CT)
        )
        _, pull = T.func.vjp(lambda x: FUNCTIONS[name](T, x), x.detach())
        return [x.grad, *other, pulled, *pull(T.tensor(CT))]

    both(run)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_hooks_and_retained_gradients_see(name):
    def run(T):
        seen = []
        x = leaf(T)
        y = FUNCTIONS[name](T, x)
        y.retain_grad()
        y.register_hook(lambda g: seen.append(g * 1) or g * (1 - 2j))
        z = (y * y).sum()
        first = T.autograd.grad(z, [y, z], T.tensor(1 + 0.5j, dtype=T.complex128), True)
        z.backward(T.tensor(1 - 3j, dtype=T.complex128))
        return [x.grad, y.grad, *first, *seen]

    both(run)


def test_a_hook_that_writes_into_a_complex_gradient():
    def run(T):
        x = leaf(T)
        y = T.complex(x, x * x)
        y.register_hook(lambda g: g.mul_(2 + 1j) * 1)
        (y * y).backward(T.tensor(CT))
        return [x.grad]

    both(run)


def square_of(T):
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            (z,) = ctx.saved_tensors
            return g * 2 * z.conj()

    return Square


def test_the_backward_of_a_function_is_pytorchs_and_jax_grad_takes_it():
    def run(T):
        x = leaf(T)
        y = square_of(T).apply(T.complex(x, x.cos()))
        y.backward(T.tensor(CT), retain_graph=True)
        (once,) = T.autograd.grad(y, x, T.tensor(CT), create_graph=True)
        return [x.grad, *T.autograd.grad(once.sum(), x)]

    both(run)
    f = square_of(fx).apply
    z, ct, t = fx.tensor(X + 1j * X.T), fx.tensor(CT), fx.tensor(CT.T)
    near(fx.vjp(f, z)[1](ct)[0], fx.vjp(lambda z: z * z, z)[1](ct)[0])
    near(fx.jvp(f, (z,), (t,))[1], fx.jvp(lambda z: z * z, (z,), (t,))[1])


def of_complex(function):
    return lambda x: (function(fxt.complex(x, x * x)) + fxt.complex(x, x)).abs().sum()


THROUGH = {
    "jit": fx.jit,
    "checkpoint": fx.checkpoint,
    "custom_vjp": lambda f: with_rule(fx.custom_vjp(f)),
    "Function": lambda f: square_of(fx).apply,
}


def with_rule(f):
    f.defvjp(lambda z: (z * z, z), lambda z, ct: (2 * z * ct,))
    return f


@pytest.mark.parametrize("name", THROUGH)
def test_derivatives_pass_through_what_takes_and_returns_complex_tensors(name):
    plain, through = of_complex(lambda z: z * z), of_complex(THROUGH[name](lambda z: z * z))
    x, t = fx.tensor(X, dtype=fx.float64), fx.tensor(X.T, dtype=fx.float64)
    near(fx.grad(through)(x), fx.grad(plain)(x))
    near(fx.jit(fx.grad(through))(x), fx.grad(plain)(x))
    near(fx.jvp(through, (x,), (t,))[1], fx.jvp(plain, (x,), (t,))[1])
    near(fx.vmap(fx.grad(through))(x), fx.vmap(fx.grad(plain))(x))
    leaf = fx.tensor(X, requires_grad=True)
    through(leaf).backward()
    near(leaf.grad, fx.grad(plain)(fx.tensor(X)))


def test_a_complex_result_has_no_single_gradient():
    with pytest.raises(fx.errors.BackwardError, match="must return floating tensors, got complex"):
        fx.grad(lambda x: fxt.complex(x, x))(fx.tensor(1.0))


def test_module_hooks_see_pytorchs_complex_gradients():
    def run(T):
        class Square(T.nn.Module):
            def forward(self, z):
                return z * z

        seen = []

        def hook(m, inward, outward):
            seen.extend([*inward, *outward])
            return (inward[0] * (1 + 1j),)

        layer = Square()
        layer.register_full_backward_hook(hook)
        x = leaf(T)
        layer(T.complex(x, x * x)).backward(T.tensor(CT))
        return [x.grad, *seen]

    both(run)
