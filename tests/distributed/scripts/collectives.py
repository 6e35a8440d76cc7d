"""What a PyTorch script does with torch.distributed; each rank prints what it got."""

import json
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    seen = {"rank": rank, "size": size, "backend": dist.get_backend()}
    x = torch.arange(6.0).reshape(2, 3) + rank
    assert dist.all_reduce(x) is None
    seen["all_reduce"] = x.tolist()
    view = x[0]
    dist.all_reduce(view, op=dist.ReduceOp.MAX)
    seen["of a view"] = x.tolist()
    dist.broadcast(x, src=1)
    seen["broadcast"] = x.tolist()
    y = torch.ones(3) * (rank + 1)
    dist.reduce(y, dst=0, op=dist.ReduceOp.PRODUCT)
    seen["reduce"] = y.tolist() if rank == 0 else None
    listed = [torch.zeros(2, dtype=torch.int64) for _ in range(size)]
    first = listed[0]
    dist.all_gather(listed, torch.tensor([rank, 7]))
    seen["all_gather"] = [t.tolist() for t in listed] + [first.tolist(), first is listed[0]]
    out = torch.zeros(size * 2)
    dist.all_gather_into_tensor(out, torch.full((2,), float(rank)))
    seen["all_gather_into_tensor"] = out.tolist()
    rooms = [torch.zeros(2) for _ in range(size)] if rank == 1 else None
    dist.gather(torch.full((2,), float(rank)), rooms, dst=1)
    seen["gather"] = [t.tolist() for t in rooms or []]
    place = torch.zeros(2)
    dist.scatter(
        place, [torch.full((2,), 3.0 + r) for r in range(size)] if rank == 0 else None, src=0
    )
    seen["scatter"] = place.tolist()
    place = torch.zeros(2)
    dist.reduce_scatter(place, [torch.full((2,), float(rank + r)) for r in range(size)])
    seen["reduce_scatter"] = place.tolist()
    place = torch.zeros(2)
    dist.reduce_scatter_tensor(place, torch.arange(4.0) * (rank + 1))
    seen["reduce_scatter_tensor"] = place.tolist()
    out = torch.zeros(4, dtype=torch.int32)
    dist.all_to_all_single(out, torch.arange(4, dtype=torch.int32) + 10 * rank)
    seen["all_to_all_single"] = out.tolist()
    out = torch.zeros(3 if rank == 0 else 1)
    sizes = [[2, 0], [1, 1]]
    back = [row[rank] for row in sizes]
    dist.all_to_all_single(out, torch.arange(2.0) + 5 * rank, back, sizes[rank])
    seen["ragged"] = out.tolist()
    work = dist.all_reduce(y := torch.ones(2), async_op=True)
    work.wait()
    seen["work"] = [y.tolist(), work.is_completed()]
    if rank == 0:
        dist.send(torch.tensor([4.0, 5.0]), dst=1)
        seen["from"] = dist.recv(place)
    else:
        seen["from"] = dist.recv(place, src=0)
        dist.send(place * 2, dst=0)
    seen["message"] = place.tolist()
    ops = [
        dist.P2POp(dist.isend, torch.full((2,), float(rank)), 1 - rank),
        dist.P2POp(dist.irecv, place, 1 - rank),
    ]
    for request in dist.batch_isend_irecv(ops):
        request.wait()
    seen["batch"] = place.tolist()
    objects = [None] * size
    dist.all_gather_object(objects, {"r": rank})
    told = [{"a": 1}, 2] if rank == 0 else [None, None]
    dist.broadcast_object_list(told, src=0)
    seen["objects"] = [objects, told]
    dist.barrier()
    dist.monitored_barrier()
    alone = dist.new_group([1])
    seen["in group"] = [dist.get_rank(alone), alone != dist.GroupMember.NON_GROUP_MEMBER]
    if rank == 1:
        dist.all_reduce(y, group=alone)
    lin = torch.nn.Linear(3, 2)
    for p in lin.parameters():
        dist.broadcast(p.data, src=0)
    lin(torch.ones(4, 3) * (rank + 1)).sum().backward()
    for p in lin.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= size
    seen["gradient"] = [p.grad.tolist() for p in lin.parameters()]
    store = dist.PrefixStore("mine", dist.HashStore())
    store.set("k", "v")
    seen["store"] = [
        store.get("k").decode(),
        store.add("n", 3),
        store.add("n", 4),
        store.compare_set("k", "v", "w").decode(),
        store.compare_set("k", "v", "x").decode(),
        store.compare_set("none", "", "new").decode(),
        store.compare_set("other", "some", "new").decode(),
        store.delete_key("k"),
        store.delete_key("k"),
        store.check(["n"]),
        store.check(["n", "gone"]),
    ]
    dist.destroy_process_group()
    seen["after"] = dist.is_initialized()
    with open(os.path.join(sys.argv[1], str(rank)), "w") as file:
        json.dump(seen, file)


main()
