"""Making tensors, with PyTorch's arguments: sizes first, ``layout`` and ``pin_memory`` accepted."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

import fx
from fx import dtypes
from fx.config import default_dtype
from fx.errors import WriteError
from fx.ops.making.creation import filled
from fx.ops.operands import argument
from fx.random.stateful import drawn, integers
from fx.staged_number import settled
from fx.tensor import Tensor
from fx.torch._functions import into
from fx.writing import lending


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of a number, a nested list, an array or a tensor: a copy, with no history.

    Example:
        >>> import fx.torch as torch
        >>> torch.tensor([1.0, 2.0])
        tensor([1., 2.])
    """
    return fx.tensor(data, dtype, device, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of ``data``; itself, or a view of its memory, where nothing has to change."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    return fx.asarray(_shared(data), dtype, device)


def _shared(data: Any) -> Any:
    """An array as the tensor that shares its memory; anything else as it is."""
    return lending.from_numpy(data) if type(data) is np.ndarray else data


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of ``obj``, copied only where it must be or ``copy`` says so."""
    if copy is None and type(obj) is np.ndarray and not obj.ndim:
        copy = True  # which PyTorch takes for a number here
    out = fx.asarray(obj if copy else _shared(obj), dtype, device, copy)
    return out.detach().requires_grad_() if requires_grad else out


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    """A tensor of one number; a float unless ``dtype`` says otherwise."""
    return fx.tensor(s, default_dtype() if dtype is None else dtype, device)


def _into(out: Any, name: str, *args: Any, **options: Any) -> Tensor:
    """What ``out=`` gets of a function that makes tensors: a leaf requires grad no more.

    Raises:
        WriteError: if ``empty`` or ``randn`` is to fill a tensor that requires grad.
    """
    required = isinstance(out, Tensor) and out.requires_grad
    if required and name in ("empty", "randn"):
        raise WriteError(
            f"{name}(out=...): cannot resize variables that require grad; write "
            f"out.copy_(torch.{name}(out.shape)) inside `with torch.no_grad():`"
        )
    into(out, name, *args, **options)
    return out.requires_grad_(False) if required and out.is_leaf else out


def _of_size(make: Any, quick: Any) -> Any:
    """``f(2, 3)`` or ``f((2, 3))`` or ``f(size=(2, 3))`` with PyTorch's options.

    ``quick(size, dtype, device, requires_grad)`` is ``make`` for a call without rare options.
    """

    def function(
        *size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False, **options: Any,
    ) -> Tensor:  # fmt: skip
        if not options and out is None:
            return quick(size, dtype, device, requires_grad)  # type: ignore[no-any-return]
        if "size" in options:
            size = (options.pop("size"),)
        options.pop("memory_format", None)
        options |= {"dtype": dtype, "device": device, "requires_grad": requires_grad}
        if out is not None:
            return _into(out, make.__name__, "size", make, *size, **options)
        return make(*size, **options)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = make.__name__
    function.__doc__ = (make.__doc__ or "").split("\n")[0]
    return function


def _like(make: Any) -> Any:
    """``f_like(x)`` with PyTorch's options."""

    def function(
        input: Any, *args: Any, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
        **options: Any,
    ) -> Tensor:  # fmt: skip
        if not (args or options):  # handing on what is not there costs 0.1 µs
            return make(input, dtype=dtype, device=device, requires_grad=requires_grad)  # type: ignore[no-any-return]
        return make(  # type: ignore[no-any-return]
            input, *args, dtype=dtype, device=device, requires_grad=requires_grad, **options
        )

    function.__name__ = function.__qualname__ = make.__name__
    function.__doc__ = (make.__doc__ or "").split("\n")[0]
    return function


zeros = _of_size(fx.zeros, filled("zeros", 0))
ones, empty = _of_size(fx.ones, filled("ones", 1)), _of_size(fx.empty, filled("empty", 0))
rand = _of_size(fx.rand, drawn("uniform", "rand"))
randn = _of_size(fx.randn, drawn("normal", "randn"))
zeros_like, ones_like, empty_like = (
    _like(fx.zeros_like), _like(fx.ones_like), _like(fx.empty_like),
)  # fmt: skip
full_like = _like(fx.full_like)
rand_like, randn_like, randint_like = (
    _like(fx.rand_like), _like(fx.randn_like), _like(fx.randint_like),
)  # fmt: skip


def empty_strided(size: Any, stride: Any, **options: Any) -> Tensor:
    """A tensor of ``size``; strides are fx's own affair."""
    return empty(size, **options)


def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of ``size`` that holds ``fill_value`` everywhere."""
    if out is not None:
        return _into(
            out, "full", "size, fill_value", full, size, fill_value, dtype=dtype, device=device
        )  # type: ignore[no-any-return]
    return fx.full(size, fill_value, dtype=dtype, device=device, requires_grad=requires_grad)


def arange(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers start, start + step, ... below ``end``; from 0 where one number is given."""
    if out is not None:
        return _into(
            out, "arange", "start, end, step", arange, start, end, step, dtype=dtype, device=device
        )  # type: ignore[no-any-return]
    start, end = (0, start) if end is None else (start, end)
    if type(step) is not int or step != 1:
        start, end, step = settled(start, end, step)
    if (end - start) * step < 0:
        raise ValueError(f"arange: {end} is not reached from {start} in steps of {step}")
    if dtype is not None and np.dtype(dtype).kind in "iu":  # the numbers are cut to integers first
        if dtype != fx.int64 and step:  # but for how many there are
            end = int(start) + int(step) * max(math.ceil((end - start) / step), 0)
        start, end, step = int(start), int(end), int(step)
    return fx.arange(start, end, step, dtype=dtype, device=device, requires_grad=requires_grad)


def range(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Tensor:
    """The floats start, start + step, ... up to ``end`` itself (deprecated: use ``arange``)."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).", UserWarning, stacklevel=2,
    )  # fmt: skip
    count = int((end - start) / step) + 1
    wanted = default_dtype() if dtype is None else dtype
    return (fx.arange(count) * step + start).to(wanted)  # type: ignore[no-any-return]


def _whole(dtype: Any, *ends: Any) -> tuple[Any, ...]:
    """The ends of a row of numbers: for integers they are cut first."""
    whole = dtype is not None and np.dtype(dtype).kind in "iu"
    return tuple([int(x) if whole else x for x in ends])


def linspace(
    start: Any, end: Any, steps: int, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``steps`` numbers at equal distances from ``start`` to ``end``."""
    if out is not None:
        return _into(
            out, "linspace", "start, end, steps", linspace, start, end, steps, dtype=dtype,
            device=device,
        )  # fmt: skip
    if dtype is not None:
        start, end = _whole(dtype, start, end)
    elif isinstance(start, Tensor) or isinstance(end, Tensor):
        dtype = default_dtype()
    return fx.linspace(start, end, steps, dtype=dtype, device=device, requires_grad=requires_grad)


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``steps`` powers of ``base`` whose exponents lie at equal distances."""
    if out is not None:
        return _into(
            out, "logspace", "start, end, steps, base", logspace, start, end, steps, base,
            dtype=dtype, device=device,
        )  # fmt: skip
    start, end = _whole(dtype, start, end)
    return fx.logspace(
        start, end, steps, base, dtype=dtype, device=device, requires_grad=requires_grad
    )


def eye(
    n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A matrix (n, m) with ones on its diagonal."""
    if out is not None:
        return _into(out, "eye", "n, m", eye, n, m, dtype=dtype, device=device)
    return fx.eye(n, m, dtype=dtype, device=device, requires_grad=requires_grad)


def randint(
    low: Any = None, high: Any = None, size: Any = None, *, generator: Any = None, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Integers in [low, high), each as likely; ``randint(high, size)`` begins at 0."""
    if out is not None:
        return _into(
            out, "randint", "low, high, size", randint, low, high, size, generator=generator,
            dtype=dtype, device=device,
        )  # fmt: skip
    if isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    elif high is None or low is None:  # randint(5, size=...), randint(high=5, size=...)
        low, high = 0, low if high is None else high
    if high is None or size is None:
        raise TypeError(
            "torch.randint() takes (high, size) or (low, high, size); "
            "write torch.randint(5, (2, 3))"
        )
    return integers("randint", low, high, size, generator, dtype, device, requires_grad)


def randperm(
    n: int, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers 0 to n - 1 in random order."""
    if out is not None:
        return _into(
            out, "randperm", "n", randperm, n, generator=generator, dtype=dtype, device=device
        )  # type: ignore[no-any-return]
    options: dict[str, Any] = {"generator": generator, "device": device}
    found = fx.randperm(n, **options, **({} if dtype is None else {"dtype": dtype}))
    return found.requires_grad_() if requires_grad else found


def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    """Normal samples, of the means' and deviations' shape or of ``size``."""
    if out is not None:
        give = into if size is None else _into
        return give(
            out, "normal", "mean, std, size", normal, mean, std, size, generator=generator,
            **options,
        )  # fmt: skip
    return fx.normal(mean, std, size, generator=generator, **options)


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A tensor of the bytes of an object with the buffer protocol."""
    array = np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset)
    out = lending.from_numpy(array)
    return out.requires_grad_() if requires_grad else out


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None,
    layout: Any = None,
) -> Tensor:  # fmt: skip
    """The places of the lower triangle of a (row, col) matrix: (2, count)."""
    from fx.ops.shapes.assembly import tril_indices

    return tril_indices(row, col, offset, dtype=dtype)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None,
    layout: Any = None,
) -> Tensor:  # fmt: skip
    """The places of the upper triangle of a (row, col) matrix: (2, count)."""
    from fx.ops.shapes.assembly import triu_indices

    return triu_indices(row, col, offset, dtype=dtype)


def complex(real: Any, imag: Any, *, out: Any = None) -> Tensor:
    """Complex numbers of their real and imaginary parts."""
    if out is not None:
        return into(out, "complex", "real, imag", complex, real, imag)
    from fx.ops.pointwise import complex_numbers

    return complex_numbers.complex(argument("complex", real), argument("complex", imag))


__all__ = [
    name
    for name, value in globals().items()
    if not name.startswith("_")
    and callable(value)
    and getattr(value, "__module__", "") == __name__
    and not isinstance(value, type)
]
