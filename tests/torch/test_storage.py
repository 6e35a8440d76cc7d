"""What a script asks of the memory of tensors: offsets, sizes, whether two lie in one."""

import pytest

torch = pytest.importorskip("torch")

import fx.torch as face

VIEWS = """
x
x[1:, 2:]
x.T[2]
x.T[2:, 1:]
x.view(2, 12)[1]
x.unfold(1, 2, 2)[1, 1]
x.diagonal(1)
x.chunk(2)[1]
x[:, 3]
x.detach()[1]
x.expand(2, 4, 6)[1, 2]
x.flatten()[5:]
x.as_strided((2,), (1,), 3)
x.narrow(1, 2, 3)
x.unbind(1)[3]
x[1].clone()
x[[1, 2]]
x.flip(0)[1:]
(x * 2)[1:]
torch.cat([x, x])[1:]
t.nn.Linear(3, 2).weight[1]
torch.empty(0)
torch.tensor(1.0)
"""
ASKED = """
    v.storage_offset(), v.untyped_storage().nbytes(), v.storage().size(), str(v.layout),
    v.untyped_storage().data_ptr() == x.untyped_storage().data_ptr(),
    v.untyped_storage().data_ptr() + v.storage_offset() * v.element_size() == v.data_ptr(),
    len(v.untyped_storage()), v.storage().dtype == v.dtype, str(v.untyped_storage().device),
"""


@pytest.mark.parametrize("write", ["", "x[0] = 5.0", "x.T[1] = 2.0"])
@pytest.mark.parametrize("view", VIEWS.strip().split("\n"))
def test_memory_of(view, write):
    found = []
    for module in (torch, face):
        space = {"torch": module, "t": module, "x": module.arange(24.0).reshape(4, 6)}
        exec(f"{write}\nv = {view}\n{write}\ns = ({ASKED})", space)
        found.append(space["s"])
    assert found[0] == found[1]


def test_weights_that_are_shared():
    a, b = face.nn.Linear(3, 2), face.nn.Linear(3, 2)
    b.weight = a.weight
    places = {p.untyped_storage().data_ptr() for p in (*a.parameters(), *b.parameters())}
    assert len(places) == 3
    assert a.weight.data.storage().data_ptr() == b.weight.storage().data_ptr()


def test_what_a_storage_does_not_do_says_what_to_write():
    x = face.zeros(2)
    assert face.is_storage(x.untyped_storage()) and not face.is_storage(x)
    with pytest.raises(AttributeError, match=r"no 'fill_': .* write x.flatten\(\), x.copy_"):
        x.untyped_storage().fill_(1)


def test_a_histogram_prints_as_that_of_torch():
    lines = [
        repr(module.histogram(module.tensor([1.0, 2.0, 2.0]), bins=2)) for module in (torch, face)
    ]
    assert lines[0] == lines[1]
