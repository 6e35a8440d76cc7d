"""Settings of the whole suite: threads, compiled code, Hypothesis profiles, GPU tests."""

import atexit
import contextlib
import ctypes
import importlib.metadata
import os
import shutil
import sys
import tempfile

# The workers already fill the cores. BLAS and OpenMP read these once, when NumPy loads them.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

# What one run compiled serves the next: the names of entries hold the source of the compiler, its
# versions and the CPU. Where the checkout takes no files, the folder ends with the run.
if "FX_CACHE_DIR" not in os.environ:
    kept = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".fx-cache")
    try:
        os.makedirs(kept, mode=0o700, exist_ok=True)
        tempfile.TemporaryFile(dir=kept).close()
    except OSError:
        kept = tempfile.mkdtemp(prefix="fx-tests-")
        atexit.register(shutil.rmtree, kept, ignore_errors=True)
    os.environ["FX_CACHE_DIR"] = kept
# What JAX compiles, as an oracle, lies beside it.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(os.environ["FX_CACHE_DIR"], "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# An oracle runs a few times: XLA's optimisation takes longer than it saves, and so do its emitters
# of fusions and its threads. It ends a process that names a flag which it does not know.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
with contextlib.suppress(importlib.metadata.PackageNotFoundError):
    if importlib.metadata.version("jaxlib").startswith("0.10."):
        at_once = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        os.environ.setdefault("XLA_FLAGS", at_once)

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
    gc.set_threshold(20_000, 10, 10)  # to look after every 700 objects takes a twentieth of a run


ORACLES = 300 << 20  # bytes by which a worker grows before JAX forgets its programs
_resident = 1 << 29  # bytes of a worker when it last did; before that, what imports take


def resident() -> int:
    """Bytes of this process that lie in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as told:
            return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@pytest.fixture(scope="module", autouse=True)
def what_stays_is_not_looked_at() -> None:
    """What lives when a file of tests begins is left out of collections until the run ends.

    A worker holds millions of objects (compiled programs, libraries, reports), and to walk them
    takes a second: each time a test that looks for leaks collects. JAX, as an oracle, keeps every
    program that it compiled, some megabytes a test: when they are many, they go.
    """
    global _resident
    if "jax" in sys.modules and resident() > _resident + ORACLES:
        sys.modules["jax"].clear_caches()
        with contextlib.suppress(AttributeError, OSError):  # glibc's alone
            ctypes.CDLL(None).malloc_trim(0)
        _resident = max(resident(), _resident)
    gc.collect()
    gc.freeze()
