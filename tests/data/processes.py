"""What the tests of worker processes share: a dataset, and a look at what is left behind."""

import os
from pathlib import Path

import numpy as np
import pytest

from fx.data import Dataset

LARGE = (3, 32, 32)  # float32: more than slots.SMALL bytes

forking = [
    pytest.mark.skipif(
        not Path("/proc/self/maps").exists(), reason="what is left behind is read from /proc"
    ),
    pytest.mark.usefixtures("nothing_is_left"),
]


class Numbers(Dataset):
    """Arrays of one number; ``act`` is done in the worker before sample ``at``."""

    def __init__(self, n=12, act=None, at=5):
        self.n, self.act, self.at = n, act, at

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if self.act is not None and index == self.at:
            self.act()
        return np.full(LARGE, index, np.float32)


def first_values(batches):
    return [x[:, 0, 0, 0].tolist() for x in batches]


def children():
    """The process ids of our children."""
    task = Path(f"/proc/{os.getpid()}/task")
    found = [(t / "children").read_text().split() for t in task.iterdir()]
    return {int(pid) for pids in found for pid in pids}
