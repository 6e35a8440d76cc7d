"""The Array API standard 2024.12: every function with its words, and the same line on NumPy."""

import inspect
from types import ModuleType

import numpy as np
import pytest

import fx

# the functions of the standard's main namespace: positional arguments | keywords
SIGNATURES = """
astype x dtype | copy device
can_cast from_ to |
finfo type |
iinfo type |
isdtype dtype kind |
result_type * |
broadcast_arrays * |
broadcast_to x shape |
concat arrays | axis
expand_dims x | axis
flip x | axis
moveaxis x source destination |
permute_dims x axes |
repeat x repeats | axis
reshape x shape | copy
roll x shift | axis
squeeze x axis |
stack arrays | axis
tile x repetitions |
unstack x | axis
argmax x | axis keepdims
argmin x | axis keepdims
count_nonzero x | axis keepdims
nonzero x |
searchsorted x1 x2 | side sorter
where condition x1 x2 |
unique_all x |
unique_counts x |
unique_inverse x |
unique_values x |
argsort x | axis descending stable
sort x | axis descending stable
cumulative_prod x | axis dtype include_initial
cumulative_sum x | axis dtype include_initial
max x | axis keepdims
mean x | axis keepdims
min x | axis keepdims
prod x | axis dtype keepdims
std x | axis correction keepdims
sum x | axis dtype keepdims
var x | axis correction keepdims
all x | axis keepdims
any x | axis keepdims
diff x | axis n prepend append
take x indices | axis
take_along_axis x indices | axis
matmul x1 x2 |
matrix_transpose x |
tensordot x1 x2 | axes
vecdot x1 x2 | axis
clip x min max |
"""
UNARY = """
abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign
signbit sin sinh square sqrt tan tanh trunc
"""
BINARY = """
add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide
equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or
logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract
"""


@pytest.mark.parametrize("line", SIGNATURES.strip().splitlines(), ids=lambda s: s.split()[0])
def test_the_words_of_the_standard(line):
    before, _, after = line.partition("|")
    name, *positional = before.split()
    parameters = inspect.signature(getattr(fx, name)).parameters
    places = [p for p in parameters.values() if p.kind <= p.POSITIONAL_OR_KEYWORD]
    if positional != ["*"]:
        assert len(places) >= len(positional)
    for word in after.split():
        assert parameters[word].kind != inspect.Parameter.POSITIONAL_ONLY


@pytest.mark.parametrize("name", (UNARY + BINARY).split())
def test_elementwise_functions_are_there(name):
    count = 1 if name in UNARY.split() else 2
    places = list(inspect.signature(getattr(fx, name)).parameters.values())
    assert len([p for p in places if p.default is p.empty]) == count


# z: (2, 3, 4) floating, x: (3, 4) floating, n: (3, 4) integers, k: (4,) integers in [0, 3), b: bool
LINES = """
m.sum(z, axis=(0, 2), keepdims=True) | m.sum(n, dtype=m.float64) | m.prod(x, axis=1)
m.mean(z, axis=-1) | m.var(x, axis=0, correction=1, keepdims=True) | m.std(z, correction=0.5)
m.max(z, axis=(0, 1)) | m.min(x) | m.all(b, axis=0) | m.any(b, axis=1, keepdims=True)
m.count_nonzero(n, axis=0) | m.argmax(x, axis=0) | m.argmin(x, axis=1, keepdims=True)
m.argmax(z) | m.cumulative_sum(x, axis=0, include_initial=True)
m.cumulative_prod(n, axis=-1, dtype=m.float64) | m.diff(x, axis=0, n=2)
m.diff(k, append=k[:1], prepend=k[-1:]) | m.sort(x, axis=0) | m.argsort(x, axis=-1, stable=True)
m.searchsorted(m.sort(k), k, side="right")
m.searchsorted(k, m.arange(3), sorter=m.argsort(k, stable=True)) | m.where(b, x, n)
m.where(b, x, 0) | m.take(x, k[:2], axis=0) | m.take(k, k[:1], axis=0)
m.take_along_axis(x, n % 3, axis=0) | m.clip(x, -0.5, 0.5) | m.clip(x, min=0.0) | m.clip(n, max=3)
m.concat([x, n], axis=1) | m.concat((x, x), axis=None) | m.stack([x, x], axis=1)
m.unstack(z, axis=1) | m.expand_dims(x, axis=1) | m.squeeze(z[:1], axis=0) | m.flip(z)
m.flip(z, axis=(0, -1)) | m.roll(z, (1, 2), axis=(0, 2)) | m.roll(x, -3) | m.moveaxis(z, 0, -1)
m.permute_dims(z, (1, 2, 0)) | m.repeat(x, 2, axis=0) | m.repeat(x, 2) | m.tile(x, (2, 1))
m.reshape(z, (4, -1)) | m.broadcast_to(x, (2, 3, 4)) | m.broadcast_arrays(x, z) | m.nonzero(b)
m.unique_all(k) | m.unique_counts(n) | m.unique_inverse(n) | m.unique_values(b)
m.matmul(z, m.matrix_transpose(x)) | m.tensordot(z, x, axes=2)
m.tensordot(z, x, axes=((1, 2), (0, 1))) | m.vecdot(x, x, axis=-1) | m.vecdot(z, x)
m.astype(x, m.int32) | m.astype(n, m.float64) | m.matrix_transpose(z) | m.pow(m.abs(x), 2.0)
m.add(1, n) | m.remainder(n, 3) | m.isdtype(m.float32, ("integral", "real floating"))
m.can_cast(m.int32, m.int64)
""".replace("\n", " | ").split(" | ")  # fmt: skip
LINES = [line for line in LINES if line]


def names_of(m):
    source = np.random.default_rng(0)
    arrays = {
        "z": source.normal(size=(2, 3, 4)), "x": source.normal(size=(3, 4)),
        "n": source.integers(0, 6, (3, 4)), "k": source.integers(0, 3, 4),
        "b": source.normal(size=(3, 4)) > 0,
    }  # fmt: skip
    return {"m": m} | {k: m.asarray(v) for k, v in arrays.items()}


@pytest.mark.parametrize("line", LINES)
def test_the_same_line_on_numpy(line):
    got, want = eval(line, names_of(fx)), eval(line, names_of(np))
    if isinstance(want, bool):
        assert got is want
        return
    many = isinstance(want, tuple | list)
    got, want = (got, want) if many else ([got], [want])
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        w = np.asarray(w)
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-12, atol=1e-12)


def test_results_with_names():
    x = fx.asarray([2, 1, 2])
    assert fx.unique_all(x)._fields == ("values", "indices", "inverse_indices", "counts")
    assert fx.unique_counts(x)._fields == ("values", "counts")
    assert fx.unique_inverse(x)._fields == ("values", "inverse_indices")
    assert isinstance(fx.nonzero(x), tuple) and isinstance(fx.unstack(x), tuple)
    assert isinstance(fx.broadcast_arrays(x, x), list)


def test_generic_code_runs_on_fx():
    def standardise(x):
        xp = x.__array_namespace__()
        centered = x - xp.mean(x, axis=0, keepdims=True)
        return centered / xp.std(x, axis=0, correction=1, keepdims=True)

    x = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(standardise(fx.asarray(x)).numpy(), standardise(x))


def test_dir_lists_what_users_may_use_and_no_module_of_the_library():
    listed = dir(fx)
    assert {"add", "grad", "nn", "optim", "load", "per_example", "float32", "random"} <= set(listed)
    modules = {n for n in listed if isinstance(getattr(fx, n), ModuleType)}
    assert modules == {*fx._PUBLIC, *fx._ROOMS}
    assert not [n for n in listed if n.startswith("_") and n != "__version__"]
