"""``python -m benchmarks.first_result LIBRARY``: from nothing to the first result, and its memory.

Trains a 2-block transformer in a fresh process. Prints the seconds from the first import to the
result of the first step, and by how many MiB the process has grown at most, five steps later,
since the model and its data were made.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from time import perf_counter

BLOCKS = 2


def _memory(line: str) -> float:
    """MiB that are resident now (VmRSS) or were at most (VmHWM).

    getrusage would count what the parent process had before this one began.
    """
    with open("/proc/self/status") as file:
        found = next(x for x in file if x.startswith(line))
    return int(found.split()[1]) / 2**10


def main() -> None:
    """Run one library in this process."""
    library = sys.argv[1]
    import numpy  # noqa: F401 - every library needs it

    start = perf_counter()
    from benchmarks import models
    from benchmarks.cases_jit import jax_step_of, step_of, tokens

    inputs = tokens()
    if library == "jax":
        run = jax_step_of(lambda jax: models.jax_transformer(jax, BLOCKS), *inputs)
    else:
        run = step_of(library, lambda nn: models.transformer(nn, BLOCKS), *inputs)
    before = _memory("VmRSS")
    run()
    seconds = perf_counter() - start
    for _ in range(5):
        run()
    print(seconds, _memory("VmHWM") - before)


def in_a_process(library: str, column: int, warm: bool = False) -> Callable[[], float]:
    """What measures a fresh process: seconds (column 0) or MiB (column 1).

    Args:
        library: ``"fx"``, ``"torch"``, ``"compile"`` or ``"jax"``.
        column: of what is printed.
        warm: whether fx finds its code on disk.
    """
    folder = tempfile.TemporaryDirectory()

    def sample() -> float:
        environment = dict(os.environ, FX_CACHE_DIR=folder.name)
        if not warm:
            environment["FX_CACHE"] = "0"
        out = subprocess.run(
            [sys.executable, "-m", "benchmarks.first_result", library],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return float(out.stdout.split()[column])

    if warm:
        sample()
    return sample


if __name__ == "__main__":
    main()
