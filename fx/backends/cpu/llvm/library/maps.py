"""Elementwise functions of several steps on dense arrays: a task is a block of elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.gemm import vectors as v
from fx.backends.cpu.llvm.library.blocks import Rows
from fx.backends.cpu.llvm.vecmath import error, exponential
from fx.backends.cpu.llvm.vecmath.algebra import Num

_CUBIC = 0.044715


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add a kernel."""
    inputs, function = KERNELS[name]
    Rows(module, dtype, name, "a" * (inputs + 1) + "i", _over_blocks(inputs, function))


def _over_blocks(inputs: int, function: Any) -> Any:
    def task(r: Rows, task: ir.Value, *words: ir.Value) -> None:
        b = r.b
        *arrays, n = words
        first = b.mul(task, v.const(limits.FUSED_BLOCK))
        *sources, out = [v.at(b, a, first, r.kind) for a in arrays]
        count = v.smaller(b, b.sub(n, first), v.const(limits.FUSED_BLOCK))

        def body(i: ir.Value, mask: Any) -> None:
            r.store(function(r, *[r.load(a, i, mask) for a in sources]), out, i, mask)

        r.each(count, body)

    return task


def _phi(r: Rows, x: Num) -> Num:
    """The normal distribution function."""
    return (r.call("erf", error.erf, x * math.sqrt(0.5)) + 1.0) * 0.5


def _gelu(r: Rows, x: Num) -> Num:
    return x * _phi(r, x)


def _gelu_grad(r: Rows, ct: Num, x: Num) -> Num:
    density = r.call("exp", exponential.exp, x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
    return ct * (_phi(r, x) + x * density)


def _bent(r: Rows, x: Num) -> Num:
    inner = (x + x * x * x * _CUBIC) * math.sqrt(2.0 / math.pi)
    return r.call("tanh", exponential.tanh, inner)


def _gelu_tanh(r: Rows, x: Num) -> Num:
    return x * 0.5 * (_bent(r, x) + 1.0)


def _gelu_tanh_grad(r: Rows, ct: Num, x: Num) -> Num:
    t = _bent(r, x)
    slope = (x * x * (3.0 * _CUBIC) + 1.0) * math.sqrt(2.0 / math.pi)
    return ct * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * slope)


def _sigmoid(r: Rows, x: Num) -> Num:
    return r.call("sigmoid", exponential.sigmoid, x)


def _silu(r: Rows, x: Num) -> Num:
    return x * _sigmoid(r, x)


def _silu_grad(r: Rows, ct: Num, x: Num) -> Num:
    s = _sigmoid(r, x)
    return ct * s * (x * (1.0 - s) + 1.0)


def _abs_grad(r: Rows, ct: Num, x: Num) -> Num:
    return (x > 0.0).pick(ct, (x < 0.0).pick(-ct, ct * 0.0))


KERNELS: dict[str, tuple[int, Callable[..., Num]]] = {
    "gelu": (1, _gelu),
    "gelu_grad": (2, _gelu_grad),
    "gelu_tanh": (1, _gelu_tanh),
    "gelu_tanh_grad": (2, _gelu_tanh_grad),
    "sigmoid": (1, _sigmoid),
    "silu": (1, _silu),
    "silu_grad": (2, _silu_grad),
    "abs_grad": (2, _abs_grad),
}
