"""Where the parts of a tensor lie: ``Shard``, ``Replicate``, ``Partial``, one an axis of a mesh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fx.errors import ArgumentError
from fx.prims.factors import chunk
from fx.slotted import slotted

OPS = ("sum", "avg", "product", "max", "min")
Shape = tuple[int, ...]


class Placement:
    """Of a tensor along one axis of a mesh."""

    __slots__ = ()

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is cut, along an axis if that is given."""
        return type(self) is Shard and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether every rank has all of it."""
        return type(self) is Replicate

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether ranks have what is to be put together, by an operation if that is given."""
        return type(self) is Partial and reduce_op in (None, self.reduce_op)

    def of_cotangent(self) -> Placement:
        """Where the cotangent of what lies so goes: there, and in place of addends the whole."""
        return REPLICATE if self.is_partial() else self

    def with_lanes(self, axis: int) -> Placement:
        """Of the tensor with one more axis."""
        return Shard(self.dim + (self.dim >= axis)) if isinstance(self, Shard) else self


@slotted(frozen=True)
class Shard(Placement):
    """Cut along an axis of the tensor, into parts of one length, but for the last ones.

    Example:
        >>> import fx.distributed as dist
        >>> dist.Shard(0)
        Shard(dim=0)
    """

    dim: int

    def __post_init__(self) -> None:
        if type(self.dim) is not int:
            raise ArgumentError(f"Shard: the axis of the tensor is an int, got {self.dim!r}")

    def __str__(self) -> str:
        return f"S({self.dim})"


@slotted(frozen=True, repr=False)
class Replicate(Placement):
    """The same on all ranks."""

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


@slotted(frozen=True, repr=False)
class Partial(Placement):
    """To be put together: what the ranks have, added up unless another operation is given.

    Args:
        reduce_op: ``"sum"``, ``"avg"``, ``"product"``, ``"max"`` or ``"min"``.
    """

    reduce_op: str = "sum"

    def __post_init__(self) -> None:
        if self.reduce_op not in OPS:
            raise ArgumentError(
                f"Partial: reduce_op is one of {', '.join(OPS)}, got {self.reduce_op!r}"
            )

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


REPLICATE = Replicate()
Placements = tuple[Placement, ...]


def checked(what: str, placements: Any, mesh: Any, ndim: int) -> Placements:
    """The placements of a tensor, one an axis of the mesh; axes of the tensor from 0 on.

    Raises:
        ArgumentError: if there are more or fewer, or one names an axis that the tensor lacks.
    """
    given = tuple(placements) if isinstance(placements, Iterable) else (placements,)
    if len(given) != len(mesh.axis_names) or not all(isinstance(p, Placement) for p in given):
        raise ArgumentError(
            f"{what}: a placement for each of the {len(mesh.axis_names)} axes of {mesh!r} is "
            f"needed, Shard(dim), Replicate() or Partial(), got {placements!r}"
        )
    out: list[Placement] = []
    for p in given:
        if isinstance(p, Shard):
            if not -ndim <= p.dim < ndim:
                raise ArgumentError(f"{what}: {p!r} of a tensor of {ndim} axes")
            p = Shard(p.dim % ndim)
        out.append(p)
    return tuple(out)


def local_range(
    shape: Shape, placements: Placements, sizes: Sequence[int], place: Sequence[int]
) -> list[tuple[int, int]]:
    """For each axis where the part of a rank begins and ends; ``place`` is that rank's."""
    out = [(0, n) for n in shape]
    for p, count, index in zip(placements, sizes, place, strict=True):
        if isinstance(p, Shard):
            start, stop = out[p.dim]
            a, b = chunk(stop - start, count, index)
            out[p.dim] = start + a, start + b
    return out


def local_shape(
    shape: Shape, placements: Placements, sizes: Sequence[int], place: Sequence[int]
) -> Shape:
    """The shape of the part of a rank."""
    return tuple([b - a for a, b in local_range(shape, placements, sizes, place)])
