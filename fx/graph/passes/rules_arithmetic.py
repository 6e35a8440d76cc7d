"""Rules of arithmetic: ``1.0 * x`` is ``x`` in every bit.

``x + 0.0`` is not, since -0.0 + 0.0 is 0.0, and neither is ``x * 0.0``, ``x - x`` or ``x / x``.
"""

from __future__ import annotations

from math import inf
from typing import Any

import ml_dtypes

from fx.dtypes import COMPLEX, FLOATING, INEXACT, INTEGRAL, SIGNED, UNSIGNED, bool_
from fx.graph.ir import Value
from fx.graph.passes.simplification import Rule, Simplifier, is_exactly, made_by, never_minus_zero
from fx.spec import TensorSpec


def like(s: Simplifier, x: Value, spec: TensorSpec) -> Value:
    """x in the shape of the result."""
    return s.broadcast(x, spec.shape)


def _add(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    for x, y in (inputs, inputs[::-1]):
        number = s.number(y)
        if number is not None and type(number) is not complex:
            if spec.dtype not in INEXACT:
                if number == 0:
                    return like(s, x, spec)
            elif is_exactly(number, -0.0) or (is_exactly(number, 0.0) and never_minus_zero(s, x)):
                return like(s, x, spec)
        node = made_by(y, "negative")
        if node is not None:
            return s.make("subtract", x, node.inputs[0])
    return None


def _subtract(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    x, y = inputs
    number = s.number(y)
    if number is not None and type(number) is not complex and is_exactly(number, 0):
        return like(s, x, spec)
    node = made_by(y, "negative")
    if node is not None:
        return s.make("add", x, node.inputs[0])
    if spec.dtype not in INEXACT:
        if x is y:
            return s.full(0, spec)
        if is_exactly(s.number(x), 0):
            return like(s, s.make("negative", y), spec)
    elif is_exactly(s.number(x), -0.0):
        return like(s, s.make("negative", y), spec)
    return None


def _multiply(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    if spec.dtype in COMPLEX:
        return None
    for x, y in (inputs, inputs[::-1]):
        number = s.number(y)
        if number is None:
            continue
        if number == 1:
            return like(s, x, spec)
        if number == -1 and spec.dtype not in UNSIGNED:
            return like(s, s.make("negative", x), spec)
        if number == 0 and spec.dtype not in INEXACT:
            return s.full(False if spec.dtype == bool_ else 0, spec)
        node = made_by(x, "negative")
        if node is not None and spec.dtype in FLOATING:
            return like(s, s.make("multiply", node.inputs[0], s.scalar(-number, y.spec)), spec)
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
            return like(s, s.make("multiply", inner, s.scalar(before * number, spec)), spec)
    return None


def _grows(number: float, spec: TensorSpec) -> bool:
    return 1 <= abs(number) <= largest(spec.dtype) and is_power_of_two(number)


def largest(dtype: Any) -> float:
    """The largest finite number of a real floating dtype."""
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def smallest_normal(dtype: Any) -> float:
    """The smallest normal number of a real floating dtype."""
    return float(ml_dtypes.finfo(dtype).smallest_normal)  # type: ignore[no-untyped-call]


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
            return like(s, x, spec)
        if number == -1:
            return like(s, s.make("negative", x), spec)
        node = made_by(x, "negative")
        if node is not None:
            return like(s, s.make("divide", node.inputs[0], s.scalar(-number, y.spec)), spec)
    a, b = [made_by(v, "negative") for v in inputs]
    if a is not None and b is not None:
        return s.make("divide", a.inputs[0], b.inputs[0])
    return None


def _power(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    if spec.dtype in COMPLEX:
        return None
    number = s.number(inputs[1])
    if number == 1:
        return like(s, inputs[0], spec)
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


def undone(*names: str) -> Rule:
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
                return like(s, x, spec)
            if spec.dtype in INTEGRAL:
                info = ml_dtypes.iinfo(spec.dtype)  # type: ignore[no-untyped-call]
                if number == neutral_of(info):
                    return like(s, x, spec)
        return None

    return rule


ARITHMETIC: dict[str, list[Rule]] = {
    "add": [_add],
    "subtract": [_subtract],
    "multiply": [_multiply],
    "divide": [_divide],
    "power": [_power],
    "negative": [_negative],
    "abs": [_same_again("abs"), _of_negative("abs")],
    "square": [_of_negative("square")],
    "conj": [undone("conj")],
    "relu": [_same_again("relu", "exp", "sigmoid", "square", "abs")],
    "sign": [_same_again("sign")],
    "floor": [_of_whole, _same_again("floor", "ceil", "trunc", "round")],
    "ceil": [_of_whole, _same_again("floor", "ceil", "trunc", "round")],
    "trunc": [_of_whole, _same_again("floor", "ceil", "trunc", "round")],
    "round": [_of_whole, _same_again("floor", "ceil", "trunc", "round")],
    "maximum": [_extremum(-inf, lambda info: info.min)],
    "minimum": [_extremum(inf, lambda info: info.max)],
}
