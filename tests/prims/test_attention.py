"""Attention in blocks: what laws do not look at, and that it is used where it should be."""

import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch
import torch.nn.attention
import torch.nn.functional as T

import fx
import fx.nn.functional as F
from fx import limits
from fx.backends.cpu import attention as kernels
from fx.errors import ShapeError
from fx.prims.attention import attention, attention_grad

INF = math.inf


def arrays(*shapes, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def heads_beside(x):
    """The same numbers, with heads next to each other in memory."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)


def both_ways(q, k, v, ct, *masks, **params):
    """The results of the kernels and their gradients."""
    out, lse = kernels.attention(q, k, v, *masks, **params)
    delta = (ct * out).sum(3)
    return out, lse, *kernels.attention_grad(ct, q, k, v, lse, delta, *masks, **params)


def expected(q, k, v, ct, *masks, **params):
    q, k, v, ct, *masks = [x.astype(np.float64) for x in (q, k, v, ct, *masks)]
    out, lse = kernels.attention_plain(q, k, v, *masks, **params)
    delta = (ct * out).sum(3)
    return out, lse, *kernels.attention_grad_plain(ct, q, k, v, lse, delta, *masks, **params)


def assert_near(found, wanted, tolerance):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * max(1.0, np.abs(y).max()))


# (batch, heads, kv heads, targets, sources, features, depth), the shape of a mask
SIZES = [
    ((1, 1, 1, 1, 1, 1, 1), None),
    ((2, 3, 3, 65, 193, 5, 3), None),
    ((1, 4, 2, 200, 400, 16, 24), None),
    ((1, 4, 1, 70, 40, 33, 47), (1, 4, 70, 40)),
    ((2, 2, 2, 40, 250, 8, 65), (2, 1, 1, 250)),
    ((2, 2, 1, 130, 50, 70, 8), (1, 1, 130, 1)),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("sizes", "mask"), SIZES, ids=str)
def test_blocks_of_all_kinds(sizes, mask, dtype, causal):
    batch, heads, kv_heads, targets, sources, features, depth = sizes
    q, k, v, ct = arrays(
        (batch, heads, targets, features), (batch, kv_heads, sources, features),
        (batch, kv_heads, sources, depth), (batch, heads, targets, depth), dtype=dtype,
    )  # fmt: skip
    masks = []
    if mask is not None:
        (added,) = arrays(mask, dtype=dtype, seed=1)
        added[arrays(mask, seed=2)[0] > 1] = -INF
        masks = [np.asarray(added)]
    params = {"causal": causal, "scale": 0.3}
    wanted = expected(q, k, v, ct, *masks, **params)
    wanted = [np.where(np.isneginf(x), 0, x) for x in wanted]
    turns = (lambda x: x, heads_beside, lambda x: np.repeat(x, 2, -1)[..., ::2])
    for turn in turns:
        found = both_ways(*map(turn, (q, k, v, ct)), *masks, **params)
        assert np.array_equal(np.isneginf(found[1]), wanted[1] == 0)
        found = [np.where(np.isneginf(x), 0, x) for x in found]
        assert_near(found, wanted, 4e-6 if dtype is np.float32 else 1e-14)


def test_bits_do_not_depend_on_threads():
    q, k, v, ct = arrays(*[(1, 3, 300, 24)] * 4)
    params = {"causal": True, "scale": 0.3}
    found = []
    before = fx.get_num_threads()
    with limits.given(EAGER_LONG=0.0, EAGER_SHORT=0.0, EAGER_CHUNK=1.0):
        for count in (1, 2, 3):
            fx.set_num_threads(count)
            found.append([x.copy() for x in both_ways(q, k, v, ct, **params)])
    fx.set_num_threads(before)
    for other in found[1:]:
        assert all(np.array_equal(x, y) for x, y in zip(found[0], other, strict=True))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("large", [1.0, 30.0])
def test_as_exact_as_torch(causal, large):
    q, k, v, ct = arrays(*[(2, 2, 700, 48)] * 4)
    q *= large
    scale = 48**-0.5
    exact = expected(q, k, v, ct, causal=causal, scale=scale)
    ts = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    out = T.scaled_dot_product_attention(*ts, is_causal=causal)
    theirs = [out.detach(), *torch.autograd.grad(out, ts, torch.tensor(ct))]
    xs = [fx.tensor(x, requires_grad=True) for x in (q, k, v)]
    y = F.scaled_dot_product_attention(*xs, is_causal=causal)
    y.backward(fx.tensor(ct))
    ours = [y.detach(), *[x.grad for x in xs]]
    for mine, other, truth in zip(ours, theirs, (exact[0], *exact[2:]), strict=True):
        error, allowed = (np.abs(x.numpy() - truth).max() for x in (mine, other))
        assert error <= 2 * allowed, (error, allowed)


# special values, as torch has them ----------------------------------------------------------------


def of_both(q, k, v, mask=None, causal=False):
    """The results of torch and of fx, in blocks, eagerly and compiled.

    Of torch's ways that with all scores at once: the other one takes a query with NaN for 0.
    """
    with limits.given(ATTENTION_FROM=0, ATTENTION_ROWS=0):
        options = {"is_causal": causal}
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            theirs = T.scaled_dot_product_attention(
                *map(torch.tensor, (q, k, v)),
                attn_mask=None if mask is None else torch.tensor(mask), **options,
            )  # fmt: skip
        xs = [fx.tensor(x) for x in (q, k, v)] + ([] if mask is None else [fx.tensor(mask)])
        ours = F.scaled_dot_product_attention(*xs, **options)
        jitted = fx.jit(lambda *xs: F.scaled_dot_product_attention(*xs, **options))(*xs)
    return theirs.numpy(), ours.numpy(), jitted.numpy()


def special_masks():
    hidden = np.ones((3, 5), bool)
    hidden[1] = False
    yield "row", hidden
    yield "added row", np.where(hidden, np.float32(0), np.float32(-INF))
    for name, number in (("inf", INF), ("nan", math.nan)):
        mask = np.zeros((3, 5), np.float32)
        mask[1, 2] = number
        yield name, mask
    yield "all", np.zeros((1, 1), bool)


@pytest.mark.parametrize(("name", "mask"), list(special_masks()))
def test_special_masks(name, mask):
    q, k, v = arrays((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6))
    theirs, *ours = of_both(q, k, v, mask)
    for x in ours:
        np.testing.assert_allclose(x, theirs, atol=1e-6)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("number", [INF, -INF, math.nan])
def test_special_numbers(which, number):
    given = arrays((1, 1, 4, 3), (1, 1, 4, 3), (1, 1, 4, 3))
    given[which][0, 0, 2, 1] = number
    theirs, *ours = of_both(*given)
    for x in ours:
        np.testing.assert_allclose(x, theirs, atol=1e-6)


@pytest.mark.parametrize("number", [INF, -INF, math.nan])
def test_what_is_not_seen_changes_nothing(number):
    q, k, v = arrays((1, 1, 4, 3), (1, 1, 4, 3), (1, 1, 4, 3))
    plain = of_both(q, k, v, causal=True)[1:]
    k[0, 0, 2:] = number
    for x, y in zip(of_both(q, k, v, causal=True)[1:], plain, strict=True):
        np.testing.assert_array_equal(x[:, :, :2], y[:, :, :2])


@pytest.mark.parametrize("zero", ["batch", "heads", "targets", "sources", "features", "depth"])
def test_nothing(zero):
    n = {"batch": 2, "heads": 2, "targets": 3, "sources": 4, "features": 3, "depth": 2, zero: 0}
    lead = (n["batch"], n["heads"])
    q, k = (*lead, n["targets"], n["features"]), (*lead, n["sources"], n["features"])
    theirs, *ours = of_both(*arrays(q, k, (*k[:3], n["depth"])))
    for x in ours:
        np.testing.assert_allclose(x, theirs, atol=1e-6)


# who goes by blocks -------------------------------------------------------------------------------


def primitives_of(f, *xs):
    return [node.primitive.name for node in fx.make_graph(f)(*xs).nodes]


@limits.normal()
def test_sizes_decide():
    def names(n, **options):
        x = fx.zeros((1, 1, n, 8))
        return primitives_of(lambda x: F.scaled_dot_product_attention(x, x, x, **options), x)

    assert "attention" in names(600) and "softmax" in names(200)
    assert "attention" in names(300, is_causal=True)


@pytest.mark.parametrize("kv_heads", [4, 2])
@limits.normal()
def test_few_go_by_the_kernel_eagerly_only(kv_heads):
    q, k, v = [fx.tensor(x) for x in arrays((2, 4, 9, 3), *[(2, kv_heads, 9, 3)] * 2, dtype="f8")]
    t = q.detach()
    t.requires_grad = True
    f = lambda *xs: F.scaled_dot_product_attention(*xs, is_causal=True, enable_gqa=True)
    assert "FlashAttention" in str(f(t, k, v).grad_fn)
    assert "softmax" in primitives_of(f, q, k, v)
    np.testing.assert_allclose(f(q, k, v).numpy(), fx.jit(f)(q, k, v).numpy(), atol=1e-14)
    lanes = fx.vmap(lambda q: f(q[None], k[:1], v[:1])[0])(q)
    np.testing.assert_allclose(lanes[0].numpy(), f(q[:1], k[:1], v[:1])[0].numpy(), atol=1e-14)
    twice = lambda how: fx.grad(lambda q: how(lambda q: f(q, k, v).square().sum())(q).sum())(q)
    np.testing.assert_allclose(
        twice(fx.grad).numpy(), fx.jit(lambda q: twice(fx.grad))(q).numpy(), atol=1e-12
    )


@pytest.mark.parametrize(
    "shapes",
    [
        ((6, 4), (5, 4), (5, 3), None),
        ((2, 6, 4), (1, 5, 4), (5, 3), (6, 5)),
        ((2, 3, 6, 4), (3, 5, 4), (2, 1, 5, 3), (2, 1, 1, 5)),
        ((2, 2, 3, 6, 4), (2, 1, 5, 4), (1, 1, 1, 5, 3), (5,)),
        ((2, 3, 6, 4), (2, 1, 5, 4), (2, 1, 5, 3), (6, 1)),
    ],
    ids=str,
)
def test_ranks_and_broadcasting(shapes):
    *given, mask = shapes
    xs = arrays(*given, dtype=np.float64)
    masks = [] if mask is None else arrays(mask, dtype=np.float64, seed=3)

    def results():
        ts = [fx.tensor(x, requires_grad=True) for x in (*xs, *masks)]
        y = F.scaled_dot_product_attention(*ts)
        (y * y).sum().backward()
        return [y.detach(), *[t.grad for t in ts]]

    at_once = results()
    with limits.given(ATTENTION_FROM=0, ATTENTION_ROWS=0):
        for x, y in zip(results(), at_once, strict=True):
            assert x.shape == y.shape
            np.testing.assert_allclose(x.numpy(), y.numpy(), atol=1e-12)


@pytest.mark.parametrize("kv_heads", [(1, 1), (2, 2), (2, 4)])
def test_grouped_heads(kv_heads):
    q, k, v = arrays((2, 4, 6, 3), (2, kv_heads[0], 5, 3), (2, kv_heads[1], 5, 2))
    theirs = T.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), enable_gqa=True)
    with limits.given(ATTENTION_FROM=0, ATTENTION_ROWS=0):
        ours = F.scaled_dot_product_attention(*map(fx.tensor, (q, k, v)), enable_gqa=True)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-6)


@pytest.mark.parametrize("jitted", [False, True])
@limits.normal()
def test_no_array_of_tokens_by_tokens(jitted):
    tokens = 2048
    xs = [fx.tensor(x) for x in arrays(*[(1, 1, tokens, 8)] * 3)]
    loss = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True).sum()
    step = fx.grad(loss, argnums=(0, 1, 2))
    if jitted:
        graph = fx.make_graph(step)(*xs)
        largest = max(v.spec.size for node in graph.nodes for v in node.outs)
        assert largest <= 8 * tokens * 8
        step = fx.jit(step)
    step(*xs)
    tracemalloc.start()
    step(*xs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < tokens * tokens


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits_are_rounded_once(dtype):
    xs = [fx.tensor(x).astype(getattr(fx, dtype)) for x in arrays(*[(1, 2, 40, 8)] * 3)]
    f = lambda *xs: F.scaled_dot_product_attention(*xs, is_causal=True)
    exact = f(*[x.astype(fx.float32) for x in xs]).astype(xs[0].dtype)
    assert f(*xs).dtype == xs[0].dtype
    np.testing.assert_array_equal(f(*xs).astype("float32"), exact.astype("float32"))


def test_a_scale_may_be_learned():
    (x,) = [fx.tensor(a) for a in arrays((1, 2, 9, 4))]
    f = lambda s: F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=s)
    np.testing.assert_allclose(f(fx.tensor(0.3)).numpy(), f(0.3).numpy(), atol=1e-6)
    assert fx.grad(lambda s: f(s).sum())(fx.tensor(0.3)).numpy() != 0


@limits.normal()
def test_heads_lie_side_by_side():
    """So that the layer behind takes them as they are."""
    x = fx.tensor(arrays((2, 4, 600, 8))[0])
    y = F.scaled_dot_product_attention(x, x, x)
    assert y.transpose(1, 2).is_contiguous()


# what is refused ----------------------------------------------------------------------------------


def test_refused():
    q, k = fx.zeros((2, 4, 3, 2)), fx.zeros((2, 3, 5, 2))
    params = {"causal": False, "scale": 1.0}
    with pytest.raises(ShapeError, match="heads is a multiple of kv heads, got"):
        attention(q, k, k, **params)
    with pytest.raises(ShapeError, match=r"mask has to broadcast to \(2, 4, 3, 3\), got \(4, 2\)"):
        attention(q, q, q, fx.zeros((4, 2)), **params)
    line = fx.zeros((2, 4, 3))
    with pytest.raises(ShapeError, match=r"attention_grad takes ct \(2, 4, 3, 2\), lse and delta"):
        attention_grad(line, q, q, q, line, line, **params)


WITHOUT_MEMORY = """
import resource
import sys
import fx

from fx.prims.attention import attention

attend = lambda q, k, v: attention(q, k, v, causal=False, scale=1.0)[0]
if sys.argv[1] == "jit":
    attend = fx.jit(attend, dynamic=False)  # a program for any size needs no such block
small = fx.ones((1, 1, 1, 4))
big = fx.ones((1, 1, 1, 10**7))  # a block of queries as long takes 2.5 GB
attend(small, small, small)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 10**9, -1))
try:
    attend(big, big, small)
except MemoryError:
    print("refused", attend(small, small, small).tolist())
"""


@pytest.mark.parametrize("way", ["eager", "jit"])
def test_without_memory_for_its_scratch_attention_raises_and_goes_on(way):
    command = [sys.executable, "-c", WITHOUT_MEMORY, way]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "refused [[[[1.0, 1.0, 1.0, 1.0]]]]\n", done.stderr


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_a_tape_around_lanes_and_tangents(causal, kv_heads):
    """The kernel of few tokens under reverse mode whose values are tracers; oracle: the formula."""
    draw = np.random.default_rng(0).normal
    q, k = fx.tensor(draw(size=(1, 2, 3, 4))), fx.tensor(draw(size=(1, kv_heads, 3, 4)))

    def plain(q):
        rows = fx.arange(3)
        scores = q @ fx.repeat(k, 2 // kv_heads, axis=1).mT / 2
        seen = (rows[:, None] >= rows) | (not causal)
        weights = F.softmax(fx.where(seen, scores, -fx.inf), -1)
        return (fx.sin(weights @ fx.repeat(k, 2 // kv_heads, axis=1)) ** 2).sum()

    def fused(q):
        out = F.scaled_dot_product_attention(q, k, k, is_causal=causal, enable_gqa=True)
        return (fx.sin(out) ** 2).sum()

    two = fx.stack([q, q + 1])
    for of in (
        lambda f: fx.vmap(fx.grad(f))(two),
        lambda f: fx.jvp(fx.grad(f), (q,), (q * 2,))[1],
        lambda f: fx.hessian(f)(q),
        lambda f: fx.jit(fx.vmap(fx.grad(f)))(two),
    ):
        np.testing.assert_allclose(of(fused).numpy(), of(plain).numpy(), 1e-9, 1e-11)
