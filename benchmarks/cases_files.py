"""Saving and loading a state dict of 400 MB, beside PyTorch and a plain write of the same bytes."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.harness import Case, Sample

COUNT, SIDE = 100, 1024  # tensors, and rows and columns of each


def _folder() -> Path:
    """A folder for the files, in memory where there is room: disks differ more than programs."""
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = tempfile.TemporaryDirectory(prefix="fx-files-", dir=place)
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {f"layer{i}.weight": rng.random((SIDE, SIDE), np.float32) for i in range(COUNT)}


def _timed(work: Callable[[], Any]) -> Sample:
    def sample() -> float:
        start = perf_counter()
        work()
        return perf_counter() - start

    sample()
    return sample


def _fx(save: bool) -> Sample:
    import fx

    path = _folder() / "fx.pt"
    state = {name: fx.from_numpy(array) for name, array in _arrays().items()}
    fx.save(state, path)
    return _timed((lambda: fx.save(state, path)) if save else (lambda: fx.load(path)))


def _torch(save: bool) -> Sample:
    import torch

    path = _folder() / "torch.pt"
    state = {name: torch.from_numpy(array) for name, array in _arrays().items()}
    torch.save(state, path)
    return _timed((lambda: torch.save(state, path)) if save else (lambda: torch.load(path)))


def _plain(save: bool) -> Sample:
    path = _folder() / "plain"
    arrays = _arrays()

    def write() -> None:
        with open(path, "wb") as file:
            for array in arrays.values():
                file.write(array.data)

    def read() -> list[np.ndarray]:
        out = []
        with open(path, "rb") as file:
            for array in arrays.values():
                out.append(np.empty(array.shape, array.dtype))
                file.readinto(out[-1].data)
        return out

    write()
    return _timed(write if save else read)


CASES = [
    Case(
        name,
        title,
        samples={
            "fx": lambda save=save: _fx(save),
            "torch": lambda save=save: _torch(save),
            "file": lambda save=save: _plain(save),
        },
        table="files",
    )
    for name, title, save in (
        ("save", "`fx.save` / `torch.save`, 400 MB", True),
        ("load", "`fx.load` / `torch.load`, 400 MB", False),
    )
]
