"""Pure optimizers: chains, wrappers, schedules; under jit, vmap, scan and grad."""

from functools import partial

import numpy as np
import pytest

import fx
from fx.errors import TreeError
from fx.optim import pure
from fx.optim.pure import schedules

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, close
from tests.optim.cases import CASES, advance, fx_loss, pair, pure_of, start

SHAPES = [(3, 4), (4,)]
FIRST = list({name: (name, options) for name, options in reversed(CASES)}.values())
FIRST += [("SparseAdam", {"lr": 0.1}), ("Muon", {"lr": 0.1}), ("LBFGS", {"lr": 0.1})]


def loss_of(params):
    return fx_loss([params["w"], *params["more"]], 1)


def tree_of(shapes=SHAPES, dtype="float64"):
    w, *more = map(fx.tensor, start(shapes, dtype))
    return {"w": w, "more": more}


def make(name, options):
    return pure_of(name)(**options), tree_of([(3, 4), (2, 2)] if name == "Muon" else SHAPES)


def train(optimizer, params, steps=4):
    state = optimizer.init(params)
    for _ in range(steps):
        params, state = optimizer.update(fx.grad(loss_of)(params), state, params)
    return params, state


def same(a, b, rtol=1e-12):
    one, other = fx.tree.leaves(a), fx.tree.leaves(b)
    assert len(one) == len(other)
    for x, y in zip(one, other):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=rtol, atol=1e-14)


@pytest.mark.parametrize(("name", "options"), FIRST, ids=str)
def test_jit_makes_the_same_steps(name, options):
    optimizer, params = make(name, options)
    expected = train(optimizer, params)
    step = fx.jit(lambda p, s: optimizer.update(fx.grad(loss_of)(p), s, p))
    now, state = params, optimizer.init(params)
    for _ in range(4):
        now, state = step(now, state)
    same((now, state), expected, rtol=1e-9)
    assert step.cache_size() == 1


@pytest.mark.parametrize(("name", "options"), FIRST, ids=str)
def test_scan_makes_the_same_steps(name, options):
    optimizer, params = make(name, options)

    def body(carry, _):
        p, s = carry
        return optimizer.update(fx.grad(loss_of)(p), s, p), None

    scanned, _ = fx.scan(body, (params, optimizer.init(params)), None, length=3)
    same(scanned, train(optimizer, params, 3), rtol=1e-9)


@pytest.mark.parametrize(("name", "options"), FIRST, ids=str)
def test_lanes_are_runs_of_their_own(name, options):
    optimizer, params = make(name, options)
    lanes = fx.tree.map(lambda x: fx.stack([x, x * 0.5, -x]), params)
    mapped = fx.vmap(lambda p: train(optimizer, p, 3)[0])(lanes)
    for i in range(3):
        alone = train(optimizer, fx.tree.map(lambda x: x[i], lanes), 3)[0]  # noqa: B023
        same(fx.tree.map(lambda x: x[i], mapped), alone, rtol=1e-9)  # noqa: B023


# signs and numbers that are kept in bfloat16 or float32 hide the slope from differences
ROUNDED = ("Rprop", "Muon", "ASGD", "LBFGS")


@pytest.mark.parametrize(("name", "options"), [c for c in FIRST if c[0] not in ROUNDED], ids=str)
def test_derivatives_with_respect_to_the_learning_rate(name, options):
    params = tree_of()

    def after(lr):
        now, _ = train(pure_of(name)(**{**options, "lr": lr}), params, 3)
        return loss_of(now)

    lr = fx.tensor(0.05, dtype=fx.float64)
    slope = (after(lr + 1e-6) - after(lr - 1e-6)) / 2e-6
    np.testing.assert_allclose(fx.grad(after)(lr).numpy(), slope.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["adam", "adafactor", "asgd", "nadam"])
def test_float32_and_a_float64_learning_rate(name):
    optimizer = getattr(pure, name)(lr=fx.tensor([0.1], dtype=fx.float64))
    params, _ = train(optimizer, tree_of(dtype="float32"))
    expected, _ = train(getattr(pure, name)(lr=0.1), tree_of(dtype="float32"))
    same(params, expected, rtol=1e-6)


# chains -----------------------------------------------------------------------------------------


def test_a_chain_is_what_torch_does_by_hand():
    optimizer = pure.chain(
        pure.add_decayed_weights(0.1), pure.clip_by_global_norm(1.0), pure.adam(lr=0.1)
    )
    ours, _ = train(optimizer, tree_of())
    ps = [torch.nn.Parameter(torch.tensor(a)) for a in start(SHAPES)]
    adam = torch.optim.Adam(ps, lr=0.1)
    for _ in range(4):
        adam.zero_grad()
        sum((torch.tanh(w * 2.0) * w + torch.sin(3 * w + 1)).sum() for w in ps).backward()
        for p in ps:
            p.grad += 0.1 * p.detach()
        torch.nn.utils.clip_grad_norm_(ps, 1.0)
        adam.step()
    for x, p in zip(fx.tree.leaves([ours["w"], ours["more"]]), ps):
        np.testing.assert_allclose(x.numpy(), p.detach().numpy(), rtol=1e-5)


def test_a_chain_without_an_optimizer_is_a_transform():
    inner = pure.chain(pure.clip(1.0), pure.scale(2.0))
    assert isinstance(inner, pure.Transform)
    grads, _ = inner.update(fx.tensor([5.0, -0.5]), inner.init(None), None)
    np.testing.assert_array_equal(grads.numpy(), [2.0, -1.0])
    assert isinstance(pure.chain(inner, pure.sgd()), pure.Pure)


def test_zero_gradients_are_not_clipped():
    clip = pure.clip_by_global_norm(1.0)
    zeros = {"a": fx.zeros(2), "b": fx.zeros(())}
    grads, _ = clip.update(zeros, (), None)
    same(grads, zeros)
    for at in ([0.0, 0.0], [0.1, 0.2]):
        slope = fx.grad(lambda x: clip.update({"a": x}, (), None)[0]["a"].sum())(fx.tensor(at))
        np.testing.assert_allclose(slope.numpy(), [1.0, 1.0])


def test_scale_follows_the_steps():
    optimizer = pure.chain(pure.scale(lambda count: 1.0 / (1 + count)), pure.sgd(lr=1.0))
    w, state = fx.tensor([0.0]), None
    state = optimizer.init(w)
    for _ in range(3):
        w, state = optimizer.update(fx.tensor([6.0]), state, w)
    np.testing.assert_allclose(w.numpy(), [-11.0])


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: pure.chain(pure.sgd(), pure.clip(1.0)), TypeError, "link 0 of 2 is an optimizer"),
        (lambda: pure.chain(0.1), TypeError, "link 0 is 0.1, expected a transform"),
        (lambda: pure.multi_steps(pure.sgd(), 0), ValueError, "at least 1, got 0"),
        (lambda: schedules.join([], [1]), ValueError, "0 schedules need"),
        (
            lambda: pure.masked(pure.sgd(), [True]).init([fx.ones(1), fx.ones(1)]),
            TreeError,
            "differ|structure|mask",
        ),
    ],
)
def test_what_is_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


# wrappers ---------------------------------------------------------------------------------------


def test_masked_leaves_are_left_alone():
    optimizer = pure.masked(pure.adam(lr=0.1), {"w": True, "more": False})
    params = tree_of()
    new, state = train(optimizer, params)
    same(new["more"], params["more"])
    alone = pure.adam(lr=0.1)
    expected, inner = [params["w"]], alone.init([params["w"]])
    for _ in range(4):
        g = fx.grad(lambda w: fx_loss([w], 1))(expected[0])
        expected, inner = alone.update([g], inner, expected)
    same(new["w"], expected[0])
    same(state, inner)


def test_a_masked_transform_lets_gradients_pass():
    decay = pure.masked(
        pure.add_decayed_weights(1.0), lambda params: fx.tree.map(lambda x: x.ndim > 1, params)
    )
    params = {"w": fx.ones((2, 2)), "b": fx.ones(2)}
    grads, _ = decay.update(params, decay.init(params), params)
    same(grads, {"w": 2 * params["w"], "b": params["b"]})


@pytest.mark.parametrize("jit", [False, True])
def test_multi_steps_move_by_the_mean(jit):
    inner = pure.adam(lr=0.1)
    optimizer = pure.multi_steps(inner, every=3)
    params = tree_of()
    update = fx.jit(optimizer.update) if jit else optimizer.update
    state, grads = (
        optimizer.init(params),
        [
            fx.tree.map(lambda x: x * i, params)  # noqa: B023
            for i in (1.0, 2.0, 6.0)
        ],
    )
    now = params
    for g in grads * 2:
        now, state = update(g, state, now)
    expected, held = params, inner.init(params)
    for _ in range(2):
        expected, held = inner.update(fx.tree.map(lambda x: x * 3.0, params), held, expected)
    same(now, expected, rtol=1e-10)
    same(state.inner, held, rtol=1e-10)
    assert int(state.count) == 0
    if jit:
        assert update.cache_size() == 1


def test_the_average_follows_the_parameters():
    optimizer = pure.ema(pure.sgd(lr=1.0), decay=lambda count: count / (count + 1.0))
    w = fx.tensor([0.0])
    state = optimizer.init(w)
    for g in (-1.0, -2.0, -3.0):  # 1, 3, 6
        w, state = optimizer.update(fx.tensor([g]), state, w)
    np.testing.assert_allclose(state.average.numpy(), [10 / 3], rtol=1e-6)


def test_everything_at_once_on_a_module_under_jit():
    model = fx.nn.Sequential(fx.nn.Linear(3, 4), fx.nn.Tanh(), fx.nn.Linear(4, 1))
    optimizer = pure.ema(
        pure.multi_steps(
            pure.chain(
                pure.clip_by_global_norm(1.0),
                pure.adamw(lr=schedules.warmup_cosine(0.1, 2, 20), weight_decay=0.01),
            ),
            every=2,
        ),
        decay=0.9,
    )
    x = fx.tensor(arrays((8, 3), dtype="float32")[0])

    @fx.jit
    def step(model, state):
        loss, grads = fx.value_and_grad(lambda m: ((m(x) - 1) ** 2).mean())(model)
        return loss, *optimizer.update(grads, state, model)

    state, losses = optimizer.init(model), []
    for _ in range(12):
        loss, model, state = step(model, state)
        losses.append(float(loss))
    assert losses[-1] < losses[0] and type(state.average) is fx.nn.Sequential
    assert step.cache_size() <= 2  # the model's own parameters, and those that an update gives


# schedules --------------------------------------------------------------------------------------


def torchs(make, lr, steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=lr)
    scheduler = make(torch.optim.lr_scheduler, optimizer)
    out = []
    for _ in range(steps):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return out


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (schedules.constant(0.5), lambda m, o: m.LambdaLR(o, lambda e: 0.5)),
        (schedules.linear(0.25, 0.75, 9), lambda m, o: m.LinearLR(o, 0.25, 0.75, 9)),
        (schedules.polynomial(1.0, 0.0, 12, 2.0), lambda m, o: m.PolynomialLR(o, 12, 2.0)),
        (schedules.exponential(1.0, 0.9), lambda m, o: m.ExponentialLR(o, 0.9)),
        (schedules.exponential(1.0, 0.5, 4, True), lambda m, o: m.StepLR(o, 4, 0.5)),
        (schedules.piecewise([1.0, 0.5, 0.25], [3, 7]), lambda m, o: m.MultiStepLR(o, [3, 7], 0.5)),
        (schedules.cosine(1.0, 30, 0.1), lambda m, o: m.CosineAnnealingLR(o, 30, 0.1)),
        (schedules.restarts(1.0, 5, 0.1), lambda m, o: m.CosineAnnealingWarmRestarts(o, 5, 1, 0.1)),
        (
            schedules.one_cycle(1.0, 20),
            lambda m, o: m.OneCycleLR(o, 1.0, 20, cycle_momentum=False),
        ),
        (
            schedules.join([schedules.linear(0.5, 1.0, 4), schedules.exponential(1.0, 0.9)], [4]),
            lambda m, o: m.SequentialLR(
                o, [m.LinearLR(o, 0.5, 1.0, 4), m.ExponentialLR(o, 0.9)], [4]
            ),
        ),
    ],
)
def test_schedules_are_torchs(ours, theirs):
    expected = torchs(theirs, 1.0, 20)
    np.testing.assert_allclose([float(ours(i)) for i in range(20)], expected, rtol=1e-9)
    lanes = fx.vmap(ours)(fx.arange(20))
    np.testing.assert_allclose(lanes.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda f: pure.sgd(lr=f, momentum=0.9),
        lambda f: pure.schedule(partial(pure.sgd, momentum=0.9), lr=f),
    ],
)
def test_a_schedule_is_a_scheduler(make):
    ours, _ = train(make(schedules.exponential(0.1, 0.5)), tree_of(), 5)
    ps = [fx.nn.Parameter(fx.tensor(a)) for a in start(SHAPES)]
    optimizer = fx.optim.SGD(ps, lr=0.1, momentum=0.9)
    scheduler = fx.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(5):
        optimizer.zero_grad()
        fx_loss(ps, 1).backward()
        optimizer.step()
        scheduler.step()
    for x, p in zip([ours["w"], *ours["more"]], ps):
        close(x, p)


def test_sparse_adam_equals_the_class():
    ours, _, optimizer, _ = pair("SparseAdam", {"lr": 0.1})
    init, update = pure.sparse_adam(lr=0.1)
    values = [p.detach() for p in ours]
    state = init(values)
    for step in range(4):
        grads = fx.grad(lambda ws: fx_loss(ws, step))(values)  # noqa: B023
        values, state = update(grads, state, values)
    advance(optimizer, ours, fx_loss, 4)
    for x, p in zip(values, ours):
        close(x, p)
