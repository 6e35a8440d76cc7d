"""Kernels of formulas along rows and over channels, by the axes that their arrays have.

Each function here takes the formula of the primitive that has its name, and gives the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fx.backends.cpu.formulas import Along, Rows

Kernel = Callable[..., Any]


def _derivative(name: str, formula: Kernel) -> Kernel:
    kernel = Along(name, lambda ct, y: formula(ct, y, axis=1), 2)
    return lambda ct, y, *, axis: kernel(ct, y, axes=(axis,))


def softmax_grad(formula: Kernel) -> Kernel:
    """The cotangent of softmax's argument, from that of its result y."""
    return _derivative("softmax_grad", formula)


def log_softmax_grad(formula: Kernel) -> Kernel:
    """The same for its logarithm."""
    return _derivative("log_softmax_grad", formula)


def variance(formula: Kernel) -> Kernel:
    """Variance and mean along neighbouring axes, which are kept."""
    return Along(
        "variance", lambda x, freedom: formula(x, axes=(1,), freedom=freedom), reduced=2,
        words=["freedom"],
    )  # fmt: skip


def layer_norm(formula: Kernel) -> Kernel:
    """x (..., *sizes) over the axes of weight and bias (*sizes)."""
    rows = Rows("layer_norm", formula, "ab b b", ["eps"], keeps=False)

    def kernel(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, eps: float) -> Any:
        n = weight.size
        return rows((x, weight, bias), (x.size // n, n), (x.shape,), eps)

    return kernel


def layer_norm_grad(formula: Kernel) -> Kernel:
    """The cotangents of x, weight and bias."""
    rows = Rows("layer_norm_grad", formula, "ab ab b", ["eps"])

    def kernel(ct: np.ndarray, x: np.ndarray, weight: np.ndarray, *, eps: float) -> Any:
        n, shape = weight.size, weight.shape
        return rows((ct, x, weight), (x.size // n, n), (x.shape, shape, shape), eps)

    return kernel


def _over_channels(
    name: str, formula: Kernel, whole: int, vectors: int, results: str, words: Sequence[str] = ()
) -> Kernel:
    """``whole`` arrays (batch, channels, ...), ``vectors`` (channels,); results of such shapes.

    Args:
        name: of the formula.
        formula: of arrays with two or three axes.
        whole, vectors: how many there are.
        results: a letter each, "x" for a whole one and "v" for a vector.
        words: the names of its numbers.
    """
    flat, deep = (
        Rows(name, formula, " ".join([shape] * whole + ["b"] * vectors), words, along, False)
        for shape, along in (("ab", "a"), ("abc", "c"))
    )

    def kernel(*arrays: np.ndarray, **numbers: float) -> Any:
        x = arrays[0]
        shape = x.shape
        batch, channels = shape[:2]
        if not x.size:
            return None
        shapes = [shape if r == "x" else (channels,) for r in results]
        given = [numbers[w] for w in words]
        positions = x.size // (batch * channels)
        if positions == 1:
            return flat(arrays, (batch, channels), shapes, *given)
        return deep(arrays, (batch, channels, positions), shapes, *given)

    return kernel


def moments(formula: Kernel) -> Kernel:
    """Mean and biased variance of each channel of x (batch, channels, ...)."""
    return _over_channels("moments", formula, 1, 0, "vv")


def batch_norm(formula: Kernel) -> Kernel:
    """(x - mean) / sqrt(variance + eps) * weight + bias, channel by channel."""
    return _over_channels("normalised", formula, 1, 4, "x", ["eps"])


normalised = batch_norm


def batch_norm_grad(formula: Kernel) -> Kernel:
    """The cotangents of x, weight and bias, where mean and variance are those of x."""
    return _over_channels("batch_norm_grad", formula, 2, 3, "xvv", ["eps"])
