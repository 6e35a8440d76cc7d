"""``--hosts a,b``: a launcher on each host, started through ssh, and ended with this process.

Each runs ``python -m fx.run --nnodes 2 --node-rank 0 …`` as one would by hand, in this folder, by
this interpreter's path. Its standard input is a leash: the shell there sends its launcher SIGTERM
when it ends, be it that this process closes it or dies. Its first line is ``FX_RUN_KEY``, which
stands in no command line.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from argparse import Namespace
from contextlib import suppress
from types import FrameType
from typing import Any

from fx.distributed.launch.options import UsageError

_LOOK = 0.05  # seconds between two looks at the launchers
_MORE = 5.0  # seconds beside --shutdown-timeout until they are through
_HERE = ("localhost", "127.0.0.1")
_MINE = {"--hosts": 2, "--ssh": 2, "--nnodes": 2, "--node-rank": 2, "--standalone": 1}
_SENT = ("FX_", "PET_", "OMP_", "OPENBLAS_", "PYTHON")  # variables that go along
_KEPT = ("FX_RUN_KEY", "PET_HOSTS", "PET_SSH", "PET_NNODES", "PET_NODE_RANK", "PET_STANDALONE")

_SHELL = """\
cd {folder} || exit 1
exec 3<&0
read -r FX_RUN_KEY <&3
export FX_RUN_KEY
env {variables} {command} </dev/null &
launcher=$!
(while read -r line <&3; do :; done; kill -TERM $launcher) >/dev/null 2>&1 &
leash=$!
wait $launcher
code=$?
kill $leash 2>/dev/null
exit $code
"""


class Remote:
    """The launchers of some hosts; ``run`` gives an exit code.

    Args:
        options: as they were parsed, with ``hosts`` and ``ssh``.
        arguments: as they were given.
    """

    def __init__(self, options: Namespace, arguments: list[str]) -> None:
        self.options = options
        self.hosts = [_host(told) for told in options.hosts.split(",")]
        if options.nnodes != "1" or options.node_rank or options.standalone:
            raise UsageError(
                "--hosts says how many hosts there are; leave --nnodes, --node-rank out"
            )
        if options.rdzv_backend != "static":
            raise UsageError("--hosts numbers hosts as they are listed; leave --rdzv-backend out")
        script = [options.script, *options.arguments]
        self._flags = _others(arguments[: len(arguments) - len(script)])
        self._script = script
        self._key = os.environ.get("FX_RUN_KEY") or secrets.token_hex(16)
        self._signals: list[int] = []
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> int:
        """0 where all launchers ended well; the code of the first that did not; 128 + a signal."""
        before = {number: signal.signal(number, self._told) for number in self.options.signals}
        try:
            for rank, (host, slots) in enumerate(self.hosts):
                self._running[f"{rank}: {host}"] = self._start(rank, host, slots)
            return self._watch()
        finally:
            for process in self._running.values():
                self._end(process)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self, rank: int, host: str, slots: str) -> subprocess.Popen[bytes]:
        flags = [*self._flags, "--nnodes", str(len(self.hosts)), "--node-rank", str(rank)]
        if not _given("--master-addr", self._flags) and "PET_MASTER_ADDR" not in os.environ:
            flags += ["--master-addr", self._first()]
        if slots:
            flags += ["--nproc-per-node", slots]
        command = [sys.executable, "-m", "fx.run", *flags, *self._script]
        sent = {k: v for k, v in os.environ.items() if k.startswith(_SENT) and k not in _KEPT}
        text = _SHELL.format(
            folder=shlex.quote(os.getcwd()),
            variables=shlex.join([f"{k}={v}" for k, v in sent.items()]),
            command=shlex.join(command),
        )
        shell = ["sh", "-c", text]
        if host not in _HERE:
            shell = [*shlex.split(self.options.ssh), host, shlex.join(shell)]
        try:
            process = subprocess.Popen(shell, stdin=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            raise UsageError(f"--ssh {self.options.ssh!r}: {error}") from None
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which is seen at once
            process.stdin.write(self._key.encode() + b"\n")
            process.stdin.flush()
        return process

    def _first(self) -> str:
        """Where the others reach the first host."""
        host = self.hosts[0][0].rpartition("@")[2]
        alone = all(h in _HERE for h, _ in self.hosts)
        return socket.gethostname() if host in _HERE and not alone else host

    def _watch(self) -> int:
        code, end, waiting = 0, float("inf"), dict(self._running)
        while waiting:
            if self._signals and end == float("inf"):
                end = self._let_go()
            for name, process in [*waiting.items()]:
                found = process.poll()
                if found is None:
                    continue
                del waiting[name]
                if found and not code and not self._signals:
                    code = found if 0 < found < 255 else 1
                    end = time.monotonic() + self.options.shutdown_timeout
                    if found == 255 or found < 0:
                        self._say(f"host {name}: {self.options.ssh} ended with {found}")
            if waiting and (time.monotonic() > end or len(self._signals) > 1):
                if not self._leashed(waiting):
                    break
                end = self._let_go()  # a host that has not met the others is told by nobody
            time.sleep(_LOOK)
        return 128 + self._signals[0] if self._signals else code

    def _leashed(self, waiting: dict[str, Any]) -> bool:
        return any(not process.stdin.closed for process in waiting.values())

    def _let_go(self) -> float:
        """Let the launchers end; when they should have."""
        for process in self._running.values():
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
        return time.monotonic() + self.options.shutdown_timeout + _MORE

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        if process.poll() is None:  # what it started there ends with the leash
            process.terminate()
            process.wait()

    def _say(self, text: str) -> None:
        print(f"[fx.run] {text}", file=sys.stderr, flush=True)

    def _told(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)


def _host(told: str) -> tuple[str, str]:
    """A host and how many ranks it has; "": as many as the others."""
    host, _, slots = told.strip().partition(":")
    if not host or host.startswith("-") or (slots and not (slots.isdecimal() and int(slots))):
        raise UsageError(f"--hosts takes HOST,USER@HOST,HOST:RANKS,...; got {told!r}")
    return host, slots


def _given(flag: str, flags: list[str]) -> bool:
    return any(f.partition("=")[0].replace("_", "-") == flag for f in flags)


def _others(flags: list[str]) -> list[str]:
    """The flags that are not about hosts."""
    out, skip = [], 0
    for flag in flags:
        name, has_value, _ = flag.partition("=")
        name = name.replace("_", "-")
        if skip:
            skip -= 1
        elif name in _MINE:
            skip = 0 if has_value else _MINE[name] - 1
        else:
            out.append(flag)
    return out
