"""What an import adds to ``import numpy``, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

from benchmarks.harness import Case, Sample

_SCRIPT = """
import numpy
from time import perf_counter
start = perf_counter()
import {module}
print(perf_counter() - start)
"""


def _importing(module: str) -> Sample:
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"no module named {module}", name=module)
    command = [sys.executable, "-c", _SCRIPT.format(module=module)]
    # bytecode is cached, as it is for every user; some machines that run benchmarks forbid it
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def sample() -> float:
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
        return float(done.stdout)

    sample()  # fills the caches of bytecode and of the file system
    return sample


CASES = [
    Case(
        "import",
        "`import`, after `import numpy`",
        samples={name: lambda name=name: _importing(name) for name in ("fx", "torch", "jax")},
    )
]
