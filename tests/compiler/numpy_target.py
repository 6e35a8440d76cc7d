"""A target whose loops are NumPy's: what the compiler plans, on arrays, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.compiler.epilogue import Epilogue
from fx.compiler.nest import Nest
from fx.compiler.plan import Plan
from fx.compiler.step import PythonStep
from fx.compiler.target import Target
from fx.primitive import registry

_UFUNCS = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "any": np.logical_or, "all": np.logical_and, "loose_max": np.maximum,
}  # fmt: skip


def target(vector_bytes: int = 32) -> Target:
    """Loops compute all that is elementwise; the rest is the eager kernels'."""
    return Target(
        vector_bytes=vector_bytes,
        near=1 << 18,
        far=1 << 22,
        has_element=lambda name, *_: registry[name].kind == "elementwise",
        kernels={},
        products={},
        epilogue=Epilogue,
        loop=_loop,
        together=lambda steps, root: steps,
    )


def _loop(plan: Plan, reads: Any, writes: Any, name: str, lines: Any) -> PythonStep:
    return PythonStep(name, lambda *arrays: run(plan.nest, arrays), reads, writes, lines)


def run(nest: Nest, arrays: Any) -> list[np.ndarray]:
    """What a nest writes: all iterations of all loops at once, an axis a loop."""
    loops = [*nest.outer, *nest.rows]
    shape = tuple([nest.sizes[d] for d in loops])
    places = dict(zip(loops, np.indices(shape, sparse=True)))
    inner = tuple(range(len(nest.outer), len(loops)))
    runs: Any = np.True_
    if nest.ragged is not None:
        loop, chunk, total = nest.ragged
        runs = places[chunk] * nest.sizes[loop] + places[loop] < total

    def at(form: Any) -> Any:
        return form[0] + sum([c * places[d] for d, c in form[1]])

    values: list[np.ndarray] = []
    for e in nest.exprs:
        args = [values[a] for a in e.args]
        if e.kind == "load":
            wanted = runs & args[0] if args else runs
            found = arrays[e.data[0]].reshape(-1)[np.where(wanted, at(e.data[1]), 0)]
            if e.name:
                found = found.real if e.name == "re" else found.imag
        elif e.kind == "const":
            found = np.frombuffer(e.data, e.dtype)[0]
        elif e.kind == "index":
            found = at(e.data)
        elif e.kind == "inside":
            form, low, high = e.data
            found = (low <= at(form)) & (at(form) < high)
        elif e.kind == "reduce":
            whole, mask = np.broadcast_to(args[0], shape), np.broadcast_to(runs, shape)
            found = _UFUNCS[e.name].reduce(
                whole, inner, e.dtype, None, True, _start(e.name, e.dtype), mask
            )
        elif e.name == "complex":
            found = np.empty(np.broadcast_shapes(*[a.shape for a in args]), e.dtype)
            found.real, found.imag = args
        else:
            found = registry[e.name].cpu(*map(np.asarray, args), **dict(e.data))
        values.append(np.asarray(found, e.dtype))
    made = [np.empty(n, dtype) for dtype, n in nest.writes]
    for w, form, i in nest.outputs:
        place, value, mask = np.broadcast_arrays(at(form), values[i], runs)
        made[w][place[mask]] = value[mask]
    for w, form, i, name in nest.sinks:
        made[w][:] = _start(name, made[w].dtype)
        outer = [nest.sizes[d] for d in nest.outer]
        item = np.arange(np.prod(outer, dtype=int)).reshape(*outer, *[1] * len(nest.rows))
        columns = np.prod([nest.sizes[d] for d in nest.rows], dtype=int)
        place, value = np.broadcast_arrays(item // nest.share * columns + at(form), values[i])
        _UFUNCS[name].at(made[w], place, value)
    return made


def _start(name: str, dtype: Any) -> Any:
    """What a reduction starts from."""
    if name in ("any", "all"):
        return name == "all"
    if name in ("sum", "prod"):
        return dtype.type(name == "prod")
    if dtype.kind in "iub":
        ends = (False, True) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return ends[name == "min"]
    return dtype.type(np.inf if name == "min" else -np.inf)
