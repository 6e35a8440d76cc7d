"""Indices and views of the programs of ``writes.py``."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

Array = Any
Made = tuple[str, Array]


def shown(shape: tuple[int, ...]) -> str:
    """A shape as arguments."""
    return ", ".join(map(str, shape)) or "()"


def index(
    rng: random.Random, a: Array, path: str, plain: bool = False
) -> tuple[str, tuple[int, ...]]:
    """An index of an array, and the shape of what it selects."""
    if not plain and a.ndim and a.dtype.kind == "f" and rng.random() < 0.12:
        return f"{path} > 0.123", ()  # how many are written is not known
    text, made = _index(rng, a, plain)
    return text, np.shape(a[made])


def _index(rng: random.Random, a: Array, plain: bool) -> tuple[str, Any]:
    if not a.ndim:
        return "...", ...
    draw, n = rng.random(), a.shape[0]
    if not plain and draw < 0.14:
        places = sorted(rng.sample(range(n), rng.randrange(1, n + 1)))
        if rng.random() < 0.3:
            places = [p - n for p in places]
        text = f"{places}" if rng.random() < 0.5 else f"torch.tensor({places})"
        if a.ndim > 1 and rng.random() < 0.4:
            k = rng.randrange(a.shape[1])
            return f"{text}, {k}", (places, k)
        return text, places
    if draw < 0.2:
        return "...", ...
    parts: list[tuple[str, Any]] = []
    for length in a.shape[: rng.randrange(1, a.ndim + 1)]:
        parts.append(_part(rng, length))
    if rng.random() < 0.1:
        parts.append(("...", ...))
    if not plain and rng.random() < 0.06:
        parts.insert(rng.randrange(len(parts) + 1), ("None", None))
    return ", ".join(p[0] for p in parts), tuple(p[1] for p in parts)


def _part(rng: random.Random, n: int) -> tuple[str, Any]:
    draw = rng.random()
    if draw < 0.5:
        i = rng.randrange(-n, n)
        return str(i), i
    if draw < 0.6:
        return ":", slice(None)
    if draw < 0.7:
        step = rng.choice((2, 3))
        return f"::{step}", slice(None, None, step)
    start = rng.randrange(n)
    stop = rng.randrange(start + 1, n + 1)
    if rng.random() < 0.3:
        return f"{start}:", slice(start, None)
    return f"{start}:{stop}", slice(start, stop)


def behind(path: str, view: str) -> str:
    """A view of what a path leads to: by what is written behind it, or by a function."""
    return view.replace("{t}", path) if "{t}" in view else path + view


METHODS = ("view", "expand", "contiguous", "unfold")  # which are no functions


_CALL = re.compile(r"\.([a-z]\w*)\((.*)\)(\[\d+\])?")


def as_function(rng: random.Random, text: str) -> str:
    """``.narrow(0, 1, 2)``, sometimes as ``torch.narrow(x, 0, 1, 2)``."""
    found = _CALL.fullmatch(text)
    if found is None or rng.random() < 0.7 or found[1] in METHODS:
        return text
    name, words = found[1], found[2]
    if name in ("permute", "reshape"):
        words = f"({words},)" if words else "()"
    return f"torch.{name}({{t}}{', ' if words else ''}{words}){found[3] or ''}"


@attrs.frozen
class View:
    """What is written behind a tensor for a view of it."""

    feature: str
    made: Callable[[random.Random, Array], Made | None]


def _indexed(rng: random.Random, a: Array) -> Made | None:
    if not a.ndim:
        return None
    text, made = _index(rng, a, plain=True)
    return f"[{text}]", view_of(a, made)


def view_of(a: Array, made: Any) -> Array:
    """The view, also where NumPy gives a scalar."""
    made = made if isinstance(made, tuple) else (made,)
    return a[made if Ellipsis in made else (*made, ...)]


def _matrix(text: str, f: Callable[[Array], Array], rank: int = 2) -> View:
    return View("", lambda rng, a: (text, f(a)) if a.ndim == rank else None)


def _dense(a: Array) -> bool:
    return bool(a.flags.c_contiguous)


def without_gaps(a: Array) -> bool:
    """Whether the elements lie side by side, in whatever order of the axes."""
    order = sorted(range(a.ndim), key=lambda axis: -a.strides[axis])
    return _dense(a.transpose(order))


def _flat(rng: random.Random, a: Array) -> Made | None:
    text = rng.choice((".view(-1)", ".reshape(-1)", ".flatten()", ".ravel()"))
    if not _dense(a) and text == ".view(-1)":
        text = ".reshape(-1)"
    if not _dense(a) and text == ".ravel()":
        return text, a.flatten()
    if text == ".flatten()" and a.ndim == 1:
        return text, a
    return text, a.reshape(-1)


def _shaped(rng: random.Random, a: Array) -> Made | None:
    if a.ndim < 1:
        return None
    way = rng.choice(("view", "reshape")) if _dense(a) else "reshape"
    shapes = [a.shape[::-1], (a.size, 1), (1, *a.shape), (-1, a.shape[-1])]
    if a.size % 2 == 0:
        shapes.append((2, a.size // 2))
    shape = rng.choice(shapes)
    return f".{way}({shown(shape)})", a.reshape(shape)


def _permuted(rng: random.Random, a: Array) -> Made | None:
    if a.ndim < 2:
        return None
    order = rng.sample(range(a.ndim), a.ndim)
    return f".permute({shown(tuple(order))})", a.transpose(order)


def _along(rng: random.Random, a: Array) -> Made | None:
    """``select``, ``narrow``, ``unbind``, ``chunk``, ``split``."""
    if not a.ndim:
        return None
    dim = rng.randrange(a.ndim)
    n, lead = a.shape[dim], (slice(None),) * dim
    way = rng.choice(("select", "narrow", "unbind", "chunk", "split"))
    i = rng.randrange(n)
    if way in ("select", "unbind"):
        text = f".select({dim}, {i})" if way == "select" else f".unbind({dim})[{i}]"
        return text, a[(*lead, i, ...)]
    if way == "narrow":
        length = rng.randrange(1, n - i + 1)
        return f".narrow({dim}, {i}, {length})", a[(*lead, slice(i, i + length))]
    if way == "chunk":
        size = -(-n // 2)
        return f".chunk(2, {dim})[0]", a[(*lead, slice(0, size))]
    size = rng.randrange(1, n + 1)
    part = rng.randrange(-(-n // size))
    return f".split({size}, {dim})[{part}]", a[(*lead, slice(part * size, part * size + size))]


def _windows(rng: random.Random, a: Array) -> Made | None:
    """``unfold``, ``as_strided``, which may show an element twice."""
    if not a.ndim:
        return None
    if rng.random() < 0.5 and _dense(a) and a.size > 1:
        n, step = rng.choice(((1, 1), (a.size // 2, 1), (a.size // 2, 2)))
        start = rng.randrange(a.size - (n - 1) * step)
        array = np.lib.stride_tricks.as_strided(
            a.reshape(-1)[start:], (n,), (step * a.itemsize,), writeable=True
        )
        # an offset is one into the memory, not into the view
        return (f".as_strided(({n},), ({step},))", array) if not start else None
    dim = rng.randrange(a.ndim)
    size = rng.randrange(1, a.shape[dim] + 1)
    step = rng.randrange(1, size + 2)
    windows = np.lib.stride_tricks.sliding_window_view(a, size, dim, writeable=True)
    every = (slice(None),) * dim + (slice(None, None, step),)
    return f".unfold({dim}, {size}, {step})", windows[every]


def _moved(rng: random.Random, a: Array) -> Made | None:
    if a.ndim < 2:
        return None
    i, j = rng.randrange(-a.ndim, a.ndim), rng.randrange(a.ndim)
    way = rng.choice(("movedim", "moveaxis", "swapaxes", "swapdims", "transpose"))
    moved = np.moveaxis(a, i, j) if way.startswith("move") else a.swapaxes(i, j)
    return f".{way}({i}, {j})", moved


def _parted(rng: random.Random, a: Array) -> Made | None:
    """``tensor_split``, ``hsplit``, ``vsplit``, and what gives an axis for one element."""
    if not a.ndim:
        return None
    n = a.shape[0]
    i = rng.randrange(n)
    choices = [
        (f".tensor_split({n})[{i}]", a[i : i + 1]), ("{t}.view_as({t})", a),
        (f".unflatten(0, (1, {n}))", a[None]), ("{t}.expand_as({t})", a), (".real", a.real),
        (f".split([{i}, {n - i}])[1]", a[i:]),
    ]  # fmt: skip
    if a.ndim > 1:
        choices += [(f".vsplit({n})[{i}]", a[i : i + 1]), (".flatten(0, 1)", None)]
        choices += [(f".hsplit({a.shape[1]})[0]", a[:, :1]), (".flatten(-2)", None)]
    text, array = rng.choice(choices)
    if array is None:
        lead = (-1, *a.shape[2:]) if "0" in text else (*a.shape[:-2], -1)
        array = a.reshape(lead)
    return text, array


def _expanded(rng: random.Random, a: Array) -> Made | None:
    shape = (2, *a.shape)
    return f".expand({shown(shape)})", np.broadcast_to(a, shape)


def _copy(text: str) -> Callable[[random.Random, Array], Made]:
    return lambda rng, a: (text, a.copy())


def _same(text: str) -> Callable[[random.Random, Array], Made]:
    return lambda rng, a: (text, a)


VIEWS = [
    View("", _indexed), View("", _indexed), View("", _indexed),
    View("", _along), View("", _along), View("", _flat), View("", _shaped),
    View("", _permuted), View("", _expanded), View("more", _windows), View("more", _moved),
    View("more", _parted),
    _matrix(".T", lambda a: a.T), _matrix(".t()", lambda a: a.T),
    _matrix(".mT", lambda a: a.T), _matrix(".transpose(0, 1)", lambda a: a.T),
    _matrix(".diagonal()", lambda a: _diagonal(a)),
    View("", lambda rng, a: (".unsqueeze(0)", a[None])),
    View("", lambda rng, a: (".unsqueeze(-1)", a[..., None])),
    View("", lambda rng, a: (".squeeze()", view_of(a, _ones_away(a)))),
    View("", lambda rng, a: ("[None]", a[None])),
    View("", _same("[...]")), View("", _copy(".clone()")),
    View("", lambda rng, a: (".contiguous()", a if _dense(a) else a.copy())),
    View("detach", _same(".detach()")), View("detach", _same(".detach()")),
    View("data", _same(".data")), View("data", _same(".data")),
]  # fmt: skip


def _diagonal(a: Array) -> Array:
    out = np.diagonal(a)
    return np.lib.stride_tricks.as_strided(a, out.shape, out.strides)


def _ones_away(a: Array) -> tuple[Any, ...]:
    return tuple(0 if n == 1 else slice(None) for n in a.shape)
