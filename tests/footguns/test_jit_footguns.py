"""What users of ``jit`` trip over: this is what happens.

Python state that a function reads is guarded (``transforms/jitting/README.md``); what cannot be
makes it run uncompiled. What libraries keep for themselves stays as it was when it was staged.
"""

import itertools
import logging
import os
import pprint
import random
import string
import textwrap
import time
import typing

import numpy as np
import pytest

import fx
from fx.errors import EscapedTracerError, StagingError

X = fx.tensor([1.0, 2.0])


# what makes it run uncompiled: values that are of the moment --------------------------------------


def uncompiled(f, plain, why, calls=3):
    """Results are those of the plain function, and one warning says why it is not compiled."""
    with pytest.warns(RuntimeWarning, match=why) as told:
        for _ in range(calls):
            assert f(X).tolist() == plain(X).tolist()
    assert len(told) == 1


def test_the_clock_is_shown_in_each_call(capsys):
    """Compute with it and compare it, which is compiled; show it outside."""

    @fx.jit
    def f(x):
        print(f"{time.perf_counter()}")
        return x * 2

    uncompiled(f, lambda x: x * 2, r"it asks for the value of the clock \(.*:\d+")
    assert len(set(capsys.readouterr().out.split())) == 3


def test_a_function_in_c_that_is_given_a_draw_makes_it_run_uncompiled():
    """Call it yourself: [random.gauss(m, 1) for m in means]."""
    means = [0.0, 1.0]
    f = fx.jit(lambda x: x * sum(map(random.gauss, means, means)))
    with pytest.warns(RuntimeWarning, match=r"it draws from a random.Random by gauss\(\) \(.*:\d+"):
        for _ in range(3):
            f(X)


def test_the_environment_is_compared(monkeypatch):
    """It costs a microsecond: read it outside, into a variable."""
    f = fx.jit(lambda x: x * int(os.environ["FACTOR_OF_THE_TEST"]))
    for factor in (2, 3):
        monkeypatch.setenv("FACTOR_OF_THE_TEST", str(factor))
        assert f(X).tolist() == [factor, 2.0 * factor]


def test_files_are_read_in_each_call(tmp_path):
    """Read the file outside."""
    path = tmp_path / "factor"
    f = fx.jit(lambda x: x * int(path.read_text()))
    with pytest.warns(RuntimeWarning, match="it asks a file by io.open"):
        for factor in (2, 3):
            path.write_text(str(factor))
            assert f(X).tolist() == [factor, 2.0 * factor]


def test_an_iterator_goes_on_in_each_call():
    """Call next() outside, and pass what it gives."""
    numbers, again = itertools.count(1), itertools.count(1)
    f = fx.jit(lambda x: x * next(numbers))
    uncompiled(
        f, lambda x: x * next(again), "it uses a itertools.count, closure variable `numbers`"
    )


def test_very_long_containers_make_it_run_uncompiled():
    """Make it a tensor."""
    numbers = [1.0] * 200_000
    f = fx.jit(lambda x: x * numbers[7])
    with pytest.warns(
        RuntimeWarning, match="`numbers`, more than 131,072 values, which is too large"
    ):
        assert f(X).tolist() == [1.0, 2.0]
    numbers[7] = 5.0
    assert f(X).tolist() == [5.0, 10.0]


def test_very_large_numpy_arrays_make_it_run_uncompiled():
    """Make it a tensor: fx.asarray(array) outside."""
    array = np.ones(3_000_000)
    f = fx.jit(lambda x: x * float(array[0]))
    with pytest.warns(RuntimeWarning, match="`array`, an array of 24,000,000 bytes"):
        assert f(X).tolist() == [1.0, 2.0]
    array[0] = 5.0
    assert f(X).tolist() == [5.0, 10.0]


# what is compiled more often than one thinks -----------------------------------------------------


def test_each_way_through_branches_on_draws_is_a_program():
    """Draw the numbers as one array outside of the loop, and use fx.where."""

    @fx.jit
    def f(x):
        for _ in range(4):
            x = x * 0.5 if random.random() < 0.5 else x + 1
        return x

    random.seed(0)
    for _ in range(80):
        f(X)
    assert 8 < f.cache_size() <= 16


# what is frozen -----------------------------------------------------------------------------------


def test_what_libraries_keep_for_themselves_is_not_seen():
    """Keep it in a module of your own."""
    f = fx.jit(lambda x: x * len(textwrap.wrap("a b", 1)))
    assert f(X).tolist() == [2.0, 4.0]
    before = textwrap.TextWrapper.wrap
    textwrap.TextWrapper.wrap = lambda self, text: [text]
    try:
        assert f(X).tolist() == [2.0, 4.0]
    finally:
        textwrap.TextWrapper.wrap = before


@pytest.mark.parametrize("cls, name", [(fx.Tensor, "relu"), (fx.nn.ReLU, "forward")])
def test_a_method_of_a_class_of_fx_that_is_replaced_between_calls_is_not_seen(cls, name):
    """Derive a class of your own: its methods are compared, and those that a module replaces."""
    layer = fx.nn.ReLU()
    f = fx.jit(lambda x: layer(x) if name == "forward" else x.relu())
    assert f(X).tolist() == [1.0, 2.0]
    before = getattr(cls, name)
    setattr(cls, name, lambda self, *x: 5.0)
    try:
        assert f(X).tolist() == [1.0, 2.0]
    finally:
        setattr(cls, name, before)


def test_what_typing_tells_of_a_class_is_not_asked_again():
    """Read cls.__annotations__, which is compared."""

    class Record:
        a: int

    f = fx.jit(lambda x: x * len(typing.get_type_hints(Record)))
    assert f(X).tolist() == [1.0, 2.0]
    Record.__annotations__["b"] = int
    assert f(X).tolist() == [1.0, 2.0]


def test_keys_of_dicts_among_arguments_that_are_equal_are_the_same():
    """1, 1.0 and True are one key; write them as texts."""
    f = fx.jit(lambda given: {key: x * 2 for key, x in given.items()})
    assert [*map(type, f({1: X}))] == [int]
    assert [*map(type, f({True: X}))] == [int]


def test_the_error_of_what_nobody_uses_is_not_raised():
    """Return what may fail, or check the index yourself: what no result needs is not computed."""
    f = lambda x, i: (x[i], x * 2)[1]
    with pytest.raises(IndexError):
        f(X, fx.tensor([7]))
    assert fx.jit(f)(X, fx.tensor([7])).tolist() == [2.0, 4.0]


# what happens once, or more often than one thinks -------------------------------------------------


def test_print_of_what_no_call_changes_speaks_once(capsys):
    """Write fx.debug.print."""

    @fx.jit
    def f(x):
        print("staged")
        fx.debug.print("called with {}", x[0])
        return x * 2

    f(X)
    f(X + 1)
    assert capsys.readouterr().out == "staged\ncalled with 1.0\ncalled with 2.0\n"


def test_a_list_that_something_is_taken_out_of_makes_it_run_uncompiled():
    """Append inside, and take out outside: what is put into lists and dicts is compiled."""
    losses = []

    @fx.jit
    def f(x):
        losses.append(x.sum())
        if len(losses) > 2:
            losses.pop(0)
        return x

    with pytest.warns(RuntimeWarning, match=r"it changes closure variable `losses`"):
        for i in range(6):
            f(X * i)
    assert [x.item() for x in losses] == [12.0, 15.0]


def test_an_error_that_holds_a_value_gets_a_tracer():
    """Put the number into it that is wanted: x.sum().item()."""

    @fx.jit
    def f(x):
        raise LookupError(x.sum())

    with pytest.raises(LookupError) as caught:
        f(X)
    with pytest.raises(EscapedTracerError, match=r"test_jit_footguns.py:\d+"):
        caught.value.args[0].item()


def test_a_tensor_that_grows_makes_it_run_uncompiled():
    """Make it as large as it will be, and write rows. What keeps its shape is compiled."""

    class Model:
        last = None

    model = Model()
    model.last = fx.zeros(1)

    @fx.jit
    def f(x):
        model.last = fx.concatenate([model.last, x])
        return x

    with pytest.warns(RuntimeWarning, match=r"it changes closure variable `model.last`"):
        for i in range(3):
            f(X)
            assert model.last.tolist() == [0.0, *X.tolist() * (i + 1)]


def test_the_value_of_a_counter_makes_it_run_uncompiled():
    """Count, compute with it and compare it, which is compiled; show it outside."""
    counts = {"calls": 0}

    @fx.jit
    def f(x):
        counts["calls"] += 1
        return x * len(f"{counts['calls']}")

    with pytest.warns(RuntimeWarning, match=r"asks for the value of a number that it counts"):
        found = [f(X).tolist()[0] for _ in range(12)]
    assert found == [1.0] * 9 + [2.0] * 3 and counts == {"calls": 12}


def test_a_value_that_is_different_each_time_makes_it_run_uncompiled():
    """Store it, return it, compute with it or compare it, which is compiled; show it outside."""
    f = fx.jit(lambda x: x * len(f"{x.sum().item()}"))
    with pytest.warns(RuntimeWarning, match="was different 16 times"):
        for i in range(20):
            x = X * i
            assert f(x).tolist() == (x * len(f"{x.sum().item()}")).tolist()


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


class Shown(logging.Handler):
    """Prints what is logged."""

    def emit(self, record):
        print(record.getMessage())


LOGGER = logging.Logger("a test's")
LOGGER.addHandler(Shown())

TEXTS = {
    "str": lambda y: str(y),
    "repr": lambda y: repr([y]),
    "ascii": lambda y: ascii((y, 1)),
    "percent": lambda y: "loss %s of %d" % (y, 3),  # noqa: UP031 - all ways
    "format of several": lambda y: format(y * fx.ones(2)),
    "str.format": lambda y: "{!r}, {}".format(y, {"y": y}),
    "f-string": lambda y: f"{y * fx.ones(2)} and {y!r}",
    "join": lambda y: ",".join(map(str, [y, y])),
    "template": lambda y: string.Template("$y").substitute(y=y),
    "method": lambda y: y.__str__(),
    "pformat": lambda y: pprint.pformat({"y": [y]}),
    "print": lambda y: print("loss", y, [y]),
    "write": lambda y: print("loss " + str(y)),
    "log": lambda y: LOGGER.warning("loss %s", y),
    "as a condition": lambda y: 1 if "2" in str(y) else 2,
    "of an error": lambda y: str(ValueError(y)),
}


@pytest.mark.parametrize("way", TEXTS)
@pytest.mark.parametrize("inner", [lambda x: x.sum(), lambda x: fx.grad(fx.exp)(x.sum())])
def test_a_text_of_a_tensor_makes_it_run_uncompiled(way, inner, capsys):
    """Every text is that of its call; write fx.debug.print, which is compiled."""
    f = lambda x: (x * 2, TEXTS[way](inner(x)))
    expected = [f(fx.ones(2) * n)[1] for n in (1.0, 2.0, 1.0)]
    printed = capsys.readouterr().out
    fast = fx.jit(f)
    with pytest.warns(
        RuntimeWarning, match=r"it makes a text of float32\[.*fx.debug.print"
    ) as told:
        assert [fast(fx.ones(2) * n)[1] for n in (1.0, 2.0, 1.0)] == expected
    assert capsys.readouterr().out == printed
    assert len(told) == 1


@pytest.mark.parametrize("show", [lambda y: f"{y}", lambda y: f"{y:.3f}", lambda y: format(y)])
def test_a_number_in_a_text_is_that_of_the_call(show):
    """``f"{loss}"`` gave ``jit(float32[])``."""
    f = lambda x: (x * 2, show(x.sum()))
    fast = fx.jit(f)
    for n in (1.0, 2.0, 1.0):
        assert fast(fx.ones(2) * n)[1] == f(fx.ones(2) * n)[1]
