"""Matrix products as native kernels: ``matmul`` of floating dtypes, with epilogues.

``product(node, epilogue)`` makes the Steps of a ``matmul`` node, and ``STEPS`` is the table in
which the scheduler looks primitives up. ``epilogue.py`` tells how elementwise work that follows a
product is emitted into it.

``views.py`` reads operands through transposes, reshapes, broadcasts and slices, ``problem.py``
merges axes, ``plan.py`` chooses the blocks, ``micro.py`` and ``pack.py`` emit the inner loops,
``kernel.py`` puts them together on what ``frame.py`` has, and ``skinny.py`` has products of few
rows, which are bound by memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.backends.cpu.llvm.gemm.epilogue import Epilogue, Place
from fx.backends.cpu.llvm.gemm.step import KernelStep, product

__all__ = ["STEPS", "Epilogue", "KernelStep", "Place", "product"]

STEPS: dict[str, Callable[[Any], Any]] = {"matmul": product}
