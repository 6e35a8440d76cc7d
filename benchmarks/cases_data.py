"""Loaders: batches of arrays a second, fetched by two worker processes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Case, Sample

SHAPE = (3, 224, 224)
BATCHES = 24


class Pictures:
    """As many samples as a few epochs of benchmarks need, without reading a disk."""

    def __init__(self, batch: int, wrap: Any) -> None:
        rng = np.random.default_rng(0)
        self.pictures = [rng.random(SHAPE, np.float32) for _ in range(16)]
        self.size = batch * BATCHES
        self.wrap = wrap

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        picture = self.pictures[index % 16]
        return (picture if self.wrap is None else self.wrap(picture)), index % 10


def _sample(loader: Any) -> Sample:
    """Seconds for one batch, once the workers run; each batch is looked at."""
    from time import perf_counter

    def sample() -> float:
        batches = iter(loader)
        next(batches)
        start, count = perf_counter(), 0
        for x, _ in batches:
            float(x[-1, -1, -1, -1])
            count += 1
        return (perf_counter() - start) / count

    sample()
    return sample


def _fx(batch: int, tensors: bool, **options: Any) -> Sample:
    import fx
    from fx.data import DataLoader

    data = Pictures(batch, fx.from_numpy if tensors else None)
    return _sample(DataLoader(data, batch, num_workers=2, persistent_workers=True, **options))


def _torch(batch: int, tensors: bool) -> Sample:
    import torch
    from torch.utils.data import DataLoader

    data = Pictures(batch, torch.from_numpy if tensors else None)
    return _sample(DataLoader(data, batch, num_workers=2, persistent_workers=True))


def _case(batch: int, tensors: bool) -> Case:
    kind = "tensors" if tensors else "arrays"
    return Case(
        f"loader_{kind}_{batch}",
        f"DataLoader, 2 worker processes, {batch} {kind} of 3x224x224",
        samples={"fx": lambda: _fx(batch, tensors), "torch": lambda: _torch(batch, tensors)},
    )


CASES = [_case(batch, tensors) for batch in (32, 64) for tensors in (False, True)] + [
    Case(
        "loader_threads",
        "DataLoader, 2 workers (fx: threads), 32 arrays of 3x224x224",
        samples={
            "fx": lambda: _fx(32, False, worker_type="thread"),
            "torch": lambda: _torch(32, False),
        },
    )
]
