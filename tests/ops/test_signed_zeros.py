"""Numbers that are equal and not the same: zeros with a sign, in complex numbers too, and bools.

Whatever is kept by a number, or a program for one, is not served for an equal one.
"""

import itertools

import numpy as np
import pytest

import fx

REAL = (0.0, -0.0, 0, False, 1, True, 1.0)
COMPLEX = (
    complex(2, 0.0), complex(2, -0.0), 2.0, complex(0.0, 1), complex(-0.0, 1), 1j,
    complex(-0.0, -0.0), complex(0.0, 0.0), 0, -0.0,
)  # fmt: skip
X = np.array([1.5, -2.0], np.float32)
MADE = {
    "full": lambda v, of: of.full((2,), v),
    "large full": lambda v, of: of.full((200_000,), v)[:3],
    "asarray": lambda v, of: of.asarray(v),
    "in a list": lambda v, of: of.asarray([v, v]),
    "product": lambda v, of: of.asarray(X) * v,
    "where": lambda v, of: of.where(of.asarray(X) > 0, of.asarray(X) * 0, v),
    "pad": lambda v, of: of.pad(of.asarray(X), 1, constant_values=v),
}


def bits(x):
    x = np.asarray(x.numpy() if isinstance(x, fx.Tensor) else x)
    parts = np.stack([x.real, x.imag]).astype(np.float64)
    return x.dtype.kind, parts.tolist(), np.signbit(parts).tolist()


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("numbers", [REAL, COMPLEX], ids=["real", "complex"])
def test_equal_numbers_are_not_the_same(name, numbers):
    if name == "pad" and numbers is COMPLEX:
        numbers = REAL
    make = MADE[name]
    for first, second in itertools.permutations(numbers, 2):
        for value in (first, second):
            if type(value) is complex and name in ("product", "where"):
                expected = bits(make(np.complex64(value), np))
            else:
                expected = bits(make(value, np))
            found = bits(make(value, fx))
            assert found[1:] == expected[1:], value


def scaled(x, k):
    return x * k


@pytest.mark.parametrize("how", [{}, {"static_argnums": 1}, {"static_argnames": "k"}])
@pytest.mark.parametrize("numbers", [REAL, COMPLEX], ids=["real", "complex"])
def test_a_program_is_for_the_number_itself(how, numbers):
    x = fx.ones(2)
    fast = fx.jit(scaled, **how)
    give = (lambda k: fast(x, k=k)) if "static_argnames" in how else lambda k: fast(x, k)
    for _, value in itertools.product(range(3), numbers):
        assert bits(give(value)) == bits(scaled(x, value)), value


def test_equal_static_tuples_are_not_the_same():
    fast = fx.jit(lambda x, k: (x * k[0], isinstance(k[0], bool)), static_argnums=1)
    x = fx.ones(2)
    for value in ((1,), (True,), (1.0,), (0.0,), (-0.0,), ((0.0, 1),)[0]):
        got, kind = fast(x, value)
        assert bits(got) == bits(x * value[0]) and kind is isinstance(value[0], bool)
