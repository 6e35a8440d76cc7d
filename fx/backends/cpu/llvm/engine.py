"""Engine: LLVM IR as text to object code for this CPU, and object code to addresses."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import count
from typing import Any

import llvmlite.binding as llvm

_lock = threading.Lock()  # LLVM's global tables are not safe from several threads


def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # kernels may hold inline assembly
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features(), opt=2, jit=True, codemodel="jitdefault"
    )


@cache
def target() -> Any:
    """The target machine of the CPU that runs this."""
    return _machine()


@cache
def features() -> str:
    """The features of this CPU, in LLVM's words."""
    return str(llvm.get_host_cpu_features().flatten())


def triple() -> str:
    """The platform, such as ``x86_64-unknown-linux-gnu``."""
    return str(llvm.get_default_triple())


def data_layout() -> str:
    """How types lie in memory on this platform, in LLVM's words."""
    return str(target().target_data)


def description() -> str:
    """What object code depends on besides its source."""
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{triple()} {llvm.get_host_cpu_name()} {features()} LLVM {version}"


def compile_text(text: str) -> bytes:
    """Object code of a module.

    Raises:
        RuntimeError: if the text is no valid module; nothing is kept of it.
    """
    with _lock:
        machine = target()
        module = llvm.parse_assembly(text)
        module.verify()
        _optimise(module, machine)
        return bytes(machine.emit_object(module))


def _optimise(module: Any, machine: Any) -> None:
    """Kernels come with explicit vectors and loops: what they need is cleaning, not discovery."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.loop_interleaving = False
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def assembly(text: str) -> str:
    """The assembly of a module, for reading."""
    with _lock:
        machine = target()
        module = llvm.parse_assembly(text)
        _optimise(module, machine)
        return str(machine.emit_assembly(module))


@cache
def _linker() -> Any:
    linker = llvm.create_lljit_compiler(_machine())
    linker._owned = True  # by the process: its code may run until that ends
    return linker


_numbers = count()


class Loaded:
    """Object code in this process; the code lives as long as this object.

    Args:
        code: object code.
        exports: the functions and globals whose addresses are wanted.
        imports: addresses of what it calls.

    Raises:
        RuntimeError: if the code calls what ``imports`` and the process do not have.
    """

    def __init__(self, code: bytes, exports: Iterable[str], imports: Mapping[str, int]) -> None:
        builder = llvm.JITLibraryBuilder().add_object_img(code)
        for name in exports:
            builder.export_symbol(name)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        builder.add_current_process()
        with _lock:
            self._tracker = builder.link(_linker(), f"fx{next(_numbers)}")

    def address(self, name: str) -> int:
        """Where an export is."""
        return int(self._tracker[name])

    def keep_forever(self) -> None:
        """Never free the code, not even when the process ends: something may still call it."""
        self._tracker.detach()
