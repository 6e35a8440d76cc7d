"""Actions: what a rank of a pipeline does, one after the other, and lists of them as text.

An order is a list of actions for each rank. ``orders.py`` makes those that compute, and
``with_messages`` adds what passes between ranks; ``proof.py`` goes through an order without
computing, ``running.py`` runs one.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from fx.errors import ArgumentError

FORWARD, FULL, INPUT, WEIGHT = "F", "B", "I", "W"
SEND_F, RECV_F, SEND_B, RECV_B = "SEND_F", "RECV_F", "SEND_B", "RECV_B"
COMPUTES = (FORWARD, FULL, INPUT, WEIGHT)
_WRITTEN = re.compile(r"(\d+)(F|B|I|W|SEND_F|RECV_F|SEND_B|RECV_B)(\d+)")


class Action(NamedTuple):
    """One thing that a rank does with one micro-batch in one stage; ``"2F0"`` as text.

    ``F`` is the forward pass, ``B`` the backward pass, whose halves are ``I``, the cotangents of
    the stage's inputs, and ``W``, those of its weights. ``SEND_F`` sends a stage's results to the
    next one, ``RECV_F`` takes what the one before sent; ``SEND_B`` and ``RECV_B`` the same
    backwards.
    """

    stage: int
    kind: str
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"

    @classmethod
    def read(cls, text: str) -> Action:
        """The action of a text.

        Raises:
            ArgumentError: if it is none.
        """
        found = _WRITTEN.fullmatch(text.strip())
        if found is None:
            raise ArgumentError(
                f"{text!r} is no action of a pipeline; write stage, kind and micro-batch, as in "
                f"2F0 (kinds: F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B)"
            )
        return cls(int(found[1]), found[2], int(found[3]))


Order = list[list[Action]]  # one list a rank


def homes(order: Sequence[Iterable[Action]]) -> dict[int, int]:
    """The rank of each stage.

    Raises:
        ArgumentError: if two ranks compute for one stage.
    """
    found: dict[int, int] = {}
    for rank, actions in enumerate(order):
        for action in actions:
            if found.setdefault(action.stage, rank) != rank:
                raise ArgumentError(
                    f"stage {action.stage} is in ranks {found[action.stage]} and {rank} (at "
                    f"{action}); all actions of a stage are of one rank"
                )
    return found


def with_messages(order: Order) -> Order:
    """The same with messages: a result is sent when it is there, and taken when it is asked for."""
    home = homes(order)
    last = max(home, default=0)
    apart = lambda a, b: 0 <= b <= last and home.get(a) != home.get(b)
    out: Order = []
    for actions in order:
        listed: list[Action] = []
        for action in actions:
            s, kind, m = action
            if kind == FORWARD:
                before, after, take, send = s - 1, s + 1, RECV_F, SEND_F
            elif kind in (FULL, INPUT):
                before, after, take, send = s + 1, s - 1, RECV_B, SEND_B
            else:
                listed.append(action)
                continue
            listed += [Action(s, take, m)] if apart(s, before) else []
            listed.append(action)
            listed += [Action(s, send, m)] if apart(s, after) else []
        out.append(listed)
    return out


def forward_only(order: Order) -> Order:
    """The same without a way back."""
    return [[a for a in actions if a.kind in (FORWARD, SEND_F, RECV_F)] for actions in order]


def write_csv(order: Order, path: str | Path) -> None:
    """Write an order as a file: a row a rank, a column an action."""
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([map(str, actions) for actions in order])


def read_csv(path: str | Path) -> Order:
    """The order of such a file; empty fields, which mean to wait, are left out."""
    with Path(path).open(newline="") as file:
        return [[Action.read(text) for text in row if text.strip()] for row in csv.reader(file)]
