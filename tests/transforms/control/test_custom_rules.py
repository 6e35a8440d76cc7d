"""Rules of the user's own inside loops, branches, lanes and checkpoints, to the third derivative.

The rules are no true derivatives, so that it shows which of them was taken: a Python loop is the
oracle, and JAX for what it differentiates as its own Python loop does.
"""

from functools import partial

import numpy as np
import pytest

import fx
from fx import limits
from fx.graph.staging import stage
from tests.thorough import pairs
from tests.transforms.oracle import jax, jnp, x64

approx = partial(pytest.approx, rel=1e-10, abs=1e-12)


class Ours:
    sin, cos, stack, scan, switch = fx.sin, fx.cos, fx.stack, fx.scan, fx.switch
    fori_loop, while_loop, cond, checkpoint = fx.fori_loop, fx.while_loop, fx.cond, fx.checkpoint
    jit, vmap, grad, jvp, custom_vjp = fx.jit, fx.vmap, fx.grad, fx.jvp, fx.custom_vjp
    custom_jvp = fx.custom_jvp
    number = staticmethod(lambda x: fx.tensor(x, dtype=fx.float64))


class Theirs:
    sin, cos, stack, scan, switch = jnp.sin, jnp.cos, jnp.stack, jax.lax.scan, jax.lax.switch
    fori_loop, while_loop, cond = jax.lax.fori_loop, jax.lax.while_loop, jax.lax.cond
    checkpoint, jit, vmap, grad, jvp = jax.checkpoint, jax.jit, jax.vmap, jax.grad, jax.jvp
    custom_vjp, custom_jvp = jax.custom_vjp, jax.custom_jvp
    number = staticmethod(lambda x: jnp.asarray(x, dtype=jnp.float64))


# rules --------------------------------------------------------------------------------------------


def _reverse(xp):
    f = xp.custom_vjp(lambda x: xp.sin(x) * x)
    f.defvjp(lambda x: (xp.sin(x) * x, x), lambda x, ct: (ct * xp.cos(x) * 3,))
    return f


def _calls_itself(xp):
    f = xp.custom_vjp(lambda x: xp.sin(x) * x)

    def forward(x):
        y = f(x)
        return y, (x, y)

    f.defvjp(forward, lambda kept, ct: (ct * xp.cos(kept[0]) * kept[1],))
    return f


def _straight_through(xp):
    f = xp.custom_vjp(lambda x: xp.sin(x) * 2)
    f.defvjp(lambda x: (xp.sin(x) * 2, None), lambda _, ct: (ct * 1.5,))
    return f


def _forward(xp):
    f = xp.custom_jvp(lambda x: xp.sin(x) * x)
    f.defjvp(lambda xs, ts: (xp.sin(xs[0]) * xs[0], ts[0] * xp.cos(xs[0]) * 3))
    return f


def _forward_itself(xp):
    f = xp.custom_jvp(lambda x: xp.sin(x) * x)
    f.defjvp(lambda xs, ts: (f(xs[0]), ts[0] * xp.cos(xs[0]) * 3))
    return f


def _forward_linear(xp):
    f = xp.custom_jvp(lambda x: xp.sin(x) * 2)
    f.defjvp(lambda xs, ts: (xp.sin(xs[0]) * 2, ts[0] * 1.5))
    return f


def _in_lanes(xp):
    """The rule of a batch: what ``vmap`` makes of the rule of one lane."""
    f = _reverse(xp)
    return lambda x: xp.vmap(f)(xp.stack([x, x]))[1]


RULES = {
    "custom_vjp": _reverse,
    "custom_vjp that calls itself": _calls_itself,
    "straight through": _straight_through,
    "custom_jvp": _forward,
    "custom_jvp that calls itself": _forward_itself,
    "linear custom_jvp": _forward_linear,
    "lanes of custom_vjp": _in_lanes,
}

# programs: f(a * f(a * f(a * x))) -----------------------------------------------------------------

FACTOR = 1.1


def _loop(xp, f):
    a = xp.number(FACTOR)
    return lambda x: f(a * f(a * f(a * x)))


def _scan(xp, f):
    a = xp.number(FACTOR)
    return lambda x: xp.scan(lambda c, _: (f(a * c), c), x, None, length=3)[0]


def _last_row(xp, f):
    def step(c, _):
        y = f(xp.number(FACTOR) * c)
        return y, y

    return lambda x: xp.scan(step, x, None, length=3)[1][2]


def _fori(xp, f):
    return lambda x: xp.fori_loop(0, 3, lambda i, c: f(xp.number(FACTOR) * c), x)


def _while(xp, f):
    step = lambda c: (c[0] + 1, f(xp.number(FACTOR) * c[1]))
    return lambda x: xp.while_loop(lambda c: c[0] < 3, step, (0, x))[1]


def _cond(xp, f):
    return lambda x: xp.cond(x > -5.0, _loop(xp, f), lambda x: x, x)


def _cond_each(xp, f):
    once = lambda c: f(xp.number(FACTOR) * c)
    each = lambda x: xp.cond(x < 1e9, once, lambda c: c, x)
    return lambda x: each(each(each(x)))


def _switch(xp, f):
    return lambda x: xp.switch((x > -5.0).astype(int), [lambda x: x, _loop(xp, f)], x)


def _checkpoint(xp, f):
    each = xp.checkpoint(lambda x: f(xp.number(FACTOR) * x))
    return lambda x: each(each(each(x)))


def _checkpoint_all(xp, f):
    return xp.checkpoint(_loop(xp, f))


def _scan_of_checkpoint(xp, f):
    each = xp.checkpoint(lambda x: f(xp.number(FACTOR) * x))
    return lambda x: xp.scan(lambda c, _: (each(c), None), x, None, length=3)[0]


def _scan_of_cond(xp, f):
    once = lambda c: f(xp.number(FACTOR) * c)
    step = lambda c, _: (xp.cond(c < 1e9, once, lambda c: c, c), None)
    return lambda x: xp.scan(step, x, None, length=3)[0]


def _while_of_scan(xp, f):
    once = lambda c: xp.scan(lambda c, _: (f(xp.number(FACTOR) * c), None), c, None, length=1)[0]
    return lambda x: xp.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, once(c[1])), (0, x))[1]


def _jit(xp, f):
    return xp.jit(_loop(xp, f))


def _vmap(xp, f):
    return lambda x: xp.vmap(_loop(xp, f))(xp.stack([x, 0 * x]))[0]


def _vmap_of_scan(xp, f):
    return lambda x: xp.vmap(_scan(xp, f))(xp.stack([x, 0 * x]))[0]


def _vmap_of_while(xp, f):
    def each(x, n):
        step = lambda c: (c[0] + 1, f(xp.number(FACTOR) * c[1]))
        return xp.while_loop(lambda c: c[0] < n, step, (0 * n, x))[1]

    return lambda x: xp.vmap(each)(xp.stack([x, x]), xp.stack([xp.number(3.0), xp.number(1.0)]))[0]


PROGRAMS = {
    f.__name__[1:]: f
    for f in (
        _scan, _last_row, _fori, _while, _cond, _cond_each, _switch, _checkpoint,
        _checkpoint_all, _scan_of_checkpoint, _scan_of_cond, _while_of_scan, _jit, _vmap,
        _vmap_of_scan, _vmap_of_while,
    )
}  # fmt: skip
PROGRAMS["scan_again"] = lambda xp, f: (
    lambda x: xp.scan(
        lambda c, _: (f(xp.number(FACTOR) * c), None), x, None, length=3, checkpoint=True
    )[0]
)

# words --------------------------------------------------------------------------------------------


def _words(xp):
    grad = xp.grad
    push = lambda f: lambda x: xp.jvp(f, (x,), (x * 0 + 1,))[1]
    both = lambda f: lambda x: sum(xp.jvp(f, (x,), (x * 0 + 1,)))
    lanes = lambda f: lambda x: xp.vmap(f)(xp.stack([x * 0.5, x]))[1]
    return {
        "grad of grad": lambda f: grad(grad(f)),
        "jvp of grad": lambda f: push(grad(f)),
        "grad of jvp": lambda f: grad(push(f)),
        "grad of value and jvp": lambda f: grad(both(f)),
        "vmap of grad of grad": lambda f: lanes(grad(grad(f))),
    }


POINT = 0.7


@pytest.mark.parametrize(("program", "rule"), pairs(PROGRAMS, RULES, 2))
def test_rules_inside_bodies(program, rule):
    f, x = RULES[rule](Ours), Ours.number(POINT)
    expected = {k: w(_loop(Ours, f))(x).item() for k, w in _words(Ours).items()}
    g = PROGRAMS[program](Ours, f)
    assert {k: w(g)(x).item() for k, w in _words(Ours).items()} == approx(expected)
    found = {}
    for name, word in _words(Ours).items():
        graph, captured = stage(lambda x, word=word: [word(g)(x)], [x.spec])
        found[name] = graph.run(x, *captured)[0].item()
    assert found == approx(expected)


@pytest.mark.parametrize("program", ["scan", "fori", "while", "cond", "checkpoint", "vmap_of_scan"])
def test_rules_inside_bodies_compiled(program):
    f, x = _reverse(Ours), Ours.number(POINT)
    twice = fx.grad(fx.grad(PROGRAMS[program](Ours, f)))
    assert fx.jit(twice)(x).item() == approx(fx.grad(fx.grad(_loop(Ours, f)))(x).item())


@pytest.mark.parametrize("program", ["scan", "fori", "checkpoint", "vmap_of_scan"])
def test_rules_inside_bodies_as_in_jax(program):
    """JAX has no forward mode of a reverse rule."""
    x = Ours.number(POINT)
    g = PROGRAMS[program](Ours, _reverse(Ours))
    graph, captured = stage(lambda x: [fx.grad(fx.grad(g))(x)], [x.spec])
    with x64():
        theirs = PROGRAMS[program](Theirs, _reverse(Theirs))
        expected = float(jax.grad(jax.grad(theirs))(Theirs.number(POINT)))
    assert graph.run(x, *captured)[0].item() == approx(expected)


@pytest.mark.parametrize("loop", ["fori", "scan", "nested"])
def test_second_slopes_in_what_all_runs_share(loop):
    """What all runs read is hoisted, and reads views that stay in the body."""
    rule = fx.custom_vjp(lambda x, a: fx.sin(x) * a)
    rule.defvjp(
        lambda x, a: (fx.sin(x) * a, (x, a)),
        lambda kept, ct: (ct * fx.cos(kept[0]) * kept[1], (ct * kept[0] * kept[1]).sum()),
    )
    loops = {
        "fori": lambda x, a: fx.fori_loop(0, 3, lambda i, c: rule(c, a), x),
        "scan": lambda x, a: fx.scan(lambda c, r: (rule(c, a * r), r), x, x)[0],
        "nested": lambda x, a: fx.fori_loop(0, 2, lambda i, c: loops["fori"](c, a) + c, x),
    }
    slope = fx.grad(lambda x, a: loops[loop](x, a).sum(), argnums=1)
    x, a = fx.asarray(np.arange(1.0, 4.0)), fx.asarray(np.float64(0.7))
    want = fx.grad(lambda x, a: slope(x, a) ** 2, argnums=1)(x, a)
    for inner in (fx.jit(slope), slope):
        got = fx.jit(fx.grad(lambda x, a, inner=inner: inner(x, a) ** 2, argnums=1))(x, a)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)
    got = fx.grad(lambda x, a: fx.jit(slope)(x, a) ** 2, argnums=1)(x, a)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)


def test_a_while_of_any_number_of_runs_goes_back_by_kept_carries():
    """Also where the runs are more than the carries that are kept, and no multiple of these."""

    def total(x, n):
        runs = fx.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, fx.sin(s[1]) * 1.5), (0, x))
        return runs[1].sum()

    x = fx.tensor([0.3, 0.7], dtype=fx.float64)
    with limits.given(WHILE_LEAST=5, WHILE_MOST=7):
        slope = fx.jit(fx.grad(total))
        for n in (0, 1, 2, 6, 7, 8, 13, 14, 15, 30, 48, 49, 50):
            want = fx.grad(total)(x, fx.asarray(n))
            np.testing.assert_allclose(slope(x, fx.asarray(n)).numpy(), want.numpy(), rtol=1e-12)
