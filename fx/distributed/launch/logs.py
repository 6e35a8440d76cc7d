"""Output of ranks that goes into files and onto the console: a rank writes, we follow."""

from __future__ import annotations

import os
from pathlib import Path


class Tail:
    """Copies the whole lines that came to a file since the last ``show`` to a stream of our own.

    A rank never waits for the console, and what it wrote before a SIGKILL is there.
    """

    def __init__(self, path: Path, stream: int, prefix: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115
        self._stream = stream
        self._prefix = prefix.encode()
        self._rest = b""

    def show(self, last: bool = False) -> None:
        """Copy; with ``last`` also a line without an end, and close the file."""
        if self._file.closed:
            return
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        if last:
            self._file.close()
            lines += [self._rest] if self._rest else []
        text = b"".join(self._prefix + line + b"\n" for line in lines)
        while text:
            text = text[os.write(self._stream, text) :]
