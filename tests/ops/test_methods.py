"""Methods of Tensor: the same line on fx and on PyTorch gives the same."""

import inspect
import math

import numpy as np
import pytest

import fx
from fx.errors import AxisError, DTypeError, ShapeError
from fx.ops.methods import table as methods

torch = pytest.importorskip("torch")

# x: (3, 4) floating, y: (3, 4) floating, i: (3, 4) integers in [0, 3), b: (3, 4) bool
LINES = """
x.abs() | x.neg() | x.exp() | x.expm1() | x.sigmoid() | x.relu() | x.sign() | x.square()
x.floor() | x.abs().log() | x.abs().sqrt() | x.abs().rsqrt() | x.reciprocal() | x.erf()
x.lgamma() | x.digamma() | x.clamp(-1, 1) | x.clip(min=0) | x.clamp_min(0.5) | x.clamp_max(0.5)
x.clamp(max=y) | x.add(y) | x.add(y, alpha=2) | x.add(1) | x.sub(y, alpha=0.5) | x.subtract(y)
x.mul(y) | x.multiply(2) | x.div(y) | x.div(y, rounding_mode="floor")
x.div(y, rounding_mode="trunc") | x.divide(y) | x.true_divide(2) | x.floor_divide(y)
x.remainder(y) | x.fmod(y) | x.pow(2) | i.div(2, rounding_mode="trunc")
(-i).div(2, rounding_mode="floor") | i.div(2) | i.floor_divide(2) | x.maximum(y) | x.minimum(y)
x.atan2(y) | x.hypot(y) | x.copysign(y) | x.logaddexp(y) | x.eq(y) | x.ne(1) | x.lt(y) | x.le(0)
x.gt(y) | x.ge(0) | x.greater(y) | x.equal(x) | x.equal(y) | x.isnan() | x.isfinite() | x.isinf()
x.signbit() | b.logical_not() | b.logical_and(x > 0) | b.logical_or(x > 0) | b.logical_xor(x > 0)
i.bitwise_and(1) | i.bitwise_or(1) | i.bitwise_not() | i.bitwise_left_shift(2) | x.lerp(y, 0.3)
x.addcmul(x, y, value=2) | x.addcdiv(x, y) | x.frac() | x.nan_to_num() | x.round()
x.round(decimals=1) | x.trunc() | x.xlogy(y.abs()) | x.allclose(y) | x.isclose(x) | x.where(b, y)
x.where(b, 0.0) | x.sigmoid().logit() | x.sum() | x.sum(1) | x.sum(1, True) | x.sum((0, 1))
x.sum(dim=0, keepdim=True) | i.sum() | b.sum(0) | x.sum(0, dtype=F) | x.mean() | x.mean(0)
x.mean((0, 1), True) | x.prod() | x.prod(1) | i.prod(0, True) | x.var() | x.var(1)
x.var(1, False) | x.var(1, unbiased=False, keepdim=True) | x.var(False)
x.var(dim=(0, 1), correction=0) | x.std() | x.std(0) | x.std(0, True, True) | x.std(correction=2)
x.max() | x.max(1) | x.max(1, True) | x.max(dim=0, keepdim=True) | x.max(y) | x.min() | x.min(0)
x.min(y) | x.max(1).values | x.max(1).indices | x.max(1)[1] | i.max() | i.max(0) | b.max()
x.amax() | x.amax(1) | x.amin((0, 1)) | x.aminmax(dim=1) | x.argmax() | x.argmax(1)
x.argmin(0, True) | x.median() | x.median(1) | x.median(0, True) | x.kthvalue(2, 1)
x.logsumexp(1) | x.logsumexp((0, 1), True) | x.quantile(0.25) | x.quantile(0.5, 1, True)
x.nansum() | x.nanmean(1) | x.norm() | x.norm(1) | x.norm(2, 1) | x.norm(p=1, dim=0, keepdim=True)
x.norm(dim=1) | x.norm(math.inf) | x.dist(y) | x.all() | x.any(1) | b.all(0) | b.any(0, True)
x.count_nonzero() | x.count_nonzero(1) | x.cumsum(0) | x.cumsum(dim=-1) | i.cumsum(1)
x.cumprod(1) | x.cummax(0) | x.cummin(1) | x.logcumsumexp(1) | x.diff() | x.diff(2, 0)
x.diff(dim=0) | x.softmax(0) | x.softmax(dim=-1) | x.softmax(1, dtype=F) | x.log_softmax(1)
x.sort() | x.sort(0) | x.sort(0, True) | x.sort(dim=1, descending=True) | x.argsort()
x.argsort(0, True) | x.topk(2) | x.topk(2, 0, False) | x.topk(k=1, dim=1).values | x.unique()
i.unique(return_counts=True) | i.unique(return_inverse=True) | i.unique(dim=1) | i.nonzero()
x.nonzero(as_tuple=True) | i.argwhere() | x.view(4, 3) | x.view(-1) | x.view((2, -1))
x.view(x.shape) | x.view_as(y) | x.reshape(2, 6) | x.reshape([-1, 2]) | x.reshape_as(y)
x.permute(1, 0) | x.permute((1, 0)) | x.permute(dims=(1, 0)) | x.transpose(0, 1)
x.transpose(-1, -2) | x.swapaxes(0, 1) | x.swapdims(0, 1) | x.t() | x[0].t() | x.T | x.mT | x.H
x.mH | x.adjoint() | x.unsqueeze(0) | x.unsqueeze(-1) | x.unsqueeze(dim=1) | x[None].squeeze()
x[None].squeeze(0) | x[None].squeeze(1) | x[None, :, None].squeeze((0, 2)) | x.expand(2, 3, 4)
x.expand(-1, 4) | x[:, :1].expand(3, 5) | x[:, :1].expand(2, -1, 4) | x[:1].expand_as(y)
x[0].broadcast_to((3, 4)) | x.repeat(2, 1) | x.repeat((1, 2, 3)) | x.repeat_interleave(2)
x.repeat_interleave(2, 1) | x.repeat_interleave(2, dim=0) | x.tile(2) | x.tile((2, 1, 1))
x.flatten() | x.flatten(0, 1) | x.flatten(start_dim=1) | x.unflatten(1, (2, 2)) | x.ravel()
x.split(2) | x.split(3, 1) | x.split([1, 2], dim=0) | x.chunk(2) | x.chunk(2, dim=1)
x.tensor_split(3, 1) | x.tensor_split((1, 2)) | x.unbind() | x.unbind(1) | x.narrow(1, 1, 2)
x.select(1, 2) | x.select(0, -1) | x.movedim(0, 1) | x.moveaxis(0, -1) | x.flip(0) | x.flip(0, 1)
x.flip((1,)) | x.flip(dims=[0]) | x.roll(1, 0) | x.roll(1) | x.roll((1, 2), (0, 1))
x.roll(shifts=1, dims=1) | x.rot90() | x.rot90(1, (1, 0)) | x.unfold(1, 2, 1)
x.sum_to_size(1, 4) | x.sum_to_size((3, 1)) | x.diagonal() | x.diagonal(1)
x.diagonal(dim1=1, dim2=0) | x.diag() | x.diag(1) | x[0].diag(-1) | x.tril() | x.tril(-1)
x.triu(diagonal=1) | x.trace() | x.take(i[0]) | x.take_along_dim(i, 0) | x.index_select(0, i[0])
x.index_select(dim=1, index=i[1]) | x.gather(0, i) | x.gather(dim=1, index=i)
x.scatter(0, i[:1], y) | x.scatter(0, i[:1], 2.0) | x.scatter(1, i[:, :1], 2.0, reduce="add")
x.scatter(dim=0, index=i[:1], src=y) | x.scatter(1, i[:, :1], value=1) | x.scatter_add(0, i, y)
x.scatter_reduce(0, i, y, "amax") | x.scatter_reduce(0, i, y, reduce="mean", include_self=False)
x.index_add(0, i[0], x[i[0]]) | x.index_add(0, i[0], x[i[0]], alpha=2) | x.index_fill(1, i[0], 3)
x.index_copy(0, i[0][:1], y[:1]) | x.index_put((i[0], i[1]), y[0, 0])
x.index_put((i[0],), y[:1], accumulate=True) | x.masked_fill(b, 0) | x.masked_fill(b, -math.inf)
x.masked_select(b) | x.masked_scatter(b, y) | x.matmul(y.t()) | x.mm(y.t()) | x @ y.mT
x[0] @ y[0] | x @ y[0] | x[None].bmm(y.t()[None]) | x.mv(y[0]) | x[0].dot(y[0]) | x[0].vdot(y[0])
x[0].inner(y[0]) | x[0].outer(y[0]) | x[0].ger(y[0]) | x.kron(y[:2, :2])
x[:, :3].cross(y[:, :3], dim=1) | x[:, :2].addmm(x, y.t()[:, :2], beta=2) | x[:, 0].addmv(x, y[0])
x[None, :, :3].baddbmm(x[None], y.t()[None]) | x.type_as(i) | i.type_as(x) | x // y | x % y | -x
+x | abs(x) | x ** 2 | 2 ** x | 1 - x | 2 / x | x.__rsub__(1) | ~b | b & (x > 0) | i << 1
""".replace("\n", " | ").split(" | ")  # fmt: skip
LINES = [line for line in LINES if line]


def names_of(face, dtype):
    source = np.random.default_rng(0)
    x = (source.permutation(12) / 4 - 1.6).reshape(3, 4).astype(dtype)
    y = (source.permutation(12) / 5 - 1.1).reshape(3, 4).astype(dtype)
    i = source.integers(0, 3, (3, 4))
    make = fx.asarray if face is fx else torch.tensor
    return {
        "x": make(x), "y": make(y), "i": make(i), "b": make(x > y), "F": face.float64, "math": math
    }  # fmt: skip


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.filterwarnings("ignore:.*reduce argument.*:UserWarning")
def test_the_same_line(line):
    for dtype in (np.float32, np.float64):
        got = flat(eval(line, names_of(fx, dtype)))
        want = flat(eval(line, names_of(torch, dtype)))
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            if isinstance(w, bool):
                assert g is w
                continue
            assert g.shape == tuple(w.shape)
            assert g.dtype.name == str(w.dtype).removeprefix("torch.")
            rtol = 2e-6 if w.dtype == torch.float32 else 1e-12
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=rtol, atol=rtol)


def test_the_other_words():
    x = fx.asarray([[1.0, 4.0, 2.0], [3.0, 0.0, 5.0]])
    for name, words in {
        "sum": {"axis": 0, "keepdims": True}, "max": {"axis": 1, "keepdims": True},
        "median": {"axis": 1}, "var": {"axis": 0, "keepdims": True}, "sort": {"axis": 0},
        "squeeze": {"axis": 0}, "flip": {"axis": 1}, "roll": {"shifts": 1, "axis": 1},
        "cumsum": {"axis": 1}, "argmax": {"axis": 0, "keepdims": True}, "diff": {"axis": 0},
        "unsqueeze": {"axis": 0}, "softmax": {"axis": 0}, "any": {"axis": 0, "keepdims": True},
        "permute": {"axes": (1, 0)}, "select": {"axis": 1, "index": 0},
    }.items():  # fmt: skip
        method = getattr(x, name)
        other = {"axis": "dim", "keepdims": "keepdim", "axes": "dims"}
        same = {other.get(k, k): v for k, v in words.items()}
        if name == "permute":
            continue
        if name in ("flip", "roll"):
            same["dims"] = same.pop("dim")
        if name == "flip":
            want = [x.flip(1)]
        else:
            want = flat(method(**same))
        for a, b in zip(flat(method(**words)), want, strict=True):
            assert fx.array_equal(a, b), name
    assert x.permute(axes=(1, 0)).shape == x.permute(dims=(1, 0)).shape == (3, 2)


def test_every_method_of_the_table_is_there():
    for _, names in methods._SAME:
        for name in names.split():
            assert callable(getattr(fx.Tensor, name)), name
    for name in dir(fx.Tensor):
        method = inspect.getattr_static(fx.Tensor, name)
        if callable(method) and not name.startswith("_"):
            assert method.__doc__, name


def test_python_rounds_and_divides():
    x = fx.asarray([-1.5, 0.5, 2.5])
    assert round(x).tolist() == [-2, 0, 2] and math.floor(x).tolist() == [-2, 0, 2]
    assert math.ceil(x).tolist() == [-1, 1, 3] and math.trunc(x).tolist() == [-1, 0, 2]
    assert round(x, 1).tolist() == [-1.5, 0.5, 2.5]
    for a, b in ((x, 2), (7, x), (x, x + 1)):
        quotient, rest = divmod(a, b)
        want = divmod(np.asarray(a), np.asarray(b))
        np.testing.assert_array_equal(quotient.numpy(), want[0])
        np.testing.assert_array_equal(rest.numpy(), want[1])
    assert (np.ones((1, 3), np.float32) @ x).tolist() == [1.5]
    assert isinstance(np.ones((1, 3), np.float32) @ x, fx.Tensor)


def test_gradients_pass_methods_as_in_torch():
    def loss(x):
        pooled = x.view(2, 6).max(1).values.sum() + x.sort(1, True).values[:, 0].prod()
        spread = x.std(0).norm() + x.median(1).values.exp().sum() + x.var()
        return pooled * spread + x.topk(2, 1).values.t().cumsum(0).square().mean()

    source = np.random.default_rng(3).normal(size=(3, 4))
    x, y = fx.tensor(source, requires_grad=True), torch.tensor(source, requires_grad=True)
    loss(x).backward()
    loss(y).backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-9)


def test_gradients_where_elements_tie():
    def loss(x, low):
        picked = x.max(1).values * 2 + x.min(1).values
        return (picked + x.amax(1)).sum() + (x.clamp(low).clamp(max=2.0) * x.clamp(min=1.0)).sum()

    source = np.asarray([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0], [0.0, 1.0, 0.0, 1.0]])
    arguments = [
        [face(a, requires_grad=True) for a in (source, np.ones((3, 1)))]
        for face in (fx.tensor, torch.tensor)
    ]
    for xs in arguments:
        loss(*xs).backward()
    ours, theirs = [[x.grad.numpy() for x in xs] for xs in arguments]
    np.testing.assert_array_equal(ours[0], theirs[0])


def test_limits_of_nan_give_nan_recorded_or_not():
    for x in (fx.ones(2), fx.ones(2, requires_grad=True)):
        assert fx.isnan(x.clamp(fx.asarray([float("nan"), 0.0]))).tolist() == [True, False]
        assert fx.isnan((x * float("nan")).clamp(0, 1)).all()


def test_methods_that_refuse():
    x = fx.ones((2, 3))
    for error, words, call in (
        (ShapeError, r"reshape: \(2, 3\) has 6 elements", lambda: x.view(4, 2)),
        (DTypeError, r"x.astype\(fx.int64\) to convert", lambda: x.view(fx.int64)),
        (ShapeError, r"x.t\(\) takes at most two axes", lambda: x[None].t()),
        (ShapeError, "has fewer axes", lambda: x.expand(3)),
        (ShapeError, "do not broadcast", lambda: x.expand(3, 3)),
        (ShapeError, "needs a count for each", lambda: x.repeat(2)),
        (AxisError, "max: axis 2 is out of range", lambda: x.max(2)),
        (AxisError, "select: axis 2", lambda: x.select(2, 0)),
        (DTypeError, "masked_fill: the mask must be bool, got f", lambda: x.masked_fill(x, 0)),
        (ShapeError, "source .* has fewer", lambda: x.masked_scatter(x > 0, fx.ones(2))),
        (ValueError, "rounding_mode must be", lambda: x.div(2, rounding_mode="up")),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            call()
