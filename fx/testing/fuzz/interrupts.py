"""Exceptions of signal handlers in training: a step or a load happens whole or not at all."""

from __future__ import annotations

import random

from fx.testing.fuzz.program import Op, Program

TEMPLATE = """\
def test_found():
    from fx.testing.fuzz import training

    {model}

    {main}
"""
PLAIN = "lambda p: fx.optim.Adam(p)"
OPTIMIZERS = (
    "SGD(p, lr=0.1)", "SGD(p, lr=0.1, momentum=0.9, nesterov=True)", "Adam(p, lr=0.01)",
    "AdamW(p, lr=0.01, amsgrad=True)", "NAdam(p)", "RAdam(p)", "Adamax(p)", "Adagrad(p)",
    "Adadelta(p)", "RMSprop(p, momentum=0.9, centered=True)", "Rprop(p)", "ASGD(p)",
    "SGD(p, lr=0.1, weight_decay=0.1, maximize=True)", "Adam(p, weight_decay=0.1)",
)  # fmt: skip
LAYERS = (
    "fx.nn.Linear(64, 64)", "fx.nn.Tanh()", "fx.nn.LayerNorm(64)", "fx.nn.GELU()",
    "fx.nn.Linear(64, 64, bias=False)", "fx.nn.PReLU()",
    "fx.nn.Sequential(fx.nn.Linear(64, 9), fx.nn.ReLU(), fx.nn.Linear(9, 64))",
    "fx.nn.Unflatten(1, (8, 8)), fx.nn.Flatten()",
)  # fmt: skip


def world(rng: random.Random) -> tuple[Op, ...]:
    """A model and its optimizer, as the first arguments of ``training``'s checks."""
    layers = [LAYERS[0], *[rng.choice(LAYERS) for _ in range(rng.choice((0, 1, 2, 4)))]]
    chosen = rng.choice(OPTIMIZERS)
    return (
        Op("", "layers = lambda: [{all}]", tuple(layers)),
        Op("", f"optimizer = lambda p: fx.optim.{chosen}", (), (f"optimizer = {PLAIN}",)),
    )


def make(rng: random.Random) -> Program:
    """A small model in training, or that is loaded, and how often it is hit."""
    if rng.random() < 0.3:
        what = rng.choice(("module", "optimizer", "restore", "to"))
        load = (
            f"training.interrupted_load(layers, optimizer, {what!r}, {rng.randrange(1000)}, hits="
        )
        main = Op("", f"{load}30)", (), (f"{load}150)",))
        return Program("interrupts", TEMPLATE, {"model": world(rng), "main": (main,)})
    how = rng.choice(("jit", "jit", "eager", "backward"))
    hits = f"training.interrupted(layers, optimizer, {how!r}, {rng.randrange(1000)}, hits="
    calm = rng.choice(("", "", ", calm=0"))
    main = Op("", f"{hits}40{calm})", (), (f"{hits}150{calm})",))
    return Program("interrupts", TEMPLATE, {"model": world(rng), "main": (main,)})
