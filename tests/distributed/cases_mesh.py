"""Ranks of a mesh compute what lanes do: collectives, loops, gradients; eager and compiled."""

import threading
import time

import numpy as np

import fx
from fx import P
from fx.distributed.mesh import world

size, rank = world()


def draws(shape, exact, seed=0):
    """Whole numbers, whose sums are exact in any order, or any."""
    rng = np.random.default_rng(seed)
    found = rng.integers(-4, 5, shape) if exact else rng.normal(size=shape)
    return fx.from_numpy(found.astype(np.float32))


def all_collectives(n):
    """Every collective over ``"i"`` of n ranks, of x (rows, 2) and w (2, 3) on each."""

    def body(x, w):
        y = x @ w
        rows = fx.stack([y[0] * (k + 1) for k in range(n)])
        total, squares = fx.psum((y, (y * y).sum()), "i")
        index = fx.axis_index("i")
        return (
            (total, squares),
            fx.pmean(y, "i"),
            fx.pmax(y, "i"),
            fx.pmin(y, "i"),
            fx.all_gather(y, "i", axis=1),
            fx.all_gather(y, "i", axis=1, tiled=True),
            fx.psum_scatter(fx.concatenate([rows, rows]), "i", tiled=True),
            fx.all_to_all(rows, "i", 0, 1),
            fx.pbroadcast(y, "i", n - 1),
            fx.ppermute(y, "i", [(k, k + 1) for k in range(n - 1)]),
            fx.ppermute(y, "i", [(k, (k + 1) % n) for k in range(n)]),
            y * index,
        )

    return body


ROWS = P("i")
OUT_SPECS = (P(), P(), P(), P(), P(), P(), ROWS, P(None, "i"), P(), ROWS, ROWS, ROWS)


def loops(x, w):
    """Collectives in bodies of loops and branches, one of which nothing needs."""
    fx.psum(x * 7, "i")

    def step(carry, row):
        carry = carry + fx.psum(row * carry, "i")
        return carry, fx.pmax(row, "i")

    carry, tops = fx.scan(step, fx.ones(2), x)
    large = lambda v: v - fx.pmean(v, "i")
    chosen = fx.cond(fx.psum(x.sum(), "i") > 0, large, lambda v: fx.psum(v, "i") * 2, carry)
    last = fx.while_loop(lambda v: fx.pmax(v, "i") < 40.0, lambda v: v * 2 + 1, w[0, 0] * w[0, 0])
    return chosen, tops, last


def on_two_axes(x):
    """Of a mesh of ``rows`` and ``columns``."""
    a = fx.psum(x, "rows") - fx.pmax(x, ("rows", "columns"))
    b = fx.all_gather(x, "columns", axis=1, tiled=True) * fx.axis_size(("rows", "columns"))
    return a, b, x * fx.axis_index("rows") + fx.axis_index("columns")


def weighted(outs):
    return sum([(o * o * (k + 1)).sum() for k, o in enumerate(fx.tree.leaves(outs))])


def leaves(out):
    return [np.asarray(v) for v in fx.tree.leaves(out)]


def check(function, args, mesh, in_specs, out_specs, same=("value", "grad")):
    """Ranks against lanes, eagerly and jitted; ``same`` bits, or what the order of sums leaves."""
    lanes = fx.Mesh(tuple(mesh.shape.values()), mesh.axis_names, lanes=True)
    want, got = [fx.shard_map(function, m, in_specs, out_specs) for m in (lanes, mesh)]
    places = tuple(range(len(args)))
    for what in ("value", "grad"):
        if what == "grad":
            grad = lambda f: fx.grad(lambda *xs: weighted(f(*xs)), argnums=places)
            want, got = grad(want), grad(got)
        oracle = leaves(want(*args))
        for how, run in (("eager", got), ("jit", fx.jit(got))):
            for i, (a, b) in enumerate(zip(oracle, leaves(run(*args)), strict=True)):
                told = f"{what} {i}, {how}"
                if what in same:
                    np.testing.assert_array_equal(b, a, err_msg=told)
                else:
                    np.testing.assert_allclose(
                        b, a, rtol=2e-6, atol=2e-6 * abs(a).max(), err_msg=told
                    )


def the_mesh():
    return fx.Mesh((size,), ("i",))


def case_every_collective_has_the_bits_of_lanes():
    args = draws((2 * size, 2), True), draws((2, 3), True, 1)
    check(all_collectives(size), args, the_mesh(), (ROWS, P()), OUT_SPECS)


def case_of_any_numbers_the_order_of_sums_alone_may_differ():
    args = draws((2 * size, 2), False), draws((2, 3), False, 1)
    check(all_collectives(size), args, the_mesh(), (ROWS, P()), OUT_SPECS, same=())


def case_loops_and_branches():
    args = draws((2 * size, 2), True), 1 + abs(draws((2, 3), True, 1))
    check(loops, args, the_mesh(), (ROWS, P()), P(), ("value",))


def case_two_axes():
    shape = (2, 2) if size == 4 else (size, 1)
    mesh = fx.Mesh(shape, ("rows", "columns"))
    specs = (P("columns"), P("rows"), P(("rows", "columns"), None))
    check(on_two_axes, (draws((2 * size, 3), True),), mesh, P(("rows", "columns")), specs)


def case_ranks_in_another_order():
    mesh = fx.Mesh(list(reversed(range(size))), ("i",))
    args = draws((2 * size, 2), True), draws((2, 3), True, 1)
    check(all_collectives(size), args, mesh, (ROWS, P()), OUT_SPECS)


def case_second_derivatives_lanes_and_tangents():
    x, t, w = draws((2 * size, 2), True), draws((2 * size, 2), True, 2), draws((2, 3), True, 1)

    def on(mesh):
        f = fx.shard_map(all_collectives(size), mesh, (ROWS, P()), OUT_SPECS)
        loss = lambda x: weighted(f(x, w))
        second = fx.grad(lambda x: fx.grad(loss)(x).sum())(x)
        several = fx.vmap(lambda x: f(x, w))(fx.stack([x, t]))
        pushed = fx.jvp(lambda x: f(x, w), (x,), (t,))
        return leaves((second, several, pushed))

    found = on(the_mesh()), on(fx.Mesh((size,), ("i",), lanes=True))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def here(f):
    return fx.shard_map(f, the_mesh(), P("i"), P("i"), local=True)


def case_local_parts_of_every_dtype():
    total = here(lambda x: fx.psum(x, "i"))
    want = size * (size + 1) / 2
    for dtype in (fx.float32, fx.float64, fx.bfloat16, fx.float16, fx.int8, fx.int64, fx.complex64):
        x = fx.ones(3, dtype=dtype) * (rank + 1)
        for f in (total, fx.jit(total)):
            out = f(x)
            assert out.dtype == dtype and (np.asarray(out.astype(fx.complex64)) == want).all()
    some = fx.asarray([rank == 0, False])
    for f in (total, fx.jit(total)):
        assert np.asarray(f(some)).tolist() == [True, False]
    for f in (total, fx.jit(total)):
        assert f(fx.ones((0, 2))).shape == (0, 2)


def case_several_dtypes_at_once():
    tensors = {
        "a": fx.ones(3),
        "b": fx.ones((), dtype=fx.int64),
        "c": [fx.ones((2, 2)), fx.ones(1)],
    }
    total = fx.shard_map(lambda xs: fx.psum(xs, "i"), the_mesh(), P(), P(), local=True)
    for f in (total, fx.jit(total)):
        assert all((x == size).all() for x in leaves(f(tensors)))


def case_what_one_rank_needs_and_another_does_not():
    def uneven(x):
        first = fx.psum(x, "i")
        second = fx.psum(fx.exp(x * 0) * rank, "i")
        third, last = fx.psum(x * 2, "i"), fx.psum(x, "i")
        if rank == 0:
            return third + first
        return (third - second + second) + fx.sin(first) * 0 + last

    step = fx.jit(here(uneven))
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(step(fx.ones(4))), [3.0 * size] * 4)


def case_a_step_is_one_native_call_in_which_other_threads_run():
    step = fx.jit(here(lambda x: fx.psum(x * 2, "i") + 1))
    assert [e.native for e in step.lower(fx.ones(3)).executables] == [True]
    step(fx.ones(3))
    turns, going = [0], [True]

    def count():
        while going[0]:
            turns[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    if rank == 1:
        time.sleep(0.4)
    before = turns[0]
    step(fx.ones(3))
    waited = turns[0] - before
    going[0] = False
    thread.join()
    assert waited > 20 or rank == 1  # the others waited 0.4 s


def case_training_data_parallel_is_that_of_one_process():
    x, y = draws((4 * size, 3), False), draws((4 * size, 1), False, 1)

    def loss(w, x, y):
        return (((fx.tanh(x @ w["a"]) @ w["b"]) - y) ** 2).mean()

    def step(w, x, y):
        value, grads = fx.value_and_grad(loss)(w, x, y)
        value, grads = fx.pmean((value, grads), "i")
        return value, fx.tree.map(lambda p, g: p - 0.1 * g, w, grads)

    parallel = fx.jit(fx.shard_map(step, the_mesh(), (P(), P("i"), P("i")), P()))
    one = plain = {"a": draws((3, 8), False, 2), "b": draws((8, 1), False, 3)}
    for _ in range(5):
        value, one = parallel(one, x, y)
        want, grads = fx.value_and_grad(loss)(plain, x, y)
        plain = fx.tree.map(lambda p, g: p - 0.1 * g, plain, grads)
        np.testing.assert_allclose(float(value), float(want), rtol=1e-6)
    for a, b in zip(leaves(one), leaves(plain)):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)


def case_a_mesh_is_not_larger_than_the_world():
    try:
        fx.Mesh((size + 1,), ("i",))
    except fx.distributed.DistError as error:
        assert f"takes rank {size}, but the world has {size} ranks" in str(error)
    else:
        raise AssertionError
