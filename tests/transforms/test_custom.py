"""custom_vjp and custom_jvp: under every transform, with any subset of rules, against JAX."""

import numpy as np
import pytest

import fx
from fx.errors import BackwardError, DTypeError, ShapeError, TreeError
from fx.primitive import registry
from tests.thorough import pairs
from tests.transforms.oracle import array, jax, jnp, ours, same, says, x64

X = np.array([0.3, -1.2, 2.0])
Y = np.array([[1.0, 2.0, -0.5], [0.2, 0.1, 3.0]])


def by_vjp(m, decorate):
    """sin(x) * y with a rule whose residuals are computed, and a factor that tells it apart."""

    @decorate
    def f(x, y):
        return m.sin(x) * y

    def fwd(x, y):
        return f(x, y), (m.cos(x), m.sin(x), y)

    def bwd(residuals, ct):
        c, s, y = residuals
        return 1.5 * ct * c * y, ct * s

    f.defvjp(fwd, bwd)
    return f


def by_jvp(m, decorate):
    @decorate
    def f(x, y):
        return m.sin(x) * y

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (tx, ty) = primals, tangents
        return f(x, y), 1.5 * tx * m.cos(x) * y + ty * m.sin(x)

    return f


WAYS = {
    "vjp": (by_vjp(fx, fx.custom_vjp), by_vjp(jnp, jax.custom_vjp)),
    "jvp": (by_jvp(fx, fx.custom_jvp), by_jvp(jnp, jax.custom_jvp)),
}


class JaxHere:
    """The names of JAX's transforms as fx has them."""

    grad, vmap, jacrev, jacfwd = jax.grad, jax.vmap, jax.jacrev, jax.jacfwd
    jvp, linearize, hessian, checkpoint = jax.jvp, jax.linearize, jax.hessian, jax.checkpoint


REVERSE = {
    "value": lambda m, f: f,
    "grad": lambda m, f: m.grad(lambda x: (f(x) ** 2).sum()),
    "vmap": lambda m, f: m.vmap(lambda s: f(s[None])[0]),
    "vmap of grad": lambda m, f: m.vmap(m.grad(lambda s: (f(s[None]) ** 2).sum())),
    "grad of vmap": lambda m, f: m.grad(lambda x: (m.vmap(lambda s: f(s * x))(x) ** 2).sum()),
    "grad of grad": lambda m, f: m.grad(
        lambda x: (m.grad(lambda x: (f(x) ** 2).sum())(x) ** 2).sum()
    ),
    "jacrev": lambda m, f: m.jacrev(f),
    "vmap of grad of vmap": lambda m, f: (
        lambda x: m.vmap(m.grad(lambda s: (m.vmap(lambda r: f(s * r * x))(x) ** 2).sum()))(x)
    ),
    "checkpoint": lambda m, f: m.grad(lambda x: (m.checkpoint(f)(x) ** 2).sum()),
}
FORWARD = {
    "jvp": lambda m, f: lambda x: m.jvp(f, (x,), (x,)),
    "vmap of jvp": lambda m, f: lambda x: m.vmap(lambda s: m.jvp(f, (x,), (s * x,)))(x),
    "jvp of vmap": lambda m, f: lambda x: m.jvp(m.vmap(lambda s: f(s * x)), (x,), (x,)),
    "jvp of grad": lambda m, f: lambda x: m.jvp(m.grad(lambda x: (f(x) ** 2).sum()), (x,), (x,)),
    "grad of jvp": lambda m, f: m.grad(lambda x: (m.jvp(f, (x,), (x * x,))[1] ** 2).sum()),
    "jacfwd": lambda m, f: m.jacfwd(f),
    "hessian": lambda m, f: m.hessian(lambda x: (f(x) ** 2).sum()),
    "linearize": lambda m, f: lambda x: m.linearize(f, x)[1](x),
}


@pytest.mark.parametrize("word", {**REVERSE, **FORWARD})
@pytest.mark.parametrize("way", WAYS)
def test_words_equal_jax(way, word):
    found, expected = WAYS[way]
    if word in REVERSE:
        oracle, make = expected, REVERSE[word]
    else:  # JAX has no forward mode of a custom_vjp: its custom_jvp has the same derivative
        oracle, make = WAYS["jvp"][1], FORWARD[word]
    ours_of = make(fx, lambda x: found(x, x * x))
    with x64():
        same(
            ours_of(ours(X)),
            make(JaxHere, lambda x: oracle(x, x * x))(jnp.asarray(X)),
        )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_backward_at_every_order_equals_jax(way, order):
    found, expected = WAYS[way]
    x = ours(X).requires_grad_()
    y = found(x, x * x).sum()
    for _ in range(order - 1):
        (y,) = fx.autograd.grad(y, x, create_graph=True)
        y = y.sum()
    y.backward()
    with x64():
        g = lambda x: expected(x, x * x).sum()
        for _ in range(order - 1):
            g = (lambda h: lambda x: jax.grad(h)(x).sum())(g)
        same(x.grad, jax.grad(g)(jnp.asarray(X)))


@pytest.mark.parametrize("way", WAYS)
def test_backward_inside_grad_and_vmap(way):
    f, _ = WAYS[way]

    def inner(x):
        x = (x + 0.0).requires_grad_()
        (f(x, x * x) ** 2).sum().backward(create_graph=True)
        return (x.grad**2).sum()

    def outer(x):
        return (fx.grad(lambda x: (f(x, x * x) ** 2).sum())(x) ** 2).sum()

    same(fx.grad(inner)(ours(X)), array(fx.grad(outer)(ours(X))))
    same(fx.vmap(inner)(ours(Y)), array(fx.vmap(outer)(ours(Y))))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (1, 0)])
def test_shared_arguments_collect_from_all_lanes(way, axes):
    found, expected = WAYS[way]
    a = Y if axes[0] == 0 else Y.T.copy() if axes[0] == 1 else Y[0]
    b = Y if axes[1] == 0 else Y[1]
    f = lambda m, g: m.grad(lambda a, b: (m.vmap(g, axes)(a, b) ** 2).sum(), (0, 1))
    with x64():
        same(f(fx, found)(*ours((a, b))), f(JaxHere, expected)(a, b))


def test_a_cotangent_that_is_the_same_in_all_lanes_is_collected_too():
    f = fx.custom_vjp(lambda x, w: x * w)
    f.defvjp(lambda x, w: (x * w, None), lambda _, ct: (ct, fx.tensor(2.0, dtype=fx.float64)))
    g = fx.grad(lambda w: fx.vmap(f, (0, None))(ours(X), w).sum())
    same(g(ours(X)[0]), 2.0 * len(X))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_lanes_may_lie_anywhere(axis):
    f = fx.custom_vjp(lambda x: (fx.sin(x), x * 2.0))
    f.defvjp(
        lambda x: ((fx.sin(x), x * 2.0), x),
        lambda x, cts: (cts[0] * fx.cos(x) + cts[1] * 2.0,),
    )
    x = ours(np.random.default_rng(0).standard_normal((3, 4, 5)))

    def through(f):
        mapped = fx.vmap(f, axis, axis)
        return fx.grad(lambda x: sum((o * o * o).sum() for o in mapped(x)))(x), mapped(x)

    same(through(f), [array(a) for a in fx.tree.leaves(through(lambda x: (fx.sin(x), x * 2.0)))])


def test_a_rule_that_is_no_derivative():
    @fx.custom_vjp
    def clip(x):
        return x

    clip.defvjp(lambda x: (x, None), lambda _, ct: (fx.clip(ct, -1.0, 1.0),))
    g = lambda x: (clip(x) * ours(X * 10)).sum()
    same(fx.grad(g)(ours(X)), np.sign(X))
    x = ours(X).requires_grad_()
    g(x).backward()
    same(x.grad, np.sign(X))


def test_arguments_that_are_no_tensors_keywords_and_methods():
    class Layer:
        @fx.custom_vjp
        def half(self, x):
            return x

    Layer.half.nondiff_argnums = (0,)
    Layer.half.defvjp(lambda self, x: (x, None), lambda self, _, ct: (ct * 0.5,))
    same(fx.grad(lambda x: Layer().half(x).sum())(ours(X)), np.full(3, 0.5))

    def power(x, n, *, scale=1.0):
        return scale * x**n

    f = fx.custom_vjp(power, nondiff_argnums=(1,))
    f.defvjp(lambda x, n, scale: (f(x, n), x), lambda n, x, ct: (n * x ** (n - 1) * ct, None))
    with pytest.raises(TypeError):
        f(ours(X), 3, bogus=1)
    g = fx.custom_jvp(lambda name, x: x * 2.0, nondiff_argnums=(0,))
    g.defjvp(lambda name, p, t: (g(name, *p), t[0] * len(name)))
    same(fx.grad(lambda x: g("abc", x).sum())(ours(X)), np.full(3, 3.0))


def test_pytrees_in_and_out():
    @fx.custom_vjp
    def f(tree, k):
        return {"y": tree["x"] * tree["n"] * k, "i": fx.tensor([1, 2])}

    def fwd(tree, k):
        return f(tree, k), (tree, k, "static", None)

    def bwd(residuals, ct):
        tree, k, word, none = residuals
        assert word == "static" and none is None and ct["i"] is None
        return {"x": ct["y"] * tree["n"] * k, "n": None, "w": None}, None

    f.defvjp(fwd, bwd)
    tree = {"x": ours(X), "n": 3, "w": "word"}
    for run in (
        lambda x: fx.grad(lambda x: f({**tree, "x": x}, 2.0)["y"].sum())(x),
        lambda x: fx.vmap(fx.grad(lambda x: f({**tree, "x": x}, 2.0)["y"]))(x),
        lambda x: fx.jvp(lambda x: f({**tree, "x": x}, 2.0)["y"], (x,), (fx.ones_like(x),))[1],
    ):
        same(run(ours(X)), np.full(3, 6.0))


def test_jvps_one_by_one():
    f = fx.custom_jvp(lambda x, y, z: x * y * z)
    f.defjvps(lambda t, out, x, y, z: t * y * z, None, lambda t, out, x, y, z: t * x * y)
    found = fx.grad(lambda x, y, z: f(x, y, z).sum(), (0, 1, 2))(*ours((X, X, X)))
    same(found, (X * X, 0 * X, X * X))


def test_several_results_and_a_zero_tangent():
    @fx.custom_jvp
    def f(x):
        return x * 2.0, x * 3.0, fx.tensor([1, 2])

    f.defjvp(lambda p, t: (f(*p), (t[0] * 2.0, None, None)))
    _, pushed = fx.jvp(f, (ours(X),), (ours(X),))
    same(pushed, (2 * X, 0 * X, np.zeros(2)))
    same(fx.grad(lambda x: f(x)[0].sum() + f(x)[1].sum())(ours(X)), np.full(3, 2.0))


def test_a_collective_inside_a_rule():
    @fx.custom_vjp
    def centred(x):
        return x - fx.pmean(x, "i")

    centred.defvjp(lambda x: (centred(x), None), lambda _, ct: (ct - fx.pmean(ct, "i"),))
    f = lambda g: fx.grad(lambda x: (fx.vmap(g, axis_name="i")(x) ** 3).sum())
    same(f(centred)(ours(X)), array(f(lambda x: x - fx.pmean(x, "i"))(ours(X))))


def test_without_a_derivative_the_function_runs_as_it_is():
    runs = []

    @fx.custom_vjp
    def f(x):
        runs.append("f")
        return x * 2.0

    def fwd(x):
        runs.append("fwd")
        return x * 2.0, None

    f.defvjp(fwd, lambda _, ct: (ct * 2.0,))
    f(ours(X))
    fx.vmap(f)(ours(X))
    assert runs == ["f", "f"]
    f(ours(X).requires_grad_()).sum().backward()
    fx.grad(lambda x: f(x).sum())(ours(X))
    assert runs == ["f", "f", "fwd", "fwd"]


# messages ---------------------------------------------------------------------------------------


def vjp_of(fwd, bwd):
    f = fx.custom_vjp(lambda x, y: x * y)
    f.__wrapped__.__name__ = "f"
    f.defvjp(fwd, bwd)
    return lambda: fx.grad(lambda x: f(x, x).sum())(ours(X))


def jvp_of(rule):
    f = fx.custom_jvp(lambda x: x * 2.0)
    f.__wrapped__.__name__ = "f"
    f.defjvp(rule)
    return lambda: fx.grad(lambda x: f(x).sum())(ours(X))


FINE = lambda x, y: (x * y, None)
CASES = {
    "no pair": (vjp_of(lambda x, y: x, print), TypeError, "fwd rule of f must return (result, "),
    "no tuple": (vjp_of(FINE, lambda r, ct: ct), TreeError, "return a tuple of 2", "got Tensor"),
    "too few": (vjp_of(FINE, lambda r, ct: (ct,)), TreeError, "got 1 values"),
    "shape": (vjp_of(FINE, lambda r, ct: (ct[0], ct)), ShapeError, "cotangent 0 has shape ()"),
    "dtype": (
        vjp_of(FINE, lambda r, ct: (ct, ct.astype(fx.float32))), DTypeError,
        "cotangent 1 has dtype float32, expected float64", "astype(fx.float64)",
    ),
    "no pair of a jvp": (jvp_of(lambda p, t: p[0]), TypeError, "rule of f must return (result, t"),
    "tangent shape": (jvp_of(lambda p, t: (p[0], t[0][0])), ShapeError, "tangent 0 has shape ()"),
    "no tensor": (jvp_of(lambda p, t: (p[0], t)), TreeError, "tangent 0 is a tuple, expected a"),
    "tangent tree": (
        jvp_of(lambda p, t: ({"a": p[0]}, t)), TreeError, "returned a tangent of structure",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_wrong_rule_is_named(case):
    run, error, *words = case
    with says(error, *words):
        run()


def test_a_missing_rule_is_named():
    with says(TypeError, "custom_vjp: f has no rule yet; write f.defvjp(fwd, bwd)"):
        fx.custom_vjp(named_f)(ours(X))
    with says(TypeError, "custom_jvp: f has no rule yet; write f.defjvp(rule)"):
        fx.custom_jvp(named_f)(ours(X))


def named_f(x):
    return x


named_f.__name__ = "f"


@pytest.mark.parametrize("of", ["leaf", "grad"])
def test_what_it_closes_over_must_not_be_differentiated(of):
    def through(w):
        f = fx.custom_vjp(lambda x: x * w)
        f.defvjp(lambda x: (x * w, None), lambda _, ct: (ct,))
        return f(w * 1.0).sum()

    with says(
        BackwardError, "has its own derivative rule and closes over", "pass it as an argument"
    ):
        through(ours(X).requires_grad_()) if of == "leaf" else fx.grad(through)(ours(X))


def named(name, count, wrap):
    """A function of ``count`` tensors that has the name of something else."""

    def function(*xs):
        return xs[0] * 3.0 + sum(xs[1:], 0.25)

    function.__name__ = function.__qualname__ = name
    if wrap == "checkpoint":
        return fx.checkpoint(function)
    own = getattr(fx, wrap)(function)
    if wrap == "custom_vjp":
        rest = count - 1
        own.defvjp(lambda *xs: (function(*xs), None), lambda _, ct: (ct * 3.0, *[ct] * rest))
    else:
        own.defjvp(lambda xs, ts: (function(*xs), ts[0] * 3.0 + sum(ts[1:], 0.0)))
    return own


@pytest.mark.parametrize(
    ("wrap", "count"), pairs(["custom_vjp", "custom_jvp", "checkpoint"], [1, 2, 3], 3)
)
def test_a_function_that_has_the_name_of_a_primitive_is_not_it(wrap, count):
    """jit took a rule's function that was called ``sin`` for the sine."""
    functions = [named(name, count, wrap) for name in registry]
    xs = [fx.tensor([0.25, 0.5]) * (i + 1) for i in range(count)]

    def every(*xs):
        return fx.jvp(lambda *xs: [f(*xs) for f in functions], xs, xs)

    same(fx.jit(every)(*xs), every(*xs))
    if wrap != "checkpoint":
        same(fx.jit(lambda *xs: [f(*xs) for f in functions])(*xs), every(*xs)[0])


def test_a_class_that_has_the_name_of_a_primitive_is_not_it():
    rules = {
        "forward": staticmethod(lambda ctx, x: x * 3.0 + 0.25),
        "backward": staticmethod(lambda ctx, ct: ct * 2.0),
    }
    functions = [type(name, (fx.autograd.Function,), rules).apply for name in registry]
    x = fx.tensor([0.25, 0.5])
    every = lambda x: [f(x) for f in functions]
    summed = fx.grad(lambda x: sum(fx.sum(y) for y in every(x)))
    same(fx.jit(every)(x), every(x))
    same(fx.jit(summed)(x), summed(x))
