"""Bodies for the laws: small graphs of elementwise primitives, for every shape and dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as ew
from fx.dtypes import float64, int64
from fx.graph.ir import Graph
from fx.graph.staging import stage
from fx.prims.sampling import Sample
from fx.spec import TensorSpec

Body = Callable[..., Sequence[Any]]
_BODIES: dict[str, tuple[Body, str]] = {}  # f: floating, i: integer, n: one integer


def _body(kinds: str) -> Callable[[Body], Body]:
    def add(function: Body) -> Body:
        _BODIES[function.__name__] = (function, kinds)
        return function

    return add


@cache
def body(name: str, shape: tuple[int, ...] = ()) -> Graph:
    """The graph of a body for tensors of a shape; always the same one."""
    function, kinds = _BODIES[name]
    specs = [TensorSpec(() if k == "n" else shape, float64 if k == "f" else int64) for k in kinds]
    return stage(function, specs, name)[0]


# of scan: carry, rows, rest -----------------------------------------------------------------------


@_body("fff")
def decay(c, x, w):
    return [ew.multiply(ew.sin(c), w) + x, ew.multiply(c, x)]


@_body("ffff")
def turn(a, b, x, w):
    return [b, ew.cos(ew.add(ew.multiply(a, b), ew.multiply(x, w))), ew.sin(x)]


@_body("fiff")
def counted(c, n, x, w):
    return [ew.add(ew.tanh(ew.add(c, w)), x), ew.add(n, n), n, ew.multiply(w, w)]


_SCANS = {"decay": (1, 1), "turn": (2, 1), "counted": (2, 1)}


def scan(d) -> Sample:
    """A body, a shape of what it works on, a number of rows."""
    name = d.choice(sorted(_SCANS))
    carries, mapped = _SCANS[name]
    shape = d.shape(0, 1, high=3)
    length = d.integer(1, 3)
    args = []
    for i, kind in enumerate(_BODIES[name][1]):
        full = (length, *shape) if carries <= i < carries + mapped else shape
        args.append(d.integers(full, 1, 3) if kind == "i" else d.floats(full, 0.3, 1.2))
    params = {
        "body": body(name, shape), "carries": carries, "mapped": mapped, "length": length,
        "reverse": d.flag(), "checkpoint": d.flag(),
    }  # fmt: skip
    return Sample(args, params)


# of cond: operands --------------------------------------------------------------------------------


@_body("ffi")
def product(x, y, n):
    return [ew.sin(ew.multiply(x, y)), n, ew.exp(x)]


@_body("ffi")
def sum_of_two(x, y, n):
    return [ew.add(x, ew.sin(ew.cos(y))), ew.add(n, n), ew.multiply(x, x)]


@_body("ffi")
def second(x, y, n):
    return [y, ew.multiply(n, n), ew.multiply(ew.sin(y), ew.multiply(x, x))]


def cond(d) -> Sample:
    """Two branches and a bool, or up to three and an integer that may be out of range."""
    names = ["product", "sum_of_two", "second"][: d.integer(1, 3)]
    if d.flag():
        index, names = d.bools(()), names[:2]
    else:
        index = d.integers((), -1, 4)
    shape = d.shape(0, 1, high=3)
    args = [index, d.floats(shape, 0.3, 1.2), d.floats(shape, 0.3, 1.2), d.integers(shape, 1, 3)]
    return Sample(args, {"branches": tuple([body(n, shape) for n in names])})


# of while: carry, what the condition reads, what the body reads -----------------------------------


@_body("fnn")
def below(x, i, n):
    return [compare.less(i, n)]


@_body("fnf")
def stepped(x, i, w):
    one = compare.astype(compare.equal(i, i), dtype=int64)
    return [ew.add(ew.sin(x), w), ew.add(i, one)]


def while_(d) -> Sample:
    """A counter that runs up to a bound, and something that is computed meanwhile."""
    shape = d.shape(0, 1, high=3)
    args = [d.floats(shape, 0.3, 1.2), d.integers((), 0, 2), d.integers((), 1, 5),
            d.floats(shape, 0.3, 1.2)]  # fmt: skip
    params = {"condition": body("below", shape), "body": body("stepped", shape),
              "carries": 2, "read": 1}  # fmt: skip
    return Sample(args, params)
