"""graph_key: what a graph computes, as a short string; equal keys mean equal compiled code.

Values are numbered in the order in which they appear, so that names and user lines do not matter.
Constants are arguments of compiled code: of a large one only the spec counts. One that is small,
uniform or not floating may be folded into code (``foldable``), so its value counts.

A parameter that is neither plain data, nor a graph, nor has a ``key`` of its own gets a token of
this process, and the key begins with ``local``: it means nothing to another process.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fx import limits
from fx.graph.ir import Graph, Value
from fx.spec import TensorSpec

_tokens: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_kept: dict[int, tuple[Any, int]] = {}  # of objects that cannot be referenced weakly
_numbers = count()


def graph_key(graph: Graph) -> str:
    """The key of a graph under the limits that hold, in time linear in its nodes.

    Args:
        graph: any graph; the key is kept in ``graph.cache``.

    Example:
        >>> import fx
        >>> from fx.graph.key import graph_key
        >>> one = fx.make_graph(lambda x: fx.sin(x) * 2)(fx.ones(3))
        >>> two = fx.make_graph(lambda y: fx.sin(y) * 2)(fx.zeros(3))
        >>> graph_key(one) == graph_key(two)
        True
    """
    place = "key" + limits.key()
    found: str | None = graph.cache.get(place)
    if found is None:
        writer = Writer()
        writer.graph(graph)
        digest = sha256("\n".join([*writer.lines, limits.key()]).encode()).hexdigest()
        found = digest if writer.stable else f"local-{digest}"
        graph.cache[place] = found
    return found


def is_stable(key: str) -> bool:
    """Whether the key means the same in another process."""
    return not key.startswith("local")


def foldable(value: Value) -> bool:
    """Whether code may depend on the value of this constant.

    That is so where it is small, one number repeated, or not floating: indices and masks.
    """
    array = value.array
    return array.nbytes <= limits.CODE_CONSTANTS or array.dtype.kind in "biu" or is_uniform(array)


def is_uniform(array: np.ndarray) -> bool:
    """Whether an array is one number repeated, in the memory of one."""
    return array.ndim > 0 and not any(s for s, n in zip(array.strides, array.shape) if n > 1)


def constants_of(graph: Graph) -> list[Value]:
    """The constants of a graph, then those of the graphs in its parameters, node by node.

    Graphs with one key have lists of one length, and what has a place in one has it in the other.
    A value that stands in several graphs stands there several times.
    """
    found = graph.constants()
    for node in graph.nodes:
        for name in sorted(node.params):
            _of_data(node.params[name], found)
    return found


def _of_data(data: Any, found: list[Value]) -> None:
    if type(data) is Graph:
        found += constants_of(data)
    elif type(data) in (tuple, list):
        for item in data:
            _of_data(item, found)
    elif type(data) is dict:
        for item in data.values():
            _of_data(item, found)


class Writer:
    """Writes the canonical lines of a graph; ``fx/graph/family.py`` leaves the numbers out."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stable = True
        self._names: dict[Value, str] = {}
        self._specs: dict[Any, str] = {}

    def graph(self, graph: Graph) -> None:
        """Inputs, constants where they are first used, nodes, outputs."""
        lines, names, spec, data = self.lines, self._names, self.spec, self.data
        start = len(names)
        for i, value in enumerate(graph.inputs):
            names[value] = f"%{start + i}"
            lines.append(f"in {self.input(value.spec)}")
        for node in graph.nodes:
            args = " ".join([names.get(v) or self._named(v) for v in node.inputs])
            params = node.params
            told = ""
            if params:
                told = ";".join([f"{k}={data(params[k])}" for k in sorted(params)])
            made = []
            for value in node.outs:
                names[value] = f"%{len(names)}"
                made.append(spec(value.spec))
            lines.append(f"{node.primitive.name} {args} {told} {' '.join(made)}")
        listed = [names.get(v) or self._named(v) for v in graph.outputs]
        lines.append("out " + " ".join(listed))

    def input(self, spec: TensorSpec) -> str:
        """An input."""
        return self.spec(spec)

    def spec(self, spec: TensorSpec) -> str:
        """A spec."""
        key = (spec.shape, spec.dtype)
        text = self._specs.get(key)
        if text is None:
            text = self._specs[key] = f"{spec.dtype.name}{spec.shape}"
        return text

    def integer(self, n: int) -> str:
        """A number of a parameter."""
        return f"{n}"

    def _named(self, value: Value) -> str:
        name = self._names[value] = f"%{len(self._names)}"
        spec = self.spec(value.spec)
        self.lines.append(f"constant {spec} {self.constant(value)}")
        return name

    def constant(self, value: Value) -> str:
        """What code may depend on of a constant."""
        if not foldable(value):
            return ""
        array = value.array
        uniform = is_uniform(array) and array.size > 0
        data = (array[(slice(1),) * array.ndim] if uniform else array).tobytes()
        told = data.hex() if len(data) <= limits.CODE_CONSTANTS else sha256(data).hexdigest()
        return told + " uniform" * uniform

    def data(self, data: Any) -> str:
        """Plain data as text that no two different data share."""
        kind = type(data)
        if data is None or kind is bool or data is Ellipsis:
            return str(data)
        if kind is int:
            return self.integer(data)
        if kind is tuple or kind is list:
            return f"({','.join([self.data(x) for x in data])})"
        if kind is str:
            return repr(data)
        if kind is float:
            return f"f{data.hex()}"
        if isinstance(data, np.dtype):
            return f"d{data.name}"
        if kind is complex:
            return f"c{data.real.hex()},{data.imag.hex()}"
        if kind is bytes:
            return f"b{data.hex()}"
        if isinstance(data, np.generic):
            return f"n{data.dtype.name}:{data.tobytes().hex()}"
        if kind is TensorSpec:
            return f"s{data.device}:{self.spec(data)}"
        if kind is slice:
            return f"slice{self.data((data.start, data.stop, data.step))}"
        if kind is dict:
            parts = [f"{self.data(k)}:{self.data(v)}" for k, v in data.items()]
            return f"{{{','.join(parts)}}}"
        if kind in (set, frozenset):
            return f"set({','.join(sorted(self.data(x) for x in data))})"
        if kind is Graph:
            return self._inner(data)
        if isinstance(data, int):
            return f"{int(data)}"
        own = getattr(data, "key", None)
        if own is not None and not callable(own):
            return f"k{kind.__module__}.{kind.__qualname__}:{self.data(own)}"
        self.stable = False
        return f"u{_token(data)}"

    def _inner(self, graph: Graph) -> str:
        key = graph_key(graph)
        self.stable = self.stable and is_stable(key)
        return f"graph {key}"


def _token(data: Any) -> int:
    """A number that belongs to this object and to no other, as long as the process lives."""
    try:
        found = _tokens.get(data)
        if found is None:
            found = _tokens[data] = next(_numbers)
        return found
    except TypeError:
        kept = _kept.get(id(data))
        if kept is None:
            kept = _kept[id(data)] = (data, next(_numbers))
        return kept[1]
