"""Communication hooks of DistributedDataParallel in each of several ranks."""

import warnings
from datetime import timedelta

import numpy as np

import fx
import fx.distributed as dist
from fx import nn
from fx.nn.parallel import DistributedDataParallel
from fx.torch.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from fx.torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from fx.torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager,
)

warnings.simplefilter("error")  # nothing runs uncompiled unless a case says so
dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()


def refused(words, function):
    try:
        function()
    except (RuntimeError, ValueError, TypeError) as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError("nothing was raised")


def model():
    fx.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


def batch(r, step, rows=4):
    return fx.random.normal(fx.random.key(10 * step + r), (rows, 6))


def own(r, step, rows=4):
    """The gradients of one rank without the others."""
    module = model()
    (module(batch(r, step, rows)) ** 2).sum().backward()
    return [p.grad.numpy().copy() for p in module.parameters()]


def means(step, rows=4):
    return [sum(each) / size for each in zip(*[own(r, step, rows) for r in range(size)])]


def hooked(state, hook, steps=1, jitted=False, rows=4, cap=None):
    """The gradients of each step with a hook."""
    wrapped, out = DistributedDataParallel(model(), bucket_cap_mb=cap), []
    wrapped.register_comm_hook(state, hook)

    def step(x):
        wrapped.zero_grad()
        (wrapped(x) ** 2).sum().backward()

    run = fx.jit(step) if jitted else step
    for k in range(steps):
        run(batch(rank, k, rows))
        out.append([p.grad.numpy().copy() for p in wrapped.parameters()])
    return out


def near(found, expected, tolerance):
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and np.abs(a - b).max() <= tolerance * np.abs(b).max(), (a, b)


def case_hooks_without_a_state_give_means_compiled_too():
    hooks = {
        default_hooks.allreduce_hook: 1e-6,
        default_hooks.fp16_compress_hook: 2e-3,
        default_hooks.bf16_compress_hook: 2e-2,
        default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook): 2e-3,
        default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook): 2e-2,
    }
    for hook, tolerance in hooks.items():
        for jitted in (False, True):
            for k, found in enumerate(hooked(None, hook, 3, jitted)):
                near(found, means(k), tolerance)
                assert tolerance < 1e-5 or any(
                    np.abs(a - b).max() > 1e-6 for a, b in zip(found, means(k))
                ), "nothing was compressed"


def case_without_messages_each_keeps_its_own():
    for jitted in (False, True):
        near(hooked(None, debugging_hooks.noop_hook, 1, jitted)[0], own(rank, 0), 1e-6)


def case_a_hook_of_the_user_sees_every_bucket():
    seen = []

    def hook(state, bucket):
        seen.append((bucket.index(), bucket.is_last(), [g.shape for g in bucket.gradients()]))
        assert [p.shape for p in bucket.parameters()] == [g.shape for g in bucket.gradients()]
        halved = bucket.buffer() / 2
        future = dist.all_reduce(halved, group=state, async_op=True).get_future()
        return future.then(lambda fut: fut.value()[0])

    found = hooked(dist.group.WORLD, hook, cap=30 * 4 / 2**20)[0]
    near(found, [g * size / 2 for g in means(0)], 1e-6)
    assert [s[0] for s in seen] == list(range(len(seen))) and len(seen) > 1
    assert [s[1] for s in seen] == [False] * (len(seen) - 1) + [True]
    assert seen[0][2][0] == (2,)  # the last parameter comes first


def case_what_is_no_hook_is_refused():
    wrapped = DistributedDataParallel(model())
    refused("must be callable", lambda: wrapped.register_comm_hook(None, 3))
    wrapped.register_comm_hook(None, lambda state, bucket: bucket.buffer())
    refused("only be called once", lambda: wrapped.register_comm_hook(None, len))
    refused("it gave Tensor", lambda: wrapped(batch(rank, 0)).sum().backward())


def case_a_hook_with_a_state_runs_uncompiled():
    state = powerSGD_hook.PowerSGDState(None, 2, start_powerSGD_iter=2, min_compression_rate=0.1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = hooked(state, powerSGD_hook.powerSGD_hook, 4, jitted=True)
    assert any("communication hook" in str(w.message) for w in told) and state.iter == 4
    near(found[1], means(1), 1e-6)


def case_power_sgd_is_exact_at_full_rank_and_begins_late():
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        state = powerSGD_hook.PowerSGDState(None, 9, start_powerSGD_iter=2, min_compression_rate=0)
        for k, found in enumerate(hooked(state, hook, 4)):
            near(found, means(k), 1e-5)
        rate, before, after = state.compression_stats()
        assert before == 2 * sum(g.size for g in means(0)) and after > 0 and rate == before / after
    refused("`start_powerSGD_iter` > 1", lambda: powerSGD_hook.PowerSGDState(None, 1, 1))


def case_power_sgd_loses_nothing_over_many_steps():
    """What was sent, and what is left over, is all that the gradients were."""
    state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.5)
    steps = 6
    sent = hooked(state, powerSGD_hook.powerSGD_hook, steps)
    assert np.abs(sent[3][0] - means(3)[0]).max() > 1e-3, "nothing was compressed"
    flat = lambda gs: np.concatenate([g.ravel() for g in gs[::-1]])
    left = dist.all_reduce(state.error_dict[0]).numpy() / size
    total = sum(flat(gs) for gs in sent) + left
    expected = sum(flat(means(k)) for k in range(steps))
    assert np.abs(total - expected).max() < 1e-4 * np.abs(expected).max()
    everyone = [None] * size
    dist.all_gather_object(everyone, [g.tobytes() for gs in sent for g in gs])
    assert all(each == everyone[0] for each in everyone)


def case_post_local_sgd_averages_in_its_subgroup_later():
    alone, _ = dist.new_subgroups(1)
    for after in (True, False):
        state = post_localSGD_hook.PostLocalSGDState(None, alone, 1, after)
        found = hooked(state, post_localSGD_hook.post_localSGD_hook, 2)
        near(found[0], means(0), 1e-6)
        near(found[1], own(rank, 1), 1e-6)


def case_models_are_averaged_every_few_steps():
    module = model()
    averager = PeriodicModelAverager(period=2, warmup_steps=1)
    optimizer = fx.optim.SGD(module.parameters(), lr=0.1)
    for k, alike in enumerate((False, True, False, True)):
        with fx.no_grad():
            for p in module.parameters():
                p.data.fill_(float(rank + k))
                p.grad = fx.zeros(p.shape)
            frozen = module[0].bias  # what has no gradient stays
            frozen.grad = None
        averager.average_parameters(optimizer.param_groups if k else module.parameters())
        expected = k + ((size - 1) / 2 if alike else rank)
        for p in module.parameters():
            wanted = rank + k if p is frozen else expected
            assert (p.detach().numpy() == wanted).all(), k
    refused("must be a positive value", lambda: PeriodicModelAverager(0))


def case_larger_groups_are_averaged_less_often():
    p = nn.Parameter(fx.zeros(2))
    p.grad = fx.ones(2)
    averager = HierarchicalModelAverager({1: 1, 2: size}, warmup_steps=1)
    for k, alike in enumerate((False, False, True, False, True)):
        with fx.no_grad():
            p.data.fill_(float(rank + k))
        averager.average_parameters([p])
        assert (p.detach().numpy() == k + ((size - 1) / 2 if alike else rank)).all(), k
    refused("must be equal to the size", lambda: HierarchicalModelAverager({2: size + 1}))


def case_hooks_are_registered_by_name():
    for kind, tolerance in (("ALLREDUCE", 1e-6), ("BF16_COMPRESS", 2e-2), ("POWER_SGD", 1e-6)):
        wrapped = DistributedDataParallel(model())
        register_ddp_comm_hook(DDPCommHookType[kind], wrapped, dist.group.WORLD)
        (wrapped(batch(rank, 0)) ** 2).sum().backward()
        near([p.grad.numpy() for p in wrapped.parameters()], means(0), tolerance)
