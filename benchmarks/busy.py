"""``python -m benchmarks.busy [name ...]``: compiled code beside a process that keeps a core busy.

For each case the ratio of fx on all cores beside the busy process to fx on one thread alone.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median

import fx
from benchmarks.cases_jit import CASES
from benchmarks.harness import shown, timed

SPIN = "while True: pass"


def main() -> None:
    """Measure the chosen cases, alternating."""
    names = sys.argv[1:]
    cores = fx.get_num_threads()
    print("| compiled, beside a busy process | one thread alone | beside | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for case in CASES:
        if names and not any(name in case.name for name in names):
            continue
        sample = timed(case.setups["fx"]())
        ratios, alone, beside = [], [], []
        for _ in range(7):
            fx.set_num_threads(1)
            alone.append(sample())
            fx.set_num_threads(cores)
            busy = subprocess.Popen([sys.executable, "-c", SPIN])
            try:
                sample()
                beside.append(sample())
            finally:
                busy.kill()
                busy.wait()
            ratios.append(beside[-1] / alone[-1])
        cells = [case.title, shown(median(alone)), shown(median(beside)), f"{median(ratios):.2f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
