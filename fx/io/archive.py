"""Zip archives of records: what ``.pt``, ``.npz`` and checkpoint files are.

Records are written uncompressed from the memory they lie in, each at a multiple of 64 bytes, and
read straight into the memory they are to have. A directory is believed only where it fits the file:
every record must lie within it, and no two may share bytes, so that what is allocated never exceeds
the size of the file.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fx.errors import FileFormatError
from fx.io.beside import Beside
from fx.io.inspection import Allowance

ALIGNMENT = 64
_PIECE = 4 << 20  # bytes that are read at a time, and then summed
_MUCH = 8 << 20  # bytes from which another thread pays
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_PADDING = 0x4246  # the extra field "FB" that moves a record to its alignment
_UTF8 = 0x800  # the flag of names that are not in code page 437
_WIDE = 0xFFFFFFFF  # stands where a number is in a field of 64 bits instead
_OF_ZIPFILE = (  # what it raises at damaged directories; a signal handler may raise others
    zipfile.BadZipFile, zipfile.LargeZipFile, ArithmeticError, AssertionError, EOFError,
    LookupError, RuntimeError, TypeError, ValueError, struct.error, zlib.error,
)  # fmt: skip
_LIMIT = _WIDE  # numbers from here on are
_MANY = 0xFFFF  # and this stands where a number of records is


END_SIZE = _END.size  # of what follows the directory, without the comment


# writing ----------------------------------------------------------------------------------------


class ArchiveWriter:
    """Writes records one after the other; ``close`` adds the directory.

    Args:
        file: has ``write``; it need not be seekable.
        folder: put before each name.
    """

    def __init__(self, file: Any, folder: str = "") -> None:
        self._file = file
        self._folder = folder
        self._at = 0
        self._directory: list[bytes] = []

    def add(self, name: str, *pieces: Any, crc: int | None = None) -> None:
        """Write a record: bytes or contiguous memory, in one or more pieces."""
        size = sum(map(len, pieces))
        if crc is None:
            crc = 0
            for piece in pieces:
                crc = zlib.crc32(piece, crc)
        path = (self._folder + name).encode()
        start = self._at
        large = struct.pack("<2H2Q", 1, 16, size, size) if size >= _LIMIT else b""
        taken = start + _LOCAL.size + len(path) + len(large) + 4
        pad = -taken % ALIGNMENT
        extra = large + struct.pack("<2H", _PADDING, pad) + b"Z" * pad
        shown = _WIDE if large else size
        version = 45 if large else 20
        self._write(_LOCAL.pack(
            b"PK\3\4", version, 0x800, 0, 0, 0x21, crc, shown, shown, len(path), len(extra)
        ) + path + extra)  # fmt: skip
        for piece in pieces:
            self._write(piece)
        wide = [size, size] if large else []
        far = start >= _LIMIT
        if far:
            wide.append(start)
        field = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        self._directory.append(_CENTRAL.pack(
            b"PK\1\2", 45 if wide else 20, 45 if wide else 20, 0x800, 0, 0, 0x21, crc, shown, shown,
            len(path), len(field), 0, 0, 0, 0, _WIDE if far else start,
        ) + path + field)  # fmt: skip

    def add_all(self, records: Iterable[tuple[str, Any]]) -> None:
        """Write records of memory while another thread computes their checksums ahead."""
        listed = list(records)
        if sum(len(data) for _, data in listed) < _MUCH:
            for name, data in listed:
                self.add(name, data)
            return
        with Beside("fx-crc") as pool:
            sums = [pool.submit(zlib.crc32, data) for _, data in listed]
            for (name, data), crc in zip(listed, sums):
                self.add(name, data, crc=crc.result())

    def close(self, size_of_comment: int = 0, comment: Callable[[], bytes] = bytes) -> None:
        """Write the directory and, when all else is written, ask for the comment and write it."""
        start, count = self._at, len(self._directory)
        for entry in self._directory:
            self._write(entry)
        size = self._at - start
        if count >= 0xFFFF or start >= _LIMIT or size >= _LIMIT:
            where = self._at
            self._write(_END64.pack(
                b"PK\6\6", _END64.size - 12, 45, 45, 0, 0, count, count, size, start
            ))  # fmt: skip
            self._write(_LOCATOR.pack(b"PK\6\7", 0, where, 1))
            count, size, start = 0xFFFF, _WIDE, _WIDE
        self._write(_END.pack(
            b"PK\5\6", 0, 0, count, count, size, start, size_of_comment
        ))  # fmt: skip
        self._write(comment())

    def _write(self, data: Any) -> None:
        if len(data):
            self._file.write(data)
            self._at += len(data)


# reading ----------------------------------------------------------------------------------------


class ArchiveReader:
    """The records of a zip archive.

    Args:
        file: readable and seekable; the archive may stand at its end.
        what: the name of the file, for messages.
        sums: whether checksums of records are compared.

    Raises:
        FileFormatError: if the directory is damaged or does not fit the file.
    """

    def __init__(self, file: Any, what: str, sums: bool = True) -> None:
        self.what = what
        self.sums = sums
        self._file = file
        self.size = file.seek(0, os.SEEK_END)
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                self._end = archive.start_dir
                self.comment = archive.comment
            whole = self._counted(file) in (len(entries), _MANY)
        except (OSError, MemoryError):
            raise
        except _OF_ZIPFILE as error:
            raise FileFormatError(f"{what}: the zip directory is damaged ({error})") from None
        if not whole:
            raise FileFormatError(
                f"{what}: the zip directory has lost records: it has {len(entries)}"
            )
        self.allowance = Allowance(self.size)
        self.entries = {entry.filename: entry for entry in entries}
        self._limits = self._checked(entries)
        self._fd = descriptor(file)

    def _counted(self, file: Any) -> int:
        """How many records the end of the directory tells; ``_MANY`` where it is told elsewhere."""
        file.seek(self.size - _END.size - len(self.comment))
        _, _, _, _, count, *_ = _END.unpack(file.read(_END.size))
        return int(count)

    def _checked(self, entries: list[zipfile.ZipInfo]) -> dict[str, int]:
        """Where the bytes of each record must end; records may not overlap."""
        if len(self.entries) < len(entries):
            raise FileFormatError(f"{self.what}: two records of the zip archive have one name")
        limits: dict[str, int] = {}
        end = self._end
        for entry in sorted(entries, key=lambda e: e.header_offset, reverse=True):
            least = entry.header_offset + _LOCAL.size + entry.compress_size
            if entry.header_offset < 0 or least > end:
                raise FileFormatError(
                    f"{self.what}: the record {entry.filename!r} of {entry.compress_size} bytes "
                    f"reaches beyond the place that the file of {self.size} bytes has for it"
                )
            limits[entry.filename] = end
            end = entry.header_offset
        return limits

    def nbytes(self, name: str) -> int:
        """The size of a record.

        Raises:
            FileFormatError: if there is no such record.
        """
        return self._entry(name).file_size

    def read(self, name: str) -> bytes:
        """A record, as bytes."""
        return self.array(name).tobytes()

    def array(self, name: str) -> np.ndarray:
        """A record in memory of its own: uint8 (nbytes,)."""
        out = self.room(name)
        self.fill([(name, out)])
        return out

    def room(self, name: str) -> np.ndarray:
        """Memory for a record, which must be able to be as large as it says."""
        entry = self._entry(name)
        if entry.compress_type == zipfile.ZIP_STORED:
            if entry.file_size != entry.compress_size:
                raise self.damaged(name, "has two sizes")
        elif entry.compress_type == zipfile.ZIP_DEFLATED:
            try:
                self.allowance.spend(entry.file_size)
            except FileFormatError as error:
                raise FileFormatError(f"{self.what}: {error}") from None
        else:
            raise self.damaged(name, f"is compressed by method {entry.compress_type}")
        return np.empty(entry.file_size, np.uint8)

    def fill(self, rooms: list[tuple[str, np.ndarray]]) -> None:
        """Read records into memory of their size and compare their checksums.

        One thread reads; another sums what has been read, where that is much. (Two that read would
        wait for each other: fresh memory is handed out under one lock.)
        """
        if sum(len(out) for _, out in rooms) < _MUCH:
            for name, out in rooms:
                self._fill(name, out, lambda sums, piece: sums.add(piece)).check()
            return
        with Beside("fx-crc") as pool:
            listed = [
                self._fill(name, out, lambda sums, piece: pool.submit(sums.add, piece))
                for name, out in rooms
            ]
        for sums in listed:
            sums.check()

    def _fill(self, name: str, out: np.ndarray, add: Callable[[_Sum, memoryview], Any]) -> _Sum:
        entry = self._entry(name)
        start = self.start(name)
        view = memoryview(out)
        sums = _Sum(self, entry)
        if entry.compress_type == zipfile.ZIP_STORED:
            for at in range(0, len(view), _PIECE):
                piece = view[at : at + _PIECE]
                self._read_into(piece, start + at, name)
                if sums.expected:
                    add(sums, piece)
        else:
            self._inflate(entry, start, view)
            add(sums, view)
        return sums

    def start(self, name: str) -> int:
        """Where the bytes of a record begin."""
        entry = self._entry(name)
        head = bytearray(_LOCAL.size)
        self._read_into(memoryview(head), entry.header_offset, name)
        magic, *_, name_size, extra_size = _LOCAL.unpack(head)
        start = entry.header_offset + _LOCAL.size + name_size + extra_size
        if magic != b"PK\3\4" or start + entry.compress_size > self._limits[name]:
            raise self.damaged(name, "is not where the directory says")
        known = entry.orig_filename.encode("utf-8" if entry.flag_bits & _UTF8 else "cp437")
        called = bytearray(name_size)
        self._read_into(memoryview(called), entry.header_offset + _LOCAL.size, name)
        if called != known:
            raise self.damaged(name, "is not where the directory says")
        if entry.flag_bits & 1:
            raise self.damaged(name, "is encrypted")
        return start

    def _inflate(self, entry: zipfile.ZipInfo, start: int, out: memoryview) -> None:
        packed = bytearray(entry.compress_size)
        self._read_into(memoryview(packed), start, entry.filename)
        stream = zlib.decompressobj(-15)
        at, rest = 0, bytes(packed)
        try:
            while at < len(out) and not stream.eof:
                piece = stream.decompress(rest, min(_PIECE, len(out) - at))
                rest = stream.unconsumed_tail
                if not piece and not rest:
                    break
                out[at : at + len(piece)] = piece
                at += len(piece)
        except zlib.error as error:
            raise self.damaged(entry.filename, f"cannot be expanded ({error})") from None
        if at != len(out):
            raise self.damaged(entry.filename, "expands to another size than it says")

    def _read_into(self, out: memoryview, at: int, name: str) -> None:
        done = 0
        while done < len(out):
            if self._fd is not None:
                n = os.preadv(self._fd, [out[done:]], at + done)
            else:
                self._file.seek(at + done)
                n = _read_into(self._file, out[done:])
            if n <= 0:
                raise self.damaged(name, "ends too early")
            done += n

    def _entry(self, name: str) -> zipfile.ZipInfo:
        entry = self.entries.get(name)
        if entry is None:
            raise FileFormatError(f"{self.what}: the zip archive has no record {name!r}")
        return entry

    def damaged(self, name: str, why: str) -> FileFormatError:
        """What is raised when a record is not as it should be."""
        return FileFormatError(f"{self.what}: the record {name!r} of the zip archive {why}")


class _Sum:
    """The checksum of a record, of the pieces that were read so far."""

    def __init__(self, archive: ArchiveReader, entry: zipfile.ZipInfo) -> None:
        self.archive = archive
        self.name = entry.filename
        self.expected = entry.CRC if archive.sums else 0  # 0: the writer was told to leave it out
        self.found = 0

    def add(self, piece: memoryview) -> None:
        """Go on with another piece."""
        self.found = zlib.crc32(piece, self.found)

    def check(self) -> None:
        """Compare with what the directory says."""
        if self.expected and self.found != self.expected:
            raise self.archive.damaged(
                self.name, "does not have the contents that were written (CRC-32)"
            )


def descriptor(file: Any) -> int | None:
    """The number of an ordinary open file; None for what is no file, or decompresses one."""
    plain = isinstance(file, io.FileIO | io.BufferedReader | io.BufferedRandom)
    return file.fileno() if plain else None


def _read_into(file: Any, out: memoryview) -> int:
    """``file.readinto`` also for objects that only have ``read``."""
    if hasattr(file, "readinto"):
        return file.readinto(out) or 0
    data = file.read(len(out))
    out[: len(data)] = data
    return len(data)


def read_fully(file: Any, out: memoryview) -> bool:
    """Fill memory from a file; whether there was enough."""
    done = 0
    while done < len(out):
        n = _read_into(file, out[done:])
        if n <= 0:
            return False
        done += n
    return True
