"""A small data-parallel training that resumes from its checkpoints: the script of the kill test.

Each rank saves its own part after every step. Ranks die between each other's saves, so all go on
from the last step that all have. The last step waits for the file ``enough``.
"""

import hashlib
import os
import sys
import time
from pathlib import Path

import numpy as np

import fx
from fx import nn
from fx.distributed import mpi, recorder

STEPS = 200

place = Path(sys.argv[1])
MPI = mpi.start()
world = MPI.COMM_WORLD
fx.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Tanh(), nn.Linear(16, 1))
optimizer = fx.optim.Adam(model.parameters(), lr=0.01)
fx.manual_seed(1 + world.rank)  # the masks of each rank are its own

checkpoint = fx.Checkpoint(place / f"rank{world.rank}")
mine = checkpoint.steps()
last = world.allreduce(mine[-1] if mine else -1, MPI.MIN)
if last >= 0:
    checkpoint.restore(last, model=model, optimizer=optimizer)
os.write(1, b"rank %d goes on at %f\n" % (world.rank, time.monotonic()))
for step in range(last + 1, STEPS):
    while step == STEPS - 1 and not (place / "enough").exists():
        time.sleep(0.01)
    x = fx.from_numpy(np.random.default_rng((step, world.rank)).standard_normal((4, 8), "float32"))
    optimizer.zero_grad()
    ((model(x) - x.sum(1, keepdims=True)) ** 2).mean().backward()
    for p in model.parameters():
        total = np.empty(p.grad.shape, "float32")
        token = recorder.begin("all_reduce", total.nbytes)
        world.Allreduce(p.grad.numpy(), total)
        recorder.end(token)
        p.grad = fx.from_numpy(total)
    optimizer.step()
    checkpoint.save(step=step, model=model, optimizer=optimizer)
bits = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
os.write(1, b"bits %s\n" % hashlib.sha256(bits).hexdigest().encode())
