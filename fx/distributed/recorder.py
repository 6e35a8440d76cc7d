"""The flight recorder: what each rank's last collectives were, in a file that outlives SIGKILL.

A rank maps a ring of fixed records into memory; storing one takes 0.9 us and no call
of the system, and the kernel keeps the pages when the rank dies. The launcher (``fx.run``) says by
``FX_DIST_RECORD`` where the file lies, and reads it while the rank runs; elsewhere the ring is in
the rank's own memory.

    header   magic, rank, seconds until a wait is a hang, bytes of strings so far
    records  sequence in its group, bytes, begun, op, group, user's line; ended, 4 * number + state
    slots    records of which compiled code writes one again and again: one for each of its groups
    strings  what records name by number: a length and the text, in the order of their coming

>>> from fx.distributed import recorder
>>> token = recorder.begin("all_reduce", 4096)
>>> recorder.end(token)
>>> recorder.mine().records[-1].op
'all_reduce'
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from fx.frames import is_internal, known

BEGUN, DONE, FAILED = 1, 2, 3
STATES = {BEGUN: "begun", DONE: "done", FAILED: "failed"}
RECORDS, SLOTS, STRINGS = 1024, 64, 1 << 16  # in a ring; behind it; bytes of text

_MAGIC = b"fxflight"
_HEADER = struct.Struct("<8sqdQ")
_RECORD = struct.Struct("<QQdIIIIdQ")
_END = struct.Struct("<dQ")
_TIMEOUT_AT, _STRINGS_AT = 16, 24
_FIRST, _STEP, _ENDED = 64, 64, 40  # where records start, their distance, where their ends lie
_write, _write_end = _RECORD.pack_into, _END.pack_into
_TEXT = _FIRST + (RECORDS + SLOTS) * _STEP
_SIZE = _TEXT + STRINGS
_FULL = "(no room)"


class _Ring:
    def __init__(self, path: str | None, rank: int) -> None:
        if path is None:
            self.map = mmap.mmap(-1, _SIZE)
        else:
            with open(path, "w+b") as file:
                file.truncate(_SIZE)
                self.map = mmap.mmap(file.fileno(), _SIZE)
        _HEADER.pack_into(self.map, 0, _MAGIC, rank, 0.0, 0)
        self.count = 0
        self.memory = np.frombuffer(self.map, np.uint8)
        self.slots: dict[str, int] = {}  # by group
        self.text = 0  # bytes of strings so far
        self.numbers: dict[str, int] = {}  # of strings
        self.places: dict[Any, tuple[int, int, int]] = {}  # of an instruction, op and group
        self.codes: list[Any] = []  # which must live, as places go by their ids
        self.sequences: dict[str, int] = {}
        self.number(_FULL)

    def number_place(self, place: Any, frame: Any) -> tuple[int, int, int]:
        """The numbers of the op, the group and the line of a place."""
        line = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if frame is not None:
            self.codes.append(frame.f_code)
        op, group = (self.number(text) for text in place[-2:])
        out = self.places[place] = op, group, self.number(line)
        return out

    def number(self, text: str) -> int:
        """The number of a string, which is stored when it is new."""
        found = self.numbers.get(text)
        if found is not None:
            return found
        raw = text.encode()[:1000]
        if self.text + 2 + len(raw) > STRINGS:
            return 0
        at = _TEXT + self.text
        self.map[at : at + 2 + len(raw)] = struct.pack("<H", len(raw)) + raw
        self.text += 2 + len(raw)
        struct.pack_into("<Q", self.map, _STRINGS_AT, self.text)
        found = self.numbers[text] = len(self.numbers)
        return found


_ring: _Ring | None = None


def _open() -> _Ring:
    global _ring
    _ring = _Ring(os.environ.get("FX_DIST_RECORD"), int(os.environ.get("RANK", "0")))
    return _ring


def begin(op: str, size: int, group: str = "world") -> int:
    """Record that a collective of ``size`` bytes begins; the token is for ``end``."""
    ring = _ring or _open()
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        internal = known.get(file)
        if not (is_internal(file) if internal is None else internal):
            break
        frame = frame.f_back
    place = (op, group) if frame is None else (id(frame.f_code), frame.f_lasti, op, group)
    numbers = ring.places.get(place)
    if numbers is None:
        numbers = ring.number_place(place, frame)
    sequences = ring.sequences
    sequences[group] = sequence = sequences.get(group, 0) + 1
    ring.count = token = ring.count + 1
    at = _FIRST + token % RECORDS * _STEP
    state = 4 * token + BEGUN
    _write(ring.map, at, sequence, size, monotonic(), *numbers, 0, 0.0, state)
    return token


def end(token: int, failed: bool = False) -> None:
    """Record that the collective is done, or has failed."""
    ring = _ring
    if ring is not None and ring.count - token < RECORDS:  # else its place is another's by now
        at = _FIRST + token % RECORDS * _STEP + _ENDED
        _write_end(ring.map, at, monotonic(), 4 * token + (FAILED if failed else DONE))


def slot(group: str) -> int:
    """The address of the record that compiled code writes for a group; the last ones share one."""
    ring = _ring or _open()
    found = ring.slots.setdefault(group, min(len(ring.slots), SLOTS - 1))
    at = _FIRST + (RECORDS + found) * _STEP
    numbers = (ring.number("a message of compiled code"), ring.number(group), ring.number(""))
    _write(ring.map, at, 0, 0, 0.0, *numbers, 0, 0.0, 0)
    return int(ring.memory.ctypes.data) + at


def sent_by_compiled() -> dict[str, int]:
    """How many messages compiled code has sent, by group; the last groups share one number."""
    ring = _ring or _open()
    places = {found: _FIRST + (RECORDS + found) * _STEP for found in ring.slots.values()}
    sent = {found: int(_RECORD.unpack_from(ring.map, at)[0]) for found, at in places.items()}
    return {group: sent.pop(found, 0) for group, found in ring.slots.items()}


def timeout(seconds: float) -> None:
    """How long a collective may wait before the launcher calls it a hang; 0: for ever."""
    struct.pack_into("<d", (_ring or _open()).map, _TIMEOUT_AT, seconds)


def compiled(digest: str) -> None:
    """Record that a program was compiled: all ranks must compile the same, in the same order."""
    end(begin(digest, 0, GRAPHS))


GRAPHS = "compiled programs"  # the group of ``compiled``


@dataclass(slots=True)
class Record:
    """One collective: ``begun`` and ``ended`` are ``time.monotonic()`` of the host."""

    sequence: int
    op: str
    bytes: int
    group: str
    line: str
    state: str
    begun: float
    ended: float


@dataclass(slots=True)
class Flight:
    """What a ring holds: its last records, the oldest first."""

    rank: int
    timeout: float
    count: int
    records: list[Record]


def read(path: str | Path) -> Flight | None:
    """The ring of a rank, which may run or be dead; None where there is none yet."""
    try:
        raw = Path(path).read_bytes()
    except OSError:
        return None
    return _parsed(raw)


def mine() -> Flight:
    """The ring of this process."""
    found = _parsed(bytes((_ring or _open()).map))
    assert found is not None
    return found


def _parsed(raw: bytes) -> Flight | None:
    if len(raw) != _SIZE or not raw.startswith(_MAGIC):
        return None
    _, rank, seconds, used = _HEADER.unpack_from(raw)
    texts, at = [], _TEXT
    while at + 2 <= _TEXT + min(used, STRINGS):
        length = struct.unpack_from("<H", raw, at)[0]
        texts.append(raw[at + 2 : at + 2 + length].decode(errors="replace"))
        at += 2 + length
    names = dict(enumerate(texts))
    found = []
    for place in range(RECORDS + SLOTS):
        sequence, size, begun, op, group, line, _, ended, state = _RECORD.unpack_from(
            raw, _FIRST + place * _STEP
        )
        if state:
            told = [names.get(n, _FULL) for n in (op, group, line)]
            word = STATES.get(state % 4, "unknown")
            record = Record(sequence, told[0], size, told[1], told[2], word, begun, ended)
            found.append((state // 4, record))
    found.sort(key=lambda each: each[0])
    return Flight(rank, seconds, found[-1][0] if found else 0, [record for _, record in found])


def _after_fork() -> None:
    global _ring
    _ring = None  # the file is the parent's
    os.environ.pop("FX_DIST_RECORD", None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
