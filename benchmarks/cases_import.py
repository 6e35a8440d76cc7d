"""What an import adds to ``import numpy``, in processes of their own."""

from __future__ import annotations

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

    def sample() -> float:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
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
