"""Parts: runs of native steps, and their bodies: the kernel calls in order, as LLVM IR text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fx import limits
from fx.compiler.memory import Place

HELPERS = """
declare void @fx_parallel(ptr, ptr, i64, i64, i64, ptr)

; whether a task tells of an unfit value: with which message, which index, and the word of it
define internal i1 @fx_failed(ptr %words, i64 %tasks, ptr %failure, ptr %format) {
  br label %look
look:
  %i = phi i64 [0, %0], [%next, %good]
  %more = icmp slt i64 %i, %tasks
  br i1 %more, label %task, label %none
task:
  %twice = shl i64 %i, 1
  %at = getelementptr i64, ptr %words, i64 %twice
  %word = load i64, ptr %at
  %bad = icmp ne i64 %word, 0
  br i1 %bad, label %tell, label %good
good:
  %next = add i64 %i, 1
  br label %look
tell:
  %index.at = getelementptr i64, ptr %at, i64 1
  %index = load i64, ptr %index.at
  store ptr %format, ptr %failure
  %to = getelementptr i64, ptr %failure, i64 1
  store i64 %index, ptr %to
  %kind = getelementptr i64, ptr %failure, i64 2
  store i64 %word, ptr %kind
  ret i1 true
none:
  ret i1 false
}
"""


# for calls of which it is known when they run whether threads share them
SHARED = """
define internal void @fx_shared(
    ptr %kernel, ptr %block, i64 %tasks, i64 %chunk, i64 %nbytes, ptr %scratch) {
  %alone = icmp eq i64 %chunk, 0
  br i1 %alone, label %one, label %many
one:
  call void %kernel(ptr %block, i64 0, i64 %tasks, ptr %scratch)
  ret void
many:
  call void @fx_parallel(
      ptr %kernel, ptr %block, i64 %tasks, i64 %chunk, i64 %nbytes, ptr %scratch)
  ret void
}
"""


class Word(NamedTuple):
    """A number that is known when it runs: its place in the words of the part."""

    place: int


@dataclass
class Call:
    """One kernel call.

    Attributes:
        kernel: the kernel's name in the module.
        places: of the arrays that it reads and writes.
        scratch: where its scratch memory is, or None.
        tasks, chunk: the pieces, and how many a thread takes at once; 0 for one thread.
        nbytes: bytes of scratch memory.
        status: where a kernel that meets unfit values tells so, or None; and with which message.
    """

    kernel: str
    places: Sequence[Place]
    scratch: Place | None
    tasks: int
    chunk: int
    nbytes: int
    status: Place | None = None
    failure: str = ""


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
        words: which of its constants holds numbers that are known when it runs.
    """

    name: str
    inputs: int
    written: list[int] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    results: list[tuple[str, list[int]]] = field(default_factory=list)
    outputs: list[tuple[str, int, Any]] = field(default_factory=list)
    arena: int = 0
    free: bool = False
    words: int | None = None

    def specs(self) -> list[tuple[str, list[int]]]:
        """Specs of the arrays that are made: results, then views."""
        return [*self.results, *[view for *_, view in self.outputs if view is not None]]

    @property
    def table(self) -> int:
        """The number of base addresses that kernels see."""
        return self.inputs + len(self.constants) + len(self.results) + 1


def body(part: Part, calls: Sequence[Call]) -> tuple[list[str], str]:
    """``i1 NAME_body(ptr table, ptr failure)``: functions with the calls, and what calls those.

    True if a kernel met an unfit value, where it stopped: ``failure`` then holds the address of a
    message, a format of C, the index, and the word that the kernel wrote (``failures.py``).
    """
    pieces = [
        _piece(part, f"{part.name}_body{i // limits.BODY_STEPS}", calls[i : i + limits.BODY_STEPS])
        for i in range(0, len(calls), limits.BODY_STEPS)
    ]
    lines = [f"define i1 @{part.name}_body(ptr %table, ptr %failure) {{"]
    for i in range(len(pieces)):
        lines.append(f"  %r{i} = call i1 @{part.name}_body{i}(ptr %table, ptr %failure)")
        lines += [f"  br i1 %r{i}, label %stop, label %go{i}", f"go{i}:"]
    lines.append("  ret i1 false")
    if pieces:
        lines += ["stop:", "  ret i1 true"]
    return pieces, "\n".join([*lines, "}", ""])


def _piece(part: Part, name: str, calls: Sequence[Call]) -> str:
    thunks: dict[str, str] = {}
    constants = part.inputs
    results = constants + len(part.constants)
    first = {"input": 0, "constant": constants, "result": results, "arena": part.table - 1}
    wide = max((len(c.places) for c in calls if c.chunk), default=0)
    head = [f"define i1 @{name}(ptr %table, ptr %failure) {{"]
    texts: list[str] = []
    if wide:
        head.append(f"  %block = alloca [{wide} x ptr]")
    lines: list[str] = []
    bases: set[int] = set()
    words: set[int] = set()
    count = 0

    def address(base: int) -> str:
        if base not in bases:
            bases.add(base)
            head.append(f"  %a{base} = getelementptr ptr, ptr %table, i64 {base}")
            head.append(f"  %b{base} = load ptr, ptr %a{base}")
        return f"%b{base}"

    def number(n: Any) -> str:
        if type(n) is not Word:
            return f"i64 {n}"
        if n.place not in words:
            words.add(n.place)
            base = address(constants + part.words)  # type: ignore[operator]
            head.append(f"  %at{n.place} = getelementptr i64, ptr {base}, i64 {n.place}")
            head.append(f"  %w{n.place} = load i64, ptr %at{n.place}")
        return f"i64 %w{n.place}"

    def pointer(place: Place) -> str:
        nonlocal count
        base = address(first[place.kind] + place.index)
        if not place.offset:
            return f"ptr {base}"
        count += 1
        lines.append(f"  %p{count} = getelementptr i8, ptr {base}, {number(place.offset)}")
        return f"ptr %p{count}"

    for call in calls:
        scratch = pointer(call.scratch) if call.scratch else "ptr null"
        args = [pointer(p) for p in call.places]
        if not call.chunk:
            listed = ", ".join([f"i64 0, i64 {call.tasks}", scratch, *args])
            lines.append(f"  call void @{call.kernel}({listed})")
            if call.status:
                _look(call, pointer(call.status), name, lines, texts)
            continue
        for i, arg in enumerate(args):
            count += 1
            lines.append(f"  %p{count} = getelementptr ptr, ptr %block, i64 {i}")
            lines.append(f"  store {arg}, ptr %p{count}")
        thunk = f"{call.kernel}_{name}"  # its own: another piece may call the kernel as well
        thunks.setdefault(thunk, _thunk(thunk, call.kernel, len(args)))
        lines.append(
            f"  call void @{'fx_shared' if type(call.chunk) is Word else 'fx_parallel'}("
            f"ptr @{thunk}, ptr %block, {number(call.tasks)}, "
            f"{number(call.chunk)}, {number(call.nbytes)}, {scratch})"
        )
        if call.status:
            _look(call, pointer(call.status), name, lines, texts)
    lines.append("  ret i1 false")
    if texts:
        lines += ["stop:", "  ret i1 true"]
    return "\n".join([*thunks.values(), *texts, *head, *lines, "}", ""])


def _look(call: Call, words: str, name: str, lines: list[str], texts: list[str]) -> None:
    """Stop where a task of the call tells of an unfit value."""
    n = len(texts)
    code = call.failure.encode() + b"\0"
    text = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in code)
    texts.append(f'@{name}_failure{n} = private constant [{len(code)} x i8] c"{text}"')
    told = f"{words}, i64 {call.tasks}, ptr %failure, ptr @{name}_failure{n}"
    lines.append(f"  %bad{n} = call i1 @fx_failed({told})")
    lines += [f"  br i1 %bad{n}, label %stop, label %go{n}", f"go{n}:"]


def _thunk(name: str, kernel: str, count: int) -> str:
    lines = [f"define internal void @{name}(ptr %block, i64 %begin, i64 %end, ptr %scratch) {{"]
    for i in range(count):
        lines.append(f"  %a{i} = getelementptr ptr, ptr %block, i64 {i}")
        lines.append(f"  %b{i} = load ptr, ptr %a{i}")
    listed = "".join(f", ptr %b{i}" for i in range(count))
    lines.append(f"  call void @{kernel}(i64 %begin, i64 %end, ptr %scratch{listed})")
    return "\n".join([*lines, "  ret void", "}", ""])
