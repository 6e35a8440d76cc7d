"""Words over {grad, jvp, vmap, jit, staging} on a function of one vector, for fx and for JAX."""

from itertools import product

import numpy as np

import fx
from fx.graph.staging import stage
from tests.transforms.oracle import jax, jnp, theirs, x64

POINT = np.array([0.9, 0.35, 0.6])
LANES = np.array([[0.0, 0.0, 0.0], [0.45, -0.1, 0.2], [-0.5, 0.3, 0.5]])


class Theirs:
    """JAX's names on the side of fx."""

    xp, lax, vmap, jit = jnp, jax.lax, staticmethod(jax.vmap), staticmethod(jax.jit)
    grad = staticmethod(jax.grad)

    @staticmethod
    def jvp(f, x, t):
        return jax.jvp(f, (x,), (t,))[1]


class Ours:
    xp, lax, vmap, jit, grad = (
        fx,
        fx,
        staticmethod(fx.vmap),
        staticmethod(fx.jit),
        staticmethod(fx.grad),
    )

    @staticmethod
    def jvp(f, x, t):
        return fx.jvp(f, (x,), (t,))[1]


def applied(side, word, f, make):
    """The function that a word makes of ``f``; ``make`` turns an array into the side's own."""
    for letter in reversed(word):
        f = _LETTERS[letter](side, f, make)
    return f


def _weights(shape):
    size = int(np.prod(shape))
    return np.cos(np.arange(size) * 1.7 + 0.3).reshape(shape)


def _grad(side, f, make):
    def scalar(x):
        y = f(x)
        return (y * make(_weights(y.shape))).sum()

    return side.grad(scalar)


def _jvp(side, f, make):
    return lambda x: side.jvp(f, x, make(_weights(x.shape)))


def _vmap(side, f, make):
    return lambda x: side.vmap(f)(x + make(LANES.reshape(3, *[1] * (len(x.shape) - 1), 3)))


def _jit(side, f, make):
    return side.jit(f)


def _staged(side, f, make):
    """By the interpreter of the graph: the rules of the primitives, without compiling."""

    def run(x):
        graph, captured = stage(lambda x: [f(x)], [x.spec])
        return graph.run(x, *captured)[0]

    return run


_LETTERS = {"g": _grad, "j": _jvp, "v": _vmap, "c": _jit, "s": _staged}


def words(letters, length):
    return ["".join(w) for n in range(length + 1) for w in product(letters, repeat=n)]


def values(case, word):
    """What fx and JAX give for a word at the point."""
    ours = applied(Ours, word, case(fx, fx), fx.tensor)(fx.tensor(POINT))
    with x64():
        f = case(jnp, jax.lax)
        expected = jax.jit(applied(Theirs, word, f, theirs))(theirs(POINT))
        return ours, np.asarray(expected)
