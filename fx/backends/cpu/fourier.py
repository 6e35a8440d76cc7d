"""Fourier transforms: kernels of ``llvm/any_size/fourier``, and SciPy's pocketfft for the rest.

See ``llvm/any_size/fourier/README.md`` for which sizes are whose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fx import limits
from fx.backends.cpu import threads
from fx.backends.cpu._arrays import contiguous
from fx.backends.cpu.llvm import any_size
from fx.spec import TensorSpec

_FORWARD = {0: "backward", -0.5: "ortho", -1: "forward"}  # SciPy's words for n ** scale
_BACKWARD = {0: "forward", -0.5: "ortho", -1: "backward"}
_LARGE = 1 << 16  # elements from which several threads take the lines
_MOST = 64  # chunks that have scratch memory of their own


class _Place(NamedTuple):
    """A word that comes with a call."""

    number: int


_PARAMETERS = {
    "fft": ("axes", "inverse", "scale"), "rfft": ("axes", "scale"), "irfft": ("axes", "n", "scale"),
}  # fmt: skip
SCRATCH = _Place(3)  # behind what is read, the result and what is between
Runner = Callable[[np.ndarray], np.ndarray]


def _checked(x: np.ndarray, takes: str, axes: tuple[int, ...]) -> None:
    if x.dtype.char not in takes:
        raise TypeError(f"no kernel for {x.dtype}")
    if not all(x.shape[axis] for axis in axes):
        raise ValueError(f"no points along an axis of {x.shape}")


def _workers(x: np.ndarray) -> int:
    return threads.get_num_threads() if x.size >= _LARGE else 1


def fft(x: np.ndarray, *, axes: tuple[int, ...], inverse: bool, scale: float) -> np.ndarray:
    """The sums along axes: complex, the shape of x."""
    run = _runner("fft", x.shape, x.dtype, axes, inverse, scale)
    if run is not None:
        return run(x)
    _checked(x, "fdFD", axes)
    if not axes or not x.size:
        return x.astype(np.result_type(x.dtype, np.complex64))
    from scipy import fft as scipy_fft

    transform, words = (
        (scipy_fft.ifftn, _BACKWARD) if inverse else (scipy_fft.fftn, _FORWARD)
    )  # fmt: skip
    out: np.ndarray = transform(x, axes=axes, norm=words[scale], workers=_workers(x))
    return out


def rfft(x: np.ndarray, *, axes: tuple[int, ...], scale: float) -> np.ndarray:
    """The sums along axes, of the last one half the spectrum."""
    run = _runner("rfft", x.shape, x.dtype, axes, scale)
    if run is not None:
        return run(x)
    _checked(x, "fd", axes)
    from scipy import fft as scipy_fft

    out: np.ndarray = scipy_fft.rfftn(x, axes=axes, norm=_FORWARD[scale], workers=_workers(x))
    return out


def irfft(x: np.ndarray, *, axes: tuple[int, ...], n: int, scale: float) -> np.ndarray:
    """n real numbers along the last axis."""
    *others, last = axes
    if n < 1 or x.shape[last] != n // 2 + 1:
        raise ValueError(f"{n} numbers do not have {x.shape[last]} points")
    run = _runner("irfft", x.shape, x.dtype, axes, n, scale)
    if run is not None:
        return run(x)
    _checked(x, "fdFD", tuple(others))
    from scipy import fft as scipy_fft

    sizes, words = [*[x.shape[a] for a in others], n], _BACKWARD[scale]
    out: np.ndarray = scipy_fft.irfftn(x, sizes, axes=axes, norm=words, workers=_workers(x))
    return out


# kernels ----------------------------------------------------------------------------------------


@lru_cache(1024)
def _runner(name: str, shape: tuple[int, ...], dtype: np.dtype, *values: Any) -> Runner | None:
    """What transforms arrays of a shape and dtype; None where pocketfft does.

    ``values`` are those of the parameters, in their order: words by name take longer.
    """
    if not all(shape):
        return None
    from fx.backends.cpu.llvm.any_size.fourier import plans, tables
    from fx.backends.cpu.llvm.any_size.fourier import words as kernels

    given, params = TensorSpec(shape, dtype), dict(zip(_PARAMETERS[name], values, strict=True))
    found = plans.PLANS[name](given, **params)
    if found is None:
        return None
    out = _made(name, shape, dtype, params)
    between = [np.zeros(1, found.calls[0].kernel[2]), found.between]
    steps = []
    for call in found.calls:
        chunk = any_size.chunk_of(call.tasks, call.price)
        if chunk:
            chunk = max(chunk, -(-call.tasks // _MOST))
        each, room = chunk or call.tasks, -(-call.room // 16)
        memory = None
        if call.room > kernels.STACK:
            memory = [np.zeros(1, np.uint8), 16 * room * -(-call.tasks // each)]
        ends = _Place(call.stages[0].source), _Place(call.stages[-1].target)
        words = [call.tasks, chunk, *call.words(*ends, tables.table, SCRATCH, room, each)]
        places = [(i, w.number) for i, w in enumerate(words) if isinstance(w, _Place)]
        steps.append((any_size.kernel(*call.kernel), words, places, memory))
    empty, uses_between = any_size.empty, found.between > 0
    if len(found.calls) == len(found.calls[0].stages) == 1 and memory is None:
        return _short(out, *steps[0][:3])

    def runner(x: np.ndarray) -> np.ndarray:
        arrays = [contiguous(x), empty(out), empty(between) if uses_between else None, None]
        for run, words, places, memory in steps:
            if memory is not None:
                arrays[3] = empty(memory)
            given = words.copy()
            for i, number in places:
                given[i] = arrays[number]
            run(given)
        return arrays[1]  # type: ignore[return-value]

    return runner


def _short(out: list[Any], run: Any, words: list[Any], places: list[tuple[int, int]]) -> Runner:
    """The same of one call without memory: most of a small transform's time is its caller's."""
    (source, _), (target, _), *_ = places
    words = [None if isinstance(w, _Place) else w for w in words]
    empty = any_size.empty

    def runner(x: np.ndarray) -> np.ndarray:
        given = words.copy()
        given[source] = contiguous(x)
        given[target] = made = empty(out)
        run(given)
        return made

    return runner


limits.on_change(_runner.cache_clear)


def _made(name: str, shape: tuple[int, ...], dtype: np.dtype, params: dict[str, Any]) -> list[Any]:
    """One element of the result and its shape: by the kernel's own rule, for it fills all of it."""
    like, out = np.zeros(1, np.result_type(dtype, np.complex64)), list(shape)
    if name == "rfft":
        out[params["axes"][-1]] = shape[params["axes"][-1]] // 2 + 1
    elif name == "irfft":
        like, out[params["axes"][-1]] = like.real, params["n"]
    return [like, *out]
