"""Python numbers under ``jit``: inputs, until Python asks about them: answers are guarded."""

import math

import numpy as np
import pytest

import fx

X = fx.tensor([1.0, -2.0], dtype=fx.float64)
NUMBERS = (2, 0, -3, 2.5, 7, -0.5)
ARITHMETIC = {
    "add": lambda x, n: x + (n + 1) - n,
    "divide": lambda x, n: x * (1 / n if n else 5),
    "floor and mod": lambda x, n: x * (n // 2) + n % 3,
    "divmod": lambda x, n: x * divmod(n, 2)[0] + divmod(7, n + 10)[1],
    "power": lambda x, n: x + 2**n + n**2,
    "power of a float": lambda x, n: x * abs((n * 1.0) ** 0.5),
    "round": lambda x, n: x * round(n * 1.4) + int(n),
    "builtins": lambda x, n: x * min(n, 1) + max(n, 0.5) * abs(n) + sum([n, n]),
    "math": lambda x, n: x * math.sin(n) + math.floor(n),
    "numpy": lambda x, n: x * np.sqrt(abs(n)),
    "text": lambda x, n: x * len(f"{n:.2f}") + len(str(n)),
    "look-up": lambda x, n: {2: x, 7: x * 2}.get(n, -x),
    "index": lambda x, n: [x, x * 2, x * 3][int(n) % 3],
    "range": lambda x, n: sum((x * i for i in range(abs(int(n)))), x),
    "shape": lambda x, n: fx.zeros(abs(int(n)) + 1).sum() + x,
    "fill": lambda x, n: fx.full((2,), n, dtype=fx.float64) * x,
    "chain": lambda x, n: x if -1 < n < 3 else -x,
    "results": lambda x, n: (n, n * 2, n + x, float(n)),
    "huge": lambda x, n: x * float(10 ** (int(n) * int(n))),
}


def expect_same(got, want):
    for g, w in zip(fx.tree.leaves(got), fx.tree.leaves(want), strict=True):
        assert type(g) is type(w)
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-12)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name):
    f = ARITHMETIC[name]
    jitted = fx.jit(f)
    for n in (*NUMBERS, *NUMBERS):
        expect_same(jitted(X, n), f(X, n))


def test_an_error_about_a_number_is_not_frozen():
    def f(x, n):
        try:
            return x * (1 / n)
        except ZeroDivisionError:
            return x * 7

    for order in ((0, 2, -3, 0), (2, 0, -3, 0)):
        jitted = fx.jit(f)
        for n in order:
            expect_same(jitted(X, n), f(X, n))


def test_arithmetic_alone_is_never_a_reason_to_stage_again():
    jitted = fx.jit(lambda x, n: x * (n * 0.5 + 1) - n)
    for i in range(5):
        jitted(X, 0.25 * i)
    assert jitted.cache_size() == 1
