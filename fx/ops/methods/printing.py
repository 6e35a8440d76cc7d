"""How tensors print: the layout of PyTorch's repr, its options, and tracers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from math import inf, isfinite
from typing import Any

import numpy as np

from fx.config import default_device, default_dtype
from fx.devices import backend
from fx.dtypes import bfloat16, bool_, complex64, complex128, float64, int64
from fx.levels import Tracer, live
from fx.seen import face
from fx.slotted import slotted
from fx.spec import TensorSpec
from fx.tape import CELL, Leaf
from fx.tensor import Tensor


@slotted()
class _Options:
    """What ``set_printoptions`` sets."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_options = _Options()
_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print; what is None stays, but ``sci_mode=None`` means "decide by value".

    Args:
        precision: digits after the point.
        threshold: the number of elements beyond which a summary is printed.
        edgeitems: how many items of each axis a summary shows at both ends.
        linewidth: characters per line.
        profile: ``"default"``, ``"short"`` or ``"full"``, which the other arguments then change.
        sci_mode: whether to write ``1.0000e+03``.

    Raises:
        ValueError: for a profile that does not exist.

    Source: ``torch.set_printoptions``.

    Example:
        >>> import fx
        >>> fx.set_printoptions(precision=2)
        >>> fx.tensor([0.123456])
        tensor([0.12])
        >>> fx.set_printoptions(profile="default")
    """
    if profile is not None and profile not in _PROFILES:
        raise ValueError(
            f"set_printoptions: there is no profile {profile!r}; expected one of {list(_PROFILES)}"
        )
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes = _PROFILES[profile].copy() if profile else {}
    changes |= {name: value for name, value in given.items() if value is not None}
    for name, value in changes.items():
        setattr(_options, name, value)
    _options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The current options, as ``set_printoptions`` takes them.

    Example:
        >>> import fx
        >>> fx.get_printoptions()["linewidth"]
        80
    """
    return asdict(_options)


def tensor_repr(x: Tensor) -> str:
    """``tensor([1., 2.])`` with what is not the default; a tracer with the transform's name."""
    if isinstance(x, Tracer):
        return _tracer_repr(x)
    if x.level == CELL:
        x = x.read()
    if isinstance(x, Tracer):
        return _tracer_repr(x)
    return _described(x._a, x.device.name, _history(x._node))


def _history(node: Any) -> list[str]:
    if node is None:
        return []
    return ["requires_grad=True"] if isinstance(node, Leaf) else [f"grad_fn=<{node.name()}>"]


def _tracer_repr(x: Tracer) -> str:
    spec = TensorSpec(x.shape, x.dtype)
    if x.level & ~1 not in live:
        return f"<{spec!r} that outlived its {x.transform}>"
    if x.transform == "jit":
        x.stage.shown(x)  # type: ignore[attr-defined]
    value = getattr(x, "value", None)
    if x.transform in ("vmap", "jit") or value is None:  # one value a lane, or none yet
        return f"{x.transform}({spec!r})"
    return f"{x.transform}({value!r})"


def _described(array: Any, device: str, history: list[str]) -> str:
    dtype, shape = array.dtype, array.shape
    default = default_dtype()
    suffixes = [] if device == default_device() else [f"device='{device}'"]
    usual: tuple[Any, ...] = (
        default,
        complex128 if default == float64 else complex64,
        int64,
        bool_,
    )
    if isinstance(array, TensorSpec):
        content = "..."
        suffixes.append(f"size={shape}")
        usual = (default,)
    elif 0 in shape:
        content = "[]"
        if len(shape) != 1:
            suffixes.append(f"size={shape}")
        usual = (default,)  # there is no element to tell the kind by
    else:
        if not _options.edgeitems:
            suffixes.append(f"size={shape}")
        if hasattr(array, "shown"):  # not all of it is here
            values, told = array.shown()
            suffixes += told
        else:
            values = backend(device).to_numpy(array)
        content = _content(values, len("tensor(")) if values.size else "[]"
    if dtype not in usual:
        suffixes.append(f"dtype={face()}.{dtype.name}")
    return _joined("tensor(" + content, suffixes + history, len("tensor("))


def _joined(text: str, suffixes: list[str], indent: int) -> str:
    """The suffixes behind the content, each on a new line where the line is full."""
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text + ")"


# values -----------------------------------------------------------------------------------------

Write = Callable[[Any], str]


def _content(array: np.ndarray, indent: int) -> str:
    """The nested brackets; ``indent`` is the width of what stands before them."""
    if array.dtype == bfloat16:
        array = array.astype(np.float32)
    summary = array.size > _options.threshold
    shown = _corners(array) if summary else array
    if array.dtype.kind == "c":
        write, width = _complex_format(shown)
    else:
        write, width = _format(shown)
    return _block(array, indent, write, width, summary)


def _corners(array: np.ndarray) -> np.ndarray:
    """What a summary shows: both ends of every axis."""
    edge = _options.edgeitems
    for axis, n in enumerate(array.shape):
        if n > 2 * edge:
            ends = np.r_[0:edge, n - edge : n]
            array = array.take(ends, axis=axis)
    return array


def _format(values: np.ndarray) -> tuple[Write, int]:
    """One way of writing that suits all values, and its width."""
    if values.dtype.kind != "f":
        width = max(map(len, map(str, values.ravel().tolist())), default=1)
        return (lambda v: str(v).rjust(width)), width
    usual = values[np.isfinite(values) & (values != 0)].astype(np.float64)
    digits = _options.precision
    if not usual.size:
        return _whole(1), 1
    size = np.abs(usual)
    low, high = size.min(), size.max()
    scientific = _options.sci_mode
    if scientific is None:
        with np.errstate(over="ignore"):
            scientific = high / low > 1000.0 or high > 1e8 or low < 1e-4
    if scientific:
        width = max(len(f"{v:.{digits}e}") for v in usual.tolist())
        return (lambda v: f"{v:{width}.{digits}e}"), width
    if (usual == np.ceil(usual)).all():
        width = max(len(f"{v:.0f}.") for v in usual.tolist())
        return _whole(width), width
    width = max(len(f"{v:.{digits}f}") for v in usual.tolist())
    return (lambda v: f"{v:{width}.{digits}f}"), width


def _whole(width: int) -> Write:
    """Whole numbers, with the point that says "floating"."""
    return lambda v: f"{v:.0f}{'.' if isfinite(v) else ''}".rjust(width)


def _complex_format(values: np.ndarray) -> tuple[Write, int]:
    (real, wide), (imag, deep) = _format(values.real), _format(values.imag)

    def write(value: complex) -> str:
        second = imag(value.imag).lstrip() + "j"
        return real(value.real) + ("" if second[0] in "+-" else "+") + second

    return write, wide + deep + 1


def _block(array: np.ndarray, indent: int, write: Write, width: int, summary: bool) -> str:
    if array.ndim == 0:
        return write(array.item())
    edge = _options.edgeitems
    cut = summary and len(array) > 2 * edge
    if array.ndim == 1:
        items = [*map(write, (array[:edge] if cut else array).tolist())]
        if cut:
            tail = array[len(array) - edge :].tolist()
            items = [*items, " ..." if edge else "...", *map(write, tail)]
        row = max(1, (_options.linewidth - indent) // (width + 2))
        lines = [", ".join(items[i : i + row]) for i in range(0, len(items), row)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = array if not cut else array[:edge]
    rows = [_block(part, indent + 1, write, width, summary) for part in parts]
    if cut:
        tail = array[len(array) - edge :]
        rows = [*rows, "...", *(_block(part, indent + 1, write, width, summary) for part in tail)]
    gap = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + gap.join(rows) + "]"
