"""Irregular algorithms: Python that Numba compiles, one function a kernel.

What branches on data at every step, so that no loop nest describes it, stands here. A kernel is a
function of a file of this package. It is found by ``any_size.kernel(group, name, char)``, as those
that the generator writes are, and compiled graphs call it by the name ``fx.group.name.char``. Its
object code lies in fx's own disk cache, so that Numba is imported only where a kernel is made.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

_LANES = frozenset(("elimination", "factored", "reflections", "singular", "symmetric", "triangles"))
GROUPS = _LANES | frozenset(
    (
        "distances", "functions", "histogram", "lapack", "margins", "order", "planes",
        "rejection", "resampling", "scatter", "shuffle", "spectral", "trials", "windows",
    )
)  # fmt: skip


@cache
def version() -> str | None:
    """What object code depends on, without importing Numba; None where nothing is to be kept."""
    from fx.backends.cpu.llvm import disk_cache

    found = find_spec("numba")
    if found is None or found.origin is None:
        raise ImportError("sorts, searches and rejection sampling are compiled by Numba")
    numba = Path(found.origin).with_name("_version.py")
    here = Path(__file__).parent
    return disk_cache.told_of([numba, here.with_name("_formulas.py"), *here.rglob("*.py")])


def code_of(group: str, name: str, char: str) -> bytes:
    """Compile the function ``name`` of the file ``group`` for elements of NumPy's ``char``."""
    from fx.backends.cpu.irregular import language
    from fx.backends.cpu.llvm import engine

    folder = f"{__name__}.lanes" if group in _LANES else __name__
    module = import_module(f"{folder}.{group}")
    loose = getattr(module, "FASTMATH", frozenset())
    return engine.compile_text(language.text_of(getattr(module, name), char, name, loose))
