"""Statements for ``writes.py`` in which NumPy's arrays share their memory with tensors.

The programs that have them have no gradients: what NumPy writes is seen by torch's pullbacks too,
which keep other values than those of fx do.
"""

from __future__ import annotations

import numpy as np

from fx.testing.fuzz import write_views as views
from fx.testing.fuzz.program import Op
from fx.testing.fuzz.write_stock import NUMBERS, Stock, Text, Thing

LENT = (
    "{}.numpy()", "{}.numpy()", "{}.detach().numpy()", "{}.data.numpy()", "{}.cpu().numpy()",
    "{}.numpy(force=True)", "np.asarray({})", "{}.clone().numpy()",
)  # fmt: skip
TAKEN = ("torch.from_numpy({})", "torch.from_numpy({})", "torch.as_tensor({})", "torch.asarray({})")


class Arrays(Stock):
    """Makes statements with arrays."""

    def numpy(self) -> Op | None:
        """An array that shares its memory with a tensor, or something done with one."""
        rng, text = self.rng, Text()
        if self.arrays and rng.random() < 0.75:
            return self._of_array(*rng.choice(self.arrays))
        thing = self.thing(Thing.writable)
        if thing is None:
            return None
        path, array = self.path(text, thing), thing.array
        made = self.viewed(Thing(array, [])) if rng.random() < 0.4 else None
        if made is not None:
            path, array = views.behind(path, made[0]), made[1]
        if not Thing(array, []).writable():
            return None
        form, name = rng.choice(LENT), self.names.new("n")
        self.arrays.append((name, array.copy() if "clone" in form else array))
        return Op(name, form.replace("{}", path), tuple(text.args))

    def _of_array(self, name: str, array: np.ndarray) -> Op:
        rng = self.rng
        draw = rng.random()
        if draw < 0.07:
            self.arrays = [known for known in self.arrays if known[0] != name]
            return Op("", "{0} = None", (name,))
        text = "{0}"
        if draw < 0.35 and rng.random() < 0.5:
            text, array = self._part(array)
        if draw < 0.22:
            made = self.names.new("x")
            self.add(made, array)
            return Op(made, rng.choice(TAKEN).replace("{}", text), (name,))
        if draw < 0.35:
            made = self.names.new("n")
            self.arrays.append((made, array))
            return Op(made, text, (name,))
        return Op("", self._written(array), (name,))

    def _part(self, array: np.ndarray) -> tuple[str, np.ndarray]:
        """A part of an array as an array."""
        draw = self.rng.random()
        if draw < 0.2:
            return "{0}.T", array.T
        if draw < 0.3:
            return "{0}.copy()", array.copy()
        text, shape = views.index(self.rng, array, "{0}", plain=True)
        text = text if "..." in text else f"{text}, ..."
        part = eval(f"array[{text}]", {"array": array})
        assert part.shape == shape
        return f"{{0}}[{text}]", part

    def _written(self, array: np.ndarray) -> str:
        """A statement of NumPy's that writes."""
        rng = self.rng
        if array.dtype.kind == "b":
            return rng.choice(("{0}.fill(True)", "{0}[...] = ~{0}", "{0} ^= True"))
        number = rng.choice(NUMBERS) if array.dtype.kind == "f" else str(rng.randrange(-2, 4))
        if rng.random() < 0.3:
            form = rng.choice(("{0}.fill(N)", "np.add({0}, N, out={0})", "{0} -= N", "{0} *= N"))
            return form.replace("N", number)
        index, _ = views.index(rng, array, "{0}", plain=True)
        return f"{{0}}[{index}] {rng.choice(('=', '+=', '*='))} {number}"
