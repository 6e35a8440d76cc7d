"""Why a jitted function was compiled again, as data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fx.slotted import slotted
from fx.spec import TensorSpec
from fx.transforms._arguments import name_of
from fx.transforms.jitting.program import Argument, Program, Segment, Told, lengths_of, number_of
from fx.transforms.jitting.recording.sizes import is_of_sizes

_SETTINGS = (
    "the limits", "no_grad", "inference_mode", "the device of this thread", "autocast",
    "the device that plain tensors follow", "the default dtype", "the default device",
)  # fmt: skip


# what there is ----------------------------------------------------------------------------------


@slotted(frozen=True)
class Branch:
    """A question that a function asked of a value, and the ways on from it.

    Attributes:
        line: the user's line.
        answers: what came out, and the part of the function that follows; None where that part has
            not been staged.
    """

    line: str
    answers: tuple[tuple[str, Part | None], ...]


@slotted(frozen=True)
class Part:
    """A part of a function that runs as one graph.

    Attributes:
        operations: the number of its nodes, as they were staged.
        lines: the user's lines that they come from, "first .. last".
        ends: the question that ends it; None at the end of the function.
    """

    operations: int
    lines: str
    ends: Branch | None = None


@slotted(frozen=True)
class Entry:
    """What was compiled for arguments of one kind, in one state of what the function reads.

    Attributes:
        arguments: pairs of a leaf of the arguments and what it is: a spec, the type of a number, or
            a static value.
        reason: why it was made.
        line: the user's line that called.
        calls: how often it was used.
        seconds: what the first call took: staging, compiling, running.
        guards: what it assumes of closures, globals and attributes, by name.
        assumes: lines at which Python asked something about a number, and the answers.
        branches: why parts of it were staged after the first call.
        parts: the tree of its parts; None for an entry that runs uncompiled.
        eager: why it runs uncompiled, or "".
        sizes: axes whose sizes are not fixed in the code, with their names and what they are here.
        kernels: why parts that could be compiled run kernel by kernel.
    """

    arguments: tuple[tuple[str, str], ...]
    reason: str
    line: str = ""
    calls: int = 0
    seconds: float | None = None
    guards: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    parts: Part | None = None
    eager: str = ""
    sizes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()


@slotted(frozen=True, repr=False)
class Explanation:
    """All entries of a jitted function; printing it gives a table for people.

    Attributes:
        name: of the function.
        entries: in the order in which they were made.
    """

    name: str
    entries: tuple[Entry, ...]

    def __repr__(self) -> str:
        count = len(self.entries)
        lines = [f"{self.name}: {count} {'entry' if count == 1 else 'entries'}"]
        for number, entry in enumerate(self.entries, 1):
            lines += _listing(number, entry)
        return "\n".join(lines)


def _listing(number: int, entry: Entry) -> list[str]:
    told = ", ".join(f"{name}: {kind}" for name, kind in entry.arguments)
    lines = [f"[{number}] ({told})"]
    if entry.eager:
        return [*lines, f"    runs uncompiled: {entry.eager}"]
    took = "" if entry.seconds is None else f", the first took {entry.seconds:.3f} s"
    lines.append(f"    why:    {entry.reason} ({entry.line})")
    lines.append(f"    calls:  {entry.calls}{took}")
    for title, told_lines in (
        ("reads: ", [", ".join(entry.guards)] if entry.guards else []),
        ("assumes:", list(entry.assumes)),
        ("branch:", list(entry.branches)),
        ("sizes: ", [", ".join(entry.sizes)] if entry.sizes else []),
        ("runs kernel by kernel:", list(entry.kernels)),
    ):
        lines += [f"    {title} {line}" for line in told_lines]
    if entry.parts is not None:
        lines += _tree(entry.parts, "    ")
    return lines


def _tree(part: Part, indent: str) -> list[str]:
    plural = "" if part.operations == 1 else "s"
    lines = [f"{indent}{part.operations} operation{plural} {part.lines}".rstrip()]
    if part.ends is not None:
        lines.append(f"{indent}asks at {part.ends.line}")
        for answer, after in part.ends.answers:
            lines.append(f"{indent}  {answer}:")
            if after is not None:
                lines += _tree(after, indent + "    ")
    return lines


def explain(jitted: Any) -> Explanation:
    """Why each of the programs of a jitted function was made."""
    programs = [p for known in list(jitted.programs.values()) for p in known]
    programs.sort(key=lambda p: p.number)
    entries = [_entry(jitted, program) for program in programs]
    for key, reason in list(jitted.eager.items()):
        entries.append(Entry(_arguments(jitted, key), "", eager=reason))
    return Explanation(name_of(jitted.function), tuple(entries))


def _entry(jitted: Any, program: Program) -> Entry:
    open_ = [] if program.lengths is None else lengths_of(program)  # to its short way
    assumes = [f"{p.line}: {_shown(p.answer)}" for p in program.predicates if p not in open_]
    assumes += [f"{p.line}: {_open(program, p)}, {len(program.lengths)} so far" for p in open_]
    return Entry(
        _arguments(jitted, program.key),
        program.reason,
        program.line,
        program.calls + program.tally[0],
        program.seconds,
        tuple(program.guards.names()),
        tuple(dict.fromkeys(assumes)),
        tuple(program.history),
        None if program.root is None else _part(program.root),
        sizes=tuple(dict.fromkeys(_sizes(jitted, program))),
        kernels=tuple(dict.fromkeys(_kernels(program))),
    )


def _open(program: Program, length: Any) -> str:
    """What is not assumed of a length."""
    return "any size" if is_of_sizes(program, length.host) else "a slice of any length"


def _kernels(program: Program) -> Iterator[str]:
    """Why executables of a program could not be compiled."""
    segments = [] if program.root is None else [program.root]
    graphs = list(program.graphs)
    for segment in segments:
        graphs.append(segment.graph)
        if segment.question is not None:
            segments += [b.follows for b in segment.question.branches.values() if b.follows]
    for graph in graphs:
        for key, executable in graph.cache.items():
            if key[0] == "executable" and getattr(executable, "why", ""):
                yield executable.why


def _sizes(jitted: Any, program: Program) -> Iterator[str]:
    """The axes of what a program reads whose sizes its code does not fix."""
    leaves = [p for p, kind in zip(_arguments(jitted, program.key), program.key[2:])
              if isinstance(kind, tuple) and len(kind) == 4]  # fmt: skip
    for graph in program.graphs:
        for key, executable in graph.cache.items():
            if key[0] != "executable":
                continue
            for (i, axis), name in getattr(executable, "axes", {}).items():
                value = graph.inputs[i]
                source = program.sources.get(value)
                if type(source) is Argument:
                    told = leaves[source.number][0]
                elif source is not None and (named := getattr(source, "name", "")):
                    told = named
                else:
                    continue
                yield f"{told} axis {axis}: {name} = {value.spec.shape[axis]}"


def _part(segment: Segment) -> Part:
    lines = list(dict.fromkeys(node.line for node in segment.nodes if node.line))
    told = "" if not lines else lines[0] if len(lines) == 1 else f"{lines[0]} .. {lines[-1]}"
    question = segment.question
    if question is None:
        return Part(len(segment.nodes), told)
    answers = [
        (shown_answer(answer), None if b.follows is None else _part(b.follows))
        for answer, b in question.branches.items()
    ]
    return Part(len(segment.nodes), told, Branch(question.line, tuple(answers)))


def shown_answer(answer: Any) -> str:
    """The answer to a question, for people: a value, or the shapes of tensors."""
    if type(answer) is Told:
        return answer.text
    if len(answer) == 3 and isinstance(answer[2], bytes):
        shape, dtype, data = answer
        return _shown(np.frombuffer(data, dtype).reshape(shape).tolist())
    return ", ".join(f"shape {shape}" for shape, _ in answer)


def _shown(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else f"{text[:57]}..."


# arguments --------------------------------------------------------------------------------------


def _arguments(jitted: Any, key: Any) -> tuple[tuple[str, str], ...]:
    """The leaves of the arguments of a key, by name, and what each is."""
    treedef, static = key[0], key[1]
    names = _parameters(jitted.function)
    kinds = key[2 : 2 + treedef.num_leaves]
    found = [(_path(p, names), _kind(kind)) for p, kind in zip(treedef.paths(), kinds)]
    for which, _, value in static:
        name = which if isinstance(which, str) else _parameter(names, which)
        found.append((name, f"static {_shown(value)}"))
    return tuple(found)


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _parameter(names: list[str], i: int) -> str:
    return names[i] if i < len(names) else f"args[{i}]"


def _path(path: tuple[Any, ...], names: list[str]) -> str:
    kind, which, *rest = path
    head = _parameter(names, which) if kind == 0 else str(which)
    return head + "".join(f"[{step!r}]" if not isinstance(step, str) else f".{step}" if (
        step.isidentifier()) else f"[{step!r}]" for step in rest)  # fmt: skip


def _kind(kind: Any) -> str:
    if isinstance(kind, type):
        return kind.__name__
    if isinstance(kind, tuple) and len(kind) == 4:
        shape, dtype, device, needs = kind
        if isinstance(needs, tuple):  # a gradient, and whose
            needs = needs[0]
        history = "" if not needs else " that requires grad" if needs > 0 else " that was computed"
        return f"{TensorSpec(shape, dtype, device)!r}{history}"
    if isinstance(kind, tuple):
        return _shown(kind[1])
    held = kind.held()
    return f"a {type(held).__name__}" if held is not None else "an object that is gone"


_LATEST = 8  # programs that a new one is compared with


# reasons ----------------------------------------------------------------------------------------


def reason_of(jitted: Any, last: Program | None, signature: Any) -> str:
    """Why a program is made for a call, ``last`` being the newest for arguments of its kind."""
    if last is not None:
        return _same_kind(jitted, last, signature)
    others = [p for known in jitted.programs.values() for p in known]
    if not others:
        return "first call"
    others = sorted(others, key=lambda p: -p.number)[:_LATEST]
    differences = [_differences(jitted, p.key, signature.key) for p in others]
    return "; ".join(min(differences, key=len))


def _same_kind(jitted: Any, last: Program, signature: Any) -> str:
    changed = last.guards.why(jitted.function, signature.objects)
    if changed:
        return str(changed)
    for owner, had in last.gathered:
        held = jitted.owner(owner, signature)
        if held is not None and (held.grad is not None) != had:
            name = getattr(held, "name", "") or "an argument"
            return f"the gradient of {name} was {'there' if had else 'None'} before, and is not now"
    values: dict[int, Any] = {}
    for predicate in last.predicates:
        if last.table.is_drawn(predicate.host.place):
            continue
        numbers = [number_of(signature, o, k) for o, k, _ in last.numbers]
        if not predicate.holds(numbers, values):
            now = predicate.answer_for(numbers, values)
            return (
                f"at {predicate.line} Python asked about a number: {_shown(predicate.answer)} "
                f"before, {_shown(now)} now"
            )
    for owner, key, kind in last.numbers:
        now = number_of(signature, owner, key)
        if type(now) is not kind:
            return f"the number {key!r} was a {kind.__name__} before, and is {_shown(now)} now"
    if last.table.draws:
        return "what it draws takes another branch"
    if last.lies and not jitted.lie_so(last, signature):
        told = [str(tuple(map(str, where[1]))) for where in last.lies.values() if where is not None]
        return f"the parts of its tensors lay otherwise before: {', '.join(told) or 'on no mesh'}"
    if not jitted.laid_so(last, signature):
        return "a tensor lies in memory otherwise than before, which it asks for"
    return "a tensor that it reads has another shape, dtype or device"


def _differences(jitted: Any, old: Any, new: Any) -> list[str]:
    if old[0] != new[0]:
        return ["arguments of another structure"]
    found = []
    for (name, before), (_, now) in zip(_arguments(jitted, old), _arguments(jitted, new)):
        if before != now:
            word = "" if now.startswith("static") else "argument "
            found.append(f"{word}{name}: {before} -> {now.removeprefix('static ')}")
    for name, before, now in zip(_SETTINGS, *[key[-len(_SETTINGS) :] for key in (old, new)]):
        if before != now:
            found.append(f"{name}: {before} -> {now}")
    return found or ["another object of the same type"]
