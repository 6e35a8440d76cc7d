"""Branching: programs that ask for values are equal under jit and eagerly, gradients too."""

import itertools
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import fx
from tests.transforms.jitting.programs import function_of, interpreted, programs

VECTORS = st.lists(
    st.sampled_from((-2.0, -1.0, -0.3, 0.0, 0.2, 0.7, 1.5, 3.0)), min_size=3, max_size=3
)
CALLS = st.lists(st.tuples(VECTORS, VECTORS, st.integers(-2, 3)), min_size=2, max_size=4)


def vector(values):
    return fx.tensor(values, dtype=fx.float64)


def expect_same(got, want):
    got, want = fx.tree.leaves(got), fx.tree.leaves(want)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert isinstance(g, fx.Tensor) == isinstance(w, fx.Tensor), (g, w)
        if not isinstance(w, fx.Tensor):
            assert type(g) is type(w), (g, w)
        else:
            assert (g.shape, g.dtype) == (w.shape, w.dtype)
            g, w = g.detach(), w.detach()
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-9, atol=1e-9)


def check_program(source, calls):
    note(source)
    f = function_of(source)
    jitted = fx.jit(f)
    for x, y, k in (*calls, *calls):
        expect_same(jitted(vector(x), vector(y), k), f(vector(x), vector(y), k))


@settings(max_examples=40)
@given(programs(), CALLS)
def test_random_programs(source, calls):
    with interpreted():
        check_program(source, calls)


@settings(max_examples=6)
@given(programs(), CALLS)
def test_random_programs_compiled(source, calls):
    check_program(source, calls)


@settings(max_examples=12)
@given(programs(), CALLS)
def test_gradients_of_random_programs(source, calls):
    note(source)
    f = function_of(source)

    def loss(x, y, k):
        a, b, k, total = f(x, y, k)
        return total + (a * k).sum() + fx.sin(b).sum()

    jitted = fx.jit(loss)
    with interpreted():
        check_gradients(loss, jitted, calls)


def check_gradients(loss, jitted, calls):
    for x, y, k in calls:
        x, y = vector(x), vector(y)
        want = fx.grad(loss, (0, 1))(x, y, k)
        expect_same(fx.grad(jitted, (0, 1))(x, y, k), want)
        expect_same(fx.jit(fx.grad(loss, (0, 1)))(x, y, k), want)
        leaves = [x.detach().requires_grad_(), y.detach().requires_grad_()]
        out = jitted(*leaves, k)
        if out.requires_grad:
            out.backward()
        found = [fx.zeros_like(v) if v.grad is None else v.grad for v in leaves]
        expect_same(found, want)


@settings(max_examples=15)
@given(programs(), CALLS)
def test_random_programs_inside_another_one(source, calls):
    note(source)
    f = function_of(source)
    inner = fx.jit(f)

    def outer(x, y, k):
        a, b, k, total = inner(x * 2, y, k)
        return inner(a, b, 1)[3] + total * k

    def plain(x, y, k):
        a, b, k, total = f(x * 2, y, k)
        return f(a, b, 1)[3] + total * k

    jitted = fx.jit(outer)
    with interpreted(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a number may come out of the inner one
        for x, y, k in calls:
            expect_same(jitted(vector(x), vector(y), k), plain(vector(x), vector(y), k))


@settings(max_examples=12)
@given(programs(asking=False), CALLS)
def test_lanes_of_random_programs(source, calls):
    note(source)
    f = function_of(source)

    def tensors(x, y, k):
        a, b, _, total = f(x, y, k)
        return a, b, total

    jitted = fx.jit(tensors)
    xs, ys = [fx.stack([vector(call[i]) for call in calls]) for i in (0, 1)]
    with interpreted():
        for k in {call[2] for call in calls}:
            want = [tensors(vector(x), vector(y), k) for x, y, _ in calls]
            got = fx.vmap(lambda x, y, k=k: jitted(x, y, k))(xs, ys)
            expect_same(got, [fx.stack(column) for column in zip(*want)])


# value-dependent shapes ---------------------------------------------------------------------------

SHAPES = {
    "mask": lambda x: x[x > 0] * 2,
    "nonzero": lambda x: fx.nonzero(x > 0)[0],
    "nonzero method": lambda x: (x > 0).nonzero(),
    "argwhere": lambda x: fx.argwhere(x > 0),
    "where": lambda x: fx.where(x > 0)[0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique_values": lambda x: fx.unique_values(fx.sign(x)),
    "unique_counts": lambda x: fx.unique_counts(fx.sign(x)),
    "unique_all": lambda x: fx.unique_all(fx.sign(x)),
    "length": lambda x: x * len(x[x > 0]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_only_the_count_is_guarded(name):
    function, staged = SHAPES[name], itertools.count()

    def counting(x):
        next(staged)
        return function(x)

    jitted = fx.jit(counting)
    # two positive numbers, then one; two different signs, then three
    for values in ([1, 2, -3], [5, -1, 2], [-2, 7, 3], [0, 0, 3], [1, 0, 0], [-1, 0, 1]):
        x = vector([float(v) for v in values])
        expect_same(jitted(x), function(x))
    runs = next(staged)
    assert runs == 2, f"{runs} stagings for two counts"


def test_a_gradient_through_a_mask():
    f = lambda x: (x[x > 0] ** 2).sum()
    x = vector([1.0, -2.0, 3.0])
    expect_same(fx.grad(fx.jit(f))(x), fx.grad(f)(x))
    leaf = x.requires_grad_()
    fx.jit(f)(leaf).backward()
    assert leaf.grad.tolist() == [2.0, 0.0, 6.0]


def test_a_mask_of_shape_two():
    f = lambda x: x[x > 0].sum() + x[:, 0][x[:, 1] > 0].sum()
    jitted = fx.jit(f)
    for seed in range(3):
        x = fx.random.normal(fx.random.key(seed), (3, 2))
        expect_same(jitted(x), f(x))


def test_a_question_inside_vmap_is_refused_as_it_is_without_jit():
    f = lambda x: x * 2 if x > 0 else x
    for g in (f, fx.jit(f)):
        with pytest.raises(fx.errors.BatchedValueError, match="differs from lane to lane"):
            fx.vmap(g)(fx.ones(3))


def test_numbers_may_branch_inside_vmap():
    f = lambda x, k: x * 2 if k > 1 else x + k
    jitted = fx.jit(f)
    for k in (0, 1, 2, 3):
        expect_same(fx.vmap(jitted, (0, None))(fx.ones(3), k), fx.vmap(f, (0, None))(fx.ones(3), k))


# caps and fallbacks -------------------------------------------------------------------------------


def test_too_many_answers_run_uncompiled_with_one_warning():
    f = lambda x: x * int(x.sum())
    jitted = fx.jit(f)
    with pytest.warns(RuntimeWarning, match=r"runs uncompiled.*test_branching.py:\d+") as told:
        for i in range(30):
            x = vector([float(i), 1.0, 2.0])
            expect_same(jitted(x), f(x))
    assert len(told) == 1
    assert "different 16 times" in str(told[0].message)
    assert told[0].filename == __file__
    assert jitted.explain().entries[-1].eager


def test_a_loop_of_unknown_length():
    def collatz(n):
        steps = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    jitted = fx.jit(collatz)
    for n in (1, 6, 7, 6, 5, 7):
        assert jitted(fx.tensor(n)) == collatz(n)


# errors -------------------------------------------------------------------------------------------


def test_an_error_of_the_function_passes_and_leaves_nothing_behind():
    def f(x, k):
        if x.sum() > 0:
            raise ValueError("mine")
        return x * k

    jitted = fx.jit(f)
    with pytest.raises(ValueError, match="mine") as info:
        jitted(fx.ones(3), 1)
    assert info.traceback[-1].name == "f"
    assert jitted.cache_size() == 0
    assert jitted(-fx.ones(3), 2).tolist() == [-2.0] * 3
    with pytest.raises(ValueError, match="mine"):
        jitted(fx.ones(3), 2)
    assert jitted(-fx.ones(3), 3).tolist() == [-3.0] * 3
    added = fx.jit(lambda x, y: x + y)
    with pytest.raises(fx.errors.ShapeError):
        added(fx.ones(3), fx.ones(2))
    assert added.cache_size() == 0


def test_a_failed_compilation_leaves_nothing_behind(monkeypatch):
    from fx.transforms.jitting import compiled

    def fail(*args, **kwargs):
        raise RuntimeError("no compiler")

    jitted = fx.jit(lambda x: x * 2)
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "_compile", fail)
        with pytest.raises(RuntimeError, match="no compiler"):
            jitted(fx.ones(3))
    assert jitted.cache_size() == 0
    assert jitted(fx.ones(3)).tolist() == [2.0] * 3


def test_what_happened_before_an_error_is_undone():
    model = fx.nn.Linear(2, 2)
    optimizer = fx.optim.SGD(model.parameters(), lr=0.5)
    before = model.weight.data

    @fx.jit
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 0.25
        raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        step(fx.ones((3, 2)))
    assert model.weight.data.tolist() == before.tolist()
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert model.weight.grad is None


def test_a_value_that_leaks_names_the_line():
    @fx.jit
    def f(x):
        raise LookupError(x * 2)

    with pytest.raises(LookupError) as caught:
        f(fx.ones(3))
    with pytest.raises(fx.errors.EscapedTracerError, match=r"jit.*test_branching.py:\d+"):
        caught.value.args[0] + 1


# re-entrancy --------------------------------------------------------------------------------------


def test_recursion():
    @fx.jit
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    for n in (1, 2, 3, 5, 3):
        assert power(fx.tensor([2.0]), n).tolist() == [2.0**n]


def test_two_threads_call_one_function():
    @fx.jit
    def f(x, k):
        if x.sum() > k:
            return x * 2
        return x[x > 0].sum() + k

    failures = []

    def work(seed):
        for i in range(25):
            x = vector([float((i * seed + j) % 5 - 2) for j in range(3)])
            k = (i + seed) % 3
            got = f(x, k)
            want = x * 2 if x.sum() > k else x[x > 0].sum() + k
            try:
                expect_same(got, want)
            except AssertionError as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_a_tensor_that_is_staged_in_one_thread_is_plain_in_another():
    weight = vector([1.0, 2.0, 3.0])
    inside, done = threading.Event(), threading.Event()

    def f(x):
        inside.set()
        assert done.wait(10)
        return x * weight

    found = []
    thread = threading.Thread(target=lambda: found.append(fx.jit(f)(vector([1.0, 1.0, 1.0]))))
    thread.start()
    assert inside.wait(10)
    assert (weight * 2).tolist() == [2.0, 4.0, 6.0] and weight.numpy()[0] == 1.0
    done.set()
    thread.join()
    expect_same(found[0], weight)
    assert type(weight) is fx.Tensor


def test_tangents_with_lanes_leave_values_without():
    def f(x):
        y = x * 2.0 if x.sum() > 0 else x
        return (fx.sin(y) * y.max().item()).sum()

    x, compiled = fx.tensor([0.3, 0.7, -0.4]), fx.jit(f)
    for _ in range(2):
        np.testing.assert_allclose(
            fx.jacfwd(fx.grad(compiled))(x), fx.jacfwd(fx.grad(f))(x), rtol=1e-5
        )
        np.testing.assert_allclose(fx.jacfwd(compiled)(x), fx.jacfwd(f)(x), rtol=1e-5)
