"""Shardings as constraints, at the doors of jitted functions, and parts inside of them."""

import warnings
from contextlib import contextmanager

import numpy as np

import fx
import fx.distributed as dist
from fx.distributed import DTensor, Partial, Replicate, Shard, distribute_tensor, propagation
from fx.distributed.mesh import world
from fx.distributed.ranks import Ranks

size, rank = world()
mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
S, R, P = Shard, Replicate(), Partial()
rows, columns = fx.NamedSharding(mesh, fx.P("dp")), fx.NamedSharding(mesh, [S(1)])
whole = fx.NamedSharding(mesh, fx.P())
warnings.simplefilter("error")  # nothing here runs uncompiled


def draws(*shape, seed=0):
    return fx.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def on(x, *placements):
    return distribute_tensor(x, mesh, placements, src_data_rank=None)


def values(x):
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().numpy()


def close(x, want, tolerance=1e-5):
    np.testing.assert_allclose(values(x), values(want), tolerance, tolerance)


def refused(error, words, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except error as found:
        assert words in str(found), str(found)
    else:
        raise AssertionError(f"{words} was not refused")


@contextmanager
def programs():
    """What ran inside on parts, and which messages kernels sent besides."""
    ran, names, run = [], [], propagation.Local.run
    saved = {name: getattr(Ranks, name) for name in ("reduce", "gather", "reduce_scatter")}

    def noting(self, arrays):
        ran.append(self)
        return run(self, arrays)

    for name, method in saved.items():
        noted = lambda ranks, *a, n=name, m=method: (names.append(n), m(ranks, *a))[1]
        setattr(Ranks, name, noted)
    propagation.Local.run = noting
    try:
        yield ran, names
    finally:
        propagation.Local.run = run
        for name, method in saved.items():
            setattr(Ranks, name, method)


# a constraint -------------------------------------------------------------------------------------


def case_a_constraint_keeps_values_and_moves_parts():
    x = draws(2 * size + 1, 4)
    for given in (x, *[on(x, p) for p in (S(0), S(1), R)], DTensor.from_local(x / size, mesh, [P])):
        for wanted, placement in ((rows, S(0)), (columns, S(1)), (whole, R)):
            constrain = lambda x, s=wanted: fx.with_sharding_constraint(x, s)
            for f in (constrain, fx.jit(constrain)):
                found = f(given)
                assert found.placements == (placement,)
                close(found, x)
    for spec, placement in ((fx.P(None, "dp"), S(1)), ([S(0)], S(0)), ((R,), R)):
        constrain = lambda x, s=spec: fx.with_sharding_constraint(x * 2, s)
        for f in (constrain, fx.jit(constrain)):  # of the mesh that the tensor lies on
            found = f(on(x, S(0)))
            assert found.placements == (placement,)
            close(found, x * 2)
    tree = {"a": x, "b": [x, x + 1]}
    found = fx.with_sharding_constraint(tree, {"a": None, "b": rows})
    assert found["a"] is x and [y.placements for y in found["b"]] == [(S(0),)] * 2


def case_a_constraint_has_derivatives_and_lanes():
    x = draws(size + 1, 3)
    plain = lambda x: (fx.sin(x * 2) ** 2).sum()
    placed = lambda x: (fx.sin(fx.with_sharding_constraint(x * 2, rows)) ** 2).sum()
    two, direction = fx.stack([x, x + 1]), fx.cos(x)
    for given in (lambda x: x, *[lambda x, p=p: on(x, p) for p in (S(0), S(1), R)]):
        a, v, both = given(x), given(direction), fx.stack([given(x), given(x + 1)])
        for f in (placed, fx.jit(placed)):
            close(fx.grad(f)(a), fx.grad(plain)(x))
            close(fx.jvp(f, (a,), (v,))[1], fx.jvp(plain, (x,), (direction,))[1])
            close(fx.vmap(f)(both), fx.vmap(plain)(two))
            close(fx.vmap(fx.grad(f))(both), fx.vmap(fx.grad(plain))(two))
        close(fx.jit(fx.grad(placed))(a), fx.grad(plain)(x))
        hv = lambda f, a, v: fx.jvp(fx.grad(f), (a,), (v,))[1]
        close(hv(placed, a, v), hv(plain, x, direction))
    leaf = fx.from_numpy(x.numpy()).requires_grad_()
    placed(leaf).backward()
    close(leaf.grad, fx.grad(plain)(x))


def case_a_rank_that_is_not_in_the_mesh_is_named():
    few = fx.Mesh([0], ("one",))
    sharding = fx.NamedSharding(few, fx.P("one"))
    for f in (
        lambda x: fx.with_sharding_constraint(x, sharding),
        fx.jit(lambda x: x * 2, in_shardings=sharding),
        fx.jit(lambda x: x * 2, out_shardings=sharding),
    ):
        if rank:
            refused(dist.DistError, f"rank {rank} is not in", f, draws(3))
        else:
            assert f(draws(3)).placements == (S(0),)


# the doors of a jitted function -------------------------------------------------------------------


def case_a_step_takes_and_gives_what_its_shardings_say():
    def step(w, batch):
        loss = lambda w: ((batch["x"] @ w - batch["y"]) ** 2).mean()
        value, slope = fx.value_and_grad(loss)(w)
        return {"w": w - 0.1 * slope, "loss": value}

    w = draws(3, 4)
    batch = {"x": draws(2 * size + 1, 3, seed=1), "y": draws(2 * size + 1, 4, seed=2)}
    want = step(w, batch)
    f = fx.jit(step, in_shardings=(whole, rows), out_shardings={"w": columns, "loss": whole})
    spread = {"x": on(batch["x"], S(1)), "y": batch["y"]}
    for given in ((w, batch), (on(w, S(0)), spread), (on(w, S(0)), spread), (w, batch)):
        with programs() as (ran, beside):
            found = f(*given)
        assert len(ran) == 1 and not beside, (ran, beside)
        assert found["w"].placements == (S(1),) and found["loss"].placements == (R,)
        close(found["w"], want["w"])
        close(found["loss"], want["loss"])
    close(fx.grad(lambda w: f(w, batch)["loss"])(w), fx.grad(lambda w: step(w, batch)["loss"])(w))


def case_what_a_function_with_shardings_closes_over_stays_its_own():
    kept = [draws(3)]

    @fx.jit(in_shardings=rows, static_argnames=("times",))
    def f(x, times=1):
        return x * kept[0].sum() * times

    x = draws(2 * size, 3)
    for seed in (0, 0, 1, 1):
        kept[0] = draws(3, seed=seed)
        close(f(x), x * kept[0].sum())
        close(f(x, times=3), x * kept[0].sum() * 3, 1e-4)
    weight = fx.nn.Parameter(draws(3))
    scaled = fx.jit(lambda x: x * weight.sum(), in_shardings=rows, out_shardings=rows)
    for _ in range(3):
        close(scaled(x), x * weight.sum())
        weight.data = weight.data * 2


# parts inside of a jitted function ----------------------------------------------------------------


def case_parts_are_known_where_they_follow_from_the_arguments():
    def f(x):
        y = x * 2
        part = y.to_local()
        kind = 1.0 if y.placements[0].is_shard() else 2.0
        return part * kind, x.sum(0).to_local(), DTensor.from_local(part + 1, mesh, y.placements)

    # from_local takes equal parts unless it is told the shape
    compiled, x = fx.jit(f), draws(2 * size, 2 * size)
    for p in (S(0), S(1), R, S(0), S(0), R, R, S(1), S(1)):
        given = on(x, p)
        for found, want in zip(compiled(given), f(given), strict=True):
            np.testing.assert_allclose(*[
                (y.to_local() if isinstance(y, DTensor) else y).numpy() for y in (found, want)
            ], 1e-5)  # fmt: skip
    assert compiled.cache_size() == 3
    assert "the parts of its tensors lay otherwise before" in str(compiled.explain())
    ((program, *_), *_) = compiled.programs.values()
    assert program.plan in compiled.plans


def case_addends_stay_those_of_the_rank():
    part = fx.jit(lambda x: x.to_local() * 1)
    for settled in (False, True):
        x = DTensor.from_local(draws(3) * (rank + 1), mesh, [P])
        if settled:  # its sum was sent, and is kept
            close(x.full_tensor(), draws(3) * sum(range(1, size + 1)))
        for _ in range(3):
            np.testing.assert_array_equal(part(x).numpy(), x.to_local().numpy())


def case_parts_have_derivatives():
    x, w = draws(2 * size + 1, 3), draws(3, 2, seed=1)

    def loss(x, w):  # each rank squares what it has
        part = (x @ w).to_local(grad_placements=[S(0)])
        return DTensor.from_local((part**2).sum(), mesh, [P]).full_tensor()

    plain = lambda x, w: ((x @ w) ** 2).sum()
    want = fx.grad(plain, (0, 1))(x, w)
    for way in (
        fx.grad(loss, (0, 1)),
        fx.jit(fx.grad(loss, (0, 1))),
        fx.grad(fx.jit(loss), (0, 1)),
    ):
        for found, expected in zip(way(on(x, S(0)), on(w, R)), want, strict=True):
            close(found, expected)
    p = fx.nn.Parameter(on(w, R))

    @fx.jit
    def step(x):
        p.grad = None
        loss(x, p).backward()
        return p.placements

    for _ in range(3):
        assert step(on(x, S(0))) == (R,)
        close(p.grad, want[1])


def case_a_parameter_that_lies_elsewhere_is_seen():
    w = draws(2 * size, 2 * size)
    p = fx.nn.Parameter(on(w, S(0)))
    f = fx.jit(lambda x: p.to_local().sum() * x)
    for placement in (S(0), S(0), S(1), S(1), R, R, S(0)):
        p.data = on(w, placement)
        np.testing.assert_allclose(f(fx.ones(())).item(), p.to_local().sum().item(), 1e-5)


def case_functions_of_parts_are_compiled():
    x = draws(2 * size, 3)
    mapped = dist.local_map(lambda a: a.sum(0), [P], ([S(0)],), redistribute_inputs=True)
    f = fx.jit(lambda x: mapped(x * 2).redistribute(mesh, [R]))
    for p in (S(0), R, S(1), S(0)):
        with programs() as (ran, beside):
            found = f(on(x, p))
        assert len(ran) == 1 and not beside
        close(found, (x * 2).sum(0))
    inner = fx.jit(lambda x: x.to_local() * 3)
    outer = fx.jit(lambda x: inner(x + 1) - 1)
    for p in (S(0), R, S(1), S(0)):
        np.testing.assert_allclose(
            outer(on(x, p)).numpy(), (on(x, p) + 1).to_local().numpy() * 3 - 1, 1e-5
        )
    lanes = lambda x: fx.vmap(lambda x: x.to_local() * 2)(x)
    np.testing.assert_array_equal(
        fx.jit(lanes)(on(x, S(1))).numpy(), on(x * 2, S(1)).to_local().numpy()
    )


def case_what_does_not_follow_is_named():
    def f(x):
        return fx.scan(lambda c, row: (c + row.to_local(), 0.0), fx.zeros(3), x)[0]

    refused(fx.errors.StagingError, "asks where the parts", fx.jit(f), on(draws(4, 3), R))
