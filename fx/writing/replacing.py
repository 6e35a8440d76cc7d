"""Replacing: the values of a family with others where a view lies, as ``x.at[i].set(v)`` gives."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import fx.prims.shape as shape_prims
from fx.config import is_grad_enabled
from fx.errors import WriteError
from fx.levels import Tracer
from fx.prims.compare import stop_gradient
from fx.prims.complex import conj, conjugated, part
from fx.prims.creation import constant
from fx.tensor import Tensor, new_tensor
from fx.writing.layouts import first_expanded, has_positions, on_array
from fx.writing.records import View
from fx.writing.written import with_history


def changed(record: View, base: Any, value: Any) -> Any:
    """``base`` with ``value`` where a member lies."""
    keeps = record.cut or not is_grad_enabled()
    out = replaced(record.path, stop_gradient(base) if record.cut else base, value)
    if record.cut and _moves(value):
        raise WriteError(
            f"a value {value.spec!r} with a tangent is written into a detached tensor, through "
            f"which no derivative can flow; write v.detach()"
        )
    return with_history(out, base, bool(record.cut)) if keeps else out


def _moves(x: Any) -> bool:
    """Whether a tensor has a tangent."""
    while isinstance(x, Tracer):
        if x.transform == "jvp":
            return True
        x = x.value
    return False


def replaced(path: Any, base: Any, value: Any) -> Any:
    """``base`` with ``value`` where a path leads."""
    if not path:
        return value
    at = first_expanded(path)
    if at < len(path):  # from there on in one step, which takes each element once
        rest, taken = path[at:], ()
        k = next((i for i, (primitive, _) in enumerate(rest) if primitive is part), None)
        if k is not None:  # of the same elements taken first: the other part stays
            if conjugated(rest[:k]) and rest[k][1]["turn"]:
                value = -value
            rest, taken = (*rest[:k], *rest[k + 1 :]), (rest[k],)
        elif conjugated(rest):
            value = conj(value)
        for primitive, _ in reversed(rest):
            if getattr(primitive, "alike", False):
                value = primitive.undone(value)
        path = (*path[:at], *taken, (Steps(rest), {}))
    steps = [base]
    for primitive, params in path[:-1]:
        steps.append(primitive(steps[-1], **params))
    for (primitive, params), before in zip(reversed(path), reversed(steps), strict=True):
        value = _undone(primitive, params, before, value)
    return value


def _undone(primitive: Any, params: dict[str, Any], x: Any, value: Any) -> Any:
    """``x`` with ``value`` in the place of ``primitive(x)``."""
    if primitive is shape_prims.reshape:
        return shape_prims.reshape(value, shape=x.shape)
    if primitive is shape_prims.transpose:
        axes = shape_prims.inverse_permutation(params["axes"])
        return shape_prims.transpose(value, axes=axes)
    if primitive is stop_gradient:
        return value
    if primitive is conj:
        return conj(value)
    if "index" in params:
        return x.at[params["index"]].set(value)
    if primitive is shape_prims.slice:
        start, stop, step = params["start"], params["stop"], params["step"]
        sizes = shape_prims._sliced_shape(start, stop, step)
        if value.shape != sizes:
            value = shape_prims.reshape(value, shape=sizes)
        return x.at[tuple(map(slice, start, stop, step))].set(value)
    if primitive is part:  # the other part stays
        turn = params["turn"]
        factor = constant(1 if turn == 0 else 1j, x.dtype, x.device.name)
        return x - part(x, turn=turn).astype(x.dtype) * factor + value.astype(x.dtype) * factor
    if getattr(primitive, "undone", None) is not None:
        return primitive.undone(value)
    steps = primitive.path if type(primitive) is Steps else ((primitive, params),)
    flat = shape_prims.reshape(x, shape=(prod(x.shape),))
    places = _places(steps, x.shape)
    places = shape_prims.reshape(places, shape=(prod(places.shape),))
    flat = flat.at[places].set(shape_prims.reshape(value, shape=places.shape))
    return shape_prims.reshape(flat, shape=x.shape)


class Steps:
    """Several steps of a path, undone as one."""

    __slots__ = ("path",)

    def __init__(self, path: Any) -> None:
        self.path = path


def _alike(primitive: Any) -> bool:
    """Whether elements stay where they are, and only what they mean is another thing."""
    return primitive is conj or getattr(primitive, "alike", False)


def _places(path: Any, shape: tuple[int, ...]) -> Tensor:
    """Where the elements that a path selects are among those of a shape, counted through."""
    counted: Any = np.arange(prod(shape)).reshape(shape)
    for i, (primitive, params) in enumerate(path):
        if has_positions(params):  # which are known when the program runs
            places = new_tensor(np.ascontiguousarray(counted))
            for primitive, params in path[i:]:
                if not _alike(primitive):
                    places = primitive(places, **params)
            return places
        if _alike(primitive):
            continue
        counted = on_array(primitive, counted, params)
    return new_tensor(np.ascontiguousarray(counted))
