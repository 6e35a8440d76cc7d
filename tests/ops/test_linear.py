"""Products against NumPy: specifications of einsum, vectors and stacks, narrow dtypes, errors."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fx
from fx import dtypes
from fx.errors import AxisError, ShapeError
from fx.primitive import Primitive
from fx.testing import primitive
from tests.ops.test_elementwise import python_calls

LETTERS = "abcde"


@st.composite
def specifications(draw):
    """One to four operands, the result perhaps implicit, some axes of size 1."""
    sizes = {c: draw(st.integers(1, 3)) for c in LETTERS}
    count = draw(st.integers(1, 4))
    dots = draw(st.lists(st.integers(1, 3), max_size=2))
    terms, shapes = [], []
    for _ in range(count):
        names = draw(st.lists(st.sampled_from(LETTERS), max_size=3))
        shape = [sizes[c] for c in names]
        if dots and draw(st.booleans()):
            kept = dots[draw(st.integers(0, len(dots))) :]
            kept = [draw(st.sampled_from((1, n))) for n in kept]
            at = draw(st.integers(0, len(names)))
            names.insert(at, "...")
            shape[at:at] = kept
        terms.append("".join(names))
        shapes.append(tuple(shape))
    left = ",".join(terms)
    if draw(st.booleans()):
        return left, shapes
    used = sorted(set(left) - set(".,"))
    out = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
    return f"{left}->{'...' if '...' in left else ''}{''.join(out)}", shapes


@given(case=specifications())
@settings(max_examples=150)
def test_any_specification(case):
    spec, shapes = case
    source = np.random.default_rng(0)
    arrays = [source.integers(-3, 4, shape).astype(np.float64) for shape in shapes]
    got = fx.einsum(spec, *map(fx.asarray, arrays))
    want = np.einsum(spec, *arrays)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_specification_by_numbers():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    ours = fx.asarray(x), fx.asarray(y)
    want = x @ y
    for got in (
        fx.einsum(ours[0], [0, 1], ours[1], [1, 2], [0, 2]),
        fx.einsum(ours[0], [0, 1], ours[1], [1, 2]),
        fx.einsum(ours[0], [..., 1], ours[1], [1, 2], [..., 2]),
        fx.einsum("ij,jk", [*ours]),
    ):
        np.testing.assert_array_equal(got.numpy(), want)


def test_einsum_promotes_and_takes_every_dtype():
    for dtype in dtypes.ALL:
        x = fx.ones((2, 3), dtype=dtype)
        assert fx.einsum("ij,kj->ik", x, x).dtype == dtype
    assert fx.einsum("i,i", fx.ones(3, dtype=fx.int64), fx.ones(3)).dtype == fx.float32
    half = fx.full((1, 4096), 1.0, dtype=fx.float16)
    assert fx.einsum("ij,kj->ik", half, half).item() == 4096


def test_opt_einsum_is_loaded_for_three_operands_only():
    code = (
        "import sys, fx; x = fx.ones((2, 2)); fx.einsum('ij,jk', x, x); "
        "assert 'opt_einsum' not in sys.modules; fx.einsum('ij,jk,kl', x, x, x); "
        "assert 'opt_einsum' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def recorded(monkeypatch, function, *args):
    """Names and argument shapes of the primitives that a call binds."""
    bound, call = [], Primitive.__call__

    def remember(self, *xs, **params):
        bound.append((self.name, [x.shape for x in xs]))
        return call(self, *xs, **params)

    with monkeypatch.context() as patch:
        patch.setattr(Primitive, "__call__", remember)
        function(*args)
    return bound


def test_order_of_contraction_is_cheap(monkeypatch):
    """A row times two square matrices never multiplies the square ones."""
    row, square = fx.ones((1, 40)), fx.ones((40, 40))
    bound = recorded(monkeypatch, fx.einsum, "ij,jk,kl->il", row, square, square)
    products = [shapes for name, shapes in bound if name == "matmul"]
    assert len(products) == 2 and all(1 in (a[0], b[1]) for a, b in products)


@pytest.mark.parametrize("spec", ("ij,jk->ik", "...ij,...jk->...ik", "ij,jk"))
def test_a_matrix_product_is_nothing_else(monkeypatch, spec):
    x = fx.ones((4, 4))
    assert [name for name, _ in recorded(monkeypatch, fx.einsum, spec, x, x)] == ["matmul"]


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)),
     ((3,), (5, 3, 2)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)),
     ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0,), (0,))],
)  # fmt: skip
@pytest.mark.parametrize("dtype", (fx.int64, fx.float32, fx.bfloat16, fx.complex64), ids=str)
def test_matmul(a, b, dtype):
    source = np.random.default_rng(0)
    x, y = source.integers(-3, 4, a).astype(dtype), source.integers(-3, 4, b).astype(dtype)
    wide = np.float64 if dtype == fx.bfloat16 else dtype
    want = np.matmul(x.astype(wide), y.astype(wide))
    for got in (fx.matmul(fx.asarray(x), fx.asarray(y)), fx.asarray(x) @ fx.asarray(y)):
        assert got.shape == want.shape and got.dtype == dtype
        np.testing.assert_array_equal(got.numpy().astype(wide), want)
    if len(b) < 3:
        got = fx.dot(fx.asarray(x), fx.asarray(y))
        np.testing.assert_array_equal(got.numpy().astype(wide), want)


@pytest.mark.parametrize("name", ("dot", "inner", "outer", "kron", "tensordot", "vecdot"))
@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3,)), ((2, 3), (2, 3)), ((4, 2, 3), (2, 3)), ((2, 3), (4, 2, 3)), ((3,), (4, 3)),
     ((), (3,)), ((3, 2), (4, 2, 3))],
)  # fmt: skip
def test_products(name, a, b):
    x, y = np.arange(np.prod(a, dtype=int)) + 1.0, np.arange(np.prod(b, dtype=int)) - 2.0
    x, y = x.reshape(a), y.reshape(b)
    more = (1,) if name == "tensordot" else ()
    try:
        want = getattr(np, name)(x, y, *more)
    except (ValueError, IndexError):
        with pytest.raises((ShapeError, AxisError), match=name):
            getattr(fx, name)(fx.asarray(x), fx.asarray(y), *more)
        return
    got = getattr(fx, name)(fx.asarray(x), fx.asarray(y), *more)
    assert got.shape == np.shape(want)
    np.testing.assert_array_equal(got.numpy(), want)


def test_complex_products():
    x, y = np.asarray([1 + 2j, 3j]), np.asarray([2 - 1j, 1 + 1j])
    np.testing.assert_array_equal(fx.vecdot(fx.asarray(x), fx.asarray(y)).numpy(), np.vecdot(x, y))
    np.testing.assert_array_equal(fx.vdot(fx.asarray(x), fx.asarray(y)).numpy(), np.vdot(x, y))
    np.testing.assert_array_equal(fx.dot(fx.asarray(x), fx.asarray(y)).numpy(), x @ y)


@given(m=st.integers(0, 4), n=st.integers(0, 4), offset=st.integers(-5, 5), swap=st.booleans())
def test_diagonals(m, n, offset, swap):
    x = np.arange(2 * m * n).reshape(m, 2, n)
    axes = (2, 0) if swap else (0, 2)
    got = fx.diagonal(fx.asarray(x), offset, *axes)
    np.testing.assert_array_equal(got.numpy(), np.diagonal(x, offset, *axes))
    want = np.trace(x, offset, *axes)
    np.testing.assert_array_equal(fx.trace(fx.asarray(x), offset, *axes).numpy(), want)


def test_products_that_are_refused():
    x = fx.ones((2, 3))
    for error, words, call in (
        (ShapeError, r"matmul.* \(2, 3\).*\(2, 3\).*x.mT", lambda: fx.matmul(x, x)),
        (ShapeError, r"matmul.* \(2, 3\).*\(2, 3\).*x.mT", lambda: x @ x),
        (ShapeError, r"matmul: shapes \(2, 3\) and \(2,\) do not fit", lambda: x @ fx.ones(2)),
        (ShapeError, r"a scalar has no matrix product; write x \* y", lambda: fx.matmul(x, 2.0)),
        (ShapeError, "mm takes tensors with 2 and 2 axes", lambda: fx.mm(x, fx.ones(3))),
        (ShapeError, "bmm: the stacks", lambda: fx.bmm(fx.ones((2, 1, 3)), fx.ones((3, 3, 1)))),
        (ShapeError, "matrix_transpose takes matrices", lambda: fx.matrix_transpose(fx.ones(3))),
        (ShapeError, "tensordot: axes", lambda: fx.tensordot(x, x, 1)),
        (AxisError, "3 axes do not fit", lambda: fx.tensordot(x, x, 3)),
        (ShapeError, "vecdot", lambda: fx.vecdot(x, fx.ones(2))),
        (ShapeError, "axis 1 of .* must have size 3, got 2", lambda: fx.cross(x.mT, x.mT)),
        (ShapeError, "cdist: rows", lambda: fx.cdist(x, fx.ones((2, 2)))),
        (ShapeError, r"'j' in 'ij,jk' has size 3 in one operand and 2", lambda: fx.einsum(
            "ij,jk", x, x)),
        (ShapeError, "'ijk' in 'ijk' names 3 axes, but the operand has 2", lambda: fx.einsum(
            "ijk", x)),
        (ValueError, "names 2 operands, got 1", lambda: fx.einsum("ij,jk", x)),
        (ValueError, "'k' of the result of .* is in no operand", lambda: fx.einsum("ij->k", x)),
        (ValueError, "names an axis twice", lambda: fx.einsum("ij->ii", x)),
        (ValueError, "is not made of letters", lambda: fx.einsum("i1", x)),
        (ValueError, "needs a specification", lambda: fx.einsum()),
        (TypeError, "unsupported operand", lambda: x @ "x"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            call()


def test_matmul_is_one_call_above_its_primitive():
    x = fx.ones((2, 2))
    assert python_calls(fx.matmul, x, x) == 1 + python_calls(primitive("matmul"), x, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("many", [False, True])
def test_short_and_long_products_with_vectors_have_the_gradients_of_torch(dtype, many):
    torch = pytest.importorskip("torch")
    m, n = (70, 80) if many else (5, 4)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype(dtype) for s in ((m, n), (n,), (m,), (m, n))]
    found = []
    for lib in (fx, torch):
        a, x, y, b = [lib.tensor(v, requires_grad=True) for v in given]
        out = (lib.outer(y, x) * b).sum() + lib.dot(a @ x, y) + lib.dot(b[0], x) + lib.trace(a)
        first = lib.autograd.grad(out, (a, x, y), create_graph=True)
        second = sum((g**2).sum() for g in first)
        found.append([out, *first, *lib.autograd.grad(second, (a, x, y, b))])
    for ours, theirs in zip(*found, strict=True):
        ours, theirs = ours.detach().numpy(), theirs.detach().numpy()
        assert ours.dtype == theirs.dtype
        scale = float(np.abs(theirs).max())
        tolerance = scale * (1e-5 if dtype == np.float32 else 1e-13)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)


def test_products_with_vectors_under_transforms():
    rng = np.random.default_rng(1)
    a, x, y = [fx.tensor(rng.standard_normal(s)) for s in ((3, 5, 4), (3, 4), (3, 5))]
    for f in (lambda a, x, y: a @ x, lambda a, x, y: fx.outer(x, y), lambda a, x, y: fx.dot(x, x)):
        loop = fx.stack([f(*row) for row in zip(a, x, y)])
        np.testing.assert_allclose(fx.vmap(f)(a, x, y).numpy(), loop.numpy(), rtol=1e-13)
        np.testing.assert_allclose(fx.jit(f)(a[0], x[0], y[0]).numpy(), loop[0].numpy(), rtol=1e-13)
        tangents = fx.ones_like(a[0]), fx.ones_like(x[0]), fx.ones_like(y[0])
        _, along = fx.jvp(f, (a[0], x[0], y[0]), tangents)
        pulled = fx.vjp(f, a[0], x[0], y[0])[1](fx.ones_like(along))
        dot = sum(float((p * t).sum()) for p, t in zip(pulled, tangents))
        np.testing.assert_allclose(dot, float(along.sum()), rtol=1e-12)
