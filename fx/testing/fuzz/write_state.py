"""Statements with Python's own state for ``writes.py``: lists, deques, counters, growing caches."""

from __future__ import annotations

import numpy as np

from fx.testing.fuzz.program import Op
from fx.testing.fuzz.write_layers import Layers
from fx.testing.fuzz.write_stock import Text

# what there may be: an object with rows of its own, a cache that grows by one each time
MADE = {
    "list": "[]",
    "deque": "deque(maxlen=3)",
    "counter": "Counter()",
    "cache": "C(); {s}.w = torch.zeros(1, {n}); {s}.n = 1",
}
# {x} is a tensor of n elements, {k} a number that the function is given or one of the program's
CHANGES = {
    "list": (
        "{s}.append({x}.detach().clone())", "{s}.append({x}.sum().item())",
        "if len({s}) > 2:\n    {s}.pop()", "{s}.append({k})",
    ),
    "deque": (
        "{s}.append({x}.detach().clone())", "{s}.appendleft({x}.detach() * 2)",
        "if len({s}) > 2:\n    {s}.popleft()", "if len({s}) > 0:\n    {s}[-1].mul_(0.5)",
        "if len({s}) > 0:\n    {s}[0] = {x}.detach().clone()",
    ),
    "counter": (
        "{s}.update(['a', 'b'])", "{s}.update(a={k})", "{s}['a'] += 1",
        "{s}['b'] += {x}.sum().item()", "{s}['a'] = {s}['a'] * 2 + {k}",
    ),
    "cache": (
        "{s}.w = torch.cat([{s}.w, {x}.detach()[None]])", "{s}.w[-1] = {x}.detach()",
        "{s}.w[{k} % {s}.w.shape[0]] += 1", "{s}.w = {s}.w[-2:]", "{s}.n += 1",
        "{s}.w[:, :{k} % {n} + 1] = 0.5", "{s}.w[:, {k} % {n}].mul_(2)", "{s}.n = {s}.n % 5 + {k}",
    ),
}  # fmt: skip
READS = {
    "list": ("{x} * len({s})",),
    "deque": ("torch.stack([*{s}, {x}]).sum(0)", "{x} * len({s})"),
    "counter": ("{x} * {s}.total()", "{x} * {s}['a']", "{x} + {s}['b']"),
    "cache": (
        "{s}.w.sum(0) + {x}", "{x} * {s}.n", "{s}.w[-1] + {x}",
        "{x} * {s}.w[:, :{k} % {n} + 1].sum()", "{s}.w[:1].mean(0) * {x}[{k} % {n}]",
        "{x} * {s}.w[:, {k} % {n} :].mean()", "{x} + {s}.w[-1, :{k} % {n} + 1].max()",
    ),
}  # fmt: skip


class State(Layers):
    """Makes statements with what a program keeps in Python's objects."""

    def state(self) -> Op | None:
        """What keeps tensors or numbers, or something done with it."""
        rng = self.rng
        if not self.states or (rng.random() < 0.2 and not self.inside):
            return self._kept()
        name, kind, n = rng.choice(self.states)
        thing = self.thing(lambda t: t.shape == (n,) and t.kind == "f")
        if thing is None:
            return None
        reads = rng.random() < 0.4
        text = Text()
        line = rng.choice((READS if reads else CHANGES)[kind])
        for hole, value in (
            ("{s}", text.use(name)), ("{x}", self.path(text, thing)), ("{n}", str(n)),
            ("{k}", text.use(self.number) if self.number else str(rng.randrange(3))),
        ):  # fmt: skip
            line = line.replace(hole, value)
        if not reads:
            return Op("", line, tuple(text.args))
        made = self.names.new("y")
        self.add(made, np.zeros(n), grad=thing.grad and not self.no_grad)
        return Op(made, line, tuple(text.args))

    def _kept(self) -> Op | None:
        if self.inside:
            return None
        kind, name = self.rng.choice(list(MADE)), self.names.new("s")
        found = [t for t in self.things if len(t.shape) == 1 and t.kind == "f"]
        if not found:
            return None
        n = self.rng.choice(found).shape[0]
        self.states.append((name, kind, n))
        text = MADE[kind].replace("{s}", name).replace("{n}", str(n))
        return Op("", f"class C: pass\n{name} = {text}") if kind == "cache" else Op(name, text)
