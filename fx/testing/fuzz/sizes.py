"""Functions called at one size after another: programs for any size against eager calls.

Once three sizes were staged, a new one is not: what Python was told of the first, a branch, a loop,
a bound, must not be in what later ones get.

A graph grows at one size, as in ``graphs.py``, of what models do along axes that vary: products,
masks, rows of tables, attention, norms. It is called at that size, at the next ones, which one
program is to serve, and at the borders of classes of sizes; or its derivatives are.
"""

from __future__ import annotations

import math
import random
import re
from typing import Any

from fx.tensor import Tensor
from fx.testing.fuzz import graphs
from fx.testing.fuzz.generator import TEMPLATE, defined, returned
from fx.testing.fuzz.graphs import LARGEST, Growth
from fx.testing.fuzz.program import Op, Program

BEGIN = (5, 9, 20, 21, 33, 40)
BORDERS = (1, 2, 3, 4, 15, 16, 17, 63, 64, 65, 130)
DERIVED = (False,) * 5 + (True,) * 3 + ("outside",) * 2
DTYPES = ("float32",) * 6 + ("float64", "bfloat16", "int64", "float16")
MODELS = (
    "{0} @ values.tensor(({0}.shape[-1], 7), 'float32', 3)",
    "fx.nn.functional.linear({0}, values.tensor((5, {0}.shape[-1]), 'float32', 4))",
    "{0} @ {0}.mT", "{0}.mT @ {0}", "fx.softmax({0} @ {0}.mT, axis=-1) @ {0}",
    "values.tensor((130, 6), 'float32', 5)[fx.arange({0}.shape[0])] * fx.mean({0})",
    "fx.take(values.tensor((9, 6), 'float32', 6), fx.arange({0}.shape[0]) % 9, axis=0)",
    "fx.take({0}, fx.arange({0}.shape[0]), axis=0)", "fx.tril({0})", "fx.triu({0}, 1)",
    "fx.where(fx.arange({0}.shape[0])[:, None] >= fx.arange({0}.shape[-1]), {0}, 0)",
    "fx.where(fx.arange({0}.shape[0]) > 3, fx.arange({0}.shape[0]), 7) * 0.25",
    "fx.nn.functional.scaled_dot_product_attention({0}[None], {0}[None], {0}[None])[0]",
    "fx.nn.functional.scaled_dot_product_attention("
    "{0}[None], {0}[None], {0}[None], is_causal=True)[0]",
    "fx.nn.functional.layer_norm({0}, {0}.shape[-1:])",
    "fx.nn.functional.batch_norm({0}, None, None, training=True)",
    "fx.nn.functional.cross_entropy({0}, fx.arange({0}.shape[0]) % {0}.shape[-1])",
    "{0}.reshape({0}.shape[0], 2, -1)", "{0}.reshape(-1)", "{0}[..., None] * {0}[..., None, :]",
    "{0} - {0}.mean(0)", "{0} / {0}.shape[0]", "fx.normalize({0}, axis=-1)",
    "fx.random.uniform(fx.random.key(3), {0}.shape) * {0}", "{0}.sum(0, keepdims=True) * {0}",
    "{0} * fx.arange({0}.shape[-1])", "fx.repeat({0}, 2, axis=0)", "{0}[1:] - {0}[:-1]",
    "fx.concat([{0}, fx.zeros((1, *{0}.shape[1:]))], axis=0)", "{0}[: {0}.shape[0] // 2]",
    "fx.cumsum({0}, 0)", "fx.logsumexp({0}, axis=0)", "{0}.var(-1, keepdims=True)", "{0}[-1] + {0}",
    "{0}.at[0].add(1.0)", "fx.max({0}, axis=-1)", "fx.sort({0}, axis=0)", "fx.flip({0}, axis=0)",
    "rules.bent({0})", "rules.leaning({0})", "rules.through({0})", "rules.Steep.apply({0}, 2)",
    "rules.Steep.apply({0}, {0}.shape[0])", "fx.checkpoint(rules.bent)({0})",
    "fx.scan(lambda c, r: (rules.bent(c) * 0.25 + r, c), {0}[0] * 0, {0})[1]",
)  # fmt: skip
ENDS = (  # sizes that are made of one: n - 1, n + 2, 2n + 1
    "{0}[:-1]", "{0}[2:]", "{0}[..., :-2]", "{0}[..., 1:]", "{0}[-2:]", "{0}[..., -1:] * {0}",
    "{0}[-1]", "{0}[..., -1]", "{0}[:-1] * {0}[1:]", "fx.diff({0}, axis=0)",
    "fx.roll({0}, 1, axis=0)", "fx.flip({0}, axis=-1)", "fx.roll({0}, -2, axis=-1)",
    "{0}[::-1] + {0}",
    "{0}[:, :-1].reshape(-1)[5]", "{0}[:, 1:].reshape(-1)[1:4]", "({0} * 2)[:-1].reshape(-1)[-3:]",
    "fx.flip({0}, axis=-1).reshape(-1)[2:9]", "{0}.mT.reshape(-1)[3:]",
    "{0}[..., 1:].reshape(-1)[7] * {0}",
    "fx.nn.functional.pad({0}, (1, 2))", "fx.nn.functional.pad({0}, (2, -1), value=1.5)",
    "fx.nn.functional.pad({0}, (0, 150 - {0}.shape[-1]))", "fx.concat([{0}, {0}[:1]], axis=0)",
    "fx.concat([{0}[..., -1:], {0}, {0}], axis=-1)", "fx.concat([{0}[:2], {0}[2:] * 2], axis=0)",
    "fx.concat([fx.ones((3, *{0}.shape[1:])), {0}], axis=0)", "{0}.at[-1].set(2.0)",
    "{0}.at[1:].multiply(0.5)", "{0}[[0, -1]]", "fx.take({0}, fx.tensor([1, 0, -1]), axis=-1)",
    "fx.argmax({0}, axis=0)", "fx.argmin({0}, axis=-1)", "{0}[:-1].mT @ {0}[:-1]",
    "{0}[..., 1:] @ {0}[..., :-1].mT", "{0} * fx.sin(fx.arange({0}.shape[0]) * 0.5)[:, None]",
    "{0} + fx.flip(fx.arange({0}.shape[-1]))", "fx.take({0}, fx.argmax({0}, axis=0), axis=0)",
    "fx.scan(lambda c, r: (c * 0.5 + r, c * r), {0}[0] * 0, {0})[1]",
    "fx.scan(lambda c, r: (c * 0.5 + r, c * r), {0}[0] * 0, {0}, reverse=True)[0]",
    "{0}.reshape(-1)[:-1]", "fx.stack([{0}[:-1], {0}[1:]], axis=1)",
)  # fmt: skip
WINDOWS = (  # of planes (n, 1, 6), and (6, 1, n)
    "fx.nn.functional.conv1d({0}[:, None], values.tensor((5, 1, 3), 'float32', 7), padding=1)",
    "fx.nn.functional.conv1d({0}[:, None], values.tensor((20, 1, 3), 'float32', 8), stride=2)",
    "fx.nn.functional.conv2d({0}[:, None, None], values.tensor((2, 1, 1, 3), 'float32', 9))",
    "fx.nn.functional.conv2d("
    "{0}[..., None, None], values.tensor((2, {0}.shape[1], 1, 1), 'float32', 9))[..., 0, 0]",
    "fx.nn.functional.conv_transpose1d("
    "{0}[:, None], values.tensor((1, 3, 4), 'float32', 9), stride=2)",
    "fx.nn.functional.max_pool1d({0}[:, None], 3, stride=2, padding=1)[:, 0]",
    "fx.nn.functional.max_pool1d({0}[:, None], 2)[:, 0]",
    "fx.nn.functional.avg_pool1d({0}[:, None], 3, stride=1, padding=1)[:, 0] * {0}",
    "fx.nn.functional.avg_pool1d({0}[:, None], 2)[:, 0]",
    "{0}[::2]", "{0}[1::2] * 2", "{0}[..., ::3]", "{0}[..., 1::2]", "{0}[::-2]",
    "fx.stack([{0}[: {0}.shape[0] // 2 * 2 : 2], {0}[1::2]], axis=1)",
    "{0}.at[::2].set(1.0)", "{0} * fx.linspace(0, 1, {0}.shape[-1])",
)  # fmt: skip
ASKS = (  # what Python makes of a size, or decides by one
    "{0} * 2 if {0}.shape[0] > {k} else {0}", "{0} * ({0}.shape[-1] == {k})",
    "sum([{0}[i] * i for i in range(min({0}.shape[0], {k}))], {0}[0])", "{0} / {0}.shape[0]",
    "{0}[: {0}.shape[0] // 2]", "{0}[{0}.shape[0] // 3 :]", "{0} * len({0})", "{0}[:{k}]",
    "{0}[-{k}:]", "{0}[{k}:]", "{0}[..., :{k}] * 1", "{0}[::{k}]", "{0}[1:-1]", "{0}[{k}:-{k}]",
    "{0} * {0}[::{k}].shape[0]", "{0} * ({0}.shape[0] % {k} + 1)", "{0} * -(-{0}.shape[-1] // {k})",
    "{0} * min({0}.shape[0], {k})", "{0} / {0}.shape[-1] ** 0.5", "{0} * 0.9 ** {0}.shape[0]",
    "{0} * (2.5 * {0}.shape[0])", "{0} * [1, 2, 3][{0}.shape[0] % 3]", "{0} * len(str({0}.shape))",
    "{0} * {{{k}: 3}}.get({0}.shape[-1], 2)", "{0} * ({0}.size > {k} * {k})",
    "{0} * min({0}.size(0), {k})", "{0}.reshape({0}.shape[0], -1)",
    "{0}.reshape(-1, {0}.shape[-1])",
    "{0}.view(1, *{0}.shape)", "{0}.reshape({0}.size // 2, 2)", "fx.arange({0}.shape[0], {k} + 9)",
    "fx.arange(0, {0}.shape[0], {k})", "fx.zeros(({0}.shape[0], {k}))",
    "fx.ones({0}.shape[0] % {k} + 1) * fx.mean({0})", "fx.zeros((max({k} - {0}.shape[0], 0) + 1,))",
    "fx.concat(fx.split({0}, {k}, 0)[::-1], 0)", "fx.concat(fx.chunk({0}, {k}, 0)[::-1], 0)",
    "fx.squeeze({0}[{k} - 1 :], 0) if {0}.shape[0] == {k} else {0}", "fx.squeeze({0}[{k}:])",
    "{0} * fx.ones((4, 130))[:, : {0}.shape[-1]].sum()", "fx.tril(fx.ones((130, 130)))"
    "[: {0}.shape[0], : {0}.shape[0]] * fx.mean({0})", "fx.broadcast_to({0}, (2, *{0}.shape))",
    "fx.ones((130, 6))[: {0}.shape[0] + 1] * fx.mean({0})", "{0} * type({0}.shape[0])({k})",
    "fx.ones((130, 6))[{0}.shape[0] - 1] * fx.mean({0})", "{0} if {0}.shape != ({k}, 6) else -{0}",
)  # fmt: skip
SHAPES = re.compile(r"\{\d\}\.(?:shape|size\b)|len\(\{\d\}\)|(?:zeros|ones|full)_like\(\{\d\}")
KINDS = (
    graphs.SMOOTH, graphs.PAIRS, graphs.SUMS, MODELS, MODELS, MODELS, ENDS, ENDS, WINDOWS, WINDOWS,
    graphs.MOVES, ASKS, ASKS, ASKS,
)  # fmt: skip


def make(rng: random.Random) -> Program:
    """A graph of up to ten operations on one or two inputs."""
    sizes = [rng.choice(BEGIN)]
    sizes += [sizes[0] + rng.choice((1, 2)), sizes[0] + 3, sizes[0] + rng.choice((4, 5))]
    sizes += [*rng.sample(BORDERS, rng.choice((1, 2, 3))), rng.randrange(2, 140)]
    if rng.random() < 0.3:
        rng.shuffle(sizes)
    grow = _Growth(rng, sizes[0] if sizes[0] in BEGIN else BEGIN[0])
    while len(grow.inputs) < rng.choice((1, 2)):
        grow.added()
    for _ in range(rng.randrange(1, 10)):
        grow.operation()
    names = [op.name for op in grow.body] or [op.name for op in grow.inputs]
    kept = names[-1:] + [n for n in names[:-1] if rng.random() < 0.25]
    # what no number needs may fail at another size, and jit leaves it out
    body, shaped = _needed(grow.body, kept)
    kept += shaped
    params = [op.name for op in grow.inputs]
    derived = rng.choice(DERIVED)
    asked = Op("", f"compare.at_sizes(f, {sizes}, [{{all}}], derived={derived!r})", tuple(params))
    main = defined(params, [*body, returned(kept)], [asked])
    return Program("sizes", TEMPLATE, {"inputs": tuple(grow.inputs), "main": main})


def _needed(body: list[Op], kept: list[str]) -> tuple[list[Op], list[str]]:
    """The operations that results are made of, and the names of those that only shapes need."""
    needed, numbers, found, shaped = {*kept}, {*kept}, [], []
    for op in reversed(body):
        if op.name not in needed:
            continue
        found.append(op)
        if op.name not in numbers:
            shaped.append(op.name)
        needed.update(op.args)
        rest = SHAPES.sub("", op.text)
        numbers.update(arg for i, arg in enumerate(op.args) if f"{{{i}}}" in rest)
    return found[::-1], shaped


class _Growth(Growth):
    """A graph whose inputs are functions of a size."""

    def __init__(self, rng: random.Random, size: int) -> None:
        super().__init__(rng)
        self.size, self.special = size, "none"

    def added(self) -> None:
        """Add an argument."""
        rng = self.rng
        shape = rng.choice(("n, 6", "n, 6", "n, 6", "6, n", "n,", "2, n, 6", "n, n", "n, 64"))
        seed, dtype = rng.randrange(100), rng.choice(DTYPES)
        simpler = tuple(
            f"lambda n: values.tensor(({s}), 'float32', {seed})" for s in ("n, 6", "n,")
        )
        name = self.names.new("x")
        op = Op(name, f"lambda n: values.tensor(({shape}), {dtype!r}, {seed})", (), simpler)
        self.values[name] = eval(op.text, self.space)(self.size)
        self.inputs.append(op)

    def _grown(self) -> bool:
        rng = self.rng
        names = list(self.values)
        first = rng.choice(names[-4:])
        kind = rng.choice(KINDS)
        text = rng.choice(kind)
        if kind is ASKS:
            text = text.replace("{k}", str(rng.choice((2, 3, 4, 6, 7, 9, 12, 20))))
            text = text.replace("{{", "{").replace("}}", "}")
        args = (first, rng.choice(names)) if "{1}" in text else (first,)
        op = Op(self.names.new(), text, args)
        if self._try(op) is None:
            return False
        self.body.append(op)
        return True

    def _try(self, op: Op) -> Any:
        value = super()._try(op)
        if not isinstance(value, Tensor):
            return value
        power = max(2.0, math.log(max(value.size, 1), self.size))  # an outer product is of n ** 4
        if value.size * (130 / self.size) ** power <= 4 * LARGEST:
            return value
        del self.values[op.name]
        return None
