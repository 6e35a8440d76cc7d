"""The law of ``jit``: what is compiled computes what the kernel computes.

It stands apart from the other laws, since every sample costs a compilation.
"""

from __future__ import annotations

import warnings

import numpy as np

from fx import limits
from fx.dtypes import FLOATING, bfloat16, complex64, float16, float32, float64
from fx.primitive import Primitive
from fx.prims.sampling import Sample
from fx.testing.case import Mismatch, array_of, as_tuple, call, cast, taken_in, tensor
from fx.testing.closeness import expect_close
from fx.testing.law import Law
from fx.transforms import jit

# relative to an element and to the largest: a few units in the last place of a sum
TOLERANCE = {
    float64: 1e-12, np.dtype("complex128"): 1e-12, float32: 4e-6, complex64: 4e-6,
    float16: 2.0**-10, bfloat16: 2.0**-7,
}  # fmt: skip


DTYPES = (float64, float32, bfloat16, float16)


def _check(primitive: Primitive, sample: Sample) -> None:
    for dtype, _ in taken_in(primitive, sample, DTYPES):
        compiled_in(primitive, sample, dtype)
        if not any(a.dtype in FLOATING for a in sample.args):
            return


def compiled_in(primitive: Primitive, sample: Sample, dtype: np.dtype) -> None:
    """The law for a sample whose floating arguments are of one dtype.

    Raises:
        Mismatch: where it does not hold.
    """
    given = cast(sample, dtype)
    with limits.normal():  # else a kernel that is wrong under the others is its own reference
        want = call(primitive, given.args, given.params)
    compiled = jit(lambda *xs: primitive(*xs, **given.params))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what runs uncompiled says so
        for turn in ("first", "second"):
            got = [array_of(x) for x in as_tuple(compiled(*map(tensor, given.args)))]
            for i, (g, w) in enumerate(zip(got, want, strict=True)):
                what = f"{dtype.name}, {turn} call, output {i}"
                if g.dtype != w.dtype:
                    raise Mismatch(f"{what}: {g.dtype.name}, expected {w.dtype.name}")
                expect_close(g, w, TOLERANCE.get(w.dtype, 0.0), what)


compiled_is_the_kernel = Law(
    "compiled_is_the_kernel", "cpu", "jit(f) = f, in every floating dtype", _check, False
)
