"""PyTorch's questions about where and how a tensor is stored, and its old constructors."""

from __future__ import annotations

from math import prod
from typing import Any

from fx import dtypes
from fx.config import default_dtype
from fx.errors import DeviceError, ShapeError
from fx.ops.axes import integer, integers, normal_axis
from fx.ops.making import creation, interop, ranges
from fx.ops.operands import argument, cast, of_scalar
from fx.ops.reductions import ordering
from fx.ops.shapes import broadcasting, manipulation, splitting
from fx.tensor import Tensor


def constructed(dtype: Any, args: tuple[Any, ...], device: Any = None) -> Tensor:
    """What ``torch.Tensor(...)`` gives: a tensor of sizes, or of the values of a list or array.

    Args:
        dtype: of the result; None is the default dtype.
        args: sizes as ints, or one list, array or tensor of values.
        device: where it lives.
    """
    wanted = default_dtype() if dtype is None else dtype
    if len(args) == 1 and not isinstance(args[0], int):
        data = args[0]
        if isinstance(data, Tensor):
            return cast(argument("Tensor", data).detach(), wanted)
        return interop.tensor(data, dtype=wanted, device=device)
    return creation.zeros(args or (0,), dtype=wanted, device=device)


def _new(cls: type[Tensor], *args: Any, **options: Any) -> Tensor:
    """PyTorch's old constructor: ``Tensor(2, 3)`` of sizes, ``Tensor([1, 2])`` of values."""
    if cls is not Tensor:
        return object.__new__(cls)
    return constructed(None, args, **options)


def _elsewhere(kind: str) -> Any:
    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        raise DeviceError(
            f"x.{kind}() asks for a device that fx does not have here; write x.to(device) with "
            f"device = 'cpu', or guard the line with `if torch.cuda.is_available():`"
        )

    method.__name__ = kind
    method.__doc__ = f"Refused: there is no {kind} device."
    return method


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Itself: memory is pinned only for a GPU."""
    return self


def same(self: Tensor) -> Tensor:
    """Itself: nothing is left to be done lazily."""
    return self


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """A tensor of this dtype: of sizes, or of the values of a list (PyTorch's old form)."""
    return constructed(self._dtype, args, device or self.device)


def msort(self: Tensor) -> Tensor:
    """The elements in sorted order along the first axis."""
    return ordering.sort(self, 0)


def split_with_sizes(
    self: Tensor, split_sizes: Any, dim: int = 0, *, axis: int | None = None
) -> tuple[Tensor, ...]:
    """Parts of the given sizes along an axis."""
    sizes = integers("split_with_sizes", "split_sizes", split_sizes)
    return splitting.split(self, list(sizes), dim if axis is None else axis)


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return self._shape == argument("is_same_size", other).shape


def put(self: Tensor, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """With elements of the flattened tensor replaced, or added to."""
    place = manipulation.ravel(self).at[index]
    out = place.add(source) if accumulate else place.set(source)
    return manipulation.reshape(out, self._shape)


def as_strided(self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """The elements of the flattened tensor at ``storage_offset + sum(index * stride)``.

    Raises:
        ShapeError: if there is not one step a size, one is negative, or a place lies outside.
    """
    sizes = integers("as_strided", "size", size)
    steps = integers("as_strided", "stride", stride)
    first = integer("as_strided", "storage_offset", storage_offset or 0)
    if len(sizes) != len(steps) or min((first, *sizes, *steps)) < 0:
        raise ShapeError(
            f"as_strided takes one stride a size, none negative, got size={sizes}, "
            f"stride={steps}, storage_offset={first}; write x.flip(...) for a negative step"
        )
    last = first + sum([(n - 1) * step for n, step in zip(sizes, steps, strict=True)])
    if prod(sizes) and last >= self.size:
        raise ShapeError(
            f"as_strided: size={sizes}, stride={steps} and storage_offset={first} reach element "
            f"{last} of a tensor of shape {self.shape}, which has {prod(self.shape)}"
        )
    place = creation.full((), first, dtype=dtypes.int64, device=self.device)
    for axis, (n, step) in enumerate(zip(sizes, steps, strict=True)):
        line = ranges.arange(n, device=self.device) * step
        place = place + manipulation.reshape(line, (n,) + (1,) * (len(sizes) - axis - 1))
    return manipulation.ravel(self)[place]  # type: ignore[no-any-return]


def index_reduce(
    self: Tensor, dim: Any = None, index: Any = None, source: Any = None, reduce: Any = None, *,
    include_self: bool = True, axis: Any = None,
) -> Tensor:  # fmt: skip
    """With slices of ``source`` combined where the index says: prod, mean, amax or amin."""
    dim, shape = axis if dim is None else dim, self._shape
    if not shape:
        options = {"reduce": reduce, "include_self": include_self}
        return of_scalar(index_reduce, self, dim, index, source, **options)  # type: ignore[no-any-return]
    at = normal_axis("index_reduce", dim, shape)
    source = argument("index_reduce", source)
    line = tuple([-1 if i == at else 1 for i in range(source.ndim)])
    places = broadcasting.broadcast_to(manipulation.reshape(index, line), source._shape)
    return self.scatter_reduce(at, places, source, reduce, include_self=include_self)  # type: ignore[no-any-return]


def multinomial(
    self: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Tensor:
    """Places drawn with the weights of the last axis."""
    from fx.random.parametrized import multinomial

    return multinomial(self, num_samples, replacement, generator=generator)


def bernoulli(self: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """Draws of 1 with the probabilities that the elements, or ``p``, say."""
    from fx.random.parametrized import bernoulli

    return bernoulli(self, p, generator=generator)


def _never(self: Tensor, device: Any = None) -> bool:
    """False."""
    return False


def is_shared(self: Tensor) -> bool:
    """True: views share memory, and a tensor can be sent to another process."""
    return True


_FALSE = """
    is_sparse is_sparse_csr is_quantized is_mkldnn is_mps is_xpu is_xla is_ipu is_vulkan is_nested
    is_distributed
"""


def attach() -> None:
    """Put the methods on Tensor."""
    for kind in ("cuda", "xpu", "mtia", "ipu"):
        setattr(Tensor, kind, _elsewhere(kind))
    for function in (
        pin_memory, new, msort, split_with_sizes, is_same_size, put, as_strided, index_reduce,
        multinomial, bernoulli,
    ):  # fmt: skip
        setattr(Tensor, function.__name__, function)
    for name in ("resolve_conj", "resolve_neg", "to_dense"):
        setattr(Tensor, name, same)
    for name in ("is_pinned", "is_conj", "is_neg", "is_inference"):
        setattr(Tensor, name, _never)
    for name in _FALSE.split():
        setattr(Tensor, name, property(lambda self: False, doc="Always False."))
    Tensor.__new__ = staticmethod(_new)  # type: ignore[method-assign, assignment]
    Tensor.__reduce__ = interop.reduce_tensor  # type: ignore[method-assign, assignment]
    Tensor.is_shared = is_shared
    Tensor.is_cpu = property(
        lambda self: self.device.name == "cpu", doc="Whether it is on the CPU."
    )
