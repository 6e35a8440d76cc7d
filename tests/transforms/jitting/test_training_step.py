"""The five-line training step under ``@fx.jit``, unchanged: equal to eager to rounding."""

import numpy as np
import pytest

import fx
import fx.nn as nn
import fx.nn.functional as F
from fx.optim import lr_scheduler

STEPS = 100
OPTIMIZERS = {
    "sgd": lambda p: fx.optim.SGD(p, lr=0.05),
    "momentum": lambda p: fx.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=1e-3),
    "nesterov": lambda p: fx.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: fx.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: fx.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.01),
    "adamw": lambda p: fx.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: fx.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
}
SCHEDULERS = {
    "none": lambda o: None,
    "step": lambda o: lr_scheduler.StepLR(o, 5, 0.5),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 30),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda e: 1.0 if e < 5 else 0.98**e),
}
MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 4)),
    "norm": lambda: nn.Sequential(
        nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4)
    ),
    "conv": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 4)) if hasattr(nn, "Unflatten") else _Image(),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 4),
    ),
}


class _Image(nn.Module):
    def forward(self, x):
        return x.reshape(-1, 1, 2, 4)


class Script:
    """A script: model, optimizer, scheduler, data, all from one seed; in float64."""

    def __init__(self, model, optimizer, scheduler, inside=True):
        fx.manual_seed(0)
        self.model = MODELS[model]().to(fx.float64)
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.scheduler = SCHEDULERS[scheduler](self.optimizer)
        self.x = fx.randn(12, 8, dtype=fx.float64)
        self.y = fx.randint(0, 4, (12,))
        self.runs = 0
        self.inside = inside

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        if self.inside and self.scheduler is not None:
            self.scheduler.step()
        return loss

    def train(self, step):
        losses = []
        for _ in range(STEPS):
            losses.append(step(self.x, self.y).item())
            if not self.inside and self.scheduler is not None:
                self.scheduler.step()
        return losses

    def state(self):
        held = list(self.model.parameters()) + list(self.model.buffers())
        held += [p.grad for p in self.model.parameters()]
        slots = self.optimizer.state_dict()["state"]
        held += [v for s in slots.values() for v in s.values() if v is not None]
        return [x.detach().numpy() for x in held], self.optimizer.param_groups[0]["lr"]


def compare(one, other, losses, wanted):
    np.testing.assert_allclose(losses, wanted, rtol=1e-8)
    (held, rate), (expected, wanted_rate) = one.state(), other.state()
    assert rate == wanted_rate
    assert len(held) == len(expected)
    for a, b in zip(held, expected):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_a_jitted_step_is_the_eager_one(model, optimizer):
    eager, jitted = Script(model, optimizer, "none"), Script(model, optimizer, "none")
    fx.manual_seed(1)
    wanted = eager.train(eager.step)
    fx.manual_seed(1)
    step = fx.jit(jitted.step)
    losses = jitted.train(step)
    compare(jitted, eager, losses, wanted)
    assert losses[-1] < losses[0]
    assert sum(len(p) for p in step.programs.values()) == 1


@pytest.mark.parametrize("scheduler", [s for s in SCHEDULERS if s != "none"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_scheduler_is_never_a_reason_to_compile_again(scheduler, inside):
    eager, jitted = (Script("mlp", "adam", scheduler, inside) for _ in range(2))
    fx.manual_seed(1)
    wanted = eager.train(eager.step)
    fx.manual_seed(1)
    step = fx.jit(jitted.step)
    compare(jitted, eager, jitted.train(step), wanted)
    assert jitted.scheduler.last_epoch == STEPS
    assert type(jitted.optimizer.param_groups[0]["lr"]) is float
    assert sum(len(p) for p in step.programs.values()) == 1


def test_hyperparameters_that_change_are_inputs():
    eager, jitted = (Script("mlp", "momentum", "none") for _ in range(2))
    step = fx.jit(jitted.step)
    losses = []
    for script, run in ((eager, eager.step), (jitted, step)):
        fx.manual_seed(1)
        found = []
        for i in range(20):
            group = script.optimizer.param_groups[0]
            group["lr"], group["momentum"], group["weight_decay"] = (
                0.1 / (i + 1),
                0.5 + i / 50,
                1e-3 * (i + 1),
            )
            found.append(run(script.x, script.y).item())
        losses.append(found)
    compare(jitted, eager, losses[1], losses[0])
    assert sum(len(p) for p in step.programs.values()) == 1


def test_gradients_accumulate_across_calls():
    """Without zero_grad the gradients of earlier calls are inputs: None at first, then tensors."""
    results = []
    for wrap in (lambda f: f, fx.jit):
        fx.manual_seed(0)
        model = nn.Linear(3, 2)
        x = fx.randn(5, 3)

        def backward(x, model=model):
            loss = (model(x) ** 2).sum()
            loss.backward()
            return loss

        run = wrap(backward)
        for _ in range(4):
            run(x)
        first = model.weight.grad.numpy().copy()
        model.zero_grad()
        run(x)
        results.append((first, model.weight.grad.numpy().copy()))
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_parameters_are_updated_in_their_own_memory_unless_somebody_holds_them():
    script = Script("mlp", "sgd", "none")
    step = fx.jit(script.step)
    for _ in range(3):
        step(script.x, script.y)
    weight = script.model[0].weight
    before = weight.detach().numpy().ctypes.data
    step(script.x, script.y)
    assert weight.detach().numpy().ctypes.data == before
    held = weight.detach()
    values = held.numpy().copy()
    step(script.x, script.y)
    np.testing.assert_array_equal(held.numpy(), values)
    assert not np.array_equal(weight.detach().numpy(), values)
    read = weight.read()  # the tensor itself, so that another takes its place
    step(script.x, script.y)
    assert weight.read() is not read
    script.optimizer.zero_grad()
    script.model(script.x).sum().backward()  # which the other is a leaf for as well
    assert weight.requires_grad and weight.grad is not None


def test_gradients_that_somebody_holds_keep_their_values():
    script = Script("mlp", "sgd", "none")
    step = fx.jit(script.step)
    step(script.x, script.y)
    step(script.x, script.y)
    held = script.model[0].weight.grad
    values = held.numpy().copy()
    step(script.x, script.y)
    np.testing.assert_array_equal(held.numpy(), values)


def test_a_gradient_with_history_is_replaced_by_one_without():
    script = Script("mlp", "sgd", "none")
    step = fx.jit(script.step)
    for _ in range(2):
        step(script.x, script.y)
    script.optimizer.zero_grad()
    (script.model(script.x) ** 2).sum().backward(create_graph=True)
    gradients = [p.grad for p in script.model.parameters()]
    assert all(g.requires_grad for g in gradients)
    del gradients  # nobody holds them but the parameters
    step(script.x, script.y)
    assert not any(p.grad.requires_grad for p in script.model.parameters())


def test_train_and_eval_are_two_programs():
    fx.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    predict = fx.jit(lambda x: model(x))
    x = fx.ones((2, 4))
    assert (predict(x) == 0).any()
    model.eval()
    assert not (predict(x) == 0).any()
    np.testing.assert_allclose(predict(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-6)


def test_a_compiled_module_trains_from_outside():
    grads = []
    for compiled in (False, True):
        fx.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        if compiled:
            model.compile()
        x = fx.randn(6, 3)
        for _ in range(2):
            model.zero_grad()
            model(x).square().mean().backward()
        grads.append([p.grad.numpy() for p in model.parameters()])
    for a, b in zip(*grads):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_dropout_draws_the_same_numbers_as_eager():
    drop = nn.Dropout(0.5)
    x = fx.ones(1000)
    fx.manual_seed(3)
    wanted = [drop(x).numpy() for _ in range(3)]
    fx.manual_seed(3)
    jitted = fx.jit(lambda x: drop(x))
    for w in wanted:
        np.testing.assert_array_equal(jitted(x).numpy(), w)


def test_the_pure_style():
    from fx.optim import pure

    init, update = pure.adam(lr=0.05)
    x = fx.from_numpy(np.random.default_rng(0).normal(size=(16, 3)))
    y = x @ fx.tensor([1.0, -2.0, 0.5], dtype=fx.float64)

    def loss(params, x, y):
        return ((x @ params["w"] + params["b"] - y) ** 2).mean()

    def step(params, state, x, y):
        value, grads = fx.value_and_grad(loss)(params, x, y)
        params, state = update(grads, state, params)
        return params, state, value

    start = {"w": fx.zeros(3, dtype=fx.float64), "b": fx.zeros((), dtype=fx.float64)}
    found = []
    for run in (step, fx.jit(step)):
        params, state = start, init(start)
        for _ in range(50):
            params, state, value = run(params, state, x, y)
        found.append((params["w"].numpy(), params["b"].item(), value.item()))
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-9)


CLEARING = {
    "before": lambda o, p, loss: (o.zero_grad(), loss())[1],
    "after": lambda o, p, loss: (loss(), o.zero_grad())[0],
    "by hand": lambda o, p, loss: (setattr(p, "grad", None), loss())[1],
    "to zeros": lambda o, p, loss: (o.zero_grad(set_to_none=False), loss())[1],
    "before a pass": lambda o, p, loss: (o.zero_grad(), loss().backward())[0],
    "after a pass": lambda o, p, loss: (loss().backward(), o.zero_grad())[1],
    "after a step": lambda o, p, loss: (loss().backward(), o.step(), o.zero_grad())[2],
    "asked for": lambda o, p, loss: loss() * (2 if p.grad is None else 3),
    "used": lambda o, p, loss: loss() if p.grad is None else (p.grad * p.detach()).sum(),
}


@pytest.mark.parametrize("name", CLEARING)
def test_gradients_that_are_there_are_cleared(name):
    """Those of passes outside of the function, which it does not look at, too."""
    found = []
    for wrap in (lambda f: f, fx.jit):
        p = nn.Parameter(fx.tensor([1.0, 2.0]))
        optimizer, told = fx.optim.SGD([p], lr=0.5), []
        function = wrap(lambda: CLEARING[name](optimizer, p, lambda: (p * p).sum()))  # noqa: B023
        for there in (*[False] * 3, *[True] * 4, False, True, "with its history", True, False):
            if there:
                (p**3).sum().backward(create_graph=there == "with its history")
            out = function()
            told.append((p.grad if p.grad is None else p.grad.tolist(), p.tolist()))
            if out is not None:
                told.append((out.requires_grad, out.tolist()))
            if name in ("asked for", "used") and there is True:
                p.grad = None
        found.append(told)
    assert found[0] == found[1]
