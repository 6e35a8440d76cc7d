"""Optimizers made of others: for some parameters only, every few gradients, with an average."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from fx import tree
from fx.dtypes import int64
from fx.errors import TreeError
from fx.optim._pure import Pure, Transform, value_of
from fx.optim._rule import zeros
from fx.prims.compare import where
from fx.prims.creation import constant
from fx.state import Cell
from fx.tensor import Tensor
from fx.transforms import cond

Either = TypeVar("Either", Pure, Transform)


def masked(inner: Either, mask: Any) -> Either:
    """An optimizer or transform for some of the leaves; the others pass as they are.

    Args:
        inner: sees a list of the chosen leaves only.
        mask: a pytree of bools of the structure of the parameters, or a function
            ``params -> mask``. A bool that stands for a subtree goes for all of its leaves.

    Returns:
        What ``inner`` is: an optimizer leaves other parameters alone, a transform other gradients.

    Raises:
        TreeError: if the mask does not fit the parameters.

    Example:
        >>> import fx
        >>> from fx.optim import pure
        >>> init, update = pure.masked(pure.sgd(lr=0.5), {"w": True, "b": False})
        >>> params = {"w": fx.tensor([1.0]), "b": fx.tensor([1.0])}
        >>> params, state = update(params, init(params), params)
        >>> params
        {'w': tensor([0.5000]), 'b': tensor([1.])}
    """

    def chosen(params: Any) -> list[bool]:
        wanted, structure = tree.flatten(mask)
        if len(wanted) == 1 and wanted[0] is mask and callable(mask):  # and no Module of bools
            wanted, structure = tree.flatten(mask(params))
        below = tree.flatten_up_to(structure, params)
        out = [
            bool(flag) for flag, part in zip(wanted, below, strict=True) for _ in tree.leaves(part)
        ]
        if len(out) != len(tree.leaves(params)):
            raise TreeError(
                f"masked: the mask is for {len(out)} leaves, the parameters have "
                f"{len(tree.leaves(params))}; give a bool for each leaf"
            )
        return out

    def pick(flags: list[bool], leaves: list[Any]) -> list[Any]:
        return [x for x, flag in zip(leaves, flags, strict=True) if flag]

    def init(params: Any) -> Any:
        return inner.init(pick(chosen(params), tree.leaves(params)))

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        leaves, treedef = tree.flatten(params)
        slopes = tree.flatten_up_to(treedef, grads)
        flags = chosen(params)
        new, state = inner.update(pick(flags, slopes), state, pick(flags, leaves))
        rest = iter(new)
        others = leaves if isinstance(inner, Pure) else slopes
        values = [
            next(rest) if flag else value_of("masked", x)
            for x, flag in zip(others, flags, strict=True)
        ]
        return tree.unflatten(treedef, values), state

    return type(inner)(init, update)


class MultiSteps(NamedTuple):
    """The state of ``multi_steps``: gradients gathered, their sum, and the optimizer's state."""

    count: Any
    total: Any
    inner: Any


def multi_steps(inner: Pure, every: int) -> Pure:
    """One step for the mean of ``every`` gradients; parameters stay in between.

    Args:
        inner: the optimizer.
        every: how many gradients make a step.

    Raises:
        ValueError: if ``every`` is less than one.

    Example:
        >>> import fx
        >>> from fx.optim import pure
        >>> init, update = pure.multi_steps(pure.sgd(lr=1.0), every=2)
        >>> w = fx.tensor([1.0])
        >>> state = init(w)
        >>> for g in (1.0, 3.0):
        ...     w, state = update(fx.tensor([g]), state, w)
        ...     print(w)
        tensor([1.])
        tensor([-1.])
    """
    if every < 1:
        raise ValueError(f"multi_steps: every must be at least 1, got {every}")

    def init(params: Any) -> MultiSteps:
        leaves, treedef = tree.flatten(params)
        total = tree.unflatten(treedef, [zeros(x) for x in _tensors(leaves)])
        return MultiSteps(constant(0, int64), total, inner.init(params))

    def update(grads: Any, state: MultiSteps, params: Any) -> tuple[Any, MultiSteps]:
        leaves, treedef = tree.flatten(params)
        held, structure = tree.flatten(state.inner)
        slopes = tree.flatten_up_to(treedef, grads)
        pairs = zip(tree.flatten_up_to(treedef, state.total), slopes, strict=True)
        total = [t + g for t, g in pairs]

        def step(values: list[Tensor], held: list[Any], total: list[Tensor]) -> Any:
            mean = tree.unflatten(treedef, [t / every for t in total])
            new, inside = inner.update(
                mean, tree.unflatten(structure, held), tree.unflatten(treedef, values)
            )
            values, held = tree.leaves(new), tree.leaves(inside)
            return _tensors(values), _tensors(held), [zeros(t) for t in total]

        def wait(values: list[Tensor], held: list[Any], total: list[Tensor]) -> Any:
            return values, held, total

        full = state.count + 1 == every
        values, held, total = cond(full, step, wait, _tensors(leaves), _tensors(held), total)
        count = where(full, state.count * 0, state.count + 1)
        total = tree.unflatten(treedef, total)
        return tree.unflatten(treedef, values), MultiSteps(
            count, total, tree.unflatten(structure, held)
        )

    return Pure(init, update)


def _tensors(leaves: list[Any]) -> list[Tensor]:
    """What cells hold now, and tensors as they are."""
    return [x.read() if isinstance(x, Cell) else x for x in leaves]


class Averaged(NamedTuple):
    """The state of ``ema``: updates made, the average of the parameters, the optimizer's state."""

    count: Any
    average: Any
    inner: Any


def ema(inner: Pure, decay: Any = 0.999) -> Pure:
    """An optimizer that keeps an exponential moving average of the parameters: ``state.average``.

    Args:
        inner: the optimizer.
        decay: the share of the average that is kept; or ``count -> share`` of the number of steps
            made, to begin with a short memory.

    Example:
        >>> import fx
        >>> from fx.optim import pure
        >>> init, update = pure.ema(pure.sgd(lr=1.0), decay=0.5)
        >>> w = fx.tensor([4.0])
        >>> w, state = update(fx.tensor([2.0]), init(w), w)
        >>> w, state.average
        (tensor([2.]), tensor([3.]))
    """

    def init(params: Any) -> Averaged:
        leaves, treedef = tree.flatten(params)
        average = tree.unflatten(treedef, [value_of("ema", x) for x in leaves])
        return Averaged(constant(0, int64), average, inner.init(params))

    def update(grads: Any, state: Averaged, params: Any) -> tuple[Any, Averaged]:
        params, inside = inner.update(grads, state.inner, params)
        leaves, treedef = tree.flatten(params)
        share = decay if isinstance(decay, Tensor | float) else decay(state.count)
        averages = []
        for old, new in zip(tree.flatten_up_to(treedef, state.average), leaves, strict=True):
            old, new = value_of("ema", old), value_of("ema", new)
            averages.append(new + (old - new) * _like(share, new))
        average = tree.unflatten(treedef, averages)
        return params, Averaged(state.count + 1, average, inside)

    return Pure(init, update)


def _like(share: Any, x: Tensor) -> Any:
    return share.astype(x.dtype) if isinstance(share, Tensor) else share
