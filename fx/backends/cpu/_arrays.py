"""What every CPU kernel does to its arrays on the way in and on the way out."""

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from fx import limits

HALVES = frozenset((np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)))
_FLOAT32 = np.dtype(np.float32)
_INT64 = np.dtype(np.int64)


def contiguous(x: np.ndarray) -> np.ndarray:
    """`x`, C-contiguous and aligned, as kernels take it."""
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else copied(x)


def copied(x: np.ndarray) -> np.ndarray:
    """A C-contiguous copy. Short lines of many go as items each, which NumPy takes to pieces."""
    if x.size >= limits.RUNS_FROM and x.ndim > 1 and x.dtype.kind in "fiubc":
        run = x.shape[-1] * x.itemsize
        if x.itemsize < run <= _LONGEST and x.strides[-1] == x.itemsize:
            out = np.empty(x.shape, x.dtype)
            out.view(f"V{run}")[...] = x.view(f"V{run}")
            return out
    return x.copy("C")


_LONGEST = 1024  # bytes of a line


def memory_order(arrays: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """The axes in the order of memory, where that is another, of arrays that lie alike.

    Without gaps, that is: a kernel that goes over the elements as they lie takes these arrays
    transposed, and what it gives is transposed back.
    """
    x = arrays[0]
    steps, shape = x.strides, x.shape
    if x.flags.c_contiguous or any(a.strides != steps or a.shape != shape for a in arrays):
        return None
    axes = tuple(sorted(range(x.ndim), key=lambda a: -steps[a]))
    return axes if x.transpose(axes).flags.c_contiguous else None


def transposed_back(out: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """What was computed in the order of memory, in that of the axes."""
    return out.transpose(sorted(range(out.ndim), key=axes.__getitem__))


def is_narrow(dtype: np.dtype) -> bool:
    """Whether `dtype` is a 16-bit (or narrower) float, on which kernels compute in float32."""
    if dtype.kind == "V":
        return dtype.name.startswith(("bfloat", "float"))
    return dtype.char == "e"


def widen(x: np.ndarray) -> np.ndarray:
    """`x` in a dtype that BLAS and NumPy are good at: narrow floats become float32."""
    return x.astype(_FLOAT32) if is_narrow(x.dtype) else x


def computed(x: np.ndarray) -> np.ndarray:
    """`x`, C-contiguous, in the dtype that sums are computed in.

    Narrow floats become float32; integers and bool become int64, whose sums wrap to the right
    narrower value.
    """
    if x.dtype.kind in "iub":
        return contiguous(x.astype(_INT64, copy=False))
    return contiguous(widen(x))


def narrowed(out: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`out` cast back to the dtype of the input it was computed from."""
    return out if out.dtype == dtype else out.astype(dtype)


def zero_of(dtype: np.dtype) -> np.ndarray:
    """The zero of a dtype, made once; NumPy takes it faster than a number."""
    found = _zeros.get(dtype)
    if found is None:
        found = _zeros[dtype] = np.zeros((), dtype)
    return found


_zeros: dict[np.dtype, np.ndarray] = {}
