"""Native kernels of primitives that are no loops of elements and sums.

``STEPS[name](node)`` gives the step of a node of that primitive, or None where its eager kernel
runs instead.
"""

from __future__ import annotations

from collections.abc import Callable

from fx.backends.cpu.lapack.plans import PLANS
from fx.backends.cpu.llvm.node_steps import (
    attention,
    bits,
    calls,
    divisors,
    extremes,
    fourier,
    indexing,
    lapack,
    pairs,
    philox,
    ranks,
    scattering,
)
from fx.compiler.step import Step
from fx.graph.ir import Node

STEPS: dict[str, Callable[[Node], Step | list[Step] | None]] = {
    "attention": attention.attention,
    "attention_grad": attention.attention_grad,
    "bitcast": bits.bitcast,
    "take": indexing.take,
    "take_along_axis": indexing.take_along_axis,
    "scatter": scattering.scatter,
    "scatter_along_axis": scattering.scatter_along_axis,
    "wrap_index": indexing.wrap_index,
    "divisor": divisors.divisor,
    "argmax": extremes.place,
    "argmin": extremes.place,
    "cumsum": calls.scan,
    "cumprod": calls.scan,
    "cummax": calls.scan,
    "cummin": calls.scan,
    "logcumsumexp": calls.scan,
    "recurrence": calls.scan,
    "argsort": calls.first,
    "top_k_indices": calls.first,
    "ranked_indices": calls.ranked,
    "searchsorted": calls.searchsorted,
    "random_bits": calls.random_bits,
    "next_key": philox.next_key,
    "with_lane": philox.with_lane,
    "derive": philox.derive,
    "random_draw": calls.random_draw,
    "random_truncated_normal": calls.random_truncated_normal,
    "random_below": calls.random_below,
    "random_gamma": calls.random_gamma,
    "random_poisson": calls.random_poisson,
    "random_binomial": calls.random_binomial,
    "random_multinomial": calls.random_multinomial,
    "random_permutation": calls.random_permutation,
    "fft": fourier.planned,
    "rfft": fourier.planned,
    "irfft": fourier.planned,
    "verified": lapack.verified,
    **ranks.STEPS,
    **pairs.STEPS,
    **dict.fromkeys(PLANS, lapack.planned),
}
