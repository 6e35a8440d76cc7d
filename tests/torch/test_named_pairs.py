"""Named pairs and nodes of the graph have PyTorch's names, where they are printed and asked for."""

import pickle

import pytest

torch = pytest.importorskip("torch")

import fx.torch

PAIRS = (
    "torch.max(x, 1)", "torch.min(x, 0)", "x.max(dim=1, keepdim=True)", "torch.sort(x)",
    "x.sort(dim=0, descending=True)", "torch.topk(x, 2)", "torch.kthvalue(x, 2)",
    "torch.median(x, 1)", "torch.nanmedian(x, 1)", "torch.mode(x, 1)", "torch.cummax(x, 0)",
    "torch.cummin(x, 0)",
)  # fmt: skip


@pytest.mark.parametrize("line", PAIRS)
def test_named_pairs_print_as_theirs(line):
    def shown(library):
        x = library.tensor([[1.0, 4.0, 3.0], [2.0, -5.0, 2.0]])
        return repr(eval(line, {"torch": library, "x": x}))

    assert shown(fx.torch) == shown(torch)
    pair = eval(
        line, {"torch": fx.torch, "x": fx.torch.tensor([[1.0, 4.0, 3.0], [2.0, -5.0, 2.0]])}
    )
    again = pickle.loads(pickle.dumps(pair))
    assert type(again) is type(pair)
    assert again.indices.tolist() == pair.indices.tolist()


@pytest.mark.parametrize("line", ["x.max(1)[0]", "x.min(1)[0]", "torch.triu(x)", "torch.tril(x)"])
def test_nodes_have_their_names(line):
    def name(library):
        x = library.ones(2, 3, requires_grad=True)
        return eval(line, {"torch": library, "x": x}).grad_fn.name()

    assert name(fx.torch) == name(torch)
