"""The entries of a state: its leaves by the paths that lead to them, and the state again.

``{"model": {"w": tensor}, "steps": [3, 4]}`` has the entries ``model.w``, ``steps.0`` and
``steps.1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fx.distributed.filling import array_of
from fx.distributed.placements import local_range
from fx.errors import ArgumentError, ShapeError
from fx.io.states import state_of
from fx.prims.placing import placements_of
from fx.tensor import Tensor, new_tensor

Array = np.ndarray[Any, Any]
Path = tuple[Any, ...]  # of keys: text, an int, or of a sequence (index, "list" or "tuple")
_EMPTY = {"dict": dict, "list": list, "tuple": tuple}


@dataclass(frozen=True)
class Shard:
    """A rank's slice of a tensor that is larger than what the rank holds.

    Args:
        local: the slice.
        global_shape: of the whole tensor.
        offsets: where the slice begins, along each axis.

    Raises:
        ShapeError: if it does not lie in the whole.

    Example:
        >>> import fx
        >>> from fx.distributed.checkpoint import Shard
        >>> Shard(fx.zeros((2, 3)), (8, 3), (4, 0)).offsets  # rows 4 and 5 of 8
        (4, 0)
    """

    local: Tensor
    global_shape: tuple[int, ...]
    offsets: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "global_shape", tuple(map(int, self.global_shape)))
        object.__setattr__(self, "offsets", tuple(map(int, self.offsets)))
        sizes = tuple(self.local.shape)
        if not (
            len(sizes) == len(self.global_shape) == len(self.offsets)
            and all(0 <= o <= o + n <= g for o, n, g in zip(self.offsets, sizes, self.global_shape))
        ):
            raise ShapeError(
                f"Shard: a slice of shape {sizes} at {self.offsets} does not lie in a tensor of "
                f"shape {self.global_shape}"
            )


@dataclass(frozen=True)
class Leaf:
    """An entry's value at one moment.

    Args:
        kind: ``"tensor"``, ``"array"``, ``"bytes"``, ``"plain"`` (a value of JSON) or ``"empty"``.
        value: a C-contiguous array, or a value of JSON.
        global_shape, offsets: of a Shard, and of a tensor on a mesh; else None.
        place: mesh and placements of a tensor on a mesh; else None.
    """

    path: Path
    kind: str
    value: Any
    global_shape: tuple[int, ...] | None = None
    offsets: tuple[int, ...] | None = None
    place: Any = None

    @property
    def name(self) -> str:
        """The path as text."""
        return name_of(self.path)


def name_of(path: Iterable[Any]) -> str:
    """A path as text."""
    return ".".join(str(key[0] if isinstance(key, tuple) else key) for key in path)


def leaves_of(state: Mapping[str, Any]) -> list[Leaf]:
    """The entries of a state, with the values of this moment.

    Raises:
        TypeError: naming what is neither a tensor nor plain data.
        ValueError: if two entries have the same name.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"a state is a dict of parts by name, not {type(state).__name__}")
    found: dict[str, Leaf] = {}
    for leaf in _leaves(state, ()):
        if leaf.name in found:
            raise ArgumentError(f"two entries of the state are called {leaf.name!r}; rename one")
        found[leaf.name] = leaf
    return list(found.values())


def _leaves(value: Any, path: Path) -> Iterator[Leaf]:
    if not isinstance(value, Shard):
        value = state_of(value)
    if isinstance(value, Mapping):
        items: Any = [(_key(key, path), inner) for key, inner in value.items()]
        kind = "dict"
    elif type(value) in (list, tuple):
        kind = type(value).__name__
        items = [((i, kind), inner) for i, inner in enumerate(value)]
    else:
        yield _leaf(value, path)
        return
    if not items:
        yield Leaf(path, "empty", kind)
    for key, inner in items:
        yield from _leaves(inner, (*path, key))


def _key(key: Any, path: Path) -> Any:
    if type(key) not in (str, int):
        raise TypeError(
            f"{name_of(path)} has the key {key!r}; keys of a state are text or whole numbers"
        )
    return key


def _leaf(value: Any, path: Path) -> Leaf:
    name = name_of(path)
    if isinstance(value, Shard):
        return Leaf(path, "tensor", _held(value.local, name), value.global_shape, value.offsets)
    if isinstance(value, Tensor):
        place = placements_of(value)
        if place is not None:
            return _part(value, path, place)
        return Leaf(path, "tensor", _held(value, name))
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return Leaf(path, "array", value.astype(value.dtype.newbyteorder("="), order="C"))
    if isinstance(value, bytes):
        return Leaf(path, "bytes", np.frombuffer(value, np.uint8))
    if value is None or type(value) in (bool, int, float, str):
        return Leaf(path, "plain", value)
    raise TypeError(
        f"{name} is a {type(value).__name__}; a checkpoint holds tensors and plain data, so that "
        f"loading it runs no code: write vars(x), or what makes it a dict of tensors and numbers"
    )


def _part(x: Tensor, path: Path, place: Any) -> Leaf:
    """A rank's part of a tensor on a mesh."""
    mesh, placements = place
    if any(p.is_partial() for p in placements):
        raise ArgumentError(
            f"checkpoint: {name_of(path)} is addends, {placements}; save its sum: "
            f"x.redistribute(mesh, placements)"
        )
    offsets = tuple([a for a, _ in local_range(tuple(x.shape), placements, mesh.sizes, mesh.place)])
    return Leaf(path, "tensor", _local(x), tuple(x.shape), offsets, place)


def _local(x: Tensor) -> Array:
    return np.asarray(x.detach()._a.local, order="C")


def _held(x: Tensor, name: str) -> Array:
    """The elements of a tensor at this moment."""
    if x.device.name == "mesh":  # the same on any: a number that an optimizer counts
        return _local(x)
    return array_of(x, f"checkpoint: {name}")


def value_of(kind: str, value: Any) -> Any:
    """What a leaf stood for."""
    if kind == "tensor":
        return new_tensor(value)
    if kind == "bytes":
        return value.tobytes()
    return _EMPTY[value]() if kind == "empty" else value


def tree_of(entries: Iterable[tuple[Path, Any]]) -> Any:
    """The state of values by their paths."""
    entries = list(entries)
    if len(entries) == 1 and not entries[0][0]:
        return entries[0][1]
    inner: dict[Any, list[tuple[Path, Any]]] = {}
    for path, value in entries:
        inner.setdefault(path[0], []).append((path[1:], value))
    built = {key: tree_of(values) for key, values in inner.items()}
    kinds = {key[1] for key in built if isinstance(key, tuple)}
    if not kinds:
        return built
    listed = [built[key] for key in sorted(built)]
    return tuple(listed) if kinds == {"tuple"} else listed
