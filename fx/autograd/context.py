"""The context of a ``Function``: what ``forward`` keeps for ``backward``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fx import tree
from fx.errors import InPlaceError
from fx.tape import CELL
from fx.tensor import Tensor


class Context:
    """``ctx``: it takes any attribute besides these methods, and ``backward`` finds it again.

    Args:
        needs_input_grad: for each argument of ``forward``, whether its gradient is wanted.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()
        self._for_forward: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``backward``, which finds them in ``ctx.saved_tensors``."""
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``, which finds them in ``ctx.saved_tensors``."""
        self._for_forward = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare results that have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (the default) or None for a result that was not used."""
        self._materialize = value

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Refused: no tensor was changed."""
        raise InPlaceError("mark_dirty: tensors are immutable; return a new tensor from forward")


class _Mark(NamedTuple):
    """What stands for a tensor: an argument, a result, or one of the other tensors kept."""

    kind: str
    index: int


class _Shape(NamedTuple):
    """A pytree that holds tensors, taken apart."""

    treedef: Any
    leaves: list[Any]


class Notes(NamedTuple):
    """What a context kept, without the arguments and results themselves."""

    ins: tuple[int, ...]  # the arguments that it kept
    outs: tuple[int, ...]  # the results that it kept
    kept: list[Tensor]  # other tensors
    attributes: dict[str, Any]

    def with_kept(self, kept: list[Tensor]) -> Notes:
        """The same with other constants, those of another level."""
        return self._replace(kept=kept)


def notes_of(ctx: Context, args: Sequence[Tensor], outs: Sequence[Tensor]) -> Notes:
    """Take notes of a context that ``forward`` filled."""
    marks = {id(x): _Mark("result", i) for i, x in enumerate(outs)}
    marks |= {id(x): _Mark("argument", i) for i, x in enumerate(args)}
    kept: list[Tensor] = []
    seen: set[_Mark] = set()

    def note(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        if x.written:
            x = x.read()
        if x.level == CELL:
            return x
        mark = marks.get(id(x))
        if mark is None:
            mark = marks[id(x)] = _Mark("kept", len(kept))
            kept.append(x)
        seen.add(mark)
        return mark

    attributes = {}
    for name, value in vars(ctx).items():
        if name in _OWN or type(value) in _PLAIN:
            attributes[name] = value
        elif isinstance(value, Tensor):
            attributes[name] = note(value)
        else:
            leaves, treedef = tree.flatten(value)
            noted = [note(x) for x in leaves]
            same = all(a is b for a, b in zip(leaves, noted))
            attributes[name] = value if same else _Shape(treedef, noted)
    # these are flat
    attributes["_non_differentiable"] = ()
    attributes["saved_tensors"] = tuple([note(x) for x in ctx.saved_tensors])
    attributes["_for_forward"] = tuple([note(x) for x in ctx._for_forward])
    return Notes(
        tuple(sorted([m.index for m in seen if m.kind == "argument"])),
        tuple(sorted([m.index for m in seen if m.kind == "result"])),
        kept,
        attributes,
    )


_OWN = {"saved_tensors", "_for_forward", "_non_differentiable", "_materialize", "needs_input_grad"}
_PLAIN = {type(None), bool, int, float, str}


def context_of(
    notes: Notes,
    inputs: dict[int, Tensor],
    outs: dict[int, Tensor],
    needs_input_grad: tuple[bool, ...],
) -> Context:
    """A context from notes, with the arguments and results of one level."""

    def find(x: Any) -> Any:
        if type(x) is not _Mark:
            return x
        if x.kind == "argument":
            return inputs[x.index]
        return (outs if x.kind == "result" else notes.kept)[x.index]

    ctx = _new(Context)
    own = ctx.__dict__
    for name, value in notes.attributes.items():
        kind = type(value)
        if kind is _Mark:
            value = find(value)
        elif kind is _Shape:
            value = tree.unflatten(value.treedef, [find(x) for x in value.leaves])
        own[name] = value
    own["saved_tensors"] = tuple([find(x) for x in own["saved_tensors"]])
    own["_for_forward"] = tuple([find(x) for x in own["_for_forward"]])
    own["needs_input_grad"] = needs_input_grad
    return ctx


_new = object.__new__
