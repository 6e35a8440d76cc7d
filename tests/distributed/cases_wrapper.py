"""``FullyShardedDataParallel``, its policies and state dicts, and modules that are checkpointed."""

from functools import partial

import numpy as np

import fx
import fx.distributed as dist
import fx.nn.functional as F
from fx.distributed import DTensor, Shard
from fx.distributed.mesh import world
from fx.nn.fully_sharded import wrapping
from fx.nn.fully_sharded.options import (
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
)
from fx.nn.fully_sharded.state import get_model_state_dict
from fx.nn.fully_sharded.wrapper import FullyShardedDataParallel as FSDP
from fx.torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)

dist.init_process_group("mpi")
size, rank = world()


def draws(*shape, seed=0):
    return fx.from_numpy(np.random.default_rng(seed).normal(size=shape))


class Block(fx.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.up, self.down = fx.nn.Linear(n, 2 * n), fx.nn.Linear(2 * n, n)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


def net(seed=0):
    fx.manual_seed(seed)
    blocks = fx.nn.ModuleList([Block(5), Block(5)])
    made = fx.nn.Sequential(fx.nn.Linear(5, 5), fx.nn.Sequential(*blocks), fx.nn.Linear(5, 3))
    return made.double()


def adam(model):
    return fx.optim.Adam(model.parameters(), lr=0.05)


def train(model, optimizer, part, clip=None, steps=3):
    for k in range(steps):
        optimizer.zero_grad()
        x, y = draws(2 * size, 5, seed=k), draws(2 * size, 3, seed=50 + k)
        F.mse_loss(model(part(x)), part(y)).backward()
        if clip:
            clip(model)
        optimizer.step()
    return model


def mine(x):
    return x[2 * rank : 2 * rank + 2]


def same(found, wanted, tolerance=1e-10):
    assert list(found) == list(wanted), (list(found), list(wanted))
    for name, x in wanted.items():
        got = found[name].full_tensor() if isinstance(found[name], DTensor) else found[name]
        np.testing.assert_allclose(got.detach().numpy(), x.detach().numpy(), tolerance, tolerance)


def refused(words, function):
    try:
        function()
    except (ValueError, TypeError, AttributeError) as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"{words} was not refused")


POLICIES = {
    None: 1,
    partial(wrapping.size_based_auto_wrap_policy, min_num_params=100): 3,
    partial(wrapping.transformer_auto_wrap_policy, transformer_layer_cls={Block}): 3,
    partial(wrapping.lambda_auto_wrap_policy, lambda_fn=lambda m: m.__class__ is fx.nn.Linear): 7,
    wrapping.ModuleWrapPolicy({Block, fx.nn.Sequential}): 4,
    wrapping.CustomPolicy(lambda m: isinstance(m, Block) and {"use_orig_params": True}): 3,
    wrapping.always_wrap_policy: 10,
}


def case_every_policy_and_strategy_trains_as_one_process():
    plain = net()
    clip = lambda model: fx.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    train(plain, adam(plain), lambda x: x, clip)
    for policy, count in POLICIES.items():
        for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
            model = FSDP(
                net(), auto_wrap_policy=policy, sharding_strategy=ShardingStrategy[strategy],
                cpu_offload=CPUOffload(True), use_orig_params=True,
            )  # fmt: skip
            assert len(FSDP.fsdp_modules(model)) == count, policy
            assert FSDP.fsdp_modules(model, root_only=True) == [model]
            train(model, adam(model), mine, lambda m: m.clip_grad_norm_(0.1))
            same(model.state_dict(), plain.state_dict())
            assert {p.placements[-1] for p in model.parameters()} == {Shard(0)}
            whole = sum(p.numel() for p in plain.parameters())
            held = sum(p.to_local().numel() for p in model.parameters())
            assert held == whole if strategy == "NO_SHARD" else held < whole


def case_the_module_is_the_same_object_by_its_own_names():
    plain, model = net(), net()
    assert FSDP(model) is model and isinstance(model, FSDP) and model.module is model
    assert list(model.state_dict()) == list(plain.state_dict())
    assert type(model).__name__ == "FSDPSequential" and len(model) == 3
    refused("takes a module", lambda: FSDP(fx.ones(3)))
    refused("ask", lambda: FSDP(net(), sharding_strategy=ShardingStrategy.HYBRID_SHARD))
    refused("is a ShardingStrategy", lambda: FSDP(net(), sharding_strategy="FULL_SHARD"))


def case_state_dicts_are_whole_or_parts():
    model = FSDP(net(), auto_wrap_policy=wrapping.ModuleWrapPolicy({Block}))
    wanted = net().state_dict()
    assert not any(isinstance(x, DTensor) for x in model.state_dict().values())
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig()):
        parts = model.state_dict()
        assert FSDP.get_state_dict_type(model)[0] is StateDictType.SHARDED_STATE_DICT
        assert all(x.placements == (Shard(0),) for x in parts.values())
        same(parts, wanted)
    with FSDP.state_dict_type(
        model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(True, True)
    ):
        found = model.state_dict()
        assert list(found) == (list(wanted) if rank == 0 else [])
    assert all(isinstance(x, DTensor) for x in get_model_state_dict(model).values())
    other = FSDP(net(3), auto_wrap_policy=wrapping.ModuleWrapPolicy({Block}))
    other.load_state_dict(wanted)
    same(other.state_dict(), wanted)
    other = FSDP(net(4))
    other.load_state_dict(parts)
    same(other.state_dict(), wanted)
    refused("SHARDED_STATE_DICT",
            lambda: FSDP.set_state_dict_type(model, StateDictType.LOCAL_STATE_DICT))  # fmt: skip
    refused("takes a FullStateDictConfig", lambda: FSDP.set_state_dict_type(
        model, StateDictType.FULL_STATE_DICT, ShardedStateDictConfig()))  # fmt: skip


def case_an_optimizers_state_goes_on_in_another_model():
    policy = wrapping.ModuleWrapPolicy({Block})
    model = FSDP(net(), auto_wrap_policy=policy)
    optimizer = adam(model)
    train(model, optimizer, mine)
    saved, slots = model.state_dict(), FSDP.optim_state_dict(model, optimizer)
    assert sorted(slots["state"]) == sorted(saved)
    assert slots["state"]["0.weight"]["exp_avg"].shape == (5, 5)
    other = FSDP(net(9))  # other units
    again = adam(other)
    other.load_state_dict(saved)
    again.load_state_dict(FSDP.optim_state_dict_to_load(other, again, slots))
    train(model, optimizer, mine)
    train(other, again, mine)
    same(other.state_dict(), model.state_dict())
    first = FSDP.full_optim_state_dict(model, optimizer)
    assert bool(first) == (rank == 0)
    rank0 = FullOptimStateDictConfig(rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, None, rank0):
        assert bool(FSDP.optim_state_dict(model, optimizer)) == (rank == 0)


def case_whole_parameters_in_a_block():
    model = FSDP(net(), auto_wrap_policy=wrapping.ModuleWrapPolicy({Block}))
    train(model, adam(model), mine, steps=1)
    with FSDP.summon_full_params(model, with_grads=True):
        assert all(not isinstance(p, DTensor) for p in model.parameters())
        assert model[1][0].up.weight.grad.shape == (10, 5)
        with fx.no_grad():
            fx.nn.init.ones_(model[0].weight)
    assert float(model[0].weight.full_tensor().sum()) == 25 and model[0].weight.to_local().size
    with FSDP.summon_full_params(model, writeback=False), fx.no_grad():
        fx.nn.init.zeros_(model[0].weight)
    assert float(model[0].weight.full_tensor().sum()) == 25
    refused("takes writeback=False",
            lambda: FSDP.summon_full_params(model, rank0_only=True).__enter__())  # fmt: skip


def case_gradients_add_up_without_messages():
    plain, model = net(), FSDP(net(), auto_wrap_policy=wrapping.ModuleWrapPolicy({Block}))
    x = draws(2 * size, 5)
    plain(x).square().mean().backward()
    plain(2 * x).square().mean().backward()
    with model.no_sync():
        model(mine(x)).square().mean().backward()
    assert model[0].weight.grad is None
    model(mine(2 * x)).square().mean().backward()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.full_tensor().numpy(), q.grad.numpy(), 1e-10)


def case_begins_with_the_values_of_rank_0_and_leaves_out_what_is_ignored():
    model = net(rank)
    FSDP(model, sync_module_states=True, ignored_modules=[model[1][1]])
    same({"0": model[0].weight}, {"0": net(0)[0].weight})
    assert not isinstance(model[1][1].up.weight, DTensor)
    assert isinstance(model[1][0].up.weight, DTensor)


def case_mixed_precision_and_meta():
    with fx.device("meta"):
        model = net()

    def init(m):
        m.to_empty(device="cpu", recurse=False)
        with fx.no_grad():
            for p in m.parameters(recurse=False):
                fx.nn.init.ones_(p)

    dtypes = MixedPrecision(param_dtype=fx.bfloat16, reduce_dtype=fx.float32)
    FSDP(model, param_init_fn=init, mixed_precision=dtypes)
    out = model(mine(draws(2 * size, 5)))
    assert out.dtype == fx.bfloat16
    out.sum().backward()
    assert model[0].weight.grad.dtype == model[0].weight.dtype == fx.float64
    assert float(model[2].bias.grad.full_tensor().sum()) == 6


def case_checkpointed_modules_are_units_too():
    names = list(net().state_dict())
    whole = net()
    whole(draws(2 * size, 5)).square().sum().backward()
    is_block = lambda m: isinstance(m, Block)
    for first, low in ((True, None), (False, None), (True, fx.float32)):
        model, runs = net(), []
        for m in filter(is_block, model.modules()):
            m.down.register_forward_hook(lambda *_, runs=runs: runs.append(1))
        if first:
            apply_activation_checkpointing(model, partial(checkpoint_wrapper), is_block)
        mixed = MixedPrecision(param_dtype=low)
        FSDP(model, auto_wrap_policy=wrapping.ModuleWrapPolicy({Block}), mixed_precision=mixed)
        if not first:
            apply_activation_checkpointing(model, partial(checkpoint_wrapper), is_block)
        assert isinstance(model[1][0], CheckpointWrapper)
        assert list(model.state_dict()) == names
        model(mine(draws(2 * size, 5))).square().sum().backward()
        assert len(runs) == 4  # twice each
        for p, q in zip(model.parameters(), whole.parameters(), strict=True):
            wanted = q.grad.numpy() / size
            bounds = (1e-10, 1e-12) if low is None else (1e-4, 1e-5)
            np.testing.assert_allclose(p.grad.full_tensor().numpy(), wanted, *bounds)
