"""Graph: typed SSA nodes over primitives, in an order in which they can run.

A graph is a pure function of its inputs. Nothing in it is ever changed after it was built: a pass
reads one graph and builds another with a ``Rewriter``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fx.graph.walking import TENSORS, runner
from fx.spec import TensorSpec
from fx.tensor import Tensor


class Value:
    """A tensor that is known by its spec: an input, a constant, or an output of a node.

    Attributes:
        spec: its shape, dtype and device.
        node: the node that computes it; None for inputs and constants.
        position: which output of the node it is.
        constant: the tensor, for a constant; else None.
        weak: whether it stands for a Python number, which adapts to the dtype that it meets.
    """

    __slots__ = ("constant", "node", "position", "spec", "weak")

    spec: TensorSpec
    node: Node | None
    position: int
    constant: Tensor | None
    weak: bool

    @property
    def array(self) -> Any:
        """The array of a constant."""
        return self.constant._a  # type: ignore[union-attr]

    def __repr__(self) -> str:
        kind = "constant" if self.constant is not None else "input" if self.node is None else ""
        return f"<{kind or f'{self.node!r}.{self.position}'} {self.spec!r}>"


def _value(spec: TensorSpec, node: Node | None, position: int, constant: Tensor | None) -> Value:
    value = _new(Value)
    value.spec = spec
    value.node = node
    value.position = position
    value.constant = constant
    value.weak = False
    return value


def input_value(spec: TensorSpec) -> Value:
    """A new input."""
    return _value(spec, None, 0, None)


def constant_value(tensor: Tensor) -> Value:
    """A constant: a plain tensor, which the graph keeps alive."""
    return _value(tensor.spec, None, 0, tensor)


class Node:
    """One application of a primitive.

    Attributes:
        primitive: what is applied.
        inputs: the values that it is applied to.
        params: its static parameters.
        outs: its results, one value an output.
        line: the user's ``file:line`` that asked for it, or "".
    """

    __slots__ = ("inputs", "line", "outs", "params", "primitive")

    primitive: Any
    inputs: tuple[Value, ...]
    params: dict[str, Any]
    outs: tuple[Value, ...]
    line: str

    def __init__(
        self,
        primitive: Any,
        inputs: Sequence[Value],
        params: dict[str, Any],
        specs: Sequence[TensorSpec] | None = None,
        line: str = "",
    ) -> None:
        self.primitive = primitive
        self.inputs = tuple(inputs)
        self.params = params
        self.line = line
        if specs is None:
            found = primitive.spec(*[v.spec for v in inputs], **params)
            specs = found if primitive.multiple else (found,)
        self.outs = tuple([_value(spec, self, i, None) for i, spec in enumerate(specs)])

    @property
    def out(self) -> Value:
        """The only result of a primitive that has one."""
        return self.outs[0]

    def __repr__(self) -> str:
        return f"<node {self.primitive.name}>"


class Graph:
    """A pure function in straight-line form.

    Args:
        inputs: input values, in the order of the arguments.
        nodes: every node after those whose results it takes.
        outputs: values of any kind; one may stand there twice.
        name: what messages call it.

    Example:
        >>> import fx
        >>> graph = fx.make_graph(lambda x: fx.sin(x) * 2)(fx.ones(3))
        >>> graph.run(fx.zeros(3))
        [tensor([0., 0., 0.])]
    """

    __slots__ = ("__weakref__", "cache", "inputs", "name", "nodes", "outputs")

    def __init__(
        self,
        inputs: Iterable[Value],
        nodes: Iterable[Node],
        outputs: Iterable[Value],
        name: str = "graph",
    ) -> None:
        self.inputs = tuple(inputs)
        self.nodes = tuple(nodes)
        self.outputs = tuple(outputs)
        self.name = name
        self.cache: dict[Any, Any] = {}  # what was derived from this graph: its key, executables …

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The specs of the outputs."""
        return tuple([v.spec for v in self.outputs])

    def constants(self) -> list[Value]:
        """The constants that nodes and outputs use, in the order of first use."""
        found: dict[Value, None] = {}
        for value in self.uses():
            if value.constant is not None:
                found[value] = None
        return list(found)

    def uses(self) -> Iterator[Value]:
        """Every use of a value: those of nodes, then the outputs."""
        for node in self.nodes:
            yield from node.inputs
        yield from self.outputs

    def use_counts(self) -> dict[Value, int]:
        """How often each value is used, by nodes and as an output."""
        counts: dict[Value, int] = {}
        for value in self.uses():
            counts[value] = counts.get(value, 0) + 1
        return counts

    def run(self, *args: Tensor) -> list[Any]:
        """The outputs for ``args``, one primitive after the other, on tensors of any level.

        This is the interpreter: transforms differentiate and batch a graph by running it on
        tracers, and it is the oracle of every compiled form. Values are dropped after their last
        use.
        """
        if len(args) != len(self.inputs):
            raise TypeError(f"{self.name} takes {len(self.inputs)} tensors, got {len(args)}")
        return runner(self, TENSORS)(args)

    def __str__(self) -> str:
        from fx.graph.printing import text

        return text(self)

    def __repr__(self) -> str:
        return f"<graph {self.name}: {len(self.inputs)} inputs, {len(self.nodes)} nodes>"

    def print_tabular(self) -> None:
        """Print an aligned table: number, primitive, inputs, params, spec, bytes, user's line."""
        from fx.graph.printing import table

        print(table(self))

    def show(self, path: Any = None) -> Any:
        """A drawing, which a notebook shows; written to ``path`` too (``.svg`` or ``.html``)."""
        from fx.graph.render import show

        return show(self, path)

    def cost(self) -> Any:
        """What the graph costs: operations, bytes read and written, the peak of live bytes."""
        from fx.graph.cost import cost_of_graph

        return cost_of_graph(self)

    def _repr_html_(self) -> str:
        from fx.graph.render import draw

        return draw(self)._repr_html_()


class Rewriter:
    """Builds a graph from another: values of the old one are mapped to values of the new one.

    Args:
        graph: the graph to go through.

    A pass walks ``graph.nodes`` and either keeps a node (``keep``), or adds others (``add``) and
    says which new value stands for an old one (``replace``).
    """

    __slots__ = ("env", "graph", "nodes")

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.env: dict[Value, Value] = {}

    def get(self, value: Value) -> Value:
        """What stands for an old value; inputs and constants stand for themselves."""
        return self.env.get(value, value)

    def add(
        self, primitive: Any, *inputs: Value, line: str = "", specs: Any = None, **params: Any
    ) -> Any:
        """A new node on new values; its result, a tuple where the primitive has several."""
        node = Node(primitive, inputs, params, specs, line)
        self.nodes.append(node)
        return node.outs if primitive.multiple else node.outs[0]

    def keep(self, node: Node) -> Node:
        """The node on what stands for its inputs; the node itself where nothing changed."""
        inputs = tuple([self.env.get(v, v) for v in node.inputs])
        if inputs == node.inputs:
            self.nodes.append(node)
            return node
        new = Node(node.primitive, inputs, node.params, [v.spec for v in node.outs], node.line)
        self.nodes.append(new)
        self.env.update(zip(node.outs, new.outs))
        return new

    def replace(self, old: Value, new: Value) -> None:
        """``new`` stands for ``old`` from here on."""
        self.env[old] = new

    def done(self) -> Graph:
        """The new graph."""
        graph = self.graph
        outputs = [self.get(v) for v in graph.outputs]
        return Graph(graph.inputs, self.nodes, outputs, graph.name)


Pass = Callable[[Graph], Graph]
_new = object.__new__
