"""Python numbers as arguments: huge integers, infinities, -0.0, bools, NumPy's scalars.

A jitted function is called with one set of numbers after the other: what the first ones were
must not decide what later ones give.
"""

from __future__ import annotations

import random

from fx.testing.fuzz.generator import TEMPLATE, Names, defined, returned
from fx.testing.fuzz.program import Op, Program

INTEGERS = (
    "0", "1", "-1", "2", "3", "7", "10", "255", "256", "257", "-128", "-129", "2**31 - 1", "2**31",
    "-2**31", "2**32", "2**53 + 1", "2**62", "2**63 - 1", "-2**63", "2**63", "2**64 - 1", "2**64",
    "10**20",
)  # fmt: skip
FLOATS = (
    "0.0", "-0.0", "1.0", "0.5", "-2.5", "1e-30", "3e38", "1e39", "1e308", "float('inf')",
    "-float('inf')", "float('nan')", "2.0**53", "0.1", "-7.0", "5e-324",
)  # fmt: skip
OTHERS = (
    "True", "False", "np.float32(1.5)", "np.float64(0.1)", "np.int32(3)", "np.bool_(True)", "2j",
    "1 + 0.5j",
)  # fmt: skip
SCALAR = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} + 1", "{0} * {0}", "-{0}", "abs({0})", "{0} // 3",
    "{0} % 5", "{0} / 2", "{0} // {1}", "{0} % {1}", "{0} / {1}", "{0} ** 2", "max({0}, {1})",
    "min({0}, 3)", "{0} * 0.5", "{0} < {1}", "{0} == {1}", "{0} <= 2", "{0} != {1}", "{0} > {1}",
    "not {0}", "{0} and {1}", "{0} or {1}", "{0} if {0} > {1} else {1}", "round({0}, 1)",
    "int({0})", "float({0})", "bool({0})", "{0} if {0} else 5", "{0} & 6", "{0} | {1}", "{0} ^ 3",
    "{0} >> 1", "{0} << 2", "divmod({0}, 7)[1]", "({0}).bit_length()", "sum([{0}, {1}, 1])",
    "pow({0}, 2)", "str({0})", "isinstance({0}, int)", "complex({0}).real",
    "hash({0}) % 7 if {0} == {0} else 0",
    "math.isnan({0})", "math.floor({0})", "math.sqrt(abs({0}))", "{0} is None", "repr({0})",
    "[5, 6, 7][{0} % 3]", "len(range(abs(int({0})) % 9))", "{0}.__class__.__name__",
    "(1, 2.5, True).count({0})", "{0} in (1, 2, 3)",
)  # fmt: skip
TENSOR = (
    "x * {0}", "x + {0}", "{0} - x", "x / {0}", "x < {0}", "x == {0}", "x >= {0}",
    "fx.maximum(x, {0})", "fx.where(x > 0, x, {0})", "x ** {0}", "x // {0}", "x % {0}",
    "fx.full((3,), {0})", "fx.asarray({0})", "fx.clip(x, 0, {0})", "x * ({0} * {1})",
    "x * {0} * {1}", "x.at[0].set({0})", "fx.full_like(x, {0})", "fx.sum(x) * {0}", "x[{0} % 2]",
    "{0} * x + {1}", "fx.tensor([1.0, 2.0]) * {0}", "fx.tensor({0})", "fx.roll(x, {0} % 4)",
    "x.reshape(-1) * {0}", "fx.equal(x, {0})", "fx.power({0}, x)", "x & {0}", "x << ({0} % 4)",
    "fx.arange(abs({0}) % 6)", "fx.sum(x, axis={0} % 1)", "fx.masked_fill(x, x > 0, {0})",
    "x * bool({0})", "x[:{0}]", "x[{0}:]", "fx.repeat(x, {0} % 4)", "fx.pad(x, ({0} % 3, 1))",
    "fx.zeros(({0} % 4, 2))", "x[-{0}:]", "fx.tile(x, {0} % 3)", "fx.expand_dims(x, -({0} % 2))",
)  # fmt: skip
DTYPES = (
    "float32", "float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "int8",
    "bool", "complex64",
)  # fmt: skip


def make(rng: random.Random) -> Program:
    """A function of a tensor and one to three numbers, and three to five calls of it."""
    names = Names()
    dtype = rng.choice(DTYPES)
    shape = rng.choice(((4,), (4,), (2, 3), ()))
    text = f"values.tensor({shape}, {dtype!r}, {rng.randrange(50)})"
    inputs = (Op("x", text, (), (f"values.tensor({shape}, 'float32', 1)",)),)
    params = [f"n{i}" for i in range(rng.choice((1, 2, 2, 3)))]
    body, numbers, outs = [], list(params), []
    for _ in range(rng.randrange(1, 6)):
        kind = TENSOR if rng.random() < 0.5 else SCALAR
        text = rng.choice(kind)
        args = (
            (rng.choice(numbers[-3:]), rng.choice(numbers))
            if "{1}" in text
            else (rng.choice(numbers[-3:]),)
        )
        name = names.new()
        if rng.random() < 0.06:
            caught = rng.choice(
                ("OverflowError", "ZeroDivisionError", "ValueError", "TypeError", "Exception")
            )
            body.append(
                Op("", f"try:\n    {name} = {text}\nexcept {caught}:\n    {name} = 11", args)
            )
        elif rng.random() < 0.08:
            test = rng.choice(("{0} > 2", "{0} == {0}", "{0}", "{0} < 0.5"))
            body.append(Op("", f"if {test}:\n    {name} = {text}\nelse:\n    {name} = 3", args))
        else:
            body.append(Op(name, text, args))
        (numbers if kind is SCALAR else outs).append(name)
    kept = (outs + [n for n in numbers[-2:] if n not in params]) or params[:1]
    mixed = rng.random() < 0.3
    sets = rng.choice((INTEGERS, FLOATS, INTEGERS + FLOATS + OTHERS))
    rows = []
    for _ in range(rng.choice((2, 3, 4))):
        chosen = [rng.choice(INTEGERS + FLOATS + OTHERS if mixed else sets) for _ in params]
        if rng.random() < 0.4:
            chosen = [rng.choice(("1", "2", "3", "0.5", "2.0")) for _ in params]
        row = f"(x, {', '.join(chosen)})"
        rows.append(
            Op(
                "",
                f"each.append({row})",
                (),
                (f"each.append((x, {', '.join('2' for _ in params)}))",),
            )
        )
    main = defined(["x", *params], [*body, returned(kept)], [Op("", "compare.calls(f, *each)")])
    start = Op("", "import math\neach = []")
    return Program("numbers", TEMPLATE, {"inputs": (*inputs, start, *rows), "main": main})
