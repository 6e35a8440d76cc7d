"""Parameters and buffers as cells: tensors to whoever reads them, rebound by whoever writes."""

import numpy as np
import pytest

import fx
from fx.errors import BatchedValueError, DTypeError, InPlaceError

torch = pytest.importorskip("torch")


def test_a_parameter_is_a_tensor():
    p = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
    assert isinstance(p, fx.Tensor) and p.is_leaf and p.requires_grad
    assert p.shape == (2,) and p.ndim == 1 and p.size == 2 and len(p) == 2
    y = (p * 3 + 1 / p - p[0]).sum() + fx.sum(fx.stack([p, p]))
    y.backward()
    np.testing.assert_allclose(p.grad.numpy(), [3 - 1 - 2 + 2, 3 - 0.25 + 2])
    np.testing.assert_array_equal(p.detach().numpy(), [1, 2])
    assert float(p[1]) == 2 and p.tolist() == [1, 2]


def test_data_rebinds_and_snapshots():
    p = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
    old = p.data
    (p * p).sum().backward()
    p.data = p.data - 0.5 * p.grad
    np.testing.assert_array_equal(p.detach().numpy(), [0, 0])
    np.testing.assert_array_equal(old.numpy(), [1, 2])
    np.testing.assert_array_equal(p.grad.numpy(), [2, 4])
    assert not p.data.requires_grad and p.requires_grad


def test_what_was_recorded_keeps_the_old_value():
    p = fx.nn.Parameter(fx.tensor(3.0))
    y = p * p
    p.data = fx.tensor(10.0)
    y.backward()
    assert float(p.grad) == 6


def test_writing_into_a_cell_rebinds_it():
    p = q = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
    with fx.no_grad():
        p -= 0.5
        p *= 2
        p += fx.ones(2)
        p /= 2
        p[0] = 7.0
        p.add_(fx.ones(2), alpha=2).sub_(1).mul_(2).div_(4)
    assert p is q
    t = torch.tensor([1.0, 2.0])
    t -= 0.5
    t *= 2
    t += 1
    t /= 2
    t[0] = 7.0
    t.add_(torch.ones(2), alpha=2).sub_(1).mul_(2).div_(4)
    np.testing.assert_array_equal(q.detach().numpy(), t.numpy())
    with fx.no_grad():
        np.testing.assert_array_equal(p.copy_(fx.tensor(3)).detach().numpy(), [3, 3])
        np.testing.assert_array_equal(p.fill_(2).detach().numpy(), [2, 2])
        np.testing.assert_array_equal(p.zero_().detach().numpy(), [0, 0])


def test_what_writing_into_a_cell_refuses():
    p = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
    with pytest.raises(InPlaceError, match=r"\+= on .* requires grad .*with fx.no_grad\(\):"):
        p += 1
    with fx.no_grad(), pytest.raises(InPlaceError, match=r"gives float32\[2,2\], but it holds"):
        p += fx.ones((2, 2))
    with pytest.raises(DTypeError, match="only floating and complex tensors can require grad"):
        fx.nn.Parameter(fx.tensor([1, 2]))
    assert not fx.nn.Parameter(fx.tensor([1, 2]), requires_grad=False).requires_grad


def test_vmap_refuses_to_rebind_a_buffer_with_a_value_a_lane():
    layer = fx.nn.BatchNorm1d(3)
    with pytest.raises(BatchedValueError, match=r"vmap: BatchNorm1d.running_mean was made outside"):
        fx.vmap(layer)(fx.ones((2, 4, 3)))
    np.testing.assert_array_equal(layer.running_mean.numpy(), 0)
    layer.eval()
    assert fx.vmap(layer)(fx.ones((2, 4, 3))).shape == (2, 4, 3)


def test_cells_made_inside_vmap_may_hold_a_value_a_lane():
    def counted(x):
        total = fx.nn.Buffer(fx.zeros(()))
        for i in range(3):
            total += x[i]
        return total * 1.0

    x = fx.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(fx.vmap(counted)(x).numpy(), [3.0, 12.0])


@pytest.mark.parametrize("reduction", ["mean", "max", "min"])
def test_a_declared_reduction_keeps_one_value_of_the_lanes(reduction):
    seen = fx.nn.Buffer(fx.zeros(()), reduction=reduction)

    def watched(x):
        for i in range(2):
            seen.copy_(seen * 0.5 + x[i])
        return x

    x = np.arange(12.0, dtype="float32").reshape(2, 3, 2)
    fx.vmap(watched)(fx.tensor(x[0]))
    lanes = getattr(np, reduction)
    expected = lanes(lanes(x[0, :, 0]) * 0.5 + x[0, :, 1])
    np.testing.assert_allclose(seen.numpy(), expected)
    seen.zero_()
    fx.vmap(fx.vmap(lambda x: seen.copy_(x.sum())))(fx.tensor(x))
    np.testing.assert_allclose(seen.numpy(), lanes(lanes(x.sum(2), axis=1)))


def test_reductions_of_batch_norm():
    layer = fx.nn.BatchNorm1d(3)
    for name in ("running_mean", "running_var"):
        held = getattr(layer, name)
        setattr(layer, name, fx.nn.Buffer(held, reduction="mean"))
    x = fx.tensor(np.random.default_rng(0).standard_normal((2, 4, 3)).astype("float32"))
    fx.vmap(layer)(x)
    lanes = [fx.nn.BatchNorm1d(3) for _ in range(2)]
    for lane, part in zip(lanes, x):
        lane(part)
    mean = np.mean([lane.running_var.numpy() for lane in lanes], axis=0)
    np.testing.assert_allclose(layer.running_var.numpy(), mean, rtol=1e-6)


def test_an_unknown_reduction():
    with pytest.raises(ValueError, match="reduction is 'mean', 'max' or 'min', got 'sum'"):
        fx.nn.Buffer(fx.zeros(()), reduction="sum")


def test_a_buffer_says_that_it_loses_a_history():
    import warnings

    module = fx.nn.Module()
    module.register_buffer("b", fx.zeros(2))
    w = fx.ones(2).requires_grad_()
    with pytest.warns(RuntimeWarning, match=r"Module\.b float32\[2\].* not their history") as told:
        module.b = w * 3
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.b = (w * 3).detach()
        with fx.no_grad():
            module.b = w * 3
        fx.nn.BatchNorm1d(2)(w * fx.ones((3, 2))).sum().backward()
    assert not module.b.requires_grad and module.b.tolist() == [3, 3]


def test_a_buffer_that_is_written_says_so_too():
    from fx import torch

    module = torch.nn.Module()
    module.register_buffer("b", torch.zeros(2))
    w = torch.ones(2, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="not their history"):
        module.b += w
    with pytest.warns(RuntimeWarning, match="not their history"):
        module.b[0] = w[1]
    assert module.b.tolist() == [1, 1]
