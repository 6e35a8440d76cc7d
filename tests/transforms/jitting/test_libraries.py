"""What libraries keep for the user: caches, registries, files, events, formats, metaclasses.

A case sets something up, reads it in a function of a tensor, and changes it between calls, in
several orders. Jitted equals plain in every call; or runs uncompiled, and says so.
"""

import itertools
import threading
import warnings

import numpy as np
import pytest

import fx
from fx.transforms.jitting.watching.impure import is_of_numpy, numpy_settings

X = fx.tensor([1.0, 2.0])

PRELUDE = """
import abc, array, collections, collections.abc, concurrent.futures, decimal, functools, gc, io
import logging, math, queue, signal, sys, threading, types, typing
import weakref
import attrs
import numpy as np
import fx.torch as torch
import fx.nn.functional as F
state = [1.0]
replaced = {"math": math.floor, "fx": fx.abs, "torch": torch.relu, "F": F.gelu, "np": np.sum}

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
lock = threading.Lock()
first_seed, threads = torch.initial_seed(), torch.get_num_threads()
sys.modules["made_up_too"] = types.SimpleNamespace(rate=2.0)
number = decimal.Decimal(1)
"""

RESTORED = """
gc.enable(); gc.set_threshold(700); decimal.getcontext().prec = 28; np.seterr(**ALL)
np.set_printoptions(precision=8); fx.set_printoptions(precision=4); math.pi = np.pi
math.floor, fx.abs, torch.relu, F.gelu, np.sum = replaced.values()
logging.disable(0); logging.raiseExceptions = True; torch.set_float32_matmul_precision("highest")
torch.manual_seed(first_seed); torch.set_num_threads(threads)
torch.set_default_dtype(torch.float32); signal.signal(signal.SIGUSR1, signal.SIG_DFL)
sys.modules.pop("of_the_test", None)
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
    "a logger's level": ("logger.level", ["logger.setLevel(40)", "logger.setLevel(10)"]),
    "a logger by its name": (
        "logging.getLogger('of_the_tests_of_libraries').level",
        ["logger.setLevel(40)", "logger.setLevel(10)"],
    ),
    "what no logger says": ("logging.root.manager.disable + 1", ["logging.disable(5)"]),
    "a flag of a library": (
        "logging.raiseExceptions + 1", ["logging.raiseExceptions = False"],
    ),
    "a constant of a library": ("math.pi", ["math.pi = 4.0", "math.pi = 4"]),
    "a function of a library": (
        "math.floor(3.5)", ["math.floor = lambda x: 9.0", "math.floor = replaced['math']"],
    ),
    "functions of fx": (
        "fx.abs(x) + torch.relu(x)",
        ["fx.abs = lambda x: x + 3", "torch.relu = lambda x: x * 5", "fx.abs = fx.square"],
    ),
    "functions of a module in a module": (
        "fx.nn.functional.gelu(x)", ["F.gelu = lambda x: x + 3", "F.gelu = fx.square"],
    ),
    "functions of NumPy": (
        "float(np.sum([1.0, 2.0]))", ["np.sum = lambda x: 7.0", "np.sum = replaced['np']"],
    ),
    "locks": (
        "lock.locked() + 1", ["lock.acquire(False)", "lock.locked() and lock.release()"],
    ),
    "a lock by its name": (
        "(2.0 if lock.acquire(False) and lock.release() is None else 3.0)", ["lock.acquire()"],
    ),
    "which modules there are": (
        "('of_the_test' in sys.modules) + 1",
        ["sys.modules['of_the_test'] = types.ModuleType('of_the_test')"],
    ),
    "a module by its name": (
        "(2.0 if sys.modules.get('of_the_test') is None else 3.0)",
        ["sys.modules['of_the_test'] = types.ModuleType('of_the_test')"],
    ),
    "an item of the modules": (
        "sys.modules['made_up_too'].rate",
        ["sys.modules['made_up_too'] = types.SimpleNamespace(rate=5.0)"],
    ),
    "how many modules there are": (
        "len(sys.modules)", ["sys.modules['of_the_test'] = types.ModuleType('of_the_test')"],
    ),
    "handlers of signals": (
        "(2.0 if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL else 3.0)",
        ["signal.signal(signal.SIGUSR1, signal.SIG_IGN)"],
    ),
    "threads of fx": (
        "torch.get_num_threads()", ["torch.set_num_threads(1)", "torch.set_num_threads(2)"],
    ),
    "a setting of fx": (
        "len(torch.get_float32_matmul_precision())", ["torch.set_float32_matmul_precision('high')"],
    ),
    "how fx prints": (
        "fx.get_printoptions()['precision']", ["fx.set_printoptions(precision=7)"],
    ),
    "the default dtype": (
        "(2.0 if torch.get_default_dtype() == torch.float64 else 3.0)",
        ["torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)"],
    ),
    "the seed": ("torch.initial_seed() % 7", ["torch.manual_seed(3)", "torch.manual_seed(4)"]),
    "when garbage is collected": ("gc.get_threshold()[0]", ["gc.set_threshold(600)"]),
    "the context of decimals": (
        "decimal.getcontext().prec", ["decimal.getcontext().prec = 3"],
    ),
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
        exec(RESTORED, space)
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


OF_A_THREAD = [
    "threading.get_ident() % 1009", "threading.get_native_id() % 1009",
    "len(threading.current_thread().name)",
    "(2.0 if threading.current_thread() is threading.main_thread() else 3.0)",
]  # fmt: skip


@pytest.mark.parametrize("expression", OF_A_THREAD)
def test_which_thread_it_is_is_asked_in_each_call(expression):
    space = {"threading": threading}
    exec(f"def f(x):\n    return x * ({expression})\n", space)
    plain, found = space["f"], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        fast = fx.jit(plain)
        fast(X)

        def run():
            found.append((fast(X).tolist(), plain(X).tolist()))

        for name in ("a", "of another length"):
            thread = threading.Thread(target=run, name=name)
            thread.start()
            thread.join()
    assert [got for got, _ in found] == [expected for _, expected in found]


def test_what_is_done_under_a_lock_is_done_under_it():
    lock, counts, compiled = threading.Lock(), [], []

    class Noted:
        n = 0

    def f(x):
        with lock:
            counts.append(lock.locked())
            Noted.n += 1
        return x * 2

    with pytest.warns(RuntimeWarning, match="it takes, or asks for, a lock"):
        fast = fx.jit(f)
        for _ in range(3):
            compiled.append(fast(X).tolist())
    assert counts == [True] * 3 and Noted.n == 3 and compiled == [[2.0, 4.0]] * 3


def test_a_fresh_seed_is_fresh_in_each_call():
    first = fx.initial_seed()
    try:
        with pytest.warns(RuntimeWarning, match=r"by fx.seed\(\)"):
            f = fx.jit(lambda x: (x * 2, fx.seed() and fx.initial_seed()))
            assert len({f(X)[1] for _ in range(3)}) == 3
    finally:
        fx.manual_seed(first)


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
    "lru_cache", "formats", "metaclasses", "loggers", "singledispatchmethod", "a logger's level",
    "a logger by its name", "functions of fx", "a constant of a library", "threads of fx",
    "which modules there are", "the seed", "the context of decimals",
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
