"""What libraries keep for the user: caches, registries, files, events, formats, metaclasses.

A case sets something up, reads it in a function of a tensor, and changes it between calls, in
several orders. Jitted equals plain in every call; or runs uncompiled, and says so.
"""

import itertools
import warnings

import numpy as np
import pytest

import fx
from fx.transforms.jitting.watching.impure import is_of_numpy, numpy_settings

X = fx.tensor([1.0, 2.0])

PRELUDE = """
import abc, array, collections, collections.abc, concurrent.futures, decimal, functools, gc, io
import logging, queue, sys, threading, types, typing
import weakref
import attrs
import numpy as np
state = [1.0]

@functools.lru_cache(None)
def kept(n): return state[0] * n

@functools.lru_cache
def kept_list(n): return [state[0], n]

@functools.cache
def kept_alone(): return state[0]

@functools.lru_cache
def kept_by_name(n, m=1): return state[0] * n * m

class Caching:
    rate = 2.0
    @functools.lru_cache
    def kept(self, n): return self.rate * n + state[0]
caching = Caching()

@functools.singledispatch
def single(x): return 1.0
single.register(int)(lambda x: 2.0)

class Dispatching:
    @functools.singledispatchmethod
    def single(self, x): return 1.0
    @single.register
    def _(self, x: int): return 2.0
    @functools.singledispatchmethod
    @classmethod
    def of_class(cls, x): return 3.0
class Below(Dispatching): pass
dispatching, below = Dispatching(), Below()
ALL = dict(divide="warn", over="warn", under="ignore", invalid="warn")
third = np.ones(2) / 3
def quotient(one):
    try:
        return float(np.sum(one / np.zeros(1)) > 2) + 1
    except FloatingPointError:
        return 5.0
def quotient_of_function(one):
    try:
        return float(np.divide(one, 0.0) > 2) + 1
    except FloatingPointError:
        return 5.0
members = weakref.WeakSet()
class Member: pass
first, second = Member(), Member()
members.add(first)

class Abstract(abc.ABC): pass
@typing.runtime_checkable
class Runs(typing.Protocol):
    def run(self): ...
class Plain:
    value = 3
    def __init__(self): self.deep = {"k": [1, 5]}
plain = Plain()

class Meta(type):
    bias = 1.0
    def __len__(cls): return cls.count
    def __getitem__(cls, key): return cls.table[key]
    def __call__(cls, x): return x * cls.bias
class Made(metaclass=Meta):
    count, table = 3, {"k": 2.0}

module = types.ModuleType("made_up")
module.__getattr__ = lambda name: state[0]
@attrs.define
class Record:
    a: float = 1.0
    b: float = 2.0
record = Record()
def noted(a: 1.0, b=2.0): pass
text, lines = io.StringIO("12"), io.StringIO("1\\n2\\n3\\n4\\n5\\n6\\n")
data = io.BytesIO(b"abcdefg")
event, waiting, future = threading.Event(), queue.Queue(), concurrent.futures.Future()
logger = logging.getLogger("of_the_tests_of_libraries")
logger.setLevel(10)
number = decimal.Decimal(1)
"""

# (what is read, what happens between calls)
CASES = {
    "lru_cache": ("kept(2.0)", ["state[0] = 7.0", "kept.cache_clear()", "state[0] = 1.0"]),
    "a cached list": ("kept_list(2)[0]", ["kept_list(2)[0] = 9.0", "kept_list.cache_clear()"]),
    "cache": ("kept_alone()", ["state[0] = 7.0", "kept_alone.cache_clear()", "state[0] = 1.0"]),
    "a cache by name": ("kept_by_name(2, m=3)", ["state[0] = 7.0", "kept_by_name.cache_clear()"]),
    "a cached method": (
        "caching.kept(3)", ["caching.rate = 5.0", "Caching.kept.cache_clear()", "state[0] = 4.0"],
    ),
    "singledispatch": ("single(2)", ["single.register(int)(lambda x: 9.0)"]),
    "singledispatchmethod": (
        "dispatching.single(2) * below.single(2.0)",
        [
            "vars(Dispatching)['single'].register(int, lambda self, x: 9.0)",
            "vars(Dispatching)['single'].register(float, lambda self, x: 7.0)",
        ],
    ),
    "singledispatchmethod of a class": (
        "Below.of_class(2)",
        ["vars(Dispatching)['of_class'].register(int, classmethod(lambda cls, x: 9.0))"],
    ),
    "errors of NumPy": (
        "quotient(np.ones(1))", ["np.seterr(divide='raise')", "np.seterr(**ALL)"],
    ),
    "errors of NumPy's functions": (
        "quotient_of_function(1.0)", ["np.seterr(divide='raise')", "np.seterr(**ALL)"],
    ),
    "errors of NumPy that are asked for": (
        "(2.0 if np.geterr()['over'] == 'raise' else 3.0)",
        ["np.seterr(over='raise')", "np.seterr(**ALL)"],
    ),
    "how NumPy prints": (
        "np.get_printoptions()['precision']",
        ["np.set_printoptions(precision=3)", "np.set_printoptions(precision=8)"],
    ),
    "how NumPy shows an array": (
        "len(str(third))", ["np.set_printoptions(precision=3)", "np.set_printoptions(precision=8)"],
    ),
    "how NumPy shows arrays in a list": (
        "len(f'{[third, 1]}')",
        ["np.set_printoptions(precision=3)", "np.set_printoptions(precision=8)"],
    ),
    "how NumPy shows what is formatted": (
        "len('%s' % (third,))",
        ["np.set_printoptions(precision=3)", "np.set_printoptions(precision=8)"],
    ),
    "weak sets": ("len(members)", ["members.add(second)", "members.discard(first)"]),
    "abstract classes": ("isinstance(plain, Abstract) + 1", ["Abstract.register(Plain)"]),
    "protocols": ("isinstance(plain, Runs) + 1", ["plain.run = len", "plain.__dict__.clear()"]),
    "metaclasses": ("len(Made) * Made.bias", ["Meta.bias = 5.0", "Made.count = 7"]),
    "items of classes": (
        "Made['k'] * Made(2.0)",
        ["Made.table['k'] = 9.0", "Meta.bias = 3.0", "Meta.__getitem__ = lambda cls, key: 0.5"],
    ),
    "made-up names": ("module.rate", ["state[0] = 5.0", "module.rate = 2.0"]),
    "attrs": ("record.a * (record == Record()) + sum(attrs.astuple(record))", ["record.b = 10.0"]),
    "annotations": ("noted.__annotations__['a']", ["noted.__annotations__['a'] = 5.0"]),
    "names of classes": ("len(Plain.__name__)", ["Plain.__name__ = 'P'"]),
    "dir": ("len(dir(plain))", ["plain.more = 1", "Plain.most = 1"]),
    "formats": (
        "int('{0.value}{p.deep[k][1]}'.format(plain, p=plain))",
        ["plain.value = 8", "plain.deep['k'][1] = 3", "Plain.value = 4"],
    ),
    "format_map": ("int('{p.deep[k][0]}'.format_map({'p': plain}))", ["plain.deep['k'][0] = 3"]),
    "what a file holds": ("int(text.getvalue())", ["text.write('99')"]),
    "where a file is": ("data.read(1)[0] + data.tell()", ["data.seek(0)"]),
    "lines": ("int(lines.readline())", []),
    "events": ("event.is_set() + 1", ["event.set()", "event.clear()"]),
    "queues": ("waiting.qsize() + 1", ["waiting.put(1)"]),
    "futures": ("future.done() + 1", ["future.set_result(1)"]),
    "loggers": ("logger.isEnabledFor(20) + 1", ["logger.setLevel(40)", "logger.setLevel(10)"]),
    "the garbage collector": ("gc.isenabled() + 1", ["gc.disable()", "gc.enable()"]),
    "decimals": (
        "float(number / decimal.Decimal(3))",
        ["decimal.getcontext().prec = 2", "number = decimal.Decimal(2)"],
    ),
}  # fmt: skip
EFFECTS = {
    "queues": ("waiting.put(x.sum().item())", "list(waiting.queue)"),
    "what queues give": ("waiting.put(1.0); waiting.get()", "waiting.qsize()"),
    "events": ("event.clear() if event.is_set() else event.set()", "event.is_set()"),
}


def record(how, source, changes, seen=None):
    space = {"fx": fx, "__name__": "of_the_user"}
    exec(compile(PRELUDE + source, "<of the user>", "exec"), space)
    f = how(space["f"])
    found = []
    try:
        for change in ("", *changes, ""):
            exec(change, space)
            found.append(f(X).tolist())
            if seen is not None:
                found.append(eval(seen, space))
    finally:
        exec("gc.enable(); decimal.getcontext().prec = 28; np.seterr(**ALL)", space)
        exec("np.set_printoptions(precision=8)", space)
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_libraries_keep_is_read_anew(name):
    expression, changes = CASES[name]
    source = f"def f(x):\n    return x * ({expression})\n"
    for order in itertools.islice(itertools.permutations(changes), 2):
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always", RuntimeWarning)
            assert record(fx.jit, source, order) == record(lambda f: f, source, order)


@pytest.mark.parametrize("name", EFFECTS)
def test_what_is_put_into_objects_of_threads_is_put_there_in_each_call(name):
    statement, seen = EFFECTS[name]
    source = f"def f(x):\n    {statement}\n    return x * 2\n"
    with pytest.warns(RuntimeWarning, match="runs uncompiled"):
        got = record(fx.jit, source, ["", ""], seen)
    assert got == record(lambda f: f, source, ["", ""], seen)


MEMORY = [
    "sys.getrefcount(state)",
    "len(gc.get_referrers(state))",
    "weakref.getweakrefcount(first)",
]


@pytest.mark.parametrize("expression", MEMORY)
def test_what_lies_in_memory_is_no_constant(expression):
    with pytest.warns(RuntimeWarning, match="asks what lies in memory"):
        record(fx.jit, f"def f(x):\n    return x * {expression}\n", [""])


def test_a_cache_is_not_filled_with_what_stands_for_tensors():
    source = "@functools.cache\ndef table(n): return fx.arange(n) * 0.5\n"
    source += "def f(x):\n    return x * table(2)\n"
    with pytest.warns(RuntimeWarning, match="keeps its results"):
        got = record(fx.jit, source, [""], "table(2).tolist()")
    assert got == record(lambda f: f, source, [""], "table(2).tolist()")


def test_what_only_writes_is_compiled():
    source = "def f(x):\n    sys.stdout.write('')\n    logger.info('x')\n    return x * 2\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert record(fx.jit, source, []) == record(lambda f: f, source, [])


@pytest.mark.parametrize("name", [
    "lru_cache", "formats", "metaclasses", "loggers", "singledispatchmethod",
    "errors of NumPy that are asked for",
])  # fmt: skip
def test_what_can_be_asked_again_is_compiled(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        record(fx.jit, f"def f(x):\n    return x * ({CASES[name][0]})\n", CASES[name][1])


def test_the_class_of_a_layer_is_noticed():
    layer = fx.nn.Sequential(fx.nn.Tanh(), fx.nn.Tanh())
    f = fx.jit(lambda x: layer(x))
    for cls in (fx.nn.Tanh, fx.nn.Sigmoid, fx.nn.Tanh):
        layer[1].__class__ = cls
        assert f(X).tolist() == pytest.approx(layer(X).tolist(), rel=1e-5)


def test_what_numpy_is_set_to_is_one_text_that_is_made_once():
    first = numpy_settings()
    assert numpy_settings() is first
    with np.printoptions(precision=3):
        assert numpy_settings() != first
    with np.errstate(divide="raise"):
        assert numpy_settings() != first
    assert numpy_settings() == first
    assert is_of_numpy(np.float32(1)) and not is_of_numpy(np.dtype("float32"))
