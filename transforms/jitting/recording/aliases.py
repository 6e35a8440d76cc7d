"""Results that share elements with an argument, with a tensor from outside, or with each other.

PyTorch gives one object, or views of one memory, and who writes into one writes into all. Compiled
code gives values. So what the function gives as a view, each call takes again of what it is a view
of, where a program may write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fx.config import modes, writing
from fx.graph.named import Named
from fx.levels import Tracer
from fx.prims.compare import stop_gradient
from fx.prims.shape import broadcast_to, transpose
from fx.prims.shape import slice as part_of
from fx.slotted import slotted
from fx.staged_number import StagedNumber
from fx.state import Cell
from fx.tape import CELL
from fx.tensor import Tensor, new_tensor
from fx.transforms.jitting.program import Anew, Given, Leaf
from fx.writing.data import detach  # which marks what it gives
from fx.writing.layouts import first_expanded, has_positions, layout
from fx.writing.who import may_write

_LOOKS = 10_000  # steps after which two views are taken to share an element


@slotted(eq=False)
class Alias:
    """How a result comes from another tensor.

    Attributes:
        base: the place of another result (its own for what is expanded), an argument, or a leaf
            that gives a tensor from outside.
        path: pairs of a primitive and its parameters.
        live: whether gradients flow through it.
    """

    base: int | Given | Leaf
    path: tuple[Any, ...]
    live: bool

    def taken(self, x: Any) -> Any:
        """The view of ``x``."""
        before, modes.views = modes.views, writing.started
        try:
            for primitive, params in self.path:
                x = detach(x) if primitive is stop_gradient else primitive(x, **params)
            return x if self.live or x._node is None else stop_gradient(x)
        finally:
            modes.views = before


def aliases_of(
    recording: Any,
    objects: Sequence[Any],
    leaves: Sequence[Leaf],
    given: Any,
    results: Any,
    turn: Callable[[int, tuple[int, ...]], None],
) -> dict[int, Alias]:
    """The results that are views, by their places.

    Args:
        recording: the stage.
        objects: for each result, the tensor that the function gave, or None.
        leaves: the same results, described.
        given: by the ids of what stands for arguments, their numbers among the tensors.
        results: what becomes of other objects.
        turn: has the axes of a result computed in another order.
    """
    families: dict[int, list[tuple[int, Any, tuple[Any, ...]]]] = {}
    live: set[int] = set()  # the places of those that nothing has detached
    for place, x in enumerate(objects):
        if x is None:
            continue
        record = getattr(x, "_view", None)
        family, path = (x, ()) if record is None else (record.family or x, record.path)
        if (record is None or not record.cut) and _flows(leaves[place].value, recording):
            live.add(place)
        families.setdefault(id(family), []).append((place, family, path))
    found: dict[int, Alias] = {}
    writes = may_write(recording.call.jitted.function)
    for members in families.values():
        family = members[0][1]
        root = family if isinstance(family, Tensor) else family.root()
        bases = _bases(family, root, recording, given, results)
        members.sort(key=lambda member: len(member[2]))
        apart = [path for _, path in bases[-1:]]
        if not bases:  # nothing is at hand, so that one is the base of others
            cell = None if isinstance(family, Tensor) else family.cell
            if isinstance(cell, Cell) and recording.lasts(cell):
                recording.give_up("it returns a view of what is not at hand; return v.clone()")
            first, _, path = members.pop(0)
            bases, apart = [(first, path)], [path]
            repeats = _repeated(family, path, recording) if writes and path else ()
            order = _order(objects[first], family, path) if writes and not repeats else ()
            if repeats:
                found[first] = Alias(first, repeats, True)
            elif order:
                turn(first, order)
                back = tuple([order.index(axis) for axis in range(len(order))])
                found[first] = Alias(first, ((transpose, {"axes": back}),), True)
        for place, _, path in members:
            known = next((b for b in bases if _leads(b[1], path)), None)
            if known is None:
                _check_apart(recording, family, path, apart)
                apart.append(path)
            elif _is_staged(path):
                if writes:  # else they are values
                    recording.give_up(
                        "it returns a view at a position that is another one in each call; "
                        "return v.clone(), or take the view outside"
                    )
            else:
                # without a gradient of its own, it may have one of a transform around the call
                own = root is not None and root.requires_grad
                recorded = leaves[place].differentiable or leaves[place].freed is not None
                flows = recorded if own else place in live
                flows |= len(path) == len(known[1])  # the object itself
                _check_kept(recording, objects[place], leaves[place].value)
                found[place] = Alias(known[0], path[len(known[1]) :], flows)
    return found


def _flows(value: Any, recording: Any) -> bool:
    """Whether no view on the way to a result was taken where nothing is differentiated."""
    while value is not None and value not in recording.inert:
        node = value.node
        if node is None or not getattr(node.primitive, "is_view", False):
            return True
        value = node.inputs[0]
    return value is None


def _check_kept(recording: Any, x: Any, value: Any) -> None:
    """Give up if a step came after what ``detach()`` gave, which shows the values of before."""
    record = getattr(x, "_view", None)
    if record is None or not (record.kept and record.family.of_user):
        return
    known = recording.rebound.get(id(record.family.root()))
    if known is None or id(known[0]) in recording.seen:
        return
    now = recording.value_of(recording.lower(known[1]))
    while value is not None and value is not now:
        node = value.node
        viewed = node is not None and getattr(node.primitive, "is_view", False)
        value = node.inputs[0] if viewed else None
    if value is None:
        recording.give_up(
            "it returns what detach() gave of a parameter that it gives other values afterwards; "
            "return v.clone()"
        )


def _bases(family: Any, root: Any, recording: Any, given: Any, results: Any) -> list[Any]:
    """What leads to the members of a family that are there in each call, and their paths.

    That with the most steps first: what was detached once is not what is detached again.
    """
    views = [] if isinstance(family, Tensor) else family.alive()
    views = [x for x in views if id(x) in given or type(x) is Named or results.knows(x)]
    turned = getattr(root, "_view", None)  # a root that was turned in place is a view since
    known = [(root, () if turned is None else turned.path)]
    known += [(x, x._view.path) for x in views if x is not root]
    found = [(_outside(x, recording, given, results), path) for x, path in known]
    return sorted([b for b in found if b[0] is not None], key=lambda b: -len(b[1]))


def _leads(lead: Any, path: Any) -> bool:
    return len(lead) <= len(path) and all(a is b for a, b in zip(lead, path))


def _repeated(family: Any, path: Any, recording: Any) -> tuple[Any, ...]:
    """The steps from a result to itself as it was, where that shows elements several times."""
    if first_expanded(path) == len(path) or any(has_positions(params) for _, params in path):
        return ()
    at = layout(family, path)
    shape = at.shape
    sizes = tuple([1 if n > 1 and not step else n for n, step in zip(shape, at.strides)])
    if sizes == shape:
        if any(primitive is not broadcast_to for primitive, _ in path[first_expanded(path) :]):
            recording.give_up("it returns windows of what it made, which overlap; return v.clone()")
        return ()
    start, step = (0,) * len(shape), (1,) * len(shape)
    return (part_of, {"start": start, "stop": sizes, "step": step}), (
        broadcast_to,
        {"shape": shape},
    )


def _order(x: Any, family: Any, path: Any) -> tuple[int, ...]:
    """The axes of a result as they lie in memory, if that is without gaps and in another order."""
    if type(x) is Tensor and type(x._a) is np.ndarray:  # which depends on no argument
        at = x._a
    elif not path or any(has_positions(params) for _, params in path) or _is_staged(path):
        return ()
    else:
        at = layout(family, path, _turned)
    order = tuple(sorted(range(at.ndim), key=lambda axis: -at.strides[axis]))
    in_order = at.transpose(order).flags.c_contiguous
    return order if in_order and not at.flags.c_contiguous else ()


def _turned(at: Any) -> Any:
    """In which order axes lie: what results are, no number depends on that."""
    order = sorted(range(at.ndim), key=lambda axis: -at.strides[axis])
    return tuple(order), at.flags.c_contiguous


def _outside(root: Any, recording: Any, given: Any, results: Any) -> Any:
    """What leads to a tensor that is there in each call, or None."""
    if id(root) in given:
        return given[id(root)]
    if type(root) is Named:
        find = recording.call.finder(root)
        return find and Leaf(None, Anew(lambda F, O, args, kwargs: find(F, O)))
    if root is not None and root.level == CELL and recording.lasts(root):
        return Leaf(None, results.held(root, recording))
    return None


def _is_staged(path: Any) -> bool:
    """Whether an index of the views of a path is a number or a tensor that calls differ in."""

    def varies(value: Any) -> bool:
        if isinstance(value, slice):
            value = value.start, value.stop, value.step
        if isinstance(value, tuple | list):
            return any(map(varies, value))
        return isinstance(value, StagedNumber | Tracer)

    return any(varies(value) for _, params in path for value in params.values())


def _check_apart(recording: Any, family: Any, path: Any, others: Sequence[Any]) -> None:
    """Give up if a view of what is not returned shares elements with others."""
    recording.was_told(family.shape)
    shared = any(map(_is_staged, (path, *others)))
    saved = modes.stage, modes.views
    modes.stage, modes.views = None, False
    try:
        if not shared:
            whole = np.empty(family.shape, bool)
            this, *those = (_seen(whole, p) for p in (path, *others))
            shared = any(np.shares_memory(this, x, max_work=_LOOKS) for x in those)
    except (np.exceptions.TooHardError, TypeError):
        shared = True
    finally:
        modes.stage, modes.views = saved
    if shared:
        recording.give_up(
            "it returns views of a tensor that share elements, and not the tensor itself; "
            "return the tensor, and take its views outside"
        )


def _seen(array: Any, path: Any) -> Any:
    x = new_tensor(array)
    for primitive, params in path:
        x = primitive(x, **params)
    return x._a
