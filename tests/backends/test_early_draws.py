"""The first draws of a process, which NumPy makes, and then compiled code: the same bits."""

import subprocess
import sys

import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu import draws, philox
from fx.prims.draws import FAMILIES

DTYPES = (fx.float32, fx.float64, fx.float16, fx.bfloat16)


def both(draw):
    """What NumPy and what compiled code gives."""
    found = []
    for allowed in (1 << 60, 0):
        with limits.given(EARLY_DRAWS=allowed, EARLY_WORDS=1 << 60, EARLY_CALLS=0):
            found.append(draw())
            assert not (allowed and philox.loaded)
    return found


def check(draw):
    want, got = both(draw)
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.tobytes() == want.tobytes()


def keys(*lead, seed=0):
    return np.random.default_rng(seed).integers(0, 2**32, (*lead, 6), np.uint32)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("family", [*FAMILIES, "truncated", "mirrored"])
def test_samples_have_the_same_bits(family, dtype):
    ends = {"truncated": (-1.0, 2.0), "mirrored": (1.5, np.inf)}.get(family)
    for lead, shape in (((), (3, 1501)), ((3,), (7,)), ((2, 2), (2049,)), ((), ()), ((), (0, 3))):
        how = {"shape": shape, "dtype": dtype}
        if ends:
            how |= {"lower": ends[0], "upper": ends[1]}
            check(lambda how=how, lead=lead: draws.random_truncated_normal(keys(*lead), **how))
        else:
            check(lambda how=how, lead=lead: draws.random_draw(keys(*lead), family=family, **how))


def test_words_and_keys_have_the_same_bits():
    for lead in ((), (3,), (50,)):
        for n in (0, 1, 6, 5000):
            check(lambda n=n, lead=lead: philox.random_bits(keys(*lead), shape=(n,)))
        check(lambda lead=lead: philox.derive(keys(*lead)[..., None, :], np.arange(7)))


@pytest.mark.parametrize("planes", [2, 4])
@pytest.mark.parametrize("span", [10, 0, 2**63 + 12345, None], ids=str)
def test_whole_numbers_below_a_span_too(planes, span):
    rng = np.random.default_rng(planes)
    spans = rng.integers(0, 2**64, (3, 40), np.uint64) if span is None else np.uint64(span)
    spans = np.asarray(spans)
    check(lambda: draws.random_below(keys(3), spans, planes=planes, shape=(40,)))


@pytest.mark.parametrize("n", [1, 2, 64, 65, 1000, 5000])
def test_permutations_are_the_same(n):
    check(lambda: draws.random_permutation(keys(2), shape=(3, n)))


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


@pytest.mark.parametrize(
    "bounds", [(0, 10), (-7, 3), (5, 6), (0, 1 << 32), (-(1 << 62), 5 - (1 << 62))]
)
@pytest.mark.parametrize("shape", [(1,), (3, 5), (2047,), (2049,), (3, 1501)])
def test_integers_are_those_of_the_words(shape, bounds):
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
