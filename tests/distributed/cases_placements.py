"""Tensors on a mesh: parts, messages, gradients and training equal those of one process."""

import numpy as np

import fx
import fx.distributed as dist
import fx.nn.functional as F
from fx.distributed import DTensor, Partial, Replicate, Shard, distribute_tensor
from fx.distributed.mesh import world
from fx.distributed.ranks import Ranks

size, rank = world()
mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
S, R, P = Shard, Replicate(), Partial()
MESSAGES = ("reduce", "gather", "reduce_scatter", "exchange", "broadcast")


def draws(*shape, seed=0):
    return fx.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def on(x, *placements, mesh=mesh):
    return distribute_tensor(x, mesh, placements, src_data_rank=None)


class Sent:
    """Which messages are sent inside, and of how many bytes."""

    def __enter__(self):
        self.names, self.bytes = [], 0
        self.saved = {name: getattr(Ranks, name) for name in MESSAGES}
        for name, method in self.saved.items():
            setattr(Ranks, name, self.noting(name, method))
        return self

    def noting(self, name, method):
        def noted(ranks, x, *rest):
            self.names.append(name)
            self.bytes += x.nbytes
            return method(ranks, x, *rest)

        return noted

    def __exit__(self, *error):
        for name, method in self.saved.items():
            setattr(Ranks, name, method)


def close(x, want, tolerance=1e-5):
    whole = x.full_tensor() if isinstance(x, DTensor) else x
    whole, want = (a.detach().numpy() for a in (whole, want))
    np.testing.assert_allclose(whole, want, tolerance, tolerance)


def refused(error, words, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except error as found:
        assert words in str(found), str(found)
    else:
        raise AssertionError(f"{words} was not refused")


# parts ------------------------------------------------------------------------------------------


def case_every_way_from_placements_to_placements():
    for shape in ((4, 6), (5, 3), (1, 7), (0, 2)):
        x = draws(*shape)
        for source in (S(0), S(1), R):
            for target in (S(0), S(1), R):
                found = on(x, source).redistribute(mesh, [target])
                assert found.placements == (target,)
                assert np.array_equal(found.to_local().numpy(), on(x, target).to_local().numpy())
                assert np.array_equal(found.full_tensor().numpy(), x.numpy())
        addends = DTensor.from_local(x * (rank + 1), mesh, [P])
        total = x * sum(range(1, size + 1))
        for target in (S(0), S(1), R):
            close(addends.redistribute(mesh, [target]), total)
        for op, want in {
            "max": np.maximum(x, x * size), "min": np.minimum(x, x * size),
            "avg": x * (size + 1) / 2, "product": x**size * np.prod(range(1, size + 1)),
        }.items():  # fmt: skip
            found = DTensor.from_local(x * (rank + 1), mesh, [Partial(op)])
            close(found.redistribute(mesh, [S(0)]), fx.asarray(want))


def case_every_way_on_two_axes():
    if size != 4:
        return
    grid = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    x = draws(5, 7)
    kinds = (S(0), S(1), R)
    ways = [(p, q) for p in kinds for q in kinds]
    for source in ways:
        for target in ways:
            found = on(x, *source, mesh=grid).redistribute(grid, target)
            want = on(x, *target, mesh=grid)
            assert np.array_equal(found.to_local().numpy(), want.to_local().numpy()), (
                source,
                target,
            )


def case_values_are_asked_for():
    x = on(draws(4, 4), S(0))
    with Sent() as sent:
        text = repr(x)
        for ask in (x.numpy, x.tolist, x.sum().item, lambda: bool(x.sum())):
            refused(RuntimeError, "full_tensor()", ask)
    assert not sent.names and "Shard(dim=0)" in text and "part of (4, 4)" in text, text
    assert on(fx.ones(2), R).tolist() == [1.0, 1.0]
    refused(RuntimeError, "on different devices", lambda: x + fx.ones(4))


# rules at work ----------------------------------------------------------------------------------


def case_a_sum_along_the_cut_is_partial():
    x = draws(size + 2, 3)
    for name in ("sum", "amax", "prod"):
        with Sent() as sent:
            found = getattr(fx.Tensor, name)(on(x, S(0)), 0)
        assert not sent.names and found.placements[0].is_partial(), found.placements
        close(found, getattr(fx.Tensor, name)(x, 0))
    with Sent() as sent:
        found = (on(x, S(0)).sum(0) * 2 + on(draws(3), R)).reshape(3, 1)
    assert not sent.names and found.placements == (P,)
    close(found, (x.sum(0) * 2 + draws(3)).reshape(3, 1))


def case_parts_of_an_index_add_up_once():
    x, updates, places = draws(7, 3), draws(6, 3, seed=1), fx.asarray([0, 3, 3, 6, 1, 2])
    want = x.index_add(0, places, updates)
    for p in (S(0), S(1), R):
        for q in (S(0), S(1), R):
            for r in (S(0), R):
                found = on(x, p).index_add(0, on(places, r), on(updates, q))
                close(found, want)


def case_a_whole_counts_where_a_rank_has_no_update():
    x = draws(7, 3)
    for n in (0, 1, 2):
        updates, places = draws(n, 3, seed=1), fx.asarray([0, 3][:n], dtype=fx.int64)
        for a, whole in ((on(x, R), x), (DTensor.from_local(x, mesh, [P]), x * size)):
            i, u = on(places, S(0)), on(updates, S(0))
            close(a.index_add(0, i, u), whole.index_add(0, places, updates))
            want = whole.index_reduce(0, places, updates, "amax")
            close(a.index_reduce(0, i, u, "amax"), want)


def case_a_cut_that_does_not_fit_the_new_shape_is_none():
    for shape, new in (((6,), (3, 2)), ((3, 2), (6,)), ((2, 3, 4), (6, 4)), ((5, 4), (20,))):
        x = draws(*shape)
        for p in (S(0), R):
            close(on(x, p).reshape(*new) * 2, x.reshape(*new) * 2)


def case_primitives_equal_one_process():
    x, w = draws(2 * size, 6), draws(6, 5, seed=1)
    image, kernel = draws(2 * size, 3, 6, 6), draws(4, 3, 3, 3, seed=2)
    table, places = draws(7, 3), fx.asarray([0, 3, 3, 6, 1, 2])
    programs = {
        "softmax": lambda x, w: F.softmax(x @ w, 1),
        "cut softmax": lambda x, w: F.softmax(x.mT @ x, 0),
        "norm": lambda x, w: F.layer_norm(x, (6,)).sum(0),
        "sort": lambda x, w: x.sort(0).values,
        "order": lambda x, w: x.argmax(0),
        "mean": lambda x, w: (x - x.mean(0)).var(0),
        "gelu": lambda x, w: F.gelu(x @ w),
        "index": lambda x, w: x[1:, 2] + x[0, 3],
        "cat": lambda x, w: fx.concatenate([x, x * 2], axis=1).reshape(-1, 2, 6),
        "inverse": lambda x, w: fx.linalg.inv(x.mT @ x + 9 * fx.eye(6, device=x.device)),
    }
    for name, program in programs.items():
        want = program(x, w)
        for p in (S(0), S(1), R):
            for q in (S(0), S(1), R):
                found = program(on(x, p), on(w, q))
                assert found.shape == want.shape, (name, p, q)
                close(found, want, 2e-4)
    for p in (S(0), S(1), S(2), R):
        for q in (S(0), S(1), R):
            close(
                F.conv2d(on(image, p), on(kernel, q), padding=1),
                F.conv2d(image, kernel, padding=1),
                1e-4,
            )
    picked = lambda t, i: (F.embedding(i, t) ** 2).sum()
    for p in (S(0), S(1), R):
        for q in (S(0), R):
            found = fx.grad(picked)(on(table, p), on(places, q))
            close(found, fx.grad(picked)(table, places))


# gradients --------------------------------------------------------------------------------------


def parts():
    w1, b1, w2 = draws(4, 8, seed=3), draws(8, seed=4), draws(8, 3, seed=5)
    return (w1, b1, w2), draws(2 * size, 4, seed=6), draws(2 * size, 3, seed=7)


def loss(w, x, y):
    hidden = fx.tanh(x @ w[0] + w[1])
    return ((hidden @ w[2] - y) ** 2).sum()


def case_data_parallel_gradients_come_out_partial():
    w, x, y = parts()
    placed = tuple([on(a, R) for a in w])
    with Sent() as sent:
        value, grads = fx.value_and_grad(loss)(placed, on(x, S(0)), on(y, S(0)))
    assert not sent.names, sent.names
    assert value.placements == (P,) and all(g.placements == (P,) for g in grads)
    for g, want in zip(grads, fx.grad(loss)(w, x, y)):
        close(g, want, 1e-4)


def case_tensor_parallel_has_one_sum():
    w, x, y = parts()
    placed = on(w[0], S(1)), on(w[1], S(0)), on(w[2], S(0))
    with Sent() as sent:
        hidden = fx.tanh(on(x, R) @ placed[0] + placed[1])
        out = hidden @ placed[2]
    assert not sent.names and hidden.placements == (S(1),) and out.placements == (P,)
    with Sent() as sent:
        value, grads = fx.value_and_grad(loss)(placed, on(x, R), on(y, R))
    assert sent.names == ["reduce"], sent.names
    assert [g.placements for g in grads] == [(S(1),), (S(0),), (S(0),)]
    close(value, loss(w, x, y), 1e-4)
    for g, want in zip(grads, fx.grad(loss)(w, x, y)):
        close(g, want, 1e-4)


def case_a_hessian_vector_product():
    w, x, y = parts()

    def product(w, x, y, v):
        return fx.jvp(lambda w: fx.grad(loss)(w, x, y), (w,), (v,))[1]

    v = tuple([draws(*a.shape, seed=9) for a in w])
    want = product(w, x, y, v)
    for p, q in (((R, R, R), S(0)), ((S(1), S(0), S(0)), R), ((S(0), S(0), S(1)), S(0))):
        found = product(
            tuple(map(on, w, p)), on(x, q), on(y, q), tuple(map(on, v, p))
        )  # fmt: skip
        for g, h in zip(found, want):
            close(g, h, 1e-3)


def case_vmap_and_jit_see_the_whole():
    w, x, y = parts()
    one = lambda w, x, y: loss(w, x[None], y[None])
    each = fx.vmap(fx.grad(one), (None, 0, 0))
    placed = tuple([on(a, R) for a in w]), on(x, S(0)), on(y, S(0))
    found = each(*placed)
    assert found[0].placements == (S(0),)
    for g, want in zip(found, each(w, x, y)):
        close(g, want, 1e-4)
    step = fx.jit(fx.value_and_grad(loss))
    for _ in range(2):
        value, grads = step(*placed)
        close(value, loss(w, x, y), 1e-4)
        close(grads[0], fx.grad(loss)(w, x, y)[0], 1e-4)


def case_parts_have_gradients():
    for p, want in ((S(0), 2.0), (R, 2.0), (P, 2.0)):
        t = fx.ones((2, 2)).requires_grad_()
        (DTensor.from_local(t, mesh, [p]) * 2).sum().full_tensor().backward()
        assert np.array_equal(t.grad.numpy(), np.full((2, 2), want))
    for p in (S(0), R, P):
        a = DTensor.from_local(fx.ones((2, 2)), mesh, [p]).requires_grad_()
        (a.to_local() * (rank + 1)).sum().backward()
        assert a.grad.placements == (R if p == P else p,)
        assert np.array_equal(a.grad.to_local().numpy(), np.full((2, 2), rank + 1))


# modules ----------------------------------------------------------------------------------------


def model():
    fx.manual_seed(0)
    return fx.nn.Sequential(fx.nn.Linear(4, 8), fx.nn.Tanh(), fx.nn.Linear(8, 3))


def sharded(name, module, mesh):
    """FSDP: every parameter cut along its first axis."""
    for key, p in [*module._parameters.items()]:
        module.register_parameter(key, fx.nn.Parameter(on(p.detach(), S(0))))


def tensor_parallel(name, module, mesh):
    if name in "02" and name:
        cut = (S(0), S(0)) if name == "0" else (S(1), R)
        for key, p in zip(("weight", "bias"), cut):
            value = getattr(module, key).detach()
            module.register_parameter(key, fx.nn.Parameter(on(value, p)))


def trained(net, optimizer, x, y, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()
    return net


def case_modules_and_optimizers_work_on_parts():
    makers = {
        "sgd": lambda ps: fx.optim.SGD(ps, lr=0.1, momentum=0.9),
        "adam": lambda ps: fx.optim.Adam(ps, lr=0.1),
        "adamw": lambda ps: fx.optim.AdamW(ps, lr=0.1, weight_decay=0.1),
    }
    x, y = draws(2 * size + 1, 4), draws(2 * size + 1, 3, seed=1)
    ways = {"replicated": (None, S(0)), "fsdp": (sharded, S(0)), "tensor": (tensor_parallel, R)}
    for kind, make in makers.items():
        plain = model()
        trained(plain, make(plain.parameters()), x, y)
        for way, (partition, batch) in ways.items():
            net = dist.distribute_module(model(), mesh, partition)
            before = [p.placements for p in net.parameters()]
            optimizer = make(net.parameters())
            trained(net, optimizer, on(x, batch), on(y, batch))
            assert [p.placements for p in net.parameters()] == before, (kind, way)
            for p, want in zip(net.parameters(), plain.parameters()):
                close(p, want, 1e-4)
                assert isinstance(p.grad, DTensor)
                for slot in optimizer.state[p].values():
                    if slot.ndim:
                        assert slot.placements == p.placements, (kind, way, slot)


def case_gradients_of_a_replicated_module_are_addends():
    net = dist.distribute_module(model(), mesh)
    x = on(draws(2 * size, 4), S(0))
    with Sent() as sent:
        (net(x) ** 2).sum().backward()
    assert not sent.names
    assert all(p.grad.placements == (P,) for p in net.parameters())
    optimizer = fx.optim.Adam(net.parameters())
    with Sent() as sent:
        optimizer.step()
    assert sent.names == ["reduce"] * 4, sent.names


def case_a_cell_keeps_its_placements():
    x = on(draws(2 * size, 4), S(0))
    net, plain = dist.distribute_module(model(), mesh), model()
    for one, batch in ((net, x), (plain, draws(2 * size, 4))):
        (one(batch) ** 2).sum().backward()
        with fx.no_grad():
            for p in one.parameters():
                p -= 0.1 * p.grad
    for p, want in zip(net.parameters(), plain.parameters()):
        assert p.grad.placements == (P,) and p.placements == (R,)
        close(p, want, 1e-4)


def case_a_step_under_jit_is_that_of_one_process():
    x, y = draws(2 * size + 1, 4), draws(2 * size + 1, 3, seed=1)
    plain = model()
    trained(plain, fx.optim.Adam(plain.parameters(), lr=0.1), x, y)
    net = dist.distribute_module(model(), mesh, sharded)
    optimizer = fx.optim.Adam(net.parameters(), lr=0.1)

    @fx.jit
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step(on(x, S(0)), on(y, S(0)))
    for p, want in zip(net.parameters(), plain.parameters()):
        assert p.placements == (S(0),)
        close(p, want, 1e-4)


def case_data_and_tensor_parallel_together():
    if size != 4:
        return
    grid = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert grid["tp"].get_local_rank() == rank % 2 and grid.get_coordinate() == (
        rank // 2,
        rank % 2,
    )
    assert grid["dp"].mesh.tolist() == [rank % 2, rank % 2 + 2]

    def cut(name, module, grid):
        if name in ("0", "2"):
            ways = (((R, S(0)), (R, S(0))), ((S(0), S(1)), (R, R)))[name == "2"]
            for key, p in zip(("weight", "bias"), ways):
                value = getattr(module, key).detach()
                module.register_parameter(key, fx.nn.Parameter(on(value, *p, mesh=grid)))

    x, y = draws(5, 4), draws(5, 3, seed=1)
    plain = model()
    trained(plain, fx.optim.Adam(plain.parameters(), lr=0.1), x, y)
    net = dist.distribute_module(model(), grid, cut)
    optimizer = fx.optim.Adam(net.parameters(), lr=0.1)
    trained(net, optimizer, on(x, S(0), R, mesh=grid), on(y, S(0), R, mesh=grid))
    for p, want in zip(net.parameters(), plain.parameters()):
        close(p, want, 1e-4)


def case_norms_and_masks_are_those_of_one_process():
    x = draws(2 * size + 1, 4)
    plain = model()
    net = dist.distribute_module(model(), mesh, sharded)
    for one, batch in ((plain, x), (net, on(x, S(0)))):
        (one(batch) ** 2).sum().backward()
    want = fx.nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
    close(fx.nn.utils.clip_grad_norm_(net.parameters(), 0.1), want, 1e-4)
    for p, q in zip(net.parameters(), plain.parameters()):
        close(p.grad, q.grad, 1e-4)
    masks = []
    for batch in (x, on(x, S(0)), on(x, S(1)), on(x, R)):
        fx.manual_seed(5)
        masks.append(F.dropout(batch, 0.5))
    assert masks[1].placements == (S(0),)
    for mask in masks[1:]:
        close(mask, masks[0], 0)


def case_distribute_sends_the_values_of_the_first():
    found = distribute_tensor(fx.ones((size + 1, 2)) * (rank + 1), mesh, [S(0)])
    assert found.is_leaf and found.full_tensor().tolist() == [[1.0, 1.0]] * (size + 1)
    leaf = distribute_tensor(fx.ones(3).requires_grad_(), mesh, [R])
    assert leaf.requires_grad
    whole = DTensor.from_local(fx.ones(2) * rank, mesh, [R], run_check=True)
    assert whole.tolist() == [0.0, 0.0]
    part = DTensor.from_local(fx.ones((2, 3)), mesh, [S(1)])
    assert part.shape == (2, 3 * size) and part.to_local().shape == (2, 3)
    state = dist.distribute_module(model(), mesh, sharded).state_dict()
    assert state["0.weight"].placements == (S(0),)
