"""Plans on ranks: training equals one process, and what is sent is what was foreseen."""

from datetime import timedelta

import numpy as np

import fx
import fx.distributed as dist
from fx.distributed import DTensor, plan
from fx.graph.passes.effects import effect_of
from tests.distributed.shared import perceptron, programs, trainer

dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()


def sent(program):
    found = [n for n in program.graph.nodes if effect_of(n)]
    return [(n.primitive.name, n.params["axis"][-1]) for n in found]


def check(shape, names, width, rows, **more):
    mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=names)
    x, y = [fx.random.normal(fx.random.key(i), (rows, width)) for i in (1, 2)]
    plain, net = perceptron(width), perceptron(width)
    one = trainer(plain)
    found = plan(trainer(net), mesh, **more)(x, y)
    placed = [found.of(p) for p in net.parameters()]
    found.distribute(net, mesh)
    assert [p.placements for p in net.parameters()] == placed
    step = fx.jit(trainer(net))
    batch = found.distribute_args((x, y), mesh)
    for _ in range(3):
        want = one(x, y)
        with programs() as ran:
            loss = step(*batch)
        loss = loss.full_tensor() if isinstance(loss, DTensor) else loss
        np.testing.assert_allclose(float(loss), float(want), 1e-5)
    assert [p.placements for p in net.parameters()] == placed
    foreseen = [(m.name, str(names.index(m.axis))) for m in found.messages]
    assert sent(ran[-1]) == foreseen, (sent(ran[-1]), foreseen)
    for p, w in zip(net.parameters(), plain.parameters()):
        a, b = p.detach().full_tensor().numpy(), w.detach().numpy()
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)
    return found


def case_data_parallel():
    assert check((size,), ("i",), 32, 1024).name == "data parallel"


def case_columns_and_rows():
    found = check((size,), ("i",), 256, 4)
    assert [str(p) for p in found.placements.values()].count("(Shard(dim=1),)") == 1


def case_little_memory():
    roomy = check((size,), ("i",), 64, 256)
    every = [p.memory for p in [roomy, *roomy.others.values()]]
    tight = check((size,), ("i",), 64, 256, memory=min(every) * 1.01)
    assert tight.memory < roomy.memory or roomy.memory == min(every)


def case_two_axes():
    if size == 4:
        check((2, 2), ("dp", "tp"), 128, 64)


def case_all_ranks_plan_alike():
    mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("i",))
    net = perceptron(64)
    told = [None] * size
    found = plan(trainer(net), mesh)(fx.zeros((64, 64)), fx.zeros((64, 64)))
    dist.all_gather_object(told, str(found))
    assert len(set(told)) == 1
