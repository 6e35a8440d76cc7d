"""Random programs with Python control flow on values, as source text, for tests of ``jit``."""

from __future__ import annotations

import linecache
from contextlib import contextmanager
from itertools import count

from hypothesis import strategies as st

import fx
from fx.transforms.jitting import compiled

_numbers = count()

# statements that keep a and b of shape (3,), and values of moderate size
PLAIN = (
    "a = a * 0.5 + b",
    "b = fx.sin(a) + {c}",
    "a = a - b.mean()",
    "b = fx.tanh(b * k)",
    "a, b = b, a",
    "k = k + 1",
    "k = -k if k > {n} else k",
    "a = fx.tanh(a) * {c} + scale",
    "b = b + fx.arange(3, dtype=fx.float64) * k",
)
ASKING = (
    "k = int(a.max() * 2) % 5",
    "k = k + round(b.min().item()) % 3",
    "a = a + len(a[a > {c}])",
    "b = b + a[a > b].sum()",
    "b = b * 0.3 + fx.nonzero(a > {c})[0].shape[0]",
    "b = b + fx.unique_values(fx.sign(a)).size * 0.1",
    "a = a + float(b[k % 3]) * 0.1",
    "a = a + b.masked_select(a < b).sum()",
    "b = b - fx.argwhere(b > {c}).sum() * 0.01",
)
CONDITIONS = (
    "a.sum() > {c}",
    "bool((a > b).any())",
    "k > {n}",
    "k % 2 == 0",
    "b.max().item() > {c} and k < {n}",
    "not (a > {c}).all()",
    "int(a[0]) in (0, 1)",
)
OF_NUMBERS = ("k > {n}", "k % 2 == 0", "-1 <= k < {n}", "k == {n} or k == -{n}")
LOOPS = (
    "for i in range(int(b.abs().sum()) % 3):",
    "for i in range(abs(k) % 3):",
    "while a.abs().sum() > 4:",
    "for v in (a, b):",
)


@st.composite
def blocks(draw, depth=2, asking=True):
    """Lines of a block; whether they may ask for the value of a tensor."""
    lines = []
    for _ in range(draw(st.integers(1, 3 if depth else 2))):
        kinds = ["plain", "plain", *(["asking"] if asking else [])]
        kinds += ["if", "loop"] if depth else []
        kind = draw(st.sampled_from(kinds))
        if kind in ("plain", "asking"):
            lines.append(_filled(draw, PLAIN if kind == "plain" else ASKING))
            continue
        if kind == "if":
            conditions = CONDITIONS if asking else OF_NUMBERS
            lines.append(f"if {_filled(draw, conditions)}:")
            lines += [f"    {line}" for line in draw(blocks(depth - 1, asking))]
            if draw(st.booleans()):
                lines.append("else:")
                lines += [f"    {line}" for line in draw(blocks(depth - 1, asking))]
            continue
        loop = draw(st.sampled_from(LOOPS if asking else LOOPS[1::2]))
        lines.append(loop)
        if loop.startswith("while"):
            lines += ["    a = a / 2", f"    {_filled(draw, PLAIN[4:6])}", "    a = a * 0.9"]
            lines += ["    if b.abs().sum() > 4:", "        b = b * 0.1"]
        else:
            lines += [f"    {line}" for line in draw(blocks(depth - 1, asking))]
    return lines


def _filled(draw, templates):
    text = draw(st.sampled_from(templates))
    return text.format(c=draw(st.sampled_from((-0.5, 0.0, 0.25, 1.0))), n=draw(st.integers(-1, 2)))


@st.composite
def programs(draw, asking=True):
    """The source of a function of ``x`` (3,), ``y`` (3,) and a Python number ``k``.

    Args:
        asking: whether it may ask for the value of a tensor.
    """
    body = draw(blocks(asking=asking))
    return "\n".join(
        ["def f(x, y, k):", "    a, b = x, y", *[f"    {line}" for line in body],
         "    return a, b, k, (a * b).sum()"]
    )  # fmt: skip


@contextmanager
def interpreted():
    """A block in which graphs are interpreted, since compiling each of many takes long."""
    before = compiled._compile
    compiled._compile = lambda graph, donated=(): compiled.Interpreted(graph)
    try:
        yield
    finally:
        compiled._compile = before


def function_of(source):
    """The function; its lines are known to tracebacks."""
    name = f"<random program {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"fx": fx, "scale": 0.5}
    exec(compile(source, name, "exec"), scope)
    return scope["f"]
