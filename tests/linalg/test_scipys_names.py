"""``scipy.linalg``'s names in ``fx.linalg``: values, lanes, compiled calls and slopes."""

import numpy as np
import pytest
import torch

import fx
import fx.torch
from tests.linalg.peers import DTYPES, TOLERANCE, fx_gradients, numbers, positive, torch_gradients

scipy = pytest.importorskip("scipy.linalg")

pytestmark = pytest.mark.filterwarnings("ignore:.*")
KINDS = ("float64", "complex128")


def _vector(n, dtype, seed=0):
    return numbers((n,), dtype, seed)


def _matrix(n, dtype, seed=0):
    return numbers((n, n), dtype, seed)


def _hermitian(n, dtype, seed=0):
    x = positive((n, n), dtype, seed)
    return (x + x.conj().T) / 2


def _upper_bands(dtype):
    bands = numbers((3, 5), dtype) * 0.3
    bands[-1] = 3.0
    bands[0, :2] = bands[1, 0] = 0.0  # outside of the matrix
    return bands


def _lower_bands(dtype):
    return _upper_bands(dtype)[::-1, ::-1].copy()


CALLS = {  # a call of SciPy's name, of arrays of a dtype
    "sqrtm": lambda d: (positive((3, 3), d),), "logm": lambda d: (positive((3, 3), d),),
    "signm": lambda d: (_matrix(3, d) + 2 * np.diag([1, -1, 1]),),
    "fractional_matrix_power": lambda d: (positive((3, 3), d), 0.3),
    **{f"{f}m": lambda d: (_matrix(3, d),) for f in ("cos", "sin", "tan", "cosh", "sinh", "tanh")},
    "expm_frechet": lambda d: (_matrix(3, d), _matrix(3, d, 1)),
    "solve_sylvester": lambda d: (positive((3, 3), d), positive((2, 2), d), numbers((3, 2), d)),
    "solve_continuous_lyapunov": lambda d: (positive((3, 3), d), _matrix(3, d)),
    "solve_lyapunov": lambda d: (positive((3, 3), d), _matrix(3, d)),
    "solve_discrete_lyapunov": lambda d: (_matrix(3, d) * 0.3, _matrix(3, d, 1)),
    "solve_discrete_are": lambda d: (
        _matrix(3, d), numbers((3, 2), d, 1), _hermitian(3, d, 2), _hermitian(2, d, 3)),
    "solve_continuous_are": lambda d: (
        _matrix(3, d), numbers((3, 2), d, 1), _hermitian(3, d, 2), _hermitian(2, d, 3)),
    "solve_banded": lambda d: ((1, 1), _upper_bands(d)[[0, 2, 1]], numbers((5, 2), d)),
    "solveh_banded": lambda d: (_upper_bands(d), _vector(5, d)),
    "solveh_banded lower": lambda d: (_lower_bands(d), numbers((5, 2), d), {"lower": True}),
    "eigvals_banded": lambda d: (_upper_bands(d),),
    "eigvals_banded lower": lambda d: (_lower_bands(d), {"lower": True}),
    "solve_toeplitz": lambda d: (_vector(4, d) + [5, 0, 0, 0], _vector(4, d, 1)),
    "matmul_toeplitz": lambda d: ((_vector(4, d), _vector(3, d, 1)), numbers((3, 2), d, 1)),
    "solve_circulant": lambda d: (_vector(4, d) + [5, 0, 0, 0], _vector(4, d, 1)),
    "rq abs": lambda d: (_matrix(3, d),), "pinvh": lambda d: (positive((3, 3), d),),
    "orthogonal_procrustes": lambda d: (numbers((4, 3), d), numbers((4, 3), d, 1)),
    "subspace_angles": lambda d: (numbers((5, 3), d), numbers((5, 2), d, 1)),
    "qr_multiply abs": lambda d: (numbers((4, 3), d), numbers((2, 4), d, 1)),
    "fiedler": lambda d: (_vector(4, d),), "fiedler_companion": lambda d: (_vector(6, d),),
    "fiedler_companion short": lambda d: (_vector(3, d),),
    "leslie": lambda d: (_vector(4, d), _vector(3, d, 1)),
    **{f"convolution_matrix {m}": lambda d, m=m: (_vector(3, d), 5, m)
       for m in ("full", "same", "valid")},
    "diagsvd": lambda d: (_vector(3, d), 3, 5), "diagsvd tall": lambda d: (_vector(3, d), 4, 3),
    "eigvalsh_tridiagonal": lambda d: (_vector(4, "float64"), _vector(3, "float64", 1)),
}  # fmt: skip
EXACT = ("hadamard", "helmert", "invhilbert", "invpascal", "pascal", "dft")
OTHERS = """
    ldl ldl_factor ldl_factor_ex ldl_solve geqrf hessenberg schur cho_factor lobpcg eigh_tridiagonal
    eig_banded cho_solve_banded cholesky_banded LDLFactor LDLFactorEx Reflectors"""


def pair(name, dtype):
    """fx's call and SciPy's of arrays, and the arrays."""
    args, word = CALLS[name](dtype), name.partition(" ")[2]
    name = name.partition(" ")[0]
    options = args[-1] if isinstance(args[-1], dict) else {}
    args = [a for a in args if not isinstance(a, dict)]
    kind = {"c": dtype, "f": dtype.replace("complex64", "float32").replace("complex128", "float64")}
    arrays = [a.astype(kind[a.dtype.kind]) for a in args if isinstance(a, np.ndarray)]

    def call(room, convert):
        def function(*given):
            given = list(given)
            full = [given.pop(0) if isinstance(a, np.ndarray) else
                    tuple(map(convert, a)) if isinstance(a, tuple) and name.startswith("matmul")
                    else a for a in args]  # fmt: skip
            found = getattr(room, name)(*full, **options)
            found = tuple(found) if isinstance(found, tuple) else (found,)
            return tuple(map(abs, found)) if word == "abs" else found

        return function

    return call(fx.linalg, fx.asarray), call(scipy, np.asarray), arrays


def test_every_name_is_compared():
    from fx.linalg import equations, factors, matrix_functions, named_matrices

    told = {*[n.partition(" ")[0] for n in CALLS], *EXACT, *OTHERS.split()}
    rooms = (equations, factors, matrix_functions, named_matrices)
    assert {name for room in rooms for name in room.__all__} == told


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_values(name, dtype):
    f, peer, arrays = pair(name, dtype)
    want = peer(*[a.astype("complex128" if a.dtype.kind == "c" else "float64") for a in arrays])
    given = list(map(fx.asarray, arrays))
    ways = [f(*given)]
    if dtype == "float64":
        ways.append(fx.jit(f)(*given))
        ways.append([x[1] for x in fx.vmap(f)(*[fx.stack([x, x]) for x in given])])
    for got in ways:
        for a, b in zip(got, want, strict=True):
            assert a.dtype.itemsize == np.dtype(dtype).itemsize or a.dtype.kind == "f"
            scale = 300 * TOLERANCE[dtype] * max(1.0, np.abs(b).max())
            np.testing.assert_allclose(a.numpy(), b, atol=scale)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_slopes(name, dtype):
    """Pushed tangents against differences of SciPy's, pullbacks against pushed tangents."""
    f, peer, arrays = pair(name, dtype)
    rng = np.random.default_rng(5)
    kinds = ("sqrtm", "logm", "eig", "chol", "pinvh", "solve_discrete_are", "solve_continuous_are",
             "fractional")  # fmt: skip
    hermitian = dtype == "complex128" or name.startswith(kinds)
    tangents = [numbers(a.shape, a.dtype.name, 7 + i) for i, a in enumerate(arrays)]
    if name.startswith(("pinvh", "solve_discrete_are", "solve_continuous_are")):
        some = 0 if name == "pinvh" else 1  # from which on they are Hermitian, if square
        square = [i >= some and t.shape[0] == t.shape[1] for i, t in enumerate(tangents)]
        tangents = [t + t.conj().T if s else t for t, s in zip(tangents, square)]
    if hermitian and "banded" in name:
        tangents[0][0 if "lower" in name else -1] = 1.0  # a real diagonal
    h = 1e-5
    ends = [peer(*[a + s * h * t for a, t in zip(arrays, tangents)]) for s in (-2, -1, 1, 2)]
    want = [(a - 8 * b + 8 * c - d) / (12 * h) for a, b, c, d in zip(*ends)]
    outs, pushed = fx.jvp(f, tuple(map(fx.asarray, arrays)), tuple(map(fx.asarray, tangents)))
    for got, b in zip(pushed, want, strict=True):
        np.testing.assert_allclose(got.numpy(), b, atol=2e-7 * max(1.0, np.abs(b).max()))
    _, pullback = fx.vjp(f, *map(fx.asarray, arrays))
    weights = [rng.normal(size=y.shape).astype(y.dtype) for y in outs]
    back = pullback(tuple(map(fx.asarray, weights)))
    left = sum((w * y.numpy()).real.sum() for w, y in zip(weights, pushed))
    right = sum((b.numpy() * t).real.sum() for b, t in zip(back, tangents))
    np.testing.assert_allclose(left, right, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_matrices_with_a_name(name):
    np.testing.assert_array_equal(getattr(fx.linalg, name)(4).numpy(), getattr(scipy, name)(4))


def test_bandwidths():
    for x in (np.triu(np.ones((4, 6)), -1), np.eye(3), np.zeros((2, 3)), np.ones((0, 3)),
              np.tril(np.ones((5, 3)), 1) * 1j):  # fmt: skip
        f = fx.linalg.bandwidth
        for got in (f(fx.asarray(x)), fx.jit(f)(fx.asarray(x))):
            assert tuple(map(int, got)) == (scipy.bandwidth(x) if x.size else (0, 0))
    lanes = fx.vmap(fx.linalg.bandwidth)(fx.stack([fx.eye(3), fx.ones((3, 3))]))
    assert [y.tolist() for y in lanes] == [[0, 2], [0, 2]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_triangular_forms(dtype, n):
    """The form is triangular and belongs to the matrix; pairs of eigenvalues are turned apart."""
    a = numbers((2, n, n), dtype)
    f = lambda x: fx.linalg.rsf2csf(*fx.linalg.schur(x))
    for t, z in (f(fx.asarray(a)), fx.jit(f)(fx.asarray(a)), fx.vmap(f)(fx.asarray(a))):
        t, z = t.numpy(), z.numpy()
        assert t.dtype.kind == "c" and (np.tril(t, -1) == 0).all()
        scale = 50 * TOLERANCE[dtype]
        np.testing.assert_allclose(z @ t @ z.conj().swapaxes(-1, -2), a, atol=scale)
        np.testing.assert_allclose(z.conj().swapaxes(-1, -2) @ z, [np.eye(n)] * 2, atol=scale)
    want = [scipy.rsf2csf(*scipy.schur(x))[0].diagonal() for x in a.astype("complex128").real]
    if dtype[0] == "f":
        for part in (np.real, np.imag, np.abs):  # whose order no rounding changes
            got = np.sort(part(t.diagonal(0, -2, -1)))
            np.testing.assert_allclose(got, np.sort(part(want)), atol=100 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_by_the_triangular_form(dtype):
    a = numbers((4, 4), dtype)
    for peer, function in ((lambda w: w * w, lambda w: w * w), (np.exp, fx.exp), (np.sin, fx.sin)):
        want = scipy.funm(a.astype("complex128"), peer)
        f = lambda x, function=function: fx.linalg.funm(x, function)
        both = fx.vmap(f)(fx.asarray(np.stack([a, a])))
        for got in (f(fx.asarray(a)), fx.jit(f)(fx.asarray(a)), both[1]):
            assert got.dtype == np.result_type(dtype, "complex64")
            size = max(1.0, np.abs(want).max())
            np.testing.assert_allclose(got.numpy(), want, atol=2e3 * TOLERANCE[dtype] * size)
    _, error = fx.linalg.funm(fx.asarray(a), fx.exp, disp=False)
    _, much = fx.linalg.funm(fx.asarray(np.array([[1, 1], [0, 1]], dtype)), fx.exp, disp=False)
    assert error < 1e-4 and much > 0.5  # equal eigenvalues
    with pytest.raises(fx.errors.BackwardError, match="schur"):
        fx.grad(lambda x: fx.linalg.funm(x, fx.exp).real.sum())(fx.asarray(a))


@pytest.mark.parametrize("dtype", DTYPES)
def test_conditions_of_exponentials(dtype):
    a = numbers((3, 3), dtype)
    want = scipy.expm_cond(a.astype("complex128" if dtype[0] == "c" else "float64"))
    for way in (lambda f: f, fx.jit):
        got = way(fx.linalg.expm_cond)(fx.asarray(a))
        np.testing.assert_allclose(got.item(), want, rtol=500 * TOLERANCE[dtype])
    if dtype == "float64":
        t, h = numbers((3, 3), dtype, 3), 1e-5
        step = (scipy.expm_cond(a + h * t) - scipy.expm_cond(a - h * t)) / (2 * h)
        slope = fx.jvp(fx.linalg.expm_cond, (fx.asarray(a),), (fx.asarray(t),))[1]
        back = (fx.grad(fx.linalg.expm_cond)(fx.asarray(a)).numpy() * t).sum()
        np.testing.assert_allclose([slope.item(), back], step, rtol=1e-6)
    with pytest.raises(ValueError, match=r"write fx\.vmap"):
        fx.linalg.expm_cond(fx.ones((2, 2, 2)))


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_real_eigenpairs(n):
    for seed in range(3):
        a = numbers((n, n), "float64", seed)
        w, v = scipy.eig(a)
        want = scipy.cdf2rdf(w, v)
        f = fx.linalg.cdf2rdf
        for got in (f(fx.asarray(w), fx.asarray(v)), fx.jit(f)(fx.asarray(w), fx.asarray(v))):
            for x, y in zip(got, want, strict=True):
                np.testing.assert_allclose(x.numpy(), y, atol=1e-14)
            np.testing.assert_allclose(
                a @ got[1].numpy(), got[1].numpy() @ got[0].numpy(), atol=1e-12
            )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["full", "economic"])
def test_changed_factors(dtype, mode):
    """Those of SciPy but for the signs of columns, and slopes that are those of ``qr``."""
    a = numbers((6, 3), dtype)
    q, r = scipy.qr(a, mode=mode)
    u, v, row, column = (numbers((n,), dtype, n) for n in (6, 3, 3, 6))
    rows, columns = numbers((2, 3), dtype, 9), numbers((6, 2), dtype, 9)
    calls = [("qr_update", (u, v)), ("qr_update", (columns, numbers((3, 2), dtype, 4))),
             ("qr_insert", (row, 2)), ("qr_insert", (rows, 6)), ("qr_insert", (column, 1, "col")),
             ("qr_insert", (columns, -1, "col")), ("qr_delete", (0, 2)), ("qr_delete", (-2,)),
             ("qr_delete", (1, 1, "col")), ("qr_delete", (0, 2, "col"))]  # fmt: skip
    for name, args in calls:
        plain = [fx.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
        f = lambda q, r, name=name, plain=plain: getattr(fx.linalg, name)(q, r, *plain)
        want = np.matmul(*getattr(scipy, name)(q, r, *args))
        for way in (lambda f: f, fx.jit):
            x, y = (z.numpy() for z in way(f)(fx.asarray(q), fx.asarray(r)))
            np.testing.assert_allclose(x @ y, want, atol=100 * TOLERANCE[dtype])
            np.testing.assert_allclose(x.conj().T @ x, np.eye(x.shape[1]), atol=1e-4)
            assert (np.tril(y, -1) == 0).all() and (mode == "economic" or x.shape[0] == x.shape[1])
    one, two = fx.eye(3), fx.eye(2)
    refused = [
        (lambda: fx.linalg.qr_delete(one, one, 2, 2), "places 2 .. 3"),
        (lambda: fx.linalg.qr_insert(one, one, fx.ones(2), 0), "rows of 3 elements"),
        (lambda: fx.linalg.qr_insert(one, one, fx.ones(3), 9), "a place of 0 .. 3"),
        (lambda: fx.linalg.qr_delete(one, one, 0, 1, "x"), "'row' or 'col'"),
        (lambda: fx.linalg.qr_update(one, two, 0, 1), "no factors of one matrix"),
    ]
    for bad, words in refused:
        with pytest.raises(ValueError, match=words):
            bad()


def test_roots_that_are_not_real():
    x = fx.tensor([[-1.0, 0.0], [0.0, 4.0]])
    for f in (fx.linalg.sqrtm, fx.linalg.logm):
        assert fx.isnan(f(x)).all()
    got = fx.linalg.sqrtm(x.astype(fx.complex64))
    np.testing.assert_allclose(got.numpy(), [[1j, 0], [0, 2]], atol=1e-6)
    both = fx.linalg.sqrtm(fx.stack([x, fx.eye(2)]))
    assert fx.isnan(both[0]).all() and fx.equal(both[1], fx.eye(2)).all()
    singular = fx.linalg.solve_sylvester(fx.eye(2), -fx.eye(2), fx.ones((2, 2)))
    assert not (fx.isfinite(singular) & (abs(singular) < 1e3)).all()
    assert fx.isnan(fx.linalg.solve_banded((0, 0), fx.zeros((1, 2)), fx.ones(2))).all()


# LDL --------------------------------------------------------------------------------------------


def indefinite(shape, dtype, hermitian, seed=0):
    x = numbers(shape, dtype, seed)
    x[..., range(0, shape[-1], 2), range(0, shape[-1], 2)] *= 1e-3  # exchanges and blocks of two
    return x + (x.conj() if hermitian else x).swapaxes(-1, -2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 5, 5), (7, 7), (0, 3, 3), (0, 0)])
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl_is_pytorchs(dtype, shape, hermitian):
    a = indefinite(shape, dtype, hermitian)
    b = numbers((*shape[:-1], 2), dtype, 1)
    theirs = torch.linalg.ldl_factor(torch.tensor(a), hermitian=hermitian)
    want = torch.linalg.ldl_solve(*theirs, torch.tensor(b), hermitian=hermitian).numpy()
    for way in (lambda f: f, fx.jit):
        ours = way(lambda x: tuple(fx.linalg.ldl_factor(x, hermitian=hermitian)))(fx.asarray(a))
        np.testing.assert_array_equal(ours[1].numpy(), theirs[1].numpy())
        scale = 50 * TOLERANCE[dtype]
        np.testing.assert_allclose(
            ours[0].numpy(), theirs[0].tril().numpy(), atol=scale, rtol=scale
        )
        solve = way(lambda d, p, x: fx.linalg.ldl_solve(d, p, x, hermitian=hermitian))
        got = solve(*ours, fx.asarray(b)).numpy()
        size = max(1.0, np.abs(want).max(initial=0))
        np.testing.assert_allclose(got, want, atol=1e3 * TOLERANCE[dtype] * size)
    if len(shape) == 2 and shape[0]:
        for mine, peers in zip(fx.linalg.ldl(fx.asarray(a), hermitian=hermitian),
                               scipy.ldl(a, hermitian=hermitian), strict=True):  # fmt: skip
            np.testing.assert_allclose(mine.numpy(), peers, atol=scale)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("hermitian", [False, True])
def test_slopes_through_ldl(dtype, hermitian):
    """Of a solve, which is the inverse's; and of the factors, by differences."""
    a, b = indefinite((5, 5), dtype, hermitian), numbers((5, 2), dtype, 1)

    def by_ldl(x, y):
        low = fx.tril(x, -1)
        middle = x * fx.eye(5, dtype=x.dtype)
        whole = (
            low + (low.mH if hermitian else low.mT) + (middle.real + 0 * x if hermitian else middle)
        )
        return fx.linalg.ldl_solve(*fx.linalg.ldl_factor(whole, hermitian=hermitian), y,
                                   hermitian=hermitian)  # fmt: skip

    def by_inverse(x, y):
        low = torch.tril(x, -1)
        middle = x * torch.eye(5)
        middle = middle.real + 0 * x if hermitian else middle
        return torch.linalg.solve(low + (low.mH if hermitian else low.mT) + middle, y)

    for got, want in zip(fx_gradients(by_ldl, a, b), torch_gradients(by_inverse, a, b)):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_ldl_of_singular_matrices():
    x = fx.zeros((2, 2))
    with pytest.raises(fx.linalg.LinAlgError, match="ldl_factor: The diagonal element 1 of D"):
        fx.linalg.ldl_factor(x)
    assert fx.linalg.ldl_factor_ex(x).info.item() == 1
    with pytest.raises(ValueError, match=r"ldl\(A.mH\)"):
        fx.linalg.ldl(x, lower=False)
    with pytest.raises(TypeError, match="int32"):
        fx.linalg.ldl_solve(x, fx.tensor([1, 2]), x)


# reflectors, Hessenberg, Schur, eigenpairs ------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_reflectors_are_pytorchs(dtype):
    for shape in ((4, 3), (3, 4), (2, 3, 3), (2, 0, 3)):
        a = numbers(shape, dtype)
        for got, want in zip(
            fx.torch.geqrf(fx.asarray(a)), torch.geqrf(torch.tensor(a)), strict=True
        ):
            np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e2 * TOLERANCE[dtype])
    a, tau = fx.torch.geqrf(fx.asarray(numbers((4, 3), dtype)))
    q = fx.linalg.qr(fx.asarray(numbers((4, 3), dtype))).Q
    found = fx.linalg.householder_product(a, tau)
    np.testing.assert_allclose(found.numpy(), q.numpy(), atol=1e2 * TOLERANCE[dtype])
    with pytest.raises(RuntimeError, match=r"geqrf: fx has no derivative"):
        fx.grad(lambda x: fx.linalg.geqrf(x).tau.real.sum())(fx.asarray(numbers((4, 3), dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_schur_and_hessenberg(dtype):
    a = numbers((2, 5, 5), dtype)
    for f, more in ((lambda x: fx.linalg.hessenberg(x, calc_q=True), -1),
                    (lambda x: fx.linalg.schur(x), -1),
                    (lambda x: fx.linalg.schur(x, output="complex"), 0)):  # fmt: skip
        for way in (f, fx.jit(f), fx.vmap(f)):
            t, z = (x.numpy() for x in way(fx.asarray(a)))
            np.testing.assert_allclose(
                z @ t @ z.conj().swapaxes(-1, -2), a, atol=1e3 * TOLERANCE[dtype]
            )
            np.testing.assert_array_equal(np.tril(t, more - 1), 0 * t)
    with pytest.raises(ValueError, match="output is 'real' or 'complex'"):
        fx.linalg.schur(fx.eye(2), output="both")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [True, False])
def test_few_eigenpairs(dtype, largest):
    a = numbers((2, 9, 9), dtype)
    a, b = a + a.conj().swapaxes(-1, -2), positive((2, 9, 9), dtype, 1)
    for given in ((), (b,)):
        w, v = fx.linalg.lobpcg(fx.asarray(a), 3, *map(fx.asarray, given), largest=largest)
        whole = [scipy.eigh(x, *y, eigvals_only=True) for x, *y in zip(a, *given)]
        want = np.stack(whole)[:, ::-1][:, :3] if largest else np.stack(whole)[:, :3]
        np.testing.assert_allclose(w.numpy(), want, atol=1e3 * TOLERANCE[dtype])
        left, right = a @ v.numpy(), v.numpy() * w.numpy()[:, None]
        np.testing.assert_allclose(left, (given[0] if given else np.eye(9)) @ right, atol=1e-3)
    if dtype == "float64":
        first, _ = fx.torch.lobpcg(fx.asarray(b), k=2)
        theirs, _ = torch.lobpcg(torch.tensor(b), k=2, niter=-1, tol=1e-12)
        np.testing.assert_allclose(first.numpy(), theirs.numpy(), rtol=1e-8)
    with pytest.raises(ValueError, match=r"k is one of 1 \.\. 9"):
        fx.linalg.lobpcg(fx.asarray(a), 10)


def test_solves_by_factors():
    a, b = positive((4, 4), "complex128"), numbers((4, 2), "complex128", 1)
    for lower in (True, False):
        factor = fx.linalg.cho_factor(fx.asarray(a), lower=lower)
        got = fx.linalg.cho_solve(factor, fx.asarray(b)).numpy()
        np.testing.assert_allclose(got, scipy.solve(a, b), rtol=1e-12)
        bands = _lower_bands("float64") if lower else _upper_bands("float64")
        c = fx.linalg.cholesky_banded(fx.asarray(bands), lower=lower)
        inside = bands != 0
        peers = scipy.cholesky_banded(bands, lower=lower)
        np.testing.assert_allclose(c.numpy(), peers * inside, rtol=1e-12)
        want = scipy.cho_solve_banded(
            (scipy.cholesky_banded(bands, lower=lower), lower), np.arange(5.0)
        )
        got = fx.linalg.cho_solve_banded((c, lower), fx.arange(5, dtype=fx.float64)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-12)
        w, _ = fx.linalg.eig_banded(fx.asarray(bands), lower=lower)
        np.testing.assert_allclose(w.numpy(), scipy.eigvals_banded(bands, lower=lower), rtol=1e-12)
    d, e = numbers((2, 4), "float64"), numbers((2, 3), "float64", 1)
    w, _ = fx.linalg.eigh_tridiagonal(fx.asarray(d), fx.asarray(e))
    np.testing.assert_allclose(w.numpy()[1], scipy.eigvalsh_tridiagonal(d[1], e[1]), atol=1e-13)
    again = fx.linalg.eigh_tridiagonal(fx.asarray(d), fx.asarray(e), eigvals_only=True)
    np.testing.assert_allclose(again.numpy(), w.numpy(), atol=1e-13)


def test_a_function_of_what_has_no_basis_of_eigenvectors_is_no_number():
    square = lambda a: fx.linalg.funm(fx.asarray(np.array(a)), lambda w: w * w)
    assert np.isnan(square([[1.0, 1.0], [0.0, 1.0]]).numpy()).any()
    np.testing.assert_allclose(square(np.eye(3) * 2).numpy(), np.eye(3) * 4)
    blocks = np.diag([1.0, 2.0, 1.0])
    blocks[0, 1] = 3.0
    np.testing.assert_allclose(square(blocks).numpy(), blocks @ blocks, atol=1e-14)


@pytest.mark.parametrize(
    "rows", [[[0, 0], [0, 0]], [[1, 2], [2, 4]], [[0, 1], [0, 0]], [[1, 0], [0, 0]]]
)
def test_the_logarithm_of_a_singular_matrix_is_none(rows):
    """SciPy's is that of a matrix close to it, whose half is 1e-10 where the root is 0."""
    a = fx.tensor(np.array(rows, np.float64))
    assert np.isnan(np.asarray(fx.linalg.logm(a))).all()
    assert np.isnan(np.asarray(fx.linalg.fractional_matrix_power(a, 0.5))).all()
