"""PyTorch's zip format: a pickle, and the memory of each storage as a record beside it."""

from __future__ import annotations

import hashlib
import mmap as mapping
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fx.devices import Device
from fx.errors import FileFormatError
from fx.io.archive import ALIGNMENT, ArchiveReader, ArchiveWriter, descriptor
from fx.io.machine import Machine
from fx.io.makers import Theirs
from fx.io.pickling import Pickled
from fx.io.storages import Later, Storage, StorageType, placement
from fx.io.trust import get_safe_globals
from fx.io.vocabulary import Vocabulary, refusal


def write(value: Any, file: Any, folder: str = "archive") -> None:
    """Write a value in the zip format.

    Args:
        value: anything that can be pickled; tensors become records.
        file: has ``write``.
        folder: the name before each record's.
    """
    write_pickled(Pickled(value), file, folder).close()


def write_pickled(pickled: Pickled, file: Any, folder: str) -> ArchiveWriter:
    """Write all records of a value; the archive is still to be closed."""
    archive = ArchiveWriter(file, f"{folder}/")
    archive.add("data.pkl", pickled.data)
    archive.add(".format_version", b"1")
    archive.add(".storage_alignment", str(ALIGNMENT).encode())
    archive.add("byteorder", sys.byteorder.encode())
    archive.add_all([(f"data/{i}", memory.data) for i, memory in enumerate(pickled.storages)])
    archive.add("version", b"3\n")
    identity = int(hashlib.sha1(pickled.data).hexdigest(), 16) % 10**40
    archive.add(".data/serialization_id", f"{identity:040d}".encode())
    return archive


def folder_for(path: Any) -> str:
    """What PyTorch calls the folder of the records: the name of the file without its suffix."""
    return Path(path).stem.encode("ascii", "replace").decode().replace("/", "_") or "archive"


class Storages:
    """The storages of a zip file, each read once.

    Args:
        archive: the records.
        place: says where a storage lives.
        mapped: the file as mapped memory, if it is not to be read now.
        at_once: whether memory is filled before anyone can look at it; else by ``fill``.
    """

    def __init__(
        self,
        archive: ArchiveReader,
        folder: str,
        place: Callable[[Storage, str], Storage],
        mapped: np.ndarray | None,
        at_once: bool,
    ) -> None:
        self.archive = archive
        self.folder = folder
        self.place = place
        self.mapped = mapped
        self.at_once = at_once
        self.known: dict[str, Storage] = {}
        self.swapped = _swapped(archive, folder)
        self._empty: list[tuple[str, np.ndarray, Any]] = []

    def load(self, number: Any) -> Storage:
        """The storage of a persistent id ``("storage", type, key, location, numel)``."""
        kind, key, tag, count = storage_id(number, 5)
        found = self.known.get(key)
        nbytes = count * kind.dtype.itemsize
        if found is None:
            found = self.known[key] = self._new(kind, key, tag, nbytes)
        elif found.nbytes() != nbytes:
            raise FileFormatError(f"the storage {key!r} has two sizes")
        elif found.dtype != kind.dtype:
            found = Storage(kind.dtype, nbytes, found.memory, found.device)
        return found

    def _new(self, kind: StorageType, key: str, tag: str, nbytes: int) -> Storage:
        name = f"{self.folder}data/{key}"
        held = self.archive.nbytes(name)
        if held != nbytes:
            raise FileFormatError(
                f"the storage {key!r} is to have {nbytes} bytes, and its record has {held}"
            )
        storage = self.place(Storage(kind.dtype, nbytes, None, Device("cpu")), tag)
        if storage.device.name == "meta":
            return storage
        if self.mapped is not None:
            start = self.archive.start(name)
            if self.archive.entries[name].compress_type or self.swapped:
                raise FileFormatError(
                    "compressed records and other byte orders cannot be mapped; leave mmap=False"
                )
            storage.memory = self.mapped[start : start + nbytes]
            return storage
        storage.memory = self.archive.room(name)
        self._empty.append((name, storage.memory, kind.dtype))
        if self.at_once:
            self.fill()
        return storage

    def fill(self) -> None:
        """Read the memory of all storages that are still empty."""
        empty, self._empty = self._empty, []
        self.archive.fill([(name, memory) for name, memory, _ in empty])
        if self.swapped:
            for _, memory, dtype in empty:
                memory.view("u2" if dtype.kind == "V" else dtype).byteswap(inplace=True)


def _swapped(archive: ArchiveReader, folder: str) -> bool:
    name = f"{folder}byteorder"
    if name not in archive.entries:
        return False
    if archive.nbytes(name) > 10:
        raise FileFormatError(f"{archive.what}: the record {name!r} is no byte order")
    order = archive.read(name)
    if order not in (b"little", b"big"):
        raise FileFormatError(f"{archive.what}: the byte order {order!r} is not known")
    return order.decode() != sys.byteorder


def storage_id(number: Any, parts: int) -> tuple[StorageType, str, str, int]:
    """Type, key, location and size of the persistent id of a storage."""
    if (
        type(number) is not tuple
        or len(number) != parts
        or number[0] not in ("storage", b"storage")
    ):
        raise FileFormatError("a persistent id that is no storage")
    kind, key, tag, count = number[1:5]
    tag = tag.decode("ascii", "replace") if type(tag) is bytes else tag
    key = str(key) if type(key) is int else key
    if type(kind) is not StorageType or type(key) is not str or type(tag) is not str:
        raise FileFormatError("a storage without type, key and location")
    if type(count) is not int or count < 0:
        raise FileFormatError("a storage whose size is no integer from 0 on")
    return kind, key, tag, count


def read(
    file: Any, archive: ArchiveReader, map_location: Any, weights_only: bool, mmap: bool
) -> Any:
    """The value of a file in the zip format.

    Args:
        file: the open file.
        archive: its records.
        map_location: where tensors are to live.
        weights_only: whether only tensors and plain data may be made.
        mmap: whether the tensors' memory is the file, mapped.

    Raises:
        FileFormatError: if the file is damaged, or holds what may not be made.
    """
    folder = _folder(archive)
    later = Later(archive.allowance)
    mapped = _map(file) if mmap else None
    at_once = not weights_only or bool(get_safe_globals())
    storages = Storages(archive, folder, placement(map_location), mapped, at_once)
    words = Vocabulary(storages.load, later)
    data = archive.array(f"{folder}data.pkl")
    if weights_only:
        value = Machine(data, words, archive.what, archive.allowance).load()
    else:
        value = trusting_load(data.tobytes(), words, archive.what)
    try:
        storages.fill()
        later.finish()
    except FileFormatError as error:
        raise named(error, archive.what) from None
    return value


def named(error: FileFormatError, what: str) -> FileFormatError:
    """The error with the name of the file before it."""
    text = str(error)
    return error if text.startswith(what) else FileFormatError(f"{what}: {text}")


def _folder(archive: ArchiveReader) -> str:
    found = [name for name in archive.entries if name.endswith("/data.pkl") or name == "data.pkl"]
    if f"{(found or ['/'])[0].rpartition('/')[0]}/constants.pkl" in archive.entries:
        raise FileFormatError(
            f"{archive.what} is a TorchScript archive, which holds a program; with PyTorch, save "
            f"torch.jit.load(f).state_dict() and load that"
        )
    if len(found) != 1:
        raise FileFormatError(
            f"{archive.what} is a zip archive without one data.pkl: neither a file of fx.save or "
            f"torch.save nor an .npz file"
        )
    return found[0][: -len("data.pkl")]


def _map(file: Any) -> np.ndarray:
    """The file as memory: pages are read when they are touched, and never written back."""
    number = descriptor(file)
    if number is None:
        raise ValueError("load: mmap=True needs the path of a file, and got an object")
    mapped = mapping.mmap(number, 0, access=mapping.ACCESS_COPY)
    return np.frombuffer(mapped, np.uint8)


# files that are trusted -------------------------------------------------------------------------


class _Trusting(pickle.Unpickler):
    """Python's own unpickler, with fx in the place of PyTorch."""

    def __init__(self, file: Any, words: Vocabulary) -> None:
        super().__init__(file, encoding="utf-8", errors="surrogateescape")
        self.words = words

    def find_class(self, module: str, name: str) -> Any:
        found = self.words.torch_name(module, name) if module.startswith("torch") else None
        if found is not None:
            return found
        if module.partition(".")[0] == "torch":
            raise FileFormatError(
                f"{refusal(module, name).split('. If ')[0]}, and fx has no class for it; with "
                f"PyTorch, save model.state_dict() and load that"
            )
        return super().find_class(module, name)

    def persistent_load(self, number: Any) -> Any:
        return self.words.storage(number)


def trusting_load(source: Any, words: Vocabulary, what: str) -> Any:
    """The value of a pickle that may run any code; ``source`` is bytes or a file."""
    from io import BytesIO

    file = BytesIO(source) if isinstance(source, bytes) else source
    try:
        return _Trusting(file, words).load()
    except Theirs as error:
        raise error.error from None
    except FileFormatError as error:
        raise named(error, what) from None
    except (pickle.UnpicklingError, EOFError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{what}: the pickle is damaged ({error})") from None
