"""Eager kernels of the primitives of ``fx/prims/linalg`` on NumPy arrays, by their plans."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from fx.backends.cpu._arrays import HALVES, contiguous
from fx.backends.cpu.lapack import door, plans
from fx.backends.cpu.lapack.plans import PLANS, Plan
from fx.backends.cpu.llvm import any_size
from fx.backends.cpu.llvm.failures import UNSOLVED, failed
from fx.dtypes import INEXACT, float32, int64
from fx.spec import TensorSpec

_MOST = 64  # chunks that have scratch memory of their own
Runner = Callable[[list[np.ndarray]], Any]


def kernel_of(primitive: Any) -> Callable[..., Any]:
    """The kernel of a primitive: stacks in, arrays of its spec out."""
    name, spec = primitive.name, primitive.spec

    def kernel(*arrays: np.ndarray, **params: Any) -> Any:
        key = tuple([(a.shape, a.dtype) for a in arrays])
        run = _runner(name, spec, kernel, key, tuple(params.items()))
        return run([contiguous(a) for a in arrays])

    return kernel


@lru_cache(1024)
def _runner(
    name: str,
    spec: Callable[..., Any],
    kernel: Callable[..., Any],
    given: tuple[Any, ...],
    items: tuple[tuple[str, Any], ...],
) -> Runner:
    """What runs a primitive on arrays of these shapes and dtypes."""
    params = dict(items)
    specs = [TensorSpec(*one) for one in given]
    outs = spec(*specs, **params)
    if any(s.dtype in HALVES for s in specs):
        return _in_float32(kernel, params, outs)
    if not all(s.size for s in specs):
        return lambda arrays: _of_nothing(name, outs)
    return _running(PLANS[name](*specs, **params), outs)


def _running(plan: Plan, outs: Any) -> Runner:
    run = any_size.kernel(plan.group, plan.name, plan.char)
    chunk = any_size.chunk_of(plan.tasks, plan.price)
    if plan.room and chunk:
        chunk = max(chunk, -(-plan.tasks // _MOST))
    known = {"room": plan.room, "chunk": chunk or plan.tasks}
    words = [plan.tasks, chunk, *[_word(w, known) for w in plan.words]]
    areas = [(i, plan.area(w[1])) for i, w in enumerate(plan.words, 2) if _is(w, "scratch")]
    block = [np.zeros(1, np.uint8), 16 * plan.room * -(-plan.tasks // (chunk or plan.tasks))]
    reads = [(i, w[1]) for i, w in enumerate(plan.words, 2) if _is(w, "read")]
    writes = [(i, w[1]) for i, w in enumerate(plan.words, 2) if _is(w, "write")]
    multiple = isinstance(outs, tuple)
    shapes = [[np.zeros(1, s.dtype), *s.shape] for s in (outs if multiple else (outs,))]

    def runner(arrays: list[np.ndarray]) -> Any:
        made = [any_size.empty(shape) for shape in shapes]
        given = words.copy()
        for i, number in reads:
            given[i] = arrays[number]
        for i, number in writes:
            given[i] = made[number]
        if areas:
            memory = any_size.empty(block)
            for i, start in areas:
                given[i] = memory[start:]
        run(given)
        return tuple(made) if multiple else made[0]

    return runner


def _in_one_go(name: str) -> Callable[..., np.ndarray | None]:
    """The kernel of a fused function of matrices of one shape; None where it is several steps."""
    plan = getattr(plans, name)

    @lru_cache(1024)
    def runner(count: int, shape: tuple[int, ...], dtype: np.dtype) -> Runner | None:
        spec = TensorSpec(shape, dtype)
        found = plan(*[spec] * count)
        return None if found is None else _running(found, spec)

    def kernel(*arrays: np.ndarray) -> np.ndarray | None:
        first = arrays[0]
        if first.dtype.char not in "fd" or first.dtype != arrays[-1].dtype or not first.size:
            return None
        run = runner(len(arrays), first.shape, first.dtype)
        return None if run is None else run([contiguous(a) for a in arrays])

    return kernel


cholesky_pulled = _in_one_go("cholesky_pulled")
cofactors = _in_one_go("cofactors")
inverse_transposed = _in_one_go("inverse_transposed")


def _is(word: Any, kind: str) -> bool:
    return isinstance(word, tuple) and word[0] == kind


def _word(word: Any, known: dict[str, int]) -> Any:
    """What a kernel is given; None for arrays, which come with a call."""
    if _is(word, "routine"):
        return door.address(*word[1:])
    if _is(word, "threads"):
        return door.threads()
    if isinstance(word, tuple) and word[0] in known:
        return known[word[0]]
    if isinstance(word, tuple):
        return None
    return word if isinstance(word, float) else int(word)


def _in_float32(kernel: Callable[..., Any], params: dict[str, Any], outs: Any) -> Runner:
    """Narrow floats are computed in float32."""

    def runner(arrays: list[np.ndarray]) -> Any:
        wide = [a.astype(float32) if a.dtype in HALVES else a for a in arrays]
        found = kernel(*wide, **params)
        if not isinstance(outs, tuple):
            return found.astype(outs.dtype)
        return tuple([x.astype(s.dtype) for x, s in zip(found, outs, strict=True)])

    return runner


def _of_nothing(name: str, outs: Any) -> Any:
    """What comes of matrices without elements: identities where any matrix is left."""
    made = []
    for i, spec in enumerate(outs if isinstance(outs, tuple) else (outs,)):
        out = np.zeros(spec.shape, spec.dtype)
        if name in ("det", "slogdet"):
            out[...] = i == 0
        elif name in ("lu", "order_of") and spec.dtype == int64:  # the order of rows
            out[...] = np.arange(out.shape[-1])
        elif out.size and spec.dtype in INEXACT:
            out[...] = np.eye(*spec.shape[-2:])
        made.append(out)
    return tuple(made) if isinstance(outs, tuple) else made[0]


def verified(x: np.ndarray, info: np.ndarray, *, words: tuple[str, str]) -> np.ndarray:
    """``x`` itself, where every ``info`` is 0.

    Raises:
        LinAlgError: with the first of the words and the number, or, of a stack, with the second and
            the place in it.
    """
    if info.any():
        first = int(np.flatnonzero(info)[0])
        raise failed(UNSOLVED, words[info.ndim > 0], first if info.ndim else int(info))
    return x
