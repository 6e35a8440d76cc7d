"""``autograd.functional`` and ``gradcheck`` against torch, and against rules that are wrong."""

import numpy as np
import pytest

import fx
from fx.autograd import GradcheckError, functional, gradcheck, gradgradcheck

torch = pytest.importorskip("torch")
X, Y = np.array([0.3, -1.2, 2.0]), np.array([1.0, 0.5, -0.4])


def f(m, x, y):
    return m.sin(x) * y, (x * y).sum()


def g(m, x, y):
    return (m.exp(x * 0.1) * y * y).sum()


def near(found, expected):
    assert type(found) is type(expected) or not isinstance(expected, tuple)
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            near(a, b)
    else:
        np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-9)


def both(run):
    ours = run(fx, functional, *map(fx.tensor, (X, Y)))
    theirs = run(torch, torch.autograd.functional, *map(torch.tensor, (X, Y)))
    near(ours, theirs)


def test_everything_equals_torch():
    both(lambda m, F, x, y: F.jacobian(lambda x, y: f(m, x, y), (x, y)))
    both(lambda m, F, x, y: F.jacobian(lambda x: f(m, x, y), x))
    both(lambda m, F, x, y: F.jacobian(m.sin, x, strategy="forward-mode", vectorize=True))
    both(lambda m, F, x, y: F.hessian(lambda x, y: g(m, x, y), (x, y)))
    both(lambda m, F, x, y: F.hessian(lambda x: g(m, x, y), x))
    both(lambda m, F, x, y: F.vjp(lambda x, y: f(m, x, y), (x, y), (y, m.ones_like(y).sum())))
    both(lambda m, F, x, y: F.vjp(lambda x: g(m, x, y), x))
    both(lambda m, F, x, y: F.jvp(lambda x, y: f(m, x, y), (x, y), (y, x)))
    both(lambda m, F, x, y: F.jvp(lambda x: f(m, x, x)[0], x[0]))
    both(lambda m, F, x, y: F.hvp(lambda x, y: g(m, x, y), (x, y), (y, x)))
    both(lambda m, F, x, y: F.vhp(lambda x: g(m, x, y), x, y))


@pytest.mark.parametrize("create", [False, True])
def test_results_have_a_history_where_asked(create):
    w = fx.tensor(Y, requires_grad=True)
    j = functional.jacobian(lambda x: x * w, fx.tensor(X), create_graph=create)
    assert j.requires_grad is create
    h = functional.hvp(lambda x: (x * x * w).sum(), fx.tensor(X), fx.tensor(X), create_graph=create)
    assert h[1].requires_grad is create


# gradcheck --------------------------------------------------------------------------------------


def wrong(order):
    """A function whose derivative of that order is wrong."""

    class Wrong(fx.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return fx.sin(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 1.01 * fx.cos(x) if order == 1 else g * fx.cos(x.detach())

    return Wrong.apply


def test_right_derivatives_pass():
    x, y = fx.tensor(X), fx.tensor(Y)
    assert gradcheck(lambda x, y: f(fx, x, y), (x, y), check_forward_ad=True)
    assert gradgradcheck(lambda x, y: f(fx, x, y), (x, y), check_fwd_over_rev=True)
    assert gradcheck(lambda x, n, i: (x**n)[i], (x, 3, fx.tensor([0, 2])))
    assert gradcheck(wrong(2), x) and gradcheck(fx.sin, x.requires_grad_())
    assert gradgradcheck(fx.sin, x, fx.tensor(Y))


def test_wrong_derivatives_are_found():
    x = fx.tensor(X)
    with pytest.raises(GradcheckError, match="the backward derivative of result 0 by input 0"):
        gradcheck(wrong(1), x)
    with pytest.raises(GradcheckError, match="gradcheck: the backward derivative"):
        gradgradcheck(wrong(2), x)
    assert gradcheck(wrong(1), x, raise_exception=False) is False

    h = fx.custom_jvp(lambda x: x * x)
    h.defjvp(lambda p, t: (h(*p), t[0] * p[0]))
    with pytest.raises(GradcheckError, match="finite differences give"):
        gradcheck(h, x, check_forward_ad=True)
