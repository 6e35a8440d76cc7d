"""Pipelines in each of several ranks, against the whole model in one process."""

import tempfile
import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np

import fx
import fx.distributed as dist
from fx import nn
from fx.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    SplitPoint,
    TensorChunkSpec,
    build_stage,
    get_schedule_class,
    pipeline,
    prove,
    split_evenly,
)
from fx.nn.parallel import DistributedDataParallel

warnings.simplefilter("error")  # nothing runs uncompiled unless a case says so
dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
everyone = [dist.new_group([r]) for r in range(size)]
alone = everyone[rank]
WIDTH, BATCH, COUNT = 4, 12, 6


def refused(words, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except (RuntimeError, ValueError, TypeError) as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError("nothing was raised")


def refused_by(kind, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind:
        return
    raise AssertionError("nothing was raised")


def block(i, width=WIDTH):
    fx.manual_seed(i)
    layers = [nn.Linear(WIDTH, width), nn.Tanh(), nn.Linear(width, WIDTH)]
    return nn.Sequential(*layers[: 3 - i % 2])  # stages need not be alike


def normal(k, *shape):
    return fx.random.normal(fx.random.key(k), shape)


x, y = normal(5, BATCH, WIDTH), normal(6, BATCH, WIDTH)
loss_fn = nn.MSELoss()


def gradients(module):
    return [p.grad.numpy().copy() for p in module.parameters()]


def near(a, b):
    return all(abs(u - v).max() <= 1e-6 * (1 + abs(v).max()) for u, v in zip(a, b, strict=True))


def places(name, ranks, each):
    if name == "ZBVZeroBubble":
        return [[r, 2 * ranks - 1 - r] for r in range(ranks)]
    return [list(range(r, ranks * each, ranks)) for r in range(ranks)]


def trained(name, group, modules, steps=2, **more):
    """Outputs, losses and gradients of a schedule over a group, the stages' modules given."""
    n = len(modules)
    mine = places(name, group.size(), n // group.size())[group.rank()]
    stages = [PipelineStage(modules[s], s, n, "cpu", group=group) for s in mine]
    kind = get_schedule_class(name)
    single = n == group.size() and kind in (ScheduleGPipe, Schedule1F1B)
    schedule = kind(stages[0] if single else stages, COUNT, loss_fn=loss_fn, **more)
    for _ in range(steps):
        for s in mine:
            modules[s].zero_grad()
        losses = []
        kwargs = {"target": y, "losses": losses} if n - 1 in mine else {}
        out = schedule.step(*([x] if 0 in mine else []), **kwargs)
    return out, losses, {s: gradients(modules[s]) for s in mine}


SCHEDULES = {
    "GPipe": (1,),
    "1F1B": (1,),
    "LoopedBFS": (1, 2),
    "Interleaved1F1B": (1, 2),
    "InterleavedZeroBubble": (1, 2),
    "ZBVZeroBubble": (2,),
}


def case_every_schedule_is_the_whole_model():
    for name, counts in SCHEDULES.items():
        for each in counts:
            n = size * each
            whole = nn.Sequential(*[block(i) for i in range(n)])
            total = loss_fn(whole(x), y)
            total.backward()
            out, losses, found = trained(name, dist.group.WORLD, [block(i) for i in range(n)])
            for s, grads in found.items():
                assert near(grads, gradients(whole[s])), (name, each, s)
            assert (out is not None) is (n - 1 in found)
            if out is not None:
                assert near([out.numpy()], [whole(x).detach().numpy()])
                assert len(losses) == COUNT
                assert abs(sum(map(float, losses)) / COUNT - float(total)) < 1e-6


def case_ranks_have_the_bits_of_one_process():
    for name, counts in SCHEDULES.items():
        if name in ("GPipe", "1F1B"):  # one stage a rank: no such pipeline in one process
            continue
        n = size * counts[-1]
        if name == "ZBVZeroBubble" and n != 2:
            name_of_one = "InterleavedZeroBubble"  # the order of a sum over micro-batches is its
        else:
            name_of_one = name
        _, _, found = trained(name, dist.group.WORLD, [block(i) for i in range(n)])
        _, _, known = trained(name_of_one, alone, [block(i) for i in range(n)])
        for s, grads in found.items():
            assert all((a == b).all() for a, b in zip(grads, known[s])), (name, s)


def case_gradients_are_scaled_once_and_added():
    for scale, factor in ((True, 1), (False, COUNT)):
        module = block(rank)
        stage = PipelineStage(module, rank, size)
        schedule = ScheduleGPipe(stage, COUNT, loss_fn=loss_fn, scale_grads=scale)
        for _ in range(2):
            schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None)
        whole = nn.Sequential(*[block(i) for i in range(size)])
        loss_fn(whole(x), y).backward()
        assert near(gradients(module), [2 * factor * g for g in gradients(whole[rank])])


class Several(nn.Module):
    """Passes numbers, a mask that is no float, and one that nothing depends on."""

    def __init__(self, i):
        super().__init__()
        fx.manual_seed(i)
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask=None, unused=None, *, times=1.0):
        mask = x > 0 if mask is None else mask
        return self.layer(x) * mask * times, mask, x * 2


class Last(Several):
    def forward(self, x, mask, unused, *, times=1.0):
        return super().forward(x, mask, times=times)[0]


def several():
    return [Last(i) if i == size - 1 else Several(i) for i in range(size)]


def case_tuples_masks_and_keywords():
    modules = several()
    stage = PipelineStage(modules[rank], rank, size)
    for kind in (Schedule1F1B, ScheduleInterleavedZeroBubble):
        given = stage if kind is Schedule1F1B else [stage]
        schedule = kind(given, COUNT, loss_fn=loss_fn)
        modules[rank].zero_grad()
        target = y if rank == size - 1 else None
        out = schedule.step(*([x] if rank == 0 else []), target=target, times=2.0)
        whole = several()
        passed = (x,)
        for module in whole[:-1]:
            passed = module(*passed, times=2.0)
        expected = whole[-1](*passed, times=2.0)
        loss_fn(expected, y).backward()
        assert near(gradients(modules[rank]), gradients(whole[rank]))
        if out is not None:
            assert near([out.numpy()], [expected.detach().numpy()])


def case_axes_that_are_cut():
    module = block(rank)
    stage = PipelineStage(module, rank, size)
    wide = x.T  # the batch is along axis 1
    first = rank == 0

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, wide, twice=None):
            return self.inner(wide.T * (1 if twice is None else twice))

    stage = PipelineStage(Turned() if first else module, rank, size)
    schedule = ScheduleGPipe(
        stage, COUNT, args_chunk_spec=(TensorChunkSpec(1),) if first else None,
        kwargs_chunk_spec={"twice": TensorChunkSpec(0)} if first else None,
    )  # fmt: skip
    kwargs = {"twice": fx.full((BATCH, 1), 2.0)} if first else {}
    out = schedule.step(*([wide] if first else []), **kwargs)
    if out is not None:
        whole = nn.Sequential(*[block(i) for i in range(size)])
        assert near([out.numpy()], [whole(x * 2).detach().numpy()]) and not out.requires_grad


def case_evaluation_and_batches_of_other_sizes():
    module = block(rank)
    schedule = Schedule1F1B(PipelineStage(module, rank, size), COUNT, loss_fn=loss_fn)
    whole = nn.Sequential(*[block(i) for i in range(size)])
    last = rank == size - 1
    for rows in (BATCH, 2 * BATCH, BATCH):
        a, b = normal(rows, rows, WIDTH), normal(1, rows, WIDTH)
        losses = []
        with fx.no_grad():
            out = schedule.eval(
                *([a] if rank == 0 else []), target=b if last else None, losses=losses
            )
        assert all(p.grad is None for p in module.parameters())
        assert len(losses) == (COUNT if last else 0)
        if last:
            assert near([out.numpy()], [whole(a).detach().numpy()])
        schedule.step(*([a] if rank == 0 else []), target=b if last else None)
        whole.zero_grad()
        loss_fn(whole(a), b).backward()
        assert near(gradients(module), gradients(whole[rank]))
        module.zero_grad()


class Noisy(nn.Module):
    def __init__(self, i):
        super().__init__()
        fx.manual_seed(i)
        self.layer, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        return nn.functional.dropout(self.norm(self.layer(x)), 0.3, self.training)


def case_draws_and_buffers_are_those_of_micro_batches_in_turn():
    for kind in (ScheduleGPipe, Schedule1F1B, ScheduleInterleavedZeroBubble):
        module = Noisy(rank)
        stage = PipelineStage(module, rank, size)
        schedule = kind([stage] if "Zero" in kind.__name__ else stage, COUNT, loss_fn=loss_fn)
        fx.manual_seed(0)
        out = schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None)
        passed = fx.tensor_split(x, COUNT)
        whole = [Noisy(i) for i in range(size)]
        for other in whole:
            fx.manual_seed(0)
            passed = [other(piece) for piece in passed]
        sum([loss_fn(a, b) for a, b in zip(passed, fx.tensor_split(y, COUNT))]).backward()
        assert near(gradients(module), [g / COUNT for g in gradients(whole[rank])])
        for a, b in zip(module.buffers(), whole[rank].buffers(), strict=True):
            assert near([a.numpy()], [b.numpy()])
        if out is not None:
            assert near([out.numpy()], [fx.concat(passed).detach().numpy()])


def case_frozen_stages_and_inputs_that_want_gradients():
    module = block(rank)
    if rank == 0:
        module.requires_grad_(False)
    stage = PipelineStage(module, rank, size)
    schedule = ScheduleInterleavedZeroBubble([stage], COUNT, loss_fn=loss_fn)
    whole = nn.Sequential(*[block(i) for i in range(size)])
    whole[0].requires_grad_(False)
    schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None)
    loss_fn(whole(x), y).backward()
    if rank:
        assert near(gradients(module), gradients(whole[rank]))
    else:
        assert all(p.grad is None for p in module.parameters())
    asked, known = x.detach().requires_grad_(True), x.detach().requires_grad_(True)
    schedule.step(*([asked] if rank == 0 else []), target=y if rank == size - 1 else None)
    loss_fn(whole(known), y).backward()
    if rank == 0:
        assert near([asked.grad.numpy() / COUNT], [known.grad.numpy()])


class Ends(nn.Module):
    """The first or the last part of a model with one matrix at both ends."""

    def __init__(self, weight, last):
        super().__init__()
        self.weight, self.last = nn.Parameter(weight), last

    def forward(self, x):
        return x @ (self.weight.T if self.last else self.weight)


def case_tied_weights():
    n, weight = 2 * size, normal(9, WIDTH, WIDTH)
    tied = [{0: "weight", n - 1: "weight"}]
    make = lambda i: Ends(weight, i > 0) if i in (0, n - 1) else block(i)
    shared = nn.Parameter(weight)
    middle = [block(i) for i in range(1, n - 1)]
    loss_fn(nn.Sequential(*middle)(x @ shared) @ shared.T, y).backward()
    for kind, name in (
        (ScheduleLoopedBFS, "LoopedBFS"),  # the ends in two ranks
        (ScheduleZBVZeroBubble, "ZBVZeroBubble"),  # and in one
    ):
        mine = places(name, size, 2)[rank]
        modules = {i: make(i) for i in mine}
        if {0, n - 1} <= set(mine):
            modules[n - 1].weight = modules[0].weight  # one parameter in both
        stages = [PipelineStage(modules[i], i, n, tied=tied) for i in mine]
        schedule = kind(stages, COUNT, loss_fn=loss_fn)
        for _ in range(2):  # what was there before is not summed again
            schedule.step(*([x] if 0 in mine else []), target=y if n - 1 in mine else None)
        for i in {0, n - 1} & set(mine):
            assert near([modules[i].weight.grad.numpy() / 2], [shared.grad.numpy()]), name
        for i in set(mine) - {0, n - 1}:
            assert near([g / 2 for g in gradients(modules[i])], gradients(middle[i - 1]))


def case_data_parallel_stages():
    modules = [block(i) for i in range(2)]  # each rank has a pipeline of its own
    wrapped = [DistributedDataParallel(m, process_group=dist.group.WORLD) for m in modules]
    stages = [PipelineStage(m, i, 2, group=alone) for i, m in enumerate(wrapped)]
    a, b = normal(rank, BATCH, WIDTH), normal(10 + rank, BATCH, WIDTH)
    schedule = ScheduleInterleavedZeroBubble(stages, COUNT, loss_fn=loss_fn)
    schedule.step(a, target=b)
    whole = nn.Sequential(*[block(i) for i in range(2)])
    for r in range(size):
        loss_fn(whole(normal(r, BATCH, WIDTH)), normal(10 + r, BATCH, WIDTH)).backward()
    for i in range(2):
        assert near(gradients(modules[i]), [g / size for g in gradients(whole[i])])


def case_what_is_not_compiled_is_the_same():
    found = []
    for compiled in (True, False):
        module = block(rank)
        stage = PipelineStage(module, rank, size, compiled=compiled)
        schedule = ScheduleInterleavedZeroBubble([stage], COUNT, loss_fn=loss_fn)
        schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None)
        found.append(gradients(module))
    assert near(*found)


def case_a_schedule_of_ones_own():
    module = block(rank)
    schedule = ScheduleGPipe(PipelineStage(module, rank, size), COUNT, loss_fn=loss_fn)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "order.csv"
        Schedule1F1B(PipelineStage(block(rank), rank, size), COUNT, loss_fn=loss_fn)._dump_csv(path)
        schedule._load_csv(path)
        assert schedule.pipeline_order[size - 1][:4] != sorted(schedule.pipeline_order[size - 1])
        rows = path.read_text().splitlines()
        path.write_text("\n".join([rows[0].replace("0F0", "0F1", 1), *rows[1:]]))
        refused("the schedule does 0F1, 0SEND_F1 more than once", schedule._load_csv, path)
    schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None)
    whole = nn.Sequential(*[block(i) for i in range(size)])
    loss_fn(whole(x), y).backward()
    assert near(gradients(module), gradients(whole[rank]))


def case_ends_that_are_tied_and_differ():
    n = 2 * size
    modules = {i: Ends(normal(i, WIDTH, WIDTH), i > 0) for i in (rank, rank + size)}
    tied = [{0: "weight", n - 1: "weight"}]
    stages = [PipelineStage(m, i, n, tied=tied) for i, m in modules.items()]
    schedule = ScheduleLoopedBFS(stages, COUNT, loss_fn=loss_fn)
    refused("do not begin with the same values", schedule.step, x, target=y)


def case_activations_are_held_as_the_proof_says():
    for name, counts in SCHEDULES.items():
        n = size * counts[-1]
        mine = places(name, size, counts[-1])[rank]
        stages = [PipelineStage(block(s), s, n, compiled=False) for s in mine]
        kind = get_schedule_class(name)
        schedule = kind(stages if counts[-1] > 1 or "Zero" in name else stages[0], COUNT, loss_fn)
        held = []
        for stage in stages:

            def forward_one(*args, stages=stages, held=held, forward_one=stage.forward_one):
                out = forward_one(*args)
                held.append(sum([len(s._held) for s in stages]))
                return out

            stage.forward_one = forward_one
        schedule.step(*([x] if 0 in mine else []), target=y if n - 1 in mine else None)
        assert max(held) == prove(schedule._whole, n, COUNT).live[rank], name
        assert not any(s._held for s in stages)


def case_narrow_and_complex_numbers():
    class Spectrum(nn.Module):
        def __init__(self, i):
            super().__init__()
            self.weight = nn.Parameter(normal(i, WIDTH) + 1j * normal(i + 50, WIDTH))

        def forward(self, x):
            return x * self.weight

    class Power(Spectrum):
        def forward(self, x):
            return (super().forward(x).abs() ** 2) * 0.25

    make = lambda i: Power(i) if i == size - 1 else Spectrum(i)
    whole = nn.Sequential(*[make(i) for i in range(size)])
    loss_fn(whole(x), y).backward()
    for compiled in (True, False):
        module = make(rank)
        stage = PipelineStage(module, rank, size, compiled=compiled)
        schedule = ScheduleInterleavedZeroBubble([stage], COUNT, loss_fn=loss_fn)
        schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None)
        assert near(gradients(module), gradients(whole[rank])), compiled
    module = block(rank).to(fx.bfloat16)
    schedule = Schedule1F1B(PipelineStage(module, rank, size), COUNT, loss_fn=loss_fn)
    a, b = x.astype(fx.bfloat16), y.astype(fx.bfloat16)
    schedule.step(*([a] if rank == 0 else []), target=b if rank == size - 1 else None)
    whole = nn.Sequential(*[block(i).to(fx.bfloat16) for i in range(size)])
    loss_fn(whole(a), b).backward()
    for p, q in zip(module.parameters(), whole[rank].parameters(), strict=True):
        p, q = p.grad.astype(fx.float32), q.grad.astype(fx.float32)
        assert float((p - q).abs().max()) < 0.05 * (1e-3 + float(q.abs().max()))


def case_results_that_nobody_asks_for():
    schedule = ScheduleGPipe(PipelineStage(block(rank), rank, size), COUNT, loss_fn=loss_fn)
    target, losses = (y if rank == size - 1 else None), []
    args = [x] if rank == 0 else []
    assert schedule.step(*args, target=target, losses=losses, return_outputs=False) is None
    assert len(losses) == (COUNT if rank == size - 1 else 0)


def case_what_does_not_fit_is_refused():
    stage = PipelineStage(block(rank), rank, size)
    refused("must be greater than or equal to the number of stages", Schedule1F1B, stage, size - 1)
    refused("n_microbatches is 1 or more, got 0", ScheduleGPipe, stage, 0)
    refused("out of range", PipelineStage, block(0), size, size)
    refused("cannot be larger than number of stages", PipelineStage, block(0), 0, size - 1)
    odd = [PipelineStage(block(i), i, size + 1) for i in [rank] + [size] * (rank == 0)]
    refused(f"{size + 1} stages do not divide among {size} ranks", ScheduleLoopedBFS, odd, COUNT)
    wrong = PipelineStage(block(rank), (rank + 1) % size, size)
    words = f"rank {rank} has stages [{(rank + 1) % size}], and is to have [{rank}]"
    refused(words, ScheduleGPipe, wrong, COUNT)
    refused("dw_builder is not needed", PipelineStage, block(0), 0, size, dw_builder=print)
    schedule = ScheduleGPipe(stage, 5, loss_fn=loss_fn)
    refused("has 12 along axis 0, which does not divide into 5", schedule.step, x, target=y)
    with fx.no_grad():
        refused("Please call eval() instead", schedule.step, x)
    if rank == size - 1:
        refused("the rank of the last stage gives target=", schedule.step)
    refused("Unknown schedule name 'Z'", get_schedule_class, "Z")


def case_ranks_that_differ_are_named():
    stage = PipelineStage(block(rank), rank, size)
    schedule = ScheduleGPipe(stage, 3 if rank == 1 else 6, loss_fn=loss_fn)
    words = (
        f"rank 0 trains by ScheduleGPipe with 6 microbatches and {size} stages, and rank 1 trains "
        f"by ScheduleGPipe with 3 microbatches"
    )
    refused(words, schedule.step, *([x] if rank == 0 else []), target=y)


class Growing(nn.Module):
    """Gives one column more for every micro-batch."""

    def __init__(self):
        super().__init__()
        self.weight, self.calls = nn.Parameter(fx.ones(WIDTH)), 0

    def forward(self, x):
        self.calls += 1
        return (x * self.weight)[:, : self.calls]


def case_results_that_are_not_what_was_announced():
    modules = [Growing(), nn.Identity()]
    stages = [PipelineStage(m, i, 2, group=alone, compiled=False) for i, m in enumerate(modules)]
    schedule = ScheduleLoopedBFS(stages, COUNT)
    words = "stage 0 gave float32[2, 1] for the first microbatch of the step, and float32[2, 2]"
    refused(words, schedule.step, x)
    told = dict(input_args=fx.zeros((2, WIDTH)), output_args=fx.zeros((2, 3)))
    stages = [
        PipelineStage(block(0), 0, 2, group=alone, **told),
        PipelineStage(block(1), 1, 2, group=alone),
    ]
    words = "stage 0 gives float32[2, 4], and its output_args announced float32[2, 3]"
    refused(words, ScheduleLoopedBFS(stages, COUNT).step, x)

    class Dict(nn.Module):
        def forward(self, x):
            return {"x": x}

    stages = [PipelineStage(Dict(), 0, 2, group=alone), stages[1]]
    refused("stage 0 gave a dict", ScheduleLoopedBFS(stages, COUNT).step, x)


def case_gradients_outlive_a_step_that_fails():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.calls = nn.Parameter(fx.ones(WIDTH)), 0

        def forward(self, x):
            self.calls += 1
            if self.calls > COUNT + 2:
                raise KeyError("in the middle")
            return x * self.weight

    module = Fails()
    stages = [
        PipelineStage(module, 0, 1, group=alone, compiled=False),
    ]
    schedule = ScheduleLoopedBFS(stages, COUNT, loss_fn=loss_fn)
    schedule.step(x, target=y)
    before = module.weight.grad.numpy().copy()
    refused_by(KeyError, schedule.step, x, target=y)
    assert (module.weight.grad.numpy() == before).all() and np.isfinite(before).all()


class Language(nn.Module):
    """Blocks between an embedding and its transpose, with a mask and positions."""

    def __init__(self, blocks):
        super().__init__()
        fx.manual_seed(0)
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(5, 8)
        make = lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.blocks = nn.ModuleList([make() for _ in range(blocks)])
        self.register_buffer("mask", fx.tril(fx.ones((5, 5))) == 0)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids, scale=1.0):
        x = self.words(ids) + self.places(fx.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x, src_mask=self.mask)
        return self.head(x) * scale


def case_a_module_that_is_split():
    ids = fx.arange(12 * 5).reshape(12, 5) % 11
    goal = (ids + 1) % 11
    cross = lambda out, y: nn.functional.cross_entropy(out.flatten(0, 1), y.flatten())
    whole = Language(2 * size - 1)
    cross(whole(ids, 0.5), goal).backward()
    known = {n: p.grad.numpy() for n, p in whole.named_parameters()}
    for kind in (ScheduleLoopedBFS, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble):
        model = Language(2 * size - 1)
        spec = {f"blocks.{i}": SplitPoint.END for i in range(2 * size - 1)}
        pipe = pipeline(model, (ids[:2], 0.5), split_spec=spec)
        assert pipe.num_stages == 2 * size
        mine = [rank, 2 * size - 1 - rank] if kind is ScheduleZBVZeroBubble else [rank, rank + size]
        stages = [pipe.build_stage(i, "cpu") for i in mine]
        del pipe, model
        schedule = kind(stages, 6, loss_fn=cross)
        target = goal if 2 * size - 1 in mine else None
        out = schedule.step(*([ids, 0.5] if rank == 0 else []), target=target)
        for stage in stages:
            named = dict(stage.submod.named_parameters())
            assert named
            for name, p in named.items():
                assert near([p.grad.numpy()], [known[name]]), (kind, name)
        if out is not None:
            assert near([out.numpy()], [whole(ids, 0.5).detach().numpy()])
        whole.eval()
        for stage in stages:
            stage.submod.eval()
        out = schedule.eval(*([ids, 0.5] if rank == 0 else []))
        if out is not None:
            assert near([out.numpy()], [whole(ids, 0.5).detach().numpy()])
        whole.train()


def case_a_sequential_that_is_split_and_data_parallel():
    layers = lambda: nn.Sequential(*[block(i) for i in range(2 * size)])
    model = layers()
    spec = split_evenly(model, 2, (x[:2],))
    pipe = pipeline(model, (x[: BATCH // COUNT],), split_spec=spec)
    wrap = lambda m: DistributedDataParallel(m, process_group=dist.group.WORLD)
    stages = [build_stage(wrap(pipe.get_stage_module(i)), i, pipe, group=alone) for i in range(2)]
    schedule = ScheduleLoopedBFS(stages, COUNT, loss_fn=loss_fn)
    schedule.step(normal(rank, BATCH, WIDTH), target=normal(10 + rank, BATCH, WIDTH))
    whole = layers()
    for r in range(size):
        loss_fn(whole(normal(r, BATCH, WIDTH)), normal(10 + r, BATCH, WIDTH)).backward()
    assert near(gradients(model), [g / size for g in gradients(whole)])
