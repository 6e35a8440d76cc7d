"""Padding layers: constants, zeros, mirror images, edges and the other end."""

from __future__ import annotations

from typing import Any, ClassVar

from fx.errors import ShapeError
from fx.nn import functional as F
from fx.nn.base.module import Module
from fx.nn.functional._windows import LAYOUTS
from fx.ops.axes import integers
from fx.ops.operands import argument
from fx.tensor import Tensor


class _Pad(Module):
    """Widths in PyTorch's order: before and behind, from the last axis on."""

    rank: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        name = type(self).__name__
        widths = integers(name, "padding", padding)
        if not isinstance(padding, tuple | list):
            widths = widths * (2 * self.rank)
        elif len(widths) != 2 * self.rank:
            raise ShapeError(
                f"{name}: padding must be an int or {2 * self.rank} ints, before and behind from "
                f"the last axis on; got {padding}"
            )
        self.padding = widths

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, ...) or (channels, ...), made longer at both ends."""
        x = argument(type(self).__name__, input)
        if x.ndim not in (self.rank + 1, self.rank + 2):
            layout = LAYOUTS[self.rank]
            raise ShapeError(
                f"{type(self).__name__} takes an input (batch, channels, {layout}) or (channels, "
                f"{layout}), got shape {x.shape}"
            )
        return F.pad(x, self.padding, self.mode)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Tensor:
        """Any shape with at least as many axes as there are pairs of widths."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The widths and the constant."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """A constant at both ends of the last axis; see ``ConstantPad2d``.

    Example:
        >>> import fx
        >>> fx.nn.ConstantPad1d((1, 2), 9.0)(fx.tensor([[1.0, 2.0]]))
        tensor([[9., 1., 2., 9., 9.]])
    """

    rank = 1


class ConstantPad2d(_ConstantPad):
    """A constant around the last two axes.

    Args:
        padding: an int, or (left, right, top, bottom); negative widths cut off.
        value: the constant.

    Raises:
        ShapeError: if the widths are of another number, or do not fit the input.

    Example:
        >>> import fx
        >>> fx.nn.ConstantPad2d((1, 0, 0, 1), 9.0)(fx.tensor([[[1.0]]]))
        tensor([[[9., 1.],
                 [9., 9.]]])
    """

    rank = 2


class ConstantPad3d(_ConstantPad):
    """A constant around the last three axes; see ``ConstantPad2d``.

    Example:
        >>> import fx
        >>> fx.nn.ConstantPad3d(1, 9.0)(fx.ones((1, 2, 2, 2))).shape
        (1, 4, 4, 4)
    """

    rank = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Zeros at both ends of the last axis.

    Example:
        >>> import fx
        >>> fx.nn.ZeroPad1d((1, 2))(fx.tensor([[1.0, 2.0]]))
        tensor([[0., 1., 2., 0., 0.]])
    """

    rank = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around the last two axes; ``padding`` is an int or (left, right, top, bottom).

    Example:
        >>> import fx
        >>> fx.nn.ZeroPad2d(1)(fx.ones((1, 2, 2))).shape
        (1, 4, 4)
    """

    rank = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around the last three axes.

    Example:
        >>> import fx
        >>> fx.nn.ZeroPad3d(1)(fx.ones((1, 2, 2, 2))).shape
        (1, 4, 4, 4)
    """

    rank = 3


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """The mirror image at both ends of the last axis, without the edge element itself.

    Example:
        >>> import fx
        >>> fx.nn.ReflectionPad1d(2)(fx.tensor([[1.0, 2.0, 3.0]]))
        tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    rank = 1


class ReflectionPad2d(_ReflectionPad):
    """The mirror image around the last two axes.

    Args:
        padding: an int, or (left, right, top, bottom), each less than the size of its axis.

    Example:
        >>> import fx
        >>> fx.nn.ReflectionPad2d((1, 0, 1, 0))(fx.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[4., 3., 4.],
                 [2., 1., 2.],
                 [4., 3., 4.]]])
    """

    rank = 2


class ReflectionPad3d(_ReflectionPad):
    """The mirror image around the last three axes.

    Example:
        >>> import fx
        >>> fx.nn.ReflectionPad3d(1)(fx.ones((1, 2, 2, 2))).shape
        (1, 4, 4, 4)
    """

    rank = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """The edge element again at both ends of the last axis.

    Example:
        >>> import fx
        >>> fx.nn.ReplicationPad1d(1)(fx.tensor([[1.0, 2.0]]))
        tensor([[1., 1., 2., 2.]])
    """

    rank = 1


class ReplicationPad2d(_ReplicationPad):
    """The edge elements again around the last two axes.

    Args:
        padding: an int, or (left, right, top, bottom).

    Example:
        >>> import fx
        >>> fx.nn.ReplicationPad2d((1, 0, 1, 0))(fx.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[1., 1., 2.],
                 [1., 1., 2.],
                 [3., 3., 4.]]])
    """

    rank = 2


class ReplicationPad3d(_ReplicationPad):
    """The edge elements again around the last three axes.

    Example:
        >>> import fx
        >>> fx.nn.ReplicationPad3d(1)(fx.ones((1, 2, 2, 2))).shape
        (1, 4, 4, 4)
    """

    rank = 3


class _CircularPad(_Pad):
    mode = "circular"


class CircularPad1d(_CircularPad):
    """The other end at both ends of the last axis.

    Example:
        >>> import fx
        >>> fx.nn.CircularPad1d((2, 1))(fx.tensor([[1.0, 2.0, 3.0]]))
        tensor([[2., 3., 1., 2., 3., 1.]])
    """

    rank = 1


class CircularPad2d(_CircularPad):
    """The other end around the last two axes.

    Args:
        padding: an int, or (left, right, top, bottom), each at most the size of its axis.

    Example:
        >>> import fx
        >>> fx.nn.CircularPad2d((1, 0, 1, 0))(fx.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[4., 3., 4.],
                 [2., 1., 2.],
                 [4., 3., 4.]]])
    """

    rank = 2


class CircularPad3d(_CircularPad):
    """The other end around the last three axes.

    Example:
        >>> import fx
        >>> fx.nn.CircularPad3d(1)(fx.ones((1, 2, 2, 2))).shape
        (1, 4, 4, 4)
    """

    rank = 3
