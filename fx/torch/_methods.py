"""Methods of tensors that are functions of ``torch`` with the tensor as the first argument."""

from __future__ import annotations

from typing import Any

from fx.tensor import Tensor

NAMES = """
    as_strided_scatter frexp geqrf lu matrix_exp narrow_copy nonzero_static orgqr ormqr pinverse
    prelu qr svd unsafe_chunk unsafe_split unsafe_split_with_sizes"""


def _method(name: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        from fx import torch  # whose rooms load when first asked for

        return getattr(torch, name)(self, *args, **options)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = f"``torch.{name}`` of this tensor."
    return method


def is_set_to(self: Any, tensor: Any) -> bool:
    """Whether both are the same elements: of one memory, shape and strides."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"is_set_to takes a tensor, got {type(tensor).__name__}")
    return self is tensor or (
        self.data_ptr() == tensor.data_ptr()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


def new_empty_strided(self: Any, size: Any, stride: Any, **options: Any) -> Tensor:
    """``torch.empty_strided`` of this tensor's dtype and device."""
    from fx.torch import empty_strided

    given = {"dtype": self.dtype, "device": self.device, **options}
    return empty_strided(size, stride, **given)  # type: ignore[no-any-return]


def install() -> None:
    """Put the methods on Tensor."""
    for name in NAMES.split():
        setattr(Tensor, name, _method(name))
    Tensor.is_set_to, Tensor.new_empty_strided = is_set_to, new_empty_strided  # type: ignore[attr-defined]
