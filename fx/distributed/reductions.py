"""What a reduction computes: its name for users, for MPI, and fx's own sum in a fixed order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

import fx.dtypes as dtypes
from fx.errors import DTypeError


class ReduceOp:
    """How values of ranks become one: ``SUM AVG PRODUCT MIN MAX BAND BOR BXOR``, ``PREMUL_SUM(c)``.

    ``PREMUL_SUM(c)`` is the sum of ``c`` times each value.

    Example:
        >>> from fx.distributed import ReduceOp
        >>> ReduceOp.SUM, ReduceOp.PREMUL_SUM(0.5)
        (<RedOpType.SUM>, <RedOpType.PREMUL_SUM(0.5)>)
    """

    SUM: ClassVar[ReduceOp]
    AVG: ClassVar[ReduceOp]
    PRODUCT: ClassVar[ReduceOp]
    MIN: ClassVar[ReduceOp]
    MAX: ClassVar[ReduceOp]
    BAND: ClassVar[ReduceOp]
    BOR: ClassVar[ReduceOp]
    BXOR: ClassVar[ReduceOp]
    PREMUL_SUM: ClassVar[ReduceOp]
    RedOpType: ClassVar[type[ReduceOp]]  # PyTorch's other name of their kind

    __slots__ = ("_text", "factor", "name", "work")

    def __init__(self, name: str, work: str, factor: Any = None) -> None:
        self.name, self.work, self.factor = name, work, factor
        self._text = f"RedOpType.{name}" + ("" if factor is None else f"({factor})")

    def __call__(self, factor: Any) -> ReduceOp:
        if self is not ReduceOp.PREMUL_SUM:
            raise TypeError(f"{self!r} takes no factor; write ReduceOp.PREMUL_SUM({factor})")
        return ReduceOp("PREMUL_SUM", "sum", float(factor))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReduceOp) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, Any]:
        return self.name, self.factor

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<{self}>"

    def __reduce__(self) -> Any:
        return ReduceOp, (self.name, self.work, self.factor)

    def __copy__(self) -> ReduceOp:
        return self

    def __deepcopy__(self, memo: Any) -> ReduceOp:
        return self


for _name, _work in {
    "SUM": "sum",
    "AVG": "sum",
    "PRODUCT": "prod",
    "MIN": "min",
    "MAX": "max",
    "BAND": "band",
    "BOR": "bor",
    "BXOR": "bxor",
    "PREMUL_SUM": "sum",
}.items():
    setattr(ReduceOp, _name, ReduceOp(_name, _work))
ReduceOp.RedOpType = ReduceOp

_WORKS: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
Array = np.ndarray[Any, Any]


def check(op: Any, dtype: Any, what: str) -> None:
    """Refuse what has no meaning, before a byte moves.

    Raises:
        TypeError: if ``op`` is no ReduceOp, or PREMUL_SUM without its factor.
        DTypeError: if the dtype has no such reduction.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{what}: op is a ReduceOp, as ReduceOp.SUM, not {op!r}")
    if op is ReduceOp.PREMUL_SUM:
        raise TypeError(f"{what}: write ReduceOp.PREMUL_SUM(factor)")
    name = op.name
    if (
        (name in ("AVG", "PREMUL_SUM") and dtype not in dtypes.INEXACT)
        or (name in ("MIN", "MAX") and dtype in dtypes.COMPLEX)
        or (name in ("BAND", "BOR", "BXOR") and dtype in dtypes.INEXACT)
    ):
        raise DTypeError(f"{what}: {op} has no meaning for {dtype.name}")


def before(op: ReduceOp, array: Array) -> Array:
    """What a rank gives to the sum."""
    return array if op.factor is None else array * array.dtype.type(op.factor)


def after(op: ReduceOp, array: Array, size: int) -> Array:
    """What becomes of the sum."""
    if op is not ReduceOp.AVG and op.name != "AVG":
        return array
    return np.divide(array, size, out=array)


def tree(op: ReduceOp, parts: list[Array], dtype: Any, out: Array | None = None) -> Array:
    """Values of the ranks as one, by pairs in the order of the ranks; 16 bits count in 32.

    Args:
        parts: of one shape. The order of the sums depends on their number alone.
        out: where the result goes; it may be one of the parts.
    """
    work = _WORKS[op.work]
    wide = dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype
    level = [p.astype(wide) if wide != dtype else p for p in parts]
    if op.factor is not None:
        level = [p * wide.type(op.factor) for p in level]
    last = out if wide == dtype else None
    with np.errstate(all="ignore"):
        while len(level) > 2:
            pairs = [work(a, b) for a, b in zip(level[::2], level[1::2])]
            level = pairs + level[len(pairs) * 2 :]
        found = np.asarray(work(*level, out=last) if len(level) == 2 else level[0])
    found = after(op, found, len(parts)) if op.name == "AVG" else found
    if out is None:
        return found.astype(dtype, copy=False)  # of no axes NumPy gives a number
    if found is not out:
        out[...] = found
    return out
