"""Programs that write, in PyTorch's words: views, aliases, branches, loops, calls, ``backward``.

A program is one text for torch and for ``fx.torch``; ``twins.py`` runs it under both. Its maker
knows of each tensor the shape, the strides (from a NumPy array that is viewed alike), and whether
gradients flow through it, so that most statements are ones that torch takes.
"""

from __future__ import annotations

import random

import numpy as np

from fx.testing.fuzz import write_forms as forms
from fx.testing.fuzz import write_views as views
from fx.testing.fuzz.program import Op, Program
from fx.testing.fuzz.write_state import State
from fx.testing.fuzz.write_stock import Function, Text, Thing

TEMPLATE = """\
def test_found():
    from fx.testing.fuzz import twins

    text = '''
    {main}
    '''
    twins.agree(text%s)
"""


def program(rng: random.Random, jit: bool = False) -> Program:
    """A program; if ``jit``, with functions under ``jit`` that are called again and again."""
    maker = Maker(rng, jit)
    ops: list[Op | None] = [maker.fresh() for _ in range(rng.choice((2, 3)))]
    if jit:
        if rng.random() < 0.5:
            ops += [maker.state() for _ in range(rng.choice((1, 2)))]
        ops += [maker.statement(), maker.function(), maker.call(), maker.call(), maker.call()]
    ops += [maker.statement() for _ in range(rng.choice((4, 6, 8, 10, 14)))]
    main = tuple(op for op in ops if op is not None)
    every = rng.choice(("", "", ", every=3", ", every=100"))
    every += rng.choice(("", "", "", "", ", single=True"))
    name = "jitwrites" if jit else "writes"
    return Program(name, TEMPLATE.replace("%s", every), {"main": main})


def make(rng: random.Random) -> Program:
    """A program that runs eagerly."""
    return program(rng)


class Maker(State):
    """Makes one statement after the other."""

    def statement(self) -> Op | None:
        """A statement of any kind that is switched on; None if it found nothing to do."""
        kinds = [(k, w) for k, w in STATEMENTS.items() if self.allowed(k)]
        for _ in range(8):
            (kind,) = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])
            made: Op | None = getattr(self, kind)()
            if made is not None:
                return made
        return None

    def allowed(self, kind: str) -> bool:
        feature = NEEDS.get(kind)
        if feature is not None and not self.on(feature):
            return False
        if self.inside and kind in OUTSIDE:
            return False
        return self.depth < 2 or kind not in COMPOUND

    # compound statements -----------------------------------------------------------------------

    def block(self, most: int = 3) -> list[Op]:
        made = [self.statement() for _ in range(self.rng.randrange(1, most + 1))]
        return [op for op in made if op is not None]

    def region(self) -> Op | None:
        """A block that records or does not."""
        head, no_grad = self.rng.choice(REGIONS)
        with self.scope(no_grad=no_grad, inside=self.inside or "block"):
            if not no_grad:  # torch's views of leaves made without recording require grad here
                self.things, self.lists = self.things[: self.told], self.lists[: self.told_lists]
            body = self.block()
        return Op("", f"with torch.{head}:\n    {{body}}", (), (), tuple(body))

    def branch(self) -> Op | None:
        """An ``if`` that reads a tensor, perhaps with what is done otherwise."""
        rng, text = self.rng, Text()
        thing = self.thing(lambda t: t.kind == "f")
        if thing is None:
            return None
        name = self.names.new("c")
        test = f"{self.path(text, thing)}.sum() {rng.choice('<>')} 0.123"
        ops = [Op(name, test, tuple(text.args))]
        for test in ("if {0}:", "if not {0}:") if rng.random() < 0.5 else ("if {0}:",):
            with self.scope(inside=self.inside or "block"):
                ops.append(Op("", f"{test}\n    {{body}}", (name,), (), tuple(self.block())))
        return Op("", "{body}", (), (), tuple(ops))

    def loop(self) -> Op | None:
        """A loop over numbers, over rows, or over a list."""
        rng, text = self.rng, Text()
        draw, name = rng.random(), self.names.new("i")
        if draw < 0.4:
            thing = self.thing(lambda t: len(t.shape) > 0 and not t.leaf)
            if thing is None:
                return None
            path = rng.choice(thing.paths)
            text.use(path)
            with self.scope(inside="loop"):
                row = [f"{path}[{name}]"]
                self.things.append(thing.part(views.view_of(thing.array, 0), row))
                body = self.block(2)
            head = f"for {name} in range({rng.choice((1, thing.shape[0]))}):"
        elif draw < 0.7 or not self.lists:
            thing = self.thing(lambda t: len(t.shape) > 0)
            if thing is None:
                return None
            path = self.path(text, thing)
            with self.scope(inside="loop"):
                self.things.append(thing.part(views.view_of(thing.array, 0), [name]))
                body = self.block(2)
            head = f"for {name} in {path}:"
        else:
            lists, items = rng.choice(self.lists)
            shape = items[0].shape
            with self.scope(inside="loop"):
                same = all(t.shape == shape and t.told() for t in items) and items[0].kind == "f"
                leaf = any(t.leaf for t in items)
                if same:
                    self.things.append(Thing(items[0].array, [name], leaf, items[0].grad))
                body = self.block(2)
            head = f"for {name} in {text.use(lists)}:"
        if not body:
            return None
        return Op("", f"{head}\n    {{body}}", tuple(text.args), (), tuple(body))

    def function(self) -> Op | None:
        """A function that writes into its arguments and into what is around it."""
        rng = self.rng
        given = [self.thing(lambda t: t.kind == "f") for _ in range(rng.choice((1, 2)))]
        if any(t is None for t in given):
            return None
        things = [t for t in given if t is not None]
        if len(set(map(id, things))) < len(things) and rng.random() < 0.7:
            return None
        name, params = self.names.new("f"), [self.names.new("p") for _ in things]
        self.first_local = int(params[0][1:])
        self.number = self.names.new("k") if self.states and rng.random() < 0.6 else ""
        quiet = rng.random() < 0.08
        with self.scope(inside="function", no_grad=quiet or None):
            for param, t in zip(params, things):
                self.things.append(Thing(t.array, [param], t.leaf, t.grad, t.kept, t.parameter))
            body = self.block(4)
            text = Text()
            returned = [self.thing(lambda t: t.kind == "f") for _ in range(rng.choice((1, 1, 2)))]
            results = [t for t in returned if t is not None]
            paths, shapes_back = [self.path(text, t) for t in results], [t.shape for t in results]
            if quiet:  # torch's views of leaves that are made so say that they require grad
                paths = [f"({path} * 1).contiguous()" for path in paths]
            elif self.jit:  # mostly what a compiled call returns is new, and dense
                given_back = [self.returned(path, t) for path, t in zip(paths, results)]
                paths, shapes_back = map(list, zip(*given_back))
            else:  # of a result nobody remembers which of its elements are one
                paths = [p if t.writable() else f"({p} * 1)" for p, t in zip(paths, results)]
            out = ", ".join(paths)
            body.append(Op("", f"return {out}", tuple(text.args)))
        taken = [*params, self.number] if self.number else params
        counts, self.first_local, self.number = bool(self.number), 0, ""
        made = [(shape, t.grad) for shape, t in zip(shapes_back, results)]
        shapes = [(t.shape, t.leaf, t.parameter) for t in things]
        self.functions.append(Function(name, shapes, made, _names(body), counts))
        head = "@jit\n" if self.jit else ""
        head += "@torch.no_grad()\n" if quiet else ""
        lines = f"{head}def {name}({', '.join(taken)}):\n    {{body}}"
        return Op("", lines, (), (), tuple(body))

    def returned(self, path: str, thing: Thing) -> tuple[str, tuple[int, ...]]:
        """What a jitted function returns, the tensor or sometimes a view of it, and its shape."""
        draw = self.rng.random()
        if thing.parameter or thing.kept:  # what is written into `p.data` has no history here
            draw = 1.0
        if draw < 0.15 and thing.writable():
            return path, thing.shape
        made = self.viewed(thing) if draw < 0.3 else None
        if made is not None and Thing(made[1], []).writable():
            own = not np.may_share_memory(made[1], thing.array)  # a copy, which lies densely here
            own = own or (self.inside_only(thing) and not views.without_gaps(made[1]))
            view = f"{made[0]}.contiguous()" if own else made[0]
            return views.behind(path, view), made[1].shape
        return f"({path} * 1).contiguous()", thing.shape

    def call(self) -> Op | None:
        """A call of a function, with tensors of the shapes that it was made for."""
        if not self.functions:
            return None
        rng, text = self.rng, Text()
        function = rng.choice(self.functions)
        drop = self.dropped([t for t in self.things if t.parameter]) if self.jit else ""
        if function not in self.functions:
            return Op("", drop.rstrip())
        apart = self.on("shared") or not self.jit
        chosen = []
        for shape, leaf, parameter in function.shapes:
            fitting = [
                t for t in self.things
                if t.shape == shape and t.kind == "f" and (leaf or not t.leaf)
                and (parameter or not t.parameter)  # what a buffer is given has no history
                and (apart or not t.grad or not t.roots() & function.names) and t.told()
            ]  # fmt: skip
            thing = self.thing(fitting.__contains__)
            if thing is None:
                return Op("", drop.rstrip()) if drop else None
            chosen.append(self.path(text, thing))
        if function.counts:
            chosen.append(str(rng.randrange(4)))
        call = f"{function.name}({', '.join(chosen)})"
        names = [self.names.new("y") for _ in function.made]
        for name, (shape, grad) in zip(names, function.made):
            self.add(name, np.zeros(shape), grad=grad, given=True)
        args = tuple(text.args)
        if len(names) == 1:
            return Op("", f"{drop}{names[0]} = {call}", args) if drop else Op(names[0], call, args)
        return Op("", f"{drop}{', '.join(names)} = {call}", args)

    # gradients ---------------------------------------------------------------------------------

    def loss(self, text: Text) -> str | None:
        """A scalar of some of the tensors through which gradients flow."""
        rng = self.rng
        terms: list[str] = []
        if self.hosts:  # NumPy writes what pullbacks have kept
            return None
        for _ in range(rng.choice((1, 2, 2, 3))):
            thing = self.thing(lambda t: t.grad)
            if thing is None:
                return None
            terms.append(rng.choice(forms.LOSSES).replace("{}", self.path(text, thing)))
        return " + ".join(dict.fromkeys(terms))

    def backward(self) -> Op | None:
        """Gradients of a loss."""
        text = Text()
        loss = self.loss(text)
        if loss is None or self.no_grad:
            return None
        self.backed = True
        keep = "retain_graph=True" if self.rng.random() < 0.8 else ""
        return Op("", f"({loss}).backward({keep})", tuple(text.args))

    def grads(self) -> Op | None:
        """``torch.autograd.grad``."""
        text = Text()
        loss = self.loss(text)
        thing = self.thing(lambda t: t.grad and t.leaf) or self.thing(lambda t: t.grad)
        if loss is None or thing is None or self.no_grad:
            return None
        name, path = self.names.new("g"), self.path(text, thing)
        text_ = f"torch.autograd.grad({loss}, [{path}], retain_graph=True, allow_unused=True)"
        return Op(name, text_, tuple(text.args))

    def optimizer(self) -> Op | None:
        """An optimizer, or a step of one."""
        rng, text = self.rng, Text()
        if self.optimizers and rng.random() < 0.7:
            name, held = rng.choice(self.optimizers)
            loss = self.loss(text)
            if loss is None or self.no_grad:
                return None
            drop = self.dropped(held)
            lines = f"{drop}({loss}).backward(retain_graph=True)\n{text.use(name)}.step()"
            if rng.random() < 0.5:
                lines = f"{text.use(name)}.zero_grad()\n{lines}"
            return Op("", lines, tuple(text.args))
        held = [t for t in (self.thing(lambda t: t.leaf) for _ in range(2)) if t is not None]
        held = list({id(t): t for t in held}.values())
        if not held:
            return None
        name = self.names.new("o")
        paths = ", ".join(self.path(text, t) for t in held)
        self.optimizers.append((name, held))
        return Op(name, rng.choice(forms.OPTIMIZERS).replace("{}", paths), tuple(text.args))


def _names(ops: list[Op] | tuple[Op, ...]) -> frozenset[str]:
    """The variables that statements use."""
    return frozenset(a for op in ops for a in (*op.args, *_names(op.body)))


STATEMENTS = {
    "fresh": 1, "expression": 8, "view": 9, "assign": 9, "augment": 7, "method": 10, "meta": 1,
    "flag": 2, "data": 1, "numpy": 9, "alias": 4, "region": 4, "branch": 2, "loop": 4,
    "function": 2, "call": 3, "layer": 4, "state": 6, "backward": 5, "grads": 2, "optimizer": 2,
}  # fmt: skip
# what a block begins with, and whether nothing is recorded in it
REGIONS = (
    ("no_grad()", True), ("no_grad()", True), ("no_grad()", True), ("inference_mode()", True),
    ("set_grad_enabled(False)", True), ("enable_grad()", False), ("enable_grad()", False),
    ("set_grad_enabled(True)", False),
)  # fmt: skip
NEEDS = {
    "assign": "assign", "augment": "augmented", "method": "method", "meta": "meta",
    "flag": "flags", "data": "data_set", "numpy": "numpy", "optimizer": "optim", "layer": "layers",
    "state": "state",
}  # fmt: skip
COMPOUND = ("region", "branch", "loop", "function")
OUTSIDE = ("meta", "function", "flag", "data", "optimizer", "numpy")  # not inside of others
