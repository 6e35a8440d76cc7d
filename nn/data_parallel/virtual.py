"""Virtual ranks: each process computes micro-batches that stand for ranks, with their bits.

Of V virtual ranks a process of P has V / P, one behind the other. What V processes would have apart
is apart here: each micro-batch begins with the same buffers and gradients, and draws as a lane of
its own. Gradients are added by pairs in the order of virtual ranks, of which a process has a whole
branch, so that the tree of sums is the same on any number of processes:

    V = 4, P = 2     rank 0: g0 + g1     rank 1: g2 + g3     all: (g0 + g1) + (g2 + g3)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fx import tree
from fx.config import modes, no_grad
from fx.distributed import staged
from fx.distributed.errors import DistError
from fx.distributed.ordered import ordered_sum, widened
from fx.errors import ArgumentError, ShapeError
from fx.nn.data_parallel.values import NAME
from fx.random import lane
from fx.tensor import Tensor

WRITE = f"write `for x, y in model.micro_batches(x, y):` around the passes of a {NAME}"


class VirtualRanks:
    """The micro-batches of a process.

    Args:
        count: how many virtual ranks there are.
        group: the processes.

    Raises:
        ArgumentError: if a process would not have a whole branch of the tree of sums.

    Attributes:
        each: how many a process has.
        number: the one that runs, of those here; None between steps.
    """

    def __init__(self, count: int, group: Any) -> None:
        size = group.size()
        if type(count) is not int or count < 1:
            raise ArgumentError(f"{NAME}: virtual_ranks is a positive int, got {count!r}")
        fits = [p for p in range(1, count + 1) if not count % p and _is_power(count // p)]
        if size not in fits:
            raise ArgumentError(
                f"{NAME}: {count} virtual ranks have the same bits on {', '.join(map(str, fits))} "
                f"processes, of which each adds a whole branch of the tree; the group has {size}"
            )
        self.count, self.each, self.group = count, count // size, group
        self.first = group.rank() * self.each
        # one that only has shapes has nobody else's gradients
        self.terms = count if staged.moves(group) else self.each
        self.number: int | None = None
        # whether the micro-batch that runs has had its forward pass, and waits for gradients
        self.passed = self.waits = False
        self._grads: list[Any] = []  # with which each micro-batch begins
        self._buffers: list[Any] = []
        self._sums: list[list[Tensor]] = []  # for each parameter sums of 2^k micro-batches

    @property
    def last(self) -> bool:
        """Whether this is the last one of a step."""
        return self.number == self.each - 1

    def turns(self, batch: Any) -> Iterator[Any]:
        """The parts of a batch, one a micro-batch, while it runs."""
        if self.number is not None:
            raise DistError(f"{NAME}.micro_batches: those of the step before are not through")
        leaves = [x for x in tree.leaves(batch) if isinstance(x, Tensor)]
        lengths = {x.shape[0] if x.ndim else None for x in leaves}
        if len(lengths) != 1 or None in lengths or lengths.pop() % self.each:
            raise ShapeError(
                f"{NAME}.micro_batches: tensors need one length that divides by the {self.each} "
                f"virtual ranks of this process, got {[x.shape for x in leaves]}"
            )
        for j in range(self.each):
            with self._turn(j):
                yield tree.map(lambda x, j=j: _part(x, j, self.each), batch)

    @contextmanager
    def _turn(self, j: int) -> Iterator[None]:
        self.number, self.passed, self.waits = j, False, False
        try:
            with _Lane(self, j):
                yield
            if not self.passed or self.waits:
                missing = "backward" if self.passed else "forward"
                raise DistError(f"{NAME}.micro_batches: a micro-batch needs its {missing} pass")
        finally:
            self.number = None

    # a pass ---------------------------------------------------------------------------------------

    def begin(self, params: list[Any], buffers: list[Any]) -> None:
        """A forward pass begins: let it find what the first one of the step did."""
        if self.number is None or self.passed:
            raise DistError(
                f"{NAME} has virtual ranks, and each micro-batch one forward and one backward "
                f"pass: {WRITE}"
            )
        self.passed = self.waits = True
        if self.number == 0:
            self._grads = [None if p.grad is None else value_of(p.grad) for p in params]
            self._sums = [[] for _ in params]
            self._buffers = [value_of(b) for b in buffers]
        else:
            _give(buffers, self._buffers)

    def end(self, buffers: list[Any]) -> None:
        """A forward pass is through: the buffers of the first one stay, as those of a rank do."""
        if self.number == 0:
            self._after = [value_of(b) for b in buffers]
        if self.last:
            _give(buffers, self._after)

    def add(self, params: list[Any]) -> None:
        """The gradients of a micro-batch that is not the last one are there: keep them."""
        self.waits = False
        for i, (p, before) in enumerate(zip(params, self._grads)):
            self._keep(i, p)
            with no_grad():
                if before is None:
                    p.grad = None
                else:
                    p.grad._renew("add", before)

    def sum_of(self, i: int, p: Any) -> Tensor:
        """The sum of a parameter's gradients over the micro-batches here, behind the last one."""
        self._keep(i, p)
        (found,) = self._sums[i]
        self._sums[i] = []
        return found

    def _keep(self, i: int, p: Any) -> None:
        with no_grad():
            x, sums = widened(value_of(p.grad)), self._sums[i]
            assert self.number is not None
            n = self.number
            while n & 1:  # as a carry: two sums of 2^k are one of 2^(k+1)
                x, n = ordered_sum(sums.pop(), x), n >> 1
            sums.append(x)


class _Lane(lane):
    """What a virtual rank draws as. Compiled code, which serves every rank, computes its number."""

    __slots__ = ("_j", "_ranks")

    def __init__(self, ranks: VirtualRanks, j: int) -> None:
        super().__init__(ranks.first + j)
        self._ranks, self._j = ranks, j

    def index(self, device: str) -> Tensor:
        ranks = self._ranks
        if modes.stage is None or device != "cpu" or not staged.moves(ranks.group):
            return super().index(device)
        with no_grad():
            return staged.index_of(ranks.group) * ranks.each + self._j


def value_of(place: Any) -> Tensor:
    """What a parameter's gradient, or a buffer, holds."""
    return staged.value_of(place, NAME) if modes.stage is not None else place.read()


def _give(cells: list[Any], values: list[Any]) -> None:
    with no_grad():
        for c, value in zip(cells, values):
            c._renew("virtual ranks", value)


def _part(x: Any, j: int, each: int) -> Any:
    """Rows j, j + each, ... of what has rows."""
    if not isinstance(x, Tensor) or each == 1:
        return x
    return x.reshape((x.shape[0] // each, each, *x.shape[1:]))[:, j]


def _is_power(n: int) -> bool:
    return not n & (n - 1)
