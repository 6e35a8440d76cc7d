"""Modules under vmap: per-example gradients, ensembles, declared reductions."""

import numpy as np
import pytest

import fx
from fx.errors import BatchedValueError, StateError

torch = pytest.importorskip("torch")

from tests.nn.oracle import close, twins

F = fx.nn.functional


class Tied(fx.nn.Module):
    """Two uses of one weight, and dropout."""

    def __init__(self):
        super().__init__()
        self.a = fx.nn.Linear(4, 4)
        self.b = fx.nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.drop = fx.nn.Dropout(0.5)

    def forward(self, x):
        return self.b(self.drop(self.a(x).tanh()))


def loss(model, x, y):
    return F.cross_entropy(model(x), y)


RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 4)).astype("float32")
Y = RNG.integers(0, 4, 6)


def rows_of(model, x, y, function):
    """The loop over examples, each as a batch of one, with the draws of its lane."""
    state = fx.get_rng_state()
    found = []
    for i in range(len(x)):
        fx.set_rng_state(state)
        with fx.random.lane(i):
            found.append(function(model, x[i : i + 1], y[i : i + 1]))
    return found


def test_tied_weights_and_dropout_equal_the_loop():
    fx.manual_seed(1)
    model = Tied()
    x, y = fx.tensor(X), fx.tensor(Y)
    fx.manual_seed(0)
    expected = rows_of(model, x, y, fx.grad(loss))
    fx.manual_seed(0)
    gradients = fx.per_example(fx.grad(loss))(model, x, y)
    assert gradients.a.weight is gradients.b.weight and gradients.a.weight.shape == (6, 4, 4)
    for i, row in enumerate(expected):
        for a, b in zip(gradients.parameters(), row.parameters()):
            np.testing.assert_allclose(
                a[i].detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-7
            )
    fx.manual_seed(0)
    chunked = fx.per_example(fx.grad(loss), batch_size=4)(model, x, y)
    np.testing.assert_allclose(
        chunked.a.weight.detach().numpy(), gradients.a.weight.detach().numpy(), rtol=1e-5, atol=1e-7
    )
    masks = fx.per_example(lambda m, x: m.drop(x) == 0)(model, fx.ones((6, 50)))
    assert len({tuple(row) for row in masks.reshape(6, 50).tolist()}) == 6


def convolutional(nn):
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, 3),
    )  # fmt: skip


IMAGES = RNG.standard_normal((5, 2, 6, 6))
LABELS = RNG.integers(0, 3, 5)


def test_batch_norm_in_evaluation_mode_is_torchs():
    ours, theirs = twins(convolutional)
    ours(fx.tensor(IMAGES))
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    ours.eval()
    theirs.eval()
    params = {k: v.detach() for k, v in theirs.named_parameters()}

    def one(params, x, y):
        out = torch.func.functional_call(theirs, params, (x[None],))
        return torch.nn.functional.cross_entropy(out, y[None])

    expected = torch.func.vmap(torch.func.grad(one), (None, 0, 0))(
        params, torch.tensor(IMAGES), torch.tensor(LABELS)
    )
    gradients = fx.per_example(fx.grad(loss))(ours, fx.tensor(IMAGES), fx.tensor(LABELS))
    for name, p in gradients.named_parameters():
        close(p, expected[name], name)


def test_batch_norm_in_training_mode():
    model = convolutional(fx.nn)
    x, y = fx.tensor(IMAGES.astype("float32")), fx.tensor(LABELS)
    with pytest.raises(StateError, match=r"per_example: layer 1: BatchNorm2d\(4.* model.eval\(\)"):
        fx.per_example(fx.grad(loss))(model, x, y)
    plain = fx.nn.Sequential(fx.nn.BatchNorm1d(4, track_running_stats=False)).eval()
    with pytest.raises(StateError, match="normalises with the statistics of the whole batch"):
        fx.per_example(lambda m, x: m(x))(plain, fx.tensor(X))
    twin = convolutional(fx.nn)
    twin.load_state_dict(model.state_dict())
    fx.nn.declare_reduction(model, {"running_*": "mean"})
    gradients = fx.per_example(fx.grad(loss))(model, x, y)
    rows, means = [], []
    for i in range(5):
        one = convolutional(fx.nn)
        one.load_state_dict(twin.state_dict())
        rows.append(fx.grad(loss)(one, x[i : i + 1], y[i : i + 1])[0].weight.detach().numpy())
        means.append(one[1].running_var.numpy())
    np.testing.assert_allclose(gradients[0].weight.detach().numpy(), rows, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model[1].running_var.numpy(), np.mean(means, 0), rtol=1e-5)
    assert int(model[1].num_batches_tracked) == 1


def test_other_forms():
    model = fx.nn.Linear(4, 4)
    x, y = fx.tensor(X), fx.tensor(Y)
    values, gradients = fx.per_example(fx.value_and_grad(loss))(model, x, y)
    np.testing.assert_allclose(
        values.detach().numpy(),
        F.cross_entropy(model(x), y, reduction="none").detach().numpy(),
        rtol=1e-5,
    )
    bare = fx.per_example(fx.grad(loss), as_batch=False)(model, x, y)
    shared = fx.per_example(fx.grad(loss), (None, 0, None), as_batch=False)(model, x, y[0])
    named = fx.per_example(fx.grad(lambda m, x, *, y: loss(m, x, y)))(model, x, y=y)
    compiled = fx.jit(lambda x, y: fx.per_example(fx.grad(loss))(model, x, y).weight)(x, y)
    for other in (bare.weight, named.weight, compiled):
        np.testing.assert_allclose(
            other.detach().numpy(), gradients.weight.detach().numpy(), rtol=1e-5, atol=1e-7
        )
    assert shared.weight.shape == (6, 4, 4)
    params = {"w": fx.ones((4, 4))}
    rows = fx.per_example(fx.grad(lambda p, x, y: F.cross_entropy(x @ p["w"], y)))(params, x, y)
    assert rows["w"].shape == (6, 4, 4)
    pair = fx.per_example(fx.grad(lambda ms, x, y: loss(ms[1], ms[0](x), y)))
    assert pair([model, Tied().eval()], x, y)[1].a.weight.shape == (6, 4, 4)
    with pytest.raises(TypeError, match="per_example takes a function"):
        fx.per_example(model.weight)


# ensembles --------------------------------------------------------------------------------------


def test_stacked_states_are_torchs():
    def run(nn, functional_call, stack, vmap, tensor, states):
        models = [nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)) for _ in range(3)]
        for model, state in zip(models, states):
            model.load_state_dict({k: tensor(v) for k, v in state.items()})
            model.eval()
        params, buffers = stack(models)
        call = lambda p, b, x: functional_call(models[0], (p, b), (x,))
        out = vmap(call, in_dims=(0, 0, None)) if nn is torch.nn else vmap(call, (0, 0, None))
        return params, buffers, out(params, buffers, tensor(X))

    states = [
        {k: v.numpy() + i for k, v in torch.nn.Sequential(
            torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).state_dict().items()}
        for i in range(3)
    ]  # fmt: skip
    ours = run(fx.nn, fx.nn.functional_call, fx.nn.stack_module_state, fx.vmap, fx.tensor, states)
    theirs = run(
        torch.nn, torch.func.functional_call, torch.func.stack_module_state, torch.func.vmap,
        torch.tensor, states,
    )  # fmt: skip
    for a, b in zip(ours[:2], theirs[:2]):
        assert list(a) == list(b)
        for name in a:
            close(a[name], b[name], name)
            assert a[name].requires_grad == b[name].requires_grad
    close(ours[2], theirs[2])


def test_an_ensemble_trains():
    models = [fx.nn.Linear(4, 4) for _ in range(3)]
    params, _buffers = fx.nn.stack_module_state(models)
    optimizer = fx.optim.SGD(params.values(), lr=0.1)
    x, y = fx.tensor(X), fx.tensor(Y)

    def losses():
        one = lambda p: F.cross_entropy(fx.nn.functional_call(models[0], p, (x,)), y)
        return fx.vmap(one)(params)

    losses().sum().backward()
    optimizer.step()
    for i, model in enumerate(models):
        alone = fx.optim.SGD(model.parameters(), lr=0.1)
        loss(model, x, y).backward()
        alone.step()
        np.testing.assert_allclose(
            params["weight"][i].detach().numpy(),
            model.weight.detach().numpy(),
            rtol=1e-5,
            atol=1e-7,
        )


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda nn: [], "Expected at least one model, got 0."),
        (lambda nn: [nn.ReLU(), nn.ReLU().eval()], "to have the same training/eval mode."),
        (lambda nn: [nn.ReLU(), nn.Tanh()], "to be of the same class."),
    ],
)
def test_what_stacking_refuses(make, message):
    for nn, stack in ((fx.nn, fx.nn.stack_module_state), (torch.nn, torch.func.stack_module_state)):
        with pytest.raises(RuntimeError, match=message):
            stack(make(nn))


def test_declared_reductions():
    model = fx.nn.Sequential(fx.nn.BatchNorm1d(4), fx.nn.BatchNorm1d(4))
    lanes = fx.tensor(np.stack([X, 2 * X]))
    with pytest.raises(BatchedValueError, match=r"fx.nn.declare_reduction\(model, "):
        fx.vmap(model)(lanes)
    fx.nn.declare_reduction(model, "mean")
    fx.nn.declare_reduction(model, {"0.running_mean": "max", "1.num_batches_tracked": None})
    fx.vmap(model)(lanes)
    expected = 0.1 * np.maximum(X.mean(0), 2 * X.mean(0))
    np.testing.assert_allclose(model[0].running_mean.numpy(), expected, rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match="a reduction is 'mean', 'max' or 'min', got 'sum'"):
        fx.nn.declare_reduction(model, {"*": "sum"})
    with pytest.raises(
        ValueError, match=r"Sequential has no buffer 'running_std'; it has \['0.run"
    ):
        fx.nn.declare_reduction(model, {"running_std": "mean"})
