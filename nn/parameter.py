"""Parameter and Buffer: the cells of a Module."""

from __future__ import annotations

import warnings
from typing import Any

from fx.config import modes
from fx.dtypes import INEXACT
from fx.errors import DTypeError
from fx.frames import user_line
from fx.ops.convert import as_tensor
from fx.state import Cell
from fx.tensor import Tensor


def _value(data: Any) -> Tensor:
    value = as_tensor(() if data is None else data)
    return value.read() if isinstance(value, Cell) else value


def _rebuild(cls: type, value: Tensor, name: str, settings: dict[str, Any], marks: Any = ()) -> Any:
    cell = cls(value, **settings)
    cell.name = name
    cell.__dict__.update(marks)
    return cell


class Parameter(Cell):
    """A tensor that a Module learns: a cell that requires grad and that optimizers rebind.

    Args:
        data: its first value, any shape; floating or complex where it requires grad.
        requires_grad: whether ``.backward()`` accumulates its gradient.

    Raises:
        DTypeError: if it is to require grad and is neither floating nor complex.

    Example:
        >>> import fx
        >>> weight = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> (weight * weight).sum().backward()
        >>> weight.grad
        tensor([2., 4.])
        >>> weight.data = weight.data - 0.5 * weight.grad
        >>> weight
        Parameter containing:
        tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ("__dict__",)  # PyTorch programs mark parameters: `p._no_weight_decay = True`

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        value = _value(data)
        if requires_grad and value.dtype not in INEXACT:
            raise DTypeError(
                f"Parameter: only floating and complex tensors can require grad, got "
                f"{value.spec!r}; write fx.nn.Parameter(x, requires_grad=False) or cast it with "
                f"x.astype(fx.float32)"
            )
        stage = modes.stage
        if stage is not None and requires_grad and type(value) is Tensor and value._node is None:
            value = stage.tracer(stage.value_of(value))  # what is known has no gradient there
        super().__init__(value, requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{self.read()!r}"

    def __reduce__(self) -> Any:
        settings = {"requires_grad": self.leaf is not None}
        return _rebuild, (type(self), self.detach(), self.name, settings, self.__dict__)


class Buffer(Cell):
    """A tensor that is part of a Module's state and is not learned, such as a running mean.

    Args:
        data: its first value.
        persistent: whether it is part of the Module's ``state_dict``.
        reduction: ``"mean"``, ``"max"`` or ``"min"``: what becomes of the values of lanes when it
            is rebound under ``vmap``, where it is an error without one.

    Example:
        >>> import fx
        >>> module = fx.nn.Module()
        >>> module.steps = fx.nn.Buffer(fx.tensor(0))
        >>> module.steps = module.steps + 1
        >>> dict(module.state_dict())
        {'steps': tensor(1)}
    """

    __slots__ = ("__dict__", "persistent")

    def __init__(
        self, data: Any = None, *, persistent: bool = True, reduction: str | None = None
    ) -> None:
        super().__init__(_value(data), reduction=reduction)
        self.persistent = persistent

    def _forgets(self, value: Any) -> None:
        """Warn that the history of a value is lost, which PyTorch keeps: a buffer holds values."""
        if type(value) is Tensor and value._node is not None and modes.record0:
            file, _, line = user_line().rpartition(":")
            warnings.warn_explicit(
                f"the buffer {self.name} {value.spec!r} is given a value that requires grad: it "
                f"keeps the values and not their history; write x.detach() to say so, or keep x in "
                f"an attribute that is no buffer",
                RuntimeWarning, file, int(line or 0),
            )  # fmt: skip

    def __repr__(self) -> str:
        return repr(self.read())

    def __reduce__(self) -> Any:
        settings = {"persistent": self.persistent, "reduction": self.reduction}
        return _rebuild, (type(self), self.detach(), self.name, settings, self.__dict__)
