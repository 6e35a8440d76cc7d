"""``schedule``: a graph as steps, fused loop kernels and the kernels of other tables."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from fx.compiler.copying import with_reads
from fx.compiler.decompose import decompose
from fx.compiler.epilogue import fuse_products
from fx.compiler.extents import Sizes, named
from fx.compiler.fusion import Fusion
from fx.compiler.group import Group, Opaque
from fx.compiler.halves import halves
from fx.compiler.merge import Kernel, merge, without_unread
from fx.compiler.plan import plan_of
from fx.compiler.step import Schedule, Step, python_step
from fx.compiler.target import Target
from fx.graph.ir import Graph, Node, Value


def schedule(graph: Graph, target: Target, sizes: Sizes | None = None) -> Schedule:
    """Decide which nodes of ``graph`` become which kernels, in which order.

    Args:
        graph: what to compute; nodes that no output needs are left out.
        target: what it is computed by.
        sizes: those that are known when it runs.

    Raises:
        NoExtentsError: if a kernel needs more of such a size than products.

    Example:
        >>> import fx
        >>> from fx.backends.cpu.llvm.this_cpu import this_cpu
        >>> from fx.compiler.schedule import schedule
        >>> graph = fx.make_graph(lambda x: fx.exp(x) + 1)(fx.ones(3))
        >>> len(schedule(graph, this_cpu()).steps)
        1
    """
    searching = gc.isenabled()
    gc.disable()  # thousands of objects are made and all are kept: looking for garbage is in vain
    try:
        return _schedule(graph, target, sizes)
    finally:
        if searching:
            gc.enable()


def _schedule(graph: Graph, target: Target, sizes: Sizes | None) -> Schedule:
    graph = decompose(graph, target)
    checks = graph.cache.get("checks", {})

    def opaque(node: Node) -> list[Any]:
        steps = steps_of(node, target)
        if node in checks:
            steps[0].speak_of(*checks[node])
        return steps

    fusion = Fusion(graph, target, opaque)
    aliases = fusion.aliases

    def root(value: Value) -> Value:
        while value in aliases:
            value = aliases[value]
        return value

    units = [u if isinstance(u, Opaque) else kernel_of(u, root, sizes) for u in fusion.units]
    outputs = {root(v) for v in graph.outputs}
    units = without_unread(merge(units, root), outputs, root)
    units = fuse_products(units, outputs, root, target)
    steps: list[Step] = []
    for unit in units:
        steps += loop_steps(unit, target) if isinstance(unit, Kernel) else unit.steps
    return Schedule(graph, target.together(steps, root), aliases)


def kernel_of(group: Group, root: Callable[[Value], Value], sizes: Sizes | None) -> Kernel:
    """What a group computes, with one read for each array and extents for ``sizes``."""
    names: set[str] = set()
    lines: set[str] = set()
    for v in group.inside:
        node: Any = v.node
        names.add(node.primitive.name.removeprefix("loose_"))
        if node.line:
            lines.add(node.line)
    nest, reads, writes = group.nest(sizes)
    if len({root(v) for v in reads}) < len(reads):
        nest, reads = with_reads(nest, reads, root)
    if sizes is not None:
        named(nest, sizes)
    return Kernel(nest, reads, writes, names, lines)


def loop_steps(kernel: Kernel, target: Target) -> list[Step]:
    """The steps of a kernel: one, or more where a long reduction is cut into chunks."""
    name = f"loop: {', '.join(sorted(kernel.names))}"
    lines = sorted(kernel.lines)
    found: list[Step] = []
    for nest, reads, writes in halves(kernel.nest, kernel.reads, kernel.writes, target):
        found.append(target.loop(plan_of(nest, target), reads, writes, name, lines))
    for following in kernel.after:
        found += loop_steps(following, target)
    return found


def steps_of(node: Node, target: Target) -> list[Any]:
    """The steps of a node that no loop computes."""
    found = target.steps_of(node)
    return [python_step(node)] if found is None else found
