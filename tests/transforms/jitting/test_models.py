"""Training steps of real models under jit: the losses, parameters and state of eager ones."""

import numpy as np
import pytest

import fx
import fx.nn.functional as F
from benchmarks import models
from fx import limits


def tokens(batch=2, length=8, words=16):
    rng = np.random.default_rng(0)
    found = rng.integers(0, words, (batch, length))
    return found, models.causal(length), rng.integers(0, words, batch * length)


def images(count=4):
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 1, 28, 28)).astype(np.float32), rng.integers(0, 10, count)


class Block(fx.nn.Module):
    """A transformer block whose attention has no mask."""

    def __init__(self, width=64):
        super().__init__()
        nn = fx.nn
        self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.a(x)).reshape(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        y = F.softmax(q @ k.mT / 4.0, -1) @ v
        x = x + self.out(y.permute(0, 2, 1, 3).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.b(x))))


def blocks(nn):
    return nn.Sequential(Block(), Block(), nn.Linear(64, 10), nn.Flatten(0, 1))


def vectors():
    rng = np.random.default_rng(0)
    return rng.normal(size=(8, 16, 64)).astype(np.float32), np.zeros(128, np.int64)


CASES = {
    "blocks": (blocks, vectors),
    "lenet": (models.lenet, images),
    "transformer": (lambda nn: models.transformer(nn, 2, width=64, heads=4, words=16), tokens),
    "mlp": (
        lambda nn: models.mlp(nn, 12, 16, 16, 3),
        lambda: (
            np.random.default_rng(0).normal(size=(8, 12)).astype(np.float32),
            np.arange(8) % 3,
        ),
    ),
}


def trained(build, inputs, wrap, steps=6):
    fx.manual_seed(0)
    model = build(fx.nn)
    optimizer = fx.optim.Adam(model.parameters(), lr=1e-3)

    def step(*given):
        *xs, y = given
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*xs), y)
        loss.backward()
        optimizer.step()
        return loss

    run, given = wrap(step), [fx.tensor(x) for x in inputs]
    losses = [run(*given).item() for _ in range(steps)]
    slots = optimizer.state_dict()["state"]
    state = [v.numpy() for s in slots.values() for v in s.values()]
    return losses, [p.detach().numpy() for p in model.parameters()], state


@pytest.mark.parametrize("name", CASES)
def test_a_model_trains_as_eagerly(name):
    build, inputs = CASES[name]
    expect_eager(build, inputs, trained(build, inputs(), fx.jit))


@pytest.mark.parametrize("name", ["transformer", "mlp"])
def test_a_model_trains_as_eagerly_under_tiny_limits(name):
    build, inputs = CASES[name]
    with limits.tiny():
        found = trained(build, inputs(), fx.jit)
    expect_eager(build, inputs, found)


def expect_eager(build, inputs, found):
    losses, parameters, state = found
    wanted, expected, expected_state = trained(build, inputs(), lambda f: f)
    np.testing.assert_allclose(losses, wanted, rtol=2e-5)
    for a, b in zip(parameters, expected):  # Adam divides by gradients that may be rounding noise
        np.testing.assert_allclose(a, b, atol=6e-3 * 0.2)
    for a, b in zip(state, expected_state):
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_the_compiled_step_is_its_graph(name, monkeypatch):
    """With state in its own memory, on arrays that nothing makes small or equal."""
    import fx.backends.cpu.llvm.driver as driver

    calls, compile_graph = [], driver.compile_graph

    def watched(graph, donated=(), **more):
        calls.append((graph, donated))
        return compile_graph(graph, donated, **more)

    monkeypatch.setattr(driver, "compile_graph", watched)
    build, inputs = CASES[name]
    trained(build, inputs(), fx.jit, steps=1)
    # an eager kernel may be compiled on the way, which is lent nothing
    ((graph, donated),) = [call for call in calls if call[1]]
    rng = np.random.default_rng(1)
    arrays = []
    for value in graph.inputs:
        spec = value.spec
        made = rng.integers(0, 3, spec.shape)
        if spec.dtype.kind == "f":
            made = np.abs(rng.normal(size=spec.shape)) * 0.1 + 0.01
        arrays.append(np.array(made, spec.dtype).reshape(spec.shape))
    wanted = [x.numpy() for x in graph.run(*[fx.from_numpy(a.copy()) for a in arrays])]
    executable = compile_graph(graph, donated)
    for got, want in zip(executable.run([a.copy() for a in arrays]), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-4)
