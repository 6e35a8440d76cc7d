"""Quick ways through bind, written out for one primitive: what small operations spend most on.

``quick(sum, "axes", "keepdims")`` gives ``f(x, axes, keepdims)``. Of plain CPU tensors it calls the
kernel, wraps the result and records it, with no list or dict of arguments in between; a cell it
reads, and everything else it hands to the primitive. For one tensor and one parameter it reads

    def bind(x, p):
        if type(x) is Tensor:
            a = x._a
            if type(a) is ndarray:
                try:
                    array = primitive.cpu(a, p=p)
                except Exception as error:
                    raise primitive._explain(error, (x,), {"p": p}) from None
                out = _blank()
                out._a = array if type(array) is ndarray else asarray(array)
                out._node = out._noted = None
                if x._node is not None and modes.record0:
                    parents = (x._node,)
                    attach(primitive, primitive.vjp(parents, x, p=p), parents, out)
                return out
        if getattr(x, "level", 0) == CELL:
            return bind(x.read(), p)
        return primitive(x, p=p)
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numpy import asarray, ndarray
from numpy.exceptions import AxisError

from fx.config import modes, writing
from fx.primitive import MANY, Primitive, Rule
from fx.tape import CELL, attach, record, record_multiple
from fx.tensor import Tensor, _blank, new_tensor

_LETTERS = "xyzuv"
_UNFIT = (ValueError, AxisError)  # what NumPy says of arrays that do not join


def quick(primitive: Primitive, *words: str, tensors: int = 1) -> Rule:
    """A function of ``tensors`` tensors (at most five) and of the values of the parameters.

    Where nothing is staged, a primitive of no tensor is taken at once on the CPU, too.

    Args:
        primitive: whose kernel, if it is a fused one, may say None; it is then called itself.
        words: the names of all its parameters.
    """
    fused = hasattr(primitive, "reference")
    kind = "fused" if fused else "many" if primitive.cpu_of_many is not None else ""
    made = _factory(tensors, words, kind, primitive.differentiable, primitive.multiple)
    return made(primitive, primitive)  # type: ignore[no-any-return]


def quick_view(primitive: Primitive, word: str, kernel: Rule) -> Rule:
    """The same of a view primitive with one parameter; ``kernel(array, value)`` does what its does.

    A cell is read first, and the view is noted where a program writes (fx.writing).
    """
    return _factory(1, (word,), "view", True, False)(primitive, kernel)  # type: ignore[no-any-return]


def quick_joint(primitive: Primitive, word: str, kernel: Rule) -> Rule:
    """``f(tensors, value)`` for a primitive of any number of tensors and one parameter.

    Cells are read. It gives None where not all are plain CPU tensors of one dtype, or where
    ``kernel(arrays, value)``, which does what the primitive's does, finds them unfit.
    """

    def bind(tensors: Any, value: Any) -> Tensor | None:
        arrays: list[ndarray] = []
        recorded = False
        dtype: Any = None
        for x in tensors:
            if type(x) is not Tensor:
                if getattr(x, "level", 0) != CELL:
                    return None
                now = [t.read() if getattr(t, "level", 0) == CELL else t for t in tensors]
                return bind(now, value)
            array = x._a
            if type(array) is not ndarray or (array.dtype is not dtype and arrays):
                return None
            dtype = array.dtype
            if x._node is not None:
                recorded = True
            arrays.append(array)
        try:
            joined = kernel(arrays, value)
        except ValueError as error:
            if type(error) not in _UNFIT:  # a signal handler's
                raise
            try:
                kernel(arrays, value)
            except ValueError:
                return None
            raise  # what is no error the second time was a handler's as well
        out = _blank()
        out._a = joined
        out._node = out._noted = None
        if recorded and modes.record0:
            record(primitive, tuple(tensors), {word: value}, out)
        return out

    return bind


@cache
def _factory(
    tensors: int, words: tuple[str, ...], kind: str, differentiable: bool, several: bool
) -> Any:
    space: dict[str, Any] = {"__name__": __name__, **_NAMES}
    source = _source(tensors, words, kind, differentiable, several)
    exec(compile(source, __file__, "exec"), space)  # code of fx's, not of the user's
    return space["make"]


_NAMES = {
    "CELL": CELL, "Tensor": Tensor, "ndarray": ndarray, "asarray": asarray, "modes": modes,
    "writing": writing, "attach": attach, "record_multiple": record_multiple, "_blank": _blank,
    "new_tensor": new_tensor,
}  # fmt: skip


def _source(
    tensors: int, words: tuple[str, ...], kind: str, differentiable: bool, several: bool
) -> str:
    """The definition of what makes the function of a primitive."""
    xs, arrays = _LETTERS[:tensors], [f"{x}_array" for x in _LETTERS[:tensors]]
    by_word = [f"{w}={w}" for w in words]
    params = "{" + ", ".join([f"{w!r}: {w}" for w in words]) + "}"
    plain = [f"type({a}) is ndarray" for a in arrays]
    args = "(" + "".join([f"{x}, " for x in xs]) + ")"
    otherwise = f"primitive({', '.join([*xs, *by_word])})"
    given_as = xs
    if kind == "view":
        call = f"kernel({arrays[0]}, {words[0]})"
        given_as = ["given"]
        otherwise = f"primitive(given, {by_word[0]})"
    else:
        given = ", ".join([*arrays, *by_word])
        call = f"primitive.cpu({given})"
        if kind == "many":
            call += f" if {arrays[0]}.size < {MANY} else primitive.cpu_of_many({given})"
    if not tensors:
        plain = ["device == 'cpu'", "modes.stage is None"]
    lines = [
        "def make(primitive, kernel):",
        f" def bind({', '.join([*given_as, *words])}):",
        *(["  x = given if type(given) is Tensor or given.level != CELL else given.read()"]
          if kind == "view" else []),
        f"  if {' and '.join([f'type({x}) is Tensor' for x in xs]) or True}:",
        *[f"   {a} = {x}._a" for a, x in zip(arrays, xs)],
        f"   if {' and '.join(plain)}:",
        *([f"    array = {call}", f"    if array is None: return {otherwise}"] if kind == "fused"
          else ["    try:", f"     array = {call}", "    except Exception as error:",
                f"     raise primitive._explain(error, {args}, {params}) from None"]),
    ]  # fmt: skip
    if several:
        wrapped = "new_tensor(a if type(a) is ndarray else asarray(a))"
        lines.append(f"    out = tuple([{wrapped} for a in array])")
        recording = [f"out = record_multiple(primitive, {args}, {params}, out)"]
    else:
        lines += [
            "    out = _blank()",
            "    out._a = array if type(array) is ndarray else asarray(array)",
            "    out._node = out._noted = None",
        ]
        given = ", ".join(["parents", *xs, *by_word])
        recording = [
            f"parents = ({''.join([f'{x}._node, ' for x in xs])})",
            f"attach(primitive, primitive.vjp({given}), parents, out)",
        ]
    if differentiable:
        needed = " or ".join([f"{x}._node is not None" for x in xs])
        lines += [
            f"    if ({needed}) and modes.record0:",
            *[f"     {line}" for line in recording],
        ]
    if kind == "view":
        lines += [
            "    if (writing.started or x is not given) and modes.views:",
            f"     return writing.note(given, out, primitive, {params})",
        ]
    lines.append("    return out")
    if kind != "view":  # which has read a cell by now
        for i, x in enumerate(xs):
            again = ", ".join([*xs[:i], f"{x}.read()", *xs[i + 1 :], *words])
            lines.append(f"  if getattr({x}, 'level', 0) == CELL: return bind({again})")
    lines += [f"  return {otherwise}", " return bind"]
    return "\n".join(lines)
