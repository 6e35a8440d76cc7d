"""Every collective in each of several ranks, against NumPy's result of what all ranks have."""

import contextlib
import os
import time
from datetime import timedelta
from functools import reduce

import numpy as np

import fx
import fx.distributed as dist
from fx.distributed import ReduceOp, recorder

dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
OPS = {
    "SUM": np.add,
    "AVG": np.add,
    "PRODUCT": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}


def has(r, dtype, shape=(5, 3)):
    """What rank ``r`` has."""
    draw = np.random.default_rng([r, len(str(dtype))])
    x = draw.integers(0, 9, shape)
    return (x + 1j * x.T.reshape(shape) if dtype in fx.dtypes.COMPLEX else x).astype(dtype)


def same(x, want):
    assert isinstance(x, fx.Tensor) and x._dtype == want.dtype, (x, want)
    assert x.shape == want.shape and (x.numpy() == want).all(), (x, want)


def raises(kind, words, function, *args, **kwargs):
    try:
        out = function(*args, **kwargs)
    except kind as error:
        for word in [words] if isinstance(words, str) else words:
            assert word in str(error), str(error)
        return
    raise AssertionError(f"nothing was raised; it gave {out!r}")


def reduced(name, parts):
    dtype = parts[0].dtype
    wide = [
        p.astype(np.float32) if dtype.itemsize == 2 and dtype.kind in "fV" else p for p in parts
    ]
    out = reduce(OPS[name], wide)
    return (out / size if name == "AVG" else out).astype(dtype)


def every_reduction():
    for dtype in fx.dtypes.ALL:
        for name in OPS:
            op = getattr(ReduceOp, name)
            try:
                fx.distributed.reductions.check(op, dtype, "")
            except fx.errors.DTypeError:
                continue
            yield dtype, name, op


def case_all_reduce_of_every_dtype_and_operation():
    met = 0
    for dtype, name, op in every_reduction():
        want = reduced(name, [has(r, dtype) for r in range(size)])
        same(dist.all_reduce(fx.asarray(has(rank, dtype)), op), want)
        met += 1
    assert met > 70


def case_reduce_and_reduce_scatter_of_every_dtype_and_operation():
    for dtype, name, op in every_reduction():
        whole = reduced(name, [has(r, dtype, (size, 3, 3)) for r in range(size)])
        x = fx.asarray(has(rank, dtype, (size, 3, 3)))
        same(dist.reduce(x, size - 1, op), whole if rank == size - 1 else x.numpy())
        room = fx.zeros((3, 3), dtype=dtype)
        same(dist.reduce_scatter(room, list(x), op), whole[rank])
        same(dist.reduce_scatter_tensor(room, x, op), whole[rank])
        same(
            dist.reduce_scatter_tensor(fx.zeros(9, dtype=dtype), x.reshape(-1), op),
            whole[rank].ravel(),
        )


def case_nan_wins_in_every_rank_and_length():
    for dtype in (fx.float16, fx.float32, fx.float64):
        for length in (1, 100, 100_000):
            for of_nan in range(size):
                x = np.full(length, float(rank), dtype)
                x[0] = np.nan if rank == of_nan else rank
                for op, want in ((ReduceOp.MAX, size - 1), (ReduceOp.MIN, 0)):
                    for way in (dist.all_reduce, fx.jit(dist.all_reduce)):
                        got = way(fx.asarray(x), op).numpy()
                        assert np.isnan(got[0]) and (got[1:] == want).all(), (op, got)


def case_lists_of_single_numbers():
    x = fx.asarray(rank + 0.5)
    want = [r + 0.5 for r in range(size)]
    rooms = [fx.asarray(0.0) for _ in range(size)]
    assert [t.item() for t in dist.all_gather(rooms, x)] == want
    assert all(t.shape == () for t in dist.all_gather(rooms, x))
    got = dist.gather(x, rooms if rank == 0 else None)
    assert got is None or [t.item() for t in got] == want
    parts = [fx.asarray(rank + 10.0 * r) for r in range(size)]
    want = [r + 10.0 * rank for r in range(size)]
    assert [t.item() for t in dist.all_to_all(rooms, parts)] == want
    assert dist.reduce_scatter(rooms[0], parts).item() == sum(want)


def case_a_sum_with_a_factor():
    out = dist.all_reduce(fx.ones(3) * rank, ReduceOp.PREMUL_SUM(0.5))
    same(out, np.full(3, 0.5 * sum(range(size)), np.float32))


def case_moves_of_every_dtype():
    for dtype in fx.dtypes.ALL:
        all_of_them = [has(r, dtype) for r in range(size)]
        x, room = fx.asarray(all_of_them[rank]), fx.zeros((5, 3), dtype=dtype)
        for src in range(size):
            same(dist.broadcast(x, src), all_of_them[src])
            rooms = [room] * size if rank == src else None
            got = dist.gather(x, rooms, dst=src)
            assert (got is None) == (rank != src)
            for g, want in zip(got or [], all_of_them):
                same(g, want)
            parts = [has(src + 7 * r, dtype) for r in range(size)]
            listed = [fx.asarray(p) for p in parts] if rank == src else None
            same(dist.scatter(room, listed, src=src), parts[rank])
        for got, want in zip(dist.all_gather([room] * size, x), all_of_them, strict=True):
            same(got, want)
        whole = fx.zeros((size * 5, 3), dtype=dtype)
        same(dist.all_gather_into_tensor(whole, x), np.concatenate(all_of_them))
        whole = fx.zeros((size, 5, 3), dtype=dtype)
        same(dist.all_gather_into_tensor(whole, x), np.stack(all_of_them))


def case_parts_of_any_sizes_go_to_all():
    table = [[(r * 3 + c) % 4 for c in range(size)] for r in range(size)]  # rows from r to c
    column = [row[rank] for row in table]
    for dtype in fx.dtypes.ALL:
        mine = [np.full((n, 2), 10 * rank + c).astype(dtype) for c, n in enumerate(table[rank])]
        want = [np.full((n, 2), 10 * r + rank).astype(dtype) for r, n in enumerate(column)]
        rooms = [fx.zeros(w.shape, dtype=dtype) for w in want]
        for got, right in zip(
            dist.all_to_all(rooms, [fx.asarray(m) for m in mine]), want, strict=True
        ):
            same(got, right)
        out = fx.zeros((sum(column), 2), dtype=dtype)
        x = fx.asarray(np.concatenate(mine))
        same(dist.all_to_all_single(out, x, column, table[rank]), np.concatenate(want))
    x = fx.arange(size * 2)
    same(dist.all_to_all_single(fx.zeros_like(x), x), np.array([2 * rank, 2 * rank + 1] * size))


def case_what_holds_a_value_is_filled():
    p = fx.nn.Parameter(fx.ones(3) * rank)
    (p * (rank + 1)).sum().backward()
    total = sum(range(1, size + 1))
    dist.all_reduce(p.grad)
    assert p.grad.tolist() == [total] * 3
    dist.broadcast(p.data, size - 1)
    dist.all_reduce(p.data[0:1])
    assert p.tolist() == [size * (size - 1), size - 1, size - 1]
    buffer = fx.nn.Buffer(fx.zeros(3))
    listed = [buffer] + [fx.zeros(3)] * (size - 1)
    dist.all_gather(listed, fx.ones(3) * (rank + 5))
    assert buffer.tolist() == [5.0] * 3 and listed[0] is buffer
    assert listed[-1].tolist() == [size + 4.0] * 3
    assert p.requires_grad and p.is_leaf


def case_a_result_that_nobody_would_see_is_refused():
    def line():
        dist.all_reduce(x)

    def other():
        dist.all_gather_into_tensor(fx.zeros(size * 2), x)

    x = fx.ones(2)
    raises(fx.errors.InPlaceError, "write x = all_reduce(x)", line)
    raises(fx.errors.InPlaceError, "out = all_gather_into_tensor(out, x)", other)
    assert dist.all_reduce(x).tolist() == [size] * 2 and x.tolist() == [1, 1]


def case_works():
    x = fx.nn.Buffer(fx.ones(4) * rank)
    first = dist.all_reduce(x, async_op=True)
    second = dist.broadcast(y := fx.nn.Buffer(fx.ones(2) * rank), 0, async_op=True)
    third = dist.all_reduce(fx.ones(30000, dtype=fx.bfloat16), async_op=True)  # of two steps
    fourth = dist.all_reduce(fx.ones(2), async_op=True)
    for work in (fourth, third, second, first):
        assert work.wait() and work.is_completed() and work.is_success() and not work.exception()
    assert x.tolist() == [sum(range(size))] * 4 and y.tolist() == [0, 0]
    assert (third.value().numpy() == size).all()
    assert fourth.result()[0].tolist() == [size] * 2
    called = []
    later = dist.all_reduce(fx.ones(2), async_op=True).get_future().then(lambda f: f.value()[0] * 3)
    later.add_done_callback(called.append)
    assert later.wait().tolist() == [3 * size] * 2 and later.done() and called == [later]


def case_the_flight_recorder_knows_each():
    dist.all_reduce(fx.nn.Buffer(fx.ones(6)))
    work = dist.all_reduce(fx.nn.Buffer(fx.ones(3)), async_op=True)
    work.wait()
    done, last = recorder.mine().records[-2:]
    assert (done.op, done.bytes, last.bytes) == ("all_reduce", 24, 12)
    assert done.state == last.state == "done" and __file__ in last.line


def case_messages():
    right, left = (rank + 1) % size, (rank - 1) % size
    x = fx.asarray(has(rank, fx.dtypes.float64))
    going = dist.isend(x, right, tag=3)
    coming = dist.irecv(fx.zeros((5, 3), dtype=fx.float64), left, tag=3)
    assert going.wait() and coming.wait() and coming.source_rank() == left
    same(coming.value(), has(left, fx.dtypes.float64))
    place = fx.nn.Buffer(fx.zeros((5, 3), dtype=fx.float64))
    ops = [dist.P2POp(dist.isend, x, left), dist.P2POp(dist.irecv, place, right)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(place.read(), has(right, fx.dtypes.float64))
    if rank == 0:
        came = {dist.recv(place) for _ in range(size - 1)}
        assert came == set(range(1, size))
    else:
        dist.send(x, 0)
    dist.barrier()
    if rank == 0:
        dist.send(fx.ones(2), 1)
    elif rank == 1:
        raises(
            dist.DistError,
            ["float32[3] is 12 bytes", "rank 0 sent 8"],
            dist.recv,
            fx.nn.Buffer(fx.ones(3)),
            0,
        )
    dist.barrier()


def case_objects():
    listed = [None] * size
    dist.all_gather_object(listed, {"rank": rank, "text": "x" * 100 * rank})
    assert [o["rank"] for o in listed] == list(range(size)) and len(listed[-1]["text"]) == 100 * (
        size - 1
    )
    dist.gather_object(rank * 2, listed if rank == 1 else None, dst=1)
    assert rank != 1 or listed == [2 * r for r in range(size)]
    told = [3, "four", None] if rank == 1 else [None] * 3
    dist.broadcast_object_list(told, src=1)
    assert told == [3, "four", None]
    out = [None]
    dist.scatter_object_list(out, [{r: "y" * r} for r in range(size)] if rank == 0 else None, src=0)
    assert out == [{rank: "y" * rank}]
    if rank == 0:
        dist.send_object_list([(1, 2), "three"], 1)
    elif rank == 1:
        told = [None, None]
        assert dist.recv_object_list(told, 0) == 0 and told == [(1, 2), "three"]


def case_objects_or_an_error_for_all():
    from fx.torch.distributed import collective_utils  # here: a file with it writes

    world = dist.group.WORLD
    assert collective_utils.broadcast(lambda: 10 * rank, rank=1, pg=world) == 10
    assert collective_utils.all_gather(lambda: rank, pg=world) == list(range(size))
    pair = dist.new_group(range(1, size))
    if rank:
        assert collective_utils.broadcast(lambda: rank, rank=size > 2, pg=pair) == size - 1
    fails = lambda: 1 // (rank - 1)
    named = lambda: collective_utils.broadcast(fails, rank=1, stage_name="x", pg=world)
    for call, words in (
        (named, "Rank 1 failed: stage x: exception integer division"),
        (lambda: collective_utils.broadcast(None, success=False, pg=world), "Rank 0 failed"),
        (lambda: collective_utils.all_gather(fails, pg=world), "(1, ZeroDivisionError("),
        (lambda: collective_utils.all_gather(0, str(rank), pg=world), "rank 0 is at stage 0"),
        (lambda: collective_utils.all_gather_object_enforce_type(
            world, [None] * size, 1 if rank else "one"), "Object type at index 1"),
    ):  # fmt: skip
        raises((RuntimeError, TypeError), words, call)


def case_several_together():
    xs = [fx.nn.Buffer(fx.ones(n) * rank) for n in (1, 4, 3000)]
    with dist.Coalesced():
        for x in xs:
            dist.all_reduce(x)
    assert all((x.numpy() == sum(range(size))).all() for x in xs)
    assert [x.tolist() for x in dist.all_reduce_coalesced([fx.ones(1), fx.ones(2)])] == [
        [size],
        [size] * 2,
    ]
    # as many tensors as ranks, of one shape: the lists are of ranks, not of tensors
    rooms = [[fx.zeros(2) for _ in range(size)] for _ in range(size)]
    mine = [fx.ones(2) * (10 * rank + i) for i in range(size)]
    want = [[[10.0 * r + i] * 2 for i in range(size)] for r in range(size)]
    for got in (
        dist.all_gather_coalesced(rooms, mine),
        dist.all_gather_coalesced(rooms, mine, async_op=True).value(),
        fx.jit(dist.all_gather_coalesced)(rooms, mine),
        rooms,
    ):
        assert [[x.tolist() for x in row] for row in got] == want
    rooms = [[fx.zeros(1), fx.zeros((2, 0)), fx.zeros((2, 3))] for _ in range(size)]
    got = dist.all_gather_coalesced(rooms, [fx.ones(r.shape) * rank for r in rooms[0]])
    assert [row[2].tolist() for row in got] == [[[float(r)] * 3] * 2 for r in range(size)]
    rooms = [[fx.zeros(1)] * 2] * size
    raises(ValueError, "2 tensors for 1", dist.all_gather_coalesced, rooms, [fx.ones(1)])


def case_of_a_shape_for_each_rank():
    shapes = [(r + 1, 2) for r in range(size)]
    for dtype in (fx.float32, fx.bfloat16, fx.int64):
        rooms = [fx.zeros(shape, dtype=dtype) for shape in shapes]
        for got in (
            dist.all_gather(rooms, fx.asarray(has(rank, dtype, shapes[rank]))),
            dist.all_gather(
                rooms, fx.asarray(has(rank, dtype, shapes[rank])), async_op=True
            ).value(),
        ):
            for r, x in enumerate(got):
                same(x, has(r, dtype, shapes[r]))
        listed = [[has(r + s, dtype, shapes[s]) for s in range(size)] for r in range(size)]
        for name in ("SUM", "MAX"):
            got = dist.reduce_scatter(
                fx.zeros(shapes[rank], dtype=dtype), [fx.asarray(x) for x in listed[rank]],
                getattr(ReduceOp, name),
            )  # fmt: skip
            same(got, reduced(name, [row[rank] for row in listed]))
    rooms = [fx.zeros(shape) for shape in shapes]
    one_wrong = fx.ones((4, 2) if rank == size - 1 else shapes[rank])
    raises(dist.DistError, "this rank has [4, 2]", dist.all_gather, rooms, one_wrong)
    raises(dist.DistError, "this rank has [4, 2]", dist.reduce_scatter, one_wrong, rooms)


def case_groups():
    pair = dist.new_group([1, 0])
    assert dist.get_rank(pair) == (rank if rank < 2 else -1)
    if rank < 2:
        assert dist.get_process_group_ranks(pair) == [0, 1] and pair.size() == 2
        assert dist.all_reduce(fx.ones(1), group=pair).item() == 2
        assert dist.broadcast(fx.ones(1) * rank, group_src=1, group=pair).item() == 1
    else:
        raises(
            dist.DistError, f"rank {rank} does not belong", dist.all_reduce, fx.ones(1), group=pair
        )
        raises(ValueError, "does not belong", dist.get_backend, pair)
    raises(AttributeError, "write all_reduce(", getattr, dist.group.WORLD, "allreduce")
    turned = dist.new_group(list(range(size))[::-1], sort_ranks=False)
    assert dist.get_rank(turned) == size - 1 - rank
    assert (
        dist.get_global_rank(turned, 0) == size - 1 and dist.get_group_rank(turned, 0) == size - 1
    )
    mine, listed = dist.new_subgroups(1)
    assert mine.size() == 1 and len(listed) == size
    assert dist.all_reduce(fx.ones(2) * rank, group=mine).tolist() == [rank] * 2
    mine, listed = dist.new_subgroups_by_enumeration([[0], list(range(1, size))])
    assert mine.size() == (1 if rank == 0 else size - 1)
    assert dist.split_group(None, [[1], [0]]) is not None or rank > 1
    assert dist.get_pg_count() > 3
    if rank < 2:
        dist.destroy_process_group(pair)
        raises(dist.DistError, "is destroyed", dist.all_reduce, fx.ones(1), group=pair)


def case_bad_groups():
    raises(ValueError, "within the world_size", dist.new_group, [0, size])
    raises(ValueError, "different ones", dist.new_group, [0, 0])
    raises(
        ValueError,
        "must be divisible by 'group_size=",
        dist.new_subgroups,
        size - 1 if size > 2 else 3,
    )
    raises(ValueError, "not disjoint", dist.new_subgroups_by_enumeration, [[0, 1], [1]])
    raises(ValueError, "is not part of group", dist.broadcast, fx.ones(1), size + 1)
    raises(ValueError, "twice!", dist.init_process_group, "mpi")


def case_what_differs_between_ranks_is_shown():
    os.environ["FX_DIST_DEBUG"] = "1"
    try:
        what_differs_is_shown()
    finally:
        del os.environ["FX_DIST_DEBUG"]


def what_differs_is_shown():
    x = fx.ones(3 + rank)
    words = [
        f"rank {r}: all_reduce(float32[{3 + r}], RedOpType.SUM) at {__file__}" for r in range(size)
    ]
    raises(dist.DistError, words, dist.all_reduce, x)
    x = fx.ones(3, dtype=fx.float32 if rank else fx.float64)
    raises(
        dist.DistError,
        ["rank 0: all_reduce(float64[3]", "rank 1: all_reduce(float32[3]"],
        dist.all_reduce,
        x,
    )
    op = ReduceOp.MAX if rank else ReduceOp.MIN
    raises(dist.DistError, ["RedOpType.MIN", "RedOpType.MAX"], dist.all_reduce, fx.ones(3), op)
    if rank:
        raises(
            dist.DistError, ["rank 0: barrier", "rank 1: broadcast"], dist.broadcast, fx.ones(3), 0
        )
    else:
        raises(dist.DistError, ["rank 0: barrier", "rank 1: broadcast"], dist.barrier)
    raises(dist.DistError, "src=0", dist.broadcast, fx.ones(3), 0 if rank else 1)
    assert dist.all_reduce(fx.ones(3)).tolist() == [size] * 3  # the group goes on


def goes_on(group):
    n = 20_000
    for x in (fx.ones(3) * rank, fx.ones(n) * rank, fx.ones(n, dtype=fx.bfloat16)):
        for way in (dist.all_reduce, fx.jit(lambda x: dist.all_reduce(x, group=group))):
            more = {"group": group} if way is dist.all_reduce else {}
            want = size if x._dtype == fx.bfloat16 else sum(range(size))
            assert (way(x, **more).numpy() == want).all()
    got = dist.all_gather([fx.zeros(2)] * size, fx.ones(2) * rank, group=group)
    assert [g[0].item() for g in got] == list(range(size))


def case_a_group_goes_on_after_a_call_that_did_not_fit():
    for group in (dist.group.WORLD, dist.new_group()):
        goes_on(group)
        for n in (3, 20_000, 40_000):  # by MPI, and by pieces
            x = fx.ones(n + rank)
            words = [f"rank {r}: all_reduce(float32[{n + r}]" for r in range(size)]
            raises(dist.DistError, words, dist.all_reduce, x, group=group)
            goes_on(group)
        x = fx.ones(20_000)
        words = ["rank 0: barrier", "rank 1: all_reduce(float32[20000]"]
        if rank:
            raises(dist.DistError, words, dist.all_reduce, x, group=group)
        else:
            raises(dist.DistError, words, dist.barrier, group=group)
        goes_on(group)


def case_works_around_one_that_did_not_fit():
    group = dist.new_group()
    before = dist.all_reduce(fx.ones(20_000), group=group, async_op=True)
    wrong = dist.all_reduce(fx.ones(3 + rank), group=group, async_op=True)
    behind = dist.all_reduce(fx.ones(3), group=group, async_op=True)
    raises(dist.DistError, "do not call the same", wrong.wait)
    assert (before.value().numpy() == size).all()
    raises(dist.DistError, "was under way", behind.wait)
    goes_on(group)


def case_what_differs_in_works():
    apart = dist.new_group()
    os.environ["FX_DIST_DEBUG"] = "1"
    try:
        work = dist.all_reduce(fx.ones(3 + rank), group=apart, async_op=True)
    finally:
        del os.environ["FX_DIST_DEBUG"]
    raises(dist.DistError, [f"float32[{3 + r}]" for r in range(size)], work.wait)
    assert isinstance(work.exception(), dist.DistError) and not work.is_success()


def case_parts_that_do_not_fit_are_named():
    sizes = [1] * size
    sizes[(rank + 1) % size] = 2
    left = (rank - 1) % size
    words = f"rank {left} of {dist.group.WORLD!r} sends 8 bytes to rank {rank}, where there is room"
    x = fx.ones(size + 1)
    raises(dist.DistError, words, dist.all_to_all_single, fx.ones(size), x, None, sizes)


def case_bad_arguments():
    x = fx.ones(2)
    raises(TypeError, "op is a ReduceOp", dist.all_reduce, x, "sum")
    raises(TypeError, "expected a Tensor, got float", dist.all_reduce, 1.0)
    raises(
        TypeError,
        "RedOpType.AVG has no meaning for int64",
        dist.all_reduce,
        fx.arange(2),
        ReduceOp.AVG,
    )
    raises(ValueError, "a list of 1 tensors, and the group has", dist.all_gather, [x], x)
    raises(ValueError, "expected shape (2,), got (3,)", dist.all_gather, [fx.ones(3)] * size, x)
    raises(
        TypeError, "expected dtype float32, got int64", dist.all_gather, [fx.arange(2)] * size, x
    )
    raises(
        ValueError, "rows do not divide", dist.all_to_all_single, fx.ones(size), fx.ones(size + 1)
    )
    raises(ValueError, "by its number in the world, or in the group", dist.broadcast, x)
    raises(RuntimeError, "is not on the CPU", dist.all_reduce, fx.ones(2, device="meta"))
    raises(
        fx.errors.FxError, "other processes see numbers", fx.vmap(dist.all_reduce), fx.ones((2, 2))
    )


def case_a_function_that_talks_to_others_runs_uncompiled():
    step = fx.jit(lambda x: dist.all_reduce(x * 2) + 1)
    for k in range(3):
        assert (
            step(fx.ones(2) * (rank + k)).tolist() == [2 * sum(r + k for r in range(size)) + 1] * 2
        )


def case_who_does_not_come_in_time():
    soon = dist.new_group(timeout=timedelta(seconds=0.3))
    time.sleep(0.6 * (rank != 0))
    words = ["has waited 0.3 s", f"all_reduce of {soon!r} at {__file__}"]
    if rank == 0:
        raises(dist.DistError, words, dist.all_reduce, fx.ones(2), group=soon)
    else:  # what rank 0 has sent is there, and it looks no more
        with contextlib.suppress(dist.DistError):
            _ = dist.all_reduce(fx.ones(2), group=soon)
    dist.barrier()
    if rank == size - 1:
        time.sleep(0.8)
    words = f"rank {size - 1} did not come within 0.3 s" if rank == 0 else "did not answer"
    raises(dist.DistStoreError, words, dist.monitored_barrier, soon, wait_all_ranks=True)
    dist.monitored_barrier(timeout=5.0)
    raises(TypeError, "write datetime.timedelta(seconds=5)", dist.monitored_barrier, timeout=5)


def case_ordered_sums_are_those_of_pairs():
    whole = dist.group.WORLD
    whole.ordered = True
    try:
        for n in (3, 9000):
            parts = [
                np.random.default_rng(r).normal(size=n).astype(np.float32) for r in range(size)
            ]
            level = parts
            while len(level) > 1:
                pairs = [a + b for a, b in zip(level[::2], level[1::2])]
                level = pairs + level[2 * len(pairs) :]
            x = fx.asarray(parts[rank])
            same(dist.all_reduce(x), level[0])
            same(dist.all_reduce(x, ReduceOp.AVG), level[0] / np.float32(size))
            same(dist.reduce(x, 0), level[0] if rank == 0 else parts[rank])
            out = dist.all_reduce(x[: n // 3])  # the same bits in any cut
            same(out, level[0][: n // 3])
    finally:
        whole.ordered = False


def case_wide_sums_of_narrow_floats():
    for dtype in (fx.dtypes.float16, fx.dtypes.bfloat16):
        x = np.full(4, 1.0 if rank else 256.0).astype(dtype)  # 257 is no bfloat16
        want = (np.float32(256) + np.float32(size - 1)).astype(dtype)
        assert (dist.all_reduce(fx.asarray(x)).numpy() == want).all()


def case_the_end_and_another_beginning():
    assert dist.get_backend() == "mpi" and dist.is_initialized()
    dist.destroy_process_group()
    assert not dist.is_initialized() and dist.get_pg_count() == 0
    raises(ValueError, "has not been initialized", dist.all_reduce, fx.ones(2))
    dist.init_process_group("mpi", reduction="ordered")
    assert dist.all_reduce(fx.ones(2)).tolist() == [size] * 2
    dist.destroy_process_group()
    raises(
        ValueError,
        "the launcher has said",
        dist.init_process_group,
        "mpi",
        rank=size,
        world_size=size,
    )
