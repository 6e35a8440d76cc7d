"""Parts: runs of native steps, and their bodies: the kernel calls in order, as LLVM IR text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fx.backends.cpu.llvm.memory import Place

_STEPS = 250  # steps of one native function: LLVM is not linear in the length of a block


@dataclass
class Call:
    """One kernel call.

    Attributes:
        kernel: the kernel's name in the module.
        places: of the arrays that it reads and writes.
        scratch: where its scratch memory is, or None.
        tasks, chunk: the pieces, and how many a thread takes at once; 0 for one thread.
        nbytes: bytes of scratch memory.
    """

    kernel: str
    places: Sequence[Place]
    scratch: Place | None
    tasks: int
    chunk: int
    nbytes: int


@dataclass
class Part:
    """A run of native steps: what its entry takes, makes and hands over.

    Attributes:
        name: the entry's name in the module.
        inputs: the number of arrays that it is called with.
        written: the inputs that it writes into.
        constants: which constants of the graph it reads.
        results: dtype name and shape of the arrays that it makes.
        outputs: ``(kind, index, view)``: what is handed over; ``view`` is ``(dtype, shape)`` of
            another face of that memory, or None.
        arena: bytes.
        free: whether to give up the GIL.
    """

    name: str
    inputs: int
    written: list[int] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    results: list[tuple[str, list[int]]] = field(default_factory=list)
    outputs: list[tuple[str, int, Any]] = field(default_factory=list)
    arena: int = 0
    free: bool = False

    def specs(self) -> list[tuple[str, list[int]]]:
        """Specs of the arrays that are made: results, then views."""
        return [*self.results, *[view for *_, view in self.outputs if view is not None]]

    @property
    def table(self) -> int:
        """The number of base addresses that kernels see."""
        return self.inputs + len(self.constants) + len(self.results) + 1


def body(part: Part, calls: Sequence[Call]) -> tuple[list[str], str]:
    """``void NAME_body(ptr table)``: the functions with the kernel calls, and what calls those."""
    pieces = [
        _piece(part, f"{part.name}_body{i // _STEPS}", calls[i : i + _STEPS])
        for i in range(0, len(calls), _STEPS)
    ]
    names = [f"@{part.name}_body{i}(ptr %table)" for i in range(len(pieces))]
    lines = [f"define void @{part.name}_body(ptr %table) {{"]
    lines += [f"  call void {name}" for name in names]
    return pieces, "\n".join([*lines, "  ret void", "}", ""])


def _piece(part: Part, name: str, calls: Sequence[Call]) -> str:
    thunks: dict[str, str] = {}
    constants = part.inputs
    results = constants + len(part.constants)
    first = {"input": 0, "constant": constants, "result": results, "arena": part.table - 1}
    wide = max((len(c.places) for c in calls if c.chunk), default=0)
    head = [f"define void @{name}(ptr %table) {{"]
    if wide:
        head.append(f"  %block = alloca [{wide} x ptr]")
    lines: list[str] = []
    bases: set[int] = set()
    count = 0

    def pointer(place: Place) -> str:
        nonlocal count
        base = first[place.kind] + place.index
        if base not in bases:
            bases.add(base)
            head.append(f"  %a{base} = getelementptr ptr, ptr %table, i64 {base}")
            head.append(f"  %b{base} = load ptr, ptr %a{base}")
        if not place.offset:
            return f"ptr %b{base}"
        count += 1
        lines.append(f"  %p{count} = getelementptr i8, ptr %b{base}, i64 {place.offset}")
        return f"ptr %p{count}"

    for call in calls:
        scratch = pointer(call.scratch) if call.scratch else "ptr null"
        args = [pointer(p) for p in call.places]
        if not call.chunk:
            listed = ", ".join([f"i64 0, i64 {call.tasks}", scratch, *args])
            lines.append(f"  call void @{call.kernel}({listed})")
            continue
        for i, arg in enumerate(args):
            count += 1
            lines.append(f"  %p{count} = getelementptr ptr, ptr %block, i64 {i}")
            lines.append(f"  store {arg}, ptr %p{count}")
        thunks.setdefault(call.kernel, _thunk(call.kernel, len(args)))
        lines.append(
            f"  call void @fx_parallel(ptr @{call.kernel}_thunk, ptr %block, i64 {call.tasks}, "
            f"i64 {call.chunk}, i64 {call.nbytes}, {scratch})"
        )
    return "\n".join([*thunks.values(), *head, *lines, "  ret void", "}", ""])


def _thunk(kernel: str, count: int) -> str:
    lines = [
        f"define internal void @{kernel}_thunk(ptr %block, i64 %begin, i64 %end, ptr %scratch) {{"
    ]
    for i in range(count):
        lines.append(f"  %a{i} = getelementptr ptr, ptr %block, i64 {i}")
        lines.append(f"  %b{i} = load ptr, ptr %a{i}")
    listed = "".join(f", ptr %b{i}" for i in range(count))
    lines.append(f"  call void @{kernel}(i64 %begin, i64 %end, ptr %scratch{listed})")
    return "\n".join([*lines, "  ret void", "}", ""])
