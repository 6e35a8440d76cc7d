"""What imports leave for later: Numba, which costs more than NumPy and all of fx, and others."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["conv", "index", "matmul", "philox", "pool", "sort"])
def test_importing_a_kernel_module_does_not_import_numba(name):
    code = f"import sys, fx.backends.cpu.{name}; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.parametrize("name", ["numba", "llvmlite", "numpy.random", "sysconfig", "hashlib"])
def test_importing_fx_does_not_import_what_later_calls_need(name):
    code = f"import sys, fx; sys.exit({name!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
