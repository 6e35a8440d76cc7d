"""Checking: what may be written, and what has to be known of it before."""

from __future__ import annotations

from typing import Any

from fx.config import is_grad_enabled, modes
from fx.errors import WriteError
from fx.graph.staging import StageTracer
from fx.prims.creation import constants_of
from fx.tape import GradTracer, Leaf
from fx.tensor import Tensor
from fx.writing.layouts import crosses, first_expanded, overlaps
from fx.writing.noting import start
from fx.writing.records import View, record_of
from fx.writing.written import begin


def check(x: Any, operation: str, writes: bool = True, alone: bool = False) -> View:
    """The record of a tensor that is about to be written, whose family has begun.

    Args:
        x: the tensor.
        operation: how the user calls it.
        writes: whether elements change, not only what the tensor shows.
        alone: whether nobody holds the object but who writes, so that no pullback has kept it.

    Raises:
        WriteError: for a leaf that requires grad, and for an expanded tensor.
    """
    start()
    stage = modes.stage
    if stage is not None:
        _check_staged(x, stage, operation)
    record = record_of(x)
    family = record.family
    for held in family.unclear:
        if held() is not None:
            raise WriteError(_UNCLEAR.format(operation, x.spec))
    if family.cell is None:
        if type(x) is Tensor and not x.ndim:
            _take_out(x)
        begin(family, alone)
    if is_grad_enabled():  # where the history of a view whose first has none is known by now
        node = x._node
        if type(node) is Leaf:
            kind = "a view of a leaf" if record.path and not record.cut else "a leaf"
            raise WriteError(_LEAF.format(kind, operation))
        apart = record.lost or type(record.leaf) is Leaf
        if apart or (record.path and not record.cut and _root_is_leaf(family)):
            raise WriteError(_LEAF.format("a view of a leaf", operation))
    expanded = writes and first_expanded(record.path) < len(record.path)
    if expanded and (overlaps(record) or (operation not in _PUTS and crosses(record))):
        raise WriteError(
            f"unsupported operation ({operation}): more than one element of the written-to tensor "
            f"refers to a single memory location. Please clone() the tensor before performing the "
            f"operation."
        )
    if type(family.cell) is type:
        raise WriteError(
            f"{operation}: the parameter that this is a part of is gone; write x = x.clone()"
        )
    return record


# what does not read what it writes: others would work on the elements of windows more than once
_PUTS = frozenset((
    "x[...] = v", "copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_",
    "exponential_", "geometric_", "cauchy_", "log_normal_", "set_",
))  # fmt: skip
_UNCLEAR = (
    "{}: {!r} shares its memory with a tensor that was made before this program first wrote, and "
    "it cannot be told whether that is a view of it; write x = x.clone() before"
)
_LEAF = (
    "{} Variable that requires grad is being used in an in-place operation ({}); write it inside "
    "`with torch.no_grad():`"
)


def _root_is_leaf(family: Any) -> bool:
    held = family.root() if family.cell is None or family.of_user else family.cell
    return held is not None and type(held._node) is Leaf


def _take_out(x: Tensor) -> None:
    """A scalar that is kept for later use is kept no more."""
    known = constants_of(x.dtype, x.device.name)
    for key, kept in tuple(known.items()):
        if kept is x:
            del known[key]


def begun(x: Tensor) -> None:
    """Let a tensor be read through a cell, as after a write."""
    start()
    record = record_of(x)
    if not x.ndim:
        _take_out(x)
    if record.family.cell is None:
        begin(record.family)


def _check_staged(x: Any, stage: Any, operation: str) -> None:
    """While a function is staged: what lives outside is state, once that is known."""
    family = record_of(x).family
    if family.cell is not None:
        return
    root = family.root()
    inner = x if root is None else root
    if type(inner) is GradTracer and inner.level == stage.number | 1:
        inner = inner.value
    if type(inner) is StageTracer and hasattr(inner.stage, "program"):
        value = inner.ref
        if value.node is None and value.constant is None:
            inner.stage.call.jitted.writes.note(inner.stage, value)
