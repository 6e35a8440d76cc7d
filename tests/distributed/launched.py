"""The launcher for tests: one process that has imported fx forks it, with a deadline for each.

``fresh`` starts it as a user does, ``python -m fx.run``. Either leads a session of its own: all
that it starts is found by that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_DROPPED = ("PMI_", "PET_", "OMP_", "FX_NUM", "FX_RUN", "FX_DIST")


class Launched:
    """A launcher that runs."""

    def __init__(self, code: Callable[[], int | None], pid: int, place: Path) -> None:
        self._code, self.pid, self._place = code, pid, place
        self._ended: int | None = None

    @property
    def out(self) -> str:
        return (self._place / "out").read_text()

    @property
    def err(self) -> str:
        return (self._place / "err").read_text()

    def until(self, text: str, count: int = 1, of: str = "out", deadline: float = 60) -> None:
        """Wait until what it wrote has so many of these."""
        end = time.monotonic() + deadline
        while getattr(self, of).count(text) < count:
            assert time.monotonic() < end, f"no {text!r}\n{self.out}\n{self.err}"
            time.sleep(0.01)

    def ended(self) -> int | None:
        """Its exit code, once it has ended."""
        if self._ended is None:
            self._ended = self._code()
        return self._ended

    def wait(self, deadline: float = 120) -> int:
        """Its exit code; all that it started must be gone then."""
        end = time.monotonic() + deadline
        while (code := self.ended()) is None:
            if time.monotonic() > end:
                os.kill(self.pid, 15)
                raise AssertionError(f"no end in {deadline} s\n{self.out}\n{self.err}")
            time.sleep(0.005)
        assert self.gone(20), "a process was left behind"
        return code

    def living(self) -> list[int]:
        """The processes that it started, and itself."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                told = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if told[0] != "Z" and int(told[3]) == self.pid:
                found.append(int(each.name))
        return found

    def gone(self, within: float) -> bool:
        """Whether all of them end within so many seconds."""
        end = time.monotonic() + within
        while self.living():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True


def _environment(variables: dict[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_DROPPED)}
    return kept | {"PYTHONPATH": str(ROOT)} | variables


class Zygote:
    """Forks launchers from one process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=ROOT,
            env=_environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def _ask(self, question: dict[str, Any]) -> Any:
        to, back = self._process.stdin, self._process.stdout
        assert to is not None and back is not None
        to.write(json.dumps(question).encode() + b"\n")
        to.flush()
        return json.loads(back.readline())

    def start(self, *arguments: str, cwd: Path, **variables: str) -> Launched:
        """Begin ``python -m fx.run`` with these arguments in a folder."""
        place = _place(cwd)
        told = {"arguments": arguments, "cwd": str(cwd), "place": str(place)}
        pid = self._ask(told | {"environment": _environment(variables)})
        return Launched(lambda: self._ask({"pid": pid}), pid, place)

    def run(self, *arguments: str, cwd: Path, **variables: str) -> tuple[int, str, str]:
        """Exit code, output and errors of one that runs to its end."""
        launched = self.start(*arguments, cwd=cwd, **variables)
        return launched.wait(), launched.out, launched.err

    def close(self) -> None:
        self._process.communicate(timeout=60)


def fresh(*arguments: str, cwd: Path, **variables: str) -> Launched:
    """As ``Zygote.start``, in a new interpreter."""
    place = _place(cwd)
    with (place / "out").open("w") as out, (place / "err").open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "fx.run", *arguments],
            cwd=cwd,
            env=_environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    return Launched(process.poll, process.pid, place)


def _place(cwd: Path) -> Path:
    place = cwd.parent / f"{cwd.name}.{time.monotonic_ns()}"
    place.mkdir()
    for name in ("out", "err"):
        (place / name).touch()
    return place


def _main() -> None:
    import fx
    from fx.distributed.launch import hangs, job, main, options  # so that no launcher imports them

    assert fx and hangs and job and options
    for line in sys.stdin:
        told = json.loads(line)
        if "pid" in told:
            pid, status = os.waitpid(told["pid"], os.WNOHANG)
            print(json.dumps(os.waitstatus_to_exitcode(status) if pid else None), flush=True)
            continue
        pid = os.fork()
        if pid:
            print(pid, flush=True)
            continue
        _become_launcher(told)
        code: Any = 70
        try:
            code = main(told["arguments"])
        except SystemExit as end:
            code = end.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _become_launcher(told: dict[str, Any]) -> None:
    environment = told["environment"]
    os.setsid()
    os.chdir(told["cwd"])
    os.environ.clear()
    os.environ.update(environment)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    for fd, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(told["place"]) / name, flags), fd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


if __name__ == "__main__":
    _main()
