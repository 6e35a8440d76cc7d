"""``jit(check=...)``: compiled calls against eager ones, and what is said of planted faults."""

import warnings

import pytest

import fx
import fx.nn as nn
import fx.nn.functional as F
from fx.errors import CheckError
from fx.graph.ir import Rewriter
from fx.primitive import registry
from fx.transforms.jitting import compiled
from fx.transforms.jitting.function import Jitted
from fx.transforms.jitting.short import plan as fast


def planted(monkeypatch, name, other):
    """A pass that takes one primitive for another."""

    def wrong(graph, **options):
        rewriter = Rewriter(graph)
        for node in graph.nodes:
            if node.primitive.name == name:
                rewriter.replace(node.outs[0], rewriter.add(registry[other], *node.inputs))
            else:
                rewriter.keep(node)
        return optimize(rewriter.done(), **options)

    optimize = compiled.optimize
    monkeypatch.setattr(compiled, "optimize", wrong)
    monkeypatch.setattr(fast, "optimize", wrong)


def training(**options):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.3), nn.Linear(4, 2))
    optimizer = fx.optim.Adam(model.parameters(), lr=0.01)

    @fx.jit(**options)
    def step(x, y, n):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * n
        loss.backward()
        optimizer.step()
        return loss, n * 2

    return step, model


def test_a_checked_step_is_the_step_itself():
    results = []
    for options in ({}, {"check": True}):
        fx.manual_seed(0)
        step, model = training(**options)
        x, y = fx.randn(6, 3), fx.tensor([0, 1, 0, 1, 1, 0])
        losses = [step(x, y, n)[0].item() for n in (1.0, 2.0)]
        state = [v.tolist() for v in model.state_dict().values()]
        results.append((losses, state, fx.randn(2).tolist()))
        assert step.cache_size() == 1
    assert results[0] == results[1]


def test_what_the_eager_run_does_to_python_ends_with_it():
    seen = []

    def f(x):
        seen.append(1)
        return x * 2

    g = fx.jit(f, check=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it may run uncompiled
        for _ in range(3):
            g(fx.ones(2))
    assert seen == [1, 1, 1]


def test_handles_that_are_held_are_no_state_of_their_own():
    p = nn.Parameter(fx.ones(2))
    held = p.data, p.data[:1]  # these hold no value: they stand for the parameter

    @fx.jit(check=True)
    def step(x):
        with fx.no_grad():
            p.mul_(2)
        return x * p.detach()

    assert [step(fx.ones(2)).tolist() for _ in range(2)] == [[2.0, 2.0], [4.0, 4.0]]
    assert held[0].tolist() == [4.0, 4.0] and held[1].tolist() == [4.0]


def test_a_wrong_kernel_is_named_with_its_line(monkeypatch):
    def f(x):
        y = fx.exp(x)
        z = fx.sin(y) + 1  # the line
        return (z * x).sum()

    planted(monkeypatch, "sin", "cos")
    with pytest.raises(CheckError) as caught:
        fx.jit(f, check=True)(fx.tensor([0.5, 1.0]))
    said = str(caught.value)
    assert "call 1" in said and "result 0 is" in said and "float32[]" in said
    line = f.__code__.co_firstlineno + 2
    assert f"the first node that differs is sin(float32[2]) at {__file__}:{line}" in said
    assert " compiled, " in said and " eagerly" in said


def test_a_wrong_gradient_of_a_step_is_found(monkeypatch):
    planted(monkeypatch, "rsqrt", "sqrt")
    step, _ = training(check=True)
    with pytest.raises(CheckError, match="the first node that differs is rsqrt"):
        step(fx.randn(6, 3), fx.tensor([0, 1, 0, 1, 1, 0]), 1.0)


def test_state_that_is_not_stored_is_found(monkeypatch):
    count = fx.state.Cell(fx.tensor(1.0), name="count")

    def f(x):
        count.rebind(count.read() * 2)
        return x

    call = Jitted.__call__

    def forgetful(self, *args):
        before = count.value
        try:
            return call(self, *args)
        finally:
            count.value = before

    g = fx.jit(f, check=True)
    monkeypatch.setattr(Jitted, "__call__", forgetful)
    with pytest.raises(CheckError, match=r"cell count is 1.0 compiled, 2.0 eagerly"):
        g(fx.ones(2))


def test_what_is_not_guarded_is_named_with_its_line(monkeypatch):
    hidden = {"by": 2.0}

    def f(x):
        return fx.exp(x) * hidden["by"] - 1

    g = fx.jit(f, check=2)
    g(fx.ones(2))
    monkeypatch.setattr(Jitted, "_serves", lambda self, program, signature: True)
    g.plans = ()
    (known,) = g.programs.values()
    known[0].calls, known[0].plan = 5, known[0].root
    hidden["by"] = 3.0
    with pytest.raises(CheckError) as caught:
        g(fx.ones(2))
    line = f.__code__.co_firstlineno + 1
    assert f"at {__file__}:{line} it does multiply(float32[2], 3.0)" in str(caught.value)


def test_errors_are_compared(monkeypatch):
    def f(x, n):
        if n > 2:
            raise ValueError("too large")
        return x * n

    g = fx.jit(f, check=True)
    assert g(fx.ones(2), 2).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="too large"):
        g(fx.ones(2), 3)


def test_every_nth_call_by_the_environment(monkeypatch):
    monkeypatch.setenv("FX_CHECK", "3")
    g = fx.jit(lambda x: fx.sin(x))
    assert type(fx.jit(lambda x: x, check=False)) is Jitted
    planted(monkeypatch, "sin", "cos")
    x = fx.tensor([0.5])
    assert g(x).tolist() == g(x).tolist()
    with pytest.warns(RuntimeWarning, match=r"call 3 at .*test_check.py"):
        g(x)


def test_without_it_nothing_is_there(monkeypatch):
    monkeypatch.delenv("FX_CHECK", raising=False)
    assert type(fx.jit(lambda x: x)) is Jitted
