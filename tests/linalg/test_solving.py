"""LU, solves, inverses and determinants against PyTorch: values, gradients, failures."""

import numpy as np
import pytest
import torch

import fx
import fx.torch as face
from tests.linalg.peers import DTYPES, close, fx_gradients, numbers, positive, torch_gradients

SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]], np.float32)


def matrix(shape, dtype, seed=0):
    return numbers(shape, dtype, seed) + (2 * np.eye(*shape[-2:])).astype(dtype)


# what is compared: a function of torch's names, and the shapes of its arguments
CASES = {
    "inv": (lambda t, a: t.linalg.inv(a), [(2, 4, 4)]),
    "inv of one": (lambda t, a: t.inverse(a), [(5, 5)]),
    "det": (lambda t, a: t.linalg.det(a), [(2, 3, 3)]),
    "slogdet": (lambda t, a: tuple(t.linalg.slogdet(a)), [(2, 3, 3)]),
    "solve": (lambda t, a, b: t.linalg.solve(a, b), [(2, 4, 4), (2, 4, 3)]),
    "solve, vector": (lambda t, a, b: t.linalg.solve(a, b), [(4, 4), (4,)]),
    "solve, vectors": (lambda t, a, b: t.linalg.solve(a, b), [(3, 4, 4), (3, 4)]),
    "solve, broadcast": (lambda t, a, b: t.linalg.solve(a, b), [(4, 4), (3, 4, 2)]),
    "solve, right": (lambda t, a, b: t.linalg.solve(a, b, left=False), [(2, 4, 4), (2, 3, 4)]),
    "lu": (lambda t, a: tuple(t.linalg.lu(a)), [(2, 4, 4)]),
    "lu, tall": (lambda t, a: tuple(t.linalg.lu(a)), [(2, 5, 3)]),
    "lu, wide": (lambda t, a: tuple(t.linalg.lu(a)), [(3, 5)]),
    "matrix_power": (lambda t, a: t.linalg.matrix_power(a, -3), [(2, 3, 3)]),
    "triangular": (
        lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True), [(2, 4, 4), (2, 4, 3)]
    ),
    "triangular, unit, right": (
        lambda t, a, b: t.linalg.solve_triangular(
            a, b, upper=False, left=False, unitriangular=True
        ),
        [(4, 4), (2, 3, 4)],
    ),
    "triangular_solve": (
        lambda t, a, b: t.triangular_solve(b, a, upper=False, transpose=True)[0],
        [(2, 4, 4), (2, 4, 3)],
    ),
    "tensorinv": (lambda t, a: t.linalg.tensorinv(a.reshape(4, 2, 2), 1), [(4, 4)]),
    "tensorsolve": (
        lambda t, a, b: t.linalg.tensorsolve(a.reshape(2, 3, 6), b.reshape(2, 3)), [(6, 6), (6,)]
    ),
    "multi_dot": (lambda t, a, b: t.linalg.multi_dot([a, a, b]), [(4, 4), (4,)]),
    "cond 1": (lambda t, a: t.linalg.cond(a, 1), [(2, 4, 4)]),
    "cond 2": (lambda t, a: t.linalg.cond(a), [(2, 4, 3)]),
    "nuclear norm": (lambda t, a: t.linalg.matrix_norm(a, "nuc"), [(2, 4, 3)]),
    "norm 2": (lambda t, a: t.linalg.norm(a, 2, dim=(0, 2)), [(4, 2, 3)]),
    "norm -1": (lambda t, a: t.linalg.norm(a, -1, dim=(2, 0), keepdim=True), [(4, 2, 3)]),
    "cond fro": (lambda t, a: t.linalg.cond(a, "fro"), [(4, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, dtype):
    function, shapes = CASES[name]
    arrays = [matrix(s, dtype, k) if len(s) > 1 else numbers(s, dtype, k)
              for k, s in enumerate(shapes)]  # fmt: skip
    want = function(torch, *map(torch.tensor, arrays))
    got = function(face, *map(fx.asarray, arrays))
    compiled = fx.jit(lambda *xs: function(face, *xs))(*map(fx.asarray, arrays))
    pairs = zip(*[x if isinstance(x, tuple) else (x,) for x in (got, compiled, want)], strict=True)
    for one, other, theirs in pairs:
        close(one, theirs.resolve_conj().numpy(), dtype, 20)
        close(other, theirs.resolve_conj().numpy(), dtype, 20)
    if name.startswith("cond") or (name == "slogdet" and dtype[0] == "c"):
        return  # PyTorch's gradient raises of the one, and is another one of the sign: see the laws
    theirs = torch_gradients(lambda *xs: function(torch, *xs), *arrays)
    ours = fx_gradients(lambda *xs: function(face, *xs), *arrays)
    for g, w in zip(ours, theirs, strict=True):
        close(g, w, dtype, 200)


def test_cholesky_solve_and_inverse():
    for dtype in DTYPES:
        a, b = positive((3, 4, 4), dtype), numbers((3, 4, 2), dtype, 5)
        for upper in (False, True):
            factor = torch.linalg.cholesky(torch.tensor(a), upper=upper).resolve_conj().numpy()
            for function, args in (
                (lambda t, f, x, upper=upper: t.cholesky_solve(x, f, upper=upper), (factor, b)),
                (lambda t, f, upper=upper: t.cholesky_inverse(f, upper=upper), (factor,)),
            ):
                want = function(torch, *map(torch.tensor, args)).resolve_conj().numpy()
                close(function(face, *map(fx.asarray, args)), want, dtype, 5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_solves_by_factors(dtype, left, adjoint):
    a, b = matrix((2, 4, 4), dtype), numbers((2, 4, 4), dtype, 1)
    factors, pivots = torch.linalg.lu_factor(torch.tensor(a))
    ours = fx.linalg.lu_factor(fx.asarray(a))
    close(ours.LU, factors.numpy(), dtype, 5)
    close(ours.pivots.numpy(), pivots.numpy(), "float32")
    want = torch.linalg.lu_solve(factors, pivots, torch.tensor(b), left=left, adjoint=adjoint)
    found = fx.linalg.lu_solve(*ours, fx.asarray(b), left=left, adjoint=adjoint)
    close(found, want.resolve_conj().numpy(), dtype, 20)
    for got, theirs in zip(fx.linalg.lu_unpack(*ours), torch.lu_unpack(factors, pivots)):
        close(got, theirs.numpy(), dtype, 5)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_nothing_at_all(shape):
    x = np.zeros(shape, np.float32)
    for function in (
        lambda t, a: t.linalg.det(a),
        lambda t, a: tuple(t.linalg.slogdet(a)),
        lambda t, a: t.linalg.inv(a),
        lambda t, a: t.linalg.solve(a, a),
        lambda t, a: tuple(t.linalg.lu(a)),
        lambda t, a: tuple(t.linalg.lu_factor(a)),
    ):
        want = function(torch, torch.tensor(x))
        for wrap in (lambda f: f, fx.jit):
            got = wrap(lambda a, function=function: function(face, a))(fx.asarray(x))
            pairs = zip(got, want) if isinstance(want, tuple) else [(got, want)]
            for g, w in pairs:
                assert np.array_equal(g.numpy(), w.numpy()) and g.numpy().dtype == w.numpy().dtype


@pytest.mark.parametrize("wrap", [lambda f: f, fx.jit])
def test_singular(wrap):
    stack = np.stack([np.eye(3, dtype=np.float32), SINGULAR])
    for name in ("inv", "solve"):
        for x in (SINGULAR, stack):
            args = (x, np.ones(3, np.float32)) if name == "solve" else (x,)
            with pytest.raises(torch.linalg.LinAlgError) as theirs:
                getattr(torch.linalg, name)(*map(torch.tensor, args))
            with pytest.raises(face.linalg.LinAlgError) as ours:
                wrap(getattr(face.linalg, name))(*map(fx.asarray, args))
            words = str(theirs.value)
            shown = words if x.ndim == 2 or name == "solve" else words.split("The diag")[0]
            assert str(ours.value).startswith(shown)
    info = fx.linalg.inv_ex(fx.asarray(stack)).info
    assert info.tolist() == torch.linalg.inv_ex(torch.tensor(stack)).info.tolist() == [0, 3]
    assert fx.linalg.solve_ex(fx.asarray(stack), fx.asarray(stack)).info.tolist() == [0, 3]
    assert fx.linalg.det(fx.asarray(SINGULAR)) == 0.0
    assert fx.linalg.slogdet(fx.asarray(SINGULAR)) == (0.0, -np.inf)
    assert fx.linalg.cond(fx.asarray(SINGULAR), 1) == np.inf


def test_the_gradient_of_a_singular_determinant_is_its_cofactors():
    x = SINGULAR.astype(np.float64)
    want = np.array([
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(3)]
        for i in range(3)
    ])  # fmt: skip
    assert np.allclose(fx.grad(fx.linalg.det)(fx.asarray(x)).numpy(), want, atol=1e-6)
    zero = fx.grad(fx.linalg.det)(fx.zeros((3, 3))).numpy()
    assert np.isfinite(zero).all() and np.abs(zero).max() < 1e-5


def test_refused():
    bad = {
        "solve": (np.ones((2, 2)), np.ones((3, 1))),
        "inv": (np.ones((2, 3)),),
        "det": (np.ones(3),),
        "lu_factor": (np.ones(3),),
        "tensorinv": (np.ones((2, 3)),),
    }
    for name, args in bad.items():
        with pytest.raises(RuntimeError):
            getattr(torch.linalg, name)(*map(torch.tensor, args))
        with pytest.raises(RuntimeError, match=rf"linalg\.{name}"):
            getattr(face.linalg, name)(*map(fx.asarray, args))


def test_meta_gives_shapes():
    x = fx.zeros((3, 4, 4), device="meta")
    assert fx.linalg.inv(x).shape == (3, 4, 4) and fx.linalg.det(x).shape == (3,)
    assert fx.linalg.solve(x, fx.zeros((4, 2), device="meta")).shape == (3, 4, 2)
    assert fx.linalg.cholesky(x).shape == (3, 4, 4) and fx.linalg.lu(x).P.shape == (3, 4, 4)


def test_the_gradient_of_determinants_of_nothing():
    x = fx.zeros(3, 0, 0, requires_grad=True)
    fx.linalg.det(x).sum().backward()
    assert x.grad.shape == (3, 0, 0)


def test_the_gradient_of_a_solve_keeps_its_factors():
    a, b = fx.asarray(positive((12, 5, 5), "float64")), fx.asarray(numbers((12, 5, 2), "float64"))
    loss = lambda a, b: (fx.linalg.solve(a, b) ** 3).sum()
    graph = str(fx.make_graph(fx.grad(loss, (0, 1)))(a, b))
    assert graph.count("= lu(") == 1 and graph.count("lu_solve(") == 2 and "= solve(" not in graph


@pytest.mark.parametrize("shape, k", [((4, 4), 2), ((12, 5, 5), 1), ((40, 16, 16), 3)])
def test_a_recorded_solve_differentiates_twice_on_the_tape(shape, k):
    a, b = positive(shape, "float64") / shape[-1], numbers((*shape[:-1], k), "float64", 1)

    def slopes(m):
        x, y = (m.tensor(v, requires_grad=True) for v in (a, b))
        loss = (m.linalg.solve(x, y) ** 3).sum()
        first = m.autograd.grad(loss, (x, y), create_graph=True)
        second = m.autograd.grad((first[0] ** 2).sum() + (first[1] ** 3).sum(), (x, y))
        return [v.detach().numpy() for v in (*first, *second)]

    for found, want in zip(slopes(face), slopes(torch), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-8, atol=1e-10)
