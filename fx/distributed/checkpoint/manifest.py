"""The manifest of a distributed checkpoint: which file has which part of each entry, and hashes.

It is written last, in one step, and names all files: what it does not name is no part of the
checkpoint. A tensor's hashes are of blocks of its rows, so that a slice is checked by what is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from fx import dtypes
from fx.distributed.checkpoint.entries import Array, name_of
from fx.errors import FileFormatError
from fx.io.sealing import Sealed, check_seal, write_atomically

NAME = "manifest.json"
FILE = re.compile(r"rank-\d+-[0-9a-f]+\.safetensors")
_FORMAT = "fx distributed checkpoint 1"
_BLOCK = 1 << 20  # bytes that have one hash; a row at least


@dataclass(frozen=True)
class Piece:
    """A slice of a tensor that lies in a file, under the name of its entry and its offsets."""

    file: str
    offsets: tuple[int, ...]
    shape: tuple[int, ...]
    sums: tuple[str, ...]  # SHA-256 of each block of rows

    def name_in_file(self, name: str) -> str:
        """What the file calls it."""
        return f"{name}@{','.join(map(str, self.offsets))}"


@dataclass(frozen=True)
class Variant:
    """What an entry is in some ranks.

    Args:
        ranks: those that had it so; None: all.
        value: of kinds ``"plain"`` and ``"empty"``, which have no pieces.
    """

    ranks: tuple[int, ...] | None
    kind: str
    value: Any = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A leaf of the state."""

    path: tuple[Any, ...]
    variants: tuple[Variant, ...]

    @property
    def name(self) -> str:
        """The path as text."""
        return name_of(self.path)


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint consists of.

    Args:
        world: how many ranks saved it.
        files: the bytes of each, by name.
    """

    world: int
    files: dict[str, int]
    entries: tuple[Entry, ...]

    def write(self, folder: Path) -> None:
        """Let the folder be this checkpoint from now on."""
        body = json.dumps({"format": _FORMAT, **asdict(self)}).encode()

        def write(file: Any) -> None:
            with Sealed(file) as sealed:
                sealed.write(body)
                file.write(sealed.seal())

        write_atomically(folder / NAME, write)

    @staticmethod
    def read(folder: Path) -> Manifest:
        """That of a folder.

        Raises:
            FileNotFoundError: if there is none.
            FileFormatError: if it is damaged.
        """
        path = folder / NAME
        if not path.exists() and (folder / ".metadata").exists():
            raise FileFormatError(
                f"{folder} is a checkpoint of torch.distributed.checkpoint, whose folders fx does "
                f"not read; convert it there with dcp_to_torch_save, and open that with fx.load"
            )
        if not path.exists():
            raise FileNotFoundError(
                f"there is no complete checkpoint in {str(folder)!r}: no {NAME}"
            )
        with open(path, "rb") as file:
            check_seal(file, str(path))
            body = file.read()[: -Sealed.SIZE]
        try:
            held = json.loads(body)
            if held["format"] != _FORMAT:
                raise ValueError(f"its format is {held['format']!r}")
            entries = tuple(_entry(e) for e in held["entries"])
            files = {str(k): int(v) for k, v in held["files"].items()}
            wrong = [name for name in files if not FILE.fullmatch(name)]
            if wrong:
                raise ValueError(f"a shard is called {wrong[0]!r}")
            return Manifest(int(held["world"]), files, entries)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(f"{path} is no manifest of a checkpoint: {error}") from None


def _entry(e: Any) -> Entry:
    path = tuple(tuple(key) if isinstance(key, list) else key for key in e["path"])
    return Entry(path, tuple(_variant(v) for v in e["variants"]))


def _variant(v: Any) -> Variant:
    pieces = tuple(
        Piece(p["file"], tuple(p["offsets"]), tuple(p["shape"]), tuple(p["sums"]))
        for p in v["pieces"]
    )
    ranks = None if v["ranks"] is None else tuple(v["ranks"])
    return Variant(ranks, v["kind"], v["value"], v["dtype"], tuple(v["shape"]), pieces)


# what lies in files -------------------------------------------------------------------------------


def stored(x: Array) -> Array:
    """An array as a safetensors file holds it: complex128 as two floats each."""
    return x.reshape(*x.shape, 1).view(np.float64) if x.dtype == dtypes.complex128 else x


def unstored(x: Array, dtype: str) -> Array:
    """The array again."""
    return x.view(np.complex128)[..., 0] if dtype == "complex128" else x


def blocks(shape: tuple[int, ...], itemsize: int) -> list[int]:
    """Where the blocks of rows that have a hash begin, and the last one ends.

    A tensor without axes, and one without elements, is one block.
    """
    if not shape or not prod(shape):
        return [0, shape[0] if shape else 1]
    rows = max(1, _BLOCK // (itemsize * prod(shape[1:])))
    return [*range(0, shape[0], rows), shape[0]]


def sums_of(x: Array) -> tuple[str, ...]:
    """The SHA-256 of each block of rows of an array in a row."""
    rows = x if x.ndim else x.reshape(1)
    cuts = pairwise(blocks(x.shape, x.itemsize))
    return tuple(_sum(rows[begin:end]) for begin, end in cuts)


def _sum(x: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(x).reshape(-1).view(np.uint8)).hexdigest()


class Shards:
    """The files of a checkpoint, open for reading slices."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._manifest = folder, manifest
        self._open: dict[str, Any] = {}

    def read(self, entry: Entry, variant: Variant, box: Any = None) -> Array:
        """A box of an entry's tensor, of which only the rows that it needs are read.

        Args:
            box: (offsets, shape); None: all of it.

        Raises:
            FileFormatError: naming the file that is missing or damaged.
        """
        offsets, shape = ((0,) * len(variant.shape), variant.shape) if box is None else box
        if not prod(shape):
            return np.empty(shape, dtype_of(variant.dtype))
        parts = list(self._parts(entry, variant, offsets, shape))
        if sum(part.size for _, part in parts) != prod(shape):
            raise FileFormatError(f"{self._folder / NAME}: {entry.name} has gaps")
        if len(parts) == 1:
            return np.ascontiguousarray(parts[0][1]).reshape(shape)
        out = np.empty(shape, dtype_of(variant.dtype))
        for place, part in parts:
            out[place] = part
        return out

    def _parts(
        self, entry: Entry, variant: Variant, offsets: tuple[int, ...], shape: tuple[int, ...]
    ) -> Iterator[tuple[tuple[slice, ...], Array]]:
        """What each piece has of a box, and where in it."""
        for piece in variant.pieces:
            low = [max(a, b) for a, b in zip(offsets, piece.offsets)]
            ends = zip(offsets, shape, piece.offsets, piece.shape)
            high = [min(a + n, b + m) for a, n, b, m in ends]
            if any(lo >= hi for lo, hi in zip(low, high)):
                continue
            held = [slice(lo - b, hi - b) for lo, hi, b in zip(low, high, piece.offsets)]
            rows = (held[0].start, held[0].stop) if held else (0, 1)
            first, array = self._rows(entry.name, variant.dtype, piece, *rows)
            if held:
                held[0] = slice(held[0].start - first, held[0].stop - first)
            place = tuple(slice(lo - a, hi - a) for lo, hi, a in zip(low, high, offsets))
            yield place, array[tuple(held)]

    def _rows(self, name: str, dtype: str, piece: Piece, low: int, high: int) -> tuple[int, Array]:
        """The blocks in which some rows of a piece lie, checked; and which row is the first."""
        from safetensors import SafetensorError

        path = self._folder / piece.file
        size = dtype_of(dtype).itemsize
        cuts = list(pairwise(blocks(piece.shape, size)))
        wanted = [i for i, (begin, end) in enumerate(cuts) if begin < high and low < end]
        begin, end = cuts[wanted[0]][0], cuts[wanted[-1]][1]
        file = self._opened(piece.file)
        try:
            where = file.get_slice(piece.name_in_file(name))
            x = unstored(where[begin:end] if piece.shape else where[...], dtype)
        except (SafetensorError, ValueError) as error:
            raise FileFormatError(f"{path} is damaged: {error}") from None
        expected = (end - begin, *piece.shape[1:]) if piece.shape else ()
        rows = x if x.ndim else x.reshape(1)
        found = [_sum(rows[a - begin : b - begin]) for a, b in cuts[wanted[0] : wanted[-1] + 1]]
        told = list(piece.sums[wanted[0] : wanted[-1] + 1])
        if x.shape != expected or x.dtype.name != dtype or found != told:
            raise FileFormatError(
                f"{path} is damaged: {name} is not what was written (SHA-256); "
                f"load another checkpoint"
            )
        return begin, x

    def _opened(self, name: str) -> Any:
        from safetensors import SafetensorError, safe_open

        if name not in self._open:
            path = self._folder / name
            size, told = _size(path), self._manifest.files.get(name)
            if size != told:
                was = "is missing" if size is None else f"has {size} bytes instead of {told}"
                raise FileFormatError(
                    f"the checkpoint in {self._folder} is damaged: its shard {name} {was}"
                )
            try:
                self._open[name] = safe_open(path, "np")
            except SafetensorError as error:
                raise FileFormatError(f"{path} is damaged: {error}") from None
        return self._open[name]


def _size(path: Path) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of a name, or a refusal."""
    found = next((d for d in dtypes.ALL if d.name == name), None)
    if found is None:
        raise FileFormatError(f"a checkpoint holds a tensor of dtype {name!r}, which is none of fx")
    return found
