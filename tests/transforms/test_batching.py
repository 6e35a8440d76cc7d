"""vmap: axes, pytrees, results, chunks, nesting, against JAX and against the loop."""

import dataclasses

import numpy as np
import pytest

import fx
from fx.errors import AxisError, BatchedValueError, ShapeError, TreeError
from tests.transforms.oracle import array, jax, jnp, ours, same, says, theirs, x64

A = np.random.default_rng(0).standard_normal((3, 4, 5))
B = np.random.default_rng(1).standard_normal((5, 3, 4))


def g(m, a, b):
    """(4, 5), (5, 4) -> (4, 4), (5,)."""
    return m.tanh(a @ b), m.sum(a, 0) + b[:, 0]


AXES = [
    (0, 1, 0),
    (0, -2, (0, 1)),
    ((0), (1), (1, 0)),
    (-3, -2, (2, -1)),
    (0, 1, (-1, -2)),
]


@pytest.mark.parametrize(("in_a", "in_b", "out"), AXES)
def test_axes_equal_jax(in_a, in_b, out):
    found = fx.vmap(lambda a, b: g(fx, a, b), (in_a, in_b), out)(*ours((A, B)))
    with x64():
        same(found, jax.vmap(lambda a, b: g(jnp, a, b), (in_a, in_b), out)(*theirs((A, B))))


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
@pytest.mark.parametrize(("in_a", "in_b", "out"), AXES)
def test_chunks_give_the_same(in_a, in_b, out, chunk):
    f = lambda a, b: g(fx, a, b)
    whole = fx.vmap(f, (in_a, in_b), out)(*ours((A, B)))
    parts = fx.vmap(f, (in_a, in_b), out, chunk_size=chunk)(*ours((A, B)))
    same(parts, [array(x) for x in whole], rtol=1e-12)


def test_chunks_of_shared_results_and_shared_arguments():
    f = fx.vmap(lambda a, c: (a * c, c), (0, None), (0, None), chunk_size=2)
    scaled, c = f(*ours((A, np.array(2.0))))
    same((scaled, c), (A * 2.0, 2.0))


def test_none_in_in_axes_shares_an_argument():
    found = fx.vmap(lambda a, b: g(fx, a, b), (0, None))(*ours((A, B[:, 0])))
    with x64():
        same(found, jax.vmap(lambda a, b: g(jnp, a, b), (0, None))(*theirs((A, B[:, 0]))))


def test_axes_of_pytrees():
    tree = {"a": A, "b": (B, [A])}
    axes = ({"a": 0, "b": (1, None)},)

    def f(m, t):
        a, (b, (c,)) = t["a"], t["b"]
        return {"x": a @ b, "y": [m.sum(c) + m.sum(a), m.sum(c)]}

    out = {"x": 1, "y": [0, None]}
    found = fx.vmap(lambda t: f(fx, t), axes, out)(ours(tree))
    with x64():
        same(found, jax.vmap(lambda t: f(jnp, t), axes, out)(theirs(tree)))


@dataclasses.dataclass
class Box:
    a: object
    b: object = None


def test_dataclasses_none_and_numbers_in_and_out():
    out = fx.vmap(lambda box: Box(box.a.sum(), {"n": 3, "f": 0.5, "none": None, "b": True}))(
        Box(ours(A))
    )
    assert type(out) is Box and out.b["none"] is None
    same((out.a, out.b["n"], out.b["f"]), (A.sum((1, 2)), np.full(3, 3), np.full(3, 0.5)))
    assert out.b["b"].tolist() == [True] * 3 and out.b["n"].dtype == fx.int64


def test_keyword_arguments_are_mapped():
    same(fx.vmap(lambda a, *, b: (a * b).sum())(ours(A), b=ours(A)), (A * A).sum((1, 2)))


def test_arguments_that_are_no_tensors():
    f = fx.vmap(lambda a, name, n: a * n if name == "times" else a, (0, None, None))
    same(f(ours(A), "times", 3), A * 3)
    same(fx.vmap(lambda a: a * 2.0)(A), A * 2)  # an array is converted
    same(fx.vmap(lambda a: a * 2.0)(ours(A)[0]), A[0] * 2)


def test_results_that_are_the_same_for_all_lanes():
    w = ours(A[0])
    same(fx.vmap(lambda a: w)(ours(A)), np.stack([A[0]] * 3))
    same(fx.vmap(lambda a: w, out_axes=None)(ours(A)), A[0])
    same(fx.vmap(lambda a: 1.0, out_axes=None)(ours(A)), 1.0)
    same(fx.vmap(lambda: w, axis_size=2)(), np.stack([A[0]] * 2))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 1, 0)])
def test_nested_maps_equal_the_loop(order):
    f = lambda x: fx.exp(x) / (1.0 + x * x)
    mapped = f
    for axis in order:
        mapped = fx.vmap(mapped, axis, axis) if axis == 0 else fx.vmap(mapped, 0, 0)
    same(mapped(ours(A)), np.exp(A) / (1 + A * A))


def test_a_map_of_a_map_over_another_argument_is_an_outer_product():
    f = fx.vmap(fx.vmap(lambda x, y: x * y, (None, 0)), (0, None))
    same(f(*ours((A[0, 0], B[0, 0]))), np.outer(A[0, 0], B[0, 0]))


def test_per_sample_gradients_equal_the_loop():
    rng = np.random.default_rng(0)
    net = ours({"w1": rng.standard_normal((4, 8)), "w2": rng.standard_normal((8, 1))})
    x, y = ours((rng.standard_normal((6, 4)), rng.standard_normal((6, 1))))

    def loss(net, x, y):
        return ((fx.tanh(x @ net["w1"]) @ net["w2"] - y) ** 2).sum()

    found = fx.vmap(fx.grad(loss), (None, 0, 0))(net, x, y)
    rows = [fx.grad(loss)(net, x[i], y[i]) for i in range(6)]
    same(found, {k: np.stack([array(r[k]) for r in rows]) for k in net}, rtol=1e-7)
    assert found["w1"].shape == (6, 4, 8)


def test_zero_lanes_and_one_lane():
    same(fx.vmap(lambda a: a * 2.0)(ours(A[:1])), A[:1] * 2)
    assert fx.vmap(lambda a: (a @ a.T).sum())(ours(A[:0])).shape == (0,)


def test_a_mapped_parameter_and_a_closed_over_one():
    p = fx.nn.Parameter(ours(A))
    fx.vmap(lambda a, b: (a * b).sum(), (0, None))(p, ours(A[0])).sum().backward()
    same(p.grad, np.stack([A[0]] * 3))
    p.grad = None
    fx.vmap(lambda a: (p[0] * a).sum())(ours(A)).sum().backward()
    same(p.grad[0], A.sum(0))


# collectives ------------------------------------------------------------------------------------

COLLECTIVES = {
    "psum": lambda m, x: x * m.psum(x * x, "i"),
    "pmean": lambda m, x: x - m.pmean(x, "i"),
    "pmax": lambda m, x: x / m.pmax(x, "i"),
    "pmin": lambda m, x: x / m.pmin(x, "i"),
    "axis_index": lambda m, x: x * m.axis_index("i"),
    "all_gather": lambda m, x: m.all_gather(x, "i")[0] * x,
    "ppermute": lambda m, x: m.ppermute(x, "i", [(0, 2), (2, 1), (1, 0)]) * x,
    "of a constant": lambda m, x: x * m.psum(1.0, "i"),
    "of a tree": lambda m, x: m.psum({"a": x, "b": (x * x,)}, "i")["b"][0],
}
AROUND = {
    "vmap": lambda m, f: m.vmap(f, axis_name="i"),
    "vmap of grad": lambda m, f: m.vmap(m.grad(lambda x: f(x).sum()), axis_name="i"),
    "grad of vmap": lambda m, f: m.grad(lambda x: (m.vmap(f, axis_name="i")(x) ** 2).sum()),
    "jvp of vmap": lambda m, f: lambda x: m.jvp(m.vmap(f, axis_name="i"), (x,), (x * x,)),
    "vmap of vmap": lambda m, f: m.vmap(m.vmap(f, axis_name="i"), 1),
    "outer name": lambda m, f: m.vmap(m.vmap(f), 1, axis_name="i"),
}


class JaxNames:
    """JAX's transforms and collectives in one namespace, with extrema that have a derivative."""

    def __getattr__(self, name):
        return getattr(jax, name, None) or getattr(jax.lax, name)

    def pmax(self, x, name):
        return jnp.max(jax.lax.all_gather(x, name), 0)

    def pmin(self, x, name):
        return jnp.min(jax.lax.all_gather(x, name), 0)


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("collective", COLLECTIVES.values(), ids=COLLECTIVES)
def test_collectives_equal_jax(collective, around):
    x = A[:, :3, 0] + 3.0
    x = x if x.shape == (3, 3) else x[:, :3]
    found = around(fx, lambda x: collective(fx, x))(ours(x))
    m = JaxNames()
    with x64():
        same(found, around(m, lambda x: collective(m, x))(jnp.asarray(x)))


def test_lanes_that_nothing_is_sent_to_get_zeros():
    shift = fx.vmap(lambda x: fx.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")
    same(shift(ours(A)), np.concatenate([0 * A[:1], A[:2]]))
    same(
        fx.grad(lambda x: (shift(x) * x).sum())(ours(A)),
        array(shift(ours(A))) + np.concatenate([A[1:], 0 * A[:1]]),
    )


def test_names_reach_through_nested_maps():
    def f(m, x):
        return m.psum(x, "o") + 10 * m.psum(x, "i") + 100 * m.psum(x, ("o", "i"))

    x = np.arange(6.0).reshape(2, 3)
    found = fx.vmap(fx.vmap(lambda x: f(fx, x), axis_name="i"), axis_name="o")(ours(x))
    with x64():
        same(found, jax.vmap(jax.vmap(lambda x: f(jax.lax, x), axis_name="i"), axis_name="o")(x))
    assert fx.vmap(lambda x: fx.axis_size("i") * x, axis_name="i")(ours(x))[1, 0].item() == 6.0


def test_the_innermost_of_two_equal_names_is_meant():
    x = np.arange(6.0).reshape(2, 3)
    found = fx.vmap(fx.vmap(lambda x: fx.psum(x, "i"), axis_name="i"), axis_name="i")(ours(x))
    same(found, np.repeat(x.sum(1, keepdims=True), 3, 1))


def test_a_collective_of_what_is_differentiated_inside():
    """The mean loss over lanes inside a function that is differentiated lane by lane."""
    f = lambda m, x: m.vmap(lambda v: m.grad(lambda y: y * m.pmean(y * v, "i"))(v), axis_name="i")(
        x
    )
    x = np.array([1.0, 2.0, 4.0])
    m = JaxNames()
    with x64():
        same(f(fx, ours(x)), f(m, jnp.asarray(x)))


# messages ---------------------------------------------------------------------------------------


def test_messages():
    a, f = ours(A), lambda x: x
    with says(BatchedValueError, "differs from lane to lane", "fx.where(condition, x, y)"):
        fx.vmap(lambda x: x if x.sum() > 0 else -x)(a)
    with says(BatchedValueError, ".item()"):
        fx.vmap(lambda x: x.sum().item())(a)
    with says(ShapeError, "mapped axes differ in size: (3, 4, 5) along 0, (5, 3, 4) along 0"):
        fx.vmap(lambda x, y: x)(*ours((A, B)))
    with says(AxisError, "axis 3 is out of range for an argument of shape (3, 4, 5)", "in_axes"):
        fx.vmap(f, 3)(a)
    with says(AxisError, "axis 0 is out of range for an argument of shape ()", "pass None"):
        fx.vmap(lambda x, y: x * y)(a, 2.0)
    with says(TypeError, "an argument of type str has no axis", "in_axes"):
        fx.vmap(lambda x, y: x)(a, "word")
    with says(TreeError, "in_axes has 1 entries, but <lambda> was called with 2"):
        fx.vmap(lambda x, y: x, (0,))(a, a)
    with says(TreeError, "in_axes", "is no prefix of"):
        fx.vmap(f, ({"b": 0},))({"a": a})
    with says(TreeError, "takes ints and None, got 0.5"):
        fx.vmap(f, (0.5,))(a)
    with says(ShapeError, "no argument is mapped; give axis_size="):
        fx.vmap(f, None)(a)
    with says(AxisError, "differs from lane to lane, but out_axes says None"):
        fx.vmap(f, out_axes=None)(a)
    with says(AxisError, "out_axes=3 is out of range for a result of shape (4, 5)"):
        fx.vmap(f, out_axes=3)(a)
    with says(TreeError, "out_axes=(0, 0) is no prefix of"):
        fx.vmap(lambda x: (x, x, x), out_axes=(0, 0))(a)
    with says(TypeError, "returned 'word' of type str"):
        fx.vmap(lambda x: "word")(a)
    with says(AxisError, "psum: no running vmap has the axis name 'i'", "no named axes here"):
        fx.psum(a, "i")
    with says(AxisError, "the names here are 'a', 'b'", "axis_name='i'"):
        fx.vmap(fx.vmap(lambda x: fx.pmean(x, "i"), axis_name="b"), axis_name="a")(a)
    with says(AxisError, "must name lanes below 3"):
        fx.vmap(lambda x: fx.ppermute(x, "i", [(0, 1), (1, 1)]), axis_name="i")(a)
    with says(ValueError, "chunk_size must be at least 1, got 0"):
        fx.vmap(f, chunk_size=0)
    with says(ValueError, "need all lanes at once"):
        fx.vmap(f, axis_name="i", chunk_size=2)
