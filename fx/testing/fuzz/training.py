"""Small models in training: interrupted at random instants, read by other threads meanwhile."""

from __future__ import annotations

import io
import random
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fx
from fx.testing.fuzz.compare import unchanged_modes
from fx.testing.fuzz.outcomes import Found, Invalid

STEPS = 50
SECONDS = 20.0  # after which threads are taken to wait for each other
Layers = Callable[[], list[Any]]
Snapshot = dict[str, bytes]


class Hit(Exception):
    """What the signal handler raises."""


class Striker:
    """Lets calls be hit: a signal raises ``Hit`` at a random instant of each, and never after it.

    The signal may come late: where another thread of the process gets it, Python hears of it when
    that thread has run.

    Args:
        rng: of the instants.
        took: the seconds that a call takes, among which they are drawn.
    """

    def __init__(self, rng: random.Random, took: float) -> None:
        self.rng, self.took, self.armed = rng, took, False

    def __enter__(self) -> Striker:
        self.before = signal.signal(signal.SIGALRM, self._hit)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)

    def _hit(self, *_: object) -> None:
        if self.armed:
            self.armed = False
            raise Hit

    def strike(self, call: Callable[..., Any], *args: Any) -> None:
        """Call, and return whether it came to its end or was hit."""
        try:
            self.armed = True
            signal.setitimer(signal.ITIMER_REAL, max(self.rng.random() * self.took, 1e-6))
            call(*args)
            self.armed = False
        except Hit:
            pass
        finally:
            self.armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)


class World:
    """A model, its optimizer and a step.

    Args:
        layers: makes the layers.
        optimizer: makes the optimizer of parameters.
        how: "jit" for a compiled step, "eager", or "backward" for a plain one of a jitted loss.
    """

    def __init__(self, layers: Layers, optimizer: Callable[[Any], Any], how: str) -> None:
        fx.manual_seed(3)
        self.model = fx.nn.Sequential(*layers())
        self.optimizer = optimizer(list(self.model.parameters()))
        self.x = fx.random.normal(fx.random.key(1), (96, 64))

        def loss(x: Any) -> Any:
            return (self.model(x) ** 2).mean()

        inner = fx.jit(loss) if how == "backward" else loss

        def step(x: Any) -> Any:
            self.optimizer.zero_grad()
            out = inner(x)
            out.backward()
            self.optimizer.step()
            return out

        self.step = fx.jit(step) if how == "jit" else step

    def snapshot(self) -> Snapshot:
        """The bytes of parameters and of the optimizer's state."""
        out = {k: _bytes(v) for k, v in self.model.state_dict().items()}
        for i, slots in self.optimizer.state_dict()["state"].items():
            out |= {f"{i}.{name}": _bytes(v) for name, v in slots.items()}
        return out


def _bytes(value: Any) -> bytes:
    if isinstance(value, fx.Tensor):
        return np.asarray(value.detach()).tobytes()
    return repr(value).encode()


def _is_begun(slot: str, state: Snapshot) -> bool:
    """Whether a slot holds what it begins with: zeros, or anything while no step is counted."""
    steps = state.get(f"{slot.partition('.')[0]}.step", state[slot])
    return not steps.strip(b"\0")


def _path(layers: Layers, optimizer: Callable[[Any], Any], how: str) -> list[Snapshot]:
    """The states of a training that nobody disturbs."""
    calm = World(layers, optimizer, how)
    out = [calm.snapshot()]
    try:
        for _ in range(STEPS):
            calm.step(calm.x)
            out.append(calm.snapshot())
    except Exception as error:
        raise Invalid(str(error)) from error
    return out


def interrupted(
    layers: Layers, optimizer: Callable[[Any], Any], how: str, seed: int, hits: int, calm: int = 4
) -> None:
    """Raise in steps, at random instants: each happened whole or not at all.

    Args:
        calm: how many steps come before; without, functions are hit while they are staged.

    Raises:
        Found: if a state is neither that before the step nor that after it.
    """
    rng = random.Random(seed)
    path = _path(layers, optimizer, how)
    world = World(layers, optimizer, how)
    at = 0
    took = 1.0
    for _ in range(calm):
        start = time.perf_counter()
        world.step(world.x)
        took, at = min(took, time.perf_counter() - start), at + 1

    with Striker(rng, took) as striker, unchanged_modes():
        for _ in range(hits):
            if at + 1 >= len(path):
                return
            if not calm:
                striker.took = rng.choice((0.25, 0.05, 0.01, 0.002))
            striker.strike(world.step, world.x)
            state = world.snapshot()
            if not at and state != path[1]:  # slots that are begun are as those that are not there
                state = {k: v for k, v in state.items() if k in path[0] or not _is_begun(k, state)}
            if state == path[at + 1]:
                at += 1
            elif state != path[at]:
                wrong = [k for k in state if state[k] not in (path[at].get(k), path[at + 1].get(k))]
                raise Found(f"after a hit in step {at} the state is a mixture; wrong: {wrong}")


def interrupted_load(
    layers: Layers, optimizer: Callable[[Any], Any], what: str, seed: int, hits: int
) -> None:
    """Raise in loads, at random instants: each happened whole or not at all.

    Args:
        layers: makes the layers.
        optimizer: makes the optimizer of parameters.
        what: "module", "optimizer" or "restore", which loads one of two states in turn; or "to",
            which casts from one of two dtypes to the other.
        seed: of the instants.
        hits: how many.

    Raises:
        Found: if a state is neither that before the load nor that after it.
    """
    rng = random.Random(seed)
    _path(layers, optimizer, "eager")  # whether it trains at all
    world = World(layers, optimizer, "eager")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = fx.Checkpoint(folder)
        loads = []
        for number in (0, 1):
            world.step(world.x)
            model, held = world.model.state_dict(), world.optimizer.state_dict()
            checkpoint.save(step=number, model=world.model, optimizer=world.optimizer)
            loads.append({
                "module": lambda model=model: world.model.load_state_dict(model),
                "optimizer": lambda held=held: world.optimizer.load_state_dict(held),
                "restore": lambda number=number: checkpoint.restore(
                    number, model=world.model, optimizer=world.optimizer
                ),
                "to": lambda number=number: world.model.to((fx.float64, fx.float32)[number]),
            }[what])  # fmt: skip
        _hit_each(world, loads, rng, hits)


def _hit_each(world: World, loads: list[Any], rng: random.Random, hits: int) -> None:
    states, took = [], 1.0
    for turn in (0, 1, 0, 1):
        start = time.perf_counter()
        loads[turn]()
        took = min(took, time.perf_counter() - start)
        states.append(world.snapshot())
    at = 1

    with Striker(rng, took) as striker, unchanged_modes():
        for _ in range(hits):
            striker.strike(loads[1 - at])
            state = world.snapshot()
            if state not in states[2:]:
                raise Found("after a hit in a load the state is a mixture")
            at = states.index(state, 2) - 2


def read_meanwhile(
    layers: Layers, optimizer: Callable[[Any], Any], how: str, readers: Sequence[str]
) -> None:
    """Read a model in threads while another trains it: what was read is a value, and whole.

    Raises:
        Found: if a snapshot changes afterwards, or a tensor was in no state of the training.
    """
    path = _path(layers, optimizer, how)
    known: dict[str, set[bytes]] = {}
    for state in path:
        for key, data in state.items():
            known.setdefault(key, set()).add(data)
    world = World(layers, optimizer, how)
    world.step(world.x)
    taken: list[tuple[str, Any, bytes]] = []
    errors: list[BaseException] = []
    over = threading.Event()

    def read(kind: str) -> None:
        try:
            while not over.is_set():
                for name, value in _read(world, kind):
                    taken.append((name, value, _bytes(value)))
                time.sleep(0.0005)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(kind,), daemon=True) for kind in readers]
    for thread in threads:
        thread.start()
    try:
        for _ in range(STEPS - 1):
            world.step(world.x)
            time.sleep(0.0005)
    finally:
        over.set()
    _join(threads)
    if errors:
        raise Found(f"a reader fails: {type(errors[0]).__name__}: {errors[0]}") from errors[0]
    for name, value, data in taken:
        if _bytes(value) != data:
            raise Found(f"a snapshot of {name} has changed")
        if name in known and data not in known[name]:
            raise Found(f"a snapshot of {name} was in no state of the training")


def _read(world: World, kind: str) -> list[tuple[str, Any]]:
    """What one reader takes, by name."""
    if kind == "state_dict":
        return list(world.model.state_dict().items())
    if kind == "detach":
        return [(k, p.detach()) for k, p in world.model.named_parameters()]
    if kind == "clone":
        return [(k, p.data.clone()) for k, p in world.model.named_parameters()]
    if kind == "optimizer":
        states = world.optimizer.state_dict()["state"]
        return [(f"{i}.{k}", v) for i, slots in states.items() for k, v in slots.items()]
    if kind == "save":
        file = io.BytesIO()
        fx.save(world.model.state_dict(), file)
        return list(fx.load(file).items())
    with fx.no_grad():
        return [("an output", world.model(world.x))]


def call_each_other(calls: Sequence[tuple[int, int]], threads: int) -> None:
    """Jitted functions that call each other, for the first time, in several threads at once.

    Args:
        calls: pairs of numbers from 0 to 2: the first calls the second.
        threads: how many there are; each begins with another function.

    Raises:
        Found: if they do not end, or give something else than plain functions.
    """

    def family(jitted: bool) -> list[Callable[[Any], Any]]:
        made: list[Callable[[Any], Any]] = []
        for i in range(3):
            called = [b for a, b in calls if a == i]

            def plain(x: Any, i: int = i, called: list[int] = called) -> Any:
                out = fx.sin(x) + i
                for b in called:
                    out = out + made[b](x * 0.5)
                return out

            made.append(fx.jit(plain) if jitted else plain)
        return made

    x = fx.arange(5.0)
    want = [np.asarray(f(x)) for f in family(False)]
    fast = family(True)
    got: list[Any] = []
    barrier = threading.Barrier(threads)

    def run(number: int) -> None:
        try:
            barrier.wait()
            for k in range(3):
                which = (number + k) % 3
                got.append((which, np.asarray(fast[which](x))))
        except BaseException as error:
            got.append((number, error))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(threads)]
        for thread in started:
            thread.start()
        _join(started)
    for which, value in got:
        if isinstance(value, BaseException) or not np.allclose(value, want[which], rtol=1e-5):
            raise Found(f"function {which} gave {value!r}, expected {want[which]!r}")


def _join(threads: Sequence[threading.Thread]) -> None:
    end = time.monotonic() + SECONDS
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0.01))
    if any(thread.is_alive() for thread in threads):
        raise Found("threads wait for each other for ever")
