"""Tensors among Python's own: numbers, truth, iteration, pickle and copy."""

import copy
import importlib
import operator
import pickle

import numpy as np
import pytest

import fx
from fx.config import writing
from fx.errors import BackwardError, BatchedValueError, DTypeError, ShapeError

torch = pytest.importorskip("torch")

DTYPES = [d.name for d in fx.dtypes.ALL]


def leaf(*values):
    return fx.tensor(list(values), requires_grad=True)


# Python's numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_item_and_tolist_give_pythons_own_numbers(dtype):
    kind = {"b": bool, "i": int, "u": int, "f": float, "V": float, "c": complex}
    x = fx.ones(2, 1, dtype=dtype)
    wanted = kind[x.dtype.kind]
    assert type(x[0].item()) is wanted
    assert type(x.tolist()[0][0]) is wanted
    assert x.tolist() == [[1], [1]]
    assert type(x[0, 0].tolist()) is wanted


def test_conversions():
    x = fx.tensor([[2.5]])
    assert (float(x), int(x), complex(x), bool(x)) == (2.5, 2, 2.5 + 0j, True)
    assert complex(fx.tensor(1 + 2j)) == 1 + 2j
    assert operator.index(fx.tensor(3)) == 3
    assert [10, 20, 30][fx.tensor(1)] == 20
    assert not fx.tensor(0)
    with pytest.raises(TypeError):
        float(fx.tensor(1j))
    for x in (fx.tensor(1.0), fx.tensor(True)):
        with pytest.raises(DTypeError, match="only an integer tensor can be an index"):
            operator.index(x)
    with pytest.raises(ShapeError, match=r"shape \(2,\) with 2 elements is not one number"):
        fx.ones(2).item()
    with pytest.raises(ShapeError, match=r"shape \(0,\) is ambiguous"):
        bool(fx.zeros(0))


def test_conversions_inside_transforms():
    for convert in (bool, int, float, complex, lambda x: x.item(), lambda x: x.tolist()):
        with pytest.raises(BatchedValueError, match=r"differs from lane to lane.*fx.where"):
            fx.vmap(lambda x, convert=convert: (convert(x), x)[1])(fx.ones(2))
        seen = []
        fx.grad(lambda x, convert=convert, seen=seen: (seen.append(convert(x)), x)[1])(
            fx.tensor(1.0)
        )
        assert seen == [1]


def test_length_iteration_and_membership():
    x = fx.tensor([[1, 2], [3, 4], [5, 6]])
    assert len(x) == 3
    assert [row.tolist() for row in x] == [[1, 2], [3, 4], [5, 6]]
    a, b = x[0]
    assert (a.item(), b.item()) == (1, 2)
    assert 4 in x
    assert 7 not in x
    assert x[0, 0] in x
    for ask in (len, iter):
        with pytest.raises(TypeError, match=r"shape \(\)"):
            ask(fx.tensor(1.0))
    tangent = fx.jvp(lambda x: sum(v * v for v in x), (fx.ones(3),), (fx.ones(3),))[1]
    assert tangent.item() == 6.0


def test_hashing_is_by_identity():
    x, y = fx.ones(2), fx.ones(2)
    assert len({x, y, x}) == 2


# pickle and copy --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(dtype, protocol):
    x = fx.ones(2, 3, dtype=dtype)
    y = pickle.loads(pickle.dumps(x, protocol))
    assert type(y) is fx.Tensor
    assert (y.dtype, y.shape, y.tolist()) == (x.dtype, x.shape, x.tolist())


def test_pickle_keeps_requires_grad_and_drops_history():
    x = leaf(1.0)
    assert repr(pickle.loads(pickle.dumps(x))) == "tensor([1.], requires_grad=True)"
    assert repr(pickle.loads(pickle.dumps(x * 2))) == "tensor([2.], requires_grad=True)"
    assert repr(pickle.loads(pickle.dumps(fx.ones(2, device="meta")))) == repr(
        fx.ones(2, device="meta")
    )
    assert len(pickle.dumps(fx.from_numpy(np.zeros((1000, 1000)))[0])) < 10_000
    with pytest.raises(TypeError, match="lives only while its transform runs"):
        fx.vmap(pickle.dumps)(fx.ones(2))


def test_copies_share_memory():
    x = fx.ones(3)
    for copied, shares in (copy.copy, True), (copy.deepcopy, not writing.enabled):
        y = copied(x)
        assert y is not x
        assert np.shares_memory(x.numpy(), y.numpy()) == shares
    twice = copy.deepcopy([x, x])
    assert twice[0] is twice[1]


def test_the_copy_of_a_leaf_is_a_leaf_of_its_own():
    x = leaf(1.0)
    for y in (copy.copy(x), copy.deepcopy(x)):
        assert repr(y) == repr(x)
        assert y._node is not x._node
    assert repr(copy.copy(x * 2)) == repr(x * 2)


def test_deepcopy_of_a_result_is_refused():
    with pytest.raises(BackwardError, match=r"MulBackward0.*copy.deepcopy\(x.detach\(\)\)"):
        copy.deepcopy(leaf(1.0) * 2)


def test_deepcopy_inside_a_transform_keeps_the_derivative():
    assert fx.grad(lambda x: copy.deepcopy({"x": x})["x"] * 3)(fx.tensor(1.0)).item() == 3.0


def test_what_functional_code_does_where_another_module_writes(monkeypatch):
    importlib.import_module("fx.torch")  # as another module of the program may
    monkeypatch.setattr(writing, "enabled", True)
    assert fx.grad(lambda x: copy.deepcopy(x) * 3)(fx.tensor(1.0)).item() == 3.0
    layer = fx.nn.Linear(2, 2)
    kept, cut = layer.state_dict()["weight"], layer.weight.detach()
    before = kept.numpy().copy()
    with fx.no_grad():
        layer.weight.fill_(7)
    np.testing.assert_array_equal(kept.numpy(), before)
    np.testing.assert_array_equal(cut.numpy(), before)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), np.full((2, 2), 7))
