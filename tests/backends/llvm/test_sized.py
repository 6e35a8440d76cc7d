"""Programs for any size: what they compute, which sizes share one, what refuses."""

import os
import random

import numpy as np
import pytest

import fx
import fx.nn.functional as F
import fx.torch as face
from fx import nn, optim
from fx.backends.cpu.llvm import disk_cache, driver, engine, kernels
from fx.backends.cpu.llvm.sized import SizedProgram
from fx.graph.family import Family, Numbered
from fx.graph.size_formulas import primes_for
from tests.thorough import THOROUGH

UNARY = [
    fx.tanh, lambda x: x * x, lambda x: fx.softmax(x, axis=-1), lambda x: fx.log_softmax(x, axis=0),
    lambda x: x - x.mean(dim=0, keepdim=True), lambda x: x * x.var(dim=0),
    lambda x: fx.where(x > 0, x, 0.1 * x), lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: fx.max(x, axis=0) - x, lambda x: (x @ x.T) @ x * 0.01, lambda x: x / x.shape[0],
    lambda x: x.reshape(-1).reshape(x.shape), lambda x: x.sum(1, keepdim=True) + x.sum(0),
    lambda x: F.pad(x, (1, 1))[:, 1:-1],
    # of these some are for their own sizes, whatever the others are
    lambda x: x.flip(0), lambda x: fx.cumulative_sum(x, axis=0), lambda x: x[1:].sum(0) * 0.1 + x,
    lambda x: fx.sort(x, axis=0), lambda x: x * float(x.shape[0]) ** 0.5,
    lambda x: x if x.shape[0] > 12 else x * 2,
]  # fmt: skip


@pytest.fixture
def served(monkeypatch):
    """How many graphs a program for any size has served, and how many kernels were emitted."""
    counts = {"sized": 0, "kernels": 0}
    at, name = SizedProgram.at, kernels.Kernels.name

    def counted_at(self, *args):
        counts["sized"] += 1
        return at(self, *args)

    def counted_name(self, step):
        counts["kernels"] += 1
        return name(self, step)

    if "FX_LIMITS" in os.environ or "FX_GUARD_MEMORY" in os.environ:
        pytest.skip("other programs are made")
    face.ones(1).add_(1)  # before a process first writes, the first step of all runs uncompiled
    monkeypatch.setattr(disk_cache, "name_of", lambda *told: None)
    monkeypatch.setattr(SizedProgram, "at", counted_at)
    monkeypatch.setattr(kernels.Kernels, "name", counted_name)
    driver.forget()
    return counts


def random_program(rng):
    parts = [rng.choice(UNARY) for _ in range(rng.randint(1, 4))]
    w = fx.tensor(np.random.default_rng(rng.randint(0, 99)).normal(size=(6, 6)).astype("f"))
    product, derived = rng.random() < 0.5, rng.random() < 0.4

    def f(x, y):
        for i, part in enumerate(parts):
            x = part(x)
            if product and not i:
                x = x @ w + y
        return x, x.sum(), x.mean(dim=0)

    def g(x, y):
        return fx.grad(lambda a: fx.tanh(f(a, y)[0]).mean())(x), fx.grad(lambda b: f(x, b)[1])(y)

    return g if derived else f


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("seed", range(8))
def test_any_size_is_what_it_is_eagerly(seed):
    rng = random.Random(seed)
    f = random_program(rng)
    jitted, alone = fx.jit(f), fx.jit(f, dynamic=False)
    for k, n in enumerate(rng.sample([1, 2, 3, 5, 8, 13, 16, 17, 32, 33, 61], 5)):
        numbers = np.random.default_rng(n)
        x = fx.tensor(numbers.normal(size=(n, 6)).astype("f"))
        y = fx.tensor(numbers.normal(size=6).astype("f"))
        wanted = f(x, y)
        for other in (jitted, alone) if k < 2 else (jitted,):
            for a, b in zip(other(x, y), wanted, strict=True):
                assert a.shape == b.shape
                scale = max(1.0, float(abs(b).max()))
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-4 * scale)


BEYOND_PRODUCTS = {
    "flip": lambda x: x.flip(0), "grid": lambda x: x * fx.arange(x.shape[0]).flip(0)[:, None],
    "roll": lambda x: fx.roll(x, 1, axis=0), "cumsum": lambda x: fx.cumsum(x, 0),
    "pad": lambda x: F.pad(x.T, (1, 2)).sum(1), "even": lambda x: fx.linspace(0, 1, x.shape[0]),
    "half": lambda x: x[: x.shape[0] // 2] * 2, "last": lambda x: x[-1] + x,
    "halves": lambda x: fx.concat([x, x], axis=0)[x.shape[0] :] * 2, "tril": fx.tril,
    "up to 21": lambda x: fx.ones(2 * min(x.shape[0], 21)) * x[0, 0],
    "squares": lambda x: x.sum(0) * fx.ones((x.shape[0] * x.shape[0] // 20, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", BEYOND_PRODUCTS)
def test_what_is_no_product_of_sizes_is_right_at_each(name):
    f, driven = BEYOND_PRODUCTS[name], fx.jit(BEYOND_PRODUCTS[name])
    driver.forget()
    for n in (20, 21, 22, 40, 63):
        x = fx.tensor(np.random.default_rng(n).normal(size=(n, 3)).astype("f"))
        np.testing.assert_allclose(driven(x).numpy(), f(x).numpy(), rtol=1e-5, atol=1e-5)


def test_columns_that_are_reduced_while_rows_are_computed(served):
    """What tasks add up down the columns, of a width that is known when it runs."""

    def f(x, g):
        spread = x - x.mean(dim=1, keepdim=True)
        y = spread * fx.rsqrt((spread * spread).mean(dim=1, keepdim=True) + 1e-5)
        return (g * y).sum(0), g.sum(0), y

    driven = fx.jit(f)
    for n in (130, 131, 132, 145, 159, 160, 161):
        x, g = np.random.default_rng(n).normal(size=(2, 300, n)).astype("f")
        of_y, of_g, y = [out.numpy() for out in driven(fx.tensor(x), fx.tensor(g))]
        for found, operand in ((of_y, g.astype(float) * y.astype(float)), (of_g, g.astype(float))):
            np.testing.assert_allclose(found, operand.sum(0), rtol=0, atol=2e-6 * 300)
    assert served["sized"] >= 5


def training_step(**options):
    fx.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Dropout(0.3), nn.Linear(9, 4)
    )
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y) + (out**2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, step if options.pop("eager", False) else fx.jit(step, **options)


def batches(sizes):
    rng = np.random.default_rng(3)
    for n in sizes:
        yield (
            fx.tensor(rng.normal(size=(n, 6)).astype("f")), fx.tensor(rng.integers(0, 4, n))
        )  # fmt: skip


def test_a_training_step_compiles_nothing_for_a_fourth_size(served):
    """The first size makes a constant of how many losses there are, which the others count."""
    sizes = [20, 21, 22, 37, 20, 41, 63]
    (model, step), (twin, eager) = training_step(), training_step(eager=True)
    emitted = []
    for x, y in batches(sizes):
        state = fx.random.get_rng_state()
        loss = step(x, y)
        fx.random.set_rng_state(state)
        assert float(loss) == pytest.approx(float(eager(x, y)), rel=1e-4)
        emitted.append(served["kernels"])
    for a, b in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-5)
    assert emitted[2] > emitted[1] > emitted[0] > 0 and emitted[2:] == [emitted[2]] * 5
    assert served["sized"] == 4  # of the first two sizes there is a program of their own
    shown = [entry.sizes for entry in step.explain().entries]
    assert any({"x axis 0: a = 22", "y axis 0: a = 22"} <= {*told} for told in shown)
    assert "sizes:  x axis 0: a = 22" in repr(step.explain())


def test_what_is_found_on_disk_counts_as_the_first_size(monkeypatch, tmp_path):
    if "FX_LIMITS" in os.environ or "FX_GUARD_MEMORY" in os.environ:
        pytest.skip("other programs are made")
    monkeypatch.setenv("FX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FX_CACHE", raising=False)
    monkeypatch.setattr(disk_cache, "_sources", lambda root: [])  # they may be edited meanwhile
    disk_cache.compiler.cache_clear()
    texts, compile_text = [], engine.compile_text

    def noted(text, *rest):
        texts.append(text)
        return compile_text(text, *rest)

    monkeypatch.setattr(engine, "compile_text", noted)
    functions = [  # of one graph, and each with programs of its own
        lambda x: (x * x + 0.25).sum(),
        lambda y: (y * y + 0.25).sum(),
        lambda z: (z * z + 0.25).sum(),
    ]
    try:
        shown, compiled = [], []
        for function, sizes in zip(functions, ((40, 50, 60), (40, 50, 60), (40, 61, 62))):
            driver.forget()
            texts.clear()
            f = fx.jit(function)
            assert [float(f(fx.ones(n))) for n in sizes] == [1.25 * n for n in sizes]
            shown.append([entry.sizes for entry in f.explain().entries])
            compiled.append(len(texts))
        assert shown[0] == [(), ("x axis 0: a = 50",), ("x axis 0: a = 60",)]
        assert shown[1] == [(), ("y axis 0: a = 50",), ("y axis 0: a = 60",)]
        assert shown[2] == [(), ("z axis 0: a = 61",), ("z axis 0: a = 62",)]
        assert compiled[0] and compiled[1:] == [0, 0]
    finally:
        disk_cache.compiler.cache_clear()


def test_dynamic_false_compiles_each_size(served):
    f = fx.jit(lambda x: fx.tanh(x).sum(0), dynamic=False)
    for n in (20, 21, 22):
        f(fx.ones((n, 5)))
    assert not served["sized"]
    assert [entry.sizes for entry in f.explain().entries] == [()] * 3


def test_two_sizes_that_vary_and_classes_of_sizes(served):
    f = fx.jit(lambda x, y: (x @ y.T, fx.softmax(x @ y.T, axis=1).sum()))
    for m, n in ((20, 33), (21, 40), (40, 21), (50, 50), (5, 40), (6, 50), (300, 40)):
        rng = np.random.default_rng(m)
        x, y = rng.normal(size=(m, 7)).astype("f"), rng.normal(size=(n, 7)).astype("f")
        before = served["kernels"]
        product, total = f(fx.tensor(x), fx.tensor(y))
        np.testing.assert_allclose(product.numpy(), x @ y.T, rtol=1e-4, atol=1e-5)
        assert float(total) == pytest.approx(m, rel=1e-4)
        again = (m, n) in ((40, 21), (50, 50), (6, 50))  # others like them have been met
        assert (served["kernels"] == before) == again
    assert [entry.sizes for entry in f.explain().entries][3] == (
        "x axis 0: a = 50", "y axis 0: b = 50"
    )  # fmt: skip


def test_an_index_out_of_range_is_found_at_any_size():
    f = fx.jit(lambda x, y: F.cross_entropy(x, y))
    for n in (20, 21, 22):
        y = np.zeros(n, np.int64)
        f(fx.ones((n, 5)), fx.tensor(y))
        y[n - 1] = 5
        with pytest.raises(IndexError, match="5"):
            f(fx.ones((n, 5)), fx.tensor(y))


class Decoder(nn.Module):
    """A block that is causal, by a mask or by its attention, with places that are looked up."""

    def __init__(self, masked):
        super().__init__()
        self.masked = masked
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(64, 8)
        self.three, self.out = nn.Linear(8, 24), nn.Linear(8, 11)
        self.register_buffer("mask", fx.tril(fx.ones((64, 64))))

    def forward(self, x):
        b, t = x.shape
        h = self.words(x) + self.places(fx.arange(t))
        q, k, v = (z.view(b, t, 2, 4).transpose(1, 2) for z in self.three(h).split(8, dim=2))
        if self.masked:
            weight = (q @ k.transpose(-2, -1)).masked_fill(self.mask[:t, :t] == 0, -fx.inf)
            h = fx.softmax(weight, axis=-1) @ v
        else:
            h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(h.transpose(1, 2).reshape(b, t, 8))


@pytest.mark.parametrize("masked", [True, False])
def test_growing_sequences_compile_nothing_from_the_third_length_on(served, masked):
    def started():
        fx.manual_seed(0)
        model = Decoder(masked)
        return model, optim.SGD(model.parameters(), lr=0.5)

    def step(model, optimizer, x):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).reshape(-1, 11), x.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    here, twin = started(), started()
    jitted, emitted = fx.jit(lambda x: step(*here, x)), []
    for t in (20, 21, 22, 35, 60, 17):
        x = fx.tensor(np.random.default_rng(t).integers(0, 11, (3, t)))
        assert float(jitted(x)) == pytest.approx(float(step(*twin, x)), rel=1e-4)
        emitted.append(served["kernels"])
    for a, b in zip(here[0].parameters(), twin[0].parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-3, atol=1e-5)
    assert emitted[1] > emitted[0] > 0 and emitted[1:] == [emitted[1]] * 5


@pytest.mark.parametrize("width", [1, 3, 64])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_of_a_table_at_any_size_on_many_threads(served, axis, width):
    lookup = lambda w, i: fx.take(w, i, axis=axis)
    both = fx.jit(lambda w, i, g: (lookup(w, i), fx.vjp(lambda w: lookup(w, i), w)[1](g)[0]))
    rng = np.random.default_rng(width)
    shape = (90, width) if axis == 0 else (2, 90, width)
    w = fx.tensor(rng.normal(size=shape).astype("f"))
    counts = []
    for n in (20000, 20001, 30000, 5000, 8000, 16385):
        i = fx.tensor(rng.integers(-90, 90, n))
        out = lookup(w, i)
        g = fx.tensor(rng.integers(-3, 4, out.shape).astype("f"))  # whose sums are exact
        wanted = out, fx.vjp(lambda w, i=i: lookup(w, i), w)[1](g)[0]
        for a, b in zip(both(w, i, g), wanted, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        bad = i.at[n - 2].set(90)
        with pytest.raises(IndexError, match="index 90 is out of range"):
            both(w, bad, g)
        counts.append(served["kernels"])
    assert counts[2] == counts[1] and counts[5] == counts[4]  # two classes


ALONG = {
    "sums along the first axis": lambda x, i: fx.cumsum(x, 0),
    "sums along the last axis": lambda x, i: fx.cumsum(x, 1),
    "the largest so far": lambda x, i: fx.cummax(x, 0)[0],
    "elements of rows": lambda x, i: fx.take_along_axis(x, i, axis=1),
    "gradient of sums": lambda x, i: fx.grad(lambda x: (fx.cumsum(x, 0) * x).sum())(x),
    "gradient of elements": lambda x, i: fx.grad(
        lambda x: (fx.take_along_axis(x, i, axis=1) ** 2).sum()
    )(x),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONG)
def test_along_an_axis_at_any_size(served, name):
    jitted = fx.jit(ALONG[name])
    for n in (200, 201, 202, 255, 3000, 3001, 3002, 4095):
        rng = np.random.default_rng(n)
        x = fx.tensor(rng.integers(-4, 5, (n, 100)).astype("f"))  # whose sums are exact
        i = fx.tensor(rng.integers(-100, 100, (n, 7)))
        np.testing.assert_array_equal(jitted(x, i).numpy(), ALONG[name](x, i).numpy())
    assert served["sized"] >= 6


def test_functions_of_one_form_do_not_hide_each_other(served):
    """All numbers of sums along two axes are the same in form, and no size explains the axis."""
    functions = [fx.jit(lambda x, axis=axis: fx.cumsum(x, axis) * 2) for axis in (0, 1)]
    for n in (200, 201, 202):
        x = fx.tensor(np.random.default_rng(n).integers(-4, 5, (n, 100)).astype("f"))
        for axis, f in enumerate(functions):
            np.testing.assert_array_equal(f(x).numpy(), fx.cumsum(x, axis).numpy() * 2)
    assert [f.explain().entries[-1].sizes for f in functions] == [("x axis 0: a = 202",)] * 2


def test_a_message_tells_no_size_that_nobody_has():
    f = fx.jit(lambda x, i: fx.take_along_axis(x, i, axis=1))
    for n in (200, 201, 202):
        i = fx.zeros((n, 3), dtype=fx.int64).at[n - 1, 2].set(-101)
        with pytest.raises(
            IndexError, match=r"index -101 .* axis 1 of \((200|\.\.\.), 100\), .*-100"
        ):
            f(fx.ones((n, 100)), i)


def test_threads_and_the_memory_of_results():
    f = fx.jit(lambda x: (fx.exp(x) / (1 + fx.exp(x)), fx.tanh(x).sum(0), x.T * 2))
    kept = []
    for n in (3000, 3001, 3002, 4000):
        x = np.random.default_rng(n).normal(size=(n, 64)).astype("f")
        alone, several = [], []
        for threads, found in ((1, alone), (2, several)):
            fx.set_num_threads(threads)
            found += f(fx.tensor(x))
        kept.append((several, [a.numpy().copy() for a in alone]))
        np.testing.assert_allclose(several[0].numpy(), 1 / (1 + np.exp(-x)), rtol=1e-4)
    for several, known in kept:  # later calls have not written into what was given out
        for a, b in zip(several, known, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)


def test_donated_memory_is_used_at_any_size():
    f = fx.jit(lambda x: fx.exp(x) + 1, donate_argnums=0)
    for n in (40, 41, 42):
        x = np.random.default_rng(n).normal(size=n).astype("f")
        np.testing.assert_allclose(f(fx.tensor(x)).numpy(), np.exp(x) + 1, rtol=1e-5)


def family(f, *shapes):
    graphs = [fx.make_graph(f)(*map(fx.ones, each)) for each in shapes]
    first, second, *rest = map(Numbered, graphs)
    assert first.lines == second.lines
    return Family(first, second), graphs, [g.numbers for g in rest]


def test_a_family_explains_every_number_or_none():
    def f(x, y):
        return (x @ y).reshape(-1), fx.broadcast_to(y[0], (3, *y.shape)), x.mean()

    known, graphs, (third, other) = family(
        f, [(8, 4), (4, 6)], [(9, 4), (4, 10)], [(50, 4), (4, 7)], [(50, 5), (5, 7)]
    )
    assert known.axes == {(0, 0): "b", (1, 1): "a"} or known.axes == {(0, 0): "a", (1, 1): "b"}
    assert sorted(known.sizes_of(third).values()) == [7, 50]
    assert known.sizes_of(other) is None  # 4 was no size that varies
    made = known.at(graphs[0], known.sizes_of(third))
    assert [v.spec.shape for v in made.outputs] == [(350,), (3, 4, 7), ()]

    sliced, _, (third,) = family(lambda x: x[1:], [(8,)], [(9,)], [(10,)])
    assert sliced.sizes_of(third) == {"a": 10} and sliced.bases == [("a", 1, -1)]
    halved, _, (third,) = family(lambda x: x[::2], [(8,)], [(9,)], [(11,)])
    assert halved.sizes_of(third) is None  # (n + 1) // 2 is no formula


def test_primes_divide_no_number_of_the_graph():
    found = primes_for({"a": 30, "b": 30}, [62, 37])
    first, second = next(found), next(found)
    taken = [*first.values(), *second.values()]
    assert len({*taken}) == 4 and min(taken) > 30 and not {31, 37} & {*taken}


PARTS = [
    lambda v: v[..., :5], lambda v: v[..., 1:6], lambda v: v[..., -5:], lambda v: v[:, 3:8:2],
    lambda v: v.T[:5].T, lambda v: v.T[:5], lambda v: v[:2, :5], lambda v: v[..., :5][:, ::-1],
    lambda v: v[None, :, :5], lambda v: fx.expand_dims(v[0, :5], 0),
]  # fmt: skip
USES = [
    lambda p: p @ p.mT, lambda p: p.mT @ p, lambda p: fx.exp(p @ p.mT), lambda p: p.sum(-1),
    lambda p: fx.cumsum(p, -1), lambda p: fx.sort(p, -1), lambda p: fx.take(p, IDS, axis=-1),
    lambda p: fx.linalg.norm(p), lambda p: fx.argmax(p, -1), lambda p: p @ fx.ones(p.shape[-1]),
    lambda p: fx.softmax(p, -1), lambda p: fx.concat([p, p], 0), lambda p: fx.topk(p, 2)[0],
    lambda p: F.pad(p, (1, 2)) @ fx.ones(p.shape[-1] + 3),
]  # fmt: skip
IDS = fx.asarray([0, 1, 0])


@pytest.mark.parametrize("use", range(len(USES)))
def test_a_part_of_known_size_lies_in_what_has_any(use):
    """What reads it is told its steps: they are those of what it is a part of."""
    values = np.random.default_rng(0).normal(size=(3, 40)).astype("f")
    for part in PARTS if THOROUGH else PARTS[use % 2 :: 2]:

        def f(x, part=part):
            return USES[use](part(x * 2 - fx.mean(x)))

        jitted = fx.jit(f)
        for n in (9, 10, 11, 14, 20, 40):
            x = fx.tensor(values[:, :n].copy())
            np.testing.assert_allclose(jitted(x), f(x), rtol=2e-5, atol=2e-5)
