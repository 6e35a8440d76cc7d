"""Runs programs in processes of their own, confirms what is found, and makes it smaller."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

from fx.slotted import slotted
from fx.testing.fuzz.program import Op, Program, from_data, smaller

SECONDS = 60.0  # for one program, which takes a tenth of one
MAKING = """\
def test_found():
    from fx.testing.fuzz.generator import make

    {main}
"""
STARVED = 9  # times as long may a program take that gets no core
KEPT = 300  # programs of one process: what it keeps does not grow without end


@slotted(frozen=True)
class Finding:
    """A program that fails.

    Attributes:
        program: as small as it could be made.
        kind: "differs", "crash", "hang" or the name of an exception.
        message: what was said.
        alone: whether it fails again in a process of its own; else after others, or by chance.
    """

    program: Program
    kind: str
    message: str
    alone: bool = True

    def test(self, name: str = "test_found") -> str:
        """A complete pytest module."""
        said = "\n".join(f"# {line}" for line in self.message.strip().splitlines()[-12:])
        when = "" if self.alone else "# not every time, or only after other programs\n"
        return (
            f"# {self.kind} ({self.program.generator})\n{when}{said}\n{self.program.source(name)}"
        )


class Child:
    """A process that runs one program after the other.

    Args:
        planted: sources that it runs first, by name.
        seconds: how long one program may take.
    """

    def __init__(self, planted: dict[str, str] | None = None, seconds: float = SECONDS) -> None:
        self.planted = planted or {}
        self.seconds = seconds
        self.process: subprocess.Popen[str] | None = None
        self.served = 0
        self.rest = ""

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None or self.served >= KEPT:
            self.stop()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fx.testing.fuzz.child", json.dumps(self.planted)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                start_new_session=True,
            )  # fmt: skip
            self.served, self.rest = 0, ""
            self._line(time.monotonic() + SECONDS)  # it is ready
        return self.process

    def stop(self) -> None:
        """End the process."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()

    def order(self, what: dict[str, Any]) -> tuple[Program | None, str | None, str]:
        """Let it make or run a program; the program, and what is wrong with it."""
        process = self._started()
        self.served += 1
        program = None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(what) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it died after its last answer; the next read says so
        end = time.monotonic() + self.seconds
        while True:
            line = self._line(end)
            if line is None:
                self.stop()
                return program, "hang", f"no answer in {self.seconds:.0f} s"
            if not line:
                code = process.wait()
                self.process = None
                how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
                return program, "crash", f"the process ended: {how}"
            answer = json.loads(line)
            if "program" in answer:
                program = from_data(answer["program"])
                continue
            return program, answer["found"], answer["message"] or ""

    def _delay(self) -> float:
        """How long its main thread was ready and had no core, in seconds."""
        assert self.process is not None
        try:
            with open(f"/proc/{self.process.pid}/schedstat") as file:
                return int(file.read().split()[1]) / 1e9
        except (OSError, IndexError):  # no Linux, or it ended
            return 0.0

    def _line(self, end: float) -> str | None:
        """The next line; "" at the end of all, None when it is too late."""
        assert self.process is not None and self.process.stdout is not None
        number = self.process.stdout.fileno()
        waited, latest = self._delay(), end + STARVED * self.seconds
        while "\n" not in self.rest:
            left = end - time.monotonic()
            if not select.select([number], [], [], max(left, 0))[0]:
                waited, told = self._delay(), waited
                if waited - told < 1:
                    return None
                end = min(time.monotonic() + waited - told, latest)  # others had the core
                continue
            data = os.read(number, 1 << 16)
            if not data:
                return ""
            self.rest += data.decode()
        line, _, self.rest = self.rest.partition("\n")
        return line


def shrunk(finding: Finding, child: Child, seconds: float, tries: int = 400) -> Finding:
    """The finding with the smallest program that still fails in the same way."""
    end = time.monotonic() + seconds
    again = True
    while again and tries > 0:
        again = False
        for program in smaller(finding.program):
            tries -= 1
            if tries <= 0 or time.monotonic() > end:
                return finding
            _, kind, message = child.order({"program": program.as_data()})
            if kind == finding.kind:
                finding = replace(finding, program=program, message=message)
                again = True
                break
    return finding


class Hunt:
    """Makes and runs programs of several generators.

    Args:
        seed: of all programs.
        planted: see ``Child``.
        seconds: how long one program may take.
        shrinking: how long one finding is made smaller, in seconds.

    Attributes:
        counts: the programs that were run, by generator.
        void: those of them that said nothing, as their plain function fails.
        findings: what failed.
    """

    def __init__(
        self,
        seed: int = 0,
        planted: dict[str, str] | None = None,
        seconds: float = SECONDS,
        shrinking: float = 90.0,
    ) -> None:
        self.seed = seed
        self.shrinking = shrinking
        self.child = Child(planted, seconds)
        self.planted, self.seconds = planted, seconds
        self.counts: dict[str, int] = {}
        self.void: dict[str, int] = {}
        self.findings: list[Finding] = []

    def one(self, generator: str, index: int) -> Finding | None:
        """Make and run one program; what fails is confirmed and made smaller."""
        self.counts[generator] = self.counts.get(generator, 0) + 1
        program, kind, message = self.child.order(
            {"generator": generator, "seed": self.seed, "index": index}
        )
        if kind == "":
            self.void[generator] = self.void.get(generator, 0) + 1
        if not kind:
            return None
        if program is None:  # it failed while an operation was tried
            made = Op("", f"make({generator!r}, {self.seed}, {index})")
            program = Program(generator, MAKING, {"main": (made,)})
        fresh = Child(self.planted, self.seconds)
        for _ in range(4):  # what depends on instants does not fail every time
            _, again, said = fresh.order({"program": program.as_data()})
            if again:
                break
        finding = Finding(program, again or kind, said or message, bool(again))
        if again:
            finding = shrunk(finding, fresh, self.shrinking)
        fresh.stop()
        self.findings.append(finding)
        return finding

    def stop(self) -> None:
        """End the process."""
        self.child.stop()

    def summary(self) -> str:
        """The counts in words."""
        counts = ", ".join(f"{name} {n}" for name, n in self.counts.items())
        void = f", {sum(self.void.values())} of them void" if self.void else ""
        total = sum(self.counts.values())
        return f"{total} programs ({counts}){void}, {len(self.findings)} findings"
