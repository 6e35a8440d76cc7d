"""Values of a few elements in native loops: vectors of their own length, and no calls."""

import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu.llvm import control_steps, engine
from fx.backends.cpu.llvm.driver import compile_graph
from fx.graph import optimize
from fx.graph.staging import stage


def _step(n):
    """What keeps ``n`` elements apart and together: parts, reversed, a sum, a maximum, a power."""

    def step(y, t):
        z = fx.concat([y[1:], y[:1] * 2]) - fx.flip(y) / 3
        z = fx.where(z > y, z, y * t) + fx.stack([y[n - 1 - i] for i in range(n)])
        scale = fx.sqrt((z * z).sum()) + fx.max(fx.abs(y)) ** 0.3 + 1
        return z / scale

    return step


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [*range(1, 10), 17])
def test_any_few_elements(n, dtype):
    """The native loop gives what the steps give one after the other, and touches nothing else."""
    y = fx.tensor(np.random.default_rng(n).normal(size=n).astype(dtype))
    step = _step(n)
    loop = lambda y: fx.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, step(c[1], c[0])), (0, y)
    )
    expected = y
    for i in range(5):
        expected = step(expected, i)
    found = fx.jit(loop)(y)[1]
    rtol, atol = (2e-6, 1e-8) if dtype == "float32" else (1e-14, 1e-17)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol, atol)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["int64", "int8", "bool"])
def test_other_dtypes(n, dtype):
    y = fx.tensor((np.arange(n) % 3 != 1).astype(dtype))
    loop = lambda y: fx.while_loop(
        lambda c: c[0] < 3,
        lambda c: (c[0] + 1, fx.concat([c[1][1:], c[1][:1]]), c[2] + fx.flip(c[1]).sum()),
        (0, y, 0),
    )
    found = fx.jit(loop)(y)
    values = y.numpy()
    np.testing.assert_array_equal(found[1].numpy(), np.roll(values, -3))
    assert int(found[2]) == 3 * int(values.sum())


@pytest.mark.parametrize("near", [0, 1 << 16])
@pytest.mark.parametrize("inline", [0, 1 << 16])
def test_wherever_values_lie(near, inline):
    """Carries that change, swap and stay; on the stack or in scratch memory; inlined or called."""

    def f(x):
        body = lambda c: (c[0] + 1, c[2] * 2, c[1] - x, c[3])
        return fx.while_loop(lambda c: (c[0] < 6) & (c[1].sum() < 1e6), body, (0, x, x + 1, x * 3))

    x = fx.tensor(np.array([0.5, 1.5, -0.7]))
    a, b = x, x + 1
    for _ in range(6):
        a, b = b * 2, a - x
    with limits.given(NEAR_CARRY=near, INLINE=inline):
        found = fx.jit(f)(x)
    for value, expected in zip(found[1:], (a, b, x * 3), strict=True):
        np.testing.assert_allclose(value.numpy(), expected.numpy(), 1e-14)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_small_loop_keeps_its_carry_in_registers(monkeypatch, n):
    """Nothing is loaded, stored or called between one run and the next."""
    texts = []
    emit = control_steps.ControlStep.emit

    def kept(self, module, name):
        function = emit(self, module, name)
        texts.append(str(module))
        return function

    monkeypatch.setattr(control_steps.ControlStep, "emit", kept)

    def loop(t, y):
        turned = lambda y: fx.stack([y[i - 1] * y[i] for i in range(n)])
        return fx.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] - turned(c[1])), (t, y))

    graph, _ = stage(loop, [fx.tensor(0.0).spec, fx.ones(n).spec])
    compile_graph(optimize(graph))
    tools = engine._Tools(2, engine.target())
    with engine._parsed(texts[-1], None) as module:
        tools.optimise(module)
        text = str(module)
    inside = text[text.index("\nask:") : text.index("\ndone:")]
    assert "fmul" in inside and "phi" in inside
    for word in (" load ", " store ", " call "):
        assert word not in inside, text
