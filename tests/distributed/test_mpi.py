"""The door to MPI."""

import subprocess
import sys

import pytest

from tests.distributed.ranks import MPIEXEC, SIZES, cases

CASES = cases("cases_mpi.py")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", SIZES)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_mpi.py", size)[case]


def test_plain_fx_loads_nothing_of_it():
    code = (
        "import fx, sys; assert not [m for m in sys.modules if 'distributed' in m or 'mpi4' in m]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_a_missing_engine_says():
    code = """
import sys
sys.modules["mpi4py"] = None
from fx.distributed import DistBackendError, mpi
try:
    mpi.start()
except DistBackendError as error:
    assert "pip install 'fxgrad[dist]'" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_exception_in_one_rank_ends_the_others():
    """Which wait for it in a collective; its traceback is shown, in full."""
    code = """
from fx.distributed import mpi
world = mpi.start().COMM_WORLD
if world.rank == 1:
    raise KeyError("the one that failed")
world.Barrier()
"""
    run = subprocess.run(
        [MPIEXEC, "-n", "2", sys.executable, "-c", code], timeout=20, capture_output=True, text=True
    )
    assert run.returncode != 0
    assert "KeyError: 'the one that failed'" in run.stderr
