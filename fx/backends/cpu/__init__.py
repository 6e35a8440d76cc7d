"""The CPU: NumPy's ufuncs where they are good, Numba kernels where they are not.

Modules whose names start with ``_nb_`` hold the Numba kernels; they are imported when first used.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from fx.errors import DeviceError

ARRAY = np.ndarray

# Infinities and NaN are values like others. Only what fx's own frames compute is kept quiet: a
# user's NumPy code warns as before, and an errstate around each kernel would cost 0.7 us a call.
_OURS = r"fx\.(primitive|backends)"
warnings.filterwarnings("ignore", r".* encountered in ", RuntimeWarning, _OURS)


def kernel_for(primitive: Any) -> Any:
    """Every primitive brings its CPU kernel, so this is reached only by mistake."""
    raise DeviceError(f"{primitive.name} has no CPU kernel")


def from_numpy(array: np.ndarray) -> np.ndarray:
    """The array itself: no copy."""
    return array


def to_numpy(array: np.ndarray) -> np.ndarray:
    """The array itself: no copy."""
    return array


if os.environ.get("FX_GUARD_MEMORY"):  # from here on every array is guarded
    from fx.backends.cpu.llvm import allocation

    allocation.allocator()
