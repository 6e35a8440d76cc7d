"""Fourier transforms of any size of which ``tables.py`` makes a table; see the README.

A stage is transforms along one axis. ``columns`` and ``rows`` do as many transforms side by side as
a vector has lanes: of columns, whose numbers lie beside each other already, or of rows, which are
transposed on the way in and out. ``long`` does one row: n = N1 N2 points are a matrix (N1, N2),
whose columns are transformed in lanes, times roots of one, and transposed; then its rows are, in
lanes again. ``first`` and ``second`` are the two halves of that for a row on several threads, and
``to_half`` and ``from_half`` what half spectra need besides. The stages of several axes are done
for one piece of an array after the other, while it is in the cache.

An inverse is a transform whose real and imaginary parts change places before and after.
"""

from __future__ import annotations

from typing import Any


def emit(module: Any, dtype: Any, name: str) -> None:
    """Add the kernel ``lines`` or ``halves``; what is found on the disk needs no emitter."""
    from fx.backends.cpu.llvm.any_size.fourier import kernels

    kernels.emit(module, dtype, name)
