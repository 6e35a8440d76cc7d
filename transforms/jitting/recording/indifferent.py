"""Who may read the shape of what is staged without a trace: what makes the same of all lengths.

A program that serves slices of any length (``short/lengths.py``) must not hold a decision that
another length would turn: a bound that was cut to the end of an axis, a branch for few rows. Three
programs that took the same decisions do not show that a fourth will. So every reader of a shape is
noted, the user's and fx's own, but for those named here, which look at how many axes there are,
check what each operation checks as well, count elements as floating numbers (whose formulas are
found), or choose between ways to the same numbers.
"""

from __future__ import annotations

import sys
from typing import Any

from fx.frames import is_internal

_AROUND = frozenset(("tells", "shape", "spec"))  # properties of what is around a tracer
_NAMES = {
    "fx.nn.functional.activation": ("_along",),
    "fx.nn.functional.attention": ("scaled_dot_product_attention", "_long", "_few"),
    "fx.ops.indexing.views": ("_steps",),  # which tells the sizes that it cuts
    "fx.ops.pointwise.activations": ("softmax", "log_softmax"),
    "fx.ops.products.linear": ("_product",),
    "fx.ops.reductions.cumulative": ("_accumulate",),
    "fx.ops.reductions.reduction": ("total.<locals>.function",),
    "fx.ops.reductions.statistics": ("mean_of", "_mean", "_spread"),
    "fx.ops.shapes.manipulation": ("exchanged",),
    "fx.prims.linear": ("swap_last",),
    "fx.prims.norms": ("_variance.<locals>.<listcomp>",),
    "fx.tensor": ("Tensor.ndim",),
    "fx.writing.written": ("_look_through",),  # of what it keeps, each reader is asked
}
INDIFFERENT = frozenset((module, name) for module, names in _NAMES.items() for name in names)


def is_indifferent() -> bool:
    """Whether who reads a shape now is among those."""
    frame: Any = sys._getframe(1)
    while is_internal(frame.f_code.co_filename):
        if frame.f_code.co_name not in _AROUND:
            return (frame.f_globals.get("__name__"), frame.f_code.co_qualname) in INDIFFERENT
        frame = frame.f_back
    return False
