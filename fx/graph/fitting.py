"""Whether the operations of a graph take other sizes: its spec rules, asked again, and little else.

``Family.at`` makes the graph itself, which is for planning. Where code is there already, all that
is asked is whether each operation gives, at other sizes, what the family says. Operations that are
one but for their place, as those of the layers of a model, are asked once, and those of which
nothing varies never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fx.errors import FxError
from fx.graph.family import varying_scalars
from fx.graph.ir import Graph, Node, Value
from fx.graph.size_formulas import Formula
from fx.spec import TensorSpec

if TYPE_CHECKING:
    from fx.graph.family import Family


class Fitting:
    """The checks of a graph of a family.

    Args:
        family: what its numbers are.
        graph: a member, or one that has the numbers of the family's first but for the formulas.
    """

    def __init__(self, family: Family, graph: Graph) -> None:
        numbers: list[Any] = list(family.members[0])
        for place, formula in family.formulas.items():
            numbers[place] = formula
        self._numbers = iter(numbers)
        self._scalars = varying_scalars(graph)
        self._specs: dict[Value, Any] = {v: self._spec(v.spec) for v in graph.inputs}
        self._sides: set[Formula] = set()  # that are sizes of axes
        self._checks: dict[Any, tuple[Any, list[Any], dict[str, Any], list[Any]]] = {}
        for node in graph.nodes:
            self._add(node)
        for v in graph.outputs:
            self._of(v)
        for spec in self._specs.values():
            if type(spec) is _Open:
                self._sides |= {n for n in spec.shape if type(n) is Formula}
        del self._numbers, self._specs

    def holds(self, sizes: Mapping[str, int], own: Mapping[str, int]) -> bool:
        """Whether each operation takes some sizes, and gives those of the family.

        What is one or none at them and is not at ``own`` may go another way: it does not hold.
        """
        for side in self._sides:
            n = side(sizes)
            if n < 2 and n != side(own):
                return False
        for primitive, args, params, outs in self._checks.values():
            given = {k: _at(x, sizes) for k, x in params.items()}
            try:
                found = primitive.spec(*[_at(x, sizes) for x in args], **given)
            except (FxError, ArithmeticError, ValueError):
                return False
            if list(found if primitive.multiple else (found,)) != [_at(x, sizes) for x in outs]:
                return False
        return True

    def _add(self, node: Node) -> None:
        args = [self._of(v) for v in node.inputs]
        params = {k: self._data(node.params[k]) for k in sorted(node.params)}
        outs = [self._spec(v.spec) for v in node.outs]
        self._specs.update(zip(node.outs, outs))
        if any(map(_varies, (*args, *params.values(), *outs))):
            key: Any = node.primitive, _key(args), _key(list(params.items())), _key(outs)
            try:
                hash(key)
            except TypeError:
                key = object()
            self._checks[key] = node.primitive, args, params, outs

    def _spec(self, spec: TensorSpec) -> Any:
        shape = tuple([next(self._numbers) for _ in spec.shape])
        if any(type(n) is Formula for n in shape):
            return _Open(shape, spec.dtype, spec.device)
        return TensorSpec(shape, spec.dtype, spec.device)

    def _of(self, value: Value) -> Any:
        found = self._specs.get(value)
        if found is None:
            found = self._specs[value] = self._spec(value.spec)
            if value in self._scalars:
                next(self._numbers)
        return found

    def _data(self, data: Any) -> Any:
        kind = type(data)
        if kind is int:
            return next(self._numbers)
        if kind is tuple or kind is list:
            return kind([self._data(x) for x in data])
        if kind is TensorSpec:
            return self._spec(data)
        if kind is slice:
            return slice(*self._data((data.start, data.stop, data.step)))
        return data


class _Open:
    """A spec of which sizes vary."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, shape: tuple[Any, ...], dtype: Any, device: str) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device


def _varies(x: Any) -> bool:
    kind = type(x)
    if kind is tuple or kind is list:
        return any(map(_varies, x))
    if kind is slice:
        return _varies((x.start, x.stop, x.step))
    return kind is Formula or kind is _Open


def _key(x: Any) -> Any:
    """Data as a key; numbers of one kind alone are equal."""
    kind = type(x)
    if kind is tuple or kind is list:
        return kind, *[_key(y) for y in x]
    if kind is slice:
        return slice, _key((x.start, x.stop, x.step))
    if kind is _Open:
        return _Open, x.shape, x.dtype, x.device
    return (kind, repr(x)) if kind in (int, float, complex, bool) else x


def _at(x: Any, sizes: Mapping[str, int]) -> Any:
    kind = type(x)
    if kind is Formula:
        return x(sizes)
    if kind is _Open:
        shape: Sequence[int] = [n if type(n) is int else n(sizes) for n in x.shape]
        return TensorSpec(tuple(shape), x.dtype, x.device)
    if kind is tuple or kind is list:
        return kind([_at(y, sizes) for y in x])
    if kind is slice:
        return slice(*_at((x.start, x.stop, x.step), sizes))
    return x
