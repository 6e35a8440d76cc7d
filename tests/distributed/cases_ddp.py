"""DistributedDataParallel in each of several ranks: what scripts of torch's do not show."""

import warnings
from contextlib import nullcontext
from datetime import timedelta

import numpy as np

import fx
import fx.distributed as dist
from fx import nn
from fx.nn.data_parallel.replicating import replicate
from fx.nn.parallel import DistributedDataParallel

dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()


def refused(words, function):
    try:
        function()
    except (RuntimeError, ValueError) as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError("nothing was raised")


def model(seed=0, width=4):
    fx.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


def gradients(module):
    return [p.grad.numpy().copy() for p in module.parameters()]


def batch(r):
    return fx.random.normal(fx.random.key(r), (5, 3))


def of_one_process():
    whole = model()
    for r in range(size):
        (whole(batch(r)) ** 2).sum().backward()
    return [g / size for g in gradients(whole)]


def near(a, b):
    return all(abs(x - y).max() <= 1e-6 * (1 + abs(y).max()) for x, y in zip(a, b, strict=True))


def case_the_mean_is_that_of_one_process():
    for cap in (None, 1e-5):
        wrapped = DistributedDataParallel(model(rank), bucket_cap_mb=cap)
        (wrapped(batch(rank)) ** 2).sum().backward()
        assert near(gradients(wrapped), of_one_process())
        assert next(iter(wrapped.state_dict())) == "module.0.weight"


def case_ordered_sums_do_not_see_the_buckets():
    dist.group.WORLD.ordered = True
    try:
        seen = []
        for cap in (25, 1e-5):
            wrapped = DistributedDataParallel(model(), bucket_cap_mb=cap)
            (wrapped(batch(rank)) ** 2).sum().backward()
            seen.append(gradients(wrapped))
        assert all((a == b).all() for a, b in zip(*seen, strict=True))
    finally:
        dist.group.WORLD.ordered = False


def case_floats_of_16_bits():
    wrapped = DistributedDataParallel(model().to(fx.bfloat16))
    wrapped(batch(rank).astype(fx.bfloat16)).sum().backward()
    out = [None] * size
    dist.all_gather_object(out, [g.astype("float32").tolist() for g in gradients(wrapped)])
    assert all(o == out[0] for o in out)


def case_a_jitted_step_gives_what_it_gives_eagerly():
    def trained(jitted):
        wrapped = DistributedDataParallel(model())
        optimizer = fx.optim.SGD(wrapped.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (wrapped(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        step = fx.jit(step) if jitted else step
        for _ in range(3):
            step(batch(rank))
        return [p.detach().numpy().copy() for p in wrapped.parameters()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert near(trained(True), trained(False))


def case_models_that_differ():
    words = "the models differ: 0.weight is float32[4, 3] in rank 0, and 0.weight float32[5, 3]"
    refused(words, lambda: DistributedDataParallel(model(0, 5 if rank == size - 1 else 4)))
    deeper = nn.Sequential(*model(), nn.Linear(2, 2)) if rank else model()
    refused("rank 0 has 4 parameters, and rank 1 has 6", lambda: DistributedDataParallel(deeper))


def case_a_static_graph_that_changes():
    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x, first):
            return (self.a if first else self.b)(x)

    told_later = DistributedDataParallel(Either())
    told_later._set_static_graph()
    for wrapped in (DistributedDataParallel(Either(), static_graph=True), told_later):
        wrapped(fx.ones((1, 2)), True).sum().backward()
        words = "had no part in the first pass: static_graph=True is wrong here"
        turns = lambda wrapped=wrapped: wrapped(fx.ones((1, 2)), False).sum().backward()
        refused(words, turns)
    plain = DistributedDataParallel(Either())
    plain(fx.ones((1, 2)), True).sum().backward()
    again = lambda: plain(fx.ones((1, 2)), True)
    refused(
        "no gradient came for b.weight, b.bias; write DistributedDataParallel(module, find", again
    )


def case_bad_arguments():
    frozen = model()
    for p in frozen.parameters():
        p.requires_grad_(False)
    refused("doesn't have any parameter", lambda: DistributedDataParallel(frozen))
    refused(
        "device_ids is not for modules", lambda: DistributedDataParallel(model(), device_ids=[0])
    )


def case_who_is_through_first_raises_in_all():
    wrapped = DistributedDataParallel(model())

    def run():
        with wrapped.join(throw_on_early_termination=True):
            for _ in range(2 + rank):
                wrapped(batch(rank)).sum().backward()

    through = "Rank 0 exhausted all inputs"
    refused("at least one rank that exhausted inputs" if rank else through, run)


class Counted(dist.Joinable, dist.JoinHook):
    """Adds one of each rank in each iteration."""

    join_process_group = property(lambda self: dist.group.WORLD)
    join_device = property(lambda self: "cpu")
    total = 0
    last = None

    def __call__(self):
        dist.Join.notify_join_context(self)
        self.total += dist.all_reduce(fx.ones(1)).item()

    def join_hook(self, **kwargs):
        return self

    def main_hook(self):
        _ = dist.all_reduce(fx.zeros(1))

    def post_hook(self, is_last_joiner):
        self.last = is_last_joiner


def case_others_join_beside_a_model():
    alone, beside = (DistributedDataParallel(model()) for _ in range(2))
    counted = Counted()
    for wrapped, block in ((alone, alone.join()), (beside, dist.Join([beside, counted]))):
        optimizer = fx.optim.SGD(wrapped.parameters(), lr=0.1)
        with block:
            for _ in range(2 + rank):
                optimizer.zero_grad()
                wrapped(batch(rank)).sum().backward()
                counted() if wrapped is beside else None
                optimizer.step()
    assert counted.total == sum(sum(n < 2 + r for r in range(size)) for n in range(2 + rank))
    assert counted.last is (rank == size - 1)
    for p, q in zip(alone.module.parameters(), beside.module.parameters()):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())

    def throws():
        with dist.Join([counted], throw_on_early_termination=True):
            for _ in range(2 + rank):
                counted()

    refused("exhausted", throws)
    refused("at least one joinable", lambda: dist.Join([]))


def normalised(synchronised, seed=3):
    fx.manual_seed(seed)
    plain = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
    return nn.SyncBatchNorm.convert_sync_batchnorm(plain) if synchronised else plain


def uneven(r):
    return fx.random.normal(fx.random.key(r), (4 + 2 * r, 3)) * 3 + 50 * r


def case_synchronised_batch_norm_is_that_of_the_whole_batch():
    whole = normalised(False)
    for _ in range(2):
        whole.zero_grad()
        (whole(fx.concat([uneven(r) for r in range(size)])) ** 2).sum().backward()
    for jitted in (False, True):
        wrapped = DistributedDataParallel(normalised(True))

        def step(x, wrapped=wrapped):
            wrapped.zero_grad()
            (wrapped(x) ** 2).sum().backward()

        for _ in range(2):
            (fx.jit(step) if jitted else step)(uneven(rank))
        for mean, expected in zip(gradients(wrapped.module), gradients(whole)):
            assert np.allclose(mean * size, expected, 1e-4, 1e-4), (jitted, mean, expected)
        for ours, theirs in zip(wrapped.module.buffers(), whole.buffers()):
            assert np.allclose(ours.numpy(), theirs.numpy(), 1e-5, 1e-6), jitted
    evaluated = wrapped.module.eval()(uneven(rank))
    assert np.allclose(
        evaluated.detach().numpy(), whole.eval()(uneven(rank)).detach().numpy(), 1e-4, 1e-4
    )


def case_a_rank_that_does_something_else_is_named_before_gradients_move():
    apart = dist.new_group()
    wrapped = DistributedDataParallel(model(), process_group=apart)
    (wrapped(batch(rank)) ** 2).sum().backward()
    before = gradients(wrapped.module)
    loss = (wrapped(batch(rank)) ** 2).sum()
    if rank == 0:
        refused("rank 1: barrier", loss.backward)
    else:
        refused("rank 0: gradients(the last bucket", lambda: dist.barrier(group=apart))
        assert all((a == b).all() for a, b in zip(before, gradients(wrapped.module)))


def case_a_copy_averages_on_its_own():
    import copy

    first = DistributedDataParallel(model())
    both = first, copy.deepcopy(first)
    x = fx.ones((2, 3)) * (rank + 1)
    for each in both:
        each(x).square().sum().backward()
    for p, q in zip(*[m.parameters() for m in both], strict=True):
        assert p is not q and bool((p.grad == q.grad).all())
        whole = dist.all_reduce(p.grad.clone()) / size
        assert bool((whole == q.grad).all())
    mine = DistributedDataParallel(model(), process_group=dist.new_group(list(range(size))))
    refused("copy its .module", lambda: copy.deepcopy(mine))


def case_what_passes_add_up_is_averaged_where_one_of_them_has_no_part():
    """The mean is that of sums of gradients: of earlier passes, and of those in ``no_sync``."""

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            fx.manual_seed(0)
            self.layers = nn.ModuleList([nn.Linear(3, 2) for _ in range(4)])

        def forward(self, x, chosen):
            return sum((self.layers[i](x) ** 2).sum() for i in chosen)

    first, rest = ([0], [0, 2]), ([1], [1])  # what the first rank takes in two passes; the others
    for apart in (False, True):
        module, sums = Parts(), {}
        ours = DistributedDataParallel(module, find_unused_parameters=True)
        for step, chosen in enumerate(zip(first, rest)):
            with ours.no_sync() if apart and not step else nullcontext():
                ours(batch(10 * step + rank), chosen[min(rank, 1)]).backward()
            for r in range(size):
                alone = Parts()
                alone(batch(10 * step + r), chosen[min(r, 1)]).backward()
                for i, p in enumerate(alone.parameters()):
                    sums[i] = sums.get(i, 0) + (0 if p.grad is None else p.grad.numpy() / size)
        held = [p.grad for p in module.parameters()]
        assert [g is None for g in held] == [i // 2 == 3 for i in range(8)]
        assert near([g.numpy() for g in held[:6]], [sums[i] for i in range(6)])

    ours = DistributedDataParallel(Parts(), find_unused_parameters=True)
    with ours.no_sync():  # a gradient that is gone again is none
        ours(batch(rank), [3]).backward()
    ours.zero_grad()
    ours(batch(rank), [0]).backward()
    assert ours.module.layers[3].weight.grad is None


class Heads(nn.Module):
    """Two results, of which a loss may leave one out."""

    def __init__(self):
        super().__init__()
        fx.manual_seed(0)
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        return {"b": self.b(x), "a": [self.a(x), 3]}


def case_a_result_may_be_written_to():
    import fx.torch as torch  # so that lines of this function write

    class Loss(Heads):
        def forward(self, x):
            return super().forward(x)["a"][0].sum()

    for options in ({"static_graph": True}, {"find_unused_parameters": True}):
        wrapped, whole = DistributedDataParallel(Loss(), **options), Loss()
        loss = wrapped(batch(rank))
        loss /= torch.tensor(2.0)  # the first write of all finds what lies in one memory
        loss.backward()
        for r in range(size):
            (whole(batch(r)) / 2).backward()
        assert near(gradients(wrapped.module.a), [g / size for g in gradients(whole.a)])
        assert wrapped.module.b.weight.grad is None


def case_a_loss_may_leave_results_out():
    for options in ({"find_unused_parameters": True}, {"static_graph": True}):
        wrapped = DistributedDataParallel(Heads(), **options)
        for step in range(2):
            wrapped.zero_grad()
            out = wrapped(batch(rank + step))
            assert list(out) == ["b", "a"] and out["a"][1] == 3
            (out["a"][0] ** 2).sum().backward()
            whole = Heads()
            for r in range(size):
                (whole(batch(r + step))["a"][0] ** 2).sum().backward()
            assert near(gradients(wrapped.module.a), [g / size for g in gradients(whole.a)])
            assert wrapped.module.b.weight.grad is None
    wrapped = DistributedDataParallel(Heads(), find_unused_parameters=True)
    out = wrapped(batch(rank))
    (out["a"][0] if rank else out["b"]).sum().backward()  # other results in other ranks
    for layer, ranks in ((wrapped.module.a, range(1, size)), (wrapped.module.b, [0])):
        want = sum(batch(r).sum(0).numpy() for r in ranks) / size
        assert near(gradients(layer)[:1], [np.stack([want, want])])
    out = wrapped(batch(rank))
    out["a"][0].sum().backward(retain_graph=True)
    refused("a second backward pass", lambda: out["b"].sum().backward(retain_graph=True))


def case_buffers_that_each_rank_keeps():
    for own, options in (
        (True, {"broadcast_buffers": False}),
        (False, {"forward_sync_buffers": False}),
        (False, {}),
    ):
        module = nn.Sequential(nn.Linear(3, 2))
        module.register_buffer("place", fx.full((1,), float(rank)))
        wrapped = DistributedDataParallel(module, **options)
        wrapped(batch(rank)).sum().backward()
        assert wrapped.module.place.item() == (rank if own else 0)


def case_a_module_is_replicated_in_place():
    mesh = dist.init_device_mesh("cpu", (size,))
    for jitted, how in ((False, {}), (True, {}), (False, {"device_mesh": mesh})):
        module, calls = replicate(model(seed=rank), **how), []
        module.register_forward_hook(lambda *told, calls=calls: calls.append(1))

        def step(x, module=module):
            module.zero_grad()
            (module(x) ** 2).sum().backward()

        run = fx.jit(step) if jitted else step
        run(batch(rank))  # all have what rank 0 has from here on
        assert near(gradients(module), of_one_process()) and len(calls) == 1
        assert list(module.state_dict()) == list(model().state_dict())
        module.set_requires_gradient_sync(False)
        if not jitted:  # a pass of this rank's own, which the next one averages with its own
            run(batch(rank))
            alone = model()
            (alone(batch(rank)) ** 2).sum().backward()
            assert near(gradients(module), gradients(alone))
            module.set_requires_gradient_sync(True)
            (module(batch(rank)) ** 2).sum().backward()
            assert near(gradients(module), [2 * g for g in of_one_process()])
    refused("already managed by `replicate`", lambda: replicate(module))


def case_what_is_not_replicated_is_left_to_each_rank():
    both = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    with fx.no_grad():
        both[2].weight.data.fill_(float(rank))
        both[1].running_mean.copy_(fx.full(2, float(rank)))
    both = replicate(both, ignored_modules=[both[2]])
    both(batch(rank)).sum().backward()
    assert (both[2].weight.detach().numpy() == rank).all()
    listed = [None] * size
    dist.all_gather_object(listed, [both[0].weight.grad.tolist(), both[1].running_mean.tolist()])
    assert listed[0][0] == listed[1][0] and listed[0][1] != listed[1][1]
