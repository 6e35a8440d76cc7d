"""Checkpoints: what they hold, which are kept, and what happens to damaged ones."""

import copy
import hashlib
import io
import os
import random
import warnings
from concurrent.futures import Future

import numpy as np
import pytest

import fx
from fx import nn
from fx.errors import FileFormatError, StagingError, StateError
from fx.io import sealing


class Run:
    """A model in training, and what belongs to it."""

    def __init__(self, features=3):
        self.model = nn.Sequential(nn.Linear(features, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.optimizer = fx.optim.Adam(self.model.parameters(), lr=0.1)
        self.scheduler = fx.optim.lr_scheduler.StepLR(self.optimizer, 1, gamma=0.5)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.model(fx.randn(5, self.model[0].weight.shape[1])).sum()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()

    @property
    def parts(self):
        return dict(model=self.model, optimizer=self.optimizer, scheduler=self.scheduler)

    def values(self):
        held = self.optimizer.state_dict()
        return repr((
            {k: v.tolist() for k, v in self.model.state_dict().items()},
            {n: {k: v.tolist() for k, v in s.items()} for n, s in held["state"].items()},
            held["param_groups"], self.scheduler.state_dict(),
        ))  # fmt: skip


@pytest.fixture
def checkpoint(tmp_path):
    return fx.Checkpoint(tmp_path / "run")


def damage(path, at=None):
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    path.write_bytes(data)


def test_a_first_run_finds_nothing(checkpoint):
    run = Run()
    assert checkpoint.restore(**run.parts) is None
    assert checkpoint.latest() is None
    assert checkpoint.steps() == []
    for step in (None, 3):
        with pytest.raises(FileNotFoundError, match="no checkpoint"):
            checkpoint.load(step)
    with pytest.raises(FileNotFoundError, match="of step 3"):
        checkpoint.restore(3, **run.parts)


def test_everything_comes_back(checkpoint):
    run = Run()
    run.step()
    values = {"note": "text", "tree": {"x": [fx.ones(2), (1, 2.5)]}, "array": np.arange(3)}
    checkpoint.save(step=7, **run.parts, **values)
    before, draws = run.values(), (random.random(), np.random.rand(), fx.rand(3).tolist())
    losses = [run.step(), run.step()]
    after = run.values()

    other = Run()
    found = checkpoint.restore(**other.parts)
    assert found["step"] == 7
    assert found["note"] == "text"
    assert str(found["tree"]) == str(values["tree"])
    assert found["array"].tolist() == [0, 1, 2]
    assert other.values() == before
    assert (random.random(), np.random.rand(), fx.rand(3).tolist()) == draws
    assert [other.step(), other.step()] == losses
    assert other.values() == after


def test_random_state_can_stay(checkpoint):
    checkpoint.save(step=0)
    fx.manual_seed(5)
    expected = fx.rand(2).tolist()
    fx.manual_seed(5)
    checkpoint.restore(random_state=False)
    assert fx.rand(2).tolist() == expected


def test_generators_and_cells(checkpoint):
    generator = fx.Generator().manual_seed(3)
    count = nn.Buffer(fx.tensor(4))
    checkpoint.save(step=0, generator=generator, count=count)
    drawn = fx.rand(2, generator=generator)
    count.add_(1)
    checkpoint.restore(generator=generator, count=count)
    assert fx.rand(2, generator=generator).tolist() == drawn.tolist()
    assert count.item() == 4
    with pytest.raises(StateError, match="count holds"):
        checkpoint.restore(count=nn.Buffer(fx.ones(2)))


def test_compiled_steps_go_on(checkpoint):
    runs = Run(), Run()
    x = fx.ones((5, 3))
    steps = []
    for run in runs:

        def step(x, run=run):
            run.optimizer.zero_grad()
            loss = run.model(x).sum()
            loss.backward()
            run.optimizer.step()
            return loss

        steps.append(fx.jit(step))
    steps[0](x)
    checkpoint.save(step=1, **runs[0].parts)
    expected = [steps[0](x).item() for _ in range(3)]
    for _ in range(2):  # compiled before, and again in the middle of things
        steps[1](x)
        checkpoint.restore(**runs[1].parts)
        assert [steps[1](x).item() for _ in range(3)] == expected
    assert runs[0].values() == runs[1].values()


def test_keep(tmp_path):
    checkpoint = fx.Checkpoint(tmp_path, keep=2)
    for step in (1, 5, 20, 100):
        assert checkpoint.save(step=step) == checkpoint.path(step)
    assert checkpoint.steps() == [20, 100]
    checkpoint.save(step=3)  # after going back: what was just written stays
    assert 3 in checkpoint.steps()
    everything = fx.Checkpoint(tmp_path / "all", keep=None)
    for step in range(5):
        everything.save(step=step)
    assert everything.steps() == [0, 1, 2, 3, 4]
    for keep in (0, -1, 2.5):
        with pytest.raises(ValueError, match="keep=None"):
            fx.Checkpoint(tmp_path, keep=keep)


def test_a_step_is_replaced(checkpoint):
    checkpoint.save(step=1, x=1)
    checkpoint.save(step=1, x=2)
    assert checkpoint.load(1)["x"] == 2


@pytest.mark.parametrize("step", [-1, 1.5, "1", True, None])
def test_steps_are_numbers(checkpoint, step):
    with pytest.raises(ValueError, match="step must be an integer"):
        checkpoint.save(step=step)


def test_what_is_hashed_in_another_thread_keeps_its_place(monkeypatch):
    class Late:
        """Does nothing until somebody waits for it."""

        def __init__(self, name):
            self.tasks = []

        def submit(self, run, data):
            self.tasks.append((run, data))
            late = Future()
            late.result = self.shutdown
            return late

        def shutdown(self):
            while self.tasks:
                run, data = self.tasks.pop(0)
                run(data)

    monkeypatch.setattr(sealing, "Beside", Late)
    parts = [b"a" * (1 << 17), b"b" * (1 << 17), b"small", b"c" * (1 << 17)]
    with sealing.Sealed(io.BytesIO()) as file:
        for part in parts:
            file.write(part)
        assert file.seal().endswith(hashlib.sha256(b"".join(parts)).hexdigest().encode())


def test_damaged_ones_are_passed_over(checkpoint):
    for step in (1, 2, 3):
        checkpoint.save(step=step, x=fx.full((100,), step))
    damage(checkpoint.path(3))
    with pytest.warns(RuntimeWarning, match=r"step-0000000003\.pt is passed over.*SHA-256"):
        assert checkpoint.latest() == 2
    with pytest.warns(RuntimeWarning, match=r"step-0000000003\.pt"):
        assert checkpoint.load()["step"] == 2
    with pytest.warns(RuntimeWarning, match=r"step-0000000003\.pt"):
        assert checkpoint.restore()["x"][0] == 2
    with pytest.raises(FileFormatError, match=r"step-0000000003\.pt is damaged"):
        checkpoint.load(3)
    with pytest.raises(FileFormatError, match="damaged"):
        checkpoint.restore(3)
    checkpoint.path(2).write_bytes(checkpoint.path(2).read_bytes()[:500])
    with pytest.warns(RuntimeWarning) as told:
        assert checkpoint.latest() == 1
    assert len(told) == 2


def test_every_byte_is_under_the_hash(checkpoint):
    path = checkpoint.save(step=1, x=fx.arange(4.0))
    size = path.stat().st_size
    intact = path.read_bytes()
    for at in [*range(0, size, 97), *range(size - 150, size, 5)]:
        damage(path, at)
        with pytest.raises(FileFormatError):
            checkpoint.load(1)
        path.write_bytes(intact)
    assert checkpoint.load(1)["x"].tolist() == [0, 1, 2, 3]


def test_another_file_in_its_place(checkpoint):
    checkpoint.save(step=1)
    fx.save({"x": 1}, checkpoint.path(2))
    with pytest.raises(FileFormatError, match="cut, or is none"):
        checkpoint.load(2)


def test_others_open_it_too(checkpoint):
    run = Run()
    path = checkpoint.save(step=1, model=run.model, best=0.5)
    assert list(fx.load(path)["model"]) == list(run.model.state_dict())
    torch = pytest.importorskip("torch")
    with torch.serialization.safe_globals(_numpy_globals()):
        assert torch.load(path)["best"] == 0.5


def _numpy_globals():
    core = np._core.multiarray
    kinds = [type(np.dtype(name)) for name in ("uint32", "uint64")]
    return [
        np.ndarray,
        np.dtype,
        (core._reconstruct, "numpy._core.multiarray._reconstruct"),
        *kinds,
    ]


# all or nothing ---------------------------------------------------------------------------------


def test_what_does_not_fit_changes_nothing(checkpoint):
    run = Run()
    run.step()
    checkpoint.save(step=1, **run.parts)
    run.step()
    for name, error in (("optimizer", StateError), ("scheduler", ZeroDivisionError)):
        other = Run()
        other.step()
        if name == "optimizer":
            other.optimizer = fx.optim.SGD(other.model[0].parameters(), lr=1.0)
        else:
            other.scheduler = Failing(other.optimizer, 1)
        before = other.values()
        fx.manual_seed(9)
        draws = fx.rand(2).tolist()
        fx.manual_seed(9)
        with pytest.raises(error):
            checkpoint.restore(**other.parts)
        assert other.values() == before
        assert fx.rand(2).tolist() == draws


class Failing(fx.optim.lr_scheduler.StepLR):
    """Cannot load anything."""

    def load_state_dict(self, state):
        self.gamma = 1 / 0


def test_a_model_of_another_shape_keeps_its_values(checkpoint):
    run, other = Run(), Run(features=5)
    run.step()
    checkpoint.save(step=1, **run.parts)
    before = other.values()
    with pytest.raises(StateError, match=r"size mismatch for 0\.weight"):
        checkpoint.restore(**other.parts)
    assert other.values() == before


def test_parts_that_are_not_there(checkpoint):
    checkpoint.save(step=1, model=nn.Linear(2, 3), note="x")
    with pytest.raises(StateError, match=r"holds no ema; it holds model, note"):
        checkpoint.restore(ema=nn.Linear(2, 3))
    with pytest.raises(TypeError, match=r"note = found\['note'\]"):
        checkpoint.restore(note="y")


def test_parts_that_could_not_be_loaded(checkpoint):
    class Own:
        pass

    with pytest.raises(TypeError, match=r"tensors and plain data.*'args' holds.*Own"):
        checkpoint.save(step=1, args=Own())
    assert checkpoint.steps() == []
    for name in ("random_state", "format"):
        with pytest.raises(ValueError, match="taken"):
            checkpoint.save(step=1, **{name: 3})


def test_inside_jit(checkpoint):
    for call in (lambda: checkpoint.save(step=1), checkpoint.restore):
        with pytest.raises(StagingError, match="outside"):
            fx.jit(lambda x, call=call: (call(), x)[1])(fx.ones(2))


# files ------------------------------------------------------------------------------------------


def test_temporary_files_are_swept(checkpoint):
    checkpoint.save(step=1)
    host = os.uname().nodename
    stale = checkpoint.dir / f".step-0000000002.pt.{host}.{2**22 + 1}.tmp"
    alive = checkpoint.dir / f".step-0000000002.pt.{host}.{os.getppid()}.tmp"
    other = checkpoint.dir / ".step-0000000002.pt.elsewhere.1.tmp"
    for path in (stale, alive, other):
        path.write_bytes(b"x")
    checkpoint.save(step=2)
    assert not stale.exists()
    assert alive.exists()
    assert other.exists()
    os.utime(other, (0, 0))
    checkpoint.save(step=3)
    assert not other.exists()


def test_an_error_while_writing_leaves_what_was_there(checkpoint, monkeypatch):
    checkpoint.save(step=1, x=1)
    monkeypatch.setattr(os, "fsync", lambda number: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checkpoint.save(step=1, x=2)
    monkeypatch.undo()
    assert os.listdir(checkpoint.dir) == ["step-0000000001.pt"]
    assert checkpoint.load()["x"] == 1


def test_it_is_on_the_disk_before_it_has_its_name(checkpoint, monkeypatch):
    order = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, f=real: (order.append(n), f(*a))[1])
    checkpoint.save(step=1, x=fx.ones(100_000))
    assert order == ["fsync", "replace", "fsync"]


def test_map_location(checkpoint):
    checkpoint.save(step=1, x=fx.ones(2))
    assert str(checkpoint.load(map_location="meta")["x"].device) == "meta"


def test_no_warnings_and_a_repr(checkpoint):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint.save(step=1, x=copy.deepcopy(fx.ones(3)))
        checkpoint.restore()
    assert repr(checkpoint).endswith("run', keep=3)")
