"""What ``multiprocessing.spawn`` says of processes that fail: the script of its tests."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time


def passes(index: int, place: str) -> None:
    open(f"{place}/{index}", "w").close()


def raises(index: int) -> None:
    if index == 1:
        raise ValueError("the second")
    time.sleep(60)


def exits(index: int) -> None:
    if index == 1:
        sys.exit(3)
    time.sleep(60)


def is_killed(index: int) -> None:
    if index == 1:
        os.kill(os.getpid(), 9)
    time.sleep(60)


def waits(index: int) -> None:
    time.sleep(0.5)


def _main(face: str, method: str, place: str) -> None:
    mp = importlib.import_module(f"{face}.multiprocessing")
    told = {"passes": mp.start_processes(passes, (place,), nprocs=2, start_method=method)}
    told["files"] = sorted(name for name in os.listdir(place) if name in "01")
    for fails in (raises, exits, is_killed):
        context = mp.start_processes(fails, nprocs=2, join=False, start_method=method)
        try:
            while not context.join():
                pass
        except mp.ProcessRaisedException as error:
            last = str(error).strip().splitlines()
            told["raises"] = [type(error).__name__, last[0], last[-1], error.error_index]
            assert error.error_pid == context.pids()[1]
        except mp.ProcessExitedException as error:
            signal_name = error.signal_name
            said = [type(error).__name__, str(error), error.error_index, error.exit_code]
            told[fails.__name__] = [*said, signal_name]
        assert not any(process.is_alive() for process in context.processes)
    context = mp.start_processes(waits, nprocs=2, join=False, start_method=method)
    told["early"] = context.join(timeout=0.01)
    while not context.join():
        pass
    told["late"] = context.join()
    print(json.dumps(told))


if __name__ == "__main__":
    _main(*sys.argv[1:])
