"""L-BFGS against torch's: paths, evaluations, state dicts, the pure form."""

import copy

import numpy as np
import pytest

import fx
from fx.optim import pure

torch = pytest.importorskip("torch")

from tests.nn.oracle import close
from tests.optim.cases import start, to_torch

OPTIONS = [
    {},
    {"lr": 0.5, "max_iter": 5},
    {"history_size": 3, "max_iter": 4},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "lr": 8.0, "max_iter": 6, "history_size": 4},
    {"line_search_fn": "strong_wolfe", "lr": 1e-3, "max_eval": 12},
    {"tolerance_grad": 0.5, "max_iter": 3},
    {"tolerance_change": 0.1},
]


def valley(ws, lib):
    """A curved valley, with parameters of several shapes."""
    a, b, c = ws
    x = (a**2).sum() + b.sum() * c - 1
    return (10 * (a - a.sum() / 4) ** 2).sum() + (1 - b).pow(2).sum() + x * x + lib.cosh(c)


def twins(options, dtype="float64"):
    out = []
    for lib in (fx, torch):
        ws = [lib.nn.Parameter(lib.tensor(w)) for w in start([(2, 3), (4,), ()], dtype)]
        out.append((lib, ws, lib.optim.LBFGS(ws, **options)))
    return out


def train(lib, ws, optimizer, steps):
    seen = []

    def closure():
        optimizer.zero_grad()
        loss = valley(ws, lib)
        loss.backward()
        seen.append(loss.item())
        return loss

    for _ in range(steps):
        seen.append(optimizer.step(closure).item())
    return seen


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_path_is_torchs(options):
    ours, theirs = twins(options)
    losses, expected = train(*ours, 3), train(*theirs, 3)
    np.testing.assert_allclose(losses, expected, rtol=1e-6, atol=1e-9)
    for p, q in zip(ours[1], theirs[1]):
        np.testing.assert_allclose(p.numpy(force=True), q.detach().numpy(), rtol=1e-5, atol=1e-7)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("options", OPTIONS[:5], ids=str)
def test_state_goes_both_ways(options):
    ours, theirs = twins({**options, "max_iter": 3})
    train(*ours, 2), train(*theirs, 2)
    state, expected = ours[2].state_dict(), theirs[2].state_dict()
    assert state["state"][0].keys() == expected["state"][0].keys()
    assert state["param_groups"] == expected["param_groups"]
    again, theirs_again = twins(options)
    for mine, other in ((again, ours), (theirs_again, theirs)):
        for p, q in zip(mine[1], other[1]):
            p.data = q.detach().clone()
    again[2].load_state_dict(copy.deepcopy(expected))
    theirs_again[2].load_state_dict(to_torch(state))
    wanted = train(*theirs, 1)
    for one in (ours, again, theirs_again):
        np.testing.assert_allclose(train(*one, 1), wanted, rtol=1e-6, atol=1e-9)


def test_the_pure_form_is_one_iteration_a_step():
    (_, ws, optimizer), _ = twins({"max_iter": 1, "lr": 0.3, "history_size": 4})
    init, update = pure.lbfgs(lr=0.3, history_size=4)
    values = [w.detach() for w in ws]
    state = init(values)
    step = fx.jit(lambda v, s: update(fx.grad(lambda v: valley(v, fx))(v), s, v))
    for _ in range(9):
        train(fx, ws, optimizer, 1)
        values, state = step(values, state)
        for p, x in zip(ws, values):
            close(x, p)
    assert step.cache_size() == 1


def test_a_closure_that_is_jitted_is_compiled_once():
    (_, ws, optimizer), (_, theirs, expected) = twins({"line_search_fn": "strong_wolfe"})

    @fx.jit
    def closure():
        optimizer.zero_grad()
        loss = valley(ws, fx)
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    train(torch, theirs, expected, 2)
    for p, q in zip(ws, theirs):
        np.testing.assert_allclose(p.numpy(force=True), q.detach().numpy(), rtol=1e-5, atol=1e-7)
    assert closure.cache_size() == 1


def test_a_step_inside_a_jitted_function_runs_as_it_is():
    (_, ws, optimizer), theirs = twins({"max_iter": 3})

    @fx.jit
    def step():
        def closure():
            optimizer.zero_grad()
            loss = valley(ws, fx)
            loss.backward()
            return loss

        return optimizer.step(closure)

    with pytest.warns(RuntimeWarning, match="jit what the closure calls"):
        for _ in range(3):
            step()
    train(*theirs, 3)
    for p, q in zip(ws, theirs[1]):
        np.testing.assert_allclose(p.numpy(force=True), q.detach().numpy(), rtol=1e-6)


def test_parameters_without_a_gradient_stay():
    w, idle = fx.nn.Parameter(fx.ones(2)), fx.nn.Parameter(fx.ones(3))
    optimizer = fx.optim.LBFGS([w, idle], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_array_equal(idle.numpy(force=True), 1)
    assert float(w.detach().sum()) < 2


@pytest.mark.parametrize(
    ("use", "kind", "message"),
    [
        (lambda o, p: o.LBFGS([p], lr=-1), ValueError, "Invalid learning rate: -1"),
        (
            lambda o, p: o.LBFGS([{"params": p}, {"params": []}]),
            ValueError,
            "LBFGS doesn't support per-parameter options",
        ),
        (
            lambda o, p: o.LBFGS([p], line_search_fn="newton").step(
                lambda: (s := (p * p).sum(), s.backward(), s)[-1]
            ),
            RuntimeError,
            "only 'strong_wolfe' is supported",
        ),
    ],
)
def test_refusals_are_torchs(use, kind, message):
    for lib in (fx, torch):
        with pytest.raises(kind, match=message):
            use(lib.optim, lib.nn.Parameter(lib.ones(2)))
