"""Convolution against torch, its batched forms at real sizes, and what is refused."""

import numpy as np
import pytest

import fx
import fx.prims.convolution as prims
from fx.errors import DTypeError, ShapeError
from tests.prims.tools import BFLOAT16, array, bound, draws, gradients, run, tensor

torch = pytest.importorskip("torch")

CASES = [  # spatial sizes, kernel, stride, padding (the same on both sides), dilation, groups
    ((9,), (3,), (2,), (1,), (1,), 1),
    ((7, 8), (3, 2), (2, 1), (1, 0), (1, 2), 1),
    ((6, 6), (3, 3), (1, 1), (1, 1), (1, 1), 2),
    ((5, 4), (1, 1), (1, 1), (0, 0), (1, 1), 4),
    ((4, 5, 3), (2, 3, 2), (1, 2, 1), (0, 1, 1), (1, 1, 2), 2),
]


def parameters(case):
    sizes, kernel, stride, padding, dilation, groups = case
    pairs = tuple((p, p) for p in padding)
    return sizes, kernel, dict(stride=stride, padding=pairs, dilation=dilation, groups=groups)


def arrays(sizes, kernel, groups, seed=0):
    return draws(2, 4, *sizes, seed=seed), draws(8, 4 // groups, *kernel, seed=seed + 1)


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_follow_torch(case):
    sizes, kernel, params = parameters(case)
    x, w = arrays(sizes, kernel, params["groups"])
    tx, tw = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    forward = getattr(torch.nn.functional, f"conv{len(sizes)}d")
    out = forward(tx, tw, None, case[2], case[3], case[4], case[5])
    weights = draws(*out.shape, seed=2)
    (out * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(run(prims.conv, x, w, **params), out.detach().numpy(), atol=1e-12)
    dx, dw = gradients(bound(prims.conv, **params), x, w, weights=weights)
    np.testing.assert_allclose(dx, tx.grad.numpy(), atol=1e-12)
    np.testing.assert_allclose(dw, tw.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_transposed_convolution_follows_torch(case):
    sizes, kernel, params = parameters(case)
    _, w = arrays(sizes, kernel, params["groups"])
    _, stride, padding, dilation, groups = case[1:]
    g = draws(2, 8, *[3] * len(sizes), seed=3)
    forward = getattr(torch.nn.functional, f"conv_transpose{len(sizes)}d")
    want = forward(torch.tensor(g), torch.tensor(w), None, stride, padding, 0, groups, dilation)
    got = run(prims.conv_input_grad, g, w, input_size=tuple(want.shape[2:]), **params)
    np.testing.assert_allclose(got, want.numpy(), atol=1e-12)


def test_narrow_floats_are_computed_in_float32():
    x, w = draws(2, 32, 6, 6).astype(BFLOAT16), draws(4, 32, 3, 3).astype(BFLOAT16)
    params = dict(stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1)
    got = run(prims.conv, x, w, **params)
    want = run(prims.conv, x.astype(np.float32), w.astype(np.float32), **params)
    assert got.dtype == BFLOAT16
    np.testing.assert_array_equal(got, want.astype(BFLOAT16))


@pytest.mark.parametrize("lanes", [0, 1, 5])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, 1)])
def test_lanes_of_all_three(axes, groups, lanes):
    params = dict(stride=(2, 1), padding=((1, 0), (1, 1)), dilation=(1, 2), groups=groups)
    sizes, kernel = (7, 6), (3, 2)
    x, w = arrays(sizes, kernel, groups)
    g = run(prims.conv, x, w, **params)
    triples = [
        (prims.conv, x, w, {}),
        (prims.conv_input_grad, g, w, {"input_size": sizes}),
        (prims.conv_weight_grad, x, g, {"kernel_size": kernel}),
    ]
    for primitive, first, second, more in triples:
        function = bound(primitive, **params, **more)
        batched = [
            a if d is None else np.stack([a * (k + 1) for k in range(lanes)], d)
            if lanes else np.zeros((*a.shape[:d], 0, *a.shape[d:]))
            for a, d in zip((first, second), axes, strict=True)
        ]  # fmt: skip
        got = array(fx.vmap(function, axes)(*map(tensor, batched)))
        scale = np.arange(1.0, lanes + 1) ** sum(d is not None for d in axes)
        one = run(function, first, second)
        want = scale.reshape(-1, *[1] * one.ndim) * one
        np.testing.assert_allclose(got, want, atol=1e-10)


def test_gradients_of_every_sample():
    x, w = draws(6, 3, 8, 8), draws(4, 3, 3, 3, seed=1)
    params = dict(stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1)

    def energy(w, x):
        y = prims.conv(fx.prims.shape.reshape(x, shape=(1, *x.shape)), w, **params)
        return fx.prims.reduction.sum(y * y, axes=(0, 1, 2, 3), keepdims=False)

    got = array(fx.vmap(fx.grad(energy), (None, 0))(tensor(w), tensor(x)))
    tw = torch.tensor(w)
    loss = lambda w, x: (torch.nn.functional.conv2d(x[None], w, padding=1) ** 2).sum()
    want = torch.func.vmap(torch.func.grad(loss), (None, 0))(tw, torch.tensor(x))
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-10)


def plain(**changed):
    return dict(stride=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1), groups=1) | changed


def test_bad_arguments_are_named():
    x, w = np.zeros((1, 4, 5, 5)), np.zeros((6, 4, 3, 3))
    for arguments, params, error, message in [
        ((x, w[:, :3]), plain(), ShapeError, r"take 3 input channels \(3 a group\), got 4"),
        ((x, w[:, :2]), plain(groups=4), ShapeError, "groups=4 take 8 input channels"),
        ((x, w[:5, :2]), plain(groups=2), ShapeError, "5 output channels .* do not divide"),
        ((x, w), plain(groups=0), ShapeError, "groups must be at least 1"),
        ((x, np.zeros((6, 4, 7, 3))), plain(), ShapeError, "more than the 5 of an axis of size 5"),
        ((x, w), plain(dilation=(3, 1)), ShapeError, r"reaches over 7 elements"),
        ((x, w), plain(stride=(1,)), ShapeError, r"stride=\(1,\) must have 2 entries"),
        ((x, w), plain(stride=(0, 1)), ShapeError, "must be at least 1"),
        ((x, w), plain(padding=((-1, 0), (0, 0))), ShapeError, "padding must not be negative"),
        ((x, w[..., 0]), plain(), ShapeError, "2 spatial axes and the weights .* have 1"),
        ((x[0, 0], w), plain(), ShapeError, r"with 1 to 3 spatial axes, got shape \(5, 5\)"),
        ((x, w.astype(np.float32)), plain(), DTypeError, "dtypes float64, float32 differ"),
    ]:
        with pytest.raises(error, match=message):
            run(prims.conv, *arguments, **params)
    with pytest.raises(ShapeError, match=r"g must have shape \(1, 6, 3, 3\), got \(1, 6, 2, 3\)"):
        run(prims.conv_input_grad, np.zeros((1, 6, 2, 3)), w, input_size=(5, 5), **plain())
    with pytest.raises(ShapeError, match=r"conv_weight_grad: g must have shape \(1, 6, 3, 3\)"):
        run(prims.conv_weight_grad, x, np.zeros((2, 6, 3, 3)), kernel_size=(3, 3), **plain())


def test_no_samples_and_no_channels():
    params = plain()
    out = run(prims.conv, np.zeros((0, 4, 5, 5)), np.zeros((6, 4, 3, 3)), **params)
    assert out.shape == (0, 6, 3, 3)
    out = run(prims.conv, np.zeros((2, 0, 5, 5)), np.zeros((6, 0, 3, 3)), **params)
    assert out.shape == (2, 6, 3, 3)
    assert not out.any()
