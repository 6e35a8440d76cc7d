"""MNIST and its relatives: idx files, compressed or not."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fx.data.datasets.files import Pictures, damaged, find, reading
from fx.ops.making.interop import from_numpy
from fx.tensor import Tensor

_DTYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_RATIO = 1100  # deflate never shrinks by more than 1032


def read_idx(path: Any) -> np.ndarray:
    """The array of an idx file, as MNIST's are: a header with dtype and shape, then the values.

    Args:
        path: of the file; one that ends in ``.gz`` is compressed.

    Raises:
        DataFileError: if it is no such file, or shorter or longer than its header says. Nothing is
            allocated that the file is too small to fill.

    Source: http://yann.lecun.com/exdb/mnist, "the idx file format".

    Example:
        >>> import fx, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers"
        >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 6, 7]))
        >>> fx.data.datasets.read_idx(path)
        array([5, 6, 7], dtype=uint8)
    """
    path = Path(path)
    with reading(path):
        size = path.stat().st_size
        compressed = path.suffix == ".gz"
        opens: Any = gzip.open if compressed else open
        with opens(path, "rb") as file:
            head = file.read(4)
            if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _DTYPES:
                raise damaged(path, f"an idx file does not begin with {head!r}")
            dtype, ndim = np.dtype(_DTYPES[head[2]]), head[3]
            sizes = file.read(4 * ndim)
            if len(sizes) < 4 * ndim or not 1 <= ndim <= 8:
                raise damaged(path, f"its header is cut off, or has {ndim} axes")
            shape = tuple(np.frombuffer(sizes, ">u4").tolist())
            wanted = prod(shape) * dtype.itemsize
            most = size * _RATIO if compressed else size - 4 - 4 * ndim
            if wanted > most:
                raise damaged(path, f"its header says {shape}, {wanted} bytes, in {size} bytes")
            data = file.read(wanted + 1)
            if len(data) != wanted:
                more = "more than" if len(data) > wanted else f"{len(data)} of"
                raise damaged(path, f"its header says {shape}, and there are {more} {wanted} bytes")
        array = np.frombuffer(data, dtype).reshape(shape)
        return array.astype(dtype.newbyteorder("="))


class MNIST(Pictures):
    """Handwritten digits, 28x28: 60,000 to train with and 10,000 to test.

    Args:
        root: where the files are: in ``root/MNIST/raw`` as torchvision has them, or in ``root``.
        train: whether to read the training part.
        transform: called with each picture, a NumPy array (28, 28) of uint8.
        target_transform: called with each class, an int.
        download: accepted for torchvision's sake; fx downloads nothing.

    Raises:
        MissingFileError: with the names of the files and where to put them.
        DataFileError: if they are damaged.

    Source: ``torchvision.datasets.MNIST``.

    Example:
        >>> import fx
        >>> try:
        ...     fx.data.datasets.MNIST("nowhere")
        ... except FileNotFoundError as error:
        ...     print(str(error).splitlines()[1].strip())
        train-images-idx3-ubyte
    """

    classes: ClassVar[list[str]] = [
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four",
        "5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine",
    ]  # fmt: skip

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, train, transform, target_transform, download)
        name = type(self).__name__
        part = "train" if train else "t10k"
        folders = [self.root / name / "raw", self.root, self.root / "raw", self.root / name]
        names = [f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"]
        images, labels = find(name, folders, names)
        pictures, classes = read_idx(images), read_idx(labels)
        if pictures.ndim != 3 or pictures.dtype != np.uint8:
            raise damaged(images, f"pictures are uint8 (n, 28, 28), not {pictures.shape}")
        if classes.shape != pictures.shape[:1] or classes.dtype != np.uint8:
            raise damaged(labels, f"{len(pictures)} pictures, and classes of {classes.shape}")
        if len(classes) and classes.max() >= len(self.classes):
            raise damaged(labels, f"a class is {classes.max()}, and there are {len(self.classes)}")
        self._pictures = pictures
        self.data: Tensor = from_numpy(pictures)
        self.targets: Tensor = from_numpy(classes.astype(np.int64))

    def _picture(self, index: int) -> Any:
        return self._pictures[index]


class FashionMNIST(MNIST):
    """Articles of clothing, in the format of MNIST; the arguments are MNIST's."""

    classes: ClassVar[list[str]] = [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """Japanese characters, in the format of MNIST; the arguments are MNIST's."""

    classes: ClassVar[list[str]] = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
