"""Composite primitives as the reductions and elementwise nodes that loops are made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fx import limits
from fx.compiler.kinds import REDUCTIONS, kind_of
from fx.compiler.maps import VIEWS
from fx.compiler.target import Target
from fx.dtypes import COMPLEX, FLOATING, INTEGRAL
from fx.graph.ir import Graph, Node, Rewriter, Value, constant_value
from fx.graph.key import foldable
from fx.graph.passes.decomposition import by_formula
from fx.primitive import registry
from fx.tensor import new_tensor

Ints = tuple[int, ...]


def decompose(graph: Graph, target: Target) -> Graph:
    """The graph with composites and reductions of one element written out.

    Args:
        graph: what is computed.
        target: which says what loops compute, and what has kernels of its own.
    """
    if not any(_rule(n, target) for n in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    checks = dict(graph.cache.get("checks", {}))
    parts: dict[Value, tuple[Value, Value]] = {}
    for node in graph.nodes:
        rule = _rule(node, target)
        made = None
        if rule is not None:
            inputs = [rewriter.get(v) for v in node.inputs]
            made = rule(_Writer(rewriter, node, checks, parts), *inputs, **node.params)
        if made is None:
            rewriter.keep(node)
        else:
            rewriter.env.update(zip(node.outs, made if type(made) is tuple else (made,)))
    made_graph = rewriter.done()
    made_graph.cache["checks"] = checks
    if len(made_graph.nodes) == len(graph.nodes):
        return made_graph
    return decompose(made_graph, target)  # what was written out may reduce axes of size 1


def _rule(node: Node, target: Target) -> Callable[..., Any] | None:
    """What writes a node out; None if it stays as it is."""
    name = node.primitive.name
    if node.inputs and node.inputs[0].spec.dtype in COMPLEX and name in _BY_PARTS:
        rule: Any = _BY_PARTS[name]
        return rule if all(v.spec.size for v in (*node.inputs, *node.outs)) else None
    rule = _rules().get(name)
    if name in REDUCTIONS:
        shape = node.inputs[0].spec.shape
        rule = _of_one if all(shape[a] == 1 for a in node.params["axes"]) else None
    elif node.primitive.formula is not None and kind_of(node, target) == "opaque":
        rule = _formula if target.steps_of(node) is None else rule
    return rule if rule is not None and node.inputs[0].spec.size else None


class _LooseMax:
    """The maximum of floats, of which it is no matter what it is where one of them is NaN."""

    name, multiple = "loose_max", False
    kind, weight, formula = "reduction", 1, None
    commutative = no_minus_zero = partial = False
    literals: tuple[int, ...] = ()

    def spec(self, x: Any, **params: Any) -> Any:
        """As of ``max``."""
        return registry["max"].spec(x, **params)

    def __call__(self, x: Any, **params: Any) -> Any:
        return registry["max"](x, **params)


_LOOSE_MAX = _LooseMax()
_INTERNAL = {_LOOSE_MAX.name: _LOOSE_MAX}
# what they subtract is their largest element, and a NaN reaches every result by a sum
_SHIFTED = ("softmax", "log_softmax", "logsumexp")


class _Writer:
    """Adds nodes in the place of one."""

    def __init__(
        self,
        rewriter: Rewriter,
        node: Node,
        checks: dict[Any, Any],
        parts: dict[Value, tuple[Value, Value]],
    ) -> None:
        self.rewriter, self.node, self.line = rewriter, node, node.line
        self.checks, self.known_parts = checks, parts

    def __getattr__(self, name: str) -> Callable[..., Value]:
        primitive = _INTERNAL.get(name) or registry[name]
        return lambda *inputs, **params: self.rewriter.add(
            primitive, *inputs, line=self.line, **params
        )

    def number(self, value: float, like: Value) -> Value:
        """A scalar of the dtype of ``like``."""
        return constant_value(new_tensor(np.asarray(value, dtype=like.spec.dtype)))


def _formula(w: _Writer, *xs: Value, **params: Any) -> Any:
    """A composite by the formula in its block."""
    loose = w.node.primitive.name in _SHIFTED

    def make(primitive: Any, *inputs: Value, **params: Any) -> Any:
        if loose and primitive.name == "max":
            primitive = _LOOSE_MAX
        return w.rewriter.add(primitive, *inputs, line=w.line, **params)

    return by_formula(w.node.primitive, xs, params, make)


def _of_one(w: _Writer, x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """A reduction over axes of size 1."""
    if w.node.outs[0].spec.dtype != x.spec.dtype:  # any, all
        x = w.astype(x, dtype=w.node.outs[0].spec.dtype)
    return x if keepdims or not axes else w.reshape(x, shape=_kept(x, axes))


# joining and padding ----------------------------------------------------------------------------


def _concatenate(w: _Writer, *xs: Value, axis: int) -> Value | None:
    """Many pieces by eights: each element of a loop asks which of its pieces it is from."""
    if len(xs) <= limits.JOIN_PIECES:
        return None
    some = [xs[i : i + limits.JOIN_PIECES] for i in range(0, len(xs), limits.JOIN_PIECES)]
    joined = [w.concatenate(*part, axis=axis) if len(part) > 1 else part[0] for part in some]
    return w.concatenate(*joined, axis=axis)


def _pad(
    w: _Writer, x: Value, value: Value, *, low: Ints, high: Ints, inside: Ints
) -> Value | None:
    """Values between neighbours: an axis more that is padded, and the two as one."""
    if not any(inside):
        return None
    shape = x.spec.shape
    none = (0,) * len(shape)
    for axis, k in enumerate(inside):
        n = x.spec.shape[axis]
        if k and n > 1:
            split = (*x.spec.shape[: axis + 1], 1, *x.spec.shape[axis + 1 :])
            zeros = (0,) * len(split)
            after = tuple([k if i == axis + 1 else 0 for i in range(len(split))])
            wide = w.pad(w.reshape(x, shape=split), value, low=zeros, high=after, inside=zeros)
            merged = (*x.spec.shape[:axis], n * (k + 1), *x.spec.shape[axis + 1 :])
            stop = tuple([m - k if i == axis else m for i, m in enumerate(merged)])
            line = w.reshape(wide, shape=merged)
            x = w.slice(line, start=none, stop=stop, step=(1,) * len(shape))
    return w.pad(x, value, low=low, high=high, inside=none)


# one element of each line -----------------------------------------------------------------------


def _take_along(w: _Writer, x: Value, idx: Value, *, axis: int) -> Value | None:
    """The element where a line's own numbers meet its index, as a sum, inside the line's loop."""
    n = x.spec.shape[axis]
    if idx.spec.shape[axis] != 1 or x.spec.dtype not in FLOATING | INTEGRAL or n < 2:
        return None
    if not _like(x, idx, axis) or not _computed_in_lines(x, axis):
        return None
    zero = w.number(0, x)
    return w.sum(w.where(_met(w, x, idx, axis), x, zero), axes=(axis,), keepdims=True)


def _scatter_along(
    w: _Writer, x: Value, idx: Value, updates: Value, *, axis: int, mode: str
) -> Value | None:
    """One element of each line of zeros."""
    if mode not in ("add", "set") or idx.spec.shape[axis] != 1 or not _is_zeros(x):
        return None
    if not _like(x, idx, axis) or x.spec.shape[axis] < 2:
        return None
    return w.where(_met(w, x, idx, axis), updates, w.number(0, x))


def _like(x: Value, idx: Value, axis: int) -> bool:
    sides = zip(x.spec.shape, idx.spec.shape)
    return all(m == n or i == axis for i, (m, n) in enumerate(sides))


def _met(w: _Writer, x: Value, idx: Value, axis: int) -> Value:
    """Whether an element's place along ``axis`` is its line's index, which is checked."""
    shape = x.spec.shape
    n = shape[axis]
    key = idx, n
    found = w.checks.get(key)
    if found is None:
        found = w.checks[key] = w.wrap_index(idx, size=n)
        w.checks[found.node] = w.node.primitive.name, f"axis {axis} of {shape}"
    small = np.dtype("int32" if n < limits.INDEX32_BELOW else "int64")
    place = w.iota(shape=shape, axis=axis, start=0, step=1, dtype=small, device="cpu")
    return w.equal(place, w.astype(found, dtype=small))


def _computed_in_lines(x: Value, axis: int) -> bool:
    """Whether a loop over the lines computes ``x`` from what is one number a line."""
    n = x.spec.shape[axis]
    if n <= limits.LINES_SHORT:
        return True
    node = x.node
    if node is None or n > limits.LINES_LONG:
        return False
    rank = len(x.spec.shape)
    return any(len(v.spec.shape) == rank and v.spec.shape[axis] == 1 for v in node.inputs)


def _is_zeros(x: Value) -> bool:
    node = x.node
    if node is None:
        return False
    if node.primitive.name == "full":
        return bool(node.params["value"] == 0)
    if node.primitive.name == "broadcast_to":
        (value,) = node.inputs
        return value.constant is not None and foldable(value) and not value.array.any()
    return False


def _kept(x: Value, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([n for i, n in enumerate(x.spec.shape) if i not in axes])


# complex numbers by their parts ------------------------------------------------------------------


def _parts(w: _Writer, x: Value) -> tuple[Value, Value]:
    """The real and the imaginary part; those of a view are views of parts, which others share."""
    found = w.known_parts.get(x)
    if found is None:
        node = x.node
        if node is not None and node.primitive.name in ("transpose", "reshape", "broadcast_to"):
            over = [w.rewriter.add(node.primitive, part, line=w.line, **node.params)
                    for part in _parts(w, node.inputs[0])]  # fmt: skip
            found = over[0], over[1]
        elif node is not None and node.primitive.name == "conj":
            found = w.part(node.inputs[0], turn=0), w.part(node.inputs[0], turn=3)
        else:
            found = w.part(x, turn=0), w.part(x, turn=1)
        w.known_parts[x] = found
    return found


def _linear(w: _Writer, x: Value, **params: Any) -> Value:
    """A linear function with real coefficients."""
    real, imaginary = [getattr(w, w.node.primitive.name)(p, **params) for p in _parts(w, x)]
    return w.complex(real, imaginary)


def _bilinear(w: _Writer, x: Value, y: Value, **params: Any) -> Value:
    """A product of some kind: four of real numbers."""
    (a, b), (c, d) = _parts(w, x), _parts(w, y)
    product = getattr(w, w.node.primitive.name)
    real = w.subtract(product(a, c, **params), product(b, d, **params))
    return w.complex(real, w.add(product(a, d, **params), product(b, c, **params)))


_BY_PARTS: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(("matmul", "conv", "conv_input_grad", "conv_weight_grad"), _bilinear),
    **dict.fromkeys(("window_sum", "window_sum_transpose", "cumsum"), _linear),
}


# divisors of integers ---------------------------------------------------------------------------


def _division(w: _Writer, x: Value, y: Value) -> Value | None:
    """A division whose divisor is looked at before, unless it is known not to be 0."""
    if y.spec.dtype not in INTEGRAL or not x.spec.size * y.spec.size or _never_zero(y):
        return None
    found = w.checks.get(y)
    if found is None:
        found = w.checks[y] = w.divisor(y)
    return w.rewriter.add(w.node.primitive, x, found, line=w.line)  # type: ignore[no-any-return]


def _never_zero(value: Value) -> bool:
    """Whether no element is 0, whatever the inputs."""
    if value.constant is not None:
        return foldable(value) and bool(value.array.all())
    node = value.node
    if node is None:
        return False
    name = node.primitive.name
    if name == "full":
        return bool(node.params["value"])
    return name == "divisor" or (name in VIEWS and _never_zero(node.inputs[0]))


@cache
def _rules() -> dict[str, Callable[..., Value | None]]:
    return {
        "concatenate": _concatenate,
        "pad": _pad,
        "take_along_axis": _take_along,
        "scatter_along_axis": _scatter_along,
        **dict.fromkeys(("floor_divide", "remainder", "fmod"), _division),
    }
