"""Effects: what a function changes of Python's state, described so that each call does it again.

What it has changed is seen after staging (``reach.py``). A list that has grown, an entry of a dict,
an attribute, a global or a variable of an enclosing function that has a new value is a ``Store``: a
function in C, where to find what it changes, and the new values, which are results of the program.
Other changes (what is taken out, sorted, written into an array) have no description.

    losses.append(loss)        list.extend, closure variable `losses`, [result 1]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, starmap
from types import CellType, ModuleType
from typing import Any

from fx import tree
from fx.graph.named import Named
from fx.slotted import slotted
from fx.staged_number import StagedNumber
from fx.state import Cell
from fx.tensor import Tensor
from fx.transforms.jitting.guards.reads import reads_of
from fx.transforms.jitting.recording import reach
from fx.transforms.jitting.recording.results import _Passed
from fx.versions import Watched, changes, fresh

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Undescribed(Exception):
    """A change that no ``Store`` describes: of a ``part`` of what is reached, if it is one."""

    def __init__(self, part: Any = None) -> None:
        super().__init__()
        self.part = part


class Counted(Exception):
    """The function changes numbers that it also reads: ``places`` of them, for ``Touched``."""

    def __init__(self, places: set[tuple[int, Any]]) -> None:
        super().__init__()
        self.places = places


@slotted(eq=False)
class Change:
    """A change that was seen: ``run(owner's part, key, value)``.

    Attributes:
        run: a function in C.
        owner: what is changed, or holds it.
        part: of the owner; "" for itself, "__dict__".
        key: of the entry; absent if it has none.
        values: the new ones: one, or what a list has got.
    """

    run: Callable[..., Any]
    owner: Any
    part: str
    key: tuple[Any, ...]
    values: list[Any]
    fixed: bool = False  # whether the owner is the same object in each call
    noted: bool = False  # whether the change is one of a Module, which is counted


@slotted(eq=False)
class Store:
    """A change that each call makes.

    Attributes:
        run: a function in C, of what is changed, the key, and the value or the list of them.
        find: ``(function, objects, args, kwargs)``: what is changed.
        part: of it, as for ``Change``.
        key: as for ``Change``.
        values: of each new one, what builds it, and the places of its leaves among the results.
        several: whether ``run`` takes a list of values.
        noted: as for ``Change``.
    """

    run: Callable[..., Any]
    find: Callable[..., Any]
    part: str
    key: tuple[Any, ...]
    values: list[tuple[Any, list[int]]]
    several: bool
    noted: bool

    def target(self, F: Any, O: Any, args: Any, kwargs: Any) -> Any:
        """What is changed in a call."""
        found = self.find(F, O, args, kwargs)
        return found.__dict__ if self.part else found

    def arguments(self, target: Any, results: Sequence[Any]) -> tuple[Any, ...]:
        """What ``run`` takes."""
        made = [
            results[at[0]] if treedef is None else tree.unflatten(treedef, [results[i] for i in at])
            for treedef, at in self.values
        ]
        return target, *self.key, made if self.several else made[0]


def perform(stores: Iterable[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
    """Call functions in C one after the other, with no Python in between; what they give."""
    return list(chain.from_iterable([starmap(run, (args,)) for run, args in stores]))


def noted(stores: Iterable[Store]) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """What counts the changes of Modules among some stores (``fx.versions``)."""
    if any(store.noted for store in stores):
        return [(setattr, (changes, "count", fresh()))]
    return []


# what was changed -------------------------------------------------------------------------------


def changes_of(
    parts: Iterable[Any], touched: Any, given: Iterable[Any], written: set[tuple[int, Any]]
) -> list[Change]:
    """What a function has changed of what it reaches.

    Args:
        parts: of what it reaches, of which it must not have read what it has changed.
        touched: what it has read.
        given: parts of its arguments, which are inputs.
        written: places of numbers that are inputs, and were written.

    Raises:
        Undescribed: if something else than what a ``Store`` does was done.
        Counted: if it was not known of numbers that they are inputs.
    """
    counted: set[tuple[int, Any]] = set()
    found = [change for part in given if part.changed() for change in _described(part)]
    for part in parts:
        if part.changed():
            try:
                found += (described := _described(part))
            except Undescribed:
                raise Undescribed(part) from None
            for change in described:
                if _is_read(change, part, touched):
                    place, number = _holder(part), _was(part, change.key)
                    if _is_same_kind(number, change.values[0]):
                        continue
                    if not (_is_number(number) and _is_number(change.values[0])):
                        raise Undescribed(part)
                    if not touched.is_counted(place, change.key[0], number):
                        counted.add((id(place), change.key[0]))
        else:
            described = []
        found += _same_again(part, described, touched, written)
    if counted:
        raise Counted(counted)
    return found


def place_counters(parts: Iterable[Any], touched: Any, recording: Any) -> list[Any]:
    """Put what stands for them where numbers are that the function counts; what, with the others.

    Returns:
        for each number: the dict or cell, the key, what stands for it, the number, its owner.
    """
    placed: list[Any] = []
    for part in parts if touched.counters else ():
        if type(part) is reach._Variable:
            held, pairs = part.cell, [("cell_contents", x) for x in part.was]
        elif type(part) is reach._Attributes:
            held, pairs = part.held, list(part.was.items())
        elif type(part) is reach._Entries and type(part.owner) is dict:
            held, pairs = part.owner, list(zip(part.was[::2], part.was[1::2]))
        else:
            continue
        for key, value in pairs:
            if type(key) in _PLAIN and touched.is_counted(_holder(part), key, value):
                number = recording.counter(held, key, value)
                placed.append((held, key, number, value, part.owner))
                _put(held, key, number)
    return placed


def take_out(placed: list[Any]) -> set[tuple[int, Any]]:
    """Put the numbers back that the function has left as they were; the places of the others."""
    written = set()
    for held, key, number, value, _ in placed:
        at = held.cell_contents if type(held) is CellType else dict.get(held, key)
        if at is number:
            _put(held, key, value)
        else:
            written.add((id(held), key))
    return written


def _put(held: Any, key: Any, value: Any) -> None:
    if type(held) is CellType:
        held.cell_contents = value
    else:
        dict.__setitem__(held, key, value)


def _holder(part: Any) -> Any:
    """What holds a number, as ``Touched.counters`` knows it."""
    if type(part) is reach._Variable:
        return part.cell
    shared = type(part) is reach._Attributes and (
        part.names is not None or isinstance(part.owner, ModuleType)
    )
    return part.held if shared else part.owner


def _was(part: Any, key: tuple[Any, ...]) -> Any:
    if type(part) is reach._Variable:
        return part.was[0]
    if type(part) is reach._Entries:
        return dict(zip(part.was[::2], part.was[1::2])).get(key[0])
    if type(part) is reach._Items and key:
        return part.was[key[0]]
    return part.was.get(key[0]) if type(part) is reach._Attributes else None


def _is_same_kind(was: Any, now: Any) -> bool:
    """Whether a tensor that each call finds anew is replaced by one like it."""
    return (
        type(was) is Named
        and isinstance(now, Tensor)
        and not isinstance(now, Cell)
        and (now.shape, now.dtype) == (was.shape, was.dtype)
    )


def _is_number(x: Any) -> bool:
    return type(x) is int or type(x) is float or type(x) is StagedNumber


def _is_read(change: Change, part: Any, touched: Any) -> bool:
    """Whether the function also reads what it has changed."""
    key = id(part.owner)
    if type(part) is reach._Variable:
        return part.name in reads_of(part.owner.__code__).variables
    if type(part) is reach._Attributes:
        if part.names is not None:
            return change.key[0] in reads_of(part.owner.__code__).globals
        return change.key[0] in touched.names.get(key, ()) or key in touched.whole
    return key in touched.ids


def _described(part: Any) -> list[Change]:
    kind, was, now = type(part), part.was, part._now()
    owner = part.owner
    if kind is reach._Items:
        if not isinstance(owner, list) or len(now) < len(was):
            raise Undescribed
        other = [i for i, (a, b) in enumerate(zip(now, was)) if a is not b]
        found = [Change(list.__setitem__, owner, "", (i,), [now[i]]) for i in other]
        if len(now) > len(was):
            found.append(Change(list.extend, owner, "", (), now[len(was) :]))
        return found
    if kind is reach._Entries:
        if type(owner) is not dict or not _same_start(was[::2], now[::2]):
            raise Undescribed
        before = dict(zip(map(id, was[::2]), was[1::2]))
        pairs = [(k, x) for k, x in zip(now[::2], now[1::2]) if before.get(id(k), part) is not x]
        if not all(type(k) in _PLAIN or _plain_tuple(k) for k, _ in pairs):
            raise Undescribed
        return [Change(dict.__setitem__, owner, "", (k,), [x]) for k, x in pairs]
    if kind is reach._Attributes:
        if not was.keys() <= now.keys():
            raise Undescribed
        names = [n for n, x in now.items() if was.get(n, part) is not x]
        return [_attribute(part, n, now[n]) for n in names]
    if kind is reach._Variable and was and now:
        return [Change(setattr, part.cell, "", ("cell_contents",), now, fixed=True)]
    raise Undescribed


def _same_start(was: list[Any], now: list[Any]) -> bool:
    return len(now) >= len(was) and all(a is b for a, b in zip(was, now))


def _plain_tuple(x: Any) -> bool:
    return type(x) is tuple and all(type(y) in _PLAIN for y in x)


def _attribute(part: Any, name: str, value: Any) -> Change:
    if part.names is not None or isinstance(part.owner, ModuleType):
        return Change(dict.__setitem__, part.held, "", (name,), [value], fixed=True)
    noted = isinstance(part.held, Watched)
    if not (noted or type(part.held) is dict) or part.owner.__dict__ is not part.held:
        raise Undescribed
    return Change(dict.__setitem__, part.owner, "__dict__", (name,), [value], noted=noted)


def _same_again(
    part: Any, changed: list[Change], touched: Any, written: set[tuple[int, Any]]
) -> list[Change]:
    """Plain values that were stored where they were before: somebody may change it in between.

    What the function reads as well is compared, save for numbers that are inputs.
    """
    known = {change.key for change in changed}
    if type(part) is reach._Variable:
        place = (id(part.cell), "cell_contents")
        read = part.name in reads_of(part.owner.__code__).variables
        stored = place in written or (place in touched.written and not read)
        if known or not stored or not part.was or type(part.was[0]) not in _PLAIN:
            return []
        return [Change(setattr, part.cell, "", ("cell_contents",), part._now(), fixed=True)]
    if type(part) is reach._Entries and type(part.owner) is dict:
        held, now = part.owner, part.owner
        stored = [] if id(held) in touched.ids else touched.keys.get(id(held), ())
    elif type(part) is reach._Attributes:
        held, now, holder = part.held, part._now(), _holder(part)
        stored = [n for k, n in touched.written if k == id(holder) and n in now]
        if part.names is not None:
            reads: Any = reads_of(part.owner.__code__).globals
        else:
            reads = touched.names.get(id(part.owner), ())
        stored = [n for n in stored if n not in reads]
    else:
        return []
    again = {*stored, *[key for k, key in written if k == id(held)]}
    same = [k for k in now if k in again and (k,) not in known and type(now[k]) in _PLAIN]
    if type(part) is reach._Entries:
        return [Change(dict.__setitem__, held, "", (k,), [now[k]]) for k in same]
    return [_attribute(part, n, now[n]) for n in same]


# what each call does ----------------------------------------------------------------------------


def stores_of(
    changed: list[Change], out: Any, add: Callable[[Any], int], guards: Any, results: Any
) -> list[Store]:
    """The stores that make some changes.

    Args:
        changed: what was changed.
        out: what the function returns.
        add: takes a new value to the results, and gives its place.
        guards: know where objects are found.
        results: of the call; know what is handed out as the object that it is.

    Raises:
        Undescribed: if an object cannot be found in another call, or not be made again.
    """
    seen = {id(x) for x in _containers(out)}
    found = []
    for change in changed:
        values = []
        for value in change.values:
            if isinstance(value, Tensor | StagedNumber) or results.is_leaf(value):
                values.append((None, [add(value)]))
                continue
            inner = _containers(value)
            if any(id(x) in seen for x in inner):
                raise Undescribed  # one object in two places
            seen |= {id(x) for x in inner}
            leaves, treedef = tree.flatten_in_order(value, is_leaf=results.is_leaf)
            values.append((treedef, [add(leaf) for leaf in leaves]))
        find = _finder(change, guards, results)
        several = change.run is list.extend
        found.append(
            Store(change.run, find, change.part, change.key, values, several, change.noted)
        )
    return found


def _containers(x: Any) -> list[Any]:
    """The containers in a value that can be changed."""
    found: list[Any] = []
    todo = [x]
    while todo:
        x = todo.pop()
        if isinstance(x, dict):
            found.append(x)
            todo += dict.values(x)
        elif isinstance(x, list | set | deque | tuple):
            if not isinstance(x, tuple):
                found.append(x)
            todo += x
    return found


def _finder(change: Change, guards: Any, results: Any) -> Callable[..., Any]:
    owner = change.owner
    if change.fixed:
        return lambda F, O, args, kwargs: owner
    passed = results.place_of(owner)
    if passed is not None:
        return _Passed(passed)
    find = guards.finder(owner)
    if find is None:
        raise Undescribed
    return lambda F, O, args, kwargs: find(F, O)
