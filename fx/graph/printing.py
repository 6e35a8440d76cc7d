"""Text: a graph as readable SSA, and as an aligned table."""

from __future__ import annotations

from os.path import basename
from typing import Any

import numpy as np

from fx.devices import backend
from fx.graph.ir import Graph, Node, Value
from fx.spec import TensorSpec
from fx.tensor import Tensor

_TINY = 6  # elements up to which a constant is shown by value
_LONG = 60  # characters of one parameter


class Names:
    """What values are called in print: ``%0`` for inputs and results, ``c0`` for large constants.

    Args:
        graph: inputs are numbered first, then the results in order.
    """

    def __init__(self, graph: Graph) -> None:
        self.known: dict[Value, str] = {v: f"%{i}" for i, v in enumerate(graph.inputs)}
        count = len(self.known)
        for node in graph.nodes:
            for value in node.outs:
                self.known[value] = f"%{count}"
                count += 1
        self.constants = 0

    def __call__(self, value: Value) -> str:
        """The name of a value; of a tiny constant the constant itself."""
        found = self.known.get(value)
        if found is None:
            if value.constant is None:
                found = "%?"  # dangling: printing must survive a graph that is not valid
            else:
                found = literal(value.constant)
                if found is None:
                    found = f"c{self.constants}:{value.spec!r}"
                    self.constants += 1
            self.known[value] = found
        return found


def literal(tensor: Tensor) -> str | None:
    """A tiny constant as text, None for one that is too large to show."""
    spec = tensor.spec
    if spec.size > _TINY or spec.device == "meta":
        return None
    values = backend(spec.device).to_numpy(tensor._a).tolist()
    return _plain(values)


def _plain(x: Any) -> str:
    if isinstance(x, list):
        return f"[{', '.join(map(_plain, x))}]"
    if isinstance(x, float):
        return f"{x:.9g}" if not x.is_integer() or abs(x) >= 1e16 else repr(x)
    if isinstance(x, (bool, int, complex)):
        return repr(x)
    return _plain(float(x))  # bfloat16


def subgraphs(params: dict[str, Any]) -> list[tuple[str, Graph]]:
    """The graphs among parameters, alone or in tuples, with the names under which they stand."""
    found = []
    for name, value in params.items():
        if isinstance(value, Graph):
            found.append((name, value))
        elif isinstance(value, (tuple, list)):
            found += [(f"{name}[{i}]", g) for i, g in enumerate(value) if isinstance(g, Graph)]
    return found


def short(value: Any) -> str:
    """A parameter in a few characters."""
    if isinstance(value, Graph):
        return f"<{value.name}>"
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, (TensorSpec, bool, int)):
        return repr(value)
    if isinstance(value, (float, complex)):
        return _plain(value)
    if isinstance(value, Tensor):
        return f"<{value.spec!r}>"
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(short, value))
        out = f"({inner}{',' if len(value) == 1 else ''})"
    elif isinstance(value, (str, type(None))):
        out = repr(value)
    elif callable(value):
        out = f"<{getattr(value, '__name__', type(value).__name__)}>"
    else:
        out = " ".join(repr(value).split())
    return out if len(out) <= _LONG else out[: _LONG - 1] + "…"


def params_text(params: dict[str, Any]) -> str:
    """``axes=(0,), keepdims=False``."""
    return ", ".join([f"{name}={short(value)}" for name, value in params.items()])


def line_of(node: Node) -> str:
    """``file.py:12`` without the folders."""
    return basename(node.line.replace("\\", "/"))


def call_text(node: Node, names: Names) -> str:
    """``matmul(%0, %1)``."""
    parts = [names(v) for v in node.inputs]
    if node.params:
        parts.append(params_text(node.params))
    return f"{node.primitive.name}({', '.join(parts)})"


def text(graph: Graph) -> str:
    """A graph as readable SSA, one node a line, nested graphs indented.

    Args:
        graph: to print.

    Example:
        >>> import fx
        >>> from fx.graph.printing import text
        >>> graph = fx.make_graph(lambda x: fx.sum(fx.sin(x) * 2))(fx.ones(3))
        >>> print(text(graph).replace("  # ", "§").split("§")[0])
        <lambda>(%0: float32[3])
          %1: float32[3] = sin(%0)
    """
    return "\n".join(_lines(graph, ""))


def _lines(graph: Graph, indent: str, head: str = "") -> list[str]:
    names = Names(graph)
    inputs = ", ".join([f"{names(v)}: {v.spec!r}" for v in graph.inputs])
    out = [f"{indent}{head}{graph.name}({inputs})"]
    inner = indent + "  "
    for node in graph.nodes:
        results = ", ".join([f"{names(v)}: {v.spec!r}" for v in node.outs])
        where = line_of(node)
        comment = f"  # {where}" if where else ""
        out.append(f"{inner}{results} = {call_text(node, names)}{comment}")
        for name, nested in subgraphs(node.params):
            out += _lines(nested, inner + "  ", f"{name}: ")
    out.append(f"{inner}return {', '.join([names(v) for v in graph.outputs]) or 'nothing'}")
    return out


# the table --------------------------------------------------------------------------------------

_COLUMNS = ("", "primitive", "inputs", "params", "spec", "bytes", "line")


def table(graph: Graph) -> str:
    """A graph as an aligned table: number, primitive, inputs, params, spec, bytes, the user's line.

    Args:
        graph: to print.

    Example:
        >>> import fx
        >>> from fx.graph.printing import table
        >>> graph = fx.make_graph(fx.sin)(fx.ones(3))
        >>> print(table(graph).splitlines()[0].split())
        ['primitive', 'inputs', 'params', 'spec', 'bytes', 'line']
    """
    names = Names(graph)
    rows = [_COLUMNS]
    for value in graph.inputs:
        rows.append((names(value), "input", "", "", repr(value.spec), _bytes(value), ""))
    for node in graph.nodes:
        inputs, params = ", ".join(map(names, node.inputs)), params_text(node.params)
        first = True
        for value in node.outs:
            about = (node.primitive.name, inputs, params) if first else ("", "", "")
            line = line_of(node) if first else ""
            rows.append((names(value), *about, repr(value.spec), _bytes(value), line))
            first = False
        if first:  # it has no results
            rows.append(("", node.primitive.name, inputs, params, "", "", line_of(node)))
    for value in graph.outputs:
        rows.append(("", "output", names(value), "", repr(value.spec), _bytes(value), ""))
    widths = [max([len(row[i]) for row in rows]) for i in range(len(_COLUMNS))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i == 5 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _bytes(value: Value) -> str:
    return f"{value.spec.nbytes:,}"
