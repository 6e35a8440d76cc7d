"""Replaced: another function, method or operator under a name that a jitted function uses is seen.

A program is a place where something is defined, a way to use it, and the ways to put something
else there, on the class, a base class, the object, or in front of a builtin.
"""

import enum
import itertools
import sys
import types
import warnings

import numpy as np
import pytest

import fx
from tests.transforms.jitting.programs import interpreted

X = fx.tensor([1.0, 2.0])

CLASSES = """
import functools, operator
class Base:
    def apply(self, x): return x * 2
    @property
    def rate(self): return 2.0
    @staticmethod
    def fixed(x): return x * 2
    @classmethod
    def made(cls, x): return x * 2
    def __mul__(self, x): return x * 2
    def __call__(self, x): return x * 2
    def __len__(self): return 2
    def __getitem__(self, i): return 2.0
    def __contains__(self, x): return True
    def __iter__(self): return iter([2.0])
    def __bool__(self): return True
    def __float__(self): return 2.0
    def __repr__(self): return "2"
    def __enter__(self): return 2.0
    def __exit__(self, *error): return None
    def __lt__(self, other): return True
class Middle(Base):
    pass
class Held(Middle):
    def upper(self, x): return super().apply(x)
    def later(self, x): return self.apply(x)
held = Held()
def helper(x): return x * 2
def other(x): return x * 3
table = {"f": helper}
def decorate(f):
    @functools.wraps(f)
    def wrapped(x): return f(x)
    return wrapped
decorated = decorate(helper)
partial = functools.partial(helper)
compose = lambda x: table["f"](x)
"""

METHOD = "lambda self, x: x * 3"
# what is used: (an expression, the name on the class, what is put there)
USES = {
    "method": ("held.apply(x)", "apply", METHOD),
    "bound method": ("(lambda m: m(x))(held.apply)", "apply", METHOD),
    "method through another": ("held.later(x)", "apply", METHOD),
    "method through super": ("held.upper(x)", "apply", METHOD),
    "method by attrgetter": ("operator.attrgetter('apply')(held)(x)", "apply", METHOD),
    "method by methodcaller": ("operator.methodcaller('apply', x)(held)", "apply", METHOD),
    "method of the class": ("Held.apply(held, x)", "apply", METHOD),
    "property": ("x * held.rate", "rate", "property(lambda self: 3.0)"),
    "static": ("held.fixed(x)", "fixed", "staticmethod(lambda x: x * 3)"),
    "class method": ("held.made(x)", "made", "classmethod(lambda cls, x: x * 3)"),
    "multiplication": ("held * x", "__mul__", METHOD),
    "call": ("held(x)", "__call__", METHOD),
    "len": ("x * len(held)", "__len__", "lambda self: 3"),
    "item": ("x * held[0]", "__getitem__", "lambda self, i: 3.0"),
    "in": ("x * (2.0 if 1 in held else 3.0)", "__contains__", "lambda self, x: False"),
    "iteration": ("x * sum(held)", "__iter__", "lambda self: iter([3.0])"),
    "truth": ("x * 2 if held else x * 3", "__bool__", "lambda self: False"),
    "float": ("x * float(held)", "__float__", "lambda self: 3.0"),
    "repr": ("x * float(repr(held))", "__repr__", "lambda self: '3'"),
    "f-string": ("x * float(f'{held}')", "__repr__", "lambda self: '3'"),
    "with": ("entered(x)", "__enter__", "lambda self: 3.0"),
    "comparison": ("x * (2.0 if held < 1 else 3.0)", "__lt__", "lambda self, other: False"),
    "new operator": ("x * (2.0 if held == Held() else 3.0)", "__eq__", "lambda self, o: True"),
    "sorted": ("x * (2.0 if max([held, held]) else 3.0)", "__bool__", "lambda self: False"),
}
WHERE = ("Held", "Middle", "Base")

THREE = "class Three:\n    def apply(self, x): return x * 3\n"
OTHERS = {
    "function": ("helper(x)", "helper = other"),
    "code": ("helper(x)", "helper.__code__ = other.__code__"),
    "default": ("helper_with(x)", "helper_with.__defaults__ = (3,)"),
    "entry": ("table['f'](x)", "table['f'] = other"),
    "composed": ("compose(x)", "table['f'] = other"),
    "decorated": ("decorated(x)", "decorated = decorate(other)"),
    "partial": ("partial(x)", "partial = functools.partial(other)"),
    "method on the object": ("held.apply(x)", "held.apply = other"),
    "static on the object": ("held.fixed(x)", "held.fixed = other"),
    "method on the object, then the class": (
        "held.apply(x)", "held.apply = other\ndel held.apply\nHeld.apply = lambda self, x: x * 3"),
    "object": ("held.apply(x)", f"{THREE}held = Three()"),
    "class of the object": ("held.apply(x)", f"{THREE}held.__class__ = Three"),
    "bases": ("held.apply(x)", f"{THREE}Middle.__bases__ = (Three,)"),
    "builtin": ("x * len('ab')", "len = lambda s: 3"),
    "builtin by a helper": ("x * size('ab')", "len = lambda s: 3"),
    "builtin class": ("x * float('2')", "float = lambda s: 3"),
    "builtin deleted": ("x * len('ab')", "len = lambda s: 3\nf(X)\ndel len\nhelper = other"),
    "getattr": ("x * held.missing", "Held.__getattr__ = lambda self, name: 3.0"),
    "missing on the object": ("x * getattr(held, 'missing', 2.0)", "held.missing = 3.0"),
    "missing on the class": ("x * getattr(held, 'missing', 2.0)", "Base.missing = 3.0"),
    "shadowed on the object": ("x * held.level", "held.level = 3.0"),
    "shadowed on a class": ("x * held.level", "Middle.level = 3.0"),
    "shadowed and back": ("x * held.level", "held.level = 3.0\nf(X)\ndel held.level"),
    "function attribute": ("x * helper.level", "helper.level = 3.0"),
    "function attribute that was not": ("x * getattr(helper, 'm', 2.0)", "helper.m = 3.0"),
    "identity": ("x * (2.0 if held is first else 3.0)", "first = Held()"),
    "identity of lists": ("x * (2.0 if one is two else 3.0)", "two = [1]"),
    "identity that comes": ("x * (2.0 if one is not three else 3.0)", "three = one"),
    "hash": ("x * (hash(held) % 1000003)", "keep = held\nheld = Held()"),
    "id": ("x * (id(held) % 1000003)", "keep = held\nheld = Held()"),
    "key": ("x * by_object.get(held, 3.0)", "held = Held()"),
    "imported": ("x * (lambda: __import__('mod_of_the_test').level)()", "mod.level = 3.0"),
    "module replaced": (
        "imported(x)",
        "import sys, types\nnew = types.ModuleType('mod_of_the_test')\nnew.level = 3.0\n"
        "sys.modules['mod_of_the_test'] = new"),
}  # fmt: skip
MORE = """
def helper_with(x, n=2): return x * n
def size(s): return len(s)
def entered(x):
    with held as rate:
        return x * rate
def imported(x):
    import mod_of_the_test
    return x * mod_of_the_test.level
Base.level = 2.0
helper.level = 2.0
first = held
one = two = [1]
three = [1]
by_object = {held: 2.0}
"""

_numbers = itertools.count()


def agree(use, change):
    """Jitted equals plain before and after, without a warning."""
    name = f"replaced_{next(_numbers)}"
    space = types.ModuleType(name)
    names = vars(space)
    mod = sys.modules["mod_of_the_test"] = types.ModuleType("mod_of_the_test")
    sys.modules[name] = space
    mod.level = 2.0
    names.update(mod=mod, X=X)

    def run(code):
        exec(compile(code, f"/programs/{name}.py", "exec"), names)

    def outcome(f):
        try:
            return np.asarray(f(X)).tolist()
        except Exception as error:
            return type(error).__name__

    try:
        run(CLASSES + MORE + f"\ndef plain(x):\n    return {use}\n")
        jitted = names["f"] = fx.jit(names["plain"])
        with interpreted(), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            for _ in range(2):
                assert outcome(jitted) == outcome(names["plain"])
            run(change)
            for _ in range(2):
                assert outcome(jitted) == outcome(names["plain"])
    finally:
        del sys.modules[name], sys.modules["mod_of_the_test"]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("where", WHERE)
def test_on_a_class(use, where):
    expression, name, new = USES[use]
    agree(expression, f"{where}.{name} = {new}")


@pytest.mark.parametrize("use", USES)
def test_in_turn(use):
    """Base, then in front of it, then that is deleted again."""
    expression, name, new = USES[use]
    if name in vars(object):
        return
    agree(expression, f"Held.{name} = {new}\nf(X)\ndel Held.{name}")


@pytest.mark.parametrize("use", OTHERS)
def test_under_a_name(use):
    agree(*OTHERS[use])


def test_what_a_class_is_derived_from():
    class Twice:
        def factor(self):
            return 2.0

    class Thrice:
        def factor(self):
            return 3.0

    class Own(Twice):
        pass

    own = Own()
    asks = [
        lambda x: x * own.factor(),
        lambda x: x * (1 if isinstance(own, Twice) else 5),
        lambda x: x * (1 if issubclass(type(own), Thrice) else 7),
    ]
    jitted = [fx.jit(f) for f in asks]
    for base in (Twice, Thrice, Twice, Thrice):
        Own.__bases__ = (base,)
        for f, g in zip(asks, jitted):
            assert g(X).tolist() == f(X).tolist()


def test_what_a_member_of_an_enumeration_keeps():
    class Way(enum.Enum):
        LEFT = 2

    asks = [lambda x: x * Way.LEFT.value, lambda x: x * len(Way.LEFT.name)]
    jitted = [fx.jit(f) for f in asks]
    for value, name in ((2, "LEFT"), (7, "LEFT"), (7, "LEFTMOST"), (2, "LEFT")):
        Way.LEFT._value_, Way.LEFT._name_ = value, name
        for f, g in zip(asks, jitted):
            assert g(X).tolist() == f(X).tolist()
