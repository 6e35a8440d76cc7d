"""One table of array functions, from which values, gradients, lanes and shapes are tested.

A row: a function of a namespace ``m`` (fx or torch) and of tensors, and the shapes of the tensors.
The same line runs on both, unless ``torch`` gives PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np


@attrs.frozen
class Case:
    """One row.

    Args:
        function: ``(m, *tensors) -> tensor or tuple``.
        shapes: the shapes of the floating arguments.
        torch: the same for PyTorch, where it is spelled otherwise.
        ints: integer arguments that follow: (shape, low, high) each.
        positive: whether the floats are positive.
        smooth: whether there are gradients to compare.
        known: whether the values must be known, so that there are neither lanes nor meta.
    """

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((3, 4),)
    torch: Callable[..., Any] | None = None
    ints: tuple[tuple[tuple[int, ...], int, int], ...] = ()
    positive: bool = False
    smooth: bool = True
    known: bool = False

    def floats(self, seed: int = 0, dtype: Any = np.float64) -> list[np.ndarray]:
        """Values no two of which are equal or near."""
        source = np.random.default_rng(seed)
        low, high = (0.3, 2.0) if self.positive else (-2.0, 2.0)
        out = []
        for k, shape in enumerate(self.shapes):
            n = int(np.prod(shape))
            grid = np.linspace(low, high, max(n, 1) * 2 + 1)[1::2] + 0.013 * (k + 1)
            out.append(source.permutation(grid)[:n].reshape(shape).astype(dtype))
        return out

    def integers(self, seed: int = 0) -> list[np.ndarray]:
        """The integer arguments."""
        source = np.random.default_rng(seed + 100)
        return [source.integers(low, high, shape) for shape, low, high in self.ints]


_M = ((2, 3, 4),)
_INDEX = (((3, 4), 0, 3),)

CASES: dict[str, Case] = {
    # activations
    "relu": Case(lambda m, x: m.relu(x)),
    "gelu": Case(lambda m, x: m.gelu(x), torch=lambda t, x: t.nn.functional.gelu(x)),
    "gelu_tanh": Case(
        lambda m, x: m.gelu(x, approximate="tanh"),
        torch=lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
    ),
    "silu": Case(lambda m, x: m.silu(x), torch=lambda t, x: t.nn.functional.silu(x)),
    "softplus": Case(lambda m, x: m.softplus(x), torch=lambda t, x: t.nn.functional.softplus(x)),
    "softmax": Case(lambda m, x: m.softmax(x, dim=0)),
    "log_softmax": Case(lambda m, x: m.log_softmax(x, dim=-1)),
    # pointwise
    "clip": Case(lambda m, x: m.clip(x, -0.5, 0.5)),
    "clip_low": Case(lambda m, x: m.clip(x, min=0.1)),
    "clip_tensor": Case(lambda m, x, y: m.clamp(x, y, y + 1.0), ((3, 4), (4,))),
    "lerp": Case(lambda m, x, y, w: m.lerp(x, y, w), ((3, 4), (3, 4), (4,))),
    "addcmul": Case(lambda m, x, y, z: m.addcmul(x, y, z, value=0.5), ((3, 4), (4,), (3, 1))),
    "addcdiv": Case(lambda m, x, y, z: m.addcdiv(x, y, z, value=2), ((3, 4), (4,), (3, 1))),
    **{
        f"div_{way}": Case(
            lambda m, x, y, way=way: m.div(x, y, rounding_mode=way), ((4,), (4,)), smooth=False
        )
        for way in ("floor", "trunc")
    },
    "nan_to_num": Case(lambda m, x: m.nan_to_num(m.log(x), nan=0.5, neginf=-3.0)),
    "frac": Case(lambda m, x: m.frac(x)),
    "logit": Case(lambda m, x: m.logit(m.sigmoid(x), eps=0.3)),
    "xlogy": Case(lambda m, x, y: m.xlogy(x, y), ((4,), (3, 4)), positive=True),
    "isclose": Case(lambda m, x: m.isclose(x, x * (1 + 1e-6)), smooth=False),
    "round_decimals": Case(lambda m, x: m.round(x, decimals=1)),
    "hypot": Case(lambda m, x, y: m.hypot(x, y), ((3, 4), (4,))),
    "where": Case(lambda m, x, y: m.where(x > 0, x, y), ((3, 4), (4,))),
    "where_scalars": Case(lambda m, x: m.where(x > 0, x, 0.0) + m.where(x > 1, 2.0, x)),
    # reductions
    "sum": Case(lambda m, x: m.sum(x, dim=(0, 2), keepdim=True), _M),
    "prod": Case(lambda m, x: m.prod(x, dim=1), _M),
    "mean": Case(lambda m, x: m.mean(x, dim=(1, 2)), _M),
    "var": Case(
        lambda m, x: m.var(x, axis=1, correction=1), _M, torch=lambda t, x: t.var(x, dim=1)
    ),
    "var_all": Case(lambda m, x: m.var(x), torch=lambda t, x: t.var(x, correction=0)),
    "std": Case(lambda m, x: m.std(x, dim=(0, 2), correction=1, keepdim=True), _M),
    "std_zero": Case(lambda m, x: m.std(x * 0.0, dim=0, correction=1)),
    "var_mean": Case(lambda m, x: m.var_mean(x, dim=0, correction=1)),
    "std_mean": Case(lambda m, x: m.std_mean(x, dim=0, correction=1)),
    "amax": Case(lambda m, x: m.amax(x, dim=(0, 1)), _M),
    "amin_ties": Case(lambda m, x: m.amin(m.round(x), dim=1) + m.amin(x * 0.0, dim=1)),
    "aminmax": Case(lambda m, x: m.aminmax(x, dim=1)),
    "logsumexp": Case(lambda m, x: m.logsumexp(x, dim=(0, 2)), _M),
    "nansum": Case(lambda m, x: m.nansum(m.log(x), dim=1)),
    "nanmean": Case(lambda m, x: m.nanmean(m.log(x), dim=1)),
    "norm": Case(lambda m, x: m.norm(x, dim=1)),
    "norm_all": Case(lambda m, x: m.norm(x)),
    "norm_zero": Case(lambda m, x: m.norm(x * 0.0, dim=0)),
    "norm_1": Case(lambda m, x: m.norm(x, p=1, dim=0)),
    "norm_3": Case(lambda m, x: m.norm(x, p=3, dim=0, keepdim=True)),
    "norm_3_zero": Case(lambda m, x: m.norm(x * 0.0, p=3)),
    "norm_inf": Case(lambda m, x: m.norm(x, p=float("inf"), dim=0)),
    "norm_minus_inf": Case(lambda m, x: m.norm(x, p=-float("inf"), dim=0)),
    "norm_0": Case(lambda m, x: m.norm(x, p=0, dim=0)),
    "dist": Case(lambda m, x, y: m.dist(x, y, p=3), ((3, 4), (4,))),
    "cdist": Case(lambda m, x, y: m.cdist(x, y), ((2, 3, 5), (2, 4, 5))),
    "quantile": Case(lambda m, x: m.quantile(x, 0.3, dim=1)),
    "quantile_many": Case(
        lambda m, x: m.quantile(x, m.tensor([0.0, 0.25, 0.9], dtype=x.dtype), dim=0, keepdim=True)
    ),
    **{
        f"quantile_{way}": Case(
            lambda m, x, way=way: m.quantile(x, 0.4, dim=1, interpolation=way)
        )
        for way in ("lower", "higher", "nearest", "midpoint")
    },
    "argmax": Case(lambda m, x: m.argmax(x, dim=1, keepdim=True), smooth=False),
    "argmin_all": Case(lambda m, x: m.argmin(x), smooth=False),
    "all": Case(lambda m, x: m.all(x, dim=0), smooth=False),
    "any": Case(lambda m, x: m.any(x > 1, dim=1), smooth=False),
    "count_nonzero": Case(lambda m, x: m.count_nonzero(x > 0, dim=0), smooth=False),
    # cumulative
    "cumsum": Case(lambda m, x: m.cumsum(x, dim=1), _M),
    "cumprod": Case(lambda m, x: m.cumprod(x, dim=0)),
    "cummax": Case(lambda m, x: m.cummax(x, dim=1)),
    "cummin": Case(lambda m, x: m.cummin(x, dim=0)),
    "logcumsumexp": Case(lambda m, x: m.logcumsumexp(x, dim=1)),
    "diff": Case(lambda m, x: m.diff(x, n=2, dim=1)),
    "diff_borders": Case(
        lambda m, x, y: m.diff(x, dim=0, prepend=y, append=y), ((3, 4), (1, 4))
    ),
    # order
    "sort": Case(lambda m, x: m.sort(x, axis=0), torch=lambda t, x: t.sort(x, dim=0).values),
    "sort_down": Case(
        lambda m, x: m.sort(x, descending=True),
        torch=lambda t, x: t.sort(x, descending=True).values,
    ),
    "argsort": Case(lambda m, x: m.argsort(x, dim=0, descending=True), smooth=False),
    "topk": Case(lambda m, x: m.topk(x, 2, dim=1)),
    "topk_smallest": Case(lambda m, x: m.topk(x, 2, dim=0, largest=False)),
    "kthvalue": Case(lambda m, x: m.kthvalue(x, 2, dim=1)),
    "mode": Case(
        lambda m, x: m.mode(m.round(x), dim=1).values,
        torch=lambda t, x: t.mode(t.round(x), dim=1).values,
    ),
    "median": Case(
        lambda m, x: m.median(x, axis=1), torch=lambda t, x: t.quantile(x, 0.5, dim=1)
    ),
    "searchsorted": Case(
        lambda m, x, y: m.searchsorted(x.sort().values, y), ((3, 5), (3, 4)), smooth=False
    ),
    "bucketize": Case(
        lambda m, x, y: m.bucketize(x, y.sort().values), ((3, 4), (5,)), smooth=False
    ),
    "nonzero": Case(
        lambda m, x: m.nonzero(x > 0), smooth=False, known=True,
        torch=lambda t, x: t.nonzero(x > 0, as_tuple=True),
    ),
    "argwhere": Case(lambda m, x: m.argwhere(x > 0), smooth=False, known=True),
    # selection
    "take": Case(
        lambda m, x, i: m.take(x, i, axis=1), ints=(((5,), 0, 4),),
        torch=lambda t, x, i: t.index_select(x, 1, i),
    ),
    "index_select": Case(lambda m, x, i: m.index_select(x, 0, i), ints=(((5,), 0, 3),)),
    "index_add": Case(
        lambda m, x, y, i: m.index_add(x, 0, i, y, alpha=0.5), ((3, 4), (5, 4)),
        ints=(((5,), 0, 3),),
    ),
    "index_copy": Case(
        lambda m, x, y, i: m.index_copy(x, 1, i * 2, y), ((3, 4), (3, 1)), ints=(((1,), 0, 2),)
    ),
    "index_fill": Case(lambda m, x, i: m.index_fill(x, 1, i, 2.0), ints=(((2,), 0, 4),)),
    "gather": Case(lambda m, x, i: m.gather(x, 0, i), ints=_INDEX),
    "gather_corner": Case(lambda m, x, i: m.gather(x, 1, i), ints=(((2, 6), 0, 4),)),
    "take_along_axis": Case(
        lambda m, x, i: m.take_along_axis(x, i, axis=0), ((3, 4),), ints=(((2, 1), 0, 3),),
        torch=lambda t, x, i: t.take_along_dim(x, i, dim=0),
    ),
    "scatter": Case(
        lambda m, x, y: m.scatter(x, 1, m.argsort(x, dim=1)[:, :2], y), ((3, 4), (3, 4)),
        torch=lambda t, x, y: t.scatter(x, 1, t.argsort(x, dim=1)[:, :2], y[:, :2]),
    ),
    "scatter_corner": Case(
        lambda m, x, y, i: m.scatter(x, 0, i % 2 + 1, y), ((3, 4), (1, 3)), ints=(((1, 2), 0, 3),),
        torch=lambda t, x, y, i: t.scatter(x, 0, i % 2 + 1, y[:, :2]),
    ),
    "scatter_number": Case(lambda m, x, i: m.scatter(x, 0, i, 1.5), ints=(((2, 3), 0, 3),)),
    "scatter_add": Case(
        lambda m, x, y, i: m.scatter_add(x, 0, i, y), ((3, 4), (5, 4)), ints=(((5, 3), 0, 3),),
        torch=lambda t, x, y, i: t.scatter_add(x, 0, i, y[:, :3]),
    ),
    **{
        f"scatter_{reduce}{'' if own else '_alone'}": Case(
            lambda m, x, y, i, reduce=reduce, own=own: m.scatter_reduce(
                x, 0, i, y, reduce, include_self=own
            ),
            ((3, 4), (5, 4)), ints=(((5, 4), 0, 3),),
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    },
    "masked_fill": Case(lambda m, x: m.masked_fill(x, x > 0, 0.5)),
    "masked_select": Case(lambda m, x: m.masked_select(x, x > 0), known=True),
    "one_hot": Case(
        lambda m, i: m.one_hot(i, 5), (), ints=(((3, 2), 0, 5),), smooth=False,
        torch=lambda t, i: t.nn.functional.one_hot(i, 5),
    ),
    # shape
    "flatten": Case(lambda m, x: m.flatten(x, 1), _M),
    "unflatten": Case(lambda m, x: m.unflatten(x, 1, (2, -1)), ((3, 6),)),
    "squeeze": Case(lambda m, x: m.squeeze(x, dim=1), ((3, 1, 4),)),
    "unsqueeze": Case(lambda m, x: m.unsqueeze(x, -2)),
    "permute": Case(lambda m, x: m.permute(x, (2, 0, 1)), _M),
    "movedim": Case(lambda m, x: m.movedim(x, (0, 1), (-1, 0)), _M),
    "swapaxes": Case(lambda m, x: m.swapaxes(x, 0, -1), _M),
    "transpose": Case(lambda m, x: m.transpose(x, 1, 2), _M),
    "flip": Case(lambda m, x: m.flip(x, dims=(0, 2)), _M),
    "rot90": Case(lambda m, x: m.rot90(x, 1) + m.rot90(x, -3), ((3, 4),)),
    "rot90_back": Case(lambda m, x: m.rot90(x, 3, (1, 2)), _M),
    "rot180": Case(lambda m, x: m.rot90(x, 2), ((3, 4),)),
    "roll": Case(lambda m, x: m.roll(x, shifts=(1, -2), dims=(0, 1))),
    "roll_flat": Case(lambda m, x: m.roll(x, 5)),
    "broadcast_to": Case(lambda m, x: m.broadcast_to(x, (2, 3, 4)), ((3, 1),)),
    "broadcast_tensors": Case(lambda m, x, y: m.broadcast_tensors(x, y), ((3, 1), (4,))),
    "cat": Case(lambda m, x, y: m.cat([x, y, x], dim=1), ((3, 4), (3, 2))),
    "stack": Case(lambda m, x, y: m.stack([x, y], dim=-1), ((3, 4), (3, 4))),
    "vstack": Case(lambda m, x, y: m.vstack([x, y]), ((4,), (4,))),
    "hstack": Case(lambda m, x, y: m.hstack([x, y]), ((3, 2), (3, 4))),
    "unbind": Case(lambda m, x: m.unbind(x, dim=1)),
    "split": Case(lambda m, x: m.split(x, 2, dim=0), ((5, 2),)),
    "split_sizes": Case(lambda m, x: m.split(x, [1, 3], dim=1)),
    "chunk": Case(lambda m, x: m.chunk(x, 3, dim=0), ((7, 2),)),
    "tensor_split": Case(lambda m, x: m.tensor_split(x, 3), ((7, 2),)),
    "tensor_split_at": Case(lambda m, x: m.tensor_split(x, [1, 1, -2], dim=1), ((2, 6),)),
    "narrow": Case(lambda m, x: m.narrow(x, 1, 1, 2)),
    "repeat_interleave": Case(lambda m, x: m.repeat_interleave(x, 3, dim=1)),
    "repeat_counts": Case(
        lambda m, x: m.repeat(x, [2, 0, 1], axis=0),
        torch=lambda t, x: t.repeat_interleave(x, t.tensor([2, 0, 1]), dim=0),
    ),
    "tile": Case(lambda m, x: m.tile(x, (2, 1, 3))),
    "unfold": Case(
        lambda m, x: m.unfold(x, 1, 3, 2), ((2, 7),), torch=lambda t, x: x.unfold(1, 3, 2)
    ),
    **{
        f"pad_{mode}": Case(
            lambda m, x, mode=mode: m.pad(x, ((0, 0), (0, 0), (2, 1)), mode=mode),
            torch=lambda t, x, mode=mode: t.nn.functional.pad(x, (2, 1), mode=mode),
            shapes=((2, 3, 4),),
        )
        for mode in ("constant", "reflect", "replicate", "circular")
    },
    "pad_cut": Case(
        lambda m, x: m.pad(x, ((1, -1), (-2, 1)), constant_values=0.5),
        torch=lambda t, x: t.nn.functional.pad(x, (-2, 1, 1, -1), value=0.5),
    ),
    "tril": Case(lambda m, x: m.tril(x)),
    # linear
    "matmul": Case(lambda m, x, y: m.matmul(x, y), ((2, 3, 4), (4, 5))),
    "matmul_vectors": Case(lambda m, x, y: m.matmul(x, y), ((4,), (4,))),
    "matmul_left": Case(lambda m, x, y: m.matmul(x, y), ((4,), (2, 4, 3))),
    "matmul_right": Case(lambda m, x, y: m.matmul(x, y), ((2, 3, 4), (4,))),
    "mm": Case(lambda m, x, y: m.mm(x, y), ((3, 4), (4, 2))),
    "bmm": Case(lambda m, x, y: m.bmm(x, y), ((2, 3, 4), (2, 4, 5))),
    "mv": Case(lambda m, x, y: m.mv(x, y), ((3, 4), (4,))),
    "dot": Case(lambda m, x, y: m.dot(x, y), ((4,), (4,))),
    "vdot": Case(lambda m, x, y: m.vdot(x, y), ((4,), (4,))),
    "vecdot": Case(
        lambda m, x, y: m.vecdot(x, y, axis=0), ((4, 3), (4, 3)),
        torch=lambda t, x, y: t.linalg.vecdot(x, y, dim=0),
    ),
    "inner": Case(lambda m, x, y: m.inner(x, y), ((2, 3, 4), (5, 4))),
    "outer": Case(lambda m, x, y: m.outer(x, y), ((3,), (4,))),
    "tensordot": Case(lambda m, x, y: m.tensordot(x, y, 2), ((2, 3, 4), (3, 4, 5))),
    "tensordot_axes": Case(
        lambda m, x, y: m.tensordot(x, y, ([0, 2], [1, 0])), ((2, 3, 4), (4, 2, 5))
    ),
    "kron": Case(lambda m, x, y: m.kron(x, y), ((2, 3), (4,))),
    "trace": Case(lambda m, x: m.trace(x), ((4, 3),)),
    "diagonal": Case(lambda m, x: m.diagonal(x, 1, 0, 2), _M),
    "diagonal_below": Case(lambda m, x: m.diagonal(x, -1), ((4, 3),)),
    "cross": Case(lambda m, x, y: m.cross(x, y, dim=1), ((4, 3), (4, 3))),
    "addmm": Case(lambda m, b, x, y: m.addmm(b, x, y, beta=0.5, alpha=2), ((2,), (3, 4), (4, 2))),
    "addmv": Case(lambda m, b, x, y: m.addmv(b, x, y), ((3,), (3, 4), (4,))),
    "baddbmm": Case(
        lambda m, b, x, y: m.baddbmm(b, x, y, alpha=3), ((2, 3, 5), (2, 3, 4), (2, 4, 5))
    ),
}  # fmt: skip

_SPECS = {
    "ij,jk->ik": ((3, 4), (4, 2)), "ij,jk": ((3, 4), (4, 2)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "ii": ((4, 4),), "ii->i": ((4, 4),), "iij->ji": ((3, 3, 2),), "ij->ji": ((3, 4),),
    "ij->": ((3, 4),), "i,j->ij": ((3,), (4,)), "i,j->ji": ((3,), (4,)), "i,i->": ((4,), (4,)),
    "ij,ij->ij": ((3, 4), (3, 4)), "ij,ij->i": ((3, 4), (3, 4)), "ij,kj->ki": ((3, 4), (2, 4)),
    "...ij,...jk->...ik": ((2, 3, 4), (1, 4, 5)), "...i,i": ((2, 3, 4), (4,)),
    "i...,j...->ij...": ((2, 4), (3, 4)), "b...d,d->b...": ((2, 3, 5, 4), (4,)),
    "bhqd,bhkd->bhqk": ((2, 2, 3, 4), (2, 2, 5, 4)),
    "bqhd,bkhd->bhqk": ((2, 3, 2, 4), (2, 5, 2, 4)),
    "ij,jk,kl->il": ((3, 4), (4, 2), (2, 5)), "ij,j,i->": ((3, 4), (4,), (3,)),
    "a,b,c,d->dcba": ((2,), (3,), (2,), (4,)),
    "ijk,jl,kl,il->": ((2, 3, 4), (3, 2), (4, 2), (2, 2)),
    "ij,jk->k": ((3, 1), (4, 2)), "iji,jk->ik": ((3, 4, 3), (4, 2)),
    " ij , jk -> ki ": ((3, 4), (4, 2)),
    "...,...->...": ((2, 1), (3,)), "ab...,b->...a": ((2, 3, 4), (3,)),
}  # fmt: skip
for _spec, _shapes in _SPECS.items():
    CASES[f"einsum({_spec})"] = Case(lambda m, *xs, spec=_spec: m.einsum(spec, *xs), _shapes)


def leaves(result: Any) -> list[Any]:
    """The tensors of a result."""
    return list(result) if isinstance(result, tuple | list) else [result]
