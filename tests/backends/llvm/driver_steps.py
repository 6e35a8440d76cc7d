"""Small steps of our own, so that the driver's tests depend on no scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

import fx
from fx.compiler.step import Schedule, Step
from fx.graph.ir import Graph, Node, Value, constant_value, input_value
from fx.primitive import Primitive, registry

LONG, POINTER = ir.IntType(64), ir.PointerType()
OPERATIONS = {"add": "fadd", "multiply": "fmul", "subtract": "fsub"}


class Elementwise(Step):
    """A float32 operation on two arrays of one shape, a piece of it a task."""

    def __init__(
        self,
        node: Node,
        inplace: bool = True,
        tasks: int = 1,
        cost: float = 100.0,
        scratch: int = 0,
    ) -> None:
        self.reads, self.writes = node.inputs, node.outs
        self.name = f"elementwise: {node.primitive.name}"
        self.size = node.out.spec.size
        self.operation = OPERATIONS[node.primitive.name]
        self.tasks, self.cost, self.scratch = tasks, cost, scratch
        self.key = (self.operation, self.size, tasks, scratch)
        self.inplace = ((0, 0), (0, 1)) if inplace else ()
        self.lines = (node.line,) if node.line else ()

    def emit(self, module: Any, name: str) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [LONG, LONG, *[POINTER] * 4])
        function = ir.Function(module, kind, name)
        build = ir.IRBuilder(function.append_basic_block())
        loop, done = function.append_basic_block("loop"), function.append_basic_block("done")
        begin, end, scratch, x, y, out = function.args
        each = LONG(-(-self.size // self.tasks))
        first, behind = build.mul(begin, each), build.mul(end, each)
        behind = build.select(
            build.icmp_signed("<", behind, LONG(self.size)), behind, LONG(self.size)
        )
        start = build.block
        build.cbranch(build.icmp_signed("<", first, behind), loop, done)
        build.position_at_end(loop)
        i = build.phi(LONG)
        i.add_incoming(first, start)
        real = ir.FloatType()
        places = [build.gep(p, [i], source_etype=real) for p in (x, y, out)]
        a, b = (build.load(p, typ=real) for p in places[:2])
        value = getattr(build, self.operation)(a, b)
        if self.scratch:  # through the scratch memory, all of which must be writable
            at = build.gep(scratch, [LONG(self.scratch - 4)], source_etype=ir.IntType(8))
            build.store(value, at)
            value = build.load(at, typ=real)
        build.store(value, places[2])
        after = build.add(i, LONG(1))
        i.add_incoming(after, build.block)
        build.cbranch(build.icmp_signed("<", after, behind), loop, done)
        build.position_at_end(done)
        build.ret_void()
        return function


def scheduler(
    python: tuple[str, ...] = (), steps: list[Step] | None = None, **told: Any
) -> Callable[[Graph], Schedule]:
    """A scheduler: reshapes are aliases, known operations native, the rest runs in Python."""
    from fx.compiler.step import python_step

    def schedule(graph: Graph) -> Schedule:
        found: list[Step] = []
        aliases: dict[Value, Value] = {}
        for node in graph.nodes:
            name = node.primitive.name
            if name == "reshape":
                aliases[node.out] = node.inputs[0]
            elif name in OPERATIONS and name not in python:
                found.append(Elementwise(node, **told))
            else:
                found.append(python_step(node))
        if steps is not None:
            steps.extend(found)
        return Schedule(graph, found, aliases)

    return schedule


def _refuse(*args: Any, **params: Any) -> Any:
    raise AssertionError("no rule of it is needed here")


# no schedule knows it, so it always runs in Python; it is not registered
UPSIDE_DOWN = Primitive(
    "upside_down",
    spec=lambda x: x,
    cpu=lambda x: x[::-1],
    jvp=_refuse,
    vjp=_refuse,
    batch=_refuse,
    sample=_refuse,
)


def spec(*shape: int, dtype: Any = None) -> Any:
    return fx.TensorSpec(shape, dtype or fx.float32)


def argument(*shape: int) -> Value:
    return input_value(spec(*shape))


def constant(array: Any) -> Value:
    return constant_value(fx.tensor(array))


def apply(name: str, *inputs: Value, **params: Any) -> Value:
    """The result of a new node."""
    return Node(registry[name], inputs, params).out


def graph_of(inputs: list[Value], outputs: list[Value]) -> Graph:
    """The graph of these outputs, its nodes in an order in which they can run."""
    nodes: dict[Node, None] = {}

    def visit(value: Value) -> None:
        if value.node is not None and value.node not in nodes:
            for before in value.node.inputs:
                visit(before)
            nodes[value.node] = None

    for value in outputs:
        visit(value)
    return Graph(inputs, nodes, outputs)
