"""Putting: ``x.at[...].set(v)`` with ints, slices, None and Ellipsis, as ``x[...]`` is a view.

For plain arrays this is a copy and NumPy's own assignment: one kernel and one node.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from fx.ops.indexing.language import BASIC
from fx.ops.indexing.views import Index, fixed, view
from fx.prims.creation import constant_like
from fx.prims.families import unbroadcast
from fx.prims.fused import Fused, fuse
from fx.tensor import Tensor


def is_basic(index: Index) -> bool:
    """Whether an index is of ints, slices, None and Ellipsis alone."""
    kind = type(index)
    return kind in BASIC or (kind is tuple and BASIC.issuperset(map(type, index)))


def putting(reference: Any) -> Fused:
    """The fused primitive of ``(x, value, index=...)``, both of one dtype.

    Args:
        reference: the same on tensors of any level, which also says what is wrong.
    """

    def vjp(needs: Any, _x: Tensor, value: Tensor, *, index: Index) -> Any:
        index = fixed(index)
        rest, part = needs
        shape = value._shape

        def pullback(ct: Tensor) -> Any:
            mine = None if part is None else unbroadcast(view(ct, index), shape)
            return None if rest is None else put(ct, constant_like(0, ct), index=index), mine

        return pullback

    put = fuse("put", cpu=_kernel, reference=reference, vjp=vjp, torch_name="CopySlices")
    return put


def _kernel(x: ndarray, value: ndarray, *, index: Index) -> Any:
    out = x.copy()
    try:
        if value.ndim > getattr(out[index], "ndim", 0):
            return None
        out[index] = value
    except (IndexError, TypeError, ValueError):
        return None
    return out
