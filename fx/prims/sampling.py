"""Draw: what a primitive's sampler draws its arguments with.

The laws hand in a ``random.Random`` that hypothesis controls, so failing cases shrink.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from fx.slotted import slotted


@slotted()
class Sample:
    """Arguments of one call: NumPy arrays and static parameters.

    ``fixed`` names floating arguments that have no derivative (an order, a count). ``seen`` makes
    of the primitive, as a function of tensors, the one that derivatives and precision are judged
    by, where arguments are constrained (symmetric) or results are free (the sign of an
    eigenvector).
    """

    args: list[np.ndarray]
    params: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[int, ...] = ()
    seen: Callable[[Any], Any] | None = None


class Draw:
    """Random shapes, values and choices for a sampler.

    Args:
        source: where choices come from.
        dtype: the floating dtype of the values.
        stretch: how many times as long axes may be as the sampler says.
    """

    def __init__(self, source: random.Random, dtype: Any = np.float64, stretch: int = 1) -> None:
        self.source, self.stretch = source, stretch
        self.dtype = np.dtype(dtype)
        self._numpy = np.random.default_rng(source.getrandbits(32))

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return self.source.randint(low, high)

    def choice(self, options: Sequence[Any]) -> Any:
        """One of the options."""
        return options[self.source.randint(0, len(options) - 1)]

    def flag(self) -> bool:
        """True or False."""
        return bool(self.source.randint(0, 1))

    def shape(self, min_ndim: int = 0, max_ndim: int = 3, low: int = 1, high: int = 4) -> tuple:
        """A shape with min_ndim..max_ndim axes of low..high."""
        rank = self.integer(min_ndim, max_ndim)
        return tuple(self.integer(low, high * self.stretch) for _ in range(rank))

    def broadcastable(self, shape: tuple) -> tuple:
        """A shape that broadcasts to ``shape``: axes dropped from the left, some made 1."""
        kept = shape[self.integer(0, len(shape)) :]
        return tuple(1 if self.integer(0, 3) == 0 else n for n in kept)

    def axis(self, ndim: int) -> int:
        """An axis in [0, ndim)."""
        return self.integer(0, ndim - 1)

    def axes(self, ndim: int) -> tuple:
        """A sorted tuple of distinct axes, perhaps empty."""
        return tuple(i for i in range(ndim) if self.flag())

    def floats(self, shape: tuple = (), low: float = -2.0, high: float = 2.0) -> np.ndarray:
        """Uniform values."""
        return self._numpy.uniform(low, high, shape).astype(self.dtype)

    def away_from(self, point: float, shape: tuple = (), gap: float = 0.1, reach: float = 2.0):
        """Values on both sides of ``point``, none nearer than ``gap``: for kinks."""
        offset = self._numpy.uniform(gap, reach, shape)
        sign = self._numpy.choice([-1.0, 1.0], shape)
        return (point + sign * offset).astype(self.dtype)

    def distinct(self, shape: tuple, gap: float = 0.1) -> np.ndarray:
        """Values no two of which are nearer than ``gap``: for max, sort and their like."""
        n = int(np.prod(shape))
        return ((self._numpy.permutation(n) - n / 2) * gap).reshape(shape).astype(self.dtype)

    def integers(self, shape: tuple, low: int, high: int, dtype: Any = np.int64) -> np.ndarray:
        """Integers in [low, high)."""
        return self._numpy.integers(low, high, shape).astype(dtype)

    def permutation(self, n: int) -> np.ndarray:
        """A permutation of range(n), int64."""
        return self._numpy.permutation(n)

    def bools(self, shape: tuple) -> np.ndarray:
        """Booleans."""
        return self._numpy.integers(0, 2, shape).astype(bool)
