"""Classes, functions and objects that change between calls: each call is the plain function's.

A case is a module's source, an expression in it, and statements that are run between calls.
"""

import types
import warnings

import numpy as np
import pytest

import fx

X = fx.ones(1)
MADE = {
    "__init__": "lambda self: setattr(self, 'z', {})",
    "__post_init__": "lambda self: setattr(self, 'z', {})",
    "__attrs_post_init__": "lambda self: setattr(self, 'z', {})",
    "__getattr__": "lambda self, name: {}",
    "setup": "lambda self: setattr(self, 'z', {})",
}
CLASSES = {
    "plain": "class A:\n  def __init__(self): self.z = 1.0",
    "derived": "class B:\n  def __init__(self): self.z = 1.0\nclass A(B): pass",
    "asked": "class A:\n  def __getattr__(self, name): return 1.0",
    "dataclass": (
        "@dataclasses.dataclass\nclass A:\n  a: float = 1.0\n"
        "  def __post_init__(self): self.setup()\n  def setup(self): self.z = self.a * 2"
    ),
    "attrs": (
        "@attrs.define(slots=False)\nclass A:\n  a: float = 1.0\n"
        "  def __attrs_post_init__(self): self.z = self.a * 2"
    ),
}
CASES = [
    (
        "class N:\n  pass\nn=N(); n.k=1.0\n",
        "x*n.k",
        ["N.k=property(lambda s:5.0)", "N.k=property(lambda s:6.0)", "del N.k"],
    ),
    (
        "class N:\n  pass\nn=N(); n.k=1.0\n",
        "x*n.k",
        [
            "N.__getattribute__=lambda s,a:7.0",
            "N.__getattribute__=lambda s,a:8.0",
            "del N.__getattribute__",
        ],
    ),
    (
        "class B: k=1.0\nclass N(B): pass\nn=N()\n",
        "x*n.k",
        [
            "N.k=2.0",
            "n.k=3.0",
            "del n.k",
            "del N.k",
            "B.k=4.0",
            "N.__getattr__=lambda s,a:9.0",
            "B.k=property(lambda s:11.0)",
        ],
    ),
    (
        "class B: k=1.0\nclass N(B): pass\nn=N()\n",
        "x*N.k",
        ["N.k=2.0", "del N.k", "B.k=4.0"],
    ),
    (
        "class B: k=1.0\nclass N(B): pass\nn=N()\n",
        "x*N().k",
        [
            "N.k=2.0",
            "del N.k",
            "B.k=4.0",
            'N.__init__=lambda s:setattr(s,"k",8.0)',
            "del N.__init__",
            'B.__init__=lambda s:setattr(s,"k",9.0)',
        ],
    ),
    (
        "class N:\n  def m(s): return 1.0\nn=N()\n",
        "x*n.m()",
        [
            "n.m=lambda:2.0",
            "del n.m",
            "N.m=lambda s:3.0",
            "N.m=staticmethod(lambda:4.0)",
            "N.m=classmethod(lambda c:5.0)",
            "N.m=property(lambda s:lambda:6.0)",
            "N.m=functools.partialmethod(lambda s,k:k,7.0)",
            "n.m=lambda:2.0",
        ],
    ),
    (
        "class N:\n  @property\n  def p(s): return 1.0\n  @p.setter\n  def p(s,v): pass\nn=N()\n",
        "x*n.p",
        ['n.__dict__["p"]=5.0', "N.p=3.0", "N.p=property(lambda s:4.0)", "del N.p"],
    ),
    (
        "class N:\n  @functools.cached_property\n  def p(s): return N.q\n  q=1.0\nn=N()\n",
        "x*n.p",
        ["N.q=2.0", "del n.p", "n.p=9.0"],
    ),
    (
        'class N:\n  __slots__=("a",)\nn=N(); n.a=1.0\n',
        "x*n.a",
        ["n.a=2.0", "N.a=property(lambda s:3.0)"],
    ),
    (
        "import abc\nclass A(abc.ABC):\n  @abc.abstractmethod\n  def m(s): ...\nclass N(A):\n  def m(s): return super_(s)\ndef super_(s): return 1.0\nn=N()\n",  # noqa: E501
        "x*n.m()",
        ["super_=lambda s:2.0", "N.m=lambda s:3.0", "A.m=lambda s:9.0", "del N.m"],
    ),
    (
        "class A:\n  def m(s): return 1.0\nclass B(A):\n  def m(s): return super().m()+1\nclass C(B):\n  def m(s): return super().m()+1\nn=C()\n",  # noqa: E501
        "x*n.m()",
        [
            "A.m=lambda s:5.0",
            "B.m=lambda s:7.0",
            "n.m=lambda:1.0",
            "del n.m",
            "del B.m",
            "C.__bases__=(A,)",
            "del C.m",
        ],
    ),
    (
        "class A:\n  def __call__(s,x): return x*s.k\n  k=1.0\nn=A()\n",
        "n(x)",
        [
            "A.__call__=lambda s,x:x*5",
            "n.__call__=lambda x:x*6",
            "A.k=3.0",
            "A.__call__=lambda s,x:x*s.k",
        ],
    ),
    (
        "class A:\n  def __add__(s,o): return 1.0\nclass B(A):\n  pass\na=A(); b=B()\n",
        "x*(a+b)",
        [
            "A.__add__=lambda s,o:2.0",
            "B.__radd__=lambda s,o:3.0",
            "del B.__radd__",
            "A.__radd__=lambda s,o:9.0",
        ],
    ),
    (
        "class A(int): pass\na=A(3)\n",
        "x*(a+1)",
        ["A.__add__=lambda s,o:9.0", "del A.__add__", "A.__radd__=lambda s,o:7.0"],
    ),
    (
        "class A(float): pass\na=A(3)\n",
        "x*a",
        ["A.__mul__=lambda s,o:9.0", "A.__rmul__=lambda s,o:x*0+7.0"],
    ),
    (
        "class A(dict): pass\na=A(k=3)\n",
        'x*a["k"]',
        ["A.__getitem__=lambda s,o:9.0", "del A.__getitem__", 'a["k"]=5'],
    ),
    (
        "class A(list): pass\na=A([3])\n",
        "x*a[0]*len(a)",
        ["A.__len__=lambda s:9", "A.__getitem__=lambda s,i:2.0", "a.append(3)"],
    ),
    (
        'class A(str): pass\na=A("abc")\n',
        "x*len(a)",
        ["A.__len__=lambda s:9"],
    ),
    (
        "class A(tuple): pass\na=A((1,2))\n",
        "x*a[0]",
        ["A.__getitem__=lambda s,i:9"],
    ),
    (
        'import collections\nP=collections.namedtuple("P","a b")\np=P(1,2)\n',
        "x*p.a",
        ["p=P(3,4)"],
    ),
    (
        "import enum\nclass E(enum.Enum):\n  A=1\n  def m(s): return 2.0\n",
        "x*E.A.m()",
        ["E.m=lambda s:5.0", "E.A._value_=7"],
    ),
    (
        "import enum\nclass E(enum.IntFlag):\n  A=1\n  B=2\ne=E.A\n",
        "x*(e|E.B)",
        ["e=E.B", "e=E.A|E.B"],
    ),
    (
        'm=types.ModuleType("mm"); m.k=1.0\n',
        "x*m.k",
        [
            "m.k=2.0",
            "del m.k; m.__getattr__=lambda n:5.0",
            "m.__getattr__=lambda n:6.0",
            "m.k=1.0",
            "m=types.SimpleNamespace(k=9.0)",
        ],
    ),
    (
        "def g(x): return x\ng.k=1.0\n",
        "g(x)*g.k",
        [
            "g.k=2.0",
            "g.__code__=(lambda x:x*3).__code__",
            "g.__defaults__=()",
            "g=lambda x:x*9;g.k=1.0",
        ],
    ),
    (
        "def g(x,k=2.0): return x*k\n",
        "g(x)",
        [
            "g.__defaults__=(3.0,)",
            "g.__defaults__=None; g.__kwdefaults__=None; g.__code__=(lambda x:x*11).__code__",
        ],
    ),
    (
        "h=functools.partial(lambda k,x:x*k,2.0)\n",
        "h(x)",
        [
            "h.__setstate__((lambda k,x:x*k,(3.0,),{},{}))",
            "h=functools.partial(lambda k,x:x*k,5.0)",
        ],
    ),
    (
        "class A:\n  def m(s,x): return x*2\n  def n(s,x): return x*3\na=A(); b=a.m\n",
        "b(x)",
        ["b=a.n", "A.n=lambda s,x:x*7", "b=A().m"],
    ),
    (
        "o=object()\nd={o:1.0}\n",
        "x*d[o]",
        ["d[o]=2.0", "o2=object(); d[o2]=5.0; o=o2"],
    ),
    (
        "class K:\n  def __init__(s,v): s.v=v\n  def __hash__(s): return 1\n  def __eq__(s,o): return s.v==o.v\nd={K(1):1.0,K(2):2.0}; k=K(1)\n",  # noqa: E501
        "x*d[k]",
        ["k=K(2)"],
    ),
    (
        "s={1.0,2.0}\n",
        "x*sum(s)",
        ["s.add(3.0)", "s.discard(1.0)", "s=frozenset([9.0])"],
    ),
    (
        "a=[[1.0]]*2\n",
        "x*a[1][0]",
        ["a[0][0]=5.0", "a[1]=[7.0]"],
    ),
    (
        "a=[1.0]; a.append(a)\n",
        "x*a[1][1][0]",
        ["a[0]=5.0"],
    ),
    (
        "import threading\nl=threading.local(); l.k=1.0\n",
        "x*l.k",
        ["l.k=2.0", "del l.k; l.k=3.0"],
    ),
    (
        "import weakref\nclass A: k=1.0\na=A(); p=weakref.proxy(a)\n",
        "x*p.k",
        ["a.k=5.0", "A.k=7.0", "del a.k"],
    ),
    (
        "import itertools\nr=itertools.repeat(2.0)\n",
        "x*next(r)",
        ["r=itertools.repeat(3.0)"],
    ),
    (
        'b=bytearray(b"abc"); m=memoryview(b)\n',
        "x*m[0]",
        ["b[0]=5", "m[0]=7"],
    ),
    (
        "a=np.array([1.0,2.0]); v=a[1:]\n",
        "x*float(v[0])",
        ["a[1]=5.0", "a*=2", "v=a[:1]"],
    ),
    (
        "a=np.ma.array([1.0,2.0],mask=[0,1])\n",
        "x*float(a.sum())",
        ["a.mask=[0,0]", "a[0]=5.0"],
    ),
    (
        'a=np.array([{"k":1.0}],dtype=object)\n',
        'x*a[0]["k"]',
        ['a[0]["k"]=5.0', 'a[0]={"k":7.0}'],
    ),
    (
        'a=np.rec.array([(1.0,)],dtype=[("k",float)])\n',
        "x*float(a.k[0])",
        ["a.k[0]=5.0"],
    ),
    (
        "a=np.matrix([[1.0]])\n",
        "x*float(a[0,0])",
        ["a[0,0]=5.0"],
    ),
    (
        "a=np.poly1d([1.0,2.0])\n",
        "x*float(a(2.0))",
        ["a=np.poly1d([3.0,2.0])"],
    ),
]


def agree(source, expression, changes):
    """The jitted function and the plain one, between changes, in one namespace."""
    space = {"__name__": "of_the_user", "fx": fx, "np": np, "types": types}
    exec("import attrs, dataclasses, functools\n" + source, space)
    exec(f"def of_all(x): return {expression}", space)
    plain = space["of_all"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        fast = fx.jit(plain)
        for change in ("", "", *changes, ""):
            exec(change, space)
            assert fast(X).tolist() == plain(X).tolist(), change


@pytest.mark.parametrize("source, expression, changes", CASES, ids=range(len(CASES)))
def test_what_changes_is_seen(source, expression, changes):
    agree(source, expression, changes)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("name", MADE)
def test_how_objects_are_made_is_seen(kind, name):
    changes = [f"A.{name} = {MADE[name].format(value)}" for value in (3.0, 5.0)]
    agree(CLASSES[kind], "x * A().z", [*changes, f"del A.{name}" if kind == "derived" else ""])


def test_how_an_object_is_pickled_is_seen():
    source = "import pickle\nclass A:\n  def __reduce__(self): return float, (1.0,)\na = A()"
    change = "A.__reduce__ = lambda self: (float, (4.0,))"
    agree(source, "x * pickle.loads(pickle.dumps(a))", [change])
