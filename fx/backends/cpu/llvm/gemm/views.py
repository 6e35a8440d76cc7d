"""Strided views: operands read from where they lie, through what only moves or repeats elements."""

from __future__ import annotations

from math import prod

from fx.graph.ir import Value


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
    node = value.node
    if node is None or not node.inputs:
        return dense(value)
    found = None
    name = node.primitive.name
    params = node.params
    if name == "stop_gradient":
        found = view_of(node.inputs[0])
    elif name == "transpose":
        x = view_of(node.inputs[0])
        axes = params["axes"]
        found = View(
            x.value, value.spec.shape, tuple([x.strides[a] for a in axes]), x.offset
        )  # fmt: skip
    elif name == "reshape":
        x = view_of(node.inputs[0])
        strides = reshaped(x.shape, x.strides, value.spec.shape)
        if strides is not None:
            found = View(x.value, value.spec.shape, strides, x.offset)
    elif name == "broadcast_to":
        x = view_of(node.inputs[0])
        shape = value.spec.shape
        repeated = [0] * len(shape)
        lead = len(shape) - len(x.shape)
        for i, (n, s) in enumerate(zip(x.shape, x.strides, strict=True)):
            repeated[lead + i] = s if n > 1 or shape[lead + i] == 1 else 0
        found = View(x.value, shape, tuple(repeated), x.offset)
    elif name == "slice":
        x = view_of(node.inputs[0])
        start, step = params["start"], params["step"]
        drop = params.get("drop", ())
        keep = [i for i in range(len(x.shape)) if i not in drop]
        offset = x.offset + sum(a * s for a, s in zip(start, x.strides, strict=True))
        steps = tuple([x.strides[i] * step[i] for i in keep])
        found = View(x.value, value.spec.shape, steps, offset)
    return dense(value) if found is None else found


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
