"""``explain``, ``lower`` and ``FX_DEBUG``: why there is a program, and what it is."""

import os
import subprocess
import sys

import pytest

import fx
import fx.nn as nn
from fx.errors import StagingError
from fx.transforms.jitting.program import GiveUp
from fx.transforms.jitting.progress import Call

RATE = 0.5


def reasons(f):
    return [entry.reason for entry in f.explain().entries]


def test_every_entry_says_why_it_was_made():
    @fx.jit
    def f(x, n, flag=True):
        return x * n * RATE if flag else x

    f(fx.ones(3), 2)
    f(fx.ones(4), 2)
    f(fx.ones(4, dtype=fx.float64), 2)
    f(fx.ones(4), 2.0)
    f(fx.ones(4), 2, False)
    globals()["RATE"] = 0.75
    f(fx.ones(3), 2)
    globals()["RATE"] = 0.5
    with fx.no_grad():
        f(fx.ones(3), 2)
    assert reasons(f) == [
        "first call",
        "argument x: float32[3] -> float32[4]",
        "argument x: float32[4] -> float64[4]",
        "argument n: int -> float",
        "arguments of another structure",
        "global `RATE` changed from 0.5 to 0.75",
        "no_grad: False -> True",
    ]


def test_static_arguments_and_numbers():
    f = fx.jit(lambda x, n: x * n, static_argnums=1)
    f(fx.ones(3), 2)
    f(fx.ones(3), 3)
    assert reasons(f)[1] == "n: static 2 -> 3"
    g = fx.jit(lambda x, n: x if n > 2 else -x)
    g(fx.ones(3), 1)
    g(fx.ones(3), 5)
    assert reasons(g)[1].startswith("at ") and "False before, True now" in reasons(g)[1]


def test_requires_grad_and_gradients_are_reasons():
    model = nn.Linear(2, 1)
    f = fx.jit(lambda x: model(x))
    f(fx.ones((3, 2)))
    model.bias.requires_grad_(False)
    f(fx.ones((3, 2)))
    assert "model.bias" in reasons(f)[1]
    g = fx.jit(lambda x: x * 2)
    g(fx.ones(3))
    g(fx.ones(3, requires_grad=True))
    assert reasons(g)[1] == "argument x: float32[3] -> float32[3] that requires grad"


def test_the_tree_of_a_branching_function():
    @fx.jit
    def f(x):
        if x.sum() > 0:
            return x[x > 0]
        return -x

    f(fx.tensor([1.0, -0.5]))
    f(fx.tensor([-1.0, 0.5]))
    f(fx.tensor([-1.0, 0.5]))
    (entry,) = f.explain().entries
    assert entry.arguments == (("x", "float32[2]"),)
    assert entry.calls == 3 and entry.seconds > 0
    assert entry.parts.operations == 2
    answers = dict(entry.parts.ends.answers)
    assert set(answers) == {"True", "False"}
    assert dict(answers["True"].ends.answers).keys() == {"shape (1,)"}
    assert answers["False"].ends is None
    assert (
        len(entry.branches) == 1 and "the answer was False for the first time" in entry.branches[0]
    )
    text = repr(f.explain())
    assert "f: 1 entry" in text and "test_explain.py" in text and "asks at" in text


def test_calls_of_the_short_way_count():
    f = fx.jit(lambda x: x + 1)
    for _ in range(5):
        f(fx.ones(3))
    assert f.explain().entries[0].calls == 5


def test_names_of_arguments():
    f = fx.jit(lambda a, rest, *more, key: a)
    f(fx.ones(1), {"u": [fx.ones(2)]}, 3, key="s")
    assert f.explain().entries[0].arguments == (
        ("a", "float32[1]"),
        ("rest.u[0]", "float32[2]"),
        ("args[2]", "int"),
        ("key", "'s'"),
    )


def test_what_runs_uncompiled_is_told():
    f = fx.jit(lambda x: x * int(x[0]))
    with pytest.warns(RuntimeWarning, match="runs uncompiled"):
        for i in range(20):
            f(fx.tensor([float(i)]))
    assert "different 16 times" in f.explain().entries[-1].eager
    assert "runs uncompiled" in repr(f.explain())
    f.cache_clear()
    assert f.cache_size() == 0 and f.explain().entries == ()
    assert f(fx.tensor([2.0])).tolist() == [4.0]


def test_lower():
    f = fx.jit(lambda x: (fx.exp(x) * 1 + 1).sum())
    lowered = f.lower(fx.ones(100))
    assert [n.primitive.name for n in lowered.graph.nodes] == ["exp", "add", "sum"]
    assert "exp" in str(lowered) and "define" in lowered.code()
    assert str(lowered.schedule) and str(lowered.memory)
    assert f.cache_size() == 1
    assert f(fx.ones(100)).item() == pytest.approx(371.828, rel=1e-4)


def test_lower_changes_nothing():
    model = nn.Linear(2, 1)
    optimizer = fx.optim.SGD(model.parameters(), lr=0.1)

    @fx.jit
    def step(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    before = model.weight.data.tolist()
    assert len(step.lower(fx.ones((3, 2))).graph.nodes) > 3
    assert model.weight.data.tolist() == before and model.weight.grad is None
    with pytest.raises(StagingError, match="call lower outside"):
        fx.grad(lambda x: step.lower(x))(fx.ones((3, 2)))


def test_lower_of_several_parts():
    f = fx.jit(lambda x: x * 2 if x.sum() > 0 else -x)
    assert len(f.lower(fx.ones(3)).graphs) == 2


@pytest.mark.parametrize("level, words, missing", [
    (1, ["jit: f at", "first call"], ["exp("]),
    (2, ["first call", "exp("], ["define"]),
    (4, ["exp(", "define"], []),
])  # fmt: skip
def test_the_debug_ladder(level, words, missing):
    script = "import fx\ndef f(x): return fx.exp(x)\nfx.jit(f)(fx.ones(3))"
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "FX_DEBUG": str(level)},
        check=True,
    )
    for word in words:
        assert word in run.stderr
    for word in missing:
        assert word not in run.stderr
    assert run.stdout == ""


def test_what_the_compiler_reads_is_not_what_the_function_reads(monkeypatch):
    """The part that ends in a question is compiled while the function is watched."""
    from fx.backends.cpu.llvm import disk_cache, driver

    monkeypatch.setattr(disk_cache, "name_of", lambda *told: None)
    driver.forget()

    @fx.jit
    def f(x):
        y = fx.tanh(x) * RATE
        return y + 1 if y.sum() > 0 else y

    for n in (20, 21, 22):
        f(fx.ones((n, 4)))
    found = [g for e in f.explain().entries for g in e.guards]
    assert "global `RATE`" in found and not [g for g in found if "__" in g]


def test_lower_stages_again_what_was_put_off_for_one_call(monkeypatch):
    put_off, to_the_end = [True, True], Call._to_the_end

    def staged(call):
        if put_off and put_off.pop():
            raise GiveUp("", lasting=False)
        return to_the_end(call)

    monkeypatch.setattr(Call, "_to_the_end", staged)
    assert len(fx.jit(lambda x: x * 2 + 1).lower(fx.ones(3)).graph.nodes) == 2
    assert not put_off
