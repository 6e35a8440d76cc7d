"""``python -m benchmarks distributed [name ...]``: two ranks of fx beside torch with gloo.

Both libraries live in the same two processes, and take turns; each cell is the median of the ratios
of the turns. Training steps are those of ``DistributedDataParallel``, eager and under jit. Rows
``simulated`` hold a jitted step's time, what ``fx.distributed.simulate`` predicts, and their ratio.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import models

ROUNDS, TURN = 15, 0.02  # turns of each candidate, and seconds that one lasts at least
MESSAGES = [4, 1 << 10, 1 << 14, 1 << 16, 1 << 20, 1 << 24]  # bytes
Run = Callable[[], Any]


def _batch(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def _labels(n: int, below: int = 10) -> np.ndarray:
    return np.random.default_rng(2).integers(0, below, n)


MODELS: dict[str, Any] = {
    "small MLP": (lambda nn: models.mlp(nn, 64, 64, 10), (_batch(32, 64),), _labels(32)),
    "MLP 784-256-10": (lambda nn: models.mlp(nn, 784, 256, 10), (_batch(128, 784),), _labels(128)),
    "LeNet": (models.lenet, (_batch(32, 1, 28, 28),), _labels(32)),
    "3-block GPT": (
        lambda nn: models.transformer(nn, 3),
        (_labels(512, 64).reshape(8, 64), models.causal(64)),
        _labels(512, 64),
    ),
}


def _step(library: str, build: Any, xs: Any, y: Any, jit: bool = False) -> Run:
    """A training step of a model in each rank."""
    m, nn = import_module(library), import_module(f"{library}.nn")
    parallel = import_module(f"{library}.nn.parallel")
    xs, y = tuple(m.tensor(x) for x in xs), m.tensor(y)
    model, criterion = parallel.DistributedDataParallel(build(nn)), nn.CrossEntropyLoss()
    optimizer = import_module(f"{library}.optim").SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def run() -> None:
        optimizer.zero_grad()
        criterion(model(*xs), y).backward()
        optimizer.step()

    return m.jit(run) if jit else run  # type: ignore[no-any-return]


def _reduction(library: str, nbytes: int) -> Run:
    m, dist = import_module(library), import_module(f"{library}.distributed")
    x = m.nn.Parameter(m.ones(nbytes // 4)).data
    return lambda: dist.all_reduce(x)


def _compare(torch: Any, candidates: dict[str, Run]) -> dict[str, tuple[float, float]]:
    """Seconds of each candidate, and its ratio to the first."""
    told: dict[str, list[float]] = {name: [] for name in candidates}
    for run in candidates.values():
        for _ in range(3):
            run()
    times = 1
    for turn in range(-6, ROUNDS):
        for name, run in candidates.items():
            torch.distributed.barrier()
            began = perf_counter()
            for _ in range(times):
                run()
            spent = perf_counter() - began
            if turn >= 0:
                told[name].append(spent / times)
        if turn < 0:  # until turns are long enough, for both ranks alike
            longest = torch.tensor([spent])
            torch.distributed.all_reduce(longest, torch.distributed.ReduceOp.MAX)
            times = max(times, min(8 * times, int(TURN / float(longest) * times) + 1))
    first = next(iter(told.values()))
    return {
        name: (median(each), median(a / b for a, b in zip(each, first)))
        for name, each in told.items()
    }


def _rank(place: str, names: list[str]) -> None:
    import torch

    import fx
    import fx.distributed
    from fx.distributed.simulator import measure

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    fx.set_num_threads(1)
    fx.distributed.init_process_group("mpi", timeout=timedelta(seconds=60))
    rank, size = fx.distributed.get_rank(), fx.distributed.get_world_size()
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{place}", rank=rank, world_size=size
    )
    wanted = lambda name: not names or any(each in name for each in names)
    for name, case in MODELS.items():
        if wanted(name):
            found = _compare(torch, {
                "torch": _step("torch", *case),
                "eager": _step("fx", *case),
                "jit": _step("fx", *case, jit=True),
            })  # fmt: skip
            _show(rank, name, found)
    cluster = measure()
    for name, case in MODELS.items():
        if wanted(f"simulated {name}"):
            _simulated(rank, name, cluster, *case)
    for nbytes in MESSAGES:
        name = f"all_reduce of {nbytes} bytes"
        if wanted(name):
            runs = {"torch": _reduction("torch", nbytes), "eager": _reduction("fx", nbytes)}
            _show(rank, name, _compare(torch, runs))
    torch.distributed.destroy_process_group()


def _simulated(rank: int, name: str, cluster: Any, build: Any, xs: Any, y: Any) -> None:
    """A step's predicted time beside the one that is measured."""
    import fx
    from fx.distributed.simulator import Strategy, layers_of, simulate

    class Whole(fx.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.criterion = build(fx.nn), fx.nn.CrossEntropyLoss()

        def forward(self, *xs: Any) -> Any:
            return self.criterion(self.model(*xs[:-1]), xs[-1])

    layers = layers_of([Whole()], *[fx.tensor(x) for x in (*xs, y)], measure=True)
    sharing = Strategy(data=2, overlap=False, bucket=float("inf"))
    predicted = simulate(layers, sharing, cluster, slots=1).step_time
    step = _step("fx", build, xs, y, jit=True)
    taken = []
    for _ in range(60):
        fx.distributed.barrier()
        began = perf_counter()
        step()
        taken.append(perf_counter() - began)
    found = median(taken[10:])
    if rank == 0:
        cells = f"{found * 1e6:.0f} µs | {predicted * 1e6:.0f} µs | {predicted / found:.2f}"
        print(f"| simulated {name} | {cells} |", flush=True)


def _show(rank: int, name: str, found: dict[str, tuple[float, float]]) -> None:
    if rank == 0:
        cells = [f"{found['torch'][0] * 1e6:.0f} µs"]
        cells += [f"{found[k][1]:.2f}" if k in found else "" for k in ("eager", "jit")]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main(names: list[str]) -> None:
    """Start two ranks and let them measure."""
    print("| two ranks, against torch with gloo | torch | fx, eager | fx, jit |")
    print("| --- | ---: | ---: | ---: |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fx.run", "--standalone", "--nproc-per-node", "2"]
        command += ["-m", "benchmarks.distributed", str(Path(folder) / "meeting")]
        subprocess.run([*command, *names], check=True)


if __name__ == "__main__":
    _rank(sys.argv[1], sys.argv[2:])
