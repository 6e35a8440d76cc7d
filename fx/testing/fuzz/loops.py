"""Loops and branches inside a graph, with derivatives to second order, against Python's own."""

from __future__ import annotations

import random

from fx.testing.fuzz.generator import Names
from fx.testing.fuzz.program import Op, Program

TEMPLATE = """\
def test_found():
    from fx.testing.fuzz import looped

    {inputs}

    {main}
"""
SMOOTH = (
    "fx.sin({0})", "fx.tanh({0})", "{0} * 0.5", "{0} + {1}", "{0} * {1}", "{0} - 0.25 * {1}",
    "fx.sum({0}) * 0.1 + {1}", "fx.where({0} > 0.1, {0}, {1} * 0.5)", "fx.maximum({0}, {1})",
    "{0} / (1 + {1} * {1})", "fx.cos({0} * {1})", "fx.softmax({0}, axis=-1)",
    "fx.roll({0}, 1, axis=-1)", "fx.flip({0}, axis=-1)", "{0}.at[..., 0].set(0.5)",
    "{0} * (i + 1) * 0.25", "{0} + x", "{0} * x", "fx.exp(-fx.abs({0}))",
    "fx.cumsum({0}, -1) * 0.1", "fx.concat([{0}[..., 1:], {1}[..., :1]], axis=-1)",
    "fx.sigmoid({0}) + x", "fx.stop_gradient({0}) + {1}", "squared({0})", "halved({0})",
    "fx.logsumexp({0}, axis=-1) + {1} * 0.5", "fx.mean({0}) + {1} * x", "{0} + i",
    "fx.cond(fx.sum({0}) > 0.3, lambda v: v * 0.5, lambda v: v + 0.1, {1})",
    "fx.sort({0}, axis=-1)", "fx.fori_loop(0, 2, lambda j, v: v * 0.5 + {1}, {0})",
    "fx.switch(fx.asarray(i % 3), [fx.sin, fx.cos, fx.tanh], {0})",
)  # fmt: skip
CUSTOM = """\
@fx.custom_vjp
def squared(v):
    return v * v * 0.25
squared.defvjp(lambda v: (v * v * 0.25, v), lambda v, ct: (ct * v * 0.5,))
@fx.custom_jvp
def halved(v):
    return fx.sin(v) * 0.5
halved.defjvp(lambda v, t: (fx.sin(v[0]) * 0.5, fx.cos(v[0]) * t[0] * 0.5))"""
KINDS = ("fori", "fori", "scan", "scan", "while_loop", "python", "reverse_scan", "map_scan")


def make(rng: random.Random) -> Program:
    """A step of two carries and one input, a way to repeat it, and what is asked of the whole."""
    names = Names()
    shape = rng.choice(((), (3,), (4,), (2, 3), (5,), (17,), (0,)))
    dtype = "'float64'"
    inputs = [
        Op(
            n,
            f"values.tensor({shape}, {dtype}, {rng.randrange(50)})",
            (),
            (f"values.tensor({(3,)}, {dtype}, 1)",),
        )
        for n in ("a0", "b0")
    ]
    length = rng.choice((0, 1, 2, 3, 5, 8))
    inputs.append(
        Op(
            "xs",
            f"values.tensor({(length, *shape)}, {dtype}, {rng.randrange(50)})",
            (),
            (f"values.tensor({(min(length, 2), 3)}, {dtype}, 1)",),
        )
    )
    body: list[Op] = []
    found = ["a", "b"]
    for _ in range(rng.randrange(1, 6)):
        text = rng.choice(SMOOTH)
        if not shape and ("-1" in text or "..." in text):
            continue
        args = (rng.choice(found[-3:]), rng.choice(found))
        op = Op(names.new(), text, args if "{1}" in text else args[:1])
        body.append(op)
        found.append(op.name)
    if any("squared" in op.text or "halved" in op.text for op in body):
        inputs.insert(0, Op("", CUSTOM))
    last = [rng.choice(found[-2:]), rng.choice(found), rng.choice(found)]
    if rng.random() < 0.3:
        last[1] = "a"
    body.append(Op("", "return {0} + 0 * a, {1} + 0 * b, {2}", tuple(last)))
    ask = rng.choice(("value", "grad", "jvp", "second", "vmap", "jitgrad", "checkpoint"))
    simpler = tuple(
        f"looped.{k}(step, a0, b0, xs, {w!r})"
        for k, w in (("fori", "value"), (rng.choice(KINDS), "grad"))
    )
    check = Op("", f"looped.{rng.choice(KINDS)}(step, a0, b0, xs, {ask!r})", (), simpler)
    step = Op("", "def step(i, a, b, x):\n    {body}\n", (), (), tuple(body))
    return Program("loops", TEMPLATE, {"inputs": tuple(inputs), "main": (step, check)})
