"""Who writes what: entries that are the same in all ranks once, the others by rank."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from fx.distributed.checkpoint.entries import Leaf, name_of
from fx.distributed.checkpoint.manifest import Entry, Piece, Variant, sums_of
from fx.errors import ArgumentError


@dataclass(frozen=True)
class Claim:
    """What a rank says of a leaf that it has: all but the elements.

    Args:
        content: the hashes of its blocks, or text that only equal values share.
        whole: the shape of all, if this is a Shard.
    """

    path: tuple[Any, ...]
    kind: str
    content: tuple[str, ...]
    value: Any = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    whole: tuple[int, ...] | None = None
    nbytes: int = 0


def claim_of(leaf: Leaf) -> Claim:
    """What is said of a leaf."""
    x = leaf.value
    if leaf.kind in ("plain", "empty"):
        return Claim(leaf.path, leaf.kind, (json.dumps(x),), x)
    offsets = (0,) * x.ndim if leaf.offsets is None else leaf.offsets
    return Claim(
        leaf.path, leaf.kind, sums_of(x), None, x.dtype.name, x.shape, offsets,
        leaf.global_shape, x.nbytes,
    )  # fmt: skip


class Plan:
    """The entries of a checkpoint, and which leaves each rank writes.

    Args:
        claims: of each rank.
        token: of this save, in the names of its files.

    Raises:
        ValueError: if slices of a tensor leave gaps, lie over each other or differ.
    """

    def __init__(self, claims: list[list[Claim]], token: str) -> None:
        self._token = token
        self._load = [0] * len(claims)  # bytes that each rank writes
        self.writes: list[set[str]] = [set() for _ in claims]  # names
        held: dict[str, list[tuple[int, Claim]]] = {}
        for rank, listed in enumerate(claims):
            for claim in listed:
                held.setdefault(name_of(claim.path), []).append((rank, claim))
        self.entries = tuple(self._entry(name, having) for name, having in held.items())

    def file(self, rank: int) -> str:
        """What a rank's file is called."""
        return f"rank-{rank:05d}-{self._token}.safetensors"

    def _entry(self, name: str, having: list[tuple[int, Claim]]) -> Entry:
        path = having[0][1].path
        sharded = [r for r, c in having if c.whole is not None]
        if sharded:
            if len(sharded) < len(having):
                other = next(r for r, c in having if c.whole is None)
                raise ArgumentError(
                    f"{name} is a Shard in rank {sharded[0]} and none in rank {other}"
                )
            return Entry(path, (self._sharded(name, having),))
        alike: dict[Any, list[tuple[int, Claim]]] = {}
        for rank, c in having:
            alike.setdefault((c.kind, c.dtype, c.shape, c.content), []).append((rank, c))
        return Entry(path, tuple(self._variant(name, same) for same in alike.values()))

    def _variant(self, name: str, same: list[tuple[int, Claim]]) -> Variant:
        c = same[0][1]
        ranks = tuple(r for r, _ in same)
        told = None if len(ranks) == len(self._load) else ranks
        pieces = () if c.kind in ("plain", "empty") else (self._piece(name, same),)
        return Variant(told, c.kind, c.value, c.dtype, c.shape, pieces)

    def _piece(self, name: str, same: list[tuple[int, Claim]]) -> Piece:
        """Let the rank that writes least so far, of those that have it, write a slice."""
        c = same[0][1]
        writer = min((r for r, _ in same), key=lambda r: (self._load[r], r))
        self._load[writer] += c.nbytes
        self.writes[writer].add(name)
        return Piece(self.file(writer), c.offsets, c.shape, c.content)

    def _sharded(self, name: str, having: list[tuple[int, Claim]]) -> Variant:
        first, c = having[0]
        places: dict[Any, list[tuple[int, Claim]]] = {}
        for rank, other in having:
            if (other.dtype, other.whole) != (c.dtype, c.whole):
                raise ArgumentError(
                    f"{name} is {c.dtype}{c.whole} in rank {first}, and {other.dtype}"
                    f"{other.whole} in rank {rank}"
                )
            same = places.setdefault((other.offsets, other.shape), [])
            if same and same[0][1].content != other.content:
                raise ArgumentError(
                    f"{name}: ranks {same[0][0]} and {rank} have the same slice, at "
                    f"{other.offsets}, with different values"
                )
            same.append((rank, other))
        assert c.whole is not None
        slices = {k: v for k, v in places.items() if prod(k[1]) or not prod(c.whole)}
        _check_cover(name, list(slices), c.whole)
        pieces = tuple(self._piece(name, same) for same in slices.values())
        return Variant(None, c.kind, None, c.dtype, c.whole, pieces)


def _check_cover(name: str, slices: list[Any], whole: tuple[int, ...]) -> None:
    """Refuse slices that are not all of a tensor, each element once."""
    low = np.array([o for o, _ in slices]).reshape(len(slices), len(whole))
    high = low + np.array([s for _, s in slices]).reshape(low.shape)
    for i in range(len(slices)):
        meets = (low[i] < high[i + 1 :]).all(-1) & (low[i + 1 :] < high[i]).all(-1)
        if meets.any() and prod(whole):
            other = slices[i + 1 + int(meets.argmax())]
            raise ArgumentError(f"{name}: the slices {slices[i]} and {other} (offsets, shape) "
                                f"lie over each other")  # fmt: skip
    if sum(prod(s) for _, s in slices) != prod(whole):
        raise ArgumentError(
            f"{name}: the slices {slices} (offsets, shape) are not all of a tensor of shape {whole}"
        )
