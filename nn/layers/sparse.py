"""Embedding: a table of learned vectors."""

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


class EmbeddingTable(Module):
    """What looks rows up in a learned table: the table, and the row that stands for padding."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def _hold(
        self, rows: int, length: int, padding_idx: int | None, given: Any, device: Any, dtype: Any
    ) -> None:
        """A table (rows, length): the one ``given``, or a new one for None."""
        name = type(self).__name__
        self.num_embeddings = rows
        self.embedding_dim = length
        if padding_idx is not None:
            if not -rows <= padding_idx < rows:
                raise ShapeError(
                    f"{name}: padding_idx {padding_idx} must be within num_embeddings {rows}"
                )
            padding_idx %= rows
        self.padding_idx = padding_idx
        if given is None:
            self.weight = parameter((rows, length), device, dtype)
            self.reset_parameters()
        elif tuple(given.shape) != (rows, length):
            raise ShapeError(
                f"{name}: the weight must have shape ({rows}, {length}), got {tuple(given.shape)}"
            )
        else:
            self.weight = Parameter(given)

    def reset_parameters(self) -> None:
        """Draw a new table."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0


def sizes_of_table(name: str, embeddings: Any) -> tuple[int, int]:
    """The sizes of a table that is given.

    Raises:
        ShapeError: if it does not have two axes.
    """
    if embeddings.ndim != 2:
        raise ShapeError(
            f"{name}.from_pretrained takes a table (rows, length), got shape "
            f"{tuple(embeddings.shape)}"
        )
    rows, length = embeddings.shape
    return rows, length


class Embedding(EmbeddingTable):
    """A table of vectors, looked up by index.

    Args:
        num_embeddings, embedding_dim: the rows of the table and their length.
        padding_idx: a row that is zeros at first and gets no gradient.
        max_norm, norm_type, scale_grad_by_freq, sparse: see ``functional.embedding``.
        _weight: the table to begin with.
        _freeze: whether it is not learned.
        device, dtype: of the parameter.

    Attributes:
        weight: (num_embeddings, embedding_dim), standard normal at first.

    Raises:
        ShapeError: if ``padding_idx`` is out of range, or ``_weight`` has another shape.

    Example:
        >>> import fx
        >>> fx.nn.Embedding(10, 3, padding_idx=0)(fx.tensor([[0, 4]])).shape
        (1, 2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._hold(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        if _freeze:
            self.weight.requires_grad_(False)

    def forward(self, input: Any) -> Tensor:
        """Integers (...) to (..., embedding_dim)."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """A table (rows, length) as a layer, not learned unless ``freeze=False``.

        Raises:
            ShapeError: if ``embeddings`` does not have two axes.
        """
        rows, length = sizes_of_table("Embedding", embeddings)
        return cls(
            rows, length, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            _weight=embeddings, _freeze=freeze,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The sizes and what differs from the defaults."""
        out = f"{self.num_embeddings}, {self.embedding_dim}"
        out += "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        out += "" if self.max_norm is None else f", max_norm={self.max_norm}"
        out += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        out += f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else ""
        out += ", sparse=True" if self.sparse else ""
        return out
