"""Rules of logic, bits, relations, selection and casts; broadcasting as late as can be."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.dtypes import FLOATING, INEXACT, INTEGRAL, SIGNED, UNSIGNED, bool_
from fx.graph.ir import Value, constant_value
from fx.graph.passes.rewriting import run_primitive, tensor_of
from fx.graph.passes.rules_arithmetic import ARITHMETIC, like, undone
from fx.graph.passes.simplification import Rule, Simplifier, made_by, may_count
from fx.primitive import registry
from fx.spec import TensorSpec

# logic, bits, relations -------------------------------------------------------------------------


def _logic(neutral: bool, absorbs: bool | None) -> Rule:
    """A logical operation on bools of which one is known."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        for x, y in (inputs, inputs[::-1]):
            number = s.number(y)
            if number is None:
                continue
            if absorbs is not None and bool(number) is absorbs:
                return s.full(absorbs, spec)
            if bool(number) is neutral and x.spec.dtype == bool_:
                return like(s, x, spec)
        x, y = inputs
        if absorbs is not None and x is y and x.spec.dtype == bool_:
            return x  # type: ignore[no-any-return]
        return None

    return rule


_OPPOSITE = {"equal": "not_equal", "not_equal": "equal"}
_OPPOSITE_ORDER = {
    "less": "greater_equal", "less_equal": "greater", "greater": "less_equal",
    "greater_equal": "less",
}  # fmt: skip


def _logical_not(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    """not (x == y); not (x < y) only where there is no NaN."""
    x = inputs[0]
    node = x.node
    if node is None:
        return None
    name = _OPPOSITE.get(node.primitive.name)
    if name is None and node.inputs and node.inputs[0].spec.dtype not in INEXACT:
        name = _OPPOSITE_ORDER.get(node.primitive.name)
    if name is None or made_by(x, node.primitive.name) is None:
        return None
    return s.make(name, *node.inputs)


def _bits(neutral: int, absorbs: int | None) -> Rule:
    """A bit operation of which one argument is all zeros or all ones."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        signed = spec.dtype in SIGNED
        ones = True if spec.dtype == bool_ else -1 if signed else 2 ** (8 * spec.dtype.itemsize) - 1
        for x, y in (inputs, inputs[::-1]):
            number = s.number(y)
            if number is None:
                continue
            if number == (ones if neutral else 0):
                return like(s, x, spec)
            if absorbs is not None and number == (ones if absorbs else 0):
                return s.full(number, spec)
        return None

    return rule


def _shift(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    return like(s, inputs[0], spec) if s.number(inputs[1]) == 0 else None


def _relation_to_itself(result: bool) -> Rule:
    """x == x of what has no NaN."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        x, y = inputs
        return s.full(result, spec) if x is y and x.spec.dtype not in INEXACT else None

    return rule


# selection --------------------------------------------------------------------------------------


def _where(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    condition, x, y = inputs
    known = s.number(condition)
    if known is not None:
        return like(s, x if known else y, spec)
    if x is y:
        return like(s, x, spec)
    node = made_by(condition, "logical_not")
    if node is not None and node.inputs[0].spec.dtype == bool_:
        return s.make("where", node.inputs[0], y, x)
    inner = made_by(x, "where")
    if inner is not None and inner.inputs[0] is condition:
        return _in_shape(s, spec, condition, inner.inputs[1], y)
    inner = made_by(y, "where")
    if inner is not None and inner.inputs[0] is condition:
        return _in_shape(s, spec, condition, x, inner.inputs[2])
    return None


def _in_shape(s: Simplifier, spec: TensorSpec, *inputs: Value) -> Value:
    return like(s, s.make("where", *inputs), spec)


# casts ------------------------------------------------------------------------------------------

_MANTISSA = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}


def mantissa_bits(dtype: Any) -> int:
    """The bits of precision of a real floating dtype."""
    return _MANTISSA[dtype.name]


def loses_nothing(source: Any, target: Any) -> bool:
    """Whether every value of the dtype ``source`` is one of the dtype ``target``."""
    if source in (target, bool_):
        return True
    if source in INTEGRAL:
        bits = 8 * source.itemsize - (source in SIGNED)
        if target in INTEGRAL:
            room = 8 * target.itemsize - (target in SIGNED)
            return bool(room >= bits and (target in SIGNED or source in UNSIGNED))
        return target in FLOATING and bool(_MANTISSA[target.name] >= bits)
    if source in FLOATING and target in FLOATING:
        return bool(target.itemsize > source.itemsize)
    return False


def _astype(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    x = inputs[0]
    if x.spec.dtype == spec.dtype:
        return x  # type: ignore[no-any-return]
    node = made_by(x, "astype")
    if node is None:
        return _counted(s, x, spec.dtype)
    source, middle = node.inputs[0], x.spec.dtype
    first = source.spec.dtype
    if not loses_nothing(first, middle) or (first in INEXACT) != (spec.dtype in INEXACT):
        return None
    return s.make("astype", source, dtype=spec.dtype)


def _counted(s: Simplifier, x: Value, dtype: Any) -> Value | None:
    """Whole numbers in a row are counted in the dtype in which they are wanted."""
    node = made_by(x, "iota")
    if node is None or dtype.kind not in "iu" or x.spec.dtype.kind not in "iu":
        return None
    n, first = x.spec.shape[node.params["axis"]], node.params["start"]
    ends = (first, first + node.params["step"] * (n - 1))
    infos = np.iinfo(dtype), np.iinfo(x.spec.dtype)
    if not n or any(min(ends) < i.min or max(ends) > i.max for i in infos):
        return None
    return s.make("iota", **{**node.params, "dtype": dtype})


def _stop_gradient(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    x = inputs[0]
    if spec.dtype not in INEXACT or x.constant is not None:
        return x  # type: ignore[no-any-return]
    return x if made_by(x, "stop_gradient") is not None else None


# broadcasting as late as it can be --------------------------------------------------------------


def _stripped(s: Simplifier, x: Value) -> Value:
    """What a value is broadcast from."""
    node = x.node
    if node is None or not x.spec.shape:
        return x
    if made_by(x, "broadcast_to") is not None:
        return node.inputs[0]
    number = s.number(x)
    return x if number is None else s.scalar(number, x.spec)


def _broadcast_late(name: str) -> Rule:
    """f(broadcast(x), y) is f(x, y), broadcast if y is too: less is computed, or less is read.

    What has no elements stays: its number would be computed for nobody, and might divide by 0.
    """

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        if not spec.size:
            return None
        sources = [_stripped(s, x) for x in inputs]
        if all(a is b for a, b in zip(sources, inputs)):
            return None
        return s.broadcast(s.make(name, *sources, **params), spec.shape)

    return rule


def _of_scalars(name: str) -> Rule:
    """f of 0-d constants is a constant."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        if spec.shape or spec.device != "cpu":
            return None
        for x in inputs:
            if x.constant is None or (s.varied and may_count(s.number(x))):
                return None
        arrays = [x.array for x in inputs]
        found = run_primitive(registry[name], arrays, params)
        if found is None or found[0].shape or found[0].dtype != spec.dtype:
            return None
        return constant_value(tensor_of(found[0]))

    return rule


def rules() -> dict[str, list[Rule]]:
    """The rules of the elementwise primitives that there are now."""
    names = [p.name for p in registry.values() if p.kind == "elementwise"]
    found: dict[str, list[Rule]] = {name: [_of_scalars(name)] for name in names}
    for name, more in (ARITHMETIC | _OWN).items():
        found.setdefault(name, []).extend(more)
    for name in names:
        found[name].append(_broadcast_late(name))
    return found


_OWN: dict[str, list[Rule]] = {
    "logical_and": [_logic(True, False)],
    "logical_or": [_logic(False, True)],
    "logical_xor": [_logic(False, None)],
    "logical_not": [undone("logical_not"), _logical_not],
    "bitwise_not": [undone("bitwise_not")],
    "bitwise_and": [_bits(1, 0)],
    "bitwise_or": [_bits(0, 1)],
    "bitwise_xor": [_bits(0, None)],
    "left_shift": [_shift],
    "right_shift": [_shift],
    "equal": [_relation_to_itself(True)],
    "less_equal": [_relation_to_itself(True)],
    "greater_equal": [_relation_to_itself(True)],
    "not_equal": [_relation_to_itself(False)],
    "less": [_relation_to_itself(False)],
    "greater": [_relation_to_itself(False)],
    "where": [_where],
    "astype": [_astype],
    "stop_gradient": [_stop_gradient],
}
