"""Virtual ranks: training has the same bits on any number of processes that share them."""

import warnings
from datetime import timedelta

import numpy as np

import fx
import fx.distributed as dist
import fx.nn.functional as F
from fx import nn
from fx.backends.cpu.llvm import driver
from fx.data import DataLoader, DistributedSampler
from fx.nn.parallel import DistributedDataParallel
from tests.distributed.shared import refused
from tests.thorough import THOROUGH

warnings.simplefilter("error")  # nothing runs uncompiled
dist.init_process_group("mpi", timeout=timedelta(seconds=20))
rank, size = dist.get_rank(), dist.get_world_size()
GROUPS = {p: dist.new_group(range(p)) for p in range(1, size + 1)}  # of the first p ranks


class Perceptron(nn.Module):
    def __init__(self, dtype=None):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(12, 33), nn.ReLU(), nn.Dropout(0.3), nn.Linear(33, 17), nn.Tanh(),
            nn.Dropout(0.2), nn.Linear(17, 3),
        )  # fmt: skip
        if dtype is not None:
            self.to(dtype)
        self.dtype = dtype

    def forward(self, x):
        return self.net(x if self.dtype is None else x.astype(self.dtype)).astype(fx.float32)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Dropout2d(0.2), nn.Flatten(), nn.Linear(15, 3),
        )  # fmt: skip

    def forward(self, x):
        return self.net(x.reshape(-1, 1, 3, 4)[:, :, :2].repeat(1, 1, 1, 2)[..., :6])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Linear(3, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.1, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 1)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.blocks(self.into(x.reshape(-1, 4, 3))).mean(1))


class Rows(fx.data.Dataset):
    def __init__(self, count):
        self.x = fx.random.normal(fx.random.key(5), (count, 12))
        self.y = fx.random.randint(fx.random.key(6), (count,), 0, 3)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def trained(make, processes, ranks, jitted, optimizer, rows=50, batch=24, cap=None):
    """What is left of training, in the first ranks; None in others."""
    if rank >= processes:
        return None
    group, dataset = GROUPS[processes], Rows(rows)
    fx.manual_seed(3)
    model = DistributedDataParallel(
        make(), process_group=group, virtual_ranks=ranks, bucket_cap_mb=cap
    )
    sampler = DistributedSampler(dataset, processes, rank, virtual_ranks=ranks)
    loader = DataLoader(dataset, batch // processes, sampler=sampler)
    opt = optimizer(model.parameters())
    fx.manual_seed(7)

    def step(x, y):
        opt.zero_grad()
        losses = []
        for part, target in model.micro_batches(x, y):
            noise = 0.01 * fx.randn_like(part)  # drawn beside the module
            loss = F.cross_entropy(model(part + noise), target)
            loss.backward()
            losses.append(loss.detach())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return fx.stack(losses)

    step, losses = fx.jit(step) if jitted else step, []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            told = [None] * processes
            dist.all_gather_object(told, step(x, y).tolist(), group)
            losses.append([v for own in told for v in own])
    kept = list(model.parameters()) + (list(model.buffers()) if rank == 0 else [])
    return [np.asarray(losses[:-1]), *[v.detach().astype(fx.float64).numpy() for v in kept]]


def check(make, ranks, optimizer, whole=THOROUGH, **more):
    """The same bits on each number of processes; compiled on the fewest and most, else on all.

    A program unrolls its own micro-batches, so each number of processes compiles others.
    """
    fits = [p for p in GROUPS if ranks % p == 0 and ranks // p & (ranks // p - 1) == 0]
    assert len(fits) > 1
    for jitted in (False, True):
        want = trained(make, fits[0], ranks, jitted, optimizer, **more)
        said = [want]
        dist.broadcast_object_list(said, 0)
        for p in fits[1:] if whole or not jitted else fits[-1:]:
            found = trained(make, p, ranks, jitted, optimizer, **more)
            for k, (a, b) in enumerate(zip(found or [], said[0])):  # buffers are those of rank 0
                told = f"{make}, {p} processes, jit={jitted}, {k}"
                np.testing.assert_array_equal(a, b, err_msg=told)


def sgd(params):
    return fx.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01)


def adam(params):
    return fx.optim.AdamW(params, lr=0.01)


def case_a_perceptron():
    check(Perceptron, size, sgd)
    check(Perceptron, 2 * size, adam, whole=True)
    check(Perceptron, size, adam, cap=1e-3)


def case_sums_by_pieces():
    check(lambda: nn.Sequential(nn.Linear(12, 900), nn.Tanh(), nn.Linear(900, 3)), 2 * size, sgd)


def case_floats_of_16_bits():
    check(lambda: Perceptron(fx.bfloat16), 2 * size, sgd)


def case_buffers_are_those_of_the_first_virtual_rank():
    check(Convolutions, size, adam)


def case_attention():
    check(Attention, size, adam)


def case_all_ranks_have_one_program():
    found, key = set(), driver.graph_key

    def noting(graph):
        found.add(key(graph))
        return key(graph)

    driver.graph_key = noting
    try:
        trained(Perceptron, size, 2 * size, True, sgd)
    finally:
        driver.graph_key = key
    assert found
    told = [None] * size
    dist.all_gather_object(told, found)
    assert all(keys == found for keys in told), told


def case_as_many_processes_have_the_bits_of_ordered_sums():
    def gradients(ranks):
        fx.manual_seed(0)
        model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 7), nn.Tanh()), **ranks)
        x = fx.random.normal(fx.random.key(rank), (5, 12))
        for part in model.micro_batches(x) if ranks else (x,):
            (model(part) ** 2).sum().backward()
        return [np.asarray(p.grad) for p in model.parameters()]

    dist.group.WORLD.ordered = True
    want = gradients({})
    dist.group.WORLD.ordered = False
    for a, b in zip(gradients({"virtual_ranks": size}), want, strict=True):
        np.testing.assert_array_equal(a, b)


def case_gradients_that_are_there_already():
    def gradients(processes):
        if rank >= processes:
            return None
        fx.manual_seed(0)
        net = nn.Linear(12, 3)
        model = DistributedDataParallel(
            net, process_group=GROUPS[processes], virtual_ranks=2 * size
        )
        x = fx.random.normal(fx.random.key(1), (4 * size, 12))
        for turn in range(3):  # without zero_grad
            for part in model.micro_batches(
                x.reshape(2, processes, -1, 12)[:, rank].reshape(-1, 12)
            ):
                (model(part) * (turn + 1)).square().sum().backward()
        return [np.asarray(p.grad) for p in net.parameters()]

    said = [gradients(1)]
    dist.broadcast_object_list(said, 0)
    for p in GROUPS:
        if 2 * size % p == 0 and (2 * size // p) & (2 * size // p - 1) == 0:
            for a, b in zip(gradients(p) or [], said[0]):
                np.testing.assert_array_equal(a, b)


def case_what_does_not_fit_is_named():
    net = lambda: nn.Linear(12, 3)
    make = lambda **more: DistributedDataParallel(more.pop("net", net()), **more)
    refused(ValueError, "the same bits on", lambda: make(virtual_ranks=size + 1))
    refused(ValueError, "the same bits on", lambda: make(virtual_ranks=3 * size))
    refused(ValueError, "positive int", lambda: make(virtual_ranks=0))
    looks = {"find_unused_parameters": True, "virtual_ranks": size}
    refused(ValueError, "find_unused_parameters does not go", lambda: make(**looks))
    normed = nn.Sequential(net(), nn.BatchNorm1d(3))
    own = {"net": normed, "broadcast_buffers": False, "virtual_ranks": size}
    refused(ValueError, "broadcast_buffers=False does not go", lambda: make(**own))
    synced = nn.SyncBatchNorm.convert_sync_batchnorm(normed)
    refused(ValueError, "SyncBatchNorm", lambda: make(net=synced, virtual_ranks=size))
    refused(RuntimeError, "write DistributedData", lambda: make().micro_batches(fx.ones((4, 12))))
    model = make(virtual_ranks=2 * size)
    x = fx.ones((6, 12))
    refused(RuntimeError, "model.micro_batches(x, y)", lambda: model(x))
    refused(ValueError, "one length that divides", lambda: list(model.micro_batches(x[:5])))
    refused(ValueError, "one length", lambda: list(model.micro_batches(x, x[:2])))
    refused(RuntimeError, "needs its forward pass", lambda: list(model.micro_batches(x)))
    refused(RuntimeError, "no_sync", lambda: model.no_sync().__enter__())
    refused(RuntimeError, "virtual_ranks", lambda: model.register_comm_hook(None, print))

    def forward_only():
        for part in model.micro_batches(x):
            model(part)

    refused(RuntimeError, "backward pass", forward_only)

    def twice():
        for part in model.micro_batches(x):
            model(part).sum().backward()
            model(part).sum().backward()

    refused(RuntimeError, "one forward and one backward", twice)
    with fx.no_grad():
        assert model(x).shape == (6, 3)
    for part in model.micro_batches(x):  # and goes on
        model(part).sum().backward()
    np.testing.assert_allclose(np.asarray(model.module.bias.grad), [3.0] * 3)
