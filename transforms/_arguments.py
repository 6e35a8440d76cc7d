"""What the transforms share: argnums, and which leaves may be differentiated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fx.config import writing
from fx.dtypes import COMPLEX, FLOATING, INEXACT
from fx.errors import BackwardError, DTypeError, ShapeError
from fx.ops.convert import as_tensor
from fx.spec import TensorSpec
from fx.tape import CELL, off_inner_tape
from fx.tensor import Tensor

Argnums = int | tuple[int, ...]


def name_of(function: Callable[..., Any]) -> str:
    """The function's name, for messages."""
    return getattr(function, "__name__", type(function).__name__)


_AT_ONCE = ("vjp", "jvp", "hvp", "linearize", "linear_transpose")  # take the arguments too


def check_function(function: Any, what: str) -> None:
    """Refuse what cannot be called; most often it is a function that was called already.

    Raises:
        TypeError: showing the line to write.
    """
    if not callable(function):
        got = repr(function.spec) if isinstance(function, Tensor) else repr(function)
        rest = ", ...)" if what in _AT_ONCE else ")(x)"
        raise TypeError(
            f"{what} takes a function, got {got} of type {type(function).__name__}; "
            f"write fx.{what}(f{rest} with the function itself, not with its value f(x)"
        )


def several(what: str, value: Any, kind: type) -> tuple[Any, ...]:
    """One of a kind, several or None, as a tuple.

    Raises:
        TypeError: for anything else.
    """
    if value is None:
        return ()
    found = (value,) if isinstance(value, kind) else value
    found = tuple(found) if isinstance(found, Iterable) else (found,)
    if not all(isinstance(v, kind) for v in found):
        written = "(0,)" if kind is int else '("name",)'
        raise TypeError(
            f"{what} must be one {kind.__name__} or a list of them, got {value!r:.60}; write "
            f"{what}={written}"
        )
    return found


def check_tuples(primals: Any, tangents: Any, what: str) -> None:
    """Refuse primals and tangents that are no tuples.

    Raises:
        TypeError: showing the line to write.
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(
            f"{what} takes primals and tangents as tuples, got {type(primals).__name__} and "
            f"{type(tangents).__name__}; write fx.{what}(f, (x,), (t,))"
        )


def pair(out: Any, what: str, function: Callable[..., Any]) -> tuple[Any, Any]:
    """What a function with ``has_aux`` returned.

    Raises:
        TypeError: if it is no pair.
    """
    if isinstance(out, tuple) and len(out) == 2:
        return out
    got = "a tensor" if isinstance(out, Tensor) else type(out).__name__
    raise TypeError(
        f"{what} with has_aux=True: {name_of(function)} must return a pair (result, aux), got {got}"
    )


def select(argnums: Argnums, args: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """The arguments that ``argnums`` names.

    Raises:
        TypeError: if a number is out of range.
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in numbers:
        if not isinstance(n, int) or not -len(args) <= n < len(args):
            raise TypeError(
                f"{what}: argnums={argnums} names argument {n}, but the function was called with "
                f"{len(args)} positional arguments"
            )
    return tuple(args[n] for n in numbers)


def replace(argnums: Argnums, args: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    """``args`` with those that ``argnums`` names replaced."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    out = list(args)
    for n, value in zip(numbers, new, strict=True):
        out[n] = value
    return tuple(out)


def leave(x: Any, level: int) -> Any:
    """What a transform's function returned, off the inner tape of backward.

    A cell passes as it is, unless it holds a value of the transform.
    """
    if isinstance(x, Tensor) and x.level == CELL and type(x.read()) is not Tensor:
        x = x.read()
    return off_inner_tape(x, level)


def differentiable_leaf(leaf: Any, what: str, kinds: frozenset[Any] = INEXACT) -> Tensor:
    """A leaf as a floating or complex tensor, of the dtypes that the transform takes.

    Raises:
        DTypeError: if it is no such tensor: nothing else has a derivative.
    """
    x: Any
    if isinstance(leaf, Tensor | float):
        x = as_tensor(leaf)
        if x.level == CELL:
            x = x.read()
        if x.dtype in kinds:
            return x
        kind, fix = f"a tensor of dtype {x.dtype.name}", "x.astype(fx.float32)"
    else:
        try:
            x = as_tensor(leaf)
        except Exception:
            x = None
        if x is not None and x.dtype in kinds:
            return x
        kind = f"{leaf!r} of type {type(leaf).__name__}"
        fix = "float(x), or choose other arguments with argnums="
    wanted = "floating"
    if kinds is COMPLEX:
        wanted, fix = "complex", "no holomorphic=True"
    elif x is not None and x.dtype in COMPLEX:
        fix = "holomorphic=True for a holomorphic function, or differentiate its real parts"
    raise DTypeError(
        f"{what} differentiates with respect to {wanted} tensors, got {kind}; write {fix}"
    )


def kinds_of(holomorphic: bool, real: frozenset[Any]) -> frozenset[Any]:
    """The dtypes that a derivative takes: ``real`` are those of one that is not holomorphic.

    A pullback tells how the real part of a result moves, and a push along real directions how a
    result moves along these: of complex numbers that is the whole derivative only where the
    function is holomorphic.
    """
    return COMPLEX if holomorphic else real


def check_result(
    x: Tensor, what: str, function: Callable[..., Any], holomorphic: bool, fix: str
) -> None:
    """Refuse a result whose derivative would not be what it is taken for.

    Raises:
        BackwardError: naming its dtype; ``fix`` is the line to write for one without derivatives.
    """
    if x.dtype in kinds_of(holomorphic, FLOATING):
        return
    if x.dtype in COMPLEX:
        fix = "write holomorphic=True for a holomorphic function, or return a real tensor"
    elif holomorphic and x.dtype in FLOATING:
        fix = "write no holomorphic=True"
    raise BackwardError(
        f"{what}: {name_of(function)} must return {'complex' if holomorphic else 'floating'} "
        f"tensors, got {x.spec!r}; {fix}"
    )


def fitting(
    given: Any, spec: TensorSpec, what: str, than: str = ", expected", word: str = "x"
) -> Tensor:
    """A tangent or cotangent that was given, in ``what``, for a tensor of a spec.

    Raises:
        ShapeError, DTypeError: if it does not fit; ``word`` names it in the line to write.
    """
    x = as_tensor(given, dtype=None if isinstance(given, Tensor) else spec.dtype)
    if x._shape != spec.shape:
        raise ShapeError(f"{what} has shape {x.shape}{than} {spec.shape}")
    if x._dtype != spec.dtype:
        raise DTypeError(
            f"{what} has dtype {x.dtype.name}{than} {spec.dtype.name}; "
            f"write {word}.astype(fx.{spec.dtype.name})"
        )
    return x


def write_back(arguments: list[Any], changed: dict[int, Tensor]) -> None:
    """Write into the arguments of a function what it wrote into those that stood for them.

    Args:
        arguments: as they were given.
        changed: by their places, what these hold now.
    """
    for place, value in changed.items():
        if isinstance(arguments[place], Tensor):
            writing.copy(arguments[place], value)
