"""Files of datasets: where they are looked for, what is said when they are not as wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from fx.data.dataset import Dataset
from fx.data.errors import DataFileError, MissingFileError


def find(
    what: str, folders: Sequence[Path], names: Sequence[str], compressed: bool = True
) -> list[Path]:
    """The paths of files, all from the first folder that has each, maybe ``compressed``.

    Raises:
        MissingFileError: if no folder has them all.
    """
    for folder in folders:
        found = [_found(folder, name, compressed) for name in names]
        if all(found):
            return [path for path in found if path is not None]
    wanted = "\n".join(f"    {name}" for name in names)
    looked = ", ".join(str(folder) for folder in folders)
    also = " (or the same with .gz)" if compressed else ""
    raise MissingFileError(
        f"{what}: files are missing, and fx downloads nothing. It wants the files\n{wanted}\n"
        f"in {folders[0]}{also}; it has looked in {looked}"
    )


def _found(folder: Path, name: str, compressed: bool) -> Path | None:
    for path in (folder / name, folder / f"{name}.gz")[: 1 + compressed]:
        if path.is_file():
            return path
    return None


@contextmanager
def reading(path: Any) -> Iterator[None]:
    """Whatever goes wrong in here is the file's fault, and is said so.

    Raises:
        DataFileError: with the name of the file.
    """
    try:
        yield
    except DataFileError:
        raise
    except Exception as error:
        raise DataFileError(
            f"{path} is damaged, or no such file as is wanted: {type(error).__name__}: {error}"
        ) from error


def damaged(path: Any, why: str) -> DataFileError:
    """The error for a file whose content is wrong."""
    return DataFileError(f"{path} is damaged, or no such file as is wanted: {why}")


class Pictures(Dataset[Any]):
    """Pictures and their classes, held in memory.

    A subclass sets ``data`` and ``targets``; a sample is the picture, as a NumPy array (height,
    width) or (height, width, channels) of uint8, and its class, as an int.
    """

    classes: ClassVar[list[str]] = []
    data: Any
    targets: Any

    def __init__(
        self,
        root: Any,
        train: bool,
        transform: Callable[[Any], Any] | None,
        target_transform: Callable[[Any], Any] | None,
        download: bool,
    ) -> None:
        self.root = Path(root).expanduser()
        self.train = train
        self.transform = transform
        self.target_transform = target_transform

    def _picture(self, index: int) -> Any:
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        picture, target = self._picture(index), int(self.targets[index])
        if self.transform is not None:
            picture = self.transform(picture)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return picture, target

    def __len__(self) -> int:
        return len(self.data)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class."""
        return {name: i for i, name in enumerate(self.classes)}

    def __repr__(self) -> str:
        part = "Train" if self.train else "Test"
        return (
            f"Dataset {type(self).__name__}\n    Number of datapoints: {len(self)}\n"
            f"    Root location: {self.root}\n    Split: {part}"
        )
