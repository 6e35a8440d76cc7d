"""Views of another dtype: complex numbers as pairs of real ones and back, and the bits of numbers.

Other elements in the same memory, so that a path may lead from one dtype to another.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fx.ops.methods import torch_shapes
from fx.ops.pointwise import complex_numbers
from fx.prims.compare import bitcast
from fx.writing.noting import Selection
from fx.writing.paths import selections
from fx.writing.viewing import noting


def _as_pairs(x: Any) -> Any:
    """Pairs along a new last axis, in the memory of an array; of bools a layout that is alike."""
    if x.dtype.kind == "c":
        return x[..., None].view(x.real.dtype)
    return _laid((*x.shape, 2), (*[2 * step for step in x.strides], 1))


def _as_numbers(x: Any) -> Any:
    """The complex numbers of the pairs along the last axis, in their memory where that is one."""
    if x.dtype.kind == "f":
        if x.strides[-1] != x.itemsize:
            x = np.ascontiguousarray(x)
        return x.view(np.result_type(x, np.complex64))[..., 0]
    return _laid(x.shape[:-1], [step // 2 for step in x.strides[:-1]])


def _laid(shape: Any, strides: Any) -> Any:
    span = 1 + sum((n - 1) * step for n, step in zip(shape, strides))
    return np.ndarray(shape, np.bool_, np.empty(max(span, 1), np.bool_), strides=strides)


pairs = Selection(complex_numbers.view_as_real, _as_pairs, complex_numbers.view_as_complex)
numbers = Selection(complex_numbers.view_as_complex, _as_numbers, complex_numbers.view_as_real)


class Bits(Selection):
    """The bits of numbers, read as a dtype as wide: an element stays where it is."""

    __slots__ = ()
    alike = True


_bits: dict[tuple[Any, Any], Bits] = {}


def bits_of(own: Any, wanted: Any) -> Bits:
    """The selection that reads one dtype as another."""
    found = _bits.get((own, wanted))
    if found is None:
        back = partial(bitcast, dtype=own)
        here = partial(_as_bits, own=own, wanted=wanted)
        found = _bits[own, wanted] = Bits(partial(bitcast, dtype=wanted), here, back)
    return found


def _as_bits(x: Any, own: Any, wanted: Any) -> Any:
    return x.view(wanted) if x.dtype == own else x  # which has the layout of one


def _read_as(x: Any, wanted: Any) -> Any:
    return bits_of(x._dtype, wanted)(x)


def attach() -> None:
    """Give ``x.view(dtype)`` elements in the memory of ``x``."""
    torch_shapes.in_bits = _read_as


selections.update(pairs=pairs, numbers=numbers, bits=bits_of)


def _view_as_real(input: Any) -> Any:
    """Complex numbers as pairs of real ones along a new last axis, in the same memory."""
    return pairs(input)


def _view_as_complex(input: Any) -> Any:
    """Pairs of real numbers along the last axis as complex ones, in the same memory."""
    return numbers(input)


view_as_real, view_as_complex = noting(_view_as_real), noting(_view_as_complex)
