"""``torch.testing``: whether two results agree, and by how much they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import fx
from fx.tensor import Tensor

_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
Message = str | Callable[[str], str] | None


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: Message = None,
) -> None:  # fmt: skip
    """Refuse ``actual`` where ``|actual - expected| > atol + rtol * |expected|``.

    Args:
        actual, expected: tensors, arrays, numbers, or sequences and mappings of them.
        rtol, atol: tolerances; unless told, what the dtypes allow, the wider of the two.
        equal_nan: whether NaN equals NaN.
        check_dtype, check_device, check_stride: whether those must be the same.
        check_layout: nothing, as there is one layout.
        allow_subclasses: whether the types may differ.
        msg: the message, or what makes it of the one that there would be.

    Raises:
        AssertionError: with the place and the size of the greatest difference.
        ValueError: for one of ``rtol`` and ``atol`` without the other.
        TypeError: for values of two types, unless ``allow_subclasses``.

    Source: ``torch.testing.assert_close``.

    Example:
        >>> import fx.torch as torch
        >>> torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"rtol and atol must both be specified or both be unspecified, "
            f"but got rtol={rtol!r} and atol={atol!r}"
        )
    options = (rtol, atol, equal_nan, check_dtype, check_device, check_stride, allow_subclasses)
    found = _difference(actual, expected, "", options)
    if found is not None:
        raise AssertionError(msg(found) if callable(msg) else found if msg is None else msg)


def _difference(actual: Any, expected: Any, place: str, options: tuple[Any, ...]) -> str | None:
    """What is wrong, or None."""
    at = f"\n\nThe failure occurred for item {place}" if place else ""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return (
                f"The keys of the mappings do not match: {sorted(map(str, actual))} and "
                f"{sorted(map(str, expected))}{at}"
            )
        pairs = [(f"{place}[{key!r}]", actual[key], expected[key]) for key in actual]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{at}"
        pairs = [(f"{place}[{i}]", a, b) for i, (a, b) in enumerate(zip(actual, expected))]
    else:
        found = _of_tensors(actual, expected, options)
        return None if found is None else found + at
    for below, a, b in pairs:
        found = _difference(a, b, below, options)
        if found is not None:
            return found
    return None


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _of_tensors(actual: Any, expected: Any, options: tuple[Any, ...]) -> str | None:
    rtol, atol, equal_nan, check_dtype, check_device, check_stride, allow_subclasses = options
    plain = all(isinstance(v, int | float | complex) for v in (actual, expected))
    if not (allow_subclasses or plain or type(actual) is type(expected)):
        raise TypeError(
            f"without allow_subclasses both must be of one type, got {type(actual).__name__} and "
            f"{type(expected).__name__}"
        )
    numbers = not isinstance(actual, Tensor | np.ndarray)
    if actual is None and expected is None:
        return None
    x, y = [v if isinstance(v, Tensor) else fx.tensor(v) for v in (actual, expected)]
    kinds = ("Scalars", "Scalars") if numbers else ("Tensor-likes", "Tensors")
    if x.shape != y.shape:
        return f"The values for attribute 'shape' do not match: {x.shape} != {y.shape}."
    if check_device and x.device != y.device:
        return f"The values for attribute 'device' do not match: {x.device} != {y.device}."
    if check_dtype and not numbers and x.dtype != y.dtype:
        return (
            f"The values for attribute 'dtype' do not match: torch.{x.dtype.name} != "
            f"torch.{y.dtype.name}."
        )
    if check_stride and x.stride() != y.stride():
        return f"The values for attribute 'stride()' do not match: {x.stride()} != {y.stride()}."
    if rtol is None:
        both = [_TOLERANCES.get(v.dtype.name, (0.0, 0.0)) for v in (x, y)]
        rtol, atol = max(r for r, _ in both), max(a for _, a in both)
    a, b = [_plain(v) for v in (x, y)]
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
        allowed = atol + rtol * np.abs(b)
        good = (a == b) | (apart <= allowed)
        if a.dtype != object:
            good = (a == b) | ((apart <= allowed) & np.isfinite(apart) & np.isfinite(allowed))
        if equal_nan and a.dtype != object:
            good |= np.isnan(a) & np.isnan(b)
        good = good.astype(bool)
        if good.all():
            return None
        apart = np.where(good, 0, apart)
        apart = apart.astype(np.float64)
        relative = np.where(good, 0, apart / np.abs(b).astype(np.float64))
    if not x.ndim:
        of = f"Expected {expected if numbers else b.item()} but got {a.item()}.\n"
        lines = [f"{kinds[0]} are not close!\n\n{of}"]
        where = ["", ""]
    else:
        bad = int(good.size - good.sum())
        lines = [
            f"{kinds[0]} are not close!\n\nMismatched elements: {bad} / {good.size} "
            f"({bad / good.size:.1%})\n"
        ]
        where = [
            f" at index {tuple(int(i) for i in np.unravel_index(np.argmax(v), v.shape))}"
            for v in (np.nan_to_num(apart, nan=np.inf), np.nan_to_num(relative, nan=np.inf))
        ]
    lines += [
        f"Greatest absolute difference: {apart.max()}{where[0]} (up to {atol} allowed)\n",
        f"Greatest relative difference: {relative.max()}{where[1]} (up to {rtol} allowed)",
    ]
    return "".join(lines)


def _plain(x: Tensor) -> Any:
    """The values in a dtype that holds them and their differences."""
    array = x.detach().cpu()
    wide = fx.complex128 if x.dtype.kind == "c" else fx.float64
    return array.to(wide).numpy() if x.dtype.kind != "i" else array.numpy().astype(object)


__all__ = ["assert_close"]
