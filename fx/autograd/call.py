"""One call of a ``Function``: its static arguments, and the form of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fx.levels import Tracer
from fx.tape import CELL
from fx.tensor import Tensor

Tensors = Sequence[Tensor]


class Out(NamedTuple):
    """Where a tensor stands among the results."""

    index: int


class Call:
    """One ``apply``: the user's class, its static arguments, the form of its results."""

    def __init__(self, cls: Any, args: tuple[Any, ...]) -> None:
        self.cls = cls
        self.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        self.args = [None if isinstance(x, Tensor) else x for x in args]
        self.wanted = tuple([isinstance(x, Tensor) and _differentiated(x) for x in args])
        self.template: list[Any] = []
        self.single = True
        self.constant: frozenset[int] = frozenset()  # the results without a gradient
        self.materialize = True

    def given(self, name: str) -> bool:
        """Whether the user's class has that method."""
        return not hasattr(getattr(self.cls, name), "absent")

    def filled(self, tensors: Sequence[Any]) -> list[Any]:
        """All arguments."""
        args = list(self.args)
        for i, x in zip(self.places, tensors):
            args[i] = x
        return args

    def aligned(self, values: Sequence[Any], other: Any = None) -> tuple[Any, ...]:
        """One value for each argument, ``other`` for those that are no tensors."""
        out = [other] * len(self.args)
        for i, value in zip(self.places, values):
            out[i] = value
        return tuple(out)

    def taken_apart(self, out: Any) -> list[Tensor]:
        """The tensors among the results."""
        self.single = not isinstance(out, tuple)
        tensors: list[Tensor] = []
        self.template = []
        for x in (out,) if self.single else out:
            if isinstance(x, Tensor):
                self.template.append(Out(len(tensors)))
                tensors.append(x.read() if x.level == CELL else x)
            else:
                self.template.append(x)
        return tensors

    def assembled(self, outs: Tensors) -> Any:
        """The results as the user's ``forward`` returned them."""
        parts = [outs[x.index] if type(x) is Out else x for x in self.template]
        return parts[0] if self.single else tuple(parts)

    def by_result(self, values: Sequence[Any]) -> list[Any]:
        """One value for each result, None for those that are no tensors."""
        return [values[x.index] if type(x) is Out else None for x in self.template]


def _differentiated(x: Any) -> bool:
    while isinstance(x, Tracer):
        if x._node is not None or x.transform == "jvp":
            return True
        x = x.value
    return x.requires_grad
