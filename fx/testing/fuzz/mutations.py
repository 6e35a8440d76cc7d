"""Files to begin with, and changes of them: what readers of files are fed with."""

from __future__ import annotations

import io
import random
import struct
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fx
from fx.errors import DeviceError, FileFormatError
from fx.io.archive import ArchiveWriter
from fx.io.sealing import Sealed
from fx.testing.fuzz.outcomes import Found

LARGE = (0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


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


BASES: dict[str, Callable[[], list[bytes]]] = {
    "pt": lambda: [_pt()],
    "safetensors": lambda: [_on_disk("x.safetensors", _tensors())],
    "npz": lambda: [_on_disk("x.npz", _tensors()), _compressed()],
    "npy": lambda: [_on_disk("x.npy", x) for x in (fx.arange(6.0).reshape((2, 3)), fx.ones(3) > 0)],
    "checkpoint": lambda: [_checkpoint()],
}


def base(kind: str) -> bytes:
    """A sound file of a kind, the same in every process."""
    fx.manual_seed(0)
    return BASES[kind]()[0]


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


def changed(data: bytes, change: str, seed: int) -> bytes:
    """The data with one change, named as the functions of ``CHANGES``."""
    out = bytearray(data)
    if out:
        {f.__name__.strip("_"): f for f in CHANGES}[change](out, random.Random(seed))
    return bytes(out)


def read(kind: str, data: bytes) -> None:
    """Read a file: it gives a value or a clear error, and takes no more memory than it may.

    Raises:
        Found: if it does not.
    """
    most = 80 << 20
    tracemalloc.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            name = "step-0000000001.pt" if kind == "checkpoint" else f"file.{kind}"
            path = Path(folder, name)
            path.write_bytes(data)
            touch(fx.Checkpoint(folder).load(1) if kind == "checkpoint" else fx.load(path))
    except (FileFormatError, DeviceError) as error:
        if not str(error):
            raise Found("an error without a message") from error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if peak > most + 256 * len(data):
        raise Found(f"a file of {len(data)} bytes took {peak} bytes")
