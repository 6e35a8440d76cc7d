"""The quick ways through bind are what bind is: values, derivatives, errors, transforms, cells."""

from __future__ import annotations

import numpy as np
import pytest

import fx
import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.indexing as indexing
import fx.prims.linear as linear
import fx.prims.reduction as reduction
import fx.prims.shape as shape
from fx.config import modes, writing
from fx.errors import AxisError, IndexingError, ShapeError
from fx.ops.reductions.reduction import argmax_along
from fx.quick import quick, quick_joint

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(3, 4)).astype(np.float32)
PLACES = RANDOM.integers(0, 3, size=(3, 4))
ROWS = [
    ("reshape", shape.reshaped, lambda x, s: shape.reshape(x, shape=s), ((2, 6),)),
    ("transpose", shape.transposed, lambda x, a: shape.transpose(x, axes=a), ((1, 0),)),
    ("broadcast", shape.stretched, lambda x, s: shape.broadcast_to(x, shape=s), ((2, 3, 4),)),
    ("sum", quick(reduction.sum, "axes", "keepdims"),
     lambda x, a, k: reduction.sum(x, axes=a, keepdims=k), ((1,), True)),
    ("softmax", quick(reduction.softmax, "axis"), lambda x, a: reduction.softmax(x, axis=a), (1,)),
    ("take", lambda x, a: indexing.taken(x, fx.asarray(PLACES[0]), a),
     lambda x, a: indexing.take(x, fx.asarray(PLACES[0]), axis=a), (1,)),
    ("gather", lambda x, a: indexing.taken_along(x, fx.asarray(PLACES), a),
     lambda x, a: indexing.take_along_axis(x, fx.asarray(PLACES), axis=a), (1,)),
    ("scatter", lambda x, a: indexing.scattered_along(x, fx.asarray(PLACES), x, a, "add"),
     lambda x, a: indexing.scatter_along_axis(x, fx.asarray(PLACES), x, axis=a, mode="add"), (1,)),
    ("where", lambda x: compare.chosen(fx.asarray(X > 0), x, x * 2.0),
     lambda x: compare.where(fx.asarray(X > 0), x, x * 2.0), ()),
    ("linear", lambda x: linear.shifted(x, x, fx.ones(3)),
     lambda x: linear.linear(x, x, fx.ones(3)), ()),
    ("concatenate", lambda x: shape.joined([x, x * 2.0], 1),
     lambda x: shape.concatenate(x, x * 2.0, axis=1), ()),
]  # fmt: skip
QUICK = pytest.mark.parametrize(
    "fast, plain, params", [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)


def slope(f, x, *params):
    leaf = fx.tensor(x, requires_grad=True)
    out = f(leaf, *params)
    (out * fx.arange(out.size, dtype=fx.float32).reshape(out.shape)).sum().backward()
    return out.detach().numpy(), leaf.grad.numpy(), out.grad_fn.name()


@QUICK
def test_it_is_the_primitive(fast, plain, params):
    x = fx.asarray(X)
    np.testing.assert_array_equal(fast(x, *params).numpy(), plain(x, *params).numpy())
    assert fast(x, *params).grad_fn is None
    for got, want in zip(slope(fast, X, *params), slope(plain, X, *params), strict=True):
        np.testing.assert_array_equal(got, want)
    with fx.no_grad():
        assert fast(fx.tensor(X, requires_grad=True), *params).grad_fn is None


@QUICK
def test_transforms_and_cells_go_through_the_primitive(fast, plain, params):
    alone = fast

    def fast(x, *params):
        out = alone(x, *params)
        return plain(x, *params) if out is None else out  # joined says so of tracers

    cell = fast(fx.nn.Parameter(fx.asarray(X)), *params)
    np.testing.assert_array_equal(cell.detach().numpy(), plain(fx.asarray(X), *params).numpy())
    batch = fx.asarray(np.stack([X, X * 2, X - 1]))
    lanes = fx.vmap(lambda x: fast(x, *params))(batch)
    for lane, x in zip(lanes, batch):
        np.testing.assert_allclose(lane.numpy(), plain(x, *params).numpy(), rtol=1e-6)
    hessian = fx.grad(lambda x: fx.grad(lambda x: (fast(x, *params) ** 2).sum())(x).sum())
    want = fx.grad(lambda x: fx.grad(lambda x: (plain(x, *params) ** 2).sum())(x).sum())
    np.testing.assert_allclose(
        hessian(fx.asarray(X)).numpy(), want(fx.asarray(X)).numpy(), rtol=1e-5, atol=1e-6
    )


def test_errors_are_those_of_the_rules():
    x = fx.asarray(X)
    with pytest.raises(ShapeError, match=r"reshape: \(3, 4\) has 12 elements and does not fit"):
        shape.reshaped(x, (5, 5))
    with pytest.raises(AxisError, match="are not a permutation"):
        shape.transposed(x, (0, 0))
    with pytest.raises(ShapeError, match="do not broadcast"):
        shape.stretched(x, (3, 5))
    with pytest.raises(IndexingError, match="index 9 is out of range for axis 1 of"):
        indexing.taken(x, fx.asarray([9]), 1)
    with pytest.raises(ShapeError, match="has no element along axes"):
        argmax_along(fx.zeros((3, 0)), 1, False)
    assert shape.joined([x, fx.ones((2, 2))], 0) is None
    assert shape.joined([x, fx.ones((3, 4), dtype=fx.int64)], 0) is None


def test_what_makes_tensors_is_staged_where_a_function_is():
    def f(x):
        return x + creation.filled((3, 4), 2.0, fx.float32, "cpu")

    np.testing.assert_array_equal(fx.jit(f)(fx.asarray(X)).numpy(), X + 2)
    assert creation.filled((2,), 1.0, fx.float32, "meta").device.name == "meta"


def test_a_view_is_noted_where_a_program_writes(monkeypatch):
    seen = []

    def note(x, out, primitive, params):
        seen.append((primitive, params))
        return out

    monkeypatch.setattr(writing, "started", True)
    monkeypatch.setattr(writing, "note", note)
    monkeypatch.setattr(modes, "views", True)
    shape.reshaped(fx.asarray(X), (12,))
    assert seen == [(shape.reshape, {"shape": (12,)})]


def test_an_error_of_a_handler_is_not_taken_for_arrays_that_do_not_join():
    """NumPy raises a plain ValueError for these; a signal's handler may raise one as well."""
    calls = []

    def kernel(arrays, axis):
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("of a handler")
        return np.concatenate(arrays, axis)

    join, x = quick_joint(shape.concatenate, "axis", kernel), fx.ones(3)
    with pytest.raises(ValueError, match="of a handler"):
        join([x, x], 0)
    assert join([x, x], 0).shape == (6,)
    assert join([x, fx.ones((2, 2))], 0) is None
