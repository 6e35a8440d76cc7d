"""The step of a short way whose arrays are of another device than the CPU, in Python.

It fetches what cells and gradients hold, runs, and stores what comes out, all at once. No memory is
lent: what is there before stays as it was until the stores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import ndarray

from fx import tree
from fx.away import Away
from fx.commit import Stores
from fx.gradients import plan_gradients
from fx.graph.ir import Graph, Value
from fx.state import plan_rebinds
from fx.tensor import Tensor, new_tensor
from fx.transforms.jitting.program import Gathered, Held, Program
from fx.transforms.jitting.short.outputs import numbers_of

Step = Callable[[list[Any]], Any]


def is_elsewhere(args: Any, kwargs: Any) -> bool:
    """Whether an argument has an array of another device."""
    leaves = tree.flatten((args, kwargs))[0]
    return any(isinstance(x, Tensor) and type(x._a) is not ndarray for x in leaves)


def step_of(
    program: Program,
    graph: Graph,
    sources: dict[Value, Any],
    run: Callable[[list[Any]], list[Any]],
    count: int,
    gives: bool,
) -> Step:
    """``step(list)`` as ``fx/backends/cpu/llvm/commit`` says; ``count`` results come first."""
    assert program.root is not None and program.root.finish is not None
    finish = program.root.finish
    cells, gathered, unread = [], [], []
    for i, value in enumerate(graph.inputs):
        source, spec = sources.get(value), value.spec
        if type(source) is Held:
            cells.append((i, source.cell, spec.dtype, spec.shape))
        elif type(source) is Gathered:
            gathered.append((i, source.owner, spec.dtype, spec.shape))
    read = {id(cell()) for _, cell, *_ in cells}
    for value, source in sources.items():  # cells that are not needed, as they were when staged
        if type(source) is Held and id(source.cell()) not in read:
            unread.append((source.cell, value.spec.dtype, value.spec.shape))
    rebinds = [(cell, i) for i, (cell, _) in enumerate(finish.rebinds, count)]
    place, grads = count + len(rebinds), []
    for owner, value in finish.grads:
        grads.append((owner, None if value is None else place))
        place += value is not None
    present, numbers = list(program.gathered), numbers_of(finish, count)

    def step(given: list[Any]) -> Any:
        for i, cell, dtype, shape in cells:
            x = cell().value
            if type(x) is not Tensor:
                return None if type(x) is Away else False
            a = given[i] = x._a
            if a.dtype is not dtype or a.shape != shape:
                return False
        for cell, dtype, shape in unread:
            x = cell().value
            if type(x) is not Tensor:
                return None if type(x) is Away else False
            if x._a.dtype is not dtype or x._a.shape != shape:
                return False
        for owner, had in present:
            if (owner().leaf.grad is not None) is not had:
                return False
        for i, owner, dtype, shape in gathered:
            x = owner().leaf.grad
            if type(x) is not Tensor or x._node is not None:
                return None if type(x) is Away else False
            a = given[i] = x._a
            if a.dtype is not dtype or a.shape != shape:
                return False
        out = run(given)
        stores = Stores()
        rebound = [(cell(), new_tensor(out[i])) for cell, i in rebinds]
        now = [(owner(), None if i is None else new_tensor(out[i])) for owner, i in grads]
        if not (plan_rebinds(stores, rebound) and plan_gradients(stores, now)):
            return False
        for held, key, known, at in numbers:
            stores.put(held, key, out[at].item() if known is None else known)
        stores.call(given.__setitem__, slice(None), [out] if gives else [])
        stores.commit()
        return out

    return step
