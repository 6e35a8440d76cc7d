"""A module that was compiled a moment ago is not compiled again, whatever program it is part of."""

import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm import driver, engine
from fx.backends.cpu.llvm.machines import described, emitting_for
from fx.errors import CompileError

TEXT = "define i64 @f(i64 %x) { ret i64 %x }"


@pytest.fixture
def emitted(monkeypatch):
    """What is compiled: a list that grows."""
    made, emit = [], engine._emit
    monkeypatch.setattr(engine, "_emit", lambda *args: (made.append(1), emit(*args))[1])
    monkeypatch.setenv("FX_CACHE", "0")
    driver.forget()
    yield made
    driver.forget()


def test_a_text_is_compiled_once_for_each_level_and_machine(emitted):
    first = engine.compile_text(TEXT)
    assert engine.compile_text(TEXT) == first and len(emitted) == 1
    engine.compile_text(TEXT, 0)
    assert len(emitted) == 2
    with emitting_for(described("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")):
        assert engine.compile_text(TEXT) != first
    assert len(emitted) == 3
    assert engine.compile_text(TEXT) == first and len(emitted) == 3
    driver.forget()
    engine.compile_text(TEXT)
    assert len(emitted) == 4


def test_what_is_refused_is_refused_again(emitted):
    for _ in range(2):
        with pytest.raises(CompileError):
            engine.compile_text("define i64 @f(i64 %x) { nonsense }")
    assert not emitted


def test_those_asked_for_last_are_kept(emitted, monkeypatch):
    monkeypatch.setattr(engine, "_KEPT", 2)
    texts = [TEXT.replace("@f", f"@f{i}") for i in range(3)]
    for k in (0, 1, 0, 2):
        engine.compile_text(texts[k])
    assert len(engine._latest) == 2 and len(emitted) == 3
    for k in (2, 0):
        engine.compile_text(texts[k])
    assert len(emitted) == 3
    engine.compile_text(texts[1])
    assert len(emitted) == 4


def test_programs_share_the_modules_of_their_kernels(emitted):
    """The same kernel, from a graph with one result and from one that gives its argument, too."""
    x = fx.tensor(np.linspace(-1, 1, 50, dtype=np.float32))
    one = fx.make_graph(lambda x: fx.tanh(x) * 2)(x)
    more = fx.make_graph(lambda x: (fx.tanh(x) * 2, x))(x)
    driver.compile_graph(fx.make_graph(fx.exp)(x))  # and what stands around all programs
    before = len(emitted)
    (want,) = driver.compile_graph(one).run([x.numpy()])
    assert len(emitted) == before + 1  # the kernel: what calls it is as that of the other
    found, _ = driver.compile_graph(more).run([x.numpy()])
    assert len(emitted) <= before + 2 and np.array_equal(found, want)
