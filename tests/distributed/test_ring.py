"""Ring attention: lanes and ranks equal one process; no rank has all scores."""

import numpy as np
import pytest

import fx
import fx.distributed as dist
import fx.nn.functional as F
from fx.distributed import ring_attention
from fx.errors import FxError
from tests.distributed.ranks import SIZES, cases

CASES = cases("cases_ring.py")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", SIZES)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_ring.py", size)[case]


def draws(*shape, seed=0, dtype=np.float64):
    return fx.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def ring(count, **options):
    mesh, rows = fx.Mesh((count,), ("i",), lanes=True), fx.P(None, None, "i")
    return fx.shard_map(lambda *qkv: ring_attention(*qkv, "i", **options), mesh, rows, rows)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("count", [1, 4])
def test_lanes(causal, count):
    q, k, v = draws(2, 3, 8, 5), draws(2, 3, 8, 5, seed=1), draws(2, 3, 8, 4, seed=2)
    plain = lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=causal)
    around = ring(count, is_causal=causal)
    close = lambda a, b: np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-9, 1e-11)
    of = lambda f: lambda q: (fx.sin(f(q, k, v)) ** 2).sum()
    turned = lambda f: fx.jvp(fx.grad(of(f)), (q,), (k,))[1]  # a Hessian times a vector
    for f in (around, fx.jit(around)):
        close(f(q, k, v), plain(q, k, v))
        close(turned(f), turned(plain))


def test_large_scores_and_sixteen_bits():
    q, k, v = draws(1, 1, 8, 4) * 300, draws(1, 1, 8, 4, seed=1), draws(1, 1, 8, 4, seed=2)
    want = F.scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(ring(4)(q, k, v).numpy(), want.numpy(), 1e-9)
    low = [x.astype(fx.bfloat16) for x in (q / 300, k, v)]
    found = ring(4)(*low)
    assert found.dtype == fx.bfloat16
    wide = F.scaled_dot_product_attention(*[x.astype(fx.float64) for x in low])
    np.testing.assert_allclose(found.astype(fx.float64).numpy(), wide.numpy(), 2**-8, 2**-9)


def test_no_step_has_all_scores():
    """The compiled program of a rank has blocks of scores, (L / n)^2, and none of L * L / n."""
    mesh = dist.init_device_mesh("cpu", (1,), mesh_dim_names=("i",))
    attend = lambda q: ring_attention(q, q, q, "i")
    x = fx.with_sharding_constraint(draws(6, 2), fx.NamedSharding(mesh, fx.P("i")))
    assert fx.jit(attend)(x).placements == (dist.Shard(0),)
    graph = fx.make_graph(lambda q: ring(3)(q, q, q))(draws(1, 1, 6, 2))
    scores = {v.spec.shape for n in graph.nodes if n.primitive.name == "matmul" for v in n.outs}
    assert all(6 not in shape for shape in scores), scores


BAD = {
    "same leading axes and rows": lambda: ring_attention(
        draws(4, 2), draws(5, 2), draws(5, 2), "i"
    ),
    "as many features": lambda: ring_attention(draws(4, 2), draws(4, 3), draws(4, 2), "i"),
    "one floating dtype": lambda: ring_attention(*[fx.ones((4, 2), dtype=fx.int32)] * 3, "i"),
    "no running vmap has the axis name 'i'": lambda: ring_attention(*[draws(4, 2)] * 3, "i"),
    "no axis 'j'": lambda: ring_attention(*[placed(4)] * 3, "j"),
}


def placed(n):
    mesh = dist.init_device_mesh("cpu", (1,), mesh_dim_names=("i",))
    return fx.with_sharding_constraint(draws(n, 2), fx.NamedSharding(mesh, fx.P("i")))


@pytest.mark.parametrize("words", BAD)
def test_bad_input(words):
    with pytest.raises(FxError) as found:
        BAD[words]()
    assert words in str(found.value)
