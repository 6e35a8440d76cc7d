"""Hangs and disagreement, as the launcher reads them from the flight recorders of its ranks."""

from __future__ import annotations

import contextlib
import math
import os
import time
from itertools import pairwise

from fx.distributed import recorder
from fx.distributed.launch.ranks import Ranks
from fx.distributed.launch.worker import STACKS
from fx.distributed.recorder import GRAPHS, Flight, Record

_PATIENCE = 1.0  # seconds for a rank to write its stacks


class Watch:
    """Looks at the recorders of the ranks of this host."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = {rank.rank: rank for rank in ranks.ranks}

    def look(self, failed: int | None = None) -> str | None:
        """What is wrong: a wait past its timeout, or programs that differ. None: nothing.

        Of a rank that has ``failed`` in a wait, the wait is told, however long it was.
        """
        flights = {}
        for number, rank in self._ranks.items():
            flight = recorder.read(rank.folder / "flight")
            if flight is not None:
                flights[number] = flight
        return different(flights) or self._hang(flights, failed)

    def _hang(self, flights: dict[int, Flight], failed: int | None) -> str | None:
        now = time.monotonic()
        for rank, flight in flights.items():
            limit = 0.0 if rank == failed else flight.timeout or math.inf
            for record in flight.records:
                if record.state == "begun" and now - record.begun > limit:
                    return self._report(flights, record, flight.timeout, now)
        return None

    def _report(self, flights: dict[int, Flight], stuck: Record, limit: float, now: float) -> str:
        waiting, missing = [], []
        for rank in sorted(self._ranks):
            flight = flights.get(rank)
            mine = [r for r in flight.records if r.group == stuck.group] if flight else []
            last = mine[-1] if mine else None
            if last is not None and last.sequence >= stuck.sequence:
                word = "waits in" if last.state == "begun" else f"has {last.state}"
                waiting.append(f"  rank {rank} {word} {_named(last)}, {last.line}")
                continue
            where = f"its last was {_named(last)}, {last.line}" if last else "it has begun none"
            stack = "".join(f"      {line}\n" for line in self._stack(rank))
            missing.append(f"  rank {rank} has not come: {where}; it is at\n{stack.rstrip()}")
        head = f"{_named(stuck)} of group {stuck.group!r} has waited {now - stuck.begun:.1f} s " + (
            f"(timeout {limit:g} s)" if limit else "(no timeout was given)"
        )
        if not missing:
            missing = [
                "  every rank of this host has come; look at the other hosts, or the network"
            ]
        return "\n".join([head, *waiting, *missing])

    def _stack(self, rank: int) -> list[str]:
        """The stacks of a rank's threads, which it writes at a signal, also while it is in C."""
        if self._ranks[rank].code is not None:
            return ["(its end)"]
        path = self._ranks[rank].folder / "stacks"
        with contextlib.suppress(OSError):
            before = path.stat().st_size
            os.kill(self._ranks[rank].pid, STACKS)
            end = time.monotonic() + _PATIENCE
            while path.stat().st_size == before and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.02)
            return path.read_text()[before:].splitlines()
        return ["(its stack cannot be had)"]


def _named(record: Record) -> str:
    size = f", {record.bytes} bytes" if record.bytes else ""
    return f"{record.op} #{record.sequence}{size}"


def different(flights: dict[int, Flight]) -> str | None:
    """Two ranks whose compiled programs differ, by the first that does; None where they agree."""
    told: dict[int, dict[int, Record]] = {
        rank: {r.sequence: r for r in flight.records if r.group == GRAPHS}
        for rank, flight in flights.items()
    }
    for one, other in pairwise(sorted(told)):
        for sequence in sorted(told[one].keys() & told[other].keys()):
            mine, theirs = told[one][sequence], told[other][sequence]
            if mine.op != theirs.op:
                return (
                    f"ranks {one} and {other} compiled different programs, so their collectives "
                    f"would not meet: program {sequence} is {mine.op} ({mine.line}) on rank {one}, "
                    f"{theirs.op} ({theirs.line}) on rank {other}; let no value that differs "
                    f"between ranks choose what is computed"
                )
    return None
