"""Written tensors where other parts meet them: hooks of a backward pass, files, frames."""

import io
import weakref

import pytest

import fx
import fx.torch as face

torch = pytest.importorskip("torch")
BOTH = pytest.mark.parametrize("lib", [torch, face], ids=["torch", "fx"])


def guided(lib):
    """Guided backpropagation: hooks of layers that write into what they make."""
    net = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.Linear(4, 4), lib.nn.ReLU())
    with lib.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(lib.sin(lib.arange(float(p.numel())) * 1.3 + i).reshape(p.shape))
    outs, seen = [], []

    def forward(module, args, out):
        outs.append(out)

    def backward(module, grad_in, grad_out):
        out = outs.pop().clone()
        out[out > 0] = 1
        seen.append(out.tolist())
        kept = lib.zeros(2)
        kept += len(seen)
        seen.append(kept.tolist())
        return (out * lib.clamp(grad_in[0], min=0.0),)

    for layer in (net[1], net[3]):
        layer.register_forward_hook(forward)
        layer.register_full_backward_hook(backward)
    x = lib.cos(lib.arange(6.0)).reshape(2, 3).requires_grad_()
    net(x)[:, 0].sum().backward()
    return seen, x.grad


def test_a_hook_of_a_layer_sees_what_it_writes():
    (theirs, expected), (ours, got) = guided(torch), guided(face)
    assert ours == theirs
    torch.testing.assert_close(torch.from_numpy(fx.asarray(got).numpy().copy()), expected)


def test_a_rule_of_the_users_sees_what_it_writes_and_what_it_kept():
    torch = face
    held = torch.ones(3)
    held[0] = 2  # written, so that pullbacks ask how old they are

    def double(x):
        return x * 2

    def forward(x):
        kept = x.clone()
        return x * 2, kept

    def backward(kept, ct):
        out = ct.clone()
        out[0] = 10
        out += kept
        return (out,)

    rule = fx.custom_vjp(double)
    rule.defvjp(forward, backward)
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    rule(x).sum().backward()
    assert x.grad.tolist() == [11, 3, 4]


def written(lib):
    x = lib.zeros(4)
    view, model = x[1:], lib.nn.Linear(2, 1)
    x[2] = 5
    with lib.no_grad():
        model.weight[0].fill_(3)
        data = model.weight.data
        data[0, 0] = 7
    return {
        "x": x,
        "view": view,
        "data": data,
        "part": data[0],
        "state": model.state_dict()["weight"],
    }


@BOTH
def test_what_a_hook_returns_is_what_it_wrote(lib):
    def hook(g):
        g = g.clone()
        g[0] = 10
        return g

    x = lib.ones(3, requires_grad=True)
    h = x * 2
    h.register_hook(hook)
    h.sum().backward()
    assert x.grad.tolist() == [20, 2, 2]


@BOTH
def test_what_a_function_returns_is_what_its_backward_wrote(lib):
    class Binary(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return (x > 0).type(x.dtype)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            grad = grad.clone()
            grad[x.abs() > 1] = 0
            return grad

    x = lib.tensor([0.5, 2.0, -3.0, -0.5], requires_grad=True)
    (Binary.apply(x) * lib.arange(1.0, 5.0)).sum().backward()
    assert x.grad.tolist() == [1, 0, 0, 4]


@BOTH
def test_files_of_written_tensors_open_on_both_sides(lib):
    value, file = written(lib), io.BytesIO()
    lib.save(value, file)
    for reader in (torch, face):
        file.seek(0)
        read = reader.load(file)  # nothing but tensors and containers is allowed here
        assert {k: v.tolist() for k, v in read.items()} == {k: v.tolist() for k, v in value.items()}


@BOTH
def test_any_number_fills_the_diagonal_of_a_mask(lib):
    mask = lib.ones((3, 3), dtype=lib.bool)
    mask.fill_diagonal_(0)
    assert mask.tolist() == [[i != j for j in range(3)] for i in range(3)]
    assert mask.logical_not().fill_diagonal_(2.5).diagonal().tolist() == [True] * 3


def cut_and_written(lib):
    """Views by methods of every kind of signature, given words and places, and then written."""
    x = lib.arange(24.0).reshape(4, 6) * 1.0
    x[0, 0] = -1.0
    y = lib.arange(24.0).reshape(4, 6) * 1.0  # a tensor that was not written, as views of it are
    like = lib.zeros(6, 4)
    seen = []
    for held in (x, y):
        views = [
            held.T, held.detach(), held[1], held[:, 1:3], held.view(-1), held.view(6, 4),
            held.view_as(other=like), held.select(dim=0, index=1), held.unsqueeze(dim=1),
            held.diagonal(offset=1), held.transpose(dim0=0, dim1=1), held.T.reshape(-1),
            held[1:].reshape(-1), held[:, ::2].reshape(-1), held.detach()[2], held.T.T.view(-1),
            *held.unbind(), *held.unbind(dim=1), *held.split(2), *held[:2].chunk(chunks=2),
            *held.unsqueeze(0).unbind(), *held.split(4),
        ]  # fmt: skip
        for i, v in enumerate(views):
            v.mul_(1.5)
            v += i
            seen.append(held.tolist())
            seen.append([w.tolist() for w in views])
    return seen


def test_views_by_every_kind_of_method_write_through():
    assert cut_and_written(face) == cut_and_written(torch)


def test_who_writes_is_found_without_keeping_the_variables_of_a_function():
    lines = (
        "def f():",
        "    class Held: pass",
        "    held, x = Held(), fx.ones(3)",
        "    x += 1",
        "    reference = weakref.ref(held)",
        "    del held",
        "    return reference()",
    )
    space = {"fx": fx, "weakref": weakref}
    exec(compile("\n".join(lines), "their.py", "exec"), space)  # code that was not looked at yet
    assert space["f"]() is None


def test_what_a_function_asked_of_its_variables_stays():
    lines = (
        'def f():\n    x = fx.ones(3)\n    known = locals()\n    x += 1\n    return "x" in known'
    )
    space = {"fx": fx}
    exec(compile(lines, "their.py", "exec"), space)
    assert space["f"]()
