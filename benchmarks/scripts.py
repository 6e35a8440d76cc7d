"""``python -m benchmarks scripts``: the scripts of ``tests/scripts``, run eagerly, beside PyTorch.

Only their import lines differ, and both libraries draw the same numbers, so they do the same work.
A row is the time of the processor, on one thread, that ``main`` takes for a step (a game's length
hangs on its weights): the median of the ratios of runs that follow each other, after a first run of
each. The slowest by comparison come first. With ``--jit`` those that have a step are run with
``fx.jit`` on it: a row is then the median time of a call of the step, of the second half of a run.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import gc
import io
import random
from pstats import Stats
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import pytest
import torch

import fx
from benchmarks.harness import shown
from tests.scripts import harness
from tests.scripts.writing.test_writing_scripts import JITTED
from tests.scripts.writing.test_writing_scripts import SCRIPTS as WRITING

# how long a script runs here, where it can be told
OPTIONS = {
    "linear_regression": "--epochs 60",
    "image_classifier": "--samples 640 --epochs 2",
    "char_gpt": "--steps 10 --new-tokens 12",
    "vae": "--samples 512 --epochs 2",
    "dcgan": "--samples 192 --niter 2 --manualSeed 3",
    "lstm_tagger": "--size 32 --epochs 4",
    "dqn": "--episodes 12",
    "resnet18": "--size 48 --width 4 --batch-size 8 --epochs 1",
    **{f"writing/{name}": "" for name in WRITING},
}
SAMPLE_SECONDS = 0.05


def once(name: str, library: str, profile: Any = None, calls: Any = None) -> tuple[float, int]:
    """The seconds of one run, and how many losses it gives.

    ``calls``, a list, takes the seconds of each call of the script's step, compiled in fx.
    """
    lib = harness.LIBRARIES[library]
    with contextlib.ExitStack() as stack:
        stack.enter_context(harness.default_dtype(lib, "float32"))
        stack.enter_context(harness.shared_draws(stack.enter_context(_patch()), lib))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        random.seed(0)
        np.random.seed(0)
        module = harness.load(name, library)
        if calls is not None:
            step = harness.step_of(module)
            function = getattr(module, step)
            setattr(module, step, timed(fx.jit(function) if library == "fx" else function, calls))
        stack.enter_context(profile or contextlib.nullcontext())
        start = process_time()
        result = module.main(OPTIONS[name].split())
        taken = process_time() - start
    return taken, max(1, np.size(harness.numbers(result.get("losses", ()))))


def timed(function: Any, calls: list[float]) -> Any:
    """A function that puts the seconds of its calls into a list."""

    def run(*args: Any) -> Any:
        start = process_time()
        out = function(*args)
        calls.append(process_time() - start)
        return out

    return run


def _patch() -> Any:
    return pytest.MonkeyPatch.context()


def sample(name: str, library: str, runs: int) -> float:
    """The seconds of a step, in some runs."""
    gc.collect()
    taken, steps = zip(*[once(name, library) for _ in range(runs)])
    return sum(taken) / sum(steps)


def compared(name: str, rounds: int) -> tuple[float, float, float]:
    """fx / torch, and the seconds of a step of each."""
    once(name, "fx"), once(name, "torch")
    runs = 1 + int(SAMPLE_SECONDS / once(name, "torch")[0])
    gc.freeze()
    try:
        pairs = [(sample(name, "fx", runs), sample(name, "torch", runs)) for _ in range(rounds)]
    finally:
        gc.unfreeze()
    mine, peer = map(median, zip(*pairs))
    return median([a / b for a, b in pairs]), mine, peer


def compiled(name: str, rounds: int) -> tuple[float, float, float]:
    """The same of calls of the step, which is compiled in fx."""
    pairs = []
    for _ in range(rounds):
        calls: dict[str, list[float]] = {"fx": [], "torch": []}
        for library, taken in calls.items():
            once(name, library, calls=taken)
        pairs.append([median(taken[len(taken) // 2 :]) for taken in calls.values()])
    mine, peer = map(median, zip(*pairs))
    return median([a / b for a, b in pairs]), mine, peer


def show_calls(name: str) -> None:
    """Print the functions in which a script spends most of its time."""
    once(name, "fx")
    profile = cProfile.Profile(process_time)
    for _ in range(1 + int(4 * SAMPLE_SECONDS / once(name, "fx")[0])):
        once(name, "fx", profile)
    print(f"{name}:")
    Stats(profile).strip_dirs().sort_stats("tottime").print_stats(40)


def main(words: list[str]) -> None:
    """Print what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scripts", description=__doc__)
    parser.add_argument("names", nargs="*", help="scripts whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jit", action="store_true", help="compile the steps of those that write")
    parser.add_argument("--calls", action="store_true", help="profile the scripts instead")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    fx.set_num_threads(1)
    chosen = [n for n in OPTIONS if not options.names or any(part in n for part in options.names)]
    if options.calls:
        for name in chosen:
            show_calls(name)
        return
    measured, how = compared, "eagerly"
    if options.jit:
        measured, how = compiled, "compiled"
        chosen = [n for n in chosen if n.partition("/")[2] in JITTED]
    rows = sorted([(*measured(name, options.rounds), name) for name in chosen], reverse=True)
    print(f"| script, {how} | fx / torch | fx | torch |\n| --- | ---: | ---: | ---: |")
    for ratio, mine, peer, name in rows:
        print(f"| {name} | {ratio:.2f} | {shown(mine)} | {shown(peer)} |")
    print(f"\nIn the middle {median([row[0] for row in rows]):.2f}.")
