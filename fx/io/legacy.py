"""PyTorch's format before 1.6: several pickles, and then the memory of the storages in turn."""

from __future__ import annotations

import mmap
import os
import struct
from typing import Any

import numpy as np

from fx.devices import Device
from fx.errors import FileFormatError
from fx.io.archive import descriptor, read_fully
from fx.io.inspection import Allowance
from fx.io.machine import Machine
from fx.io.pt import named, storage_id, trusting_load
from fx.io.storages import Later, Storage, placement, sizes
from fx.io.vocabulary import Vocabulary

MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_COUNT = struct.Struct("<q")


class _Storages:
    """The storages of a legacy file: their memory is made when they are named, and filled later."""

    def __init__(self, place: Any, room: int) -> None:
        self.place = place
        self.room = room  # bytes of the file that are not spoken for
        self.known: dict[str, tuple[Storage, np.ndarray | None]] = {}
        self.views: dict[tuple[str, str, int, int], Storage] = {}

    def load(self, number: Any) -> Any:
        """The storage, or the view of one, of a persistent id."""
        if type(number) is tuple and len(number) == 4 and number[0] in ("module", b"module"):
            return number[1]  # a class, with its source, which nobody needs
        kind, key, tag, count = storage_id(number, 6)
        view = number[5]
        item = kind.dtype.itemsize
        if key not in self.known:
            self.room -= count * item + _COUNT.size
            if self.room < 0:
                raise FileFormatError(
                    f"the storages are to have more bytes than the file; {key!r} {count * item}"
                )
            storage = self.place(Storage(kind.dtype, count * item, None, Device("cpu")), tag)
            memory = None if storage.device.name == "meta" else np.empty(count * item, np.uint8)
            storage.memory = memory
            self.known[key] = storage, memory
        storage, memory = self.known[key]
        if view is None:
            return storage
        return self._view(key, storage, view, item)

    def _view(self, key: str, storage: Storage, view: Any, item: int) -> Storage:
        if type(view) is not tuple or len(view) != 3 or type(view[0]) not in (str, int):
            raise FileFormatError("a view of a storage without key, offset and size")
        start, count = (n * item for n in sizes("view", view[1:]))
        name = str(view[0])
        if start < 0 or count < 0 or start + count > storage.nbytes():
            raise FileFormatError(f"a view of the storage {key!r} that reaches beyond it")
        found = self.views.get((key, name, start, count))
        if found is None:
            memory = None if storage.memory is None else storage.memory[start : start + count]
            found = Storage(storage.dtype, count, memory, storage.device)
            self.views[key, name, start, count] = found
        return found


def read(file: Any, what: str, map_location: Any, weights_only: bool) -> Any:
    """The value of a legacy file that begins where ``file`` stands.

    Raises:
        FileFormatError: if it is damaged, or holds what may not be made.
    """
    begin = file.tell()
    size = file.seek(0, os.SEEK_END) - begin
    file.seek(begin)
    allowance = Allowance(size)
    later = Later(allowance)
    storages = _Storages(placement(map_location), size)
    words = Vocabulary(storages.load, later)
    # pickles are a small part of the file, and where they end is known only after reading them
    source = _Window(file, begin, size)
    machine = Machine(source.data, words, what, allowance)
    if machine.load() != MAGIC or machine.load() != _VERSION:
        raise FileFormatError(
            f"{what} is no file that fx.save or torch.save wrote: it begins with another pickle"
        )
    system = machine.load()
    if type(system) is dict and system.get("little_endian") is False:
        raise FileFormatError(f"{what} was written in another byte order")
    if weights_only:
        value = machine.load()
    else:
        file.seek(begin + machine.at)
        value = trusting_load(file, words, what)
        machine.at = file.tell() - begin
    keys = machine.load()
    named_by = type(keys) is list and all(type(k) is str or type(k) is int for k in keys)
    if not named_by or {str(k) for k in keys} != set(storages.known):
        raise FileFormatError(f"{what}: the list of storages does not name those that are used")
    at = begin + machine.at
    source.close()
    for key in map(str, keys):
        at = _fill(file, at, storages.known[key], key, what)
    try:
        later.finish()
    except FileFormatError as error:
        raise named(error, what) from None
    return value


def _fill(file: Any, at: int, known: tuple[Storage, np.ndarray | None], key: str, what: str) -> int:
    storage, memory = known
    file.seek(at)
    head = bytearray(_COUNT.size)
    complete = read_fully(file, memoryview(head))
    if not complete or _COUNT.unpack(head)[0] != storage.size():
        raise FileFormatError(
            f"{what}: the storage {key!r} of {storage.size()} elements is not where it should be"
        )
    if memory is not None and not read_fully(file, memoryview(memory)):
        raise FileFormatError(f"{what}: the storage {key!r} ends too early")
    return at + _COUNT.size + storage.nbytes()


class _Window:
    """The bytes of a file from some place on: mapped where that is possible, else read."""

    def __init__(self, file: Any, begin: int, size: int) -> None:
        number = descriptor(file)
        if number is None:
            self.data = memoryview(file.read(size))
            file.seek(begin)
        else:
            mapped = mmap.mmap(number, 0, access=mmap.ACCESS_READ)
            self.data = memoryview(mapped)[begin : begin + size]

    def close(self) -> None:
        """Let the bytes go."""
        self.data = memoryview(b"")
