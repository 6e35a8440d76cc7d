"""Parameters cut over ranks: training equals one process, and memory is that of parts."""

import gc
import tempfile

import numpy as np

import fx
import fx.distributed as dist
import fx.nn.functional as F
from fx.distributed import DTensor, Replicate, Shard, checkpoint
from fx.distributed.mesh import world
from fx.distributed.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from fx.distributed.ranks import Ranks
from fx.nn.fully_sharded import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
    state,
)

dist.init_process_group("mpi")
size, rank = world()
mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))


def draws(*shape, seed=0):
    return fx.from_numpy(np.random.default_rng(seed).normal(size=shape))


class Block(fx.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = fx.nn.LayerNorm(n)
        self.up, self.down = fx.nn.Linear(n, 2 * n + 1), fx.nn.Linear(2 * n + 1, n)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(fx.nn.Module):
    """Units in a unit, sizes that no number of ranks divides, a frozen and a tied parameter."""

    def __init__(self, n=5):
        super().__init__()
        self.into = fx.nn.Linear(n, n)
        self.blocks = fx.nn.ModuleList([Block(n), Block(n)])
        self.out = fx.nn.Linear(n, n)
        self.out.weight = self.into.weight
        self.out.bias.requires_grad = False

    def forward(self, x):
        x = self.into(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def net(seed=0):
    fx.manual_seed(seed)
    return Net().double()


def shard(model, **options):
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def batches(count=4):
    for k in range(count):
        yield draws(2 * size, 5, seed=k), draws(2 * size, 5, seed=100 + k)


def mine(x):
    return x[2 * rank : 2 * rank + 2]


def train(model, optimizer, part, clip=None):
    for x, y in batches():
        optimizer.zero_grad()
        F.mse_loss(model(part(x)), part(y)).backward()
        if clip:
            fx.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return model


def close(x, want, tolerance=1e-10):
    whole = x.full_tensor() if isinstance(x, DTensor) else x
    whole, want = (a.detach().numpy() for a in (whole, want))
    np.testing.assert_allclose(whole, want, tolerance, tolerance)


def same(model, plain, tolerance=1e-10):
    for (name, p), q in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert p.placements[-1] == Shard(0), name
        close(p, q, tolerance)


OPTIMIZERS = {
    "sgd": lambda ps: fx.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda ps: fx.optim.AdamW(ps, lr=0.01, weight_decay=0.1),
}


class Sent:
    """How many messages of each kind are sent inside."""

    def __enter__(self):
        self.names, self.saved = [], {}
        for name in ("gather", "reduce_scatter", "reduce"):
            method = self.saved[name] = getattr(Ranks, name)
            setattr(Ranks, name, self.noting(name, method))
        return self

    def noting(self, name, method):
        def noted(ranks, x, *rest):
            self.names.append(name)
            return method(ranks, x, *rest)

        return noted

    def __exit__(self, *error):
        for name, method in self.saved.items():
            setattr(Ranks, name, method)


def refused(error, words, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except error as found:
        assert words in str(found), str(found)
    else:
        raise AssertionError(f"{words} was not refused")


# training ---------------------------------------------------------------------------------------


def case_training_is_that_of_one_process():
    for make in OPTIMIZERS.values():
        plain = net()
        train(plain, make([p for p in plain.parameters() if p.requires_grad]), lambda x: x)
        for reshard in (None, True, False):
            model = shard(net(), mesh=mesh, reshard_after_forward=reshard)
            optimizer = make([p for p in model.parameters() if p.requires_grad])
            train(model, optimizer, mine)
            same(model, plain)
            for p in optimizer.state:
                for slot in optimizer.state[p].values():
                    assert not slot.ndim or slot.placements == (Shard(0),)


def case_clipping_is_that_of_one_process():
    plain, model = net(), shard(net())
    train(plain, fx.optim.SGD(plain.parameters(), lr=0.1), lambda x: x, clip=0.05)
    train(model, fx.optim.SGD(model.parameters(), lr=0.1), mine, clip=0.05)
    same(model, plain)


def case_replicas_of_parts():
    if size != 4:
        return
    grid = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    plain, model = net(), shard(net(), mesh=grid)
    assert model.into.weight.placements == (Replicate(), Shard(0))
    train(plain, OPTIMIZERS["adamw"](plain.parameters()), lambda x: x)
    train(model, OPTIMIZERS["adamw"](model.parameters()), mine)
    same(model, plain)


def case_an_optimizer_made_before_goes_on():
    model, plain = net(), net()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    train(shard(model), optimizer, mine)
    train(plain, OPTIMIZERS["sgd"](plain.parameters()), lambda x: x)
    same(model, plain)


def case_gradients_add_up():
    plain, model = net(), shard(net())
    (x, y), (u, v) = batches(2)
    for a, b in ((x, y), (u, v)):
        F.mse_loss(plain(a), b).backward()
    for own in (False, True):
        model.zero_grad()
        with Sent() as sent:
            model.set_requires_gradient_sync(not own)
            F.mse_loss(model(mine(x)), mine(y)).backward()
            assert not own or "reduce_scatter" not in sent.names
            model.set_requires_gradient_sync(True)
            F.mse_loss(model(mine(u)), mine(v)).backward()
        assert sent.names.count("reduce_scatter") == (3 if own else 6)
        for p, q in zip(model.parameters(), plain.parameters()):
            assert (p.grad is None) == (q.grad is None)
            if q.grad is not None:
                close(p.grad, q.grad)


def case_two_forward_passes_have_one_backward():
    plain, model = net(), shard(net())
    (x, y), (u, v) = batches(2)
    for one, part in ((plain, lambda x: x), (model, mine)):
        (F.mse_loss(one(part(x)), part(y)) + F.mse_loss(one(part(u)), part(v))).backward()
    for p, q in zip(model.parameters(), plain.parameters()):
        if q.grad is not None:
            close(p.grad, q.grad)


def case_backward_uses_the_values_of_its_forward():
    plain, model = net(), shard(net())
    x, y = next(batches(1))
    found = []
    for one, part in ((plain, lambda x: x), (model, mine)):
        loss = F.mse_loss(one(part(x)), part(y))
        with fx.no_grad():
            for p in one.parameters():
                p *= 0.5
        loss.backward()
        found.append([*one.parameters()])
    for q, p in zip(*found):
        if q.grad is not None:
            close(p.grad, q.grad)
    plain, model = net(), shard(net(), reshard_after_forward=False)
    with fx.no_grad():
        model(mine(x))
        for p in (*model.parameters(), *plain.parameters()):
            p *= 0.5
        close(model(mine(x)), mine(plain(x)))  # not what was gathered before


def case_parameters_without_a_part():
    class Two(fx.nn.Module):
        def __init__(self):
            super().__init__()
            fx.manual_seed(0)
            self.a, self.b, self.c = [fx.nn.Linear(3, 2).double() for _ in "abc"]

        def forward(self, x, which):
            return self.a(x) + (self.b(x) if which else 0)

    model = fully_shard(Two())
    x = draws(2, 3)
    (model(x, rank == 0)).sum().backward()  # of b rank 0 alone has a gradient
    assert model.c.weight.grad is None
    want = np.tile(x.numpy().sum(0), (2, 1))
    close(model.a.weight.grad, fx.from_numpy(want))
    close(model.b.weight.grad, fx.from_numpy(want / size))


# messages and memory ----------------------------------------------------------------------------


def case_a_message_for_each_unit():
    x, y = next(batches(1))
    for reshard, gathers in ((None, 5), (True, 6), (False, 3)):
        model = shard(net(), reshard_after_forward=reshard)
        with Sent() as sent:
            F.mse_loss(model(mine(x)), mine(y)).backward()
        assert sent.names.count("gather") == gathers, (reshard, sent.names)
        assert sent.names.count("reduce_scatter") == 3


def case_between_the_passes_there_are_parts_alone():
    import tracemalloc

    n, depth = 192, 6
    layer = n * n * 8
    model = fx.nn.Sequential(*[fx.nn.Linear(n, n, bias=False).double() for _ in range(depth)])
    for part in model:
        fully_shard(part)
    fully_shard(model)
    optimizer = fx.optim.AdamW(model.parameters())
    x = draws(2, n)
    held = lambda: sum(p.to_local().nbytes for p in model.parameters())
    assert held() <= depth * layer / size + depth * n * 8
    for _ in range(2):  # the slots are there from the first step on
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
    del loss
    optimizer.zero_grad()
    gc.collect()
    tracemalloc.start()
    try:
        loss = model(x).sum()
        assert tracemalloc.get_traced_memory()[0] < layer, "forward keeps no whole parameter"
        assert tracemalloc.get_traced_memory()[1] < 3.5 * layer  # a message and what comes of it
        tracemalloc.reset_peak()
        loss.backward()
        gradients, peak = tracemalloc.get_traced_memory()
        assert gradients < depth * layer / size + layer / 2, gradients / layer
        assert peak < depth * layer / size + 4.5 * layer, peak / layer
    finally:
        tracemalloc.stop()
    for p in model.parameters():
        for slot in optimizer.state[p].values():
            assert not slot.ndim or slot.to_local().nbytes <= layer / size + n * 8


# states -----------------------------------------------------------------------------------------


def trained_pair(make):
    """A model that was trained a while, and one that was not, with their optimizers."""
    out = []
    for seed in (0, 1):
        model = shard(net(seed))
        optimizer = make([p for p in model.parameters() if p.requires_grad])
        out.append((model, optimizer))
    train(*out[0], mine)
    return out


def case_whole_states_make_the_round():
    for full in (True, False):
        for make in OPTIMIZERS.values():
            (model, optimizer), (other, its) = trained_pair(make)
            options = state.StateDictOptions(full_state_dict=full)
            model_state, of_optimizer = state.get_state_dict(model, optimizer, options=options)
            assert isinstance(model_state["into.weight"], DTensor) != full
            slots = of_optimizer["state"]["blocks.0.up.weight"].values()
            assert all(isinstance(x, DTensor) != full for x in slots if x.ndim)
            state.set_state_dict(
                other, its, model_state_dict=model_state, optim_state_dict=of_optimizer,
                options=options,
            )  # fmt: skip
            train(model, optimizer, mine)
            train(other, its, mine)
            for p, q in zip(model.parameters(), other.parameters()):
                assert np.array_equal(p.detach().to_local().numpy(), q.detach().to_local().numpy())
                assert q.placements == (Shard(0),)


def case_whole_states_are_those_of_one_process():
    plain = net()
    trained = [p for p in plain.parameters() if p.requires_grad]
    optimizer = OPTIMIZERS["adamw"](trained)
    train(plain, optimizer, lambda x: x)
    (model, its), (other, _) = trained_pair(OPTIMIZERS["adamw"])
    options = state.StateDictOptions(full_state_dict=True)
    for one, two in (
        (state.get_model_state_dict(model, options=options), plain.state_dict()),
        (state.get_optimizer_state_dict(model, its, options=options)["state"]["into.weight"],
         optimizer.state_dict()["state"][0]),
    ):  # fmt: skip
        assert list(one) == list(two)
        for name in one:
            close(fx.asarray(one[name]), fx.asarray(two[name]))
    options.cpu_offload = True
    found = state.get_model_state_dict(model, options=options)
    assert bool(found) == (rank == 0)
    options.broadcast_from_rank0 = True
    state.set_model_state_dict(other, found, options=options)
    same(other, plain)


def case_checkpoints_have_the_parts():
    place = broadcast_name()
    (model, optimizer), (other, its) = trained_pair(OPTIMIZERS["adamw"])
    parts = lambda m, o: dict(zip(("model", "optimizer"), state.get_state_dict(m, o)))
    checkpoint.save(parts(model, optimizer), checkpoint_id=place)
    train(other, its, mine)  # so that it has slots
    found = parts(other, its)
    checkpoint.load(found, checkpoint_id=place)
    state.set_state_dict(
        other, its, model_state_dict=found["model"], optim_state_dict=found["optimizer"]
    )
    plain = net(2)
    checkpoint.load({"model": plain}, checkpoint_id=place)  # whole, of the parts
    third = shard(net(3))
    checkpoint.load({"model": third}, checkpoint_id=place)
    for p, q, r, s in zip(*[m.parameters() for m in (model, other, third, plain)]):
        assert np.array_equal(p.detach().to_local().numpy(), q.detach().to_local().numpy())
        assert np.array_equal(p.detach().to_local().numpy(), r.detach().to_local().numpy())
        assert np.array_equal(p.detach().full_tensor().numpy(), s.detach().numpy())
    new = OPTIMIZERS["adamw"]([p for p in third.parameters() if p.requires_grad])
    lies = state.get_model_state_dict(third)
    reader = checkpoint.FileSystemReader(place)
    held = checkpoint.load_sharded_optimizer_state_dict(lies, "optimizer", reader)["optimizer"]
    for name, slots in held["state"].items():  # no rank reads a whole
        assert slots["exp_avg"].placements == lies[name].placements
    state.set_optimizer_state_dict(third, new, held)
    train(model, optimizer, mine)
    train(other, its, mine)
    train(third, new, mine)
    for p, q, r in zip(*[m.parameters() for m in (model, other, third)]):
        assert np.array_equal(p.detach().to_local().numpy(), q.detach().to_local().numpy())
        assert np.array_equal(p.detach().to_local().numpy(), r.detach().to_local().numpy())


def broadcast_name():
    name = np.zeros(200, np.uint8)
    if rank == 0:
        text = tempfile.mkdtemp().encode()
        name[: len(text)] = [*text]
    return bytes(mesh.ranks(0).broadcast(name, 0)).rstrip(b"\0").decode()


# the face ---------------------------------------------------------------------------------------


def case_dtypes():
    policy = MixedPrecisionPolicy(fx.bfloat16, fx.float32, output_dtype=fx.float32)
    model = fully_shard(fx.nn.Linear(4, 3), mp_policy=policy)
    seen = []
    model.register_forward_pre_hook(lambda m, args: seen.append((args[0].dtype, m.weight.dtype)))
    out = model(fx.ones((2, 4)))
    assert seen == [(fx.bfloat16, fx.bfloat16)] and out.dtype == fx.float32
    out.sum().backward()
    assert model.weight.dtype == model.weight.grad.dtype == fx.float32
    close(model.weight.grad, fx.full((3, 4), 2.0))


def case_methods():
    model = shard(net())
    assert isinstance(model, FSDPModule) and isinstance(model, Net)
    part = model.into.weight
    handle = model.unshard(async_op=True)
    handle.wait()
    assert model.into.weight.device.name == "cpu" and model.into.weight.shape == (5, 5)
    model.reshard()
    assert model.into.weight is part and isinstance(part, DTensor)
    model.twice = lambda x: model.into(x) * 2
    register_fsdp_forward_method(model, "twice")
    close(model.twice(draws(2, 5)), net().into(draws(2, 5)) * 2)
    model.set_modules_to_forward_prefetch([*model.blocks])
    with Sent() as sent, fx.no_grad():
        close(model(draws(2, 5)), net()(draws(2, 5)))
    assert sent.names == ["gather"] * 2  # of the blocks: the outermost unit's are here
    model.set_gradient_divide_factor(1.0)
    model(draws(2, 5)).sum().backward()
    plain = net()
    plain(draws(2, 5)).sum().backward()
    close(model.into.bias.grad, plain.into.bias.grad * size)


def case_what_is_not_there_is_named():
    words = "fully_shard"
    refused(RuntimeError, words, fully_shard, [net()])
    refused(RuntimeError, "already", fully_shard, fully_shard(net()))
    refused(RuntimeError, "bool", fully_shard, net(), reshard_after_forward=2)
    refused(RuntimeError, "axis 0", fully_shard, net(), shard_placement_fn=lambda p: Shard(1))
    scalar = fx.nn.Module()
    scalar.scale = fx.nn.Parameter(fx.tensor(1.0))
    refused(RuntimeError, "Change scale to a 1D tensor", fully_shard, scalar)
    refused(RuntimeError, "on different devices", shard(net()).into, draws(2, 5))
    left = net()
    model = fully_shard(left, ignored_params=[left.into.bias])
    assert not isinstance(model.into.bias, DTensor)
    model(draws(2, 5)).sum().backward()


def case_units_that_differ_are_named():
    other = rank == size - 1
    turned = fx.nn.Linear(*((6, 4) if other else (4, 6)), bias=False)  # as many bytes
    refused(RuntimeError, "rank 0: fully_shard(weight float32 (6, 4))", fully_shard, turned)
    wide = fx.nn.Linear(3, 3).to(fx.float64 if other else fx.float32)
    refused(RuntimeError, "bias float64 (3,)", fully_shard, wide)
    frozen = fx.nn.Linear(3, 3)
    frozen.weight.requires_grad = other
    refused(RuntimeError, "weight float32 (3, 3) frozen", fully_shard, frozen)
    tied = fx.nn.Sequential(fx.nn.Linear(3, 3), fx.nn.Linear(3, 3))
    if other:
        tied[1].weight = tied[0].weight
    refused(RuntimeError, "1.weight float32 (3, 3) = 0.weight", fully_shard, tied)
    low = MixedPrecisionPolicy(param_dtype=fx.bfloat16 if other else None)
    refused(RuntimeError, "param=bfloat16", fully_shard, fx.nn.Linear(3, 3), mp_policy=low)
    model = shard(net())  # what was refused leaves nothing behind
    close(model(draws(2, 5)), net()(draws(2, 5)))


def case_what_is_frozen_later_on_some_ranks_is_named():
    model = fully_shard(fx.nn.Sequential(fx.nn.Linear(4, 4), fx.nn.Linear(4, 4)))
    model[rank == size - 1].weight.requires_grad = False  # as many bytes
    refused(RuntimeError, "train other parameters", lambda: model(fx.ones((1, 4))).sum().backward())


def case_what_was_made_on_meta_gets_parts_with_the_bits_of_one_process():
    def made():
        layers = [fx.nn.Linear(4, 7), fx.nn.LayerNorm(7), fx.nn.BatchNorm1d(7), fx.nn.Linear(7, 2)]
        return fx.nn.Sequential(*layers)

    def reset(model):
        fx.manual_seed(3)
        for layer in model:
            layer.reset_parameters()
        return model

    with fx.torch.device("meta"):
        model, counts = made(), fx.nn.Linear(4, 7)
    fully_shard(fully_shard(model[0]) and model)
    held = [p.detach().to_local().numpy() for p in model.parameters()]
    assert all(np.isnan(a).all() for a in held)  # no number that could be taken for a value
    model.to_empty(device="cpu")
    reset(model)
    whole = reset(made())
    for (name, p), q in zip(model.named_parameters(), whole.parameters(), strict=True):
        assert p.placements == (Shard(0),), name
        assert (p.detach().full_tensor().numpy() == q.detach().numpy()).all(), name
    x = draws(3, 4).float()
    close(model.eval()(x), whole.eval()(x))
    counts.weight = fx.nn.Parameter(fx.zeros((7, 4), dtype=fx.int32, device="meta"), False)
    refused(RuntimeError, "weight has no values", fully_shard, counts)


def case_whole_parameters_that_were_asked_for_serve_one_forward_pass():
    plain, model = net(), shard(net(), mesh=mesh)
    optimizers = [fx.optim.SGD(m.parameters(), lr=0.1) for m in (plain, model)]
    for x, y in batches(3):
        model.unshard()
        model.unshard()  # asked for already
        assert not isinstance(model.into.weight, DTensor)
        for m, part, optimizer in zip((plain, model), (lambda x: x, mine), optimizers):
            optimizer.zero_grad()
            F.mse_loss(m(part(x)), part(y)).backward()
        assert isinstance(model.into.weight, DTensor)
        for p, q in zip(model.parameters(), plain.parameters(), strict=True):
            if q.requires_grad:
                close(p.grad, q.grad)
        for optimizer in optimizers:
            optimizer.step()
    same(model, plain)
    model.unshard()
    close(model.out.weight, plain.out.weight)
    model.reshard()
    assert isinstance(model.out.weight, DTensor)


def case_whole_parameters_that_stay_serve_several_passes():
    plain, model = net(), shard(net(), mesh=mesh, reshard_after_forward=False)
    model.set_reshard_after_backward(False)
    with Sent() as sent:
        for x, _ in batches(3):
            plain(x).square().mean().backward()
            model(mine(x)).square().mean().backward()
    assert sent.names.count("gather") == 3  # one a unit, in the first pass
    model.reshard()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        if q.requires_grad:
            close(p.grad, q.grad)


def case_an_optimizers_state_of_rank_0_goes_to_all():
    options = state.StateDictOptions(full_state_dict=True)
    model = shard(net(), mesh=mesh)
    optimizer = fx.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)
    train(model, optimizer, mine)
    found = state.get_optimizer_state_dict(model, optimizer, options=options)
    weights = state.get_model_state_dict(model, options=options)
    other = shard(net(7), mesh=mesh)
    again = fx.optim.Adam([p for p in other.parameters() if p.requires_grad], lr=0.3)
    sends = state.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    state.set_model_state_dict(other, weights if rank == 0 else {}, options=sends)
    state.set_optimizer_state_dict(other, again, found if rank == 0 else {}, options=sends)
    for m, o in ((model, optimizer), (other, again)):
        train(m, o, mine)
    for p, q in zip(other.parameters(), model.parameters(), strict=True):
        close(p, q.full_tensor())


def case_parameters_that_tensor_parallel_has_cut_are_cut_again():
    for shape in ((2, 2), (4, 1), (1, 4)) if size == 4 else ((size, 1), (1, size)):
        both = dist.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
        replicas, here = shape[0], both.get_local_rank("dp")
        part = lambda x, n=replicas, here=here: x.reshape(n, -1, x.shape[1])[here]
        plain = net()
        cut = net()
        plan = {"up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel()}
        for block in cut.blocks:
            parallelize_module(block, both["tp"], plan)
            fully_shard(block, mesh=both["dp"])
        fully_shard(cut, mesh=both["dp"])
        weight = cut.blocks[0].up.weight
        assert weight.placements == (Shard(0), Shard(0)) and weight.shape == (11, 5)
        assert weight.device_mesh.axis_names == ("tp", "dp")
        assert weight.to_local().numel() <= 5 * -(-11 // size) + 5
        assert cut.blocks[0].norm.weight.device_mesh.axis_names == ("dp",)
        close(cut.blocks[0].down.weight, plain.blocks[0].down.weight, 0)
        make = OPTIMIZERS["adamw"]
        train(plain, make([p for p in plain.parameters() if p.requires_grad]), lambda x: x)
        optimizer = make([p for p in cut.parameters() if p.requires_grad])
        train(cut, optimizer, part)
        for p, q in zip(cut.parameters(), plain.parameters(), strict=True):
            close(p, q)
        options = state.StateDictOptions(full_state_dict=True)
        found = state.get_model_state_dict(cut, options=options)
        slots = state.get_optimizer_state_dict(cut, optimizer, options=options)
        assert slots["state"]["blocks.1.up.weight"]["exp_avg"].shape == (11, 5)
        cut.blocks[1].up.weight.rebind(cut.blocks[1].up.weight * 0)
        state.set_model_state_dict(cut, found, options=options)
        close(cut.blocks[1].up.weight, plain.blocks[1].up.weight)


def case_a_parameter_on_another_mesh_is_refused():
    cut = fx.nn.Linear(4, 4)
    parallelize_module(cut, mesh, RowwiseParallel())
    refused(RuntimeError, "mesh_dim_names=('dp', 'tp')", fully_shard, cut, mesh=mesh)
