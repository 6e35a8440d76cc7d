"""``torch.autograd``: fx's own, and the old names."""

from __future__ import annotations

from typing import Any

from fx.autograd import *
from fx.autograd import anomalies, functional
from fx.tensor import Tensor
from fx.torch.autograd import graph


class _Variables(type):
    def __call__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        out = data if isinstance(data, Tensor) else Tensor(data)
        return out.detach().requires_grad_() if requires_grad and not out.requires_grad else out

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor)


class Variable(metaclass=_Variables):
    """A tensor, by the name that it had before PyTorch 0.4."""


class set_detect_anomaly:
    """From now on, or inside ``with``: a backward pass raises where a NaN comes out of a function.

    Meanwhile jitted functions run uncompiled, and each operation notes its line.

    Args:
        mode: whether to look.
        check_nan: whether NaN is refused.

    Raises:
        RuntimeError: in the backward pass, naming the function whose gradient is NaN, and the line
            of the forward pass that it belongs to.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = anomalies.state()
        anomalies.look(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        anomalies.look(*self._before)


class detect_anomaly(set_detect_anomaly):
    """Inside ``with``, as ``set_detect_anomaly(True)``.

    Example:
        >>> import fx.torch as torch
        >>> x = torch.tensor(0.0, requires_grad=True)
        >>> with torch.autograd.detect_anomaly():
        ...     try:
        ...         (x * torch.sqrt(x)).backward()
        ...     except RuntimeError as error:
        ...         print(str(error)[:68])
        Function 'SqrtBackward0' returned nan values in its 0th output; it b
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)
