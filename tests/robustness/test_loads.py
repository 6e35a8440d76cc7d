"""A load happens whole or not at all: under signals, errors and the eyes of another thread."""

import random
import sys
import threading
from time import perf_counter

import numpy as np
import pytest

import fx
import fx.torch as face
from fx import nn
from fx.config import modes
from fx.transaction import Transaction
from fx.writing.inplace import cell_of
from tests.robustness.interrupts import Interrupt, opcodes

SIZES = (3, 5, 2)


def world(seed, dtype=fx.float32):
    """A model, an optimizer and a scheduler after some steps, unlike those of other seeds."""
    fx.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(3, 5, dtype=dtype),
        nn.Tanh(),
        nn.BatchNorm1d(5, dtype=dtype),
        nn.Linear(5, 2, dtype=dtype),
    )
    optimizer = fx.optim.Adam(model.parameters(), lr=0.1 * (seed + 1), betas=(0.5, 0.9 - seed / 9))
    scheduler = fx.optim.lr_scheduler.SequentialLR(
        optimizer,
        [fx.optim.lr_scheduler.ExponentialLR(optimizer, 0.9 - seed / 20),
         fx.optim.lr_scheduler.ConstantLR(optimizer, 0.5)],
        milestones=[2 + seed],
    )  # fmt: skip
    for _ in range(3 + seed):
        optimizer.zero_grad()
        model(fx.randn(4, 3, dtype=dtype)).sum().backward()
        optimizer.step()
        scheduler.step()
    return model, optimizer, scheduler


def plain(x):
    if isinstance(x, fx.Tensor):
        return (str(x.dtype), x.numpy(force=True).tobytes())
    if isinstance(x, dict):
        return [(k, plain(v)) for k, v in x.items()]
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    return repr(x)


def state(model, optimizer, scheduler):
    """All that loads change, and the modes."""
    tuples = [[*map(repr, group.tuples.items())] for group in optimizer.param_groups]
    return [
        plain(model.state_dict()), [plain(p.grad) for p in model.parameters()],
        plain(optimizer.state_dict()), tuples, plain(scheduler.state_dict()),
        plain(fx.get_rng_state()), random.getstate(), repr(np.random.get_state()),
        (modes.journal, modes.transaction, modes.barrier),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    checkpoint = fx.Checkpoint(tmp_path_factory.mktemp("loads"))
    random.seed(3)
    random.gauss(0, 1)
    np.random.seed(5)
    model, optimizer, scheduler = world(1)
    checkpoint.save(step=1, model=model, optimizer=optimizer, scheduler=scheduler)
    states = model.state_dict(), optimizer.state_dict(), scheduler.state_dict()
    return checkpoint, *states


LOADS = {
    "module": lambda saved, w: w[0].load_state_dict(saved[1]),
    "assign": lambda saved, w: w[0].load_state_dict(
        {k: v.double() if v.is_floating_point() else v for k, v in saved[1].items()}, assign=True
    ),
    "to": lambda saved, w: w[0].double(),
    "optimizer": lambda saved, w: w[1].load_state_dict(saved[2]),
    "scheduler": lambda saved, w: w[2].load_state_dict(saved[3]),
    "restore": lambda saved, w: saved[0].restore(model=w[0], optimizer=w[1], scheduler=w[2]),
}
FILES = ("/fx/io/", "/fx/graph/", "/fx/prims/", "/fx/ops/", "/fx/backends/", "/fx/tree")


def of_loading(code):
    """Not the reading of files, nor the arithmetic."""
    return not any(part in code.co_filename for part in FILES[1:]) and (
        "/fx/io/" not in code.co_filename
        or code.co_filename.endswith(("io/checkpoint.py", "io/states.py"))
    )


def hunted(load, saved, instants):
    """Interrupt a load at some of its byte codes; how often it was not done and done."""
    worlds = world(0)
    random.seed(11)
    np.random.seed(12)
    before = state(*worlds)
    load(saved, worlds)
    after = state(*worlds)
    assert before != after
    worlds = world(0)
    random.seed(11)
    np.random.seed(12)
    assert state(*worlds) == before
    worlds = world(0)
    count = opcodes(lambda: load(saved, worlds), None, of_loading)
    found = [0, 0]
    for at in instants(count):
        fx.manual_seed(0)
        worlds = world(0)
        random.seed(11)
        np.random.seed(12)
        try:
            opcodes(lambda: load(saved, worlds), at, of_loading)  # noqa: B023
        except Interrupt:
            now = state(*worlds)
            assert now in (before, after), [
                i for i, (a, b, c) in enumerate(zip(now, before, after)) if a not in (b, c)
            ]
            found[now == after] += 1
    return found


@pytest.mark.parametrize("name", LOADS)
def test_byte_codes(name, saved):
    chance = random.Random(name)

    def instants(count):
        late = range(max(1, count - 12), count + 1)
        return [*(chance.randrange(1, count + 1) for _ in range(25)), *late]

    undone, _ = hunted(LOADS[name], saved, instants)
    assert undone


def test_every_byte_code_of_a_transaction(saved):
    """Of what lists and stores, and puts back."""
    load = LOADS["optimizer"]
    files = ("fx/transaction.py", "fx/commit.py", "fx/blocks.py")

    def within(code):
        return code.co_filename.endswith(files)

    before, done = plain(world(0)[1].state_dict()), world(0)
    count = opcodes(lambda: load(saved, done), None, within)
    for at in range(1, count + 1, 7):
        worlds = world(0)
        with pytest.raises(Interrupt):
            opcodes(lambda: load(saved, worlds), at, within)  # noqa: B023
        assert plain(worlds[1].state_dict()) == before, at
        assert modes.transaction is None and modes.journal is None


class Own:
    """A part of the user's, whose load fails in the end."""

    def __init__(self, fails=False):
        self.value, self.fails = 0, fails

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]
        if self.fails and self.value:
            raise ValueError("no")


def test_an_error_takes_all_back(tmp_path):
    checkpoint = fx.Checkpoint(tmp_path)
    model, optimizer, scheduler = world(1)
    own = Own()
    own.value = 5
    parts = {"model": model, "own": own, "optimizer": optimizer, "scheduler": scheduler}
    checkpoint.save(step=0, **parts, last=own)
    worlds = world(0)
    before = state(*worlds)
    first, last = Own(), Own(fails=True)
    with pytest.raises(ValueError, match="no"):
        checkpoint.restore(
            model=worlds[0], own=first, optimizer=worlds[1], scheduler=worlds[2], last=last
        )
    assert state(*worlds) == before
    assert first.value == 0


def test_code_of_the_users_sees_what_was_loaded(saved):
    model, seen = world(0)[0], []
    model[0].register_load_state_dict_post_hook(
        lambda module, keys: seen.append(module.weight.tolist())
    )
    model.load_state_dict(saved[1])
    assert seen == [saved[1]["0.weight"].tolist()]

    class Merged(nn.Linear):
        def _load_from_state_dict(self, *args):
            super()._load_from_state_dict(*args)
            self.total = float(self.weight.sum())

    other = Merged(3, 5)
    other.load_state_dict({"weight": fx.ones((5, 3)), "bias": fx.zeros(5)})
    assert other.total == 15.0
    with pytest.raises(fx.errors.StateError):
        nn.Sequential(other).load_state_dict({"0.weight": fx.zeros((5, 3))})
    assert float(other.weight.sum()) == 15.0


def test_what_is_loaded_between_calls_reaches_compiled_steps(saved):
    """Also numbers in tuples, and state that replaces state."""

    def trained(compiled):
        model, optimizer, _ = world(0)

        def step(x):
            optimizer.zero_grad()
            (model(x) ** 2).sum().backward()
            optimizer.step()

        run = fx.jit(step) if compiled else step
        x = fx.arange(12.0).reshape(4, 3) / 6  # where tanh is not flat: Adam would step by noise
        for turn in range(4):
            if turn == 2:
                optimizer.load_state_dict(saved[2])
                model.load_state_dict(saved[1])
            run(x)
        return plain(model.state_dict()), plain(optimizer.state_dict())

    (a, b), (c, d) = trained(True), trained(False)
    for (key, (_, x)), (other, (_, y)) in zip(a, c, strict=True):
        kind = np.int64 if "num_batches" in key else np.float32
        assert key == other
        np.testing.assert_allclose(np.frombuffer(x, kind), np.frombuffer(y, kind), rtol=2e-4)
    assert [g for k, g in b if k == "param_groups"] == [g for k, g in d if k == "param_groups"]


def test_a_compiled_function_that_loads_runs_as_it_is(saved):
    def trained(compiled):
        model, optimizer, _ = world(0)
        x = fx.arange(12.0).reshape(4, 3) / 6  # where tanh is not flat: Adam would step by noise

        def step():
            optimizer.zero_grad()
            (model(x) ** 2).sum().backward()
            optimizer.step()
            optimizer.load_state_dict(saved[2])
            return x

        run = fx.jit(step) if compiled else step
        for _ in range(3):
            run()
        return plain(model.state_dict()), plain(optimizer.state_dict())

    with pytest.warns(RuntimeWarning, match="loads the state of an optimizer"):
        found = trained(True)
    assert found == trained(False)


@pytest.mark.parametrize("what", ["module", "optimizer", "save"])
def test_readers_see_one_instant(what, tmp_path):
    """One thread loads two states in turn; another never sees a mixture."""
    first, second = world(0), world(2)
    states = [(w[0].state_dict(), w[1].state_dict()) for w in (first, second)]
    checkpoint = fx.Checkpoint(tmp_path, keep=1)
    model, optimizer, _ = first
    module, groups = [plain(m) for m, _ in states], [plain(o) for _, o in states]
    both = [*zip(module, groups)]
    for i, (m, o) in enumerate(states):
        model.load_state_dict(m)
        optimizer.load_state_dict(o)
        checkpoint.keep = None
        checkpoint.save(step=i, model=model, optimizer=optimizer)
    over, errors = threading.Event(), []

    def write():
        turn = 0
        try:
            while not over.is_set():
                turn = 1 - turn
                if what == "save":
                    checkpoint.restore(turn, model=model, optimizer=optimizer)
                elif what == "module":
                    model.load_state_dict(states[turn][0])
                else:
                    optimizer.load_state_dict(states[turn][1])
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=write, daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        end, seen = perf_counter() + 0.6, set()
        while perf_counter() < end:
            if what == "module":
                seen.add(module.index(plain(model.state_dict())))
            elif what == "optimizer":
                seen.add(groups.index(plain(optimizer.state_dict())))
            else:
                checkpoint.save(step=2, model=model, optimizer=optimizer)
                held = checkpoint.load(2)
                seen.add(both.index((plain(held["model"]), plain(held["optimizer"]))))
    finally:
        over.set()
        thread.join(20)
        sys.setswitchinterval(interval)
    assert not errors
    assert seen == {0, 1}


def test_an_error_takes_back_what_is_written_into():
    """Tensors that a script writes into are told each; the rest still changes at once."""
    x = face.zeros(3)
    x.add_(1.0)
    optimizer = face.optim.Adam([x.requires_grad_()], lr=0.1)
    (x * x).sum().backward()
    optimizer.step()
    first, held = optimizer.state_dict(), x.tolist()

    changes = Transaction()
    changes.rebind(cell_of(x), fx.ones(3) * 7)
    changes.put(optimizer.param_groups[0], "lr", 0.5)
    changes.flush()
    assert x.tolist() == [7.0] * 3 and optimizer.param_groups[0]["lr"] == 0.5
    changes.undo()
    assert x.tolist() == held
    assert plain(optimizer.state_dict()) == plain(first)
