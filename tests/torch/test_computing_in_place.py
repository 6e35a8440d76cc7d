"""What one kernel computes in place: the bits of the function, and nobody else sees it."""

import numpy as np
import pytest

import fx
import fx.torch as torch
from fx.ops.methods.inplace import NAMES
from fx.writing.computing import computing

COMPUTED = [name for name in NAMES if computing(name[:-1]) is not None] + ["masked_fill_"]
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


def written(*shape, dtype=torch.float32):
    """A tensor that has been written, of memory of its own."""
    x = torch.randn(*shape, dtype=dtype) * 2.0
    x[...] = x * 1.0
    return x


def address(x):
    return x._a.ctypes.data


def test_those_that_scripts_call_are_computed():
    assert {"add_", "sub_", "mul_", "div_", "exp_", "relu_", "neg_", "tanh_"} <= {*COMPUTED}
    assert {"addcmul_", "addcdiv_", "lerp_", "clamp_", "bitwise_or_"} <= {*COMPUTED}


@pytest.mark.parametrize("dtype", [
    torch.float32, torch.float64, torch.float16, torch.complex64, torch.int32, torch.uint8,
    torch.bool,
])  # fmt: skip
@pytest.mark.parametrize("name", COMPUTED)
def test_bits_are_those_of_the_function(name, dtype):
    for shape in ((), (7,), (10, 10), (100, 70), (0, 3)):
        x = torch.randn(*shape).to(dtype)
        x[...] = x * 2
        y = torch.randn(*shape).to(dtype)
        calls = [((), {}), ((y,), {}), ((y[:1],) if shape else (), {}), ((0.5,), {}), ((3,), {})]
        for factor in (0.1, -3, 1, y.sum()):  # a number that was met before, and one that was not
            calls += [((y,), {"alpha": factor}), ((x,), {"alpha": factor})]
            calls += [((y, y), {"value": factor}), ((x, y), {"value": factor})]
        calls += [((a, b), {}) for a in (y, 0.5, -0.5, y == x, None) for b in (y, 0.5, None)]
        calls += [((), {"min": -0.5, "max": 0.5}), ((), {"min": 0.5}), ((y, x.sum()), {})]
        for others, options in calls:
            try:
                want = getattr(x, name[:-1])(*others, **options)
            except (TypeError, ValueError, RuntimeError):
                continue
            if want.dtype == dtype:
                before = x.clone()
                assert getattr(x, name)(*others, **options) is x
                np.testing.assert_array_equal(x.numpy(), want.numpy())
                x.copy_(before)


@pytest.mark.parametrize("write", [
    lambda x, y: x.relu_(), lambda x, y: x.add_(y), lambda x, y: x.normal_(),
    lambda x, y: x.zero_(), lambda x, y: x.copy_(y), lambda x, y: x.__imul__(y),
    lambda x, y: x.__iadd__(1.0), lambda x, y: x.sub_(y, alpha=0.5),
])  # fmt: skip
def test_it_is_done_in_memory_that_nobody_else_has(write):
    torch.randn(5000) * 0.5  # kernels are loaded, and the number is met
    x, y, w = written(9, 9), torch.randn(9, 9), torch.randn(9, 9, requires_grad=True)
    where = address(x)
    write(x, y)
    assert address(x) == where
    x -= 1.0
    old = x.detach().clone()
    z = (w * x).sum()  # its pullback keeps what x is now
    write(x, y)
    assert not torch.equal(x, old)
    z.backward()
    assert torch.equal(w.grad, old)
    array, kept = x._a, x.detach().clone()  # somebody holds the array alone
    write(x, y)
    assert array.tolist() == kept.tolist()
    del array
    row = x[3]
    shared = x.numpy()
    write(x, y)
    assert torch.equal(row, x[3])
    assert shared.tolist() == x.tolist()


def test_what_is_read_is_what_was_there_before():
    parts = (lambda x: x, lambda x: x[2, 2], lambda x: x.t(), lambda x: x[:, :1], lambda x: x[1:2])
    writes = (
        lambda x, v: x.addcmul_(v, v, value=0.5), lambda x, v: x.lerp_(v, 0.3),
        lambda x, v: x.clamp_(v, v + 1), lambda x, v: x.lerp_(x, v),
        lambda x, v: x.masked_fill_(v > 0, 7.0),
        lambda x, v: x.masked_fill_(x > 0, v.max() if v.ndim else v),
    )  # fmt: skip
    for of in (lambda: written(6, 6), lambda: written(7, 6)[1:]):
        for part in parts:
            for write in writes:
                x = of()
                want = x.clone()
                write(want, part(x.clone()))
                write(x, part(x))
                np.testing.assert_array_equal(x.numpy(), want.numpy())
    mask = torch.randn(6, 6) > 0
    mask[...] = ~mask
    want = mask[1:].clone().masked_fill_(mask[:-1].clone(), torch.tensor(True))
    assert torch.equal(mask[1:].masked_fill_(mask[:-1], torch.tensor(True)), want)


@pytest.mark.parametrize("sign", ["__iadd__", "__imul__", "__isub__", "__itruediv__"])
def test_operands_that_are_the_tensor_or_a_part_of_it(sign):
    plain = {"__iadd__": np.add, "__imul__": np.multiply, "__isub__": np.subtract,
             "__itruediv__": np.divide}[sign]  # fmt: skip
    for part in (lambda x: x, lambda x: x[2], lambda x: x.t(), lambda x: x[:, :1]):
        x = written(6, 6)
        before = x.numpy().copy()
        want = plain(before, part(torch.tensor(before)).numpy())
        getattr(x, sign)(part(x))
        np.testing.assert_array_equal(x.numpy(), want)


def test_what_is_recorded_or_of_another_shape_is_not_computed_there():
    x, w = written(3), torch.ones(3, requires_grad=True)
    x += w
    assert x.requires_grad
    x = written(3)
    with torch.no_grad():
        x += w
    assert not x.requires_grad
    with pytest.raises(RuntimeError, match="shape"):
        x += torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.div_(torch.ones(3, dtype=torch.complex64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bounds", [(), (0.0, 0.02), (-1.0, 2.0)])
@pytest.mark.parametrize("name", ["normal_", "uniform_"])
def test_draws_are_those_of_the_functions(name, bounds, dtype):
    torch.randn(5000, dtype=dtype), torch.rand(5000, dtype=dtype)  # kernels are loaded
    for x in (written(4, 5, dtype=dtype), torch.zeros(4, 5, dtype=dtype), written(4, 5)[:2]):
        state = torch.get_rng_state()
        getattr(x, name)(*bounds)
        after = torch.get_rng_state()
        key = fx.asarray(state)
        draw = getattr(fx.random, name[:-1])
        want = draw(key, tuple(x.shape), *bounds, dtype=x.dtype)
        np.testing.assert_array_equal(x.numpy(), want.numpy())
        torch.set_rng_state(state)
        torch.rand(1)
        assert after.tolist() == torch.get_rng_state().tolist()


@pytest.mark.parametrize("handle", ["grad", "data", "buffer"])
def test_cells_are_written_where_they_lie(handle):
    p = torch.nn.Parameter(torch.randn(5, 5))
    (p * 2).sum().backward()
    buffer = fx.nn.Buffer(torch.randn(5, 5))
    cell = {"grad": lambda: p.grad, "data": lambda: p.data, "buffer": lambda: buffer}[handle]
    cell().mul_(0.5)  # what the pass or the user gave may be held
    where, before = address(cell()), cell().clone()
    cell().mul_(2.0)
    assert address(cell()) == where
    assert torch.equal(cell(), before * 2)
    kept = cell().detach().clone()
    array = cell().read()._a
    cell().zero_()
    assert cell().tolist() == [[0.0] * 5] * 5
    assert array.tolist() == kept.tolist()  # which somebody else holds
    held = cell().read()  # the tensor, and with it the array
    cell().add_(2.0)
    assert (held.tolist(), cell().tolist()) == ([[0.0] * 5] * 5, [[2.0] * 5] * 5)


def test_what_a_pullback_keeps_of_a_parameter_stays():
    p = torch.nn.Parameter(torch.ones(4))
    with torch.no_grad():
        p.mul_(3.0)
    z = (p * p).sum()
    with torch.no_grad():
        p.mul_(3.0)  # a number that was met: nothing else is to be looked at
        p.add_(7.0)
    z.backward()
    assert p.tolist() == [16.0] * 4
    assert p.grad.tolist() == [6.0] * 4
    with pytest.raises(fx.errors.InPlaceError, match="requires grad"):
        p.mul_(2.0)
    assert p.tolist() == [16.0] * 4


@pytest.mark.parametrize("alpha", [None, "2", [1.0]])
def test_what_is_no_factor_is_refused(alpha):
    x, y = written(3), torch.ones(3)
    before = x.tolist()
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        x.add_(y, alpha=alpha)
    assert x.tolist() == before
