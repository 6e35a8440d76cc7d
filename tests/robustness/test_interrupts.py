"""A step happens whole or not at all, wherever it is interrupted."""

import contextlib
import random
import signal
import sys
import threading
from itertools import cycle
from time import perf_counter

import pytest

import fx
from fx.config import modes
from tests.robustness.interrupts import (
    OPTIMIZERS,
    PROGRAMS,
    UNRAISABLE,
    Interrupt,
    Program,
    TimeIsUp,
    at_each_opcode,
    at_opcode,
    by_signal,
    hunt,
    opcodes,
)

SIGNALS = 8  # a program
OPCODES = 2


@pytest.fixture
def interrupting(monkeypatch):
    """SIGALRM raises, as Ctrl-C does and as an alarm does, in turn."""
    kinds = cycle((Interrupt, TimeIsUp))

    def handler(number, frame):
        raise next(kinds)

    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGALRM, handler)
    monkeypatch.setattr(sys, "unraisablehook", UNRAISABLE.append)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def _seconds(name, way):
    """How long a step takes, about."""
    program = Program(name, way)
    program.warm(5)
    began = perf_counter()
    program.warm(3)
    return (perf_counter() - began) / 3


@pytest.mark.parametrize(("name", "way"), PROGRAMS, ids=[f"{n} {w}" for n, w in PROGRAMS])
def test_signals_at_random_instants(name, way, interrupting):
    chance = random.Random(f"{name} {way}")
    seconds = _seconds(name, way)
    hunt(name, way, SIGNALS, by_signal(lambda: chance.uniform(1e-6, 2.5 * seconds)))


@pytest.mark.parametrize(("name", "way"), PROGRAMS, ids=[f"{n} {w}" for n, w in PROGRAMS])
def test_random_byte_codes(name, way):
    chance = random.Random(f"{name} {way}")
    hunt(name, way, OPCODES, at_opcode(lambda count: chance.randrange(1, count + 1)))


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_the_short_way_of_tensors_on_a_mesh(name, interrupting):
    program = Program(name, "mesh")
    program.warm(5)
    (step,) = program.phases
    ((known,),) = step.programs.values()
    assert known.tally[0] >= 2 and program.ps[0].device.type == "mesh"
    chance, seconds = random.Random(name), _seconds(name, "mesh")
    hunt(name, "mesh", SIGNALS, by_signal(lambda: chance.uniform(1e-6, 2.5 * seconds)))
    within = lambda code: code.co_name in ("plan", "step", "commit")
    turn = cycle(range(1, opcodes(step, None, within), 7))
    hunt(name, "mesh", 40, at_opcode(lambda count: next(turn), within))


@pytest.mark.parametrize("name", ["SGD", "NAdam"])
def test_every_byte_code_of_a_compiled_step(name):
    program = Program(name, "jit")
    program.warm(3)
    (step,) = program.phases
    turn = iter(range(1, opcodes(step, None) + 1))
    hunt(name, "jit", opcodes(step, None) - 1, at_opcode(lambda count: next(turn, 1)))


@pytest.mark.parametrize("name", ["Muon", "Adam"])
def test_every_byte_code_of_a_commit(name):
    """Of what stores gradients, cells and numbers, wherever that is not one native call."""

    def within(code):
        return code.co_filename.endswith("fx/commit.py") or code.co_name in ("_store", "run")

    program = Program(name, "eager")
    program.warm(3)
    count = sum([opcodes(phase, None, within) for phase in program.phases])
    hunt(name, "eager", 2 * count, at_each_opcode(within))


@pytest.mark.parametrize("block", [fx.no_grad, fx.enable_grad, fx.inference_mode])
def test_every_byte_code_of_a_mode(block):
    def run():
        with block():
            fx.is_grad_enabled()

    before = modes_now()
    for at in range(1, opcodes(run, None) + 1):
        with contextlib.suppress(Interrupt):
            opcodes(run, at)
        assert modes_now() == before, at


def modes_now():
    return (modes.barrier, modes.silent, modes.record0, modes.inference)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
@pytest.mark.parametrize("where", ["first", "between", "last"])
def test_a_step_that_fails_changes_nothing(name, where):
    """An index out of range is found while the step runs, after parts of it have run."""
    w, count = fx.nn.Parameter(fx.ones((5, 300))), fx.nn.Buffer(fx.ones(300))
    optimizer = OPTIMIZERS[name]([w])
    table = fx.arange(300.0)

    @fx.jit
    def step(i):
        optimizer.zero_grad()
        if where != "first":
            count.add_(1.0)
        loss = (w[i if where == "first" else fx.tensor([0, 1])] * count).sum()
        loss.backward()
        scale = table[i * 60].sum() if where == "between" else 1.0
        count.mul_(scale * 0.001 + 1.0)
        optimizer.step()
        if where == "last":
            count.add_(table[i * 60].sum())
        return loss

    def state():
        slots = optimizer.state[w].values()
        return [x.numpy(force=True).tobytes() for x in (w, w.grad, count, *slots)]

    good, bad = fx.tensor([0, 1]), fx.tensor([0, 9])
    for _ in range(4):
        step(good)
    before = state()
    for _ in range(2):
        with pytest.raises(IndexError):
            step(bad)
        assert state() == before
    step(good)
    assert state() != before
