"""What classes say of themselves to jit: the protocol, and that transforms need no other word."""

import ast
import sys
from pathlib import Path
from types import FunctionType

import fx
import fx.transforms
from fx.frames import is_internal
from fx.holding import Holding, Part, Setting, register
from fx.transforms.jitting.guards.reads import origin
from fx.versions import touch


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_transforms_import_no_layer_and_no_optimizer():
    files = sorted(Path(fx.transforms.__file__).parent.rglob("*.py"))
    assert len(files) > 50
    for path in files:
        above = [m for m in imports_of(path) if m.startswith(("fx.nn", "fx.optim"))]
        assert not above, (path, above)


class Dial:
    """Settings behind a class of its own, which jit knows by what it has registered."""

    def __init__(self, steps):
        self.inside = {"steps": steps, "seen": 0, "scale": fx.tensor(2.0)}
        self.below = []

    def turned(self, x):
        for _ in range(self.inside["steps"]):
            x = x * self.inside["scale"]
        return x + sum(dial.inside["steps"] for dial in self.below)

    def set(self, name, value):
        self.inside[name] = value
        touch()


class Dials(Holding):
    method = "turned"
    internal = frozenset(("inside", "below"))

    def settings(self, x, matters):
        yield Setting(".steps", x.inside["steps"])
        for i, dial in enumerate(x.below):
            yield Setting(f".below[{i}].steps", dial.inside["steps"])

    def inner(self, x):
        return [Part(f".below[{i}]", ("below", i), dial) for i, dial in enumerate(x.below)]

    def tensors(self, x):
        return [Part(".scale", ("inside", "scale"), x.inside["scale"])]


register(Dial, Dials())


def test_settings_are_what_a_class_says_they_are():
    dial, below = Dial(2), Dial(1)
    dial.below.append(below)
    staged = []

    @fx.jit
    def f(x):
        staged.append(1)
        return dial.turned(x)

    x = fx.tensor(3.0)
    assert float(f(x)) == 13
    dial.set("steps", 3)
    assert float(f(x)) == 25
    below.set("steps", 5)
    assert float(f(x)) == 29


def test_functions_that_fx_writes_are_no_code_of_the_users():
    """Such code would be guarded by what it reads, in every call, and its errors handled."""
    for name, module in list(sys.modules.items()):
        if name.startswith("fx.") and not name.startswith(("fx.testing", "fx.examples")):
            for found in list(vars(module).values()):
                if isinstance(found, FunctionType) and (found.__module__ or "").startswith("fx"):
                    file = found.__code__.co_filename
                    assert is_internal(file) or origin(file) == "library", (name, found)
