"""Switches of ``torch`` that scripts flip: those that mean something here, and those that do not.

fx is deterministic, has one way of multiplying float32 matrices and denormals as they are; what
a switch cannot change is remembered, so that a script reads what it wrote.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from fx.autograd import anomalies
from fx.backends.cpu.threads import get_num_threads

_HELD: dict[str, Any] = {"deterministic": True, "precision": "highest", "warn_always": False}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remember ``mode``; every algorithm of fx is deterministic."""
    _HELD["deterministic"] = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What was asked for; True at first, since all are."""
    return _HELD["deterministic"]  # type: ignore[no-any-return]


def set_float32_matmul_precision(precision: str) -> None:
    """Remember the precision; float32 is always multiplied as float32.

    Raises:
        RuntimeError: for another word than "highest", "high" or "medium".
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision!r} is not one of 'highest', 'high', or 'medium'")
    _HELD["precision"] = precision


def get_float32_matmul_precision() -> str:
    """The precision that was asked for."""
    return _HELD["precision"]  # type: ignore[no-any-return]


def set_flush_denormal(mode: bool) -> bool:
    """False: fx computes with denormals as they are."""
    return False


def get_num_interop_threads() -> int:
    """The number of threads; there is one pool."""
    return get_num_threads()


def set_num_interop_threads(number: int) -> None:
    """Accepted; there is one pool, which ``set_num_threads`` sizes."""


def set_warn_always(mode: bool) -> None:
    """Remember whether every warning is to be shown; Python's filters decide."""
    _HELD["warn_always"] = bool(mode)


def is_warn_always_enabled() -> bool:
    """What ``set_warn_always`` was told."""
    return _HELD["warn_always"]  # type: ignore[no-any-return]


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Look for NaN in backward passes from now on: ``torch.autograd.set_detect_anomaly``."""
    anomalies.look(mode, check_nan)


def is_anomaly_enabled() -> bool:
    """Whether NaN is looked for in backward passes."""
    return anomalies.state()[0]


def compiled_with_cxx11_abi() -> bool:
    """True, as for every build of today."""
    return True


@contextmanager
def flags(**options: Any) -> Any:
    """A context that accepts any flag and changes nothing."""
    yield
