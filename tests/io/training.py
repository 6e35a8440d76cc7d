"""A training run that is killed at random moments and goes on where its last checkpoint stands.

``training.py run FOLDER STEPS eager|jit`` trains up to a step and prints a digest of everything:
weights, optimizer, losses, random states. ``training.py kill FOLDER KILLS eager|jit`` trains in
processes that it kills with SIGKILL until that has happened so often, and compares each finished
run with one that was never interrupted.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from pathlib import Path
from signal import SIGKILL
from time import perf_counter, sleep
from typing import Any

for _name in ("FX_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # children are forked, and threads do not survive that

import numpy as np

import fx
from fx import nn
from fx.nn import functional as F
from fx.optim.lr_scheduler import CosineAnnealingLR

STEPS = 30


class Model(nn.Module):
    """Small, with everything that has state: weights, running statistics, random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.last(self.drop(F.relu(self.norm(self.first(x)))))


def batches(loader: Any) -> Any:
    """The batches of all epochs, from where the loader stands."""
    while True:
        yield from loader


def run(folder: Path, steps: int, compiled: bool, saved: Any = None) -> str:
    """Train up to a number of steps; returns the digest.

    Args:
        folder: of the checkpoints.
        steps: how many, counting those made before.
        compiled: whether the step is jitted.
        saved: called with the number of each step whose checkpoint is on the disk.
    """
    fx.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    model = Model()
    optimizer = fx.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = CosineAnnealingLR(optimizer, T_max=20)
    data = fx.data.TensorDataset(fx.randn(50, 4), fx.arange(50) % 2)
    loader = fx.data.DataLoader(data, batch_size=8, shuffle=True)
    losses: list[float] = []
    parts = dict(model=model, optimizer=optimizer, scheduler=scheduler, loader=loader)
    checkpoint = fx.Checkpoint(folder)
    found = checkpoint.restore(**parts)
    if found is not None:
        losses = found["losses"]

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = fx.jit(step)
    source = batches(loader)
    while len(losses) < steps:
        x, y = next(source)
        noise = random.random() + np.random.rand()
        losses.append(step(x + 0.01 * noise, y).item())
        scheduler.step()
        checkpoint.save(step=len(losses), losses=losses, **parts)
        if saved is not None:
            saved(len(losses))
    return digest(losses, **parts)


def digest(losses: list[float], model: Any, optimizer: Any, scheduler: Any, loader: Any) -> str:
    """A hash over all that training changes."""
    out = hashlib.sha256(repr((losses, scheduler.get_last_lr())).encode())
    for value in model.state_dict().values():
        out.update(np.asarray(value).tobytes())
    for _, held in sorted(optimizer.state_dict()["state"].items()):
        for name in sorted(held):
            out.update(np.asarray(held[name]).tobytes())
    out.update(repr((random.random(), np.random.rand(), fx.rand(2).tolist())).encode())
    return out.hexdigest()


# killing ----------------------------------------------------------------------------------------


def child(folder: Path, compiled: bool) -> tuple[int, int]:
    """A process that trains to the end and says so through a pipe; its number, and the pipe."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        found = run(folder, STEPS, compiled, lambda n: os.write(writing, b"saved %4d\n" % n))
        os.write(writing, found.encode())
        os._exit(0)
    finally:
        os._exit(1)


def kill_at_random(folder: Path, count: int, compiled: bool) -> None:
    """Train in processes that are killed, until ``count`` have been, one while it wrote a file.

    Raises:
        AssertionError: if a finished run differs, or a checkpoint that was saved is not there.
    """
    rng = random.Random(f"{count} {compiled}")
    expected = run(folder / "whole", STEPS, compiled)
    start = perf_counter()
    assert run(folder / "again", STEPS, compiled) == expected
    pace = (perf_counter() - start) / STEPS
    kills = runs = torn = last = 0
    while (more := kills < count or (not torn and kills < 8 * count)) or last:
        place = folder / str(runs)
        pid, pipe = child(place, compiled)
        with open(pipe) as lines:
            patience = rng.randrange(12) if more else STEPS + 1
            heard = [line for _, line in zip(range(patience), lines)]
            sleep(rng.uniform(0, 2 * pace))
            os.kill(pid, SIGKILL)
            killed = os.waitpid(pid, 0)[1] == SIGKILL
            heard += lines
        last = max([last, *(int(line[6:]) for line in heard if line.startswith("saved "))])
        if killed:
            kills += 1
            torn += any(name.endswith(".tmp") for name in os.listdir(folder) + _listed(place))
            latest = fx.Checkpoint(place).latest() or 0
            assert latest >= last, f"step {last} was saved, and the latest is {latest}"
        else:
            assert heard and heard[-1] == expected, f"{heard[-1:]} instead of {expected}"
            kept = fx.Checkpoint(place).steps()  # one more if the last kill came before the sweep
            assert kept in ([*range(STEPS - n, STEPS + 1)] for n in (2, 3)), kept
            runs, last = runs + 1, 0
    print(f"{kills} kills, {torn} of them while a file was written, {runs} runs as {expected}")


def _listed(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []


if __name__ == "__main__":
    command, where, number, mode = sys.argv[1:]
    if command == "run":
        print(run(Path(where), int(number), mode == "jit"))
    else:
        kill_at_random(Path(where), int(number), mode == "jit")
