"""A loop around one elementwise emitter, compiled; and the distance to a reference in ulps."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from fx.backends.cpu.llvm.vecmath.table import (
    EMIT,
    llvm_type,
    load_convert,
    storage_type,
    store_convert,
)
from tests.backends.llvm.run_step import Compiled

_I64, _P = ir.IntType(64), ir.PointerType()


@cache
def element_kernel(
    name: str, dtypes: tuple[Any, ...], out: Any, lanes: int | None, params: tuple[Any, ...] = ()
) -> Callable[..., np.ndarray]:
    """``run(*arrays) -> array`` of a primitive's emitter, ``lanes`` elements at a time."""
    dtypes, out = tuple(map(np.dtype, dtypes)), np.dtype(out)
    module = ir.Module(name)
    kind = ir.FunctionType(ir.VoidType(), [_I64, *[_P] * (len(dtypes) + 1)])
    function = ir.Function(module, kind, "kernel")
    b = ir.IRBuilder(function.append_basic_block())
    count, *arrays = function.args
    head, done = function.append_basic_block(), function.append_basic_block()
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(_I64)
    i.add_incoming(_I64(0), before)
    values = []
    for array, dtype in zip(arrays, dtypes):
        at = b.gep(array, [i], source_etype=storage_type(dtype))
        raw = b.load(at, typ=storage_type(dtype, lanes), align=dtype.itemsize)
        value = load_convert(b, raw, dtype)
        assert value.type == llvm_type(dtype, lanes)
        values.append(value)
    value = EMIT[name](b, dtypes, out, values, dict(params))
    assert value.type == llvm_type(out, lanes)
    at = b.gep(arrays[-1], [i], source_etype=storage_type(out))
    raw = store_convert(b, value, out)
    assert raw.type == storage_type(out, lanes)
    b.store(raw, at, align=out.itemsize)
    following = b.add(i, _I64(lanes or 1))
    i.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, count), head, done)
    b.position_at_end(done)
    b.ret_void()
    compiled = Compiled(module)
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (len(dtypes) + 1))(
        compiled.address("kernel")
    )

    def run(*xs: np.ndarray) -> np.ndarray:
        n, step = xs[0].size, lanes or 1
        size = -(-n // step) * step
        padded = [np.ones(size, d) for d in dtypes]
        for p, x in zip(padded, xs):
            p[:n] = x
        found = np.empty(size, out)
        call(size, *[p.ctypes.data for p in padded], found.ctypes.data)
        return found[:n]

    run.compiled = compiled  # type: ignore[attr-defined]
    return run


def worst_ulp(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance to the exact values, in units in the last place of the rounded ones.

    Zeros, infinities and NaN must be where rounding the exact values puts them; next to the
    overflow threshold an infinity may stand for a number.
    """
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        size = np.clip(np.abs(rounded), info.tiny, info.max)
        off = np.abs(got.astype(exact.dtype) - exact) / np.spacing(size).astype(exact.dtype)
        alike = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        edge = (np.isinf(got) | np.isinf(rounded)) & (
            np.minimum(np.abs(got), np.abs(rounded)) >= info.max * (1 - 4 * info.eps)
        )
        off = np.where(alike & ~np.isfinite(off), 0, np.where(edge & ~alike, 1, off))
    off[~np.isfinite(off)] = np.inf
    return float(off.max())


def every_float32(count: int) -> np.ndarray:
    """Floats of every sign and exponent, NaN and infinities, evenly by their bits."""
    bits = np.linspace(0, 2**32 - 1, count).astype(np.uint64).astype(np.uint32)
    return bits.view(np.float32)


def many_float64(count: int, seed: int = 0) -> np.ndarray:
    """Half of them by random bits, half where functions bend: around 0, 1, -1, multiples of pi."""
    r = np.random.default_rng(seed)
    k = count // 8
    sign = r.choice([-1.0, 1.0], k)
    return np.concatenate(
        [
            r.integers(0, 2**64, 3 * k, dtype=np.uint64).view(np.float64),
            r.normal(size=k) * 3,
            r.normal(size=k) * 100,
            sign + r.normal(size=k) * 10.0 ** r.uniform(-15, -1, k),
            sign * 10.0 ** r.uniform(-12, 12, k),
            r.integers(-2000, 2000, k) * np.pi / 2 * (1 + r.integers(-2, 3, k) * 2.0**-52),
        ]
    )


def specials(dtype: Any) -> np.ndarray:
    """Zeros, infinities, NaN, ones, numbers around the edges of the range and of precision."""
    info = np.finfo(dtype)
    positive: Sequence[Any] = [
        0.0, 1.0, 2.0, 3.0, 0.5, 0.1, 1e-4, 10.0, 88.0, 1000.0, 1e30, np.inf, info.max, info.tiny,
        info.smallest_subnormal, info.eps, info.eps / 4,
    ]  # fmt: skip
    return np.array([*positive, *[-x for x in positive], np.nan], dtype)
