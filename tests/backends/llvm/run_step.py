"""Compiles one Step with MCJIT and runs it on NumPy arrays: what tests of kernels stand on."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir

from fx.backends.cpu.llvm import engine, guarded
from fx.backends.cpu.llvm.machines import host


@cache
def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2, codemodel="jitdefault", jit=True
    )


class Compiled:
    """A module in executable memory; ``address(name)`` gives its functions.

    Args:
        module: an ``llvmlite.ir.Module``.
        optimise: 2 for the passes of the engine, 3 for those of LLVM's level 3, 0 for none.
    """

    def __init__(self, module: Any, optimise: int = 2) -> None:
        machine = _machine()
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        self.text = str(module)
        parsed = llvm.parse_assembly(self.text)
        parsed.verify()
        if optimise == 2:
            engine._Tools(2, host()).optimise(parsed)
        elif optimise:
            options = llvm.create_pipeline_tuning_options(speed_level=optimise)
            options.loop_vectorization = False
            options.slp_vectorization = False
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(parsed, builder)
        _resolve(module)
        self.optimised = str(parsed)
        self._parsed = parsed
        fresh = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            opt=2,
            jit=True,
        )
        self._engine = llvm.create_mcjit_compiler(parsed, fresh)
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function or a global lies."""
        return self._engine.get_function_address(name)

    def assembly(self) -> str:
        """The machine code, as text."""
        return _machine().emit_assembly(self._parsed)


def _resolve(module: Any) -> None:
    """Tell MCJIT the addresses of the external functions that the module declares."""
    try:
        from fx.backends.cpu.llvm import externals
    except ImportError:
        return
    for function in module.functions:
        if not function.blocks and not function.name.startswith("llvm."):
            address = externals.address(function.name)
            if address:
                llvm.add_symbol(function.name, address)


def compile_step(step: Any, optimise: int = 2) -> Callable[..., list[np.ndarray]]:
    """``run(*arrays, pieces=1) -> writes`` for a step; ``run.compiled`` is its ``Compiled``.

    ``run`` gives the kernel its tasks in ``pieces`` ranges. What it writes to starts as garbage,
    or with ``inplace`` as what it reads, where the step says that it may.
    """
    module = ir.Module("test")
    step.emit(module, "kernel")
    compiled = Compiled(module, optimise)
    count = len(step.reads) + len(step.writes)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * (count + 1))
    kernel = kind(compiled.address("kernel"))

    def run(*arrays: np.ndarray, pieces: int = 1, inplace: bool = False) -> list[np.ndarray]:
        reads = [_dense(a, v.spec) for a, v in zip(arrays, step.reads, strict=True)]
        writes = [_garbage(v.spec) for v in step.writes]
        if inplace:
            # of each read one write, and of each write one read, as a plan chooses them
            by_read = {into: out for out, into in reversed(step.inplace)}
            for out, into in {out: into for into, out in by_read.items()}.items():
                if step.reads[into].spec.nbytes != step.writes[out].spec.nbytes:
                    continue  # neither would a plan
                reads[into] = reads[into].copy()
                flat = reads[into].reshape(-1)
                writes[out] = flat.view(writes[out].dtype).reshape(writes[out].shape)
        scratch = _garbage_bytes(step.scratch)
        pointers = [a.ctypes.data for a in (*reads, *writes)]
        bounds = [step.tasks * i // pieces for i in range(pieces + 1)]
        for begin, end in itertools.pairwise(bounds):
            kernel(begin, end, scratch.ctypes.data if step.scratch else None, *pointers)
        return writes

    run.compiled = compiled  # type: ignore[attr-defined]
    return run


def run_step(step: Any, *arrays: np.ndarray, pieces: int = 1, optimise: int = 2) -> list[Any]:
    """The arrays that a step writes, given those that it reads."""
    return compile_step(step, optimise)(*arrays, pieces=pieces)


def node_of(primitive: Any, arrays: Sequence[np.ndarray], **params: Any) -> Any:
    """A graph node of a primitive (or of the primitive of that name) for arguments like these."""
    from fx.graph.ir import Node, input_value
    from fx.primitive import registry
    from fx.spec import TensorSpec

    if isinstance(primitive, str):
        primitive = registry[primitive]
    inputs = [input_value(TensorSpec(a.shape, a.dtype)) for a in arrays]
    return Node(primitive, inputs, params)


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised array that starts on 64 bytes, or lies beside a guard."""
    dtype = np.dtype(dtype)
    if guarded.side():
        return np.empty(shape, dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def _dense(a: np.ndarray, spec: Any) -> np.ndarray:
    assert a.dtype == spec.dtype and a.shape == spec.shape, (a.dtype, a.shape, spec)
    out = aligned(a.shape, a.dtype)
    out[...] = a
    return out


def _garbage(spec: Any) -> np.ndarray:
    out = aligned(spec.shape, spec.dtype)
    out.reshape(-1).view(np.uint8)[...] = 0xCD
    return out


def _garbage_bytes(size: int) -> np.ndarray:
    out = aligned((size,), np.uint8)
    out[...] = 0xCD
    return out
