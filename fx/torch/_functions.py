"""Functions made from the table: PyTorch's signature, the method that does the work."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any

import fx
from fx.errors import DTypeError, InPlaceError
from fx.tensor import Tensor
from fx.torch._table import BINARY, SIGNATURES, UNARY
from fx.writing.inplace import give_out, user_writes
from fx.writing.viewing import noting
from fx.writing.views import VIEWS

_RENAMED = frozenset(("input", "other", "dim"))  # a required one may come under NumPy's word
_NUMBERS = bool | int | float | complex
_VIEWS = VIEWS | {
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "meshgrid", "unsafe_chunk",
    "unsafe_split", "unsafe_split_with_sizes",
}  # fmt: skip
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
_NUMPYS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input",
           "x2": "other"}  # fmt: skip # NumPy's words that PyTorch understands, and its own
_ROW = re.compile(r"(\w+)\((.*)\)(?: = ([\w.]+))?$")


def into(out: Any, name: str, example: str, function: Any, *args: Any, **options: Any) -> Tensor:
    """What ``out=`` gets: the result of a function, where the user writes.

    Raises:
        InPlaceError: elsewhere, with the line to write.
    """
    if user_writes(3):  # called by the function, of fx's, that the user calls
        return give_out(out, function(*args, **options), name)  # type: ignore[no-any-return]
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


class _Required:
    """The default of an argument that has none, but may come under another name."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED = _Required()


def by_torchs_words(
    name: str, known: dict[str, Any], given: dict[str, Any], unknown: dict[str, Any]
) -> dict[str, Any]:
    """``given`` and ``unknown`` arguments together, NumPy's words for some replaced by PyTorch's.

    Args:
        name: of the function, for messages.
        known: the words that it takes, and their defaults.
        given: the arguments that came under one of them; what was left out may be ``REQUIRED``.
        unknown: those that came under another word.

    Raises:
        TypeError: for a word that means nothing, with those that do; for an argument given twice.
    """
    out = {word: value for word, value in given.items() if value is not REQUIRED}
    for word, value in unknown.items():
        meant = _NUMPYS.get(word)
        if meant not in known:
            near = get_close_matches(word, known, 1)
            advice = f"did you mean {near[0]!r}? " if near else ""
            raise TypeError(
                f"torch.{name}() got an unexpected keyword argument {word!r}; {advice}"
                f"it takes {', '.join(known)}"
            )
        if given.get(meant, known[meant]) is not known[meant]:
            raise TypeError(f"torch.{name}() got {meant} twice, as {meant!r} and as {word!r}")
        out[meant] = value
    return out


def _words(function: Any) -> dict[str, Any]:
    """The arguments of a function and their defaults."""
    listed = signature(function).parameters.values()
    return {p.name: p.default for p in listed if p.kind != p.VAR_KEYWORD}


def again(function: Any, given: dict[str, Any], unknown: dict[str, Any]) -> Any:
    """A function of the table called once more, by the words that it knows; see above.

    Raises:
        TypeError: as above, and for an argument that is missing.
    """
    name = function.__name__
    known = _words(function)
    out = by_torchs_words(name, known, given, unknown)
    missing = [w for w in known if given.get(w) is REQUIRED and w not in out]
    if missing:
        raise TypeError(f"torch.{name}() misses {', '.join(map(repr, missing))}")
    return function(**out)


def with_numpys_words(function: Any) -> Any:
    """A function whose arguments fit no row, taking NumPy's words too."""
    known = _words(function)

    @wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        if options and not options.keys() <= known.keys():
            unknown = {word: options.pop(word) for word in [*options] if word not in known}
            given = dict(zip(known, args))
            options = {
                word: value
                for word, value in by_torchs_words(
                    function.__name__, known, {**given, **options}, unknown
                ).items()
                if word not in given
            }
        return function(*args, **options)

    return wrapped


def _arguments(signature: str) -> list[str]:
    """The parameters of a signature, one a string: commas inside parentheses do not part them."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", signature) if part.strip()]


def _source(name: str, signature: str, of_tensor: bool) -> str:
    """The definition of one function."""
    declared, passed, named, required, words = [], [], False, [], []
    for parameter in _arguments(signature):
        word = parameter.split("=")[0]
        if parameter == "*":
            named = True
        elif not word.endswith("~"):
            passed.append(f"{word}={word}" if named else word)
        if word != "*":
            words.append(word.replace("~", ""))
        parameter = parameter.replace("~", "")
        if not named and parameter == word and (required or word in _RENAMED):
            required.append(word)
            parameter += "=REQUIRED"
        declared.append(parameter)
    if not named:
        declared.append("*")
    first, given_to = passed[0], ", ".join(passed)
    everything = ", ".join(f"{word!r}: {word}" for word in words)
    missing = " or ".join(f"{word} is REQUIRED" for word in required)
    anew = f"return again({name}, {{{everything}}}, unknown)\n"
    given = ", ".join([repr(name), repr(first), *passed[: 2 if name in _OF_NUMBERS else 1]])
    check = f"    if not isinstance({first}, Tensor): {first} = not_a_tensor({given})\n"
    return (
        f"def {name}({', '.join(declared)}, out=None, **unknown):\n"
        f"    if unknown{f' or {missing}' if missing else ''}: {anew}"
        f"{check if of_tensor else ''}"
        f"    if out is not None: return into(out, {name!r}, {given_to!r}, target, {given_to})\n"
        f"    return target({given_to})\n"
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
        "__name__": "fx.torch", "Tensor": Tensor, "target": work, "into": into,
        "not_a_tensor": not_a_tensor, "again": again, "REQUIRED": REQUIRED,
    }  # fmt: skip
    exec(compile(_source(name, signature, target is None), __file__, "exec"), space)
    function = space[name]
    meaning = (work.__doc__ or "").strip().split("\n")[0]
    function.__doc__ = meaning or f"``x.{name}`` as a function."
    function.__qualname__ = name
    return sharing(function)


def sharing(function: Any) -> Any:
    """The function; what it gives is a view where PyTorch gives one."""
    name = getattr(function, "__name__", "")
    if name not in _VIEWS:
        return function
    return noting(function)  # a method would see that fx calls it


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
