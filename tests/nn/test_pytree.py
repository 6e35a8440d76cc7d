"""A Module as a pytree: gradients, per-sample gradients, ensembles, functional_call."""

import re
from pathlib import Path

import numpy as np
import pytest

import fx
from fx.errors import StateError, TreeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, close, twins

F = fx.nn.functional


def make(nn):
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)
    )


def batch():
    (x,) = arrays((5, 1, 6, 6))
    return fx.tensor(x), fx.tensor(np.array([0, 1, 3, 2, 1]))


def loss(model, x, y):
    return F.cross_entropy(model(x), y)


def sample_loss(model, x, y):
    return loss(model, x[None], y[None])


# flattening -------------------------------------------------------------------------------------


def test_leaves_are_the_parameters_by_path():
    model = make(fx.nn)
    leaves, treedef = fx.tree.flatten(model)
    assert all(a is b for a, b in zip(leaves, model.parameters(), strict=True))
    paths = [path for path, _ in fx.tree.flatten_with_path(model)[0]]
    assert [p[0].name for p in paths] == [name for name, _ in model.named_parameters()]
    again = fx.tree.unflatten(treedef, leaves)
    assert type(again) is type(model) and again[0] is not model[0]
    assert again[0].weight is model[0].weight
    assert fx.tree.structure(again) == treedef and hash(fx.tree.structure(again)) == hash(treedef)


def test_a_module_of_other_values_is_one_to_all_methods():
    model = make(fx.nn)
    doubled = fx.tree.map(lambda p: p.detach() * 2, model)
    assert repr(doubled) == repr(model)
    assert list(doubled.state_dict()) == list(model.state_dict())
    assert [n for n, _ in doubled.named_parameters()] == [n for n, _ in model.named_parameters()]
    x = batch()[0].astype(fx.float32)
    out = doubled(x)
    model.load_state_dict(doubled.state_dict())
    np.testing.assert_array_equal(out.numpy(), model(x).detach().numpy())
    doubled[4].bias = fx.zeros(4)  # raw values may be replaced
    assert float(abs(doubled[4].bias).max()) == 0
    doubled.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(doubled[4].bias.numpy(), model[4].bias.detach().numpy())


def test_structure_tells_settings_apart():
    model = fx.nn.Sequential(fx.nn.Linear(2, 2), fx.nn.Dropout(0.5))
    same = fx.nn.Sequential(fx.nn.Linear(2, 2), fx.nn.Dropout(0.5))
    structure = fx.tree.structure(model)
    assert structure == fx.tree.structure(same)
    assert structure != fx.tree.structure(fx.nn.Sequential(fx.nn.Linear(2, 2), fx.nn.Dropout(0.1)))
    assert structure != fx.tree.structure(fx.nn.Sequential(fx.nn.Linear(2, 2), fx.nn.Identity()))
    model.eval()
    assert structure != fx.tree.structure(model)
    with pytest.raises(TreeError):
        fx.tree.map(lambda a, b: a, model, same)


def test_buffers_belong_to_the_structure():
    a, b = fx.nn.BatchNorm1d(2), fx.nn.BatchNorm1d(2)
    assert fx.tree.structure(a) == fx.tree.structure(a)
    assert fx.tree.structure(a) != fx.tree.structure(b)
    assert fx.tree.map(lambda p: p, a).running_mean is a.running_mean


class Tied(fx.nn.Module):
    """Shared weights, and attributes that refer back into the tree."""

    def __init__(self):
        super().__init__()
        self.first = fx.nn.Linear(3, 3, bias=False)
        self.second = fx.nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        self.order = [self.second, self.first]
        self.weights = {"w": self.first.weight, "sizes": [1, 2]}
        self.run = self._run
        self.mask = fx.tensor([1.0, 0.0, 1.0])

    def _run(self, x):
        for layer in self.order:
            x = layer(x)
        return x * self.mask + self.weights["w"].sum()

    def forward(self, x):
        return self.run(x)


def test_shared_weights_are_one_leaf_and_references_follow():
    model, x = Tied(), fx.ones((2, 3))
    assert len(fx.tree.leaves(model)) == 1
    gradient = fx.grad(lambda m: m(x).sum())(model)
    assert gradient.first.weight is gradient.second.weight
    model(x).sum().backward()
    np.testing.assert_allclose(
        gradient.first.weight.detach().numpy(), model.first.weight.grad.numpy()
    )
    halved = fx.tree.map(lambda p: p.detach() / 2, model)
    assert halved.order[1] is halved.first and halved.weights["w"] is halved.first.weight
    assert halved.run.__self__ is halved
    assert fx.tree.structure(halved) == fx.tree.structure(model)


def test_ties_are_of_places_and_not_of_values():
    model = fx.nn.Sequential(fx.nn.Linear(2, 2, bias=False), fx.nn.Linear(2, 2, bias=False))
    marks = fx.tree.map(lambda p: 0, model)  # one object in two places that are not tied
    assert fx.tree.leaves(marks) == [0, 0]
    model[1].weight = model[0].weight
    marks = fx.tree.map(lambda p: 0, model)
    assert fx.tree.leaves(fx.tree.map(lambda p, m: m, model, marks)) == [0]
    marks[1].weight = 1  # what replaces one place alone is tied no more
    assert fx.tree.leaves(marks) == [0, 1]


# transforms -------------------------------------------------------------------------------------


def test_grad_gives_a_module_that_equals_backward():
    model, _ = twins(make)
    x, y = batch()
    value, gradient = fx.value_and_grad(loss)(model, x, y)
    assert type(gradient) is type(model)
    out = loss(model, x, y)
    out.backward()
    assert float(value) == float(out)
    for g, p in zip(gradient.parameters(), model.parameters()):
        np.testing.assert_array_equal(g.detach().numpy(), p.grad.numpy())


def test_per_sample_gradients_equal_the_loop_and_torchs():
    model, theirs = twins(make)
    x, y = batch()
    with fx.no_grad():
        mapped = fx.vmap(fx.grad(sample_loss), (None, 0, 0))(model, x, y)
        loop = [fx.grad(sample_loss)(model, x[i], y[i]) for i in range(5)]
    for name, g in mapped.named_parameters():
        one = np.stack([dict(m.named_parameters())[name].numpy() for m in loop])
        np.testing.assert_allclose(g.numpy(), one, rtol=1e-9, atol=1e-12)

    def torch_loss(params, x, y):
        out = torch.func.functional_call(theirs, params, (x[None],))
        return torch.nn.functional.cross_entropy(out, y[None])

    params = {k: v.detach() for k, v in theirs.named_parameters()}
    expected = torch.func.vmap(torch.func.grad(torch_loss), (None, 0, 0))(
        params, torch.tensor(x.numpy()), torch.tensor(y.numpy())
    )
    for name, g in mapped.named_parameters():
        close(g, expected[name], name)


def test_an_ensemble_is_a_module_of_stacked_parameters():
    models = [make(fx.nn).double() for _ in range(3)]
    x, y = batch()
    stacked = fx.tree.map(lambda *ps: fx.stack([p.detach() for p in ps]), *models)
    out = fx.vmap(lambda m: m(x))(stacked)
    assert out.shape == (3, 5, 4)
    for i, m in enumerate(models):
        np.testing.assert_allclose(out[i].numpy(), m(x).detach().numpy(), rtol=1e-9, atol=1e-12)
    gradient = fx.vmap(fx.grad(loss), (0, None, None))(stacked, x, y)
    assert gradient[0].weight.shape == (3, 3, 1, 3, 3)


def test_second_derivatives_with_respect_to_a_module():
    model, _ = twins(lambda nn: nn.Linear(2, 1))
    x = fx.tensor(arrays((4, 2))[0])
    f = lambda m: fx.tanh(m(x)).sum()
    direction = fx.tree.map(lambda p: fx.ones(p.shape, dtype=fx.float64), model)
    _, product = fx.jvp(fx.grad(f), (model,), (direction,))
    _, expected = fx.jvp(
        lambda w, b: fx.grad(lambda w, b: fx.tanh(F.linear(x, w, b)).sum(), (0, 1))(w, b),
        (model.weight.detach(), model.bias.detach()),
        (direction.weight, direction.bias),
    )
    np.testing.assert_allclose(product.weight.detach().numpy(), expected[0].numpy())
    np.testing.assert_allclose(product.bias.detach().numpy(), expected[1].numpy())


def test_backward_through_grad_of_a_module():
    """A gradient penalty: the gradient with respect to the input depends on the parameters."""
    model, theirs = twins(lambda nn: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    (x,) = arrays((5, 3))
    g = fx.grad(lambda x: model(x).sum())(fx.tensor(x))
    (g * g).sum().backward()
    t = torch.tensor(x, requires_grad=True)
    (h,) = torch.autograd.grad(theirs(t).sum(), t, create_graph=True)
    (h * h).sum().backward()
    for p, q in zip(model.parameters(), theirs.parameters()):
        if q.grad is not None:
            close(p.grad, q.grad)


def test_dropout_under_grad_of_a_module():
    model = fx.nn.Sequential(fx.nn.Linear(6, 6), fx.nn.Dropout(0.5))
    fx.manual_seed(0)
    gradient = fx.grad(lambda m: m(fx.ones((1, 6))).sum())(model)
    fx.manual_seed(0)
    model(fx.ones((1, 6))).sum().backward()
    np.testing.assert_array_equal(gradient[0].bias.detach().numpy(), model[0].bias.grad.numpy())


def test_stateful_training_inside_vmap_equals_the_loop():
    """Everything stateful made inside a lane belongs to it: model, gradients, optimizer."""

    def train(x, y):
        model = fx.nn.Linear(3, 1).double()
        model.load_state_dict({"weight": x[:1], "bias": y[0]})
        optimizer = fx.optim.Adam(model.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            value = F.mse_loss(model(x), y)
            value.backward()
            optimizer.step()
            losses.append(value.detach())
        return fx.stack(losses), model.weight.detach()

    xs, ys = (fx.tensor(a) for a in arrays((4, 5, 3), (4, 5, 1)))
    mapped = fx.vmap(train)(xs, ys)
    for i in range(4):
        for a, b in zip(mapped, train(xs[i], ys[i])):
            np.testing.assert_allclose(a[i].numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


# functional_call --------------------------------------------------------------------------------


def test_functional_call_is_pure():
    model = fx.nn.Sequential(fx.nn.Linear(3, 3), fx.nn.BatchNorm1d(3))
    before = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    x = fx.tensor(arrays((4, 3), dtype="float32")[0])
    params = {k: v.detach() * 2 for k, v in model.named_parameters()}
    out = fx.nn.functional_call(model, params, x)
    for k, v in model.state_dict().items():
        np.testing.assert_array_equal(v.numpy(), before[k])
    model.load_state_dict({**model.state_dict(), **params})
    np.testing.assert_array_equal(out.detach().numpy(), model(x).detach().numpy())
    assert int(model[1].num_batches_tracked) == 1


def test_what_is_given_for_buffers_stays_where_nobody_writes(monkeypatch):
    from fx.config import writing
    from fx.nn.utils.stateless import functional_call

    monkeypatch.setattr(writing, "enabled", False)
    monkeypatch.setattr(writing, "copy", None)
    norm = fx.nn.BatchNorm1d(2)
    given = {name: fx.ones(2) for name in ("running_mean", "running_var")}
    functional_call(norm, given, (fx.arange(8.0).reshape(4, 2),))
    assert given["running_mean"].tolist() == [1, 1] and norm.running_mean.tolist() == [0, 0]
    assert norm.num_batches_tracked.item() == 1


def test_functional_call_against_torchs():
    ours, theirs = twins(make)
    x, y = batch()
    params = {k: v.detach() for k, v in ours.named_parameters()}
    got = fx.grad(lambda p: F.cross_entropy(fx.nn.functional_call(ours, p, (x,)), y))(params)
    t = {k: v.detach() for k, v in theirs.named_parameters()}
    expected = torch.func.grad(
        lambda p: torch.nn.functional.cross_entropy(
            torch.func.functional_call(theirs, p, (torch.tensor(x.numpy()),)),
            torch.tensor(y.numpy()),
        )
    )(t)
    for name, g in got.items():
        close(g, expected[name], name)


def test_functional_call_with_buffers_a_lane_and_with_buffers_to_read():
    model = fx.nn.BatchNorm1d(3)
    x = fx.tensor(arrays((2, 4, 3), dtype="float32")[0])
    params = {k: v.detach() for k, v in model.named_parameters()}
    state = {k: fx.stack([v.detach()] * 2) for k, v in model.named_buffers()}

    def step(state, x):
        cells = {k: fx.nn.Buffer(v) for k, v in state.items()}
        out = fx.nn.functional_call(model, [params, cells], (x,))
        return out, {k: c.detach() for k, c in cells.items()}

    out, new = fx.vmap(step)(state, x)
    for i in range(2):
        lane = fx.nn.BatchNorm1d(3)
        np.testing.assert_allclose(
            out[i].numpy(), lane(x[i]).detach().numpy(), rtol=1e-5, atol=1e-6
        )
        for k, b in lane.named_buffers():
            np.testing.assert_allclose(new[k][i].numpy(), b.numpy(), rtol=1e-6)


def test_functional_call_ties():
    model, x = Tied(), fx.ones((2, 3))
    w, v = fx.full((3, 3), 0.5), fx.full((3, 3), 0.25)
    one = fx.nn.functional_call(model, {"first.weight": w}, x)
    other = fx.nn.functional_call(model, {"second.weight": w}, x)
    np.testing.assert_array_equal(one.numpy(), other.numpy())
    with pytest.raises(
        StateError, match="are one shared parameter and were given different values"
    ):
        fx.nn.functional_call(model, {"first.weight": w, "second.weight": v}, x)
    apart = fx.nn.functional_call(
        model, {"first.weight": w, "second.weight": v}, x, tie_weights=False
    )
    assert apart.shape == (2, 3)


def test_what_functional_call_refuses():
    model, x = fx.nn.Linear(2, 2), fx.ones(2)
    with pytest.raises(StateError, match=r"unexpected keys \['wieght'\]"):
        fx.nn.functional_call(model, {"wieght": fx.ones((2, 2))}, x)
    with pytest.raises(StateError, match=r"missing keys \['bias'\]"):
        fx.nn.functional_call(model, {"weight": fx.ones((2, 2))}, x, strict=True)
    with pytest.raises(StateError, match="bias appears in more than one dict"):
        fx.nn.functional_call(model, ({"bias": fx.ones(2)}, {"bias": fx.ones(2)}), x)


def test_the_code_of_the_readme_runs():
    text = (Path(fx.nn.__file__).parent / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.S)
    x, y = (fx.tensor(a) for a in arrays((5, 3), (5, 2)))
    models = [fx.nn.Linear(3, 2).double() for _ in range(3)]
    names = {"fx": fx, "x": x, "y": y, "xs": x, "ys": y, "model": models[0], "models": models}
    names |= {"loss": F.mse_loss, "sample_loss": lambda m, x, y: F.mse_loss(m(x), y)}
    exec(block, names)
    assert names["gradient"].weight.shape == (2, 3)
    assert names["rows"].weight.shape == (5, 2, 3)
    assert names["ensemble"].weight.shape == (3, 2, 3)
