"""The generator: a cell with a seed and a count of calls, from which every draw takes a new key."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fx import forking
from fx.config import default_device, modes
from fx.devices import backend
from fx.dtypes import uint32
from fx.errors import DTypeError, ShapeError
from fx.ops.convert import as_tensor, to_device
from fx.ops.operands import argument
from fx.prims.random import KEY_WORDS
from fx.prims.random import next_key as following
from fx.random.keys import seed_words
from fx.random.lanes import enter_lanes, take
from fx.state import Cell
from fx.tensor import Tensor, _blank, new_tensor

_SEED = 67280421310721  # of a new generator, as in PyTorch
with_next_key = backend("cpu").small_draws()  # keys lie on the host


class Generator:
    """A source of random numbers with a state: what ``generator=`` takes.

    Every draw takes the next call index, atomically, so threads that share a generator never draw
    the same numbers. For numbers that do not depend on how threads interleave, give each thread a
    generator of its own (``fx.random.using``).

    Args:
        device: the device of what is drawn; None is the default device at the time of the draw.

    Example:
        >>> import fx
        >>> g = fx.Generator().manual_seed(0)
        >>> first = fx.rand(2, generator=g)
        >>> bool((first == fx.rand(2, generator=g.manual_seed(0))).all())
        True
    """

    __slots__ = ("__weakref__", "_device", "_lock", "calls", "cell", "seeded")

    def __init__(self, device: Any = None) -> None:
        self._device = device
        self._lock = forking.lasting(threading.Lock())
        self.calls = 0  # draws so far, for lanes to see whether somebody else drew
        self.seeded = 0  # how often the state was set from outside
        self.cell = Cell(_state(_SEED), name="generator")

    def advance(self) -> Tensor:
        """The key of this draw; the state moves on to the next."""
        with self._lock:
            cell = self.cell
            key = cell.value
            if type(key) is Tensor and modes.stage is None and modes.journal is None:
                held = new_tensor(following.cpu(key._a))
                cell.value = held  # what a rebind comes to, of a plain value without a leaf
            else:
                key = cell.read()
                cell.rebind(following(key))
            self.calls += 1
        return key

    def draw(
        self, family: str, shape: tuple[int, ...], dtype: Any, more: tuple[int, ...] = ()
    ) -> Tensor | None:
        """A small draw of the CPU's, whose kernel moves the state on as well; None for others."""
        if self._device is not None:
            return None
        array = self.draw_into(None, family, shape, dtype, more)
        if array is None:
            return None
        out = _blank()
        out._a = array
        out._node = out._noted = None
        return out

    def draw_into(
        self, out: Any, family: str, shape: tuple[int, ...], dtype: Any, more: tuple[int, ...] = ()
    ) -> Any:
        """The same of the host, as an array: ``out``, or a new one where that is None."""
        now = modes.__dict__  # one look at what the thread has: an attribute of it costs as much
        if now["lanes"] or not (now["stage"] is now["journal"] is now["turn"] is None):
            return None
        with self._lock:
            cell = self.cell
            key = cell.value
            if type(key) is not Tensor:
                return None
            found = with_next_key(key._a, family, shape, dtype, more, out)
            if found is None:
                return None
            held = _blank()
            out, held._a = found
            held._node = held._noted = None
            cell.value = held
            self.calls += 1
        return out

    def manual_seed(self, seed: int) -> Generator:
        """Start over from a seed in [-2 ** 63, 2 ** 64); returns the generator itself."""
        self.set_state(_state(seed))
        return self

    def seed(self) -> int:
        """Start over from a seed that the operating system picks; returns that seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that the generator was last started from."""
        low, high = self.cell.read()._a[:2].tolist()
        return low | high << 32

    def get_state(self) -> Tensor:
        """The state, uint32 (6,): the key of the next draw."""
        return self.cell.read()

    def set_state(self, state: Tensor) -> None:
        """Go on from a state that ``get_state`` gave.

        Raises:
            DTypeError, ShapeError: if it is no such state.
        """
        state = argument("set_state", state)
        if state._dtype != uint32 or state._shape != (KEY_WORDS,):
            kind = DTypeError if state._dtype != uint32 else ShapeError
            raise kind(
                f"set_state: a state is uint32 of shape ({KEY_WORDS},), got {state.dtype.name} "
                f"{state.shape}; pass what generator.get_state() or fx.get_rng_state() gave"
            )
        if modes.transaction is not None:
            modes.transaction.rebind(self.cell, state)
            modes.transaction.set(self, "seeded", self.seeded + 1)
            return
        with self._lock:
            self.cell.rebind(state)
            self.seeded += 1

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        other = Generator(self._device)
        other.set_state(self.get_state())
        return other

    @property
    def device(self) -> Any:
        """The device of what is drawn; None is the default device at the time of the draw."""
        return self._device

    def __reduce__(self) -> Any:
        return _restored, (self._device, self.get_state())

    def __repr__(self) -> str:
        return f"<Generator seed={self.initial_seed()} calls={self.calls}>"


def _state(seed: int) -> Tensor:
    return as_tensor([*seed_words("manual_seed", seed), 0, 0, 0, 0], uint32, "cpu")


def _restored(device: Any, state: Tensor) -> Generator:
    generator = Generator(device)
    generator.set_state(state)
    return generator


default_generator = Generator()
default_generator.seed()


class _Current(threading.local):
    generator: Generator = default_generator


_current = _Current()


def current_generator() -> Generator:
    """The generator that this thread draws from: the default one, or that of ``using``."""
    return _current.generator


@contextmanager
def using(generator: Generator) -> Iterator[Generator]:
    """Draw from another generator within the block, in this thread.

    Example:
        >>> import fx
        >>> with fx.random.using(fx.Generator().manual_seed(1)):
        ...     x = fx.rand(2)
        >>> bool((x == fx.rand(2, generator=fx.Generator().manual_seed(1))).all())
        True
    """
    saved = _current.generator
    _current.generator = as_generator("using", generator)
    try:
        yield generator
    finally:
        _current.generator = saved


def as_generator(name: str, generator: Any) -> Generator:
    """The ``generator=`` argument; None is the current generator.

    Raises:
        DTypeError: if it is something else.
    """
    if generator is None:
        return _current.generator
    if not isinstance(generator, Generator):
        raise DTypeError(
            f"{name}: generator must be an fx.Generator, got {type(generator).__name__}; "
            f"write fx.Generator().manual_seed(0)"
        )
    return generator


def next_key(generator: Generator | None = None, device: Any = None) -> Tensor:
    """A new key from a generator, for the samplers that take keys.

    Inside ``vmap`` every lane gets a key of its own.

    Args:
        generator: None is the current generator.
        device: the device of the key; None is the generator's or the default device.

    Returns:
        uint32 (6,).

    Example:
        >>> import fx
        >>> generator = fx.manual_seed(0)
        >>> key = fx.random.next_key()
        >>> bool(
        ...     (fx.random.normal(key, 3) == fx.randn(3, generator=generator.manual_seed(0))).all()
        ... )
        True
    """
    source = _current.generator if generator is None else as_generator("next_key", generator)
    key = source.advance() if modes.turn is None else take(source)
    where = source._device if device is None else device
    if (default_device() if where is None else getattr(where, "name", where)) != "cpu":
        key = to_device(key, where)
    return enter_lanes(key) if modes.lanes else key


def manual_seed(seed: int) -> Generator:
    """Seed the current generator: what follows draws the same numbers in every run.

    Args:
        seed: an int in [-2 ** 63, 2 ** 64).

    Returns:
        the generator.

    Raises:
        DTypeError: if the seed is no integer.
        ValueError: if it does not fit 64 bits.

    Example:
        >>> import fx
        >>> _ = fx.manual_seed(0)
        >>> fx.rand(2)
        tensor([0.7945, 0.3131])
    """
    return _current.generator.manual_seed(seed)


def seed() -> int:
    """Seed the current generator with a number that the operating system picks; returns it.

    Example:
        >>> import fx
        >>> fx.seed() == fx.initial_seed()
        True
    """
    return _current.generator.seed()


def initial_seed() -> int:
    """The seed that the current generator was last started from.

    Example:
        >>> import fx
        >>> _ = fx.manual_seed(7)
        >>> fx.initial_seed()
        7
    """
    return _current.generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the current generator, uint32 (6,).

    Example:
        >>> import fx
        >>> state = fx.get_rng_state()
        >>> first = fx.rand(2)
        >>> fx.set_rng_state(state)
        >>> bool((fx.rand(2) == first).all())
        True
    """
    return _current.generator.get_state()


def set_rng_state(state: Tensor) -> None:
    """Go on from a state that ``get_rng_state`` gave.

    Raises:
        DTypeError, ShapeError: if it is no such state.

    Example:
        >>> import fx
        >>> fx.set_rng_state(fx.get_rng_state())
    """
    _current.generator.set_state(state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Leave the state of the current generator as it was before the block.

    Args:
        devices: accepted as in PyTorch; one generator serves all devices.
        enabled: False makes the block do nothing.

    Example:
        >>> import fx
        >>> before = fx.get_rng_state()
        >>> with fx.random.fork_rng():
        ...     x = fx.rand(2)
        >>> bool((fx.get_rng_state() == before).all())
        True
    """
    generator = _current.generator
    state = generator.get_state()
    try:
        yield
    finally:
        if enabled:
            generator.set_state(state)
