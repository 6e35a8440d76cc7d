"""Ranks that call a function, in place of a script: what it is told, and what it gives back."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from fx.distributed.launch import worker

_VALUE = "value"


def run(function: Callable[..., Any], arguments: tuple[Any, ...], folder: Path, method: str) -> int:
    """In a forked rank: call it here, or in a new interpreter; the exit code."""
    if method == "fork":
        worker.renew()
        return worker.guarded(lambda: _call(function, arguments, folder))
    told = spawn.get_preparation_data("rank")  # how its interpreter finds what is pickled by name
    del told["authkey"]
    (folder / "call").write_bytes(pickle.dumps(told) + pickle.dumps((function, arguments)))
    os.execv(sys.executable, [sys.executable, "-u", "-m", __name__, str(folder)])


def value(folder: Path) -> Any:
    """What the function gave in a rank."""
    return pickle.loads((folder / _VALUE).read_bytes())


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], folder: Path) -> None:
    (folder / _VALUE).write_bytes(pickle.dumps(function(*arguments)))


def _main(folder: Path) -> None:
    with (folder / "call").open("rb") as file:
        spawn.prepare(pickle.load(file))
        function, arguments = pickle.load(file)
    _call(function, arguments, folder)


if __name__ == "__main__":
    worker.leave(worker.guarded(lambda: _main(Path(sys.argv[1]))))
