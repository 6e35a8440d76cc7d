"""Arguments with which the names of the lists can be called: those in ``calls.txt``, or a guess."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fx
import fx.torch
from fx.testing.coverage.probe import Call, quiet, states
from fx.testing.coverage.rows import LISTS, place_of

CALLS = Path(__file__).with_name("calls.txt")
# functions that would change how this process computes, write files or start something
_NOT_CALLED = re.compile(
    r"^(set_|use_|manual_seed|seed|save|load|compile|from_file|requires_|register_|retain)"
)


def _arrays() -> dict[str, Any]:
    """The arrays that calls are made of, each of a size of its own."""
    rng = np.random.default_rng(1)
    half = rng.uniform(0.1, 0.9, (3, 3))
    return {
        "X": np.where(np.eye(3), 0.9, 0.1) + rng.uniform(0, 0.01, (3, 3)),  # every domain's
        "S": half @ half.T * 0.2 + 0.5 * np.eye(3), "Y": half, "P": 1 + half,
        "V": half[0].copy(), "W": half[1].copy(), "s": np.array(0.4),
        "T": rng.uniform(0.1, 0.9, (2, 3, 4)), "IM": rng.uniform(0, 1, (2, 3, 6, 6)),
        "VOL": rng.uniform(0, 1, (1, 2, 4, 4, 4)), "K1": rng.uniform(0, 1, (3, 3, 2)),
        "K2": rng.uniform(0, 1, (3, 3, 3, 3)), "K3": rng.uniform(0, 1, (2, 2, 2, 2, 2)),
        "LINE": rng.uniform(0, 1, (2, 3, 8)),
        "I": np.array([[0, 2, 1], [1, 0, 2], [2, 1, 0]]), "J": np.array([2, 0, 1]),
        "B": np.array([[True, False, True], [False, True, True], [True, True, False]]),
        "C": half + 1j * half.T, "Z": half[0] + 1j * half[1],
        "np": np, "fx": fx,
    }  # fmt: skip


_GUESSES = """
X | X, Y | V | V, W | S | X, 2 | X, 1 | V, 2 | X, 0 | X, Y, P | X, V | S, V | V, W, V | [X, Y]
[V, W] | I | I, I | J | B | B, Y | C | C, C | X, J | X, (0, 1) | X, (1, 0) | X, (3, 3) | X, 0, J
X, 0, J, Y | X, 0, 1 | X, I | X, 1, I | X, B | X, B, Y | B, X, Y | X, [1] | X, B, 0.5 | IM | LINE
T | T, 2 | IM, 2 | LINE, 2 | VOL, 2 | X, J, 0.5 | X, s | 3 | 0.5 | (2, 3) | 0, 1, 3 | 1, 4
X, 1, I, Y | X, 1, I, 0.5 | X, 0, J, 0.5 | X, 0, 1, 2 | V, 0, 3 | J, 3 | X, 0.5, 0.9 | 2, X | 2, V
X, fx.float32 | X, 'float64' | X, [0, 1], [1, 0] | LINE, K1 | IM, K2 | VOL, K3 | X, X, X, X
T, T.mT | S, V, 0 | X, X, V | V, X, V | X, P, Y, 0.5 | 'float32' | 'ij,jk->ik', X, Y | LINE, 3, 2
"""
GUESSES = tuple(
    f"f({part.strip()})" for part in _GUESSES.replace("\n", "|").split("|") if part.strip()
)


class Written(NamedTuple):
    """A line of ``calls.txt``: the expression, and letters of transforms that are not asked for."""

    text: str
    without: str


@cache
def written() -> dict[str, Written]:
    """The lines of ``calls.txt`` by name, which may have its list before it.

    A line without an expression says that no call gives tensors.
    """
    found = {}
    for line in CALLS.read_text().splitlines():
        if line.strip() and line[0] != "#":
            name, _, text = line.partition(":")
            name, _, without = name.partition("-")
            found[name.strip()] = Written(text.strip(), without.strip())
    return found


def line_of(title: str, name: str) -> Written | None:
    """What ``calls.txt`` says of a name of a list."""
    lines = written()
    last = name.rpartition(".")[2]
    return next((lines[n] for n in (f"{title}/{name}", last) if n in lines), None)


def call_of(title: str, name: str) -> Call | None:
    """A call of a name of a list that gives tensors; None where there is none.

    Raises:
        ValueError: where that of ``calls.txt`` does not work.
    """
    function = place_of(LISTS[title], name)
    if not callable(function) or isinstance(function, type) or _NOT_CALLED.match(name):
        return None
    if title == "torch.Tensor":
        function = _method(name)
    line = line_of(title, name)
    if line is not None and not line.text:
        return None
    arrays = _arrays()
    for text in GUESSES if line is None else [line.text]:
        call = Call(function, text, arrays)
        if _works(call):
            return call
    if line is not None:
        raise ValueError(f"{CALLS.name}: {name}: {line.text} does not work")
    return None


def _method(name: str) -> Callable[..., Any]:
    room = {"torch": fx.torch, "__name__": "call"}  # which may write
    return eval(f"lambda x, *args, **kwargs: x.{name}(*args, **kwargs)", room)  # type: ignore[no-any-return]


def _works(call: Call) -> bool:
    try:
        with quiet():
            return bool(call.values(call.arrays))
    except Exception:
        return False


def states_of(title: str, name: str) -> str | None:
    """The letters of ``states`` for a name; None where no call of it gives tensors."""
    call = call_of(title, name)
    if call is None:
        return None
    line = line_of(title, name)
    return "".join(s for s in states(call) if line is None or s.lower() not in line.without)
