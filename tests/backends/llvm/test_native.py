"""Which primitives are native code, and a new one that is so from its block alone."""

import numpy as np
import pytest

import fx
from fx.primitive import NOT_DIFFERENTIABLE, define, registry
from fx.prims.axes import along_batch
from fx.prims.elementwise import exp
from fx.prims.families import same_dim_batch, unary
from fx.prims.reduction import sum as total
from fx.prims.sampling import Sample
from fx.testing.laws import all_primitives, check_primitive
from fx.testing.native import python_steps, table

HALF, INTEGERS = {"bfloat16", "float16"}, {"int32", "bool"}
REAL = {"float64", "float32"} | HALF
LANES = (
    "all_gather", "all_to_all", "pbroadcast", "pmax", "pmin", "ppermute", "psum", "psum_scatter",
    "unshard",
)  # fmt: skip
SCIPYS = (
    "balance", "cossin", "decomposition", "generalized_schur", "ldl", "matrix_function",
    "solve_banded", "sylvester",
)  # fmt: skip
CONVOLUTIONS = ("conv", "conv_input_grad", "conv_weight_grad", "max_pool")
WINDOWS = ("window_sum", "window_sum_transpose")
COMPLEX = {"complex64"}
# the Python steps there are, and why
KNOWN = [
    (
        "some functions of complex numbers are NumPy's and SciPy's",
        (
            "arccos",
            "arccosh",
            "arcsin",
            "arcsinh",
            "arctan",
            "arctanh",
            "erf",
            "erfc",
            "expm1",
            "log1p",
            "power",
        ),
        COMPLEX,
    ),
    ("products along complex numbers", ("cumprod", "prod", "recurrence"), COMPLEX),
    ("SciPy's functions of matrices", SCIPYS, REAL | COMPLEX),
    ("exchanges read one by one", ("ldl_order",), {"as drawn"}),
    ("lanes are gone before code is made", LANES, COMPLEX),
    ("SciPy gives no address of zeta", ("polygamma", "zeta"), REAL),
    ("Airy's functions are four at once", ("airy_ai", "airy_ai_slope"), REAL),
    ("SciPy's ufuncs, of which it gives few addresses", ("scipy_function",), REAL),
    ("lanes are gone before code is made", LANES, REAL | INTEGERS),
    ("outside of a mesh there is one rank", ("mesh_index",), {"as drawn"}),
    (
        "tensors on a mesh are computed kernel by kernel",
        ("from_local", "redistribute", "to_local"),
        REAL | INTEGERS | COMPLEX,
    ),
    ("windows of 16 bits and of integers", CONVOLUTIONS + WINDOWS, HALF | INTEGERS),
    ("neighbours of 16-bit numbers", ("nextafter",), HALF),
    ("products of integers", ("matmul",), INTEGERS),
    ("a negative power of an integer is an error", ("power",), {"int32"}),
]


@pytest.mark.parametrize("name", sorted(all_primitives()))
def test_the_list_of_python_steps_is_short_and_known(name):
    found = python_steps(registry[name])
    known = set().union(*[dtypes for _, names, dtypes in KNOWN if name in names])
    steps = {dtype for dtype, python in found.items() if python}
    assert steps == known & set(found)


def test_the_command_prints_both():
    lines = [line.split()[:2] for line in table(["erf", "polygamma"]).splitlines()]
    assert lines == [["erf", "native"], ["erf", "Python"], ["polygamma", "Python"]]


@pytest.fixture
def scratch():
    """Names that are taken out of the registry afterwards."""
    before = set(registry)
    yield
    for name in set(registry) - before:
        del registry[name]


def _bell(a):
    return np.exp(-a * a)


def test_a_formula_is_all_that_a_new_primitive_needs(scratch):
    bell = unary(
        "bell", cpu=_bell, weight=12, from_in=lambda x: bell(x) * x * -2.0,
        formula=lambda x: exp(-(x * x)),
    )  # fmt: skip
    assert set(python_steps(bell).items()) >= {("float32", False), ("bfloat16", False)}
    check_primitive(bell, examples=3, oracle=_bell)
    x = np.linspace(-2, 2, 500, dtype="float32")
    got = fx.jit(fx.grad(lambda x: (bell(x) * 2).sum()))(fx.tensor(x))
    want = -4.0 * x * np.exp(-(x.astype("float64") ** 2))
    assert np.abs(got.numpy() - want).max() < 1e-6


def _fractions(x, *, axis):
    return x * (1.0 / total(x, axes=(axis,), keepdims=True))


def test_a_formula_along_an_axis(scratch):
    def jvp(primals, tangents, *, axis):
        (x,), (t,) = primals, tangents
        y = fractions(x, axis=axis)
        return y, _slope(x, y, t, total(t, axes=(axis,), keepdims=True), axis)

    def vjp(needs, x, *, axis):
        def pullback(ct, y):
            along = total(ct * y, axes=(axis,), keepdims=True)
            return ((ct - along) * (1.0 / total(x, axes=(axis,), keepdims=True)),)

        return pullback

    def _slope(x, y, t, along, axis):
        return (t - y * along) * (1.0 / total(x, axes=(axis,), keepdims=True))

    fractions = define(
        "fractions", cpu=lambda a, *, axis: a / a.sum(axis, keepdims=True), saves=(0,),
        kind="reduction", formula=_fractions, jvp=jvp, vjp=vjp, spec=lambda x, *, axis: x,
        batch=along_batch(lambda: fractions),
        sample=lambda d: Sample([d.floats(s := d.shape(1), 0.2, 2.0)], {"axis": d.axis(len(s))}),
    )  # fmt: skip
    assert python_steps(fractions)["float32"] is False
    x = fx.tensor(np.random.default_rng(0).uniform(0.2, 2.0, (7, 33)).astype("float32"))
    got = fx.jit(lambda x: fractions(x, axis=1))(x)
    np.testing.assert_allclose(got.numpy(), fractions(x, axis=1).numpy(), rtol=1e-6)


def test_without_one_its_kernel_is_a_python_step(scratch):
    plain = unary("bell", cpu=_bell, from_in=lambda x: plain(x) * x * -2.0)
    assert python_steps(plain)["float32"] is True


def test_a_formula_may_be_for_some_arguments_only(scratch):
    halved = define(
        "halved", cpu=lambda a: a * 0.5, spec=lambda x: x, kind="elementwise",
        jvp=lambda p, t: (halved(*p), t[0] * 0.5), vjp=lambda needs, x: lambda ct: (ct * 0.5,),
        batch=same_dim_batch(lambda: halved), sample=lambda d: Sample([d.floats((3,))]),
        formula=lambda x: x * 0.5 if x.dtype == fx.float32 else None,
    )  # fmt: skip
    found = python_steps(halved)
    assert found["float32"] is False and found["float64"] is True


def test_a_formula_tells_zeros_apart(scratch):
    over = define(
        "over", cpu=lambda a, *, by: a / a.dtype.type(by), spec=lambda x, *, by: x,
        kind="elementwise", formula=lambda x, *, by: x / by,
        jvp=NOT_DIFFERENTIABLE, vjp=NOT_DIFFERENTIABLE,
        batch=along_batch(lambda: over), sample=lambda d: Sample([d.floats((3,))], {"by": 2.0}),
    )  # fmt: skip
    x = fx.ones(3)
    found = [fx.jit(lambda x, by=by: over(x, by=by))(x).tolist() for by in (0.0, -0.0)]
    assert found == [[np.inf] * 3, [-np.inf] * 3]
