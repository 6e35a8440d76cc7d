"""The coverage page as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import fill

import fx
from fx.testing.coverage.probe import LETTERS
from fx.testing.coverage.rows import ASIDE, LISTS, Row
from fx.testing.coverage.states import NO_CALL, RANKS, States

PAGE = Path(fx.__file__).parent / "COVERAGE.md"


def _line(row: Row) -> tuple[str, ...]:
    aside = sum(map(len, row.aside.values()))
    places = " or ".join(LISTS[row.title]).replace("{0}", "*")
    counts = map(str, (len(row.there), len(row.missing), aside))
    return (row.title, places, *counts, f"{100 * row.share:.1f} %")


HEAD = ("names of", "looked for in", "there", "missing", "aside", "of those not aside")


def summary(rows: Iterable[Row]) -> str:
    """The totals, a line a list, as a table of markdown."""
    lines = [HEAD, tuple("---" if i < 2 else "---:" for i in range(len(HEAD)))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [*lines, *map(_line, rows)])


def _list(label: str, names: Iterable[str]) -> str:
    code = " ".join(f"`{name}`" for name in names)
    return fill(f"- {label}: {code}", 118, subsequent_indent="  ", break_long_words=False,
                break_on_hyphens=False)  # fmt: skip


def _grouped(words: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of each word."""
    groups: dict[str, list[str]] = {}
    for name, word in words.items():
        groups.setdefault(word, []).append(name)
    return groups


def _words(state: str) -> str:
    """``"gjVcm"`` in words."""
    if state == NO_CALL:
        return "gives no tensors"
    if state == RANKS:
        return "there"
    held = [word for letter, word in LETTERS.items() if letter in state]
    not_held = [word for letter, word in LETTERS.items() if letter.upper() in state]
    return ", ".join(held or ["none"]) + (f"; not {', '.join(not_held)}" if not_held else "")


def _section(row: Row, states: Mapping[str, str]) -> str:
    parts = [_list(f"missing, {why}", names) for why, names in _grouped(row.missing).items()]
    parts += [
        _list(f"aside, {ASIDE[kind]}", row.aside[kind]) for kind in ASIDE if kind in row.aside
    ]
    groups = _grouped({name: _words(states[name]) for name in row.there})
    parts += [_list(words, groups[words]) for words in sorted(groups, key=lambda w: (";" in w, w))]
    return f"## {row.title}\n\n" + "\n".join(parts) + "\n"


def held(states: Mapping[str, str]) -> str:
    """How many of a list's names hold under each transform that applies to them, as a row."""
    cells = []
    for letter in LETTERS:
        yes, no = (sum(c in s for s in states.values()) for c in (letter, letter.upper()))
        cells.append(f"{yes} of {yes + no}")
    return " | ".join(cells)


def transforms(states: States) -> str:
    """The table of transforms, a line a list."""
    head = f"| names of | {' | '.join(LETTERS.values())} |\n| --- |{' ---: |' * len(LETTERS)}\n"
    tried = {title: found for title, found in states.items() if {*found.values()} != {RANKS}}
    return head + "\n".join(f"| {title} | {held(found)} |" for title, found in tried.items())


_HEAD = """\
# Names: what is there, and what is not

Written by `python -m fx.testing.coverage --write`; `--lists` makes the lists of names anew of the peers
that are installed (their public functions, no classes; of `torch.distributed` these too, in all modules
below, by the names that scripts import). A name is *there* if it can be had where the
second column says. What is *aside* fx does not mean to have: it says so by name, and each kind has a word
below. That a name is there says nothing of how it computes: the tests
compare each with its peer, and the laws hold every primitive to every transform (`python -m fx.testing`,
`python -m fx.testing.native`).

Which *transforms* hold is found by a call of each name with small arrays (`fx/testing/coverage/calls.txt`, or a
guess): the gradient and the pushed tangent are what differences say, vmap what a loop says, jit what the eager
call says, meta its shapes and dtypes. A transform that a name has no use for (a gradient where all results
are integers) is not counted. Random numbers under vmap are held to their shapes. What needs several ranks is
tried in `tests/distributed`.
"""  # noqa: E501


def page(rows: Iterable[Row], states: States) -> str:
    """The page in markdown: totals, then each list with every name."""
    rows = list(rows)
    sections = [_section(row, states[row.title]) for row in rows]
    return "\n".join([_HEAD, summary(rows), "", transforms(states), "", *sections])
