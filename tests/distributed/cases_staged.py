"""Collectives of groups, and DistributedDataParallel, in functions that jit compiles."""

import signal
import time
import warnings
from datetime import timedelta

import numpy as np

import fx
import fx.distributed as dist
from fx import limits, nn
from fx.distributed import ReduceOp, recorder
from fx.nn.parallel import DistributedDataParallel

warnings.simplefilter("error")  # nothing runs uncompiled unless a case says so
dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()


def refused(words, function, *args):
    try:
        function(*args)
    except (RuntimeError, ValueError) as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError("nothing was raised")


def mine(dtype="float32", n=5):
    return fx.asarray(np.arange(1, n + 1) * (rank + 2) / 3).astype(dtype)


def same(a, b):
    a, b = a.numpy(), b.numpy()
    return a.dtype == b.dtype and np.allclose(a.astype("float64"), b.astype("float64"), 1e-6, 0)


def case_reductions_are_those_of_eager_calls():
    for op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PREMUL_SUM(0.5)):
        for dtype in ("float32", "float64", "bfloat16", "float16"):
            f = lambda x, op=op: dist.all_reduce(x * 2, op) + 1
            g = fx.jit(f)
            for _ in range(3):
                x = mine(dtype)
                assert same(g(x), f(x)), (op, dtype)


def moves(dtype):
    """Collectives of x (size, 3), each a function that gives what came here, or None."""
    last = size - 1
    rooms = lambda x: [fx.zeros_like(x[0])] * size
    at = lambda here, root: here if rank == root else None
    own = lambda out, root: out if rank == root else None
    for op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.AVG, ReduceOp.PREMUL_SUM(0.5)):
        yield lambda x, op=op: own(dist.reduce(x, last, op), last)
        yield lambda x, op=op: dist.reduce_scatter(x[0], list(x), op)
        yield lambda x, op=op: dist.reduce_scatter_tensor(x[0], x, op)
        yield lambda x, op=op: dist.reduce_scatter_tensor(x[0], x.reshape(-1), op)
    yield lambda x: dist.all_gather(rooms(x), x[0])
    yield lambda x: dist.all_gather_into_tensor(fx.zeros(size * 3, dtype=dtype), x[1])
    yield lambda x: dist.all_gather_into_tensor(fx.zeros((size, 3), dtype=dtype), x[1])
    yield lambda x: dist.gather(x[1], at(rooms(x), last), dst=last)
    yield lambda x: dist.scatter(x[0], at(list(x), last), src=last)
    yield lambda x: dist.all_to_all(rooms(x), list(x))
    yield lambda x: dist.all_to_all_single(fx.zeros_like(x), x)
    yield lambda x: dist.all_gather(rooms(x), x[0], async_op=True).value()


def case_every_collective_is_that_of_eager_calls():
    for dtype in ("float32", "bfloat16"):
        met = 0
        for f in moves(dtype):
            jitted, met = fx.jit(f), met + 1
            for k in range(2):
                x = mine(n=3 * size) + 7 * k
                x = x.reshape(size, 3).astype(dtype)
                expected, out = f(x), jitted(x)
                if expected is None or isinstance(expected, fx.Tensor):
                    expected, out = [expected], [out]
                for a, b in zip(out, expected, strict=True):
                    assert (a is b is None) or same(a, b), (dtype, met)
        assert met > 15


def case_ordered_parts_have_the_bits_of_eager_ones():
    dist.group.WORLD.ordered = True
    try:
        x = (mine(n=999 * size) + 0.1).reshape(size, 999)
        f = lambda x: dist.reduce_scatter_tensor(x[0], x)
        assert (fx.jit(f)(x).numpy() == f(x).numpy()).all()
    finally:
        dist.group.WORLD.ordered = False


def case_moves_are_one_native_call_and_fill_places():
    room, part = nn.Buffer(fx.zeros((size, 3))), nn.Buffer(fx.zeros(3))

    @fx.jit
    def step(x):
        dist.all_gather_into_tensor(room, x * 2)
        dist.reduce_scatter_tensor(part, room)
        return x + part

    for k in range(3):
        x = mine(n=3) + k
        out = step(x)
        whole = dist.all_gather([fx.zeros(3)] * size, x * 2)
        assert all(same(row, want) for row, want in zip(room, whole))
        assert same(part.read(), whole[rank] * size) and same(out, x + whole[rank] * size)
    lowered = step.lower(x)
    assert [e.native for e in lowered.executables] == [True]


def case_what_is_no_node_runs_uncompiled_by_name():
    x = mine(n=size)
    for f, words in (
        (lambda x: dist.all_reduce(x, ReduceOp.PRODUCT), "a reduction by"),
        (lambda x: dist.reduce_scatter(x[0], list(x), ReduceOp.PRODUCT), "a reduction by"),
        (lambda x: dist.all_to_all([x[:1]] + [x[:2]] * (size - 1),
                                   [x[: 1 + (rank != 0)]] * size), "parts of several shapes"),
        (lambda x: (dist.barrier(), x)[1], "barrier"),
    ):  # fmt: skip
        expected = f(x)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            out = fx.jit(f)(x)
        assert any(words in str(w.message) for w in told), words
        pairs = [(out, expected)] if isinstance(out, fx.Tensor) else zip(out, expected)
        assert all(same(a, b) for a, b in pairs)


def case_ordered_sums_have_the_bits_of_eager_ones():
    dist.group.WORLD.ordered = True
    try:
        x = mine(n=1000) + 0.1
        out = fx.jit(lambda x: dist.all_reduce(x))(x)
        assert (out.numpy() == dist.all_reduce(x).numpy()).all()
    finally:
        dist.group.WORLD.ordered = False


def by_pairs(parts):
    while len(parts) > 1:
        pairs = [a + b for a, b in zip(parts[::2], parts[1::2])]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def case_large_sums_are_by_pairs_and_of_the_same_bits_eagerly():
    for n, dtype in ((5003, "float32"), (20000, "float32"), (9001, "float64")):
        draws = [np.random.default_rng(r).normal(size=n).astype(dtype) for r in range(size)]
        x, expected = fx.asarray(draws[rank]), by_pairs(list(draws))
        both = fx.jit(lambda x: dist.all_reduce(x))
        for out in (dist.all_reduce(x), both(x), both(x)):
            assert (out.numpy() == expected).all(), (n, dtype)
        work = dist.all_reduce(x, async_op=True)
        small = dist.all_reduce(mine())  # which is asked for, and through, before the other is
        assert (work.value().numpy() == expected).all() and small.shape == (5,)


def case_large_gradients_are_one_message_by_pieces():
    def gradients(jitted):
        fx.manual_seed(1)
        wrapped = DistributedDataParallel(nn.Sequential(nn.Linear(70, 80), nn.Linear(80, 33)))

        def step(x):
            wrapped.zero_grad()
            (wrapped(x) ** 2).sum().backward()

        x = fx.asarray(np.random.default_rng(rank).normal(size=(7, 70)).astype(np.float32))
        for _ in range(2):
            (fx.jit(step) if jitted else step)(x)
        return [p.grad.numpy() for p in wrapped.parameters()]

    for a, b in zip(gradients(True), gradients(False)):
        assert np.allclose(a, b, 1e-5, 1e-5)


def case_a_signal_ends_a_wait_of_compiled_code():
    apart = dist.new_group()
    f = fx.jit(lambda x: dist.all_reduce(x, group=apart))
    f(mine())
    dist.barrier()

    def handler(number, frame):
        raise KeyboardInterrupt("as Ctrl-C does")

    if rank == 0:
        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            f(mine())
        except KeyboardInterrupt as error:
            assert str(error) == "as Ctrl-C does"
        else:
            raise AssertionError("the wait ended without the others")
        finally:
            signal.signal(signal.SIGALRM, before)
    dist.barrier()


def case_places_are_filled():
    weight = nn.Parameter(mine())

    @fx.jit
    def step(x):
        with fx.no_grad():
            dist.all_reduce(weight)
            work = dist.broadcast(weight, src=size - 1, async_op=True)
            work.wait()
        return x + weight.detach()

    before, out = dist.all_reduce(weight.detach()), step(fx.zeros(5))
    assert same(weight.detach(), before) and same(out, before)
    for _ in range(2):
        before = dist.all_reduce(weight.detach())
        step(fx.zeros(5))
        assert same(weight.detach(), before)


def case_a_group_has_one_name_in_all_ranks_and_another_one_when_it_is_made_again():
    dist.new_group([0])
    whole, keys = dist.new_group(), []
    for _ in range(2):
        each = dist.new_group(range(size), use_local_synchronization=True)
        f = fx.jit(lambda x, g=each: dist.all_reduce(x, group=g))
        assert same(f(mine()), dist.all_reduce(mine()))
        keys.append(each.axis.key)
        dist.barrier()
        dist.destroy_process_group(each)
    fx.jit(lambda x: dist.all_reduce(x, group=whole))(mine())
    keys.append(whole.axis.key)
    assert len(set(keys)) == 3, keys
    told = [None] * size
    dist.all_gather_object(told, keys)
    assert told == [keys] * size, told


def case_groups_of_some_ranks():
    alone = dist.new_group([size - 1])
    pairs = dist.new_group([0, size - 1])
    f = lambda x: dist.all_reduce(x, group=pairs)
    if rank in (0, size - 1):
        jitted = fx.jit(f)
        for _ in range(2):
            assert same(jitted(mine()), f(mine()))
    if rank == size - 1:
        assert same(fx.jit(lambda x: dist.all_reduce(x, group=alone))(mine()), mine())


def model(buffers=True):
    fx.manual_seed(0)
    middle = nn.BatchNorm1d(4) if buffers else nn.Tanh()
    return DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), middle, nn.Linear(4, 2)))


def batch(k):
    return fx.random.normal(fx.random.key(10 * k + rank), (6, 3))


def trained(jitted, accumulate):
    wrapped = model()
    optimizer = fx.optim.SGD(wrapped.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        if accumulate:
            with wrapped.no_sync():
                (wrapped(x + 1) ** 2).mean().backward()
        loss = (wrapped(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = fx.jit(step) if jitted else step
    losses = [float(step(batch(k))) for k in range(4)]
    return losses, {k: v.numpy().copy() for k, v in wrapped.state_dict().items()}


def case_a_step_is_that_of_eager_calls():
    for accumulate in (False, True):
        (la, a), (lb, b) = trained(True, accumulate), trained(False, accumulate)
        assert np.allclose(la, lb, 1e-5)
        for name in a:
            assert np.allclose(a[name], b[name], 1e-5, 1e-6), (accumulate, name)


def case_a_step_is_one_native_call_with_few_messages():
    wrapped = model(buffers=False)
    optimizer = fx.optim.SGD(wrapped.parameters(), lr=0.1)

    @fx.jit
    def step(x):
        optimizer.zero_grad()
        loss = (wrapped(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for k in range(3):
        step(batch(k))
    lowered = step.lower(batch(0))
    assert [e.native for e in lowered.executables] == [True]
    names = [n.primitive.name for g in lowered.graphs for n in g.nodes]
    assert names.count("psum") == 1 and "pbroadcast" not in names
    known = [r for r in recorder.mine().records if r.group == recorder.GRAPHS]
    before = len(known)
    step(batch(0)[:5])  # of another size, and the same messages
    assert len([r for r in recorder.mine().records if r.group == recorder.GRAPHS]) == before > 0


def case_no_sync_around_a_compiled_step():
    wrapped = model(buffers=False)

    @fx.jit
    def backward(x):
        (wrapped(x) ** 2).sum().backward()

    for k in range(2):
        wrapped.zero_grad()
        with wrapped.no_sync():
            backward(batch(k))
        own = wrapped.module[0].weight.grad
        assert not same(dist.all_reduce(own.detach(), ReduceOp.AVG), own.detach())
        backward(batch(k + 5))
        own = wrapped.module[0].weight.grad
        assert same(dist.all_reduce(own.detach(), ReduceOp.AVG), own.detach())


def case_no_sync_around_a_step_with_buffers():
    def state(jitted):
        wrapped = model()
        step = lambda x: (wrapped(x) ** 2).mean().backward()
        step = fx.jit(step) if jitted else step
        for k in range(3):
            with wrapped.no_sync():
                step(batch(k))
                step(batch(k + 1))
            step(batch(k + 2))
        return wrapped.state_dict()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those in no_sync run uncompiled
        for a, b in zip(state(True).values(), state(False).values(), strict=True):
            assert np.allclose(a.numpy(), b.numpy(), 1e-5)


def case_a_backward_pass_outside_runs_uncompiled():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = model(buffers=False)
        forward = fx.jit(lambda x: (wrapped(x) ** 2).sum())
        for k in range(2):
            wrapped.zero_grad()
            forward(batch(k)).backward()
            g = wrapped.module[0].weight.grad.detach()
            assert same(dist.all_reduce(g, ReduceOp.AVG), g)


def case_programs_that_differ_are_shown_before_anything_moves():
    apart = dist.new_group()
    reduce = lambda x: dist.all_reduce(x, group=apart)
    both = [lambda x: reduce(dist.broadcast(x, 0, apart) + 1), lambda x: reduce(reduce(x)[:2])]
    for n in (10, 20):
        ranks = [f"rank {r}: compiled code(psum(float32[{n + r}]))" for r in range(size)]
        try:
            fx.jit(reduce)(mine(n=n + rank))
        except dist.DistError as error:
            assert all(words in str(error) for words in ranks), str(error)
        else:
            raise AssertionError("nothing was raised")
        words = f"rank 0: compiled code(pbroadcast(float32[{n}], source=0), psum(float32[{n}]))"
        refused(words, fx.jit(both[min(rank, 1)]), mine(n=n))
        words = f"rank 0: compiled code(psum(float32[{n + 5}]))"  # and the others' are not compiled
        refused(words, reduce if rank else fx.jit(reduce), mine(n=n + 5))
        x = mine()
        assert same(fx.jit(reduce)(x), reduce(x))


def case_other_programs_with_the_same_messages_meet():
    f = lambda x: dist.all_reduce(x.sum(0)) + dist.all_reduce(x[0] * 2)
    g = fx.jit(f)
    g(mine(n=6).reshape(2, 3))
    rows = 2 + 3 * rank  # only some ranks compile again, and stage what is known otherwise
    h = fx.jit(lambda x: dist.all_reduce(x.sum(0)) + fx.jit(dist.all_reduce)(x[0] * 2))
    for way in (g, h, fx.jit(lambda x: f(x) + f(x + 1))):
        x = mine(n=3 * rows).reshape(rows, 3)
        out = way(x)
        assert way is not g or same(out, f(x))


def case_a_known_program_that_meets_another_moves_nothing():
    apart = dist.new_group()
    reduce = lambda x: dist.all_reduce(x, group=apart)
    twice = lambda x: reduce(x[:4]) + reduce(x[4:])
    f, g = fx.jit(reduce), fx.jit(twice)
    x = mine(n=8)
    for _ in range(2):  # both are known to all ranks
        whole, halves = f(x), g(x)
    shown = [
        "rank 0: compiled code(psum(float32[8]))",
        "rank 1: compiled code(psum(float32[4]), psum(float32[4]))",
    ]
    for _ in range(2):
        for words in shown:
            refused(words, g if rank else f, x)
        refused(shown[1], twice if rank == 0 else g, x)  # nothing of this rank is compiled
        refused("rank 0: compiled code(psum(float32[9]))", f, mine(n=8 if rank else 9))
        assert same(f(x), whole) and same(g(x), halves) and same(reduce(x), whole)


def case_on_a_mesh_too_programs_are_compared():
    mesh = fx.Mesh((size,), ("data",))
    out = fx.P()
    f = fx.jit(fx.shard_map(lambda x: fx.psum(x, "data"), mesh, out, out))
    g = fx.jit(fx.shard_map(lambda x: fx.psum(x[:2], "data"), mesh, out, out))
    x = mine(n=4)
    want = f(x), g(x)
    refused("compiled code(psum(float32[2])", f if rank else g, x)
    refused("compiled code(psum(float32[4])", f if rank else g, x)
    assert same(f(x), want[0]) and same(g(x), want[1])


def case_branches_that_some_ranks_take():
    pair = dist.new_group()
    f = fx.jit(lambda x, p: fx.cond(p, lambda: dist.all_reduce(x, group=pair), lambda: x))
    if rank == 0:
        f(mine(n=13), False)  # nobody need come
    assert same(f(mine(n=13), True), dist.all_reduce(mine(n=13), group=pair))


def case_waits_end():
    f = fx.jit(lambda x: dist.all_reduce(x))
    f(mine())
    dist.barrier()
    late = dist.new_group(timeout=timedelta(seconds=0.3))
    g = fx.jit(lambda x: dist.all_reduce(x, group=late))
    g(mine())
    dist.barrier()
    if rank == 0:
        refused("not every rank came to it within the timeout", g, mine())
        # what waits is told to the launcher, and what is through too
    told = {r.group: r for r in recorder.mine().records if r.op == "a message of compiled code"}
    known = told[late.axis.key]
    expected = (3, 0, "begun") if rank == 0 else (2, 20, "done")  # a comparison, then data
    assert (known.sequence, known.bytes, known.state) == expected
    assert 0 <= time.monotonic() - known.begun < 60 and known.ended >= known.begun
    dist.barrier()
    assert recorder.mine().timeout == 60


def case_a_group_that_is_gone():
    brief = dist.new_group()
    g = fx.jit(lambda x: dist.all_reduce(x, group=brief))
    g(mine())
    dist.barrier()
    dist.destroy_process_group(brief)
    refused("psum along axis group", g, mine())


# messages from one rank to another ----------------------------------------------------------------


def compiled_and(*warned):
    """``jit`` whose function runs compiled, or with words of a warning for each call of it."""

    def call(f, *args):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            out = fx.jit(f)(*args)
        said = [str(w.message) for w in said]
        assert len(said) == len(warned) and all(w in s for w, s in zip(warned, said)), said
        return out

    return call


def case_a_ring_of_messages_is_a_node():
    right, left = (rank + 1) % size, (rank - 1) % size

    def turn(x):
        place, other = fx.nn.Buffer(fx.zeros_like(x)), fx.nn.Buffer(fx.zeros(2))
        ops = [
            dist.P2POp(dist.isend, x * 2, right),
            dist.P2POp(dist.irecv, place, left),
            dist.P2POp(dist.isend, x[:2], left, tag=1),
            dist.P2POp(dist.irecv, other, right, tag=1),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        return dist.all_reduce(place + 0) + 1, place + 0, other + 0

    f = fx.jit(turn)
    assert [e.native for e in f.lower(mine()).executables] == [True]
    schedule = str(f.lower(mine()).schedule)
    assert "pair_messages" in schedule and "numpy" not in schedule, schedule
    for n in (5, 5, 5, 40_000):  # the last ones are not buffered: all are under way at once
        x = mine(n=n)
        theirs = lambda r, n=n: np.arange(1, n + 1) * (r + 2) / 3
        total, came, other = f(x)
        np.testing.assert_allclose(came.numpy(), 2 * theirs(left), 1e-5)
        np.testing.assert_allclose(other.numpy(), theirs(right)[:2], 1e-5)
        np.testing.assert_allclose(total.numpy(), sum(2 * theirs(r) for r in range(size)) + 1, 1e-5)


def case_a_chain_of_ranks_each_of_which_does_something_else():
    place, total = fx.nn.Buffer(fx.zeros(3)), fx.nn.Buffer(fx.zeros(()))

    def stage(x):
        if rank:
            assert dist.recv(place, rank - 1) == rank - 1
            x = x + place
        if rank < size - 1:
            dist.send(x * 10, rank + 1, tag=0)
        total.copy_(x.sum())
        return x

    want = lambda k: sum(k * 10 ** (rank - r) for r in range(rank + 1))
    with fx.no_grad():
        compiled = fx.jit(stage)
        for k in (1.0, 2.0, 3.0, 4.0):
            run = stage if rank == 1 and k == 3.0 else compiled  # an eager rank among compiled ones
            found = run(fx.full((3,), k))
            assert found.tolist() == [want(k)] * 3 and total.item() == 3 * want(k)
            if rank:
                assert place.tolist() == [(want(k) - k)] * 3


def case_what_pairs_of_ranks_do_not_compile_is_named():
    right, left = (rank + 1) % size, (rank - 1) % size

    def alone(x):
        going = dist.isend(x, right)
        came = dist.irecv(fx.zeros_like(x), left).value()
        going.wait()
        return came

    assert compiled_and("it calls isend")(alone, mine()).shape == (5,)
    place = fx.nn.Buffer(fx.zeros(5))

    def of_any(x):
        if rank == 0:
            dist.recv(place)
        elif rank == 1:
            dist.send(x, 0)
        return x

    if rank < 2:
        compiled_and(*(["recv from any rank"] if rank == 0 else []))(of_any, mine())

    def short(x):
        if rank == 0:
            dist.send(x[:3], 1)
        elif rank == 1:
            dist.recv(place, 0)
        return x

    if rank == 1:
        told = "float32[5] is 20 bytes, and rank 0 of its group sent 12"
        refused(told, fx.jit(short), mine())
    else:
        fx.jit(short)(mine())

    def uneven(x, more=0):
        if rank == 0:
            dist.send(x[: 4 - more], 1)
            dist.send(x[:2], 1, tag=3)
        elif rank == 1:
            ops = [
                dist.P2POp(dist.irecv, fx.nn.Buffer(fx.zeros(4)), 0),
                dist.P2POp(dist.irecv, fx.nn.Buffer(fx.zeros(2)), 0, tag=3),
            ]
            dist.batch_isend_irecv(ops)
        return x + 1

    step = fx.jit(uneven, static_argnums=1)
    if rank == 1:
        refused("float32[2] is 8 bytes, and rank 0 of its group sent 12", step, mine(), 1)
    else:
        step(mine(), 1)
    step(mine())  # and the next one is right
    if rank == 1:
        refused("MPI gave up with its code", fx.jit(lambda x: (dist.recv(place, 0), x)), mine())
    elif rank == 0:
        dist.send(mine(n=6), 1)
    lanes = lambda x: fx.vmap(lambda r: (dist.send(r, right), r)[1])(x)
    with np.testing.assert_raises_regex(fx.errors.FxError, "a value inside vmap"):
        fx.jit(lanes)(fx.ones((2, 2)))
    loop = lambda x: fx.scan(lambda c, r: (dist.send(r, right), (c, r))[1], 0.0, x)[1]
    with np.testing.assert_raises_regex(fx.errors.FxError, "inside of a loop or branch"):
        fx.jit(loop)(fx.ones((2, 2)))


def case_long_gradients_travel_apart_and_short_ones_side_by_side():
    def trained(**given):
        with limits.given(**given):
            fx.manual_seed(3)
            layers = nn.Linear(3, 40), nn.Tanh(), nn.Linear(40, 2)
            net = DistributedDataParallel(nn.Sequential(*layers).double())
            optimizer = fx.optim.SGD(net.parameters(), lr=0.1)

            def step(x):
                optimizer.zero_grad()
                (net(x) ** 2).sum().backward()
                optimizer.step()

            run = fx.jit(step)
            for k in range(3):
                run(fx.tensor(np.random.default_rng(10 * k + rank).normal(size=(4, 3))))
            return [p.detach().numpy().tobytes() for p in net.parameters()]

    # bytes of the terms: 960, 320, 640, 16; all together 1936
    wanted = trained(RANK_PIECES=64, RANK_ALONE=1 << 20)  # all side by side
    for alone in (1, 400, 700):
        assert trained(RANK_PIECES=64, RANK_ALONE=alone) == wanted
    if size == 2:  # else the order in which MPI adds is its own
        assert trained(RANK_PIECES=1 << 20, RANK_ALONE=1) == wanted
