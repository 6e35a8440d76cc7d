"""Recipe: all that an executable needs besides its code, as plain data that JSON can hold.

``from_json`` trusts nothing: what comes back from a file has the right types and numbers in range,
or is refused.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

import numpy as np

from fx.backends.cpu.llvm.parts import Part
from fx.dtypes import ALL, as_dtype

_NAMES = {d.name for d in ALL}


@dataclass
class Segment:
    """One stretch of a graph that has Python steps.

    Attributes:
        part: the native part, or None for a Python step.
        node: which node of the graph a Python step is; -1 for none of them.
        reads: the slots that it takes; a slot holds the array of one root value.
        faces: for each read its shape where it is an alias of the slot, else None.
        writes: the slots that it fills.
        drop: the slots that nothing needs afterwards.
        own: slots whose memory a result must not share.
    """

    part: Part | None
    node: int = -1
    reads: list[int] = field(default_factory=list)
    faces: list[list[int] | None] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    drop: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)


@dataclass
class Recipe:
    """What an executable needs besides its code.

    Attributes:
        name: the graph's.
        inputs: the number of arrays that it takes.
        constants: of each constant its position among ``graph.constants()``, or, for one that the
            schedule made, its ``[dtype, shape, base64]``.
        slots: the number of values that segments pass on.
        segments: one native part, or several in order.
        outputs: ``[slot, shape or None]`` of each output, where there are several segments.
        externals: functions that the code calls.
        reuse: which output takes over which donated input.
        parallel: whether steps may run on several threads.
        schedule, memory: texts.
    """

    name: str
    inputs: int
    constants: list[Any]
    slots: int
    segments: list[Segment]
    outputs: list[Any]
    externals: list[str]
    reuse: dict[int, int]
    parallel: bool
    schedule: str
    memory: str


def to_json(recipe: Recipe) -> Any:
    """The recipe as dictionaries, lists, numbers and texts."""
    told = asdict(recipe)
    told["reuse"] = [[i, k] for i, k in recipe.reuse.items()]
    return told


class _BadError(ValueError):
    """Not a recipe."""


def from_json(told: Any) -> Recipe:
    """The recipe that ``to_json`` told.

    Raises:
        ValueError: if it is anything else.
    """
    _need(isinstance(told, dict) and set(told) == set(Recipe.__dataclass_fields__))
    inputs, slots = _count(told["inputs"]), _count(told["slots"])
    constants = [_constant(c) for c in _list(told["constants"])]
    segments = [_segment(s, slots, len(constants)) for s in _list(told["segments"])]
    _need(len(segments) > 0)
    mixed = len(segments) > 1 or segments[0].part is None
    if not mixed:
        _need(segments[0].part is not None and segments[0].part.inputs == inputs)
    else:
        _need(slots >= inputs + len(constants))
    outputs = []
    for pair in _list(told["outputs"]):
        _need(isinstance(pair, list) and len(pair) == 2 and mixed)
        outputs.append([_below(pair[0], slots), None if pair[1] is None else _shape(pair[1])])
    reuse = {}
    for pair in _list(told["reuse"]):
        _need(isinstance(pair, list) and len(pair) == 2)
        reuse[_count(pair[0])] = _below(pair[1], inputs)
    for text in (told["name"], told["schedule"], told["memory"]):
        _need(isinstance(text, str))
    _need(isinstance(told["parallel"], bool))
    externals = _list(told["externals"])
    _need(all(isinstance(x, str) for x in externals))
    return Recipe(
        told["name"], inputs, constants, slots, segments, outputs, externals, reuse,
        told["parallel"], told["schedule"], told["memory"],
    )  # fmt: skip


def _need(condition: bool) -> None:
    if not condition:
        raise _BadError("not a recipe")


def _list(told: Any) -> list[Any]:
    _need(isinstance(told, list))
    return told  # type: ignore[no-any-return]


def _count(told: Any) -> int:
    _need(type(told) is int and 0 <= told < 1 << 48)
    return told  # type: ignore[no-any-return]


def _below(told: Any, limit: int) -> int:
    _need(type(told) is int and 0 <= told < limit)
    return told  # type: ignore[no-any-return]


def _places(told: Any, limit: int) -> list[int]:
    return [_below(x, limit) for x in _list(told)]


def _shape(told: Any) -> list[int]:
    shape = [_count(n) for n in _list(told)]
    _need(len(shape) <= 64 and prod(shape) < 1 << 48)
    return shape


def _spec(told: Any) -> tuple[str, list[int]]:
    _need(isinstance(told, list) and len(told) == 2 and told[0] in _NAMES)
    return told[0], _shape(told[1])


def _constant(told: Any) -> Any:
    if type(told) is int:
        return _count(told)
    _need(isinstance(told, list) and len(told) == 3 and isinstance(told[2], str))
    array_of(told)
    return told


def array_of(told: list[Any]) -> np.ndarray:
    """The array of a constant that stands in the recipe itself."""
    name, shape = _spec(told[:2])
    try:
        data = base64.b64decode(told[2], validate=True)
    except binascii.Error:
        raise _BadError("not a recipe") from None
    dtype = as_dtype(name)
    _need(len(data) == prod(shape) * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(shape)


def told_array(array: np.ndarray) -> list[Any]:
    """What ``array_of`` reads."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return [array.dtype.name, list(array.shape), data]


def _segment(told: Any, slots: int, constants: int) -> Segment:
    _need(isinstance(told, dict) and set(told) == set(Segment.__dataclass_fields__))
    node = told["node"]
    _need(type(node) is int and node >= -1)
    faces = [None if f is None else _shape(f) for f in _list(told["faces"])]
    reads = _places(told["reads"], slots)
    _need(len(faces) == len(reads))
    part = None if told["part"] is None else _part(told["part"], constants)
    rest = [_places(told[name], slots) for name in ("writes", "drop", "own")]
    return Segment(part, node, reads, faces, *rest)


def _part(told: Any, constants: int) -> Part:
    _need(isinstance(told, dict) and set(told) == set(Part.__dataclass_fields__))
    inputs = _count(told["inputs"])
    used = _places(told["constants"], constants)
    results = [_spec(x) for x in _list(told["results"])]
    limits = {"input": inputs, "constant": len(used), "result": len(results)}
    outputs = []
    for item in _list(told["outputs"]):
        _need(isinstance(item, list) and len(item) == 3 and item[0] in limits)
        view = None if item[2] is None else _spec(item[2])
        outputs.append((item[0], _below(item[1], limits[item[0]]), view))
    _need(isinstance(told["name"], str) and isinstance(told["free"], bool))
    written = _places(told["written"], inputs)
    arena = _count(told["arena"])
    words = None if told["words"] is None else _below(told["words"], len(used))
    return Part(told["name"], inputs, written, used, results, outputs, arena, told["free"], words)
