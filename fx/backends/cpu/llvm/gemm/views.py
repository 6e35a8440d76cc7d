"""Strided views: operands read from where they lie, through what only moves or repeats elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from fx import limits
from fx.graph.ir import Node, Value


class View:
    """Elements of a dense value: strides and offset are counted in elements."""

    __slots__ = ("offset", "shape", "strides", "value")

    def __init__(
        self, value: Value, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0
    ) -> None:
        self.value = value
        self.shape = shape
        self.strides = strides
        self.offset = offset


def dense(value: Value) -> View:
    """All elements of a value."""
    shape = value.spec.shape
    return View(value, shape, tuple([prod(shape[i + 1 :]) for i in range(len(shape))]))


def view_of(value: Value) -> View:
    """A value as elements of the value that it was made from by moving and repeating alone."""
    chain: list[Node] = []
    while (
        value.node is not None
        and value.node.primitive.name in _VIEWS
        and len(chain) < limits.VIEWS_DEEP
    ):
        chain.append(value.node)
        value = value.node.inputs[0]
    found = dense(value)
    for node in reversed(chain):
        found = _VIEWS[node.primitive.name](found, node) or dense(node.out)
    return found


def _same(x: View, node: Node) -> View:
    return x


def _transposed(x: View, node: Node) -> View:
    strides = tuple([x.strides[a] for a in node.params["axes"]])
    return View(x.value, node.out.spec.shape, strides, x.offset)


def _reshaped(x: View, node: Node) -> View | None:
    shape = node.out.spec.shape
    strides = reshaped(x.shape, x.strides, shape)
    return None if strides is None else View(x.value, shape, strides, x.offset)


def _broadcast(x: View, node: Node) -> View:
    shape = node.out.spec.shape
    strides = [0] * (len(shape) - len(x.shape))
    strides += [s if n > 1 else 0 for n, s in zip(x.shape, x.strides, strict=True)]
    return View(x.value, shape, tuple(strides), x.offset)


def _sliced(x: View, node: Node) -> View:
    start, step, drop = node.params["start"], node.params["step"], node.params.get("drop", ())
    offset = x.offset + sum([a * s for a, s in zip(start, x.strides, strict=True)])
    strides = [s * n for i, (s, n) in enumerate(zip(x.strides, step, strict=True)) if i not in drop]
    return View(x.value, node.out.spec.shape, tuple(strides), offset)


_VIEWS: dict[str, Callable[[View, Node], View | None]] = {
    "stop_gradient": _same,
    "transpose": _transposed,
    "reshape": _reshaped,
    "broadcast_to": _broadcast,
    "slice": _sliced,
}


def reshaped(
    shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The strides of the same elements under another shape, or None where there are none."""
    axes = merged(shape, strides)
    found = [0] * len(new)
    place = len(new) - 1
    for n, s in reversed(axes):
        left = n
        while left > 1:
            while place >= 0 and new[place] == 1:
                place -= 1
            if place < 0 or left % new[place]:
                return None
            found[place] = s
            s *= new[place]
            left //= new[place]
            place -= 1
    return tuple(found)


def merged(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """The fewest (size, stride) axes that run through the same elements in the same order."""
    found: list[tuple[int, int]] = []
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if found and found[-1][1] == n * s:
            found[-1] = (found[-1][0] * n, s)
        else:
            found.append((n, s))
    return found
