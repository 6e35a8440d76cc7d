"""Other transforms inside bodies, and bodies inside other transforms."""

import numpy as np
import pytest

import fx
from fx.graph.staging import stage
from tests.transforms.oracle import array, same

X = fx.tensor(np.array([0.5, 1.5, -0.7, 2.0]))


@fx.custom_vjp
def twice(x):
    return fx.sin(x)


twice.defvjp(lambda x: (fx.sin(x), x), lambda x, ct: (2 * ct * fx.cos(x),))


@fx.custom_jvp
def thrice(x):
    return fx.sin(x)


thrice.defjvp(lambda primals, tangents: (fx.sin(primals[0]), 3 * tangents[0] * fx.cos(primals[0])))

INNER = {
    "custom_vjp": twice,
    "custom_jvp": thrice,
    "checkpoint": fx.checkpoint(lambda x: fx.exp(fx.sin(x))),
    "jit": fx.jit(lambda x: fx.exp(fx.sin(x))),
    "grad": lambda x: fx.grad(lambda y: fx.sin(y).sum())(x),
    "vmap": lambda x: fx.vmap(fx.sin)(x) if x.ndim else fx.sin(x),
    "jvp": lambda x: fx.jvp(fx.sin, (x,), (x,))[1],
}
OUTER = {
    "scan": lambda k, x: fx.scan(lambda c, a: (k(c) * a, None), x[0], x)[0],
    "cond": lambda k, x: fx.cond(x.sum() > 0, lambda: k(x).sum(), lambda: x.sum()),
    "while": lambda k, x: fx.while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, k(v[1])), (0, x))[
        1
    ].sum(),
    "associative_scan": lambda k, x: fx.associative_scan(lambda a, b: k(a) * b, x)[-1],
}


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_transforms_inside_bodies(outer, inner):
    f = lambda x: OUTER[outer](INNER[inner], x)
    expected = array(fx.grad(f)(X))
    graph, captured = stage(lambda x: [fx.grad(f)(x)], [X.spec])
    same(graph.run(X, *captured)[0], expected)
    graph, captured = stage(lambda x: [f(x)], [X.spec])
    same(fx.grad(lambda x: graph.run(x, *captured)[0])(X), expected)
    same(fx.vmap(fx.grad(f))(X[None])[0], expected)
    same(fx.grad(lambda x: fx.vmap(f)(x[None]).sum())(X), expected)


def test_compiled():
    f = lambda x: OUTER["scan"](twice, x) + OUTER["cond"](INNER["checkpoint"], x)
    expected = array(fx.grad(f)(X))
    same(fx.jit(fx.grad(f))(X), expected)
    same(fx.grad(fx.jit(f))(X), expected)


def test_linear_functions():
    f = lambda x: fx.scan(lambda c, a: (c * 0.5 + a * 3, c), x[0], x)[1]
    g = lambda x: fx.cond(X[0] > 0, lambda x: x * 2, lambda x: x * 3, x)
    for h in (f, g):
        graph, captured = stage(lambda x: [h(x)], [X.spec])  # noqa: B023
        run = lambda x: graph.run(x, *captured)[0]  # noqa: B023
        jacobian = array(fx.jacrev(h)(X))
        same(fx.linear_transpose(run, X)(X)[0], jacobian.T @ array(X))
        same(fx.linearize(run, X)[1](X), jacobian @ array(X))


def test_linearize_keeps_what_is_known():
    f = lambda x: fx.scan(lambda c, a: (fx.sin(c) * a, c * c), x[0], x)[1]
    graph, captured = stage(lambda x: [f(x)], [X.spec])
    run = lambda x: graph.run(x, *captured)[0]
    same(fx.linearize(run, X)[1](X * 2), array(fx.jvp(f, (X,), (X * 2,))[1]))


def test_backward_inside_a_body():
    def step(c, a):
        leaf = c.detach().requires_grad_()
        (fx.sin(leaf) * a).backward()
        return c + leaf.grad, leaf.grad

    f = lambda x: fx.scan(step, x[0], x)
    total, c = [], 0.5
    for a in array(X):
        total.append(np.cos(c) * a)
        c += total[-1]
    same(f(X)[1], np.array(total))
    same(fx.jit(f)(X)[1], np.array(total))


def test_escaped_values_are_named():
    def body(c, a):
        raise LookupError(c)

    with pytest.raises(LookupError) as caught:
        fx.jit(lambda x: fx.scan(body, x[0], x)[1])(X)
    with pytest.raises(fx.errors.EscapedTracerError):
        caught.value.args[0] + 1
