"""Writes into plain tensors: what a program that imports ``fx.torch`` does, as torch does it."""

from __future__ import annotations

import numpy as np
import pytest

import fx
import fx.torch as face
from fx.errors import InPlaceError, WriteError

torch = pytest.importorskip("torch")

PROGRAMS = {
    "an alias": "a = zeros(3); b = a; b += 1; a *= 3",
    "an argument": """
def f(x): x /= 2
a = ones(4); f(a)""",
    "members of lists": """
a = ones(3); b = ones(2)
for s in [a, b]:
    s *= 0.9
    s += 0.1 * s.sum()""",
    "a row taken before": "a = zeros(3, 3); b = a[0]; b += 1; a[0, 1] = 5",
    "a row of a row": "a = zeros(2, 3); a[1][2] = 4.0",
    "a view": "a = zeros(2, 3); a.view(-1)[4] = 7; a.T[0, 1] = -1; b = a.reshape(3, 2)",
    "a copy of elements is none": "a = arange(4.); b = a[[0, 1]]; b += 5; c = a[a > 1]; c.zero_()",
    "a diagonal": "a = ones(3, 4); a.diagonal().fill_(0); a.T.diagonal(1).add_(2)",
    "windows": "a = arange(6.); a.unfold(0, 2, 2)[:, 0] = 0; a.as_strided((2,), (3,))[1] = 9",
    "parts": """
a = arange(6.).reshape(2, 3)
for row in a: row *= 2
for x in a.chunk(3, 1): x += 1
b, c = a.split([1, 2], 1)
b.zero_()
for x in a.unbind(1): x -= 3""",
    "masks": "a = arange(5.); a[a > 2] = 0; a[a < 1] += 7; a.masked_fill_(a > 6, -1)",
    "indices": """
a = zeros(3, 4)
a[[0, 2], 1] = arange(2.)
a[:, tensor([0, 3])] += 2
a.index_put_((tensor([1]), tensor([2])), tensor(8.))
a.scatter_(1, tensor([[3], [0], [1]]), 6.0)
a.index_add_(0, tensor([0, 0]), ones(2, 4))""",
    "methods": """
a = ones(2, 3)
a.mul_(3).add_(1, alpha=2).sub_(0.5).div_(2).clamp_(0, 1.5).neg_().abs_().sqrt_().exp_()
a.copy_(arange(3.)); b = a.clone(); b.fill_(4); a.addcmul_(b, b, value=0.1).lerp_(b, 0.25)""",
    "gradients that are summed": """
w, u = ones(3, requires_grad=True), ones(2, requires_grad=True)
(w * w).sum().backward(); a = w.grad; a.zero_(); a[0] = 5; b = a[1:]
((w * w).sum() + u.sum()).backward(); (w * w).sum().backward()
c = tensor(1.0 if a is w.grad else 0.0)""",
    "casts": "a = zeros(3, dtype=torch.long); a[1] = 2.7; a += 2; b = zeros(2); b[:] = arange(2)",
    "shapes": "a = arange(6.).reshape(2, 3); b = a[0]; a.t_(); a[0, 0] = 9; a.unsqueeze_(0)",
    "detached": "a = ones(3); b = a.detach(); b[0] = 4; c = a.data; c.mul_(2)",
    "a table": """
a = zeros(6, 4)
at = arange(6.).unsqueeze(1)
a[:, 0::2] = sin(at * exp(arange(0., 4., 2.) * -0.3))
a[:, 1::2] = cos(at)""",
    "set_ and resize_": """
a = ones(2); b = arange(3.); a.set_(b); b += 1; a[0] = -5; c = arange(6.); c.resize_(2, 2)""",
    "functions that give views": """
a = zeros(4, 2)
torch.split(a, 2)[0].add_(1); torch.unbind(a)[1].mul_(3); torch.reshape(a, (2, 4))[1] += 5
torch.transpose(a, 0, 1)[0] -= 2; torch.flatten(a)[7] = 9; torch.squeeze(a)[2, 1] = 7
torch.narrow(a, 0, 1, 1).neg_(); torch.select(a, 1, 0)[3] = 4; torch.atleast_3d(a)[..., 0] += 1
torch.broadcast_tensors(a, a)[1][0] = 8; torch.detach(a)[1, 1] = -1; torch.diagonal(a).mul_(2)
torch.linalg.diagonal(a, offset=1).sub_(3); b = torch.meshgrid(a[0], a[1], indexing='ij')[0]""",
    "one row of what is expanded": """
a = ones(3); b = a.expand(2, 3); b[1] += 1; b[0, 1:] *= 3
c = tensor(2.0).expand(2).narrow(0, 0, 1); c -= 1""",
    "what runs backwards in memory": """
a = arange(6.).reshape(2, 3).flip(0); a.reshape(-1)[0] = 9; a.contiguous()[1, 1] = 7
b = a.T * 2; b.contiguous()[0] = -1; b.reshape(-1)[1] = 5; c = a.expand(2, 2, 3).clone()
c.contiguous()[0] = 3""",
    "copies of ravel": "a = ones(2, 3, 2); a.select(2, 1).ravel().zero_(); a.ravel()[3] = 4",
    "views of what lies otherwise": "a = torch.cat([ones(3, 2).T, zeros(2, 3)]); a.view(-1)[2] = 7",
    "complex": "a = zeros(2, dtype=torch.complex128); a.real.fill_(3); a.imag[1] = 2; a += 1j",
}
GRADIENTS = {
    "into what needs none": """
y = zeros(3); y[0] = x[0] * 2; y[1] = y[0] + x[1]
z = y * x; z[0] += 1; out = (z * z).sum()""",
    "into what is computed": "y = x * 2; y[1] = 0; y += x; y[0] -= y[2]; out = (y * y).sum()",
    "through a view": "y = x * 2; z = y[1:]; z *= 5; out = (y * x).sum() + z.sum()",
    "a view taken before": "y = x * 2; z = y.view(3, 1); y *= x; out = (z ** 2).sum()",
    "overwritten": "y = x * 2; y.fill_(3); out = (y * x).sum()",
    "overwritten by another's": """
y = x * 2; w = ones(3, requires_grad=True); y.copy_(w * 3); y[:] = w.sin(); out = (y * y).sum()""",
    "into what is detached": """
y = x * 2; w = ones(3, requires_grad=True); d = y.detach(); v = d.view(3, 1); part = d[1:]
part.mul_(w[1:] + x[1:]); assert d.requires_grad and v.requires_grad and not d.is_leaf
d[0] = 5; out = (d * x).sum() + v.sum() + (y * y).sum()""",
    "into data": """
d = ones(3, requires_grad=True); d.data[:2] = x[:2]; d.data.add_(x); e = d.data
e *= x; out = (e * e).sum() + (d * x).sum()""",
    "steps": "y = zeros(4, 3)\nfor t in range(4): y[t] = x * t\nout = (y.sin() * y).sum()",
    "relu": "y = x * 2; y.masked_fill_(y > 2, 0); y.relu_(); out = (y * y).sum()",
    "a mask": "y = x * x; y[y > 0.5] *= x.sum(); out = y.sum()",
}
SETTING = ("zeros", "ones", "arange", "tensor", "sin", "cos", "exp")


def run(code, library, **names):
    library.set_default_dtype(library.float64)
    try:
        exec(
            code, names := {"torch": library, **{n: getattr(library, n) for n in SETTING}, **names}
        )
    finally:
        library.set_default_dtype(library.float32)
    return names


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_torch(name):
    expected, found = run(PROGRAMS[name], torch), run(PROGRAMS[name], face)
    for key in "abc":
        if key in expected:
            np.testing.assert_allclose(np.array(found[key].tolist()), expected[key].numpy())
            assert found[key].shape == tuple(expected[key].shape), key


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_flow_through_writes(name):
    values = []
    for library in (torch, face):
        x = library.tensor([0.5, -1.0, 2.0], dtype=library.float64, requires_grad=True)
        run(GRADIENTS[name], library, x=x)["out"].backward()
        values.append(np.array(x.grad.tolist()))
    np.testing.assert_allclose(values[1], values[0])


def test_a_pullback_keeps_what_a_call_gave():
    torch, sums = face, []
    v = torch.ones(3, requires_grad=True)
    torch.zeros(1)[0] = 1.0

    def made(x):
        sums.append((x * v).sum())  # holds x, which has no name where it is written
        return x

    made(torch.arange(3.0) * 2)[0] = 5
    made(torch.arange(3.0) * 2)[[0, 1]] += 7
    made(2 * torch.arange(3.0))[len(sums) - 3] = sums[0]
    made(2 * torch.arange(3.0)).mul_(v)
    torch.Tensor.add_(made(2 * torch.arange(3.0)), v)
    tensor = torch.Tensor
    tensor.add_(made(2 * torch.arange(3.0)), v)
    x = made(v.detach() * 2 * torch.arange(3.0))
    x += v
    assert [torch.autograd.grad(s, v)[0].tolist() for s in sums] == [[0, 2, 4]] * 7


def test_a_pullback_sees_the_value_that_it_was_given():
    # torch refuses each of these backward passes; the gradients are those of the values of then
    torch = face
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    c = torch.tensor([3.0, 4.0])
    y = (x * c).sum()
    c += 100
    y.backward()
    assert x.grad.tolist() == [3, 4]
    h = x * 2
    z, row = (h * h).sum(), h[1:]
    q = (row * row).sum()
    h.zero_()
    x.grad = None
    (z + q).backward()
    assert x.grad.tolist() == [8, 32]


def test_a_leaf_is_written_without_history_and_stays_a_leaf():
    torch = face
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    (a * a).sum().backward()
    with torch.no_grad():
        a -= 0.5 * a.grad
        a[0] = 7
    assert a.is_leaf and a.requires_grad and a.tolist() == [7, 0]
    a.grad.zero_()
    (a * 3).sum().backward()
    assert a.grad.tolist() == [3, 3]
    a.data.mul_(2)
    a.data = torch.ones(2)
    assert a.tolist() == [1, 1] and a.requires_grad
    (a * a).sum().backward()
    assert a.grad.tolist() == [5, 5]


def test_gradients_of_two_leaves_are_two():
    torch = face
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    (a + b).sum().backward()
    a.grad.zero_()
    assert b.grad.tolist() == [1, 1]
    given = torch.ones(2)
    (a * 1).backward(given)
    a.grad.mul_(5)
    assert given.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("x += 1", "a leaf Variable that requires grad is being used in an in-place operation"),
        ("x[0] = 1", "a leaf Variable that requires grad"),
        ("x[0].fill_(1)", "a view of a leaf Variable that requires grad is being used"),
        ("ones(3).expand(2, 3).add_(1)", "more than one element of the written-to tensor"),
        ("tensor([1]).add_(1.5)", "result type float64 can't be cast to the desired output type"),
        ("ones(3).add_(ones(2, 3))", r"output with shape \[3\] doesn't match the broadcast shape"),
        ("(x * 2)[1:].detach_()", "Can't detach views in-place"),
    ],
)
def test_what_torch_refuses(code, says):
    x = face.ones(3, requires_grad=True)
    with pytest.raises(WriteError, match=says):
        run(code, face, x=x)
    assert issubclass(WriteError, RuntimeError)


def test_parameters_are_written_through_what_is_cut_of_them():
    torch = face
    w = torch.nn.Parameter(torch.ones(2, 3))
    before, kept = w.detach(), w.detach().clone()
    with torch.no_grad():
        w[0].fill_(2)
        w.view(-1)[5] = 7
    w.detach().mul_(2)
    assert w.tolist() == [[4, 4, 4], [2, 2, 14]] == before.tolist()
    assert kept.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_the_module_that_writes_decides():
    x = fx.ones(2)
    functional = {"fx": fx, "x": x}
    exec("y = x\ny += 1\ny *= 2", functional)
    assert x.tolist() == [1, 1] and functional["y"].tolist() == [4, 4]
    with pytest.raises(InPlaceError, match=r"x = x.at\[0\].set\(v\)"):
        exec("x[0] = 1", functional)
    with pytest.raises(InPlaceError, match=r"x = fx.zeros_like"):
        exec("x.zero_()", functional)
    helper = {}  # imports neither: it does what its caller does
    exec("def double(x):\n    x *= 2\n    return x", helper)
    exec("y = double(x)", {**functional, **helper})
    assert x.tolist() == [1, 1]
    exec("y = double(x)", {"torch": face, "x": x, **helper})
    assert x.tolist() == [2, 2]


def test_shared_constants_do_not_change():
    torch = face
    x, y = torch.tensor(1.0), torch.as_tensor(1.0)
    x += 4
    y += 4
    assert (torch.ones(2) * 1.0 + 1.0).tolist() == [2, 2] and fx.asarray(1.0).item() == 1


def test_what_nobody_else_holds_is_written_in_place():
    torch = face
    x = torch.zeros(1000)
    x[0] = 1
    where = x.data_ptr()
    for i in range(5):
        x[i] = i
        x[10:20] *= 2
    assert x.data_ptr() == where
    kept = (x * torch.ones(1000, requires_grad=True)).sum()  # holds what x is now
    x[3] = 100
    assert x.data_ptr() != where
    kept.backward()


def test_under_transforms():
    torch = face

    def f(x):
        y = torch.zeros(3) * x[0]
        y[1] = x[1] * 2
        y[2:] += x[2]
        return (y * y).sum()

    x = torch.tensor([1.0, 2.0, 3.0])
    assert torch.func.grad(f)(x).tolist() == [0, 16, 6]
    xs = torch.stack([x, 2 * x])
    assert torch.func.vmap(f)(xs).tolist() == [25, 100]
    assert torch.func.vmap(torch.func.grad(f))(xs).tolist() == [[0, 16, 6], [0, 32, 12]]
    assert fx.jit(f)(x).item() == 25
    counter = torch.zeros(())
    counter += 1
    with pytest.raises(WriteError, match="inside vmap is written into a tensor that was made"):
        torch.func.vmap(lambda v: counter.add_(v.sum()))(xs)


PLACES = {
    "layers": "a = arange(-2.0, 2.0); nn.ReLU(inplace=True)(a); nn.functional.elu(a, 1.0, True)",
    "functions": "a = arange(-2.0, 2.0); nn.functional.leaky_relu_(a, 0.5); torch.exp_(a)",
    "initialisers": "a = zeros(2, 3); b = a[0]; nn.init.constant_(a, 3.0); nn.init.ones_(a[1])",
    "out": """
a = zeros(3); b = a; torch.add(ones(3), 2, out=a); c = torch.empty(0)
torch.cat([a, a], out=c); torch.arange(3, out=b)""",
    "a parameter with views": """
p = nn.Parameter(ones(2, 3)); a = p[0]; b = p.T
with torch.no_grad():
    p *= 3; p[0, 1] = 5; p.add_(1); c = p[1:]; p.copy_(p * 2)
del p""",
    "SGD": """
a = ones(3, requires_grad=True); step = torch.optim.SGD([a], 0.1, momentum=0.9)
for _ in range(3):
    step.zero_grad()
    (a * a).sum().backward()
    step.step()
    with torch.no_grad():
        a.clamp_(0, 0.7)""",
    "LBFGS": """
a = zeros(3, requires_grad=True); step = torch.optim.LBFGS([a])
def loss():
    step.zero_grad()
    out = ((a - 2) ** 2).sum()
    out.backward()
    return out
step.step(loss)""",
}


@pytest.mark.parametrize("name", PLACES)
def test_what_writes_for_the_user(name):
    expected = run(PLACES[name], torch, nn=torch.nn)
    found = run(PLACES[name], face, nn=face.nn)
    for key in "abc":
        if key in expected:
            wanted = expected[key].detach().numpy()
            np.testing.assert_allclose(np.array(found[key].tolist()), wanted, atol=1e-6)


def test_a_written_gradient_is_what_the_next_pass_adds_to():
    torch = face
    x = torch.ones(2, requires_grad=True)
    x.sum().backward()
    y = (x * 1).sum()
    x.grad.mul_(3)
    y.backward()
    assert x.grad.tolist() == [4, 4]


STEPS = {  # of what is outside of a compiled step
    "a closure": "def step(v): c[0] = v; c.mul_(2); return c.sum()",
    "a view": "def step(v): row.add_(v); return c * 2",
    "members": """
def step(v):
    for s in held:
        s *= 0.9
        s += v
    return held[0]""",
    "a leaf": """
def step(v):
    loss = (w * w * v).sum()
    loss.backward()
    with torch.no_grad():
        w.sub_(0.1 * w.grad)
        w.grad.zero_()
    return loss""",
}


@pytest.mark.parametrize("name", STEPS)
def test_what_lives_outside_of_a_compiled_step_is_state(name):
    results = []
    for jit in (fx.jit, lambda f: f):
        names = {"c": face.ones(3), "held": [face.ones(2), face.zeros(3)], "torch": face}
        names |= {"w": face.ones(3, requires_grad=True)}
        exec("row = c[1:]\n" + STEPS[name], names)
        step = jit(names["step"])
        outs = [step(face.tensor(float(i))).tolist() for i in range(4)]
        results.append(
            (outs, [names[n].tolist() for n in "cw"], [h.tolist() for h in names["held"]])
        )
        if jit is fx.jit:
            assert step.cache_size() == 1
    np.testing.assert_allclose(*[np.concatenate([np.ravel(x) for x in r[0]]) for r in results])
    assert str(results[0][1:])[:60] == str(results[1][1:])[:60]


def test_arguments_of_a_compiled_step_are_written():
    torch = face

    def step(w, v, x):
        (w * w * x).sum().backward()
        with torch.no_grad():
            v *= 0.5
            v += w.grad
            w -= 0.1 * v
            w.grad.zero_()
        v.view(-1)[0] = 1
        return v.sum()

    ends = []
    for function in (fx.jit(step), step):
        w, v = torch.ones(3, requires_grad=True), torch.zeros(3)
        outs = [function(w, v, torch.tensor(2.0)).item() for _ in range(5)]
        ends.append(([*outs], w.tolist(), v.tolist()))
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    double = fx.jit(lambda b: b * 2)
    for i in range(5):  # what was written before it became an argument is an argument like others
        b = torch.zeros(4)
        b[i % 4] = 1
        assert double(b).tolist()[i % 4] == 2
    assert double.cache_size() == 1


def test_an_error_in_a_compiled_step_leaves_nothing_behind():
    torch = face
    c = torch.ones(3)
    c += 1

    @fx.jit
    def step(v):
        c.add_(v)
        if v.sum() > 2:
            raise ValueError("too much")
        return c.sum()

    step(torch.tensor(1.0))
    for _ in range(2):
        with pytest.raises(ValueError, match="too much"):
            step(torch.tensor(5.0))
    assert step(torch.tensor(1.0)).item() == 12 and c.tolist() == [4, 4, 4]


def test_values_are_written_through_what_is_detached_of_a_leaf():
    torch = face
    d = torch.ones(3, requires_grad=True)
    x = d * 2
    d.data[:2] = x[:2]
    assert d.tolist() == [2, 2, 1] and d.requires_grad and d.is_leaf
    d.data.add_(x)
    assert d.tolist() == [4, 4, 3]
    kept = torch.ones(3)
    seen = kept.data
    kept.data -= 1
    assert seen.tolist() == kept.tolist() == [0, 0, 0]


def test_one_tensor_twice_in_a_compiled_call():
    torch = face
    y, z = torch.ones(2), torch.ones(2)
    exec("double = lambda p, q: (q.mul_(2), p * 1)[1]", space := {"torch": torch})
    double = fx.jit(space["double"])
    assert [double(y, y).tolist() for _ in range(4)] == [[2, 2], [4, 4], [8, 8], [16, 16]]
    exec("def outer(p):\n    z.mul_(2)\n    return p * 1", space := {"torch": torch, "z": z})
    outer, other = fx.jit(space["outer"]), torch.ones(2)
    assert [outer(x).tolist() for x in (other, other, z, z)] == [[1, 1], [1, 1], [8, 8], [16, 16]]


def test_what_is_written_outside_gets_no_history_of_a_compiled_step():
    torch = face
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)

    @fx.jit
    def step(p):
        x[0:2] *= 3
        return w * p

    for _ in range(3):
        step(torch.ones(()))
    assert x.tolist() == [27, 27, 1] and not x.requires_grad


def test_values_of_a_state_dict_are_the_model():
    def run(torch):
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(0.5)
        for v in model.state_dict().values():
            if v.dtype == torch.float32:
                v.mul_(0.5).add_(1.0)
        held = model.state_dict()
        model[0].weight.detach()[0] *= 2
        held["0.bias"][1:] = 7.0
        return [p.tolist() for p in model.parameters()] + [v.tolist() for v in held.values()]

    assert run(face) == run(torch)


def test_what_a_state_dict_gave_keeps_its_value_when_an_optimizer_steps():
    model = face.nn.Linear(2, 1)
    optimizer = face.optim.SGD(model.parameters(), lr=0.1)
    best = model.state_dict()
    before = best["weight"].tolist()
    model(face.ones(1, 2)).sum().backward()
    optimizer.step()
    assert best["weight"].tolist() == before != model.weight.tolist()


def test_an_optimizer_goes_on_with_what_data_was_set_to():
    def train(library):
        x = library.ones(2, 2, requires_grad=True)
        view, other = x.view(-1), library.zeros(2, 2)
        other += 3
        optimizer = library.optim.SGD([x], lr=0.25)
        for value in (library.full((2, 2), 5.0), other):
            x.data = value
            (x * x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        other[0, 0] = 8.0
        x.data = x.data * 2
        return x, view, other

    for expected, found in zip(train(torch), train(face), strict=True):
        assert found.tolist() == expected.tolist()
    x, held = face.ones(2, requires_grad=True), face.zeros(3)
    face.optim.SGD([x], lr=0.1)
    with pytest.raises(WriteError, match=r"x\.data = v\.detach\(\)\.clone\(\)"):
        x.data = held[1:]


def test_a_reshape_that_copies_is_no_view():
    def write(library):
        x = library.ones(2)
        x /= 2
        wide = x.expand(3, 2)
        wide.reshape(6)[...] = 4.0
        return x, wide

    for expected, found in zip(write(torch), write(face), strict=True):
        assert found.tolist() == expected.tolist()


INDICES = [3, (slice(None), 2), slice(1, 3), (..., 1), (None, 2), (slice(0, 5, 2), 1), (2, -1)]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_two_derivatives_of_a_value_put_at_an_index(index):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 4))
    for shape in {x[index].shape, (1,) * x[index].ndim, ()}:
        value, found = rng.normal(size=shape), []
        for library in (torch, face):
            a, v = [library.tensor(z, requires_grad=True) for z in (x, value)]
            h, w = a * a, v * v
            h[index] = w
            grads = library.autograd.grad((h**3).sum(), [a, v], create_graph=True)
            sum((g * g).sum() for g in grads).backward()
            found.append([np.asarray(z.detach()) for z in (*grads, a.grad, v.grad)])
        for theirs, ours in zip(*found, strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
