"""Lookalikes: what Python calls equal, or what looks much the same, is told apart wherever it lies.

A value is read in a place, jitted and plain; then another one takes its place, and again. What the
function makes of it is a number that depends on types, signs of zero, order, dtypes and limits.
"""

import warnings

import pytest

import fx
from tests.transforms.jitting.programs import interpreted

X = fx.tensor([1.0, 2.0])

NAMES = """
import array, dataclasses, datetime, decimal, fractions, functools, types, zlib
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
import attrs
import numpy as np

UTC, EAST = datetime.UTC, datetime.timezone(datetime.timedelta(hours=1))
Pair = namedtuple("Pair", "a b")
Data = dataclasses.make_dataclass("Data", ["a", "b"], frozen=True)
Attrs = attrs.make_class("Attrs", ["a", "b"], frozen=True)

def scaled(x=0, by=1, *, plus=0):
    return by, plus

def text(v):
    if isinstance(v, np.ndarray):
        return f"{v.dtype} {v.shape} {v.tobytes()}"
    if isinstance(v, Attrs):
        return f"{v.a!r} {v.b!r}"
    if isinstance(v, memoryview):
        return f"{v.format} {bytes(v)}"
    if isinstance(v, functools.partial):
        return f"{v()}"
    if isinstance(v, defaultdict):
        return f"{v.default_factory} {dict(v)}"
    return f"{type(v)} {v!r}"

def code(v):
    return zlib.crc32(text(v).encode()) % 1009 / 8
"""

LOOKALIKES = {
    "a list": ["[1]", "[True]", "[1.0]", "[np.int64(1)]"],
    "a list of zeros": ["[0.0]", "[-0.0]", "[0]", "[False]"],
    "a long list": ["[1, 2, 3, 4, 5, 0.0]", "[1, 2, 3, 4, 5, -0.0]", "[True, 2, 3, 4, 5, 0.0]"],
    "a list of lists": ["[[1], [0.0]]", "[[True], [0.0]]", "[[1], [-0.0]]", "[(1,), [-0.0]]"],
    "a tuple": ["(1, 0.0)", "(True, 0.0)", "(1, -0.0)", "(1.0, -0.0)"],
    "a tuple of tuples": ["((1,), (0.0,))", "((True,), (0.0,))", "((True,), (-0.0,))"],
    "the values of a dict": ["{'a': 1}", "{'a': True}", "{'a': 1.0}"],
    "the keys of a dict": ["{1: 'a', 0.0: 'b'}", "{True: 'a', 0.0: 'b'}", "{1: 'a', -0.0: 'b'}"],
    "the order of a dict": ["{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"],
    "the order of a long dict": ["dict(a=1, b=2, c=3, d=4, e=5)", "dict(a=1, b=2, c=3, e=5, d=4)"],
    "the keys of a long dict": [
        "{1: 1, 2: 2, 3: 3, 4: 4, 5: 5}", "{True: 1, 2: 2, 3: 3, 4: 4, 5: 5}",
    ],
    "the order of an OrderedDict": ["OrderedDict(a=1, b=2)", "OrderedDict(b=2, a=1)"],
    "the factory of a defaultdict": ["defaultdict(list)", "defaultdict(dict)", "defaultdict(None)"],
    "a Counter": ["Counter(a=1)", "Counter(a=True)"],
    "a proxy": ["types.MappingProxyType({'a': 1})", "types.MappingProxyType({'a': True})"],
    "a set": ["{1}", "{True}", "{1.0}"],
    "a set of zeros": ["{0.0}", "{-0.0}"],
    "a frozenset": ["frozenset([1])", "frozenset([True])"],
    "a set of tuples": ["{(1,)}", "{(True,)}"],
    "the dtype of an array": ["np.zeros(2, 'i4')", "np.zeros(1, 'i8')", "np.zeros(2, 'f4')"],
    "the shape of an array": ["np.arange(6)", "np.arange(6).reshape(2, 3)", "np.arange(6)[None]"],
    "an array": ["np.array([0.0])", "np.array([-0.0])"],
    "a large array": ["np.zeros(2000)", "-np.zeros(2000)", "np.zeros(2000, 'i8')"],
    "an array of NaN": ["np.full(9, np.nan)", "np.copysign(np.full(9, np.nan), -1)"],
    "a large array of NaN": ["np.full(999, np.nan)", "np.copysign(np.full(999, np.nan), -1)"],
    "the length of a deque": ["deque([1, 2])", "deque([1, 2], 2)", "deque([1, 2], 3)"],
    "a deque": ["deque([1, 2])", "deque([True, 2])"],
    "the type of an array.array": ["array.array('i', [1])", "array.array('I', [1])"],
    "a bytearray": ["bytearray(b'a')", "b'a'", "bytearray(b'b')"],
    "a memoryview": ["memoryview(b'a')", "memoryview(b'a').cast('b')"],
    "a complex number": ["0j", "-0j", "complex(0.0, -0.0)", "0"],
    "a range": ["range(0)", "range(1, 1)", "range(0, 3, 2)", "range(0, 4, 2)"],
    "a slice": ["slice(1)", "slice(True)", "slice(1.0)"],
    "a scalar of NumPy": [
        "np.float64(0.0)", "np.float64(-0.0)", "np.float32(0.0)", "np.float32(-0.0)", "np.int64(0)",
        "np.int32(0)", "np.bool_(0)", "np.complex64(0)", "np.complex64(-0.0)",
        "np.datetime64(0, 's')", "np.datetime64(0, 'm')",
    ],
    "a dtype": ["np.dtype('i4')", "np.dtype('>i4')"],
    "a Decimal": ["decimal.Decimal('1.0')", "decimal.Decimal('1.00')", "decimal.Decimal('-0')"],
    "a Fraction": ["fractions.Fraction(1)", "1"],
    "a time": [
        "datetime.datetime(1, 1, 1, 1, tzinfo=UTC)",
        "datetime.datetime(1, 1, 1, 2, tzinfo=EAST)",
    ],
    "a named tuple": ["Pair(1, 0.0)", "Pair(True, 0.0)", "Pair(1, -0.0)"],
    "a dataclass": ["Data(1, 0.0)", "Data(True, 0.0)", "Data(1, -0.0)", "Data((1,), 0.0)"],
    "a class of attrs": ["Attrs(1, 0.0)", "Attrs(True, 0.0)", "Attrs(1, (-0.0,))"],
    "the keywords of a partial": [
        "functools.partial(scaled, plus=1)", "functools.partial(scaled, plus=True)",
    ],
    "the arguments of a partial": [
        "functools.partial(scaled, 0, 2)", "functools.partial(scaled, 0, 2.0)",
    ],
}  # fmt: skip

# where a value lies: what puts it there, and what reads it
PLACES = {
    "global": ("held = {v}", "held"),
    "closure": ("put({v})", "get()"),
    "default": ("given.__defaults__ = ({v},)", "given()"),
    "keyword default": ("named.__kwdefaults__ = dict(held={v})", "named()"),
    "attribute": ("box.held = {v}", "box.held"),
    "class attribute": ("Box.common = {v}", "box.common"),
    "item": ("listed[0] = {v}", "listed[0]"),
    "entry": ("entries['a'] = {v}", "entries['a']"),
}
SET_UP = """
class Box:
    pass

def closed():
    held = None

    def put(v):
        nonlocal held
        held = v

    return put, lambda: held

def given(held=None):
    return held

def named(*, held=None):
    return held

(put, get), box, listed, entries = closed(), Box(), [None], {}
"""


@pytest.mark.parametrize("name", LOOKALIKES)
def test_what_looks_alike_is_told_apart(name):
    values = LOOKALIKES[name]
    for place, (put, read) in PLACES.items():
        names = {"__name__": "the_users"}
        run(NAMES + SET_UP, names)
        run(f"def f(x):\n    return x * code({read})\n", names)
        plain, jitted, told = names["f"], fx.jit(names["f"]), []
        with interpreted(), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            for value in (*values, values[0]):
                run(put.format(v=value), names)
                want = plain(X).tolist()
                assert [jitted(X).tolist(), jitted(X).tolist()] == [want, want], (place, value)
                told.append(want)
        assert len({*map(str, told)}) == len(values), told  # the function tells them apart


def run(text, names):
    exec(compile(text, "<the user's>", "exec"), names)


IN_PLACE = {
    "an array": ("np.zeros(3)", "v[0] = -0.0", "v[0] = 1"),
    "a large array": ("np.zeros(2000)", "v[-1] = -0.0", "v[:] = np.arange(2000)"),
    "a transposed array": ("np.zeros((3, 2)).T", "v[1, 2] = -0.0", "v[0, 1] = 1"),
    "a list": ("[1, 2]", "v[0] = True", "v.reverse()", "v.append(3)"),
    "a long list": ("[1, 2, 3, 4, 5, 6]", "v[0] = True", "v[0], v[1] = v[1], v[0]"),
    "a list in a tuple": ("([1],)", "v[0][0] = True", "v[0].append(1)"),
    "a dict": ("{'a': 1, 'b': 2}", "v['a'] = True", "v['a'] = v.pop('a')"),
    "a long dict": ("dict(a=1, b=2, c=3, d=4, e=5)", "v['a'] = True", "v['a'] = v.pop('a')"),
    "an OrderedDict": ("OrderedDict(a=1, b=2)", "v['a'] = True", "v.move_to_end('a')"),
    "a defaultdict": ("defaultdict(list)", "v['a']", "v.default_factory = dict"),
    "a set": ("{1, 2}", "v.remove(1); v.add(True)", "v.add(0.0)"),
    "a deque": ("deque([1, 2])", "v[0] = True", "v.rotate(1)"),
    "a bytearray": ("bytearray(b'ab')", "v[0] = 0", "v.pop()"),
    "an array.array": ("array.array('d', [0.0])", "v[0] = -0.0", "v.append(1)"),
    "a partial": (
        "functools.partial(scaled, plus=1)", "v.keywords['plus'] = True", "v.keywords['by'] = 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_changes_in_place_is_seen(name):
    value, *changes = IN_PLACE[name]
    for place, (put, read) in PLACES.items():
        names = {"__name__": "the_users"}
        run(NAMES + SET_UP, names)
        run(f"def f(x):\n    return x * code({read})\n", names)
        plain, jitted, told = names["f"], fx.jit(names["f"]), []
        with interpreted(), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            for change in (put.format(v=value), *[f"v = {read}; {c}" for c in changes]):
                run(change, names)
                want = plain(X).tolist()
                assert [jitted(X).tolist(), jitted(X).tolist()] == [want, want], (place, change)
                told.append(want)
        assert len({*map(str, told)}) == len(told), told


HASHABLE = (
    "a tuple", "a tuple of tuples", "a frozenset", "a complex number", "a range", "a Decimal",
    "a Fraction", "a scalar of NumPy", "a dtype", "a time", "a named tuple", "a dataclass",
    "a class of attrs",
)  # fmt: skip
MORE = {
    "a number": ["1", "True", "1.0", "np.int64(1)", "np.float64(1)", "np.float32(1)"],
    "a zero": ["0.0", "-0.0", "0", "False", "0j", "-0j", "np.float64(-0.0)"],
    "a text": ["'a'", "b'a'", "('a',)"],
    "a tuple of sets": ["(frozenset([0.0]),)", "(frozenset([-0.0]),)", "(frozenset([False]),)"],
}


@pytest.mark.parametrize("name", [*MORE, *HASHABLE])
@pytest.mark.parametrize("way", ["static position", "static name", "leaf"])
def test_arguments_that_look_alike_are_told_apart(name, way):
    names = {"__name__": "the_users"}
    run(NAMES + "\ndef f(x, v):\n    return x * code(v)\n", names)
    values = [eval(v, names) for v in MORE.get(name) or LOOKALIKES[name]]
    if way == "leaf":  # numbers, and what tuples hold, are staged there
        values = [v for v in values if not isinstance(v, tuple | int | float)]
    plain = names["f"]
    jitted = fx.jit(
        plain,
        static_argnums=(1,) if way == "static position" else (),
        static_argnames=("v",) if way == "static name" else (),
    )
    for value in (*values, *values[:1]):
        given = {"v": value} if way == "static name" else {}
        args = (X,) if given else (X, value)
        want = plain(*args, **given).tolist()
        assert [jitted(*args, **given).tolist() for _ in range(2)] == [want, want], value
