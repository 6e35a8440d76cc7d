"""Attributes that code computes: what it is, and what it reads, may change between calls."""

import sys
import types

import pytest

import fx

START = """
import enum
import fx
class Given:
    def __get__(self, owner, cls): return self.k
    k = 2.0
class Asking:
    def __getattr__(self, name):
        if name.startswith("zz"): return 5.0
        raise AttributeError(name)
class Keyed(dict):
    __getattr__ = dict.__getitem__
class Meta(type):
    def __getattr__(cls, name): return 3.0
class Of(metaclass=Meta): pass
class Plain:
    given = Given()
class Layer(fx.nn.Module):
    given = Given()
    def forward(self, x): return x * self.given + self.zz
    def __getattr__(self, name):
        return 5.0 if name == "zz" else super().__getattr__(name)
class Kind(enum.Enum):
    NUMBER, LIST, DICT = 1, [1.0], {"k": 2.0}
    def scaled(self): return self.scale * self.value
Kind.NUMBER.scale = 3.0
asking, keyed, plain, layer = Asking(), Keyed(a=1.0), Plain(), Layer()
"""

# (what a function reads, what happens between its calls)
CASES = {
    "descriptor": ("plain.given", [
        "Given.k = 3.0", "Plain.__dict__['given'].k = 4.0",
        "Given.__get__ = lambda *_: 9.0", "Plain.given = 7.0", "plain.given = 8.0",
    ]),
    "descriptor of a layer": ("layer(x)", [
        "Given.k = 3.0", "Layer.__dict__['given'].k = 4.0",
        "Given.__get__ = lambda *_: 9.0", "Layer.given = 7.0", "layer.given = 8.0",
    ]),
    "what a class does not have": ("asking.zz", [
        "Asking.zz = 7.0", "del Asking.zz", "asking.zz = 8.0", "del asking.zz",
        "Asking.__getattr__ = lambda *_: 9.0",
    ]),
    "what the class of a layer does not have": ("layer(x)", [
        "Layer.zz = 7.0", "del Layer.zz", "layer.zz = 8.0", "del layer.zz",
    ]),
    "keys as attributes": ("keyed.a", [
        "keyed['a'] = 2.0", "Keyed.__getattr__ = lambda *_: 9.0", "Keyed.a = 4.0",
    ]),
    "what a metaclass gives": ("Of.foo", [
        "Of.foo = 4.0", "del Of.foo", "Meta.__getattr__ = lambda *_: 9.0", "Meta.foo = 6.0",
    ]),
    "list of a member": ("Kind.LIST.value[0]", ["Kind.LIST.value[0] = 5.0"]),
    "dict of a member": ("Kind.DICT.value['k']", ["Kind.DICT.value['k'] = 5.0"]),
    "method of a member": ("Kind.NUMBER.scaled()", [
        "Kind.NUMBER.scale = 5.0", "Kind.scaled = lambda self: 7.0",
    ]),
}  # fmt: skip


def results(expression, changes, wrap):
    """What a function gives before and after each change, called twice each time."""
    module = types.ModuleType("computed_attributes")
    module.__file__ = "/user/computed_attributes.py"
    sys.modules[module.__name__] = module
    space = vars(module)
    try:
        exec(compile(START, module.__file__, "exec"), space)
        exec(compile(f"def f(x): return x * ({expression})", module.__file__, "exec"), space)
        f, x, found = wrap(space["f"]), fx.tensor([1.0, 2.0]), []
        for change in ["", *changes]:
            exec(change, space)
            found += [f(x).tolist() for _ in range(2)]
        return found
    finally:
        del sys.modules[module.__name__]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_what_computes_attributes_is_guarded(name):
    assert results(*CASES[name], fx.jit) == results(*CASES[name], lambda f: f)
