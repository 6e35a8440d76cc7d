"""EmbeddingBag: sums, means and maxima of learned vectors."""

from __future__ import annotations

from typing import Any, Self

from fx.nn import functional as F
from fx.nn.layers.sparse import EmbeddingTable, sizes_of_table
from fx.tensor import Tensor


class EmbeddingBag(EmbeddingTable):
    """A table of vectors, of which bags are looked up and put together.

    Args:
        num_embeddings, embedding_dim: the rows of the table and their length.
        max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset: see
            ``functional.embedding_bag``.
        _weight: the table to begin with.
        padding_idx: a row that is zeros at first and counts nowhere.
        device, dtype: of the parameter.

    Attributes:
        weight: (num_embeddings, embedding_dim), standard normal at first.

    Raises:
        ShapeError: if ``padding_idx`` is out of range, or ``_weight`` has another shape.

    Example:
        >>> import fx
        >>> layer = fx.nn.EmbeddingBag(10, 3, mode="sum")
        >>> layer(fx.tensor([1, 2, 4, 5, 4]), fx.tensor([0, 3])).shape
        (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self._hold(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        """Integers (bags, n), or (n,) with offsets (bags,), to (bags, embedding_dim)."""
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A table (rows, length) as a layer, not learned unless ``freeze=False``.

        Raises:
            ShapeError: if ``embeddings`` does not have two axes.
        """
        rows, length = sizes_of_table("EmbeddingBag", embeddings)
        out = cls(
            rows, length, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
            include_last_offset, padding_idx,
        )  # fmt: skip
        out.weight.requires_grad_(not freeze)
        return out

    def extra_repr(self) -> str:
        """The sizes and what differs from the defaults."""
        out = f"{self.num_embeddings}, {self.embedding_dim}"
        out += "" if self.max_norm is None else f", max_norm={self.max_norm}"
        out += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        out += f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else ""
        out += f", mode={self.mode!r}"
        out += "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return out
