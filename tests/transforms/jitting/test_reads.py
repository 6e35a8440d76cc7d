"""Reads: however Python state is read and changed, jitted equals plain, or says it is uncompiled.

Programs are made of a place where a value lives, a way to read it there, and what happens to it
between calls. ``num`` tells values apart that compare equal: 1, True, 1.0, np.int64(1), -0.0.
"""

import itertools
import sys
import types
import warnings

import numpy as np
import pytest

import fx
from fx.transforms.jitting.watching import watch as watching
from tests.transforms.jitting.programs import interpreted

X = fx.tensor([1.0, 2.0])

PRELUDE = """
import collections, contextlib, copy, dataclasses, functools, json, operator, types
from operator import attrgetter
from dataclasses import asdict as fields_of
import numpy as np
look = getattr
get_rate = attrgetter("rate")

def num(v):
    if not isinstance(v, (bool, int, float, np.generic)):
        return float(len(str(v)))
    kind = ("bool", "int", "float", "int64", "float64").index(type(v).__name__)
    return float(v) + 10.0 * kind + (100.0 if str(v).startswith("-") else 0.0)

class Box:
    def __init__(self, rate=None):
        if rate is not None:
            self.rate = rate
        self.other = 1

class Slots:
    __slots__ = ("rate", "other")
    def __init__(self, rate=None):
        if rate is not None:
            self.rate = rate
        self.other = 1

@dataclasses.dataclass
class Data:
    rate: float = 1.0
    other: int = 1

@dataclasses.dataclass(frozen=True)
class Frozen:
    rate: float = 1.0
    other: int = 1

class Dynamic:
    def __init__(self, rate):
        self.held = {"rate": rate}
    def __getattr__(self, name):
        try:
            return self.__dict__["held"][name]
        except KeyError:
            raise AttributeError(name)

class Property:
    def __init__(self, rate):
        self._rate = rate
    @property
    def rate(self):
        return self._rate
"""

VALUES = ("2", "3", "1", "True", "1.0", "np.float64(1)", "0.0", "-0.0")
DELETED = "DELETED"

# where an object with an attribute `rate` lives: (set up, an expression for the object)
OBJECTS = {
    "global": ("box = Box({v})", "box"),
    "slots": ("box = Slots({v})", "box"),
    "dataclass": ("box = Data({v})", "box"),
    "namespace": ("box = types.SimpleNamespace(rate={v}, other=1)", "box"),
    "class": ("class box:\n    rate, other = {v}, 1", "box"),
    "class of an object": ("class Held:\n    rate, other = {v}, 1\nbox = Held()", "box"),
    "base class": ("class Base:\n    rate = {v}\nclass Held(Base): pass\nbox = Held()", "box"),
    "function": ("def box(): pass\nbox.rate, box.other = {v}, 1", "box"),
    "module": ("box = types.ModuleType('box')\nbox.rate, box.other = {v}, 1", "box"),
    "in a list": ("held = [1, Box({v})]", "held[1]"),
    "in a dict": ("held = {{'a': {{'b': Box({v})}}}}", "held['a']['b']"),
    "in a long list": ("held = [Box(i) for i in range(1100)]\nheld[999] = Box({v})", "held[999]"),
    "deep": (
        "top = at = Box(1)\nfor _ in range(30):\n    at.below = Box(1)\n    at = at.below\n"
        "at.rate = {v}",
        "top" + ".below" * 30,
    ),
    "cached": (
        "box = Box({v})\n@functools.lru_cache\ndef the_box():\n    return Box({v})",
        "the_box()",
    ),
    "in a UserDict": ("held = collections.UserDict(a=Box({v}))", "held['a']"),
    "in a ChainMap": ("held = collections.ChainMap({{}}, dict(a=Box({v})))", "held['a']"),
    "in a proxy": ("inner = dict(a=Box({v}))\nheld = types.MappingProxyType(inner)", "held['a']"),
    "in a deque": ("held = collections.deque([Box({v})])", "held[0]"),
}  # fmt: skip

# ways to read the attribute `rate` of {o}
OF_OBJECTS = {
    "by name": "num({o}.rate)",
    "getattr": "num(getattr({o}, 'ra' + 'te'))",
    "getattr under another name": "num(look({o}, 'rate'))",
    "attrgetter": "num(get_rate({o}))",
    "attrgetter of a chain": "num(attrgetter('box.rate')(types.SimpleNamespace(box={o})))",
    "map of attrgetter": "num(list(map(get_rate, [{o}]))[0])",
    "sorted by attrgetter": "num(get_rate(sorted([{o}], key=get_rate)[0]))",
    "partial": "num(functools.partial(getattr, {o})('rate'))",
    "eval": "num(eval({o!r} + '.rate'))",
    "eval with globals": "num(eval({o!r} + '.rate', globals()))",
    "exec": "num(run('r = ' + {o!r} + '.rate')['r'])",
    "format": "float(len('{{0.rate!r}}'.format({o}))) + num({o}.rate)",
    "match": "num(matched({o}))",
    "match by keyword": "num(matched_keyword({o}))",
    "copy": "num(copy.copy({o}).rate)",
    "hasattr": "float(hasattr({o}, 'rate'))",
    "try": "num(tried({o}))",
    "lambda": "num((lambda o: o.rate)({o}))",
    "comprehension": "num([o.rate for o in ({o},)][0])",
    "generator": "num(next(o.rate for o in ({o},)))",
    "reduce": "num(functools.reduce(getattr, ['rate'], {o}))",
    "operator.methodcaller": "num(operator.methodcaller('__getattribute__', 'rate')({o}))",
    "context": "num(managed({o}))",
    "descriptor": "num(object.__getattribute__({o}, 'rate'))",
}
WITH_DICT = {
    "vars": "num(vars({o})['rate'])",
    "__dict__": "num({o}.__dict__['rate'])",
    "items of __dict__": "sum(num(v) for v in {o}.__dict__.values())",
    "json": "float(len(json.dumps({o}.__dict__, default=str)))",
    "dict": "num(dict(vars({o}))['rate'])",
}
OF_DATA = {
    "asdict under another name": "num(fields_of({o})['rate'])",
    "astuple": "num(dataclasses.astuple({o})[0])",
    "repr": "float(len(repr({o}))) + sum(map(ord, str({o})))",
    "f-string": "float(sum(map(ord, f'{{{o}}}')))",
    "==": "float({o} == Data(2, 1))",
    "in": "float({o} in [Data(2, 1)])",
    "replace": "num(dataclasses.replace({o}, other=3).rate)",
    "match by place": "num(matched_data({o}))",
    "fields": "sum(num(getattr({o}, f.name)) for f in dataclasses.fields({o}))",
}
HELPERS = """
def run(code):
    space = {}
    exec(code, globals(), space)
    return space

def matched(o):
    match o:
        case object(rate=r):
            return r
    return -5.0

def matched_keyword(o):
    match o:
        case object(rate=0 | 0.0):
            return 77.0
        case object(rate=1):
            return 78.0
        case object(rate=r):
            return r
    return -5.0

def matched_data(o):
    match o:
        case Data(r, _):
            return r

def tried(o):
    try:
        return o.rate
    except AttributeError:
        return -5.0

@contextlib.contextmanager
def opened(o):
    yield o.rate

def managed(o):
    with opened(o) as rate:
        return rate
"""
TOLERANT = ("hasattr", "try", "match", "match by keyword")  # reads that work without the attribute

# where a value lives in a container: (set up, the container, the key)
ITEMS = {
    "list": ("held = [1, {v}, 3]", "held", "1"),
    "list of floats": ("held = [0.5] * 40\nheld[1] = {v}", "held", "1"),
    "long list": ("held = [0.5] * 20_000\nheld[1] = {v}", "held", "1"),
    "very long list": ("held = [0.5] * 150_000\nheld[1] = {v}", "held", "1"),
    "dict": ("held = dict(a=1, b={v})", "held", "'b'"),
    "large dict": ("held = {{f'k{{i}}': i for i in range(4000)}}\nheld['b'] = {v}", "held", "'b'"),
    "nested": ("held = dict(a=[dict(b=[1, [2, {v}]])])", "held['a'][0]['b'][1]", "1"),
    "nested deep": (
        "held = [{v}]\nfor _ in range(40):\n    held = [held]", "held" + "[0]" * 40, "0"),
    "deque": ("held = collections.deque([1, {v}])", "held", "1"),
    "defaultdict": ("held = collections.defaultdict(int, b={v})", "held", "'b'"),
    "OrderedDict": ("held = collections.OrderedDict(a=1, b={v})", "held", "'b'"),
    "Counter": ("held = collections.Counter(dict(b={v}))", "held", "'b'"),
    "UserDict": ("held = collections.UserDict(b={v})", "held", "'b'"),
    "UserList": ("held = collections.UserList([1, {v}])", "held", "1"),
    "ChainMap": ("held = collections.ChainMap(dict(b={v}), dict(c=1))", "held", "'b'"),
    "attribute": ("box = Box(1)\nbox.held = [1, {v}]", "box.held", "1"),
    "list of a class": ("class L(list): pass\nheld = L([1, {v}])", "held", "1"),
    "large config": (
        "held = {{f'g{{i}}': {{f'k{{j}}': [i, j, 'x'] for j in range(40)}} for i in range(40)}}\n"
        "held['g7']['k9'][1] = {v}", "held['g7']['k9']", "1"),
}  # fmt: skip
OF_ITEMS = {
    "item": "num({c}[{k}])",
    "itemgetter": "num(operator.itemgetter({k})({c}))",
    "operator": "num(operator.getitem({c}, {k}))",
    "dunder": "num({c}.__getitem__({k}))",
    "eval": "num(eval({c!r})[{k}])",
    "copy": "num(copy.copy({c})[{k}])",
    "all": "sum(map(num, list({c}.values()) if hasattr({c}, 'values') else list({c})[:50]))",
    "str": "float(sum(map(ord, str({c})[:200])))",
    "==": "float({c} == copy.copy({c})) + num({c}[{k}])",
}

# a name: (set up, an expression, statements that change it)
NAMES = {
    "global": ("rate = {v}", "num(rate)", "rate = {v}"),
    "globals()": ("rate = {v}", "num(globals()['rate'])", "rate = {v}"),
    "globals().get": ("rate = {v}", "num(globals().get('rate', 0))", "rate = {v}"),
    "eval": ("rate = {v}", "num(eval('rate'))", "rate = {v}"),
    "import of a module": ("mod.rate = {v}", "num(imported())", "mod.rate = {v}"),
    "import of a name": ("mod.rate = {v}", "num(imported_name())", "mod.rate = {v}"),
    "another module": ("mod.rate = {v}", "num(mod.rate)", "mod.rate = {v}"),
    "default": ("def get(r={v}): return r", "num(get())", "get.__defaults__ = ({v},)"),
    "keyword": ("def get(*, r={v}): return r", "num(get())", "get.__kwdefaults__['r'] = {v}"),
    "partial": ("get = functools.partial(num, {v})", "get()", "get = functools.partial(num, {v})"),
    "code": ("def get(): return {v}", "num(get())", "def get(): return {v}"),
    "code of a function": (
        "def get(): return {v}", "num(get())",
        "def other(): return {v}\nget.__code__ = other.__code__"),
    "closure": (
        "def make():\n    r = {v}\n    def get(): return r\n    def put(v):\n        nonlocal r\n"
        "        r = v\n    return get, put\nget, put = make()", "num(get())", "put({v})"),
    "function in a dict": ("t = dict(f=lambda: {v})", "num(t['f']())", "t['f'] = lambda: {v}"),
    "array": ("a = np.ones(5)\na[1] = {v}", "float(a[1])", "a[1] = {v}"),
    "array of integers": ("a = np.ones(5, int)\na[1] = {v}", "float(a.sum())", "a[1] = {v}"),
    "large array": (
        "a = np.ones(300_000)\na[1] = {v}", "float(a[1])", "a[1] = {v}"),
    "huge array": (
        "a = np.ones(3_000_000)\na[1] = {v}", "float(a[1])", "a[1] = {v}"),
    "array of objects": ("a = np.array([1, {v}], object)", "num(a[1])", "a[1] = {v}"),
    "frozenset": ("s = frozenset([{v}])", "num(min(s))", "s = frozenset([{v}])"),
    "set": ("s = set([{v}])", "num(min(s))", "s.clear()\ns.add({v})"),
    "key": ("d = {{{v}: 1}}", "num(min(d))", "d.clear()\nd[{v}] = 1"),
    "slice": ("s = slice({v}, 9)", "num(s.start)", "s = slice({v}, 9)"),
    "bytearray": (
        "b = bytearray([1, int({v})])", "float(b[1])", "b[1] = int({v})"),
    "array.array": (
        "import array\nb = array.array('d', [1, {v}])", "float(b[1])", "b[1] = {v}"),
    "memoryview": (
        "b = np.ones(3)\nm = memoryview(b)\nb[1] = {v}", "float(m[1])", "b[1] = {v}"),
    "environment": (
        "import os\nos.environ['RATE_OF_TEST'] = repr({v})",
        "float(len(os.environ['RATE_OF_TEST'])) + ord(os.environ['RATE_OF_TEST'][0])",
        "os.environ['RATE_OF_TEST'] = repr({v})"),
    "os.getenv": (
        "import os\nos.environ['RATE_OF_TEST'] = repr({v})",
        "float(len(os.getenv('RATE_OF_TEST'))) + ord(os.getenv('RATE_OF_TEST')[0])",
        "os.environ['RATE_OF_TEST'] = repr({v})"),
    "context variable": (
        "import contextvars\nc = contextvars.ContextVar('c')\nc.set({v})", "num(c.get())",
        "c.set({v})"),
    "weak reference": (
        "import weakref\nbox = Box({v})\nw = weakref.ref(box)", "num(w().rate)", "box.rate = {v}"),
    "try NameError": ("pass", "num(named())", "late = {v}"),
    "builtin": ("pass", "float(len([1, 2]))", "len = lambda x: num({v})"),
    "builtin of builtins": (
        "import builtins\nbuiltins.rate_of_test = {v}", "num(rate_of_test)",
        "builtins.rate_of_test = {v}"),
}  # fmt: skip
NAME_HELPERS = """
def imported():
    import mod_of_the_test as m
    return m.rate

def imported_name():
    from mod_of_the_test import rate
    return rate

def named():
    try:
        return late
    except NameError:
        return -5.0
"""

# what may run uncompiled, since it cannot be compared: by the place or the way to read
MAY_SAY_SO = frozenset((
    "very long list", "in a long list", "huge array", "array of objects", "context variable",
    "weak reference", "long list", "large dict",
))  # fmt: skip

_numbers = itertools.count()


class Program:
    """A module of a user's, whose function ``f(x)`` reads something."""

    def __init__(self, setup, expression, value, helpers=""):
        self.space = types.ModuleType(f"program_{next(_numbers)}")
        self.names = vars(self.space)
        self.names["mod"] = sys.modules["mod_of_the_test"] = types.ModuleType("mod_of_the_test")
        sys.modules[self.space.__name__] = self.space
        self.run(PRELUDE + HELPERS + NAME_HELPERS)
        self.run(setup.format(v=value))
        self.run(f"def f(x):\n    return x * ({expression})\n")
        self.plain = self.names["f"]
        self.jitted = fx.jit(self.names["f"])

    def run(self, code):
        exec(compile(code, f"/programs/{self.space.__name__}.py", "exec"), self.names)

    def check(self, what):
        """Both ways agree, twice: in the value, or in the error."""
        for _ in range(2):
            expected, found = outcome(self.plain), outcome(self.jitted)
            assert found == expected, what


def outcome(f):
    try:
        return np.asarray(f(X)).tobytes()
    except Exception as error:
        return type(error).__name__


def agree(setup, expression, change, may_say_so, deletion=None):
    """Jitted equals plain after each change of the value."""
    with interpreted(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        program = Program(setup, expression, VALUES[0])
        program.check("the first value")
        for value in VALUES[1:]:
            program.run(change.format(v=value))
            program.check(value)
        if deletion:
            program.run(deletion)
            program.check(DELETED)
            program.run(change.format(v="7"))
            program.check("put back")
    said = [str(w.message) for w in told if "runs uncompiled" in str(w.message)]
    assert may_say_so or not said
    assert len(said) <= 1


@pytest.fixture(autouse=True)
def tidy(monkeypatch):
    monkeypatch.setenv("RATE_OF_TEST", "0")
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        if name.startswith(("program_", "mod_of_the_test")):
            del sys.modules[name]


EACH = 4  # places but the first take one way in so many, in turn
OBJECT_CASES = [
    (place, way)
    for i, place in enumerate(OBJECTS)
    for j, way in enumerate((*OF_OBJECTS, *WITH_DICT, *OF_DATA))
    if (not i or (i + j) % EACH == 0 or place == "dataclass")
    and (way not in OF_DATA or place == "dataclass")
    and (
        way not in WITH_DICT
        or place not in ("slots", "class of an object", "base class", "class", "module", "cached")
    )
    and not (
        place in ("function", "class", "module")
        and way in ("copy", "descriptor", "operator.methodcaller")
    )
    and not (place == "slots" and way == "copy")
]


@pytest.mark.parametrize("place, way", OBJECT_CASES)
def test_an_attribute(place, way):
    setup, owner = OBJECTS[place]
    expression = {**OF_OBJECTS, **WITH_DICT, **OF_DATA}[way].format(o=owner)
    target = {"class of an object": "Held", "base class": "Base"}.get(place, owner)
    deletion = f"del {target}.rate" if way in TOLERANT and place != "dataclass" else None
    agree(setup, expression, f"{target}.rate = {{v}}", place in MAY_SAY_SO, deletion)


ITEM_CASES = [
    (place, way)
    for i, place in enumerate(ITEMS)
    for j, way in enumerate(OF_ITEMS)
    if (i + j) % 2 == 0
]


@pytest.mark.parametrize("place, way", ITEM_CASES)
def test_an_item(place, way):
    setup, container, key = ITEMS[place]
    expression = OF_ITEMS[way].format(c=container, k=key)
    agree(setup, expression, f"{container}[{key}] = {{v}}", place in MAY_SAY_SO)


@pytest.mark.parametrize("name", NAMES)
def test_a_name(name):
    agree(*NAMES[name], name in MAY_SAY_SO)


# functions around others, and branches ------------------------------------------------------------

OTHERS = ("attrgetter", "eval", "match", "vars", "repr")
AROUND = {
    "inside, known before": ("inner(x) + 1", True),
    "inside, first met there": ("inner(x) + 1", False),
    "in a branch": ("(inner(x) if x.sum() > 0 else x * 5.0)", False),
    "in grad": ("fx.grad(lambda v: inner(v).sum())(x)", False),
    "in scan": ("fx.scan(lambda c, v: (inner(c), v), x, fx.ones(2))[0]", False),
}


@pytest.mark.parametrize("way", OTHERS)
@pytest.mark.parametrize("around", AROUND)
def test_functions_around_one_that_reads(around, way):
    """What an inner jitted function was seen to read is guarded by the outer one as well."""
    outer, before = AROUND[around]
    expression = {**OF_OBJECTS, **WITH_DICT, **OF_DATA}[way].format(o="box")
    program = Program("box = Data(2.0)", expression, "2.0")
    program.names.update(fx=fx, inner=program.jitted)
    program.run(f"def whole(x):\n    return {outer}\n")
    program.plain, plain = program.names["whole"], program.plain
    with interpreted():
        if before:
            program.jitted(X)
        program.jitted = fx.jit(program.plain)
        for value in ("2.0", "3.0", "-0.0"):
            program.run(f"box.rate = {value}")
            for x in (X, -X):
                program.names["inner"] = plain
                expected = np.asarray(program.plain(x)).tobytes()
                program.names["inner"] = program.names["kept"] = program.names.get(
                    "kept"
                ) or fx.jit(plain)
                assert np.asarray(program.jitted(x)).tobytes() == expected


@pytest.mark.parametrize("way", OTHERS)
def test_each_branch_keeps_what_it_reads(way):
    """A branch that is staged later does not make the program forget what another one read."""
    ways = {**OF_OBJECTS, **WITH_DICT, **OF_DATA}
    one, two = ways[way].format(o="box"), ways[way].format(o="other")
    with interpreted(), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        program = Program("box, other = Data(2.0), Data(3.0)", "1", "2.0")
        program.run(f"def f(x):\n    return x * ({one}) if x.sum() > 0 else x * ({two})\n")
        plain, jitted = program.names["f"], fx.jit(program.names["f"])
        for change in ("pass", "box.rate = 5.0", "other.rate = 7.0", "box.rate = -0.0"):
            program.run(change)
            for x in (X, -X):
                assert jitted(x).tolist() == plain(x).tolist()


# where the interpreter's frames are not known -----------------------------------------------------


def test_what_nobody_can_watch_runs_uncompiled(monkeypatch):
    monkeypatch.setattr(watching, "are_known", lambda: False)
    state = [1.0]
    f = fx.jit(lambda x: x * state[0])
    with pytest.warns(
        RuntimeWarning, match="runs uncompiled .* functions are compiled on CPython 3.11"
    ):
        for state[0] in (2.0, 3.0):
            assert f(X).tolist() == (X * state[0]).tolist()
