"""Statements with layers for ``writes.py``: parameters, buffers, state dicts."""

from __future__ import annotations

import numpy as np

from fx.testing.fuzz.program import Op
from fx.testing.fuzz.write_lines import Lines
from fx.testing.fuzz.write_stock import Text, Thing

# what a state dict is written by; `load` of new values is a write of another kind
CHANGES = (
    "for _v in {m}.state_dict().values():\n    _v.mul_(0.5)",
    "for _v in {m}.state_dict().values():\n    _v.mul_(0.9).add_({v})",
    "for _k, _v in {m}.state_dict().items():\n    _v.copy_(torch.full_like(_v, 0.25))",
    "{m}.state_dict()['weight'][0] = {v}",
    "{m}.state_dict()['bias'].numpy()[0] = {v}",
    "{m}.state_dict()['kept'].view(-1)[0] = {v}",
    "with torch.no_grad():\n    for _p in {m}.parameters():\n        _p.mul_(0.5)",
    "for _p in {m}.parameters():\n    _p.data.add_({v})",
    "for _p in {m}.parameters():\n    _p.data = _p.data * 0.5",
    "for _p in {m}.parameters():\n    _p.grad = None",
    "{m}.zero_grad()",
    "torch.nn.init.constant_({m}.weight, 0.25)",
)


class Layers(Lines):
    """Makes statements with layers, of which a program knows the parameters by their paths."""

    def layer(self) -> Op | None:
        """A layer with parameters and a buffer, or what is done with one."""
        rng = self.rng
        draw = rng.random()
        if not self.layers or draw < 0.2:
            return self._made()
        name, things = rng.choice(self.layers)
        if draw < 0.5:
            return self._called(name, things)
        if draw < 0.6:
            return self._loaded(name, things)
        if draw < 0.75:
            return self._attribute(name, things)
        text = Text()
        value = rng.choice(("0.5", "-0.25"))
        line = rng.choice(CHANGES).replace("{m}", text.use(name)).replace("{v}", value)
        if ".data =" in line and self.no_grad:
            return None  # torch computes nothing with a parameter made of an inference tensor
        if ".data =" in line:  # what was cut of the old values stays with them
            for thing in things[:2]:
                if self.shares(thing):
                    return None
                thing.array = np.zeros(thing.shape)
        return Op("", line, tuple(text.args))

    def _made(self) -> Op | None:
        if self.inside:
            return None
        rng, name = self.rng, self.names.new("m")
        n, k = rng.choice((2, 3)), rng.choice((1, 2))
        numbers = [[rng.randrange(-8, 9) / 8 for _ in range(n)] for _ in range(k)]
        things = []
        for key, shape in (("weight", (k, n)), ("bias", (k,))):
            made = self.add(f"{name}.{key}", np.zeros(shape), leaf=True, grad=True, parameter=True)
            things.append(made)
        # what is written into a buffer has no history here, as what is written into `p.data`
        things.append(self.add(f"{name}.kept", np.zeros(n), parameter=True))
        text = (
            f"torch.nn.Linear({n}, {k}); "  # on one line: its first values are random
            f"{name}.load_state_dict({{'weight': torch.tensor({numbers}), "
            f"'bias': torch.ones({k})}}); "
            f"{name}.register_buffer('kept', torch.zeros({n}))"
        )
        self.layers.append((name, things))
        return Op(name, text)

    def _called(self, name: str, things: list[Thing]) -> Op | None:
        k, n = things[0].shape
        text = Text()
        x = self.thing(lambda t: t.kind == "f" and t.shape[-1:] == (n,) and len(t.shape) < 3)
        if x is None:
            return None
        made = self.names.new("y")
        call = f"{text.use(name)}({self.path(text, x)})"
        self.add(made, np.zeros((*x.shape[:-1], k)), grad=not self.no_grad)
        return Op(made, call, tuple(text.args))

    def _loaded(self, name: str, things: list[Thing]) -> Op | None:
        """``load_state_dict``, which what ``detach()`` gave is not told of here."""
        if self.arrays or (self.hosts and self.depth):  # where it runs again, arrays may be there
            return None
        text = Text()
        drop = self.dropped(things)
        loop = f"{{k: v * 0.5 for k, v in {text.use(name)}.state_dict().items()}}"
        return Op("", f"{drop}{text.use(name)}.load_state_dict({loop})", tuple(text.args))

    def _attribute(self, name: str, things: list[Thing]) -> Op | None:
        """A parameter that becomes another one; a buffer stays the one cell here that it is."""
        text = Text()
        thing = self.rng.choice(things[:2])
        path = next((p for p in thing.paths if p.startswith(f"{name}.")), None)
        if path is None or self.inside:
            return None
        held = text.use(path)
        value = f"torch.nn.Parameter({held}.detach().clone() * 0.5)"
        thing.paths = [p for p in thing.paths if p != path]
        made = self.add(path, np.zeros(thing.shape), leaf=True, grad=True, parameter=True)
        things[things.index(thing)] = made
        return Op("", f"{held} = {value}", tuple(text.args))
