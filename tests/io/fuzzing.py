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
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import fx
import fx.wording  # loads when an error is shown, which is no reader's doing
from fx.errors import DeviceError, FileFormatError
from fx.testing.fuzz.mutations import BASES, mutated, rebuilt, touch

MEMORY = 512 << 20  # bytes that a reader may take beyond what the process has
SECONDS = 20  # for one file, which takes a few milliseconds
FORBIDDEN = {"os.system", "os.exec", "os.posix_spawn", "os.remove", "subprocess.Popen", "exec",
             "pickle.find_class", "socket.connect", "shutil.rmtree", "import"}  # fmt: skip
LEGACY = Path(__file__).with_name("legacy.bin")


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
    "pt": (BASES["pt"], lambda: _load),
    "legacy": (lambda: [LEGACY.read_bytes()], lambda: _load),
    "safetensors": (BASES["safetensors"], lambda: _load_from_disk(".safetensors")),
    "npz": (BASES["npz"], lambda: _load),
    "npy": (BASES["npy"], lambda: _load_from_disk(".npy")),
    "checkpoint": (BASES["checkpoint"], _restore),
}


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
