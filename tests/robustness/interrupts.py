"""Training that is interrupted anywhere: what there is afterwards is the state between two phases.

A program is a list of phases (a whole jitted step; eagerly the parts of one), each of which must
happen whole or not at all. ``Reference`` runs it undisturbed and notes the state after each phase,
byte by byte; an interrupted run goes on from whichever state it is found in.
"""

from __future__ import annotations

import signal
import sys
from time import sleep

import numpy as np

import fx
import fx.distributed as dist
from fx import optim
from fx.config import modes
from fx.optim import lr_scheduler


class Interrupt(BaseException):
    """What Ctrl-C raises here."""


class TimeIsUp(Interrupt, Exception):
    """What the handler of an alarm raises: nobody but the caller may take it for an error."""


UNRAISABLE: list[object] = []  # what Python itself drops: it came in a finalizer or a callback

OPTIMIZERS = {
    "SGD": lambda ps: optim.SGD(ps, lr=0.01, momentum=0.9),
    "Adam": lambda ps: optim.Adam(ps, lr=0.01),
    "AdamW": lambda ps: optim.AdamW(ps, lr=0.01, amsgrad=True),
    "NAdam": lambda ps: optim.NAdam(ps, lr=0.01),
    "RAdam": lambda ps: optim.RAdam(ps, lr=0.01),
    "Adamax": lambda ps: optim.Adamax(ps, lr=0.01),
    "Adagrad": lambda ps: optim.Adagrad(ps, lr=0.01),
    "Adadelta": lambda ps: optim.Adadelta(ps),
    "RMSprop": lambda ps: optim.RMSprop(ps, lr=0.01, momentum=0.5, centered=True),
    "Rprop": lambda ps: optim.Rprop(ps, lr=0.01),
    "ASGD": lambda ps: optim.ASGD(ps, lr=0.01),
    "Adafactor": lambda ps: optim.Adafactor(ps, lr=0.01),
    "SparseAdam": lambda ps: optim.SparseAdam(ps, lr=0.01),
    "Muon": lambda ps: optim.Muon(ps, lr=0.01),
    "LBFGS": lambda ps: optim.LBFGS(ps, lr=0.5, max_iter=3, history_size=3),
}
WAYS = ("eager", "jit", "closure", "two groups")
PROGRAMS = [
    (name, way)
    for name in OPTIMIZERS
    for way in WAYS
    if name != "LBFGS" or way in ("eager", "jit")  # always a closure, and one group
]


class Program:
    """A model, its optimizer and its scheduler, and what trains them.

    Attributes:
        phases: functions of the step; one after the other they make a step.
    """

    def __init__(self, name: str, way: str, size: int = 5) -> None:
        rng = np.random.default_rng(0)
        draws = [fx.tensor(rng.standard_normal(s)) for s in ((size, size), (size, 3), (3, 2))]
        if way == "mesh":
            mesh = dist.init_device_mesh("cpu", (1,))
            draws = [dist.distribute_tensor(x, mesh, src_data_rank=None) for x in draws]
        self.ps = [fx.nn.Parameter(x) for x in draws]
        self.norm = fx.nn.BatchNorm1d(3, affine=False, dtype=fx.float64)
        self.jitted = way in ("jit", "closure", "mesh") and name != "LBFGS"
        groups = self.ps
        if way == "two groups":
            groups = [{"params": self.ps[:1]}, {"params": self.ps[1:], "lr": 0.02}]
        self.optimizer = OPTIMIZERS[name](groups)
        self.scheduler = lr_scheduler.ExponentialLR(self.optimizer, 0.99)
        self.x = fx.tensor(rng.standard_normal((7, size)))
        if way == "mesh":
            self.x = dist.distribute_tensor(self.x, mesh, src_data_rank=None)
            dist.distribute_module(self.norm, mesh)
        fx.manual_seed(0)
        if name == "LBFGS":
            loss = fx.jit(self.loss) if way == "jit" else self.loss
            self.phases = [lambda: self.optimizer.step(loss), self.scheduler.step]
        elif way in ("jit", "mesh"):
            self.phases = [fx.jit(self.whole)]
        elif way == "closure":
            self.phases = [fx.jit(self.with_closure)]
        else:
            opt = self.optimizer
            self.phases = [opt.zero_grad, self.backward, opt.step, self.scheduler.step]

    def forward(self) -> fx.Tensor:
        a, b, c = self.ps
        x = fx.tanh(self.x @ a)
        if self.jitted:  # eagerly a draw and a statistic are steps of their own
            x = self.norm(fx.nn.functional.dropout(x, 0.2) @ b)
        else:
            x = x @ b
        return (fx.tanh(x @ c) ** 2).sum()

    def backward(self) -> fx.Tensor:
        loss = self.forward()
        loss.backward()
        return loss

    def loss(self) -> fx.Tensor:
        self.optimizer.zero_grad()
        return self.backward()

    def whole(self) -> fx.Tensor:
        loss = self.loss()
        self.optimizer.step()
        self.scheduler.step()
        return loss

    def with_closure(self) -> fx.Tensor:
        loss = self.optimizer.step(self.loss)
        self.scheduler.step()
        return loss

    def warm(self, steps: int) -> None:
        """Make the first steps: compiled then, and with all state there is."""
        for _ in range(steps):
            for phase in self.phases:
                phase()

    def state(self) -> tuple:
        """All that a step changes, to the last bit."""
        numbers = [sorted((k, v) for k, v in dict.items(g) if k != "params")
                   for g in self.optimizer.param_groups]  # fmt: skip
        slots = [
            sorted((k, _plain(v)) for k, v in self.optimizer.state[p].items())
            for p in self.ps
            if p in self.optimizer.state
        ]
        return (
            tuple(_plain(p) for p in self.ps),
            tuple(_plain(p.grad) for p in self.ps),
            repr(slots),
            repr(numbers),
            tuple(_plain(b) for b in self.norm.buffers()),
            _plain(fx.random.get_rng_state()),
            repr(sorted((k, v) for k, v in self.scheduler.state_dict().items())),
            (modes.barrier, modes.silent, modes.record0, modes.inference, modes.stage),
        )


class Reference:
    """A program that nothing interrupts: its states, and which phase comes next in each."""

    def __init__(self, program: Program, warm: int) -> None:
        self.program = program
        program.warm(warm)
        self.number = 0  # of the phase that comes next
        self.draws = fx.random.get_rng_state()
        self.states: dict[object, int] = {program.state(): 0}

    def forward(self, number: int) -> None:
        """Know the states up to the one that a phase begins with."""
        theirs = fx.random.get_rng_state()
        fx.random.set_rng_state(self.draws)
        while self.number < number:
            phases = self.program.phases
            phases[self.number % len(phases)]()
            self.number += 1
            self.states[self.program.state()] = self.number
        self.draws = fx.random.get_rng_state()
        fx.random.set_rng_state(theirs)


def hunt(name: str, way: str, hits: int, disturb, warm: int = 3) -> int:
    """Interrupt a program so many times; the number of its phases that were finished.

    Args:
        disturb: ``disturb(phase)`` runs a phase that ``Interrupt`` may come out of.
    """
    reference = Reference(Program(name, way), warm)
    program = Program(name, way)
    program.warm(warm)
    count = len(program.phases)
    number = found = 0
    disturb.armed = False
    while found < hits:
        try:
            while True:
                disturb(program.phases[number % count])
                number += 1
        except Interrupt:
            found += 1
            disturb.armed = False
        reference.forward(number + 1)
        state = program.state()
        after = reference.states.get(state)
        assert after is not None and number <= after <= number + 1, described(
            name, way, number, state, reference
        )
        number = after
    return number


def described(name: str, way: str, number: int, state: tuple, reference: Reference) -> str:
    """What differs from the states before and after."""
    lines = [f"{name}, {way}: after an interrupt of phase {number} the state is none of its own"]
    known = {n: s for s, n in reference.states.items()}
    what = ("parameters", "gradients", "slots", "numbers", "buffers", "draws", "scheduler", "modes")
    for n in (number, number + 1):
        differ = [w for w, a, b in zip(what, state, known[n], strict=True) if a != b]
        lines.append(f"  from that {'before' if n == number else 'after'} it: {', '.join(differ)}")
    return "\n".join(lines)


def at_each_opcode(within):
    """Interrupts at one byte code of a phase after the other, in some functions of fx."""
    turns: dict[object, int] = {}

    def disturb(phase) -> None:
        at = turns[phase] = turns.get(phase, 0) + 1
        if opcodes(phase, at, within) < at:
            turns[phase] = 0

    return disturb


def by_signal(delay):
    """Interrupts by a timer that goes off ``delay()`` seconds later, in whatever phase that is."""

    def disturb(phase) -> None:
        if not disturb.armed:
            disturb.armed = True
            signal.setitimer(signal.ITIMER_REAL, delay())
        phase()
        if not signal.getitimer(signal.ITIMER_REAL)[0]:
            sleep(0.01)  # the handler may still be on its way
            assert UNRAISABLE, "an interrupt was swallowed"
            UNRAISABLE.clear()
            disturb.armed = False

    return disturb


def at_opcode(pick, within=lambda code: True):
    """Interrupts at the byte code of fx that ``pick(count)`` chooses among those of a phase.

    Args:
        within: which functions are meant, by their code.
    """
    counts: dict[object, int] = {}  # how many there were the last time

    def disturb(phase) -> None:
        at = pick(counts[phase]) if phase in counts else None
        counts[phase] = opcodes(phase, at, within)

    return disturb


def opcodes(phase, at: int | None, within=lambda code: True) -> int:
    """Run a phase, interrupted before byte code ``at`` of fx or of a plan; how many there were."""
    seen = 0

    def local(frame, event, argument):
        nonlocal seen
        if event == "opcode":
            seen += 1
            if seen == at:
                sys.settrace(None)
                raise Interrupt
        return local

    def trace(frame, event, argument):
        name = frame.f_code.co_filename
        if "/fx/" not in name and not name.startswith("<"):
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = within(frame.f_code)
        return local

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        phase()
    finally:
        sys.settrace(before)
    return seen


def _plain(x):
    if isinstance(x, fx.Tensor):
        array = x.numpy(force=True)
        return (array.shape, array.tobytes())
    if isinstance(x, list | tuple):
        return [_plain(v) for v in x]
    return x
