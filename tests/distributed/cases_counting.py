"""Messages that a block sends, in each of several ranks: ``CommDebugMode``."""

from datetime import timedelta

import fx
import fx.distributed as dist
from fx import nn
from fx.distributed import DTensor, Partial, Replicate, Shard
from fx.torch import ops
from fx.torch.distributed.tensor.debug import CommDebugMode
from fx.torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
mesh = dist.init_device_mesh("cpu", (size,))
functional, c10d = ops.c10d_functional, ops.c10d


def counts(function):
    with CommDebugMode() as mode:
        function()
    assert mode.get_total_counts() == sum(mode.get_comm_counts().values())
    return dict(mode.get_comm_counts())


def case_a_pair_of_layers_sends_one_sum():
    net = nn.Sequential(nn.Linear(4, 2 * size), nn.ReLU(), nn.Linear(2 * size, 4))
    net = parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    found = []
    assert counts(lambda: found.append(net(fx.ones(3, 4)))) == {functional.all_reduce: 1}
    assert counts(lambda: found[0].sum().backward()) == {}
    step = fx.jit(lambda x: net(x))
    step(fx.ones(3, 4))
    assert counts(lambda: step(fx.ones(3, 4))) == {"fx.compiled": 2}  # a comparison, the sum


def case_placements():
    x = fx.ones(size, size)
    rows = dist.distribute_tensor(x, mesh, [Shard(0)])
    assert counts(lambda: rows + 1) == {}
    for place, kind in (
        (Replicate(), functional.all_gather_into_tensor),
        (Shard(1), functional.all_to_all_single),
    ):
        assert counts(lambda place=place: rows.redistribute(mesh, [place])) == {kind: 1}
    for place, kind in (
        (Replicate(), functional.all_reduce),
        (Shard(0), functional.reduce_scatter_tensor),
    ):
        addends = DTensor.from_local(x * rank, mesh, [Partial()])
        assert counts(lambda a=addends, p=place: a.redistribute(mesh, [p])) == {kind: 1}


def case_collectives_of_groups():
    one, row = fx.ones(1), fx.ones(size)
    listed = [fx.ones(1) for _ in range(size)]
    calls = {
        c10d.allreduce_: lambda: [dist.all_reduce(one)],
        c10d.allgather_: lambda: [dist.all_gather(listed, one)],
        c10d._allgather_base_: lambda: [dist.all_gather_into_tensor(row, one)],
        c10d._reduce_scatter_base_: lambda: [dist.reduce_scatter_tensor(one, row)],
        c10d.reduce_scatter_: lambda: [dist.reduce_scatter(one, listed)],
        c10d.alltoall_base_: lambda: [dist.all_to_all_single(row, row)],
        c10d.alltoall_: lambda: [dist.all_to_all(listed, listed)],
        c10d.broadcast_: lambda: [dist.broadcast(one, 0)],
    }
    for kind, call in calls.items():
        assert counts(call) == {kind: 1}, kind
    assert counts(dist.barrier) == {}

    def both():
        assert counts(calls[c10d.allreduce_]) == {c10d.allreduce_: 1}
        calls[c10d.broadcast_]()

    assert counts(both) == {c10d.allreduce_: 1, c10d.broadcast_: 1}
