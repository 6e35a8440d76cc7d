"""Experts that ranks share equal those of one process, derivatives too."""

import numpy as np

import fx
import fx.distributed as dist
from fx.distributed import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    mixture_of_experts,
)  # fmt: skip
from fx.distributed.mesh import world

size, rank = world()
mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("ep",))
D, H, E, T = 5, 7, 2 * size, 6 * size
GIVEN = [
    fx.from_numpy(np.random.default_rng(i).normal(size=shape))
    for i, shape in enumerate(((T, D), (D, E), (E, D, H), (E, H, D)))
]
CUT, WHOLE = fx.P("ep"), fx.P()


def whole(x):
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().numpy()


def close(found, want):
    np.testing.assert_allclose(whole(found), whole(want), 1e-9, 1e-11)


def total(f):
    """A loss that sees the tokens and the balance."""

    def loss(*given):
        y, balance = f(*given)
        return (fx.sin(y) ** 2).sum() + 3 * balance

    return loss


def plain(groups, **more):
    return lambda *given: mixture_of_experts(*given, groups=groups, **more)


def check(f, want, given, grads=(0, 1, 2, 3)):
    slopes = fx.grad(total(want), grads)(*GIVEN)
    values = want(*GIVEN)
    for jit in (lambda f: f, fx.jit):
        for a, b in zip(jit(f)(*given), values, strict=True):
            close(a, b)
        for a, b in zip(jit(fx.grad(total(f), grads))(*given), slopes, strict=True):
            close(a, b)


def case_on_ranks():
    for more in ({}, {"k": 1}, {"k": 3, "capacity_factor": 0.6}, {"activation": fx.tanh}):
        on_ranks = lambda *xs, more=more: mixture_of_experts(*xs, "ep", **more)
        f = fx.shard_map(on_ranks, mesh, (CUT, WHOLE, CUT, CUT), (CUT, WHOLE))
        check(f, plain(size, **more), GIVEN)


def case_ranks_have_the_bits_of_lanes():
    lanes = fx.Mesh((size,), ("ep",), lanes=True)
    small = [x.astype(fx.float32) for x in GIVEN]
    on = lambda m: fx.shard_map(
        lambda *xs: mixture_of_experts(*xs, "ep", capacity_factor=0.8),
        m, (CUT, WHOLE, CUT, CUT), (CUT, WHOLE),
    )  # fmt: skip
    for a, b in zip(on(mesh)(*small)[:1], on(lanes)(*small)[:1], strict=True):
        np.testing.assert_array_equal(whole(a), whole(b))


def on_mesh(mesh, places):
    return [
        distribute_tensor(x, mesh, p, src_data_rank=None)
        for x, p in zip(GIVEN, places, strict=True)
    ]


def case_of_tensors_on_a_mesh():
    cut, same = [Shard(0)], [Replicate()]
    f = lambda *given: mixture_of_experts(*given, "ep")
    for places in ((cut, same, cut, cut), (same, same, same, same), (same, cut, [Shard(1)], cut)):
        given = on_mesh(mesh, places)
        y, balance = f(*given)
        assert y.placements == (Shard(0),) and balance.placements == (Partial(),)
        check(f, plain(size), given)
        grads = fx.grad(total(f), (1, 2))(*given)
        assert [g.placements for g in grads][1] == (Shard(0),) or places[2] != cut


def case_tokens_that_another_axis_cuts_too():
    if size != 4:
        return
    square = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "ep"))
    cut, same, own = [Shard(0), Shard(0)], [Replicate()] * 2, [Replicate(), Shard(0)]
    f = lambda *given: mixture_of_experts(*given, "ep")
    check(f, plain(4), on_mesh(square, (cut, same, own, own)))
    check(f, plain(2), on_mesh(square, (own, same, own, own)))  # all of dp compute the same


def case_training():
    def train(given, f, steps=4):
        x, *weights = given
        loss = lambda ws: total(f)(x, *ws)
        step = fx.jit(lambda ws: [w - 0.05 * g for w, g in zip(ws, fx.grad(loss)(ws))])
        for _ in range(steps):
            weights = step(weights)
        return weights

    given = on_mesh(mesh, ([Shard(0)], [Replicate()], [Shard(0)], [Shard(0)]))
    found = train(given, lambda *xs: mixture_of_experts(*xs, "ep"))
    for a, b in zip(found, train(GIVEN, plain(size)), strict=True):
        np.testing.assert_allclose(whole(a), whole(b), 1e-8, 1e-10)


def case_what_does_not_divide_is_named():
    given = on_mesh(mesh, ([Replicate()],) * 4)
    for bad, words in (
        ([given[0][: T - 1], *given[1:]], "no equal parts along"),
        ([*given[:2], given[2][: E - 1], given[3][: E - 1]], "no equal parts along"),
    ):
        try:
            mixture_of_experts(*bad, "ep")
        except ValueError as error:
            assert words in str(error), str(error)
        else:
            raise AssertionError("nothing was raised")
