"""A complex-valued network that reads phases: training beside PyTorch's, gradients beside JAX's."""

import jax
import numpy as np
import pytest
import torch

import fx
import fx.torch
import fx.torch.nn.functional

KINDS, POINTS, STEPS = 4, 16, 6


def signals(seed, n=64):
    """(n, POINTS) complex chirps of KINDS curvatures, each turned by a phase of its own."""
    rng = np.random.default_rng(seed)
    kind, time = rng.integers(0, KINDS, n), np.arange(POINTS) / POINTS
    phase = rng.uniform(0, 2 * np.pi, (n, 1)) + 6 * kind[:, None] * time**2
    noise = rng.normal(size=(2, n, POINTS)) * 0.1
    return (np.exp(1j * phase) + noise[0] + 1j * noise[1]).astype("complex64"), kind


def build(t):
    class ModReLU(t.nn.Module):
        """The phase stays; a real bias moves the modulus, which does not fall below 0."""

        def __init__(self, width):
            super().__init__()
            self.bias = t.nn.Parameter(t.full((width,), -0.05))

        def forward(self, z):
            size = z.abs()
            return z * (t.relu(size + self.bias) / (size + 1e-6))

    class Network(t.nn.Module):
        """(batch, POINTS) complex -> (batch, KINDS) real; a phase common to all does not matter."""

        def __init__(self):
            super().__init__()
            self.first = t.nn.Linear(POINTS, 24, dtype=t.complex64)
            self.bent = ModReLU(24)
            self.turn = t.nn.Parameter(t.zeros(24))
            self.last = t.nn.Linear(24, KINDS, bias=False, dtype=t.complex64)

        def forward(self, z):
            z = self.bent(self.first(z)) * t.exp(1j * self.turn)
            return self.last(z).abs().square()

    return Network()


def train(t, state, jitted):
    model = build(t)
    model.load_state_dict({k: t.tensor(v) for k, v in state.items()})
    optimizer = t.optim.Adam(model.parameters(), lr=1e-2)
    z, kind = map(t.tensor, signals(0))

    def step():
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(z), kind)
        loss.backward()
        optimizer.step()
        return loss

    run = fx.jit(step) if jitted else step
    losses = [run().item() for _ in range(STEPS)]
    return losses, {k: v.detach().numpy() for k, v in model.state_dict().items()}


@pytest.fixture(scope="module")
def start():
    torch.manual_seed(0)
    return {k: v.detach().numpy() for k, v in build(torch).state_dict().items()}


@pytest.mark.parametrize("jitted", [False, True])
def test_the_same_steps_as_pytorchs(start, jitted):
    wanted, weights = train(torch, start, False)
    assert wanted[-1] < 0.5 * wanted[0]
    losses, found = train(fx.torch, start, jitted)
    np.testing.assert_allclose(losses, wanted, rtol=2e-5)
    for name, want in weights.items():
        np.testing.assert_allclose(found[name], want, rtol=2e-3, atol=2e-4, err_msg=name)


def loss(library, weights, z, kind):
    """The network as a function of its weights; the logarithm of the softmax by hand."""
    hidden = z @ weights["first"].T
    size = library.abs(hidden)
    hidden = hidden * (library.maximum(size - 0.05, 0 * size) / (size + 1e-6))
    out = library.abs(hidden @ weights["last"].T) ** 2  # (batch, KINDS)
    return (library.log(library.exp(out).sum(-1)) - (out * library.eye(KINDS)[kind]).sum(-1)).mean()


def test_gradients_are_those_of_jax_and_conjugates_of_the_tapes(start):
    z, kind = signals(1)
    weights = {k: start[f"{k}.weight"] for k in ("first", "last")}
    want = jax.grad(lambda w: loss(jax.numpy, w, z, kind))(weights)
    given = {k: fx.asarray(v) for k, v in weights.items()}
    ours = lambda w: loss(fx, w, fx.asarray(z), fx.asarray(kind))
    leaves = {k: fx.asarray(v).requires_grad_() for k, v in weights.items()}
    ours(leaves).backward()
    for gradient in (fx.grad(ours), fx.jit(fx.grad(ours))):
        for name, got in gradient(given).items():
            np.testing.assert_allclose(got.numpy(), want[name], rtol=2e-4, atol=1e-6)
    for name, leaf in leaves.items():
        np.testing.assert_allclose(
            leaf.grad.numpy(), np.conj(want[name]), rtol=2e-4, atol=1e-6, err_msg=name
        )


def test_per_example_gradients_are_the_loops(start):
    z, kind = signals(2, 5)
    weights = {k: fx.asarray(start[f"{k}.weight"]) for k in ("first", "last")}
    of_one = fx.grad(lambda w, z, k: loss(fx, w, z[None], k[None]))
    lanes = fx.jit(fx.vmap(of_one, (None, 0, 0)))(weights, fx.asarray(z), fx.asarray(kind))
    for i in range(5):
        one = of_one(weights, fx.asarray(z[i]), fx.asarray(kind[i]))
        for name in weights:
            np.testing.assert_allclose(
                lanes[name][i].numpy(), one[name].numpy(), rtol=1e-4, atol=1e-6
            )
