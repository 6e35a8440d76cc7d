"""Engine: LLVM IR as text to object code, and object code of this CPU to addresses."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from itertools import count
from queue import SimpleQueue
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from fx import forking
from fx.backends.cpu.llvm.machines import Machine, host, target
from fx.backends.cpu.threads import get_num_threads, started
from fx.errors import CompileError


def _machine(level: int, of: Machine) -> Any:
    if of.triple != host().triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # kernels may hold inline assembly
    return llvm.Target.from_triple(of.triple).create_target_machine(
        cpu=of.cpu, features=of.features, opt=level, jit=True, codemodel="jitdefault"
    )


@cache
def _this_cpu() -> Any:
    return _machine(2, host())


@cache
def _layout(of: Machine) -> str:
    return str(_machine(2, of).target_data)


def head() -> str:
    """What a module of the target begins with: its platform, and how types lie in memory there."""
    of = target()
    return f'target triple = "{of.triple}"\ntarget datalayout = "{_layout(of)}"\n'


def new_module() -> Any:
    """An empty module for the target."""
    import llvmlite.ir as ir  # what is found on disk needs none of it

    module = ir.Module(name="graph")
    module.triple, module.data_layout = target().triple, _layout(target())
    return module


def description() -> str:
    """What object code depends on besides its source."""
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{target()!r} LLVM {version}"


def compile_text(text: str, level: int = 2) -> bytes:
    """Object code of a module, for the target.

    Programs that differ in little have modules in common: those that were asked for last are kept.

    Args:
        text: its IR.
        level: of LLVM's code generation: 2 for kernels; 0 for what only calls them, which takes a
            quarter of the time.

    Raises:
        CompileError: if the text is no valid module; nothing is kept of it.
    """
    of = target()
    name = sha256(f"{level} {of!r}\n{text}".encode()).digest()
    found = _latest.get(name)
    if found is None:
        found = _latest[name] = _compiled(text, level, of)
    with suppress(KeyError):  # another thread forgot them
        _latest.move_to_end(name)
        if len(_latest) > _KEPT:
            _latest.popitem(last=False)
    return found


_KEPT = 4096  # modules, of some 2 KB of object code each
_latest: OrderedDict[bytes, bytes] = OrderedDict()


def forget() -> None:
    """Forget the modules that were compiled."""
    _latest.clear()


def _compiled(text: str, level: int, of: Machine) -> bytes:
    context = llvm.create_context()
    try:
        with _parsed(text, context) as module:
            tools = _tools(level, of)
            try:
                tools.optimise(module)
                return _emit(module, tools.machine)
            finally:
                _idle[level, str(of)].append(tools)
    except RuntimeError as error:
        raise CompileError(f"LLVM refuses what a kernel became: {error}") from None
    finally:
        context.close()


# llvmlite lets one thread at a time into LLVM. These three take nearly all the time and work on a
# context of their own, so they go past that lock where llvmlite shows the function behind it.


forking.around(ffi.lib._lock._lock.acquire, ffi.lib._lock._lock.release)


def _unlocked(name: str) -> Any:
    found = getattr(ffi.lib, name)
    return getattr(found, "_cfn", found)


@contextmanager
def _parsed(text: str, context: Any) -> Iterator[Any]:
    """The module of a text, closed at the end: one that outlives its context ends the process.

    That holds for one that LLVM refuses, too, which the error's traceback would keep.
    """
    module = llvm.parse_assembly(text, context)
    try:
        module.verify()
        yield module
    finally:
        module.close()


class _Tools:
    """A target machine and the passes: for one module at a time, and then for the next.

    Passes and their builder leave 5 KB behind when they go.
    """

    def __init__(self, level: int, of: Machine) -> None:
        self.machine = _machine(level, of)
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        self._builder = llvm.create_pass_builder(self.machine, options)
        passes = self._passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_new_gvn_pass()
        passes.add_dead_store_elimination_pass()

    def optimise(self, module: Any) -> None:
        """Kernels come with explicit vectors and loops: what they need is cleaning, not discovery.

        The whole pipeline of level 2 gives the same speed for twice the time.
        """
        run = _unlocked("LLVMPY_RunNewModulePassManager")
        forking.in_llvm(run, self._passes, module, self._builder)


_idle: defaultdict[tuple[int, str], list[_Tools]] = defaultdict(list)


def _tools(level: int, of: Machine) -> _Tools:
    """Tools that no thread uses."""
    try:
        return _idle[level, str(of)].pop()
    except IndexError:
        return _Tools(level, of)


def _emit(module: Any, machine: Any) -> bytes:
    with ffi.OutputString() as error:
        emit = _unlocked("LLVMPY_TargetMachineEmitToMemory")
        emitted = forking.in_llvm(emit, machine, module, 1, error)
        if not emitted:
            raise RuntimeError(str(error))
    start = ffi.lib.LLVMPY_GetBufferStart(emitted)
    size = ffi.lib.LLVMPY_GetBufferSize(emitted)
    try:
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(emitted)


class Workshop:
    """Compiles modules on several threads while the caller is still writing the next ones."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[int, str, int] | None] = SimpleQueue()
        self._objects: dict[int, bytes] = {}
        self._workers: list[threading.Thread] = []
        self._count = 0
        self._most = get_num_threads()
        self._error: BaseException | None = None

    def add(self, text: str, level: int) -> None:
        """Start to compile a module."""
        self._queue.put((self._count, text, level))
        self._count += 1
        if len(self._workers) < min(self._most, self._count):
            worker = threading.Thread(target=self._work, name="fx-compiler", daemon=True)
            if started(worker):
                self._workers.append(worker)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            number, text, level = job
            try:
                if self._error is None:
                    self._objects[number] = compile_text(text, level)
            except BaseException as error:
                self._error = error

    def objects(self) -> list[bytes]:
        """The object code of all modules, in order.

        Raises:
            CompileError: if one is not valid.
        """
        if not self._workers:  # no thread could be started
            self._queue.put(None)
            self._work()
        self.close()
        if self._error is not None:
            raise self._error
        return [self._objects[i] for i in range(self._count)]

    def close(self) -> None:
        """Wait for the modules that are being compiled."""
        for _ in self._workers:
            self._queue.put(None)
        for worker in self._workers:
            worker.join()
        self._workers = []


def in_process(name: str) -> bool:
    """Whether a C function of that name is loaded."""
    return hasattr(ctypes.CDLL(None), name)


def assembly(text: str) -> str:
    """The assembly of a module for the target, for reading."""
    tools = _Tools(2, target())
    with _parsed(text, None) as module:
        tools.optimise(module)
        return str(tools.machine.emit_assembly(module))


class _Linker:
    """An instance of LLJIT that links some libraries and goes with the last of them.

    LLJIT keeps 10 to 20 KB for every library that it has dropped, until it goes itself; one for
    each library would take 2 ms and 100 KB. No lock: a library may be dropped by the garbage
    collector at any moment, in any thread, also where the lock is held.
    """

    def __init__(self, libraries: int) -> None:
        self.jit = llvm.create_lljit_compiler(_this_cpu())
        self.jit._owned = True  # by the process: its code may run until that ends
        self.room = [None] * libraries  # for those that are still to be linked
        self.left = [None] * libraries  # that have not been dropped
        _linkers.add(self)

    def dropped(self) -> None:
        """A library of it is gone."""
        self.left.pop()
        if not self.left:
            try:
                _linkers.remove(self)
            except KeyError:  # another thread was as late
                return
            self.jit._owned = False
            self.jit.close()


_LIBRARIES = 8  # of an instance of LLJIT
_linkers: set[_Linker] = set()  # so that the garbage collector finalizes none before its libraries
_open: _Linker | None = None


def _linker() -> _Linker:
    """One that takes a library more."""
    global _open
    while True:
        try:
            if _open is not None:
                _open.room.pop()
                return _open
        except IndexError:
            pass
        _open = _Linker(_LIBRARIES)


@cache
def _lasting() -> Any:
    """The instance of LLJIT for what is never dropped."""
    linker = llvm.create_lljit_compiler(_this_cpu())
    linker._owned = True
    return linker


_numbers = count()


class Loaded:
    """Object code in this process; the code lives as long as this object.

    Args:
        code: object files, which may call each other.
        exports: the functions and globals whose addresses are wanted.
        imports: addresses of what it calls.
        lasting: never free the code, not even when the process ends: something may still call it.

    Raises:
        RuntimeError: if the code calls what ``imports`` and the process do not have.
    """

    _tracker: Any = None

    def __init__(
        self,
        code: Sequence[bytes],
        exports: Iterable[str],
        imports: Mapping[str, int],
        lasting: bool = False,
    ) -> None:
        builder = llvm.JITLibraryBuilder()
        for file in code:
            builder.add_object_img(file)
        for name in exports:
            builder.export_symbol(name)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        builder.add_current_process()
        name = f"fx{next(_numbers)}"
        if lasting:
            self._tracker = builder.link(_lasting(), name)
            self._tracker.detach()
            return
        linker = _linker()
        try:
            tracker = builder.link(linker.jit, name)
        except BaseException:
            linker.dropped()
            raise
        self._linker, self._tracker = linker, tracker

    def address(self, name: str) -> int:
        """Where an export is."""
        return int(self._tracker[name])

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._tracker is not None and not self._tracker.closed and not ends():
            self._tracker.close()
            self._linker.dropped()
