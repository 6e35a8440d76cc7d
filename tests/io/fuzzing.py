"""Feeds mutated files to one reader, in a process of its own with bounded memory.

``python tests/io/fuzzing.py READER FIRST COUNT`` prints what went wrong and then a line of counts.
"""

from __future__ import annotations

import atexit
import io
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import fx
from fx.errors import DeviceError, FileFormatError
from fx.io.archive import ArchiveWriter
from fx.io.sealing import Sealed

MEMORY = 512 << 20  # bytes that a reader may take beyond what the process has
SECONDS = 20  # for one file, which takes a few milliseconds
FORBIDDEN = {"os.system", "os.exec", "os.posix_spawn", "os.remove", "subprocess.Popen", "exec",
             "pickle.find_class", "socket.connect", "shutil.rmtree", "import"}  # fmt: skip
LARGE = (0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
LEGACY = Path(__file__).with_name("legacy.bin")


# files to begin with ----------------------------------------------------------------------------


def state() -> dict[str, Any]:
    """One of everything that a file may hold."""
    x = fx.arange(24.0).reshape((4, 6))
    return {
        "model": fx.nn.Sequential(fx.nn.Linear(2, 3), fx.nn.BatchNorm1d(3)).state_dict(),
        "x": x, "t": x.T, "part": x[1:3, 2:], "flags": x > 3, "half": x.astype(fx.bfloat16),
        "counts": fx.arange(3, dtype=fx.uint16), "z": fx.asarray([1j]), "empty": fx.zeros((0, 2)),
        "weight": fx.nn.Parameter(fx.ones(2)), "array": np.arange(3), "number": np.float64(1.5),
        "plain": [1, 2.5, None, True, "text", b"bytes", (1, 2), {1, 2}, 2**70, 1j, bytearray(b"b")],
        "dtype": fx.float32, "device": fx.device("cpu"),
    }  # fmt: skip


def _pt() -> bytes:
    file = io.BytesIO()
    fx.save(state(), file)
    return file.getvalue()


def _on_disk(name: str, value: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        fx.save(value, path)
        return path.read_bytes()


def _checkpoint() -> bytes:
    model = fx.nn.Linear(3, 2)
    optimizer = fx.optim.Adam(model.parameters())
    model(fx.ones(3)).sum().backward()
    optimizer.step()
    with tempfile.TemporaryDirectory() as folder:
        path = fx.Checkpoint(folder).save(1, model=model, optimizer=optimizer, best=[0.5, "text"])
        return path.read_bytes()


def _tensors() -> dict[str, Any]:
    return {k: v for k, v in state().items() if type(v) is fx.Tensor}


def _compressed() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, a=np.arange(100.0), b=np.ones((3, 4), bool))
    return file.getvalue()


# readers ----------------------------------------------------------------------------------------


def _scratch() -> str:
    """A folder in memory, where there is one."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    atexit.register(shutil.rmtree, folder)
    return folder


def _load(data: bytes) -> Any:
    return fx.load(io.BytesIO(data))


def _load_from_disk(suffix: str) -> Callable[[bytes], Any]:
    folder = _scratch()

    def load(data: bytes) -> Any:
        path = Path(folder, f"file{suffix}")
        path.write_bytes(data)
        return fx.load(path)

    return load


def _restore() -> Callable[[bytes], Any]:
    checkpoint = fx.Checkpoint(_scratch())
    checkpoint.dir.mkdir(exist_ok=True)

    def load(data: bytes) -> Any:
        checkpoint.path(1).write_bytes(data)
        return checkpoint.load(1)

    return load


READERS: dict[str, tuple[Callable[[], list[bytes]], Callable[[], Callable[[bytes], Any]]]] = {
    "pt": (lambda: [_pt()], lambda: _load),
    "legacy": (lambda: [LEGACY.read_bytes()], lambda: _load),
    "safetensors": (
        lambda: [_on_disk("x.safetensors", _tensors())],
        lambda: _load_from_disk(".safetensors"),
    ),
    "npz": (lambda: [_on_disk("x.npz", _tensors()), _compressed()], lambda: _load),
    "npy": (
        lambda: [_on_disk("x.npy", x) for x in (fx.arange(6.0).reshape((2, 3)), fx.ones(3) > 0)],
        lambda: _load_from_disk(".npy"),
    ),
    "checkpoint": (lambda: [_checkpoint()], _restore),
}  # fmt: skip


# mutations --------------------------------------------------------------------------------------


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The data with one to four changes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not out:
            break
        rng.choice(CHANGES)(out, rng)
    return bytes(out)


def _flip(out: bytearray, rng: random.Random) -> None:
    out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)


def _set(out: bytearray, rng: random.Random) -> None:
    out[rng.randrange(len(out))] = rng.randrange(256)


def _cut(out: bytearray, rng: random.Random) -> None:
    del out[rng.randrange(len(out)) :]


def _drop(out: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(out))
    del out[at : at + rng.choice((1, 4, 16, 100))]


def _repeat(out: bytearray, rng: random.Random) -> None:
    at, to = rng.randrange(len(out)), rng.randrange(len(out))
    out[to:to] = out[at : at + rng.choice((1, 4, 16, 100))]


def _swap(out: bytearray, rng: random.Random) -> None:
    n = rng.choice((1, 8, 64))
    a, b = rng.randrange(len(out)), rng.randrange(len(out))
    first, second = bytes(out[a : a + n]), bytes(out[b : b + n])
    if len(first) == len(second):
        out[a : a + n], out[b : b + n] = second, first


def _grow(out: bytearray, rng: random.Random) -> None:
    """A large number where a length may stand."""
    form = rng.choice(("<H", "<I", "<Q", ">I", "<B"))
    value = rng.choice(LARGE) & (1 << 8 * struct.calcsize(form)) - 1
    at = rng.randrange(len(out))
    if at + struct.calcsize(form) <= len(out):
        struct.pack_into(form, out, at, value)


CHANGES = (_flip, _flip, _set, _cut, _drop, _repeat, _swap, _grow, _grow)


def rebuilt(data: bytes, rng: random.Random, sealed: bool) -> bytes:
    """A zip archive with mutated or swapped records, whose checksums are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        records = [(name, archive.read(name)) for name in archive.namelist()]
    at = rng.randrange(len(records)) if rng.random() < 0.4 else 0
    if rng.random() < 0.2:
        other = rng.randrange(len(records))
        (a, x), (b, y) = records[at], records[other]
        records[at], records[other] = (a, y), (b, x)
    else:
        records[at] = records[at][0], mutated(records[at][1], rng)
    file = io.BytesIO()
    if not sealed:
        writer = ArchiveWriter(file)
        writer.add_all(records)
        writer.close()
        return file.getvalue()
    with Sealed(file) as seal:
        writer = ArchiveWriter(seal)
        writer.add_all(records)
        writer.close(Sealed.SIZE, seal.seal)
    return file.getvalue()


def touch(value: Any) -> None:
    """Read all bytes of the tensors of what was loaded."""
    for leaf in fx.tree.leaves(value) if isinstance(value, dict | list | tuple) else [value]:
        if isinstance(leaf, fx.Tensor) and str(leaf.device) == "cpu" and leaf.nbytes < 1 << 24:
            np.asarray(leaf.detach()).tobytes()


# running ----------------------------------------------------------------------------------------


def run(reader: str, first: int, count: int) -> int:
    """Feed files to a reader; returns the number of failures."""
    make, opened = READERS[reader]
    fx.manual_seed(0)
    bases, load = make(), opened()
    for base in bases:
        touch(load(base))
    "".encode("cp437")  # of names in zip archives that are not marked as UTF-8
    seen: list[str] = []
    armed = [True]

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if armed[0] and event in FORBIDDEN:
            seen.append(f"{event} {str(args)[:100]}")

    sys.addaudithook(watch)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    loaded = refused = failed = 0
    for i in range(first, first + count):
        rng = random.Random(f"{reader} {i}")
        base = rng.choice(bases)
        if base[:2] == b"PK" and rng.random() < 0.7:
            data = rebuilt(base, rng, reader == "checkpoint")
        else:
            data = mutated(base, rng)
        signal.alarm(SECONDS)
        try:
            touch(load(data))
            loaded += 1
        except (FileFormatError, DeviceError) as error:
            refused += 1
            if not str(error):
                failed += 1
                print(f"file {i}: an error without a message")
        except BaseException as error:
            failed += 1
            print(f"file {i}: {type(error).__name__}: {error}"[:300])
        signal.alarm(0)
        if seen:
            failed += 1
            print(f"file {i}: {seen.pop()}")
    armed[0] = False  # what follows is this script's own
    print(f"{reader}: {loaded} loaded, {refused} refused, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])) > 0)
