"""Jitted functions of tensors on a mesh: one native call a rank, which equals the eager kernels."""

from contextlib import contextmanager

import numpy as np

import fx
import fx.distributed as dist
import fx.nn.functional as F
from fx.distributed import DTensor, Partial, Replicate, Shard, distribute_tensor
from fx.distributed.mesh import world
from fx.distributed.ranks import Ranks
from fx.graph.passes.effects import effect_of
from tests.distributed.shared import programs

size, rank = world()
mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
S, R, P = Shard, Replicate(), Partial()
MESSAGES = ("reduce", "gather", "reduce_scatter", "exchange", "broadcast")


def draws(*shape, seed=0):
    return fx.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def on(x, *placements, mesh=mesh):
    return distribute_tensor(x, mesh, placements, src_data_rank=None)


def whole(x):
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().numpy()


def close(x, want, tolerance=1e-5):
    np.testing.assert_allclose(whole(x), whole(want), tolerance, tolerance)


@contextmanager
def eager_messages():
    """The messages that kernels send inside."""
    names, saved = [], {name: getattr(Ranks, name) for name in MESSAGES}

    def noting(name, method):
        return lambda ranks, *args: (names.append(name), method(ranks, *args))[1]

    for name, method in saved.items():
        setattr(Ranks, name, noting(name, method))
    try:
        yield names
    finally:
        for name, method in saved.items():
            setattr(Ranks, name, method)


def sent(program):
    return [n.primitive.name for n in program.graph.nodes if effect_of(n)]


def is_native(program):
    found = [x for key, x in program.graph.cache.items() if key[0] == "executable"]
    return [x.native for x in found] == [True]


# training -----------------------------------------------------------------------------------------


def model():
    fx.manual_seed(0)
    return fx.nn.Sequential(fx.nn.Linear(4, 8), fx.nn.Tanh(), fx.nn.Linear(8, 3))


def sharded(name, module, mesh):
    for key, p in [*module._parameters.items()]:
        module.register_parameter(key, fx.nn.Parameter(on(p.detach(), S(0))))


def tensor_parallel(name, module, mesh):
    if name in "02" and name:
        cut = (S(0), S(0)) if name == "0" else (S(1), R)
        for key, p in zip(("weight", "bias"), cut):
            value = getattr(module, key).detach()
            module.register_parameter(key, fx.nn.Parameter(on(value, p)))


WAYS = {"replicated": (None, S(0)), "sharded": (sharded, S(0)), "tensor": (tensor_parallel, R)}
MAKERS = {
    "sgd": lambda ps: fx.optim.SGD(ps, lr=0.1, momentum=0.9),
    "adam": lambda ps: fx.optim.Adam(ps, lr=0.1),
}


def trainer(way, make):
    net = model() if way is None else dist.distribute_module(model(), mesh, WAYS[way][0])
    optimizer = make(net.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return net, step


def case_a_step_is_one_native_call_and_sends_no_more_than_kernels():
    x, y = draws(2 * size + 1, 4), draws(2 * size + 1, 3, seed=1)
    for kind, make in MAKERS.items():
        plain, step = trainer(None, make)
        for _ in range(3):
            want = step(x, y)
        for way, (_, batch) in WAYS.items():
            given = on(x, batch), on(y, batch)
            _, by_kernels = trainer(way, make)
            by_kernels(*given)
            with eager_messages() as names:
                by_kernels(*given)
            net, step = trainer(way, make)
            before = [p.placements for p in net.parameters()]
            step = fx.jit(step)
            step(*given)
            with eager_messages() as beside, programs() as ran:
                step(*given)
                found = step(*given)
            assert beside == [], (kind, way, beside)
            assert len(ran) == 2 and ran[0] is ran[1]
            assert is_native(ran[0]), (kind, way)
            assert 0 < len(sent(ran[0])) <= len(names), (kind, way, sent(ran[0]), names)
            if way == "replicated":
                assert sent(ran[0]) == ["psum"], sent(ran[0])
            close(found, want, 1e-4)
            assert [p.placements for p in net.parameters()] == before
            for p, expected in zip(net.parameters(), plain.parameters()):
                close(p, expected, 1e-4)


def case_what_a_cell_keeps_is_sent_in_the_same_call():
    x, y = draws(2 * size, 4), draws(2 * size, 3, seed=1)
    net = dist.distribute_module(model(), mesh)

    @fx.jit
    def step(x, y):
        net.zero_grad()
        F.mse_loss(net(x), y).backward()
        with fx.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad  # addends, of which a cell that is replicated keeps the sum

    step(on(x, S(0)), on(y, S(0)))
    with eager_messages() as beside, programs() as ran:
        step(on(x, S(0)), on(y, S(0)))
    assert beside == [] and sent(ran[0]) == ["psum"], (beside, sent(ran[0]))
    plain = model()
    for _ in range(2):
        plain.zero_grad()
        F.mse_loss(plain(x), y).backward()
        with fx.no_grad():
            for p in plain.parameters():
                p -= 0.1 * p.grad
    for p, want in zip(net.parameters(), plain.parameters()):
        assert p.placements == (R,)
        close(p, want, 1e-4)


def case_known_steps_go_the_short_way():
    x, y = draws(2 * size, 4), draws(2 * size, 3, seed=1)
    for make in MAKERS.values():
        plain, by_one = trainer(None, make)
        net, step = trainer("replicated", make)
        step = fx.jit(step)
        for _ in range(5):
            want, found = by_one(x, y), step(on(x, S(0)), on(y, S(0)))
            close(found, want, 1e-4)
        ((program,),) = step.programs.values()
        assert len(step.plans) == 1 and program.tally[0] >= 3, program.tally
        for p, expected in zip(net.parameters(), plain.parameters(), strict=True):
            assert p.placements == (R,) and isinstance(p.grad, DTensor)
            close(p, expected, 1e-4)
            close(p.grad, expected.grad, 1e-4)


def case_a_function_of_tensors_of_either_device():
    here = draws(2 * size, 3)
    there = on(here, S(0))
    for order in ((here, here, here, there, there, here, there), (there, there, there, here, here)):
        kept = [order[0]]
        f, g = fx.jit(lambda x: x * 2 + 1), fx.jit(lambda y: kept[0] * 2 + y)  # noqa: B023
        for x in order:
            kept[0] = x
            for found in (f(x), g(1.0)):
                assert found.device == x.device
                close(found, here * 2 + 1)


def case_what_is_asked_of_the_device_alone():
    here, y = draws(2 * size, 3), fx.ones(2)
    there = on(here, S(0))
    for order in ((here, here, here, there, there, here, there), (there, there, there, here, here)):
        p = fx.nn.Parameter(order[0])
        f = fx.jit(lambda x, y: y * (2 if x.device.type == "mesh" else 1))
        g = fx.jit(lambda y: (y * p).sum())  # noqa: B023
        for x in order:
            assert f(x, y).tolist() == [2.0 if x is there else 1.0] * 2, x.device
            p.data = x
            found = g(3.0)
            assert found.device == x.device
            close(found, here.sum() * 3, 1e-4)


# placements ---------------------------------------------------------------------------------------


def case_other_placements_compile_anew():
    a, b = draws(2 * size, 3 * size), draws(2 * size, 3 * size, seed=1)
    f = fx.jit(lambda a, b: (a * b, (a - b).sum(0), fx.exp(a).sum()))
    kernels = lambda a, b: (a * b, (a - b).sum(0), fx.exp(a).sum())
    with programs() as ran:
        for p, q in ((S(0), S(0)), (S(0), S(1)), (R, S(1)), (S(1), S(0)), (R, R), (S(0), S(0))):
            given = on(a, p), on(b, q)
            for x, want in zip(f(*given), kernels(*given), strict=True):
                assert x.placements == want.placements, (p, q)
                close(x, want)
    assert len({*map(id, ran)}) == 5 and ran[0] is ran[-1]


def case_addends_of_every_kind():
    x = draws(size + 2, 2 * size)
    square = lambda x: x * x
    f = fx.jit(square)
    for op in ("sum", "avg", "max", "min", "product"):
        given = lambda op=op: DTensor.from_local(x * (rank + 1), mesh, [Partial(op)])
        close(f(given()), square(given()))
    rows = on(draws(size + 2, 2 * size, seed=1), S(0))
    join = lambda x, rows: x + fx.exp(rows)  # addends meet rows: a reduce_scatter
    with programs() as ran:
        found = fx.jit(join)(DTensor.from_local(x, mesh, [P]), rows)
    close(found, join(DTensor.from_local(x, mesh, [P]), rows))
    assert sent(ran[0])


def case_parts_of_any_length():
    f = lambda x, w: fx.tanh(x @ w).sum(0) * fx.amax(x, 0).sum() + (x * x).mean()
    w = draws(3, 2)
    for n in (1, size - 1, size, size + 1, 2 * size + 1):
        for p in (S(0), S(1)):
            given = on(draws(n, 3), p), on(w, R)
            close(fx.jit(f)(*given), f(*given))
            close(
                fx.jit(fx.grad(lambda *a: f(*a).sum()))(*given),
                fx.grad(lambda *a: f(*a).sum())(*given),
            )


def case_sums_that_wait_for_one_another_keep_their_order():
    def f(x, y):
        a, b = fx.exp(x.mean(0)), fx.exp(y.mean(0))  # two sums that go together
        c = fx.exp((x * a).mean(0))  # waits for them
        d = fx.sin(fx.amax(y, 0)) * b  # another kind of message between
        return a, b, c, d, fx.exp((y * c * d).mean(0))

    given = on(draws(2 * size, 3), S(0)), on(draws(2 * size, 3, seed=1), S(0))
    with programs() as ran:
        found = fx.jit(f)(*given)
    for x, want in zip(found, f(*given), strict=True):
        close(x, want)
    assert sorted(sent(ran[0])) == ["pmax", "psum", "psum", "psum"], sent(ran[0])


def case_on_a_mesh_of_two_axes():
    if size % 2:
        return
    both = dist.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    x, w, v = draws(2 * size, 4), draws(4, 6, seed=1), draws(6, 2, seed=2)
    f = lambda x, w, v: ((fx.tanh(x @ w) @ v) ** 2).mean()
    given = [on(a, *p, mesh=both) for a, p in ((x, (S(0), R)), (w, (R, S(1))), (v, (R, S(0))))]
    found = fx.jit(fx.value_and_grad(f, (1, 2)))(*given)
    value, grads = fx.value_and_grad(f, (1, 2))(*given)
    close(found[0], value)
    for g, want in zip(found[1], grads, strict=True):
        assert g.placements == want.placements
        close(g, want)


# draws --------------------------------------------------------------------------------------------


def masked(x):
    return F.dropout(x, 0.5) + fx.nn.functional.dropout1d(x[None], 0.5)[0] + fx.rand_like(x)


def case_draws_have_the_bits_of_one_process():
    x = draws(2 * size + 1, 2 * size)
    for p in (S(0), S(1), R):
        for f in (masked, fx.jit(masked)):
            fx.manual_seed(5)
            want = [masked(x) for _ in range(3)]
            fx.manual_seed(5)
            given = on(x, p)
            for w in want:
                np.testing.assert_array_equal(whole(f(given)), w.numpy())
        slope = lambda x: fx.grad(lambda x: (masked(x) * x).sum())(x)
        fx.manual_seed(6)
        want = slope(x)
        for f in (slope, fx.jit(slope)):
            fx.manual_seed(6)
            close(f(on(x, p)), want)
    with programs() as ran:
        fx.jit(masked)(on(x, S(0)))
    assert is_native(ran[0]), sent(ran[0])


def case_generators_that_differ_are_named():
    given, late = on(draws(2 * size, 3), S(0)), fx.jit(lambda: fx.rand(2 * size, 3, device="mesh"))
    fx.manual_seed(0)
    late()
    compiled = fx.jit(masked)
    compiled(given)
    for f in (masked, compiled, lambda x: x + late()):
        fx.manual_seed(0)
        if rank == size - 1:
            fx.rand(1)  # one draw more
        for seeded in (False, True):
            if seeded:
                fx.manual_seed(rank)
            try:
                f(given)
            except dist.DistError as error:
                assert f"rank {rank}: draw of" in str(error), error
                assert not seeded or f"(seed {size - 1}" in str(error), error
            else:
                raise AssertionError("nothing was raised")
        fx.manual_seed(0)
        f(given)


# what else a function does ------------------------------------------------------------------------


def case_loops_and_branches_run_whole_in_the_same_call():
    def f(x, n):
        last, rows = fx.scan(lambda c, r: (fx.tanh(c + r), c * 2), fx.zeros_like(x[0]), x)
        most = fx.while_loop(lambda c: c.sum() < 50.0, lambda c: c * 2 + 1, fx.abs(last) + 1)
        return fx.cond(last.sum() > 0, lambda a: a * 2, lambda a: -a, last), rows, most

    x = draws(2 * size, 3)
    with programs() as ran:
        found = fx.jit(lambda x: f(x, 3))(on(x, S(0)))
    assert len(ran) == 1 and is_native(ran[0])
    for a, want in zip(found, f(x, 3), strict=True):
        close(a, want)


def case_constants_and_cpu_arguments():
    kept = on(draws(2 * size, 3), S(0))
    f = fx.jit(lambda scale, number: (kept * scale + number + 1, scale * 2))
    found, plain = f(fx.tensor(2.0), 3)
    close(found, draws(2 * size, 3) * 2 + 4)
    assert plain.device.type == "cpu" and plain.item() == 4.0


def case_what_cannot_be_written_down_is_named():
    f = fx.jit(lambda x: x.to("cpu") * 2)
    close(f(on(draws(3), R)), draws(3) * 2)
    assert "runs kernel by kernel: device_put" in str(f.explain()), str(f.explain())
