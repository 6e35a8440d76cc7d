"""Cell: the only thing that mutates. It holds an immutable tensor and is rebound, never written.

A cell is a tensor to whoever reads it; ``bind`` reads it before anything else, so that no rule and
no pullback ever keeps the cell itself.
"""

from __future__ import annotations

from typing import Any

from fx.devices import Device
from fx.dtypes import DType
from fx.tape import CELL, Leaf
from fx.tensor import Tensor, new_tensor


class Cell(Tensor):
    """A named place that holds a tensor: parameters, buffers, generator and optimizer state.

    Args:
        value: the tensor that it holds at first.
        requires_grad: whether gradients are accumulated for it.
    """

    __slots__ = ("leaf", "value")
    level = CELL
    value: Tensor
    leaf: Leaf | None

    def __init__(self, value: Tensor, requires_grad: bool = False) -> None:
        self.leaf = Leaf() if requires_grad else None
        self.rebind(value)

    def read(self) -> Tensor:
        """The tensor that the cell holds now."""
        return self.value

    def rebind(self, value: Tensor) -> None:
        """Hold another tensor; its own history is dropped, a gradient leaf stays the cell's."""
        if type(value) is not Tensor:
            value = value.detach()
        if type(value) is Tensor:  # a tracer is held as it is while its transform runs
            leaf, value = self.leaf, new_tensor(value._a)
            value._node = leaf
        self.value = value

    @property
    def _a(self) -> Any:
        return self.value._a

    @property
    def _node(self) -> Any:
        return self.value._node

    @_node.setter
    def _node(self, node: Any) -> None:
        self.leaf = node
        self.value._node = node

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> DType[Any]:
        return self.value.dtype

    @property
    def device(self) -> Device:
        return self.value.device
