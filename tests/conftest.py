"""Settings of the whole suite: threads, compiled code, Hypothesis profiles, GPU tests."""

import atexit
import os
import shutil
import sys
import tempfile

# The workers already fill the cores. BLAS and OpenMP read these once, when NumPy loads them.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

# Compiled code of this run stays in this run; the workers share what the first process made.
if "FX_CACHE_DIR" not in os.environ:
    os.environ["FX_CACHE_DIR"] = tempfile.mkdtemp(prefix="fx-tests-")
    atexit.register(shutil.rmtree, os.environ["FX_CACHE_DIR"], ignore_errors=True)

# Hundreds of interpreters start in a run: the first that reads a module writes its bytecode for
# the others, whatever this environment wants elsewhere (half a second for each that imports fx).
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import functools
import gc

gc.disable()  # until all is imported and collected, which stays

import pytest
from hypothesis import HealthCheck, settings

# A first draw may compile a kernel, so there is no deadline and a slow draw is no failure.
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=12,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=100)
settings.load_profile(os.environ.get("FX_HYPOTHESIS", "default"))


@functools.cache
def cuda_available() -> bool:
    """Whether CuPy imports and sees a device."""
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # no CuPy, no driver, or a driver that does not answer
        return False


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips the tests marked `cuda` on machines without a CUDA device."""
    if item.get_closest_marker("cuda") and not cuda_available():
        pytest.skip("needs CuPy and a CUDA device")


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the garbage collector need not look at it again."""
    gc.enable()
    gc.collect()
    gc.freeze()
