"""What the programs of ``writes.py`` have made so far, and choices among it."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np

from fx.testing.fuzz import write_forms as forms
from fx.testing.fuzz import write_kinds as kinds
from fx.testing.fuzz import write_views as views
from fx.testing.fuzz.generator import Names

FLOATS = ("0.5", "-1.5", "2.0", "0.25", "-0.75")
_OF_GRADIENTS = ("flags", "grad", "optim")
NUMBERS = (*FLOATS, "1", "3")


@attrs.define(eq=False)
class Thing:
    """A tensor of the program.

    Attributes:
        array: an array that lies in memory as the tensor does.
        paths: the expressions that lead to it.
        leaf: whether it is a leaf that requires grad.
        grad: whether gradients may flow through it.
        kept: whether it is of what ``detach()`` gave of a parameter, which ignores steps.
        parameter: whether it is a Parameter.
        given: whether a function returned it, which may be of what it was called with.
    """

    array: np.ndarray
    paths: list[str]
    leaf: bool = False
    grad: bool = False
    kept: bool = False
    parameter: bool = False
    given: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def kind(self) -> str:
        return self.array.dtype.kind

    def roots(self) -> set[str]:
        """The variables that lead to it."""
        return {forms.rooted(path)[0] for path in self.paths}

    def part(self, array: np.ndarray, paths: list[str]) -> Thing:
        """A view of it."""
        options = {"grad": self.grad, "kept": self.kept, "parameter": self.parameter}
        return Thing(array, paths, **options, given=self.given)

    def writable(self) -> bool:
        """Whether no two elements share their memory."""
        places = np.zeros((), np.int64)
        for n, step in zip(self.shape, self.array.strides):
            places = np.add.outer(places, np.arange(n) * step)
        return np.unique(places).size == self.array.size

    def told(self) -> bool:
        """Whether torch says what a write into it does: it is refused where axes are expanded."""
        return self.writable() or not all(self.array.strides)


@attrs.frozen
class Function:
    """A function of the program: its arguments and results as shapes and flags, what it reads.

    The last argument may be a number (``counts``).
    """

    name: str
    shapes: list[tuple[tuple[int, ...], bool, bool]]
    made: list[tuple[tuple[int, ...], bool]]
    names: frozenset[str]
    counts: bool


class Text:
    """A piece of source with the variables that it uses."""

    def __init__(self) -> None:
        self.args: list[str] = []

    def use(self, path: str) -> str:
        """The placeholder of a variable."""
        root, rest = forms.rooted(path)
        if root not in self.args:
            self.args.append(root)
        return f"{{{self.args.index(root)}}}{rest}"


def fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Whether one shape may be broadcast into another."""
    lead = len(into) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, into[lead:]))


class Stock:
    """The tensors, lists, functions and optimizers that a program has at some place.

    Args:
        rng: the source of choices.
        jit: whether functions are jitted.
    """

    def __init__(self, rng: random.Random, jit: bool) -> None:
        self.rng, self.jit = rng, jit
        self.names = Names()
        self.things: list[Thing] = []
        self.past: list[Thing] = []  # out of scope for the program, while Python may hold them
        self.lists: list[tuple[str, list[Thing]]] = []
        self.functions: list[Function] = []
        self.arrays: list[tuple[str, np.ndarray]] = []
        self.hosts = not jit and "numpy" in forms.ON and rng.random() < 0.2  # and has no gradients
        self.optimizers: list[tuple[str, list[Thing]]] = []
        self.states: list[tuple[str, str, int]] = []  # what keeps, its kind, of how many elements
        self.number = ""  # the argument of the function that is a number
        self.layers: list[tuple[str, list[Thing]]] = []
        self.depth = 0
        self.inside = ""  # "function" or "loop" where tensors keep their shape and names
        self.no_grad = False
        self.told: int | None = None  # of them, before the block that records nothing
        self.told_lists: int | None = None
        self.backed = False  # whether a backward pass may have left a gradient
        self.first_local = 0  # the number of the first name of the function that is written

    # choosing ----------------------------------------------------------------------------------

    def on(self, feature: str) -> bool:
        """Whether programs may use a feature."""
        if self.hosts if feature in _OF_GRADIENTS else feature == "numpy" and not self.hosts:
            return False
        return feature in forms.ON

    def thing(self, test: Callable[[Thing], bool] = lambda t: True) -> Thing | None:
        found = [t for t in self.things if t.paths and test(t)]
        if not found:
            return None
        return self.rng.choice(found[-4:] if self.rng.random() < 0.6 else found)

    def path(self, text: Text, thing: Thing) -> str:
        return text.use(self.rng.choice(thing.paths))

    def add(self, name: str, array: np.ndarray, **options: bool) -> Thing:
        thing = Thing(array, [name], **options)
        self.things.append(thing)
        return thing

    @contextmanager
    def scope(self, inside: str = "", no_grad: bool | None = None) -> Iterator[None]:
        """Statements inside: what they define is not there afterwards."""
        before = self.inside, self.no_grad, list(self.things), list(self.lists)
        told = self.told, self.told_lists
        paths = [(t, list(t.paths)) for t in self.things]
        arrays, optimizers = list(self.arrays), list(self.optimizers)
        self.inside = inside or self.inside
        if no_grad and not self.no_grad:
            self.told, self.told_lists = len(self.things), len(self.lists)
        self.no_grad = self.no_grad if no_grad is None else no_grad
        self.depth += 1
        yield
        self.depth -= 1
        self.past += self.things[len(before[2]) :]
        self.inside, self.no_grad, self.things, self.lists = before
        self.told, self.told_lists = told
        self.arrays, self.optimizers = arrays, optimizers
        for t, known in paths:
            t.paths = known

    def value(
        self, text: Text, shape: tuple[int, ...], kind: str, away: Any = None
    ) -> tuple[str, bool]:
        """An expression to write into this shape, and whether gradients flow through it.

        Args:
            away: an array; what shares memory with it is copied.
        """
        rng = self.rng
        if kind == "b":
            return rng.choice(("True", "False")), False
        if kind == "i":
            return str(rng.randrange(-2, 5)), False
        if kind == "c":
            near = [t for t in self.things if t.paths and t.kind == "c" and fits(t.shape, shape)]
            if not near or rng.random() < 0.5:
                return rng.choice(kinds.COMPLEX), False
            thing = rng.choice(near)
            form = rng.choice(("{}.clone()", "{} * 0.5j", "{}.conj() * 1", "{} + 1"))
            return form.replace("{}", self.path(text, thing)), thing.grad
        held = [t.array for t in self.things if t.parameter] if not self.no_grad else []
        if rng.random() < 0.3 or any(np.may_share_memory(a, away) for a in held):
            return rng.choice(NUMBERS), False  # what is written into `p.data` has no history here
        near = [t for t in self.things if t.paths and t.kind == "f" and fits(t.shape, shape)]
        if near and rng.random() < 0.75:
            thing = rng.choice(near)
            path = self.path(text, thing)
            form = rng.choice(forms.SAME_SHAPE)
            if form == "{}" and away is not None and self.perhaps_shared(thing, away):
                form = "{}.clone()"
            return form.replace("{}", path), thing.grad
        thing = self.thing(lambda t: t.kind == "f")
        if thing is not None and rng.random() < 0.7:
            path = self.path(text, thing)
            return rng.choice(forms.TO_SCALAR).replace("{}", path), thing.grad
        return f"torch.full({tuple(shape)}, {rng.choice(FLOATS)})", False

    def perhaps_shared(self, thing: Thing, array: np.ndarray) -> bool:
        """Whether an array lies in the memory of a tensor, or might: one of them was returned."""
        if thing.given or np.may_share_memory(thing.array, array):
            return True
        return any(t.given and np.may_share_memory(t.array, array) for t in self.things)

    def viewed(self, thing: Thing) -> tuple[str, np.ndarray, bool] | None:
        """A view of a tensor: what is written behind it, its array, whether it is detached."""
        for _ in range(6):
            complex_ = thing.kind == "c" and self.rng.random() < 0.4
            form = self.rng.choice(kinds.VIEWS if complex_ else views.VIEWS)
            if form.feature and not self.on(form.feature):
                continue
            made = form.made(self.rng, thing.array)
            if made is not None and thing.given and "as_strided" in made[0]:
                continue  # how results of a jitted function lie is not what it returned there
            if made is not None and made[1].size and made[1].ndim < 5 and made[1].size < 41:
                text = views.as_function(self.rng, made[0])
                return text, made[1], form.feature != ""
        return None

    def target(self, text: Text, wanted: str = "fibc") -> tuple[str, Thing, np.ndarray] | None:
        """What is written into: a tensor or a view that is made on the way."""
        rng = self.rng
        leafs = rng.random() < (0.03 if not self.no_grad else 0.6)
        thing = self.thing(lambda t: t.kind in wanted and (leafs or not t.leaf))
        if thing is None or (not thing.writable() and rng.random() < 0.9):
            return None
        path, array = self.path(text, thing), thing.array
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            if self.number and array.ndim and rng.random() < 0.3:
                path, array = self.staged(text, path, array)
                continue
            made = self.viewed(Thing(array, [], given=thing.given))
            if made is not None:
                path, array = views.behind(path, made[0]), made[1]
        shown = Thing(array, [])
        if not shown.told() or (not shown.writable() and rng.random() < 0.9):
            return None  # which window is written last torch leaves open
        return path, thing, array

    def staged(self, text: Text, path: str, array: Any) -> tuple[str, Any]:
        """A view at a position that is the number which the function is given."""
        rng, n = self.rng, array.shape[0]
        k, length = text.use(self.number), rng.randrange(1, n + 1)
        start = f"{k} % {n - length + 1}"
        forms_ = [
            (f"[{k} % {n}]", array[0, ...]), (f"[-1 - {k} % {n}]", array[0, ...]),
            (f"[{start} : {start} + {length}]", array[:length]),
            (f".narrow(0, {start}, {length})", array[:length]),
            (f".select(0, {k} % {n})", array[0, ...]),
        ]  # fmt: skip
        if array.ndim > 1:
            forms_.append((f"[:, {k} % {array.shape[1]}]", array[:, 0]))
        behind, made = rng.choice(forms_)
        return f"{path}{behind}", made

    def shares(self, thing: Thing) -> bool:
        """Whether another tensor, or an array, lies in the memory of this one."""
        others = [t.array for t in (*self.things, *self.past) if t is not thing]
        others += [array for _, array in self.arrays]
        return any(np.may_share_memory(array, thing.array) for array in others)

    def dropped(self, held: list[Thing]) -> str:
        """Lines that let go of what a step or a load does not tell here: what is kept is meant."""
        names = []
        for t in (*self.things, *self.past):
            if t.kept and any(np.may_share_memory(t.array, h.array) for h in held):
                names += [forms.rooted(p)[0] for p in t.paths]  # lists, dicts and objects whole
                t.paths = []
        self.lists = [held for held in self.lists if held[0] not in names]
        for t in (*self.things, *self.past):
            t.paths = [p for p in t.paths if forms.rooted(p)[0] not in names]
        names = list(dict.fromkeys(names))
        self.functions = [f for f in self.functions if f.names.isdisjoint(names)]
        return "".join(f"{name} = " for name in names) + "None\n" if names else ""

    def wrote(self, array: np.ndarray, grad: bool) -> None:
        """Gradients flow through all that shares the memory from now on."""
        if grad and not self.no_grad:
            for t in self.things:
                if np.may_share_memory(t.array, array):
                    t.grad = True

    def foreign(self, name: str) -> bool:
        """Whether a function cannot bind this name, for it is one of the module's."""
        return self.first_local > int(name.lstrip(string.ascii_lowercase))

    def inside_only(self, thing: Thing) -> bool:
        """Whether the function that is written made it, and nothing outside shares its memory."""
        return not any(
            any(map(self.foreign, t.roots()))
            for t in self.things
            if np.may_share_memory(t.array, thing.array)
        )
