"""``torch.fft``: the functions of ``fx.fft`` under PyTorch's names of arguments."""

from __future__ import annotations

from typing import Any

import fx
from fx.tensor import Tensor
from fx.torch._functions import into, with_numpys_words


def _named(name: str, make: Any) -> Any:
    function = make(getattr(fx.fft, name))
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (getattr(fx.fft, name).__doc__ or "").split("\n")[0]
    return with_numpys_words(function)


def _given(out: Any, work: Any, x: Any, *args: Any) -> Tensor:
    if out is not None:
        return into(out, f"fft.{work.__name__}", "input", work, x, *args)
    return work(x, *args)  # type: ignore[no-any-return]


def _line(work: Any) -> Any:
    def function(
        input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
    ) -> Tensor:
        return _given(out, work, input, n, dim, norm)

    return function


def _plane(work: Any) -> Any:
    def function(
        input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
    ) -> Tensor:
        return _given(out, work, input, s, dim, norm)

    return function


def _volume(work: Any) -> Any:
    def function(
        input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None
    ) -> Tensor:
        return _given(out, work, input, s, dim, norm)

    return function


def _order(work: Any) -> Any:
    return lambda input, dim=None: work(input, dim)


def _frequencies(work: Any) -> Any:
    def function(
        n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, layout: Any = None,
        device: Any = None, requires_grad: bool = False,
    ) -> Tensor:  # fmt: skip
        found = work(n, d, dtype=dtype, device=device)
        if out is not None:
            return into(out, f"fft.{work.__name__}", "n", lambda: found)
        return found.requires_grad_() if requires_grad else found  # type: ignore[no-any-return]

    return function


_KINDS = {
    _line: "fft ifft rfft irfft hfft ihfft",
    _plane: "fft2 ifft2 rfft2 irfft2 hfft2 ihfft2",
    _volume: "fftn ifftn rfftn irfftn hfftn ihfftn",
    _order: "fftshift ifftshift",
    _frequencies: "fftfreq rfftfreq",
}
__all__ = sorted(name for names in _KINDS.values() for name in names.split())
globals().update({name: _named(name, make) for make, s in _KINDS.items() for name in s.split()})
