"""Signature: the arguments of a call, what varies and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from fx import config, limits, tree
from fx.config import modes
from fx.errors import StagingError
from fx.graph.named import Named
from fx.handles import Gradient, Handle
from fx.ops.convert import as_tensor
from fx.seen import TorchDType
from fx.staged_number import StagedNumber, is_dynamic_argument
from fx.tape import CELL, Leaf
from fx.tensor import Tensor
from fx.transforms._arguments import name_of
from fx.transforms.jitting.donation import donated_leaves


class StaticArguments:
    """The part of a jitted function that tells static arguments from the others."""

    function: Callable[..., Any]
    static_argnums: frozenset[int]
    static_argnames: frozenset[str]

    def dynamic(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments without the static ones."""
        if not self.static_argnums and not self.static_argnames:
            return args, kwargs
        count = len(args)
        nums = {i % count for i in self.static_argnums if -count <= i < count}
        return (
            tuple([None if i in nums else x for i, x in enumerate(args)]),
            {k: v for k, v in kwargs.items() if k not in self.static_argnames},
        )

    def static(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The static arguments, as a key.

        Raises:
            StagingError: if one is not hashable.
        """
        if not self.static_argnums and not self.static_argnames:
            return ()
        count = len(args)
        found: list[Any] = [
            (i % count, args[i]) for i in self.static_argnums if -count <= i < count
        ]
        found += [(k, v) for k, v in kwargs.items() if k in self.static_argnames]
        found.sort(key=lambda pair: (isinstance(pair[0], str), pair[0]))
        for which, value in found:
            try:
                hash(value)
            except TypeError:
                raise StagingError(
                    f"jit of {name_of(self.function)}: the static argument {which!r} is a "
                    f"{type(value).__name__}, which is not hashable; pass a tuple or another "
                    f"immutable value, or leave it out of static_argnums and static_argnames"
                ) from None
        return tuple([(which, _exactly(value), value) for which, value in found])

    def restored(self, dynamic: Any, signature: Signature) -> tuple[Any, dict[str, Any]]:
        """The arguments of a call, the static ones put back."""
        args, kwargs = dynamic
        args, kwargs = list(args), dict(kwargs)
        for which, _, value in signature.key[1]:
            if isinstance(which, int):
                args[which] = value
            else:
                kwargs[which] = value
        return tuple(args), kwargs


class Signature:
    """The arguments of a call: what varies from call to call, and the key of what does not."""

    __slots__ = (
        "donated",
        "drawn",
        "given",
        "key",
        "numbers",
        "objects",
        "parts",
        "tensors",
        "treedef",
    )

    def __init__(self, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        passed = jitted.dynamic(args, kwargs)
        leaves, self.treedef = tree.flatten_in_order(passed, is_leaf=holds_state)
        self.tensors: list[Tensor] = []
        self.given: list[Tensor] = []  # the same, as the objects that were passed
        self.numbers: list[Any] = []
        self.objects: list[Any] = []
        self.parts: list[tuple[str, Any]] = []  # of each leaf: what it is, and its place
        kinds: list[Any] = [self.treedef, jitted.static(args, kwargs)]
        records = modes.record0
        hooks: list[Any] = []
        firsts: dict[int, int] = {}  # the first argument that is a leaf of the tape
        shared = jitted.writes.families(leaves)
        for leaf in leaves:
            given = leaf
            if type(leaf) is Named:
                leaf = leaf.read()
            elif isinstance(leaf, Tensor) and (
                leaf.written or isinstance(leaf, Handle) or _is_cut_of_cell(leaf)
            ):
                leaf = jitted.writes.argument(leaf, shared)
            if isinstance(leaf, Tensor) and leaf.level != CELL:
                needs: Any = records and type(leaf) is Tensor and leaf._node is not None
                if needs:
                    needs = firsts.setdefault(id(leaf._node), len(self.tensors) + 1)
                    if type(leaf._node) is not Leaf:
                        needs = -needs
                    elif leaf._node.extra is not None:  # its hooks are part of what is staged
                        needs = needs, leaf._node.extra.numbers()
                        hooks += leaf._node.extra.all()
                self.parts.append(("tensor", len(self.tensors)))
                self.tensors.append(leaf)
                self.given.append(given)
                if type(given) is Gradient:  # a program that changes it is for no other tensor
                    needs = needs, Identity(given.place)
                kinds.append((leaf.shape, leaf.dtype, leaf.device.name, needs))
            elif is_dynamic_argument(leaf):
                self.parts.append(("number", len(self.numbers)))
                self.numbers.append(leaf)
                kinds.append(type(leaf.now if type(leaf) is StagedNumber else leaf))
            elif isinstance(leaf, np.ndarray):
                self.parts.append(("tensor", len(self.tensors)))
                leaf = as_tensor(leaf)
                self.tensors.append(leaf)
                self.given.append(leaf)
                kinds.append((leaf.shape, leaf.dtype, leaf.device.name, False))
            else:
                self.parts.append(("object", len(self.objects)))
                self.objects.append(leaf)
                kinds.append(_key_of(leaf))
        self.objects += hooks  # what they read is guarded as what other arguments read
        self.donated: set[int] = set()
        self.drawn: Any = None  # what was drawn to find the program
        if jitted.donate_argnums:
            self.donated = donated_leaves(
                jitted.dynamic(args, kwargs)[0], jitted.donate_argnums, holds_state
            )
        settings = (
            limits.key(),
            modes.barrier >= 0,
            modes.inference,
            modes.device,
            modes.autocast,
            modes.joined,
        )
        self.key = (*kinds, *settings, config.default_dtype(), config.default_device())

    def sizes_among(self, keys: Any) -> tuple[Any, tuple[tuple[int, int], ...]]:
        """The key without sizes, and the axes of tensors of which others of ``keys`` have others.

        The axes are given with the place of the tensor.
        """
        places = [i + 2 for i, (kind, _) in enumerate(self.parts) if kind == "tensor"]
        mine, found = _without_sizes(self.key, places), {}
        for key in keys:
            if key is self.key or len(key) != len(self.key) or key[0] != self.treedef:
                continue
            if key != self.key and _without_sizes(key, places) == mine:
                for place, i in enumerate(places):
                    pairs = zip(self.key[i][0], key[i][0], strict=True)
                    found.update({(place, a): None for a, (n, m) in enumerate(pairs) if n != m})
        return mine, tuple(sorted(found))


def _without_sizes(key: Any, places: list[int]) -> Any:
    """A key with the number of axes in the place of each shape; None of another form."""
    found = list(key)
    for i in places:
        if type(key[i]) is not tuple or type(key[i][0]) is not tuple:
            return None
        found[i] = (len(key[i][0]), *key[i][1:])
    return tuple(found)


def holds_state(x: Any) -> bool:
    """Whether an argument is passed as the object that it is, because it holds cells."""
    return getattr(type(x), "__jit_object__", False) and x.__jit_object__()


def _is_cut_of_cell(x: Tensor) -> bool:
    """Whether a plain tensor is a view of a cell that nobody has written into yet."""
    record = getattr(x, "_view", None)
    return record is not None and record.family is not None and record.family.of_user


_PLAIN = (str, bytes, bool, int, float, complex, np.dtype, TorchDType, type(None))


_SHOWN = (float, complex, np.generic, range)
_SHOWN_OF = frozenset(("datetime", "decimal", "fractions"))  # modules; equal times have other zones


def _exactly(value: Any) -> Any:
    """What else is the same of equal values: 1 is no True, and 0.0 no -0.0.

    In tuples too, in sets, and in the fields by which dataclasses and classes of attrs compare; a
    class that says itself what is equal is taken at its word.
    """
    kind = type(value)
    if isinstance(value, tuple):
        return kind, tuple([_exactly(x) for x in value])
    if isinstance(value, frozenset):
        return kind, frozenset([_exactly(x) for x in value])
    if isinstance(value, _SHOWN) or kind.__module__ in _SHOWN_OF:
        return kind, repr(value)
    return kind, tuple([_exactly(getattr(value, name)) for name in _compared(kind)])


def _compared(kind: type) -> list[str]:
    """The fields by which objects of a dataclass, or of a class of attrs, compare."""
    fields = getattr(kind, "__dataclass_fields__", {}).values()
    own = [f.name for f in fields if f.compare]
    return own + [a.name for a in getattr(kind, "__attrs_attrs__", ()) if a.eq]


def _key_of(leaf: Any) -> Any:
    if isinstance(leaf, _PLAIN):
        return type(leaf), repr(leaf) if isinstance(leaf, float | complex) else leaf
    if isinstance(leaf, np.generic):
        return type(leaf), leaf.tobytes()
    return Identity(leaf)


class Identity:
    """An object as a key: the same object and no other."""

    __slots__ = ("_hash", "held")

    def __init__(self, held: Any) -> None:
        self._hash = id(held)
        try:
            self.held: Callable[[], Any] = ref(held)
        except TypeError:
            self.held = lambda: held

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        held = self.held()
        return held is not None and isinstance(other, Identity) and held is other.held()

    def __hash__(self) -> int:
        return self._hash
