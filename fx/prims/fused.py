"""Fused primitives: several operations that have one kernel for plain arrays.

A fused primitive is what its ``reference`` says, a function written with other primitives. Plain
tensors and reverse mode go through its kernel and its VJP rule: one pass over memory and one node
where the reference takes several. Everything else sees the reference: ``vmap``, ``jvp`` and staging
meet the primitives that they have rules for, and ``jit`` fuses as it would without. So does a call
that the kernel has no code for; it says so with None.
"""

from __future__ import annotations

from typing import Any

import attrs
from numpy import ndarray

from fx.config import modes
from fx.primitive import NOT_DIFFERENTIABLE, Primitive, Rule
from fx.tape import CELL, GradTracer, record
from fx.tensor import Tensor, new_tensor


@attrs.define(eq=False, repr=False)
class Fused(Primitive):
    """What only plain tensors and, where it has a VJP rule, reverse mode go through.

    Without a VJP rule it may have several results.

    Args:
        reference: the same on tensors of any level: ``(*tensors, **params) -> tensor``.
    """

    reference: Rule = attrs.field(kw_only=True)

    def __call__(self, *args: Any, **params: Any) -> Any:
        recorded = False
        arrays = []
        for x in args:
            if type(x) is not Tensor or type(x._a) is not ndarray:
                return self._dispatch(args, params)
            if x._node is not None:
                recorded = True
            arrays.append(x._a)
        if recorded and modes.record0:
            if not self.differentiable:
                return self.reference(*args, **params)
        else:
            recorded = False
        array = self.cpu(*arrays, **params)
        if array is None:
            return self.reference(*args, **params)
        if type(array) is tuple:
            return tuple(map(new_tensor, array))
        out = new_tensor(array)
        if recorded:
            record(self, args, params, out)
        return out

    def _dispatch(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        level = 0
        top: Any = None
        for x in args:
            if isinstance(x, Tensor) and x.level > level:
                level, top = x.level, x
        if level == CELL:
            return self(*[x.read() if x.level == CELL else x for x in args], **params)
        if type(top) is GradTracer and self.differentiable and modes.stage is None:
            return Primitive._dispatch(self, args, params)
        return self.reference(*args, **params)


def fuse(
    name: str,
    *,
    cpu: Rule,
    reference: Rule,
    vjp: Rule = NOT_DIFFERENTIABLE,
    saves: tuple[int, ...] = (),
    torch_name: str = "",
) -> Fused:
    """A fused primitive; it stands in no registry, as no graph ever holds it.

    Args:
        name: the field's term.
        cpu: ``(*arrays, **params) -> array``, or None where the reference is to be called.
        reference: what it is.
        vjp: as of a primitive; without one, what is recorded is the reference.
        saves: ``(0,)`` if the pullback wants the output.
        torch_name: PyTorch's name of its backward node, without ``Backward0``.
    """

    def unseen(*_: Any, **__: Any) -> Any:
        raise AssertionError(f"{name} reached a transform, which has to see its reference")

    words = "".join(part.capitalize() for part in name.split("_"))
    return Fused(
        name, unseen, cpu, unseen, vjp, unseen, unseen, saves=saves, torch_name=torch_name or words,
        differentiable=vjp is not NOT_DIFFERENTIABLE, reference=reference,
    )  # fmt: skip
