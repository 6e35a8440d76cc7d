"""Position: where in an epoch a loop stands, and how another loop goes on from there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fx.data.loading.seeding import ORDER, fold_in, generator_of, key_of, words
from fx.errors import StateError
from fx.random import Generator, next_key, using

VERSION = 1


class Position:
    """What was given out in one epoch: small plain data, and nothing of what was only fetched.

    Attributes:
        epoch: how many epochs have begun, this one included.
        key: the key from which the epoch's random numbers follow.
        batches: how many batches were given out in one piece from the beginning.
        ahead: the numbers of those beyond that (``in_order=False``).
        replay: how the samplers' own generators stood when the epoch began.
        sampler: the state of a stateful sampler after ``batches``.
        streams: for each worker of a stream how many batches were given out, the state of its
            dataset, whether it has ended.
        turn: the worker whose stream is next.
        done: whether the epoch has ended.
    """

    def __init__(self, epoch: int, key: list[int]) -> None:
        self.epoch = epoch
        self.key = key
        self.batches = 0
        self.ahead: list[int] = []
        self.replay: list[Any] = []
        self.sampler: Any = None
        self.streams: list[dict[str, Any]] = []
        self.turn = 0
        self.done = False
        self._states: dict[int, Any] = {}

    def given(self, number: int, state: Any) -> None:
        """Batch ``number`` was given out; ``state`` is the sampler's after it."""
        if number == self.batches and not self.ahead:  # as long as they come in order
            self.batches, self.sampler = number + 1, state
            return
        self.ahead.append(number)
        self.passed(number, state)
        while self.batches in self.ahead and self.batches in self._states:
            self.ahead.remove(self.batches)
            self.sampler = self._states.pop(self.batches)
            self.batches += 1

    def passed(self, number: int, state: Any) -> None:
        """The sampler has passed batch ``number``, and its state after it is known."""
        self._states[number] = state

    def state(self) -> dict[str, Any]:
        """What ``load_state_dict`` takes."""
        if self.done:
            return {"epoch": self.epoch, "key": None, "batches": 0}
        return {
            "epoch": self.epoch,
            "key": list(self.key),
            "batches": self.batches,
            "ahead": sorted(self.ahead),
            "replay": list(self.replay),
            "sampler": self.sampler,
            "streams": [dict(stream) for stream in self.streams],
            "turn": self.turn,
        }

    @staticmethod
    def of(state: dict[str, Any]) -> Position | None:
        """The position that a state describes; None between epochs."""
        if state["key"] is None:
            return None
        out = Position(state["epoch"], list(state["key"]))
        for name in ("batches", "ahead", "replay", "sampler", "streams", "turn"):
            value = state[name]
            setattr(out, name, list(value) if isinstance(value, list) else value)
        out.streams = [dict(stream) for stream in out.streams]
        return out


class Order:
    """The tasks of an epoch: the numbers of batches and their indices.

    Args:
        loader: whose samplers are asked.
        position: where to begin; a new epoch's is completed.
        resumed: whether the position is that of an epoch that has begun elsewhere.
    """

    def __init__(self, loader: Any, position: Position, resumed: bool) -> None:
        source = loader.index_sampler
        samplers = [source, getattr(source, "sampler", None)]
        stateful = [s for s in samplers if _stateful(s)]
        own = [g for g in map(_generator, samplers) if g is not None]
        self._sampler = stateful[0] if stateful else None
        self._generator = generator_of(fold_in(key_of(position.key), ORDER))
        self._number = 0
        self._position = position
        self._skip = set(position.ahead)
        if resumed and len(position.replay) != len(own):
            raise StateError(
                f"DataLoader.load_state_dict: the state has {len(position.replay)} generators of "
                f"samplers, this loader has {len(own)}; make the loader as it was made then"
            )
        if resumed:
            for generator, state in zip(own, position.replay):
                generator.set_state(key_of(state))
        else:
            position.replay = [words(generator.get_state()) for generator in own]
        with using(self._generator):
            if self._sampler is None:
                self._tasks: Iterator[Any] = iter(source)
                self._pass(position.batches)
            else:
                if resumed:
                    self._sampler.load_state_dict(position.sampler)
                    self._number = position.batches
                else:
                    position.sampler = self._sampler.state_dict()
                self._tasks = iter(source)

    def _pass(self, batches: int) -> None:
        for _ in range(batches):
            if next(self._tasks, self) is self:
                raise StateError(
                    f"DataLoader.load_state_dict: {batches} batches were given out in the epoch "
                    f"to resume, but the sampler gives only {self._number}; make the loader as it "
                    f"was made then"
                )
            self._number += 1

    def __next__(self) -> tuple[int, Any, Any]:
        """The number of a batch, its indices, and the sampler's state after it."""
        while True:
            with using(self._generator):
                indices = next(self._tasks)
                state = None if self._sampler is None else self._sampler.state_dict()
            number = self._number
            self._number += 1
            if number not in self._skip:
                return number, indices, state
            self._position.passed(number, state)


def _stateful(sampler: Any) -> bool:
    return callable(getattr(sampler, "state_dict", None)) and callable(
        getattr(sampler, "load_state_dict", None)
    )


def _generator(sampler: Any) -> Generator | None:
    found = getattr(sampler, "generator", None)
    return found if isinstance(found, Generator) else None


def begun(loader: Any, resume: dict[str, Any] | None) -> tuple[Position, bool]:
    """The position of an epoch that begins or goes on, and whether it goes on."""
    found = None if resume is None else Position.of(resume)
    if found is not None:
        return found, True
    epoch = 1 + (loader.epochs if resume is None else resume["epoch"])
    return Position(epoch, words(next_key(loader.generator, "cpu"))), False
