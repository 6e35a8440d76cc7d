"""Einstein summation: any specification, any number of operands.

Two operands become one matrix product: their axes are sorted into batch axes (in both and in the
result), free axes (in one of them) and contracted ones (in both, not in the result). More operands
are contracted pair by pair, in the order that opt_einsum finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import fx.prims.linear as linear
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.config import modes
from fx.dtypes import as_dtype
from fx.errors import ShapeError
from fx.ops.autocasting import lowered
from fx.ops.operands import argument, cast, promoted, public
from fx.ops.products.matrices import diagonal
from fx.tensor import Tensor

Labels = tuple[Any, ...]  # a letter, or the number of an axis of the ellipsis counted from its end


def einsum(
    *operands: Any, precision: Any = None, preferred_element_type: Any = None, optimize: Any = True
) -> Tensor:
    """The sums of products that a specification spells out.

    Args:
        operands: a specification such as ``"bij,bjk->bik"`` and its tensors. A letter names an
            axis; letters that are not in the result are summed over; ``...`` stands for axes that
            broadcast; without ``->`` the result has the letters that occur once, in alphabetical
            order. In place of the specification each tensor may be followed by a list of axis
            numbers, with that of the result last.
        precision: accepted for JAX's sake: no product rounds its operands here.
        preferred_element_type: the dtype that the operands are converted to first.
        optimize: accepted for NumPy's sake: of three operands or more, the order is always chosen.

    Raises:
        ShapeError: if the specification does not fit the shapes.
        ValueError: if it is not well formed.

    Example:
        >>> import fx
        >>> x = fx.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> fx.einsum("ij,jk->ik", x, x)
        tensor([[ 7., 10.],
                [15., 22.]])
        >>> fx.einsum("ii", x)
        tensor(5.)
    """
    spec, given = _arguments(operands)
    if preferred_element_type is not None:
        wanted = as_dtype(preferred_element_type)
        given = [cast(argument("einsum", x), wanted) for x in given]
    tensors = promoted("einsum", *given)
    if modes.autocast is not None and _contracts(spec, tensors):
        tensors = lowered(*tensors)
    if len(tensors) == 2:
        x, y = tensors
        straight = _straight(spec, x._shape, y._shape)
        if straight is not None:
            swap, plan, order = straight
            out = _carried_out(y, x, plan) if swap else _carried_out(x, y, plan)
            return out if order is None else shape_prims.transposed(out, order)
    terms, out = _parse(spec, tuple([x.ndim for x in tensors]))
    sizes = _sizes(spec, terms, [x.shape for x in tensors])
    pairs = [_prepared(x, term, sizes) for x, term in zip(tensors, terms, strict=True)]
    if len(pairs) > 2:
        pairs = _contracted(pairs, out)
    if len(pairs) == 1:
        x, labels = _summed(*pairs[0], out)
    else:
        x, labels = _product(*pairs[0], *pairs[1], out, out)
    return _arranged(x, labels, out)


def _contracts(spec: str, tensors: list[Tensor]) -> bool:
    """Whether a sum runs over what several operands share: a product of matrices."""
    terms, out = _parse(spec, tuple([x.ndim for x in tensors]))
    names = [name for term in terms for name in set(term)]
    return any(names.count(name) > 1 and name not in out for name in names)


def _arranged(x: Tensor, labels: Labels, out: Labels) -> Tensor:
    if labels == out:
        return x
    return shape_prims.transposed(x, tuple([labels.index(name) for name in out]))


# the specification ------------------------------------------------------------------------------


def _arguments(operands: tuple[Any, ...]) -> tuple[str, Sequence[Any]]:
    """The specification as a string, and the operands."""
    if not operands:
        raise ValueError("einsum needs a specification: fx.einsum('ij,jk->ik', x, y)")
    if isinstance(operands[0], str):
        rest = operands[1:]
        if len(rest) == 1 and isinstance(rest[0], tuple | list):
            rest = tuple(rest[0])
        return operands[0], rest
    if any(not isinstance(names, tuple | list) for names in operands[1::2]):
        raise ValueError(
            "einsum takes a specification first, fx.einsum('ij,jk->ik', x, y), or a list of axis "
            "numbers after each operand, fx.einsum(x, [0, 1], y, [1, 2])"
        )
    terms = [_letters(names) for names in operands[1::2]]
    spec = ",".join(terms[: len(operands) // 2])
    if len(operands) % 2:
        return f"{spec}->{_letters(operands[-1])}", operands[:-1:2]
    return spec, operands[::2]


def _letters(names: Any) -> str:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if not isinstance(names, tuple | list) or any(
        n is not Ellipsis and not (isinstance(n, int) and 0 <= n < 52) for n in names
    ):
        raise ValueError(f"einsum: axis numbers are 0 to 51 or ..., got {names!r:.60}")
    return "".join(["..." if n is Ellipsis else letters[n] for n in names])


@lru_cache(maxsize=1024)
def _parse(spec: str, ranks: tuple[int, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of each operand and of the result."""
    left, arrow, right = spec.replace(" ", "").partition("->")
    words = left.split(",")
    if len(words) != len(ranks):
        raise ValueError(f"einsum: {spec!r} names {len(words)} operands, got {len(ranks)}")
    terms = tuple([_labels(spec, w, rank) for w, rank in zip(words, ranks, strict=True)])
    found = [name for term in terms for name in term]
    dots = sorted({name for name in found if isinstance(name, int)}, reverse=True)
    if not arrow:
        once = [n for n in set(found) if isinstance(n, str) and found.count(n) == 1]
        return terms, (*dots, *sorted(once))
    head, ellipsis, tail = right.partition("...")
    out = (*head, *(dots if ellipsis else ()), *tail)
    for name in out:
        if name not in found:
            raise ValueError(f"einsum: {name!r} of the result of {spec!r} is in no operand")
    if len(set(out)) != len(out):
        raise ValueError(f"einsum: the result of {spec!r} names an axis twice")
    return terms, out


def _labels(spec: str, word: str, rank: int) -> Labels:
    head, ellipsis, tail = word.partition("...")
    names = head + tail
    if names and not (names.isalpha() and names.isascii()):
        raise ValueError(
            f"einsum: {word!r} in {spec!r} is not made of letters and one '...'; "
            f"write for example 'bij,bjk->bik'"
        )
    if len(names) > rank or (len(names) < rank and not ellipsis):
        raise ShapeError(
            f"einsum: {word!r} in {spec!r} names {len(names)} axes, but the operand has {rank}"
        )
    return (*head, *range(rank - len(names) - 1, -1, -1), *tail)


def _sizes(spec: str, terms: tuple[Labels, ...], shapes: list[tuple[int, ...]]) -> dict[Any, int]:
    """The size of every label; a size of 1 broadcasts."""
    sizes: dict[Any, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for name, n in zip(term, shape, strict=True):
            known = sizes.setdefault(name, n)
            if known == 1:
                sizes[name] = n
            elif n not in (1, known):
                word = "the ellipsis" if isinstance(name, int) else repr(name)
                raise ShapeError(
                    f"einsum: {word} in {spec!r} has size {known} in one operand and {n} in "
                    f"another; the shapes are {', '.join(map(str, shapes))}"
                )
    return sizes


# one operand ------------------------------------------------------------------------------------


def _prepared(x: Tensor, labels: Labels, sizes: dict[Any, int]) -> tuple[Tensor, Labels]:
    """An operand without axes that only broadcast, and with every label once."""
    kept = [i for i, n in enumerate(x._shape) if n == sizes[labels[i]]]
    if len(kept) < len(labels):
        x = shape_prims.reshaped(x, tuple([x._shape[i] for i in kept]))
        labels = tuple([labels[i] for i in kept])
    for name in dict.fromkeys(labels):
        while labels.count(name) > 1:
            first = labels.index(name)
            second = labels.index(name, first + 1)
            x = diagonal(x, 0, first, second)
            rest = [n for i, n in enumerate(labels) if i not in (first, second)]
            labels = (*rest, name)
    return x, labels


def _summed(x: Tensor, labels: Labels, keep: Any) -> tuple[Tensor, Labels]:
    """Summed over the labels that nobody wants."""
    axes = tuple([i for i, name in enumerate(labels) if name not in keep])
    if not axes:
        return x, labels
    rest = tuple([name for name in labels if name in keep])
    return reduction.sum(x, axes=axes, keepdims=False), rest


# two operands -----------------------------------------------------------------------------------


def _product(
    x: Tensor, x_labels: Labels, y: Tensor, y_labels: Labels, keep: Any, order: Labels
) -> tuple[Tensor, Labels]:
    """The product of two operands, summed over what is not in ``keep``.

    ``order`` is the order of labels that is hoped for, so that less has to be transposed.
    """
    x, x_labels = _summed(x, x_labels, {*keep, *y_labels})
    y, y_labels = _summed(y, y_labels, {*keep, *x_labels})
    if _second_first(x_labels, y_labels, order):
        x, x_labels, y, y_labels = y, y_labels, x, x_labels
    plan = _plan(x_labels, y_labels, x._shape, y._shape, tuple(keep))
    return _carried_out(x, y, plan), plan[4]


def _second_first(x: Labels, y: Labels, order: Labels) -> bool:
    """Whether the first free axis of the result belongs to the second operand."""
    for name in order:
        if (name in x) != (name in y):
            return name in y
    return False


@lru_cache(maxsize=1024)
def _straight(spec: str, x_shape: Any, y_shape: Any) -> Any:
    """All decisions of a product of two operands that need nothing but that product, or None.

    That is whether to exchange them, the plan, and the permutation at the end.
    """
    (x, y), out = _parse(spec, (len(x_shape), len(y_shape)))
    sizes = _sizes(spec, (x, y), [x_shape, y_shape])
    for own, other, shape in ((x, y, x_shape), (y, x, y_shape)):
        alone = [n for n in own if n not in out and n not in other]
        if alone or len(set(own)) < len(own) or shape != tuple([sizes[n] for n in own]):
            return None
    swap = _second_first(x, y, out)
    plan = _plan(y, x, y_shape, x_shape, out) if swap else _plan(x, y, x_shape, y_shape, out)
    labels = plan[4]
    return swap, plan, None if labels == out else tuple([labels.index(n) for n in out])


def _carried_out(x: Tensor, y: Tensor, plan: Any) -> Tensor:
    first, second, contracted, shape, _ = plan
    x, y = _laid_out(x, *first), _laid_out(y, *second)
    out = linear.matmul(x, y) if contracted else x * y
    return out if out._shape == shape else shape_prims.reshaped(out, shape)


def _laid_out(x: Tensor, axes: tuple[int, ...] | None, shape: tuple[int, ...]) -> Tensor:
    if axes is not None:
        x = shape_prims.transposed(x, axes)
    return x if x._shape == shape else shape_prims.reshaped(x, shape)


@lru_cache(maxsize=1024)
def _plan(x: Labels, y: Labels, x_shape: Any, y_shape: Any, keep: Labels) -> Any:
    """How to lay out both operands: ((axes, shape) of each, whether to contract, the result)."""
    size = dict(zip(x, x_shape, strict=True)) | dict(zip(y, y_shape, strict=True))
    batch = tuple([n for n in x if n in y and n in keep])
    free_x = tuple([n for n in x if n not in y])
    free_y = tuple([n for n in y if n not in x])
    inner = tuple([n for n in x if n in y and n not in keep])
    labels = (*batch, *free_x, *free_y)

    def sides(names: Labels) -> list[int]:
        return [size[n] for n in names]

    def axes(source: Labels, target: Labels) -> tuple[int, ...] | None:
        return None if source == target else tuple([source.index(n) for n in target])

    lead, shape = sides(batch), tuple(sides(labels))
    if not inner:
        first = (axes(x, batch + free_x), (*lead, *sides(free_x), *[1] * len(free_y)))
        second = (axes(y, batch + free_y), (*lead, *[1] * len(free_x), *sides(free_y)))
        return first, second, False, shape, labels
    m, k, n = prod(sides(free_x)), prod(sides(inner)), prod(sides(free_y))
    first = (axes(x, batch + free_x + inner), (*lead, m, k))
    second = (axes(y, batch + inner + free_y), (*lead, k, n))
    return first, second, True, shape, labels


# more operands ----------------------------------------------------------------------------------


def _contracted(pairs: list[tuple[Tensor, Labels]], out: Labels) -> list[tuple[Tensor, Labels]]:
    """Pairs multiplied in a cheap order until only two operands are left."""
    pairs = list(pairs)
    path = _path(tuple([labels for _, labels in pairs]), tuple([x.shape for x, _ in pairs]), out)
    for step in path:
        chosen = [pairs.pop(i) for i in sorted(step, reverse=True)]
        while len(chosen) > 1:
            if len(chosen) == 2 and not pairs:
                return chosen
            (x, a), (y, b) = chosen.pop(), chosen.pop()
            others = [*pairs, *chosen]
            keep = dict.fromkeys([*out, *[name for _, labels in others for name in labels]])
            chosen.append(_product(x, a, y, b, tuple(keep), ()))
        pairs += chosen
    return pairs


@lru_cache(maxsize=256)
def _path(terms: tuple[Labels, ...], shapes: Any, out: Labels) -> Any:
    """The order of contractions that opt_einsum finds."""
    from opt_einsum import contract_path, get_symbol

    symbols: dict[Any, str] = {}
    for name in [name for term in terms for name in term]:
        symbols.setdefault(name, get_symbol(len(symbols)))
    words = ["".join([symbols[n] for n in term]) for term in terms]
    spec = f"{','.join(words)}->{''.join([symbols[n] for n in out])}"
    return contract_path(spec, *shapes, shapes=True)[0]


__all__ = public(globals(), but=("Labels",))
