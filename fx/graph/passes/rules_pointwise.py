"""Rules of elementwise primitives: identities, casts, selection, broadcasting as late as can be.

``1.0 * x`` is ``x`` in every bit; ``x + 0.0`` is not, since -0.0 + 0.0 is 0.0, and neither is
``x * 0.0``, ``x - x`` or ``x / x``.
"""

from __future__ import annotations

from math import inf
from typing import Any

import ml_dtypes

from fx.dtypes import COMPLEX, FLOATING, INEXACT, INTEGRAL, SIGNED, UNSIGNED, bool_
from fx.graph.ir import Value, constant_value
from fx.graph.passes.kinds import BROADCASTING, UNARY
from fx.graph.passes.rewriting import run_primitive, tensor_of
from fx.graph.passes.simplification import Rule, Simplifier, is_exactly, made_by, never_minus_zero
from fx.primitive import registry
from fx.spec import TensorSpec


def _like(s: Simplifier, x: Value, spec: TensorSpec) -> Value:
    """x in the shape of the result."""
    return s.broadcast(x, spec.shape)


# arithmetic -------------------------------------------------------------------------------------


def _add(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    for x, y in (inputs, inputs[::-1]):
        number = s.number(y)
        if number is not None and type(number) is not complex:
            if spec.dtype not in INEXACT:
                if number == 0:
                    return _like(s, x, spec)
            elif is_exactly(number, -0.0) or (is_exactly(number, 0.0) and never_minus_zero(s, x)):
                return _like(s, x, spec)
        node = made_by(y, "negative")
        if node is not None:
            return s.make("subtract", x, node.inputs[0])
    return None


def _subtract(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    x, y = inputs
    number = s.number(y)
    if number is not None and type(number) is not complex and is_exactly(number, 0):
        return _like(s, x, spec)
    node = made_by(y, "negative")
    if node is not None:
        return s.make("add", x, node.inputs[0])
    if spec.dtype not in INEXACT:
        if x is y:
            return s.full(0, spec)
        if is_exactly(s.number(x), 0):
            return _like(s, s.make("negative", y), spec)
    elif is_exactly(s.number(x), -0.0):
        return _like(s, s.make("negative", y), spec)
    return None


def _multiply(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    if spec.dtype in COMPLEX:
        return None
    for x, y in (inputs, inputs[::-1]):
        number = s.number(y)
        if number is None:
            continue
        if number == 1:
            return _like(s, x, spec)
        if number == -1 and spec.dtype not in UNSIGNED:
            return _like(s, s.make("negative", x), spec)
        if number == 0 and spec.dtype not in INEXACT:
            return s.full(False if spec.dtype == bool_ else 0, spec)
        node = made_by(x, "negative")
        if node is not None and spec.dtype in FLOATING:
            return _like(s, s.make("multiply", node.inputs[0], s.scalar(-number, y.spec)), spec)
        found = _scaled_twice(s, x, number, spec)
        if found is not None:
            return found
    a, b = [made_by(v, "negative") for v in inputs]
    if a is not None and b is not None:
        return s.make("multiply", a.inputs[0], b.inputs[0])
    return None


def _scaled_twice(s: Simplifier, x: Value, number: Any, spec: TensorSpec) -> Value | None:
    """(x * 2) * 4 is x * 8: powers of two from 1 on lose nothing, and overflow alike."""
    node = made_by(x, "multiply")
    if node is None or spec.dtype not in FLOATING or not _grows(number, spec):
        return None
    for inner, factor in (node.inputs, node.inputs[::-1]):
        before = s.number(factor)
        if before is not None and _grows(before, spec) and _grows(before * number, spec):
            return _like(s, s.make("multiply", inner, s.scalar(before * number, spec)), spec)
    return None


def _grows(number: float, spec: TensorSpec) -> bool:
    return 1 <= abs(number) <= float(ml_dtypes.finfo(spec.dtype).max) and is_power_of_two(number)


def is_power_of_two(number: float) -> bool:
    """Whether a finite number is a power of two, of any sign and exponent."""
    return number == number and abs(number) not in (0.0, inf) and (
        abs(float(number)).hex().startswith("0x1.0000000000000p")
    )  # fmt: skip


def _divide(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    x, y = inputs
    number = s.number(y)
    if spec.dtype not in FLOATING:
        return None
    if number is not None:
        if number == 1:
            return _like(s, x, spec)
        if number == -1:
            return _like(s, s.make("negative", x), spec)
        node = made_by(x, "negative")
        if node is not None:
            return _like(s, s.make("divide", node.inputs[0], s.scalar(-number, y.spec)), spec)
    a, b = [made_by(v, "negative") for v in inputs]
    if a is not None and b is not None:
        return s.make("divide", a.inputs[0], b.inputs[0])
    return None


def _power(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    if spec.dtype in COMPLEX:
        return None
    number = s.number(inputs[1])
    if number == 1:
        return _like(s, inputs[0], spec)
    if number == 0:
        return s.full(1, spec)
    return None


def _negative(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    x = inputs[0]
    node = made_by(x, "negative")
    if node is not None:
        return node.inputs[0]
    if spec.dtype in SIGNED:
        node = made_by(x, "subtract")
        if node is not None and s.used_once(x):
            return s.make("subtract", node.inputs[1], node.inputs[0])
    return None


def _undone(*names: str) -> Rule:
    """f(g(x)) is x for each g of ``names``."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        for name in names:
            node = made_by(inputs[0], name)
            if node is not None and node.inputs[0].spec == spec:
                return node.inputs[0]
        return None

    return rule


def _same_again(*names: str) -> Rule:
    """f(y) is y for y = g(x), for each g of ``names``."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        if any(made_by(inputs[0], name) is not None for name in names):
            return inputs[0]  # type: ignore[no-any-return]
        return None

    return rule


def _of_negative(name: str) -> Rule:
    """f(-x) is f(x)."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        node = made_by(inputs[0], "negative")
        if node is None or inputs[0].spec.dtype in UNSIGNED:  # there -x is no negative number
            return None
        return s.make(name, node.inputs[0])

    return rule


def _of_whole(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    """Rounding an integer."""
    x = inputs[0]
    return x if x.spec.dtype in INTEGRAL or x.spec.dtype == bool_ else None


def _extremum(neutral_float: float, neutral_of: Any) -> Rule:
    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        x, y = inputs
        if x is y:
            return x  # type: ignore[no-any-return]
        for x, y in (inputs, inputs[::-1]):
            number = s.number(y)
            if number is None:
                continue
            if spec.dtype in FLOATING and number == neutral_float:
                return _like(s, x, spec)
            if spec.dtype in INTEGRAL and number == neutral_of(ml_dtypes.iinfo(spec.dtype)):
                return _like(s, x, spec)
        return None

    return rule


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
                return _like(s, x, spec)
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
                return _like(s, x, spec)
            if absorbs is not None and number == (ones if absorbs else 0):
                return s.full(number, spec)
        return None

    return rule


def _shift(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    return _like(s, inputs[0], spec) if s.number(inputs[1]) == 0 else None


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
        return _like(s, x if known else y, spec)
    if x is y:
        return _like(s, x, spec)
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
    return _like(s, s.make("where", *inputs), spec)


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
            return room >= bits and (target in SIGNED or source in UNSIGNED)
        return target in FLOATING and _MANTISSA[target.name] >= bits and target.name != "float16"
    if source in FLOATING and target in FLOATING:
        return target.itemsize > source.itemsize
    return False


def _astype(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    x = inputs[0]
    if x.spec.dtype == spec.dtype:
        return x  # type: ignore[no-any-return]
    node = made_by(x, "astype")
    if node is None:
        return None
    source, middle = node.inputs[0], x.spec.dtype
    first = source.spec.dtype
    if not loses_nothing(first, middle) or (first in INEXACT) != (spec.dtype in INEXACT):
        return None
    return s.make("astype", source, dtype=spec.dtype)


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
    """f(broadcast(x), y) is f(x, y), broadcast if y is too: less is computed, or less is read."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
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
            if x.constant is None:
                return None
        arrays = [x.constant._a for x in inputs]
        found = run_primitive(registry[name], arrays, params)
        if found is None or found[0].shape or found[0].dtype != spec.dtype:
            return None
        return constant_value(tensor_of(found[0]))

    return rule


def _rules() -> dict[str, list[Rule]]:
    rules: dict[str, list[Rule]] = {name: [_of_scalars(name)] for name in UNARY | BROADCASTING}
    for name, more in _OWN.items():
        rules[name] += more
    for name in UNARY | BROADCASTING:
        rules[name].append(_broadcast_late(name))
    return rules


_OWN: dict[str, list[Rule]] = {
    "add": [_add],
    "subtract": [_subtract],
    "multiply": [_multiply],
    "divide": [_divide],
    "power": [_power],
    "negative": [_negative],
    "abs": [_same_again("abs"), _of_negative("abs")],
    "square": [_of_negative("square")],
    "conj": [_undone("conj")],
    "relu": [_same_again("relu", "exp", "sigmoid", "square", "abs")],
    "sign": [_same_again("sign")],
    "floor": [_of_whole, _same_again("floor", "ceil", "trunc", "round")],
    "ceil": [_of_whole, _same_again("floor", "ceil", "trunc", "round")],
    "trunc": [_of_whole, _same_again("floor", "ceil", "trunc", "round")],
    "round": [_of_whole, _same_again("floor", "ceil", "trunc", "round")],
    "maximum": [_extremum(-inf, lambda info: info.min)],
    "minimum": [_extremum(inf, lambda info: info.max)],
    "logical_and": [_logic(True, False)],
    "logical_or": [_logic(False, True)],
    "logical_xor": [_logic(False, None)],
    "logical_not": [_undone("logical_not"), _logical_not],
    "bitwise_not": [_undone("bitwise_not")],
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
RULES = _rules()
