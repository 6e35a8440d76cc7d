"""Pipelines as PyTorch scripts write them; each rank writes down what it got."""

import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    SplitPoint,
    pipe_split,
    pipeline,
)
from torch.distributed.pipelining.schedules import get_schedule_class

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


def layer(i):
    return fill(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)), 10 * i)


class Model(nn.Module):
    def __init__(self, splits=False):
        super().__init__()
        self.splits = splits
        self.embed = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        x = torch.tanh(self.embed(x))
        for i, inner in enumerate(self.layers):
            if self.splits and i == 1:
                pipe_split()
            x = torch.relu(inner(x)) + x
        return self.head(x)


def train(schedule, modules, first, last, seen):
    parameters = [p for m in modules for p in m.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    x, y = values((8, 4), 1), values((8, 4), 2)
    told = []
    for _ in range(2):
        optimizer.zero_grad()
        losses = []
        args = (x,) if first else ()
        out = schedule.step(*args, target=y, losses=losses) if last else schedule.step(*args)
        optimizer.step()
        told.append([x.item() for x in losses])
        told.append(None if out is None else out.tolist())
    told.append([p.grad.tolist() for p in parameters])
    told.append([p.tolist() for p in parameters])
    seen.append(told)


def manual(rank, seen):
    loss = nn.MSELoss()
    for kind in (ScheduleGPipe, Schedule1F1B):
        for scale in (True, False):
            module = layer(rank)
            stage = PipelineStage(module, rank, 2, torch.device("cpu"))
            schedule = kind(stage, 4, loss_fn=loss, scale_grads=scale)
            train(schedule, [module], rank == 0, rank == 1, seen)
    for kind in (
        ScheduleLoopedBFS,
        ScheduleInterleaved1F1B,
        ScheduleInterleavedZeroBubble,
        ScheduleZBVZeroBubble,
    ):
        mine = [rank, 3 - rank] if kind is ScheduleZBVZeroBubble else [rank, rank + 2]
        modules = [layer(i) for i in mine]
        stages = [PipelineStage(m, i, 4, torch.device("cpu")) for m, i in zip(modules, mine)]
        schedule = kind(stages, 4, loss_fn=loss)
        train(schedule, modules, 0 in mine, 3 in mine, seen)


def split(rank, seen):
    for splits in (False, True):
        model = fill(Model(splits), 3)
        spec = None if splits else {"layers.1": SplitPoint.BEGINNING}
        pipe = pipeline(model, (values((2, 4), 1),), split_spec=spec)
        stage = pipe.build_stage(rank, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, 4, loss_fn=nn.MSELoss())
        seen.append([pipe.num_stages, sorted(n for n, _ in stage.submod.named_parameters())])
        train(schedule, [stage.submod], rank == 0, rank == 1, seen)


def refused(rank, seen):
    stage = PipelineStage(layer(rank), rank, 2, torch.device("cpu"))
    for attempt in (
        lambda: Schedule1F1B(stage, 1),
        lambda: PipelineStage(layer(0), 2, 2, torch.device("cpu")),
        lambda: ScheduleZBVZeroBubble([stage], 4),
        lambda: get_schedule_class("nothing"),
    ):
        try:
            attempt()
        except ValueError as error:
            seen.append(str(error).partition("The valid")[0])
    seen.append(get_schedule_class("interleaved1f1b") is ScheduleInterleaved1F1B)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    seen = {"manual": [], "split": [], "refused": []}
    manual(rank, seen["manual"])
    split(rank, seen["split"])
    refused(rank, seen["refused"])
    with open(os.path.join(sys.argv[1], str(rank)), "w") as file:
        json.dump(seen, file)
    dist.destroy_process_group()
