"""PowerSGD: gradients of matrices sent as products of two thin ones.

Vogels, Karimireddy, Jaggi, PowerSGD: Practical Low-Rank Gradient Compression (2019). A matrix
M (n, m) becomes P Q^T: P = M Q (n, r) is summed over the ranks and made orthonormal, then Q = M^T P
(m, r) is summed. What the product leaves of M is added to the next step's gradient.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

from fx.distributed.groups import world
from fx.distributed.work import Future
from fx.errors import ArgumentError
from fx.nn.data_parallel.buckets import GradBucket
from fx.nn.data_parallel.hooks import allreduce_hook, settled, summed
from fx.ops.making.creation import zeros
from fx.ops.shapes.joining import concat, stack
from fx.random import key, normal, split
from fx.tensor import Tensor


class PowerSGDState:
    """What ``powerSGD_hook`` knows, and keeps from one step to the next.

    Args:
        process_group: the ranks; None: all.
        matrix_approximation_rank: columns of the thin matrices.
        start_powerSGD_iter: steps with plain means first; at least 2 with the next two arguments.
        min_compression_rate: matrices that do not become so many times smaller are sent as they
            are.
        use_error_feedback: add what was lost to the next gradient.
        warm_start: begin with the last step's Q, not with a random one.
        orthogonalization_epsilon: added to the lengths of columns.
        random_seed: of the first Q; the same in all ranks.

    Raises:
        ValueError: if ``start_powerSGD_iter`` is too small.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ArgumentError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self._key = key(random_seed)
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """A step is through with its last bucket."""
        self.iter += bucket.is_last()

    def compression_stats(self) -> tuple[float, int, int]:
        """How many times fewer elements were sent; the elements before and after."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0), before, after

    def _rank_of(self, x: Tensor) -> int:
        """Columns of the thin matrices of a gradient; 0 where it is sent as it is."""
        n = x.shape[0] if x.ndim else 1
        m = x.size // max(n, 1)
        rank = min(n, m, self.matrix_approximation_rank)
        pays = (n + m) * rank * self.min_compression_rate < n * m
        self.total_numel_before_compression += x.size
        self.total_numel_after_compression += (n + m) * rank if pays else x.size
        return rank if pays else 0

    def _first_qs(self, matrices: list[Tensor], ranks: list[int]) -> list[Tensor]:
        """Random Q (m, r), the same in all ranks."""
        self._key, *drawn = split(self._key, len(matrices) + 1)
        return [
            normal(k, (x.shape[1], r), dtype=x.dtype) for k, x, r in zip(drawn, matrices, ranks)
        ]


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """The mean of gradients, those of matrices as a product of low rank; see ``PowerSGDState``."""
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    group, number = world(state.process_group), bucket.index()
    if state.use_error_feedback and number in state.error_dict:
        bucket.set_buffer(bucket.buffer() + state.error_dict[number])
    given, size = bucket.buffer(), group.size()
    gradients = bucket.gradients()
    ranks = [state._rank_of(x) for x in gradients]
    matrices = [x.reshape(x.shape[0], -1) for x, r in zip(gradients, ranks) if r]  # (n, m)
    plain = [x / size for x, r in zip(gradients, ranks) if not r]
    means, products = _products(state, number, matrices, [r for r in ranks if r], plain)
    whole, flat = iter(means), iter(products)
    out = concat([next(flat if r else whole).reshape(-1) for r in ranks])
    return _ended(state, bucket, given, out)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """The mean of a bucket as one square matrix of low rank: faster, and less exact.

    Zeros fill the square. ``min_compression_rate`` is not asked; see ``PowerSGDState``.
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    number, given = bucket.index(), bucket.buffer()
    if state.use_error_feedback and number in state.error_dict:
        given = given + state.error_dict[number]
    side = isqrt(given.size - 1) + 1
    square = concat([given, zeros(side * side - given.size, dtype=given.dtype)])
    rank = min(side, state.matrix_approximation_rank)
    state.total_numel_before_compression += given.size
    state.total_numel_after_compression += 2 * side * rank
    _, (product,) = _products(state, number, [square.reshape(side, side)], [rank], [])
    return _ended(state, bucket, given, product.reshape(-1)[: given.size])


def _products(
    state: PowerSGDState, number: int, matrices: list[Tensor], ranks: list[int], plain: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """The sums of what is sent as it is, and the means P Q^T of matrices."""
    group, eps = world(state.process_group), state.orthogonalization_epsilon
    qs = state.q_memory_dict.get(number) if state.warm_start else None
    qs = [_orthonormal(q, eps) for q in qs or state._first_qs(matrices, ranks)]
    means = _sums(group, [*plain, *[x @ q for x, q in zip(matrices, qs)]])
    ps = [_orthonormal(p, eps) for p in means[len(plain) :]]  # (n, r)
    qs = _sums(group, [x.T @ p / group.size() for x, p in zip(matrices, ps)])  # (m, r)
    state.q_memory_dict[number] = qs
    return means[: len(plain)], [p @ q.T for p, q in zip(ps, qs)]


def _ended(state: PowerSGDState, bucket: GradBucket, given: Tensor, out: Tensor) -> Future:
    """Keep what was lost, and give the mean."""
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = given - out
    state.maybe_increase_iter(bucket)
    return settled(world(state.process_group), out)


def _sums(group: Any, xs: list[Tensor]) -> list[Tensor]:
    """The sums over the ranks, as one message."""
    if not xs:
        return []
    whole, out, at = summed(group, concat([x.reshape(-1) for x in xs])).wait(), [], 0
    for x in xs:
        out.append(whole[at : at + x.size].reshape(x.shape))
        at += x.size
    return out


def _orthonormal(x: Tensor, epsilon: float) -> Tensor:
    """Columns of length 1 that are orthogonal to each other, (n, r); a column of zeros stays."""
    columns: list[Tensor] = []
    for i in range(x.shape[1]):
        column = x[:, i]
        for other in columns:
            column = column - other * (other * column).sum()
        length = float((column * column).sum()) ** 0.5 + epsilon
        columns.append(column / length if length else column)
    return stack(columns, axis=1)
