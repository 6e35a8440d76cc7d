"""Executable: a compiled graph as a callable on lists of arrays.

It is made from a ``Recipe``, which is plain data, and object code, so that a compiled graph from
the disk cache and one that was compiled now go the same way.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fx.backends.cpu.llvm import engine, failures, guarded, python_api
from fx.backends.cpu.llvm.entry import graph
from fx.backends.cpu.llvm.parts import Part
from fx.backends.cpu.llvm.recipe import Recipe
from fx.compiler.memory import ALIGN
from fx.dtypes import as_dtype

SEPARATOR = "\n; ==== next module ====\n"
Run = Callable[[list[Any]], list[Any]]


class Program:
    """Code in this process and how to call it: what executables of equal graphs share.

    Args:
        recipe: all that is known besides the code.
        code: object files; none for a graph without native steps.
        listing: the IR of their modules, compressed.
    """

    __slots__ = ("__weakref__", "_listing", "loaded", "recipe")

    def __init__(self, recipe: Recipe, code: Sequence[bytes], listing: bytes) -> None:
        self.recipe = recipe
        self.loaded = _load(recipe, code) if code else None
        self._listing = listing

    def with_recipe(self, recipe: Recipe) -> Program:
        """The same code, called in another way."""
        found = object.__new__(Program)
        found.recipe, found.loaded, found._listing = recipe, self.loaded, self._listing
        return found

    def text(self, asm: bool) -> str:
        """The IR, or the assembly."""
        text = zlib.decompress(self._listing).decode()
        return SEPARATOR.join(map(engine.assembly, text.split(SEPARATOR))) if asm else text


class Executable:
    """A compiled graph.

    Attributes:
        run: ``run(arrays) -> arrays``: the inputs in a list, the outputs in a new list. Results are
            arrays of their own, except those in ``reuse``; an output that is an input or a
            constant is that array. Arrays that are not dense are copied first. May be called from
            several threads at once.
        reuse: output position to the position of the donated input whose array it is.
        native: whether ``run`` is one native call, in which no Python runs.
        schedule: the steps, as text.
        memory: the memory plan, as text.
        axes: ``(input, axis)`` of sizes that the code is told when it runs, and their names.
        others: where code for any size runs, what gives the executable of the same function with
            slices of other lengths and inputs of other shapes (``families.Others``); or None.
    """

    def __init__(
        self,
        program: Program,
        constants: Sequence[np.ndarray],
        python: Sequence[Callable[..., Any]],
    ) -> None:
        recipe = program.recipe
        self._program = program
        self.axes: dict[tuple[int, int], str] = {}
        self.others: Any = None
        self.reuse = recipe.reuse
        self.schedule = recipe.schedule
        self.memory = recipe.memory
        arena = _Arena(max((s.part.arena for s in recipe.segments if s.part), default=0))
        entries = [
            _entry(s.part, program.loaded, constants, arena) if s.part is not None else None
            for s in recipe.segments
        ]
        first = recipe.segments[0].part if len(entries) == 1 else None
        self.native = first is not None and python_api.DIRECT
        if len(entries) == 1 and entries[0] is not None:
            self.run: Run = entries[0]
        else:
            self.run = _orchestra(recipe, entries, constants, python)
        if guarded.side():
            self.run, self.native = arena.poisoned(self.run), False

    def code(self, asm: bool = False) -> str:
        """The LLVM IR of all kernels and the entry; its assembly with ``asm=True``."""
        return self._program.text(asm)

    def __repr__(self) -> str:
        recipe = self._program.recipe
        return f"<executable {recipe.name}: {len(recipe.segments)} segments>"


class _Arena:
    """The memory for values in between, which all parts of an executable share in turn.

    Attributes:
        box: whether a call is using it, and where it is; native code takes it and gives it back.
            A call that finds it in use allocates its own.
    """

    def __init__(self, size: int) -> None:
        # a guarded block lies on a page's border, where so many bytes are on cache lines anyway
        self._memory = np.empty(size if guarded.side() else size + ALIGN, np.uint8)
        start = self._memory.ctypes.data
        self.box = np.array([0, -(-start // ALIGN) * ALIGN], np.uint64)

    def poisoned(self, run: Run) -> Run:
        """``run``, before which nothing in the arena is a number."""

        def fresh(arrays: list[Any]) -> list[Any]:
            if not self.box[0]:
                self._memory.fill(255)
            return run(arrays)

        return fresh


def _load(recipe: Recipe, code: Sequence[bytes]) -> engine.Loaded:
    names = [s.part.name for s in recipe.segments if s.part is not None]
    return link(code, [f"{name}_body" for name in names], recipe.externals, recipe.parallel)


def link(
    code: Sequence[bytes], exports: Sequence[str], names: Sequence[str], parallel: bool
) -> engine.Loaded:
    """Object code in this process, with all that it may call.

    Args:
        code: object files.
        exports: the functions whose addresses are wanted.
        names: the functions of ``externals`` that it calls.
        parallel: whether it calls the pool of threads.

    Raises:
        RuntimeError: if it calls what this process does not have.
    """
    symbols: dict[str, int] = {}
    if parallel:
        from fx.backends.cpu.llvm import parallel as pool

        symbols["fx_parallel"] = pool.address()
    if names:
        from fx.backends.cpu.llvm import externals

        for name in names:
            found = externals.address(name)
            if not found and name.startswith("fx."):
                _know_externals()
                found = externals.address(name)
            if found:
                symbols[name] = found
            elif not engine.in_process(name):
                raise RuntimeError(f"compiled code calls {name}, which this process does not have")
    return engine.Loaded(code, exports, symbols)


def _know_externals() -> None:
    """Import what registers external functions: the tables of the schedule."""
    from fx.backends.cpu.llvm.this_cpu import this_cpu

    this_cpu()


def _entry(part: Part, loaded: Any, constants: Sequence[np.ndarray], arena: _Arena) -> Run:
    """The function of a native part: a builtin where CPython's layout is known."""
    used = [_dense(constants[i]) for i in part.constants]
    body = loaded.address(f"{part.name}_body")
    if python_api.DIRECT:
        return graph.builtin(part, body, used, arena.box, (loaded, arena))
    kind = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p)
    return _through_ctypes(part, kind(body), used, loaded)


def _dense(array: np.ndarray) -> np.ndarray:
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else array.copy("C")


def _through_ctypes(
    part: Part, body: Callable[[Any, Any], bool], used: list[Any], keep: Any
) -> Run:
    """The same in Python, for interpreters whose objects lie elsewhere in memory."""
    written = set(part.written)
    results = [(as_dtype(name), tuple(shape)) for name, shape in part.results]

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        if not isinstance(arrays, list) or len(arrays) != part.inputs:
            raise TypeError(
                f"a compiled graph of {part.inputs} inputs takes a list of {part.inputs} arrays"
            )
        dense = []
        for i, array in enumerate(arrays):
            flags = array.flags
            fits = flags.c_contiguous and flags.aligned and (i not in written or flags.writeable)
            dense.append(array if fits else array.copy("C"))
        made = [np.empty(shape, dtype) for dtype, shape in results]
        arena = np.empty(part.arena + ALIGN, np.uint8)
        table = [a.ctypes.data for a in (*dense, *used, *made)]
        table.append(-(-arena.ctypes.data // ALIGN) * ALIGN)
        failure = (ctypes.c_int64 * 3)()
        if body((ctypes.c_void_p * len(table))(*table), failure):
            words = ctypes.string_at(failure[0]).decode()
            raise failures.failed(failure[2], words, failure[1])
        found = {"input": dense, "constant": used, "result": made}
        out = []
        for kind, index, view in part.outputs:
            array = found[kind][index]
            out.append(array if view is None else array.reshape(tuple(view[1])))
        return out

    run.keep = keep  # type: ignore[attr-defined]
    return run


def _orchestra(
    recipe: Recipe,
    entries: Sequence[Run | None],
    constants: Sequence[np.ndarray],
    python: Sequence[Callable[..., Any]],
) -> Run:
    """Native parts and Python steps in order; values in between are arrays in slots."""
    count, slots = recipe.inputs, recipe.slots
    fixed = list(constants)
    rest = [None] * (slots - count - len(fixed))
    functions = iter(python)
    plan = []
    for segment, native in zip(recipe.segments, entries):
        faces = [None if f is None else tuple(f) for f in segment.faces]
        reads = list(zip(segment.reads, faces))
        call = native if native is not None else next(functions)
        own = frozenset(segment.own)
        plan.append((native is None, call, reads, segment.writes, segment.drop, own))
    outputs = [(slot, None if shape is None else tuple(shape)) for slot, shape in recipe.outputs]

    def run(arrays: list[Any]) -> list[Any]:
        if len(arrays) != count:
            raise TypeError(f"a compiled graph of {count} inputs takes a list of {count} arrays")
        env: list[Any] = [*arrays, *fixed, *rest]
        for in_python, call, reads, writes, drop, own in plan:
            args = [env[i] if face is None else env[i].reshape(face) for i, face in reads]
            if in_python:
                found = call(*args)
                for slot, array in zip(writes, found):
                    array = np.asarray(array)
                    if (own and array.base is not None) or any(array is a for a in args):
                        array = _apart(array, [env[i] for i, _ in reads if i in own])
                    env[slot] = array
                found = array = None
            else:
                for slot, array in zip(writes, call(args)):
                    env[slot] = array
            for i in drop:
                env[i] = None
        return [env[i] if shape is None else env[i].reshape(shape) for i, shape in outputs]

    return run


def _apart(array: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """The array, or a copy where it may share memory that a later step writes into."""
    return array.copy() if any(np.may_share_memory(array, x) for x in others) else array
