"""Hermitian matrices, of which a factorisation reads one triangle."""

from __future__ import annotations

from typing import Any

from fx.prims.compare import stop_gradient
from fx.prims.fused import fuse
from fx.prims.linalg.stacks import adjoint
from fx.tensor import Tensor


def _halves(x: Tensor) -> Tensor:
    return (x + adjoint(x)) * 0.5


def _reference(x: Tensor) -> Tensor:
    half = _halves(x)
    return stop_gradient(x) + (half - stop_gradient(half))  # type: ignore[no-any-return]


def _vjp(needs: Any, x: Tensor) -> Any:
    return lambda ct: (_halves(ct),)


# x (*B, n, n) as it is, with the derivative along Hermitian matrices: what a function of it that
# reads one triangle is differentiated by, as PyTorch and JAX do, so that gradients are Hermitian
hermitian = fuse("hermitian", cpu=lambda x: x, reference=_reference, vjp=_vjp)
