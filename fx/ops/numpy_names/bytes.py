"""NumPy's names of what reads bytes, text and iterators, and of bits in bytes."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np

from fx.dtypes import INTEGRAL, as_dtype, bool_, uint8
from fx.errors import ArgumentError, DTypeError
from fx.ops.axes import normal_axis
from fx.ops.making.interop import asarray
from fx.ops.operands import argument
from fx.ops.pointwise.elementwise import bitwise_and, bitwise_right_shift
from fx.ops.shapes.manipulation import flip, moveaxis, reshape
from fx.ops.shapes.padding import with_constant
from fx.tensor import Tensor


def _dtype(dtype: Any) -> Any:
    """What bytes are read as: ``float`` means 8 of them, as in NumPy."""
    return np.dtype(np.float64) if dtype is float else as_dtype(dtype)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Tensor:
    """The numbers (n,) whose bytes stand in a buffer, in memory of their own.

    Args:
        buffer: bytes, or what has them.
        dtype: of the numbers; ``float`` is float64.
        count: how many; all unless told.
        offset: at which byte they begin.

    Raises:
        ValueError: if the bytes do not make up that many numbers.

    Source: ``numpy.frombuffer``.

    Example:
        >>> import fx
        >>> fx.frombuffer(b"\\x01\\x02\\x03", dtype=fx.uint8, offset=1)
        tensor([2, 3], dtype=fx.uint8)
    """
    return asarray(np.frombuffer(buffer, _dtype(dtype), count, offset).copy())


def fromfile(
    file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0
) -> Tensor:
    """The numbers (n,) of a file of bare bytes, or of text with ``sep`` between.

    Args:
        file: a path or an open file.
        dtype, count, offset: those of ``frombuffer``.
        sep: what separates numbers in text; bytes unless told.

    Raises:
        ArgumentError: for what is neither.

    Source: ``numpy.fromfile``.

    Example:
        >>> import fx, tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(b"\\x01\\x02")
        ...     file.flush()
        ...     fx.fromfile(file.name, dtype=fx.uint8)
        tensor([1, 2], dtype=fx.uint8)
    """
    if not isinstance(file, str | bytes | PathLike) and not hasattr(file, "fileno"):
        raise ArgumentError(f"fromfile takes a path or an open file, got {type(file).__name__}")
    return asarray(np.fromfile(file, _dtype(dtype), count, sep, offset))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Tensor:
    """The numbers (n,) of a text.

    Args:
        string: the text.
        dtype, count: those of ``frombuffer``.
        sep: what separates them.

    Raises:
        ArgumentError: for an empty ``sep``: ``frombuffer`` reads bytes.
        ValueError: if the text holds something else.

    Source: ``numpy.fromstring``.

    Example:
        >>> import fx
        >>> fx.fromstring("1 2 3", dtype=fx.int64, sep=" ")
        tensor([1, 2, 3])
    """
    if not sep:
        raise ArgumentError("fromstring: sep is not empty; write fx.frombuffer for bytes")
    import warnings

    with warnings.catch_warnings():  # NumPy only warns of what is no number, and drops it
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return asarray(np.fromstring(string, _dtype(dtype), count, sep=sep))
        except (DeprecationWarning, ValueError):
            raise ArgumentError(
                f"fromstring: not all of the text is numbers with {sep!r} between, got {string!r}"
            ) from None


def fromiter(iter: Iterable[Any], dtype: Any, count: int = -1) -> Tensor:
    """The numbers (n,) of an iterator.

    Args:
        iter: what gives Python numbers.
        dtype: of the result.
        count: how many; all unless told.

    Raises:
        ValueError: if there are fewer.

    Source: ``numpy.fromiter``.

    Example:
        >>> import fx
        >>> fx.fromiter((k * k for k in range(4)), dtype=fx.int64)
        tensor([0, 1, 4, 9])
    """
    return asarray(np.fromiter(iter, _dtype(dtype), count))


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Tensor:
    """Bits put together to bytes, eight along an axis; zeros fill the last one.

    Args:
        a: bool or integers, of which all but 0 are a set bit.
        axis: along which; all elements in one row unless told.
        bitorder: ``"big"``: the first bit is the highest; ``"little"``, the lowest.

    Returns:
        uint8.

    Raises:
        DTypeError: for floats.
        ArgumentError: for another order.

    Source: ``numpy.packbits``.

    Example:
        >>> import fx
        >>> fx.packbits(fx.tensor([1, 0, 1]))
        tensor([160], dtype=fx.uint8)
    """
    x = argument("packbits", a)
    if x.dtype not in INTEGRAL and x.dtype != bool_:
        raise DTypeError(f"packbits takes bool or integers, got {x.dtype.name}; write x != 0")
    weights = _weights("packbits", bitorder, x)
    at = normal_axis("packbits", axis, x.shape) if axis is not None else 0
    x = moveaxis(x, at, -1) if axis is not None else reshape(x, (-1,))
    n = x.shape[-1]
    x = with_constant((x != 0).astype(uint8), [*[(0, 0)] * (x.ndim - 1), (0, -n % 8)], 0)
    x = reshape(x, (*x.shape[:-1], -(-n // 8), 8))
    out = (x * weights).sum(-1).astype(uint8)
    return moveaxis(out, -1, at)


def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Tensor:
    """The bits of bytes, eight in place of each along an axis.

    Args:
        a: uint8.
        axis: along which; all elements in one row unless told.
        count: how many bits stay, or from behind how many go; zeros follow where there are fewer.
        bitorder: that of ``packbits``.

    Returns:
        uint8, 0 and 1.

    Raises:
        DTypeError: for another dtype.
        ArgumentError: for another order.

    Source: ``numpy.unpackbits``.

    Example:
        >>> import fx
        >>> fx.unpackbits(fx.tensor([160], dtype=fx.uint8), count=4)
        tensor([1, 0, 1, 0], dtype=fx.uint8)
    """
    x = argument("unpackbits", a)
    if x.dtype != uint8:
        raise DTypeError(f"unpackbits takes uint8, got {x.dtype.name}; write x.astype(fx.uint8)")
    _weights("unpackbits", bitorder, x)
    at = normal_axis("unpackbits", axis, x.shape) if axis is not None else 0
    x = moveaxis(x, at, -1) if axis is not None else reshape(x, (-1,))
    steps = asarray(list(range(8)), dtype=uint8, device=x.device)
    steps = flip(steps) if bitorder == "big" else steps
    bits = bitwise_and(bitwise_right_shift(x[..., None], steps), 1)
    bits = reshape(bits, (*x.shape[:-1], 8 * x.shape[-1]))
    n = bits.shape[-1]
    if count is not None:
        kept = count if count >= 0 else max(n + count, 0)
        bits = bits[..., :kept]
        if kept > n:
            bits = with_constant(bits, [*[(0, 0)] * (bits.ndim - 1), (0, kept - n)], 0)
    return moveaxis(bits, -1, at)


def _weights(name: str, bitorder: str, x: Tensor) -> Tensor:
    if bitorder not in ("big", "little"):
        raise ArgumentError(f"{name}: bitorder is 'big' or 'little', got {bitorder!r}")
    values = [1 << k for k in range(8)]
    values = values[::-1] if bitorder == "big" else values
    return asarray(values, dtype=uint8, device=x.device)
