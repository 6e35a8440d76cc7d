"""Functions made from the table: PyTorch's signature, the method that does the work."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import fx
from fx.errors import DTypeError, InPlaceError
from fx.tensor import Tensor
from fx.torch._table import BINARY, SIGNATURES, UNARY

_NUMBERS = bool | int | float | complex
_OF_NUMBERS = frozenset(
    [
        "add",
        "sub",
        "subtract",
        "mul",
        "multiply",
        "div",
        "divide",
        "true_divide",
        "remainder",
        "floor_divide",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    ]
)
_ROW = re.compile(r"(\w+)\((.*)\)(?: = ([\w.]+))?$")


def no_out(name: str, example: str) -> None:
    """Refuse ``out=``.

    Raises:
        InPlaceError: with the line to write.
    """
    raise InPlaceError(
        f"torch.{name}(..., out=x) would change x, and tensors never change; "
        f"write x = torch.{name}({example})"
    )


def not_a_tensor(name: str, word: str, value: Any, other: Any = None) -> Tensor:
    """A number as a tensor, where PyTorch takes one first: ``torch.sub(1, x)``.

    Raises:
        DTypeError: for anything else; a TypeError as in PyTorch, with the line to write.
    """
    if name in _OF_NUMBERS and isinstance(value, _NUMBERS) and isinstance(other, Tensor):
        return fx.tensor(value, fx.result_type(value, other))
    raise DTypeError(
        f"{name}(): argument '{word}' (position 1) must be Tensor, not {type(value).__name__}; "
        f"write torch.tensor(...) around it"
    )


def _arguments(signature: str) -> list[str]:
    """The parameters of a signature, one a string: commas inside parentheses do not part them."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", signature) if part.strip()]


def _source(name: str, signature: str, of_tensor: bool) -> str:
    """The definition of one function."""
    declared, passed, named = [], [], False
    for parameter in _arguments(signature):
        word = parameter.split("=")[0]
        if parameter == "*":
            named = True
        elif not word.endswith("~"):
            passed.append(f"{word}={word}" if named else word)
        declared.append(parameter.replace("~", ""))
    if not named:
        declared.append("*")
    first = passed[0]
    given = ", ".join([repr(name), repr(first), *passed[: 2 if name in _OF_NUMBERS else 1]])
    check = f"    if not isinstance({first}, Tensor): {first} = not_a_tensor({given})\n"
    return (
        f"def {name}({', '.join(declared)}, out=None):\n"
        f"    if out is not None: no_out({name!r}, {', '.join(passed)!r})\n"
        f"{check if of_tensor else ''}"
        f"    return target({', '.join(passed)})\n"
    )


def _find(target: str) -> Any:
    found: Any = Tensor if target.startswith("Tensor.") else fx
    return getattr(found, target.removeprefix("Tensor."))


def make(name: str, signature: str, target: str | None = None) -> Callable[..., Any]:
    """The function of a row of the table.

    Args:
        name: of the function and, unless ``target`` is given, of the method that it calls.
        signature: PyTorch's, without parentheses.
        target: a function of ``fx``, or ``Tensor.`` and a method.
    """
    work = _find(f"Tensor.{name}" if target is None else target)
    space: dict[str, Any] = {
        "__name__": "fx.torch", "Tensor": Tensor, "target": work, "no_out": no_out,
        "not_a_tensor": not_a_tensor,
    }  # fmt: skip
    exec(_source(name, signature, target is None), space)
    function = space[name]
    meaning = (work.__doc__ or "").strip().split("\n")[0]
    function.__doc__ = meaning or f"``x.{name}`` as a function."
    function.__qualname__ = name
    return function  # type: ignore[no-any-return]


def rows() -> list[tuple[str, str, str | None]]:
    """Name, signature and target of every function of the table."""
    out: list[tuple[str, str, str | None]] = [(name, "input", None) for name in UNARY.split()]
    out += [(name, "input, other", None) for name in BINARY.split()]
    for line in SIGNATURES.strip().split("\n"):
        if line:
            name, signature, target = _ROW.match(line).groups()  # type: ignore[union-attr]
            out.append((name, signature, target))
    return out


FUNCTIONS = {name: make(name, signature, target) for name, signature, target in rows()}
