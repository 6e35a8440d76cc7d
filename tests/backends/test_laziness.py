"""The kernel modules import without Numba, which costs more than NumPy and all of fx."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["conv", "index", "matmul", "philox", "pool", "sort"])
def test_importing_a_kernel_module_does_not_import_numba(name):
    code = f"import sys, fx.backends.cpu.{name}; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
