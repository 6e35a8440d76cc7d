"""``repr`` against PyTorch's on many arrays; options; tracers; formats."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fx
from fx.errors import BatchedValueError, ShapeError

torch = pytest.importorskip("torch")


def as_torch(array):
    """The same values as a torch tensor, bfloat16 too."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def same(array):
    array = np.asarray(array)
    expected = repr(as_torch(array)).replace("torch.", "fx.")
    # "torch." is longer than "fx.", so the dtype may find room where PyTorch breaks the line
    one_line = [
        re.sub(r",\s+dtype=", ", dtype=", s) for s in (repr(fx.from_numpy(array)), expected)
    ]
    assert one_line[0] == one_line[1]


@pytest.fixture(autouse=True)
def default_options():
    yield
    fx.set_printoptions(profile="default")
    torch.set_printoptions(profile="default")


FLOATS = st.floats(width=32) | st.sampled_from(
    [0.0, -0.0, 1.0, -2.0, 1e-5, 1e9, math.inf, math.nan]
)


@settings(max_examples=200)
@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
        elements=FLOATS,
    )
)
def test_floats_as_torch(array):
    same(array)


@settings(max_examples=100)
@given(
    st.sampled_from(list("?bBhiledFD"))
    .flatmap(lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, max_dims=3, max_side=6)))
)  # fmt: skip
def test_every_dtype_as_torch(array):
    same(array)


CASES = {
    "nothing": np.zeros(0, np.float32),
    "empty ints": np.zeros(0, np.int64),
    "empty matrix": np.zeros((0, 3), np.float32),
    "empty doubles": np.zeros((2, 0)),
    "whole": np.array([1.0, -20.0, 300.0], np.float32),
    "whole and not": np.array([1.0, 2.5], np.float32),
    "tiny": np.array([1e-5, 1.0], np.float32),
    "huge": np.array([1e9, 1.0], np.float32),
    "ratio": np.array([0.5, 1000.0], np.float32),
    "inf": np.array([1.0, np.inf, -np.inf, np.nan], np.float32),
    "only inf": np.array([np.inf, np.nan], np.float32),
    "fraction and inf": np.array([0.5, -np.inf, np.nan, 100.0], np.float32),
    "zeros": np.zeros((2, 2), np.float32),
    "scalar": np.array(3.0, np.float32),
    "long": np.arange(30, dtype=np.float32),
    "longer": np.arange(1001),
    "summary": np.arange(2000).reshape(40, 50),
    "summary of floats": np.linspace(0, 1, 2000, dtype=np.float32).reshape(2, 1000),
    "deep summary": np.arange(3 * 2000 * 4).reshape(3, 2000, 4),
    "short axes": np.ones((2, 3, 400), np.float32),
    "deep": np.ones((2, 2, 2, 2)),
    "wide doubles": np.random.default_rng(0).standard_normal((3, 20)),
    "complex": np.array([[1 + 2j, -0.5 - 1e3j], [0, -1j]], np.complex64),
    "complex summary": np.arange(1500).astype(np.complex64),
    "bool": np.array([[True, False], [False, True]]),
    "bfloat16": np.array([1.0, 2.5, 1e4], fx.bfloat16),
    "bfloat16 whole": np.array([[1.0, 2.0]], fx.bfloat16),
    "long line of ints": np.arange(100, 130, dtype=np.int32),
}


@pytest.mark.parametrize("name", CASES)
def test_cases_as_torch(name):
    same(CASES[name])


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 2},
        {"precision": 8},
        {"threshold": 5},
        {"threshold": 5, "edgeitems": 1},
        {"linewidth": 30},
        {"sci_mode": True},
        {"sci_mode": False},
        {"profile": "short"},
        {"profile": "full"},
        {"profile": "short", "precision": 6},
        {"threshold": 3, "edgeitems": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "name", ["long", "wide doubles", "huge", "complex", "summary", "ratio", "whole"]
)
def test_options_as_torch(options, name):
    fx.set_printoptions(**options)
    torch.set_printoptions(**options)
    same(CASES[name])


def test_options_read_back():
    fx.set_printoptions(precision=3, sci_mode=True)
    assert fx.get_printoptions()["precision"] == 3
    assert fx.get_printoptions()["sci_mode"] is True
    with pytest.raises(ValueError, match=r"no profile 'long'; expected one of \['default'"):
        fx.set_printoptions(profile="long")


def test_a_leaf_says_that_it_requires_grad():
    assert repr(fx.tensor([1.0], requires_grad=True)) == "tensor([1.], requires_grad=True)"


def test_a_result_names_its_node():
    x = fx.tensor([1.0], requires_grad=True)
    y = torch.tensor([1.0], requires_grad=True)
    assert repr(x + x) == repr(y + y) == "tensor([2.], grad_fn=<AddBackward0>)"


def test_suffixes_go_to_the_next_line():
    for rows in range(1, 20):
        array = np.linspace(0.1, 0.9, rows, dtype=np.float32)
        x = fx.tensor(array, requires_grad=True)
        y = torch.tensor(array, requires_grad=True)
        assert repr(x) == repr(y)


def test_the_default_dtype_is_not_shown():
    fx.set_default_dtype(fx.float64)
    try:
        assert repr(fx.tensor([1.5])) == "tensor([1.5000])"
        assert repr(fx.tensor([1.5], dtype=fx.float32)) == "tensor([1.5000], dtype=fx.float32)"
    finally:
        fx.set_default_dtype(fx.float32)


def test_meta():
    x = torch.zeros(2, 3, device="meta", dtype=torch.int64)
    assert repr(fx.zeros(2, 3, device="meta", dtype=fx.int64)) == repr(x).replace("torch.", "fx.")
    assert repr(fx.zeros(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"


def test_tracers_say_what_they_are():
    seen = []

    def look(x):
        seen.append(x)
        seen.append(repr(x))
        return x[0]

    x = fx.ones(2, 3)
    fx.vmap(look)(x)
    assert seen[1] == "vmap(float32[3])"
    assert repr(seen[0]) == "<float32[3] that outlived its vmap>"
    fx.grad(look)(x[0])
    assert seen[3] == "grad(tensor([1., 1., 1.]))"
    fx.vmap(fx.grad(look))(x)
    assert seen[5] == "grad(vmap(float32[3]))"
    fx.grad(lambda x: fx.vmap(look)(x)[0])(x)
    assert seen[7] == "vmap(float32[3])"


@pytest.mark.parametrize("spec", ["", ".3f", "8.2e", ">10"])
def test_formats_of_numbers(spec):
    assert format(fx.tensor(2.5), spec) == format(torch.tensor(2.5), spec)
    assert f"{fx.tensor(3):04d}" == "0003"


def test_formats_of_arrays():
    x = fx.ones(2)
    assert f"{x}" == str(x) == repr(x)
    with pytest.raises(TypeError, match=r"shape \(2,\) does not take the format '.2f'"):
        f"{x:.2f}"


def test_a_format_inside_a_transform():
    seen = []
    fx.grad(lambda x: (seen.append(f"{x:.1f}"), x)[1])(fx.tensor(1.0))
    assert seen == ["1.0"]
    with pytest.raises(BatchedValueError):
        fx.vmap(lambda x: (f"{x:.1f}", x)[1])(fx.ones(2))


def test_truth_of_many_says_any_or_all():
    with pytest.raises(ShapeError, match=r"shape \(2,\) is ambiguous; write x.any\(\), x.all\(\)"):
        bool(fx.ones(2))
