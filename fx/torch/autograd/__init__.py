"""``torch.autograd``: fx's own, and the old names."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from fx.autograd import *
from fx.autograd import functional
from fx.tensor import Tensor
from fx.torch._settings import set_anomaly_enabled


class _Variables(type):
    def __call__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        out = data if isinstance(data, Tensor) else Tensor(data)
        return out.detach().requires_grad_() if requires_grad and not out.requires_grad else out

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor)


class Variable(metaclass=_Variables):
    """A tensor, by the name that it had before PyTorch 0.4."""


@contextmanager
def detect_anomaly(check_nan: bool = True) -> Any:
    """Accepted; ``fx.debug`` finds the first NaN."""
    yield


@contextmanager
def set_detect_anomaly(mode: bool, check_nan: bool = True) -> Any:
    """Remember ``mode``; ``fx.debug`` finds the first NaN."""
    set_anomaly_enabled(mode)
    yield
