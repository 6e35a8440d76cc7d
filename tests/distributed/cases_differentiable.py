"""Collectives through which gradients flow: each is linear, and what goes back is its transpose."""

import numpy as np

import fx
import fx.distributed as dist
from fx.distributed import differentiable as through
from fx.distributed.mesh import world

dist.init_process_group("mpi")
size, rank = world()
last = size - 1


def draws(*shape, seed):
    values = np.random.default_rng(100 * seed + rank).normal(size=shape)
    return fx.tensor(values, requires_grad=True)


def total(x):
    return dist.all_reduce(x.detach().clone()).item()


def transposed(function, *shapes):
    """``<function(x), y> = <x, pulled back y>``, the products added over ranks, and once more."""
    xs = [draws(*shape, seed=i) for i, shape in enumerate(shapes)]
    out = function(*xs)
    outs = list(out) if isinstance(out, tuple) else [out]
    ys = [fx.tensor(draws(*o.shape, seed=9 + i).detach().numpy()) for i, o in enumerate(outs)]
    there = total(sum((o * y).sum() for o, y in zip(outs, ys)))
    sum((o * y).sum() for o, y in zip(outs, ys)).backward()
    back = total(sum((x.detach() * x.grad).sum() for x in xs))
    np.testing.assert_allclose(there, back, 1e-12)
    assert abs(there) > 1e-3
    # a nonlinear loss of it, whose gradient is a function of x again: Hessian-vector products
    flat = lambda *xs: sum((o**3).sum() for o in (lambda v: v if isinstance(v, tuple) else (v,))(
        function(*xs)))  # fmt: skip
    xs = [x.detach().requires_grad_() for x in xs]
    first = fx.autograd.grad(flat(*xs), xs, create_graph=True)
    second = fx.autograd.grad(sum((g * x.detach()).sum() for g, x in zip(first, xs)), xs)
    for g, h in zip(first, second):  # homogeneous of degree three: the Hessian times x is 2 g
        np.testing.assert_allclose(h.numpy(), 2 * g.detach().numpy(), 1e-10, 1e-12)


def case_sums_and_copies():
    transposed(lambda x: through.all_reduce(x), (3, 2))
    for root in (0, last):
        transposed(lambda x, root=root: through.broadcast(x, root), (3,))
        transposed(lambda x, root=root: through.reduce(x, root), (2, 2))


def case_parts():
    transposed(lambda x: through.all_gather(x), (2, 3))
    transposed(lambda *xs: through.reduce_scatter(fx.zeros(2), xs), *[(2,)] * size)
    for root in (0, last):
        transposed(lambda x, root=root: through.gather(x, root), (2,))
        transposed(lambda *xs, root=root: through.scatter(xs, root), *[(2,)] * size)


def case_everyone_to_everyone():
    rooms = [fx.zeros(rank + r + 1, dtype=fx.float64) for r in range(size)]
    transposed(lambda *xs: through.all_to_all(rooms, xs),
               *[(rank + r + 1,) for r in range(size)])  # fmt: skip
    transposed(
        lambda x: through.all_to_all_single(fx.zeros((size, 2), dtype=fx.float64), x), (size, 2)
    )
    comes = [r + 2 * rank + 1 for r in range(size)]
    goes = [rank + 2 * r + 1 for r in range(size)]
    room = fx.zeros(sum(comes), dtype=fx.float64)
    transposed(lambda x: through.all_to_all_single(room, x, comes, goes), (sum(goes),))


def case_values_and_what_is_refused():
    x = fx.full((2,), float(rank + 1))
    assert through.all_reduce(x).tolist() == [size * (size + 1) / 2] * 2
    assert [float(y[0]) for y in through.all_gather(x)] == [r + 1 for r in range(size)]
    assert through.broadcast(x, last).tolist() == [size, size]
    try:
        through.all_reduce(x, dist.ReduceOp.MAX)
    except ValueError as error:
        assert "gradients flow through sums" in str(error)
    else:
        raise AssertionError("MAX was taken")


WRITES = """
import fx.torch as torch
import fx.torch.distributed.nn as through

def gathered(x, root):
    return through.all_gather(x), through.gather(x, root)

def pulled(x, size, root):
    spread = through.reduce_scatter(torch.zeros(2), [x * (i + 1) for i in range(size)])
    dealt = through.scatter([x * (i + 1) for i in range(size)], root)
    return spread + dealt
"""


def case_a_module_that_writes_sees_the_tensors_of_all():
    space = {"__name__": "writes"}
    exec(WRITES, space)
    x = fx.full((2,), float(rank + 1), requires_grad=True)
    everyone, at_last = space["gathered"](x, last)
    assert [y.tolist() for y in everyone] == [[r + 1] * 2 for r in range(size)]
    assert [y.tolist() for y in at_last] == [[(r + 1) * (rank == last)] * 2 for r in range(size)]
    (space["pulled"](x, size, last) * (rank + 1)).sum().backward()
    squares = sum((r + 1) ** 2 for r in range(size))
    assert x.grad.tolist() == [squares * (1 + (rank == last))] * 2


WRITES_UNDER_JIT = """
import fx.torch as torch
import fx.torch.distributed._functional_collectives as funcol
import fx.torch.distributed.nn as through

calls = {
    "all_reduce": lambda x: through.all_reduce(x),
    "all_gather": lambda x: torch.cat(through.all_gather(x)),
    "broadcast": lambda x: through.broadcast(x, 1),
    "reduce": lambda x: through.reduce(x, 1),
    "gather": lambda x: torch.cat(through.gather(x, 1)),
    "scatter": lambda x: through.scatter([x * (i + 1) for i in range(size)], 1),
    "reduce_scatter": lambda x: through.reduce_scatter(x, [x * (i + 1) for i in range(size)]),
    "mean": lambda x: funcol.all_reduce(x, "avg", range(size)),
    "axis": lambda x: funcol.reduce_scatter_tensor(x, "sum", 1, range(size)),
}

def pulled(f, x):
    x = x.detach().requires_grad_()
    y = f(x)
    (y * y * (rank + 1)).sum().backward()
    return y, x.grad
"""


def case_gradients_in_a_compiled_module_that_writes():
    space = {"__name__": "writes_under_jit", "size": size, "rank": rank}
    exec(WRITES_UNDER_JIT, space)
    x = fx.random.normal(fx.random.key(rank), (2, size))
    pulled = space["pulled"]
    for name, f in space["calls"].items():
        for a, b in zip(pulled(f, x), fx.jit(lambda x, f=f: pulled(f, x))(x), strict=True):
            assert (a - b).abs().max() <= 1e-6 * max(1.0, a.abs().max().item()), name
