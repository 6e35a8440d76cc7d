"""Hangs and disagreement, as the launcher reads them from the flight recorders of its ranks."""

from __future__ import annotations

import contextlib
import os
import time
from itertools import pairwise
from pathlib import Path

from fx.distributed import recorder
from fx.distributed.launch.worker import STACKS
from fx.distributed.recorder import GRAPHS, Flight, Record

_PATIENCE = 1.0  # seconds for a rank to write its stacks


class Watch:
    """Looks at the recorders of the ranks of this host: ``pids`` and folders by rank."""

    def __init__(self, pids: dict[int, int], folders: dict[int, Path]) -> None:
        self._pids = pids
        self._folders = folders

    def look(self) -> str | None:
        """What is wrong: a wait past its timeout, or programs that differ. None: nothing."""
        flights = {}
        for rank, folder in self._folders.items():
            flight = recorder.read(folder / "flight")
            if flight is not None:
                flights[rank] = flight
        return different(flights) or self._hang(flights)

    def _hang(self, flights: dict[int, Flight]) -> str | None:
        now = time.monotonic()
        for flight in flights.values():
            last = flight.records[-1] if flight.records else None
            waits = last is not None and last.state == "begun" and flight.timeout > 0
            if waits and last is not None and now - last.begun > flight.timeout:
                return self._report(flights, last, flight.timeout, now)
        return None

    def _report(self, flights: dict[int, Flight], stuck: Record, limit: float, now: float) -> str:
        waiting, missing = [], []
        for rank in sorted(self._folders):
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
        head = (
            f"{_named(stuck)} of group {stuck.group!r} has waited {now - stuck.begun:.1f} s "
            f"(timeout {limit:g} s)"
        )
        if not missing:
            missing = [
                "  every rank of this host has come; look at the other hosts, or the network"
            ]
        return "\n".join([head, *waiting, *missing])

    def _stack(self, rank: int) -> list[str]:
        """The stacks of a rank's threads, which it writes at a signal, also while it is in C."""
        path = self._folders[rank] / "stacks"
        with contextlib.suppress(OSError):
            before = path.stat().st_size
            os.kill(self._pids[rank], STACKS)
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
