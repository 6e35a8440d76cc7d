"""Families of graphs, and the programs for any size that serve them.

The first graph of a form is compiled for its sizes, and runs as fast as that can be. The second
shows which sizes vary; from then on one program serves all sizes of a class: about as large, so
that it is planned for what it is used for. The class of a size depends on that size alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from fx import limits
from fx.graph.family import Family, Numbered, primes_for
from fx.graph.ir import Graph
from fx.graph.key import constants_of

if TYPE_CHECKING:
    from fx.backends.cpu.llvm.executable import Executable
    from fx.backends.cpu.llvm.sized import SizedProgram

_MOST = 64  # forms that are remembered


class Families:
    """The forms of the graphs that were compiled last."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, _Form] = OrderedDict()

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()

    def executable_of(self, graph: Graph, donated: Sequence[int]) -> Executable | None:
        """What runs a graph by a program for any size; None where it is to be compiled for its own.

        Args:
            graph: not known yet; it is remembered.
            donated: positions of inputs whose memory the results may take over.
        """
        written = Numbered(graph)
        if not written.stable:
            return None
        form = sha256("\n".join(written.lines).encode()).digest()
        key = form, tuple(donated), limits.key()
        known = self._known.pop(key, None)
        self._known[key] = known or _Form(written)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return None if known is None else known.executable_of(graph, written, donated)


class _Form:
    def __init__(self, first: Numbered) -> None:
        self._first = first
        self._family: Family | None = None
        self._programs: dict[tuple[int, ...], SizedProgram | None] = {}

    def executable_of(
        self, graph: Graph, written: Numbered, donated: Sequence[int]
    ) -> Executable | None:
        numbers = written.numbers
        if self._family is None:
            self._family = Family(self._first, written)
        family = self._family
        sizes = family.sizes_of(numbers)
        if sizes is None and family.names:
            family.add(numbers)
            self._programs.clear()
            sizes = family.sizes_of(numbers)
        if sizes is None or min(sizes.values()) < 2:
            return None
        kind = tuple([_class_of(n) for n in sizes.values()])
        if kind not in self._programs:
            self._programs[kind] = self._program(graph, sizes, donated)
        program = self._programs[kind]
        if program is None:
            return None
        return program.at(sizes, [v.array for v in constants_of(graph)], family.axes)

    def _program(
        self, graph: Graph, sizes: dict[str, int], donated: Sequence[int]
    ) -> SizedProgram | None:
        from fx.backends.cpu.llvm.sized import program_for

        assert self._family is not None
        primes = primes_for(sizes, self._family.plain())
        first, second = next(primes), next(primes)
        at = self._family.at
        try:
            graphs = at(graph, first), at(graph, second)
        except ValueError:
            return None
        return program_for(*graphs, first, second, donated)


def _class_of(n: int) -> int:
    """From 4 on, 16, 64 and so on."""
    return (n.bit_length() + 1) // 2
