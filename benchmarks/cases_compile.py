"""What compiling costs: the first result of a fresh process, memory, and graphs of many nodes."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from unittest.mock import patch

from benchmarks.first_result import in_a_process
from benchmarks.harness import Case, Sample


def _fresh(column: int, warm: bool = False) -> dict[str, Callable[[], Sample]]:
    def sample(library: str) -> Callable[[], Sample]:
        def setup() -> Sample:
            import_module({"compile": "torch"}.get(library, library))  # skipped where it is missing
            return in_a_process(library, column, warm and library == "fx")

        return setup

    return {name: sample(name) for name in ("fx", "torch", "jax")}


def _chain(count: int) -> Callable[[], Sample]:
    """Compile a chain of ``count`` different operations that nothing remembers."""

    def setup() -> Sample:
        fx = import_module("fx")
        driver = import_module("fx.backends.cpu.llvm.driver")

        def sample() -> float:
            def chain(x):
                for i in range(count // 2):
                    x = fx.sin(x) * (1.0 + i)
                return x

            driver.forget()
            with patch.dict(os.environ, FX_CACHE="0"):
                start = perf_counter()
                fx.jit(chain)(fx.ones(8))
                return perf_counter() - start

        return sample

    return setup


CASES = [
    Case("first_cold", "2-block transformer step: import to first result",
         samples=_fresh(0), table="jit"),
    Case("first_warm", "the same with its code on disk",
         samples=_fresh(0, warm=True), table="jit"),
    Case("peak_memory", "the same: growth of the process, MiB", samples=_fresh(1), table="jit",
         unit="MiB"),
    Case("nodes_2k", "compile a graph of 2,000 nodes, per node",
         samples={"fx": _chain(2_000)}, per=2_000, table="jit"),
    Case("nodes_20k", "compile a graph of 20,000 nodes, per node",
         samples={"fx": _chain(20_000)}, per=20_000, table="jit"),
]  # fmt: skip
