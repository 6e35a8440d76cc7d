"""Fixtures of the data room."""

import gc
import os
from pathlib import Path

import pytest

from tests.data.processes import children


@pytest.fixture
def nothing_is_left():
    """Whatever happens in a test: no process, no descriptor, no mapping of shared memory stays."""
    gc.collect()
    before, descriptors = children(), len(os.listdir("/proc/self/fd"))
    yield
    gc.collect()
    assert children() <= before
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert "memfd:fx-data" not in Path("/proc/self/maps").read_text()
