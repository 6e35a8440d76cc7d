"""Corners of functions of ``torch``: sizes of one, scalars, integers, places given as tensors."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx.torch as ft

X = np.random.RandomState(0).randn(4, 5)
Y = np.random.RandomState(1).randn(2, 5, 3)
PLACES = ([1.0, 2.0, 4.0, 7.0], [0.0, 1.0, 3.0, 4.0, 9.0])


def running_statistics(t, x, y):
    mean, variance = t.zeros(5).double(), t.ones(5).double()
    out = t.nn.functional.batch_norm(x, mean, variance, training=True, momentum=0.3)
    again = t.nn.functional.instance_norm(y, mean, variance, momentum=0.2)
    return out, again, mean, variance


def slopes(t, x, order):
    places = tuple(t.tensor(p).double() for p in PLACES)
    return [
        t.gradient(x, edge_order=order),
        t.gradient(x, spacing=None, dim=None, edge_order=order),
        t.gradient(x, spacing=2.0, edge_order=order),
        t.gradient(x, spacing=[2.0, 3.0], edge_order=order),
        t.gradient(x, dim=1, edge_order=order),
        t.gradient(x, spacing=places, edge_order=order),
        t.gradient(t.tensor([1, 4, 9, 16]), edge_order=order),
    ]


def rows_of_integers(t, x, y):
    ends = ((1.2, -3, 50), (-2.7, 4.3, 9), (0, 10, 7), (5, 8, 11))
    steps = ((0, 5.5, 1.5), (0.5, 5, 1.0), (1.9, 7, 2.0), (-2.9, -8, -1.5))
    powers = ((0, 1.2, 2), (0, 1.2, 2, 5.0), (0.5, 2.7, 4))
    kinds = (t.int64, t.int32, t.int16)
    return [
        [t.linspace(*a, dtype=kind) for a in ends for kind in kinds],
        [t.arange(*a, dtype=kind) for a in steps for kind in kinds],
        [t.logspace(*a, dtype=kind) for a in powers for kind in kinds[:2]],
    ]


PROGRAMS = {
    "cov of one variable": lambda t, x, y: (t.cov(x[:1]), t.cov(x), t.corrcoef(x[:1])),
    "diff of none": lambda t, x, y: (t.diff(x, n=0, prepend=x), t.diff(x, n=2, append=x)),
    "slopes": lambda t, x, y: slopes(t, x, 1),
    "slopes with parabolas": lambda t, x, y: slopes(t, x, 2),
    "histograms of one value": lambda t, x, y: (
        tuple(t.histogram(t.tensor(5.0), 1)),
        tuple(t.histogram(t.tensor([5.0, 5.0]), 2)),
    ),
    "gather of a scalar": lambda t, x, y: (
        t.gather(t.tensor(3.0), 0, t.tensor([0])),
        t.gather(t.tensor(3.0), 0, t.tensor(0)),
    ),
    "taken of the flattened": lambda t, x, y: (
        x.take_along_dim(t.tensor([[1, 2], [19, 0]])),
        x.take_along_dim(t.tensor([[1, 2, 0, 0, 1]]), 0),
    ),
    "repeated to a size": lambda t, x, y: x.repeat_interleave(
        t.tensor([1, 0, 2, 3]), 0, output_size=6
    ),
    "places of a scalar": lambda t, x, y: t.tensor(3).nonzero(as_tuple=True),
    "cut at a tensor": lambda t, x, y: (
        t.tensor_split(x, t.tensor([1, 3])),
        t.tensor_split(x, t.tensor(2)),
    ),
    "a mask that is larger": lambda t, x, y: t.masked_scatter(x[0], x > 0, x * 10),
    "sums of integers": lambda t, x, y: t.tensor([[1, 2]], dtype=t.int32).sum_to_size(1, 1),
    "unravelled": lambda t, x, y: t.unravel_index(t.tensor([3, 5], dtype=t.int32), (2, 3)),
    "powers of a scalar": lambda t, x, y: t.linalg.vander(t.tensor(3.0), N=2),
    "distances by a mode": lambda t, x, y: t.cdist(x, x + 1, 2.0, "use_mm_for_euclid_dist"),
    "scalars along an axis": lambda t, x, y: (
        t.nn.functional.normalize(t.tensor(-3.0), dim=0),
        t.nn.functional.cosine_similarity(t.tensor(2.0), t.tensor(3.0), dim=0),
    ),
    "integers held": lambda t, x, y: (
        t.nn.functional.hardtanh(t.tensor([-3, 0, 4])),
        t.nn.functional.hardtanh(t.tensor([-3, 0, 4]), -0.5, 2.5),
        t.nn.functional.relu6(t.tensor([-3, 5, 9])),
    ),
    "running statistics": running_statistics,
    "rows of integers": rows_of_integers,
}


def leaves(x):
    return [y for part in x for y in leaves(part)] if isinstance(x, tuple | list) else [x]


@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_torch(name):
    program = PROGRAMS[name]
    expected = leaves(program(torch, torch.from_numpy(X.copy()), torch.from_numpy(Y.copy())))
    found = leaves(program(ft, ft.from_numpy(X.copy()), ft.from_numpy(Y.copy())))
    assert [str(x.dtype) for x in found] == [str(x.dtype) for x in expected]
    assert [tuple(x.shape) for x in found] == [tuple(x.shape) for x in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-9)


def test_slopes_refuse_what_is_too_short():
    with pytest.raises(ValueError, match="at least 3 elements along an axis, got 2 along axis 0"):
        ft.gradient(ft.ones(2), edge_order=2)
    with pytest.raises(ValueError, match="must be 1 or 2, got 3"):
        ft.gradient(ft.ones(5), edge_order=3)
    with pytest.raises(ValueError, match="1 entries for 2 axes"):
        ft.gradient(ft.ones((3, 3)), spacing=[1.0])


REFUSED = {
    "complex where it is masked": lambda t: t.zeros(2).masked_fill(t.tensor([True, False]), 1j),
    "complex where it is indexed": lambda t: t.zeros(2).index_fill(0, t.tensor([0]), 1j),
    "counts that are no integers": lambda t: t.cov(t.ones(2, 5), fweights=t.ones(5)),
    "weights of one": lambda t: t.cov(t.ones(2, 5), aweights=t.ones(1)),
    "limits the wrong way round": lambda t: t.nn.functional.hardtanh(t.ones(2), 0.5, -0.5),
    "a negative tolerance": lambda t: t.isclose(t.tensor(1.0), t.tensor(1.0), rtol=-0.1),
    "an end that is never reached": lambda t: t.arange(0, -3, 2),
    "an axis twice": lambda t: t.gradient(t.ones(3, 3), dim=(1, -1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_what_torch_refuses(name):
    for module in (torch, ft):
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            REFUSED[name](module)


def parts_assigned(t):
    x, leaf = t.tensor([1 + 2j, 3 - 1j]), t.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    seen = x.imag
    x.imag += 1
    x.real = 7.0
    x.imag[0] = 9.0
    x.imag = seen * 2
    h = leaf * 1
    h.imag = h.real * 3
    h.abs().sum().backward()
    y = t.tensor([1.0, 2.0])
    y.real = t.tensor([3.0, 4.0])
    return t.view_as_real(x), seen, t.view_as_real(leaf.grad), y


def test_parts_of_complex_numbers_take_values():
    for mine, theirs in zip(parts_assigned(ft), parts_assigned(torch), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), 1e-6)
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex"):
        ft.ones(2).imag = 3.0


def test_hermitian_pseudo_inverses_read_the_lower_triangle():
    found = ft.linalg.pinv(ft.tensor(X[:, :4]), hermitian=True)
    expected = torch.linalg.pinv(torch.tensor(X[:, :4]), hermitian=True)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-9, 1e-11)


def test_parameters_in_texts():
    mine, theirs = [t.nn.Parameter(t.tensor([2.5])) for t in (ft, torch)]
    assert f"{mine}" == f"{theirs}" and f"{mine.data}" == f"{theirs.data}"
