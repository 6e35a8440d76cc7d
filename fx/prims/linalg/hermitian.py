"""Hermitian matrices, of which a factorisation reads one triangle."""

from __future__ import annotations

from typing import Any

import fx.prims.factors as factors
from fx.primitive import define
from fx.prims.linalg.stacks import adjoint, matrices, stack_shape, stacked
from fx.prims.sampling import Draw, Sample
from fx.spec import TensorSpec
from fx.tensor import Tensor


def _spec(x: TensorSpec) -> TensorSpec:
    matrices("hermitian", x)
    return x


def _halves(x: Tensor) -> Tensor:
    return (x + adjoint(x)) * 0.5


def _jvp(primals: Any, tangents: Any) -> Any:
    return hermitian(*primals), _halves(tangents[0])


def _vjp(needs: Any, x: Tensor) -> Any:
    return lambda ct: (_halves(ct),)


def _sample(d: Draw) -> Sample:
    n = d.integer(1, 4)
    along = lambda function: lambda x: function(_halves(x))  # where it is the identity
    return Sample([d.floats((*stack_shape(d), n, n))], seen=along)


# x (*B, n, n) as it is, with the derivative along Hermitian matrices: what a function of it that
# reads one triangle is differentiated by, as PyTorch and JAX do, so that gradients are Hermitian.
# Nothing is computed with the other triangle, whatever stands there.
hermitian = define(
    "hermitian", cpu=lambda x: x, weight=0, spec=_spec, formula=lambda x: x, dissolves=True,
    jvp=_jvp,
    vjp=_vjp,
    batch=stacked(lambda: hermitian),
    sample=_sample,
    sharding=factors.elementwise((0,)),
)  # fmt: skip
