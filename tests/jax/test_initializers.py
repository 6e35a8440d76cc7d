"""``fx.nn.initializers``: the moments and bounds that ``jax.nn.initializers`` promises."""

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, ShapeError

jax = pytest.importorskip("jax")
I = fx.nn.initializers
J = jax.nn.initializers
KEY = fx.random.key(7)
SHAPE = (3, 60, 80)
SCALED = """
glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform lecun_normal
lecun_uniform xavier_normal xavier_uniform
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("options", [{}, {"in_axis": 0, "out_axis": 1}, {"batch_axis": 0}])
def test_scaled(name, options):
    x = getattr(I, name)(**options)(KEY, SHAPE, fx.float64).numpy()
    y = np.asarray(getattr(J, name)(**options)(jax.random.key(0), SHAPE))
    assert abs(x.std() / y.std() - 1) < 0.02 and abs(x.mean()) < 0.02 * x.std() + 1e-3
    assert abs(np.abs(x).max() / np.abs(y).max() - 1) < 0.01 + 0.1 * ("normal" in name)


@pytest.mark.parametrize("mode", ["fan_in", "fan_out", "fan_avg", "fan_geo_avg"])
@pytest.mark.parametrize("kind", ["normal", "truncated_normal", "uniform"])
def test_variance_scaling(mode, kind):
    x = I.variance_scaling(2.0, mode, kind)(KEY, (40, 250)).numpy()
    fan = {"fan_in": 40, "fan_out": 250, "fan_avg": 145, "fan_geo_avg": 100}[mode]
    assert abs(x.var() * fan / 2 - 1) < 0.05
    if kind == "truncated_normal":
        assert np.abs(x).max() <= 2 * np.sqrt(2 / fan) / 0.8796 + 1e-6


@pytest.mark.parametrize("shape, axis", [((4, 7), -1), ((7, 4), -1), ((2, 5, 3), 0), ((3, 3), 1)])
def test_orthogonal(shape, axis):
    w = I.orthogonal(2.0, axis, fx.float64)(KEY, shape).numpy()
    assert w.shape == shape
    flat = np.moveaxis(w, axis, -1).reshape(-1, shape[axis]) / 2
    small = flat.T @ flat if flat.shape[0] >= flat.shape[1] else flat @ flat.T
    np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-12)


def test_delta_orthogonal():
    w = I.delta_orthogonal()(KEY, (5, 3, 2, 4)).numpy().copy()
    np.testing.assert_allclose(w[2, 1] @ w[2, 1].T, np.eye(2), atol=1e-6)
    w[2, 1] = 0
    assert not w.any()
    with pytest.raises(ShapeError, match="3 to 5 axes"):
        I.delta_orthogonal()(KEY, (3, 4, 2))


def test_simple():
    assert I.zeros(KEY, (2,)).tolist() == [0, 0] and I.ones(KEY, (2,), fx.int32).tolist() == [1, 1]
    assert I.constant(3.0)(KEY, (2, 2)).tolist() == [[3, 3], [3, 3]]
    x = I.uniform(0.5)(KEY, (10_000,)).numpy()
    assert 0 <= x.min() < 1e-3 and 0.499 < x.max() < 0.5
    assert abs(I.normal(0.1)(KEY, (10_000,)).numpy().std() - 0.1) < 0.003
    x = I.truncated_normal(0.1, lower=-1.0, upper=3.0)(KEY, (10_000,)).numpy()
    assert -0.1 <= x.min() < -0.099 and 0.2 < x.max() <= 0.3
    one = fx.jit(lambda k: I.he_normal()(k, (3, 4)))(KEY)
    np.testing.assert_array_equal(one.numpy(), I.he_normal()(KEY, (3, 4)).numpy())


def test_refusals():
    with pytest.raises(ShapeError, match="lacks the axis of fan in"):
        I.he_normal()(KEY, (3,))
    with pytest.raises(DTypeError, match="must be floating"):
        I.normal()(KEY, (3,), fx.int32)
    with pytest.raises(ValueError, match="mode must be 'fan_in'"):
        I.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ValueError, match="distribution must be 'normal'"):
        I.variance_scaling(1.0, "fan_in", "gaussian")


def test_every_name_is_there():
    assert not [n for n in dir(J) if n[0] != "_" and callable(getattr(J, n)) and not hasattr(I, n)]
