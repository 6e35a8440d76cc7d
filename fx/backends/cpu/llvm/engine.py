"""Engine: LLVM IR as text to object code for this CPU, and object code to addresses."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

import llvmlite.binding as llvm

_lock = threading.Lock()  # LLVM's global tables are not safe from several threads


@cache
def target() -> Any:
    """The target machine of the CPU that runs this."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features(), opt=2, jit=True, codemodel="jitdefault"
    )


@cache
def features() -> str:
    """The features of this CPU, in LLVM's words."""
    return str(llvm.get_host_cpu_features().flatten())


def triple() -> str:
    """The platform, such as ``x86_64-unknown-linux-gnu``."""
    return str(llvm.get_default_triple())


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


class Loaded:
    """Object code in this process; the code lives as long as this object.

    Args:
        code: object code.
        symbols: addresses of what it calls.
    """

    def __init__(self, code: bytes, symbols: Mapping[str, int]) -> None:
        with _lock:
            for name, address in symbols.items():
                llvm.add_symbol(name, address)
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target())
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function is."""
        with _lock:
            return int(self._engine.get_function_address(name))

    def global_at(self, name: str) -> int:
        """Where a global variable is."""
        with _lock:
            return int(self._engine.get_global_value_address(name))

    def keep_forever(self) -> None:
        """Never free the code, not even when the process ends: something may still call it."""
        self._engine.detach()
