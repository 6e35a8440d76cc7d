"""``x.numpy()`` and ``from_numpy`` share memory both ways, as PyTorch's do."""

import copy
import gc

import numpy as np
import pytest

import fx
import fx.torch as torch
from fx.testing.fuzz import twins
from fx.testing.fuzz.outcomes import Invalid
from fx.writing import host, lending

STARTED = "begun = torch.zeros(2)\nbegun[0] = 1\n"  # a process that has written before

PROGRAMS = {
    "numpy": """
    x = torch.zeros(4)
    v = x[1:]
    a = x.numpy()
    a[0] = 5
    x[1] = 7
    x += 1
    a[2] = 9
    v.add_(2)
    x.zero_()
    a[3] = 1
    """,
    "views": """
    y = torch.arange(6.)
    x = y.view(2, 3)
    r, t = x[0], x.T
    a = t.numpy()
    a[2, 1] = -1
    r += 1
    b = r.numpy()
    b[0] = 9
    y[4] = 4
    rows = [row.numpy() for row in x]
    rows[1][0] = 77
    for part in x.chunk(3, 1): part.numpy()[0] += 1
    x.fill_(3)
    """,
    "detached, and conjugates": """
    x = torch.complex(torch.arange(6.), torch.ones(6))
    d, c = x.detach(), x.conj()
    d.numpy()[0] = 3
    x.numpy()[1] = 5j
    k = c.resolve_conj()
    r = torch.arange(6.).view(2, 3)
    s = r.detach()
    s.numpy()[0] = -1
    r[1].detach().numpy()[2] = 9
    r += 1
    p = r.detach().numpy()
    """,
    "copies": """
    x = torch.arange(6.).view(2, 3)
    c = x.clone().numpy()
    c[...] = 0
    t = x.t().contiguous().numpy()
    t[...] = 0
    m = x[x > 1].numpy()
    m[...] = 0
    y = torch.zeros(2, 3)
    y.copy_(x)
    z = torch.zeros(2, 3)
    z[...] = x
    x.numpy()[0] = 9
    """,
    "taken": """
    n = np.zeros((3, 4))
    t = torch.from_numpy(n[1:, ::2])
    t += 1
    u = torch.from_numpy(n.T)
    u[0] = 5
    t.copy_(u[:2, :2])
    q = torch.as_tensor(n)
    q[2] = 0
    r = torch.tensor(n)
    r[...] = 1
    s = torch.asarray(n)
    s.sub_(1)
    w = torch.as_tensor(n, dtype=torch.float32)
    w[...] = 3
    n[0] = 8
    b = bytearray(8)
    f = torch.frombuffer(b, dtype=torch.int32)
    f[1] = 3
    b[0] = 1
    g = f.clone()
    h = torch.asarray(n[0, 0, ...])
    k = torch.as_tensor(n[0, 0, ...])
    n[0] = 6
    """,
    "asarray": """
    x = torch.ones(3)
    a = np.asarray(x)
    a[0] = 4
    b = np.array(x)
    b[1] = 5
    c = np.asarray(x, dtype=np.float32)
    c[2] = 6
    np.add(a, x.numpy(), out=a)
    """,
    "methods": """
    x = torch.zeros(3)
    n = x.numpy()
    torch.add(torch.ones(3), 1, out=x)
    torch.nn.init.constant_(x, 5)
    x.copy_(torch.tensor([1., 2., 3.]))
    x.scatter_(0, torch.tensor([1]), 9.)
    x.masked_fill_(x > 5, 0.)
    x[[0, 2]] += 1
    x[torch.tensor([True, False, False])] = 8
    torch.relu_(x.sub_(.5))
    x.set_(torch.ones(3))
    x[0] = 7
    """,
    "scalars": """
    x = torch.tensor(3.)
    n = x.numpy()
    n[...] = 5
    y = torch.tensor(3.) * 1
    a = torch.tensor(2., requires_grad=True)
    a.backward()
    a.grad.numpy()[...] = 7
    b = torch.tensor(3., requires_grad=True)
    b.backward()
    """,
    "gradients": """
    a = torch.ones(3, requires_grad=True)
    b = torch.ones(3, requires_grad=True)
    ((a + b) * torch.tensor([1., 2., 3.])).sum().backward()
    a.grad.numpy()[0] = 50
    g = torch.tensor([1., 2., 3.])
    c = torch.ones(3, requires_grad=True)
    (c + 0).backward(g)
    c.grad.numpy()[0] = 50
    """,
    "leaves": """
    w = torch.ones(3, requires_grad=True)
    d = w.detach().numpy()
    d[0] = 9
    with torch.no_grad(): w.mul_(2)
    p = torch.nn.Parameter(torch.ones(3))
    q = p.data.numpy()
    q[1] = 4
    p.data.mul_(3)
    r = p.detach().cpu().numpy()
    r[0] = -1
    with torch.no_grad(): p += 1
    s = np.ones(3)
    p.data.copy_(torch.from_numpy(s))
    s[0] = 50
    """,
    "modules": """
    m = torch.nn.BatchNorm1d(2)
    n = m.running_mean.numpy()
    n[0] = 4
    m.running_mean.mul_(2)
    other = torch.nn.BatchNorm1d(2)
    _ = other.load_state_dict(m.state_dict())
    other.running_mean.numpy()[...] = 7
    seen = m.running_mean * 1
    m.state_dict()['running_mean'].numpy()[1] = 3
    also = m.running_mean * 1
    """,
    "complex": """
    z = torch.zeros(2, 2, dtype=torch.complex64)
    p, r = torch.view_as_real(z), z.real
    p[0, 0, 1] = 3
    z += 1
    p.mul_(2)
    q = p[..., 0]
    q[1] = 9
    r[0, 0] = -4
    w = torch.view_as_complex(p)
    w[0] = 1j
    y = torch.arange(8.).reshape(4, 2)
    c = torch.view_as_complex(y)
    y[0, 0] = 5
    c[1] = 2 - 1j
    c.imag[2] = 8
    c *= 1j
    n = c.numpy()
    n[0] = 1 + 4j
    m = torch.view_as_real(torch.tensor(1 + 2j))
    m[0] = 5
    x = torch.ones(3, 2, requires_grad=True)
    h = x * 2
    d = torch.view_as_complex(h)
    d[0] = d[0] * 2
    (torch.view_as_real(d * 1j) * torch.tensor([1., 3.])).sum().backward()
    """,
    "dtypes": """
    z = torch.zeros(2, dtype=torch.complex64)
    z.numpy()[0] = 1 + 2j
    z.real.numpy()[1] = 4
    k = torch.zeros(3, dtype=torch.float16)
    k.numpy()[0] = 2
    b = torch.zeros(3, dtype=torch.bool)
    b.numpy()[1] = True
    i = torch.zeros(2, 0, dtype=torch.int64).numpy()
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("begun", ["", STARTED], ids=["first", "later"])
def test_arrays_share_memory_as_in_torch(name, begun):
    import textwrap

    try:
        twins.agree(begun + textwrap.dedent(PROGRAMS[name]).strip())
    except Invalid as error:
        pytest.fail(str(error)) if "not installed" not in str(error) else pytest.skip(str(error))


def test_written_views_say_their_strides():
    for of in (torch, pytest.importorskip("torch")):
        z = of.zeros(2, 3, dtype=of.complex64).T
        p = of.view_as_real(z)
        p[1, 0, 0] = 4
        assert (z.stride(), p.stride(), p.stride(1)) == ((1, 3), (2, 6, 1), 6)


def test_what_was_recorded_keeps_its_values_when_fx_writes():
    x = torch.tensor([1.0, 2.0, 3.0])
    a = x.numpy()
    w = torch.ones(3, requires_grad=True)
    first = (x * w).sum()
    rows = (x.view(3, 1) * w).sum()
    x.mul_(10)
    second = (x * w).sum()
    x[0] = 5
    first.backward()
    assert w.grad.tolist() == [1, 2, 3]
    rows.backward()
    assert w.grad.tolist() == [7, 8, 9]
    second.backward()
    assert w.grad.tolist() == [17, 28, 39]
    assert a.tolist() == [5, 20, 30]


def test_the_host_writes_into_what_was_recorded_as_in_torch():
    x = torch.tensor([1.0, 2.0])
    w = torch.ones(2, requires_grad=True)
    y = (x * w).sum()
    x.numpy()[0] = 100
    y.backward()
    assert w.grad.tolist() == [100, 2]


def test_a_history_goes_on_in_the_memory_of_the_array():
    a = np.zeros(3)
    x = torch.from_numpy(a)
    w = torch.ones(3, dtype=torch.float64, requires_grad=True)
    x.add_(w * 2)
    assert a.tolist() == [2, 2, 2] and x.requires_grad
    x.sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


def test_memory_is_its_own_again_when_the_array_is_gone():
    x = torch.zeros(3)
    x[0] = 1
    a = x.numpy()
    assert host.is_hosted(x._a)
    kept = x * 1
    x[0] = 2
    del a
    assert not host.is_hosted(x._a) and kept.tolist() == [1, 0, 0]
    t = torch.from_numpy(np.ones(2))  # which nobody else has
    assert not host.is_hosted(t._a)


def test_arrays_that_are_gone_are_not_remembered(monkeypatch):
    monkeypatch.setattr(lending, "_most", [64])
    lending._drop()
    before = len(host.memories)  # of arrays that other tests still have
    kept = [torch.zeros(1) for _ in range(500)]
    for x in kept:
        x.numpy()
    assert len(host.memories) < 200 + 2 * before


def test_a_functional_module_reads():
    x = torch.zeros(2)
    space = {"__name__": "functional", "x": x}
    exec("import fx\nimport numpy as np\na, b = x.numpy(), np.asarray(x)", space)
    assert not space["a"].flags.writeable and not space["b"].flags.writeable
    array = np.ones(2)
    held = fx.from_numpy(array)
    exec("import fx\ny = x + 1\nx += 1", space)
    assert x.tolist() == [0, 0] and held.tolist() == [1, 1]


def test_parameters_and_copies_have_values_of_their_own():
    source = np.ones((2, 2), np.float32)
    p = torch.nn.Parameter(torch.from_numpy(source))
    layer = torch.nn.Linear(2, 2)
    layer.load_state_dict({"weight": torch.from_numpy(source), "bias": torch.zeros(2)})
    twin = copy.deepcopy(layer)
    layer.weight.detach().numpy()[0] = 3
    source[...] = 9
    assert p.tolist() == [[1, 1], [1, 1]]
    assert layer.weight.tolist() == [[3, 3], [1, 1]] and twin.weight.tolist() == [[1, 1], [1, 1]]


def test_a_step_leaves_an_array_of_a_parameter_the_values_of_then():
    p = torch.nn.Parameter(torch.ones(2))
    before = p.detach().numpy()
    p.sum().backward()
    torch.optim.SGD([p], lr=1.0).step()
    assert before.tolist() == [1, 1] and p.tolist() == [0, 0]


def test_refusals_are_in_torchs_words():
    w = torch.ones(2, requires_grad=True)
    for read in (w.numpy, (w * 2).numpy, lambda: np.asarray(w)):
        with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
            read()
    assert w.numpy(force=True).tolist() == [1, 1]
    with pytest.raises(ValueError, match="stride in the given numpy array is negative"):
        torch.from_numpy(np.ones(3)[::-1])
    with pytest.raises(ValueError, match="byte order different from the native byte order"):
        torch.from_numpy(np.ones(3, ">f8"))
    with pytest.raises(TypeError):
        torch.from_numpy([1.0])
    with pytest.warns(UserWarning, match="not writable"):
        t = torch.from_numpy(np.broadcast_to(np.ones(1), 3))
    t[0] = 5
    assert t.tolist() == [5, 1, 1]


def test_a_value_of_a_transform_does_not_fit_into_an_array():
    x = torch.zeros(2)
    a = x.numpy()

    def f(w):
        x[0] = w
        return x.sum()

    with pytest.raises(fx.errors.WriteError):
        torch.func.grad(f)(torch.tensor(2.0))
    assert a.tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore:jit")
def test_compiled_functions_see_and_write_what_arrays_share():
    a = np.ones(3, np.float32)
    t, c = torch.from_numpy(a), torch.zeros(3)

    @fx.jit
    def read(x):
        return (x * t).sum()

    @fx.jit
    def made(x):
        return (x * torch.from_numpy(a)).sum()

    @fx.jit
    def write(v, i):
        c[i] = v
        return c.sum()

    for k in range(1, 5):
        assert read(torch.ones(3)) == 3 * k and made(torch.ones(3)) == 3 * k
        a += 1
    for k in range(3):
        assert write(torch.tensor(1.0), k) == k + 1
    n = c.numpy()
    for k in range(3):
        write(torch.tensor(5.0), k)
        assert n[k] == 5
    n[0] = 50
    assert write(torch.tensor(1.0), 1) == 56
    del n
    gc.collect()
    assert write(torch.tensor(7.0), 2) == 58


WINDOWS = {
    "taken after": ["x[0] = 1", "n = x.numpy()", "v = x.unfold(0, 3, 1)", "n[1:] += 0.25"],
    "taken before": ["x[0] = 1", "v = x.unfold(0, 3, 1)", "n = x.numpy()", "n[1:] += 0.25"],
    "before the first write": ["v = x.unfold(0, 3, 1)", "n = x.numpy()", "n[1:] += 0.25"],
    "their array": ["x[0] = 1", "v = x.unfold(0, 3, 1)", "n = v.numpy()", "x[1] = 7"],
    "their array is written": ["x[0] = 1", "v = x.unfold(0, 3, 3)", "n = v.numpy()", "n[0, 2] = 4"],
    "of columns": [
        "y = x.view(2, 3)", "y[0] = 1", "v = y.T.unfold(1, 2, 1)", "n = v.numpy()", "y[1, 2] = 5",
    ],
    "with steps": ["x[0] = 1", "v = x.as_strided((2, 2), (2, 1), 1)", "n = v.numpy()", "x[1] = 7"],
}  # fmt: skip


@pytest.mark.parametrize("lines", WINDOWS.values(), ids=WINDOWS)
def test_windows_share_memory_with_arrays(lines):
    twins.agree("\n".join(["x = torch.arange(6.0)", *lines]))


def test_what_is_lent_does_not_move_where_nobody_holds_it():
    x = torch.zeros(1000)
    x[0] = 1.0
    where = x.data_ptr()
    for lend in (lambda: x.detach().numpy(), lambda: x.numpy(), lambda: x.detach()[:].numpy()):
        for _ in range(3):  # what was lent before is gone
            assert lend().ctypes.data == where
            x[1] = 2.0
    assert x.data_ptr() == where
