"""Compiled kernels are compared with those of NumPy and Numba, not with themselves."""

import pytest

from fx.backends.cpu import draws


@pytest.fixture(scope="session", autouse=True)
def numba_draws():
    """Let eager draws be Numba's from the first one on."""
    draws._kernels()
    draws._native = lambda family, dtype: None  # nor of kernels of any size
    draws._loaded.clear()
