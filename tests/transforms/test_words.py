"""Every word of up to three transforms on one function, against JAX.

A letter turns a function of a vector to a number into another one, so that letters compose freely.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest

import fx
from tests.thorough import THOROUGH
from tests.transforms.oracle import array, jax, jnp, x64

POINT = np.array([0.3, -0.7, 1.1])
WEIGHTS = np.array([1.0, -0.5, 2.0])
SCALES = np.array([1.0, 0.6])
MATRIX = np.array([[0.2, -0.4, 0.9], [1.1, 0.3, -0.6]])


def function(m, matrix):
    """Elementwise functions around a product of matrices, a reduction, an index."""

    def f(x):
        return m.exp(m.sum(m.tanh(matrix @ x) * m.exp(0.3 * x[0])) + m.sin(x[1] * x[2]) * x[0])

    return f


def by_grad(f):
    return lambda x: (fx.grad(f)(x) * W).sum()


def by_backward(f):
    def g(x):
        x = (x + 0.0).requires_grad_()
        y = f(x)
        (found,) = fx.autograd.grad(y, x, create_graph=True)
        return (found * W).sum()

    return g


def by_accumulation(f):
    def g(x):
        x = (x + 0.0).requires_grad_()
        f(x).backward(inputs=[x], create_graph=True)
        return (x.grad * W).sum()

    return g


def by_vjp(f):
    def g(x):
        _, pullback = fx.vjp(f, x)
        return (pullback(1.0)[0] * W).sum()

    return g


def by_linearize(f):
    return lambda x: fx.linearize(f, x)[1](W * x)


def by_transpose(f):
    """The derivative along x: the linear part, transposed twice."""

    def g(x):
        push = fx.linearize(f, x)[1]
        pull = fx.linear_transpose(push, x.spec)
        return (pull(1.0)[0] * W * x).sum()

    return g


W = fx.tensor(WEIGHTS)
S = fx.tensor(SCALES)
LETTERS = {
    "g": by_grad,
    "j": lambda f: lambda x: fx.jvp(f, (x,), (W * x,))[1],
    "v": lambda f: lambda x: fx.vmap(lambda s: f(s * x))(S).sum(),
    "b": by_backward,
    "a": by_accumulation,
    "p": by_vjp,
    "l": by_linearize,
    "t": by_transpose,
    "R": lambda f: lambda x: (fx.jacrev(f)(x) * W).sum(),
    "F": lambda f: lambda x: (fx.jacfwd(f, chunk_size=2)(x) * W).sum(),
    "c": lambda f: lambda x: fx.sin(fx.checkpoint(f)(x)),
}
PLAIN = {"s": lambda f: lambda x: fx.sin(f(x)), **LETTERS}
CLOSED = [letter for letter in LETTERS if letter not in "ab"]  # those make leaves of plain tensors
MEANING = {"b": "g", "a": "g", "p": "g", "R": "g", "F": "g", "l": "j", "t": "j", "c": "s"}
JAX_LETTERS = {
    "g": lambda f: lambda x: jnp.sum(jax.grad(f)(x) * WEIGHTS),
    "j": lambda f: lambda x: jax.jvp(f, (x,), (WEIGHTS * x,))[1],
    "s": lambda f: lambda x: jnp.sin(f(x)),
    "v": lambda f: lambda x: jnp.sum(jax.vmap(lambda s: f(s * x))(jnp.asarray(SCALES))),
}


# a word runs once, and optimising it takes JAX longer
AT_ONCE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@cache
def expected(meaning):
    with x64():
        f = function(jnp, jnp.asarray(MATRIX))
        for letter in reversed(meaning):
            f = JAX_LETTERS[letter](f)
        return float(jax.jit(f, compiler_options=AT_ONCE)(jnp.asarray(POINT)))


@pytest.mark.parametrize("outer", LETTERS)
@pytest.mark.parametrize("middle", ["", *LETTERS])
def test_words_of_up_to_three_letters_equal_jax(outer, middle):
    """All of one and two letters, of three letters every sixth: each pair with other sixths."""
    matrix = fx.tensor(MATRIX)
    letters = list(LETTERS)
    third = letters
    if middle and not THOROUGH:
        third = letters[(letters.index(outer) + letters.index(middle)) % 6 :: 6]
    for inner in ["", *third] if middle else [""]:
        word = outer + middle + inner
        f = function(fx, matrix)
        for letter in reversed(word):
            f = PLAIN[letter](f)
        meaning = "".join(MEANING.get(letter, letter) for letter in word)
        found = array(f(fx.tensor(POINT)))
        np.testing.assert_allclose(found, expected(meaning), rtol=1e-9, err_msg=word)


@pytest.mark.parametrize("word", ["gggg", "jgjg", "vgvg", "bbbb", "cgcg", "ltFR", "gvjb", "bvag"])
def test_words_of_four_letters_equal_jax(word):
    f = function(fx, fx.tensor(MATRIX))
    for letter in reversed(word):
        f = PLAIN[letter](f)
    meaning = "".join(MEANING.get(letter, letter) for letter in word)
    np.testing.assert_allclose(array(f(fx.tensor(POINT))), expected(meaning), rtol=1e-9)


@pytest.mark.parametrize("word", ["".join(w) for n in (1, 2) for w in product(LETTERS, repeat=n)])
def test_a_leaf_outside_gets_its_gradient_through_every_word(word):
    """A level-0 leaf that the function closes over, against the same leaf as an argument."""

    def through(matrix, word):
        f = function(fx, matrix)
        for letter in reversed(word):
            f = PLAIN[letter](f)
        return f(fx.tensor(POINT))

    leaf = fx.tensor(MATRIX, requires_grad=True)
    through(leaf, word).backward()
    meaning = "".join(MEANING.get(letter, letter) for letter in word)
    wanted = fx.grad(through)(fx.tensor(MATRIX), meaning)
    np.testing.assert_allclose(array(leaf.grad), array(wanted), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("word", ["".join(w) for n in (1, 2) for w in product(CLOSED, repeat=n)])
def test_a_value_of_an_outer_transform_gets_its_gradient_through_every_word(word):
    """The same for a function that closes over a tracer of ``grad``."""

    def through(matrix, word):
        f = function(fx, matrix)
        for letter in reversed(word):
            f = PLAIN[letter](f)
        return f(fx.tensor(POINT))

    meaning = "".join(MEANING.get(letter, letter) for letter in word)
    wanted = fx.grad(through)(fx.tensor(MATRIX), meaning)
    found = fx.grad(through)(fx.tensor(MATRIX), word)
    np.testing.assert_allclose(array(found), array(wanted), rtol=1e-9, atol=1e-12)
