"""Changes of gradients in front of an optimizer: chain, clipping, scaling, weight decay."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

from fx import tree
from fx.dtypes import float32, int64
from fx.ops.pointwise.composed import clip as clip_values
from fx.optim._pure import Pure, Transform, value_of
from fx.prims.compare import astype, where
from fx.prims.creation import constant, constant_like
from fx.prims.elementwise import sqrt, square
from fx.prims.reduction import sum as total
from fx.tensor import Tensor


def chain(*links: Transform | Pure) -> Any:
    """Transforms one after the other, and an optimizer at the end.

    Gradients pass through the transforms in order; the optimizer moves the parameters by what comes
    out. Without an optimizer at the end the chain is a transform itself.

    Returns:
        A ``Pure``, or a ``Transform``; its state is the tuple of the links' states.

    Raises:
        TypeError: if an optimizer is not the last, or a link is neither.

    Example:
        >>> import fx
        >>> from fx.optim import pure
        >>> init, update = pure.chain(pure.clip_by_global_norm(1.0), pure.sgd(lr=0.5))
        >>> w = fx.tensor([1.0, 2.0])
        >>> w, state = update(fx.tensor([30.0, 40.0]), init(w), w)
        >>> w
        tensor([0.7000, 1.6000])
    """
    for i, link in enumerate(links):
        if not isinstance(link, Transform | Pure):
            raise TypeError(
                f"chain: link {i} is {link!r}, expected a transform such as pure.clip(1.0) or, at "
                f"the end, an optimizer such as pure.sgd(lr=0.1)"
            )
        if isinstance(link, Pure) and i < len(links) - 1:
            raise TypeError(
                f"chain: link {i} of {len(links)} is an optimizer, which must be the last; write "
                f"pure.chain(*transforms, optimizer)"
            )

    def init(params: Any) -> tuple[Any, ...]:
        return tuple([link.init(params) for link in links])

    def update(grads: Any, state: tuple[Any, ...], params: Any) -> tuple[Any, tuple[Any, ...]]:
        new = []
        for link, held in zip(links, state, strict=True):
            grads, held = link.update(grads, held, params)
            new.append(held)
        return grads, tuple(new)

    ends = bool(links) and isinstance(links[-1], Pure)
    return Pure(init, update) if ends else Transform(init, update)


def stateless(change: Callable[[Any, Any], Any]) -> Transform:
    """A transform from a function ``(grads, params) -> grads``.

    Example:
        >>> import fx
        >>> from fx.optim import pure
        >>> signs = pure.stateless(lambda grads, params: fx.tree.map(fx.sign, grads))
        >>> init, update = pure.chain(signs, pure.sgd(lr=0.5))
        >>> w = fx.tensor([1.0, 2.0])
        >>> update(fx.tensor([3.0, -4.0]), init(w), w)[0]
        tensor([0.5000, 2.5000])
    """

    def update(grads: Any, state: tuple[()], params: Any) -> tuple[Any, tuple[()]]:
        return change(grads, params), state

    return Transform(lambda params: (), update)


def clip(limit: Any) -> Transform:
    """Every element of the gradients, kept within ``[-limit, limit]``.

    Example:
        >>> import fx
        >>> fx.optim.pure.clip(1.0).update(fx.tensor([3.0, -0.5]), (), None)[0]
        tensor([ 1.0000, -0.5000])
    """
    return stateless(lambda grads, _: tree.map(lambda g: clip_values(g, -limit, limit), grads))


def global_norm(values: Any) -> Tensor:
    """The Euclidean norm of all leaves of a pytree together.

    Example:
        >>> import fx
        >>> fx.optim.pure.global_norm([fx.tensor([3.0]), fx.tensor(4.0)])
        tensor(5.)
    """
    return sqrt(_power(values))


def _power(values: Any) -> Tensor:
    """The sum of squares of all leaves."""
    leaves = [value_of("global_norm", x) for x in tree.leaves(values)]
    powers = [total(square(x), axes=tuple(range(x.ndim)), keepdims=False) for x in leaves]
    return reduce(add, powers) if powers else constant(0.0, float32)


def clip_by_global_norm(limit: Any) -> Transform:
    """Gradients scaled down together where their norm is above ``limit``.

    Args:
        limit: the greatest norm of all gradients together.

    Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks",
    2012.

    Example:
        >>> import fx
        >>> grads = {"w": fx.tensor([3.0]), "b": fx.tensor(4.0)}
        >>> fx.optim.pure.clip_by_global_norm(1.0).update(grads, (), None)[0]["w"]
        tensor([0.6000])
    """

    def change(grads: Any, params: Any) -> Any:
        power = _power(grads)
        one = constant_like(1.0, power)
        long = power > limit * limit
        # the root of what is short is not taken: at zero it has no slope
        share = where(long, limit / sqrt(where(long, power, one)), one)
        return tree.map(lambda g: g * astype(share, dtype=g.dtype), grads)

    return stateless(change)


def scale(factor: Any) -> Transform:
    """Gradients times a number, or times a function of the number of steps made.

    Args:
        factor: a number, a scalar tensor, or ``count -> factor``.

    Example:
        >>> import fx
        >>> fx.optim.pure.scale(0.5).update(fx.tensor([3.0]), (), None)[0]
        tensor([1.5000])
    """
    if not callable(factor) or isinstance(factor, Tensor):
        return stateless(lambda grads, _: tree.map(lambda g: _times(g, factor), grads))

    def update(grads: Any, count: Tensor, params: Any) -> tuple[Any, Tensor]:
        now = factor(count)
        return tree.map(lambda g: _times(g, now), grads), count + 1

    return Transform(lambda params: constant(0, int64), update)


def _times(g: Tensor, factor: Any) -> Tensor:
    return g * (astype(factor, dtype=g.dtype) if isinstance(factor, Tensor) else factor)


def add_decayed_weights(weight_decay: Any) -> Transform:
    """Parameters times ``weight_decay``, added to their gradients.

    Example:
        >>> import fx
        >>> decay = fx.optim.pure.add_decayed_weights(0.5)
        >>> decay.update(fx.tensor([1.0]), (), fx.tensor([4.0]))[0]
        tensor([3.])
    """

    def change(grads: Any, params: Any) -> Any:
        leaves, treedef = tree.flatten(params)
        slopes = tree.flatten_up_to(treedef, grads)
        pairs = [
            g + _times(value_of("add_decayed_weights", x), weight_decay)
            for g, x in zip(slopes, leaves, strict=True)
        ]
        return tree.unflatten(treedef, pairs)

    return stateless(change)
