"""Data-parallel training as PyTorch scripts write it; each rank prints what it got."""

import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

warnings.simplefilter("ignore")


def values(shape, seed):
    """Numbers that are the same in every library."""
    n = 1
    for size in shape:
        n *= size
    return torch.tensor([((i * 37 + seed * 11) % 101) / 101 - 0.5 for i in range(n)]).reshape(shape)


def fill(model, seed):
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(values(tuple(p.shape), seed + k))
    return model


def state(model):
    return {k: v.tolist() for k, v in model.state_dict().items()}


class Branches(nn.Module):
    """A model one of whose branches may have no part."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 2), nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x, which):
        return self.a(x) + (self.b(x) if which else 0)


def train(rank, seen):
    model = fill(
        nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)), rank
    )
    model = DDP(model, bucket_cap_mb=0.0001)
    seen["first"] = state(model)
    data = TensorDataset(values((24, 4), 1), values((24, 2), 2))
    sampler = DistributedSampler(data, shuffle=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    seen["trained"] = state(model)
    model.eval()
    seen["eval"] = model(values((2, 4), 5)).tolist()


def accumulate(rank, seen):
    model = DDP(fill(nn.Linear(3, 2), 0))
    with model.no_sync():
        model(values((4, 3), rank)).sum().backward()
    seen["own"] = model.module.weight.grad.tolist()
    model(values((4, 3), rank + 5)).sum().backward()
    seen["sum"] = model.module.weight.grad.tolist()
    (model(values((4, 3), rank + 7)) ** 2).sum().backward()
    seen["again"] = model.module.weight.grad.tolist()


def unused(rank, seen):
    model = DDP(fill(Branches(), 0), find_unused_parameters=True)
    for step in range(3):
        model.zero_grad()
        model(values((4, 3), rank + step), step == rank).sum().backward()
        grads = {
            n: None if p.grad is None else p.grad.tolist() for n, p in model.named_parameters()
        }
        seen[f"unused {step}"] = grads
    model = DDP(fill(Branches(), 0), static_graph=True)
    for step in range(3):
        model.zero_grad()
        model(values((4, 3), rank + step), True).sum().backward()
    seen["static"] = [p.grad is None or p.grad.tolist() for p in model.parameters()]
    model = DDP(fill(Branches(), 0))
    try:
        for _ in range(2):
            model(values((4, 3), rank), False).sum().backward()
        seen["error"] = "none"
    except RuntimeError as error:
        seen["error"] = "Expected to have finished reduction" in str(error)


def uneven(rank, seen):
    for mean in (True, False):
        model = DDP(fill(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), 0))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with model.join(divide_by_initial_world_size=mean):
            for step in range(2 + 2 * rank):
                optimizer.zero_grad()
                model(values((4, 3), rank + 2 * step)).sum().backward()
                optimizer.step()
        seen[f"uneven {mean}"] = state(model)


def main():
    dist.init_process_group("gloo")
    rank, seen = dist.get_rank(), {}
    train(rank, seen)
    accumulate(rank, seen)
    unused(rank, seen)
    uneven(rank, seen)
    dist.barrier()
    dist.destroy_process_group()
    with open(os.path.join(sys.argv[1], str(rank)), "w") as file:
        json.dump(seen, file)


main()
