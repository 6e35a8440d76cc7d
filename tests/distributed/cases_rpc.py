"""Three workers that call each other; what they give is what ``torch.distributed.rpc`` gives."""

import gc
import operator
import pickle
import time

import pytest

import fx
import fx.distributed as dist
import fx.distributed.rpc as rpc
from fx.distributed import references
from tests.distributed import served

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
rpc.init_rpc(f"w{rank}", rpc_backend_options=rpc.RpcBackendOptions(rpc_timeout=20))
FIRST = rank == 0  # calls; the others answer


def same(got, want):
    return got.shape == want.shape and bool((got == want).all())


def case_values_come_back():
    for to in ("w1", 1, rpc.WorkerInfo("w1", 1), "w0", (rank + 1) % size):
        assert rpc.rpc_sync(to, operator.add, args=(1, 2)) == 3
    assert rpc.rpc_sync("w2", sorted, args=([1, 3, 2],), kwargs={"reverse": True}) == [3, 2, 1]
    assert rpc.get_worker_info() == rpc.WorkerInfo(f"w{rank}", rank)
    assert rpc.get_worker_info("w1") == rpc.WorkerInfo(name="w1", id=1)


def case_a_function_answers_when_its_future_is_done():
    from fx.torch import futures

    if FIRST:
        calls = [rpc.rpc_async("w1", served.meet, (3, k)) for k in range(2)]
        assert not any(call.done() for call in calls)
        last = rpc.rpc_async("w1", served.meet, (3, 2))
        assert futures.wait_all([*calls, last]) == [[0, 1, 2]] * 3
        assert all(f.done() for f in futures.collect_all(calls).wait())
        with pytest.raises(TypeError, match="must give a Future, got int"):
            rpc.rpc_sync("w1", served.no_future)


def case_tensors_go_by_value():
    x = fx.arange(200000).to(fx.float32)
    for each in (x, x.to(fx.bfloat16), x[:0]):
        got = rpc.rpc_sync("w1", served.doubled, (each,))
        assert got.dtype == each.dtype and same(got, 2 * each)


def case_what_is_raised_there_is_raised_here():
    with pytest.raises(KeyError, match="boom") as caught:
        rpc.rpc_sync("w1", served.boom)
    shown = str(caught.value.__cause__)
    assert "On worker 'w1' (rank 1)" in shown and "served.py" in shown and "in boom" in shown
    with pytest.raises(dist.DistError, match="Unmade: unmade"):
        rpc.rpc_sync("w1", served.boom, ("unmade",))
    with pytest.raises(dist.DistError, match="SystemExit: 3"):
        rpc.rpc_sync("w1", served.boom, ("exit",))
    assert rpc.rpc_sync("w1", operator.add, (1, 1)) == 2


def case_futures():
    one = rpc.rpc_async("w1", served.slow, (0.3, 5))
    assert not one.done()
    with pytest.raises(RuntimeError, match="not done"):
        one.value()
    then = one.then(lambda f: f.wait() + 1)
    assert then.wait() == 6 and one.done() and one.wait() == one.value() == 5
    failed = rpc.rpc_async("w1", served.boom).then(lambda f: f.wait())
    with pytest.raises(KeyError):
        failed.wait()
    seen = []
    one.add_done_callback(seen.append)
    assert seen == [one]
    with pytest.raises(RuntimeError, match="completed once"):
        one.set_result(6)
    with pytest.raises(TypeError, match="should be callable"):
        one.then(None)


def case_calls_overlap_and_nest_deeper_than_there_are_connections_of_one():
    if FIRST:
        began = time.monotonic()
        asked = [rpc.rpc_async("w1", served.slow, (0.3, i)) for i in range(8)]
        assert [a.wait() for a in asked] == list(range(8))
        assert time.monotonic() - began < 1.5
        assert rpc.rpc_sync("w1", served.bounce, (9,)) == [1, 0] * 5
        many = [rpc.rpc_async("w2", operator.neg, (i,)) for i in range(100)]
        assert [a.wait() for a in many] == [-i for i in range(100)]


def case_timeouts_are_named():
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"more than set timeout \(0.2 s\): slow on worker 'w1'"):
        rpc.rpc_sync("w1", served.slow, (1.0,), timeout=0.2)
    assert time.monotonic() - began < 0.9
    assert rpc.rpc_sync("w1", served.slow, (0.1, 3), timeout=0) == 3
    with pytest.raises(ValueError, match="number of seconds"):
        rpc.rpc_sync("w1", served.slow, timeout=-3)
    dist.barrier()  # calls of the others within theirs would take it too
    before = rpc.get_rpc_timeout()
    rpc.set_rpc_timeout(0.1)
    with pytest.raises(RuntimeError, match=r"more than set timeout \(0.1 s\)"):
        rpc.rpc_sync("w1", served.slow, (0.5,))
    rpc.set_rpc_timeout(before)
    assert rpc.get_rpc_timeout() == before == 20
    dist.barrier()


def case_references():
    ref = rpc.remote("w1", served.Box, (fx.ones(3),))
    assert same(ref.to_here().value, fx.ones(3))
    assert ref.owner() == rpc.WorkerInfo("w1", 1) and ref.owner_name() == "w1"
    assert ref.is_owner() == (rank == 1) and ref.confirmed_by_owner()
    assert same(ref.rpc_sync().plus(more=2), 3 * fx.ones(3))
    assert same(ref.rpc_async().plus(1).wait(), 2 * fx.ones(3))
    assert same(ref.remote().plus().to_here(), fx.ones(3))
    with pytest.raises(AttributeError, match="nope"):
        ref.rpc_sync().nope()
    if rank != 1:
        with pytest.raises(RuntimeError, match=r"call it on owner WorkerInfo\(name='w1', id=1\)"):
            ref.local_value()
    mine = rpc.RRef(served.Box(7))
    assert mine.is_owner() and mine.local_value().value == mine.to_here().value == 7
    other = (rank + 1) % size
    assert rpc.rpc_sync(other, served.about, (mine,)) == (False, f"w{rank}", 7)
    assert rpc.rpc_sync(other, served.give_back, (mine,)).local_value() is mine.local_value()
    with pytest.raises(KeyError, match="boom"):
        rpc.remote("w1", served.boom).to_here()
    with pytest.raises(RuntimeError, match="only be pickled when using RPC"):
        pickle.dumps(mine)


def case_what_nobody_refers_to_goes():
    dist.barrier()
    gc.collect()
    end = time.monotonic() + 5
    while served.held() and time.monotonic() < end:
        time.sleep(0.01)
    assert served.held() == 0, references._held
    dist.barrier()
    if FIRST:
        ref = rpc.remote("w2", served.Box, (4,))
        again = rpc.rpc_sync("w1", served.give_back, (ref,))
        del ref
        gc.collect()
        time.sleep(0.2)
        assert rpc.rpc_sync("w2", served.held) == 1 and again.to_here().value == 4
        del again
        gc.collect()
        end = time.monotonic() + 5
        while rpc.rpc_sync("w2", served.held) and time.monotonic() < end:
            time.sleep(0.01)
        assert rpc.rpc_sync("w2", served.held) == 0
    dist.barrier()


def case_what_cannot_be_asked():
    with pytest.raises(RuntimeError, match=r"destination name 'nope'; the workers are 'w0' \(0\)"):
        rpc.rpc_sync("nope", operator.add, (1, 2))
    with pytest.raises(RuntimeError, match="destination id 7"):
        rpc.rpc_sync(7, operator.add, (1, 2))
    with pytest.raises(RuntimeError, match="at the top of a module"):
        rpc.rpc_sync("w1", lambda: 1)
    with pytest.raises(TypeError, match="callable"):
        rpc.rpc_sync("w1", 3)
    with pytest.raises(RuntimeError, match="already initialized"):
        rpc.init_rpc("w9")


def one_process(x, steps, make):
    """Losses and gradients of the two layers of the case below."""
    first, second = served.layer(3, 4), served.layer(4, 2)
    optimizer, told = make([*first.parameters(), *second.parameters()]), []
    scale = fx.tensor([1.0, -0.5, 2.0], requires_grad=True)
    for _ in range(steps):
        optimizer.zero_grad()
        scale.grad = None
        hidden = first(x * scale)
        loss = (second(fx.tanh(hidden)) * hidden.sum()).square().mean()
        loss.backward()
        optimizer.step()
        told.append((loss.item(), scale.grad))
    return told


def case_gradients_go_through_calls():
    from fx.distributed import remote_gradients as remote
    from fx.distributed.remote_modules import DistributedOptimizer, RemoteModule

    x = fx.tensor([[0.5, 1.0, -1.0], [0.2, 0.0, 0.7]])
    dist.barrier()
    if FIRST:
        want = one_process(x, 3, lambda ps: fx.optim.Adam(ps, lr=0.1))
        first = RemoteModule("w1/cpu", served.layer, (3, 4))
        second = RemoteModule("rank:2", served.layer, (4, 2))
        params = first.remote_parameters() + second.remote_parameters()
        assert [p.owner_name() for p in params] == ["w1"] * 2 + ["w2"] * 2
        optimizer = DistributedOptimizer(fx.optim.Adam, params, lr=0.1)
        scale = fx.tensor([1.0, -0.5, 2.0], requires_grad=True)
        for loss, slope in want:
            with remote.context() as number:
                hidden = first(x * scale)
                out = rpc.rpc_sync("w1", served.through, (second.get_module_rref(), hidden))
                found = (out * hidden.sum()).square().mean()
                remote.backward(number, [found])
                gradients = remote.get_gradients(number)
                optimizer.step(number)
            assert abs(found.item() - loss) < 1e-5, (found.item(), loss)
            assert list(gradients) == [scale] and scale.grad is None
            assert fx.max(fx.abs(gradients[scale] - slope)) < 1e-5
        with pytest.raises(RuntimeError, match="autograd context with id"):
            remote.get_gradients(number)
        with remote.context() as number:
            with pytest.raises(RuntimeError, match="scalar"):
                remote.backward(number, [first(x)])
            with pytest.raises(RuntimeError, match="requires_grad"):
                remote.backward(number, [x.sum()])
            with pytest.raises(RuntimeError, match="open already"), remote.context():
                pass
            w = fx.tensor([1.0, 2.0], requires_grad=True)
            kept: rpc.RRef[fx.Tensor] = rpc.remote("w1", fx.sum, (w * w,))
            for again in range(2):
                kept.backward(number, retain_graph=True)
                assert same(remote.get_gradients(number)[w], 2 * w * (1 + again))
            with pytest.raises(RuntimeError, match="'dist_autograd_ctx_id' to be specified"):
                kept.backward()
            with pytest.raises(RuntimeError, match="should contain a tensor"):
                rpc.remote("w1", sorted, ([2, 1],)).backward(number)
        with remote.context() as number:  # several roots, each a call of the same leaf
            calls = [rpc.rpc_sync("w1", f, (w,)) for f in (operator.neg, fx.square, fx.exp)]
            remote.backward(number, [out.sum() for out in calls])
            assert same(remote.get_gradients(number)[w], -1 + 2 * w + fx.exp(w))
        rpc.RRef((w * w).sum()).backward()
        assert same(w.grad, 2 * w)
        with pytest.raises(ValueError, match="lie on the CPU"):
            RemoteModule("w1/cuda:0", served.layer, (3, 4))
    dist.barrier()
    end = time.monotonic() + 5
    while remote._contexts and time.monotonic() < end:
        time.sleep(0.01)
    assert not remote._contexts


class Hop(fx.nn.Module):
    """Two layers, and a call of another worker between them."""

    def __init__(self):
        super().__init__()
        self.a, self.b = served.layer(3, 2), served.layer(2, 4)

    def forward(self, x, away=True):
        h = self.a(x)
        h = rpc.rpc_sync((rank + 1) % size, operator.mul, (h, 2.0)) if away else h * 2.0
        return self.b(fx.tanh(h)).sum()


def case_replicas_average_what_arrives_in_a_context():
    from fx.distributed import remote_gradients as remote

    whole, inputs = Hop(), [fx.arange(6.0).reshape(2, 3) - r for r in range(size)]
    for x in inputs:
        (whole(x, away=False) / size).backward()
    for options in ({}, {"bucket_cap_mb": 1e-6}):
        wrapped = fx.nn.parallel.DistributedDataParallel(Hop(), **options)
        with remote.context() as number:
            remote.backward(number, [wrapped(inputs[rank])])
            found = remote.get_gradients(number)
            for p, q in zip(wrapped.parameters(), whole.parameters(), strict=True):
                assert p.grad is None and fx.max(fx.abs(found[p] - q.grad)) < 1e-6
            dist.barrier()
        wrapped(inputs[rank], away=False).backward()  # and then as ever
        for p, q in zip(wrapped.parameters(), whole.parameters(), strict=True):
            assert fx.max(fx.abs(p.grad - q.grad)) < 1e-6
    looks = fx.nn.parallel.DistributedDataParallel(Hop(), find_unused_parameters=True)
    with remote.context() as number:
        loss = looks(inputs[rank])
        with pytest.raises(RuntimeError, match="does not see what lies behind a call"):
            remote.backward(number, [loss])
        dist.barrier()


def case_shutdown_waits_for_all_and_their_calls():
    began = time.monotonic()
    late = None
    if rank == 1:
        time.sleep(0.5)
        late = rpc.rpc_async("w2", served.slow, (0.5, 8))
    rpc.shutdown()
    assert time.monotonic() - began > 0.9
    assert late is None or late.value() == 8
    with pytest.raises(RuntimeError, match="has not been initialized"):
        rpc.rpc_sync("w1", operator.add, (1, 2))


def case_workers_can_begin_again():
    rpc.init_rpc(f"again{rank}")
    assert rpc.rpc_sync(f"again{(rank + 1) % size}", operator.add, (1, 2)) == 3
    rpc.shutdown()


def case_a_name_twice():
    with pytest.raises(RuntimeError, match="name same is not unique"):
        rpc.init_rpc("same")
