"""Recipes of data-parallel training as PyTorch scripts write them; each rank prints what it got."""

import contextlib
import copy
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.nn as dist_nn
import torch.nn as nn
import torch.nn.functional as F
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.amp import GradScaler, autocast
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

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


class Pairs(nn.Module):
    """Two encoders whose outputs are compared with those of all ranks."""

    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(6, 4), nn.Linear(5, 4)
        self.scale = nn.Parameter(torch.ones([]))

    def forward(self, a, b):
        return (
            F.normalize(self.image(a), dim=-1),
            F.normalize(self.text(b), dim=-1),
            self.scale.exp(),
        )


def contrastive(rank, seen):
    model = DDP(fill(Pairs(), 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    labels = torch.arange(3) + 3 * rank
    for step in range(3):
        a, b, scale = model(values((3, 6), step + 9 * rank), values((3, 5), step + 4 + 9 * rank))
        all_a, all_b = torch.cat(dist_nn.all_gather(a)), torch.cat(dist_nn.all_gather(b))
        loss = F.cross_entropy(scale * a @ all_b.T, labels)
        loss = (loss + F.cross_entropy(scale * b @ all_a.T, labels)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen[f"contrastive {step}"] = [loss.item(), state(model)]
    x = values((2, 3), rank).requires_grad_()
    y = dist_nn.reduce_scatter(torch.zeros(2, 3), [x * i for i in (1, 2)])
    (y * (rank + 1)).sum().backward()
    seen["scattered"] = [y.tolist(), x.grad.tolist()]


def scaled(rank, seen):
    """Accumulated gradients of mixed precision, clipped; a step with an infinity is left out."""
    model = DDP(fill(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)), 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for step in range(6):
        last = step % 2 == 1
        x = values((4, 6), 10 * step + rank)
        y = torch.tensor([(step + i + rank) % 3 for i in range(4)])
        with contextlib.nullcontext() if last else model.no_sync():
            with autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x), y) / 2
            scaler.scale(loss).backward()
        if last:
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            seen[f"scaled {step}"] = [loss.item(), norm.item(), scaler.get_scale()]
    scaler.scale((model(x) * (float("inf") if rank == 0 else 1.0)).sum()).backward()
    before = state(model)
    scaler.step(optimizer)
    scaler.update()
    seen["left out"] = [before == state(model), scaler.get_scale()]


def step_of(model, optimizer, rank, k):
    optimizer.zero_grad()
    F.mse_loss(model(values((4, 6), k + 9 * rank)), values((4, 6), k + rank)).backward()
    optimizer.step()


def layers():
    return fill(nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)), 2)


def sharded(rank, seen):
    """An optimizer's state that is shared out, saved behind a step of the schedule, and resumed."""
    models, optimizers = [DDP(layers())], []
    make = lambda m, lr: ZeroRedundancyOptimizer(m.parameters(), torch.optim.Adam, lr=lr)
    optimizers.append(make(models[0], 0.05))
    schedule = torch.optim.lr_scheduler.StepLR(optimizers[0], 2, 0.5)
    for k in range(4):
        step_of(models[0], optimizers[0], rank, k)
        schedule.step()
    optimizers[0].consolidate_state_dict(to=1)
    saved = [copy.deepcopy(optimizers[0].state_dict()) if rank == 1 else None]
    dist.broadcast_object_list(saved, src=1)
    models.append(DDP(layers()))
    models[1].load_state_dict(models[0].state_dict())
    optimizers.append(make(models[1], 1.0))
    optimizers[1].load_state_dict(saved[0])
    for model, optimizer in zip(models, optimizers):
        step_of(model, optimizer, rank, 7)
    seen["sharded"] = [state(model) for model in models]
    seen["rates"] = [o.param_groups[0]["lr"] for o in optimizers]
    seen["resumed"] = state(models[0]) == state(models[1])


def local_steps(rank, seen):
    """Gradients of each rank alone after two steps, and means of the parameters every other."""
    model = DDP(layers())
    alone, _ = dist.new_subgroups(group_size=1)
    model.register_comm_hook(local.PostLocalSGDState(None, alone, 2), local.post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), PeriodicModelAverager(2, warmup_steps=2)
    )
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for k in range(6):
        step_of(model, optimizer, rank, k)
        schedule.step()
        seen[f"local {k}"] = state(model)
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    seen["local state"] = [sorted(saved), saved["step"], optimizer.param_groups[0]["lr"]]


def by_hand(rank, seen):
    """Gradients as one buffer."""
    model = layers()
    model(values((4, 6), rank)).sum().backward()
    grads = [p.grad for p in model.parameters()]
    flat = _flatten_dense_tensors(grads)
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for grad, mean in zip(grads, _unflatten_dense_tensors(flat, grads)):
        grad.copy_(mean)
    seen["by hand"] = [list(flat.shape), [p.grad.tolist() for p in model.parameters()]]


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, seen = dist.get_rank(), {}
    for recipe in (contrastive, scaled, sharded, local_steps, by_hand):
        recipe(rank, seen)
    with open(os.path.join(sys.argv[1], str(rank)), "w") as file:
        json.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()
