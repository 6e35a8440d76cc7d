"""The fuzzer as a program: ``python -m fx.testing.fuzz --minutes 5 --only graphs,loops``."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time

from fx.testing.fuzz.generator import GENERATORS, ORACLES
from fx.testing.fuzz.runner import Hunt


def _judged(name: str) -> bool:
    """Whether what the programs of a generator are compared with is installed."""
    return name not in ORACLES or importlib.util.find_spec(ORACLES[name]) is not None


def main(words: list[str]) -> int:
    """Hunt for a while; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m fx.testing.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="of the programs")
    parser.add_argument("--only", default="", help="generators, separated by commas")
    parser.add_argument(
        "--programs", type=int, default=0, help="as many of each, instead of minutes"
    )
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    options = parser.parse_args(words)
    chosen = options.only.split(",") if options.only else list(GENERATORS)
    unknown = set(chosen) - set(GENERATORS)
    if unknown:
        parser.error(
            f"there is no generator {sorted(unknown)[0]!r}; there are {', '.join(GENERATORS)}"
        )
    for name in [name for name in chosen if not _judged(name)]:
        print(f"{name}: skipped, for {ORACLES[name]} is not installed")
        chosen.remove(name)
    end = time.monotonic() + 60 * options.minutes
    hunt = Hunt(options.seed)
    index = dict.fromkeys(chosen, options.first)
    turns = [name for name in chosen for _ in range(1 if options.programs else GENERATORS[name])]
    rounds = 0
    while chosen and ((rounds < options.programs) if options.programs else time.monotonic() < end):
        rounds += 1
        for name in turns:
            finding = hunt.one(name, index[name])
            if finding is not None:
                print(f"\n# seed {options.seed}, {name} {index[name]}", flush=True)
                print(finding.test(f"test_{name}_{options.seed}_{index[name]}"), flush=True)
            index[name] += 1
            if not options.programs and time.monotonic() > end:
                break
    hunt.stop()
    print(hunt.summary())
    return 1 if hunt.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
