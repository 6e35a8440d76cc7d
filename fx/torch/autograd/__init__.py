"""``torch.autograd``: fx's own, and the old names."""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from fx.autograd import *
from fx.autograd import functional
from fx.backward_pass import watch
from fx.tensor import Tensor
from fx.torch._settings import is_anomaly_enabled, set_anomaly_enabled


class _Variables(type):
    def __call__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        out = data if isinstance(data, Tensor) else Tensor(data)
        return out.detach().requires_grad_() if requires_grad and not out.requires_grad else out

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor)


class Variable(metaclass=_Variables):
    """A tensor, by the name that it had before PyTorch 0.4."""


def _refuse_nan(node: Any, cotangents: Any) -> None:
    for i, ct in enumerate(cotangents):
        if type(ct) is Tensor and isinstance(ct._a, ndarray) and (ct._a != ct._a).any():
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")


class set_detect_anomaly:
    """From now on, or inside ``with``: a backward pass raises where a NaN comes out of a function.

    Args:
        mode: whether to look.
        check_nan: whether NaN is refused.

    Raises:
        RuntimeError: in the backward pass, naming the function whose gradient is NaN.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = is_anomaly_enabled(), watch(_refuse_nan if mode and check_nan else None)
        set_anomaly_enabled(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        set_anomaly_enabled(self._before[0])
        watch(self._before[1])


class detect_anomaly(set_detect_anomaly):
    """Inside ``with``, as ``set_detect_anomaly(True)``.

    Example:
        >>> import fx.torch as torch
        >>> x = torch.tensor(0.0, requires_grad=True)
        >>> with torch.autograd.detect_anomaly():
        ...     (x * torch.sqrt(x)).backward()
        Traceback (most recent call last):
        RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)
