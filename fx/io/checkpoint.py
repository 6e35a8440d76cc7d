"""Checkpoint: everything that a training run needs to go on, in one file a step."""

from __future__ import annotations

import os
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fx.config import modes
from fx.devices import Device
from fx.errors import FileFormatError, StagingError, StateError
from fx.io import pt
from fx.io.archive import ArchiveReader
from fx.io.inspection import Allowance
from fx.io.machine import Machine
from fx.io.pickling import Pickled
from fx.io.sealing import Sealed, check_seal, write_atomically
from fx.io.states import restore, restore_random, state_of, state_of_random
from fx.io.storages import Later, Storage
from fx.io.vocabulary import Vocabulary
from fx.random.generator import Generator
from fx.state import Cell
from fx.transaction import consistent, whole

_FORMAT = "fx checkpoint 1"
_NAME = re.compile(r"step-(\d+)\.pt")
_OWN = ("step", "random_state", "format")


class Checkpoint:
    """A folder of checkpoints of one training run, of which the last few are kept.

    A checkpoint is one file. It is written beside its place, flushed to the disk and then moved
    there in one step, so that whatever happens a file with its name is complete; a hash over the
    whole file tells whether it still is. It is a ``.pt`` file that ``fx.load`` and ``torch.load``
    open too.

    Args:
        dir: the folder; made when the first checkpoint is saved.
        keep: how many to keep, the ones of the highest steps; None keeps all.

    Raises:
        ValueError: if ``keep`` is less than 1.

    Example:
        >>> import fx, tempfile
        >>> model = fx.nn.Linear(3, 2)
        >>> optimizer = fx.optim.Adam(model.parameters())
        >>> checkpoint = fx.Checkpoint(tempfile.mkdtemp(), keep=2)
        >>> for step in range(3):
        ...     model(fx.ones(3)).sum().backward()
        ...     optimizer.step()
        ...     path = checkpoint.save(step=step, model=model, optimizer=optimizer, best=0.5)
        >>> checkpoint.steps()
        [1, 2]
        >>> found = checkpoint.restore(model=model, optimizer=optimizer)
        >>> found["step"], found["best"]
        (2, 0.5)
    """

    def __init__(self, dir: Any, keep: int | None = 3) -> None:
        if keep is not None and (not isinstance(keep, int) or keep < 1):
            raise ValueError(
                f"Checkpoint: keep says how many checkpoints stay, 1 or more, got {keep!r}; write "
                f"keep=None to keep all"
            )
        self.dir = Path(dir)
        self.keep = keep

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.dir)!r}, keep={self.keep})"

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step stands."""
        return self.dir / f"step-{step:010d}.pt"

    def steps(self) -> list[int]:
        """The steps of which there is a checkpoint, in order; they are not checked."""
        if not self.dir.is_dir():
            return []
        found = map(_NAME.fullmatch, os.listdir(self.dir))
        return sorted(int(match[1]) for match in found if match)

    # saving -------------------------------------------------------------------------------------

    def save(self, step: int, **parts: Any) -> Path:
        """Write a checkpoint, with the state of all random generators.

        Args:
            step: its number; one of that number is replaced.
            **parts: by name. Of what has ``state_dict`` that is saved (model, optimizer, scheduler,
                loader); of a Generator its state, of a Parameter or Buffer its value; all else must
                be tensors and plain data in containers.

        Returns:
            the path of the file.

        Raises:
            TypeError: if a part could not be loaded again without running code.
            ValueError: for a step that is no integer from 0 on.
            StagingError: inside a jitted function.
        """
        if modes.stage is not None:
            raise StagingError("Checkpoint.save: values are not known while a function is staged; "
                               "save outside the jitted function")  # fmt: skip
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError(f"Checkpoint.save: step must be an integer from 0 on, got {step!r}")
        for name in _OWN[1:]:
            if name in parts:
                raise ValueError(f"Checkpoint.save: the name {name!r} is taken; choose another")

        def content() -> dict[str, Any]:
            own = {"format": _FORMAT, "step": step, "random_state": state_of_random()}
            return own | {name: state_of(part) for name, part in parts.items()}

        pickled = _readable(consistent(content))
        path = self.path(step)
        self.dir.mkdir(parents=True, exist_ok=True)

        def write(file: Any) -> None:
            with Sealed(file) as sealed:
                archive = pt.write_pickled(pickled, sealed, path.stem)
                archive.close(Sealed.SIZE, sealed.seal)

        write_atomically(path, write)
        self._sweep(step)
        return path

    def _sweep(self, newest: int) -> None:
        """Delete what is not to be kept; never the one that was just written."""
        if self.keep is None:
            return
        for step in self.steps()[: -self.keep]:
            if step != newest:
                self.path(step).unlink(missing_ok=True)

    # loading ------------------------------------------------------------------------------------

    def latest(self) -> int | None:
        """The highest step of which there is an intact checkpoint; None if there is none.

        Warns:
            RuntimeWarning: naming each damaged file that was passed over.
        """
        return self._newest(lambda step: self._open(step, check_only=True) or step)

    def load(self, step: int | None = None, map_location: Any = None) -> dict[str, Any]:
        """What a checkpoint holds: states and values by name, and ``"step"``.

        Args:
            step: which one; None is the latest that is intact.
            map_location: where tensors are to live, as in ``fx.load``.

        Raises:
            FileNotFoundError: if there is none.
            FileFormatError: if that of ``step`` is damaged.
        """
        found = self._find(step, map_location)
        if found is None:
            raise FileNotFoundError(
                f"there is no checkpoint in {str(self.dir)!r}; steps that exist: {self.steps()}"
            )
        return found

    @whole
    def restore(
        self, step: int | None = None, *, map_location: Any = None, random_state: bool = True,
        **parts: Any,
    ) -> dict[str, Any] | None:  # fmt: skip
        """Put objects and random generators back into the state of a checkpoint.

        All or nothing: the file is read and checked before anything is changed, and then all of it
        changes in one instant. Parts whose ``load_state_dict`` is your own change when it runs, and
        get back what they held if another part does not fit or a signal comes.

        Args:
            step: which checkpoint; None is the latest that is intact.
            map_location: where tensors are to live, as in ``fx.load``.
            random_state: whether random generators are restored as well.
            **parts: the objects to restore, under the names that they were saved with.

        Returns:
            what the checkpoint holds, as ``load``; None if ``step`` is None and there is none, as
            when a first run begins.

        Raises:
            StateError: if the checkpoint has no part of such a name, or a part does not fit.
            FileNotFoundError, FileFormatError: as ``load``.
        """
        if modes.stage is not None:
            raise StagingError("Checkpoint.restore: call it outside the jitted function")
        found = self._find(step, map_location)
        if found is None:
            if step is None:
                return None
            raise FileNotFoundError(
                f"there is no checkpoint of step {step} in {str(self.dir)!r}; there are those of "
                f"{self.steps()}"
            )
        missing = [name for name in parts if name not in found]
        if missing:
            held = ", ".join(name for name in found if name not in _OWN)
            raise StateError(
                f"Checkpoint.restore: {self.path(found['step'])} holds no {', '.join(missing)}; it "
                f"holds {held or 'nothing'}"
            )
        for name, part in parts.items():
            _check_part(name, part)
        for name, part in parts.items():
            restore(name, part, found[name])
        if random_state:
            restore_random(found["random_state"])
        return found

    def _find(self, step: int | None, map_location: Any) -> dict[str, Any] | None:
        if step is None:
            return self._newest(lambda step: self._open(step, map_location))
        return self._open(step, map_location) if self.path(step).exists() else None

    def _newest(self, use: Callable[[int], Any]) -> Any:
        for step in reversed(self.steps()):
            try:
                return use(step)
            except (FileFormatError, OSError) as error:
                warnings.warn(
                    f"the checkpoint {self.path(step)} is passed over: {error}",
                    RuntimeWarning,
                    stacklevel=4,
                )
        return None

    def _open(self, step: int, map_location: Any = None, check_only: bool = False) -> Any:
        path = self.path(step)
        with open(path, "rb") as file:
            check_seal(file, str(path))
            if check_only:
                return None
            found = pt.read(
                file, ArchiveReader(file, str(path), sums=False), map_location, True, False
            )
        if type(found) is not dict or found.get("format") != _FORMAT:
            raise FileFormatError(f"{path} is a .pt file, but no checkpoint of fx.Checkpoint")
        del found["format"]
        return found


def _readable(content: dict[str, Any]) -> Pickled:
    """The pickle of a checkpoint, which must be one that can be loaded again.

    Raises:
        TypeError: naming the part that cannot.
    """
    try:
        return _checked(content)
    except _UNREADABLE:
        for name, part in content.items():
            try:
                _checked(part)
            except _UNREADABLE as error:
                why = str(error).partition(", which is neither")[0]
                raise TypeError(
                    f"Checkpoint.save: a checkpoint holds tensors and plain data, so that loading "
                    f"it runs no code, and {name!r} holds something else ({why}); write "
                    f"{name}=vars(x), or whatever makes it a dict of tensors and numbers"
                ) from None
        raise


_UNREADABLE = (FileFormatError, pickle.PicklingError, AttributeError, TypeError)


def _checked(value: Any) -> Pickled:
    """The pickle of a value, read once without making its tensors."""
    pickled = Pickled(value)
    Machine(pickled.data, _shapes_only(), "its pickle").load()
    return pickled


def _shapes_only() -> Vocabulary:
    def storage(number: Any) -> Storage:
        kind, _, _, count = pt.storage_id(number, 5)
        return Storage(kind.dtype, count * kind.dtype.itemsize, None, Device("meta"))

    return Vocabulary(storage, Later(Allowance(0)))


def _check_part(name: str, part: Any) -> None:
    if not isinstance(part, Generator | Cell) and not hasattr(part, "load_state_dict"):
        raise TypeError(
            f"Checkpoint.restore: {name} is a {type(part).__name__}, which has no load_state_dict; "
            f"take its value from what restore returns: found = checkpoint.restore(...); "
            f"{name} = found[{name!r}]"
        )
