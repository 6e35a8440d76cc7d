"""Runs the steps of a convolution or pooling node on NumPy arrays, and draws cases of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.backends.cpu.llvm.conv import STEPS
from fx.prims import convolution, pooling
from tests.backends.llvm.run_step import compile_step, node_of


class Steps:
    """The compiled steps of one node; call them with arrays."""

    def __init__(self, name: str, arrays: tuple[np.ndarray, ...], **params: Any) -> None:
        primitive = getattr(convolution, name, None) or getattr(pooling, name)
        self.node = node_of(primitive, arrays, **params)
        self.steps = STEPS[name](self.node)
        assert self.steps is not None
        self.kernels = [compile_step(s, optimise=1) for s in self.steps]

    def __call__(self, *arrays: np.ndarray, pieces: int = 1) -> Any:
        held = dict(zip(self.node.inputs, arrays))
        for step, kernel in zip(self.steps, self.kernels):
            found = kernel(*[held[v] for v in step.reads], pieces=pieces)
            held.update(zip(step.writes, found))
        out = [held[v] for v in self.node.outs]
        return out[0] if len(out) == 1 else out


def run(name: str, *arrays: np.ndarray, **params: Any) -> Any:
    """What the steps of a primitive give; any cut into ranges must give the same bits."""
    steps = Steps(name, arrays, **params)
    out = steps(*arrays)
    again = steps(*arrays, pieces=3)
    for a, b in zip(*[o if isinstance(o, list) else [o] for o in (out, again)]):
        np.testing.assert_array_equal(a, b)
    return out


def setting(stride: Any, padding: Any, dilation: Any, **more: Any) -> dict[str, Any]:
    """Parameters of windows; a number as padding is that much on both sides."""
    pairs = tuple([p if isinstance(p, tuple) else (p, p) for p in padding])
    return dict(stride=stride, padding=pairs, dilation=dilation, **more)
