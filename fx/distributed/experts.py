"""Mixture of experts: each token goes to few of many networks, which ranks share (expert parallel).

A router gives each token probabilities of the experts, of which the k largest are its experts. Each
expert takes so many tokens of a group (the *capacity*), first choices before second ones, and what
comes later goes without it. So all messages have fixed shapes: with n ranks of E / n experts each

    tokens (t, d) -> slots (n, E / n, C, d) -> all_to_all -> (n, E / n, C, d), from each rank
    -> experts -> all_to_all back -> each token takes its k slots, by their weights

A group is what one rank has, so that one process with n groups computes what n ranks compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import fx
from fx.distributed.local_mapping import local_map
from fx.distributed.mesh import Running
from fx.distributed.placed import DEVICE
from fx.distributed.placements import Partial, Placement, Replicate, Shard
from fx.dtypes import float32, int64
from fx.errors import ArgumentError, DTypeError, ShapeError
from fx.ops.convert import as_tensor
from fx.prims.compare import stop_gradient
from fx.tensor import Tensor
from fx.transforms.collectives import all_to_all, axis_size, pmean

NAME = "mixture_of_experts"


def mixture_of_experts(
    x: Any,
    router: Any,
    up: Any,
    down: Any,
    axis_name: Any = None,
    *,
    k: int = 2,
    capacity_factor: float = 1.25,
    activation: Callable[[Tensor], Tensor] | None = None,
    groups: int = 1,
    batch_axes: Sequence[Any] = (),
) -> tuple[Tensor, Tensor]:
    """The weighted sum of each token's experts ``activation(x @ up[e]) @ down[e]``.

    Args:
        x: (..., tokens, features): those of this rank inside of ``fx.shard_map`` or ``fx.vmap``;
            or a tensor on a mesh, of global shape, which is brought to a cut of its first axis.
        router: (features, experts), the same on all ranks.
        up: (experts, features, hidden), of which a rank of ``axis_name`` has its part.
        down: (experts, hidden, features), as ``up``.
        axis_name: of the ``vmap`` or the mesh, along which the experts are shared out; None: one
            process has all of them.
        k: how many experts a token has.
        capacity_factor: of a group of t tokens an expert takes ``ceil(t k / experts * factor)``.
        activation: between ``up`` and ``down``; GELU for None.
        groups: in how many groups of equal length the tokens here fall.
        batch_axes: others along which tokens are cut, over which the balance is reckoned too; of
            a tensor on a mesh they are known.

    Returns:
        ``x``'s shape, as ``x`` lies; and the balance loss (), ``experts * sum(share * mean)`` of
        the shares of first choices and the mean probabilities, 1 where all experts have as many.

    Raises:
        ShapeError: if shapes do not fit, or experts or tokens do not divide.
        ArgumentError: if there are fewer than ``k`` experts.
        DTypeError: if the dtypes differ or are not floating.
        AxisError: if no such axis runs, or the mesh has none.

    Source: Lepikhin et al., "GShard", 2021 (groups, capacity); Fedus, Zoph and Shazeer, "Switch
    Transformers", 2022 (balance loss, eq. 4).

    Example:
        >>> import fx
        >>> from fx.distributed import mixture_of_experts
        >>> x, router, up, down = [
        ...     fx.random.normal(fx.random.key(i), shape)
        ...     for i, shape in enumerate(((16, 4), (4, 6), (6, 4, 8), (6, 8, 4)))
        ... ]
        >>> mesh, cut = fx.Mesh((2,), ("expert",), lanes=True), fx.P("expert")
        >>> on_ranks = lambda *xs: mixture_of_experts(*xs, "expert")
        >>> ranks = fx.shard_map(on_ranks, mesh, (cut, fx.P(), cut, cut), (cut, fx.P()))
        >>> found, balance = ranks(x, router, up, down)
        >>> want, same = mixture_of_experts(x, router, up, down, groups=2)
        >>> bool(fx.allclose(found, want, atol=1e-6)), bool(fx.allclose(balance, same))
        (True, True)
    """
    given = [as_tensor(a) for a in (x, router, up, down)]
    activation = activation or fx.nn.functional.gelu
    _check(*given, k)
    more = (k, capacity_factor, activation, groups)
    if DEVICE in [a.device.name for a in given]:
        return _on_mesh(given, axis_name, *more)
    return _exchanged(*given, axis_name, *more, tuple(batch_axes))


def _check(x: Tensor, router: Tensor, up: Tensor, down: Tensor, k: int) -> None:
    shapes = ", ".join(str(a.shape) for a in (x, router, up, down))
    d = x.shape[-1] if x.ndim else None
    fits = x.ndim > 1 and router.ndim == 2 and up.ndim == down.ndim == 3 and router.shape[0] == d
    if not fits or up.shape[1] != d or down.shape != (up.shape[0], up.shape[2], d):
        raise ShapeError(
            f"{NAME}: x (..., tokens, features), router (features, experts), up (experts, "
            f"features, hidden) and down (experts, hidden, features), got {shapes}"
        )
    if not x.is_floating_point() or not x.dtype == router.dtype == up.dtype == down.dtype:
        dtypes = ", ".join(str(a.dtype) for a in (x, router, up, down))
        raise DTypeError(f"{NAME}: x and weights are of one floating dtype, got {dtypes}")
    if not 1 <= k <= router.shape[1]:
        raise ArgumentError(f"{NAME}: k is from 1 to the {router.shape[1]} experts, got {k!r}")


# the router -------------------------------------------------------------------------------------


class Routes:
    """Which slots of experts the tokens of some groups have.

    Args:
        x: (groups, tokens, features).
        router: (features, experts).

    Attributes:
        probabilities: (groups, tokens, experts).
        first: (groups, tokens), the first choices.
        places: (groups, k, tokens), the slots of the choices; one more than there are for none.
        weights: (groups, k, tokens), 0 for none.
        capacity: slots of an expert, in each group.
    """

    def __init__(self, x: Tensor, router: Tensor, k: int, factor: float) -> None:
        groups, tokens, experts = *x.shape[:2], router.shape[1]
        wide = [a.astype(float32) if a.dtype.itemsize < 4 else a for a in (x, router)]
        self.probabilities = fx.nn.functional.softmax(wide[0] @ wide[1], -1)
        weights, chosen = self.probabilities.topk(k, -1)  # (groups, tokens, k)
        if k > 1:
            weights = weights / weights.sum(-1, keepdim=True)
        self.first = chosen[..., 0]
        self.capacity = max(1, math.ceil(tokens * k / experts * factor))
        chosen = chosen.permute(0, 2, 1)  # first choices before second ones
        hits = fx.one_hot(
            chosen.reshape(groups, k * tokens), experts
        )  # (groups, k tokens, experts)
        before = ((fx.cumulative_sum(hits, axis=1) - 1) * hits).sum(-1)
        before = before.reshape(groups, k, tokens)
        kept = before < self.capacity
        self.places = fx.where(kept, chosen * self.capacity + before, experts * self.capacity)
        self.weights = fx.where(kept, weights.permute(0, 2, 1), 0)
        self.slots = experts * self.capacity

    def into_slots(self, x: Tensor) -> Tensor:
        """x (groups, tokens, features) -> (groups, slots, features); zeros where nobody is."""
        groups, k, tokens = self.places.shape
        who = fx.arange(tokens, dtype=int64).expand(groups, k, tokens).reshape(groups, -1)
        of = fx.full((groups, self.slots + 1), tokens, dtype=int64)
        group = fx.arange(groups, dtype=int64)[:, None]
        of = of.at[group, self.places.reshape(groups, -1)].set(who)[:, :-1]
        return _rows(_and_none(x), of)

    def out_of_slots(self, y: Tensor) -> Tensor:
        """y (groups, slots, features) -> (groups, tokens, features), by weights."""
        groups, k, tokens = self.places.shape
        each = _rows(_and_none(y), self.places.reshape(groups, -1))
        each = each.reshape(groups, k, tokens, y.shape[-1])
        return (each * self.weights.astype(y.dtype)[..., None]).sum(1)


def _and_none(x: Tensor) -> Tensor:
    """With a row of zeros behind, (groups, n, d) -> (groups, n + 1, d)."""
    return fx.concat([x, fx.zeros_like(x[:, :1])], axis=1)


def _rows(x: Tensor, places: Tensor) -> Tensor:
    """x (groups, n, d), places (groups, m) -> (groups, m, d)."""
    places = places[..., None].expand(*places.shape, x.shape[-1])
    return fx.take_along_axis(x, places, axis=1)


# a rank -----------------------------------------------------------------------------------------


def _exchanged(
    x: Tensor,
    router: Tensor,
    up: Tensor,
    down: Tensor,
    axis_name: Any,
    k: int,
    factor: float,
    activation: Callable[[Tensor], Tensor],
    groups: int,
    batch_axes: tuple[Any, ...],
) -> tuple[Tensor, Tensor]:
    ranks = 1 if axis_name is None else axis_size(axis_name)
    here, experts, d = up.shape[0], router.shape[1], x.shape[-1]
    tokens = math.prod(x.shape[:-1])
    if here * ranks != experts or tokens % groups or not tokens:
        raise ShapeError(
            f"{NAME}: {ranks} ranks of {here} experts, where the router knows {experts}; {tokens} "
            f"tokens in {groups} groups"
        )
    flat = x.reshape(groups, tokens // groups, d)
    routes = Routes(flat, router, k, factor)
    slots = routes.into_slots(flat).reshape(groups, ranks, here, routes.capacity, d)
    slots = slots.permute(1, 2, 0, 3, 4)  # (ranks, experts here, groups, capacity, d)
    if axis_name is not None:
        slots = all_to_all(slots, axis_name, 0, 0)
    rows = slots.permute(1, 0, 2, 3, 4).reshape(here, -1, d)  # of all ranks and groups
    out = activation(rows @ up) @ down
    out = out.reshape(here, ranks, groups, routes.capacity, d).permute(1, 0, 2, 3, 4)
    if axis_name is not None:
        out = all_to_all(out, axis_name, 0, 0)
    out = out.permute(2, 0, 1, 3, 4).reshape(groups, routes.slots, d)
    axes = (*batch_axes, *(() if axis_name is None else (axis_name,)))
    return routes.out_of_slots(out).reshape(x.shape), _balance(routes, experts, axes)


def _balance(routes: Routes, experts: int, axes: tuple[Any, ...]) -> Tensor:
    share = fx.one_hot(routes.first, experts).astype(routes.probabilities.dtype).mean((0, 1))
    mean = routes.probabilities.mean((0, 1))
    if axes:
        share, mean = pmean((share, mean), axes)
    return experts * (stop_gradient(share) * mean).sum()


def _on_mesh(
    given: Sequence[Tensor],
    axis_name: Any,
    k: int,
    factor: float,
    activation: Callable[[Tensor], Tensor],
    groups: int,
) -> tuple[Tensor, Tensor]:
    """The same of tensors of global shape: along each axis of the mesh tokens are cut or whole."""
    x = given[0]
    mesh = next(a.device_mesh for a in given if a.device.name == DEVICE)  # type: ignore[attr-defined]
    m = mesh.axis(axis_name, NAME)
    lies = x.placements if x.device.name == DEVICE else (Replicate(),) * len(mesh.sizes)  # type: ignore[attr-defined]
    cut = [i == m or p == Shard(0) for i, p in enumerate(lies)]
    total = math.prod(n for n, c in zip(mesh.sizes, cut) if c)
    if x.shape[0] % total or given[2].shape[0] % mesh.sizes[m]:
        raise ShapeError(
            f"{NAME}: {x.shape[0]} rows of tokens and {given[2].shape[0]} experts are no equal "
            f"parts along {mesh!r}, whose {axis_name!r} has {mesh.sizes[m]} ranks"
        )
    rows: list[Placement] = [Shard(0) if c else Replicate() for c in cut]
    whole: list[Placement] = [Replicate()] * len(cut)
    shared = [Shard(0) if i == m else Replicate() for i in range(len(cut))]
    addends: list[Placement] = [Partial() if c else Replicate() for c in cut]
    own = [Shard(0) if i == m else p for i, p in enumerate(addends)]
    names = [a for i, a in enumerate(mesh.axis_names) if cut[i] and i != m]

    def of_parts(*parts: Tensor) -> tuple[Tensor, Tensor]:
        with Running(mesh._axes):
            y, balance = _exchanged(*parts, axis_name, k, factor, activation, groups, tuple(names))
        return y, balance / total  # which all have: an addend of each

    mapped = local_map(
        of_parts,
        (rows, addends),
        (rows, whole, shared, shared),
        (rows, addends, own, own),
        mesh,
        redistribute_inputs=True,
    )
    on_mesh = [
        a if a.device.name == DEVICE else fx.distributed.distribute_tensor(a, mesh, p)
        for a, p in zip(given, (rows, whole, shared, shared), strict=True)
    ]
    return mapped(*on_mesh)  # type: ignore[no-any-return]
