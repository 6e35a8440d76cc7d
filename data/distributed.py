"""The sampler of one of several processes that train together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fx.data.sampler import Sampler
from fx.errors import StateError
from fx.random import Generator, next_key, permutation


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th index, from ``rank`` on, of an order that all replicas share.

    Call ``set_epoch(epoch)`` before each epoch: the order follows from ``seed + epoch``. A
    ``DataLoader`` resumes with it in the middle of an epoch, also with another number of replicas:
    what is left is shared out among those.

    Args:
        dataset: what has a length.
        num_replicas: how many processes train together; None: as many as the process group has.
        rank: which of them this is, in [0, num_replicas); None: that of the process group.
        shuffle: whether the order is random.
        seed: of the order; the same in all processes.
        drop_last: leave out what does not divide by ``num_replicas``, instead of repeating the
            first indices.
        virtual_ranks: let ``num_replicas`` stand for so many: each has the indices of its virtual
            ranks side by side, as ``DistributedDataParallel.micro_batches`` cuts them. A batch is
            of the same samples however many processes share it.

    Raises:
        ValueError: if ``num_replicas`` or ``rank`` is missing and there is no process group that
            could tell, ``rank`` is not in [0, num_replicas), or virtual ranks do not divide by
            ``num_replicas``.

    Example:
        >>> import fx
        >>> sampler = fx.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        >>> list(sampler)
        [1, 3, 0]
        >>> sampler = fx.data.DistributedSampler(range(8), 2, 1, shuffle=False, virtual_ranks=4)
        >>> list(sampler)
        [2, 3, 6, 7]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        *,
        virtual_ranks: int | None = None,
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
        ranks = num_replicas if virtual_ranks is None else virtual_ranks
        if ranks < 1 or ranks % num_replicas:
            raise ValueError(
                f"DistributedSampler: virtual_ranks={ranks} does not divide by {num_replicas} "
                f"replicas"
            )
        self._each = ranks // num_replicas  # virtual ranks of a replica
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        size = len(dataset)
        self.num_samples = (size // ranks if drop_last else -(-size // ranks)) * self._each
        self.total_size = self.num_samples * num_replicas
        self._start = 0  # where the next iteration begins in the order of all replicas
        self._passed = 0  # what the running one has given out, in that order
        self._turn = 0  # iterations so far

    def __iter__(self) -> Iterator[int]:
        start, self._start = self._start, 0
        self._passed, self._turn = start, self._turn + 1
        order, each = self._order(start), self._each
        turns = range(self.rank * each, len(order), self.num_replicas * each)
        return self._given([i for at in turns for i in order[at : at + each]], self._turn)

    def _given(self, indices: list[int], turn: int) -> Iterator[int]:
        """An iteration; while it lives, and no later one has begun, it says how far it is."""
        try:
            for index in indices:
                if turn == self._turn:
                    self._passed += self.num_replicas
                yield index
        finally:
            if turn == self._turn:
                self._passed = 0

    def _order(self, start: int) -> list[int]:
        """What is left for all replicas, a number that divides among them."""
        size = len(self.dataset)
        if self.shuffle:
            generator = Generator("cpu").manual_seed(self.seed + self.epoch)
            order = permutation(next_key(generator, "cpu"), size).tolist()
        else:
            order = list(range(size))
        left, n = max(size - start, 0), self.num_replicas * self._each
        end = start + (left // n if self.drop_last else -(-left // n)) * n
        while order and len(order) < end:
            order += order[: end - len(order)]
        return order[start:end]

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes: it has an order of its own."""
        if epoch != self.epoch:
            self._start = self._passed = 0
        self.epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Where the running iteration stands, the same in all replicas: small, plain data."""
        about = {"seed": self.seed, "shuffle": self.shuffle, "size": len(self.dataset)}
        return {"epoch": self.epoch, "passed": self._start or self._passed, **about}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next iteration go on where the state was taken.

        Raises:
            StateError: if the state is of another order.
        """
        about = {"seed": self.seed, "shuffle": self.shuffle, "size": len(self.dataset)}
        for name, here in about.items():
            if name not in state_dict or state_dict[name] != here:
                raise StateError(
                    f"DistributedSampler.load_state_dict: the state has {name}="
                    f"{state_dict.get(name)!r}, this sampler {here!r}; make it as it was made then"
                )
        self.epoch = state_dict["epoch"]
        self._start = self._passed = state_dict["passed"]
