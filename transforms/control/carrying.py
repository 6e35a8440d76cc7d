"""What loops share: a carry that keeps its structure and specs, and the scan of flat tensors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from fx import tree
from fx.config import modes
from fx.ops.convert import as_tensor
from fx.prims.creation import zeros_like_spec
from fx.prims.shape import concatenate, reshape
from fx.prims.shape import slice as slice_prim
from fx.random.lanes import Replay
from fx.tensor import Tensor
from fx.transforms.control import scan_primitive
from fx.transforms.control.bodies import carried, hold, stage_body
from fx.transforms.control.graphs import specs_of
from fx.transforms.control.leaves import adopted, as_leaf, cast, check_carry, flat, is_weak
from fx.transforms.control.rows import stack, unstack

Tensors = list[Tensor]
Step = Callable[[Tensors, Tensors], tuple[Tensors, Tensors]]


class Adopt(Exception):
    """A Python number among the carry has taken another dtype: the step has to run again."""


class Carry:
    """The carry of a loop.

    Args:
        what: the loop, for messages.
        function: the body, for messages.
        init: the pytree that it starts as.
    """

    def __init__(self, what: str, function: Callable[..., Any], init: Any) -> None:
        self.what, self.function = what, function
        self.firsts = tree.leaves(init)
        self.leaves, self.treedef, self.weak = flat(init, f"{what}: a leaf of the carry")

    def tree(self, leaves: Sequence[Tensor]) -> Any:
        """The pytree of leaves."""
        return tree.unflatten(self.treedef, leaves)

    def returned(self, before: Sequence[Tensor], out: Any) -> Tensors:
        """The leaves of what the body returned.

        Raises:
            Adopt: if a Python number has to take another dtype.
            TreeError, ShapeError, DTypeError: if it differs from what went in.
        """
        leaves, treedef = tree.flatten(out)
        after = [x if type(x) is Tensor else as_leaf(x, f"{self.what}: a carry") for x in leaves]
        if treedef == self.treedef:
            if all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(before, after)):
                return after
            if True in self.weak:
                found = [
                    adopted(first, weak, a, b)
                    for first, weak, a, b in zip(self.firsts, self.weak, before, after)
                ]
                weak_out = [is_weak(x) for x in leaves]
                if any(f is not None for f in found):
                    for i, dtype in enumerate(found):
                        if dtype is not None:
                            self.leaves[i] = as_tensor(self.firsts[i], dtype=dtype)
                            self.weak[i] = False
                    raise Adopt
                after = [cast(b, a.dtype) if w else b for a, b, w in zip(before, after, weak_out)]
        check_carry(self.what, self.function, before, self.treedef, after, treedef)
        return after


@contextmanager
def trial() -> Generator[Callable[[], Any], None, None]:
    """A block whose first step may run twice: ``again()`` undoes what it did to cells."""
    draws = Replay()
    before = modes.journal
    modes.journal = journal = []

    def again() -> None:
        for cell, value in reversed(journal):
            if value is not None and cell not in draws.cells:
                cell.value = value
        journal.clear()

    try:
        again.draws = draws  # type: ignore[attr-defined]
        yield again
    finally:
        modes.journal = before
        if before is not None:
            before.extend(journal)


def first_step(carry: Carry, run: Callable[[], Any]) -> Any:
    """The first step, once more where a number of the carry took another dtype."""
    if True not in carry.weak:
        return run()
    with trial() as again:
        while True:
            try:
                with again.draws:  # type: ignore[attr-defined]
                    return run()
            except Adopt:
                again()


def staged(carry: Carry, run: Callable[[], Any]) -> Any:
    """What ``run`` stages, once more where a number of the carry took another dtype."""
    while True:
        try:
            return run()
        except Adopt:
            continue


# the scan of flat tensors -------------------------------------------------------------------------


def loop(carry: Carry, step: Step, rows: Tensors, length: int, reverse: bool) -> Any:
    """A Python loop: the last carry, and the rows that came out, stacked."""
    if not length:
        return _nothing(carry, step, rows)
    columns = [unstack(x, axis=0) for x in rows]
    order = range(length - 1, -1, -1) if reverse else range(length)
    out: list[Tensors] = []
    now: Tensors = []
    for i in order:
        xs = [c[i] for c in columns]
        if out:
            now, ys = step(now, xs)
        else:
            now, ys = first_step(carry, lambda xs=xs: step(carry.leaves, xs))  # type: ignore[misc]
        out.append(ys)
    if reverse:
        out.reverse()
    return now, [stack(*column, axis=0) for column in zip(*out)]


def _nothing(carry: Carry, step: Step, rows: Tensors) -> Any:
    """No run at all: the rows that would come out are learnt by staging one."""
    body = staged(carry, lambda: _stage(carry, step, rows))
    count = len(carry.leaves)
    specs = body.graph.specs[count : len(body.graph.outputs) - len(body.cells)]
    ys = [zeros_like_spec(s.with_(shape=(0, *s.shape))) for s in specs]
    return carry.leaves, ys


def _stage(carry: Carry, step: Step, rows: Tensors) -> Any:
    count = len(carry.leaves)
    inner = [x.spec.with_(shape=x.shape[1:]) for x in rows]

    def run(*xs: Tensor) -> Tensors:
        now, ys = step(list(xs[:count]), list(xs[count:]))
        return [*now, *ys]

    return stage_body(run, [*specs_of(carry.leaves), *inner], f"the body of {carry.what}")


def bind(
    carry: Carry, step: Step, rows: Tensors, length: int, reverse: bool, checkpoint: bool
) -> Any:
    """One ``scan`` of the staged body: the last carry, and the rows that came out."""
    if not length:
        return _nothing(carry, step, rows)
    body = staged(carry, lambda: _stage(carry, step, rows))
    count = len(carry.leaves)
    graph, held, rest = carried(body, count, len(rows))
    found = scan_primitive.scan(
        *carry.leaves, *held, *rows, *rest, body=graph, carries=count + len(held),
        mapped=len(rows), length=length, reverse=reverse, checkpoint=checkpoint,
    )  # fmt: skip
    end = count + len(held)
    hold(body.cells, found[count:end])
    return list(found[:count]), list(found[end:])


def bind_unrolled(
    carry: Carry, step: Step, rows: Tensors, length: int, reverse: bool, checkpoint: bool, by: int
) -> Any:
    """The same with ``by`` steps in each run of the body, and the rest after or before it."""
    whole = length - length % by
    body_rows = [_part(x, 0, whole) for x in rows]
    body_rows = [reshape(x, shape=(whole // by, by, *x.shape[1:])) for x in body_rows]
    tail = [_part(x, whole, length) for x in rows]

    def steps(now: Tensors, xs: Tensors) -> tuple[Tensors, Tensors]:
        return several(now, xs, by)

    def several(now: Tensors, xs: Tensors, count: int) -> tuple[Tensors, Tensors]:
        columns = [unstack(x, axis=0) for x in xs]
        out: list[Tensors] = []
        for i in range(count - 1, -1, -1) if reverse else range(count):
            now, ys = step(now, [c[i] for c in columns])
            out.append(ys)
        if reverse:
            out.reverse()
        return now, [stack(*column, axis=0) for column in zip(*out)]

    rest = length - whole
    last: Tensors = []
    if rest and reverse:
        now, last = staged(carry, lambda: several(carry.leaves, tail, rest))
        carry.leaves = now
    now, ys = bind(carry, steps, body_rows, whole // by, reverse, checkpoint)
    ys = [reshape(y, shape=(whole, *y.shape[2:])) for y in ys]
    if rest:
        if not reverse:
            now, last = several(now, tail, rest)
        ys = [concatenate(a, b, axis=0) for a, b in zip(ys, last)]
    return now, ys


def _part(x: Tensor, start: int, stop: int) -> Tensor:
    """Rows of a tensor."""
    zeros, ones = (0,) * (x.ndim - 1), (1,) * x.ndim
    return slice_prim(x, start=(start, *zeros), stop=(stop, *x.shape[1:]), step=ones)
