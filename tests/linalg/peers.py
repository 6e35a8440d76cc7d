"""Matrices for comparisons with peers, and gradients of both."""

import numpy as np
import torch

import fx

DTYPES = ("float32", "float64", "complex64", "complex128")
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "complex64": 2e-5, "complex128": 1e-12}


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def positive(shape, dtype, seed=0):
    x = numbers(shape, dtype, seed)
    return (x @ x.conj().swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def close(got, want, dtype, scale=1.0):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    size = max(1.0, float(np.abs(want).max(initial=0.0)))
    assert np.abs(got - want).max(initial=0.0) <= scale * TOLERANCE[dtype] * size


def _weights(outs):
    """A cotangent for each result."""
    names = [str(out.dtype).split(".")[-1] for out in outs]
    return [numbers(tuple(o.shape), d, 9 + k) for k, (o, d) in enumerate(zip(outs, names))]


def _as_tuple(outs):
    return tuple(outs) if isinstance(outs, tuple) else (outs,)


def torch_gradients(function, *arrays):
    """Gradients by PyTorch, in fx's pairing without a conjugate."""
    given = [torch.tensor(a, requires_grad=True) for a in arrays]
    outs = _as_tuple(function(*given))
    total = sum((o * torch.tensor(w)).real.sum() for o, w in zip(outs, _weights(outs)))
    return [g.conj().resolve_conj().numpy() for g in torch.autograd.grad(total, given)]


def fx_gradients(function, *arrays):
    """The same by fx."""
    outs, pullback = fx.vjp(lambda *xs: _as_tuple(function(*xs)), *map(fx.asarray, arrays))
    return [g.numpy() for g in pullback(tuple(map(fx.asarray, _weights(outs))))]
