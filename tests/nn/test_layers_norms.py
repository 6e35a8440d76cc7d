"""Instance, root-mean-square, response and synchronised normalisation: edges and refusals."""

import numpy as np
import pytest

import fx
from fx.errors import InPlaceError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check, close, copy_state

F, T = fx.nn.functional, torch.nn.functional


def test_convert_sync_batchnorm():
    def make(nn):
        block = nn.Sequential(nn.BatchNorm1d(3, affine=False), nn.BatchNorm1d(3, momentum=None))
        return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), block, nn.InstanceNorm1d(3))

    plain, theirs = make(fx.nn), make(torch.nn)
    copy_state(plain, theirs)
    plain[1].eval(), theirs[1].eval()
    weight, mean = plain[1].weight, plain[1]._buffers["running_mean"]
    ours = fx.nn.SyncBatchNorm.convert_sync_batchnorm(plain)
    theirs = torch.nn.SyncBatchNorm.convert_sync_batchnorm(theirs)
    assert repr(ours) == repr(theirs) and type(ours[2][0]) is fx.nn.SyncBatchNorm
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours[1].weight is weight and ours[1]._buffers["running_mean"] is mean
    assert not ours[1].training and ours[2][0].training
    x = arrays((4, 3), dtype="float32")[0]
    close(ours[:3](fx.tensor(x)), theirs[:3](torch.tensor(x)))
    single = fx.nn.SyncBatchNorm.convert_sync_batchnorm(fx.nn.BatchNorm2d(2), "group")
    assert isinstance(single, fx.nn.SyncBatchNorm) and single.process_group == "group"


def test_running_statistics_under_jit():
    (x,) = arrays((2, 3, 4))
    layers = [fx.nn.InstanceNorm1d(3, track_running_stats=True).to("float64") for _ in range(2)]
    for _ in range(2):
        close(fx.jit(layers[0])(fx.tensor(x)), layers[1](fx.tensor(x)))
    for name in ("running_mean", "running_var"):
        close(getattr(layers[0], name), getattr(layers[1], name), name)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0)])
def test_running_statistics_keep_their_values_where_nothing_comes(shape, compiled):
    def run(nn, empty, full, wrap):
        layers = [nn.BatchNorm1d(3), nn.BatchNorm1d(3, momentum=None)]
        layers += [nn.BatchNorm1d(3, affine=False)]
        if shape[0] or nn is fx.nn:  # PyTorch's fails for no samples
            layers.append(nn.InstanceNorm1d(3, track_running_stats=True))
        for layer in layers:
            for x in (empty, full, empty):
                wrap(layer)(x)
        return [list(layer.state_dict().values()) for layer in layers]

    (full,) = arrays((4, 3, 5), dtype="float32")
    ours = run(fx.nn, fx.zeros(shape), fx.tensor(full), fx.jit if compiled else lambda f: f)
    theirs = run(torch.nn, torch.zeros(shape), torch.tensor(full), lambda f: f)
    for mine, wanted in zip(ours, theirs):
        for a, b in zip(mine, wanted, strict=True):
            close(a, b)
    assert all(np.isfinite(x.numpy()).all() for x in ours[-1])


def test_instance_norm_by_given_statistics():
    x, mean, var, w, b = arrays((2, 3, 4), (3,), (3,), (3,), (3,))
    var = abs(var)
    held, theirs = (fx.tensor(mean), fx.tensor(var)), (torch.tensor(mean), torch.tensor(var))
    check(
        lambda x, *a: F.instance_norm(x, *held, *a, use_input_stats=False),
        lambda x, *a: T.instance_norm(x, *theirs, *a, use_input_stats=False),
        *(x, w, b),
    )
    check(
        lambda x, w: F.instance_norm(x, weight=w), lambda x, w: T.instance_norm(x, weight=w), x, w
    )


def test_instance_norm_refuses():
    layer = fx.nn.InstanceNorm2d(3, affine=True)
    with pytest.raises(
        ShapeError, match=r"InstanceNorm2d takes an input \(batch, channels, height"
    ):
        layer(fx.ones((2, 3)))
    with pytest.raises(
        ShapeError, match=r"match num_features \(3\), but got: 4; write InstanceNorm"
    ):
        layer(fx.ones((2, 4, 5, 5)))
    with pytest.warns(UserWarning, match="not used, because affine=False"):
        fx.nn.InstanceNorm1d(3)(fx.ones((2, 4, 5)))
    with pytest.raises(ValueError, match="expected more than 1 spatial element when training"):
        layer(fx.ones((2, 3, 1, 1)))
    with pytest.raises(ShapeError, match=r"instance_norm: weight must have shape \(3,\)"):
        F.instance_norm(fx.ones((2, 3, 4)), weight=fx.ones(4))
    with pytest.raises(InPlaceError, match=r"pass fx\.nn\.Buffer"):
        F.instance_norm(fx.ones((2, 3, 4)), running_mean=fx.zeros(3))
    with pytest.raises(ValueError, match="takes running_mean and running_var"):
        F.instance_norm(fx.ones((2, 3, 4)), use_input_stats=False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rms_norm_takes_torchs_epsilon(dtype):
    x = np.array([1e-5, 2e-5, 0.0])
    got = F.rms_norm(fx.tensor(x, dtype=dtype), 3).astype("float64")
    expected = T.rms_norm(torch.tensor(x, dtype=getattr(torch, dtype)), (3,)).double()
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-2)


def test_response_norms():
    (x,) = arrays((2, 6, 3, 2))
    ours, theirs = [nn.CrossMapLRN2d(3, 0.1, 0.7, 2.0) for nn in (fx.nn, torch.nn)]
    assert repr(ours) == repr(theirs)
    close(ours(fx.tensor(x)), fx.nn.LocalResponseNorm(3, 0.1, 0.7, 2.0)(fx.tensor(x)))
    # from the third channel on torch's sums hold the first channel too
    close(ours(fx.tensor(x))[:, :2], theirs(torch.tensor(x))[:, :2])
    check(
        lambda x: F.local_response_norm(x, 5, 0.3, 0.6, 1.5),
        lambda x: T.local_response_norm(x, 5, 0.3, 0.6, 1.5),
        x,
    )
    close(
        F.local_response_norm(fx.ones((0, 2, 3)), 2), T.local_response_norm(torch.ones(0, 2, 3), 2)
    )
    with pytest.raises(ShapeError, match=r"CrossMapLRN2d takes \(batch, channels, height, width\)"):
        ours(fx.ones((6, 3, 2)))
    with pytest.raises(ValueError, match="with at least 3 axes"):
        F.local_response_norm(fx.ones((2, 3)), 2)


def test_refusals_of_the_last_axes():
    with pytest.raises(ShapeError, match=r"rms_norm: an input of shape \(2, 3\) does not end in"):
        F.rms_norm(fx.ones((2, 3)), 4)
    with pytest.raises(ShapeError, match=r"rms_norm: weight must have normalized_shape \(3,\)"):
        F.rms_norm(fx.ones((2, 3)), 3, fx.ones(2))
    with pytest.raises(ShapeError, match=r"SyncBatchNorm takes \(batch, channels, \.\.\.\)"):
        fx.nn.SyncBatchNorm(3)(fx.ones(3))


def test_synchronised_batch_norm_over_lanes_is_that_of_the_whole_batch():
    x = fx.random.normal(fx.random.key(0), (3, 5, 4)) * 2 + 70
    w = fx.random.normal(fx.random.key(1), (3, 5, 4))
    lanes, whole = fx.nn.SyncBatchNorm(4, process_group="i"), fx.nn.BatchNorm1d(4)
    ours = lambda x: fx.vmap(lambda x: lanes(x), axis_name="i")(x)
    theirs = lambda x: whole(x.reshape(15, 4)).reshape(3, 5, 4)
    for f in (lambda g: g(x).detach(), lambda g: fx.grad(lambda x: (g(x) * w).sum())(x).detach()):
        a, b = f(ours).numpy(), f(theirs).numpy()
        assert np.allclose(a, b, 1e-5, 1e-5) and np.abs(b).max() > 0.1
    for a, b in zip(lanes.buffers(), whole.buffers()):
        assert np.allclose(a.numpy(), b.numpy(), 1e-6)
    with pytest.raises(fx.errors.AxisError):
        lanes(x[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "groups"), [
    ((2, 6, 5, 7), 3), ((1, 4, 3000), 2), ((7, 24), 4), ((3, 6, 40), 6), ((2, 6, 4), 1),
])  # fmt: skip
def test_group_norm_is_the_composed_one(shape, groups, dtype):
    rng = np.random.default_rng(0)
    x, ct = (fx.tensor(rng.normal(size=shape).astype(dtype)) for _ in range(2))
    w, b = (fx.tensor(rng.normal(size=shape[1]).astype(dtype)) for _ in range(2))
    f = lambda *xs: (fx.nn.functional.group_norm(xs[0], groups, *xs[1:]) * ct).sum()
    leaves = [fx.tensor(v, requires_grad=True) for v in (x, w, b)]
    f(*leaves).backward()
    for leaf, g in zip(leaves, fx.jit(fx.grad(f, (0, 1, 2)))(x, w, b), strict=True):
        size = abs(g).max().item()
        np.testing.assert_allclose(leaf.grad.numpy() / size, g.numpy() / size, atol=1e-5)
    ones, none = fx.ones_like(w), fx.zeros_like(b)
    found = fx.nn.functional.group_norm(x, groups, ones, none)
    plain = fx.nn.functional.group_norm(x, groups)
    np.testing.assert_allclose(found.numpy(), plain.numpy(), atol=1e-5)
    wide = fx.nn.functional.group_norm(x, groups, w.astype("float64"), b)
    assert wide.dtype == fx.float64  # dtypes that differ are promoted
