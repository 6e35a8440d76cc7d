"""Fused primitives: several operations that have one kernel for plain arrays.

A fused primitive is what its ``reference`` says, a function written with other primitives. Plain
tensors and reverse mode go through its kernel and its VJP rule: one pass over memory and one node
where the reference takes several. Everything else sees the reference: ``vmap``, ``jvp`` and staging
meet the primitives that they have rules for, and ``jit`` fuses as it would without. So does a call
that the kernel has no code for; it says so with None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Any

from numpy import asarray, broadcast_shapes, ndarray

from fx.backward_pass import backward_pass
from fx.config import modes
from fx.levels import Level
from fx.primitive import Primitive, Rule, registry
from fx.slotted import slotted
from fx.tape import CELL, GradTracer, Leaf, grad_tracer, record, record_multiple
from fx.tensor import Tensor, new_tensor


@slotted(eq=False, repr=False)
class Fused(Primitive):
    """What only plain tensors and reverse mode, checkpointed or not, go through.

    Args:
        reference: the same on tensors of any level: ``(*tensors, **params) -> tensor``, or a tuple
            of tensors if ``multiple``.
        words: the names of the numbers of a function whose kernel a backend makes of the
            reference; None of others.
        pattern: of such a function along axes, see ``along``; "" of one of elements alone.
    """

    reference: Rule = field(kw_only=True)
    words: tuple[str, ...] | None = field(default=None, kw_only=True)
    pattern: str = field(default="", kw_only=True)

    def __call__(self, *args: Any, **params: Any) -> Any:
        recorded = False
        arrays = []
        for x in args:
            if type(x) is not Tensor or type(x._a) is not ndarray:
                return self._dispatch(args, params)
            if x._node is not None:
                recorded = True
            arrays.append(x._a)
        array = self.cpu(*arrays, **params)
        if array is None:
            return self.reference(*args, **params)
        recorded = recorded and modes.record0
        if self.multiple:
            outs = tuple([new_tensor(a if type(a) is ndarray else asarray(a)) for a in array])
            return record_multiple(self, args, params, outs) if recorded else outs
        out = new_tensor(array if type(array) is ndarray else asarray(array))
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
        if top is not None and top.fuses and modes.stage is None:
            return Primitive._dispatch(self, args, params)
        return self.reference(*args, **params)


def of_reference(reference: Rule, multiple: bool = False) -> Rule:
    """A VJP rule: when the pass comes there the reference runs once more, and is gone back over."""

    def vjp(needs: tuple[Any, ...], *primals: Any, **params: Any) -> Any:
        def pullback(ct: Any) -> tuple[Any, ...]:
            with Level("vjp") as level:
                number = level.number
                leaves = [None if need is None else Leaf(number) for need in needs]
                out = reference(
                    *[
                        x if leaf is None else grad_tracer(number, x, leaf)
                        for x, leaf in zip(primals, leaves, strict=True)
                    ],
                    **params,
                )
            outs, cts = (out, ct) if multiple else ((out,), (ct,))
            roots = [
                (x._node, c)
                for x, c in zip(outs, cts, strict=True)
                if type(x) is GradTracer and x.level == number and c is not None
            ]
            wanted = [leaf for leaf in leaves if leaf is not None]
            found = backward_pass(roots, level=number, inputs=wanted, accumulate=False)
            return tuple([None if leaf is None else found.get(leaf) for leaf in leaves])

        return pullback

    return vjp


def fuse(
    name: str,
    *,
    cpu: Rule | None = None,
    reference: Rule,
    vjp: Rule | None = None,
    multiple: bool = False,
    saves: tuple[int, ...] = (),
    torch_name: str = "",
    words: tuple[str, ...] | None = None,
    pattern: str = "",
    formula: Rule | None = None,
) -> Fused:
    """A fused primitive; it stands in no registry, as no graph ever holds it.

    Args:
        name: the field's term.
        cpu: ``(*arrays, **params) -> array``, or None where the reference is to be called; the
            CPU's own kernel of that name unless given.
        reference: what it is; a result that only ``vjp`` wants may be None.
        vjp: as of a primitive; that of the reference unless given.
        multiple: whether it returns a tuple.
        saves: as of a primitive, for a kernel that never returns None.
        torch_name: PyTorch's name of its backward node, without ``Backward0``.
        words, pattern: as of ``elements`` and ``along``.
        formula: what kernels compute, where that is less than the reference says to who
            differentiates it.
    """

    def unseen(*_: Any, **__: Any) -> Any:
        raise AssertionError(f"{name} reached a transform, which has to see its reference")

    return Fused(
        name,
        spec=unseen,
        cpu=cpu,
        jvp=unseen,
        vjp=vjp or of_reference(reference, multiple),
        batch=unseen,
        sample=unseen,
        multiple=multiple,
        saves=saves,
        torch_name=torch_name,
        reference=reference,
        words=words,
        pattern=pattern,
        formula=formula or reference,
    )


def elements(
    name: str, reference: Rule, words: Sequence[str] = (), *, vjp: Rule | None = None,
    torch_name: str = "",
) -> Fused:  # fmt: skip
    """A fused function of the elements in the same place of its arguments, which broadcast.

    Its kernel is the reference, compiled, and so is that of each of its gradients.

    Args:
        name: the field's term.
        reference: what it is: ``(*tensors, **numbers) -> tensor``.
        words: the names of its numbers, Python's; a call with other things in their place is the
            reference.
        vjp: as of a primitive; of the reference unless given.
        torch_name: PyTorch's name of its backward node, without ``Backward0``.
    """

    def slope(name: str, formula: Rule, i: int) -> Fused:
        return elements(name, formula, words)

    return fuse(
        name, reference=reference, words=tuple(words),
        vjp=vjp or _by_arguments(name, _gradient(reference, True), slope), torch_name=torch_name,
    )  # fmt: skip


def along(
    name: str, reference: Rule, pattern: str, words: Sequence[str] = (), *, torch_name: str = ""
) -> Fused:
    """A fused function along axes that are neighbours, of arguments of one shape.

    Its kernel is the reference, compiled, and so is that of each of its gradients.

    Args:
        name: the field's term.
        reference: what it is: ``(*tensors, axes, keepdims, **numbers) -> tensor``; it is asked for
            ``keepdims`` if something is reduced.
        pattern: of the arguments and, after ">", of the result: "x" one of that shape, "r" one
            that is reduced along the axes: ``"xx>r"``.
        words: the names of its numbers, Python's.
        torch_name: PyTorch's name of its backward node, without ``Backward0``.
    """
    given, result = pattern.split(">")

    def slope(name: str, formula: Rule, i: int) -> Fused:
        return along(name, formula, f"{result}{given}>{given[i]}", words)

    return fuse(
        name, reference=reference, words=tuple(words), pattern=pattern,
        vjp=_by_arguments(name, _gradient(reference, False), slope), torch_name=torch_name,
    )  # fmt: skip


def _gradient(reference: Rule, broadcasts: bool) -> Any:
    """The cotangent of argument ``i``: of its own shape, or where they broadcast of the whole."""
    whole = of_reference(reference)

    def gradient(i: int, ct: Any, *xs: Any, **params: Any) -> Any:
        if broadcasts:
            shape = broadcast_shapes(ct.shape, *[x.shape for x in xs])  # of one number ct has none
            ct, full = [registry["broadcast_to"](x, shape=shape) for x in (ct, xs[i])]
            xs = (*xs[:i], full, *xs[i + 1 :])
        needs = [True if k == i else None for k in range(len(xs))]
        found = whole(needs, *xs, **params)(ct)[i]
        if found is not None:
            return found
        x = xs[i]  # on which the result does not depend
        return registry["full"](shape=x.shape, value=0, dtype=x._dtype, device=x.device.name)

    return gradient


def _by_arguments(name: str, gradient: Any, make: Any) -> Rule:
    """The VJP rule that has a fused function for each argument, made when it is first wanted."""
    slopes: dict[int, Fused] = {}

    def vjp(needs: tuple[Any, ...], *primals: Any, **params: Any) -> Any:
        def pullback(ct: Any) -> tuple[Any, ...]:
            found: list[Any] = []
            for i, (need, x) in enumerate(zip(needs, primals, strict=True)):
                if need is None:
                    found.append(None)
                    continue
                slope = slopes.get(i)
                if slope is None:
                    slope = slopes[i] = make(f"{name}_grad{i}", partial(gradient, i), i)
                g = slope(ct, *primals, **params)
                same = g._shape == x._shape
                found.append(g if same else registry["sum_to"](g, shape=x._shape))
            return tuple(found)

        return pullback

    return vjp
