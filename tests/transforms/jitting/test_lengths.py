"""One short way for all lengths of slices: the numbers of each length, and how often is staged."""

import operator
import random
import warnings

import numpy as np
import pytest

import fx
import fx.torch as torch
from fx import limits
from tests.thorough import THOROUGH

N = 26
_rng = np.random.default_rng(0)
X = fx.asarray(_rng.normal(size=(3, N)).astype(np.float32))
Y = fx.asarray(_rng.normal(size=(N, 5)).astype(np.float32))
TABLE = [1, 2, 3, 4, 5, 6, 7, 20, 12, 2, 3, *[4] * N]
inner = fx.jit(lambda v: v.sum(1) * 2)
telling = fx.jit(lambda v: v.sum(1) * min(v.shape[1], 6))

# what makes the same of all lengths: one program from the third on
SERVED = {
    "scaled": lambda x, n: x[:, :n] * 2,
    "sum": lambda x, n: x[:, :n].sum(1),
    "mean": lambda x, n: x[:, :n].mean(1),
    "mean of all": lambda x, n: x[:, :n].mean(),
    "variance": lambda x, n: fx.var(x[:, : n + 1], axis=1),
    "softmax": lambda x, n: fx.nn.softmax(x[:, :n], axis=-1),
    "product": lambda x, n: x[:, :n] @ Y[:n],
    "its own product": lambda x, n: x[:, :n].T @ x[:, :n],
    "running": lambda x, n: fx.cumsum(x[:, :n], axis=1),
    "set": lambda x, n: x.at[:, :n].set(1.0),
    "row": lambda x, n: x[1, :n] + 1,
    "lanes": lambda x, n: fx.vmap(lambda r: (r[:n] * r[:n]).sum())(x),
    "loop": lambda x, n: fx.fori_loop(0, 3, lambda i, c: c + x[:, :n].sum(1), fx.zeros(3)),
    "times": lambda x, n: (x[:, :n] ** 2).sum(1) * n,
    "shape of another": lambda x, n: x[:, :n].sum(1) / x.shape[1],
}


def _of(tell, most=6):
    return lambda x, n: x[:, :n].sum(1) * min(tell(x[:, :n]), most)


def _in_loop(x, n):
    def body(i, carry):
        y, total = carry
        return y * min(y.shape[1], 6) / 3.0, total + y.sum(1)

    return fx.fori_loop(0, 2, body, (x[:, :n], fx.zeros(3)))[1]


def _in_scan(x, n):
    return fx.scan(lambda c, r: (c + r.sum() * min(r.shape[0], 6), r.sum()), fx.zeros(()), x[:, :n])


def _in_grad(x, n):
    return fx.grad(lambda r: (r[:, :n] ** 2).sum() * min(r[:, :n].shape[1], 6))(x)


def _in_closure(x, n):
    y = x[:, :n]
    return fx.jit(lambda: y.sum(1) * min(y.shape[1], 6))()


# where a number that Python was told of a length goes into the graph: a program for each
TOLD = {
    "shape": _of(lambda y: y.shape[1]),
    "size": _of(lambda y: y.size, 18),
    "size of an axis": _of(lambda y: y.size(1)),
    "len": _of(lambda y: len(y.T)),
    "numel": _of(lambda y: y.numel(), 18),
    "nbytes": _of(lambda y: y.nbytes, 72),
    "stride": _of(lambda y: fx.exp(y).stride()[0]),
    "spec": _of(lambda y: y.spec.shape[1]),
    "getattr": _of(lambda y: operator.attrgetter("shape")(y)[1]),
    "numpy's shape": _of(lambda y: np.shape(y)[1]),
    "fx's shape": _of(lambda y: fx.shape(y)[1]),
    "eval_shape": _of(lambda y: fx.eval_shape(lambda v: v * 2, y).shape[1]),
    "length hint": _of(lambda y: operator.length_hint(y.T)),
    "rows": _of(lambda y: len(list(y.T))),
    "zeros of it": _of(lambda y: np.zeros(y.shape).shape[1]),
    "another slice": lambda x, n: x[:, :n][:, : min(x[:, :n].shape[-1], 6)].sum(1),
    "loop": _in_loop,
    "scan": _in_scan,
    "grad": _in_grad,
    "lanes": lambda x, n: fx.vmap(lambda r: r[:n].sum() * min(r[:n].shape[0], 6))(x),
    "branch": lambda x, n: fx.cond(
        x[0, 0] > -99.0, lambda v: v.sum(1) * min(v.shape[1], 6), lambda v: v.sum(1), x[:, :n]
    ),
    "checkpoint": lambda x, n: fx.checkpoint(lambda v: (v * v).sum(1) * min(v.shape[1], 6))(
        x[:, :n]
    ),
    "jitted": lambda x, n: telling(x[:, :n]),
    "jitted closure": _in_closure,
}

# where the number itself decides, or where fx makes something else of some lengths
ASKED = {
    "new axis": lambda x, n: x[None, :, :n].sum(),
    "outer": lambda x, n: x[0, :n][:, None] * x[1, :n][None, :],
    "the rest": lambda x, n: x[:, n:].sum(1),
    "triangle": lambda x, n: fx.tril(x[:, :n]).sum(1),
    "flat": lambda x, n: x[:, :n].reshape(-1)[::3],
    "added": lambda x, n: x.at[:, :n].add(x[:, :n]),
    "inner": lambda x, n: inner(x[:, :n]),
    "table": lambda x, n: x[:, : TABLE[n]].sum(1),
    "min": lambda x, n: x[:, : min(n, 7)].sum(1),
    "branch": lambda x, n: x[:, :n].sum(1) if n < 9 else x[:, :n].max(1),
    "range": lambda x, n: sum(x[:, i] for i in range(min(n, 9))) + x[:, :n].sum(1),
    "negative": lambda x, n: x[:, :-n].sum(1) if n else x[:, 0],
    "steps": lambda x, n: x[:, :n:2].sum(1),
    "two ends": lambda x, n: x[:, 2:n].sum(1) + x[:, n:].sum(1),
    "diagonal": lambda x, n: fx.diagonal(x[:, :n]).sum(),
    "a known part of it": lambda x, n: x[:, :n][:, :6].sum(1) * 2,
    "its end": lambda x, n: x[:, :n][:, -6:].sum(1) * 2,
    "all but six": lambda x, n: x[:, :n][:, 6:].sum(1) * 2,
    "windows": lambda x, n: x[:, :n].unfold(1, 3, 2).sum((1, 2)) if n > 2 else x[:, 0],
    "largest": lambda x, n: fx.topk(x[:, :n], 2)[0] if n > 1 else x,
    "rolled": lambda x, n: fx.roll(x[:, :n], 7, axis=1) * 2,
    "by six": lambda x, n: x[:, : 6 * (n // 6)].reshape(3, -1, 6).sum(1),
    "against the rest": lambda x, n: x[:, :n].sum(1) + x[:, N - n :].sum(1),
    "square": lambda x, n: (x[:, :n] @ x[:, :n].T).sum(),
    "pooled": lambda x, n: fx.nn.functional.max_pool1d(x[:, :n], 3) if n > 2 else x,
    "joined": lambda x, n: fx.concat([x[:, :n], x], 1).sum(1),
    "flipped": lambda x, n: fx.flip(x[:, :n], 1),
    "padded": lambda x, n: fx.pad(x[:, :n], ((0, 0), (0, 2))),
    "sorted": lambda x, n: fx.sort(x[:, :n], axis=1),
    "repeated": lambda x, n: fx.repeat(x[:, :n], 2, axis=1),
}


def _arrays(out):
    return [np.asarray(x) for x in (out if isinstance(out, tuple | list) else [out])]


def _agrees(function, jitted, n):
    want, got = _arrays(function(X, n)), _arrays(jitted(X, n))
    assert [x.shape for x in got] == [x.shape for x in want]
    assert [x.dtype for x in got] == [x.dtype for x in want]
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5, err_msg=f"n = {n}")


def _orders():
    mixed = list(range(2, N + 3))
    random.Random(3).shuffle(mixed)
    return [3, 4, 5, 6, 7, 8, 9, 17, N, 2, 1, N + 2], [7, 8, 9, 11, 10, 6, 5, 4, 3, 2], mixed[:12]


def _fresh(function):
    """A function whose code no other was jitted of, so that no program is shared."""
    return fx.jit(type(function)(
        function.__code__.replace(co_firstlineno=random.randrange(10**6, 10**7)),
        function.__globals__, function.__name__, function.__defaults__, function.__closure__,
    ))  # fmt: skip


@pytest.mark.parametrize("name", SERVED)
def test_one_program_serves_all_lengths(name):
    function = SERVED[name]
    for order in _orders():
        jitted = _fresh(function)
        for n in order:
            _agrees(function, jitted, n)
        open_ = [e for e in jitted.explain().entries if any("any length" in a for a in e.assumes)]
        assert open_, jitted.explain()
        # three, and those of which the size is 0 or 1, or the slice ends elsewhere
        assert jitted.cache_size() <= 9


@pytest.mark.parametrize(
    ("kind", "name"), [("told", n) for n in TOLD] + [("asked", n) for n in ASKED]
)
def test_what_python_makes_of_a_length_is_its_own_in_each_program(kind, name):
    function = (TOLD if kind == "told" else ASKED)[name]
    turn = list(TOLD if kind == "told" else ASKED).index(name) % 2
    for order in _orders()[:2] if THOROUGH else _orders()[turn : turn + 1]:
        jitted = _fresh(function)
        with warnings.catch_warnings():  # some are 32 programs
            warnings.simplefilter("ignore", RuntimeWarning)
            for n in order:
                _agrees(function, jitted, n)


@pytest.mark.parametrize("name", TOLD)
def test_a_length_that_was_told_leaves_no_way_open(name):
    jitted = _fresh(TOLD[name])
    for n in range(4, 10):
        _agrees(TOLD[name], jitted, n)
    assert not [a for e in jitted.explain().entries for a in e.assumes if "any length" in a]


def test_a_cache_of_keys_and_values_is_staged_three_times():
    def attend(keys, values, q, k, v, pos):
        keys[:, :, pos] = k
        values[:, :, pos] = v
        seen = keys[:, :, : pos + 1]
        scores = (q[:, :, None] @ seen.transpose(-1, -2)) / 4
        return (torch.softmax(scores, -1) @ values[:, :, : pos + 1])[:, :, 0]

    tokens, shape = 40, (2, 3, 40, 8)
    outside = [torch.zeros(shape), torch.zeros(shape)]
    plain = [torch.zeros(shape), torch.zeros(shape)]

    step = fx.jit(lambda q, k, v, pos: attend(*outside, q, k, v, pos))
    for _ in range(2):
        for pos in range(tokens):
            q, k, v = torch.randn(3, 2, 3, 8).unbind()
            want = attend(*plain, q, k, v, pos)
            np.testing.assert_allclose(step(q, k, v, pos), want, rtol=1e-5, atol=1e-6)
    for got, want in zip(outside, plain, strict=True):
        np.testing.assert_array_equal(got, want)
    assert step.cache_size() <= 4  # and one for the first token


def _script(told):
    """A step that writes into a cache and reads it up to a position, as a script does."""
    cache = torch.zeros(3, N)

    def step(row, pos):
        cache[:, pos] = row
        seen = cache[:, : pos + 1]
        out = told(seen, pos)
        cache[:, :2] *= 0.5
        return out

    return step


@pytest.mark.parametrize(
    "told",
    [
        lambda seen, pos: seen.sum(1) * min(seen.shape[1], 6),
        lambda seen, pos: seen.sum(1) * min(seen.size(1), 6),
        lambda seen, pos: seen.sum(1) * min(seen.numel(), 18),
        lambda seen, pos: seen.sum(1) * min(len(seen.t()), 6),
        lambda seen, pos: seen.sum(1) * (2 if seen.is_contiguous() else 3),
        lambda seen, pos: seen.sum(1) * (2 if seen.t().reshape(-1).shape[0] > 12 else 3),
        lambda seen, pos: seen[:, :6].sum(1),
        lambda seen, pos: seen.mul_(0.5).sum(1),
        lambda seen, pos: seen.reshape(-1).mul_(0.5).sum(),
    ],
)
def test_scripts_that_are_told_a_length(told):
    plain, jitted = _script(told), fx.jit(_script(told))
    for pos in (5, 6, 4, 7, 8, 3, 9, 15, N - 1, 12, 2):
        row = torch.randn(3)
        np.testing.assert_allclose(jitted(row, pos), plain(row, pos), rtol=1e-5, atol=1e-5)


def test_results_of_the_function_and_its_state_belong_to_the_length():
    counts = {"n": 0}
    total = fx.state.Cell(fx.zeros(3))

    def step(x, n):
        counts["n"] += 1
        total.rebind(total + x[:, :n].sum(1))
        return {"n": n, "part": x[:, :n] * 1, "twice": 2 * n}

    jitted, want = fx.jit(step), np.zeros(3)
    for n in (5, 6, 7, 8, 12, 7, 20, 5):
        out = jitted(X, n)
        want = want + np.asarray(X)[:, :n].sum(1)
        assert (out["n"], out["twice"]) == (n, 2 * n)
        np.testing.assert_array_equal(out["part"], np.asarray(X)[:, :n])
    np.testing.assert_allclose(total, want, rtol=1e-5)
    assert counts["n"] == 8


def test_what_is_kept_of_lengths_is_bounded():
    jitted = _fresh(SERVED["sum"])
    with limits.given(LENGTHS=4):
        for n in [*range(3, N), *range(3, N)]:
            _agrees(SERVED["sum"], jitted, n)
        (kept,) = [p.lengths for known in jitted.programs.values() for p in known if p.lengths]
        assert len(kept) <= 4


PARTS = {  # of a known size, at places that a number tells
    "the last": lambda x, n: x[..., :n][..., -6:],
    "the first of those from the end": lambda x, n: fx.flip(x[..., :n], -1)[..., :6],
    "every second": lambda x, n: x[..., n : n + 12 : 2],
    "a block": lambda x, n: x[1:, n : n + 6],
}
PRODUCTS = {
    "of vectors": lambda v: v[0] @ v[1],
    "of itself": lambda v: v @ v.T,
    "of a batch": lambda v: fx.stack([v, v]) @ v.T,
    "with what follows": lambda v: fx.nn.functional.relu(v @ fx.ones((6, 3)) + v[:, :3]),
    "of attention": lambda v: fx.nn.functional.scaled_dot_product_attention(*[v[None]] * 3),
    "in a loop": lambda v: fx.scan(lambda c, r: ((v @ v.T) @ c * 0.1 + r, c), v[:, 0], v.T)[1],
    "solved": lambda v: fx.linalg.solve(v @ v.T + fx.eye(len(v)), v),
    "of windows": lambda v: fx.nn.functional.conv1d(v[None], fx.ones((2, len(v), 3))),
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_products_read_parts_from_where_they_lie_in_this_call(part, product):
    x = fx.random.normal(fx.random.key(1), (4, 60))

    def f(x, n):
        return PRODUCTS[product](PARTS[part](x, n))

    compiled = fx.jit(f)
    for n in (26, 37, 22, 9, 37, 44):
        np.testing.assert_allclose(compiled(x, n), f(x, n), rtol=1e-4, atol=1e-5, err_msg=f"{n}")
