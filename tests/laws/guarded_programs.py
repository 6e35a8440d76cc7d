"""``python -m tests.laws.guarded_programs``: kernels on operands that lie beside forbidden pages.

With ``FX_GUARD_MEMORY`` set what touches memory outside of an operand, a result or an arena ends
this process. The last line that was printed then says which program it was.
"""

import ctypes
import faulthandler
import gc
import random
import sys
import warnings
from contextlib import nullcontext

import numpy as np

import fx
import fx.nn.functional as F
from fx import limits
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule
from fx.dtypes import bfloat16, float16
from fx.errors import DTypeError
from fx.prims.attention import attention, attention_grad
from fx.tensor import new_tensor
from fx.testing import all_primitives, draw
from fx.testing.compiled import compiled_in
from tests.compiler.schedules import run_schedule
from tests.compiler.test_schedule_random import Program
from tests.thorough import THOROUGH

WIDE = np.lib.stride_tricks.as_strided
# of a dense array one with the same shape that lies otherwise, and ends or begins where its memory
# does
LAYOUTS = {
    "dense": lambda x: x,
    "column": lambda x: np.repeat(x[..., None], 3, -1)[..., 2],
    "first column": lambda x: np.repeat(x[..., None], 3, -1)[..., 0],
    "every second": lambda x: np.repeat(x, 2, -1)[..., 1::2],
    "reversed": lambda x: x[..., ::-1].copy()[..., ::-1],
    "transposed": lambda x: x.T.copy().T,
    "repeated": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "overlapping": lambda x: WIDE(x.reshape(-1), x.shape, x.ndim * (x.itemsize,)),
}
CAUSAL = {"causal": True, "scale": 0.5}
# functions of x (m, n), y (n, m) and numbers i (n,) below m
FUNCTIONS = {
    "product": lambda x, y, i: x @ y,
    "product with a transpose": lambda x, y, i: x.T @ x + y @ y.T,
    "one row": lambda x, y, i: (x[:1] @ y, y @ x[:, 0]),
    "attention": lambda x, y, i: attention(*[a[None, None] for a in (x, y.T, x)], **CAUSAL),
    "attention, back": lambda x, y, i: attention_grad(
        *[a[None, None] for a in (y, y, x.T, x.T, y[:, 0], y[:, -1])], **CAUSAL
    ),
    "softmax": lambda x, y, i: (fx.softmax(x, axis=1), fx.log_softmax(y, axis=0)),
    "layer norm": lambda x, y, i: F.layer_norm(x, (x.shape[1],), x[0], x[-1]),
    "sums": lambda x, y, i: (x.sum(), x.sum(0), fx.max(y, axis=1), fx.var(x, axis=0)),
    "sums of views": lambda x, y, i: (x[:, -1].sum(), x[::2].sum(), fx.flip(x).max(), y[1:].sum(0)),
    "elements": lambda x, y, i: fx.where(x > 0, fx.exp(-x), y.T) * x[:, :1],
    "joined": lambda x, y, i: fx.pad(fx.concat([x, y.T[:, 1:]], axis=1), ((1, 0), (0, 2))),
    "scans": lambda x, y, i: (fx.cumulative_sum(x, axis=0), fx.cumulative_sum(y, axis=1)),
    "places": lambda x, y, i: (fx.take(x, i, axis=0), x.at[i, 0].add(1.0), fx.argmax(y, axis=0)),
    "sorted": lambda x, y, i: (fx.sort(x, axis=0), fx.argsort(y, axis=1)),
    "narrow": lambda x, y, i: (
        fx.flip(fx.astype(x, bfloat16) * 2), fx.max(fx.astype(y, fx.int8), axis=0),
        fx.any(x > 0, axis=0), fx.astype(x, bfloat16) @ fx.astype(y, bfloat16),
    ),
    "products of halves": lambda x, y, i: (
        *[fx.astype(x, h) @ fx.astype(y, h) for h in (float16, bfloat16)],
        *[fx.astype(x, h).T @ fx.astype(x, h) for h in (float16, bfloat16)],
        fx.astype(y, float16) @ fx.astype(y, float16).T,
    ),
    "convolution": lambda x, y, i: (
        F.conv2d(x[None, None], y[None, None, :2, :1], stride=2, padding=1),
    ),
    "pooling": lambda x, y, i: (
        F.max_pool2d(x[None, None], 2, stride=3, padding=1), F.avg_pool1d(y[None], 2, padding=1),
    ),
    "transforms": lambda x, y, i: (
        fx.fft.rfft2(x), fx.fft.fft(y, axis=0), fx.fft.irfft(fx.fft.rfft(x.reshape(-1))),
    ),
    "gelu": lambda x, y, i: (F.gelu(x), F.silu(y)),
    "loss": lambda x, y, i: F.cross_entropy(y, i),
}  # fmt: skip
SIZES = (1, 2, 3, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100)


def left_out(side, number):
    """Whether the quick profile leaves a program out: most of those guarded at the beginning.

    A loop that goes too far does so at the end; one that runs backwards is rare.
    """
    return side == "begin" and number % 3 != 0 and not THOROUGH


def laws(side):
    """Every primitive, compiled, on a drawn sample; cut up to the smallest tasks at one side."""
    for seed, (name, primitive) in enumerate(all_primitives().items()):
        if left_out(side, seed):
            continue
        print("law:", name, flush=True)
        dtype = (np.float32, np.float64, bfloat16)[seed % 3]
        sample = draw(primitive, random.Random(side))
        with limits.tiny() if (seed + (side == "end")) % 2 else nullcontext():
            try:
                compiled_in(primitive, sample, np.dtype(dtype))
            except DTypeError:  # LAPACK's and FFT's have no bfloat16
                compiled_in(primitive, sample, np.dtype(np.float64))


def steps(side):
    """Generated graphs, each value of which, those in between too, has memory of its own."""
    rng = np.random.default_rng(0)
    for seed in range(12):
        program = Program(random.Random(f"{side} {seed}"))
        print("steps:", seed, [node.primitive.name for node in program.nodes], flush=True)
        arrays = [rng.standard_normal(v.spec.shape).astype("f4") for v in program.inputs]
        with limits.tiny() if seed % 2 else nullcontext():
            got = run_schedule(schedule(program.graph, this_cpu()), *arrays)
        want = program.graph.run(*map(new_tensor, arrays))
        for mine, tensor in zip(got, want, strict=True):
            np.testing.assert_allclose(
                mine, tensor._a, 1e-2, 1e-2 * np.abs(tensor._a).max(initial=1)
            )


def layouts(side):
    """Functions of operands in every layout, compiled and eager."""
    source = random.Random(side)
    for number, (name, function) in enumerate(FUNCTIONS.items()):
        if left_out(side, number):
            continue
        in_layouts(f"layouts: {name} 1 17", function, 1, 17)
        m, n = source.choice(SIZES), source.choice(SIZES)
        with limits.tiny():
            in_layouts(f"layouts: {name} {m} {n} cut up", function, m, n)
    print("layouts: nothing", flush=True)
    empty = fx.from_numpy(np.zeros((0, 5), np.float32))
    padded = fx.jit(lambda x: (fx.pad(x, ((1, 2), (0, 0))) + x.sum(), x.sum(0), x * 2))(empty)
    assert all(np.isfinite(np.asarray(a)).all() for a in padded)


def in_layouts(what, function, m, n):
    """One function for one size."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype("f4") for s in ((m, n), (n, m)))
    i = rng.integers(0, m, n)
    compiled = fx.jit(function)
    for layout, change in LAYOUTS.items():
        print(what, layout, flush=True)
        given = [change(x), change(y), i]
        want = as_tuple(function(*[fx.from_numpy(a.copy()) for a in given]))
        for how in (function, compiled):
            got = as_tuple(how(*map(fx.from_numpy, given)))
            for mine, other in zip(got, want, strict=True):
                mine, other = (
                    np.asarray(a if a.dtype.kind == "c" else fx.astype(a, fx.float64))
                    for a in (mine, other)
                )
                np.testing.assert_allclose(mine, other, 1e-2, 1e-3)


TABLE = fx.from_numpy(np.random.default_rng(1).standard_normal((40, 6)).astype("f4"))
ROWS = fx.from_numpy(np.random.default_rng(2).standard_normal((40, 60_000)).astype("f4"))
SIZED = {  # of sizes that vary, some in the square
    "reduced": lambda x, i: (fx.softmax(x, axis=0), x.sum(1), x @ x.T),
    "a part": lambda x, i: (x * 2)[:, :5] @ (x * 2)[:, :5].T,
    "taken": lambda x, i: TABLE[i] * fx.mean(x),
    "wide rows": lambda x, i: ROWS[i],
    "by places": lambda x, i: (fx.take_along_axis(x, i[:, None] % 7, axis=1), x.at[i % 9].add(1.0)),
    "counted": lambda x, i: TABLE[fx.arange(x.shape[0])] * x.sum(),
    "counted in the square": lambda x, i: (
        TABLE[fx.arange(x[:, :9].reshape(-1).shape[0] // 9 * x.shape[0])] + x.mean()
    ),
    "ends": lambda x, i: (
        x[:-1] * x[1:], fx.flip(x, axis=0) + fx.roll(x, 2, axis=0), x[-1] * x[:, -1:],
        fx.concat([x[-3:], x, TABLE[:2].repeat(1, 2)], axis=0), x[1:].T @ x[:-1],
        fx.pad(x, ((1, 2), (0, 3))), fx.pad(x, ((0, 220 - x.shape[0]), (0, 0))),
    ),
    "taken of what varies": lambda x, i: (
        x[[0, -1]], x[i], fx.take(x, i[:3] - 1, axis=0), x[fx.argmax(x, axis=0)],
    ),
    "windows": lambda x, i: fx.sliding_window_view(x @ x.T, 2, axis=-1) * 2,
    "in steps": lambda x, i: (
        x[::2] * 2, x[1::2].T @ x[1::2], fx.flip(x[::-2], axis=0) + x[-1], x[: x.shape[0] // 2],
        *with_gradients(lambda x: x[::2] ** 2, x),
    ),
    "solved": lambda x, i: (
        fx.linalg.solve(x[:, :9].reshape(-1, 3, 3) + 4 * fx.eye(3), x[:, 9:, None]),
        fx.linalg.svdvals(x.reshape(-1, 3, 4)), fx.linalg.inv(x[:, :4].reshape(-1, 2, 2) + 5),
    ),
    "convolved": lambda x, i: with_gradients(
        lambda x, w: F.conv2d(x.reshape(-1, 2, 3, 2), w.reshape(20, 2, 3, 3), padding=1),
        x, ROWS[:20, :18],
    ),
    "convolved by lines": lambda x, i: with_gradients(
        lambda x, w: F.conv1d(x.reshape(-1, 3, 4), w.reshape(2, 3, 3), stride=2, padding=1),
        x, ROWS[:2, :9],
    ),
    "in small stacks": lambda x, i: with_gradients(
        lambda x, w: F.conv1d(x[:, None], w), x, ROWS[:17, None, :5]
    ),
    "pooled": lambda x, i: (
        *with_gradients(lambda x: F.max_pool1d(x.reshape(-1, 2, 6), 3, stride=2, padding=1), x),
        *with_gradients(lambda x: F.avg_pool2d(x.reshape(-1, 1, 3, 4), 2), x),
    ),
    "turns": lambda x, i: fx.scan(lambda c, r: (c * 0.5 + r, c * r), x[0] * 0, x, reverse=True),
    "scanned": lambda x, i: (fx.cumsum(x, 0), fx.sort(x, axis=0), fx.argmax(x, axis=0)),
}  # fmt: skip


def with_gradients(f, *args):
    """What a function gives, and its derivatives."""
    out, back = fx.vjp(f, *args)
    return out, *back(fx.cos(out))


def sizes(side):
    """Functions for one size after the other: the same, or the same error, from one program.

    The quick profile has every other function cut up, and of those at the beginning the others.
    """
    warnings.simplefilter("error", RuntimeWarning)  # what is refused would run kernel by kernel
    rng = np.random.default_rng(0)
    for number, (name, function) in enumerate(SIZED.items()):
        if left_out(side, number):
            continue
        for tiny in (True, False) if THOROUGH else ((number + (side == "end")) % 2 == 0,):
            with limits.tiny() if tiny else nullcontext():
                compiled = fx.jit(function)
                for m in (9, 10, 11, 13, 15, 60, 64, 66, 100, 200):
                    print("sizes:", name, "tiny" if tiny else "", m, flush=True)
                    x = fx.from_numpy(rng.standard_normal((m, 12)).astype("f4"))
                    i = fx.from_numpy(rng.integers(0, min(m, 40), m))
                    want, got = outcome(function, x, i), outcome(compiled, x, i)
                    assert type(got) is type(want), (got, want)
                    if not isinstance(want, Exception):
                        for mine, other in zip(as_tuple(got), as_tuple(want), strict=True):
                            np.testing.assert_allclose(mine, other, 1e-4, 1e-4)


def outcome(function, *args):
    """What a function gives, or the error that says which index does not lie inside."""
    try:
        return function(*args)
    except fx.errors.IndexingError as error:
        return error


def outside(side):
    """Touches what it must not: shows that the guards hold."""
    x = np.arange(10.0)
    at = {"end": x.nbytes, "begin": -1}[side]
    assert ctypes.c_byte.from_address(x.ctypes.data + at % x.nbytes) is not None
    print("outside: beside an array", flush=True)
    print(ctypes.c_byte.from_address(x.ctypes.data + at))


def after(side):
    """Touches what was given back."""
    x = np.arange(1000.0)
    at = x.ctypes.data
    del x
    print("after: an array that ended", flush=True)
    print(ctypes.c_byte.from_address(at))


def as_tuple(x):
    return x if isinstance(x, tuple) else (x,)


if __name__ == "__main__":
    faulthandler.enable()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)  # as in conftest.py
    for part in sys.argv[2:] or ("laws", "steps", "layouts", "sizes"):
        globals()[part](sys.argv[1])
    print("done")
