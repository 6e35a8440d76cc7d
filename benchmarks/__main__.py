"""``python -m benchmarks [name ...]``: fx side by side with torch and jax, as a Markdown table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import (
    called,
    cases_attention,
    cases_compile,
    cases_data,
    cases_eager,
    cases_files,
    cases_fourier,
    cases_import,
    cases_jit,
    cases_kernels,
    cases_linalg,
    cases_loops,
    cases_tiny,
    cases_training,
    cases_transforms,
    cases_writes,
)
from benchmarks.harness import ON_REQUEST, Case, environment, measure, rows, shown

CASES: list[Case] = [
    *cases_eager.CASES,
    *cases_transforms.CASES,
    *cases_training.CASES,
    *cases_attention.CASES,
    *cases_kernels.CASES,
    *cases_fourier.CASES,
    *cases_import.CASES,
    *cases_jit.CASES,
    *cases_compile.CASES,
    *cases_data.CASES,
    *cases_files.CASES,
    *cases_tiny.CASES,
    *cases_writes.CASES,
    *cases_linalg.CASES,
    *cases_loops.CASES,
]
README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"


def chosen(names: list[str]) -> list[Case]:
    """The cases whose name contains one of ``names``; for none, all but those run on request.

    Raises:
        SystemExit: if a name fits no case.
    """
    for name in names:
        if not any(name in case.name for case in CASES):
            known = ", ".join(case.name for case in CASES)
            raise SystemExit(f"no benchmark is called {name!r}; there are {known}")
    if not names:
        return [case for case in CASES if case.table not in ON_REQUEST]
    return [case for case in CASES if any(name in case.name for name in names)]


def written(text: str, table: str) -> str:
    """``text`` with ``table`` between the markers.

    Raises:
        SystemExit: if the markers are missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"README.md has no place for the table; put {BEGIN} and {END} into it")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main() -> None:
    """Run what the command line asks for."""
    if sys.argv[1:2] == ["sweep"]:
        from benchmarks import sweep

        sweep.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["called"]:
        called.main()
        return
    if sys.argv[1:2] == ["scripts"]:
        from benchmarks import scripts

        scripts.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["distributed"]:
        from benchmarks import distributed

        distributed.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="run the cases whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=21, help="samples of each candidate")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    cases = chosen(options.names)
    if options.list:
        for case in cases:
            print(f"{case.name:24} {case.title}")
        return
    results = []
    for case in cases:
        results.append(measure(case, options.rounds))
        times = ", ".join(f"{name} {shown(t)}" for name, t in results[-1].seconds.items())
        print(f"{case.name}: {times} ({results[-1].rounds} rounds)", file=sys.stderr, flush=True)
    table = "\n".join([*rows(results), f"Medians on {environment()}."])
    print(table)
    if options.write:
        README.write_text(written(README.read_text(), table))


if __name__ == "__main__":
    main()
