"""Laws of the spec rule and of the kernel: shapes, dtypes, precision, layout, purity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fx.devices import backend
from fx.dtypes import (
    ALL,
    FLOATING,
    INEXACT,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
)  # fmt: skip
from fx.errors import FxError, IndexingError
from fx.primitive import Primitive
from fx.prims.sampling import Sample
from fx.spec import TensorSpec
from fx.tensor import new_tensor
from fx.testing.case import (
    Arrays,
    Mismatch,
    array_of,
    as_tuple,
    call,
    cast,
    judged,
    taken_in,
    tensor,
)
from fx.testing.closeness import expect_all_close, expect_close
from fx.testing.law import Law, law

_EPS = {float32: 2.0**-23, bfloat16: 2.0**-7, float16: 2.0**-10}
Oracle = Callable[..., Any]


def _specs(primitive: Primitive, sample: Sample) -> list[TensorSpec]:
    out = primitive.spec(*[TensorSpec(a.shape, a.dtype) for a in sample.args], **sample.params)
    if isinstance(out, tuple) != primitive.multiple:
        raise Mismatch(f"multiple={primitive.multiple}, but the rule gives {out!r}")
    return list(as_tuple(out))


def _compare(specs: list[TensorSpec], arrays: Arrays) -> None:
    if len(specs) != len(arrays):
        raise Mismatch(f"{len(specs)} specs, but the kernel gives {len(arrays)} outputs")
    for i, (s, a) in enumerate(zip(specs, arrays, strict=True)):
        if not isinstance(s, TensorSpec):
            raise Mismatch(f"output {i}: got {s!r}, expected a TensorSpec")
        if s.shape != a.shape or s.dtype != a.dtype or s.device != "cpu":
            given = TensorSpec(a.shape, a.dtype)
            raise Mismatch(f"output {i}: the rule says {s!r}, the kernel gives {given!r}")


@law("spec", "spec rule = kernel (shape, dtype of every output)")
def spec_is_the_kernel(primitive: Primitive, sample: Sample) -> None:
    """In the drawn dtype and in the narrower floating ones."""
    for _, narrow in taken_in(primitive, sample, (float64, float32, bfloat16, float16)):
        _compare(_specs(primitive, narrow), call(primitive, narrow.args, narrow.params))


@law("spec", "meta device = spec of the CPU's result")
def meta_is_the_kernel(primitive: Primitive, sample: Sample) -> None:
    """Binding tensors of the ``meta`` device gives what binding real ones gives."""
    params = dict(sample.params)
    if "device" in params:
        params["device"] = "meta"
    from_numpy = backend("meta").from_numpy
    out = primitive(*[new_tensor(from_numpy(a)) for a in sample.args], **params)
    specs = [x.spec for x in as_tuple(out)]
    for s in specs:
        if s.device != "meta":
            raise Mismatch(f"a result on {s.device}, expected one on meta")
    cpu = [TensorSpec(s.shape, s.dtype) for s in specs]
    _compare(cpu, call(primitive, sample.args, sample.params))


@law("spec", "what the spec rule accepts, the kernel computes, in every dtype")
def spec_over_dtypes(primitive: Primitive, sample: Sample) -> None:
    """The floating arguments in every dtype: refused by the rule, or computed as it says."""
    floating = [a for a in sample.args if a.dtype in FLOATING]
    if not floating or any(isinstance(v, np.dtype) for v in sample.params.values()):
        return
    for dtype in ALL:
        args = [_positive(a, dtype) if a.dtype in FLOATING else a for a in sample.args]
        case = Sample(args, sample.params)
        try:
            specs = _specs(primitive, case)
        except FxError:
            continue
        try:
            _compare(specs, call(primitive, args, sample.params))
        except Exception as error:
            raise Mismatch(f"in {dtype.name}: {error}") from error


def _positive(array: np.ndarray, dtype: Any) -> np.ndarray:
    """Small numbers that every dtype holds and no kernel minds."""
    return (1 + np.arange(array.size).reshape(array.shape) % 3).astype(dtype)


@law("spec", "what the kernel refuses, the spec rule refuses")
def spec_refuses(primitive: Primitive, sample: Sample) -> None:
    """Arguments with an axis more or less, or longer: otherwise meta and jit would accept them."""
    for i, a in enumerate(sample.args):
        for what, changed in _other_shapes(a).items():
            args = [changed if k == i else b for k, b in enumerate(sample.args)]
            case = Sample(args, sample.params)
            try:
                specs = _specs(primitive, case)
            except FxError:
                continue
            try:
                got = call(primitive, args, sample.params)
            except IndexingError:  # it depends on the values
                continue
            except Exception as error:
                raise Mismatch(f"argument {i} with {what}: {specs}, but {error}") from error
            _compare(specs, got)


def _other_shapes(a: np.ndarray) -> dict[str, np.ndarray]:
    out = {"an axis more": np.stack([a, a], axis=-1)}
    if a.ndim:
        out["a longer axis"] = np.concatenate([a, a])
        out["another longer axis"] = np.concatenate([a, a], axis=-1)
        out["no element"] = a[:0]
    if a.ndim and len(a):
        out["an axis less"] = a[0]
    return out


@law("cpu", "the kernel in a narrow dtype = in float64, to rounding")
def precision(primitive: Primitive, sample: Sample) -> None:
    """float32, bfloat16 and float16 on inputs that they hold exactly; no result is lifted."""
    if not any(a.dtype in FLOATING for a in sample.args):
        return
    for dtype, narrow in taken_in(primitive, sample, _EPS):
        eps = _EPS[dtype]
        wide = cast(narrow, float64)
        got, want = judged(primitive, narrow), judged(primitive, wide)
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            expected = {float64: dtype, complex128: complex64}.get(w.dtype, w.dtype)
            if g.dtype != expected:
                raise Mismatch(f"{dtype.name}: output {i} is {g.dtype}, expected {expected}")
            if w.dtype in INEXACT:
                size = max([1.0, *[float(np.abs(x).max(initial=0)) for x in wide.args]])
                expect_close(g, w, 16 * eps * size, f"{dtype.name}, output {i}")


@law("cpu", "the kernel leaves its inputs alone and gives the same again")
def purity(primitive: Primitive, sample: Sample) -> None:
    """Inputs are unchanged after a call, read-only ones are accepted, and a second call agrees."""
    args = [a.copy() for a in sample.args]
    first = [a.copy() for a in call(primitive, args, sample.params)]
    for i, (a, b) in enumerate(zip(args, sample.args, strict=True)):
        if not np.array_equal(a, b, equal_nan=a.dtype in FLOATING):
            raise Mismatch(f"the kernel wrote into argument {i}")
    for a in args:
        a.flags.writeable = False
    expect_all_close(call(primitive, args, sample.params), first, 0.0, "a second, read-only call")


@law("cpu", "the kernel gives the same for every memory layout")
def layout(primitive: Primitive, sample: Sample) -> None:
    """Fortran order, negative strides, strides with gaps, and a view of something larger."""
    want = call(primitive, sample.args, sample.params)
    for name, lay in _LAYOUTS.items():
        args = [lay(a) for a in sample.args]
        got = call(primitive, args, sample.params)
        expect_all_close(got, want, 1e-13, f"arguments {name}")


def _negative(a: np.ndarray) -> np.ndarray:
    back = np.flip(a).copy()
    return np.flip(back)


def _gaps(a: np.ndarray) -> np.ndarray:
    out = np.zeros([2 * n + 1 for n in a.shape], a.dtype)
    view = out[tuple(slice(1, 2 * n, 2) for n in a.shape)] if a.ndim else out
    view[...] = a
    return view


_LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "in Fortran order": lambda a: np.array(a, order="F"),
    "with negative strides": _negative,
    "with gaps": _gaps,
}


def against_oracle(oracle: Oracle, tolerance: float = 1e-12) -> Law:
    """The law that the kernel equals a reference function in float64.

    Args:
        oracle: ``(*arrays, **params) -> array`` or a tuple of arrays, written independently.
        tolerance: relative.

    Example:
        >>> import math, random
        >>> import numpy as np
        >>> import fx.testing
        >>> tanh = fx.testing.primitive("tanh")
        >>> right = fx.testing.against_oracle(np.vectorize(math.tanh))
        >>> right(tanh, fx.testing.draw(tanh, random.Random(0)))
    """

    def oracle_is_the_kernel(primitive: Primitive, sample: Sample) -> None:
        def reference(*xs: Any, **params: Any) -> Any:
            out = oracle(*map(array_of, xs), **params)
            return tuple(map(tensor, out)) if isinstance(out, tuple) else tensor(out)

        got, want = judged(primitive, sample), judged(reference, sample)
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            exact = g.dtype not in INEXACT
            expect_close(g, w.astype(g.dtype) if exact else w, tolerance, f"output {i}")

    name = "oracle_is_the_kernel"
    return Law(name, "cpu", "kernel = reference function", oracle_is_the_kernel, False)
