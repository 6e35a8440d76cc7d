"""Fully sharded training as PyTorch scripts write it; each rank prints what it got."""

import json
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard


def values(shape, seed):
    """Numbers that are the same in every library."""
    n = 1
    for size in shape:
        n *= size
    return torch.tensor([((i * 37 + seed * 11) % 101) / 101 - 0.5 for i in range(n)]).reshape(shape)


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(n), nn.Linear(n, 7), nn.Linear(7, n)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


def build(mesh, **options):
    model = nn.Sequential(nn.Linear(4, 5), Block(5), Block(5), nn.Linear(5, 3))
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(values(tuple(p.shape), k))
    for block in (model[1], model[2]):
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def train(model, optimizer, rank, steps=3):
    for k in range(steps):
        optimizer.zero_grad()
        x, y = values((3, 4), 10 * k + rank), values((3, 3), 50 + 10 * k + rank)
        loss = F.mse_loss(model(x).float(), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return norm.full_tensor().item(), loss.item()


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    whole = StateDictOptions(full_state_dict=True)
    seen = {}
    for name, make in {
        "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
        "adamw": lambda ps: torch.optim.AdamW(ps, lr=0.01, weight_decay=0.1),
    }.items():
        for reshard in (True, False):
            model = build(mesh, reshard_after_forward=reshard)
            optimizer = make(model.parameters())
            seen[f"{name} {reshard}"] = train(model, optimizer, rank)
            seen[f"{name} {reshard} parts"] = {
                k: v.to_local().tolist() for k, v in model.state_dict().items()
            }
    found = get_model_state_dict(model, options=whole)
    seen["whole"] = {k: v.tolist() for k, v in found.items()}
    slots = get_optimizer_state_dict(model, optimizer, options=whole)["state"]
    seen["slots"] = {n: {k: v.tolist() for k, v in held.items()} for n, held in slots.items()}
    other = build(mesh)
    set_model_state_dict(other, found, options=whole)
    with torch.no_grad():
        seen["loaded"] = other(values((2, 4), 3)).tolist()
    policy = MixedPrecisionPolicy(param_dtype=torch.float64)
    mixed = build(mesh, mp_policy=policy)
    seen["mixed"] = train(mixed, torch.optim.SGD(mixed.parameters(), lr=0.1), rank)
    seen["kinds"] = [isinstance(m, FSDPModule) for m in mixed.modules()]
    seen["dtypes"] = [str(p.dtype) for p in mixed.parameters()]
    dist.destroy_process_group()
    with open(f"{sys.argv[1]}/{rank}", "w") as out:
        json.dump(seen, out)


main()
