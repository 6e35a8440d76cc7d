"""Which transforms hold for each name that is there: probed, and kept in ``states.txt``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

from fx.testing.coverage.calls import states_of
from fx.testing.coverage.rows import Row

STATES = Path(__file__).with_name("states.txt")
NO_CALL = "-"  # constants, dtypes, questions, settings
RANKS = "*"  # what several ranks try in the tests
States = dict[str, dict[str, str]]  # letters by list and name


def probed(title: str, name: str) -> str:
    """The letters of a name, or ``NO_CALL``; ``RANKS`` where it needs several ranks."""
    if title.startswith("torch.distributed"):
        return RANKS
    found = states_of(title, name)
    return NO_CALL if found is None else found or NO_CALL


def probe(rows: Iterable[Row]) -> States:
    """All of them: about a minute."""
    return {row.title: {name: probed(row.title, name) for name in row.there} for row in rows}


def write_states(states: States) -> None:
    """Keep them: for each list a paragraph for each state."""
    text = []
    for title, found in states.items():
        text.append(f"[{title}]")
        for state in sorted(set(found.values())):
            names = " ".join(name for name, of_it in found.items() if of_it == state)
            text.append(fill(f"{state}: {names}", 100, subsequent_indent="  ") + "\n")
    STATES.write_text("\n".join(text))


def read_states() -> States:
    """Those that are kept."""
    parts = re.split(r"^\[(.+)\]$", STATES.read_text(), flags=re.M)[1:]
    return {title: _read(lines) for title, lines in zip(parts[::2], parts[1::2], strict=True)}


def _read(lines: str) -> dict[str, str]:
    found = re.findall(r"^(\S+):((?:.+\n)(?: .+\n)*)", lines, flags=re.M)
    return {name: state for state, names in found for name in names.split()}
