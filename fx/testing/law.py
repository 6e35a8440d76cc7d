"""Law: a checkable statement about one rule, and the decorator that makes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fx.primitive import Primitive
from fx.prims.sampling import Sample
from fx.slotted import slotted
from fx.testing.case import LawBroken, Mismatch, told

LAWS: dict[str, Law] = {}


@slotted(eq=False)
class Law:
    """A statement that must hold for every sample of a primitive.

    Calling it with a primitive and a sample returns None, or raises ``LawBroken``.

    Args:
        name: the function that checks it.
        rule: the rule that is to blame.
        says: the statement.
        check: ``(primitive, sample) -> None``.
        differentiable: whether it is about derivatives.
    """

    name: str
    rule: str
    says: str
    check: Callable[[Primitive, Sample], None]
    differentiable: bool

    def applies(self, primitive: Primitive) -> bool:
        """Whether the law says anything about ``primitive``."""
        return primitive.differentiable or not self.differentiable

    def __call__(self, primitive: Primitive, sample: Sample) -> None:
        """Check it.

        Raises:
            LawBroken: naming the primitive, the rule and the law.
        """
        if not self.applies(primitive):
            return
        try:
            with np.errstate(all="ignore"):
                self.check(primitive, sample)
        except LawBroken:
            raise
        except Exception as error:
            what = str(error) if isinstance(error, Mismatch) else told(error)
            given = ", ".join(f"{a.dtype.name}{a.shape}" for a in sample.args)
            raise LawBroken(
                primitive.name, self.rule, self.says, f"{what}\nfor ({given}), {sample.params}"
            ) from error


def law(rule: str, says: str, differentiable: bool = False) -> Callable[[Any], Law]:
    """Make a law of a function ``(primitive, sample) -> None`` that raises where it is broken."""

    def make(check: Callable[[Primitive, Sample], None]) -> Law:
        made = Law(check.__name__, rule, says, check, differentiable)
        LAWS[made.name] = made
        return made

    return make
