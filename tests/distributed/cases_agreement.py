"""Ranks that do not do the same on a mesh are named before a number is wrong, and go on."""

from datetime import timedelta
from itertools import combinations

import numpy as np

import fx
import fx.distributed as dist
from fx import P
from fx.distributed import Replicate, Shard

dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
mesh = fx.Mesh((size,), ("i",))
LARGE = 6000  # floats that fx adds by pieces


def here(f):
    return fx.shard_map(f, mesh, P(), P(), local=True)


def part(n=None):
    n = 4 * size if n is None else n
    return fx.from_numpy(np.arange(n, dtype=np.float32) + rank)


def refused(words, function, *args):
    """All ranks raise, and all that was said is in what they raise."""
    try:
        out = function(*args)
    except dist.DistError as error:
        assert "do not call the same" in str(error), str(error)
        for word in (words,) if isinstance(words, str) else words:
            assert word in str(error), (word, str(error))
        assert "plan of" not in str(error) and "cases_agreement.py:" in str(error), str(error)
    else:
        raise AssertionError(f"nothing was raised, but {out}")
    goes_on()


def goes_on():
    """Sums are right, eagerly and compiled."""
    for n in (4, LARGE):
        want = np.arange(n) * size + sum(range(size))
        for f in (total, compiled):
            np.testing.assert_array_equal(np.asarray(f(part(n))), want.astype(np.float32))


total = here(lambda x: fx.psum(x, "i"))
compiled = fx.jit(total)
COLLECTIVES = {
    "psum": lambda x: fx.psum(x, "i"),
    "pmax": lambda x: fx.pmax(x, "i"),
    "pmin": lambda x: fx.pmin(x, "i"),
    "all_gather": lambda x: fx.all_gather(x, "i", tiled=True),
    "psum_scatter": lambda x: fx.psum_scatter(x, "i", tiled=True),
    "all_to_all": lambda x: fx.all_to_all(x, "i", 0, 0, tiled=True),
    "pbroadcast": lambda x: fx.pbroadcast(x, "i", size - 1),
    "ppermute": lambda x: fx.ppermute(x, "i", [(k, (k + 1) % size) for k in range(size)]),
}


def case_an_eager_rank_and_a_compiled_one():
    for n in (2, 4, 5, LARGE):  # 4: as many bytes as a comparison
        compiled(part(n))
        for alone in range(size):
            words = [f"rank {alone}: psum(float32[{n}])", f"compiled code(psum(float32[{n}])"]
            refused(words, total if rank == alone else compiled, part(n))
            words = [f"rank {alone}: compiled code(psum(float32[{n}])", f": psum(float32[{n}])"]
            refused(words, compiled if rank == alone else total, part(n))


def case_any_two_collectives():
    for first, second in combinations(COLLECTIVES, 2):
        mine = COLLECTIVES[second if rank else first]
        words = [f"rank 0: {first}(float32[", f"rank 1: {second}(float32["]
        refused(words, here(mine), part())
        words = [f"rank 0: compiled code({first}(", f"rank 1: compiled code({second}("]
        refused(words, fx.jit(here(mine)), part())


def case_other_shapes_dtypes_and_sources():
    refused(["rank 0: psum(float32[4])", "rank 1: psum(float32[5])"], total, part(5 if rank else 4))
    as_ints = lambda x: total(x.astype(fx.int32)) if rank else total(x)
    refused(["psum(float32[4])", "psum(int32[4])"], as_ints, part(4))
    from_each = here(lambda x: fx.pbroadcast(x, "i", rank))
    refused(["source=0", "source=1"], from_each, part())
    shift = 1 + (rank == 0)
    around = here(lambda x: fx.ppermute(x, "i", [(k, (k + shift) % size) for k in range(size)]))
    if size > 2:
        refused("sources=", around, part())


def case_branches_that_send_other_messages():
    for first, second in combinations(("psum", "pmax", "pmin", "ppermute"), 2):
        branches = COLLECTIVES[second], COLLECTIVES[first]
        f = lambda x, branches=branches: fx.cond(x[0] > 0, *branches, x)
        words = [f"rank 0: compiled code({first}(", f"rank 1: compiled code({second}("]
        refused(words, fx.jit(here(f)), part())
        words = [f"rank 0: {first}(", f"rank 1: {second}("]
        refused(words, here(f), part())
    f = lambda x: fx.cond(x[0] > 0, lambda x: fx.psum(x * 2, "i"), lambda x: fx.psum(x, "i"), x)
    # all lanes compute both branches; a rank would have what others send in theirs
    refused(["in branch 0", "in branch 1"], fx.jit(here(f)), part())
    lanes = fx.vmap(f, axis_name="i")(fx.stack([part() - rank + 1 + r for r in range(size)]))
    np.testing.assert_array_equal(np.asarray(fx.jit(here(f))(part() + 1)), np.asarray(lanes[rank]))


def case_branches_that_send_alike_to_a_group():
    add = lambda scale: lambda x: dist.all_reduce(x * scale)
    f = fx.jit(lambda x: fx.cond(x[0] > 0, add(2), add(1), x))
    want = sum((np.arange(4) + r) * (1 + (r > 0)) for r in range(size))
    np.testing.assert_array_equal(np.asarray(f(part(4))), want.astype(np.float32))


def case_a_branch_that_sends_nothing():
    def f(x):
        y = fx.cond(x[0] > 0, COLLECTIVES["psum"], lambda x: x, x)
        return fx.pmax(y, "i")

    sends = f"compiled code(psum(float32[{4 * size}])"
    refused(["rank 0: compiled code(pmax(", f"rank 1: {sends}"], fx.jit(here(f)), part())
    # and on the way out of a loop, whose other runs all take
    g = lambda x: fx.fori_loop(0, 3, lambda i, x: f(x), x)
    refused(["rank 0: compiled code(pmax(", f"rank 1: {sends}"], fx.jit(here(g)), part())
    same = fx.jit(here(g))(part() - rank + 1)
    grown = fx.vmap(g, axis_name="i")(fx.stack([part() - rank + 1] * size))[rank]
    np.testing.assert_array_equal(np.asarray(same), np.asarray(grown))


def case_loops_of_which_some_end_sooner():
    def f(x):
        x = fx.while_loop(lambda v: v[0] < 10, lambda v: v + 1 + 0 * fx.pmin(v, "i"), x)
        return fx.psum(x, "i")

    refused(["compiled code(pmin(", "compiled code(psum("], fx.jit(here(f)), part())
    refused(["pmin(", "psum("], here(f), part())
    out = fx.jit(here(f))(part() - rank)
    np.testing.assert_array_equal(np.asarray(out), np.asarray(here(f)(part() - rank)))


def case_one_branch_and_an_eager_rank():
    f = lambda x: fx.cond(x[0] >= 0, COLLECTIVES["psum"], COLLECTIVES["pmax"], x)
    words = ["rank 0: compiled code(psum(", "rank 1: psum("]
    refused(words, here(f) if rank else fx.jit(here(f)), part())


def case_tensors_on_a_mesh():
    devices = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
    x = dist.distribute_tensor(fx.ones((2 * size, 3)), devices, [Shard(0)])
    w = dist.distribute_tensor(fx.ones((3, 2)), devices, [Replicate()])
    f = lambda w: fx.grad(lambda w: ((x @ w) ** 2).sum())(w).redistribute(devices, [Replicate()])
    g = fx.jit(f)
    want = f(w).to_local()
    g(w)
    words = ["compiled code(psum(float32[3,2])", ": psum(float32[3, 2])"]
    refused(words, g if rank else f, w)
    refused(words, f if rank else g, w)
    gathers = lambda w: x.redistribute(devices, [Replicate()])
    refused(["all_gather(float32[2, 3])", "psum(float32[3, 2])"], f if rank else gathers, w)
    for h in (f, g):
        np.testing.assert_array_equal(np.asarray(h(w).to_local()), np.asarray(want))


def case_two_axes_whose_messages_are_alike():
    if size % 2:
        return
    square = fx.Mesh((2, size // 2), ("a", "b"))

    def f(x, turn):
        a = lambda x: fx.psum(fx.pmax(x, "a"), "b")
        b = lambda x: fx.pmax(fx.psum(x, "a"), "b")
        return fx.cond(turn, a, b, x)

    on = fx.shard_map(f, square, (P(), P()), P(), local=True)
    refused(["compiled code(pmax(", "compiled code(psum("], fx.jit(on), part(), rank < size // 2)
