"""Folders of files: the name of a folder is the class of the files in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fx.data.dataset import Dataset
from fx.data.datasets.files import damaged, reading
from fx.data.errors import MissingFileError

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def load_picture(path: Any) -> Any:
    """A picture, as pillow's RGB image.

    Raises:
        ModuleNotFoundError: if pillow is not installed.
        DataFileError: if the file is no picture, damaged, or has more pixels than pillow finds
            safe (``PIL.Image.MAX_IMAGE_PIXELS``).
    """
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "pictures are read with pillow, which is not installed; write pip install pillow, or "
            "pip install fxgrad[vision]",
            name=error.name,
        ) from None
    with reading(path), Image.open(path) as image:
        most = Image.MAX_IMAGE_PIXELS
        if most is not None and image.width * image.height > most:
            raise damaged(path, f"{image.width}x{image.height} are more than {most} pixels")
        return image.convert("RGB")


class DatasetFolder(Dataset[Any]):
    """Files in folders, ``root/class/.../file``.

    Args:
        root: the folder of the folders.
        loader: reads a file.
        extensions: of the files that count, as ``".png"``; None for all.
        transform: called with what was read.
        target_transform: called with the class, an int.
        is_valid_file: says of a path whether it counts, instead of ``extensions``.
        allow_empty: whether a class may have no files.

    Raises:
        MissingFileError: if there is no folder, or a class without files.

    Source: ``torchvision.datasets.DatasetFolder``.
    """

    def __init__(
        self,
        root: Any,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        self.root = Path(root).expanduser()
        self.loader = loader
        self.extensions = extensions
        self.transform = transform
        self.target_transform = target_transform
        self.classes = self._classes()
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.samples: list[tuple[str, int]] = []
        for name, number in self.class_to_idx.items():
            paths = [p for p in _files(self.root / name) if self._counts(p, is_valid_file)]
            if not paths and not allow_empty:
                raise MissingFileError(
                    f"{type(self).__name__}: found no valid file for the class {name!r} in "
                    f"{self.root / name}; supported extensions are {extensions}"
                )
            self.samples += [(path, number) for path in paths]

    def _classes(self) -> list[str]:
        try:
            names = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir())
        except OSError:
            names = []
        if not names:
            raise MissingFileError(
                f"{type(self).__name__}: couldn't find any class folder in {self.root}; it wants "
                f"{self.root}/<class>/<file>, and fx downloads nothing"
            )
        return names

    def _counts(self, path: str, valid: Callable[[str], bool] | None) -> bool:
        if valid is not None:
            return valid(path)
        return self.extensions is None or path.lower().endswith(self.extensions)

    @property
    def targets(self) -> list[int]:
        """The class of each sample."""
        return [number for _, number in self.samples]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        sample = self.loader(path)
        if self.transform is not None:
            sample = self.transform(sample)
        return sample, target if self.target_transform is None else self.target_transform(target)

    def __len__(self) -> int:
        return len(self.samples)


def _files(folder: Path) -> list[str]:
    """All files below a folder, sorted."""
    found = []
    for place, _, names in sorted(os.walk(folder, followlinks=True)):
        found += [os.path.join(place, name) for name in sorted(names)]
    return found


class ImageFolder(DatasetFolder):
    """Pictures in folders, ``root/class/.../picture.png``, read with pillow.

    Args:
        root: the folder of the folders.
        transform: called with each picture, an RGB image of pillow.
        target_transform: called with each class, an int.
        loader: reads a file.
        is_valid_file: says of a path whether it counts; pictures do unless told.
        allow_empty: whether a class may have no pictures.

    Raises:
        MissingFileError: if there is no folder, or a class without pictures.

    Source: ``torchvision.datasets.ImageFolder``.

    Example:
        >>> import fx, tempfile, pathlib
        >>> from PIL import Image
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> (root / "red").mkdir()
        >>> Image.new("RGB", (4, 3), "red").save(root / "red" / "a.png")
        >>> pictures = fx.data.datasets.ImageFolder(root, fx.data.transforms.ToTensor())
        >>> pictures[0][0].shape, pictures.classes
        ((3, 3, 4), ['red'])
    """

    def __init__(
        self,
        root: Any,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = load_picture,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        extensions = EXTENSIONS if is_valid_file is None else None
        super().__init__(
            root, loader, extensions, transform, target_transform, is_valid_file, allow_empty
        )
        self.imgs = self.samples
