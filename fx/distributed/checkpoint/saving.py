"""Saving a state from all ranks of a group into one folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from fx.config import modes
from fx.distributed import groups
from fx.distributed.checkpoint.entries import Leaf, leaves_of
from fx.distributed.checkpoint.manifest import FILE, NAME, Manifest, stored
from fx.distributed.checkpoint.plan import Plan, claim_of
from fx.distributed.checkpoint.planners import DefaultSavePlanner, checked
from fx.distributed.errors import DistError
from fx.distributed.messages import all_gather_object
from fx.errors import ArgumentError, StagingError
from fx.tensor import new_tensor
from fx.transaction import consistent

T = TypeVar("T")


class FileSystemWriter:
    """The folder that a checkpoint is saved into.

    Args:
        path: the folder; made if it is not there.
        overwrite: whether a checkpoint that is there may be replaced.
        single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead,
            cache_staged_state_dict: accepted; each rank writes one file, which is on the disk when
            the save ends.

    Source: ``torch.distributed.checkpoint.FileSystemWriter``.
    """

    def __init__(
        self,
        path: Any,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        self.path = Path(path)
        self.overwrite = overwrite

    def __repr__(self) -> str:
        return f"FileSystemWriter({str(self.path)!r}, overwrite={self.overwrite})"


def save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Manifest:
    """Write the state of all ranks of a group into a folder; every rank calls it.

    Each rank writes one safetensors file at most: what is the same in all ranks is written once,
    what differs is kept by rank, and slices (``Shard``) make one tensor. A manifest with the hashes
    of all is written last, in one step: until then the folder is the checkpoint that it was.

    Args:
        state_dict: parts by name: what has ``state_dict`` (model, optimizer, loader,
            ``RandomState()``), Generators, tensors, Shards and plain data, in containers.
        checkpoint_id: the folder.
        storage_writer: the folder, with options, instead.
        planner: a ``DefaultSavePlanner``, or None.
        process_group: the ranks; None: all, or this process alone where there is no group.
        no_dist: save what this process has alone.
        use_collectives: accepted; it changes nothing.

    Returns:
        What the folder now holds.

    Raises:
        TypeError: naming what is neither a tensor nor plain data.
        ValueError: if slices of a tensor leave gaps, lie over each other or differ.
        DistError: in the other ranks, if one of them failed, with what it says.

    Source: ``torch.distributed.checkpoint.save``.

    Example:
        >>> import fx, tempfile
        >>> from fx.distributed import checkpoint
        >>> folder, model = tempfile.mkdtemp(), fx.nn.Linear(2, 1)
        >>> manifest = checkpoint.save({"model": model, "epoch": 3}, checkpoint_id=folder)
        >>> [entry.name for entry in manifest.entries]
        ['model.weight', 'model.bias', 'epoch']
        >>> state = {"model": model, "epoch": 0}
        >>> checkpoint.load(state, checkpoint_id=folder)
        >>> state["epoch"]
        3
    """
    writer = _writer(checkpoint_id, storage_writer, planner)
    group = None if no_dist else group_of(process_group)
    take = _snapshot(state_dict)
    _last().result()  # saves into a folder follow each other
    return _save(writer, take, group)


def async_save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    async_checkpointer_type: Any = None,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Manifest]:
    """``save`` in a thread of its own: training goes on, and the state is that of this moment.

    Values never change, so that nothing is copied. Saves of a process follow each other.

    Args:
        state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist,
            use_collectives: as in ``save``.
        async_checkpointer_type, async_stager: None.

    Returns:
        A future of what ``save`` gives, and raises. Wait for it before ``destroy_process_group``.
    """
    if async_checkpointer_type is not None or async_stager is not None:
        raise ArgumentError(
            "async_save: a thread saves, and values need no staging; leave out "
            "async_checkpointer_type and async_stager"
        )
    writer = _writer(checkpoint_id, storage_writer, planner)
    group = None if no_dist else group_of(process_group)
    take = _snapshot(state_dict)
    apart = None if group is None else _apart(group)
    global _running
    _running = _thread().submit(_save, writer, take, apart)
    return _running


def group_of(process_group: Any) -> Any:
    """The group that is meant; None for this process alone."""
    if process_group is None and not groups.is_initialized():
        return None
    return groups.world(process_group)


def folder_of(what: str, checkpoint_id: Any, place: Any) -> Path:
    """The folder that is meant.

    Raises:
        ValueError: if none or two are given.
    """
    if (checkpoint_id is None) == (place is None):
        raise ArgumentError(f"{what}: give the folder: {what}(state, checkpoint_id=folder)")
    return Path(checkpoint_id) if place is None else place.path


def _writer(checkpoint_id: Any, writer: Any, planner: Any) -> FileSystemWriter:
    checked("save", planner, DefaultSavePlanner)
    folder = folder_of("save", checkpoint_id, writer)
    return FileSystemWriter(folder) if writer is None else writer


# in a thread --------------------------------------------------------------------------------------

_pool: ThreadPoolExecutor | None = None
_running: Future[Manifest] | None = None
_groups_apart: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def _thread() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(1, "fx-checkpoint")
    return _pool


def _last() -> Future[Any]:
    """When the last save of the thread is through, whatever became of it."""
    done: Future[Any] = Future()
    if _running is None:
        done.set_result(None)
    else:
        _running.add_done_callback(lambda _: done.set_result(None))
    return done


def _apart(group: Any) -> Any:
    """A group of the same ranks whose collectives are the thread's alone."""
    made = _groups_apart.get(group)
    if made is None or made.closed:
        made = groups.new_group(group.ranks, group.timeout, use_local_synchronization=True,
                                sort_ranks=False)  # fmt: skip
        _groups_apart[group] = made
    return made


# all ranks together -------------------------------------------------------------------------------


def together(group: Any, work: Callable[[], T]) -> list[T]:
    """What each rank's work gives, in all ranks; where one raises, all do."""
    if group is None:
        return [work()]
    failed, mine = None, None
    try:
        mine = work()
    except Exception as error:
        failed = error
    said = None if failed is None else f"{type(failed).__name__}: {failed}"
    found: list[Any] = [None] * group.size()
    all_gather_object(found, (mine, said), group)
    if failed is not None:
        raise failed
    wrong = [f"rank {group.ranks[r]}: {told}" for r, (_, told) in enumerate(found) if told]
    if wrong:
        raise DistError(f"the checkpoint was not saved: {'; '.join(wrong)}")
    return [value for value, _ in found]


def _snapshot(state: Mapping[str, Any]) -> Callable[[], list[Leaf]]:
    """What gives the entries of this moment, or raises what was wrong with them."""
    if modes.stage is not None:
        raise StagingError("save: values are not known while a function is staged; "
                           "save outside the jitted function")  # fmt: skip
    try:
        leaves = consistent(lambda: leaves_of(state))
    except Exception as error:
        wrong = error

        def fail() -> list[Leaf]:
            raise wrong

        return fail
    return lambda: leaves


def _save(writer: FileSystemWriter, take: Callable[[], list[Leaf]], group: Any) -> Manifest:
    rank = 0 if group is None else group.rank()
    folder = writer.path

    def begin() -> Any:
        if rank == 0:
            _prepare(writer)
        return secrets.token_hex(4), [claim_of(leaf) for leaf in take()]

    said = together(group, begin)
    plan = Plan([claims for _, claims in said], said[0][0])
    name = plan.file(rank)
    sizes = together(group, lambda: _write(folder / name, take(), plan.writes[rank]))
    files = {plan.file(r): size for r, size in enumerate(sizes) if size is not None}
    manifest = Manifest(len(sizes), files, plan.entries)

    def end() -> None:
        if rank == 0:
            manifest.write(folder)
            _sweep(folder, files)

    together(group, end)
    return manifest


def _prepare(writer: FileSystemWriter) -> None:
    writer.path.mkdir(parents=True, exist_ok=True)
    if not writer.overwrite and (writer.path / NAME).exists():
        raise FileExistsError(
            f"there is a checkpoint in {str(writer.path)!r}, and overwrite is False"
        )


def _write(path: Path, leaves: list[Leaf], names: set[str]) -> int | None:
    """Write a rank's file, down to the disk; its bytes, or None if there is nothing to write."""
    from fx.io import safetensors

    if not names:
        return None
    arrays = {}
    for leaf in leaves:
        if leaf.name in names:
            at = (0,) * leaf.value.ndim if leaf.offsets is None else leaf.offsets
            arrays[f"{leaf.name}@{','.join(map(str, at))}"] = new_tensor(stored(leaf.value))
    safetensors.save_file(arrays, path)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        return file.seek(0, os.SEEK_END)


def _sweep(folder: Path, files: Mapping[str, int]) -> None:
    """Delete what belongs to older saves, and to those that were killed."""
    for name in os.listdir(folder):
        draft = name.startswith(f".{NAME}.") and name.endswith(".tmp")
        if draft or (FILE.fullmatch(name) and name not in files):
            (folder / name).unlink(missing_ok=True)
