"""Functional collectives as PyTorch scripts write them; each rank writes down what it got."""

import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh

warnings.simplefilter("ignore")


def values(shape, seed):
    """Numbers that are the same in every library."""
    n = 1
    for size in shape:
        n *= size
    return torch.tensor([((i * 37 + seed * 11) % 101) / 101 - 0.5 for i in range(n)]).reshape(shape)


def main():
    dist.init_process_group("gloo")
    rank, size, seen = dist.get_rank(), dist.get_world_size(), {}
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
    for name, group in {
        "group": dist.group.WORLD,
        "mesh": mesh,
        "axis": (mesh, 0),
        "ranks": list(range(size)),
    }.items():
        x = values((4, 6), rank)
        seen[name] = [
            funcol.wait_tensor(y).tolist()
            for y in (
                *[funcol.all_reduce(x, op, group) for op in ("sum", "max", "min")],
                *[funcol.all_gather_tensor(x, d, group) for d in (0, 1)],
                *[funcol.reduce_scatter_tensor(x, "sum", d, group) for d in (0, 1)],
                funcol.broadcast(x, 1, group),
                funcol.all_to_all_single(x, [2, 2], [2, 2], group),
                funcol.permute_tensor(x[0].contiguous(), [1, 0], group),
                *funcol.all_reduce_coalesced([x, x[0].contiguous()], "sum", group),
                *funcol.all_gather_into_tensor_coalesced([x], group),
            )
        ]
    for name, f in {
        "all_reduce": lambda x: funcol.all_reduce(x, "sum", mesh),
        "all_gather": lambda x: funcol.all_gather_tensor_autograd(x, 1, mesh),
        "reduce_scatter": lambda x: funcol.reduce_scatter_tensor_autograd(x, "sum", 1, mesh),
        "all_to_all": lambda x: funcol.all_to_all_single_autograd(x, [2, 2], [2, 2], mesh),
    }.items():
        x = values((4, 6), rank).requires_grad_()
        y = f(x)
        (y * values(tuple(y.shape), 7 + rank)).sum().backward()
        seen[f"gradient of {name}"] = x.grad.tolist()
    with open(os.path.join(sys.argv[1], str(rank)), "w") as file:
        json.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()


main()
