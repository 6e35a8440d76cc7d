"""Switches of ``torch`` that scripts flip: those that mean something here, and those that do not.

fx is deterministic, has one way of multiplying float32 matrices and denormals as they are; what
a switch cannot change is remembered, so that a script reads what it wrote.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import Any

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
    """Accepted; write ``fx.debug`` tools for the first NaN."""
    _HELD["anomaly"] = bool(mode)


def is_anomaly_enabled() -> bool:
    """What ``set_anomaly_enabled`` was told."""
    return _HELD.get("anomaly", False)  # type: ignore[no-any-return]


def compiled_with_cxx11_abi() -> bool:
    """True, as for every build of today."""
    return True


# autocast ---------------------------------------------------------------------------------------


class autocast:
    """Mixed precision, as a context or decorator: fx computes in the dtype of its tensors.

    Args:
        device_type: accepted; without a GPU there is nothing to cast for.
        dtype: the lower precision that is asked for.
        enabled: where True, a warning says that nothing is cast.

    Example:
        >>> import fx.torch as torch
        >>> with torch.autocast("cpu", enabled=False):
        ...     y = torch.ones(2)
    """

    def __init__(
        self, device_type: Any = "cuda", dtype: Any = None, enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:  # fmt: skip
        if isinstance(device_type, bool):  # torch.cuda.amp.autocast(True)
            device_type, enabled = "cuda", device_type
        self.device, self.fast_dtype, self.enabled = device_type, dtype, enabled

    def __enter__(self) -> autocast:
        if self.enabled:
            warnings.warn(
                "fx computes in the dtype of its tensors and autocast changes nothing; for less "
                "precision write model.to(torch.bfloat16)", UserWarning, stacklevel=2,
            )  # fmt: skip
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        from functools import wraps

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


class GradScaler:
    """Loss scaling, which float32 does not need: the disabled form of PyTorch's.

    ``scale`` gives the loss, ``step`` runs the optimizer, the others do nothing.
    """

    def __init__(self, device: Any = "cuda", *args: Any, enabled: bool = True, **options: Any):
        self._enabled = False

    def scale(self, outputs: Any) -> Any:
        """The outputs themselves."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing: gradients are not scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()``."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Nothing: the scale is 1."""

    def get_scale(self) -> float:
        """1."""
        return 1.0

    def is_enabled(self) -> bool:
        """False."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Empty, as of PyTorch's disabled scaler."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Accept any state: there is none here."""


def is_autocast_enabled(device_type: Any = None) -> bool:
    """False."""
    return False


def get_autocast_dtype(device_type: Any = None) -> Any:
    """bfloat16, as PyTorch's default."""
    from fx.dtypes import bfloat16

    return bfloat16


@contextmanager
def flags(**options: Any) -> Any:
    """A context that accepts any flag and changes nothing."""
    yield
