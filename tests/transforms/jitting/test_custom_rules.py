"""Rules of the user's own in jitted functions: what is compiled goes by them, as eager code does.

No rule here is the derivative of its function, so that a rule that is lost gives other numbers. The
rules read what changes from call to call: a number, a tensor, a parameter, an argument.
"""

import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import fx
from fx import nn
from fx.autograd import Function
from tests.thorough import THOROUGH

around = SimpleNamespace(k=2.0, c=None, w=None)


def by_number(x):
    return x * around.k


def by_tensor(x):
    return x * around.c


def by_parameter(x):
    return x * around.w.detach()


def in_steps(x):
    return fx.sin(x) * 2.0


INSIDE = {f.__name__: f for f in (by_number, by_tensor, by_parameter, in_steps)}


def of_vjp(inside):
    rule = fx.custom_vjp(lambda x, n: inside(x) + n)
    rule.defvjp(
        lambda x, n: (inside(x) + n, (x, n)), lambda kept, ct: (inside(ct) * kept[0] * 5, None)
    )
    return rule


def of_jvp(inside):
    rule = fx.custom_jvp(lambda x: inside(x))
    rule.defjvp(lambda primals, tangents: (inside(primals[0]), inside(tangents[0]) * 7))
    return lambda x, n: rule(x) * n


def of_gradient(inside):
    @fx.custom_gradient
    def rule(x):
        return inside(x), lambda ct: (inside(ct) * 3,)

    return lambda x, n: rule(x) + n


def of_function(inside):
    class Rule(Function):
        @staticmethod
        def forward(ctx, x, n):
            y = inside(x)
            ctx.save_for_backward(y)
            ctx.n, ctx.positive = n, x > 0
            return y * n

        @staticmethod
        def backward(ctx, ct):
            (y,) = ctx.saved_tensors
            return inside(ct) * y * ctx.n * (ctx.positive + 2.0), None

    return Rule.apply


def of_branch(inside):
    class Rule(Function):
        @staticmethod
        def forward(ctx, x, n):
            return inside(x) if x.sum() > 0 else inside(x) - n

        @staticmethod
        def backward(ctx, ct):
            return inside(ct) * 11, None

    return Rule.apply


RULES = {f.__name__: f for f in (of_vjp, of_jvp, of_gradient, of_function, of_branch)}


def whole(rule):
    return lambda x, n: (rule(x * 2.0, n) ** 2).sum()


def in_scan(rule):
    return lambda x, n: fx.scan(lambda c, r: (rule(c + r, n), c), x * 0, fx.stack([x, x]))[0].sum()


def in_checkpoint(rule):
    return lambda x, n: fx.checkpoint(lambda x: fx.sin(rule(x, n)))(x).sum()


BODIES = {f.__name__: f for f in (whole, in_scan, in_checkpoint)}


def backward_inside(f, jit):
    def step(x, n):
        y = x.detach().requires_grad_()
        loss = f(y, n)
        loss.backward()
        return loss.detach(), y.grad

    return jit(step)


def backward_outside(f, jit):
    compiled = jit(f)

    def step(x, n):
        y = x.detach().requires_grad_()
        loss = compiled(y, n)
        loss.backward()
        return loss.detach(), y.grad

    return step


def twice(f, jit):
    compiled = jit(f)

    def step(x, n):
        y = x.detach().requires_grad_()
        (g,) = fx.autograd.grad(compiled(y, n), y, create_graph=True)
        (g * g).sum().backward()
        return g.detach(), y.grad

    return step


WAYS = {
    "values": lambda f, jit: jit(f),
    "grad inside": lambda f, jit: jit(lambda x, n: fx.grad(lambda x: f(x, n))(x)),
    "grad outside": lambda f, jit: (lambda g: lambda x, n: fx.grad(lambda x: g(x, n))(x))(jit(f)),
    "grad of grad": lambda f, jit: jit(
        lambda x, n: fx.grad(lambda x: fx.grad(lambda x: f(x, n))(x).sum())(x)
    ),
    "jvp outside": lambda f, jit: (
        lambda g: lambda x, n: fx.jvp(lambda x: g(x, n), (x,), (x + 1,))
    )(jit(f)),
    "lanes inside": lambda f, jit: jit(
        lambda x, n: fx.vmap(fx.grad(lambda x: f(x, n)))(fx.stack([x, x + 1]))
    ),
    "lanes outside": lambda f, jit: (
        lambda g: lambda x, n: fx.vmap(lambda x: g(x, n))(fx.stack([x, x + 1]))
    )(jit(lambda x, n: fx.grad(lambda x: f(x, n))(x))),
    "backward inside": backward_inside,
    "backward outside": backward_outside,
    "twice": twice,
}  # fmt: skip


def results(step):
    """What four calls give, between which everything changes that a rule may read."""
    around.k, around.c = 2.0, fx.tensor([1.0, 2.0, -1.0])
    around.w = nn.Parameter(fx.tensor([0.5, -1.0, 2.0]))
    found = []
    for i, n in enumerate((2, 2, 3, 0.5)):
        x = fx.tensor([0.3, 0.7, 1.1]) * (-1.0 if i == 3 else 1.0)
        try:
            out = step(x, n)
        except fx.errors.FxError as error:
            out = [fx.tensor(0.0), type(error).__name__]
        found.append(out)
        around.k += 1.0
        around.c = around.c * 1.5
        with fx.no_grad():
            around.w.mul_(2.0)
    return found


PAIRS = (  # what a rule reads, and where it is called
    ("by_number", "whole"), ("by_parameter", "in_scan"), ("in_steps", "in_scan"),
    ("by_tensor", "in_checkpoint"),
)  # fmt: skip
CASES = [
    (rule, *pair)
    for rule in RULES
    for pair in (
        itertools.product(INSIDE, BODIES)
        if THOROUGH
        else PAIRS[:2]
        if rule in ("of_gradient", "of_branch")  # what they stand on is that of of_vjp, of_function
        else PAIRS
    )
    if (rule, pair[1]) != ("of_branch", "in_scan")  # a body has no values to ask for
]


@pytest.mark.parametrize(("rule", "inside", "body"), CASES)
def test_a_rule_holds_wherever_the_derivative_is_taken(rule, inside, body):
    f = BODIES[body](RULES[rule](INSIDE[inside]))
    for name, way in WAYS.items():
        expected = results(way(f, lambda f: f))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # that it runs uncompiled
            found = results(way(f, fx.jit))
        for i, (a, b) in enumerate(zip(expected, found)):
            assert fx.tree.structure(a) == fx.tree.structure(b), (name, i, a, b)
            for p, q in zip(fx.tree.leaves(a), fx.tree.leaves(b)):
                if isinstance(p, str):
                    assert p == q, (name, i)
                else:
                    np.testing.assert_allclose(q, p, rtol=2e-5, err_msg=f"{name}, call {i}")


@pytest.mark.parametrize("rule", ["of_vjp", "of_jvp", "of_gradient", "of_function"])
def test_a_rule_is_compiled_with_the_rest(rule):
    f = fx.jit(lambda x: fx.grad(whole(RULES[rule](in_steps)))(x, 2))
    x = fx.tensor([0.3, 0.7, 1.1])
    graph = f.lower(x).graph
    assert {node.primitive.name for node in graph.nodes} <= {
        "multiply", "sin", "cos", "add", "greater", "astype", "where",
    }, graph  # fmt: skip


def test_a_rule_that_reads_what_changes_is_no_constant_outside():
    f = fx.jit(whole(RULES["of_gradient"](by_number)))
    around.k = 2.0
    x = fx.tensor([0.3, 0.7, 1.1])
    with pytest.warns(RuntimeWarning, match="a derivative rule of its own"):
        first = fx.grad(f)(x, 2)
    around.k = 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        second = fx.grad(f)(x, 2)
    assert not np.allclose(first, second)


def test_fx_compiles_its_own_rules_when_they_are_differentiated_outside():
    lstm = nn.LSTM(3, 4)
    f = fx.jit(lambda x: lstm(x)[0].sum())
    x = fx.ones(5, 2, 3).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x).backward()
        first, x.grad = x.grad, None
        f(x).backward()
    np.testing.assert_array_equal(x.grad, first)


def branched(x):
    y = x * 2.0
    with fx.no_grad():
        z = y * 3 if y.sum() > 0 else y
    return (y**2).sum() + z.sum()


def straight(x):
    y = x * 2.0
    with fx.no_grad():
        z = y * 3
    return (y**2).sum() + z.sum()


@pytest.mark.parametrize("f", [branched, straight])
def test_what_no_grad_hides_is_what_it_hides_eagerly(f):
    x = fx.tensor([0.3, 0.7, 1.1])
    compiled = fx.jit(f)
    outer = fx.jit(lambda x: compiled(x) * 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for g in (fx.jit(f), compiled, outer):
            for _ in range(2):
                np.testing.assert_allclose(fx.grad(g)(x), fx.grad(f)(x), rtol=1e-6)
                np.testing.assert_allclose(
                    fx.jvp(g, (x,), (x,))[1], fx.jvp(f, (x,), (x,))[1], rtol=1e-6
                )
    inside = fx.jit(lambda x: fx.jvp(f, (x,), (x,))[1])
    np.testing.assert_allclose(inside(x), fx.jvp(f, (x,), (x,))[1], rtol=1e-6)


def test_what_checkpoint_runs_again_outside_reads_numbers_of_that_call():
    def f(x, n):
        return fx.checkpoint(lambda x: fx.sin(x * n))(x).sum()

    compiled = fx.jit(f)
    for n in (2, 2.5, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = backward_outside(f, lambda _: compiled)(fx.ones(3), n)
        expected = backward_outside(f, lambda f: f)(fx.ones(3), n)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)


def asks(x):
    return (x * 2.0 if x.requires_grad else x * 3.0).sum()


def asks_for_its_place(x):
    y = x * 2.0
    return (y if y.grad_fn is None else y * 5.0).sum() + (x if x.is_leaf else x * x).sum()


@pytest.mark.parametrize("f", [asks, asks_for_its_place])
def test_whether_something_requires_grad_is_asked_in_each_way_of_calling(f):
    x = fx.tensor([0.3, 0.7, 1.1])
    compiled = fx.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(2):
            np.testing.assert_allclose(compiled(x), f(x), rtol=1e-6)
            np.testing.assert_allclose(fx.grad(compiled)(x), fx.grad(f)(x), rtol=1e-6)
            y, z = x.clone().requires_grad_(), x.clone().requires_grad_()
            compiled(y).backward()
            f(z).backward()
            np.testing.assert_allclose(y.grad, z.grad, rtol=1e-6)
