"""Ranks for the tests here: each file of cases runs once, in all workers of a test run."""

import pytest

from tests.distributed import ranks


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory):
    """``outcomes(file, size)``: what went wrong in each case."""
    base = tmp_path_factory.getbasetemp()
    if "popen" in base.name:  # a worker's: the run's is the one above
        base = base.parent
    return lambda name, size: ranks.outcomes(name, size, base)


@pytest.fixture(scope="session")
def launcher():
    """A process that forks launchers."""
    from tests.distributed.launched import Zygote

    zygote = Zygote()
    yield zygote
    zygote.close()
