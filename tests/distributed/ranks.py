"""Cases that run in several ranks: the interpreters start once for a whole file of cases.

A file of cases has functions ``case_*``, which every rank runs in their order. ``outcomes`` starts
the ranks under ``mpiexec`` with a deadline, and gives for each case what went wrong, by rank.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import runpy
import subprocess
import sys
import time
import traceback
from pathlib import Path

from tests.thorough import THOROUGH

ROOT = Path(__file__).parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")
# how many ranks run each file; two, which the launcher's tests have too, are a case of three: what
# is right for an odd number, where a rank has a neighbour on each side, is right for them
SIZES = (2, 3) if THOROUGH else (3,)


def cases(name: str) -> list[str]:
    """The cases of a file, without running it."""
    tree = ast.parse((Path(__file__).parent / name).read_text())
    found = [f.name for f in tree.body if isinstance(f, ast.FunctionDef)]
    return [f for f in found if f.startswith("case_")]


def outcomes(name: str, size: int, base: Path, deadline: float = 240.0) -> dict[str, str]:
    """What went wrong in each case: nothing where it passed in every rank.

    Two workers of one test run that ask for the same share one run of it, below ``base``.
    """
    place = base / f"{name}-{size}"
    done = place / "done"
    try:
        place.mkdir(parents=True)
    except FileExistsError:
        end = time.monotonic() + deadline + 10
        while not done.exists() and time.monotonic() < end:
            time.sleep(0.05)
    else:
        _run([str(MPIEXEC), "-n", str(size)], name, place, deadline)
        done.touch()
    return _read(place, name, size)


def _run(launcher: list[str], name: str, place: Path, deadline: float) -> None:
    command = [*launcher, sys.executable, __file__, name, str(place)]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "FX_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, "PYTHONPATH": str(ROOT)}
    with (place / "output").open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )
        try:
            process.wait(deadline)
        except subprocess.TimeoutExpired:
            process.terminate()  # mpiexec ends its ranks
            process.wait(10)


def _read(place: Path, name: str, size: int) -> dict[str, str]:
    said = (place / "output").read_text()[-3000:]
    told = []
    for rank in range(size):
        path = place / str(rank)
        lines = path.read_text().splitlines() if path.exists() else []
        told.append(dict(map(json.loads, lines)))
    out = {}
    for case in cases(name):
        wrong = [
            f"rank {r}: {t.get(case, f'did not come back; {said}')}" for r, t in enumerate(told)
        ]
        out[case] = "\n".join(w for w in wrong if not w.endswith(": "))
    return out


def _main(name: str, place: Path) -> None:
    import fx.distributed.mpi as mpi

    gc.freeze()
    gc.set_threshold(20_000, 10, 10)  # as in conftest.py
    rank = mpi.start().COMM_WORLD.rank
    space = runpy.run_path(str(Path(__file__).parent / name))
    with (place / str(rank)).open("w") as out:
        for case in cases(name):
            text = ""
            try:
                space[case]()
            except BaseException:
                text = traceback.format_exc()[-3000:]
            print(json.dumps([case, text]), file=out, flush=True)


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
