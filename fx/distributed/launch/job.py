"""The launcher's loop: attempts, what ends one, what is said of it, what starts the next."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
import uuid
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType

from fx.distributed.launch.hangs import Watch
from fx.distributed.launch.hosts import Hosts, Interrupted
from fx.distributed.launch.meeting import Alone, Place
from fx.distributed.launch.options import cores
from fx.distributed.launch.ranks import ENDED, Failure, Rank, Ranks

_GRACE = 0.3  # seconds from SIGTERM to SIGKILL for those who have lost one of theirs
_LOOK = 0.5  # seconds between two looks into the recorders
_SETTLED = 1.0  # seconds after which the launcher has time for itself
_WARM = ("fx.graph", "fx.compiler", "fx.backends.cpu.llvm", "fx.transforms.jitting")


def say(text: str) -> None:
    """Onto the launcher's own stderr."""
    print(f"[fx.run] {text}", file=sys.stderr, flush=True)


class Job:
    """Runs a script as ``options`` say; ``run`` gives the launcher's exit code, ``close`` cleans.

    ``ranks`` are those of the last attempt, ``failed`` those of them that nobody ended, the cause
    first.
    """

    ranks: Ranks
    failed: list[Rank]

    def __init__(self, options: Namespace) -> None:
        self.options = options
        unnamed = options.rdzv_id == "none" and options.nodes[1] == 1
        self.run_id = uuid.uuid4().hex if unnamed else options.rdzv_id
        self.split = int(os.environ.get("FX_BATCH_SPLIT", "1"))
        self._signals: list[int] = []  # that came for the launcher
        self._warm = _modules()
        self.failed = []
        self._launcher = os.getpid()
        if options.log_dir is None:
            self.folder = Path(tempfile.mkdtemp(prefix="fx_run_"))
        else:
            Path(options.log_dir).mkdir(parents=True, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(prefix=f"{self.run_id}_", dir=options.log_dir))
        self._awake, self._waker = socket.socketpair()  # a signal writes here, and wakes ``select``
        self._awake.setblocking(False)
        self._waker.setblocking(False)

    def run(self) -> int:
        """0, or 1 after a failure, or 128 + the signal that ended the launcher."""
        before = {number: signal.signal(number, self._told) for number in self._handled()}
        old = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        try:
            with closing(self._meeting()) as self.meeting:
                return self._attempts()
        except Interrupted:
            return 128 + self._signals[0]
        finally:
            if os.getpid() == self._launcher:
                signal.set_wakeup_fd(old)
                for number, handler in before.items():
                    signal.signal(number, handler)

    def close(self) -> None:
        """Delete the files of the ranks, unless a folder was given for them."""
        if self.options.log_dir is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _meeting(self) -> Alone | Hosts:
        if self.options.nodes[1] == 1:
            return Alone(self.options)
        return Hosts(self.options, lambda: bool(self._signals))

    def _attempts(self) -> int:
        _preload(self.options)
        attempt = restarts = 0
        while True:
            memory = _killed_for_memory()
            place = self.meeting.meet(restarts, self.split)
            restarts, self.split = place.restarts, place.split
            failure = self._attempt(attempt, place)
            if self._signals:
                return 128 + self._signals[0]
            if failure is None and self.meeting.stopped is None:
                return 0
            attempt += 1
            if failure is None and not self.meeting.counts:
                say(f"starting again: {self.meeting.stopped}")
            elif (
                failure is not None
                and self.options.on_oom == "halve"
                and (
                    _out_of_memory(failure)
                    or (failure.code == -signal.SIGKILL and _killed_for_memory() > memory)
                )
            ):
                self.split *= 2
                say(f"memory was short: starting again with FX_BATCH_SPLIT={self.split}")
            elif restarts < self.options.max_restarts:
                restarts += 1
                say(f"starting again ({restarts} of {self.options.max_restarts})")
            else:
                return 1

    def _attempt(self, number: int, place: Place) -> Failure | None:
        """The first failure of a rank of this host; None without one, or where we were stopped."""
        folder = self.folder / f"attempt_{number}"
        environments = [self._environment(place, local) for local in range(self.options.ranks)]
        for local, environment in enumerate(environments):
            environment["FX_DIST_RECORD"] = str(folder / str(local) / "flight")
        ranks = self.ranks = Ranks(self.options, folder, environments, self._forget)
        watch = Watch(ranks)
        try:
            failure = self._watch(ranks, watch)
        except BaseException:
            ranks.end(signal.SIGKILL, 0)
            raise
        if self._signals:
            ranks.end(
                self._signals[0], self.options.shutdown_timeout, lambda: len(self._signals) > 1
            )
            return None
        if failure is None:
            if self.meeting.stopped is not None:
                say(self.meeting.stopped)
            ranks.end(signal.SIGTERM, _GRACE)
            return None
        wrong = watch.look(failure.rank) if failure.error is not None else None
        if wrong is not None:  # a hang that we have found, or the rank itself
            say(wrong)
        self.meeting.failed(f"rank {failure.rank}: {failure.text()}")
        if (
            failure.error is not None
            and self.options.modes[failure.local_rank]["stderr"] != "console"
        ):
            say(f"rank {failure.rank}:\n{_traceback(failure)}")
        ranks.end(signal.SIGTERM, _GRACE)
        self._report(failure, ranks)
        return failure

    def _watch(self, ranks: Ranks, watch: Watch) -> Failure | None:
        """Until a rank fails or hangs, all have ended, or a signal comes for the launcher."""
        next_look = time.monotonic()
        warm = next_look + _SETTLED
        with selectors.DefaultSelector() as selector:
            selector.register(self._awake, selectors.EVENT_READ)
            selector.register(self.meeting, selectors.EVENT_READ)
            while not self._signals:
                selector.select(self.options.monitor_interval)
                with suppress(BlockingIOError):
                    self._awake.recv(4096)
                self.meeting.poll()
                ranks.drain()
                failure = ranks.look()
                if failure is not None or self.meeting.stopped is not None:
                    return failure
                if ranks.done():
                    if self.meeting.finished():
                        return None
                    continue
                if time.monotonic() < next_look:
                    continue
                wrong = watch.look()
                if wrong is not None:
                    first = ranks.ranks[0]
                    error = {"message": {"message": wrong.splitlines()[0]}}
                    return Failure(
                        first.rank, first.local_rank, first.pid, None, time.monotonic(), error
                    )
                if self.options.max_restarts and time.monotonic() > warm:
                    next(self._warm, None)  # so that the next attempt's ranks have it
                next_look = time.monotonic() + max(self.options.monitor_interval, _LOOK)
        return None

    def _environment(self, place: Place, local: int) -> dict[str, str]:
        told = self.options
        threads = max(1, cores() // told.ranks)
        threads = os.environ.get("OMP_NUM_THREADS", str(threads))
        return place.variables(local, self.run_id, told.max_restarts, threads, told.role) | {
            "FX_NUM_THREADS": os.environ.get("FX_NUM_THREADS", threads),
            "FX_BATCH_SPLIT": str(place.split),
        }

    def _report(self, failure: Failure, ranks: Ranks) -> None:
        first = ranks.ranks[failure.local_rank]
        self.failed = [first, *(r for r in ranks.ranks if r is not first and r.code not in ENDED)]
        others = [
            f"rank {each.rank}: exit code {each.code}" for each in self.failed if each is not first
        ]
        lines = [
            f"{self.options.script} FAILED",
            "Root Cause (first observed failure):",
            f"  rank     : {failure.rank} (local_rank: {failure.local_rank}, pid: {failure.pid})",
            f"  cause    : {failure.text()}",
        ]
        if self.options.log_dir is not None:
            lines.append(f"  logs     : {ranks.ranks[failure.local_rank].folder}")
        if others:
            lines.append("Other failures:  " + "; ".join(others))
        say("\n".join(lines))

    def _forget(self) -> None:
        """In a forked rank: close what is the launcher's."""
        self.meeting.leave()
        self._awake.close()
        self._waker.close()

    def _handled(self) -> list[signal.Signals]:
        return [*self.options.signals, signal.SIGCHLD]

    def _told(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self._signals.append(number)


def _traceback(failure: Failure) -> str:
    assert failure.error is not None
    message = failure.error["message"]
    return str(message.get("extraInfo", {}).get("py_callstack", message["message"])).rstrip()


def _out_of_memory(failure: Failure) -> bool:
    return failure.text().startswith(("MemoryError", "OutOfMemoryError"))


def _killed_for_memory() -> int:
    """How often the kernel has killed for memory in this control group."""
    with suppress(OSError, ValueError):
        text = Path("/sys/fs/cgroup/memory.events").read_text()
        return int(dict(line.split() for line in text.splitlines()).get("oom_kill", 0))
    return 0


def _preload(options: Namespace) -> None:
    """Import fx, and what the script imports of it, before the fork: once for all ranks."""
    if options.call or options.no_python or options.start_method != "fork":
        return
    importlib.import_module("fx")
    if options.module:
        return
    try:
        tree = ast.parse(Path(options.script).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # the ranks say it
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.split(".")[0] == "fx":
                with suppress(Exception):  # the ranks say it
                    importlib.import_module(name)


def _modules() -> Iterator[None]:
    """Import what compiled steps need, a module at each step of the iterator."""
    names = ["numba", "llvmlite.binding"]
    for package in _WARM:
        with suppress(Exception):
            found = importlib.import_module(package)
            names += [m.name for m in pkgutil.iter_modules(found.__path__, package + ".")]
    for name in names:
        with suppress(Exception):
            importlib.import_module(name)
        yield
