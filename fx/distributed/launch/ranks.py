"""The ranks of one attempt on this host: forked, watched, ended with all that they started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fx.distributed.launch import calls, worker
from fx.distributed.launch.logs import Tail

ENDED = (0, None, -signal.SIGTERM, -signal.SIGKILL)  # exit codes: well, or by us


@dataclass(slots=True)
class Failure:
    """What ended a rank: its exit code (negative: the signal); where it raised, its error file."""

    rank: int
    local_rank: int
    pid: int
    code: int | None  # None: it has raised, and has not ended yet
    at: float  # time.monotonic()
    error: dict[str, Any] | None = None

    def text(self) -> str:
        """One line: how it ended."""
        if self.error is not None:
            return str(self.error["message"]["message"])
        assert self.code is not None
        if self.code >= 0:
            return f"exit code {self.code}"
        try:
            name = signal.Signals(-self.code).name
        except ValueError:
            name = f"signal {-self.code}"
        return f"killed by {name}"


@dataclass(slots=True)
class Rank:
    """A process of an attempt, and the folder of its files."""

    rank: int
    local_rank: int
    folder: Path
    pid: int = 0
    code: int | None = None  # of its exit, once it has ended
    tails: list[Tail] = field(default_factory=list)

    def error(self) -> dict[str, Any] | None:
        """What it wrote into its error file; only ``worker.record``'s has the time to order by."""
        try:
            told = json.loads((self.folder / "error.json").read_text())
            return (
                told
                if isinstance(told["message"], dict)
                else {"message": {"message": told["message"]}}
            )
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def result(self) -> int:
        """Its exit code: 1 where it had told what it raised, and was ended before it left."""
        if self.code in ENDED and self.error() is not None:
            return 1
        return self.code or 0


class Ranks:
    """Starts ``options.ranks`` processes below ``folder``; ``look`` says what has failed.

    ``environments`` has each one's variables. ``inherited`` are closed in the children: what only
    the launcher may hold open.
    """

    def __init__(
        self,
        options: Namespace,
        folder: Path,
        environments: list[dict[str, str]],
        forget: Callable[[], None],
    ) -> None:
        self.options = options
        self.ranks: list[Rank] = []
        self._forget = forget
        for local, environment in enumerate(environments):
            place = folder / str(local)
            place.mkdir(parents=True, exist_ok=True)
            self.ranks.append(Rank(int(environment["RANK"]), local, place))
        sys.stdout.flush()
        sys.stderr.flush()
        for rank, environment in zip(self.ranks, environments, strict=True):
            self._start(rank, environment)

    def look(self) -> Failure | None:
        """The first failure since the start, if there is one; the ranks that ended are reaped."""
        found = []
        for rank in self.ranks:
            ended = self._reap(rank)
            if rank.code is not None and not rank.code:
                continue  # whatever it recorded, it went on and ended well
            error = rank.error()
            if ended or error is not None:
                at = time.monotonic()
                if error is not None:
                    at = error["message"].get("extraInfo", {}).get("at", at)
                found.append(Failure(rank.rank, rank.local_rank, rank.pid, rank.code, at, error))
        return min(found, key=lambda failure: failure.at, default=None)

    def done(self) -> bool:
        """Whether all have ended."""
        return all(rank.code is not None for rank in self.ranks)

    def drain(self) -> None:
        """Show what the ranks wrote that are shown through files."""
        for rank in self.ranks:
            for tail in rank.tails:
                tail.show()

    def signal(self, number: int) -> None:
        """Send a signal to all that live, and to what they started."""
        for rank in self.ranks:
            if rank.code is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(rank.pid, number)

    def end(self, number: int, patience: float, hurry: Callable[[], bool] = lambda: False) -> None:
        """End all: a signal, ``patience`` seconds to follow it (or until ``hurry``), SIGKILL."""
        self.signal(number)
        end = time.monotonic() + patience
        while not self._all_reaped() and time.monotonic() < end and not hurry():
            time.sleep(0.005)
        self.signal(signal.SIGKILL)
        while not self._all_reaped():
            time.sleep(0.001)
        self.drain()

    def _all_reaped(self) -> bool:
        return all(self._reap(rank) or rank.code is not None for rank in self.ranks)

    def _reap(self, rank: Rank) -> bool:
        """Whether it is just found to have failed.

        Its group dies before it is reaped: until then no other process has that number.
        """
        if rank.code is not None or not rank.pid:
            return False
        if os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(rank.pid, signal.SIGKILL)
        _, status = os.waitpid(rank.pid, 0)
        rank.code = os.waitstatus_to_exitcode(status)
        return rank.code != 0

    def _start(self, rank: Rank, environment: dict[str, str]) -> None:
        environment = environment | {"TORCHELASTIC_ERROR_FILE": str(rank.folder / "error.json")}
        environment["FX_RUN_STACKS"] = str(rank.folder / "stacks")
        streams = self._streams(rank)
        launcher = os.getpid()
        rank.pid = os.fork()
        if rank.pid:
            with contextlib.suppress(OSError):
                os.setpgid(rank.pid, rank.pid)  # the child does so too: whoever is first
            for fd in streams.values():
                os.close(fd)
            return
        code = 1
        try:
            worker.become_rank(launcher, environment, streams)
            self._forget()
            code = self._run(rank.folder)
        except BaseException as error:  # nothing of the launcher may go on in the child
            sys.excepthook(type(error), error, error.__traceback__)
        finally:
            worker.leave(code)

    def _run(self, folder: Path) -> int:
        told = self.options
        if told.call:
            return calls.run(*told.call, folder, told.start_method)
        if told.no_python:
            command = [told.script, *told.arguments]
        elif told.start_method == "spawn":
            kind = "module" if told.module else "file"
            command = [sys.executable, "-u", worker.__file__, kind, told.script, *told.arguments]
        else:
            worker.renew()
            return worker.run(told.script, told.arguments, told.module)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            print(f"fx.run: {command[0]!r} cannot be run: {error.strerror}", file=sys.stderr)
            return 127

    def _streams(self, rank: Rank) -> dict[int, int]:
        """For the fds of a rank, what they become copies of."""
        out = {}
        if sys.stdin is None or os.isatty(0):  # a group in the background may not read a terminal
            out[0] = os.open(os.devnull, os.O_RDONLY)
        for fd, (name, mode) in enumerate(self.options.modes[rank.local_rank].items(), 1):
            if mode == "none":
                out[fd] = os.open(os.devnull, os.O_WRONLY)
            elif mode != "console":
                path = rank.folder / f"{name}.log"
                out[fd] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
                if mode == "tee":
                    rank.tails.append(Tail(path, fd, f"[{self.options.role}{rank.rank}]:"))
        return out
