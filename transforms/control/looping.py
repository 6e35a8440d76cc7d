"""``while_loop`` and ``fori_loop``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx import tree
from fx.config import modes
from fx.dtypes import INTEGRAL, bool_, promote_types
from fx.errors import DTypeError, ShapeError, StagingError
from fx.frames import user_line
from fx.graph.ir import Graph, input_value
from fx.prims.creation import constant, constant_like
from fx.tensor import Tensor
from fx.transforms.control import while_primitive
from fx.transforms.control.bodies import Body, carried, hold, stage_body
from fx.transforms.control.carrying import Carry, Tensors, bind, first_step, loop, staged
from fx.transforms.control.graphs import specs_of
from fx.transforms.control.leaves import (
    as_leaf,
    cast,
    check_callable,
    described,
    is_concrete,
)

_NOTHING = object()


def _begin(name: str, init: Any, init_val: Any) -> Any:
    """What a loop begins with, by either name."""
    if (init is _NOTHING) is (init_val is _NOTHING):
        raise TypeError(f"{name} takes what it begins with once; write {name}(..., init)")
    return init_val if init is _NOTHING else init


def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init: Any = _NOTHING,
    *,
    init_val: Any = _NOTHING,
) -> Any:
    """``while cond_fun(value): value = body_fun(value)``.

    Where the condition has a value that Python can ask for, this is a Python loop. Inside ``jit``
    it is one operation; going back through that keeps at most 1024 carries, and computes those
    between them again, so a ``fx.fori_loop`` or ``fx.scan`` of a known length goes back in fewer
    runs. Under ``vmap`` it runs until every lane has ended, and lanes that have stay as they are.

    Args:
        cond_fun: takes the value and returns a bool ().
        body_fun: takes the value and returns the next, of the same structure, shapes and dtypes.
        init: the value at the start. A Python number takes the dtype that ``body_fun`` returns.
        init_val: JAX's word for ``init``.

    Raises:
        DTypeError: if the condition is not bool.
        TreeError, ShapeError, DTypeError: if ``body_fun`` returns another value than it takes.

    Source: ``jax.lax.while_loop``.

    Example:
        >>> import fx
        >>> halve = lambda x: fx.while_loop(lambda x: x > 1, lambda x: x / 2, x)
        >>> fx.vmap(halve)(fx.tensor([0.5, 12.0, 5.0]))
        tensor([0.5000, 0.7500, 0.6250])
    """
    init = _begin("while_loop", init, init_val)
    check_callable(cond_fun, "while_loop", "cond_fun")
    check_callable(body_fun, "while_loop", "body_fun")
    carry = Carry("while_loop", body_fun, init)

    def condition(now: Tensors) -> Tensor:
        return _holds(cond_fun, cond_fun(carry.tree(now)))

    def step(now: Tensors) -> Tensors:
        return carry.returned(now, body_fun(carry.tree(now)))

    return carry.tree(_repeat(carry, condition, step))


def _repeat(
    carry: Carry, condition: Callable[[Tensors], Tensor], step: Callable[[Tensors], Tensors]
) -> Tensors:
    """A Python loop as long as the condition is concrete, and the primitive from there on."""
    first = True
    while modes.stage is None:
        holds = condition(carry.leaves)
        if not is_concrete(holds):
            break
        if not bool(holds):
            return carry.leaves
        if first:
            carry.leaves = first_step(carry, lambda: step(carry.leaves))
            carry.weak = [False] * len(carry.weak)
            first = False
        else:
            carry.leaves = step(carry.leaves)
    return _bind(carry, condition, step)


def _bind(carry: Carry, condition: Any, step: Any) -> Tensors:
    name, count = f"the body of {carry.what}", len(carry.leaves)
    body = staged(
        carry, lambda: stage_body(lambda *xs: step(list(xs)), specs_of(carry.leaves), name)
    )
    test = stage_body(
        lambda *xs: [condition(list(xs))],
        specs_of(carry.leaves),
        f"the condition of {carry.what}",
    )
    if test.cells:
        raise StagingError(
            f"{test.cells[0].name or 'a cell'} is rebound inside the condition of {carry.what}; "
            f"rebind it in the body"
        )
    graph, held, rest = carried(body, count, 0)
    asked, read = _asked(test, body.cells, count)
    found = while_primitive.while_(
        *carry.leaves, *held, *read, *rest, condition=asked, body=graph,
        carries=count + len(held), read=len(read),
    )  # fmt: skip
    hold(body.cells, found[count:])
    return list(found[:count])


def _asked(test: Body, cells: list[Any], count: int) -> tuple[Graph, Tensors]:
    """The condition with the cells that the body rebinds behind the carry; what else it reads."""
    graph = test.graph
    own = [test.inputs.get(id(cell)) for cell in cells]
    held = [input_value(c.read().spec) if v is None else v for c, v in zip(cells, own)]
    rest = [(v, x) for v, x in zip(graph.inputs[count:], test.captured) if v not in held]
    inputs = [*graph.inputs[:count], *held, *[v for v, _ in rest]]
    return Graph(inputs, graph.nodes, graph.outputs, graph.name), [x for _, x in rest]


def _holds(cond_fun: Callable[..., Any], out: Any) -> Tensor:
    leaves = tree.leaves(out)
    got = f"{len(leaves)} values"
    if len(leaves) == 1 and (leaves[0] is out):
        x = as_leaf(out, "while_loop: the condition")
        if x.dtype == bool_ and x.shape == ():
            return x
        got = repr(x.spec)
        kind: Any = DTypeError if x.dtype != bool_ else ShapeError
    else:
        kind = DTypeError
    raise kind(
        f"while_loop: {described(cond_fun)} must return one bool, got {got}; compare the value, "
        f"x != 0, and reduce it with .any() or .all() (called at {user_line()})"
    )


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init: Any = _NOTHING,
    *,
    init_val: Any = _NOTHING,
    unroll: Any = None,
) -> Any:
    """``for i in range(lower, upper): value = body_fun(i, value)``.

    With bounds that are known it is a ``fx.scan`` and can be differentiated both ways; with bounds
    that are not, inside ``jit`` or where they differ between lanes, a ``fx.while_loop``.

    Args:
        lower: an int, or an integer tensor ().
        upper: the same; not reached.
        body_fun: takes the counter, an integer tensor (), and the value; returns the next value.
        init: the value at the start. A Python number takes the dtype that ``body_fun`` returns.
        init_val: JAX's word for ``init``.
        unroll: accepted for JAX's sake.

    Raises:
        DTypeError: if a bound is not an integer.
        TreeError, ShapeError, DTypeError: if ``body_fun`` returns another value than it takes.

    Source: ``jax.lax.fori_loop``.

    Example:
        >>> import fx
        >>> fx.grad(lambda x: fx.fori_loop(0, 3, lambda i, y: y * x, 1.0))(fx.tensor(2.0))
        tensor(12.)
    """
    init = _begin("fori_loop", init, init_val)
    check_callable(body_fun, "fori_loop", "body_fun")
    low, high = _bound(lower, "lower"), _bound(upper, "upper")
    dtype = promote_types(low.dtype, high.dtype)
    low, high = cast(low, dtype), cast(high, dtype)
    carry = Carry("fori_loop", body_fun, init)

    def step(i: Tensor, now: Tensors) -> Tensors:
        return carry.returned(now, body_fun(i, carry.tree(now)))

    if not (is_concrete(low) and is_concrete(high)):
        return carry.tree(_while(carry, step, low, high))
    start, stop = int(low), int(high)
    if modes.stage is not None and start < stop:
        return carry.tree(_scan(carry, step, start, stop - start, dtype))
    for n in range(start, stop):
        i = constant(n, dtype)
        if n == start:
            carry.leaves = first_step(carry, lambda i=i: step(i, carry.leaves))  # type: ignore[misc]
        else:
            carry.leaves = step(i, carry.leaves)
    return carry.tree(carry.leaves)


def _bound(value: Any, name: str) -> Tensor:
    x = as_leaf(value, f"fori_loop: {name}")
    if x.dtype not in INTEGRAL:
        raise DTypeError(
            f"fori_loop: {name} must be an integer, got {x.spec!r}; write int(n) or "
            f"n.astype(fx.int64)"
        )
    if x.shape != ():
        raise ShapeError(f"fori_loop: {name} must be a scalar, got shape {x.shape}")
    return x


class _Counted(Carry):
    """The carry of a loop with counters in front."""

    def __init__(self, inner: Carry, counters: Tensors) -> None:
        self.what, self.function = inner.what, inner.function
        self.inner, self.counters = inner, counters

    @property
    def leaves(self) -> Tensors:  # type: ignore[override]
        return [*self.counters, *self.inner.leaves]

    @leaves.setter
    def leaves(self, values: Tensors) -> None:
        n = len(self.counters)
        self.counters, self.inner.leaves = values[:n], values[n:]

    @property
    def weak(self) -> list[bool]:  # type: ignore[override]
        return self.inner.weak

    @weak.setter
    def weak(self, value: list[bool]) -> None:
        self.inner.weak = value[-len(self.inner.leaves) :] if self.inner.leaves else []


def _scan(carry: Carry, step: Any, start: int, length: int, dtype: Any) -> Tensors:
    counted = _Counted(carry, [constant(start, dtype)])

    def one(now: Tensors, _: Tensors) -> tuple[Tensors, Tensors]:
        i = now[0]
        return [i + constant_like(1, i), *step(i, now[1:])], []

    if not length:
        loop(counted, one, [], 0, False)
        return carry.leaves
    return bind(counted, one, [], length, False, False)[0][1:]  # type: ignore[no-any-return]


def _while(carry: Carry, step: Any, low: Tensor, high: Tensor) -> Tensors:
    counted = _Counted(carry, [low, high])

    def condition(now: Tensors) -> Tensor:
        return now[0] < now[1]

    def one(now: Tensors) -> Tensors:
        i = now[0]
        return [i + constant_like(1, i), now[1], *step(i, now[2:])]

    return _repeat(counted, condition, one)[2:]
