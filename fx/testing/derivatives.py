"""Laws of the derivative rules: differences, the dot product, second order, dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fx.dtypes import INEXACT, bfloat16, float32
from fx.primitive import Primitive
from fx.prims.sampling import Sample
from fx.tape import Leaf
from fx.tensor import Tensor
from fx.testing.case import (
    Arrays,
    Mismatch,
    array_of,
    as_tuple,
    call,
    cast,
    differentiable_args,
    directions,
    in_complex,
    judged,
    numeric,
    smooth,
    subsets,
    taken_in,
    tensor,
    widened,
)
from fx.testing.closeness import DIFFERENCES, differences, expect_all_close, expect_like, inner
from fx.testing.law import law
from fx.transforms import jvp, vjp

_SAME = 1e-12  # one formula computed twice
_DOT = 1e-9


def push(
    primitive: Primitive, args: Sequence[Tensor], params: dict[str, Any], tangents: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Run the JVP rule; outputs and tangents as tuples."""
    out, tangent = primitive.jvp(tuple(args), tuple(tangents), **params)
    if not primitive.multiple:
        return (out,), (tangent,)
    return tuple(out), tuple(tangent)


def pull(
    primitive: Primitive,
    args: Sequence[Tensor],
    params: dict[str, Any],
    wanted: Sequence[int],
    cotangents: Sequence[Any],
) -> tuple[Any, ...] | None:
    """Run the VJP rule and its pullback; None where the rule says that nothing depends."""
    needs = tuple([Leaf() if i in wanted else None for i in range(len(args))])
    pullback = primitive.vjp(needs, *args, **params)
    if pullback is None:
        return None
    outs = as_tuple(primitive(*args, **params))
    saved = [outs[i] for i in primitive.saves]
    grads = tuple(pullback(list(cotangents) if primitive.multiple else cotangents[0], *saved))
    if len(grads) != len(args):
        raise Mismatch(f"{len(grads)} cotangents for {len(args)} arguments")
    return grads


def _tangents(sample: Sample, wrt: Sequence[int]) -> list[Any]:
    moving = directions([sample.args[i] for i in wrt])
    found = dict(zip(wrt, moving, strict=True))
    return [tensor(found[i]) if i in found else None for i in range(len(sample.args))]


def _cotangents(outs: Arrays) -> list[Any]:
    found = directions(outs, seed=1)
    return [tensor(u) if u.dtype in INEXACT else None for u in found]


def _smooth(outs: Arrays) -> Arrays:
    return [o for o in outs if o.dtype in INEXACT]


@law("jvp", "J v = finite differences", differentiable=True)
def jvp_is_the_difference(primitive: Primitive, sample: Sample) -> None:
    """For every subset of moving arguments; and the rule's primal result is the plain one."""
    plain = call(primitive, sample.args, sample.params)
    for wrt in subsets(differentiable_args(primitive, sample)):
        tangents = _tangents(sample, wrt)
        outs, pushed = push(primitive, list(map(tensor, sample.args)), sample.params, tangents)
        expect_all_close(list(map(array_of, outs)), plain, _SAME, "the primal result of the rule")
        for o, t in zip(plain, pushed, strict=True):
            if o.dtype not in INEXACT and t is not None:
                raise Mismatch(f"the tangent of an output of dtype {o.dtype} must be None")
            if t is not None:
                expect_like(t, o, "a tangent")
        function = smooth(primitive, sample, wrt)
        along = [array_of(tangents[i]) for i in wrt]
        at = [sample.args[i] for i in wrt]
        got = numeric(lambda *xs: jvp(function, xs, tuple(map(tensor, along)))[1])(*at)  # noqa: B023
        want = differences(numeric(function), at, along)
        expect_all_close(got, want, DIFFERENCES, f"J v, arguments {wrt} moving")


@law("vjp", "<u, Jv> = <J'u, v>", differentiable=True)
def dot_product(primitive: Primitive, sample: Sample) -> None:
    """For every subset of arguments that want a cotangent, and for none that does not."""
    args = list(map(tensor, sample.args))
    plain = call(primitive, sample.args, sample.params)
    cotangents = _cotangents(plain)
    for wanted in subsets(differentiable_args(primitive, sample)):
        grads = pull(primitive, args, sample.params, wanted, cotangents)
        tangents = _tangents(sample, wanted)
        _, pushed = push(primitive, args, sample.params, tangents)
        pairs = [
            (array_of(u), array_of(t))
            for u, t in zip(cotangents, pushed, strict=True)
            if u is not None and t is not None
        ]
        left, size = inner([u for u, _ in pairs], [t for _, t in pairs])
        right = 0.0
        if grads is not None:
            right, more = _pulled(sample, wanted, grads, tangents)
            size += more
        if not abs(left - right) <= _DOT * (size + 1e-9):
            raise Mismatch(f"<u, Jv> = {left:.12g}, <J'u, v> = {right:.12g}, wanted {wanted}")


@law("jvp", "J v = finite differences, for complex arguments", differentiable=True)
def jvp_of_complex(primitive: Primitive, sample: Sample) -> None:
    """Where the spec rule accepts complex arguments; the function need not be holomorphic."""
    wide = in_complex(primitive, sample)
    if wide is not None:
        jvp_is_the_difference.check(primitive, wide)


@law("vjp", "Re <u, Jv> = Re <J'u, v>, for complex arguments", differentiable=True)
def dot_product_of_complex(primitive: Primitive, sample: Sample) -> None:
    """The pairing has no conjugate."""
    wide = in_complex(primitive, sample)
    if wide is not None:
        dot_product.check(primitive, wide)


def _pulled(
    sample: Sample, wanted: Sequence[int], grads: tuple[Any, ...], tangents: list[Any]
) -> tuple[float, float]:
    for i, g in enumerate(grads):
        if i in wanted:
            expect_like(g, sample.args[i], f"the cotangent of argument {i}")
        elif g is not None:
            raise Mismatch(f"a cotangent of argument {i}, which wants none (needs[{i}] is None)")
    return inner([array_of(grads[i]) for i in wanted], [array_of(tangents[i]) for i in wanted])


@law("jvp", "jvp of jvp = finite differences of jvp", differentiable=True)
def jvp_of_jvp(primitive: Primitive, sample: Sample) -> None:
    """Points and tangents move together."""
    wrt = differentiable_args(primitive, sample)
    if not wrt:
        return
    function = smooth(primitive, sample, wrt)
    n = len(wrt)

    def pushed(*both: Tensor) -> tuple[Tensor, ...]:
        return jvp(function, both[:n], both[n:])[1]  # type: ignore[no-any-return]

    points = [sample.args[i] for i in wrt]
    at = [*points, *directions(points, 2)]
    along = directions(at, 3)
    got = numeric(lambda *xs: jvp(pushed, xs, tuple(map(tensor, along)))[1])(*at)
    expect_all_close(got, differences(numeric(pushed), at, along), DIFFERENCES, "J (J v) w")


def _pullback(function: Any, count: int) -> Any:
    """The pullback of ``function`` as a function of ``count`` arguments and the cotangents."""

    def pulled(*both: Tensor) -> tuple[Tensor, ...]:
        return vjp(function, *both[:count])[1](both[count:])  # type: ignore[no-any-return]

    return pulled


@law("vjp", "jvp of vjp = finite differences of vjp", differentiable=True)
def jvp_of_vjp(primitive: Primitive, sample: Sample) -> None:
    """Points and cotangents move together."""
    wrt = differentiable_args(primitive, sample)
    if not wrt:
        return
    pulled = _pullback(smooth(primitive, sample, wrt), len(wrt))
    at = [sample.args[i] for i in wrt]
    at += directions(_smooth(judged(primitive, sample)), 2)
    along = directions(at, 3)
    got = numeric(lambda *xs: jvp(pulled, xs, tuple(map(tensor, along)))[1])(*at)
    expect_all_close(got, differences(numeric(pulled), at, along), DIFFERENCES, "J (J'u) w")


@law("vjp", "vjp of vjp is the transpose of jvp of vjp", differentiable=True)
def vjp_of_vjp(primitive: Primitive, sample: Sample) -> None:
    """Every cotangent of the second pullback, against a basis direction of its largest element."""
    wrt = differentiable_args(primitive, sample)
    if not wrt:
        return
    pulled = _pullback(smooth(primitive, sample, wrt), len(wrt))
    at = [sample.args[i] for i in wrt]
    at += directions(_smooth(judged(primitive, sample)), 2)
    weights = directions([sample.args[i] for i in wrt], 4)
    second = numeric(lambda *xs: vjp(pulled, *xs)[1](tuple(map(tensor, weights))))(*at)
    for seed in (5, 6):
        along = directions(at, seed)
        pushed = numeric(lambda *xs: jvp(pulled, xs, tuple(map(tensor, along)))[1])(*at)  # noqa: B023
        left, size = inner(weights, pushed)
        right, more = inner(second, along)
        if not abs(left - right) <= _DOT * (size + more + 1e-9):
            raise Mismatch(f"<w, J(J'u) v> = {left:.12g}, <J(J'u)' w, v> = {right:.12g}")


@law("jvp", "tangents keep the dtype", differentiable=True)
def jvp_keeps_dtype(primitive: Primitive, sample: Sample) -> None:
    """No weak scalar or constant in the rule lifts float32 or bfloat16."""
    wrt = differentiable_args(primitive, sample)
    for dtype, narrow in taken_in(primitive, sample, (float32, bfloat16) if wrt else ()):
        plain = call(primitive, narrow.args, narrow.params)
        args = list(map(tensor, narrow.args))
        _, pushed = push(primitive, args, narrow.params, _tangents(narrow, wrt))
        for o, t in zip(plain, pushed, strict=True):
            if t is not None:
                expect_like(t, o, f"a tangent in {dtype.name}")


@law("vjp", "cotangents keep the dtype", differentiable=True)
def vjp_keeps_dtype(primitive: Primitive, sample: Sample) -> None:
    """No constant in the rule lifts float32 or bfloat16; float32 values agree to rounding."""
    wrt = differentiable_args(primitive, sample)
    if not wrt:
        return
    for dtype, narrow in taken_in(primitive, sample, (float32, bfloat16)):
        args = list(map(tensor, narrow.args))
        cotangents = _cotangents(call(primitive, narrow.args, narrow.params))
        grads = pull(primitive, args, narrow.params, wrt, cotangents)
        if grads is None:
            continue
        for i in wrt:
            expect_like(grads[i], narrow.args[i], f"the cotangent of argument {i}")
        if dtype == float32:
            points = [narrow.args[i] for i in wrt]
            at = [*points, *directions(_smooth(judged(primitive, narrow)), 2)]
            got = numeric(_pullback(smooth(primitive, narrow, wrt), len(wrt)))(*at)
            exact = _pullback(smooth(primitive, cast(narrow, np.dtype("float64")), wrt), len(wrt))
            want = numeric(exact)(*map(widened, at))
            what = "the cotangents in float32"
            expect_all_close(got, want, 2.0**-13, what)
