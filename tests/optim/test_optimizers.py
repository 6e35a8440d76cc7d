"""Optimizers against torch's over twenty steps, their pure forms, state dicts and refusals."""

import copy
import pickle

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, StateError
from fx.optim import pure

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, close
from tests.optim.cases import CASES, advance, fx_loss, pair, pure_of, start, torch_loss

START = start()


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_twenty_steps_are_torchs(name, options):
    ours, theirs, a, b = pair(name, options)
    advance(a, ours, fx_loss, 20)
    advance(b, theirs, torch_loss, 20)
    for p, q in zip(ours, theirs):
        close(p, q)
    state, expected = a.state_dict(), b.state_dict()
    assert state["param_groups"] == expected["param_groups"]
    assert state["state"].keys() == expected["state"].keys()
    for number, held in expected["state"].items():
        for key, value in held.items():
            if value is not None:
                close(state["state"][number][key], value, key)


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_the_pure_form_makes_the_same_steps(name, options):
    ours, _, optimizer, _ = pair(name, options)
    init, update = pure_of(name)(**options)
    params = {"w": fx.tensor(START[0]), "more": [fx.tensor(a) for a in START[1:]]}
    state = init(params)
    for step in range(5):
        grads = fx.grad(lambda p: fx_loss([p["w"], *p["more"]], step))(params)  # noqa: B023
        params, state = update(grads, state, params)
    advance(optimizer, ours, fx_loss, 5)
    for x, p in zip([params["w"], *params["more"]], ours):
        np.testing.assert_allclose(x.numpy(), p.detach().numpy(), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_dtypes_stay(name, dtype):
    p = fx.nn.Parameter(fx.ones(3, dtype=dtype))
    optimizer = getattr(fx.optim, name)([p], lr=0.1)
    (p * p).sum().backward()
    optimizer.step()
    assert p.dtype == dtype and float(p[0]) < 1
    slots = optimizer.state[p]
    assert all(v.dtype == ("float32" if k == "step" else dtype) for k, v in slots.items())


def test_float32_steps_are_torchs_to_rounding():
    ours, theirs, a, b = pair("Adam", {"lr": 0.01}, "float32")
    advance(a, ours, fx_loss, 20)
    advance(b, theirs, torch_loss, 20)
    for p, q in zip(ours, theirs):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-6, atol=1e-6)


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


# state dicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_resuming_from_a_state_dict(name, options):
    ours, _, optimizer, _ = pair(name, options)
    advance(optimizer, ours, fx_loss, 4)
    saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
    again = [fx.nn.Parameter(p.detach()) for p in ours]
    other = getattr(fx.optim, name)(again, lr=123.0)
    other.load_state_dict(saved)
    advance(optimizer, ours, fx_loss, 4, start=4)
    advance(other, again, fx_loss, 4, start=4)
    for p, q in zip(ours, again):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_going_on_from_torchs_state(name, options):
    ours, theirs, a, b = pair(name, options)
    advance(b, theirs, torch_loss, 4)
    saved = copy.deepcopy(b.state_dict())
    for held in saved["state"].values():
        held.update((k, v.numpy()) for k, v in held.items() if v is not None)
    for p, q in zip(ours, theirs):
        p.data = fx.tensor(q.detach().numpy())
    a.load_state_dict(saved)
    advance(a, ours, fx_loss, 4, start=4)
    advance(b, theirs, torch_loss, 4, start=4)
    for p, q in zip(ours, theirs):
        close(p, q)


def test_a_state_dict_is_a_snapshot():
    ours, _, optimizer, _ = pair("Adam", {})
    advance(optimizer, ours, fx_loss, 1)
    saved = optimizer.state_dict()
    before = saved["state"][0]["exp_avg"].numpy().copy()
    advance(optimizer, ours, fx_loss, 2)
    np.testing.assert_array_equal(saved["state"][0]["exp_avg"].numpy(), before)


def test_what_loading_refuses():
    p = fx.nn.Parameter(fx.ones(2))
    optimizer = fx.optim.Adam([p])
    saved = optimizer.state_dict()
    with pytest.raises(StateError, match="a different number of parameter groups: 2"):
        optimizer.load_state_dict({**saved, "param_groups": saved["param_groups"] * 2})
    two = [{**saved["param_groups"][0], "params": [0, 1]}]
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimizer.load_state_dict({**saved, "param_groups": two})
    with pytest.raises(StateError, match=r"holds exp_avg of shape \(3,\) for a parameter of shape"):
        optimizer.load_state_dict({**saved, "state": {0: {"exp_avg": np.ones(3, "float32")}}})


# refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda o, p: o.SGD([]), ValueError, "optimizer got an empty parameter list"),
        (lambda o, p: o.SGD(p), TypeError, r"one tensor; write \[parameter\]"),
        (lambda o, p: o.SGD([fx.ones(1)]), TypeError, r"write w = fx.nn.Parameter\(w\)"),
        (lambda o, p: o.SGD(["w"]), TypeError, "can only optimize Parameters"),
        (lambda o, p: o.SGD([p, p]), ValueError, "more than one parameter group"),
        (lambda o, p: o.SGD([{"params": {p}}]), TypeError, "ordered collections"),
        (lambda o, p: o.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1; SGD takes"),
        (lambda o, p: o.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda o, p: o.SGD([p], differentiable=True), ValueError, "use fx.optim.pure"),
        (
            lambda o, p: o.Adam([p], betas=(1.0, 0.9)),
            ValueError,
            "Invalid beta parameter at index 0: 1.0; Adam",
        ),
        (lambda o, p: o.RMSprop([p], eps=-1.0), ValueError, "Invalid epsilon value: -1.0; RMSprop"),
        (lambda o, p: pure.adam(lr=-1.0), ValueError, "Invalid learning rate: -1.0; Adam"),
        (lambda o, p: pure.sgd().init(fx.tensor([1])), DTypeError, "keep integers out of params"),
    ],
)
def test_what_optimizers_refuse(make, kind, message):
    with pytest.raises(kind, match=message):
        make(fx.optim, fx.nn.Parameter(fx.ones(1)))


# pure forms under transforms --------------------------------------------------------------------


def test_the_gradient_passes_through_pure_steps():
    """The derivative of a loss after three steps with respect to the learning rate."""

    def after(lr):
        init, update = pure.sgd(lr=lr, momentum=0.9)
        w = fx.tensor([1.0, -2.0], dtype=fx.float64)
        state = init(w)
        for _ in range(3):
            w, state = update(fx.grad(lambda w: fx.tanh(w * w).sum())(w), state, w)
        return (w * w).sum()

    lr = fx.tensor(0.1, dtype=fx.float64)
    slope = (after(lr + 1e-6) - after(lr - 1e-6)) / 2e-6
    np.testing.assert_allclose(fx.grad(after)(lr).numpy(), slope.numpy(), rtol=1e-7)


def test_pure_steps_of_an_ensemble_under_vmap():
    init, update = pure.adam(lr=0.1)
    ws = fx.tensor(arrays((3, 4))[0])

    def run(w):
        state = init(w)
        for _ in range(3):
            w, state = update(fx.grad(lambda w: fx.cos(w).sum())(w), state, w)
        return w

    mapped = fx.vmap(run)(ws)
    for i in range(3):
        np.testing.assert_allclose(mapped[i].numpy(), run(ws[i]).numpy(), rtol=1e-12)


def test_a_module_is_a_tree_of_parameters():
    model = fx.nn.Linear(3, 2)
    init, update = pure.adam(lr=0.1)
    x = fx.ones((4, 3))
    state, params = init(model), model
    for _ in range(5):
        gradient = fx.grad(lambda m: (m(x) ** 2).sum())(params)
        params, state = update(gradient, state, params)
    assert type(params) is fx.nn.Linear and float(state.step) == 5
    assert float((params(x) ** 2).sum()) < float((model(x) ** 2).sum())


# schedulers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("StepLR", (3, 0.5)),
        ("CosineAnnealingLR", (7, 0.01)),
        ("LambdaLR", (lambda epoch: 0.9**epoch,)),
        ("LambdaLR", ([lambda epoch: 0.9**epoch, lambda epoch: 1 / (1 + epoch)],)),
    ],
    ids=["step", "cosine", "lambda", "lambdas"],
)
def test_schedulers_are_torchs(name, args):
    def run(nn, module, ones):
        groups = [
            {"params": [nn.Parameter(ones(1))]},
            {"params": [nn.Parameter(ones(1))], "lr": 0.3},
        ]
        optimizer = module.SGD(groups, lr=0.1)
        scheduler = getattr(module.lr_scheduler, name)(optimizer, *args)
        seen = [scheduler.get_last_lr()]
        for _ in range(20):
            optimizer.step()
            scheduler.step()
            seen.append(scheduler.get_last_lr())
        assert [g["lr"] for g in optimizer.param_groups] == seen[-1]
        return seen

    np.testing.assert_allclose(
        run(fx.nn, fx.optim, fx.ones), run(torch.nn, torch.optim, torch.ones), rtol=1e-12
    )


def test_a_scheduler_goes_on_from_its_state():
    def make():
        optimizer = fx.optim.SGD([fx.nn.Parameter(fx.ones(1))], lr=1.0)
        return optimizer, fx.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    optimizer, scheduler = make()
    for _ in range(4):
        scheduler.step()
    other, resumed = make()
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(scheduler.state_dict())
    for _ in range(4):
        scheduler.step(), resumed.step()
    assert scheduler.get_last_lr() == resumed.get_last_lr()
    assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def test_what_schedulers_refuse():
    optimizer = fx.optim.SGD([fx.nn.Parameter(fx.ones(1))], lr=1.0)
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        fx.optim.lr_scheduler.StepLR(3, 1)
    with pytest.raises(KeyError, match="initial_lr"):
        fx.optim.lr_scheduler.StepLR(optimizer, 1, last_epoch=3)
    with pytest.raises(ValueError, match="Expected 1 lr_lambdas, but got 2"):
        fx.optim.lr_scheduler.LambdaLR(optimizer, [abs, abs])
