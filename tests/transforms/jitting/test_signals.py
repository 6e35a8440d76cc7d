"""What a signal raises while a function is staged is for the caller, and changes nothing."""

from __future__ import annotations

import gc
import signal
import sys
import warnings

import numpy as np
import pytest

import fx
from fx.config import writing
from fx.graph.ir import Graph
from fx.transforms.jitting import compiled
from fx.transforms.jitting.call import run_arrays
from fx.transforms.jitting.watching.watch import Watching

WAYS = ["_called", "_step", "_collects", "__enter__", "__exit__", "close"]


class Hit(Exception):
    """What the handler raises."""


@pytest.fixture
def handled():
    def handler(number, frame):
        raise Hit

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


def struck(name, at):
    """A method of Watching in which the signal comes in the call of that number."""
    method, calls = getattr(Watching, name), []

    def hit(self, *args):
        calls.append(name)
        if len(calls) == at:
            signal.raise_signal(signal.SIGUSR1)
        out = method(self, *args)
        if len(calls) == -at:
            signal.raise_signal(signal.SIGUSR1)
        return out

    return hit


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("at", [1, 2, -1])
def test_a_signal_while_a_function_is_watched(monkeypatch, handled, name, at):
    # of code of its own, or a program that another case has compiled would serve
    f = eval(f"lambda x: (gc.collect(0), fx.sin(x) * {WAYS.index(name) + at / 8} + 1)[1]")
    x, callbacks = fx.arange(3.0), list(gc.callbacks)
    jitted = fx.jit(f)
    monkeypatch.setattr(Watching, name, struck(name, at))
    if name == "_collects":  # what is raised there the collector prints, and goes on
        monkeypatch.setattr(sys, "unraisablehook", lambda *_: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            assert fx.allclose(jitted(x), f(x))
            came = False
        except Hit:
            came = True
        once = name in ("__enter__", "__exit__", "_collects")
        assert came == (name != "_collects" and (abs(at) == 1 or not once))
        monkeypatch.undo()
        assert sys.gettrace() is None and gc.callbacks == callbacks
        assert fx.allclose(jitted(x), f(x))
        assert fx.allclose(jitted(x), f(x))
    assert jitted.cache_size() == 1 and not jitted.eager


def test_who_sets_a_tracer_runs_uncompiled():
    def f(x):
        before = sys.gettrace()
        sys.settrace(None)
        y = x * 2
        sys.settrace(before)
        sys.settrace(None)
        return y

    jitted = fx.jit(f)
    with pytest.warns(RuntimeWarning, match="sets a tracer"):
        assert jitted(fx.ones(2)).tolist() == [2.0, 2.0]
    assert jitted.eager


def test_an_interrupt_ends_the_call(monkeypatch):
    def f(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fx.jit(f)(fx.ones(2))
    assert sys.gettrace() is None


def test_what_a_graph_keeps_is_there_whole_or_not(monkeypatch):
    """One of two entries was there when a signal came between them, and the other missed later."""
    known = fx.jit(lambda x: x * 3.25).lower(fx.ones(3)).graph
    graph = Graph(list(known.inputs), known.nodes, known.outputs, "not compiled yet")
    hits, base_of = iter([True]), compiled.base_of

    def struck(value):
        if next(hits, False):
            raise Hit
        return base_of(value)

    monkeypatch.setattr(compiled, "base_of", struck)
    monkeypatch.setattr(writing, "enabled", True)  # results have memory of their own
    with pytest.raises(Hit):
        run_arrays(graph, [np.ones(3, np.float32)])
    assert run_arrays(graph, [np.ones(3, np.float32)])[0].tolist() == [3.25] * 3
