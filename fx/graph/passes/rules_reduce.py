"""Rules of reductions: of single elements, transposes, reductions, and what is all the same."""

from __future__ import annotations

from typing import Any

from fx.dtypes import FLOATING, INEXACT, bool_
from fx.graph.ir import Value
from fx.graph.passes.rules_pointwise import mantissa_bits
from fx.graph.passes.simplification import Rule, Simplifier, made_by, never_minus_zero
from fx.spec import TensorSpec


def _of_single(name: str) -> Rule:
    """A reduction over axes of size 1 moves elements and changes none."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        x = inputs[0]
        if x.spec.size != spec.size or not spec.size:
            return None
        if name in ("any", "all"):
            if x.spec.dtype != bool_:
                return None
        elif name == "sum" and not never_minus_zero(s, x):
            if spec.dtype not in FLOATING:
                return None
            # the sum of -0.0 is 0.0
            return s.make("add", s.reshape(x, spec.shape), s.scalar(0.0, spec))
        return s.reshape(x, spec.shape)

    return rule


def _of_transpose(name: str) -> Rule:
    """A reduction of a transpose is one along other axes, and at most a smaller transpose."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        node = made_by(inputs[0], "transpose")
        if node is None:
            return None
        order, axes, keepdims = node.params["axes"], params["axes"], params["keepdims"]
        mapped = tuple(sorted([order[a] for a in axes]))
        if keepdims:
            reduced = s.make(name, node.inputs[0], axes=mapped, keepdims=True)
            return s.make("transpose", reduced, axes=order)
        reduced = s.make(name, node.inputs[0], axes=mapped, keepdims=False)
        sources = [a for i, a in enumerate(order) if i not in axes]
        rank = {a: i for i, a in enumerate(sorted(sources))}
        return s.make("transpose", reduced, axes=tuple([rank[a] for a in sources]))

    return rule


def _of_reshape(name: str) -> Rule:
    """A reduction over all that some axes were made of reads what they were made of."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        node = made_by(inputs[0], "reshape")
        if node is None or params["keepdims"] or not params["axes"] or not inputs[0].spec.size:
            return None
        source = node.inputs[0]
        axes = _axes_before(source.spec.shape, inputs[0].spec.shape, params["axes"])
        if axes is None:
            return None
        return s.reshape(s.make(name, source, axes=axes, keepdims=False), spec.shape)

    return rule


def _axes_before(
    source: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The axes of ``source`` that hold the elements of ``axes`` after a reshape to ``shape``.

    None where an axis is made of parts that are reduced and parts that are not.
    """
    found: list[int] = []
    i = j = 0
    while i < len(source) or j < len(shape):
        begin_i, begin_j, n, m = i, j, 1, 1
        while True:  # the next axes of both that hold the same elements
            if n <= m and i < len(source):
                n *= source[i]
                i += 1
            elif j < len(shape):
                m *= shape[j]
                j += 1
            else:
                n *= source[i]
                i += 1
            if n == m and (i > begin_i or j > begin_j):
                break
        reduced = [a in axes for a in range(begin_j, j) if shape[a] != 1]
        if any(reduced):
            if not all(reduced):
                return None
            found += range(begin_i, i)
    return tuple([a for a in found if source[a] != 1]) or None


def _of_same(name: str) -> Rule:
    """max(max(x)) in one go; sums only of integers, whose order makes no difference."""

    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        node = made_by(inputs[0], name)
        if node is None or node.params["keepdims"] or params["keepdims"]:
            return None
        source = node.inputs[0]
        if name in ("sum", "prod") and source.spec.dtype in INEXACT:
            return None
        first = node.params["axes"]
        left = [i for i in range(source.spec.ndim) if i not in first]
        axes = tuple(sorted((*first, *[left[a] for a in params["axes"]])))
        if tuple([n for i, n in enumerate(source.spec.shape) if i not in axes]) != spec.shape:
            return None
        return s.make(name, source, axes=axes, keepdims=False)

    return rule


def _extremum_of_full(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    number = s.number(inputs[0])
    return None if number is None else s.full(number, spec)


def _sum_of_full(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    """n * c, if every partial sum is exact: c is a whole number of some power of two."""
    number = s.number(inputs[0])
    if type(number) is not float or spec.dtype not in FLOATING or not spec.size or s.varied:
        return None
    count = inputs[0].spec.size // spec.size
    if number == 0:
        return s.full(0.0, spec)
    if number != number or number in (float("inf"), -float("inf")):
        return None
    odd, power = number.as_integer_ratio()  # one of the two is a power of two
    if power == 1:
        odd //= odd & -odd
    if abs(odd) * count > 2 ** mantissa_bits(spec.dtype):
        return None
    return None if abs(number * count) > 2.0**15 else s.full(number * count, spec)


_REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")
RULES: dict[str, list[Rule]] = {
    name: [_of_single(name), _of_transpose(name), _of_reshape(name), _of_same(name)]
    for name in _REDUCTIONS
}
RULES["max"].append(_extremum_of_full)
RULES["min"].append(_extremum_of_full)
RULES["sum"].append(_sum_of_full)
RULES["logsumexp"] = [_of_transpose("logsumexp"), _of_reshape("logsumexp")]
