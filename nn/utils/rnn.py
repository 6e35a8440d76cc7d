"""Packed sequences: a batch of sequences of different lengths without padding.

Rows of one time step lie together, those of the longest sequence first. Everything is computed with
indices made from ``batch_sizes``, so that it runs under every transform.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.indexing as indexing
from fx.dtypes import int64
from fx.errors import ShapeError
from fx.nn.utils.packing import count, layout_of
from fx.ops.convert import as_tensor
from fx.ops.operands import argument, cast
from fx.ops.shapes.joining import stack
from fx.prims.shape import broadcast_to, pad, reshape
from fx.prims.sorting import argsort
from fx.tensor import Tensor


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Packed):
    """Sequences of different lengths in one tensor; ``pack_padded_sequence`` makes them.

    Attributes:
        data: (all rows, ...), the rows of the first time step, of the second, and so on.
        batch_sizes: (time,) int64, how many sequences have a row at each time step.
        sorted_indices: (batch,), how the sequences were sorted by length, or None.
        unsorted_indices: (batch,), the inverse of that, or None.

    Example:
        >>> import fx
        >>> from fx.nn.utils.rnn import pack_sequence
        >>> pack_sequence([fx.tensor([1, 2, 3]), fx.tensor([4])]).data
        tensor([1, 4, 2, 3])
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any = None,
        sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            if not isinstance(data, list | tuple) or len(data) != 2:
                raise TypeError(
                    "PackedSequence takes data and batch_sizes; make one with "
                    "fx.nn.utils.rnn.pack_padded_sequence(x, lengths)"
                )
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with ``data`` in another dtype or on another device; see ``Tensor.to``."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        moved = [None if x is None else x.to(data.device) for x in self[2:]]
        return type(self)(data, self.batch_sizes, *moved)

    def cpu(self) -> PackedSequence:
        """The same on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = "cuda") -> PackedSequence:
        """The same on the GPU."""
        return self.to(device)

    def float(self) -> PackedSequence:
        """The same with data in float32."""
        return self.to("float32")

    def double(self) -> PackedSequence:
        """The same with data in float64."""
        return self.to("float64")

    def half(self) -> PackedSequence:
        """The same with data in float16."""
        return self.to("float16")

    def long(self) -> PackedSequence:
        """The same with data in int64."""
        return self.to("int64")

    def int(self) -> PackedSequence:
        """The same with data in int32."""
        return self.to("int32")

    def short(self) -> PackedSequence:
        """The same with data in int16."""
        return self.to("int16")

    def char(self) -> PackedSequence:
        """The same with data in int8."""
        return self.to("int8")

    def byte(self) -> PackedSequence:
        """The same with data in uint8."""
        return self.to("uint8")

    def pin_memory(self) -> PackedSequence:
        """The same: memory of tensors is not pinned."""
        return self

    def is_pinned(self) -> bool:
        """False."""
        return False

    @property
    def is_cuda(self) -> bool:
        """Whether the data live on a GPU."""
        return self.data.device.name.startswith("cuda")  # type: ignore[no-any-return]


def invert_permutation(permutation: Any) -> Any:
    """The inverse of a permutation (n,), or None of None.

    Example:
        >>> import fx
        >>> fx.nn.utils.rnn.invert_permutation(fx.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    order = argument("invert_permutation", permutation)
    return cast(argsort(order, axis=0, descending=False), order.dtype)


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The rows of padded sequences without the padding.

    Args:
        input: (time, batch, ...), or (batch, time, ...) if ``batch_first``.
        lengths: (batch,), how long each sequence is: integers in a tensor or a list.
        batch_first: which axis is the batch.
        enforce_sorted: whether the sequences must come longest first; if not they are sorted.

    Raises:
        ShapeError: if the number of lengths is not that of sequences, or one exceeds the input.
        ValueError: if a length is not positive, or lengths are not sorted though they must be.

    Example:
        >>> import fx
        >>> x = fx.tensor([[1, 2, 0], [3, 0, 0]])
        >>> fx.nn.utils.rnn.pack_padded_sequence(x, [2, 1], batch_first=True).data
        tensor([1, 3, 2])
    """
    name = "pack_padded_sequence"
    x = argument(name, input)
    if x.ndim < 2:
        raise ShapeError(f"{name} takes (time, batch, ...), got {x.shape}; x.unsqueeze(1) is one")
    if batch_first:
        x = x.transpose(0, 1)
    lens = cast(as_tensor(lengths), int64)
    time, batch = x.shape[:2]
    if lens.shape != (batch,):
        raise ShapeError(
            f"{name}: an input of {batch} sequences takes lengths of shape ({batch},), got "
            f"{lens.shape}; with batch_first={not batch_first} the batch is the other axis"
        )
    order = None
    if enforce_sorted:
        known = lens.tolist()
        if any(a < b for a, b in pairwise(known)):
            raise ValueError(
                f"{name}: lengths must be sorted, the longest first, got {known}; write "
                f"enforce_sorted=False"
            )
    else:
        order = argsort(lens, axis=0, descending=True)
        lens = indexing.take(lens, order, axis=0)
        x = indexing.take(x, order if order.device == x.device else order.to(x.device), axis=1)
    if batch and int(lens[-1]) <= 0:
        raise ValueError(f"{name}: every length must be positive, got {lens.tolist()}")
    longest = int(lens[0]) if batch else 0
    if longest > time:
        raise ShapeError(f"{name}: a length of {longest} exceeds the {time} steps of {x.shape}")
    step = reshape(count(longest, lens.device), shape=(longest, 1))
    runs = broadcast_to(step, shape=(longest, batch)) < broadcast_to(lens, shape=(longest, batch))
    sizes = cast(runs, int64).sum(1)
    layout = layout_of(sizes, int(lens.sum()), x.device)
    if longest < time:
        x = x[:longest]
    if order is not None and order.device != x.device:
        order = order.to(x.device)
    return PackedSequence(layout.packed(x), sizes, order)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The inverse of ``pack_padded_sequence``: padded sequences, and their lengths.

    Args:
        sequence: the packed batch.
        batch_first: whether the result is (batch, time, ...) instead of (time, batch, ...).
        padding_value: what stands where a sequence has ended.
        total_length: the time steps of the result; those of the longest sequence unless told.

    Raises:
        ValueError: if ``total_length`` is less than the longest sequence.

    Example:
        >>> import fx
        >>> from fx.nn.utils.rnn import pack_sequence, pad_packed_sequence
        >>> packed = pack_sequence([fx.tensor([1, 2]), fx.tensor([3])])
        >>> pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2],
                [3, 0]]), tensor([2, 1]))
    """
    if not isinstance(sequence, PackedSequence):
        raise TypeError(
            f"pad_packed_sequence takes a PackedSequence, got {type(sequence).__name__}; write "
            f"pad_packed_sequence(pack_padded_sequence(x, lengths))"
        )
    data, batch_sizes, _, unsorted = sequence
    layout = layout_of(batch_sizes, data.shape[0], data.device)
    if total_length is not None and total_length < layout.time:
        raise ValueError(
            f"pad_packed_sequence: total_length={total_length} is less than the {layout.time} "
            f"steps of the longest sequence; write total_length={layout.time} or more"
        )
    out = layout.padded(data)  # (time, batch, ...)
    keep = reshape(layout.keep, shape=(*layout.keep.shape, *[1] * (out.ndim - 2)))
    fill = creation.constant_like(padding_value, out)
    out = compare.where(broadcast_to(keep, shape=out.shape), out, fill)
    more = (total_length or layout.time) - layout.time
    if more:
        none = (0,) * out.ndim
        out = pad(out, fill, low=none, high=(more, *none[1:]), inside=none)
    lengths = cast(layout.keep, int64).sum(0)
    if unsorted is not None:
        out = indexing.take(out, unsorted, axis=1)
        lengths = indexing.take(lengths, unsorted, axis=0)
    return (out.transpose(0, 1) if batch_first else out), lengths


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (length, ...) of different lengths in one tensor.

    Args:
        sequences: tensors whose shapes differ in the first axis only.
        batch_first: whether the result is (batch, time, ...) instead of (time, batch, ...).
        padding_value: what fills them up.
        padding_side: ``"right"`` or ``"left"``.

    Raises:
        TypeError: if ``sequences`` cannot be iterated over.
        ShapeError: if there are none, or their shapes differ in other axes.
        ValueError: for another ``padding_side``.

    Example:
        >>> import fx
        >>> fx.nn.utils.rnn.pad_sequence([fx.tensor([1, 2]), fx.tensor([3])], batch_first=True)
        tensor([[1, 2],
                [3, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise TypeError(f"pad_sequence takes a list of tensors, got {type(sequences).__name__}")
    if padding_side not in ("right", "left"):
        raise ValueError(f"pad_sequence: padding_side is 'right' or 'left', got {padding_side!r}")
    xs = [argument("pad_sequence", x) for x in sequences]
    shapes = [x.shape for x in xs]
    if not xs or any(not s or s[1:] != shapes[0][1:] for s in shapes):
        raise ShapeError(
            f"pad_sequence takes one or more tensors (length, ...) whose shapes differ in the "
            f"first axis only, got {shapes}"
        )
    longest = max(s[0] for s in shapes)
    padded = []
    for x in xs:
        more = longest - x.shape[0]
        if more:
            none, width = (0,) * x.ndim, (more, *[0] * (x.ndim - 1))
            low, high = (none, width) if padding_side == "right" else (width, none)
            fill = creation.constant_like(padding_value, x)
            x = pad(x, fill, low=low, high=high, inside=none)
        padded.append(x)
    return stack(padded, axis=0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The inverse of ``pad_sequence``: a list of tensors (length, ...).

    Args:
        padded_sequences: (time, batch, ...), or (batch, time, ...) if ``batch_first``.
        lengths: (batch,).
        batch_first: which axis is the batch.

    Raises:
        ShapeError: if there are not as many lengths as sequences.

    Example:
        >>> import fx
        >>> fx.nn.utils.rnn.unpad_sequence(fx.tensor([[1, 3], [2, 0]]), fx.tensor([2, 1]))
        [tensor([1, 2]), tensor([3])]
    """
    x = argument("unpad_sequence", padded_sequences)
    known = as_tensor(lengths).reshape(-1).tolist()
    if x.ndim < 2:
        raise ShapeError(f"unpad_sequence takes (time, batch, ...), got shape {x.shape}")
    batch = x.shape[0 if batch_first else 1]
    if len(known) != batch:
        raise ShapeError(f"unpad_sequence: {batch} sequences take {batch} lengths, got {known}")
    if not batch_first:
        x = x.transpose(0, 1)
    return [x[i, : int(n)] for i, n in enumerate(known)]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """``pack_padded_sequence`` of a list of tensors (length, ...).

    Raises:
        ShapeError, ValueError: as of ``pad_sequence`` and ``pack_padded_sequence``.

    Example:
        >>> import fx
        >>> xs = [fx.tensor([4]), fx.tensor([1, 2, 3])]
        >>> fx.nn.utils.rnn.pack_sequence(xs, enforce_sorted=False).batch_sizes
        tensor([2, 1, 1])
    """
    padded = pad_sequence(sequences)
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(padded, lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The inverse of ``pack_sequence``.

    Example:
        >>> import fx
        >>> from fx.nn.utils.rnn import pack_sequence, unpack_sequence
        >>> unpack_sequence(pack_sequence([fx.tensor([1, 2]), fx.tensor([3])]))
        [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
