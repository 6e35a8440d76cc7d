"""Statements of one line for ``writes.py``: tensors, views, writes, names."""

from __future__ import annotations

import numpy as np

from fx.testing.fuzz import write_forms as forms
from fx.testing.fuzz import write_kinds as kinds
from fx.testing.fuzz import write_views as views
from fx.testing.fuzz.program import Op
from fx.testing.fuzz.write_arrays import Arrays
from fx.testing.fuzz.write_stock import Text, Thing, fits
from fx.writing.layouts import owner_of

SHAPES = ((3,), (2,), (4,), (2, 3), (3, 3), (2, 2), (3, 4), (2, 3, 2), ())


class Lines(Arrays):
    """Makes statements of one line; each of its methods gives None if it finds nothing to do."""

    # new tensors -------------------------------------------------------------------------------

    def fresh(self) -> Op:
        """A tensor of numbers."""
        rng, name = self.rng, self.names.new("x")
        shape = rng.choice(SHAPES)
        draw = rng.random()
        if draw < 0.1:
            values = np.asarray([rng.randrange(-3, 4) for _ in range(int(np.prod(shape)))])
            array = values.reshape(shape)
            self.add(name, array)
            return Op(name, f"torch.tensor({array.tolist()})")
        if draw < 0.17 and not self.jit:
            parts = [f"{rng.randrange(-8, 9) / 4}{rng.randrange(-8, 9) / 4:+}j" for _ in range(4)]
            size = rng.choice(((2,), (2, 2), (4,)))
            self.add(name, np.zeros(size, complex))
            shown = f"torch.tensor([{', '.join(parts[: int(np.prod(size))])}])"
            return Op(name, f"{shown}.reshape({views.shown(size)})")
        if draw < 0.23:
            array = np.asarray([rng.random() < 0.5 for _ in range(int(np.prod(shape)))])
            self.add(name, array.reshape(shape))
            return Op(name, f"torch.tensor({array.reshape(shape).tolist()})")
        numbers = np.asarray([rng.randrange(-16, 17) / 8 for _ in range(int(np.prod(shape)))])
        text = f"torch.tensor({numbers.reshape(shape).tolist()})"
        if rng.random() < 0.2:
            text = f"torch.{rng.choice(('zeros', 'ones'))}({views.shown(shape)})"
        leaf, parameter = not (self.inside or self.hosts) and rng.random() < 0.4, False
        if leaf:
            text = f"{text[:-1]}, requires_grad=True)"
            if self.on("parameter") and rng.random() < 0.15:
                text = f"torch.nn.Parameter({text.replace(', requires_grad=True', '')})"
                parameter = True
        self.add(name, np.zeros(shape), leaf=leaf, grad=leaf, parameter=parameter)
        return Op(name, text)

    def expression(self) -> Op | None:
        """A new tensor of others."""
        rng, text = self.rng, Text()
        a = self.thing(lambda t: t.kind == "f")
        if a is None:
            return None
        path = self.path(text, a)
        form, shaped = rng.choice(forms.EXPRESSIONS)
        if form in forms.STRIDED and not self.on("strided"):
            return None
        array, grad = a.array, a.grad
        if "{b}" in form:
            b = self.thing(lambda t: t.kind == "f" and fits(t.shape, a.shape)) or a
            form, grad = form.replace("{b}", self.path(text, b)), grad or b.grad
        try:
            array = np.array(shaped(array), order="K")
        except (ValueError, IndexError):
            return None
        if array.size > 40 or array.ndim > 4:
            return None
        text_ = form.replace("{a}", path)
        if not a.array.flags.c_contiguous:  # the layout of what comes of it is nobody's promise
            text_, array = (
                f"({text_}).contiguous()",
                np.ascontiguousarray(array).reshape(array.shape),
            )
        name = self.names.new("y")
        self.add(name, array, grad=grad and not self.no_grad)
        return Op(name, text_, tuple(text.args), ("{0} * 1",))

    def view(self) -> Op | None:
        """A name for a view."""
        text = Text()
        thing = self.thing()
        made = None if thing is None else self.viewed(thing)
        if made is None or thing is None:
            return None
        path = self.path(text, thing)
        name = self.names.new("v")
        made_of = thing.part(made[1], [name])
        made_of.grad = thing.grad and not made[2] and not self.no_grad
        made_of.kept |= thing.parameter and "detach" in made[0]
        self.things.append(made_of)
        return Op(name, views.behind(path, made[0]), tuple(text.args))

    # writes ------------------------------------------------------------------------------------

    def assign(self) -> Op | None:
        """``x[i] = v`` and ``x[i] += v``."""
        rng, text = self.rng, Text()
        found = self.target(text)
        if found is None:
            return None
        path, _, array = found
        if self.number and array.ndim and rng.random() < 0.25:
            path, array = self.staged(text, path, array)
        index, part = views.index(rng, array, path)
        masks = [t for t in self.things if t.kind == "b" and t.paths and t.shape == array.shape]
        if masks and array.ndim and rng.random() < 0.3:  # how many are written is not known
            index, part = self.path(text, rng.choice(masks)), ()
        kind = array.dtype.kind
        value, grad = self.value(text, part, kind, array)
        sign = "="
        if array.ndim and rng.random() < 0.4 and self.on("augmented"):
            sign = rng.choice(kinds.SIGNS[kind][:4])
            if sign == "/=":
                value = f"(1.5 + ({value}) ** 2)"
        self.wrote(array, grad)
        return Op("", f"{path}[{index}] {sign} {self.cast(value)}", tuple(text.args))

    def augment(self) -> Op | None:
        """``x += v``."""
        rng, text = self.rng, Text()
        found = self.target(text)
        if found is None:
            return None
        path, _, array = found
        if not path.endswith(("}", "]", ".data", ".w", ".weight", ".kept")):
            return None  # it cannot be assigned to
        if path.endswith("}") and self.foreign(text.args[int(path[1:-1])]):
            return None
        kind = array.dtype.kind
        value, grad = self.value(text, array.shape, kind, array)
        sign = rng.choice(kinds.SIGNS[kind])
        if rng.random() < 0.04 and kind in kinds.TOO_WIDE:
            value, grad = rng.choice(kinds.TOO_WIDE[kind]), False
        if sign == "/=":
            value = f"(1.5 + ({value}) ** 2)"
        if sign == "**=":
            value, grad = "2", False
        self.wrote(array, grad)
        return Op("", f"{path} {sign} {self.cast(value)}", tuple(text.args))

    def cast(self, value: str) -> str:
        """Sometimes what is written is of another dtype."""
        if value[:1] != "{" or ".item()" in value or self.rng.random() < 0.95:
            return value
        return f"({value}).{self.rng.choice(('float', 'double'))}()"

    def method(self) -> Op | None:
        """``x.add_(v)`` and the like; functions that write into an argument."""
        rng, text = self.rng, Text()
        found = self.target(text)
        if found is None:
            return None
        path, thing, array = found
        other = self.thing(lambda t: fits(t.shape, array.shape)) if rng.random() < 0.05 else None
        held = [t.array for t in self.things if t.parameter and not self.no_grad]
        if other is not None and self.perhaps_shared(other, array):
            other = None
        # and `p.data` has no history here
        if other is not None and not any(np.may_share_memory(a, array) for a in held):
            line = kinds.CASTS[array.dtype.kind].replace("{t}", path)
            if array.dtype.kind != "i" or other.kind == "f":
                self.wrote(array, other.grad)
                return Op("", line.replace("{o}", self.path(text, other)), tuple(text.args))
        known = (*forms.WRITES, *kinds.WRITES)
        choices = [f for f in known if self.on(f.feature) and f.fits(array)]
        if not choices:
            return None
        form = rng.choice(choices)
        line, grad = form.text.replace("{t}", path), False
        for hole in ("{v}", "{w}"):
            if hole in line:
                value, flows = self.value(text, form.shape(array), array.dtype.kind, array)
                line, grad = line.replace(hole, value), grad or flows
        line = forms.filled(rng, line, array)
        self.wrote(array, grad)
        name = ""
        if array is thing.array and rng.random() < 0.15 and "=" not in line.split("(")[0]:
            name = self.names.new("r")  # what a method in place returns is the tensor
            kept = thing.kept or (thing.parameter and "detach" in path)
            self.things.append(
                Thing(array, [name], thing.leaf, thing.grad or grad, kept, thing.parameter)
            )
        return Op(name, line, tuple(text.args))

    def meta(self) -> Op | None:
        """A tensor that gets another shape, of its own."""
        rng, text = self.rng, Text()
        thing = self.thing(lambda t: not t.leaf and len(t.paths) > 0)
        if thing is None:
            return None
        path, a = self.path(text, thing), thing.array
        choices: list[tuple[str, np.ndarray]] = []
        if a.ndim == 2:
            choices += [("t_()", a.T), ("transpose_(0, 1)", a.T)]
        choices += [("unsqueeze_(0)", a[None])]
        choices += [("squeeze_(0)", a[0])] if a.ndim and a.shape[0] == 1 else []
        if not thing.given and rng.random() < 0.2:
            choices = [self.resized(thing)]
        line, thing.array = rng.choice(choices)
        return Op("", f"{path}.{line}", tuple(text.args))

    def resized(self, thing: Thing) -> tuple[str, np.ndarray]:
        """Of as many elements of the memory as there are from its first on, or of new ones."""
        a, n = thing.array, self.rng.randrange(1, 9)
        flat = owner_of(a)
        flat = flat.transpose(np.argsort(flat.strides)[::-1]).reshape(-1)
        first = (a.ctypes.data - flat.ctypes.data) // a.itemsize
        if not a.size or a.dtype != flat.dtype or first < 0 or flat.size > 40:
            return "unsqueeze_(0)", a[None]
        if first + n <= flat.size:
            return f"resize_({n})", flat[first : first + n]
        if self.shares(thing):
            return f"resize_({flat.size - first})", flat[first:]
        return f"resize_({n}).fill_(0.5)", np.zeros(n, a.dtype)

    def flag(self) -> Op | None:
        """``requires_grad_()``, ``detach_()`` and what becomes of ``grad``."""
        rng, text = self.rng, Text()
        known = [f for f, feature in forms.FLAGS if self.on(feature)]
        form = rng.choice(known) if known else ""
        if not form or (".grad" in form and not self.backed):
            return None
        if "hook" in form:
            return self._hooked(form)
        wants = ".grad" in form or "_(False)" in form
        thing = self.thing(lambda t: t.kind == "f" and t.leaf == wants and (wants or not t.grad))
        if "detach_" in form:
            thing = self.thing(lambda t: t.kind == "f" and t.grad and not t.leaf)
        if thing is None or (not wants and (thing.given or self.shares(thing))):
            return None  # a view of what requires grad later says that it does, and gives it none
        if form.endswith("requires_grad_()") or form.endswith("= True"):
            thing.leaf = thing.grad = True
        elif "(False)" in form or "detach_" in form:
            thing.leaf = thing.grad = False
        return Op("", form.replace("{t}", self.path(text, thing)), tuple(text.args))

    def _hooked(self, form: str) -> Op | None:
        """A hook of a leaf, or of a new tensor: torch crashes for a view that was written."""
        text = Text()
        thing = self.thing(lambda t: t.grad)
        if thing is None or self.no_grad:
            return None
        path = self.path(text, thing)
        if thing.leaf:
            return Op("", form.replace("{t}", path), tuple(text.args))
        name = self.names.new("y")
        self.add(name, np.zeros(thing.shape), grad=True)
        return Op(name, f"{path} * 1\n{form.replace('{t}', name)}", tuple(text.args))

    def data(self) -> Op | None:
        """``x.data = v``, ``x.set_(v)``: other memory."""
        rng, text = self.rng, Text()
        thing = self.thing(lambda t: t.kind == "f" and (t.leaf or not t.grad))
        if thing is None:
            return None
        if thing.given or self.shares(thing):
            return None  # torch's views would go on with what they were views of
        path = self.path(text, thing)
        value, _ = self.value(text, thing.shape, "f", thing.array)
        thing.array = np.zeros(thing.shape)
        if self.on("set") and not thing.leaf and rng.random() < 0.4:
            return Op("", f"{path}.set_(torch.zeros_like({path}) + 0.5)", tuple(text.args))
        return Op("", f"{path}.data = torch.zeros_like({path}) + {value}", tuple(text.args))

    # names -------------------------------------------------------------------------------------

    def alias(self) -> Op | None:
        """Another name, a list, a dict or an attribute for what is there."""
        rng, text = self.rng, Text()
        thing = self.thing()
        if thing is None:
            return None
        path, draw = self.path(text, thing), rng.random()
        if draw < 0.35:
            name = self.names.new("z")
            thing.paths.append(name)
            return Op(name, path, tuple(text.args))
        if draw < 0.7:
            name, others = self.names.new("l"), [thing]
            paths = [path]
            for _ in range(rng.choice((0, 1, 2))):
                other = self.thing(lambda t: t.kind == "f")
                if other is not None and other not in others:
                    others.append(other)
                    paths.append(self.path(text, other))
            opening, closing = rng.choice((("[", "]"), ("[", "]"), ("(", ",)")))
            for i, t in enumerate(others):
                t.paths.append(f"{name}[{i}]")
            self.lists.append((name, others))
            return Op(name, f"{opening}{', '.join(paths)}{closing}", tuple(text.args))
        if draw < 0.85:
            name = self.names.new("d")
            thing.paths.append(f"{name}['k']")
            return Op(name, f"{{'k': {path}}}", tuple(text.args))
        name = self.names.new("b")
        thing.paths.append(f"{name}.w")
        text_ = f"class {name}_: pass\n{name} = {name}_()\n{name}.w = {path}"
        return Op("", text_, tuple(text.args))
