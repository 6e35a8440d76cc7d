"""Tracers that users trip over: values that outlive their transform, values of many lanes."""

import contextlib

import numpy as np
import pytest

import fx
from fx.errors import BatchedValueError, EscapedTracerError

X = [1.0, -2.0, 3.0]


@contextlib.contextmanager
def says(error, *words):
    with pytest.raises(error) as info:
        yield
    for word in words:
        assert word in str(info.value), f"{word!r} is not in: {info.value}"


# values of transforms that have returned --------------------------------------------------------

ESCAPES = {
    "grad": lambda f: fx.grad(lambda x: f(x * x).sum())(fx.tensor(X)),
    "vmap": lambda f: fx.vmap(lambda x: f(x * x))(fx.tensor(X)),
    "jvp": lambda f: fx.jvp(lambda x: f(x * x), (fx.tensor(X),), (fx.tensor(X),)),
    "checkpoint": lambda f: fx.checkpoint(lambda x: f(x * x))(fx.tensor(X)),
    "linear_transpose": lambda f: fx.linear_transpose(lambda x: f(x * 2.0), fx.tensor(X)),
}
USES = {
    "operator": lambda y: y + 1.0,
    "function": fx.sin,
    "item": lambda y: y.sum(),
    "numpy": lambda y: np.asarray(y.detach()),
    "another transform": lambda y: fx.grad(lambda v: (v * y).sum())(fx.tensor(X)),
    "vmap over it": lambda y: fx.vmap(lambda v: v * 2.0)(y[None]),
    "requires_grad_": lambda y: y.requires_grad_() * 2.0,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("name", ESCAPES)
def test_escaped_values_are_refused_by_name(name, use):
    kept = []

    def keep(y):
        kept.append(y)
        return y

    ESCAPES[name](keep)
    with says(EscapedTracerError, f"inside {name}", "test_tracers.py", "has_aux=True"):
        use(kept[0])


def test_an_escaped_value_can_be_printed():
    kept = []
    fx.vmap(lambda x: kept.append(x) or x)(fx.tensor(X))
    assert "outlived its vmap" in repr(kept[0])


def test_a_leaf_of_a_transform_that_returned():
    kept = []

    def f(x):
        x = x.requires_grad_()
        y = x * x
        kept.extend((x, y))
        y.backward(retain_graph=True)
        return x.grad

    fx.vmap(f)(fx.tensor(X))
    leaf, result = kept
    with says(EscapedTracerError, "used after the transform had returned"):
        result.backward()
    with says(EscapedTracerError, "used after the transform had returned"):
        leaf.grad + 1.0


# values that differ from lane to lane -----------------------------------------------------------

ASKED = {
    "if": lambda x: 1.0 if x > 0 else 2.0,
    "bool": bool,
    "float": float,
    "int": int,
    "item": lambda x: x.item(),
    "while": lambda x: next(x for _ in range(1) if x > 0),
    "numpy": np.asarray,
    "list": lambda x: x.tolist(),
    "range": lambda x: range(x.astype(fx.int64)),
    "and": lambda x: x > 0 and x < 1,
    "max": lambda x: max(x, 0.0),
    "format": lambda x: f"{x:.3f}",
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_one_value_of_many_lanes_is_refused(ask):
    with says(BatchedValueError, "differs from lane to lane", "fx.where(condition, x, y)"):
        fx.vmap(ask)(fx.tensor(X))


def test_shared_values_may_be_asked_inside_vmap():
    w = fx.tensor(2.0)
    assert fx.vmap(lambda x: x if w > 1.0 else -x)(fx.tensor(X)).tolist() == X


def test_grad_and_jvp_may_ask_for_values():
    f = lambda x: x * 3.0 if x > 0 else x * float(x)
    assert fx.grad(f)(fx.tensor(2.0)).item() == 3.0
    assert fx.grad(f)(fx.tensor(-2.0)).item() == -2.0
    assert fx.jvp(f, (fx.tensor(2.0),), (fx.tensor(1.0),))[1].item() == 3.0
