"""Runs a whole schedule step by step on NumPy arrays, next to the interpreter of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

import fx
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule
from fx.compiler.step import PythonStep, Schedule
from fx.graph.ir import Graph
from fx.tensor import new_tensor
from tests.backends.llvm.run_step import compile_step

_compiled: dict[Any, Any] = {}  # by the key of a step, as the driver shares code


def run_schedule(plan: Schedule, *arrays: np.ndarray, pieces: int = 1) -> list[np.ndarray]:
    """The outputs of a schedule; each kernel gets its tasks in ``pieces`` ranges."""
    env: dict[Any, np.ndarray] = dict(zip(plan.graph.inputs, arrays))
    env |= {v: v.array for v in plan.graph.constants()}

    def get(value: Any) -> np.ndarray:
        found = plan.root(value)
        array = found.array if found.constant is not None else env[found]
        return np.ascontiguousarray(array).reshape(value.spec.shape)

    for step in plan.steps:
        reads = [get(v) for v in step.reads]
        if isinstance(step, PythonStep):
            results = step.run(*reads)
        else:
            key = step.key, tuple([v.spec.size for v in step.reads])
            if key not in _compiled:
                _compiled[key] = compile_step(step), step
            run, first = _compiled[key]
            reads = [a.reshape(v.spec.shape) for a, v in zip(reads, first.reads, strict=True)]
            results = run(*reads, pieces=min(pieces, step.tasks))
            if step.inplace:
                again = run(*reads, pieces=min(pieces, step.tasks), inplace=True)
                for mine, other in zip(results, again, strict=True):
                    assert mine.tobytes() == other.tobytes(), f"{step.name}, written in place"
        for value, result in zip(step.writes, results, strict=True):
            assert value not in env, f"{step.name} writes a value that is there already"
            env[value] = np.asarray(result).reshape(value.spec.shape)
            assert env[value].dtype == value.spec.dtype
    return [get(v) for v in plan.graph.outputs]


def staged(function: Any, *arrays: np.ndarray) -> Graph:
    """The graph of a function for arrays like these."""
    return fx.make_graph(function)(*[new_tensor(a) for a in arrays])


def check(graph: Graph, *arrays: np.ndarray, tolerance: float = 1e-5, pieces: int = 1) -> Schedule:
    """Compare a schedule with the interpreter; the schedule."""
    arrays = (
        *arrays, *[np.ones(v.spec.shape, v.spec.dtype) for v in graph.inputs[len(arrays) :]]
    )  # fmt: skip
    plan = schedule(graph, this_cpu())
    got = run_schedule(plan, *arrays, pieces=pieces)
    want = graph.run(*[new_tensor(a) for a in arrays])
    for mine, tensor in zip(got, want, strict=True):
        close(mine, tensor._a, tolerance)
    return plan


def close(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    """Equal to rounding: relative to the largest finite element, or exactly for integers."""
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    size = np.abs(want[np.isfinite(want)]).max(initial=1.0)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * size)
