"""``torch._utils``: tensors as one buffer, which scripts that average gradients by hand import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.ops.shapes.joining import concat


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """Their elements, one tensor behind the other; (elements,)."""
    return concat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Parts of such a buffer, in the shapes of the tensors."""
    out, at = [], 0
    for t in tensors:
        out.append(flat[at : at + t.size].reshape(t.shape))
        at += t.size
    return tuple(out)
