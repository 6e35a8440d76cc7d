"""SciPy's names of Bessel functions, for kernels and for compiled code."""

from __future__ import annotations


def scipys_name(kind: str, order: int) -> tuple[str, int | None]:
    """SciPy's name of a function, and the order that it takes first, or None."""
    base, scaled = kind[0], kind[1:]
    if order < 2:
        return f"{base}{order}{scaled}", None
    return f"{base}v{scaled}", order
