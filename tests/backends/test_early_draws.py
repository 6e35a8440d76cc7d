"""The first draws of a process, which NumPy makes, and then compiled code: Numba's bits."""

import subprocess
import sys

import numpy as np
import pytest

from fx import limits
from fx.backends.cpu import _np_draws

SCRIPT = """
import sys
import numpy as np
import fx
from fx import limits
from fx.backends.cpu import draws

key = fx.random.key(7)._a
kinds = [
    (family, shape, np.dtype(dtype))
    for family in ("uniform", "normal", "exponential", "gumbel", "laplace", "logistic")
    for shape, dtype in (((), "float32"), ((3, 5), "float64"), ((1000,), "float32"),
                         ((2049,), "float32"), ((3, 1501), "float64"))
]
early = []
for allowed in (100, 0):
    with limits.given(EARLY_DRAWS=allowed):
        early += [draws.random_draw(key, family=f, shape=s, dtype=d) for f, s, d in kinds]
        made = len(draws._loaded)
kinds += kinds
assert "numba" not in sys.modules, "the first draws load Numba"
draws._native = lambda family, dtype: None
draws._loaded.clear()
for (f, s, d), was in zip(kinds, early):
    now = draws.random_draw(key, family=f, shape=s, dtype=d)
    assert now.dtype == was.dtype and now.shape == was.shape, (f, s, d)
    assert now.tobytes() == was.tobytes(), (f, s, d)
print(made)
"""


def test_they_have_the_same_bits():
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert int(out.stdout) == 12


FIRST = """
import sys
import fx
import fx.torch as torch

for draw in (
    lambda: torch.randn(10, 10),
    lambda: torch.rand(3, dtype=torch.float64),
    lambda: torch.randint(0, 10, (5,)),
    lambda: torch.randperm(5),
    lambda: torch.bernoulli(torch.full((4,), 0.5)),
    lambda: torch.nn.functional.dropout(torch.ones(3, 3), 0.5),
    lambda: torch.nn.Linear(3, 4).weight,
    lambda: fx.vmap(lambda x: x + fx.randn(2))(fx.zeros((3, 2))),
):
    torch.manual_seed(3)
    print(draw().tolist())
print("numba" in sys.modules or "llvmlite" in sys.modules)
"""


def test_the_first_small_draws_load_no_compiler():
    def run(before):
        code = before + FIRST
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert out.returncode == 0, out.stderr
        return out.stdout.splitlines()

    *drawn, loaded = run("")
    assert loaded == "False"
    *again, loaded = run("from fx import limits; limits.EARLY_DRAWS = 0")
    assert loaded == "True"
    assert drawn == again


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_numpys_kernels_have_numbas_bits(rows):
    from fx.backends.cpu import _nb_draws, _nb_philox

    rng = np.random.default_rng(rows)
    keys = rng.integers(0, 2**32, (rows, 6), np.uint32)
    for n in (0, 1, 6, 5000 // rows):
        for name, dtype in (
            ("uniform32", "f4"), ("uniform64", "f8"), ("normal32", "f4"), ("normal64", "f8"),
        ):  # fmt: skip
            a, b = np.empty((2, rows, n), dtype)
            getattr(_np_draws, name)(keys, a)
            getattr(_nb_draws, name)(keys, b)
            assert a.tobytes() == b.tobytes(), (name, n)
        a, b = np.empty((2, rows, n), np.uint32)
        _np_draws.fill(keys, a)
        _nb_philox.fill(keys, b)
        assert np.array_equal(a, b)
    a, b = np.empty((2, rows, 6), np.uint32)
    data = rng.integers(0, 2**32, rows, np.uint32)
    _np_draws.derive(keys, data, a)
    _nb_philox.derive(keys, data, b)
    assert np.array_equal(a, b)


@pytest.mark.parametrize("planes", [2, 4])
@pytest.mark.parametrize("span", [[10], [0], [2**63 + 12345], None], ids=str)
def test_whole_numbers_below_a_span_too(planes, span):
    from fx.backends.cpu import _nb_draws

    rng = np.random.default_rng(planes)
    words = rng.integers(0, 2**32, (3, planes, 40), np.uint32)
    spans = rng.integers(0, 2**64, 120, np.uint64) if span is None else np.array(span, np.uint64)
    a, b = np.empty((2, 3, 40), np.uint64)
    _np_draws.below(words, spans, a)
    _nb_draws.below(words, spans, b)
    assert np.array_equal(a, b)


@pytest.mark.parametrize(
    "bounds", [(0, 10), (-7, 3), (5, 6), (0, 1 << 32), (-(1 << 62), 5 - (1 << 62))]
)
@pytest.mark.parametrize("shape", [(1,), (3, 5), (2047,), (2049,), (3, 1501)])
def test_integers_are_those_of_the_words(shape, bounds):
    import fx
    from fx.backends.cpu import draws
    from fx.random.discrete import _integers_reference

    low, high = bounds
    keys = fx.random.split(fx.random.key(11), 3)
    how = {"shape": shape, "low": low, "high": high, "dtype": fx.int64}
    with limits.given(EARLY_DRAWS=0):
        for key in (keys[1], fx.stack([keys[0]] * 6, 1)[:, 2]):  # one that is not dense
            got = draws.random_integers(key._a, **how)
            want = _integers_reference(key, **how).numpy()
            np.testing.assert_array_equal(got, want)
            again = fx.random.randint(key, shape, low, high).numpy()
            np.testing.assert_array_equal(again, want)
            assert want.min() >= low and want.max() < high
