"""Optimizers against torch's over twenty steps: options, dtypes, groups, jit, and refusals."""

import warnings

import numpy as np
import pytest

import fx

torch = pytest.importorskip("torch")


from tests.nn.oracle import arrays, close
from tests.optim.cases import (
    CASES,
    MATRICES,
    advance,
    fx_loss,
    pair,
    pure_of,
    shapes_of,
    start,
    torch_loss,
)

START = start()
ONE_EACH = list({name: (name, options) for name, options in CASES + MATRICES}.values())
NAMES = list(dict.fromkeys(name for name, _ in CASES))


@pytest.mark.parametrize(("name", "options"), CASES + MATRICES, ids=str)
def test_twenty_steps_are_torchs(name, options):
    ours, theirs, a, b = pair(name, options)
    for step in range(20):
        advance(a, ours, fx_loss, 1, step)
        advance(b, theirs, torch_loss, 1, step)
        for p, q in zip(ours, theirs):
            close(p, q, f"after step {step}")
    state, expected = a.state_dict(), b.state_dict()
    assert state["param_groups"] == expected["param_groups"]
    assert list(state["param_groups"][0]) == list(expected["param_groups"][0])
    assert list(state["state"]) == list(expected["state"])
    for number, held in expected["state"].items():
        assert list(state["state"][number]) == list(held)
        for key, value in held.items():
            close(state["state"][number][key], value, key)


def test_sparse_adam_is_torchs_with_sparse_gradients():
    ours = [fx.nn.Parameter(fx.tensor(a)) for a in start([(5, 3), (4,)])]
    theirs = [torch.nn.Parameter(torch.tensor(a)) for a in start([(5, 3), (4,)])]
    for options in ({"lr": 0.1}, {"betas": (0.5, 0.6), "eps": 1e-2, "maximize": True}):
        a, b = fx.optim.SparseAdam(ours, **options), torch.optim.SparseAdam(theirs, **options)
        for step in range(8):
            for p, q, g in zip(ours, theirs, start([(5, 3), (4,)], seed=step)):
                g[step % 3] = 0  # rows that a sparse gradient does not name
                g[3] = 0 if step % 2 else g[3]
                p.grad, q.grad = fx.tensor(g), torch.tensor(g).to_sparse(1)
            a.step(), b.step()
            for p, q in zip(ours, theirs):
                close(p, q)
        state, expected = a.state_dict(), b.state_dict()
        assert state["param_groups"] == expected["param_groups"]
        for number, held in expected["state"].items():
            assert state["state"][number]["step"] == held["step"] and type(held["step"]) is int
            close(state["state"][number]["exp_avg_sq"], held["exp_avg_sq"])


@pytest.mark.parametrize(("name", "options"), CASES + MATRICES, ids=str)
def test_the_pure_form_makes_the_same_steps(name, options):
    ours, _, optimizer, _ = pair(name, options)
    init, update = pure_of(name)(**options)
    values = [fx.tensor(a) for a in start(shapes_of(name))]
    params = {"w": values[0], "more": values[1:]}
    state = init(params)
    for step in range(5):
        grads = fx.grad(lambda p: fx_loss([p["w"], *p["more"]], step))(params)  # noqa: B023
        params, state = update(grads, state, params)
    advance(optimizer, ours, fx_loss, 5)
    for x, p in zip([params["w"], *params["more"]], ours):
        np.testing.assert_allclose(x.numpy(), p.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize(("name", "options"), ONE_EACH, ids=str)
def test_a_jitted_step_is_the_eager_one_and_compiled_once(name, options):
    ours, _, eager, _ = pair(name, options)
    staged, _, optimizer, _ = pair(name, options)

    @fx.jit
    def step():
        optimizer.zero_grad()
        loss = fx_loss(staged, 1)
        loss.backward()
        optimizer.step()
        return loss

    for i in range(6):
        for o in (eager, optimizer):
            o.param_groups[0]["lr"] = 0.1 / (i + 1)
        step()
        eager.zero_grad()
        fx_loss(ours, 1).backward()
        eager.step()
    for p, q in zip(ours, staged):
        close(q, p)
    assert step.cache_size() == 1


@pytest.mark.parametrize(("name", "options"), ONE_EACH, ids=str)
def test_a_whole_training_inside_vmap_and_jit(name, options):
    """Parameters and state that the function makes itself begin anew in every call and lane."""

    def train(w):
        p = fx.nn.Parameter(w)
        optimizer = getattr(fx.optim, name)([p], **options)
        for step in range(2):
            advance(optimizer, [p], fx_loss, 1, step)
        return p.detach()

    lanes = fx.tensor(arrays((3, 4, 2))[0])
    expected = [train(lanes[i]) for i in range(3)]
    jitted = fx.jit(train)
    for mapped in (fx.vmap(train)(lanes), fx.jit(fx.vmap(train))(lanes), map(jitted, lanes)):
        for x, y in zip(mapped, expected, strict=True):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", [*NAMES, "Muon", "SparseAdam"])
def test_dtypes_stay(name, dtype):
    p = fx.nn.Parameter(fx.ones((3, 2), dtype=dtype))
    optimizer = getattr(fx.optim, name)([p], lr=2.0)
    (p * p).sum().backward()
    optimizer.step()
    assert p.dtype == dtype and float(p[0, 0]) < 1
    counts = ("step", "mu_product", "eta", "mu")
    slots = optimizer.state[p]
    assert all(v.dtype == ("float32" if k in counts else dtype) for k, v in slots.items())


@pytest.mark.parametrize("name", [*NAMES, "Muon"])
def test_float32_steps_are_torchs_to_rounding(name):
    ours, theirs, a, b = pair(name, {"lr": 0.01}, "float32")
    advance(a, ours, fx_loss, 10)
    advance(b, theirs, torch_loss, 10)
    for p, q in zip(ours, theirs):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [*NAMES, "Muon"])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_learning_rate_that_is_a_tensor(name, shape):
    ours, theirs, _, _ = pair(name, {}, "float32")
    a = getattr(fx.optim, name)(ours, lr=fx.full(shape, 0.05, dtype=fx.float64))
    b = getattr(torch.optim, name)(theirs, lr=0.05)
    advance(a, ours, fx_loss, 3)
    advance(b, theirs, torch_loss, 3)
    for p, q in zip(ours, theirs):
        assert p.dtype == fx.float32
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_betas_that_are_tensors():
    ours, theirs, _, _ = pair("Adam", {})
    a = fx.optim.Adam(ours, lr=0.1, betas=(fx.tensor(0.75), fx.tensor(0.5)))
    b = torch.optim.Adam(theirs, lr=0.1, betas=(0.75, 0.5))
    advance(a, ours, fx_loss, 3)
    advance(b, theirs, torch_loss, 3)
    for p, q in zip(ours, theirs):
        close(p, q)


@pytest.mark.parametrize("name", ["Adam", "NAdam", "Rprop", "OneCycle"])
def test_numbers_in_tuples_are_no_reason_to_compile_again(name):
    w = fx.nn.Parameter(fx.ones(3))
    optimizer = getattr(fx.optim, "Adam" if name == "OneCycle" else name)([w], lr=0.1)
    scheduler = fx.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, 20) if name == "OneCycle" else None
    key = "etas" if name == "Rprop" else "betas"

    @fx.jit
    def step():
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()

    for i in range(6):
        if scheduler is None:
            optimizer.param_groups[0][key] = (0.9 - i / 10, 1.5 if name == "Rprop" else 0.9)
        step()
    assert step.cache_size() == 1


# groups -----------------------------------------------------------------------------------------


def test_groups_with_options_of_their_own():
    def run(nn, optim, tensor, loss):
        ws = [nn.Parameter(tensor(a)) for a in START]
        optimizer = optim.SGD(
            [{"params": [ws[0]]}, {"params": ws[1], "lr": 0.01, "momentum": 0.9}], lr=0.1
        )
        optimizer.add_param_group({"params": [ws[2]], "weight_decay": 0.5})
        advance(optimizer, ws, loss, 5)
        return ws, repr(optimizer)

    ours, shown = run(fx.nn, fx.optim, fx.tensor, fx_loss)
    theirs, expected = run(torch.nn, torch.optim, torch.tensor, torch_loss)
    assert shown == expected
    for p, q in zip(ours, theirs):
        close(p, q)


def test_groups_are_all_with_names_or_all_without():
    for lib in (fx, torch):
        a, b = (lib.nn.Parameter(lib.ones(1)) for _ in range(2))
        optimizer = lib.optim.SGD([("a", a)])
        with pytest.raises(ValueError, match="cannot add param group without names"):
            optimizer.add_param_group({"params": [b]})
        with pytest.raises(ValueError, match="Some param names are missing"):
            lib.optim.SGD([("a", a), b])
        optimizer.add_param_group({"params": [("b", b)], "lr": 0.5})
        assert [g["param_names"] for g in optimizer.param_groups] == [["a"], ["b"]]


def test_named_parameters_and_parameters_without_a_gradient():
    model = fx.nn.Linear(2, 2)
    optimizer = fx.optim.Adam(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    before = model.bias.detach().numpy()
    model.weight.sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(model.bias.detach().numpy(), before)
    assert model.bias not in optimizer.state and model.weight in optimizer.state


def test_parameters_that_begin_late_count_their_own_steps():
    def run(nn, optim, tensor, loss):
        ws = [nn.Parameter(tensor(a)) for a in START]
        optimizer = optim.Adam(ws, lr=0.1)
        advance(optimizer, ws[:1], loss, 3)
        advance(optimizer, ws, loss, 3, start=3)
        return ws

    for p, q in zip(
        run(fx.nn, fx.optim, fx.tensor, fx_loss),
        run(torch.nn, torch.optim, torch.tensor, torch_loss),
    ):
        close(p, q)


def test_step_with_a_closure_records_and_returns_the_loss():
    p = fx.nn.Parameter(fx.tensor([1.0]))
    optimizer = fx.optim.SGD([p], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with fx.no_grad():
        assert float(optimizer.step(closure)) == 1.0
    assert float(p) == 0.5


def test_zero_grad_drops_or_zeroes():
    p = fx.nn.Parameter(fx.ones(2))
    optimizer = fx.optim.SGD([p])
    p.sum().backward()
    optimizer.zero_grad(set_to_none=False)
    np.testing.assert_array_equal(p.grad.numpy(), [0, 0])
    optimizer.zero_grad()
    assert p.grad is None


def test_a_step_rebinds_and_writes_into_nothing():
    p = fx.nn.Parameter(fx.ones(2))
    before, array = p.detach(), p.detach().numpy()
    optimizer = fx.optim.SGD([p], lr=1.0, momentum=0.9)
    p.sum().backward()
    gradient = p.grad
    optimizer.step()
    np.testing.assert_array_equal(before.numpy(), [1, 1])
    np.testing.assert_array_equal(array, [1, 1])
    np.testing.assert_array_equal(gradient.numpy(), [1, 1])
    assert p.is_leaf and p.requires_grad and p.grad is gradient


class Signs(fx.optim.Optimizer):
    """An optimizer of a user's own, as PyTorch users write them."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    def step(self, closure=None):
        with fx.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        state["steps"] = 0
                        state["mean"] = fx.zeros_like(p)
                    state["steps"] += 1
                    state["mean"] = 0.5 * state["mean"] + p.grad
                    p.add_(fx.sign(state["mean"]), alpha=-group["lr"])


def test_an_optimizer_of_ones_own():
    model = fx.nn.Linear(2, 1)
    optimizer = Signs(model.parameters())
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    scheduler = fx.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    before = model.weight.detach().numpy().copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            optimizer.zero_grad()
            model(fx.ones((1, 2))).sum().backward()
            optimizer.step()
            scheduler.step()
    # near nothing what is subtracted rounds
    np.testing.assert_allclose(model.weight.detach().numpy(), before - 0.15, rtol=1e-5, atol=1e-7)
    other = Signs(fx.nn.Linear(2, 1).parameters())
    other.load_state_dict(optimizer.state_dict())
    assert other.state[other.param_groups[0]["params"][0]]["steps"] == 2 and len(seen) == 2


def test_the_base_class_has_no_step():
    optimizer = fx.optim.Optimizer([fx.nn.Parameter(fx.ones(1))], {})
    with pytest.raises(NotImplementedError, match="Optimizer must define step"):
        optimizer.step()
