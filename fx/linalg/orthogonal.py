"""The QR decomposition."""

from __future__ import annotations

from typing import Any, NamedTuple

from fx.linalg.operands import matrices
from fx.prims.linalg.orthogonal import qr as factored
from fx.tensor import Tensor

_MODES = ("reduced", "r", "complete")


class QR(NamedTuple):
    """What ``qr`` gives."""

    Q: Tensor
    R: Tensor


def qr(x: Any, /, *, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and an upper triangular R, x = Q R.

    Args:
        x: (*B, m, n).
        mode: ``"reduced"``: Q (*B, m, k), R (*B, k, n) with k = min(m, n); ``"complete"``: all m
            columns of Q, and m rows of R; ``"r"``: R as of ``"reduced"``, and in place of Q
            nothing, (0,).

    The derivative exists where the first k columns of x are linearly independent, and of
    ``"complete"`` only for m <= n.

    Raises:
        ValueError: for another mode.
        ShapeError: if ``x`` has fewer than two axes.
        DTypeError: unless it is of float32, float64 or complex numbers.
        BackwardError: when ``"complete"`` of more rows than columns is differentiated.

    Source: Python Array API standard 2024.12, ``linalg.qr``; ``torch.linalg.qr``.

    Example:
        >>> import fx
        >>> q, r = fx.linalg.qr(fx.tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> fx.abs(r).round(decimals=4)
        tensor([[5.0000, 2.2000],
                [0.0000, 0.4000]])
    """
    x = matrices("linalg.qr", x)
    if mode not in _MODES:
        raise ValueError(
            f"linalg.qr received unrecognized mode '{mode}' but expected one of 'reduced' "
            f"(default), 'r', or 'complete'"
        )
    q, r = factored(x, full=mode == "complete")
    return QR(q.reshape(-1)[:0] if mode == "r" else q, r)
