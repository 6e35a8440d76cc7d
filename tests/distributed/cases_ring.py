"""Attention over a sequence of which each rank has a part equals that of one process."""

import numpy as np

import fx
import fx.distributed as dist
import fx.nn.functional as F
from fx.distributed import DTensor, Replicate, Shard, distribute_tensor, ring_attention
from fx.distributed.mesh import world

size, rank = world()
mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("seq",))
QKV = [fx.from_numpy(np.random.default_rng(i).normal(size=(2, 2 * size, 3))) for i in range(3)]


def whole(x):
    return (x.full_tensor() if isinstance(x, DTensor) else x).numpy()


def close(found, want):
    np.testing.assert_allclose(whole(found), whole(want), 1e-9, 1e-11)


def squares(attend):
    return lambda *qkv: (fx.sin(attend(*qkv)) ** 2).sum()


def case_on_ranks():
    rows = fx.P(None, "seq")
    for causal in (False, True):
        plain = lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=causal)  # noqa: B023
        part = lambda *qkv: ring_attention(*qkv, "seq", is_causal=causal)  # noqa: B023
        ring = fx.shard_map(part, mesh, rows, rows)
        want, slopes = plain(*QKV), fx.grad(squares(plain), (0, 1, 2))(*QKV)
        for jit in (lambda f: f, fx.jit):
            close(jit(ring)(*QKV), want)
            for found, slope in zip(jit(fx.grad(squares(ring), (0, 1, 2)))(*QKV), slopes):
                close(found, slope)
        step = fx.jit(fx.grad(squares(ring), (0, 1, 2)))
        assert [e.native for e in step.lower(*QKV).executables] == [True]


def case_of_tensors_on_a_mesh():
    attend = lambda *qkv: ring_attention(*qkv, "seq", is_causal=True, scale=0.3)
    plain = lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True, scale=0.3)
    want, slopes = plain(*QKV), fx.grad(squares(plain), (0, 1, 2))(*QKV)
    for places in ((Shard(1),) * 3, (Replicate(), Shard(0), Shard(1))):
        given = [
            distribute_tensor(x, mesh, [p], src_data_rank=None)
            for x, p in zip(QKV, places, strict=True)
        ]
        for jit in (lambda f: f, fx.jit):
            found = jit(attend)(*given)
            assert found.placements == (Shard(1),)
            close(found, want)
            for found, slope in zip(jit(fx.grad(squares(attend), (0, 1, 2)))(*given), slopes):
                close(found, slope)
