"""What users of ``jit`` trip over, the worst first: this is what happens.

Python state that a function reads through names is guarded (``transforms/jitting/README.md``). What
comes from elsewhere is not seen, and stays as it was when the function was staged.
"""

import itertools
import os
import random
import time
from types import MappingProxyType

import numpy as np
import pytest

import fx
from fx.errors import EscapedTracerError, StagingError

X = fx.tensor([1.0, 2.0])


# what is frozen: values that come from outside of Python's names ----------------------------------


def test_random_numbers_of_python_and_numpy_are_drawn_once():
    """Write fx.random or fx.rand: their draws are staged."""
    f = fx.jit(lambda x: x * random.random())
    assert f(X).tolist() == f(X).tolist()
    g = fx.jit(lambda x: x * np.random.default_rng().random())
    assert g(X).tolist() == g(X).tolist()
    h = fx.jit(lambda x: x * fx.rand(2))
    assert h(X).tolist() != h(X).tolist()


def test_the_clock_is_read_once():
    """Pass the time as an argument: a number is an input."""
    f = fx.jit(lambda x: x * 0 + time.perf_counter())
    assert f(X).tolist() == f(X).tolist()


def test_the_environment_is_read_once(monkeypatch):
    """Read it outside, into a variable: that is guarded."""
    monkeypatch.setenv("FACTOR_OF_THE_TEST", "2")
    f = fx.jit(lambda x: x * int(os.environ["FACTOR_OF_THE_TEST"]))
    assert f(X).tolist() == [2.0, 4.0]
    monkeypatch.setenv("FACTOR_OF_THE_TEST", "3")
    assert f(X).tolist() == [2.0, 4.0]
    factor = 2
    g = fx.jit(lambda x: x * factor)
    assert g(X).tolist() == [2.0, 4.0]
    factor = 3
    assert g(X).tolist() == [3.0, 6.0]


def test_files_are_read_once(tmp_path):
    """Read the file outside."""
    path = tmp_path / "factor"
    path.write_text("2")
    f = fx.jit(lambda x: x * int(path.read_text()))
    assert f(X).tolist() == [2.0, 4.0]
    path.write_text("3")
    assert f(X).tolist() == [2.0, 4.0]


def test_an_iterator_goes_on_once():
    """Call next() outside, and pass what it gives."""
    numbers = itertools.count(1)
    f = fx.jit(lambda x: x * next(numbers))
    assert [f(X).tolist() for _ in range(2)] == [[1.0, 2.0]] * 2


def test_contents_of_objects_of_libraries_are_not_seen():
    """Keep settings in a dict, a dataclass, a module or a class of your own."""
    held = {"factor": 2.0}
    view = MappingProxyType(held)  # stands for any container that is written in C
    f = fx.jit(lambda x: x * view["factor"])
    assert f(X).tolist() == [2.0, 4.0]
    held["factor"] = 3.0
    assert f(X).tolist() == [2.0, 4.0]


def test_operators_that_are_replaced_on_a_class_are_not_seen():
    """Other methods are, and those of objects."""

    class Scale:
        def __mul__(self, x):
            return x * 2

        def apply(self, x):
            return x * 2

    scale, before = Scale(), Scale.__mul__
    f = fx.jit(lambda x: scale * x)
    g = fx.jit(lambda x: scale.apply(x))
    assert f(X).tolist() == g(X).tolist() == [2.0, 4.0]
    Scale.__mul__ = Scale.apply = lambda self, x: x * 3
    assert f(X).tolist() == [2.0, 4.0]
    assert g(X).tolist() == [3.0, 6.0]
    del before  # nothing holds the old operator any more, and its programs go with it
    assert f(X).tolist() == [3.0, 6.0]


def test_a_method_that_is_put_on_an_object_is_not_seen():
    """Put it there before the first call: another one in its place is seen then."""

    class Scale:
        def apply(self, x):
            return x * 2

    scale = Scale()
    f = fx.jit(lambda x: scale.apply(x))
    assert f(X).tolist() == [2.0, 4.0]
    scale.apply = lambda x: x * 3
    assert f(X).tolist() == [2.0, 4.0]
    f.cache_clear()
    assert f(X).tolist() == [3.0, 6.0]
    scale.apply = lambda x: x * 4
    assert f(X).tolist() == [4.0, 8.0]


def test_very_long_containers_are_compared_by_their_length():
    """Make it a tensor."""
    numbers = [1.0] * 20_000
    f = fx.jit(lambda x: x * numbers[7])
    f(X)
    numbers[7] = 5.0
    assert f(X).tolist() == [1.0, 2.0]
    numbers.append(1.0)
    assert f(X).tolist() == [5.0, 10.0]


def test_very_large_numpy_arrays_are_compared_by_identity():
    """Make it a tensor: fx.asarray(array) outside."""
    array = np.ones(1 << 20)
    f = fx.jit(lambda x: x * float(array[0]))
    f(X)
    array[0] = 5.0
    assert f(X).tolist() == [1.0, 2.0]
    array = array.copy()
    assert f(X).tolist() == [5.0, 10.0]


# what happens once, or more often than one thinks -------------------------------------------------


def test_print_says_tracers_once(capsys):
    """Write fx.debug.print."""

    @fx.jit
    def f(x):
        print("staged")
        fx.debug.print("called with {}", x[0])
        return x * 2

    f(X)
    f(X + 1)
    assert capsys.readouterr().out == "staged\ncalled with 1.0\ncalled with 2.0\n"


def test_a_list_that_is_appended_to_gets_tracers():
    """Return the values, and append outside."""
    losses = []

    @fx.jit
    def f(x):
        losses.append(x.sum())
        return x

    f(X)
    with pytest.raises(EscapedTracerError, match=r"test_jit_footguns.py:\d+"):
        losses[0].item()


def test_what_is_stored_on_an_object_is_a_tracer():
    """Make it a fx.nn.Buffer: those are rebound in every call."""

    class Model:
        pass

    model, layer = Model(), fx.nn.Module()
    layer.last = fx.nn.Buffer(fx.zeros(2))

    @fx.jit
    def f(x):
        model.last = x * 2
        layer.last = x * 2
        return x

    f(X)
    with pytest.raises(EscapedTracerError, match="jit"):
        model.last + 1
    assert layer.last.data.tolist() == [2.0, 4.0]


def test_a_counter_makes_it_run_uncompiled():
    """Make it a tensor in a fx.nn.Buffer, or count outside."""
    counts = {"calls": 0}

    @fx.jit
    def f(x):
        counts["calls"] += 1
        return x * counts["calls"]

    with pytest.warns(RuntimeWarning, match=r"it changes what it reads: .*counts"):
        found = [f(X).tolist()[0] for _ in range(8)]
    assert found == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]  # right, and slow


def test_a_counter_that_is_only_written_stops():
    """What a function writes and does not read is written while it is staged."""
    holder = type("Holder", (), {})()
    calls = itertools.count(1)

    @fx.jit
    def f(x):
        holder.calls = next(calls)
        return x * 2

    f(X)
    f(X)
    assert holder.calls == 1


def test_a_value_that_is_different_each_time_makes_it_run_uncompiled():
    """Compute with the tensor instead of its value."""
    f = fx.jit(lambda x: x * x.sum().item())
    with pytest.warns(RuntimeWarning, match="was different 16 times"):
        for i in range(20):
            x = X * i
            assert f(x).tolist() == (x * x.sum()).tolist()


def test_a_python_number_in_a_closure_that_always_changes():
    """Pass it as an argument: there a number is an input."""
    rate = 0.0
    f = fx.jit(lambda x: x * rate)
    with pytest.warns(RuntimeWarning, match=r"closure variable `rate` changed from"):
        for _ in range(40):
            rate += 0.5
            assert f(X).tolist() == [rate, 2 * rate]
    g = fx.jit(lambda x, rate: x * rate)
    for _ in range(40):
        rate += 0.5
        assert g(X, rate).tolist() == [rate, 2 * rate]
    assert g.cache_size() == 1


def test_a_new_object_in_each_call_compiles_each_time():
    """Pass tensors and numbers, or a dataclass: its fields are arguments."""

    class Options:
        def __init__(self, n):
            self.n = n

    f = fx.jit(lambda x, options: x * options.n)
    kept = [Options(2), Options(2)]
    for options in kept:
        f(X, options)
    assert f.cache_size() == 2


def test_a_static_argument_must_be_hashable():
    f = fx.jit(lambda x, sizes: x * len(sizes), static_argnums=1)
    assert f(X, (1, 2)).tolist() == [2.0, 4.0]
    with pytest.raises(StagingError, match="static argument 1 is a list, which is not hashable"):
        f(X, [1, 2])


def test_the_type_inside_is_that_of_a_tracer():
    """Write isinstance(x, fx.Tensor)."""
    w = fx.tensor([3.0, 4.0])
    f = fx.jit(lambda x: (type(x) is fx.Tensor, type(w) is fx.Tensor, isinstance(w, fx.Tensor)))
    assert f(X) == (False, False, True)
    assert type(w) is fx.Tensor
