"""Memory plans: values whose lifetimes meet never share memory, and donated inputs are reused."""

from __future__ import annotations

import gc
import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fx
from fx import limits
from fx.backends.cpu.llvm.allocation import allocator
from fx.backends.cpu.llvm.driver import compile_graph
from fx.compiler.memory import Arena, Planner
from tests.backends.llvm.driver_steps import (
    OPERATIONS,
    apply,
    argument,
    constant,
    graph_of,
    scheduler,
)

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setenv("FX_CACHE", "0")


def draw(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def compiled(inputs, outputs, donated=(), **told):
    return compile_graph(graph_of(inputs, outputs), donated, scheduler(**told))


# the arena --------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=120))
def test_an_arena_gives_disjoint_pieces_and_grows_no_more_than_it_must(actions):
    arena, live, most = Arena(), {}, 0
    for take, number in actions:
        if take or not live:
            offset = arena.take(64 * number)
            for other, size in live.items():
                assert offset + 64 * number <= other or other + size <= offset
            live[offset] = 64 * number
            most = max(most, sum(live.values()))
        else:
            offset = list(live)[number % len(live)]
            arena.give(offset, live.pop(offset))
    assert most <= arena.size
    for offset, size in live.items():
        arena.give(offset, size)
    if arena.size:
        whole = arena.size
        assert arena.take(whole) == 0  # all grew together again
        assert arena.size == whole


def test_an_arena_uses_the_smallest_piece_that_fits():
    arena = Arena()
    large, _, small, _ = (arena.take(size) for size in (640, 64, 128, 64))
    arena.give(large, 640)
    arena.give(small, 128)
    assert arena.take(128) == small
    assert arena.take(64) == large


# plans ------------------------------------------------------------------------------------------


def random_graph(rng, size):
    """A graph over vectors of two sizes, with aliases, constants and repeated outputs."""
    inputs = [argument(12), argument(12), argument(3, 4), argument(20), argument(20)]
    values = [*inputs, constant(np.arange(12, dtype="f4")), constant(np.ones(20, "f4"))]
    for _ in range(size):
        x = rng.choice(values)
        y = rng.choice([v for v in values if v.spec == x.spec])
        if rng.random() < 0.2 and x.spec.size == 12:
            shape = rng.choice([(12,), (3, 4), (4, 3)])
            values.append(apply("reshape", x, shape=shape))
        else:
            values.append(apply(rng.choice(["add", "subtract", "multiply"]), x, y))
    return inputs, rng.sample(values, min(4, len(values))) + [values[-1]]


@given(st.integers(0, 10**6), st.integers(0, 30), st.booleans(), st.booleans())
def test_random_graphs_give_what_the_interpreter_gives(seed, size, inplace, mixed):
    rng = random.Random(seed)
    inputs, outputs = random_graph(rng, size)
    donated = [i for i in range(5) if rng.random() < 0.5]
    python = ("multiply",) if mixed else ()
    graph = graph_of(inputs, outputs)
    executable = compile_graph(graph, donated, scheduler(inplace=inplace, python=python))
    for _ in range(2):
        arrays = [draw(*v.spec.shape) * 0.5 for v in inputs]
        before = [a.copy() for a in arrays]
        expected = [t._a for t in graph.run(*[fx.tensor(a) for a in before])]
        found = executable.run(list(arrays))
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape
            np.testing.assert_array_equal(one, other)
        for i, array in enumerate(arrays):
            if i not in donated:
                np.testing.assert_array_equal(array, before[i])
        for out, into in executable.reuse.items():
            assert into in donated and found[out] is arrays[into]
        assert len(set(executable.reuse.values())) == len(executable.reuse)
        again = executable.run([a.copy() for a in before])
        for one, other in zip(again, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@given(st.integers(0, 10**6), st.integers(1, 40), st.booleans())
def test_values_that_live_together_lie_apart(seed, size, inplace):
    rng = random.Random(seed)
    inputs, outputs = random_graph(rng, size)
    graph = graph_of(inputs, outputs)
    schedule = scheduler(inplace=inplace)(graph)
    constants = graph.constants()
    donated = frozenset(rng.sample(inputs, 2))
    planner = Planner(
        schedule.steps, schedule.root, inputs, constants, outputs, donated, lambda v: "value"
    )
    lives = planner.plan.lives
    for i, one in enumerate(lives):
        for other in lives[:i]:
            if not overlap(one, other):
                continue
            if one.end < 0 or other.end < 0:  # an argument that nothing reads
                continue
            first, second = sorted((one, other), key=lambda life: life.start)
            assert first.end <= second.start
            if first.end == second.start:  # only in place, and then exactly
                assert first.place == second.place and inplace


@given(st.integers(0, 10**6), st.integers(5, 40), st.booleans())
def test_donated_inputs_are_overwritten_behind_the_last_step_that_may_fail(seed, size, inplace):
    rng = random.Random(seed)
    inputs, outputs = random_graph(rng, size)
    graph = graph_of(inputs, outputs)
    schedule = scheduler(inplace=inplace)(graph)
    doubtful = [t for t, _ in enumerate(schedule.steps) if rng.random() < 0.15]
    for t in doubtful:
        schedule.steps[t].status = 0
    planner = Planner(
        schedule.steps, schedule.root, inputs, graph.constants(), outputs, frozenset(inputs),
        lambda v: "value",
    )  # fmt: skip
    for life in planner.plan.lives:
        if life.place.kind == "input" and life.start >= 0:
            assert life.start > max(doubtful, default=-1)


def overlap(one, other):
    a, b = one.place, other.place
    if a.kind != b.kind:
        return False
    if a.kind != "arena":
        return a.index == b.index
    return a.offset < b.offset + other.nbytes and b.offset < a.offset + one.nbytes


def chain(x, y, length):
    for i in range(length):
        x = apply(("add", "subtract")[i % 2], x, y)
    return x


def test_a_chain_needs_two_buffers_or_none():
    x, y = argument(1000), argument(1000)
    apart = compiled([x, y], [chain(x, y, 50)], inplace=False)
    assert "arena 7.9 KiB" in apart.memory
    joined = compiled([x, y], [chain(x, y, 50)])
    assert "arena 0 B, results 3.9 KiB" in joined.memory


def test_scratch_memory_is_in_the_arena_and_shared():
    x, y = argument(16), argument(16)
    executable = compiled([x, y], [chain(x, y, 9)], scratch=640)
    assert "arena 640 B" in executable.memory
    np.testing.assert_array_equal(
        executable.run([np.ones(16, "f4")] * 2)[0], np.full(16, 2, dtype="f4")
    )


def test_a_value_that_a_step_reads_twice_is_overwritten_only_if_both_may_be():
    x, y = argument(4), argument(4)
    twice = apply("multiply", total := apply("add", x, y), total)
    told = scheduler()

    def half(graph):
        found = told(graph)
        found.steps[1].inplace = ((0, 0),)
        return found

    executable = compile_graph(graph_of([x, y], [twice]), scheduler=half)
    assert "arena 64 B, results 16 B" in executable.memory
    assert "arena 0 B, results 16 B" in compiled([x, y], [twice]).memory


# donation ---------------------------------------------------------------------------------------


def update(p, g):
    return apply("subtract", p, apply("multiply", g, constant(np.full(p.spec.shape, 0.1, "f4"))))


@pytest.mark.parametrize("told", [{}, {"inplace": False}, {"python": ("multiply",)}])
def test_an_update_happens_in_the_donated_memory(told):
    p, g = argument(4), argument(4)
    executable = compiled([p, g], [update(p, g)], [0], **told)
    array, gradient = draw(4), draw(4)
    expected = array - gradient * np.float32(0.1)
    out = executable.run([array, gradient])[0]
    np.testing.assert_array_equal(out, expected)
    if told.get("inplace", True):
        assert executable.reuse == {0: 0} and out is array
    else:  # the step reads while it writes, so only another input's memory would do
        assert executable.reuse == {} and out is not array


def test_a_donated_input_that_is_read_later_keeps_its_memory():
    p, g = argument(4), argument(4)
    new = apply("subtract", p, g)
    late = apply("multiply", new, p)  # reads p after new was written
    executable = compiled([p, g], [new, late], [0])
    array, gradient = draw(4), draw(4)
    expected = [array - gradient, (array - gradient) * array]
    out = executable.run([array, gradient])
    np.testing.assert_array_equal(out[0], expected[0])
    np.testing.assert_array_equal(out[1], expected[1])
    assert executable.reuse == {1: 0}  # late may: it is the last to read p


def test_a_result_takes_over_an_input_that_nothing_needs_any_more():
    p, g = argument(4), argument(4)
    first = apply("add", p, p)
    second = apply("multiply", first, g)
    third = apply("subtract", second, g)
    executable = compiled([p, g], [third], [0], inplace=False)
    assert executable.reuse == {0: 0}


def test_only_equal_specs_are_taken_over():
    p = argument(3, 4)
    flat = apply("reshape", apply("add", p, p), shape=(12,))
    executable = compiled([p], [flat], [0])
    assert executable.reuse == {}
    np.testing.assert_array_equal(
        executable.run([np.ones((3, 4), "f4")])[0], np.full(12, 2, dtype="f4")
    )


def test_a_donated_input_that_is_handed_back_is_not_written():
    p, g = argument(4), argument(4)
    executable = compiled([p, g], [p, apply("add", p, g)], [0])
    assert executable.reuse == {0: 0}
    array, gradient = draw(4), draw(4)
    kept = array.copy()
    out = executable.run([array, gradient])
    assert out[0] is array
    np.testing.assert_array_equal(array, kept)
    np.testing.assert_array_equal(out[1], kept + gradient)


def test_swapped_parameters_are_both_right():
    p, q = argument(4), argument(4)
    executable = compiled([p, q], [apply("add", q, q), apply("add", p, p)], [0, 1])
    a, b = draw(4), draw(4)
    expected = [b + b, a + a]
    for one, other in zip(executable.run([a, b]), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(executable.reuse) == 2


@pytest.mark.parametrize("kind", ["locked", "strided", "bent"])
def test_donated_memory_that_cannot_be_written_is_copied(kind):
    p, g = argument(4), argument(4)
    executable = compiled([p, g], [apply("subtract", p, g)], [0])
    array = {
        "locked": lambda: draw(4),
        "strided": lambda: draw(8)[::2],
        "bent": lambda: np.frombuffer(bytearray(17), np.uint8)[1:].view("f4"),
    }[kind]()
    if kind == "locked":
        array.flags.writeable = False
    kept, gradient = array.copy(), draw(4)
    out = executable.run([array, gradient])[0]
    np.testing.assert_array_equal(out, kept - gradient)
    np.testing.assert_array_equal(array, kept)


def test_nothing_is_overwritten_before_the_last_step_that_may_fail():
    p, g = argument(4), argument(4)
    new = apply("subtract", p, g)
    checked = apply("multiply", new, g)  # in Python
    told = scheduler(python=("multiply",))

    def fragile(graph):
        found = told(graph)
        found.steps[1].run = lambda *arrays: (_ for _ in ()).throw(ArithmeticError("no"))
        return found

    executable = compile_graph(graph_of([p, g], [new, checked]), [0], fragile)
    array = draw(4)
    kept = array.copy()
    with pytest.raises(ArithmeticError):
        executable.run([array, draw(4)])
    np.testing.assert_array_equal(array, kept)


def test_a_view_that_a_python_step_returns_does_not_see_the_update():
    p, g = argument(4), argument(4)
    view = apply("flip", p, axes=(0,))
    new = apply("subtract", p, g)
    told = scheduler()
    executable = compile_graph(graph_of([p, g], [view, new]), [0], told)
    array, gradient = draw(4), draw(4)
    kept = array.copy()
    out = executable.run([array, gradient])
    np.testing.assert_array_equal(out[0], kept[::-1])
    np.testing.assert_array_equal(out[1], kept - gradient)


def test_operations_cover_what_the_random_graphs_draw():
    assert set(OPERATIONS) == {"add", "subtract", "multiply"}


# memory of results ------------------------------------------------------------------------------


def test_large_results_lie_on_cache_lines_and_are_used_again():
    n = 4 * limits.SMALL_RESULT
    x = argument(n)
    executable = compiled([x], [apply("add", x, x)])
    array = draw(n)
    first = executable.run([array])[0]
    assert first.ctypes.data % 64 == 0 and first.flags.owndata and first.flags.writeable
    address = first.ctypes.data
    del first
    second = executable.run([array])[0]
    assert second.ctypes.data == address
    others = [executable.run([array])[0] for _ in range(5)]
    assert len({a.ctypes.data for a in (second, *others)}) == 6
    half = second[::2]
    del second
    gc.collect()
    np.testing.assert_array_equal(executable.run([array])[0][::2], half)


def test_results_are_ordinary_arrays():
    n = 2 * limits.SMALL_RESULT
    x = argument(n)
    executable = compiled([x], [apply("add", x, x)])
    array = draw(n)
    out = executable.run([array])[0]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(out)), out)
    out.resize(3 * n, refcheck=False)
    np.testing.assert_array_equal(out[:n], array + array)
    assert not out[n:].any()
    out.resize(10, refcheck=False)
    np.testing.assert_array_equal(out, (array + array)[:10])


def test_what_waits_is_bounded():
    memory = allocator()
    memory.flush()
    before = memory.kept.value
    memory.kept.value = 1 << 16
    try:
        for n in (5000, 6000, 7000, 8000, 90000):
            x = argument(n)
            executable = compiled([x], [apply("add", x, x)])
            kept = [executable.run([np.ones(n, "f4")])[0] for _ in range(4)]
            del kept
            assert memory.waiting.value <= memory.kept.value
    finally:
        memory.kept.value = before
        memory.flush()
    assert memory.waiting.value == 0
