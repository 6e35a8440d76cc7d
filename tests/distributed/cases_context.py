"""``context_parallel`` gives what one process gives, and each rank what PyTorch gives it."""

import numpy as np

import fx
import fx.distributed as dist
import fx.torch as torch
import fx.torch.nn.functional as F
from fx.distributed.mesh import world
from fx.torch.distributed.tensor.experimental import context_parallel
from fx.torch.distributed.tensor.experimental._attention import context_parallel_unshard
from tests.distributed.shared import refused

size, rank = world()
mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("cp",))
LENGTHS = (4 * size, 3 * size)  # two pieces for each rank, and one where size is odd


def made(length, heads=2):
    draw = np.random.default_rng(length)
    x = torch.from_numpy(draw.normal(size=(1, 2, length, 3)))
    y = torch.from_numpy(draw.normal(size=(1, heads, length, 3)))
    return x, y, torch.from_numpy(draw.normal(size=(1, heads, length, 3)))


def close(found, want):
    np.testing.assert_allclose(found.detach().numpy(), want.detach().numpy(), 1e-9, 1e-11)


def attention(causal, heads):
    """A function of query, key and value, and its gradients."""

    def attend(*x):
        return F.scaled_dot_product_attention(*x, is_causal=causal, enable_gqa=heads == 1)

    return attend, fx.grad(lambda *x: (attend(*x).sin() ** 2).sum(), (0, 1, 2))


def case_as_one_process():
    for length in LENGTHS:
        for causal, heads in ((False, 2), (True, 2), (True, 1)):
            whole, parts = made(length, heads), made(length, heads)
            attend, slopes = attention(causal, heads)
            with context_parallel(mesh, buffers=list(parts), buffer_seq_dims=[2, 2, 2]):
                assert all(x.shape[2] == length // size for x in parts)
                found, mine = attend(*parts), slopes(*parts)
            (out,) = context_parallel_unshard(mesh, [found], [2])
            close(out, attend(*whole))
            for a, b in zip(context_parallel_unshard(mesh, list(mine), [2, 2, 2]), slopes(*whole)):
                close(a, b)
            for x, before in zip(parts, whole):
                assert x.shape == before.shape and (x.numpy() == before.numpy()).all()


def case_compiled():
    """The block within what is compiled."""
    slopes = attention(True, 2)[1]
    whole = made(4 * size)

    @fx.jit
    def step(*x):
        with context_parallel(mesh):
            return slopes(*x)

    parts = made(4 * size)
    with context_parallel(mesh, buffers=list(parts), buffer_seq_dims=[2, 2, 2]):
        mine = [x.clone() for x in parts]
    for _ in range(2):
        for a, b in zip(context_parallel_unshard(mesh, list(step(*mine)), [2] * 3), slopes(*whole)):
            close(a, b)
    assert [e.native for e in step.lower(*mine).executables] == [True]


def case_a_program_that_was_compiled_outside_is_not_taken_inside():
    x = made(size)[0]
    attend = fx.jit(lambda x: F.scaled_dot_product_attention(x, x, x))
    alone = attend(x)
    for _ in range(3):
        with context_parallel(mesh):
            ring = attend(x * (rank + 1))
        apart = attend(x * (rank + 1))
        assert np.abs((ring - apart).numpy()).max() > 1e-3 or size == 1
        close(attend(x), alone)


def case_each_rank_has_pieces_from_both_ends():
    x = torch.arange(4.0 * size)
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[0], no_restore_buffers={x}):
        last = 2 * (2 * size - 1 - rank)
        assert x.tolist() == [2.0 * rank, 2.0 * rank + 1, last, last + 1]
    assert x.shape == (4,)


def case_what_cannot_be_is_named():
    x, y, z = made(2 * size)
    one, two = torch.ones(2 * size + 1), torch.ones(4)
    with context_parallel(mesh):
        refused(
            ValueError,
            "no attn_mask",
            lambda: F.scaled_dot_product_attention(x, y, z, 0 * y @ x.mT),
        )
        refused(
            ValueError, "no dropout_p", lambda: F.scaled_dot_product_attention(x, y, z, None, 0.5)
        )

    def go(**given):
        with context_parallel(mesh, **given):
            raise AssertionError

    refused(ValueError, "equal parts; pad", lambda: go(buffers=[one], buffer_seq_dims=[0]))
    refused(ValueError, "same number", lambda: go(buffers=[two], buffer_seq_dims=[]))
    refused(ValueError, "subset", lambda: go(no_restore_buffers=[two]))
