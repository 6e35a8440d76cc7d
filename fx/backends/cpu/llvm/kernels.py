"""Kernels: the steps of a graph as LLVM modules, each compiled while the next is being written."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import llvmlite.ir as ir

from fx import limits
from fx.backends.cpu.llvm import engine
from fx.compiler.step import Step


class Kernels:
    """Emits each kernel once, and has them compiled.

    Attributes:
        texts: the IR of the modules so far.
        externals: the functions that kernels call and the graph does not hold.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.externals: set[str] = set()
        self._workshop = engine.Workshop()
        self._names: dict[Hashable, str] = {}
        self._arguments: dict[str, int] = {}
        self._module: Any = None

    def name(self, step: Step) -> str:
        """The name of the step's kernel."""
        name = self._names.get(step.key)
        if name is None:
            if self._module is None:
                self._module = engine.new_module()
            name = f"kernel{len(self._names)}"
            function = step.emit(self._module, name)
            function.linkage = "external"
            self._names[step.key] = name
            self._arguments[name] = len(step.reads) + len(step.writes)
            if _instructions(self._module) > limits.MODULE_INSTRUCTIONS:
                self._finish_module()
        return name

    def _finish_module(self) -> None:
        module, self._module = self._module, None
        if module is None:
            return
        for function in module.functions:
            if function.is_declaration:
                if not function.name.startswith("llvm."):
                    self.externals.add(function.name)
            elif function.name not in self._arguments:
                function.linkage = "internal"  # two modules may both hold it
        for found in module.global_values:
            if isinstance(found, ir.GlobalVariable) and found.initializer is not None:
                found.linkage = "internal"
        self._add(str(module), 2)

    def _add(self, text: str, level: int) -> None:
        self.texts.append(text)
        self._workshop.add(text, level)

    def call_from(self, text: str) -> None:
        """Compile a module that calls kernels of the steps so far."""
        self._finish_module()
        used = dict.fromkeys(re.findall(r"@(kernel\d+)\(", text))
        declared = [
            f"declare void @{name}(i64, i64, ptr{', ptr' * self._arguments[name]})" for name in used
        ]
        self._add("\n".join([engine.head(), *declared, text]), 0)

    def objects(self) -> list[bytes]:
        """The object code of all modules."""
        return self._workshop.objects()

    def close(self) -> None:
        """End what is still being compiled."""
        self._workshop.close()


def _instructions(module: Any) -> int:
    return sum(len(block.instructions) for f in module.functions for block in f.blocks)
