"""``torch.masked``: reductions and softmax over the elements where a mask holds.

What is masked counts as the neutral element of the reduction, and gets no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import fx
from fx.tensor import Tensor


def _cast(x: Any, dtype: Any) -> Tensor:
    return x if dtype is None else x.to(dtype)  # type: ignore[no-any-return]


def _least(x: Tensor) -> Any:
    return -inf if x.is_floating_point() else fx.iinfo(x.dtype).min


def _most(x: Tensor) -> Any:
    return inf if x.is_floating_point() else fx.iinfo(x.dtype).max


def _filled(x: Tensor, mask: Any, neutral: Any) -> Tensor:
    """``x`` with the neutral element, or what makes it of ``x``, where the mask does not hold."""
    if mask is None:
        return x
    value = neutral(x) if callable(neutral) else neutral
    return x.masked_fill(~mask, value)  # type: ignore[no-any-return]


def _dims(x: Tensor, dim: Any) -> tuple[int, ...]:
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return tuple(range(x.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _described(function: Any, name: str, meaning: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{meaning} where ``mask`` holds; without a mask, of all elements."
    return function


def _reducing(name: str, neutral: Any, reduce: Callable[..., Any]) -> Any:
    def function(
        input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
    ) -> Tensor:
        x = _filled(_cast(input, dtype), mask, neutral)
        return reduce(x, _dims(x, dim), keepdim)  # type: ignore[no-any-return]

    return _described(function, name, f"``torch.{name}`` of the elements")


def _products(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    x = x if x.dtype in fx.dtypes.INEXACT else x.to(fx.int64)
    return fx.prod(x, dims if x.ndim else None, keepdim)


sum = _reducing("sum", 0, lambda x, d, k: x.sum(d, k))
prod = _reducing("prod", 1, _products)
amax = _reducing("amax", _least, lambda x, d, k: x.amax(d, k))
amin = _reducing("amin", _most, lambda x, d, k: x.amin(d, k))
logsumexp = _reducing("logsumexp", _least, lambda x, d, k: x.logsumexp(d, k))


def _placing(name: str, neutral: Any) -> Any:
    def function(
        input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
        mask: Any = None,
    ) -> Tensor:  # fmt: skip
        x = _filled(_cast(input, dtype), mask, neutral)
        return getattr(x, name)(dim, keepdim).to(x.dtype)  # type: ignore[no-any-return]

    return _described(
        function, name, f"``torch.{name}``, in the dtype of the input, among the elements"
    )


argmax, argmin = _placing("argmax", _least), _placing("argmin", _most)


def _along(name: str, neutral: Any, run: Callable[..., Any]) -> Any:
    def function(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
        return run(_filled(_cast(input, dtype), mask, neutral), dim)  # type: ignore[no-any-return]

    return _described(function, name, f"``torch.{name}`` of the elements")


softmax = _along("softmax", -inf, lambda x, d: fx.softmax(x, d))
log_softmax = _along("log_softmax", -inf, lambda x, d: fx.log_softmax(x, d))
softmin = _along("softmin", inf, lambda x, d: fx.softmax(-x, d))
cumsum = _along("cumsum", 0, lambda x, d: x.cumsum(d, dtype=x.dtype))
cumprod = _along("cumprod", 1, lambda x, d: x.cumprod(d, dtype=x.dtype))


def _count(x: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Any) -> Tensor:
    """How many elements the mask leaves."""
    if mask is None:
        return fx.ones(x.shape, dtype=fx.int64, device=x.device).sum(dims, keepdim)
    return mask.expand(*x.shape).to(fx.int64).sum(dims, keepdim)


def mean(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The mean of the elements where ``mask`` holds; NaN where it holds nowhere."""
    x = _cast(input, dtype)
    dims = _dims(x, dim)
    total = _filled(x, mask, 0).sum(dims, keepdim)
    return total / _count(x, dims, keepdim, mask)  # type: ignore[no-any-return]


def var(
    input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None,
    keepdim: bool = False, dtype: Any = None, mask: Any = None,
) -> Tensor:  # fmt: skip
    """The variance of the elements where ``mask`` holds.

    Args:
        input, dim, keepdim, dtype: as of ``torch.var``.
        unbiased, correction: the number that is taken from the count, 1 unless told.
        mask: bool, which broadcasts to ``input``.

    Raises:
        RuntimeError: if ``unbiased`` and ``correction`` are both given.
    """
    if unbiased is not None and correction is not None:
        raise RuntimeError("torch.masked.var: give correction or unbiased, not both")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    x = _cast(input, dtype)
    dims = _dims(x, dim)
    away = _filled(x - mean(x, dims, keepdim=True, mask=mask), mask, 0)
    count = _count(x, dims, keepdim, mask) - correction
    squares = (away * away.conj()).real if away.is_complex() else away * away
    return (squares.sum(dims, keepdim) / count.clamp(min=0)).to(away.dtype)  # type: ignore[no-any-return]


def std(
    input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None,
    keepdim: bool = False, dtype: Any = None, mask: Any = None,
) -> Tensor:  # fmt: skip
    """The deviation of the elements where ``mask`` holds; see ``var``."""
    options = {"correction": correction, "keepdim": keepdim, "dtype": dtype, "mask": mask}
    return fx.sqrt(var(input, dim, unbiased, **options))


def norm(
    input: Any, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool = False,
    dtype: Any = None, mask: Any = None,
) -> Tensor:  # fmt: skip
    """The vector norm of the elements where ``mask`` holds."""
    x = _cast(input, dtype)
    p = 2.0 if ord is None else ord
    x = _filled(x, mask, inf if p == -inf else 0)
    return fx.linalg.vector_norm(x, ord=p, axis=_dims(x, dim), keepdims=keepdim)


def normalize(
    input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The elements where ``mask`` holds divided by their norm, or by ``eps`` if that is more."""
    x = _filled(_cast(input, dtype), mask, 0)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return x / size.clamp(min=eps)


def median(
    input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The lower median along an axis of the elements where ``mask`` holds."""
    x = _filled(_cast(input, dtype), mask, fx.nan)
    return x.nanmedian(dim, keepdim).values  # type: ignore[no-any-return]


def logaddexp(
    input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Tensor:
    """log(exp(x) + exp(y)), with -inf for what is masked."""
    return fx.logaddexp(
        _filled(_cast(input, dtype), input_mask, -inf),
        _filled(_cast(other, dtype), other_mask, -inf),
    )


def __getattr__(name: str) -> Any:
    from fx.torch._absent import reason

    advice = reason(name) or f"there is: {', '.join(__all__)}"
    raise AttributeError(f"fx has no torch.masked.{name}: {advice}")


__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std",
    "sum", "var",
]  # fmt: skip
