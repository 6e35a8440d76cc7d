"""Loading a state from a folder, on any number of ranks: each reads what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fx.config import modes
from fx.distributed.checkpoint.entries import (
    Leaf,
    Shard,
    leaves_of,
    name_of,
    tree_of,
    value_of,
)
from fx.distributed.checkpoint.manifest import Entry, Manifest, Shards, Variant, dtype_of
from fx.distributed.checkpoint.planners import DefaultLoadPlanner, checked
from fx.distributed.checkpoint.saving import folder_of, group_of
from fx.distributed.filling import Place, fits
from fx.errors import ShapeError, StagingError, StateError
from fx.io.states import restore, restore_random, state_of_random
from fx.prims.placing import placements_of
from fx.random.generator import Generator
from fx.state import Cell
from fx.tensor import Tensor, new_tensor
from fx.transaction import whole


class FileSystemReader:
    """The folder that a checkpoint is loaded from.

    Args:
        path: the folder.

    Source: ``torch.distributed.checkpoint.FileSystemReader``.
    """

    def __init__(self, path: Any) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"FileSystemReader({str(self.path)!r})"

    def read_metadata(self) -> Manifest:
        """What the folder holds."""
        return Manifest.read(self.path)


class RandomState:
    """The random generators of fx, Python and NumPy, as a part of a state.

    Example:
        >>> import fx, tempfile
        >>> from fx.distributed import checkpoint
        >>> state, folder = {"random": checkpoint.RandomState()}, tempfile.mkdtemp()
        >>> manifest = checkpoint.save(state, checkpoint_id=folder)
        >>> drawn = fx.torch.rand(2).tolist()
        >>> checkpoint.load(state, checkpoint_id=folder)
        >>> fx.torch.rand(2).tolist() == drawn
        True
    """

    def state_dict(self) -> dict[str, Any]:
        """Their states."""
        return state_of_random()

    def load_state_dict(self, state: Any) -> None:
        """Put them back.

        Raises:
            StateError: if it is no such state.
        """
        _restore_random(state)


_restore_random = whole(restore_random)


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: FileSystemReader | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Put a state back from a folder, on as many ranks as there are now.

    Of each entry this rank reads what it needs: of a ``Shard`` its slice alone, whatever slices it
    was saved in. All is read and checked before anything is changed.

    Args:
        state_dict: as it was given to ``save``. Parts with ``load_state_dict`` get their state,
            tensors that can be filled are, and entries of dicts and lists are replaced.
        checkpoint_id: the folder.
        storage_reader: the folder, instead.
        planner: ``DefaultLoadPlanner(allow_partial_load=True)`` leaves what the folder lacks as it
            is.
        process_group: the ranks, of which this one takes what was kept for its number.
        no_dist: take what rank 0 had.

    Raises:
        FileNotFoundError: if the folder holds no complete checkpoint.
        FileFormatError: naming the shard that is missing or damaged.
        StateError: if it has no such entry, or none for this rank, or one that does not fit.

    Source: ``torch.distributed.checkpoint.load``.
    """
    if modes.stage is not None:
        raise StagingError("load: call it outside the jitted function")
    partial = checked("load", planner, DefaultLoadPlanner).allow_partial_load
    folder = folder_of("load", checkpoint_id, storage_reader)
    group = None if no_dist else group_of(process_group)
    found = _Found(folder, 0 if group is None else group.rank(), partial)
    changes = found.into(state_dict, (), lambda value: None)
    _apply(changes)


def whole_state(folder: Any) -> Any:
    """All that a folder has, as one process sees it: tensors whole, and what rank 0 alone kept.

    Args:
        folder: that ``save`` was given.

    Raises:
        FileNotFoundError: if the folder holds no complete checkpoint.
        FileFormatError: naming the shard that is missing or damaged.
        StateError: naming what another rank alone has.

    Example:
        >>> import fx, tempfile
        >>> from fx.distributed import checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> manifest = checkpoint.save({"w": fx.ones(2), "epoch": 3}, checkpoint_id=folder)
        >>> checkpoint.whole_state(folder)
        {'w': tensor([1., 1.]), 'epoch': 3}
    """
    found = _Found(Path(folder), 0)
    return tree_of([(e.path, found._value(e, None)) for e in found.manifest.entries])


def load_sharded_optimizer_state_dict(
    model_state_dict: Mapping[str, Any],
    optimizer_key: str,
    storage_reader: FileSystemReader,
    planner: DefaultLoadPlanner | None = None,
) -> dict[str, Any]:
    """The state of an optimizer, whose slots lie as the parameters: each rank reads its parts.

    Args:
        model_state_dict: the parameters by name, as they lie now; on a mesh or not.
        optimizer_key: under which name ``FSDP.optim_state_dict`` or ``get_optimizer_state_dict``
            was saved.
        storage_reader: the folder.
        planner: ``DefaultLoadPlanner()``.

    Returns:
        ``{optimizer_key: state}``, for ``FSDP.optim_state_dict_to_load``.

    Raises:
        FileNotFoundError: if the folder holds no complete checkpoint.
        FileFormatError: naming the shard that is missing or damaged.
        StateError: if the folder has nothing under that name.

    Example:
        >>> import fx, tempfile
        >>> from fx.distributed import checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> state = {"state": {"w": {"momentum_buffer": fx.ones(2)}}, "param_groups": []}
        >>> manifest = checkpoint.save({"optimizer": state}, checkpoint_id=folder)
        >>> checkpoint.load_sharded_optimizer_state_dict(
        ...     {"w": fx.zeros(2)}, "optimizer", checkpoint.FileSystemReader(folder)
        ... )["optimizer"]["state"]
        {'w': {'momentum_buffer': tensor([1., 1.])}}
    """
    checked("load_sharded_optimizer_state_dict", planner, DefaultLoadPlanner)
    folder = folder_of("load_sharded_optimizer_state_dict", None, storage_reader)
    group = group_of(None)
    found = _Found(folder, 0 if group is None else group.rank())
    parts = {leaf.path[0]: leaf for leaf in leaves_of(model_state_dict) if leaf.place is not None}
    values = []
    for entry in found.manifest.entries:
        if entry.path[0] != optimizer_key:
            continue
        own = parts.get(entry.path[2]) if len(entry.path) > 3 else None
        variant = found._variant(entry)
        if own is not None and variant.shape == own.global_shape:
            own = replace(own, value=np.empty(own.value.shape, dtype_of(variant.dtype)))
            values.append((entry.path, found._placed(entry, own)))
        else:
            values.append((entry.path, found._value(entry, None)))
    if not values:
        raise found._missing(optimizer_key)
    return tree_of(values)  # type: ignore[no-any-return]


@whole
def _apply(changes: list[Callable[[], None]]) -> None:
    for change in changes:
        change()


class _Found:
    """What a folder has for a rank."""

    def __init__(self, folder: Path, rank: int, partial: bool = False) -> None:
        self.folder, self.rank = folder, rank
        self.partial = partial  # whether what it lacks stays as it is
        self.manifest = Manifest.read(folder)
        self.entries = {entry.name: entry for entry in self.manifest.entries}
        self.shards = Shards(folder, self.manifest)

    def into(
        self, part: Any, path: tuple[Any, ...], put: Callable[[Any], None]
    ) -> list[Callable[[], None]]:
        """What is to be done so that a part is as it was saved.

        Args:
            put: replaces the part where it stands.
        """
        if isinstance(part, Generator | Cell) or hasattr(part, "load_state_dict"):
            state, name = self._state(part, path), name_of(path)
            if state is None:
                return []
            return [lambda: restore(name, part, state)]
        if isinstance(part, Mapping) and part:
            return self._inner(part, part.items(), path)
        if type(part) is list and part:
            items = [((i, "list"), x) for i, x in enumerate(part)]
            return self._inner(part, items, path)
        if type(part) is tuple and part:
            held = list(part)
            items = [((i, "tuple"), x) for i, x in enumerate(part)]
            return [*self._inner(held, items, path), lambda: put(tuple(held))]
        if self.partial and name_of(path) not in self.entries:
            return []
        entry = self._entry(path)
        if isinstance(part, Tensor) and not isinstance(part, Shard):
            placed = placements_of(part)
            if placed is None:
                return [self._filling(entry, part, put)]
            part_of = self._placed(entry, leaves_of({"": part})[0])
            return [lambda: put(Place(part, "load").filled(part_of))]
        value = self._value(entry, part if isinstance(part, Shard) else None)
        return [lambda: put(value)]

    def _inner(self, held: Any, items: Any, path: tuple[Any, ...]) -> list[Callable[[], None]]:
        out = []
        for key, value in items:
            at = key[0] if isinstance(key, tuple) else key
            put = lambda new, at=at: held.__setitem__(at, new)
            out += self.into(value, (*path, key), put)
        return out

    def _filling(self, entry: Entry, x: Tensor, put: Callable[[Any], None]) -> Callable[[], None]:
        variant = self._variant(entry)
        if variant.kind != "tensor":
            raise StateError(f"{entry.name} is a tensor here, and {variant.kind} in {self.folder}")
        fits(x, variant.shape, variant.dtype, f"load: {entry.name}")
        array = self.shards.read(entry, variant)
        return lambda: put(Place(x, "load").filled(array))

    def _state(self, part: Any, path: tuple[Any, ...]) -> Any:
        """All that a part had, with this rank's slices; None if nothing, and that is allowed."""
        here = leaves_of({"": part})
        slices = {leaf.name[1:]: leaf for leaf in here if leaf.offsets is not None}
        depth = len(path)
        values = []
        for entry in self.manifest.entries:
            if entry.path[:depth] == path:
                own = slices.get(name_of(entry.path[depth:]))
                mine = None
                if own is not None and own.place is not None:
                    values.append((entry.path[depth:], self._placed(entry, own)))
                    continue
                if own is not None:
                    mine = Shard(new_tensor(own.value), own.global_shape, own.offsets)
                values.append((entry.path[depth:], self._value(entry, mine)))
        if not values:
            if self.partial:
                return None
            raise self._missing(name_of(path))
        if self.partial:
            known = {inner for inner, _ in values}
            for leaf in here:
                inner = leaf.path[1:]
                if not any(inner[:k] in known for k in range(len(inner) + 1)):
                    values.append((inner, _own(leaf)))
        return tree_of(values)

    def _value(self, entry: Entry, shard: Shard | None) -> Any:
        variant = self._variant(entry)
        if variant.kind in ("plain", "empty"):
            return value_of(variant.kind, variant.value)
        if shard is None:
            return value_of(variant.kind, self.shards.read(entry, variant))
        if shard.global_shape != variant.shape:
            raise ShapeError(
                f"{entry.name} has shape {shard.global_shape} here, and {variant.shape} in "
                f"{self.folder}"
            )
        fits(shard.local, shard.local.shape, variant.dtype, f"load: {entry.name}")
        box = shard.offsets, tuple(shard.local.shape)
        local = new_tensor(self.shards.read(entry, variant, box))
        return Shard(local, shard.global_shape, shard.offsets)

    def _placed(self, entry: Entry, own: Leaf) -> Tensor:
        """A tensor on a mesh, of which this rank reads its part."""
        assert own.global_shape is not None and own.offsets is not None
        found = self._value(entry, Shard(new_tensor(own.value), own.global_shape, own.offsets))
        if not isinstance(found, Shard):
            raise StateError(f"{entry.name} is a tensor here, and {found!r} in {self.folder}")
        return _on_mesh(own, found.local._a)

    def _entry(self, path: tuple[Any, ...]) -> Entry:
        entry = self.entries.get(name_of(path))
        if entry is None:
            raise self._missing(name_of(path))
        return entry

    def _missing(self, name: str) -> StateError:
        held = ", ".join(list(self.entries)[:20])
        return StateError(f"the checkpoint in {self.folder} holds no {name}; it holds {held}")

    def _variant(self, entry: Entry) -> Variant:
        for variant in entry.variants:
            if variant.ranks is None or self.rank in variant.ranks:
                return variant
        kept = sorted(r for v in entry.variants for r in v.ranks or ())
        raise StateError(
            f"{entry.name} differs between ranks and was kept for ranks {kept}, none of which is "
            f"rank {self.rank}; leave it out of the state, or load on {self.manifest.world} ranks"
        )


def _on_mesh(own: Leaf, array: Any) -> Tensor:
    mesh, placements = own.place
    return new_tensor(mesh.placed(array, own.global_shape, placements))


def _own(leaf: Leaf) -> Any:
    """What a part has itself, as a value of its state."""
    if leaf.place is not None:
        return _on_mesh(leaf, leaf.value)
    if leaf.offsets is not None:
        assert leaf.global_shape is not None
        return Shard(new_tensor(leaf.value), leaf.global_shape, leaf.offsets)
    return value_of(leaf.kind, leaf.value)
