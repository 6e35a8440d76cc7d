"""Every row of the table: values and gradients as PyTorch's, lanes as a loop's, meta shapes."""

import numpy as np
import pytest

import fx
from fx.state import Cell
from tests.ops.table import CASES, leaves

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # log of negative numbers

SMOOTH = [name for name, case in CASES.items() if case.smooth]
OPEN = [name for name, case in CASES.items() if not case.known]


def weights(outs):
    """Fixed cotangents for the floating outputs."""
    source = np.random.default_rng(1)
    return [source.uniform(0.5, 1.0, tuple(o.shape)) for o in outs]


def floating(outs):
    return [o for o in outs if o.dtype in (fx.float64, torch.float64)]


def on_torch(case):
    arrays = case.floats()
    tensors = [torch.tensor(a, requires_grad=case.smooth) for a in arrays]
    ints = [torch.tensor(a) for a in case.integers()]
    return tensors, leaves((case.torch or case.function)(torch, *tensors, *ints))


def on_fx(case, floats, ints):
    return leaves(case.function(fx, *floats, *ints))


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    case = CASES[name]
    _, want = on_torch(case)
    got = on_fx(case, list(map(fx.asarray, case.floats())), list(map(fx.asarray, case.integers())))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == tuple(w.shape)
        assert g.dtype.name == str(w.dtype).removeprefix("torch.")
        np.testing.assert_allclose(g.numpy(), w.detach().numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name):
    case = CASES[name]
    tensors, outs = on_torch(case)
    outs = floating(outs)
    total = sum((o * torch.tensor(w)).sum() for o, w in zip(outs, weights(outs), strict=True))
    want = torch.autograd.grad(total, tensors, allow_unused=True, materialize_grads=True)
    ints = list(map(fx.asarray, case.integers()))

    def loss(floats):
        found = floating(on_fx(case, floats, ints))
        return sum((o * w).sum() for o, w in zip(found, weights(found), strict=True))

    got = fx.grad(loss)(list(map(fx.asarray, case.floats())))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", OPEN)
def test_lanes_equal_the_loop(name):
    case = CASES[name]
    lanes = [(case.floats(seed), case.integers(seed)) for seed in range(2)]
    stacked = [np.stack(column) for column in zip(*[f + i for f, i in lanes], strict=True)]
    n = len(case.shapes)

    def function(*args):
        return tuple(on_fx(case, list(args[:n]), list(args[n:])))

    got = fx.vmap(function)(*map(fx.asarray, stacked))
    loops = [function(*map(fx.asarray, f + i)) for f, i in lanes]
    for k, g in enumerate(got):
        want = np.stack([loop[k].numpy() for loop in loops])
        np.testing.assert_allclose(g.numpy(), want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", OPEN)
def test_meta_knows_the_shapes(name):
    case = CASES[name]
    arrays = [*case.floats(), *case.integers()]
    n = len(case.shapes)
    real = list(map(fx.asarray, arrays))
    bare = [fx.empty(a.shape, dtype=a.dtype.name, device="meta") for a in arrays]
    want = on_fx(case, real[:n], real[n:])
    with fx.device("meta"):
        got = on_fx(case, bare[:n], bare[n:])
    assert [(g.shape, g.dtype, g.device.name) for g in got] == [
        (w.shape, w.dtype, "meta") for w in want
    ]


@pytest.mark.parametrize("name", SMOOTH)
def test_lanes_of_gradients(name):
    case = CASES[name]
    if case.known:
        return
    lanes = [(case.floats(seed), case.integers(seed)) for seed in range(2)]
    stacked = [np.stack(column) for column in zip(*[f + i for f, i in lanes], strict=True)]
    n = len(case.shapes)

    def loss(*args):
        found = floating(on_fx(case, list(args[:n]), list(args[n:])))
        return sum((o * w).sum() for o, w in zip(found, weights(found), strict=True))

    gradient = fx.grad(loss, tuple(range(n)))
    got = fx.vmap(gradient)(*map(fx.asarray, stacked))
    loops = [gradient(*map(fx.asarray, f + i)) for f, i in lanes]
    for k, g in enumerate(got):
        want = np.stack([loop[k].numpy() for loop in loops])
        np.testing.assert_allclose(g.numpy(), want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", SMOOTH)
def test_forward_mode_is_the_transpose_of_reverse_mode(name):
    case = CASES[name]
    floats, ints = list(map(fx.asarray, case.floats())), list(map(fx.asarray, case.integers()))
    moving = list(map(fx.asarray, case.floats(seed=7)))

    def function(*xs):
        return tuple(floating(on_fx(case, list(xs), ints)))

    outs, pushed = fx.jvp(function, tuple(floats), tuple(moving))
    cts = tuple(map(fx.asarray, weights(outs)))
    _, pullback = fx.vjp(function, *floats)
    left = sum((u * t).sum().item() for u, t in zip(cts, pushed, strict=True))
    right = sum((g * t).sum().item() for g, t in zip(pullback(cts), moving, strict=True))
    assert left == pytest.approx(right, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dtype", (fx.float32, fx.bfloat16, fx.float16), ids=str)
def test_narrow_dtypes_stay_and_are_near(name, dtype):
    case = CASES[name]
    arrays = [a.astype(dtype) for a in case.floats()]
    ints = list(map(fx.asarray, case.integers()))
    got = on_fx(case, list(map(fx.asarray, arrays)), ints)
    want = on_fx(case, [fx.asarray(a.astype(np.float64)) for a in arrays], ints)
    near = {"float32": 1e-5, "bfloat16": 0.1, "float16": 0.02}[dtype.name]
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and (g.dtype == dtype or w.dtype == fx.int64)
        g, w = g.numpy().astype(np.float64), w.numpy().astype(np.float64)
        np.testing.assert_allclose(g, w, rtol=near, atol=near)


@pytest.mark.parametrize("name", CASES)
def test_cells_are_read(name):
    case = CASES[name]
    arrays = case.floats()
    ints = list(map(fx.asarray, case.integers()))
    cells = [Cell(fx.asarray(a)) for a in arrays]
    got = on_fx(case, cells, ints)
    want = [g.numpy() for g in on_fx(case, list(map(fx.asarray, arrays)), ints)]
    for cell in cells:
        cell.rebind(cell * 0.0)
    for g, w in zip(got, want, strict=True):
        assert type(g) is fx.Tensor
        np.testing.assert_array_equal(g.numpy(), w)


@pytest.mark.parametrize("bounds", [(-0.5, 0.5), (None, 0.3), (-0.2, None), (0.5, -0.5)], ids=str)
def test_clip_is_one_node_with_the_gradient_of_its_steps(bounds):
    values = [[-1.0, -0.5, 0.5, float("nan"), 0.2, 3.0]]
    x = fx.tensor(values, requires_grad=True)
    y = x.clip(*bounds)
    assert y.grad_fn.next_functions[0][0] is x._node
    y.sum().backward()
    expected = torch.tensor(values, requires_grad=True)
    expected.clip(*bounds).sum().backward()
    assert x.grad.tolist() == expected.grad.tolist()
    np.testing.assert_array_equal(
        y.detach().numpy(), fx.jit(lambda x: x.clip(*bounds))(x.detach()).numpy()
    )


def test_the_limits_of_clip_get_gradients_too():
    x, low = fx.tensor([-1.0, 0.5, 2.0]), fx.tensor(0.0, requires_grad=True)
    high = fx.tensor([1.0, 1.0, 1.0], requires_grad=True)
    x.clip(low, high).sum().backward()
    assert low.grad.item() == 1
    assert high.grad.tolist() == [0, 0, 1]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_stack_is_one_node(axis):
    x, y = (fx.tensor(v, requires_grad=True) for v in ([[1.0, 2.0]], [[3.0, 4.0]]))
    out = fx.stack([x, y, x], axis)
    parents = [parent for parent, _ in out.grad_fn.next_functions]
    assert parents == [x._node, y._node, x._node]
    (out * fx.arange(6.0).reshape(out.shape)).sum().backward()
    a, b = (torch.tensor(v, requires_grad=True) for v in ([[1.0, 2.0]], [[3.0, 4.0]]))
    expected = torch.stack([a, b, a], axis)
    (expected * torch.arange(6.0).reshape(expected.shape)).sum().backward()
    assert x.grad.tolist() == a.grad.tolist()
    assert y.grad.tolist() == b.grad.tolist()
