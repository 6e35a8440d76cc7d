"""Moments: what is of the moment is asked in each call: random numbers, clocks, files, the system.

However it is come by, jitted functions draw what plain ones draw, and leave the generators where
plain ones leave them. Draws and clocks are inputs (``test_draws.py``); of the rest jitted functions
say once that they run uncompiled.
"""

import random
import time
import warnings

import numpy as np
import pytest

import fx

X = fx.tensor([1.0, 2.0])

PRELUDE = """
import datetime, functools, operator, os, random, secrets, tempfile, time, uuid
import numpy as np
from random import gauss, random as draw
from time import perf_counter as clock
mine, generator, old = random.Random(5), np.random.default_rng(5), np.random.RandomState(5)
class Holder: pass
holder = Holder()
holder.rng = generator
table = dict(draw=random.random)
half = functools.partial(random.uniform, 0.0, 0.5)
def deep(n): return random.random() if n == 0 else deep(n - 1)
def jitter(values): return [v + random.random() for v in values]
"""
DRAWS = (
    "random.random()", "draw()", "gauss(0, 1)", "random.randint(0, 1000)", "half()", "deep(5)",
    "random.choice([1.0, 2.0, 3.0, 4.0])", "random.sample(range(1000), 2)[0]", "table['draw']()",
    "mine.random()", "mine.gauss(0, 1)", "getattr(random, 'ran' + 'dom')()", "sum(jitter([1, 2]))",
    "operator.methodcaller('random')(mine)", "list(map(random.uniform, [0], [1]))[0]",
    "min([1, 2, 3], key=lambda v: random.random())", "np.random.rand()", "np.random.randn(2)[0]",
    "float(np.random.normal())", "int(np.random.randint(100))", "generator.normal()",
    "generator.random(2).sum()", "holder.rng.random()", "old.rand()", "int(old.permutation(5)[0])",
    "[random.random() for _ in range(3)][1]", "(lambda d=random.random: d())()",
    "eval('random.random()')", "__import__('random').random()", "np.random.random_sample()",
)  # fmt: skip
CLOCKS = (
    "time.time()", "clock()", "time.perf_counter_ns() % 1000", "time.monotonic()",
    "datetime.datetime.now().microsecond", "datetime.datetime.today().microsecond",
    "datetime.datetime.utcnow().microsecond", "list(map(lambda c: c(), [time.time]))[0]",
    "(datetime.datetime.now() - datetime.datetime(2020, 1, 1)).total_seconds()",
    "secrets.randbelow(1000)",
)  # fmt: skip
ASKED = (
    "float(os.urandom(1)[0])", "uuid.uuid4().int % 1000",
    "random.SystemRandom().random()", "random.Random().random()",
    "np.random.default_rng().random()", "np.random.RandomState().rand()", "os.times().elapsed",
    "len(os.listdir('.'))", "os.stat('.').st_mtime", "len(f'{time.time()}')",
    "os.path.getsize(os.__file__)", "functools.partial(time.time)()", "hash(time.perf_counter())",
    "[*map(random.uniform, [0], [1])][0]", "len(random.randbytes(3))", "time.sleep(0) or 1",
)  # fmt: skip
PURE = (  # what looks like it and is not
    "random.Random(3).random()", "np.random.default_rng(3).random()", "time.gmtime(0).tm_year",
    "np.random.RandomState(3).rand()", "datetime.datetime(2020, 1, 1).year",
    "len(os.path.join('a', 'b'))", "datetime.timedelta(1).days",
    "len(time.strftime('%Y', time.gmtime(0)))",
)  # fmt: skip


def made(expression):
    names = {}
    exec(PRELUDE + f"\ndef f(x):\n    return x * ({expression})\n", names)
    return names


def run(names, f):
    random.seed(7)
    np.random.seed(7)
    found = [f(X).tolist() for _ in range(3)]
    states = [random.getstate(), np.random.get_state(), names["mine"].getstate()]
    states += [names["generator"].bit_generator.state, names["old"].get_state()]
    return found, str(states)


@pytest.mark.parametrize("expression", DRAWS)
def test_draws_are_those_of_plain_python(expression):
    plain, jitted = made(expression), made(expression)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert run(jitted, fx.jit(jitted["f"])) == run(plain, plain["f"])
    assert sum("runs uncompiled" in str(w.message) for w in told) <= 1


@pytest.mark.parametrize("expression", CLOCKS)
def test_clocks_are_read_in_each_call(expression):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        jitted = fx.jit(made(expression)["f"])
        found = set()
        for _ in range(20):
            found.add(tuple(jitted(X.to(fx.float64)).tolist()))
            time.sleep(1e-4)
    assert len(found) > 15 and jitted.cache_size() == 1


@pytest.mark.parametrize("expression", ASKED)
def test_what_is_of_the_moment_is_told(expression):
    jitted = fx.jit(made(expression)["f"])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            jitted(X)
    assert [w for w in told if "runs uncompiled" in str(w.message)]
    assert len(told) == 1 and "<string>:" in str(told[0].message)


@pytest.mark.parametrize("expression", PURE)
def test_what_is_not_of_the_moment_is_compiled(expression):
    names = made(expression)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        jitted = fx.jit(names["f"])
        assert [jitted(X).tolist() for _ in range(2)] == [names["f"](X).tolist()] * 2
