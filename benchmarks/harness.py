"""How benchmarks are run: candidates side by side, in turns, and medians of their ratios.

A busy machine speeds up and slows down within seconds. So every round takes one sample of each
candidate, one right after the other, in an order that changes from round to round; what is
reported is the median over the rounds of the ratio within a round.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

Run = Callable[[], object]  # does the work once
Sample = Callable[[], float]  # does the work some times; seconds for one

SAMPLE_SECONDS = 0.01
LIBRARIES = ("fx", "torch", "compile", "jax", "copy", "file")
TABLES = {  # heading, and the peers of each
    "eager": ("eager, float32", ("torch", "jax")),
    "jit": ("compiled, float32", ("torch", "compile", "jax", "copy")),
    "files": ("files", ("torch", "file")),
    "often": ("eager, 100 elements, float32: what scripts call most", ("torch",)),
    "tiny": ("eager, 100 elements, float32: other operations", ("torch",)),
    "writes": ("eager, what writes, 100 elements, float32", ("torch",)),
    "stacks": ("eager, stacks of matrices", ("torch",)),
    "stacks_jit": ("compiled, stacks of matrices, float32", ("jax",)),
    "loops": ("compiled loops", ("jax",)),
}
# tables whose rows run only when named
ON_REQUEST = frozenset({"often", "tiny", "writes", "stacks", "stacks_jit", "loops"})
# and those measured by the time of the processor, whose slowest rows by comparison come first
BY_PROCESSOR = frozenset({"often", "tiny", "writes"})
NAMES = {"compile": "torch.compile", "copy": "memory copy", "file": "the bytes alone"}


@dataclass
class Case:
    """One row of the table.

    Args:
        name: short, for the command line.
        title: what is measured.
        setups: for each library a function that prepares the work and returns what does it once.
        samples: the same for work that measures itself: it returns what gives seconds.
        per: divide the time by this, for the time of one of many operations.
        table: where the row stands.
        unit: of what the samples give, if not seconds.
        alike: arrays of what the work returns, on which the libraries have to agree.
    """

    name: str
    title: str
    setups: dict[str, Callable[[], Run]] = field(default_factory=dict)
    samples: dict[str, Callable[[], Sample]] = field(default_factory=dict)
    per: int = 1
    table: str = "eager"
    unit: str = "s"
    alike: Callable[[Any], list[np.ndarray]] | None = None


@dataclass
class Result:
    """The medians of one case."""

    case: Case
    seconds: dict[str, float]
    ratios: dict[str, float]  # fx / peer
    rounds: int


def timed(run: Run, clock: Callable[[], float] = perf_counter) -> Sample:
    """A sample that repeats the work for about ``SAMPLE_SECONDS`` of a clock."""
    run()
    start = clock()
    run()
    once = clock() - start
    loops = 1
    while once * loops < SAMPLE_SECONDS / 2:
        loops *= 2
        start = clock()
        for _ in range(loops):
            run()
        once = (clock() - start) / loops

    def sample() -> float:
        start = clock()
        for _ in range(loops):
            run()
        return (clock() - start) / loops

    return sample


def prepared(case: Case) -> dict[str, Sample]:
    """The samples of the libraries that are installed."""
    clock = process_time if case.table in BY_PROCESSOR else perf_counter
    out: dict[str, Sample] = {}
    found: dict[str, list[np.ndarray]] = {}
    for library in LIBRARIES:
        try:
            if library in case.samples:
                out[library] = case.samples[library]()
            elif library in case.setups:
                run = case.setups[library]()
                if case.alike is not None:
                    found[library] = case.alike(run())
                out[library] = timed(run, clock)
        except ModuleNotFoundError as error:
            if library == "fx" or (error.name or "").split(".")[0] not in ("torch", "jax"):
                raise
    given = found.pop("fx", [])
    for library, theirs in found.items():
        for ours, their in zip(given, theirs, strict=True):
            _agree(f"{case.name}: fx and {library}", ours, their)
    return out


def _agree(words: str, x: np.ndarray, y: np.ndarray) -> None:
    """Refuse to time what gives something else.

    Raises:
        AssertionError: unless each difference is small beside the largest element.
    """
    bound = 3e-3 if x.dtype == np.float32 else 1e-7
    apart = np.abs(x - y).max() / np.abs(y).max()
    if x.shape != y.shape or not apart < bound:
        raise AssertionError(f"{words} differ by {apart:.1e} of the largest element")


def measure(case: Case, rounds: int) -> Result:
    """Run a case.

    Args:
        case: what to run.
        rounds: how many samples of each candidate; a quarter of that where one takes long.
    """
    samples = prepared(case)
    gc.collect()
    gc.freeze()  # what the libraries hold is not walked through at every collection
    names = list(samples)
    times: dict[str, list[float]] = {name: [] for name in names}
    try:
        done = 0
        while done < rounds:
            start = perf_counter()
            for name in names[done % len(names) :] + names[: done % len(names)]:
                times[name].append(samples[name]())
            done += 1
            if perf_counter() - start > 0.5:
                rounds = max(3, min(rounds, done + (rounds - done) // 4))
    finally:
        gc.unfreeze()
    ratios = {
        name: median([ours / theirs for ours, theirs in zip(times["fx"], times[name])])
        for name in names
        if name != "fx"
    }
    seconds = {name: median(values) / case.per for name, values in times.items()}
    return Result(case, seconds, ratios, done)


# the table --------------------------------------------------------------------------------------


def shown(seconds: float) -> str:
    """A time with three digits and a unit."""
    unit, value = "µs", seconds * 1e6
    if seconds >= 1e-3:
        unit, value = ("s", seconds) if seconds >= 1 else ("ms", seconds * 1e3)
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def rows(results: list[Result]) -> Iterator[str]:
    """The lines of the Markdown tables."""
    for table, (heading, peers) in TABLES.items():
        chosen = [r for r in results if r.case.table == table]
        if table in BY_PROCESSOR:
            chosen.sort(key=lambda r: r.ratios.get("torch", 0.0), reverse=True)
        if chosen:
            yield from _table(heading, peers, chosen)
            yield ""


def _table(heading: str, peers: tuple[str, ...], results: list[Result]) -> Iterator[str]:
    names = [NAMES.get(peer, peer) for peer in peers]
    yield f"| {heading} | fx | {' | '.join(f'{n} | fx / {n}' for n in names)} |"
    yield f"| --- | ---: |{' ---: | ---: |' * len(peers)}"
    for r in results:
        cells = [r.case.title, _cell(r, "fx")]
        for peer in peers:
            if peer in r.ratios:
                cells += [_cell(r, peer), f"{r.ratios[peer]:.2f}"]
            else:
                cells += ["", ""]
        yield f"| {' | '.join(cells)} |"


def _cell(result: Result, library: str) -> str:
    value = result.seconds[library]
    return shown(value) if result.case.unit == "s" else f"{value:.0f} {result.case.unit}"


def environment() -> str:
    """The machine and the versions, in one line."""
    import os
    import platform
    from importlib import metadata

    versions = []
    for name in ("numpy", "torch", "jax"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {python}, {', '.join(versions)}"
