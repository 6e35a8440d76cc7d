"""The coverage page as text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

import fx
from fx.testing.coverage.rows import ASIDE, LISTS, Row

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


def _section(row: Row) -> str:
    words: dict[str, list[str]] = {}
    for name, why in row.missing.items():
        words.setdefault(why, []).append(name)
    parts = [_list(f"missing, {why}", names) for why, names in words.items()]
    parts += [
        _list(f"aside, {ASIDE[kind]}", row.aside[kind]) for kind in ASIDE if kind in row.aside
    ]
    parts.append(_list("there", row.there))
    return f"## {row.title}\n\n" + "\n".join(parts) + "\n"


_HEAD = """\
# Names: what is there, and what is not

Written by `python -m fx.testing.coverage --write`; `--lists` makes the lists of names anew of the peers
that are installed (their public functions, no classes). A name is *there* if it can be had where the
second column says. What is *aside* fx does not mean to have: it says so by name, and each kind has a word
below. `jax.lax` has no room of its own: its names are looked for in `fx`, where a few (`max`, `min`, `pad`,
`select`, `sort`) have NumPy's arguments. That a name is there says nothing of how it computes: the tests
compare each with its peer, and the laws hold every primitive to every transform (`python -m fx.testing`,
`python -m fx.testing.native`).
"""  # noqa: E501


def page(rows: Iterable[Row]) -> str:
    """The page in markdown: totals, then each list with every name."""
    rows = list(rows)
    return "\n".join([_HEAD, summary(rows), "", *map(_section, rows)])
