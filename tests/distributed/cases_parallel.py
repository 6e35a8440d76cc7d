"""Tensor parallel: blocks whose parameters are cut equal one process, and messages are counted."""

import warnings
from pathlib import Path
from runpy import run_path

import numpy as np

import fx
import fx.distributed as dist
import fx.nn as nn
import fx.nn.functional as F
from fx.distributed import DTensor, Partial, Replicate, Shard
from fx.distributed.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from fx.errors import ArgumentError, DeviceError, IndexingError

shared = run_path(str(Path(__file__).parent / "cases_placements.py"))
size, rank, mesh = shared["size"], shared["rank"], shared["mesh"]
draws, on, close, refused, Sent = (shared[k] for k in ("draws", "on", "close", "refused", "Sent"))
S, R = Shard, Replicate()
HEADS, WIDTH, LENGTH = 4, 8, 8
if size == 4:
    grid = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        b, t = x.shape[:2]  # of what has all heads or some
        q, k, v = (
            f(x).reshape(b, t, -1, WIDTH // HEADS).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(found.transpose(1, 2).reshape(b, t, -1))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention, self.mlp, self.dropout = Attention(), MLP(), nn.Dropout(0.25)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        fx.manual_seed(0)
        self.table = nn.Embedding(12, WIDTH)
        self.layers = nn.ModuleList([Block() for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 12, bias=False)

    def forward(self, x):
        x = self.table(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def tensor_plan(**out):
    column = ColwiseParallel(**out)
    return {
        "table": RowwiseParallel(input_layouts=R, **out),
        "layers.*.attention.[qkv]": column,
        "layers.*.attention.out": RowwiseParallel(**out),
        "layers.*.mlp.up": column,
        "layers.*.mlp.down": RowwiseParallel(**out),
        "head": ColwiseParallel(output_layouts=S(-1), use_local_output=False),
    }


def sequence_plan():
    cut = {"output_layouts": S(1), "use_local_output": False}
    whole = PrepareModuleInput(input_layouts=S(1), desired_input_layouts=R)
    plan = {
        "table": RowwiseParallel(input_layouts=R, **cut),
        "layers.*.attention.out": RowwiseParallel(**cut),
        "layers.*.mlp.down": RowwiseParallel(**cut),
        "layers.*.attention": whole, "layers.*.mlp": whole,
        "layers.*.dropout": SequenceParallel(), "norm": SequenceParallel(),
        "layers.*.norm[12]": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=S(1), use_local_output=False),
    }  # fmt: skip
    for name in ("attention.[qkv]", "mlp.up"):
        plan[f"layers.*.{name}"] = ColwiseParallel(use_local_output=False)
    return plan


def batch():
    rng = np.random.default_rng(3)
    return tuple([fx.from_numpy(rng.integers(0, 12, (4, LENGTH))) for _ in range(2)])


def trained(net, x, y, steps=3):
    """The losses, and the gradients of the first step."""
    losses, grads = [], None
    optimizer = fx.optim.AdamW(net.parameters(), lr=0.01, eps=1e-3)  # keys' biases have no slope
    for _ in range(steps):
        fx.manual_seed(7)
        optimizer.zero_grad()
        with loss_parallel():
            loss = F.cross_entropy(net(x).transpose(1, 2), y)
            loss.backward()
        grads = grads or [p.grad for p in net.parameters()]
        optimizer.step()
        losses.append(loss)
    return losses, grads


def compare(net, x, y):
    plain = Model()
    wanted, want = trained(plain, *batch())
    found, grads = trained(net, x, y)
    for a, b in zip([*found, *grads], [*wanted, *want], strict=True):
        close(a, b, 1e-4)
    for p, q in zip(net.parameters(), plain.parameters(), strict=True):
        close(p, q, 1e-3)


def case_tensor_parallel_trains_as_one_process():
    net = parallelize_module(Model(), mesh, tensor_plan())
    block = net.layers[0]
    assert block.attention.q.weight.placements == (S(0),) == block.mlp.up.bias.placements
    assert block.mlp.down.weight.placements == (S(1),) and block.mlp.down.bias.placements == (R,)
    assert net.table.weight.placements == (S(0),) and not isinstance(net.norm.weight, DTensor)
    x, y = batch()
    compare(net, x, on(y, R))


def case_sequence_parallel_trains_as_one_process():
    net = parallelize_module(Model(), mesh, sequence_plan())
    x, y = batch()
    seen = []
    net.layers[0].norm1.register_forward_hook(lambda m, a, out: seen.append(out.placements))
    compare(net, on(x, R), on(y, R))
    assert seen == [(S(1),)] * 3


def case_data_and_tensor_parallel_on_one_mesh():
    if size != 4:
        return
    x, y = batch()
    for plan in (tensor_plan(use_local_output=False), sequence_plan()):
        net = dist.distribute_module(parallelize_module(Model(), grid, plan), grid)
        assert net.layers[1].mlp.up.weight.placements == (R, S(0))
        compare(net, on(x, S(0), R, mesh=grid), on(y, S(0), R, mesh=grid))


def case_a_pair_sends_one_sum_each_way():
    net = parallelize_module(MLP(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    x = draws(4, 3, WIDTH).requires_grad_()
    with Sent() as sent:
        out = net(x)
    assert sent.names == ["reduce"] and not isinstance(out, DTensor), sent.names
    with Sent() as sent:
        (out**2).sum().backward()
    assert sent.names == ["reduce"], sent.names
    plan = {"up": ColwiseParallel(input_layouts=S(1)), "down": RowwiseParallel(output_layouts=S(1))}
    net, x = parallelize_module(MLP(), mesh, plan), on(draws(4, 2 * size, WIDTH), S(1))
    with Sent() as sent:
        out = net(x.to_local().requires_grad_())
    assert sent.names == ["gather", "reduce_scatter"], sent.names
    with Sent() as sent:
        (out**2).sum().backward()
    assert sent.names == ["gather", "reduce_scatter"], sent.names


# rules ------------------------------------------------------------------------------------------


def case_a_table_cut_along_its_rows_gives_addends():
    table, places = draws(7, 3), fx.asarray([[0, 3], [6, 2], [5, 5]])
    with Sent() as sent:
        found = F.embedding(on(places, R), on(table, S(0)))
    assert not sent.names and found.placements == (Partial(),)
    close(found, F.embedding(places, table), 0)
    wide = fx.asarray([[0, 3, -1], [6, 2, 5]])
    with Sent() as sent:
        along = fx.take_along_axis(on(table, S(0)), on(wide, R), 0)
    assert not sent.names and along.placements == (Partial(),)
    close(along, fx.take_along_axis(table, wide, 0), 0)
    for bad in (7, -1):
        refused(IndexingError, "0..6", F.embedding, on(fx.asarray([bad]), R), on(table, S(0)))
    grad = fx.grad(lambda t: (F.embedding(on(places, R), t) ** 2).sum())
    close(grad(on(table, S(0))), fx.grad(lambda t: (F.embedding(places, t) ** 2).sum())(table))
    assert F.embedding(on(places, S(0)), on(table, S(0))).placements == (S(0),)  # data parallel


def case_the_loss_of_cut_classes_gathers_no_logits():
    logits, y = draws(32, 40), fx.from_numpy(np.random.default_rng(1).integers(0, 40, 32))
    weight = draws(40, seed=2) ** 2
    for params in (
        {}, {"reduction": "sum"}, {"reduction": "none"}, {"ignore_index": 3},
        {"label_smoothing": 0.1}, {"weight": weight},
    ):  # fmt: skip
        loss = lambda x, y, params: F.cross_entropy(x, y, **params).sum()
        want, slope = fx.value_and_grad(loss)(logits, y, params)
        there = {k: on(v, R) if k == "weight" else v for k, v in params.items()}
        with Sent() as sent, loss_parallel():
            found, grad = fx.value_and_grad(loss)(on(logits, S(1)), on(y, R), there)
        assert {*sent.names} == {"reduce"}, sent.names
        assert sent.bytes < logits.to("cpu").numpy().nbytes / 2, sent.bytes
        assert grad.placements == (S(1),)
        close(found, want)
        close(grad, slope)
        for run in (loss, fx.jit(loss)):  # the plain target and weights are the same on all ranks
            with loss_parallel():
                close(run(on(logits, S(1)), y, params), want)
        refused(RuntimeError, "different devices", loss, on(logits, S(1)), y, params)
    for f in (F.softmax, F.log_softmax, fx.logsumexp):
        for x in (logits, logits[:, : size + 1], logits[:3]):
            close(f(on(x, S(1)), 1), f(x, 1))
    big = fx.tensor([[1e4, 0.0, -1e4, 1e4]])
    close(F.log_softmax(on(big, S(1)), 1), F.log_softmax(big, 1))


# what is wrong ----------------------------------------------------------------------------------


def case_two_meshes_do_not_meet():
    if size != 4:
        return
    other, x = grid["tp"], fx.ones(4)
    for p in (R, S(0)):
        refused(DeviceError, "meets another", lambda p=p: on(x, p) + on(x, p, mesh=other))
    again = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
    close(on(x, R) + on(x, S(0), mesh=again), 2 * x)


def case_what_a_plan_cannot_do_is_named():
    refused(
        NotImplementedError, "nn.Linear and nn.Embedding",
        parallelize_module, nn.ReLU(), mesh, ColwiseParallel(),
    )  # fmt: skip
    refused(ArgumentError, "got 3", parallelize_module, MLP(), mesh, {"up": 3})
    refused(ArgumentError, "device_mesh must be", parallelize_module, MLP(), None, {})
    refused(ArgumentError, "a layout is", ColwiseParallel, input_layouts=0)
    refused(ArgumentError, "one of each", PrepareModuleInput, input_layouts=(R, R))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        parallelize_module(MLP(), mesh, {"no.such": ColwiseParallel()})
    assert "no.such" in str(said[0].message) and "down" in str(said[0].message)
    if size == 4:
        refused(
            ArgumentError, "use_local_output=False",
            parallelize_module, MLP(), grid, {"up": ColwiseParallel()},
        )  # fmt: skip
        net = parallelize_module(MLP(), grid, {"up": ColwiseParallel(use_local_output=False)})
        refused(ArgumentError, "distribute_tensor", net, draws(2, WIDTH))


def case_parameters_that_are_shared_stay_shared():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(8, WIDTH), nn.Linear(WIDTH, 8, bias=False)
            self.head.weight = self.table.weight

    alike = {"table": RowwiseParallel(input_layouts=R), "head": ColwiseParallel()}
    net = parallelize_module(Tied(), mesh, alike)
    assert net.head.weight is net.table.weight and net.table.weight.placements == (S(0),)
    refused(
        ArgumentError, "are one parameter",
        parallelize_module, Tied(), mesh, {"table": ColwiseParallel(), "head": ColwiseParallel()},
    )  # fmt: skip


def case_what_goes_in_and_out_is_prepared():
    class Two(nn.Module):
        def forward(self, x, y, z=None):
            seen.append([getattr(a, "placements", None) for a in (x, z) if isinstance(a, DTensor)])
            return x * 2, y

    x, seen = draws(2 * size, 3), []
    style = PrepareModuleInputOutput(
        input_layouts=(S(0), None), desired_input_layouts=(R, None),
        input_kwarg_layouts={"z": R}, desired_input_kwarg_layouts={"z": S(1)},
        output_layouts=(R, None), desired_output_layouts=(S(0), None),
    )  # fmt: skip
    net = parallelize_module(Two(), mesh, style)
    out, other = net(on(x, S(0)).to_local(), 5, z=x)
    assert seen == [[(R,), (S(1),)]] and other == 5
    close(out, 2 * on(x, S(0)).to_local(), 0)
    refused(ArgumentError, "3 of them", net, x, 1, 2)
    last = parallelize_module(
        nn.Identity(), mesh, PrepareModuleOutput(output_layouts=S(0), desired_output_layouts=R)
    )
    close(last(on(x, S(0)).to_local()), x, 0)


def case_what_comes_by_name_is_brought_too():
    x = draws(2 * size, 4 * size)
    for style in (
        ColwiseParallel(output_layouts=Replicate()),
        RowwiseParallel(input_layouts=Replicate()),
    ):
        fx.manual_seed(0)
        layer = nn.Linear(4 * size, 2 * size)
        want = layer(x)
        layer = parallelize_module(layer, mesh, style)
        for found in (layer(x), layer(input=x)):
            np.testing.assert_allclose(found.detach().numpy(), want.detach().numpy(), 1e-5, 1e-5)
        try:
            layer()
        except TypeError as error:
            assert "input" in str(error)
        else:
            raise AssertionError("nothing was raised")
