"""Numbers under ``jit`` are Python's: value, type, dtype and exception, compiled for another one.

Each expression is called with an ordinary number first, so that it is compiled for that, and then
with numbers at the edges of integers, floats and dtypes. What it gives eagerly is the oracle.
"""

import math
import warnings

import numpy as np
import pytest

import fx
from tests.thorough import pairs

EDGES = (
    0, 1, -3, 255, 256, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30,
    10**400, 0.0, -0.0, 0.5, -2.5, math.inf, -math.inf, math.nan, 5e-324, 1e308, True, False,
    np.float32(0.1), np.float64(-0.0), np.float64(0.1), np.float16(3), np.int8(100), np.int64(7),
    np.uint8(200), np.bool_(True), 2 + 1j,
)  # fmt: skip
X = fx.tensor([1.0, -2.0])
TENSORS = {
    "float32": X,
    "float64": fx.tensor([1.0, -2.0], dtype=fx.float64),
    "bfloat16": fx.tensor([1.0, -2.0], dtype=fx.bfloat16),
    "int8": fx.tensor([1, -2], dtype=fx.int8),
    "uint8": fx.tensor([1, 200], dtype=fx.uint8),
    "bool": fx.tensor([True, False]),
}


def _handled(x, n, errors, f):
    try:
        return f(n)
    except errors as error:
        return x * 7, type(error).__name__


def _catches(x, n):
    return _handled(x, n, OverflowError, lambda n: x * float(n * 2))


def _branches(x, n):
    if n > 2**62 or n != n:
        return x - 1
    return x + 1 if n else x * 3


def _kind(n):
    return {int: 1, float: 2}.get(type(n), 3)


NUMBERS = {
    "product": lambda x, n, m: (n * m, n * n),
    "sum": lambda x, n, m: (n + m, n + n, n - m),
    "quotient": lambda x, n, m: (m / n, n // m),
    "remainder": lambda x, n, m: (n % m, m % n),
    "divmod": lambda x, n, m: (divmod(n, m), divmod(m, n)),
    "power": lambda x, n, m: (n**2, 2 ** min(m, 4), n**-1),
    "modular power": lambda x, n, m: pow(n, 3, 7),
    "bits": lambda x, n, m: (n & m, n | 5, 5 ^ n, ~n, n >> 1, 1 << min(n, 80)),
    "signs": lambda x, n, m: (-n, +n, abs(n), math.copysign(1, n)),
    "round": lambda x, n, m: (round(n), round(n, 1), math.floor(n), math.ceil(n), math.trunc(n)),
    "conversions": lambda x, n, m: (int(n), bool(n), str(n), f"{n:.3}"),
    "float": lambda x, n, m: float(n),
    "index": lambda x, n, m: (1, 2, 3)[n],
    "hash": lambda x, n, m: hash(n) == hash(m),
    "order": lambda x, n, m: (n < m, n <= m, n == m, n != m, n > m, n >= m, n == 2**63),
    "between": lambda x, n, m: -1 < n < m + 0.5,
    "extremes": lambda x, n, m: (max(n, m), min(n, m, 3), sum([n, m]), sorted([m, n])),
    "math": lambda x, n, m: (math.sqrt(n), math.isinf(n), math.isnan(n)),
    "isinstance": lambda x, n, m: (isinstance(n, int), isinstance(n, float), isinstance(m, int)),
    "types": lambda x, n, m: (type(n) is int, type(n).__name__, _kind(m)),
    "methods": lambda x, n, m: (n.real, n.conjugate(), n.is_integer()),
    "containers": lambda x, n, m: ({"a": [n, (m,)]}, n in (0, 1), {n: 1}[n]),
}
MEETINGS = {
    "times": lambda x, n, m: x * n,
    "minus": lambda x, n, m: n - x,
    "over": lambda x, n, m: x / n,
    "floor": lambda x, n, m: x // n,
    "power": lambda x, n, m: x**n,
    "less": lambda x, n, m: x < n,
    "equal": lambda x, n, m: n == x,
    "product": lambda x, n, m: x * (n * m),
    "sum of squares": lambda x, n, m: x + (n * n + m),
    "where": lambda x, n, m: fx.where(x > 0, n, x),
    "maximum": lambda x, n, m: fx.maximum(x, n),
    "clip": lambda x, n, m: fx.clip(x, 0, n),
    "full": lambda x, n, m: fx.full((2,), n),
    "full like": lambda x, n, m: fx.full_like(x, n),
    "tensor": lambda x, n, m: fx.asarray(n) + x,
    "stack": lambda x, n, m: fx.asarray([1, n]),
    "arange": lambda x, n, m: fx.arange(min(max(n, -3), 9), 9, m),
    "catches": lambda x, n, m: _catches(x, n),
    "divides": lambda x, n, m: _handled(x, n, ZeroDivisionError, lambda n: x * (1 / n)),
    "branches": lambda x, n, m: _branches(x, n),
}


def outcome(f, *args):
    """What a call gives, in a form that tells 0.0 from -0.0, 1 from True, int from float."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            out = f(*args)
        except Exception as error:
            return type(error).__name__

    def shown(y):
        if isinstance(y, fx.Tensor):
            close = y.dtype.name if y.dtype.kind == "f" else ""
            return Tensor(y.dtype.name, np.asarray(y.astype(fx.float64) if close else y))
        return type(y).__name__, repr(y)

    return [shown(leaf) for leaf in fx.tree.leaves(out)]


class Tensor:
    """A tensor that equals one of its dtype whose elements differ in rounding alone."""

    def __init__(self, dtype, array):
        self.dtype, self.array = dtype, array

    def __eq__(self, other):
        steps = {"float32": 1e-6, "float64": 1e-14, "bfloat16": 1e-2}
        close = np.allclose(self.array, other.array, steps.get(self.dtype, 0), 0, equal_nan=True)
        return self.dtype == other.dtype and self.array.shape == other.array.shape and close

    def __repr__(self):
        return f"{self.dtype} {self.array.tolist()}"


def check(f, x, values):
    jitted = fx.jit(f)
    wrong = []
    for n, m in values:
        expected, got = outcome(f, x, n, m), outcome(jitted, x, n, m)
        if got != expected:
            wrong.append((n, m, expected, got))
    assert not wrong, "\n".join(map(repr, wrong[:5]))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_alone(name):
    check(NUMBERS[name], X, [(2, 3), *[(n, 2) for n in EDGES], *[(n, n) for n in EDGES]])


@pytest.mark.parametrize(
    ("name", "dtype"),
    # eagerly a bool is not filled with a number beyond int64
    [case for case in pairs(MEETINGS, TENSORS, 2) if case != ("full like", "bool")],
)
def test_numbers_that_meet_tensors(name, dtype):
    some = EDGES if dtype in ("float32", "uint8") else EDGES[::3]
    check(MEETINGS[name], TENSORS[dtype], [(2, 3), (0.5, 2), *[(n, 2) for n in some]])


@pytest.mark.parametrize("name", [*NUMBERS, *MEETINGS])
def test_numbers_of_a_function_around(name):
    """What the inner function assumes of numbers, the outer one assumes as well."""
    f = {**NUMBERS, **MEETINGS}[name]
    inner = fx.jit(f)
    check(lambda x, n, m: inner(x, n + 0, m), X, [(2, 3), *[(n, 2) for n in EDGES[::4]]])


OTHERS = ("'a'", "b'x'", "None", "[1, 2]", "(1,)", "{}", "{1}", "object()", "[]", "range(3)")
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "&", "<<", "<", "<=", ">", ">=", "==", "!=")


@pytest.mark.parametrize("number", [2, 2.5, np.float32(2), np.int64(3), np.float64(1)], ids=repr)
def test_numbers_beside_other_things(number):
    """Also what NumPy's numbers make of lists, and the class of each refusal."""
    x = fx.ones(2)
    for operator in OPERATORS:
        for other in OTHERS:
            for text in (f"n {operator} {other}", f"{other} {operator} n"):
                f = eval(f"lambda x, n: (x, {text})")
                outcomes = []
                for g in (f, fx.jit(f)):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        try:
                            found = g(x, number)[1]
                            outcomes.append((type(found), str(found)))
                        except Exception as error:
                            outcomes.append(type(error))
                if not text.startswith(("'a' %", "b'x' %")):  # formats, which NumPy's take for maps
                    assert outcomes[0] == outcomes[1], text


@pytest.mark.parametrize("cut", ["x[:n]", "x[n:]", "x[-n:]", "x[:-n]", "x[n : n + 2]"])
def test_ends_of_slices_beyond_64_bits(cut):
    f = eval(f"lambda x, n: {cut}")
    jitted, x = fx.jit(f), fx.arange(5.0)
    for n in (2, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), -(10**30), 0, 3):
        assert jitted(x, n).tolist() == f(x, n).tolist()


@pytest.mark.parametrize(
    "call", ["fx.repeat(x, n)", "fx.pad(x, n)", "fx.pad(x, (n, 1))", "fx.tile(x, n)", "fx.eye(n)"]
)
def test_numbers_that_are_sizes(call):
    f = eval(f"lambda x, n: {call}")
    jitted, x = fx.jit(f), fx.arange(3.0)
    for n in (2, 1, 3, 0):
        assert jitted(x, n).tolist() == f(x, n).tolist()


@pytest.mark.parametrize("n", [0.5, 2.0])
def test_a_float_is_no_number_of_times(n):
    f = lambda x, n: fx.repeat(x, n)
    for way in (f, fx.jit(f)):
        with pytest.raises(TypeError, match="must be an int"):
            way(fx.arange(3.0), n)
