"""``torch._foreach_*`` against the peer: numbers, lists and tensors of numbers, in place or not."""

import numpy as np
import pytest

import fx.torch as torch
from fx.torch._foreach import NAMES

peer = pytest.importorskip("torch")

LIST = object()
NUMBERS = object()
ARGUMENTS = [
    (), (2.0,), ([2.0, 3.0],), (LIST,), (LIST, 0.5), (LIST, LIST), (LIST, LIST, 0.5),
    (LIST, LIST, [0.5, 2.0]), (LIST, LIST, NUMBERS),
]  # fmt: skip


def _tensors(t):
    return [t.tensor([0.5, 0.25]), t.tensor([[0.75]])]


def _given(t, kinds):
    made = {LIST: lambda: _tensors(t), NUMBERS: lambda: t.tensor([0.5, 2.0])}
    return [made[k]() if k is LIST or k is NUMBERS else k for k in kinds]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_form_that_the_peer_takes(name):
    taken = 0
    for kinds in ARGUMENTS:
        want = _tensors(peer)
        try:
            out = getattr(peer, name)(want, *_given(peer, kinds))
        except (TypeError, RuntimeError):
            continue
        if name == "_foreach_mm":
            continue
        taken += 1
        have = _tensors(torch)
        mine = getattr(torch, name)(have, *_given(torch, kinds))
        assert not name.endswith("_") or mine is have
        for a, b in zip(mine, want if name.endswith("_") else out):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
        for a, b in zip(have, want):  # written, or left alone
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
    assert taken or name == "_foreach_mm"


def test_products_of_lists():
    a, b = [torch.ones(2, 3)], [torch.full((3, 1), 2.0)]
    assert torch._foreach_mm(a, b)[0].tolist() == [[6.0], [6.0]]


def test_views_and_parameters_follow():
    model, shadow = torch.nn.Linear(2, 1), [torch.zeros(1, 2), torch.zeros(1)]
    view = shadow[0][0]
    torch._foreach_lerp_(shadow, [p.detach() for p in model.parameters()], 0.5)
    assert view.tolist() == (model.weight[0] * 0.5).tolist()
    with torch.no_grad():
        torch._foreach_mul_(list(model.parameters()), 0.0)
    assert model.weight.tolist() == [[0.0, 0.0]]


def test_refusals():
    with pytest.raises(ValueError, match="same number of tensors, got 2 and 1"):
        torch._foreach_add(_tensors(torch), [1.0])
    with pytest.raises(TypeError, match="takes a list of tensors"):
        torch._foreach_exp(torch.ones(2))
    with pytest.raises(AttributeError, match="_foreach_nonsense"):
        torch._foreach_nonsense


def test_rows_of_a_plain_table_are_scaled_where_they_lie():
    table = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    idx = [1, 2]
    results = []
    for t in (torch, peer):
        weight = t.tensor(table)
        row = weight[1]
        out = t.nn.functional.embedding(t.tensor(idx), weight, max_norm=1.0)
        results.append((out.tolist(), weight.tolist(), row.tolist()))
    for mine, wanted in zip(*results):
        np.testing.assert_allclose(mine, wanted, rtol=1e-6)


def test_graph_says_what_it_lacks():
    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with pytest.raises(NotImplementedError, match="checkpoint"), hooks:
        pass
    graph = torch.autograd.graph
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not he"):
        hooks.__enter__()
