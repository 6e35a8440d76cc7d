"""Tensors on a mesh: what ranks compute equals one process; what is wrong is named."""

import numpy as np
import pytest

import fx
import fx.distributed as dist
from fx.distributed import DTensor, Partial, Replicate, Shard
from fx.distributed.placements import local_shape
from fx.distributed.redistribution import cost
from fx.errors import ArgumentError, FxError
from tests.distributed.ranks import SIZES, cases

S = Shard
CASES = cases("cases_placements.py")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [*SIZES, 4])
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_placements.py", size)[case]


@pytest.fixture
def mesh():
    return dist.init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))


def test_parts_are_those_of_torch():
    import torch
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset as of_torch

    class Sizes:  # what torch asks of a mesh
        def __init__(self, shape, place):
            self.shape, self.ndim, self.place = shape, len(shape), place

        def get_coordinate(self):
            return self.place

        _is_current_rank_part_of_mesh = lambda self: True
        _sym_get_coordinate = lambda self, i: self.place[i]

        def size(self, i):
            return self.shape[i]

    theirs = torch.distributed.tensor
    kinds = {S(0): theirs.Shard(0), S(1): theirs.Shard(1), Replicate(): theirs.Replicate()}
    for shape in ((5, 7), (1, 4), (6, 3)):
        for p, q in [(p, q) for p in kinds for q in kinds]:
            for place in np.ndindex(2, 3):
                want, _ = of_torch(shape, Sizes((2, 3), list(place)), [kinds[p], kinds[q]])
                assert local_shape(shape, (p, q), (2, 3), place) == tuple(want)


def test_bytes():
    whole, rows, columns, addends = Replicate(), Shard(0), Shard(1), Partial()
    assert cost(addends, whole, 4, 100.0) == 2 * cost(addends, rows, 4, 100.0) == 150.0
    assert cost(rows, whole, 4, 100.0) == 75.0 and cost(rows, columns, 4, 100.0) == 18.75
    assert cost(whole, rows, 4, 100.0) == cost(whole, addends, 4, 100.0) == 0.0
    assert cost(Partial("max"), rows, 4, 100.0) == 150.0  # no reduce_scatter of maxima


BAD = {
    "a placement for each of the 1 axes": lambda m: dist.distribute_tensor(fx.ones(2), m, []),
    "Shard(dim=2) of a tensor of 1 axes": lambda m: dist.distribute_tensor(fx.ones(2), m, [S(2)]),
    "a whole is no addend": lambda m: dist.distribute_tensor(fx.ones(2), m, [Partial()]),
    "device_mesh must be a mesh": lambda m: dist.distribute_tensor(fx.ones(2)),
    "a part of shape (3,)": lambda m: DTensor.from_local(fx.ones(2), m, [S(0)], shape=(3,)),
    "from_local takes the part of a rank": lambda m: DTensor.from_local(
        dist.distribute_tensor(fx.ones(2), m), m, [S(0)]
    ),
    "cannot become": lambda m: dist.distribute_tensor(fx.ones(2), m).redistribute(m, [Partial()]),
    "reduce_op is one of": lambda m: Partial("mean"),
    "lies on no mesh": lambda m: fx.ones(2).redistribute(m, [S(0)]),
    "start 2": lambda m: dist.init_device_mesh("cpu", (2,)),
    "parts of tensors lie on the CPU": lambda m: dist.init_device_mesh("cuda", (1,)),
    "2 names": lambda m: dist.init_device_mesh("cpu", (1,), mesh_dim_names=("a", "b")),
    "made by DTensor.from_local": lambda m: DTensor(1),
    "has no axis 'tp'": lambda m: m["tp"],
    "is a message of parts": lambda m: fx.shard_map(
        lambda x: fx.psum(x, "dp"), m, fx.P(), fx.P(), local=True
    )(dist.distribute_tensor(fx.ones(2), m, [S(0)])),
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input(mesh, words):
    with pytest.raises((FxError, TypeError)) as found:
        BAD[words](mesh)
    assert words in str(found.value)


def test_the_face_has_the_names_of_torch():
    import torch.distributed.device_mesh
    import torch.distributed.tensor

    import fx.torch.distributed.device_mesh
    import fx.torch.distributed.tensor

    assert not {*torch.distributed.tensor.__all__} - {*dir(fx.torch.distributed.tensor)}
    assert not {*torch.distributed.device_mesh.__all__} - {*dir(fx.torch.distributed.device_mesh)}
    ours = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    assert (ours.ndim, ours.shape, ours.size(), ours.size(1)) == (2, (1, 1), 1, 1)
    assert (ours.mesh_dim_names, ours.get_coordinate()) == (("dp", "tp"), (0, 0))
    assert ours["tp"].mesh_dim_names == ("tp",) and ours["dp", "tp"] is ours
    assert repr(ours) == "DeviceMesh((dp=1, tp=1), 'cpu')"
    theirs = torch.distributed.tensor
    for p, q in (
        (Shard(0), theirs.Shard(0)), (Partial("max"), theirs.Partial("max")),
        (Replicate(), theirs.Replicate()),
    ):  # fmt: skip
        assert (repr(p), str(p)) == (repr(q), str(q))
        assert (p.is_shard(), p.is_partial()) == (q.is_shard(), q.is_partial())


def test_scripts_ask_which_tensors_have_parts(mesh):
    """``hasattr(p, "full_tensor")``, as scripts do that train with one process or many."""
    names = ("full_tensor", "to_local", "redistribute", "placements", "device_mesh")
    whole = fx.ones((4, 2))
    cut = dist.distribute_tensor(whole, mesh, [Shard(0)])
    for x, has in ((whole, False), (fx.nn.Parameter(whole), False), (cut, True)):
        assert [hasattr(x, name) for name in names] == [has] * 5
        full = fx.jit(lambda x: x.full_tensor() if hasattr(x, "full_tensor") else x * 1)(x)
        assert full.device.name == "cpu" and full.shape == (4, 2)


def test_new_tensors(mesh):
    import fx.torch.distributed.tensor as tensor

    assert (
        tensor.zeros(2, 3, device_mesh=mesh, placements=[Shard(0)]).full_tensor().tolist()
        == [[0.0] * 3] * 2
    )
    assert tensor.full((2,), 7.0, device_mesh=mesh).tolist() == [7.0, 7.0]
    fx.manual_seed(3)
    want = fx.random.stateful.randn(4)
    fx.manual_seed(3)
    assert tensor.randn(4, device_mesh=mesh).tolist() == want.tolist()


def test_local_map(mesh):
    x = dist.distribute_tensor(fx.ones((4, 2)), mesh, [Shard(0)])
    total = dist.local_map(lambda a: a.sum(0), [Partial()], ([Shard(0)],))
    assert total(x).placements == (Partial(),) and total(x).full_tensor().tolist() == [4.0, 4.0]
    with pytest.raises(ArgumentError, match="redistribute_inputs=True"):
        dist.local_map(lambda a: a, [Shard(1)], ([Shard(1)],))(x)
    moved = dist.local_map(lambda a: a, [Shard(1)], ([Shard(1)],), redistribute_inputs=True)
    assert moved(x).placements == (Shard(1),)
