"""Steps of fully sharded models as one native call each, which equal one process."""

import warnings
from contextlib import contextmanager

import numpy as np

import fx
import fx.nn.functional as F
from fx.distributed import DistError, DTensor, Replicate, Shard, init_device_mesh
from fx.graph.passes.effects import effect_of
from fx.nn.fully_sharded import MixedPrecisionPolicy, fully_shard
from tests.distributed import shared
from tests.distributed.cases_fsdp import (
    OPTIMIZERS,
    Net,
    Sent,
    batches,
    close,
    draws,
    mesh,
    mine,
    net,
    rank,
    refused,
    same,
    shard,
    size,
)
from tests.thorough import THOROUGH


@contextmanager
def programs():
    """What ran inside on parts; nothing may run uncompiled, or send messages besides."""
    with shared.programs() as ran:
        with Sent() as sent, warnings.catch_warnings():
            warnings.simplefilter("error")
            yield ran
        assert not sent.names, sent.names


def messages(program):
    names = [n.primitive.name for n in program.graph.nodes if effect_of(n)]
    return [names.count(name) for name in ("all_gather", "psum_scatter")], len(names)


def step_of(model, optimizer, clip=None):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        if clip:
            fx.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss

    return step


def train(step, part):
    return [step(part(x), part(y)) for x, y in batches()]


def trained(model):
    return [p for p in model.parameters() if p.requires_grad]


# training -----------------------------------------------------------------------------------------


def case_a_step_is_one_native_call_and_equals_one_process():
    # a gather for each unit forward; those that let go have one more backward
    ways = ((None, 5), (True, 6), (False, 3))
    for i, make in enumerate(OPTIMIZERS.values()):
        plain = net()
        train(step_of(plain, make(trained(plain))), lambda x: x)
        for reshard, gathers in ways if THOROUGH else ways[i::2]:
            model = shard(net(), mesh=mesh, reshard_after_forward=reshard)
            step = fx.jit(step_of(model, make(trained(model))))
            with programs() as ran:
                train(step, mine)
            assert len(ran) == 4 and len({*map(id, ran[1:])}) == 1
            assert messages(ran[-1]) == ([gathers, 3], gathers + 3), messages(ran[-1])
            (executable,) = [x for k, x in ran[-1].graph.cache.items() if k[0] == "executable"]
            assert executable.native
            same(model, plain)
            assert all(p.placements == (Shard(0),) and isinstance(p, DTensor) for p in
                       model.parameters())  # fmt: skip
            close(model(draws(2, 5)), plain(draws(2, 5)))  # eagerly again


def case_clipping_and_replicas():
    plain = net()
    train(step_of(plain, OPTIMIZERS["sgd"](plain.parameters()), 0.05), lambda x: x)
    for shape in ((size, 1), (1, size)):
        grid = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))
        model = shard(net(), mesh=grid)
        assert model.into.weight.placements == (Replicate(), Shard(0))
        step = fx.jit(step_of(model, OPTIMIZERS["sgd"](model.parameters()), 0.05))
        with programs():
            train(step, mine)
        same(model, plain)


def case_several_passes_and_values_of_the_forward():
    class Twice(Net):
        def forward(self, x):
            return super().forward(x) * 2 + self.blocks[0](super().forward(x + 1))

    def make(seed=0):
        fx.manual_seed(seed)
        return Twice().double()

    (x, y), (u, v) = batches(2)
    found = []
    for model, part, jit in ((make(), lambda x: x, lambda f: f), (shard(make()), mine, fx.jit)):

        def step(x, y, u, v, model=model):
            model.zero_grad()
            loss = F.mse_loss(model(x), y) + F.mse_loss(model(u), v)
            with fx.no_grad():
                for p in model.parameters():
                    p *= 0.5
            loss.backward()
            return loss

        with programs() as ran:
            for _ in range(3):
                jit(step)(*[part(a) for a in (x, y, u, v)])
        assert len(ran) == (3 if jit is fx.jit else 0)
        found.append([*model.parameters()])
    for q, p in zip(*found):
        close(p, q)
        assert (p.grad is None) == (q.grad is None)
        if q.grad is not None:
            close(p.grad, q.grad)


def case_what_stays_whole_serves_the_values_and_the_tape_of_now():
    x, y = next(batches(1))
    plain, model = net(), shard(net(), reshard_after_forward=False)
    found = []
    for one, part, jit in ((plain, lambda x: x, lambda f: f), (model, mine, fx.jit)):

        def step(x, y, one=one):
            with fx.no_grad():
                before = one(x)
            F.mse_loss(one(x), y).backward()
            with fx.no_grad():
                for p in one.parameters():
                    p *= 0.5
            return before, one(x).detach()

        with programs() as ran:
            found.append(jit(step)(part(x), part(y)))
        assert len(ran) == (jit is fx.jit)
    for q, p in zip(plain.parameters(), model.parameters(), strict=True):
        if q.grad is not None:
            close(p.grad, q.grad)
    for whole, out in zip(*found, strict=True):
        close(out, mine(whole))


def case_dtypes():
    policy = MixedPrecisionPolicy(fx.bfloat16, fx.float32, output_dtype=fx.float32)
    model = fully_shard(fx.nn.Linear(4, 3), mp_policy=policy)
    whole = []
    model.register_forward_pre_hook(lambda m, args: whole.append(m.weight.dtype))

    def step(x):
        model.zero_grad()
        out = model(x)
        out.sum().backward()
        return out

    eager = step(draws(2, 4).float())
    grads = [p.grad.full_tensor() for p in model.parameters()]
    found = fx.jit(step)(draws(2, 4).float())
    assert {*whole} == {fx.bfloat16} and found.dtype == fx.float32
    close(found, eager, 0.02)
    for p, want in zip(model.parameters(), grads):
        assert p.grad.dtype == fx.float32
        close(p.grad, want, 1e-6)


# in checkpointed functions ------------------------------------------------------------------------


class Again(Net):
    """A net whose blocks run again for their gradients, in one of several ways."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def forward(self, x):
        x = self.into(x)
        first, second = self.blocks
        if self.way == "each":
            x = fx.checkpoint(second)(fx.checkpoint(first)(x))
        elif self.way == "both":
            x = fx.checkpoint(lambda x: second(first(x)))(x)
        elif self.way == "inside":
            x = fx.checkpoint(lambda x: second(fx.checkpoint(first)(x)) + x)(x)
        else:  # one unit in two of them
            x = fx.checkpoint(first)(fx.checkpoint(first)(x)) + second(x)
        return self.out(x)


def case_what_is_checkpointed_is_one_native_call_and_gathers_as_without():
    for way, reshard, gathers in (
        ("each", None, 5), ("each", False, 3), ("both", True, 6), ("inside", True, 6),
        ("twice", None, 7),
    ):  # fmt: skip
        make = lambda way=way: (fx.manual_seed(0), Again(way).double())[1]
        plain = make()
        train(step_of(plain, OPTIMIZERS["sgd"](trained(plain))), lambda x: x)
        model = shard(make(), mesh=mesh, reshard_after_forward=reshard)
        step = fx.jit(step_of(model, OPTIMIZERS["sgd"](trained(model))))
        with programs() as ran:
            train(step, mine)
        assert messages(ran[-1])[0][0] == gathers, (way, reshard, messages(ran[-1]))
        (executable,) = [x for k, x in ran[-1].graph.cache.items() if k[0] == "executable"]
        assert executable.native
        same(model, plain)


# what is refused, and what differs ----------------------------------------------------------------


def uncompiled(words, f, *args):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        out = f(*args)
    assert any(words in str(w.message) for w in said), [str(w.message) for w in said]
    return out


def case_what_is_not_compiled_is_named_and_leaves_nothing_behind():
    class Prints(Net):
        def forward(self, x):
            out = super().forward(x)
            assert "tensor" in repr(self.into.weight)
            return out

    fx.manual_seed(0)
    model, plain = shard(Prints().double()), net()
    x = draws(2, 5)
    close(uncompiled("it makes a text", fx.jit(lambda x: model(x)), x), plain(x))
    assert all(isinstance(p, DTensor) for p in model.parameters())
    close(fx.jit(lambda x: model.blocks[0](x))(x), plain.blocks[0](x))
    for change, words in (
        (lambda m: m.set_requires_gradient_sync(False), "set_requires_gradient_sync(False)"),
        (lambda m: m.unshard(), "unshard()"),
    ):
        model = shard(net())
        change(model)
        close(uncompiled(words, fx.jit(lambda x, m=model: m(x)), x), plain(x))
        model.reshard()
    model = shard(net())
    slope = fx.jit(lambda x: fx.grad(lambda x: model.blocks[0](x).sum())(x))
    close(uncompiled("of grad", slope, x), fx.grad(lambda x: net().blocks[0](x).sum())(x))
    model = shard(net())
    loop = fx.jit(lambda xs: fx.scan(lambda c, x: (c, model(x)), 0.0, xs)[1])
    refused(RuntimeError, "loop or branch", loop, draws(3, 2, 5))
    assert all(isinstance(p, DTensor) for p in model.parameters())
    close(fx.jit(lambda x: model(x))(x), plain(x))


def case_parameters_without_a_part():
    class Two(fx.nn.Module):
        def __init__(self):
            super().__init__()
            fx.manual_seed(0)
            self.a, self.b = fx.nn.Linear(3, 2).double(), fx.nn.Linear(3, 2).double()

        def forward(self, x, which):
            return sum(layer(x) for name, layer in self.named_children() if name in which)

    x = draws(2, 3)
    for first, others in (("a", "a"), ("ab", "ab"), ("a", "ab"), ("a", "b")):
        model, used = fully_shard(Two()), others if rank else first

        def step(x, model=model, used=used):
            model.zero_grad()
            model(x, used).sum().backward()

        if first != others:
            words = "gather" if first == "a" and others == "ab" else "ranks_agree"
            refused(DistError, words, fx.jit(step), x)
            continue
        with programs():
            for _ in range(3):
                fx.jit(step)(x)
        want = np.tile(x.numpy().sum(0), (2, 1))
        close(model.a.weight.grad, fx.from_numpy(want))
        assert (model.b.weight.grad is not None) == ("b" in used)
