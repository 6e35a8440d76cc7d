"""Derivatives by complex numbers: JAX's pairing in transforms, PyTorch's on the tape."""

import numpy as np
import pytest

import fx
import fx.torch as fxt
from fx.errors import BackwardError, DTypeError

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy

rng = np.random.default_rng(0)
Z = rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4))
X = rng.standard_normal((5, 4)) + 1j * rng.standard_normal((5, 4))
W = rng.standard_normal(4)


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


def array(x):
    if isinstance(x, torch.Tensor):
        x = x.detach().resolve_conj().resolve_neg()
    elif isinstance(x, fx.Tensor):
        x = fx.asarray(x.detach()) + 0
    return np.asarray(x)


def near(found, expected, rtol=1e-9):
    found, expected = array(found), array(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol, 1e-11)


# transforms against JAX --------------------------------------------------------------------------

HOLOMORPHIC = {
    "sum": lambda np_, z: (np_.sin(z) * z * z).sum(),
    "rows": lambda np_, z: np_.exp(z) * z[::-1] + 1j,
    "product": lambda np_, z: (z @ z.T) / (z * z).sum(),
}
REAL = {
    "sum": lambda np_, z: (np_.abs(z * z * z) + np_.real(z) * np_.imag(z)).sum(),
    "rows": lambda np_, z: np_.abs(z) * np_.real(z[::-1]),
    "angle": lambda np_, z: np_.arctan2(np_.imag(z), np_.real(z)) * 2.0,
}
WAYS = {"eager": lambda f: f, "jit": fx.jit}


def pairs(transforms, names):
    """A transform and a function that it takes: ``grad`` wants a scalar."""
    return [(t, n) for t in transforms for n in names if t != "grad" or n == "sum"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("transform", "name"), pairs(["grad", "jacfwd", "jacrev", "hessian"], HOLOMORPHIC)
)
def test_holomorphic_functions(transform, name, way):
    f = HOLOMORPHIC[name]
    mine = getattr(fx, transform)(lambda z: f(fx, z), holomorphic=True)
    theirs = jax.jit(getattr(jax, transform)(lambda z: f(jnp, z), holomorphic=True))
    near(WAYS[way](mine)(fx.tensor(Z)), theirs(Z))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("transform", "name"), pairs(["grad", "jacrev"], REAL))
def test_real_functions_of_complex_numbers(transform, name, way):
    f = REAL[name]
    mine = getattr(fx, transform)(lambda z: f(fx, z))
    theirs = jax.jit(getattr(jax, transform)(lambda z: f(jnp, z)))
    near(WAYS[way](mine)(fx.tensor(Z)), theirs(Z))


@pytest.mark.parametrize("transform", ["grad", "jacfwd", "jacrev", "hessian"])
@pytest.mark.parametrize("holomorphic", [False, True])
@pytest.mark.parametrize("functions", [HOLOMORPHIC, REAL])
def test_what_is_no_whole_derivative_is_refused_where_jax_refuses_it(
    functions, holomorphic, transform
):
    f, z = functions["sum"], fx.tensor(Z)

    def refuses(library, np_, errors, x):
        try:
            getattr(library, transform)(lambda z: f(np_, z), holomorphic=holomorphic)(x)
        except errors:
            return True
        return False

    assert refuses(fx, fx, (DTypeError, BackwardError), z) == refuses(jax, jnp, TypeError, Z)
    assert refuses(fx, fx, (DTypeError, BackwardError), z.real) == refuses(
        jax, jnp, TypeError, Z.real
    )


def test_the_refusal_says_what_to_write():
    with pytest.raises(BackwardError, match="write holomorphic=True for a holomorphic function"):
        fx.grad(lambda z: (z * z).sum())(fx.tensor(Z))
    with pytest.raises(DTypeError, match="differentiates with respect to complex tensors"):
        fx.grad(lambda x: (x * x).sum(), holomorphic=True)(fx.tensor(W))


# the tape against PyTorch ------------------------------------------------------------------------

UNARY = (
    *("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh"),
    *("acosh", "atanh", "sqrt", "rsqrt", "reciprocal", "square", "abs", "angle", "sgn", "conj"),
    *("expm1", "log1p", "log2", "log10", "prod", "mean", "sum"),
)
BINARY = {
    "multiply": lambda T, a, b: a * b,
    "divide": lambda T, a, b: a / b,
    "power": lambda T, a, b: a**b,
    "matmul": lambda T, a, b: a @ b.mH,
    "einsum": lambda T, a, b: T.einsum("ij,kj->ik", a, b.conj()),
    "vdot": lambda T, a, b: T.vdot(a[0], b[1]),
    "where": lambda T, a, b: T.where(a.real > 0, a, b),
    "lerp": lambda T, a, b: T.lerp(a, b, 0.3),
    "parts": lambda T, a, b: T.complex(a.real * b.imag, b.abs()),
    "pairs": lambda T, a, b: T.view_as_complex(T.view_as_real(a) * T.view_as_real(b)),
    "conv": lambda T, a, b: T.nn.functional.conv1d(a[None], b[None, :, :2]),
    "cumprod": lambda T, a, b: a.cumprod(0) + b.cumsum(1),
}


def pulled(T, f, *arrays):
    leaves = [T.tensor(x, requires_grad=True) for x in arrays]
    out = f(T, *leaves)
    weight = (1 + 2j) if out.is_complex() else 1
    out.backward(T.ones_like(out) * weight)
    return out, *[x.grad for x in leaves]


@pytest.mark.parametrize("name", UNARY)
def test_gradients_at_complex_leaves_unary(name):
    f = lambda T, z: getattr(T, name)(z)
    for mine, theirs in zip(pulled(fxt, f, Z), pulled(torch, f, Z), strict=True):
        near(mine, theirs)


@pytest.mark.parametrize("name", BINARY)
def test_gradients_at_complex_leaves_binary(name):
    arrays = Z, Z[::-1] * (0.5 - 1j)
    for mine, theirs in zip(
        pulled(fxt, BINARY[name], *arrays), pulled(torch, BINARY[name], *arrays), strict=True
    ):
        near(mine, theirs)


def accumulated(T):
    w = T.tensor(Z, requires_grad=True)
    for _ in range(3):
        (w * w).abs().sum().backward()
    seen = []
    w.register_hook(lambda g: seen.append(g) or g * 1j)
    (w * w.conj() * 1j).imag.sum().backward()
    return w.grad, seen[0]


def retained(T):
    w = T.tensor(Z, requires_grad=True)
    y = w * (1 + 2j)
    y.retain_grad()
    (y * y).real.sum().backward(inputs=[w, y])
    return w.grad, y.grad


def second(T):
    w = T.tensor(Z, requires_grad=True)
    (w**3).abs().sum().backward(create_graph=True)
    g, w.grad = w.grad, None
    (g.real * g.imag).sum().backward()
    return g, w.grad


def by_grad(T):
    w = T.tensor(Z, requires_grad=True)
    (g,) = T.autograd.grad(w.exp(), w, T.ones_like(w) * 2j, create_graph=True)
    return g, *T.autograd.grad((g.abs() ** 2).sum(), w)


def per_example(T):
    f = T.func.grad(lambda w, x: (w * x).abs().pow(2).sum())
    return (T.func.vmap(f, (None, 0))(T.tensor(Z[0]), T.tensor(X)),)


def products(T):
    A = T.autograd.functional
    f = lambda w: (w * w).abs().pow(2).sum()
    return (
        A.jacobian(f, T.tensor(Z)), *A.hvp(f, T.tensor(Z), T.tensor(Z * 2j + 1)),
        *A.vjp(f, T.tensor(Z)), *A.jvp(lambda w: w * w.conj(), T.tensor(Z), T.tensor(Z * 2j)),
    )  # fmt: skip


@pytest.mark.parametrize("run", [accumulated, retained, second, by_grad, per_example, products])
def test_the_tape_has_pytorchs_pairing(run):
    for mine, theirs in zip(run(fxt), run(torch), strict=True):
        near(mine, theirs)


@pytest.mark.parametrize("power", [2, 3])
def test_gradcheck_of_complex_functions(power):
    z = fx.tensor(Z[0, :2])
    assert fx.autograd.gradcheck(lambda z: z**power * z.conj(), z, check_forward_ad=True)
    assert fx.autograd.gradgradcheck(lambda z: z**power, z)

    @fx.custom_vjp
    def wrong(z):
        return z**power

    wrong.defvjp(lambda z: (z**power, z), lambda z, ct: (ct * z ** (power - 1),))
    with pytest.raises(fx.autograd.GradcheckError):
        fx.autograd.gradcheck(wrong, z)


# parameters --------------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1},
    "Adam": {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1},
    "AdamW": {}, "Adagrad": {"initial_accumulator_value": 0.1}, "Adadelta": {}, "Rprop": {},
    "RMSprop": {"centered": True, "momentum": 0.9}, "NAdam": {}, "RAdam": {}, "ASGD": {},
    "Adamax": {}, "LBFGS": {"lr": 0.01, "max_iter": 3},
}  # fmt: skip


def trained(T, name, step=lambda f: f):
    w, b = T.nn.Parameter(T.tensor(Z)), T.nn.Parameter(T.tensor(W))
    optimizer = getattr(T.optim, name)([w, b], **OPTIMIZERS[name])
    x = T.tensor(X)

    def loss():
        optimizer.zero_grad()
        out = (x @ w.T).abs().sum() + (w.real * b).sum() + (b**2).sum()
        out.backward()
        return out

    def update():
        if name == "LBFGS":
            return optimizer.step(loss)
        out = loss()
        optimizer.step()
        return out

    update = step(update)
    losses = [float(update().detach()) for _ in range(5)]
    state = optimizer.state_dict()["state"][0]
    kept = [x for k, x in sorted(state.items()) if k != "step" and name != "LBFGS"]
    return w, b, losses, *[x for x in kept if x is not None]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_step_complex_parameters(name, way):
    mine, theirs = trained(fxt, name, WAYS[way]), trained(torch, name)
    for found, expected in zip(mine, theirs, strict=True):
        near(found, expected, 1e-8)


@pytest.mark.parametrize("name", ["Adafactor", "Muon", "SparseAdam"])
def test_optimizers_of_matrices_refuse_complex_parameters(name):
    with pytest.raises(DTypeError, match=f"{name} does not support complex parameters"):
        getattr(fx.optim, name)([fx.nn.Parameter(fx.tensor(Z))])


def test_the_pure_form_goes_down_along_the_conjugate():
    init, update = fx.optim.pure.adam(lr=0.1)
    f = lambda z: (z - (1 + 2j)).abs() ** 2
    z = fx.tensor(0j, dtype=fx.complex128)
    state = init(z)
    for _ in range(200):
        z, state = update(fx.grad(f)(z).conj(), state, z)
    assert abs(complex(z) - (1 + 2j)) < 1e-2


def layer(T):
    m = T.nn.Linear(4, 3, dtype=T.complex128)
    m.load_state_dict({"weight": T.tensor(Z), "bias": T.tensor(Z[:, 0])})
    y = m(T.tensor(X)).abs().sum()
    y.backward()
    norm = T.nn.utils.clip_grad_norm_(m.parameters(), 0.5)
    return y, m.weight.grad, m.bias.grad, norm


def converted(T):
    m = T.nn.Module()
    m.w, m.b = T.nn.Parameter(T.tensor(Z)), T.nn.Parameter(T.tensor(W))
    first = [x.detach() for x in m.float().parameters()]
    return *first, *m.to(T.complex64).parameters()


@pytest.mark.parametrize("run", [layer, converted])
def test_modules_hold_complex_parameters(run):
    for mine, theirs in zip(run(fxt), run(torch), strict=True):
        near(mine, theirs)


@pytest.mark.parametrize(
    "draw",
    [
        lambda T: T.randn(20000, dtype=T.complex64),
        lambda T: T.rand(20000, dtype=T.complex128),
        lambda T: T.randn_like(T.ones(20000, dtype=T.complex64)),
        lambda T: T.nn.init.xavier_uniform_(T.empty(200, 100, dtype=T.complex64)),
        lambda T: T.nn.init.normal_(T.empty(200, 100, dtype=T.complex64), std=0.1),
        lambda T: T.nn.Conv2d(1, 200, 9, dtype=T.complex64).weight,
    ],
)
def test_complex_draws_have_pytorchs_moments(draw):
    fxt.manual_seed(0), torch.manual_seed(0)
    found, expected = array(draw(fxt)), array(draw(torch))
    assert found.dtype == expected.dtype and found.shape == expected.shape
    for part in (np.real, np.imag):
        a, b = part(found), part(expected)
        spread = b.std()
        assert abs(a.mean() - b.mean()) < 0.06 * spread and abs(a.std() / spread - 1) < 0.05
    correlation = np.corrcoef(found.real.ravel(), found.imag.ravel())[0, 1]
    assert abs(correlation) < 0.04
