"""``python -m fx.testing.native [name ...]``: which primitives jit compiles, dtype by dtype.

A primitive of a compiled function is native code, its own or that of its formula, or a *Python
step*: the function is cut there, and the primitive's eager kernel runs between two native calls.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable

import numpy as np

from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule
from fx.compiler.step import PythonStep
from fx.dtypes import FLOATING, bfloat16, bool_, complex64, float16, float32, float64
from fx.errors import FxError
from fx.graph.manager import optimize
from fx.graph.printing import subgraphs
from fx.graph.staging import stage
from fx.primitive import Primitive
from fx.prims.sampling import Sample
from fx.spec import TensorSpec
from fx.testing.case import as_tuple, cast, draw
from fx.testing.laws import all_primitives, primitive

DTYPES = (float64, float32, bfloat16, float16, complex64, np.dtype("int32"), bool_)


def has_python_step(one: Primitive, sample: Sample, dtype: np.dtype) -> bool | None:
    """Whether a compiled call of a primitive has a Python step.

    Args:
        one: the primitive.
        sample: arguments for it.
        dtype: what its floating arguments are cast to.

    Returns:
        None if it takes no arguments of that dtype.
    """
    with np.errstate(invalid="ignore"):
        given = cast(sample, dtype)
    specs = [TensorSpec(a.shape, a.dtype) for a in given.args]
    try:
        graph, _ = stage(lambda *xs: as_tuple(one(*xs, **given.params)), specs, one.name)
    except FxError:
        return None
    if any(not v.spec.size for v in (*graph.inputs, *graph.outputs)):
        return False  # nothing is computed
    return any(isinstance(step, PythonStep) for step in schedule(optimize(graph), this_cpu()).steps)


def python_steps(one: Primitive, examples: int = 4) -> dict[str, bool]:
    """By dtype whether any of some calls of a primitive has a Python step.

    One whose arguments are all integers or bool, or that runs graphs, which are of one dtype, has
    the key ``"as drawn"`` alone.

    Example:
        >>> import fx.testing
        >>> from fx.testing.native import python_steps
        >>> python_steps(fx.testing.primitive("tanh"))["float32"]
        False
    """
    samples = [draw(one, random.Random(seed)) for seed in range(examples)]
    typed = any(a.dtype in FLOATING for sample in samples for a in sample.args)
    if not typed or any(subgraphs(sample.params) for sample in samples):
        return {"as drawn": any(has_python_step(one, sample, float64) for sample in samples)}
    found = {}
    for dtype in DTYPES:
        asked = [has_python_step(one, sample, dtype) for sample in samples]
        if None not in asked:
            found[dtype.name] = any(asked)
    return found


def table(names: Iterable[str] = ()) -> str:
    """A line a primitive: the dtypes that are native, and those that are Python steps."""
    lines = []
    for one in [primitive(name) for name in names] or all_primitives().values():
        found = python_steps(one)
        for python in (False, True):
            dtypes = [dtype for dtype, step in found.items() if step == python]
            if dtypes:
                kind = "Python step" if python else "native"
                lines.append(f"{one.name:24} {kind:12} {', '.join(dtypes)}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(sys.argv[1:]))
