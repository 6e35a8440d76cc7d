"""Graphs of operators: every dtype, layout and special value, compiled and batched against eager.

A graph grows by trying: an operation is drawn, run eagerly on the values at hand, and kept if it
is valid and tame. What jumps (``floor``, comparisons, ``argmax``) is only applied to exact values:
inputs, and what integers and moves make of them; else a rounding would look like a fault.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np

import fx
from fx import dtypes
from fx.tensor import Tensor
from fx.testing.fuzz import rules, values
from fx.testing.fuzz.generator import TEMPLATE, Names, defined, returned
from fx.testing.fuzz.program import Op, Program

LARGEST = 400_000  # elements of a value
SMOOTH = (
    "fx.sin({0})", "fx.cos({0})", "fx.tanh({0})", "fx.sigmoid({0})", "fx.exp(-fx.abs({0}))",
    "fx.nn.functional.gelu({0})", "fx.nn.functional.silu({0})", "fx.relu({0})", "fx.abs({0})",
    "fx.square({0})", "fx.softplus({0})", "fx.erf({0})", "fx.log1p(fx.abs({0}))",
    "fx.sqrt(fx.abs({0}) + 1)", "fx.rsqrt({0} * {0} + 1)", "1 / ({0} * {0} + 1)", "-{0}",
    "{0} * 0.5", "1 - {0}", "{0} + 2", "{0} ** 2", "{0} ** 3", "fx.atan({0})",
    "fx.expm1({0} * 0.125)", "fx.clip({0}, -0.5, 0.5)", "fx.asinh({0})", "fx.exp2({0} * 0.25)",
    "fx.nan_to_num({0})", "fx.erfc({0})", "fx.lerp({0}, {0} * 2, 0.25)", "fx.real({0})",
    "fx.conj({0})", "fx.imag({0})",
)  # fmt: skip
JUMPS = (
    "fx.floor({0})", "fx.ceil({0})", "fx.round({0})", "fx.trunc({0})", "fx.sign({0})",
    "fx.isnan({0})", "fx.isinf({0})", "fx.isfinite({0})", "fx.signbit(fx.nan_to_num({0}))",
    "fx.logical_not({0})",  # above: which sign a NaN has that was computed, nothing says
    "{0} > 0", "{0} == 1", "{0} != {0}", "fx.argmax({0}, axis=-1)", "fx.argmin({0}, axis=0)",
    "fx.argmax({0})", "fx.argsort({0}, axis=-1)", "fx.count_nonzero({0}, axis=0)",
    "fx.any({0}, axis=-1)", "fx.all({0})", "fx.all({0}, axis=0)", "fx.any({0} > 1)",
    "fx.unique_values({0}.reshape(-1)[:4])", "fx.floor_divide({0}, 2)", "fx.remainder({0}, 3)",
    "fx.bitwise_invert({0})", "{0} & 5", "{0} >> 1", "{0} << 1", "fx.isclose({0}, 1)",
)  # fmt: skip
MOVES = (
    "{0}[..., ::2]", "{0}[1:]", "{0}[:, 0]", "{0}[..., -1]", "{0}[::-1]", "{0}[:, 1:3]", "{0}.T",
    "{0}.reshape(-1)", "fx.flip({0}, axis=-1)", "fx.roll({0}, 1, axis=0)", "{0}[None]",
    "fx.concat([{0}, {0}], axis=0)", "fx.concat([{0}, {0}[..., :1]], axis=-1)",
    "fx.stack([{0}, {0}], axis=-1)", "fx.repeat({0}, 2, axis=0)", "fx.repeat({0}, 3, axis=-1)",
    "fx.tile({0}, (2, 1))", "{0}[0]", "fx.broadcast_to({0}, (3, *{0}.shape))", "{0}[..., None]",
    "{0}.squeeze()", "fx.tril({0})", "fx.nn.functional.pad({0}, (1, 2))", "fx.diagonal({0})",
    "fx.moveaxis({0}, 0, -1)", "fx.sliding_window_view({0}, 2, axis=-1)",
    "fx.split({0}, 2, axis=0)[1]", "fx.sort({0}, axis=-1)",
    "fx.take({0}, fx.asarray([1, 0, 0]), axis=0)", "{0}.at[0].set(1)", "{0}.at[..., ::2].add(1)",
    "fx.masked_fill({0}, fx.asarray(True), 2)", "{0}.reshape(*{0}.shape[:-1], -1, 1)",
    "fx.swapaxes({0}, 0, -1)", "{0}[fx.asarray([0, 0, 1])]", "fx.unbind({0}[-9:], 0)[-1]",
    "fx.chunk({0}, 3, 0)[0]", "fx.ravel({0})[3:]", "{0}.at[fx.asarray([0, 0])].add(1)",
    "fx.rot90({0})", "fx.expand_dims({0}, axis=1)", "{0}[:0]",
)  # fmt: skip
SUMS = (
    "fx.sum({0})", "fx.sum({0}, axis=0)", "fx.sum({0}, axis=-1, keepdims=True)", "fx.mean({0})",
    "fx.mean({0}, axis=-1)", "fx.max({0}, axis=0)", "fx.min({0})",
    "fx.max({0}, axis=-1, keepdims=True)", "fx.amax({0}, -1)", "fx.var({0}, axis=0)",
    "fx.std({0} + {0}, axis=-1)", "fx.logsumexp({0}, axis=-1)", "fx.softmax({0}, axis=-1)",
    "fx.log_softmax({0}, axis=0)", "fx.cumsum({0}, 0)", "fx.cumsum({0}, -1)",
    "fx.cumprod({0} * 0.5, -1)", "fx.softmax({0}, axis=0)", "fx.prod({0}[..., :3], axis=-1)",
    "fx.nn.functional.layer_norm({0}, {0}.shape[-1:])", "fx.cumulative_sum({0}.reshape(-1))",
    "fx.var({0})", "fx.norm({0} + 1)", "fx.sum({0} * {0}, axis=0)", "fx.logsumexp({0}, axis=0)",
    "fx.nansum({0})", "fx.cummax({0}, 0)[0]", "fx.logcumsumexp({0}, -1)", "fx.trace({0})",
    "fx.mean({0}, axis=(0, 1))", "fx.diff({0}, axis=-1)",
    "fx.nn.functional.max_pool1d({0}[None], 2)", "fx.sum({0}[..., ::2])",
    "fx.nn.functional.avg_pool1d({0}[None], 3, 1)", "fx.sum({0}[:, 0])", "fx.max({0}[::2])",
)  # fmt: skip
PAIRS = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "fx.maximum({0}, {1})", "fx.minimum({0}, {1})",
    "{0} / ({1} * {1} + 1)", "fx.logaddexp({0}, {1})", "{0} @ {1}", "{0} @ {1}.T",
    "fx.outer({0}, {1})", "fx.where({0} > 0, {0}, {1})", "fx.hypot({0}, {1})",
    "fx.concat([{0}, {1}], axis=0)", "{0} + {1}[0]", "fx.concat([{0}, {1}], axis=-1)",
    "fx.stack([{0}, {1}])", "fx.einsum('i,j->ij', {0}, {1})", "fx.einsum('ij,kj->ik', {0}, {1})",
    "{0} * {1}[..., :1]", "fx.lerp({0}, {1}, 0.25)", "{0} + {1}.T",
    "fx.where(fx.arange({0}.shape[-1]) % 2 == 0, {0}, {1})", "{0} * fx.sum({1})",
    "{0} - fx.mean({1}, axis=0)", "fx.vecdot({0}, {1})",
    "fx.take({0}, fx.argsort({1}.reshape(-1))[:2] * 0, axis=0)",
)  # fmt: skip
JUMPING_PAIRS = (
    "{0} < {1}", "{0} == {1}", "fx.where({0} == {1}, {0}, {1})", "fx.remainder({0}, {1})",
    "{0} // {1}", "fx.copysign({0}, fx.nan_to_num({1}))", "{0} & {1}", "{0} | {1}", "{0} ^ {1}",
    "fx.isin({0}, {1})", "{0} >= {1}", "fx.logical_and({0}, {1})",
    "fx.searchsorted(fx.sort({0}.reshape(-1)), {1})", "fx.fmod({0}, {1})",
    "fx.where({0} > 0, {0}, {1})", "fx.nextafter({0}, {1})",
)  # fmt: skip
MADE = (
    "fx.ones_like({0})", "fx.full({0}.shape, 2.5)", "fx.arange({0}.shape[0])",
    "fx.zeros_like({0})", "fx.linspace(0, 1, 17)", "fx.eye(5)", "fx.full_like({0}, 3)",
    "fx.arange(1000) * 1.0", "fx.tri(4, 6)", "fx.ones((130, 31))",
    "fx.broadcast_to(fx.asarray(2.0), (7, 9))", "fx.arange(10, 0, -3)", "fx.full((300000,), 0.5)",
    "fx.arange(70000) % 7 * 0.5", "fx.ones((270, 1000))",
)  # fmt: skip
CASTS = tuple(
    f"fx.astype({{0}}, fx.{d.name.rstrip('_') if d.kind == 'b' else d.name})" for d in dtypes.ALL
)
CASTS = tuple(c.replace("fx.bool)", "fx.bool)") for c in CASTS)
DTYPES = ("float32",) * 6 + ("float64",) * 2 + (
    "float16", "bfloat16", "int32", "int64", "int8", "uint8", "uint16", "bool", "complex64",
    "complex128", "uint64",
)  # fmt: skip


def make(rng: random.Random) -> Program:
    """A graph of up to a dozen operations on up to three inputs."""
    grow = Growth(rng)
    dims = [rng.choice(values.SIZES) for _ in range(2)]
    if rng.random() < 0.04:
        dims = [rng.choice((1, 3, 600)), rng.choice((513, 1000))]
    count = rng.choice((1, 1, 2, 3))
    while len(grow.inputs) < count:
        grow.input(dims)
    for _ in range(rng.randrange(1, 12)):
        grow.operation()
    names = [op.name for op in grow.body] or [op.name for op in grow.inputs]
    kept = names[-1:] + [n for n in names[:-1] if rng.random() < 0.25]
    params = [op.name for op in grow.inputs]
    check = "batched" if rng.random() < 0.25 else "compiled"
    asked = Op("", f"compare.{check}(f, {{all}})", tuple(params))
    main = defined(params, [*grow.body, returned(kept)], [asked])
    return Program("graphs", TEMPLATE, {"inputs": tuple(grow.inputs), "main": main})


class Growth:
    """A graph in the making: its operations and their values."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = Names()
        self.inputs: list[Op] = []
        self.body: list[Op] = []
        self.values: dict[str, Any] = {}
        self.exact: set[str] = set()
        self.space: dict[str, Any] = {"fx": fx, "values": values, "rules": rules, "np": np}
        self.special = rng.choice(values.SPECIAL) if rng.random() < 0.3 else "none"

    def input(self, dims: list[int]) -> None:
        """Add an argument."""
        rng = self.rng
        shape: tuple[int, ...] = tuple(
            rng.choice(((), dims, dims, dims, dims[1:], dims[::-1], [2, *dims]))
        )
        layout = rng.choice(("dense", *values.LAYOUTS))
        dtype, seed = rng.choice(DTYPES), rng.randrange(100)
        special = self.special
        text = f"values.tensor({shape}, {dtype!r}, {seed}"
        plain = f"values.tensor({shape}, 'float32', {seed}"
        less = tuple(min(n, 3) for n in shape)
        simpler = (
            f"values.tensor({less}, 'float32', {seed})",
            f"values.tensor({less}, {dtype!r}, {seed}, {layout!r}, {special!r})",
            f"{plain})", f"{text})", f"{text}, {layout!r})", f"{text}, special={special!r})",
        )  # fmt: skip
        name = self.names.new("x")
        op = Op(name, f"{text}, {layout!r}, {special!r})", (), simpler)
        value = self._try(op)
        if value is not None:
            self.inputs.append(op)
            self.exact.add(name)

    def operation(self) -> None:
        """Add an operation that is valid."""
        for _ in range(30):
            if self._grown():
                return

    def _grown(self) -> bool:
        rng = self.rng
        names = list(self.values)
        first = rng.choice(names[-4:]) if rng.random() < 0.7 else rng.choice(names)
        second = rng.choice(names)
        kinds = (SMOOTH, JUMPS, MOVES, MOVES, SUMS, PAIRS, PAIRS, JUMPING_PAIRS, MADE, CASTS)
        kind = rng.choice(kinds)
        text = rng.choice(kind)
        args = (first, second) if "{1}" in text else (first,) if "{0}" in text else ()
        exact = all(a in self.exact for a in args)
        jumps = kind in (JUMPS, JUMPING_PAIRS, CASTS) or "sort" in text
        if jumps and not exact:
            return False
        if kind is CASTS and not self._in_range(first, text):
            return False
        rounds = kind in (SMOOTH, SUMS, PAIRS) and self.values[first].dtype in dtypes.INEXACT
        if self.special == "extreme" and rounds:
            return False
        op = Op(self.names.new(), text, args)
        value = self._try(op)
        if value is None:
            return False
        still = kind in (MOVES, JUMPS, JUMPING_PAIRS, MADE) or "int" in value.dtype.name
        if exact and still and value.dtype not in dtypes.COMPLEX:
            self.exact.add(op.name)
        self.body.append(op)
        return True

    def _in_range(self, name: str, text: str) -> bool:
        """Whether a cast is defined: numbers that the other dtype has."""
        x = self.values[name]
        if x.dtype not in dtypes.FLOATING or "float" in text or "complex" in text or "bool" in text:
            return x.dtype not in dtypes.COMPLEX
        array = np.asarray(x.detach()).astype(np.float64)
        low = 0 if "uint" in text else -100
        return bool(np.isfinite(array).all() and (array >= low).all() and (array <= 100).all())

    def _try(self, op: Op) -> Any:
        """The value of a statement; None if it is not to be part of the graph."""
        names = dict(self.space, **self.values)
        source = "\n".join(op.lines()).partition(" = ")[2]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                value = eval(source, names)
        except Exception:
            return None
        if not isinstance(value, Tensor) or value.size > LARGEST or value.ndim > 5:
            return None
        if value.dtype in dtypes.INEXACT and value.size and self.special != "extreme":
            array = np.abs(np.asarray(value.detach()).astype(np.complex128))
            array = array[np.isfinite(array)]
            if array.max(initial=0.0) > 5000 or (array.size == 0 and self.special == "none"):
                return None
        self.values[op.name] = value
        return value
