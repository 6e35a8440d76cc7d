"""Disk cache: compiled code that outlives the process.

An entry is one file: a magic word, a checksum, three lengths, a JSON head, object code and the
compressed IR. Nothing in it is executed or unpickled before the checksum and every field of the
head have been looked at; an entry that fails is removed and made again. Files are written beside
and renamed, so that a reader never sees half of one, and of two writers of one key one remains.
Of the processes that miss the same entry at once, one compiles and the others wait and load it.

The folder is ``FX_CACHE_DIR``, or ``fx`` in ``XDG_CACHE_HOME`` or ``~/.cache``; ``FX_CACHE=0``
turns the cache off. It holds code, so a folder that others may write into is not used.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fx import forking, limits

_MAGIC = b"fxcache1"
_SUFFIX = ".fxc"
_LIMIT = 1 << 30  # bytes of all entries; the ones unused for longest go first
_HEAD = len(_MAGIC) + 32 + 3 * 8
_PATIENCE = 10.0  # seconds to wait for what another process compiles; then it is compiled here


def folder() -> Path | None:
    """Where entries are, made if it is missing; None if there is no cache."""
    if os.environ.get("FX_CACHE", "1") == "0":
        return None
    told = os.environ.get("FX_CACHE_DIR")
    if told:
        path = Path(told)
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        path = Path(base) / "fx"
        if not path.is_absolute():
            return None
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError:
        return None
    if hasattr(os, "getuid") and (
        found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        return None
    return path


@cache
def compiler() -> str | None:
    """What compiled code depends on besides the graph: this CPU, versions, fx's own source.

    None if a source file has changed since the process began: what runs is then not what is read.
    """
    return told_of(_sources(Path(__file__).resolve().parents[3]))


def told_of(sources: Iterable[Path]) -> str | None:
    """The same for code that some files decide."""
    import llvmlite

    from fx.backends.cpu.llvm import engine, python_api

    digest = sha256()
    begun = _begun()
    for path in sorted(sources):
        if path.stat().st_mtime > begun:
            return None
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    told = [
        engine.description(),
        llvmlite.__version__,
        np.__version__,
        sys.implementation.name,
        sys.version,
        str(python_api.DIRECT),
        digest.hexdigest(),
    ]
    return "\n".join(told)


def _begun() -> float:
    """When this process began, or this module was imported where only that is known."""
    try:
        told = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(told[19]) / os.sysconf("SC_CLK_TCK")
        return time.time() - age
    except (OSError, AttributeError, ValueError, IndexError):
        return _IMPORTED


_IMPORTED = time.time()


def _sources(root: Path) -> Iterable[Path]:
    """The files that decide what code a graph becomes."""
    for part in ("backends/cpu", "compiler", "graph", "prims"):
        yield from (root / part).rglob("*.py")
    for name in ("dtypes", "limits", "primitive", "slotted", "spec"):
        yield root / f"{name}.py"


def name_of(*parts: str) -> str | None:
    """The name of the entry that these texts, the CPU and the versions determine.

    None where nothing is kept.
    """
    return None if folder() is None else name_under(compiler(), *parts, limits.key())


def name_under(told: str | None, *parts: str) -> str | None:
    """The same where the code depends on what ``told_of`` gave."""
    if told is None or folder() is None:
        return None
    return sha256("\0".join((*parts, told)).encode()).hexdigest()


def code_of(text: str, *told: str, written: Callable[[str], str] = str) -> bytes:
    """The object code of a module, kept on disk.

    Args:
        text: its IR, or what ``written`` makes it of.
        told: what else ``written`` knows.
    """
    from fx.backends.cpu.llvm import engine

    name = name_of("module", text, *told)
    return kept(name, lambda: (None, engine.compile_text(written(text))))[1]


def kept(name: str | None, make: Callable[[], tuple[Any, bytes]]) -> tuple[Any, bytes]:
    """Head and object code of an entry, made and stored if it is missing.

    Args:
        name: of the entry; None where nothing is kept.
        make: what gives both.
    """
    if name is None:
        return make()
    found = load(name)
    if found is not None:
        return found[:2]
    with making(name) as made:
        found = load(name) if made else None
        if found is not None:
            return found[:2]
        head, code = make()
        store(name, head, code, b"")
        return head, code


@contextlib.contextmanager
def making(name: str | None) -> Iterator[bool]:
    """While an entry is made: a second process, or thread, that wants to make it waits until then.

    Nothing depends on it but time: who has waited for long, or finds no lock here, goes on alone.
    A program may be made of other entries, whose makers wait for none: nobody waits in a circle.

    Gives whether there is an entry by now.
    """
    where = None if name is None else folder()
    if name is None or where is None:
        yield False
        return
    path = where / f"new-{name}.lock"
    claim = _claimed(path)
    try:
        yield has(name)
    finally:
        if claim is not None and not claim.closed:  # as it is in a child forked meanwhile
            if os.fstat(claim.fileno()).st_nlink:
                path.unlink(missing_ok=True)  # which tells who waits that this maker came to an end
            _give_back(claim)


_claims: set[io.FileIO] = set()  # the locks that this process has or waits for


def _claimed(path: Path) -> io.FileIO | None:
    """The lock of an entry that nobody makes; None where it is to be made, or loaded, without one.

    It goes with the process that has it, however that ends: the next one then has it. But whoever
    has waited for one that came to an end waits for no other: what that has not kept, nobody does.
    """
    try:
        import fcntl

        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        claim = io.FileIO(path, "r+", opener=lambda path, _: os.open(path, flags, 0o600))
    except (ImportError, OSError):
        return None
    taken = False
    try:
        _claims.add(claim)
        locked = _locked(lambda: fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB))
        taken = locked and os.fstat(claim.fileno()).st_nlink > 0
    except OSError:  # a file system without locks
        path.unlink(missing_ok=True)
    finally:
        if not taken:
            _give_back(claim)
    return claim if taken else None


def _locked(lock: Callable[[], object]) -> bool:
    end = time.monotonic() + _PATIENCE
    pause = 0.001
    while time.monotonic() < end:
        try:
            lock()
        except BlockingIOError:
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        except ValueError:  # closed: this is a child that a handler of signals forked
            return False
        else:
            return True
    return False


def _give_back(claim: io.FileIO) -> None:
    _claims.discard(claim)
    claim.close()


def _in_child() -> None:
    """The locks are the parent's: in a child that lives on, they would outlive it."""
    while _claims:
        _claims.pop().close()


forking.in_child(_in_child)


def load(name: str) -> tuple[Any, bytes, bytes] | None:
    """Head, object code and listing of an entry; None if there is none that is whole."""
    where = folder()
    if where is None:
        return None
    path = where / (name + _SUFFIX)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    found = _parse(data, name)
    if found is None:
        drop(name)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return found


def _parse(data: bytes, name: str) -> tuple[Any, bytes, bytes] | None:
    start = len(_MAGIC)
    if len(data) < _HEAD or data[:start] != _MAGIC:
        return None
    if sha256(name.encode() + data[start + 32 :]).digest() != data[start : start + 32]:
        return None
    lengths = np.frombuffer(data, "<u8", 3, start + 32).tolist()
    if sum(lengths) != len(data) - _HEAD:
        return None
    head, code, listing = (
        data[_HEAD : _HEAD + lengths[0]],
        data[_HEAD + lengths[0] : _HEAD + lengths[0] + lengths[1]],
        data[_HEAD + lengths[0] + lengths[1] :],
    )
    try:
        return json.loads(head), code, listing
    except (ValueError, RecursionError):
        return None


def has(name: str) -> bool:
    """Whether there is an entry, whole or not."""
    where = folder()
    return where is not None and (where / (name + _SUFFIX)).exists()


def drop(name: str) -> None:
    """Remove an entry."""
    where = folder()
    if where is not None:
        (where / (name + _SUFFIX)).unlink(missing_ok=True)


def store(name: str, head: Any, code: bytes, listing: bytes) -> None:
    """Write an entry; where that is not possible, nothing happens."""
    import tempfile  # only who writes needs it

    where = folder()
    if where is None:
        return
    told = json.dumps(head, separators=(",", ":")).encode()
    lengths = np.array([len(told), len(code), len(listing)], "<u8").tobytes()
    rest = b"".join((lengths, told, code, listing))
    digest = sha256(name.encode() + rest).digest()
    handle, temporary = -1, ""
    try:
        handle, temporary = tempfile.mkstemp(dir=where, prefix="new-")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + digest + rest)
        os.replace(temporary, where / (name + _SUFFIX))
    except OSError:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        return
    global _untrimmed
    _untrimmed += len(rest)
    if _untrimmed > _LIMIT // 100:  # looking through the folder costs as much as it has entries
        _untrimmed = 0
        _trim(where)


_untrimmed = 1 << 62  # bytes that were stored since the folder was looked through; never was


def _trim(where: Path) -> None:
    """Remove what was unused for longest, down to nine tenths of the limit."""
    entries = []
    total = 0
    try:
        with os.scandir(where) as found:
            for entry in found:
                if entry.name.endswith(_SUFFIX) or entry.name.startswith("new-"):
                    told = entry.stat(follow_symlinks=False)
                    entries.append((told.st_mtime, told.st_size, entry.path))
                    total += told.st_size
    except OSError:
        return
    if total <= _LIMIT:
        return
    for _, size, path in sorted(entries):
        try:
            os.unlink(path)
        except OSError:
            continue
        total -= size
        if total <= 0.9 * _LIMIT:
            return
