"""Finding: the views that were taken before a program first wrote.

Until then nothing is noted of plain tensors, so that a program that never writes pays nothing for
its views. Their arrays tell: what NumPy cuts keeps the array whose memory it lies in, and what is a
copy in PyTorch has memory of its own (``fx.ops.operands.own``). At the first write of the process
all tensors are looked at once, and those of one memory become a family; from then on views are
noted when they are made.

    x = torch.zeros(3, 4); v = x.T; d = x.detach()[1]    # three arrays of one memory
    x[0, 0] = 1        # x is the first; v is its transpose, d its row 1: steps from x to each

Memory does not tell everything. That a tensor came from ``detach`` stands in its slot (``CUT``);
what is cut of a parameter is noted at once, for a parameter's memory changes with each step. Where
it remains unclear of what something is a view, a write into any of them is an error.
"""

from __future__ import annotations

import gc
from itertools import compress
from typing import Any
from weakref import ref

import numpy as np

from fx.graph.named import Named
from fx.prims.compare import stop_gradient
from fx.prims.creation import constants
from fx.prims.shape import reshape
from fx.state import Cell
from fx.tape import Leaf, Node
from fx.tensor import Tensor
from fx.writing.layouts import owner_of, repeats
from fx.writing.paths import Path, steps
from fx.writing.records import (
    Family,
    View,
    array_in,
    copies,
    detached,
    is_marked,
    node_in,
    origins,
    record_of,
)
from fx.writing.widening import widen

_FAR = 64  # nodes from a view to what it is cut of


def families() -> None:
    """Find the tensors that share memory, and note how they come from one another."""
    plain, cells, leaves = _tensors()
    held = {id(getattr(cell, "value", None)) for cell in cells}
    numbers = [x for known in constants.get("cpu", {}).values() for x in known.values()]
    held.update(map(id, numbers))
    common = {id(owner_of(x._a)) for x in numbers}
    grads = {id(leaf.grad) for leaf in leaves}
    groups: dict[int, tuple[Any, list[Any]]] = {}
    others = [x for x in plain if is_marked(_mark(x)) and _mark(x).base is not None]
    apart = set(map(id, others))
    for x in plain:
        if id(x) in apart:
            continue
        array = _array(x)
        if type(array) is np.ndarray and id(x) not in held:
            owner = owner_of(array)
            groups.setdefault(id(owner), (owner, []))[1].append(x)
    for owner, group in groups.values():
        if id(owner) not in copies and (len(group) > 1 or id(owner) in origins):
            _join(owner, _unknown(group), grads, id(owner) in common)
    for number, (held, *known) in copies.items():
        owner, group = groups.get(number, (None, []))
        if owner is not None and held() is owner:
            _follow(*known, owner, _unknown(group))
    for x in others:
        _again(x)
    for x in plain:
        record = _mark(x)
        if is_marked(record):
            x._view = None
        elif record is not None and record.family.repeated and not record.path:
            widen(record.family)
    for cell in cells:
        if (record := _mark(cell)) is not None and record.family is not None:
            record.family.told = None
    origins.clear()
    copies.clear()
    detached.clear()


def _tensors() -> tuple[list[Any], list[Any], list[Any]]:
    """All plain tensors, all cells, all leaves of the tape."""
    objects = everything()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, (Tensor, Leaf))}
    found = list(compress(objects, map(kinds.__contains__, map(type, objects))))
    del objects
    plain = [x for x in found if type(x) is Tensor or type(x) is Named]
    cells = [x for x in found if isinstance(x, Cell)]
    leaves = [x for x in found if isinstance(x, Leaf)]
    return plain, cells, [leaf for leaf in leaves if getattr(leaf, "grad", None) is not None]


def everything() -> list[Any]:
    """All objects that the collector of garbage knows."""
    if gc.get_freeze_count():  # what is frozen is not listed, and not all may be frozen again
        gc.unfreeze()
    return gc.get_objects()


def _array(x: Any) -> Any:
    try:
        return array_in.__get__(x)
    except AttributeError:  # one that another thread is just making
        return None


def _node(x: Any) -> Any:
    return node_in.__get__(x)


def _mark(x: Any) -> Any:
    return getattr(x, "_view", None)


# one memory -------------------------------------------------------------------------------------


def _join(owner: Any, group: list[Any], grads: set[int], common: bool) -> None:
    """Make a family of the tensors of one memory.

    A gradient, the value of a parameter and a number (``common``) may lie in memory that others
    hold too, where PyTorch has a copy: each is apart from these, and what is cut of that memory
    belongs to it only if nobody else could have been cut.
    """
    known = origins.get(id(owner))
    cell = known[1] if known is not None and known[0]() is owner else None
    views = [x for x in group if _array(x) is not owner or is_marked(_mark(x))]
    cuts = set(map(id, views))
    apart = [x for x in group if id(x) in grads or (common and id(x) not in cuts)]
    if not apart and cell is None and not common:
        _relate(owner, group)
        return
    views = [x for x in views if id(x) not in grads]
    rest = {*map(id, views), *map(id, apart)}
    others = [x for x in group if id(x) not in rest]
    if cell is not None and known[3] is not None:  # but for what was read of the parameter itself
        others = [x for x in others if x is not known[3]()]
    if not views:
        _relate(owner, others)
    elif len(apart) == 1 and cell is None and not others and not common:
        _relate(owner, group, apart[0])
    elif cell is not None and type(cell) is Family and not apart and not others:
        _adopt(cell, _lying(owner, cell, known[2]), views)
    else:
        families = [record_of(x).family for x in (*group, *apart)]
        _unclear([*families, *([cell] if type(cell) is Family else ())], group)


def _unknown(group: list[Any]) -> list[Any]:
    """Those that have elements, and of which it was not noted of what they are views."""

    def known(x: Any) -> bool:
        record = _mark(x)
        return record is not None and record.family is not None and bool(record.path)

    return [x for x in group if not known(x) and _array(x).size]


def _unclear(families: list[Family], members: list[Any]) -> None:
    for family in families:
        family.unclear = [*family.unclear, *map(ref, members)]


def _relate(owner: Any, group: list[Any], root: Any = None) -> None:
    """Make a family of tensors of one memory, of which ``root`` is the first, if that is known."""
    if len(group) < 2:
        return
    first, paths = _first(owner, group if root is None else [root], group)
    own = _mark(first) if first is not None else None
    marked = is_marked(own)
    if own is not None and own.family is not None:
        family = own.family
    else:
        family = Family(first, owner)
        if first is not None:
            first._view = View(family, (), None, False)
    start = None if first is None else _node(first)
    history = start is not None or any(_node(x) is not None for x in group)
    lost = []
    for x, path in zip(group, paths, strict=True):
        if x is first:
            continue
        record = None
        if path is not None:
            record = _record(family, first, marked, x, path, group, paths, history)
        if record is None:
            lost.append(x)
            continue
        if record.cut is False and _node(x) is None and _array(x) is not owner:
            record.cut = None if id(owner) in detached else False
        _put(x, record)
    if lost:
        _unclear([family, *(record_of(x).family for x in lost)], lost)


def _put(x: Any, record: View) -> None:
    """Note a view, and move what was noted as a view of it."""
    before = _mark(x)
    x._view = record
    family = record.family
    family.found = True
    family.add(x)
    if before is not None and before.family is not None:
        for member in before.family.alive():
            other = member._view
            if other.family is before.family:  # a member may be noted by each of its steps
                other.family, other.path = family, (*record.path, *other.path)
                family.add(member)


def _first(owner: Any, candidates: list[Any], group: list[Any]) -> tuple[Any, list[Any]]:
    """What the others are views of, and the steps to each; None for the memory itself."""

    def rank(x: Any) -> Any:
        node, array = _node(x), _array(x)
        return (
            is_marked(_mark(x)), array is not owner, repeats(array), node is None, -array.size,
            0 if node is None else node.seq,
        )  # fmt: skip

    best: Any = None
    for x in sorted(candidates, key=rank)[:4]:
        paths = [() if y is x else steps(_array(x), _array(y)) for y in group]
        if None not in paths and not repeats(_array(x)):
            return x, paths
        if best is None or paths.count(None) < best[1].count(None):
            best = x, paths
    if len(candidates) == len(group):
        paths = [steps(owner, _array(y)) for y in group]
        if paths.count(None) < best[1].count(None) + repeats(_array(best[0])):
            return None, paths
    return best  # type: ignore[no-any-return]


def _record(
    family: Family,
    first: Any,
    marked: bool,
    x: Any,
    path: Path,
    group: list[Any],
    paths: list[Any],
    history: bool,
) -> View | None:
    """How ``x`` comes from the first of its family; None if its history tells otherwise.

    Args:
        marked: whether the first was detached.
    """
    node = _node(x)
    cut_off = is_marked(_mark(x))
    cut = cut_off or (node is None and history)
    if cut_off and node is None and first is not None and not marked and _apart(first, x):
        cut = None
    if cut_off and cut and first is not None and path == ((reshape, {"shape": first.shape}),):
        path = ((stop_gradient, {}),)
    record = View(family, path, first if node is not None else None, cut)
    if node is None and not cut_off and first is not None:
        # taken before the first required grad, or under no_grad: PyTorch refuses both
        record.lost = bool(path) and type(_node(first)) is Leaf
    if node is None or type(node) is Leaf or first is None:
        return record
    source = _source(node, _node(first))
    if source is _node(first):
        return record
    if source is None:
        return None
    for y, way in zip(group, paths, strict=True):  # it is cut of another leaf of this memory
        rest = steps(_array(y), _array(x)) if _node(y) is source and way is not None else None
        if rest is not None:
            record.path = (*way, *rest)
            record.leaf, record.at, record.cut = source, len(way), True
            return record
    if type(_node(first)) is Node and _source(_node(first), None) is source:
        return None  # both of what is gone, by which each sees what is written into the other
    record.leaf, record.at, record.cut = node, len(path), True  # of a leaf that is gone
    record.lost = _node(first) is None and not marked  # or is none any more
    return record


def _apart(first: Any, x: Any) -> bool:
    """Whether the first may be cut of ``x``, which was detached, or of another that was.

    What is detached has the array of what it comes from, and only cuts have arrays of their own.
    """
    array = _array(first)
    return _node(first) is None and owner_of(array) is not array and array is not _array(x)


def _source(node: Any, wanted: Any) -> Any:
    """Where the history of a view leads: to ``wanted``, to another leaf, or to None."""
    for _ in range(_FAR):
        if node is wanted or type(node) is Leaf:
            return node
        before = [p for p in node.parents if p is not None] if isinstance(node, Node) else ()
        if len(before) != 1:
            return None
        node = before[0]
    return None


def _follow(x: Any, known: View, shape: Any, recorded: bool, owner: Any, views: list[Any]) -> None:
    """Let what is cut of a view whose memory is its own be of its family.

    Args:
        x: what that view, which may be gone, was made of.
        known: the record that it got then.
        shape: its shape.
        recorded: whether it has a history.
    """
    family, lead, cut = known.family, known.path, known.cut
    if type(x) is Tensor:  # the family of which has been found since then
        record = record_of(x)
        family, lead, cut = record.family, (*record.path, known.path[-1]), record.cut or cut
    array = owner.reshape(shape)
    for y in views:
        path = steps(array, _array(y))
        if path is None:
            _unclear([family, record_of(y).family], [y])
            continue
        apart = cut or is_marked(_mark(y)) or (_node(y) is None and recorded)
        _put(y, View(family, (*lead, *path), x if _node(y) is not None else None, apart))


def _again(x: Any) -> None:
    """Let another tensor of a detached one be of its family."""
    mark = _mark(x)
    if not is_marked(mark):
        return
    if is_marked(_mark(mark.base)) and _mark(mark.base).base is not None:
        _again(mark.base)
    own = record_of(mark.base)
    cut = True if _node(mark.base) is not None else own.cut
    _put(x, View(own.family, (*own.path, (reshape, {"shape": x.shape})), None, cut))


def _lying(owner: Any, family: Family, place: Any) -> Any:
    """A parameter as it lay in memory when views of it were taken; None where that is not known."""
    if owner.shape == family.shape:
        return owner
    if place is None or not owner.flags.c_contiguous:
        return None
    dtype, offset, strides = place
    return np.ndarray(family.shape, dtype, owner, offset, strides)


def _adopt(family: Family, array: Any, views: list[Any]) -> None:
    """Let what is cut of the memory of a parameter, which lay as ``array``, be of its family."""
    cell = family.root()
    leaf = None if cell is None else cell.leaf
    for x in views:
        path = None if array is None else steps(array, _array(x))
        node = _node(x)
        known = node is None or type(node) is Leaf or _source(node, leaf) is leaf
        if path is None or not known:
            _unclear([family, record_of(x).family], [x])
            continue
        _put(x, View(family, path, None, node is None))
