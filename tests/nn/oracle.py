"""Comparison with torch: the same arrays through both, values and gradients alike."""

import numpy as np
import torch

import fx

TOLERANCE = {"float32": {"rtol": 2e-5, "atol": 2e-5}, "float64": {"rtol": 1e-9, "atol": 1e-10}}


def arrays(*shapes, seed=0, dtype="float64"):
    """Normal arrays."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def close(got, expected, what="", dtype=None):
    """Equal shapes, dtypes and, to rounding, values."""
    got = got.detach().numpy()
    expected = expected.detach().numpy()
    assert got.shape == expected.shape, what
    assert got.dtype == expected.dtype, what
    limits = TOLERANCE.get(str(got.dtype), {"rtol": 0, "atol": 0})
    np.testing.assert_allclose(got, expected, **limits, err_msg=what)


def check(ours, theirs, *inputs):
    """Values of a function of floating arrays and its gradients, along a random cotangent."""
    xs = [fx.tensor(a, requires_grad=True) for a in inputs]
    ts = [torch.tensor(a, requires_grad=True) for a in inputs]
    y, expected = ours(*xs), theirs(*ts)
    close(y, expected, "value")
    if not expected.requires_grad:
        assert not y.requires_grad
        return
    (ct,) = arrays(tuple(expected.shape), seed=99, dtype=str(y.dtype))
    y.backward(fx.tensor(ct))
    expected.backward(torch.tensor(ct))
    for i, (x, t) in enumerate(zip(xs, ts)):
        if t.grad is not None:
            close(x.grad, t.grad, f"gradient of argument {i}")


def twins(make, dtype="float64", **kwargs):
    """A layer of fx and one of torch with the same values; ``make`` takes ``nn``."""
    torch.manual_seed(0)
    theirs = make(torch.nn).to(getattr(torch, dtype))
    ours = make(fx.nn).to(dtype)
    copy_state(ours, theirs)
    return ours, theirs


def copy_state(ours, theirs):
    """Load torch's values into our module."""
    ours.load_state_dict({k: fx.tensor(v.numpy()) for k, v in theirs.state_dict().items()})


def check_layer(make, *inputs, rounds=1, call=None, dtype="float64"):
    """A layer against torch's: state keys, repr, values, gradients, buffers after ``rounds``."""
    ours, theirs = twins(make, dtype)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    call = call or (lambda layer, *xs: layer(*xs))
    for i in range(rounds):
        scaled = [a * (1 + i) for a in inputs]
        xs = [_to_fx(a) for a in scaled]
        ts = [_to_torch(a) for a in scaled]
        y, expected = call(ours, *xs), call(theirs, *ts)
        close(y, expected, "value")
        (ct,) = arrays(tuple(expected.shape), seed=99, dtype=dtype)
        y.backward(fx.tensor(ct))
        expected.backward(torch.tensor(ct))
    for x, t in zip(xs, ts):
        if t.grad is not None:
            close(x.grad, t.grad, "gradient of the input")
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        close(p.grad, q.grad, f"gradient of {name}")
    for (name, b), c in zip(ours.named_buffers(), theirs.buffers()):
        close(b, c, f"buffer {name}")
    return ours, theirs


def _to_fx(a):
    return fx.tensor(a, requires_grad=True) if a.dtype.kind == "f" else fx.tensor(a)


def _to_torch(a):
    return torch.tensor(a, requires_grad=True) if a.dtype.kind == "f" else torch.tensor(a)
