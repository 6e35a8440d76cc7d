"""The sampler of one of several processes that train together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fx.data.sampler import Sampler
from fx.random import Generator, next_key, permutation


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th index, from ``rank`` on, of an order that all replicas share.

    Call ``set_epoch(epoch)`` before each epoch: the order follows from ``seed + epoch``.

    Args:
        dataset: what has a length.
        num_replicas: how many processes train together; None: as many as the process group has.
        rank: which of them this is, in [0, num_replicas); None: that of the process group.
        shuffle: whether the order is random.
        seed: of the order; the same in all processes.
        drop_last: leave out what does not divide by ``num_replicas``, instead of repeating the
            first indices.

    Raises:
        ValueError: if ``num_replicas`` or ``rank`` is missing and there is no process group that
            could tell, or ``rank`` is not in [0, num_replicas).

    Example:
        >>> import fx
        >>> sampler = fx.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        >>> list(sampler)
        [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from fx.distributed import groups

            if groups.is_initialized():
                num_replicas = groups.get_world_size() if num_replicas is None else num_replicas
                rank = groups.get_rank() if rank is None else rank
        if num_replicas is None or rank is None:
            raise ValueError(
                "DistributedSampler: Default process group has not been initialized, so that "
                f"num_replicas={num_replicas} and rank={rank} must both be given; write "
                "DistributedSampler(dataset, num_replicas=1, rank=0)"
            )
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else -(-size // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        if self.shuffle:
            generator = Generator("cpu").manual_seed(self.seed + self.epoch)
            order = permutation(next_key(generator, "cpu"), size).tolist()
        else:
            order = list(range(size))
        while order and len(order) < self.total_size:
            order += order[: self.total_size - len(order)]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes: it has an order of its own."""
        self.epoch = epoch
