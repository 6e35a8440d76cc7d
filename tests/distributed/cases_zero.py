"""ZeroRedundancyOptimizer in each of several ranks, against the optimizer itself."""

from datetime import timedelta

import fx
import fx.distributed as dist
from fx import nn
from fx.distributed.uneven import Join
from fx.optim.zero_redundancy import ZeroRedundancyOptimizer

dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()


def raises(words, function):
    try:
        function()
    except (RuntimeError, ValueError, TypeError) as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError("nothing was raised")


def model():
    fx.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4), nn.Linear(4, 1))


def step(module, optimizer, seed):
    optimizer.zero_grad()
    (module(fx.random.normal(fx.random.key(seed), (5, 3))) ** 2).sum().backward()
    optimizer.step()


def bits(module):
    return [p.detach().numpy().tobytes() for p in module.parameters()]


def groups(module):
    params = [*module.parameters()]
    return [{"params": params[:3]}, {"params": params[3:], "lr": 0.01}]


KINDS = {
    "Adam": {"lr": 0.1, "amsgrad": True},
    "SGD": {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
    "Adagrad": {"lr": 0.1},
    "Adafactor": {"lr": 0.1},
    "NAdam": {"lr": 0.1},
}


def case_the_bits_of_the_optimizer_itself():
    for name, options in KINDS.items():
        kind = getattr(fx.optim, name)
        a, b = model(), model()
        plain, shared = (
            kind(groups(a), **options),
            ZeroRedundancyOptimizer(groups(b), kind, **options),
        )
        schedules = [fx.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (plain, shared)]
        for i in range(4):
            step(a, plain, i)
            step(b, shared, i)
            for schedule in schedules:
                schedule.step()
            assert bits(a) == bits(b), (name, i)
        rates = [[g["lr"] for g in o.param_groups] for o in (plain, shared, shared.optim)]
        assert rates[0] == rates[1], (name, rates)


def case_a_rank_keeps_the_state_of_its_part():
    module = model()
    optimizer = ZeroRedundancyOptimizer(module.parameters(), fx.optim.Adam)
    step(module, optimizer, 0)
    counts = [None] * size
    mine = [p.size for p in optimizer.optim.state]
    dist.all_gather_object(counts, mine)
    every = sorted(n for c in counts for n in c)
    assert every == sorted(p.size for p in module.parameters()), counts
    assert max(map(sum, counts)) <= sum(every) / size + max(every)


def case_the_state_of_all_is_that_of_the_optimizer_itself():
    a, b = model(), model()
    plain = fx.optim.Adam(groups(a), lr=0.1)
    shared = ZeroRedundancyOptimizer(groups(b), fx.optim.Adam, lr=0.1)
    schedules = [fx.optim.lr_scheduler.ExponentialLR(o, 0.5) for o in (plain, shared)]
    for i in range(2):
        step(a, plain, i)
        step(b, shared, i)
        for schedule in schedules:
            schedule.step()
    raises("Optimizer state has not been consolidated on this rank", shared.state_dict)
    last = size - 1
    shared.consolidate_state_dict(to=last)
    if rank == last:
        want, found = plain.state_dict(), shared.state_dict()
        assert found["param_groups"] == want["param_groups"]
        assert list(found["state"]) == list(want["state"])
        for number, held in want["state"].items():
            for name, value in held.items():
                got = found["state"][number][name]
                assert (got == value).all() and got.dtype == value.dtype, (number, name)
    else:
        raises("has not been consolidated", shared.state_dict)
    rates = [[g["lr"] for g in o.param_groups] for o in (plain, shared)]
    assert rates[0] == rates[1]  # to save is not to go back by a step of the schedule
    again = ZeroRedundancyOptimizer(groups(b), fx.optim.Adam, lr=0.7)
    again.load_state_dict(plain.state_dict())
    step(a, plain, 2)
    step(b, again, 2)
    assert bits(a) == bits(b)
    raises("consolidated", again.state_dict)
    raises("different number of parameter groups",
           lambda: again.load_state_dict({"state": {}, "param_groups": []}))  # fmt: skip


def case_a_group_that_comes_later_and_a_closure():
    a, b = model(), model()
    plain = fx.optim.SGD(a[0].parameters(), lr=0.1)
    shared = ZeroRedundancyOptimizer(b[0].parameters(), fx.optim.SGD, lr=0.1)
    for module, optimizer in ((a, plain), (b, shared)):
        optimizer.add_param_group({"params": [*module[2].parameters()], "lr": 0.3})

        def closure(module=module, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (module(fx.ones((2, 3))) ** 2).sum()
            loss.backward()
            return loss

        assert optimizer.step(closure).shape == ()
    assert bits(a) == bits(b)


def case_under_jit_it_runs_as_it_is():
    import warnings

    a, b = model(), model()
    plain = fx.optim.Adam(a.parameters(), lr=0.1)
    shared = ZeroRedundancyOptimizer(b.parameters(), fx.optim.Adam, lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jitted = fx.jit(lambda: step(b, shared, 0))
        for _ in range(3):
            step(a, plain, 0)
            jitted()
    assert bits(a) == bits(b)


def case_what_it_refuses():
    params = [*model().parameters()]
    raises("LBFGS looks at all parameters at once",
           lambda: ZeroRedundancyOptimizer(params, fx.optim.LBFGS))  # fmt: skip
    raises("optimizer_class is a class", lambda: ZeroRedundancyOptimizer(params, fx.optim.sgd))
    overlapping = lambda: ZeroRedundancyOptimizer(params, fx.optim.SGD, overlap_with_ddp=True)
    raises("leave out overlap_with_ddp", overlapping)
    raises("empty parameter list", lambda: ZeroRedundancyOptimizer([], fx.optim.SGD))


def case_ranks_that_are_through_step_their_part():
    """As views of buckets their gradients are the means, so all parts are one optimizer's."""

    def trained(make, joins):
        net = nn.parallel.DistributedDataParallel(model(), gradient_as_bucket_view=True)
        optimizer = make(net.parameters())
        with Join([net, optimizer] if joins else [net]):
            for k in range(2 + rank):
                optimizer.zero_grad()
                (net(fx.ones((2, 3)) * (k + rank + 1)) ** 2).sum().backward()
                optimizer.step()
        return bits(net.module)

    plain = trained(lambda ps: fx.optim.SGD(ps, lr=0.01), False)  # its last rank's, in all
    shared = trained(lambda ps: ZeroRedundancyOptimizer(ps, fx.optim.SGD, lr=0.01), True)
    assert shared == plain
