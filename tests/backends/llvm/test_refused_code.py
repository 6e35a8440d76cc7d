"""Code that LLVM refuses: an error that says so, a process that lives, results that are right."""

import gc
import warnings

import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm import engine
from fx.errors import CompileError

REFUSED = {
    "a use before its definition": """
        define i64 @f(i64 %x, i1 %c) {
          br i1 %c, label %a, label %b
        a:
          %y = add i64 %x, 1
          br label %b
        b:
          ret i64 %y
        }""",
    "no IR at all": "define i64 @f(i64 %x) { fadd nonsense }",
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_process_outlives_what_is_refused(name):
    kept = []
    for _ in range(3):
        with pytest.raises(CompileError, match="LLVM refuses what a kernel became") as error:
            engine.compile_text(REFUSED[name])
        kept.append(error)
    del error, kept
    gc.collect()
    assert engine.compile_text("define i64 @f(i64 %x) { ret i64 %x }")


@pytest.fixture
def break_kernels(monkeypatch):
    """From its call on each new kernel with an addition becomes nonsense."""
    compile_text = engine.compile_text

    def nonsense(text, level=2):
        return compile_text(text.replace(" = fadd ", " = fadd nonsense "), level)

    def start():
        monkeypatch.setenv("FX_CACHE", "0")
        monkeypatch.setattr(engine, "compile_text", nonsense)

    return start


def test_a_function_whose_code_is_refused_runs_its_kernels_and_says_so_once(break_kernels):
    plain, x = lambda x: fx.exp(x) + x.sum(), fx.arange(7.0)
    want, f = plain(x), fx.jit(plain)
    break_kernels()
    with pytest.warns(
        RuntimeWarning, match=r"kernel by kernel, with the same results: LLVM refuse"
    ):
        first = f(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = f(x)
    for got in (first, second):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_a_step_whose_code_is_refused_still_updates_its_cells(break_kernels):
    weights = [fx.nn.Parameter(fx.ones(5)) for _ in range(2)]
    for w, way in zip(weights, (lambda f: f, fx.jit), strict=True):
        optimizer = fx.optim.SGD([w], lr=0.1, momentum=0.9)

        @way
        def step(x, w=w, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((w * x + w) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for _ in range(3):
                step(fx.arange(5.0))
        break_kernels()
    np.testing.assert_allclose(*[np.asarray(w.detach()) for w in weights], rtol=1e-5)
