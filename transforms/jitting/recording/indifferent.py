"""Who may read the shape of what is staged without a trace: what makes the same of all lengths.

A program that serves any size, or slices of any length (``short/lengths.py``), must not hold a
decision that another length would turn: a bound that was cut to the end of an axis, a branch for
few rows. Three programs that took the same decisions do not show that a fourth will. So every
reader of a shape is noted, the user's and fx's own, but for those named here, which look at how
many axes there are, check what each operation checks as well, count elements as floating numbers
(whose formulas are found), make other shapes by products and by quotients that come out even, or
choose between ways to the same numbers. What they need of a shape, each operation asks again at
each size: three programs that are one are looked at as they were staged.
"""

from __future__ import annotations

import sys
from typing import Any

from fx.frames import is_internal
from fx.graph.staging import is_staged

INDIFFERENT, USER, NOTED = "indifferent", "user", "noted"
_AROUND = frozenset(
    ("tells", "shape", "spec", "called_size", "value")
)  # properties of what is around a tracer
_NAMES = {
    "fx.autograd.methods": ("_innermost_node",),
    "fx.nn.functional._windows": ("batched", "unbatched"),
    "fx.nn.functional.activation": ("_along",),
    "fx.nn.functional.attention": ("scaled_dot_product_attention", "_at_once", "_long", "_few"),
    "fx.nn.functional.cross_entropy": ("cross_entropy",),
    "fx.nn.functional.loss": ("_pair",),
    "fx.ops.indexing.positions": ("positioned",),  # whose assumptions tell the sizes
    "fx.ops.indexing.views": ("_steps",),  # which tells the sizes that it cuts
    "fx.ops.pointwise.activations": ("softmax", "log_softmax"),
    "fx.nn.functional.linear": ("linear",),
    "fx.nn.functional.multi_head": (
        "_check",
        "_projected",
        "_split",
        "_with_batch",
        "multi_head_attention_forward",
    ),
    "fx.nn.functional.conv": ("_biased", "_conv"),
    "fx.nn.functional.normalization": ("batch_norm_counting", "layer_norm"),
    "fx.nn.functional.pooling": ("_max_pool",),
    "fx.nn.sequences.rnn_base": (
        "RNNBase._check_input",
        "RNNBase._states",
        "RNNBase.forward",
        "_product",
        "_row",
    ),
    "fx.ops.making.patterns": ("_part_in_steps", "_triangle"),
    "fx.ops.methods.torch_shapes": ("_reshaped",),
    "fx.ops.products.einsum": (
        "_carried_out",
        "_laid_out",
        "_prepared",
        "_prepared.<locals>.<listcomp>",
        "_product",
        "einsum",
        "einsum.<locals>.<listcomp>",
    ),
    "fx.ops.products.linear": ("_product",),
    "fx.ops.reductions.cumulative": ("_accumulate",),
    "fx.ops.reductions.reduction": (
        "_reduction.<locals>.function",
        "logsumexp",
        "total.<locals>.function",
    ),
    "fx.ops.reductions.statistics": ("mean_of", "_mean", "_spread"),
    "fx.ops.shapes.joining": (
        "_stacked_in_steps",
        "concat",
        "concat.<locals>.<genexpr>",
        "stack",
        "stack.<locals>.<genexpr>",
    ),
    "fx.ops.shapes.manipulation": ("exchanged", "flatten", "reshape"),
    "fx.ops.shapes.splitting": ("_told", "chunk", "split"),
    "fx.prims.attention": ("_at_once",),
    "fx.prims.compare": ("_where_vjp",),
    "fx.prims.convolution": ("_biased",),
    "fx.prims.families": ("binary.<locals>.vjp", "unbroadcast"),
    "fx.prims.indexing": ("_take_along_vjp",),
    "fx.prims.linear": ("_dy", "_dy.<locals>.pullback", "_matmul_vjp", "_rows", "swap_last"),
    "fx.prims.losses": ("at_targets",),
    "fx.prims.norms": (
        "_over",
        "_variance.<locals>.<listcomp>",
        "centred_and_variance.<locals>.<listcomp>",
    ),
    "fx.prims.reduction": ("_sum_vjp", "spread_back"),
    "fx.prims.shape": ("_reshape_vjp",),
    "fx.tensor": ("Tensor.ndim",),
    "fx.transforms.control.carrying": (
        "Carry.returned",
        "Carry.returned.<locals>.<genexpr>",
        "_stage.<locals>.<listcomp>",
    ),
    "fx.transforms.control.graphs": ("specs_of.<locals>.<listcomp>",),
    "fx.transforms.control.scanning": ("_rows", "_rows.<locals>.<setcomp>"),
    "fx.transforms.custom": ("custom_vjp.__call__.<locals>.<listcomp>",),
    "fx.transforms.reverse": ("_scalar",),
    "fx.writing.records": ("Family.__init__",),  # of which layouts tell
    "fx.writing.written": ("_look_through",),  # of what it keeps, each reader is asked
}
_KNOWN = frozenset((module, name) for module, names in _NAMES.items() for name in names)
_MAKERS = {  # ask for a number to make it one of a shape, or the end of a range by ones: of what
    ("fx.ops.making.creation", "_shape"): None,
    ("fx.ops.making.ranges", "arange"): None,
    ("fx.ops.methods.torch_shapes", "_reshaped"): "self",
    ("fx.ops.shapes.broadcasting", "broadcast_to"): "x",
    ("fx.ops.shapes.manipulation", "reshape"): "x",
    ("fx.torch._creation", "arange"): None,
}
_ASKING = frozenset(
    ("becomes_length", "assume", "known", "__index__", "__int__", "integer", "sizes")
)


def reader() -> str:
    """Who reads a shape now: the user, one of those, or another part of fx."""
    frame: Any = sys._getframe(1)
    while is_internal(frame.f_code.co_filename):
        if frame.f_code.co_name not in _AROUND:
            place = frame.f_globals.get("__name__"), frame.f_code.co_qualname
            return INDIFFERENT if place in _KNOWN else NOTED
        frame = frame.f_back
    return USER


def makes_shape() -> bool:
    """Whether who asks for a number now puts it into a shape of the graph.

    What is made of a known tensor is made now, and has no shape of another size.
    """
    frame: Any = sys._getframe(1)
    while is_internal(frame.f_code.co_filename):
        name = frame.f_code.co_qualname.partition(".<locals>")[0]
        if name.rpartition(".")[2] not in _ASKING:
            place = frame.f_globals.get("__name__"), name
            of = _MAKERS.get(place)
            return place in _MAKERS and (of is None or is_staged(frame.f_locals[of]))
        frame = frame.f_back
    return False
