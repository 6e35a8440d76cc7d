"""Parameters and buffers whose shape is not known yet."""

from __future__ import annotations

from typing import Any, ClassVar
from weakref import ref

from fx.nn.base.factory import filled
from fx.nn.parameter import Buffer, Parameter
from fx.state import Cell
from fx.tape import Leaf
from fx.tensor import Tensor

_NO_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
    "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. "
    "Call `forward` to initialize the parameters before accessing their attributes."
)


class _Uninitialized(Cell):
    """What the two share: a dtype and a device, and no values."""

    __slots__ = ("__dict__",)  # laid out as what it becomes
    cls_to_become: ClassVar[type]

    def materialize(self, shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of this shape, with values still to be set.

        Args:
            shape: the shape.
            device, dtype: those that were asked for at first, unless told.
        """
        device = self.device if device is None else device
        dtype = self.dtype if dtype is None else dtype
        self.__class__ = self.cls_to_become
        self.rebind(filled(tuple(shape), 0, device, dtype))

    def read(self) -> Tensor:
        raise ValueError(
            f"Attempted to use an uninitialized parameter: {self!r} gets its shape from the first "
            f"input of its layer; call the model with a batch first"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError(_NO_SHAPE)

    @property
    def requires_grad(self) -> bool:
        return self.leaf is not None

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Let gradients accumulate once there are values, or not."""
        if requires_grad != self.requires_grad:
            self._node = Leaf(owner=ref(self)) if requires_grad else None
        return self

    def read_grad(self) -> None:
        """None: no gradient has come."""

    def detach(self) -> Tensor:
        """Itself: there are no values to take."""
        return self

    def share_memory_(self) -> Cell:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter that has a dtype and a device, and gets its shape later.

    Args:
        requires_grad: whether ``.backward()`` is to accumulate its gradient.
        device, dtype: of the values to come.

    Raises:
        RuntimeError: when asked for its shape.
        ValueError: when used.

    Example:
        >>> import fx
        >>> weight = fx.nn.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> type(weight).__name__, weight.shape
        ('Parameter', (2, 3))
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(filled((0,), 0, device, dtype), requires_grad)

    def __reduce__(self) -> Any:
        return type(self), (self.leaf is not None, self.device, self.dtype)


class UninitializedBuffer(_Uninitialized, Buffer):
    """A buffer that has a dtype and a device, and gets its shape later.

    Args:
        requires_grad: accepted, as buffers do not require grad.
        device, dtype: of the values to come.
        persistent: whether it is part of the Module's ``state_dict``.
    """

    __slots__ = ()
    cls_to_become = Buffer

    def __init__(
        self,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> None:
        super().__init__(filled((0,), 0, device, dtype), persistent=persistent)

    def __reduce__(self) -> Any:
        return type(self), (False, self.device, self.dtype, self.persistent)


def is_lazy(x: Any) -> bool:
    """Whether ``x`` is a parameter or buffer without a shape."""
    return isinstance(x, _Uninitialized)
