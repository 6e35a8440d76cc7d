"""Slices of a length that is an argument: one program serves many lengths, and must not decide.

A jitted function is called with one length after the other, in any order: more than it is staged
for. What was made of the first ones, a bound that was cut, a branch, a number that Python was told,
must not be in what later ones get.
"""

from __future__ import annotations

import random

from fx.testing.fuzz.generator import TEMPLATE, Names, defined, returned
from fx.testing.fuzz.program import Op, Program

CUTS = (
    "x[:, :n]", "x[:, :n]", "x[..., :n]", "x[:n]", "x[:, :n + 1]", "x[:, 1:n]", "x[:, n:]",
    "x[0, :n]", "x[:, :n // 2]", "x[:, :2 * n]", "x[:n, :n]", "y[:n]", "y[:n, 0]",
    "x[:, :min(n, 7)]",
)  # fmt: skip
STEPS = (
    "{0} * 2", "fx.exp({0} * 0.1)", "{0}.sum(-1)", "{0}.sum(0)", "{0}.mean(-1)", "fx.mean({0})",
    "fx.nn.softmax({0}, -1)", "fx.nn.log_softmax({0}, -1)", "{0} @ {0}.T", "{0}.T",
    "fx.cumsum({0}, -1)", "fx.max({0}, -1)", "fx.min({0}, 0)", "{0}[:, :6]", "{0}[..., 1:]",
    "{0}[..., -6:]", "{0}[..., 5]", "{0}[..., ::2]", "fx.flip({0}, -1)", "fx.sort({0}, -1)",
    "fx.concat([{0}, {0}], 0)", "fx.concat([{0}, {1}], -1)", "fx.where({0} > 0, {0}, 0.5)",
    "fx.roll({0}, 2, -1)", "{0} * {0}.shape[-1]", "{0} * min({0}.shape[-1], 5)",
    "{0} / len({0})", "{0} * ({0}.size > 20)", "{0}[..., :min({0}.shape[-1], 5)]",
    "{0}.reshape(-1)", "{0}.reshape(1, -1)", "fx.sum({0}, keepdims=True)",
    "{0} - {0}.mean(-1, keepdims=True)", "fx.var({0}, -1)", "fx.std({0})", "fx.tril({0})",
    "fx.argmax({0}, -1)", "fx.vmap(lambda r: r * r.sum())({0})",
    "fx.vmap(lambda r: r * min(r.size, 5))({0})", "fx.grad(lambda v: (v ** 2).mean())({0})",
    "fx.linalg.norm({0})", "fx.median({0}, -1)", "{0}.astype(fx.float64)",
    "fx.expand_dims({0}, 0)", "fx.broadcast_to({0}, (2, *{0}.shape))", "fx.diff({0})", "{0} * n",
    "{0} + {1}", "{0} * {1}", "{0} @ y[:n]", "{0} + fx.arange({0}.shape[-1])",
    "x.at[:, :n].set({0})", "x.at[:, :n].add({0})", "fx.topk({0}, 2)[0]", "fx.diagonal({0})",
    "fx.logsumexp({0}, -1)", "fx.einsum('...i,...i->...', {0}, {0})", "fx.nn.relu({0})",
    "fx.prod({0} * 0.5, -1)", "fx.all({0} > 0, -1)", "fx.repeat({0}, 2, axis=-1)",
    "fx.nn.functional.scaled_dot_product_attention({0}[None], {0}[None], {0}[None])",
    "inner({0})", "telling({0})",
)  # fmt: skip
START = """\
inner = fx.jit(lambda v: fx.sum(v, -1) * 2)
telling = fx.jit(lambda v: fx.sum(v, -1) * min(v.shape[-1], 5))
each = []"""
SIZES = (12, 23, 26, 40)


def make(rng: random.Random) -> Program:
    """A function of two tensors and a length, and seven to ten calls of it."""
    names, size = Names(), rng.choice(SIZES)
    seeds = rng.randrange(50), rng.randrange(50)
    inputs = (
        Op("x", f"values.tensor((3, {size}), 'float32', {seeds[0]})"),
        Op("y", f"values.tensor(({size}, 4), 'float32', {seeds[1]})"),
    )
    body, known = [], []
    for _ in range(rng.choice((1, 1, 2))):
        known.append(names.new())
        body.append(Op(known[-1], rng.choice(CUTS), ()))
    for _ in range(rng.randrange(1, 5)):
        text, name = rng.choice(STEPS), names.new()
        args = [rng.choice(known[-3:]) for _ in range(2 if "{1}" in text else 1)]
        body.append(Op(name, text, tuple(args) if "{0}" in text else ()))
        known.append(name)
    kept = known[-1:] if rng.random() < 0.6 else known[-2:]
    near = rng.randrange(2, 9)
    lengths = [
        near,
        near + 1,
        near + 2,
        *[rng.randrange(size + 3) for _ in range(rng.randrange(4, 8))],
    ]
    if rng.random() < 0.5:
        rng.shuffle(lengths)
    rows = [Op("", f"each.append((x, y, {n}))", ()) for n in lengths]
    main = defined(["x", "y", "n"], [*body, returned(kept)], [Op("", "compare.calls(f, *each)")])
    sections = {"inputs": (*inputs, Op("", START), *rows), "main": main}
    return Program("lengths", TEMPLATE, sections)
