"""What a script catches: the error of a wrong call is of the class that PyTorch raises."""

import pytest

torch = pytest.importorskip("torch")

import fx.torch as face

WRONG = """
torch.ones(2, 3) @ torch.ones(2, 3); torch.ones(3) + torch.ones(4); torch.ones(6).view(5)
torch.ones(2, 3).reshape(4, -1); torch.cat([torch.ones(2, 2), torch.ones(3, 3)]); torch.zeros(-1)
torch.stack([torch.ones(2), torch.ones(3)]); bool(torch.ones(2)); torch.ones(2).item()
torch.ones(2, requires_grad=True).numpy(); (torch.ones(2) * 2).backward(); torch.ones(3)[5]
torch.ones(3)[0, 0]; torch.ones(2, 3).sum(5); torch.ones(2).squeeze(3); torch.ones(2).topk(5)
torch.ones(2, 3).transpose(0, 4); torch.ones(3).expand(2); torch.ones(2).mm(torch.ones(2))
torch.ones(2, dtype=torch.long).mean(); nn.Linear(2, 3)(torch.ones(2, 4)); int(torch.ones(2))
nn.Linear(2, 3)(torch.ones(2, 2).double()); nn.Conv2d(1, 2, 3)(torch.ones(1, 3, 5, 5))
nn.Conv2d(1, 2, 3)(torch.ones(1, 1, 2, 2)); nn.Embedding(3, 2)(torch.tensor([5]))
F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 5])); F.one_hot(torch.tensor([4]), 3)
F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 1, 2])); torch.ones(3).split([1, 1])
F.binary_cross_entropy(torch.tensor([2.0]), torch.tensor([1.0])); torch.tensor([]).max()
torch.ones(2).gather(0, torch.tensor([3])); torch.ones(2).index_select(0, torch.tensor([3]))
nn.Linear(2, 3).load_state_dict({}); nn.BatchNorm1d(3)(torch.ones(1, 3)); torch.tensor("a")
nn.BatchNorm2d(3)(torch.ones(2, 3)); nn.LSTM(2, 3)(torch.ones(4, 2, 5)); torch.ones(2) + "a"
torch.optim.SGD([torch.ones(2)], lr=-1); torch.optim.Adam([]); torch.tensor([[1, 2], [3]])
torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(2, 3)); torch.device("nonsense")
torch.einsum("i", torch.ones(2, 3)); torch.ones(2, 3).permute(0, 0); torch.ones(2, 2).repeat(2)
torch.ones(3).unflatten(0, (2, 2)); torch.autograd.grad(torch.ones(2).sum(), torch.ones(2))
len(torch.tensor(1)); list(torch.tensor(1)); torch.tensor(1)[0]; torch.ones(2).softmax(3)
torch.masked_select(torch.ones(3), torch.ones(2, dtype=torch.bool)); torch.ones(2).unsqueeze(5)
torch.ones(3)[torch.ones(2, dtype=torch.bool)]; nn.MSELoss()(torch.ones(2), torch.ones(3))
torch.chunk(torch.ones(2), 0); float(torch.ones(2, 2))
"""


@pytest.mark.parametrize(
    "call", [c for line in WRONG.strip().split("\n") for c in line.split("; ")]
)
@pytest.mark.filterwarnings("ignore")
def test_is_caught_as_torchs(call):
    raised = []
    for lib in (torch, face):
        with pytest.raises(Exception) as info:
            eval(call, {"torch": lib, "nn": lib.nn, "F": lib.nn.functional})
        raised.append(info.value)
    theirs, ours = raised
    assert isinstance(ours, type(theirs)), (type(ours).__mro__, ours)
