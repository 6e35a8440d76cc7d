"""The lists of names, made of the peers: their public functions, no classes and no constants."""

from __future__ import annotations

import inspect
from importlib import import_module
from textwrap import fill
from typing import Any

from fx.testing.coverage.rows import LISTS, NAMES, read_lists

_JAX_SCIPY = "special linalg fft signal stats integrate ndimage optimize"


def _functions(found: Any, prefix: str = "") -> list[str]:
    """Public callables of a module or class; no classes, and nothing of ``typing``."""
    return [
        prefix + name
        for name in dir(found)
        if not name.startswith("_")
        and callable(value := getattr(found, name, None))
        and not inspect.isclass(value)
        and type(value).__module__ != "typing"
    ]


def names_of(title: str) -> list[str] | None:
    """The names of a list; None where there is no peer to ask: the standard is a text."""
    if title.startswith("Array API"):
        return None
    if title == "jax.scipy":
        rooms = _JAX_SCIPY.split()
        each = [_functions(import_module(f"{title}.{room}"), f"{room}.") for room in rooms]
        return [name for names in each for name in names]
    home, _, last = title.rpartition(".")
    found = getattr(import_module(home), last) if last == "Tensor" else import_module(title)
    return _functions(found)


def write_lists() -> None:
    """Make ``names.txt`` anew; the list of a peer that is not installed stays as it is."""
    known = read_lists()
    for title in LISTS:
        try:
            names = names_of(title)
        except ImportError:
            continue
        if names is not None:
            known[title] = sorted(names)
    text = [f"[{title}]\n{fill(' '.join(known[title]), 100)}\n" for title in LISTS]
    NAMES.write_text("\n".join(text))
