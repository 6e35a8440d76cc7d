"""Programs that functions of the same code share: a lambda in a loop is staged once.

They are kept by code object, as long as that lives, and hold neither closures nor models: what a
program is about is found through the function that is called, or referred to weakly. One that holds
more is not shared.
"""

from __future__ import annotations

from dataclasses import replace
from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from fx import limits
from fx.transforms.jitting.guards.reads import origin
from fx.transforms.jitting.program import Argument, Captured, Counted, Held, Program
from fx.transforms.jitting.writes import shown

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_store: WeakKeyDictionary[CodeType, dict[Any, list[Program]]] = WeakKeyDictionary()


def _code_of(function: Any) -> CodeType | None:
    f = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(f, FunctionType) and origin(f.__code__.co_filename) == "user":
        return f.__code__
    return None


def _key(jitted: Any, key: Any) -> Any:
    kinds = (
        jitted.static_argnums, jitted.static_argnames, jitted.donate_argnums, jitted.sizes_vary
    )  # fmt: skip
    return type(jitted.function), *kinds, key


def publish(jitted: Any, program: Program) -> None:
    """Let other functions of the same code use a program, if it holds nothing of this one."""
    code = _code_of(jitted.function)
    if code is None or not program.guards.free or not _is_free(program):
        return
    known = _store.setdefault(code, {})
    mine = known.setdefault(_key(jitted, program.key), [])
    mine[:] = [p for p in mine if not p.guards.death.dead]
    mine.append(_copy(program))
    while sum(map(len, known.values())) > limits.SHARED_PROGRAMS:
        oldest = next(iter(known))
        known[oldest].pop(0)
        if not known[oldest]:
            del known[oldest]


def adopt(jitted: Any, signature: Any) -> Program | None:
    """A copy of a program of another function of the same code that serves a call."""
    code = _code_of(jitted.function)
    known = None if code is None else _store.get(code)
    if not known:
        return None
    for program in known.get(_key(jitted, signature.key), ()):
        rebinds = program.root.finish.rebinds  # type: ignore[union-attr]
        written = [cell() for cell in program.written]
        ids = {*map(id, written)}
        if any(shown(cell(), signature, id(cell()) in ids) for cell, _ in rebinds):
            continue  # an argument shows what it holds
        if not program.guards.death.dead and jitted._serves(program, signature):
            jitted.rebinds |= bool(rebinds)
            jitted.writes.knows(cell() for cell, _ in rebinds)
            jitted.writes.written.update(zip(map(id, written), program.written))
            return _copy(program)
    return None


def forget(jitted: Any) -> None:
    """Drop what functions of the code of this one share."""
    code = _code_of(jitted.function)
    if code is not None:
        _store.pop(code, None)


def _copy(program: Program) -> Program:
    return replace(
        program, plan=None, calls=0, tally=[0], history=[], seconds=None, graphs=[],
        sources=dict(program.sources), numbers=list(program.numbers),
        predicates=list(program.predicates), gathered=list(program.gathered),
        layouts=dict(program.layouts),
        lies=dict(program.lies),
    )  # fmt: skip


def _is_free(program: Program) -> bool:
    """Whether a program keeps nothing alive and is complete, so that it never grows."""
    segment = program.root
    if segment is None or segment.finish is None or segment.effects or program.outward:
        return False
    if program.random or program.table.draws:
        return False
    finish = segment.finish
    if finish.numbers or any(type(owner) is not str for owner, _, _ in program.numbers):
        return False
    if any(leaf.value is None and not isinstance(leaf.held, _PLAIN) for leaf in finish.leaves):
        return False
    for value, source in program.sources.items():
        kind = type(source)
        if kind is Captured and not hasattr(source.find, "key"):
            return False
        if kind not in (Argument, Captured, Counted, Held) and value in segment.needs:
            return False
    return all(
        v.constant is None or v.constant.size <= limits.SHARED_CONSTANT
        for node in segment.nodes
        for v in node.inputs
    )
