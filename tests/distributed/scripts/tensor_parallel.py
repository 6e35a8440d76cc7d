"""Tensor-parallel training as PyTorch scripts write it; each rank prints what it got."""

import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

warnings.simplefilter("ignore")


def values(shape, seed):
    """Numbers that are the same in every library."""
    n = 1
    for size in shape:
        n *= size
    return torch.tensor([((i * 37 + seed * 11) % 101) / 101 - 0.5 for i in range(n)]).reshape(shape)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(12, 8), nn.LayerNorm(8)
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 12, bias=False)
        with torch.no_grad():
            for k, p in enumerate(self.parameters()):
                p.copy_(values(tuple(p.shape), k))

    def forward(self, x):
        x = self.table(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def whole(x):
    return (x.full_tensor() if isinstance(x, DTensor) else x).tolist()


def train(mesh, plan, seen, name):
    model = parallelize_module(Model(), mesh, plan)
    x = torch.tensor([[(3 * i + 5 * j) % 12 for j in range(6)] for i in range(4)])
    y = torch.tensor([(7 * i) % 12 for i in range(24)])
    parameters = list(model.parameters())
    optimizers = [
        torch.optim.AdamW([p for p in parameters if isinstance(p, DTensor) is kind], lr=0.01)
        for kind in (True, False)
        if any(isinstance(p, DTensor) is kind for p in parameters)
    ]
    for step in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        logits = model(x)
        seen[f"{name} logits {step}"] = [str(logits.placements), list(logits.to_local().shape)]
        with loss_parallel():
            loss = F.cross_entropy(logits.flatten(0, 1), y)
            loss.backward()
        seen[f"{name} loss {step}"] = whole(loss)
        if not step:
            seen[f"{name} grads"] = {n: whole(p.grad) for n, p in model.named_parameters()}
        for optimizer in optimizers:
            optimizer.step()
    seen[f"{name} state"] = {n: whole(p) for n, p in model.named_parameters()}
    seen[f"{name} placements"] = {
        n: str(p.placements) for n, p in model.named_parameters() if isinstance(p, DTensor)
    }


def main():
    seen, mesh = {}, init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
    plan = {
        "table": RowwiseParallel(input_layouts=Replicate()),
        "layers.*.up": ColwiseParallel(),
        "layers.*.down": RowwiseParallel(),
        "head": ColwiseParallel(use_local_output=False),
    }
    train(mesh, plan, seen, "tensor")
    plan = {
        "table": RowwiseParallel(
            input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False
        ),
        "layers.*.norm": SequenceParallel(),
        "layers.*.up": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
        "layers.*.down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    }
    train(mesh, plan, seen, "sequence")
    dist.barrier()
    dist.destroy_process_group()
    with open(os.path.join(sys.argv[1], str(os.environ["RANK"])), "w") as file:
        json.dump(seen, file)


main()
