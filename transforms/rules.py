"""Applications with one derivative rule; the other mode's rule is its transpose.

The reverse rule of a function with a forward rule is the transpose of its tangent map; the forward
rule of one with a reverse rule is the transpose of its pullback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx.dtypes import INEXACT
from fx.prims.creation import zeros_like_spec
from fx.prims.shape import reshape, sum_to
from fx.tensor import Tensor
from fx.transforms.application import (
    Application,
    Pullback,
    in_lanes,
    lanes_first,
    transposed,
)
from fx.transforms.batching import lanes_to

Tensors = Sequence[Tensor]


class VJPApplication(Application):
    """A function with a reverse rule.

    Args:
        name: the function's name.
        function: ``(*tensors) -> results``.
        fwd: ``(*tensors) -> (results, residuals, static)``: residuals are any leaves.
        bwd: ``(static, residuals, cotangents) -> one cotangent or None an argument``.
    """

    ruled = True

    def __init__(
        self,
        name: str,
        function: Callable[..., Tensors],
        fwd: Callable[..., tuple[Tensors, list[Any], Any]],
        bwd: Callable[[Any, list[Any], list[Any]], Sequence[Tensor | None]],
    ) -> None:
        super().__init__(name)
        self.run, self.fwd, self.bwd = function, fwd, bwd

    def forward(self, args: Tensors, needs: Sequence[Any]) -> tuple[Tensors, Pullback]:
        outs, residuals, static = self.fwd(*args)
        bwd = self.bwd
        return outs, lambda cts: bwd(static, residuals, cts)

    def jvp(
        self, primals: Tensors, tangents: Sequence[Tensor | None]
    ) -> tuple[Tensors, list[Tensor | None]]:
        outs, residuals, static = self.fwd(*primals)
        moving = [i for i, t in enumerate(tangents) if t is not None]
        floating = [i for i, o in enumerate(outs) if o.dtype in INEXACT]

        def pull(*given: Tensor) -> list[Tensor]:
            cts: list[Any] = [None] * len(outs)
            for i, ct in zip(floating, given):
                cts[i] = ct
            found = self.bwd(static, residuals, cts)
            return [
                zeros_like_spec(primals[i].spec) if found[i] is None else found[i] for i in moving
            ]

        _, push = transposed(pull, [outs[i].spec for i in floating])
        pushed: list[Tensor | None] = [None] * len(outs)
        for i, t in zip(floating, push([tangents[i] for i in moving])):
            pushed[i] = t
        return outs, pushed

    def lanes(self, size: int, axis_name: Any, dims: Sequence[int | None]) -> Application:
        def fwd(*values: Tensor) -> tuple[Tensors, list[Any], Any]:
            kept: list[Any] = []

            def lane(*xs: Tensor) -> list[Any]:
                outs, residuals, static = self.fwd(*xs)
                kept.extend((len(outs), static))
                return [*outs, *residuals]

            every, every_dim = in_lanes(lane, size, axis_name, values, dims)
            n, static = kept
            outs = [lanes_to(x, d, 0, size) for x, d in zip(every[:n], every_dim)]
            return outs, every[n:], (static, every_dim[n:], tuple([x.shape for x in values]))

        def bwd(static: Any, residuals: list[Any], cts: list[Any]) -> list[Tensor | None]:
            inner, residual_dims, shapes = static
            n = len(residuals)
            ct_dims = [None if ct is None else 0 for ct in cts]
            return cotangents_of_lanes(
                lambda *xs: self.bwd(inner, list(xs[:n]), list(xs[n:])),
                size, axis_name, [*residuals, *cts], [*residual_dims, *ct_dims], dims, shapes,
            )  # fmt: skip

        return VJPApplication(self.called, lanes_first(self.run, size, axis_name, dims), fwd, bwd)


def cotangents_of_lanes(
    function: Callable[..., Sequence[Tensor | None]],
    size: int,
    axis_name: Any,
    values: Sequence[Any],
    value_dims: Sequence[int | None],
    dims: Sequence[int | None],
    shapes: Sequence[tuple[int, ...]],
) -> list[Tensor | None]:
    """Cotangents of arguments with lanes along ``dims``, from a function of one lane.

    An argument that is the same for all lanes collects from all of them.
    """
    found, found_dims = in_lanes(function, size, axis_name, values, value_dims)
    out: list[Tensor | None] = []
    for ct, source, d, shape in zip(found, found_dims, dims, shapes):
        if ct is None:
            out.append(None)
        elif d is not None:
            out.append(lanes_to(ct, source, d, size))
        elif source is None:
            out.append(ct * float(size))
        else:
            lanes = lanes_to(ct, source, 0, size)
            out.append(reshape(sum_to(lanes, shape=(1, *shape)), shape=shape))
    return out


class JVPApplication(Application):
    """A function with a forward rule.

    Args:
        name: the function's name.
        function: ``(*tensors) -> results``.
        rule: ``(primals, tangents) -> (results, tangents of the results)``.
    """

    ruled = True

    def __init__(
        self,
        name: str,
        function: Callable[..., Tensors],
        rule: Callable[[Tensors, Tensors], tuple[Tensors, Tensors]],
    ) -> None:
        super().__init__(name)
        self.run, self.rule = function, rule

    def forward(self, args: Tensors, needs: Sequence[Any]) -> tuple[Tensors, Pullback]:
        moving = [i for i, n in enumerate(needs) if n is not None]
        kept: list[Any] = []

        def push(*given: Tensor) -> list[Tensor]:
            outs, pushed = self.rule(args, _filled(args, dict(zip(moving, given))))
            floating = [i for i, o in enumerate(outs) if o.dtype in INEXACT]
            kept.extend((outs, floating))
            return [pushed[i] for i in floating]

        _, pull = transposed(push, [args[i].spec for i in moving])
        outs, floating = kept
        count = len(args)

        def pullback(cts: list[Any]) -> list[Tensor | None]:
            found: list[Tensor | None] = [None] * count
            for i, ct in zip(moving, pull([cts[k] for k in floating])):
                found[i] = ct
            return found

        return outs, pullback

    def jvp(
        self, primals: Tensors, tangents: Sequence[Tensor | None]
    ) -> tuple[Tensors, list[Tensor | None]]:
        given = {i: t for i, t in enumerate(tangents) if t is not None}
        outs, pushed = self.rule(primals, _filled(primals, given))
        return outs, [t if o.dtype in INEXACT else None for o, t in zip(outs, pushed)]

    def lanes(self, size: int, axis_name: Any, dims: Sequence[int | None]) -> Application:
        n = len(dims)

        def lane(*xs: Tensor) -> list[Tensor]:
            outs, pushed = self.rule(xs[:n], xs[n:])
            return [*outs, *pushed]

        both = lanes_first(lane, size, axis_name, (*dims, *dims))

        def rule(primals: Tensors, tangents: Tensors) -> tuple[Tensors, Tensors]:
            every = both(*primals, *tangents)
            return every[: len(every) // 2], every[len(every) // 2 :]

        return JVPApplication(self.called, lanes_first(self.run, size, axis_name, dims), rule)


def _filled(primals: Tensors, given: dict[int, Tensor]) -> list[Tensor]:
    return [given[i] if i in given else zeros_like_spec(x.spec) for i, x in enumerate(primals)]
