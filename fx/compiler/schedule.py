"""``schedule``: a graph as steps, fused loop kernels and the kernels of other tables."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from fx.backends.cpu.llvm.loops.flat import FlatStep, is_flat, merged
from fx.backends.cpu.llvm.loops.step import LoopStep
from fx.compiler.copying import with_reads
from fx.compiler.decompose import decompose
from fx.compiler.epilogue import fuse_products
from fx.compiler.extents import is_known, named
from fx.compiler.fusion import Fusion, Opaque
from fx.compiler.group import Group
from fx.compiler.halves import halves
from fx.compiler.merge import Kernel, merge
from fx.compiler.quotients import with_reciprocals
from fx.compiler.step import PythonStep, Schedule, Step
from fx.graph.ir import Graph, Node, Value


def schedule(graph: Graph, sizes: Mapping[int, str] | None = None) -> Schedule:
    """Decide which nodes of ``graph`` become which kernels, in which order.

    Args:
        graph: what to compute; nodes that no output needs are left out.
        sizes: names of the primes that stand for sizes which are known when it runs.

    Raises:
        NoExtentsError: if a kernel needs more of such a size than products.

    Example:
        >>> import fx
        >>> from fx.compiler.schedule import schedule
        >>> graph = fx.make_graph(lambda x: fx.exp(x) + 1)(fx.ones(3))
        >>> len(schedule(graph).steps)
        1
    """
    searching = gc.isenabled()
    gc.disable()  # thousands of objects are made and all are kept: looking for garbage is in vain
    try:
        return _schedule(graph, sizes or {})
    finally:
        if searching:
            gc.enable()


def _schedule(graph: Graph, sizes: Mapping[int, str]) -> Schedule:
    graph = decompose(graph, _tables())
    checks = graph.cache.get("checks", {})

    def opaque(node: Node) -> list[Any]:
        steps = steps_of(node)
        if node in checks:
            _name_check(steps[0], *checks[node])
        return steps

    fusion = Fusion(graph, opaque)
    aliases = fusion.aliases

    def root(value: Value) -> Value:
        while value in aliases:
            value = aliases[value]
        return value

    units = [u if isinstance(u, Opaque) else kernel_of(u, root, sizes) for u in fusion.units]
    outputs = {root(v) for v in graph.outputs}
    units = fuse_products(merge(units, root), outputs, root, _makers())
    steps: list[Step] = []
    for unit in units:
        steps += loop_steps(unit) if isinstance(unit, Kernel) else unit.steps
    return Schedule(graph, merged(steps, root), aliases)


def kernel_of(group: Group, root: Callable[[Value], Value], sizes: Mapping[int, str]) -> Kernel:
    """What a group computes, with one read for each array and extents for ``sizes``."""
    names: set[str] = set()
    lines: set[str] = set()
    for v in group.inside:
        node: Any = v.node
        names.add(node.primitive.name.removeprefix("loose_"))
        if node.line:
            lines.add(node.line)
    nest, reads, writes = group.nest()
    if len({root(v) for v in reads}) < len(reads):
        nest, reads = with_reads(nest, reads, root)
    if sizes:
        named(nest, sizes)
    return Kernel(nest, reads, writes, names, lines)


def loop_steps(kernel: Kernel) -> list[Step]:
    """The steps of a kernel: one, or more where a long reduction is cut into chunks."""
    name = f"loop: {', '.join(sorted(kernel.names))}"
    lines = sorted(kernel.lines)
    found: list[Step] = []
    with_reciprocals(kernel.nest)
    for nest, reads, writes in halves(kernel.nest, kernel.reads, kernel.writes):
        if is_flat(nest) and is_known(*nest.sizes):
            found.append(FlatStep(nest, [(reads, writes)], name, lines))
        else:
            found.append(LoopStep(nest, reads, writes, name, lines))
    for following in kernel.after:
        found += loop_steps(following)
    return found


def steps_of(node: Node) -> list[Any]:
    """The steps of a node that no loop computes."""
    for builder in _tables().get(node.primitive.name, ()):
        found = builder(node)
        if found is not None:
            return list(found) if isinstance(found, list | tuple) else [found]
    return [python_step(node)]


def _name_check(step: Any, name: str, where: str) -> None:
    """Let a check of indices speak of the operation that the user wrote."""
    node = step.writes[0].node
    if hasattr(step, "failure") and node is not None:
        from fx.backends.cpu.llvm.special.checked import message

        step.failure = message(name, node.params["size"], where, node.inputs[0].spec.dtype)


@cache
def _makers() -> dict[str, Callable[..., Any]]:
    """What makes the steps of a node that take an epilogue."""
    try:
        from fx.backends.cpu.llvm.gemm import product
    except ImportError:
        return {}
    return {"matmul": product}


@cache
def _tables() -> dict[str, list[Callable[[Node], Any]]]:
    """For each primitive what may make its steps, the most particular first."""
    found: dict[str, list[Callable[[Node], Any]]] = {}
    for name in ("control", "gemm", "conv", "special"):
        try:
            module = import_module(f"fx.backends.cpu.llvm.{name}")
            steps = module.STEPS
        except (ImportError, AttributeError):
            continue
        for primitive, builder in steps.items():
            found.setdefault(primitive, []).append(builder)
    return found


def python_step(node: Node) -> PythonStep:
    """A node by its eager kernel on NumPy arrays."""
    primitive, params = node.primitive, node.params

    def run(*arrays: Any) -> tuple[Any, ...]:
        found = primitive.cpu(*arrays, **params)
        return tuple(found) if primitive.multiple else (found,)

    lines = (node.line,) if node.line else ()
    return PythonStep(f"python: {primitive.name}", run, node.inputs, node.outs, lines)
