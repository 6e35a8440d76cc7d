"""A Module as a pytree: its parameters are the leaves, everything else is the skeleton.

The skeleton remembers, for each module of the tree, its class, its attributes and where its
parameters stand among the leaves; a parameter that is used in two places is one leaf. Rebuilding
makes new module objects around given leaves and shares the buffers, so the original is untouched
while a transform runs the copy. Attributes that refer back into the tree (a bound method of a
submodule, a list of submodules) refer into the copy.
"""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any

from fx.errors import StateError
from fx.nn.base.hooks import Hook
from fx.nn.parameter import Buffer
from fx.state import Cell
from fx.tensor import Tensor
from fx.versions import Hooks, Watched

if TYPE_CHECKING:
    from fx.nn.base.module import Module

_HELD = frozenset(("_parameters", "_buffers", "_modules", "_ties"))
_SIMPLE = frozenset((bool, int, float, complex, str, bytes, type(None)))


class _Part:
    """One module of the tree."""

    __slots__ = ("attributes", "buffers", "cls", "modules", "parameters")

    cls: type
    attributes: dict[str, Any]
    parameters: dict[str, int | None]  # the number of each leaf
    buffers: dict[str, Any]
    modules: dict[str, int | None]  # the number of each submodule's part


class _Ref:
    """Stands for a module or parameter of the tree inside an attribute."""

    __slots__ = ("kind", "number")

    def __init__(self, kind: str, number: int) -> None:
        self.kind = kind
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ref) and (self.kind, self.number) == (other.kind, other.number)

    def __hash__(self) -> int:
        return hash((self.kind, self.number))


class _Method:
    """Stands for a bound method of a module of the tree."""

    __slots__ = ("function", "owner")

    def __init__(self, function: Any, owner: int) -> None:
        self.function = function
        self.owner = owner

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Method)
            and self.function is other.function
            and self.owner == other.owner
        )

    def __hash__(self) -> int:
        return hash((self.function, self.owner))


class Skeleton:
    """All of a Module but the values of its parameters.

    Two are equal when the modules have the same classes, names, ties and settings and share their
    buffers: then a program that was made for one is right for the other.
    """

    __slots__ = ("names", "parts")

    parts: list[_Part]
    names: tuple[str, ...]  # the path of each leaf

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Skeleton)
            and self.names == other.names
            and len(self.parts) == len(other.parts)
            and all(map(_same_part, self.parts, other.parts))
        )

    def __hash__(self) -> int:
        return hash((self.parts[0].cls, self.names))

    def __repr__(self) -> str:
        return f"{self.parts[0].cls.__name__}({', '.join(self.names)})"


def _same_part(a: _Part, b: _Part) -> bool:
    return (
        a.cls is b.cls
        and a.parameters == b.parameters
        and a.modules == b.modules
        and a.buffers.keys() == b.buffers.keys()
        and all(x is y for x, y in zip(a.buffers.values(), b.buffers.values(), strict=True))
        and a.attributes.keys() == b.attributes.keys()
        and all(_same(x, b.attributes[name]) for name, x in a.attributes.items())
    )


def _same(a: Any, b: Any) -> bool:
    """Equal settings; what has no cheap equality (tensors, functions) must be the same object."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind in (tuple, list):
        if _all_simple(a) and _all_simple(b):
            return a == b and [*map(type, a)] == [*map(type, b)]
        return len(a) == len(b) and all(map(_same, a, b))
    if kind is dict or kind is Hooks:
        return a.keys() == b.keys() and all(_same(x, b[k]) for k, x in a.items())
    return kind in _EQUATABLE and a == b


_EQUATABLE = _SIMPLE | {_Ref, _Method, Hook, set, frozenset}


def _mapped(hooks: Hooks, change: Any) -> Hooks:
    return Hooks.of((k, x.map(change) if type(x) is Hook else change(x)) for k, x in hooks.items())


def _all_simple(values: Any) -> bool:
    return _SIMPLE.issuperset(map(type, values))


class _Walk:
    """One pass over a Module: numbers its modules and its leaves."""

    def __init__(self, root: Module) -> None:
        self.modules: list[Module] = []
        self.numbers: dict[int, int] = {}  # id of a module -> its part
        self.leaves: list[Any] = []
        self.names: list[str] = []
        self.leaf_numbers: dict[int, int] = {}  # id of a cell or of a tie -> its leaf
        self.tensors: dict[int, int] = {}  # id of a leaf that is a tensor -> its number
        self.places: list[dict[str, int | None]] = []  # of each module: name -> leaf
        self.starts: list[str] = []  # of each module: its path and a dot
        self._visit(root, "")

    def _visit(self, module: Module, path: str) -> None:
        self.numbers[id(module)] = len(self.modules)
        self.modules.append(module)
        self.starts.append(path)
        own = module.__dict__
        ties = own.get("_ties") or {}
        place: dict[str, int | None] = {}
        for name, value in own["_parameters"].items():
            if value is None:
                place[name] = None
                continue
            key = id(value) if isinstance(value, Cell) else id(ties[name]) if name in ties else None
            number = self.leaf_numbers.get(key) if key is not None else None
            if number is None:
                number = len(self.leaves)
                self.leaves.append(value)
                self.names.append(path + name)
                if key is not None:
                    self.leaf_numbers[key] = number
                if isinstance(value, Tensor):
                    self.tensors.setdefault(id(value), number)
            place[name] = number
        self.places.append(place)
        for name, below in own["_modules"].items():
            if below is not None and id(below) not in self.numbers:
                self._visit(below, f"{path}{name}.")

    def skeleton(self) -> Skeleton:
        out = Skeleton()
        out.names = tuple(self.names)
        out.parts = []
        for module, place in zip(self.modules, self.places, strict=True):
            own = module.__dict__
            part = _Part()
            part.cls = type(module)
            part.parameters = place
            part.buffers = dict(own["_buffers"])
            part.modules = {
                name: None if below is None else self.numbers[id(below)]
                for name, below in own["_modules"].items()
            }
            part.attributes = {
                name: value if type(value) in _SIMPLE else self._anchor(value)
                for name, value in own.items()
                if name not in _HELD
            }
            out.parts.append(part)
        return out

    def _anchor(self, value: Any) -> Any:
        """``value`` with references into the tree replaced by where they point."""
        kind = type(value)
        if kind in (list, tuple):
            return kind(value if _all_simple(value) else [self._anchor(x) for x in value])
        if kind is dict:
            simple = _all_simple(value.values())
            return dict(value) if simple else {k: self._anchor(x) for k, x in value.items()}
        if kind in (set, frozenset):
            return kind(value)
        if kind is Hooks:
            return _mapped(value, self._anchor)
        if kind is MethodType and id(value.__self__) in self.numbers:
            return _Method(value.__func__, self.numbers[id(value.__self__)])
        if id(value) in self.numbers:
            return _Ref("module", self.numbers[id(value)])
        if id(value) in self.tensors:
            return _Ref("leaf", self.tensors[id(value)])
        return value


def flatten(module: Module) -> tuple[list[Any], Skeleton, tuple[str, ...]]:
    """The leaves, the skeleton and the paths of a Module, as a pytree node gives them."""
    walk = _Walk(module)
    return walk.leaves, walk.skeleton(), tuple(walk.names)


def unflatten(skeleton: Skeleton, leaves: Any, buffers: dict[Any, Any] | None = None) -> Any:
    """A Module around ``leaves``, which may be anything; ``buffers`` maps old cells to new."""
    leaves = tuple(leaves)
    modules = [object.__new__(part.cls) for part in skeleton.parts]
    used = [0] * len(leaves)
    for part in skeleton.parts:
        for number in part.parameters.values():
            if number is not None:
                used[number] += 1
    ties = {number: object() for number, uses in enumerate(used) if uses > 1}
    for part, module in zip(skeleton.parts, modules, strict=True):
        own: dict[str, Any] = {}
        for name, value in part.attributes.items():
            own[name] = value if type(value) in _SIMPLE else _resolve(value, modules, leaves)
        own["_parameters"] = Watched(
            {
                name: None if number is None else leaves[number]
                for name, number in part.parameters.items()
            }
        )
        if ties:
            own["_ties"] = {
                name: ties[number] for name, number in part.parameters.items() if number in ties
            }
        own["_buffers"] = Watched(
            part.buffers
            if buffers is None
            else {name: buffers.get(id(cell), cell) for name, cell in part.buffers.items()}
        )
        own["_modules"] = Watched(
            {
                name: None if number is None else modules[number]
                for name, number in part.modules.items()
            }
        )
        object.__setattr__(module, "__dict__", Watched(own))
    return modules[0]


def _resolve(value: Any, modules: list[Any], leaves: tuple[Any, ...]) -> Any:
    kind = type(value)
    if kind in (list, tuple):
        simple = _all_simple(value)
        return kind(value if simple else [_resolve(x, modules, leaves) for x in value])
    if kind is dict:
        simple = _all_simple(value.values())
        return (
            dict(value) if simple else {k: _resolve(x, modules, leaves) for k, x in value.items()}
        )
    if kind in (set, frozenset):
        return kind(value)
    if kind is Hooks:
        return _mapped(value, lambda x: _resolve(x, modules, leaves))
    if kind is _Method:
        return MethodType(value.function, modules[value.owner])
    if kind is _Ref:
        return modules[value.number] if value.kind == "module" else leaves[value.number]
    return value


def untie(module: Module, name: str) -> None:
    """Forget that a raw leaf is shared: it is being replaced in this place alone."""
    ties = module.__dict__.get("_ties")
    if ties:
        ties.pop(name, None)


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a Module with other parameters and buffers: a pure function of them.

    The module itself is not changed: what its forward rebinds are buffers made for this call. A
    buffer given as an ``fx.nn.Buffer`` is used as it is, so that its new value can be read after.

    Args:
        module: the Module to call.
        parameter_and_buffer_dicts: tensors by path, as ``dict(module.named_parameters())`` and
            ``named_buffers`` give them, or a sequence of such dicts. What is left out keeps its
            own value.
        args: the positional arguments, a tuple, or one argument that is not a tuple.
        kwargs: the keyword arguments.
        tie_weights: whether a value for one path of a shared parameter counts for all its paths.
        strict: whether every path must be given.

    Raises:
        StateError: for paths that the module does not have, or, where ``strict``, that are missing.

    Example:
        >>> import fx
        >>> model = fx.nn.Linear(2, 1)
        >>> params = {k: fx.ones(v.shape) for k, v in model.named_parameters()}
        >>> fx.nn.functional_call(model, params, fx.tensor([[1.0, 2.0]]))
        tensor([[4.]])
    """
    given = merged(parameter_and_buffer_dicts)
    return called(with_values(module, given, tie_weights, strict), args, kwargs)


def called(module: Module, args: Any, kwargs: dict[str, Any] | None) -> Any:
    """What a Module gives for a tuple of arguments, for one that is no tuple, or for None."""
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    return module(*args, **(kwargs or {}))


def merged(dicts: Any) -> dict[str, Any]:
    """A dict, or several of which no two have a key, as one."""
    if isinstance(dicts, dict):
        return dicts
    out: dict[str, Any] = {}
    for part in dicts:
        for name, value in part.items():
            if name in out:
                raise StateError(f"functional_call: {name} appears in more than one dict")
            out[name] = value
    return out


def with_values(
    module: Module,
    given: dict[str, Any],
    tie_weights: bool = True,
    strict: bool = False,
    own_buffers: bool = False,
) -> Module:
    """A copy of ``module`` around other parameters and buffers, given by path.

    With ``own_buffers`` it has the very buffers of the module where none are given.
    """
    walk = _Walk(module)
    skeleton = walk.skeleton()
    leaves = list(walk.leaves)
    parameters: dict[str, tuple[int, str, int]] = {}  # path -> part, name, leaf
    buffers: dict[str, Any] = {}
    for i, (part, start) in enumerate(zip(walk.modules, walk.starts, strict=True)):
        for name, number in walk.places[i].items():
            if number is not None:
                parameters[start + name] = (i, name, number)
        buffers.update((start + k, b) for k, b in part._buffers.items() if b is not None)
    unknown = [name for name in given if name not in parameters and name not in buffers]
    left_out = [name for name in (*parameters, *buffers) if name not in given]
    if tie_weights:
        told = {parameters[name][2] for name in given if name in parameters}
        left_out = [n for n in left_out if n not in parameters or parameters[n][2] not in told]
    if unknown or (strict and left_out):
        raise StateError(
            f"functional_call of {type(module).__name__}: unexpected keys {unknown}, missing keys "
            f"{left_out if strict else []}; it has {[*parameters, *buffers]}"
        )
    renewed: dict[Any, Any] = {}
    seen: dict[int, str] = {}
    for path, (i, name, number) in parameters.items():
        if path in given:
            if tie_weights and number in seen and given[path] is not given[seen[number]]:
                raise StateError(
                    f"functional_call: {seen[number]} and {path} are one shared parameter and "
                    f"were given different values; give one of them, or pass tie_weights=False"
                )
            seen.setdefault(number, path)
            if tie_weights:
                leaves[number] = given[path]
            else:  # a place of its own
                skeleton.parts[i].parameters[name] = len(leaves)
                leaves.append(given[path])
    for path, cell in buffers.items():
        if own_buffers and path not in given:
            continue
        value = given.get(path, cell)
        if not isinstance(value, Buffer) or value is cell:
            value = Buffer(value)
            value.name = cell.name if isinstance(cell, Cell) else path
        renewed[id(cell)] = value
    return unflatten(skeleton, leaves, renewed)
