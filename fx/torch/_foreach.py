"""``torch._foreach_*``: one function over lists of tensors, as averages of weights call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx.torch as torch
from fx.tensor import Tensor
from fx.writing import function_of as function_in_place

_ELEMENTWISE = """
    abs acos add asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp
    lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin
    sinh sqrt sub tan tanh trunc addcdiv addcmul"""
_SAME = {"maximum_": "clamp_min_", "minimum_": "clamp_max_"}
_VALUES = frozenset(["_foreach_clone", "_foreach_max", "_foreach_mm", "_foreach_norm"])
NAMES = frozenset(
    [
        *(f"_foreach_{name}" for name in _ELEMENTWISE.split()),
        *(f"_foreach_{name}_" for name in _ELEMENTWISE.split()),
        *_VALUES,
        "_foreach_copy_",
        "_foreach_zero_",
    ]
)


def function_of(name: str) -> Callable[..., Any]:
    """The function of that name: ``name`` without ``_foreach_`` on each tensor of a list.

    Arguments are one for all (a number, a tensor without axes), or one for each: a list, or, of
    ``addcdiv`` and ``addcmul``, numbers in a tensor of one axis. A name with ``_`` at its end
    writes into the tensors and gives the list.

    Raises:
        ValueError: a list of another length.

    Example:
        >>> import fx.torch as torch
        >>> torch._foreach_add([torch.ones(2), torch.zeros(1)], 2.0)
        (tensor([3., 3.]), tensor([2.]))
    """
    one, writes = name.removeprefix("_foreach_"), name.endswith("_")
    scaled = one.startswith("addc")
    method = _SAME.get(one, one)
    work: Callable[..., Any] = function_in_place(method) if writes else getattr(Tensor, method)

    def called(self: Any, *given: Any, **options: Any) -> Any:
        if isinstance(self, Tensor) or not isinstance(self, (list, tuple)):
            if one == "pow" and isinstance(given[0], (list, tuple)):  # a number to each power
                return tuple(torch.pow(self, power) for power in given[0])
            raise TypeError(f"{name} takes a list of tensors, got {type(self).__name__}")
        columns = [_each(name, arg, len(self), scaled and k == 2) for k, arg in enumerate(given)]
        named = {
            key: _each(name, arg, len(self), scaled and key in ("value", "scalars"))
            for key, arg in options.items()
        }
        out = []
        for k, x in enumerate(self):
            args = [column[k] for column in columns]
            keys = {key: column[k] for key, column in named.items()}
            if scaled and len(args) == 3:
                keys["value"] = args.pop()
            if "scalars" in keys:
                keys["value"] = keys.pop("scalars")
            out.append(work(x, *args, **keys))
        return self if writes else tuple(out)

    called.__name__ = called.__qualname__ = name
    called.__doc__ = f"``{one}`` of each tensor of a list."
    return called


def _each(name: str, given: Any, length: int, packed: bool) -> list[Any]:
    if packed and isinstance(given, Tensor) and given.ndim == 1:
        given = given.tolist()
    if not isinstance(given, (list, tuple)):
        return [given] * length
    if len(given) != length:
        raise ValueError(
            f"{name}: Tensor lists must have the same number of tensors, got {length} and "
            f"{len(given)}"
        )
    return list(given)
