"""Matrix products as native kernels: ``matmul`` of floating dtypes, with epilogues.

``product(node, epilogue)`` makes the Steps of a ``matmul`` node, and ``STEPS`` is the table that the
scheduler looks primitives up in. ``epilogue.py`` tells how elementwise work that follows a product
is emitted into it. ``views.py`` reads operands through transposes, reshapes, broadcasts and slices;
``plan.py`` chooses the blocks; ``micro.py`` and ``pack.py`` emit the inner loops; ``kernel.py``
puts them together; ``skinny.py`` has products with a single row or column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.backends.cpu.llvm.gemm.epilogue import Epilogue, Place
from fx.backends.cpu.llvm.gemm.step import ProductStep, product

__all__ = ["STEPS", "Epilogue", "Place", "ProductStep", "product"]

STEPS: dict[str, Callable[[Any], Any]] = {"matmul": product}
