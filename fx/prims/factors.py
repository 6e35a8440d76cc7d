"""Sharding rules: which axes of operands and results of a primitive may be cut together.

A rule ``(*specs, **params) -> Factors`` writes the axes as an einsum does: "mk,kn->mn" says that
parts along m of the first operand give parts along m of the result, and so with n, and that parts
along k of both give results to be added up. An axis ``_`` must be whole. A factor that an operand
lacks finds that operand whole. The law (``fx/testing/sharding.py``) cuts samples along each factor,
runs the primitive on the parts, and compares what is joined with the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

from fx.dtypes import INEXACT
from fx.slotted import slotted

Shape = tuple[int, ...]
Params = dict[str, Any]
WHOLE = "_"


@slotted(frozen=True)
class Factors:
    """What may be cut together.

    Args:
        operands: for each operand a letter for each axis.
        results: the same of the results.
        op: how results are put together where a factor of the operands is in no result: ``"sum"``,
            ``"product"``, ``"max"`` or ``"min"``.
        linear: groups of operands: with addends of each of a group, and the others whole, come
            addends of the results.
        added: operands that count once where such a factor is cut: addends of them are taken.
        local: ``(params, operand shapes, result shapes) -> params`` for the parts of those shapes;
            None: they are the same.
        places: the factor of the first operand of which the second holds places: a place outside of
            a part gives zeros (``places.py``).
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    op: str = "sum"
    linear: tuple[tuple[int, ...], ...] = ()
    added: tuple[int, ...] = ()
    local: Callable[[Params, list[Shape], list[Shape]], Params] | None = None
    places: str = ""

    def letters(self) -> list[str]:
        """The factors, in the order in which operands have them."""
        return [c for c in dict.fromkeys("".join(self.operands)) if c != WHOLE]

    def summed(self, letter: str) -> bool:
        """Whether parts along a factor give results to be put together by ``op``."""
        return not any(letter in result for result in self.results)


Rule = Callable[..., Factors]


def chunk(size: int, count: int, index: int) -> tuple[int, int]:
    """Where part ``index`` of ``count`` begins and ends: all of one length, but for the last ones.

    Example:
        >>> [chunk(7, 3, i) for i in range(3)], [chunk(2, 3, i) for i in range(3)]
        ([(0, 3), (3, 6), (6, 7)], [(0, 1), (1, 2), (2, 2)])
    """
    length = -(-size // count)
    return min(index * length, size), min((index + 1) * length, size)


def alike(sizes: Sequence[int], count: int) -> bool:
    """Whether axes of these sizes, of one factor, come apart at the same places."""
    first = sizes[0]
    return all(
        chunk(n, count, i)[1] * first == chunk(first, count, i)[1] * n
        for n in sizes
        if n != first
        for i in range(count)
    )


def factors_of(primitive: Any, specs: Sequence[Any], params: Params) -> Factors:
    """What the rule of a primitive says of arguments."""
    rule = primitive.sharding or _BY_KIND.get(primitive.kind)
    if rule is not None:
        return rule(*specs, **params)  # type: ignore[no-any-return]
    results = primitive.spec(*specs, **params)
    results = results if primitive.multiple else (results,)
    return Factors(_whole(specs), _whole(results))


def _whole(specs: Sequence[Any]) -> tuple[str, ...]:
    return tuple([WHOLE * s.ndim for s in specs])


def _names(count: int, start: str = "a") -> str:
    """Letters: those of batches and lines from ``a`` on, of which patterns have none."""
    return "".join([chr(ord(start) + i) for i in range(count)])


# by patterns ------------------------------------------------------------------------------------


def einsum(pattern: str, *linear: tuple[int, ...], **traits: Any) -> Rule:
    """The rule that a pattern says, such as ``"...MK,...KN->...MN"``.

    ``...`` are axes that broadcast, ``_`` is an axis that must be whole, and ``*`` any number of
    them. The last operand of the pattern stands for all further ones.
    """
    left, right = [side.split(",") for side in pattern.split("->")]
    told = Factors((), (), linear=linear, **traits)

    def rule(*specs: Any, **params: Any) -> Factors:
        given = [*left, *repeat(left[-1], len(specs) - len(left))]
        free = [s.ndim - len(p.replace("...", "").replace("*", "")) for p, s in zip(given, specs)]
        many = max([n for n, p in zip(free, given) if "..." in p], default=0)
        stars = max([n for n, p in zip(free, given) if "*" in p], default=0)
        lead = [1] * many
        for n, p, s in zip(free, given, specs):
            if "..." in p:
                lead[many - n :] = map(max, lead[many - n :], s.shape[:n])
        names = _names(many)
        operands = []
        for n, p, s in zip(free, given, specs):
            if "..." in p:
                pairs = zip(s.shape, lead[many - n :], names[many - n :])
                dots = "".join([c if size == whole else WHOLE for size, whole, c in pairs])
                operands.append(p.replace("...", dots))
            else:
                operands.append(p.replace("*", WHOLE * n))
        results = [p.replace("...", names).replace("*", WHOLE * stars) for p in right]
        return replace(told, operands=tuple(operands), results=tuple(results))

    return rule


def lines(pattern: str, *linear: tuple[int, ...], **traits: Any) -> Rule:
    """The rule of what works along ``axis`` (or ``axes``), and on all other axes alike.

    The pattern has a letter for the axis in each operand and result: ``"_,J->J"``. The last operand
    stands for all further ones.
    """
    left, right = [side.split(",") for side in pattern.split("->")]
    told = Factors((), (), linear=linear, **traits)

    def rule(*specs: Any, **params: Any) -> Factors:
        along = params["axes"] if "axes" in params else (params["axis"],)
        given = [*left, *repeat(left[-1], len(specs) - len(left))]
        names = _names(specs[0].ndim)
        put = lambda letter: "".join([letter if i in along else c for i, c in enumerate(names)])
        return replace(told, operands=tuple(map(put, given)), results=tuple(map(put, right)))

    return rule


def reduced(op: str, *linear: tuple[int, ...]) -> Rule:
    """The rule of a reduction along ``axes``; ``op`` puts parts together, "" if nothing does."""

    def rule(x: Any, *, keepdims: bool, **params: Any) -> Factors:
        axes = params["axes"] if "axes" in params else (params["axis"],)
        names = _names(x.ndim)
        kept = [(WHOLE if keepdims else "") if i in axes else c for i, c in enumerate(names)]
        if not op:
            names = "".join([WHOLE if i in axes else c for i, c in enumerate(names)])
        return Factors((names,), ("".join(kept),), op or "sum", linear)

    return rule


# shapes -----------------------------------------------------------------------------------------


def _with_shape(params: Params, operands: list[Shape], results: list[Shape]) -> Params:
    return {**params, "shape": results[0]}


def reshaped(x: Any, *, shape: Shape) -> Factors:
    """Axes that keep their place, and the first one of each run that is cut or merged anew.

    (a * b, c) -> (a, b, c): parts along the first axis are parts along a, if they are whole rows
    of b; who cuts asks for that.
    """
    old, new = [WHOLE] * x.ndim, [WHOLE] * len(shape)
    if 0 not in shape:
        i = j = 0
        for name in _names(x.ndim + len(shape)):
            while i < x.ndim and x.shape[i] == 1:
                i += 1
            while j < len(shape) and shape[j] == 1:
                j += 1
            if i == x.ndim or j == len(shape):
                break
            old[i] = new[j] = name
            m, n = x.shape[i], shape[j]
            i, j = i + 1, j + 1
            while m != n:
                if m < n:
                    m, i = m * x.shape[i], i + 1
                else:
                    n, j = n * shape[j], j + 1
    return Factors(("".join(old),), ("".join(new),), linear=((0,),), local=_with_shape)


def broadcast(x: Any, *, shape: Shape) -> Factors:
    """The axes that are as long as before; new and longer ones may be cut, of the result alone."""
    names = _names(len(shape))
    lead = len(shape) - x.ndim
    old = [c if n == m else WHOLE for n, m, c in zip(x.shape, shape[lead:], names[lead:])]
    kept = [c if c in old else WHOLE for c in names]
    return Factors(("".join(old),), ("".join(kept),), linear=((0,),), local=_with_shape)


def summed_to(x: Any, *, shape: Shape) -> Factors:
    """The transpose of ``broadcast``: what is not kept is added up."""
    names = _names(x.ndim)
    lead = x.ndim - len(shape)
    new = [c if n == m else WHOLE for n, m, c in zip(shape, x.shape[lead:], names[lead:])]
    return Factors((names,), ("".join(new),), linear=((0,),), local=_with_shape)


def transposed(x: Any, *, axes: Shape) -> Factors:
    """The axes, in their new order."""
    names = _names(x.ndim)
    return Factors((names,), ("".join([names[a] for a in axes]),), linear=((0,),))


def _sliced_locally(params: Params, operands: list[Shape], results: list[Shape]) -> Params:
    stop = tuple([min(a, n) for a, n in zip(params["stop"], operands[0], strict=True)])
    return {**params, "stop": stop}


def sliced(x: Any, *, start: Shape, stop: Shape, step: Shape, drop: Shape = ()) -> Factors:
    """The axes of which everything is taken."""
    names = _names(x.ndim)
    full = [(a, b, s) == (0, n, 1) for a, b, s, n in zip(start, stop, step, x.shape)]
    old = "".join([c if all_of_it and i not in drop else WHOLE
                   for i, (c, all_of_it) in enumerate(zip(names, full))])  # fmt: skip
    new = "".join([c for i, c in enumerate(old) if i not in drop])
    return Factors((old,), (new,), linear=((0,),), local=_sliced_locally)


def padded(x: Any, value: Any, *, low: Shape, high: Shape, inside: Shape) -> Factors:
    """The axes to which nothing is added."""
    old = "".join(
        [WHOLE if any(w) else c for c, *w in zip(_names(x.ndim), low, high, inside, strict=True)]
    )
    return Factors((old, ""), (old,), linear=((0, 1),))


def joined(*specs: Any, axis: int) -> Factors:
    """All axes but the one along which tensors are joined."""
    names = _names(specs[0].ndim)
    names = names[:axis] + WHOLE + names[axis + 1 :]
    return Factors((names,) * len(specs), (names,), linear=(tuple(range(len(specs))),))


def stacked(*specs: Any, axis: int) -> Factors:
    """All axes but the new one."""
    names = _names(specs[0].ndim)
    result = names[:axis] + WHOLE + names[axis:]
    return Factors((names,) * len(specs), (result,), linear=(tuple(range(len(specs))),))


def unstacked(x: Any, *, axis: int) -> Factors:
    """All axes but the one that is taken apart."""
    names = _names(x.ndim)
    rest = names[:axis] + names[axis + 1 :]
    old = names[:axis] + WHOLE + names[axis + 1 :]
    return Factors((old,), (rest,) * x.shape[axis], linear=((0,),))


# elements ---------------------------------------------------------------------------------------


def elementwise(*linear: tuple[int, ...]) -> Rule:
    """The rule of operands that broadcast."""
    return einsum("...->...", *linear)


def cast(x: Any, *, dtype: Any) -> Factors:
    """Every axis; addends stay addends from one floating dtype to another."""
    names = _names(x.ndim)
    rounds = x.dtype not in INEXACT or dtype not in INEXACT
    return Factors((names,), (names,), linear=() if rounds else ((0,),))


_BY_KIND: dict[str, Rule] = {"elementwise": elementwise()}


# indices ----------------------------------------------------------------------------------------


def _apart(x: Any, idx: Any, axis: int) -> tuple[str, str, str]:
    """The axes of x, of an index into its ``axis``, and of the slices that it takes."""
    names, places = _names(x.ndim), _names(idx.ndim, "A")
    before, behind = names[:axis], names[axis + 1 :]
    return before + WHOLE + behind, places, before + places + behind


def take(x: Any, idx: Any, *, axis: int) -> Factors:
    """The axes of the index and the other axes of x; and that of x along which it looks."""
    old, places, slices = _apart(x, idx, axis)
    old = old[:axis] + "z" + old[axis + 1 :]
    return Factors((old, places), (slices,), linear=((0,),), places="z")


def scatter(x: Any, idx: Any, updates: Any, *, axis: int, mode: str) -> Factors:
    """The other axes of x; those of the index too, where it does not matter which comes last."""
    old, places, slices = _apart(x, idx, axis)
    if mode not in _SCATTERED:
        places = WHOLE * idx.ndim
        slices = old[:axis] + places + old[axis + 1 :]
    return _scattered(old, places, slices, mode)


def scatter_along(x: Any, idx: Any, updates: Any, *, axis: int, mode: str) -> Factors:
    """As of ``scatter``."""
    names = _names(x.ndim)
    old = names[:axis] + WHOLE + names[axis + 1 :]
    places = names if mode in _SCATTERED else old
    return _scattered(old, places, places, mode)


_SCATTERED = {"add": "sum", "min": "min", "max": "max"}


def _scattered(old: str, places: str, updates: str, mode: str) -> Factors:
    linear = ((0, 2),) if mode in ("add", "set") else ((0,),) if mode == "mul" else ()
    added = (0,) if mode == "add" else ()
    op = _SCATTERED.get(mode, "sum")
    return Factors((old, places, updates), (old,), op=op, linear=linear, added=added)


# products of windows ----------------------------------------------------------------------------


def windowed(pattern: str, lone: str) -> Rule:
    """The rule of a convolution: by ``pattern``, or with several groups of channels by ``lone``."""
    both = [einsum(p, (0,), (1,)) for p in (pattern, lone)]

    def rule(*specs: Any, groups: int, **params: Any) -> Factors:
        return both[groups > 1](*specs)

    return rule


def attention(q: Any, k: Any, v: Any, *masks: Any, causal: bool, scale: float) -> Factors:
    """Batch and heads; targets, unless what one sees depends on its place; the depth of values."""
    of_q, of_k = _attention_names(q, k)
    targets = WHOLE if causal else "T"
    out, rest = of_q + targets, [_attention_mask(m, q, of_q + targets) for m in masks]
    return Factors((out + WHOLE, of_k + "__", of_k + "_D", *rest), (out + "D", out))


def attention_grad(ct: Any, q: Any, k: Any, *rest: Any, causal: bool, scale: float) -> Factors:
    """Batch and heads."""
    of_q, of_k = _attention_names(q, k)
    of_q = (of_q if of_q == of_k else "B_") + WHOLE  # a head of k and v gets addends of all of q's
    masks = [_attention_mask(m, q, of_q) for m in rest[3:]]
    whole = of_q + WHOLE, of_q + WHOLE, of_k + "__", of_k + "__"
    return Factors((*whole, of_q, of_q, *masks), whole[1:])


def _attention_names(q: Any, k: Any) -> tuple[str, str]:
    return "BH", "B" + ("H" if k.shape[1] > 1 or q.shape[1] == 1 else WHOLE)


def _attention_mask(mask: Any, q: Any, names: str) -> str:
    pairs = zip(mask.shape, q.shape, names)
    return "".join([c if n == whole else WHOLE for n, whole, c in pairs]) + WHOLE


# draws ------------------------------------------------------------------------------------------


def drawn(key: Any, *parameters: Any, shape: Shape, **params: Any) -> Factors:
    """The axes of the keys; those of what one key gives are whole, as their places are its bits."""
    lead = _names(key.ndim - 1)
    if any(p.ndim > len(shape) for p in parameters):
        lead = WHOLE * len(lead)
    return Factors((lead + WHOLE, *_whole(parameters)), (lead + WHOLE * len(shape),))


def searched(sequence: Any, values: Any, *, side: str) -> Factors:
    """Every axis: a place is a count of those before, to which each part of a sequence adds."""
    lead, names = _names(sequence.ndim - 1), _names(values.ndim)
    return Factors((lead + "N", names), (names,))


# systems ----------------------------------------------------------------------------------------


def triangular_solve(a: Any, b: Any, *, left: bool, **how: Any) -> Factors:
    """The systems, and the columns (or rows) that are solved for."""
    columns = "_N" if left else "N_"
    return einsum(f"...__,...{columns}->...{columns}", (1,))(a, b)


def verified(x: Any, info: Any, *, words: Any) -> Factors:
    """All axes of x; what is wrong somewhere is raised everywhere."""
    names = _names(x.ndim)
    return Factors((names, WHOLE * info.ndim), (names,), linear=((0,),))
