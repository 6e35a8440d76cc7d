"""Tables: the numbers of a program for any size, as formulas of its sizes that a file can hold.

What a program is told when it runs is computed from its sizes alone. A formula is text in Python's
words, such as ``"8*a"`` or ``"-1*(-8*a // (32))"``; what comes back from a file is looked at piece
by piece before it is compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fx.backends.cpu.llvm.sized.building import SizedBuilder


@dataclass
class Tables:
    """What a program for any size is told by.

    Attributes:
        names: of the sizes.
        told: the words that follow the sizes.
        tasks: of each step whose tasks depend on sizes the place of their number in the words.
        rates, elements, traffic: of those steps the nanoseconds an element, how many elements
            there are, and the nanoseconds that memory takes.
        fixed: nanoseconds of the other steps.
        products: of each its factors as shapes and strides, the shape of the batch, bytes a number.
        arena: what is taken of the arena and given back in order: which, and for what is taken how
            many bytes.
        shapes: of the results, then those of the faces of outputs.
    """

    names: list[str]
    told: list[str]
    tasks: list[int]
    rates: list[float]
    elements: list[str]
    traffic: list[float]
    fixed: float
    products: list[Any]
    arena: list[Any]
    shapes: list[list[str]]


def tables_of(built: SizedBuilder) -> Tables:
    """The tables of what was built."""
    return Tables(
        list(built.sizes.places), _texts(built.told), built.tasks, built.rates,
        _texts(built.elements), built.traffic, built.fixed, [p.told() for p in built.products],
        [[which, None if n is None else repr(n)] for which, n in built.arena.done],
        [_texts(shape) for shape in built.shapes],
    )  # fmt: skip


def _texts(numbers: Sequence[int]) -> list[str]:
    return [repr(n) for n in numbers]


def to_json(tables: Tables) -> Any:
    """Dictionaries, lists, numbers and texts."""
    return asdict(tables)


def from_json(told: Any) -> Tables:
    """The tables that ``to_json`` told.

    Raises:
        ValueError: if it is anything else.
    """
    _need(isinstance(told, dict) and set(told) == set(Tables.__dataclass_fields__))
    names = _list(told["names"], str)
    _need(all(n.isidentifier() for n in names) and len({*names}) == len(names))
    words = len(names) + len(_formulas(told["told"]))
    count = len(_list(told["tasks"], int))
    _need(all(0 <= t < words for t in told["tasks"]))
    for name in ("rates", "traffic"):
        _need(len(_list(told[name], float)) == count)
    _need(len(_formulas(told["elements"])) == count and type(told["fixed"]) is float)
    for product in _list(told["products"], list):
        _need(len(product) == 4 and type(product[3]) is int and product[3] in (4, 8))
        for factor in product[:2]:
            _need(len(_list(factor, list)) == 2 and len(factor[0]) == len(factor[1]) > 1)
            _formulas([*factor[0], *factor[1]])
        _formulas(product[2])
    held: set[int] = set()
    for item in _list(told["arena"], list):
        _need(len(item) == 2 and type(item[0]) is int)
        if item[1] is None:
            _need(item[0] in held)
            held.remove(item[0])
        else:
            _need(item[0] not in held)
            held.add(item[0])
            _formulas([item[1]])
    for shape in _list(told["shapes"], list):
        _formulas(shape)
    return Tables(**told)


def function(names: Sequence[str], formulas: Sequence[str]) -> Callable[..., list[int]]:
    """What computes formulas of sizes.

    Raises:
        ValueError: if one is no formula of these.
    """
    for text in formulas:
        for node in ast.walk(_parsed(text)):
            _need(isinstance(node, _PARTS))
            if isinstance(node, ast.Name):
                _need(node.id in names or node.id in ("max", "min"))
            if isinstance(node, ast.Constant):
                _need(type(node.value) is int)
    source = f"lambda {', '.join(names)}: [{', '.join(formulas)}]"
    known = {"__builtins__": {}, "max": max, "min": min}
    return eval(compile(source, __file__, "eval"), known)  # type: ignore[no-any-return]


_PARTS = (
    ast.Load, ast.Name, ast.Constant, ast.Call, ast.BinOp, ast.UnaryOp, ast.USub,
    ast.Mult, ast.Add, ast.FloorDiv,
)  # fmt: skip


def _need(condition: bool) -> None:
    if not condition:
        raise ValueError("no tables of a program for any size")


def _list(told: Any, kind: type) -> list[Any]:
    _need(isinstance(told, list) and all(type(x) is kind for x in told))
    return told  # type: ignore[no-any-return]


def _formulas(told: Any) -> list[str]:
    for text in _list(told, str):
        _parsed(text)
    return told  # type: ignore[no-any-return]


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, MemoryError, RecursionError):
        raise ValueError("no formula") from None
