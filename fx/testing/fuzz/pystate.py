"""Functions that read and change Python's state, called again after changes from outside.

A program makes its world twice: in one the plain function runs, in the other the jitted one. After
each call results and state must be equal.
"""

from __future__ import annotations

import random

from fx.testing.fuzz.generator import Names, returned
from fx.testing.fuzz.program import Op, Program

TEMPLATE = """\
import collections, copy, dataclasses, enum, functools, logging, math, operator, pickle, random
import sys, threading, time, types


def test_found():
    def world():
        @dataclasses.dataclass
        class Point:
            x: float = 1.0
            y: object = 2

        class Colour(enum.Enum):
            RED = 2
            BLUE = 3

        class Box:
            level = 3

            def __init__(self):
                self.scale, self.calls, self.items, self.inner = 2.0, 0, [1, 2, 3], Point()

            def method(self, v):
                return v * self.scale

            @property
            def double(self):
                return self.scale * 2

            def __len__(self):
                return len(self.items)

        class Under(Box):
            pass

        class Maker:
            start = 1.5

            def __init__(self, v=2.0):
                self.v = v

            def __getattr__(self, name):
                return 2.5

            def __reduce__(self):
                return float, (self.v,)

        class Made(Maker):
            def twice(self):
                return self.v * 2

        @dataclasses.dataclass
        class Later:
            w: float = 1.0

            def __post_init__(self):
                self.z = self.w * 3

        library = types.ModuleType("math")
        library.floor, library.pi = math.floor, math.pi
        module = types.ModuleType("of_a_program")
        module.value = 1.5
        sys.modules["of_a_program"] = module
        config = {"a": 1.0, "b": 2, "deep": {"k": [1, 2.5]}, "on": True}
        items, box, point, count = [1.0, 2, 3], Under(), Point(), 0
        members, pair, text, power = {1, 2}, (1, 2.5), "abc", 2
        functions = [lambda v: v + 1, lambda v: v * 2]
        space = {"GLOBAL": 2.0, "fx": fx}
        exec("def outer(v):\\n    return v * GLOBAL", space)
        outer, Row = space["outer"], collections.namedtuple("Row", "u w")
        row, queue, table = Row(1, 2.0), collections.deque([1, 2]), collections.defaultdict(int)
        weights = {"w": fx.ones(3), "b": [fx.zeros(3)]}
        made, lock, logger = Made(4.0), threading.Lock(), logging.Logger("of_a_program", 10)
        if "missing" in (): missing = 1

        def f(x):
            nonlocal count, power
            {body}

        f.count = 0

        def change(turn):
            nonlocal count, power, missing, pair, text, row, items, config
            {changes}

        def seen():
            return [
                repr(config), repr(items), repr(vars(box)), repr(point), count, sorted(members),
                pair, text, power, row, list(queue), dict(table), f.count, space["GLOBAL"],
                list(weights), len(functions),
            ]

        return f, change, seen

    compare.worlds(world, TURNS)
"""
READS = (
    "config['a']", "config['b']", "config.get('c', 5)", "config['deep']['k'][1]", "len(config)",
    "'c' in config", "sum(v for v in config.values() if isinstance(v, (int, float)))", "items[0]",
    "len(items)", "sum(items)", "max(items)", "items[-1]", "box.scale", "getattr(box, 'scale')",
    "operator.attrgetter('scale')(box)", "box.double", "box.level", "len(box)", "box.inner.x",
    "box.items[1]", "vars(box)['scale']", "box.__dict__['scale']", "point.x", "point.y",
    "dataclasses.asdict(point)['x']", "dataclasses.astuple(point)[1]", "(point == Point()) * 2",
    "count", "len(members)", "(2 in members) * 3", "pair[1]", "len(text)", "power", "row.w",
    "row[0]", "space['GLOBAL']", "f.count", "queue[0]", "len(queue)", "table['n']",
    "sorted(items)[0]", "next(iter(items))", "any(v > 2.5 for v in items) * 2",
    "[v * 2 for v in items][-1]", "list(config)[0] == 'a'", "hasattr(box, 'extra') * 4",
    "getattr(box, 'extra', 7)", "hash(text) % 2 * 0 + len(text)", "repr(point).count('1')",
    "str(config['a']).count('.')", "type(config['b']) is int", "isinstance(items[0], float)",
    "len(repr(items))", "math.copysign(1, config['a'])", "functools.reduce(operator.add, items)",
    "(text == 'abc') * 2", "dict(config)['a']", "list(items)[1]", "{**config}['b']",
    "[*items, 4][-2]", "items[1:][0]", "bool(items)", "callable(box.method)", "text.count('a')",
    "Colour(power if power in (2, 3) else 2).value", "int(config['on'])", "items.index(items[-1])",
    "config == {'a': 1.0}", "(items == [1.0, 2, 3]) + 1", "operator.itemgetter('a')(config)",
    "f'{config[\"b\"]}'.count('2')", "min(config['deep']['k'])", "len(vars(box))",
    "type(box).__name__ == 'Under'", "isinstance(box, Under)", "point.__class__ is Point",
    "random.random()", "np.random.rand()", "random.randint(0, 9)",
    "np.random.default_rng(len(items)).random()", "float(time.time() > 0)", "len(weights)",
    "Box.level", "Under.__mro__[1] is Box", "len(functions)", "math.prod(pair)",
    "id(point) * 0 + 1", "space.get('NEW', 3)", "Made().v", "Made(3.0).twice()", "Made().start",
    "Made().none", "made.v + made.start", "made.none", "Later().z", "Later(2.0).w",
    "pickle.loads(pickle.dumps(made))", "copy.copy(point).x", "library.floor(3.5)", "library.pi",
    "logger.level", "logger.isEnabledFor(20) + 1", "lock.locked() + 1",
    "('of_a_program' in sys.modules) + 1", "threading.current_thread().name.count('M') + 1",
    "Made.twice(made)", "len(Made.__mro__)", "isinstance(made, Maker) + 1",
)  # fmt: skip
CALLS = (
    "box.method({0})", "functions[0]({0})", "functions[-1]({0})", "outer({0})",
    "functools.partial(box.method, {0})()", "functools.reduce(lambda v, g: g(v), functions, {0})",
    "{0} * weights['w']", "{0} + sum(weights['b'])", "operator.methodcaller('method', {0})(box)",
    "getattr(box, 'met' + 'hod')({0})", "Box.method(box, {0})",
)  # fmt: skip
STATEMENTS = (
    "items.append(1)", "config['n'] = config.get('n', 0) + 1", "box.calls += 1", "count += 1",
    "f.count += 1", "members.add(len(members) + 5)", "queue.append(count)", "table['n'] += 2",
    "power = power + 1", "box.items[0] = box.items[0] + 1", "config['deep']['k'].append(3)",
    "point.x = point.x + 1", "setattr(box, 'extra', 3)", "space['GLOBAL'] = space['GLOBAL'] + 1",
    "items[:] = items[::-1]", "config.update(b=config['b'] + 1)", "if len(items) > 2: items.pop()",
    "box.inner.y = count", "config.setdefault('late', 4)", "del items[:1]", "functions.reverse()",
    "weights['w'] = weights['w'] + 1", "members.discard(1)",
    "import of_a_program\ncount += of_a_program.value > 2",
    "try:\n    count += missing\nexcept NameError:\n    count += 2",
    "match point:\n    case Point(x=1.0):\n        count += 1\n    case _:\n        count += 5",
    "queue.rotate(1)", "for key in list(config):\n    count += len(key)",
    "while len(items) < 3:\n    items.append(2)", "weights['b'].append(x)",
)  # fmt: skip
CHANGES = (
    "config['a'] = 5.0", "config['a'] = -0.0", "config['a'] = 0.0", "config['b'] = 2.0",
    "config['b'] = True", "config['c'] = 9", "config.pop('on')",
    "config = dict(reversed(config.items()))", "config['deep']['k'][1] = 8",
    "config['deep'] = {{'k': [3, 4]}}", "items[0] = 1", "items[0] = 7.5", "items.append(4)",
    "items = [5, 6, 7]", "items.clear(); items.extend([9, 8, 7])", "items.sort(reverse=True)",
    "box.scale = 4.0", "box.scale = 4", "box.scale = float('nan')",
    "Box.level = 5; Under.level = 6; del Under.level", "box.inner = Point(3.0)",
    "box.inner.x = 6.0", "box.method = lambda v: v * 10", "Under.method = lambda self, v: v - 1",
    "box.__dict__['scale'] = 8.0", "box.items.append(4)", "point.x = 3.0", "point.y = 7.5",
    "count = 10", "members.add(9)", "members.clear()", "pair = (3, 4.5)", "text = 'aab'",
    "power = 3", "row = Row(4, 5.0)", "space['GLOBAL'] = 7.0", "space['NEW'] = 1.0", "f.count = 9",
    "queue.append(6)", "table['n'] = 4", "functions[0] = lambda v: v - 3",
    "functions.append(fx.sin)", "missing = 4", "module.value = 3.5", "box.extra = 2",
    "weights['w'] = fx.full((3,), 4.0)", "weights['b'].append(fx.ones(3))", "random.seed(5)",
    "np.random.seed(6)", "box.__class__ = Box",
    "sys.modules['of_a_program'] = types.SimpleNamespace(value=9)", "vars(box).update(scale=6.0)",
    "object.__setattr__(point, 'x', 12.0)",
    "Made.__init__ = lambda self, v=1.0: setattr(self, 'v', v + 5)",
    "Maker.__init__ = lambda self, v=1.0: setattr(self, 'v', v - 5)",
    "Maker.__init__.__defaults__ = (7.0,)", "Maker.__getattr__ = lambda self, name: 8.5",
    "Maker.__reduce__ = lambda self: (float, (9.5,))", "Maker.start = 3.5", "Made.start = 4.5",
    "Made.twice = lambda self: self.v * 7",
    "Later.__post_init__ = lambda self: setattr(self, 'z', 6.0)",
    "Made.none = 1.25", "made.none = 5.5", "made.v = 6.0", "Made.v = property(lambda self: 2.25)",
    "library.floor = lambda v: 11.0", "library.pi = 3.0", "logger.setLevel(40)",
    "lock.locked() or lock.acquire()", "sys.modules.pop('of_a_program', None)",
    "Made.__bases__ = (Later,)", "made.__class__ = Maker",
)  # fmt: skip


def make(rng: random.Random) -> Program:
    """A function of a tensor that reads and changes some state, and changes from outside."""
    names = Names()
    body: list[Op] = []
    tensors, numbers = ["x"], []
    for _ in range(rng.randrange(1, 7)):
        draw = rng.random()
        if draw < 0.3:
            body.append(Op("", rng.choice(STATEMENTS)))
        elif draw < 0.45:
            body.append(Op(names.new(), rng.choice(CALLS), (rng.choice(tensors),)))
            tensors.append(body[-1].name)
        elif draw < 0.55 and numbers:
            name = names.new()
            test = f"if {{0}} > {rng.choice((0.5, 2, 3))}:"
            text = f"{test}\n    {name} = {{1}} * 2\nelse:\n    {name} = {{1}} - 1"
            body.append(Op("", text, (numbers[-1], tensors[-1])))
            tensors.append(name)
        else:
            body.append(Op(names.new("n"), rng.choice(READS)))
            numbers.append(body[-1].name)
            if rng.random() < 0.7:
                text = rng.choice(("{0} * {1}", "{0} + {1}", "{0} - {1} * 0.5"))
                body.append(Op(names.new(), text, (tensors[-1], numbers[-1])))
                tensors.append(body[-1].name)
    kept = [tensors[-1], *numbers[-2:]]
    body.append(returned(kept))
    turns = rng.choice((3, 4, 5))
    changes: list[Op] = []
    for turn in range(1, turns):
        for _ in range(rng.choice((0, 1, 1, 2))):
            text = rng.choice(CHANGES).replace("{{", "{").replace("}}", "}")
            changes.append(Op("", f"if turn == {turn}:\n    {text}"))
    changes.append(Op("", "pass"))
    template = TEMPLATE.replace("TURNS", str(turns))
    return Program("pystate", template, {"body": tuple(body), "changes": tuple(changes)})
