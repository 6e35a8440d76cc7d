"""Compositions of grad, jvp, vjp, hessian and their kin, against differences in float64 and jit."""

from __future__ import annotations

import random

from fx.testing.fuzz import graphs, loops
from fx.testing.fuzz.generator import TEMPLATE, Names, defined
from fx.testing.fuzz.program import Op, Program

SMOOTH = tuple(
    text
    for text in graphs.SMOOTH
    # what has a corner or a step is only right beside it
    if not any(word in text for word in ("clip", "relu", "nan_to_num", "fx.abs({0})", "imag"))
)
SHAPED = (
    "{0}[..., ::2]", "{0}[::-1]", "{0}.T", "fx.concat([{0}, {0}], axis=0)", "{0}.reshape(-1)",
    "fx.repeat({0}, 2, axis=0)", "fx.sum({0}, axis=-1, keepdims=True) + {0}", "fx.cumsum({0}, -1)",
    "fx.softmax({0}, axis=-1)", "fx.log_softmax({0}, axis=0)", "fx.logsumexp({0}, axis=-1)",
    "fx.var({0}, axis=-1)", "fx.mean({0}, axis=0) + {0}", "fx.norm({0} + 3)", "{0}.at[0].set(0.5)",
    "{0}.at[fx.asarray([0, 0])].add(2)", "fx.take({0}, fx.asarray([1, 0, 0]), axis=0)",
    "fx.nn.functional.layer_norm({0}, {0}.shape[-1:])", "fx.sort({0} + fx.arange({0}.shape[-1]))",
    "fx.outer({0}.reshape(-1)[:4], {0}.reshape(-1)[:3])", "fx.max({0} * fx.arange({0}.shape[-1]))",
    "fx.where(fx.arange({0}.shape[-1]) % 2 == 0, {0}, {1})", "{0} @ {1}.T", "{0} * {1}",
    "{0} + {1}", "{0} / (2 + {1} * {1})", "fx.cumprod({0} * 0.5 + 1, -1)", "squared({0})",
    "halved({0})", "fx.checkpoint(lambda v: fx.sin(v) * v)({0})",
    "fx.jit(lambda v: v * fx.tanh(v))({0})", "fx.vmap(lambda v: fx.sum(v) * v)({0})",
    "fx.grad(lambda v: fx.sum(fx.sin(v) * v))({0})",
    "fx.jvp(lambda v: v * fx.exp(-v * v), ({0},), ({0},))[1]",
    "fx.fori_loop(0, 2, lambda i, v: fx.sin(v) + 0.1, {0})", "fx.atan2({0}, 2 + {1} * {1})",
)  # fmt: skip
WORDS = (
    "g", "j", "v", "r", "gg", "jg", "gj", "jj", "h", "f", "vg", "cg", "gc", "cgg", "gcg", "ccg",
    "bg", "b", "cj", "jcg", "hc", "ch", "gvc", "mg", "gm", "cmg", "n", "cn", "l",
)  # fmt: skip


def make(rng: random.Random) -> Program:
    """A smooth function of one tensor, and a derivative of it."""
    names = Names()
    shape = rng.choice(((3,), (4,), (2, 3), (5,), (1,), (3, 3), (17,)))
    text = f"values.tensor({shape}, 'float64', {rng.randrange(99)}"
    layout = rng.choice(("dense", "dense", "columns", "reversed", "steps", "transposed"))
    start = Op("x0", f"{text}, {layout!r}) + 0.0625", (), (f"{text}) + 0.0625",))
    body: list[Op] = []
    found = ["x"]
    for _ in range(rng.randrange(1, 6)):
        text = rng.choice(SMOOTH if rng.random() < 0.5 else SHAPED)
        args = (rng.choice(found[-2:]), rng.choice(found))
        body.append(Op(names.new(), text, args if "{1}" in text else args[:1]))
        found.append(body[-1].name)
    ends = ("return fx.sum({0} * {0}) * 0.5", "return fx.sum(fx.sin({0}))", "return fx.mean({0})")
    body.append(Op("", rng.choice(ends), (found[-1],)))
    word = rng.choice(WORDS)
    check = Op(
        "",
        f"derived.check(f, x0, {word!r})",
        (),
        tuple(f"derived.check(f, x0, {w!r})" for w in "gj"),
    )
    inputs = [Op("", "from fx.testing.fuzz import derived"), start]
    if any("squared" in op.text or "halved" in op.text for op in body):
        inputs.insert(0, Op("", loops.CUSTOM))
    main = defined(["x"], body, [check])
    return Program("derivatives", TEMPLATE, {"inputs": tuple(inputs), "main": main})
