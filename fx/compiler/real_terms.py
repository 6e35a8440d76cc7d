"""Real: an expression of a nest with the operators of Python, of which formulas are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fx.compiler.nest import Nest
from fx.dtypes import bool_


@dataclass(frozen=True, slots=True)
class Real:
    """An expression of a nest, with the operators of numbers and of truth values."""

    nest: Nest
    e: int

    @property
    def dtype(self) -> Any:
        """Of its value."""
        return self.nest.exprs[self.e].dtype

    def __call__(self, name: str, *others: Any, dtype: Any = None, params: Any = ()) -> Real:
        """A primitive of it and of others, which may be numbers."""
        args = [self.e, *[self.like(x).e for x in others]]
        return Real(self.nest, self.nest.op(name, args, dtype or self.dtype, params))

    def like(self, value: Any) -> Real:
        """A number in its dtype, or an expression itself."""
        if isinstance(value, Real):
            return value
        return Real(self.nest, self.nest.constant(value, self.dtype))

    def __add__(self, y: Any) -> Real:
        return self("add", y)

    def __sub__(self, y: Any) -> Real:
        return self("subtract", y)

    def __mul__(self, y: Any) -> Real:
        return self("multiply", y)

    def __truediv__(self, y: Any) -> Real:
        return self("divide", y)

    def __neg__(self) -> Real:
        return self("negative")

    def __abs__(self) -> Real:
        return self("abs")

    def is_(self, relation: str, y: Any) -> Real:
        """Whether ``less``, ``equal``, ... than another."""
        return self(relation, y, dtype=bool_)

    def __and__(self, y: Real) -> Real:
        return self("logical_and", y)

    def __or__(self, y: Real) -> Real:
        return self("logical_or", y)

    def __invert__(self) -> Real:
        return self("logical_not")

    def pick(self, x: Real, y: Any) -> Real:
        """x where it holds, y elsewhere."""
        return Real(self.nest, self.nest.op("where", (self.e, x.e, x.like(y).e), x.dtype))

    def cast(self, dtype: Any) -> Real:
        """In another dtype."""
        return self if dtype == self.dtype else self(
            "astype", dtype=dtype, params=(("dtype", dtype),)
        )  # fmt: skip


Parts = tuple[Real, Real]  # of complex numbers
