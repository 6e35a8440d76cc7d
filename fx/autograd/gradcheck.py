"""``gradcheck`` and ``gradgradcheck``: derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fx import tree
from fx.devices import backend
from fx.dtypes import COMPLEX, INEXACT
from fx.errors import BackwardError
from fx.ops.convert import as_tensor, from_array
from fx.ops.pointwise.complex_numbers import view_as_complex, view_as_real
from fx.tensor import Tensor
from fx.transforms.forward import jvp
from fx.transforms.reverse import vjp


class GradcheckError(BackwardError):
    """A derivative differs from finite differences."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    check_forward_ad: bool = False,
) -> bool:
    """Compare the derivatives of ``func`` with central differences.

    Every result is differentiated by every floating input, element by element; of complex numbers
    the real and the imaginary part, along a last axis of size 2.

    Args:
        func: takes tensors and returns tensors.
        inputs: a tensor or a tuple of arguments; use float64.
        eps: the step.
        atol, rtol: what counts as equal.
        raise_exception: whether to raise instead of returning False.
        check_forward_ad: whether to check ``fx.jvp`` too.

    Raises:
        GradcheckError: naming the result and the input whose derivative is wrong.

    Source: ``torch.autograd.gradcheck``.

    Example:
        >>> import fx
        >>> fx.autograd.gradcheck(fx.sin, fx.tensor([0.5, 1.0], dtype=fx.float64))
        True
    """
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    args = tuple(x.detach() if isinstance(x, Tensor) else x for x in args)
    moving = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.dtype in INEXACT]

    def flat(*xs: Any) -> list[Tensor]:
        every = list(args)
        for i, x in zip(moving, xs):
            every[i] = view_as_complex(x) if args[i].dtype in COMPLEX else x
        outs = [as_tensor(o) for o in tree.leaves(func(*every))]
        return [_parts(o) for o in outs if o.dtype in INEXACT]

    points = [_parts(args[i]) for i in moving]
    numeric = _numeric(flat, points, eps)
    ways = {"backward": _backward(flat, points)}
    if check_forward_ad:
        ways["forward"] = _forward(flat, points)
    for way, found in ways.items():
        for (i, j), expected in numeric.items():
            got = found[i, j]
            if not np.allclose(got, expected, rtol, atol, equal_nan=True):
                if not raise_exception:
                    return False
                raise GradcheckError(
                    f"gradcheck: the {way} derivative of result {i} by input {moving[j]} is\n"
                    f"{got}\nand finite differences give\n{expected}\n(rows: elements of the "
                    f"input, columns: elements of the result)"
                )
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    check_fwd_over_rev: bool = False,
) -> bool:
    """Compare second derivatives with central differences of first ones; see ``gradcheck``.

    Args:
        grad_outputs: the cotangents of the results; some fixed numbers unless given.
        check_fwd_over_rev: whether to check forward over reverse too.
    """
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    moving = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.dtype in INEXACT]

    def pulled(*every: Any) -> Any:
        def of_moving(*xs: Any) -> list[Tensor]:
            new = list(every)
            for i, x in zip(moving, xs):
                new[i] = x
            outs = [as_tensor(o) for o in tree.leaves(func(*new))]
            return [o for o in outs if o.dtype in INEXACT]

        outs, pullback = vjp(of_moving, *[every[i] for i in moving])
        cts = [_waves(o) for o in outs] if grad_outputs is None else tree.leaves(grad_outputs)
        return pullback(cts)

    return gradcheck(
        pulled, args, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        check_forward_ad=check_fwd_over_rev,
    )  # fmt: skip


def _parts(x: Tensor) -> Tensor:
    return view_as_real(x) if x.dtype in COMPLEX else x


def _waves(x: Tensor) -> Tensor:
    """Numbers of that spec without symmetry."""
    values = np.cos(np.arange(1, x.size + 1)).reshape(x.shape).astype(x.dtype)
    return from_array(values, x.device.name)


def _array(x: Tensor) -> np.ndarray:
    return np.array(backend(x.device.name).to_numpy(x.detach()._a), np.float64)


def _numeric(flat: Any, points: list[Tensor], eps: float) -> dict[Any, np.ndarray]:
    base = [_array(x) for x in points]
    out: dict[Any, np.ndarray] = {}

    def at(j: int, k: int, step: float) -> list[np.ndarray]:
        moved = base[j].copy()
        moved.reshape(-1)[k] += step
        new = list(points)
        new[j] = from_array(moved.astype(points[j].dtype), points[j].device.name)
        return [_array(o) for o in flat(*new)]

    for j, x in enumerate(base):
        for k in range(x.size):
            high, low = at(j, k, eps), at(j, k, -eps)
            for i, (a, b) in enumerate(zip(high, low)):
                table = out.setdefault((i, j), np.zeros((x.size, a.size)))
                table[k] = ((a - b) / (2 * eps)).reshape(-1)
    return out


def _units(x: Tensor) -> list[Tensor]:
    rows = np.eye(x.size, dtype=x.dtype)
    return [from_array(row.reshape(x.shape), x.device.name) for row in rows]


def _backward(flat: Any, points: list[Tensor]) -> dict[Any, np.ndarray]:
    outs, pullback = vjp(flat, *points)
    zeros = [_array(o) * 0 for o in outs]
    out: dict[Any, np.ndarray] = {}
    for i, o in enumerate(outs):
        for k, unit in enumerate(_units(o)):
            cts = [
                unit if n == i else from_array(z.astype(p.dtype), p.device.name)
                for n, (z, p) in enumerate(zip(zeros, outs))
            ]
            for j, ct in enumerate(pullback(cts)):
                table = out.setdefault((i, j), np.zeros((points[j].size, o.size)))
                table[:, k] = _array(ct).reshape(-1)
    return out


def _forward(flat: Any, points: list[Tensor]) -> dict[Any, np.ndarray]:
    out: dict[Any, np.ndarray] = {}
    for j, x in enumerate(points):
        for k, unit in enumerate(_units(x)):
            ts = tuple(unit if n == j else p * 0 for n, p in enumerate(points))
            for i, t in enumerate(jvp(flat, tuple(points), ts)[1]):
                table = out.setdefault((i, j), np.zeros((x.size, t.size)))
                table[k] = _array(t).reshape(-1)
    return out
