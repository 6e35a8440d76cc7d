"""Files that are complete or not there, and that show whether they are still as written."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from fx.errors import FileFormatError
from fx.io.archive import END_SIZE, read_fully
from fx.io.beside import Beside

_MARK = b"fx checkpoint, sha256 of all before this: "
_LARGE = 1 << 16  # bytes from which hashing in another thread pays
_CHUNK = 1 << 20
_STALE = 24 * 3600.0  # seconds after which another machine's temporary file is nobody's


class Sealed:
    """A file that hashes what is written to it, in another thread where that is much."""

    SIZE = len(_MARK) + 64

    def __init__(self, file: Any) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._pool: Beside | None = None
        self._pending: Future[None] | None = None

    def __enter__(self) -> Sealed:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def write(self, data: Any) -> None:
        """Write and hash."""
        if len(data) < _LARGE:
            self._wait()
            self._hash.update(data)
        else:
            self._pool = self._pool or Beside("fx-hash")
            self._pending = self._pool.submit(self._hash.update, data)
        self._file.write(data)

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def seal(self) -> bytes:
        """The comment that says what has been written."""
        self._wait()
        return _MARK + self._hash.hexdigest().encode()


def check_seal(file: Any, what: str) -> None:
    """Compare a file with its seal.

    Raises:
        FileFormatError: if it has none, or is not as it was written.
    """
    size = file.seek(0, os.SEEK_END)
    left = size - Sealed.SIZE
    if left < END_SIZE:
        raise FileFormatError(f"{what} is too short for a checkpoint: {size} bytes")
    file.seek(left)
    seal = file.read(Sealed.SIZE)
    if not seal.startswith(_MARK):
        raise FileFormatError(f"{what} does not end as a checkpoint does: it was cut, or is none")
    file.seek(0)
    found = hashlib.sha256()
    chunk = memoryview(bytearray(min(_CHUNK, left)))
    while left:
        part = chunk[: min(left, len(chunk))]
        if not read_fully(file, part):
            raise FileFormatError(f"{what} ends too early")
        found.update(part)
        left -= len(part)
    if found.hexdigest().encode() != seal[len(_MARK) :]:
        raise FileFormatError(f"{what} is damaged: its contents are not what was written (SHA-256)")
    file.seek(0)


def write_atomically(path: Path, write: Callable[[Any], None]) -> None:
    """Let a file appear at ``path`` once it is complete and on the disk, or not at all.

    It is written to a temporary file beside its place; those that killed processes left are swept.
    """
    _sweep(path.parent)
    temporary = path.parent / f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system has a way to."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:  # not on Windows
        return
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _sweep(folder: Path) -> None:
    """Delete the temporary files of processes that are gone."""
    for name in os.listdir(folder):
        if name.startswith(".step-") and name.endswith(".tmp"):
            host, _, pid = name.removesuffix(".tmp").partition(".pt.")[2].rpartition(".")
            path = folder / name
            try:
                if host == socket.gethostname():
                    gone = not pid.isdigit() or int(pid) == os.getpid() or not _runs(int(pid))
                else:
                    gone = time.time() - path.stat().st_mtime > _STALE
                if gone:
                    path.unlink()
            except FileNotFoundError:
                continue


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
