"""EmbeddingBag: sums, means and maxima of learned vectors."""

from __future__ import annotations

from typing import Any, Self

from fx.config import no_grad
from fx.errors import ShapeError
from fx.nn import functional as F
from fx.nn import init
from fx.nn.base.factory import parameter
from fx.nn.base.module import Module
from fx.nn.parameter import Parameter
from fx.tensor import Tensor


class EmbeddingBag(Module):
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
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ShapeError(
                    f"EmbeddingBag: padding_idx {padding_idx} must be within num_embeddings "
                    f"{num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if _weight is None:
            self.weight = parameter((num_embeddings, embedding_dim), device, dtype)
            self.reset_parameters()
        elif tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise ShapeError(
                f"EmbeddingBag: the weight must have shape ({num_embeddings}, {embedding_dim}), "
                f"got {tuple(_weight.shape)}"
            )
        else:
            self.weight = Parameter(_weight)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def reset_parameters(self) -> None:
        """Draw a new table."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

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
        if embeddings.ndim != 2:
            raise ShapeError(
                f"EmbeddingBag.from_pretrained takes a table (rows, length), got shape "
                f"{tuple(embeddings.shape)}"
            )
        rows, length = embeddings.shape
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
