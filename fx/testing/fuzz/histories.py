"""Functions with grad modes, questions and rules, differentiated inside of ``jit`` and outside.

What a graph knows of a function's derivative is little against what Python does: ``no_grad`` hides
a part from one tape and not from another, a question splits the graph within it, ``detach`` and
``checkpoint`` cut and join, a rule of the user's own replaces what it stands for.
"""

from __future__ import annotations

import random

from fx.testing.fuzz.generator import TEMPLATE, Names, defined
from fx.testing.fuzz.program import Op, Program

SMOOTH = (
    "{0} * {1}", "fx.sin({0})", "{0} + {1} * n", "{0} * w", "{0} + c", "{0} * n",
    "fx.tanh({0}) - {1}", "fx.cumsum({0}, 0)", "{0} * fx.sum({1})",
    "fx.where({0} > 0.25, {0}, {1})",
)  # fmt: skip
HISTORIES = (
    "{0}.detach() * {1}", "fx.stop_gradient({0}) + {1}", "{0} * {1}.sum().item()",
    "fx.checkpoint(lambda z: fx.sin(z) * n)({0})", "fx.checkpoint(lambda z: z * {1})({0})",
    "rules.bent({0})", "rules.leaning({0})", "rules.through({0})", "rules.Steep.apply({0}, n)",
    "fx.scan(lambda a, r: (rules.bent(a) * 0.5 + r, a), {0}[0] * 0, {0})[1]",
    "fx.jit(lambda z: fx.cos(z) * n)({0})", "fx.jit(rules.bent)({0})",
    "fx.grad(lambda z: (fx.sin(z) * {1}).sum())({0})",
)  # fmt: skip
QUESTIONS = (
    "{0}.sum() > 0", "{0}.max() < {1}.min() + 1", "n > 1", "{0}[0] > 0.25", "{0}.requires_grad",
    "fx.is_grad_enabled()", "{0}.is_leaf", "{0}.grad_fn is None",
)  # fmt: skip
MODES = ("fx.no_grad()", "fx.no_grad()", "fx.enable_grad()", "fx.set_grad_enabled(n > 1)")
WAYS = ("values", "inside", "outside", "backward inside", "backward outside", "forward inside",
        "forward outside", "both outside")  # fmt: skip


def make(rng: random.Random) -> Program:
    """A function of a tensor and a number, and a way to take its derivative."""
    names, found = Names(), ["x", "x"]
    body = _block(rng, names, found, 0)
    last = rng.sample(sorted(set(found)), min(3, len(set(found))))
    total = " + ".join(f"{{{i}}}" for i in range(len(last)))
    body.append(Op("", f"return ({total}).sum()", tuple(last)))
    inputs = (
        Op("w", "fx.nn.Parameter(values.tensor((3,), 'float64', 5))"),
        Op("c", "values.tensor((3,), 'float64', 9)"),
    )
    simpler = ("compare.derived(f, 'values', w)", "compare.derived(f, 'inside', w)")
    asked = Op("", f"compare.derived(f, {rng.choice(WAYS)!r}, w)", (), simpler)
    return Program(
        "histories", TEMPLATE, {"inputs": inputs, "main": defined(["x", "n"], body, [asked])}
    )


def _block(rng: random.Random, names: Names, found: list[str], depth: int) -> list[Op]:
    body: list[Op] = []
    for _ in range(rng.randrange(1, 5)):
        a, b = rng.choice(found[-3:]), rng.choice(found)
        draw = rng.random()
        if draw < 0.2 and depth < 2:
            inner = _block(rng, names, found, depth + 1)
            body.append(Op("", f"with {rng.choice(MODES)}:\n    {{body}}", (), (), tuple(inner)))
            continue
        if draw < 0.4:
            text = f"{{0}} * 2 if {rng.choice(QUESTIONS)} else {{1}} - 0.5"
        else:
            text = rng.choice(HISTORIES if draw < 0.6 else SMOOTH)
        args = (a, b) if "{1}" in text else (a,)
        body.append(Op(names.new(), text, args, ("{0} * 2",)))
        found.append(body[-1].name)
    return body
