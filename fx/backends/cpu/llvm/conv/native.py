"""Eager calls of the native kernels: a graph of one node, compiled once for each signature.

A signature decides alone whether the native kernel runs, and so the bits of a result never depend
on what was called before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from fx import limits

Run = Callable[[list[Any]], list[Any]]


def run(name: str, arrays: list[np.ndarray], params: dict[str, Any]) -> list[np.ndarray] | None:
    """What a primitive of this package gives for arrays of one dtype; None if it has no kernel."""
    a, b = arrays[0], arrays[-1]
    found = _executable(name, a.dtype.name, a.shape, b.shape, tuple(params.items()))
    return None if found is None else found(arrays)


@lru_cache(maxsize=128)
def _executable(
    name: str, dtype: str, a: tuple[int, ...], b: tuple[int, ...], params: tuple[Any, ...]
) -> Run | None:
    from fx.backends.cpu.llvm.conv import STEPS
    from fx.backends.cpu.llvm.driver import compile_graph
    from fx.dtypes import as_dtype
    from fx.graph.ir import Graph, Node, input_value
    from fx.prims import convolution, pooling
    from fx.spec import TensorSpec

    primitive = getattr(convolution if name.startswith("conv") else pooling, name)
    count = 2 if name.startswith("conv") else 1
    inputs = [input_value(TensorSpec(shape, as_dtype(dtype))) for shape in (a, b)[:count]]
    node = Node(primitive, inputs, dict(params))
    if STEPS[name](node) is None:
        return None
    try:
        return compile_graph(Graph(inputs, [node], node.outs, name)).run
    except RuntimeError:  # no compiler for this platform
        return None


limits.on_change(_executable.cache_clear)
