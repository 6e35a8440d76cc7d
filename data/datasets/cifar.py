"""CIFAR-10 and CIFAR-100: the binary files, and the pickled ones through a reader of its own."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fx.data.datasets.files import Pictures, damaged, find, reading
from fx.data.errors import MissingFileError

_PIXELS = 3 * 32 * 32


class _Array:
    """What stands for an array in a pickle: its values are checked before anything is made."""

    values: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _DType) or fortran or not isinstance(data, bytes | str):
            raise ValueError("an array of another kind")
        raw = data.encode("latin1") if isinstance(data, str) else data
        self.values = np.frombuffer(raw, np.uint8).reshape(shape)


class _DType:
    """What stands for the dtype of the pixels; any other is refused."""

    def __init__(self, name: Any, *rest: Any) -> None:
        if name not in ("u1", b"u1"):
            raise ValueError(f"an array of {name!r}")

    def __setstate__(self, state: Any) -> None:
        """Byte order: there is none."""


def _reconstruct(*arguments: Any) -> _Array:
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError(f"bytes in {encoding!r}")
    return text.encode("latin1")


_GLOBALS = {
    "_reconstruct": _reconstruct,
    "ndarray": None,
    "dtype": _DType,
    "encode": _encode,
}
_OPCODES = [
    "PROTO",
    "FRAME",
    "STOP",
    "MARK",
    "POP",
    "POP_MARK",
    "NONE",
    "NEWTRUE",
    "NEWFALSE",
    "BININT",
    "BININT1",
    "BININT2",
    "INT",
    "LONG1",
    "STRING",
    "BINSTRING",
    "SHORT_BINSTRING",
    "UNICODE",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINBYTES",
    "SHORT_BINBYTES",
    "EMPTY_LIST",
    "LIST",
    "APPEND",
    "APPENDS",
    "EMPTY_DICT",
    "DICT",
    "SETITEM",
    "SETITEMS",
    "EMPTY_TUPLE",
    "TUPLE",
    "TUPLE1",
    "TUPLE2",
    "TUPLE3",
    "GLOBAL",
    "STACK_GLOBAL",
    "REDUCE",
    "BUILD",
    "PUT",
    "BINPUT",
    "LONG_BINPUT",
    "GET",
    "BINGET",
    "LONG_BINGET",
    "MEMOIZE",
]


class _Reader(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """An unpickler that makes lists, dicts, strings, ints and arrays of pixels, and nothing else.

    Python's own rather than the one in C: its memo is a dict, so no index makes it allocate.
    """

    dispatch: ClassVar[dict[int, Any]] = {
        code: method
        for name in _OPCODES
        for code, method in pickle._Unpickler.dispatch.items()  # type: ignore[attr-defined]
        if code == getattr(pickle, name)[0]
    }

    def find_class(self, module: str, name: str) -> Any:
        known = module.split(".")[0] in ("numpy", "_codecs") and name in _GLOBALS
        if not known:
            raise ValueError(f"a pickle that asks for {module}.{name}")
        return _GLOBALS[name]

    def load_setitem(self) -> None:
        self._checked(self.stack[-2:-1])
        super().load_setitem()

    def load_setitems(self) -> None:
        self._checked(self.stack[::2])
        super().load_setitems()

    def load_build(self) -> None:
        if not isinstance(self.stack[-2], _Array | _DType):
            raise ValueError("a state for what has none")
        super().load_build()

    @staticmethod
    def _checked(keys: list[Any]) -> None:
        if not all(isinstance(key, str | bytes) for key in keys):  # others may be deep to hash
            raise ValueError("keys that are no strings")

    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    del dispatch[pickle.DICT[0]]


def _pickled(path: Path, key: str) -> tuple[np.ndarray, list[int]]:
    """Pixels (n, 3072) and classes of a pickled file."""
    with reading(path):
        found = _Reader(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        if not isinstance(found, dict):
            raise damaged(path, f"it holds a {type(found).__name__}")
        entries = {k.decode() if isinstance(k, bytes) else k: v for k, v in found.items()}
        data, labels = entries.get("data"), entries.get(key)
        if not isinstance(data, _Array) or data.values is None or not isinstance(labels, list):
            raise damaged(path, f"it has no 'data' and {key!r}")
        pixels = data.values
        if pixels.shape != (len(labels), _PIXELS) or not all(type(n) is int for n in labels):
            raise damaged(path, f"{len(labels)} classes, and pixels of {pixels.shape}")
        return pixels, labels


def _binary(path: Path, before: int) -> tuple[np.ndarray, list[int]]:
    """Pixels (n, 3072) and classes of a binary file, with ``before`` bytes of classes a record."""
    with reading(path):
        data = np.fromfile(path, np.uint8)
        record = before + _PIXELS
        if not len(data) or len(data) % record:
            raise damaged(path, f"{len(data)} bytes are no records of {record} bytes")
        records = data.reshape(-1, record)
        return records[:, before:], records[:, before - 1].tolist()


class CIFAR10(Pictures):
    """Small photographs, 32x32, of 10 kinds: 50,000 to train with and 10,000 to test.

    Args:
        root: where ``cifar-10-batches-py`` or ``cifar-10-batches-bin`` is, or its files.
        train: whether to read the training part.
        transform: called with each picture, a NumPy array (32, 32, 3) of uint8.
        target_transform: called with each class, an int.
        download: accepted for torchvision's sake; fx downloads nothing.

    Raises:
        MissingFileError: with the names of the files and where to put them.
        DataFileError: if they are damaged, or pickles of anything else.

    Source: ``torchvision.datasets.CIFAR10``.

    Example:
        >>> import fx
        >>> try:
        ...     fx.data.datasets.CIFAR10("nowhere", train=False)
        ... except FileNotFoundError as error:
        ...     print(str(error).splitlines()[1].strip())
        test_batch
    """

    folder = "cifar-10-batches"
    files = ([f"data_batch_{i}" for i in range(1, 6)], ["test_batch"])
    binary = ([f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"])
    key, before = "labels", 1
    classes: ClassVar[list[str]] = [
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"
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
        parts = [self._part(path) for path in self._paths(0 if train else 1)]
        pixels = np.concatenate([p for p, _ in parts]).reshape(-1, 3, 32, 32)
        self.data: np.ndarray = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))  # (n, 32, 32, 3)
        self.targets: list[int] = [label for _, labels in parts for label in labels]

    def _paths(self, part: int) -> list[Path]:
        name = type(self).__name__
        try:
            folders = [self.root / f"{self.folder}-bin", self.root / f"{self.folder}-binary"]
            return find(name, [*folders, self.root], self.binary[part], False)
        except MissingFileError:
            folders = [self.root / f"{self.folder}-py", self.root / f"{self.folder}-python"]
            return find(name, [*folders, self.root], self.files[part], False)

    def _part(self, path: Path) -> tuple[np.ndarray, list[int]]:
        binary = path.suffix == ".bin"
        pixels, labels = _binary(path, self.before) if binary else _pickled(path, self.key)
        most = len(self.classes)
        if not all(0 <= label < most for label in labels):
            raise damaged(path, f"classes are 0 to {most - 1}, not {min(labels)} to {max(labels)}")
        return pixels, labels

    def _picture(self, index: int) -> Any:
        return self.data[index]


class CIFAR100(CIFAR10):
    """Small photographs, 32x32, of 100 kinds; the arguments are those of CIFAR10."""

    folder = "cifar-100"
    files = (["train"], ["test"])
    binary = (["train.bin"], ["test.bin"])
    key, before = "fine_labels", 2
    classes: ClassVar[list[str]] = [
        "apple",
        "aquarium_fish",
        "baby",
        "bear",
        "beaver",
        "bed",
        "bee",
        "beetle",
        "bicycle",
        "bottle",
        "bowl",
        "boy",
        "bridge",
        "bus",
        "butterfly",
        "camel",
        "can",
        "castle",
        "caterpillar",
        "cattle",
        "chair",
        "chimpanzee",
        "clock",
        "cloud",
        "cockroach",
        "couch",
        "crab",
        "crocodile",
        "cup",
        "dinosaur",
        "dolphin",
        "elephant",
        "flatfish",
        "forest",
        "fox",
        "girl",
        "hamster",
        "house",
        "kangaroo",
        "keyboard",
        "lamp",
        "lawn_mower",
        "leopard",
        "lion",
        "lizard",
        "lobster",
        "man",
        "maple_tree",
        "motorcycle",
        "mountain",
        "mouse",
        "mushroom",
        "oak_tree",
        "orange",
        "orchid",
        "otter",
        "palm_tree",
        "pear",
        "pickup_truck",
        "pine_tree",
        "plain",
        "plate",
        "poppy",
        "porcupine",
        "possum",
        "rabbit",
        "raccoon",
        "ray",
        "road",
        "rocket",
        "rose",
        "sea",
        "seal",
        "shark",
        "shrew",
        "skunk",
        "skyscraper",
        "snail",
        "snake",
        "spider",
        "squirrel",
        "streetcar",
        "sunflower",
        "sweet_pepper",
        "table",
        "tank",
        "telephone",
        "television",
        "tiger",
        "tractor",
        "train",
        "trout",
        "tulip",
        "turtle",
        "wardrobe",
        "whale",
        "willow_tree",
        "wolf",
        "woman",
        "worm",
    ]
