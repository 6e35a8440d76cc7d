"""The adaptive softmax: many classes, of which a few are frequent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.indexing as indexing
from fx.errors import IndexingError, ShapeError
from fx.nn import functional as F
from fx.nn.base.containers import ModuleList, Sequential
from fx.nn.base.module import Module
from fx.nn.layers.linear import Linear
from fx.ops.indexing.searching import nonzero
from fx.ops.operands import argument
from fx.ops.shapes.joining import concat
from fx.prims.shape import broadcast_to, reshape
from fx.tensor import Tensor


class ASMoutput(NamedTuple):
    """What ``AdaptiveLogSoftmaxWithLoss`` gives: log-probabilities of the targets, and the loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Softmax over classes in clusters: frequent ones first, rare ones with fewer features.

    Args:
        in_features: of the input.
        n_classes: how many classes, the frequent ones with the lowest numbers.
        cutoffs: the first class of each cluster but the first.
        div_value: by how much the features shrink from cluster to cluster.
        head_bias: whether the frequent classes have biases.
        device, dtype: of the parameters.

    Attributes:
        head: a ``Linear`` to the frequent classes and one score a cluster.
        tail: for each cluster two ``Linear``.

    Raises:
        ValueError: if ``cutoffs`` are not increasing between 1 and ``n_classes - 1``.

    Source: Grave et al., "Efficient softmax approximation for GPUs", 2017.

    Example:
        >>> import fx
        >>> layer = fx.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10])
        >>> output, loss = layer(fx.ones((3, 8)), fx.tensor([0, 7, 19]))
        >>> output.shape, loss.shape
        ((3,), ())
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        given, cutoffs = cutoffs, list(cutoffs) if isinstance(cutoffs, Iterable) else []
        whole = all(isinstance(c, int | float) and c % 1 == 0 for c in cutoffs)
        rising = all(a < b for a, b in pairwise([0, *cutoffs, n_classes]))
        if not cutoffs or not whole or not rising:
            raise ValueError(
                f"cutoffs should be a sequence of unique, positive integers sorted in an "
                f"increasing order, where each value is between 1 and n_classes-1={n_classes - 1}, "
                f"got {given!r:.80}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i, (first, last) in enumerate(pairwise(self.cutoffs)):
            size = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, size, bias=False, **made),
                    Linear(size, last - first, bias=False, **made),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new values."""
        self.head.reset_parameters()
        for narrow, wide in self.tail:
            narrow.reset_parameters()
            wide.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> ASMoutput:
        """The log-probability of each target, and the mean of their negatives.

        Args:
            input_: (batch, in_features), or (in_features,).
            target_: (batch,), or a scalar.

        Raises:
            ShapeError: if they do not fit.
            IndexingError: if a target is no class; where targets have values.
        """
        name = "AdaptiveLogSoftmaxWithLoss"
        x, y = argument(name, input_), argument(name, target_)
        if y.ndim > 1 or x.ndim != y.ndim + 1 or x.shape[:-1] != y.shape:
            raise ShapeError(
                f"{name} takes an input (batch, {self.in_features}) and a target (batch,), or both "
                f"without batch, got {x.shape} and {y.shape}"
            )
        single = y.ndim == 0
        if single:
            x, y = reshape(x, shape=(1, *x.shape)), reshape(y, shape=(1,))
        if type(y) is Tensor and bool(((y < 0) | (y >= self.n_classes)).any()):
            raise IndexingError(
                f"{name}: target values should be in [0, {self.n_classes - 1}], got "
                f"{int(y.min())} to {int(y.max())}"
            )
        head = F.log_softmax(self.head(x), dim=1)  # (batch, head_size)
        first = self.shortlist_size
        place, out = y, creation.constant_like(0.0, head)
        out = broadcast_to(out, shape=y.shape)
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            inside = (y >= low) & (y < high)
            place = compare.where(inside, creation.constant_like(first + i, y), place)
            own = compare.where(inside, y - low, creation.constant_like(0, y))
            if type(y) is Tensor:  # whose values are known: only the rows of the cluster
                (rows,) = nonzero(inside)
                if rows.size:
                    found = self._in_cluster(i, x[rows], own[rows])
                    out = out.at[rows].set(found)
            else:
                out = compare.where(inside, self._in_cluster(i, x, own), out)
        out = out + _picked(head, place)
        loss = -out.mean()
        return ASMoutput(reshape(out, shape=()) if single else out, loss)

    def _in_cluster(self, index: int, x: Tensor, places: Tensor) -> Tensor:
        """The log-probabilities of places in a cluster: (batch,)."""
        return _picked(F.log_softmax(self.tail[index](x), dim=1), places)

    def log_prob(self, input: Any) -> Tensor:
        """The log-probabilities of all classes: (batch, in_features) to (batch, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        first = self.shortlist_size
        parts = [head[:, :first]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, first + i : first + i + 1])
        return concat(parts, axis=1)

    def predict(self, input: Any) -> Tensor:
        """The class of each row: (batch, in_features) to (batch,).

        A row whose best score in the head is a frequent class gets that class, as in PyTorch, even
        if a class of a cluster is more probable.
        """
        best = self.head(input).argmax(1)
        return compare.where(best < self.shortlist_size, best, self.log_prob(input).argmax(1))


def _picked(x: Tensor, places: Tensor) -> Tensor:
    """One entry a row."""
    column = reshape(places, shape=(places.shape[0], 1))
    return reshape(indexing.take_along_axis(x, column, axis=1), shape=places.shape)
