"""Leaves: pytrees of what control flow carries, as flat tensors, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx import tree
from fx.dtypes import promote_types, result_dtype_with_scalar
from fx.errors import DTypeError, ShapeError, TreeError
from fx.frames import user_line
from fx.levels import Tracer
from fx.ops.convert import as_tensor
from fx.paths import keystr
from fx.prims.compare import astype
from fx.staged_number import StagedNumber
from fx.tape import CELL
from fx.tensor import Tensor
from fx.transforms._arguments import name_of

_WEAK = (int, float, complex, StagedNumber)  # a bool is as it is
Treedef = Any


def check_callable(function: Any, what: str, name: str) -> None:
    """Refuse what cannot be called.

    Raises:
        TypeError: showing the line to write.
    """
    if not callable(function):
        got = repr(function.spec) if isinstance(function, Tensor) else repr(function)
        raise TypeError(
            f"{what}: {name} must be a function, got {got} of type {type(function).__name__}; "
            f"write lambda *args: ... around a value"
        )


def as_leaf(leaf: Any, what: str) -> Tensor:
    """A leaf as a tensor, a cell by what it holds.

    Raises:
        TypeError: if it is nothing of the kind.
    """
    if type(leaf) is Tensor:
        return leaf
    try:
        x = as_tensor(leaf)
    except Exception:
        raise TypeError(
            f"{what} must be a tensor, a number, or a pytree of them, got {leaf!r} of type "
            f"{type(leaf).__name__}; close over what is no tensor"
        ) from None
    return x.read() if x.level == CELL else x


def flat(value: Any, what: str) -> tuple[list[Tensor], Treedef, list[bool]]:
    """The leaves of a pytree as tensors, its structure, and which leaves are Python numbers."""
    leaves, treedef = tree.flatten(value)
    weak = [is_weak(x) for x in leaves]
    return [as_leaf(x, what) for x in leaves], treedef, weak


def is_weak(leaf: Any) -> bool:
    """Whether a leaf is a Python number, which takes the dtype of what it meets."""
    return type(leaf) in _WEAK


def path_of(treedef: Treedef, index: int, root: str) -> str:
    """What the leaf of that number is called: ``carry['h'][0]``."""
    marked = tree.unflatten(treedef, list(range(treedef.num_leaves)))
    for path, mark in tree.flatten_with_path(marked)[0]:
        if mark == index:
            return root + keystr(path)
    return root


def is_concrete(x: Any) -> bool:
    """Whether Python may ask for the value: no lanes, no staging, no ``meta`` device."""
    if not isinstance(x, Tensor):
        return True
    if x.level == CELL:
        x = x.read()
    while isinstance(x, Tracer):
        if x.transform not in ("grad", "jvp", "checkpoint"):
            return False
        x = x.value
    return x.device.name != "meta"


def adopted(first: Any, weak: bool, before: Tensor, after: Tensor) -> Any:
    """The dtype that a Python number among the carry takes from what comes out; None if it fits.

    Args:
        first: the number.
        weak: whether it is one.
        before: the tensor that stood for it.
        after: what came out.
    """
    if not weak or before.dtype == after.dtype or before.shape != after.shape:
        return None
    dtype = after.dtype
    first = first.now if type(first) is StagedNumber else first
    if result_dtype_with_scalar(dtype, first) != dtype:
        return None
    return dtype


def check_carry(
    what: str,
    function: Callable[..., Any],
    before: Sequence[Tensor],
    treedef: Treedef,
    after: Sequence[Tensor],
    treedef_after: Treedef,
) -> None:
    """Refuse a carry that comes out other than it went in.

    Raises:
        TreeError, ShapeError, DTypeError: naming the leaf and the line to write.
    """
    if treedef_after != treedef:
        raise TreeError(
            f"{what}: the carry of {described(function)} comes in with the structure {treedef} and "
            f"goes out with {treedef_after}; return it as it came (called at {user_line()})"
        )
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        if a.shape == b.shape and a.dtype == b.dtype:
            continue
        leaf = path_of(treedef, i, "carry")
        words = (
            f"{what}: {leaf} of {described(function)} comes in as {a.spec!r} and goes out as "
            f"{b.spec!r}; the carry keeps its shape and dtype."
        )
        if a.shape != b.shape:
            raise ShapeError(
                f"{words} Start with that shape, such as fx.zeros({b.shape}, "
                f"dtype=fx.{b.dtype.name}), or reduce what comes out (called at {user_line()})"
            )
        raise DTypeError(
            f"{words} Write .astype(fx.{a.dtype.name}) on what comes out, or start with "
            f"{_start(a, b)} (called at {user_line()})"
        )


def _start(a: Tensor, b: Tensor) -> str:
    try:
        common = promote_types(a.dtype, b.dtype)
    except DTypeError:
        common = b.dtype
    return f".astype(fx.{common.name})"


def described(function: Callable[..., Any]) -> str:
    """A function's name and the line where it is defined."""
    code = getattr(function, "__code__", None)
    where = "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
    return f"{name_of(function)}{where}"


def cast(x: Tensor, dtype: Any) -> Tensor:
    """``x`` in a dtype."""
    return x if x.dtype == dtype else astype(x, dtype=dtype)
