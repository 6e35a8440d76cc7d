"""``fx.autograd.grad`` against torch."""

import numpy as np
import pytest

import fx

torch = pytest.importorskip("torch")
X = np.array([0.5, -1.0, 2.0])


def pair(a):
    return fx.tensor(a, requires_grad=True), torch.tensor(a, requires_grad=True)


def equal(found, expected):
    assert len(found) == len(expected)
    for x, t in zip(found, expected, strict=True):
        if t is None:
            assert x is None
        else:
            np.testing.assert_allclose(x.detach().numpy(), t.detach().numpy(), rtol=1e-12)


def test_it_returns_a_tuple_and_leaves_grad_alone():
    x, t = pair(X)
    equal(fx.autograd.grad((x**3).sum(), x), torch.autograd.grad((t**3).sum(), t))
    assert x.grad is None


def test_with_respect_to_inner_tensors():
    x, t = pair(X)
    y, u = x * x, t * t
    equal(fx.autograd.grad((y * y).sum(), [y, x]), torch.autograd.grad((u * u).sum(), [u, t]))
    z = y.sum()
    assert fx.autograd.grad(z, z)[0].item() == 1.0


def test_several_outputs_and_weights():
    x, t = pair(X)
    equal(
        fx.autograd.grad([x * x, x.sum()], [x], [fx.tensor(X), None]),
        torch.autograd.grad([t * t, t.sum()], [t], [torch.tensor(X), None]),
    )


@pytest.mark.parametrize("kwargs", [{"allow_unused": True}, {"materialize_grads": True}])
def test_unused_inputs(kwargs):
    x, t = pair(X)
    z, s = pair(X)
    equal(
        fx.autograd.grad(x.sum(), [x, z], **kwargs), torch.autograd.grad(t.sum(), [t, s], **kwargs)
    )


def test_the_graph_is_kept_where_asked():
    x, _ = pair(X)
    y = (x**3).sum()
    fx.autograd.grad(y, x, retain_graph=True)
    fx.autograd.grad(y, x, create_graph=True)
    fx.autograd.grad(y, x)
    with pytest.raises(fx.errors.BackwardError, match="retain_graph=True"):
        fx.autograd.grad(y, x)


def test_only_what_leads_to_the_inputs_is_visited():
    x, _ = pair(X)
    w = fx.ones(3, requires_grad=True)
    calls = []
    y = w * 2.0
    y.register_hook(calls.append)
    fx.autograd.grad((x * y).sum(), x)
    assert calls == []


def test_batched_cotangents():
    x, t = pair(X)
    basis = np.eye(3)
    equal(
        fx.autograd.grad(fx.sin(x) * x, x, fx.tensor(basis), is_grads_batched=True),
        torch.autograd.grad(torch.sin(t) * t, t, torch.tensor(basis), is_grads_batched=True),
    )


def test_vmap_over_a_call_gives_a_jacobian():
    x, t = pair(X)
    y = fx.sin(x) * x
    rows = fx.vmap(lambda v: fx.autograd.grad(y, x, v, retain_graph=True)[0])(fx.tensor(np.eye(3)))
    expected = torch.autograd.functional.jacobian(lambda t: torch.sin(t) * t, t)
    np.testing.assert_allclose(rows.numpy(), expected.numpy(), rtol=1e-12)


def test_double_backward_by_a_dummy_cotangent():
    """Forward mode by two reverse passes, the old trick."""
    x, _ = pair(X)
    v = fx.ones(3, dtype=fx.float64, requires_grad=True)
    (g,) = fx.autograd.grad(fx.sin(x), x, v, create_graph=True)
    (push,) = fx.autograd.grad(g, v, fx.tensor([1.0, 2.0, 3.0], dtype=fx.float64))
    np.testing.assert_allclose(push.numpy(), np.cos(X) * [1, 2, 3], rtol=1e-12)


def test_results_have_no_history_unless_asked():
    x, _ = pair(X)
    w = fx.ones(3, dtype=fx.float64, requires_grad=True)
    assert not fx.autograd.grad(x + 1.0, x, w)[0].requires_grad
    assert fx.autograd.grad(x + 1.0, x, w, create_graph=True)[0].requires_grad


def test_penalty_on_the_gradient_of_a_network_equals_torch():
    rng = np.random.default_rng(0)
    w1, w2, x = (rng.standard_normal(s) for s in ((4, 8), (8, 1), (5, 4)))

    def loss(m):
        a, b, c = (m.tensor(v, requires_grad=True) for v in (w1, w2, x))
        out = m.tanh(c @ a) @ b
        (g,) = m.autograd.grad(out.sum(), c, create_graph=True)
        ((g**2).sum(1) ** 0.5 - 1).pow(2).mean().backward()
        return [a.grad, b.grad]

    equal(loss(fx), loss(torch))
