"""Writes stay in their own memory, and one program serves every position."""

import numpy as np
import pytest

import fx
import fx.torch as torch


def address(x):
    return x._a.ctypes.data


def cached(size):
    """A cache of rows of 64, and a step that writes one of them."""
    cache = torch.zeros(size // 64, 64)

    def step(k, position):
        cache[position] = k

    return cache, step


@pytest.mark.parametrize("size", [1 << 10, 1 << 17, 10 << 20])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_row_is_written_where_it_lies(size, compiled):
    cache, step = cached(size)
    step = fx.jit(step) if compiled else step
    k = torch.ones(64)
    for position in range(3):  # the first write takes the values into memory of their own
        step(k, position)
    where = address(cache)
    for position in range(3, 16):
        step(k * position, position)
        assert address(cache) == where
    assert cache[:16, 5].tolist() == [1.0, 1.0, 1.0, *range(3, 16)]
    assert not compiled or step.cache_size() == 1


def test_a_loop_of_rows_makes_one_copy():
    def put(x, count):
        out, found = torch.zeros(8, count, 100), []
        for t in range(count):
            out[:, t] = x * t
            found.append(address(out))
        return out, found

    out, found = put(torch.ones(8, 100), 30)
    assert len(set(found)) == 1
    assert out[3, :, 7].tolist() == [*range(30)]


def test_what_nobody_else_holds_is_written_where_it_lies_from_the_first_write_on():
    def alone(keep):
        x = torch.zeros(8, 100)
        other = x if keep else None
        where = address(x)
        x[3] = 1.0
        return address(x) == where, other

    assert alone(keep=False)[0]
    assert not alone(keep=True)[0]  # a pullback could be what holds it


def test_one_row_given_to_another_moves_no_others():
    x = torch.arange(800.0).reshape(8, 100)
    x[0] = 1.0
    where = address(x)
    x[3] = x[4]
    x[5:7] = x[4:6]  # which overlap
    assert address(x) == where
    assert x[:, 0].tolist() == [1, 100, 200, 400, 400, 400, 500, 700]


def lines_of(lives, spec):
    return [line for line in lives if line.endswith(spec)]


@pytest.mark.parametrize("count", [4, 32])
def test_a_compiled_loop_of_rows_takes_the_memory_of_its_result(count):
    @fx.jit
    def put(x):
        out = torch.zeros(8, count, 100)
        for t in range(count):
            out[:, t] = x * t
        return out

    x = torch.ones(8, 100)
    lives = str(put.lower(x).memory).splitlines()
    places = [line.split()[:2] for line in lines_of(lives, f"float32[8,{count},100]")]
    assert len(places) >= count and all(place == ["result", "0"] for place in places)
    assert put(x)[3, :, 7].tolist() == [*range(count)]


def _at(x, p):
    return x[:, p] * 1


def _part(x, p):
    return x[:, p : p + 2] * 1


def _from_the_end(x, p):
    return x[..., p - 8] * 1


def _set(x, p):
    return x.at[p, 1].set(5.0)


def _cell(x, p):
    return x[p, p + 1] * 1


def _changed(x, p):
    y = x.clone()
    y[:, p : p + 2] *= 2
    y[p] += 1
    y[1:, p] = y[:-1, p] * 1
    return y


@pytest.mark.parametrize("f", [_at, _part, _from_the_end, _set, _cell, _changed])
def test_one_program_serves_all_positions(f):
    x = torch.arange(40.0).reshape(5, 8)
    compiled = fx.jit(f)
    for p in range(4):
        np.testing.assert_array_equal(compiled(x, p).numpy(), f(x, p).numpy())
    assert compiled.cache_size() == 1


def test_positions_outside_are_refused_and_ends_are_cut():
    x = torch.arange(40.0).reshape(5, 8)
    at, part = fx.jit(_at), fx.jit(_part)
    for p in (0, 7, 8, -8, -9, 6, -1, 20):
        for f, compiled in ((_at, at), (_part, part)):
            try:
                expected = f(x, p).numpy()
            except IndexError as error:
                with pytest.raises(IndexError, match=f"{p}"):
                    compiled(x, p)
                assert f"{p}" in str(error)
            else:
                np.testing.assert_array_equal(compiled(x, p).numpy(), expected)


def test_gradients_reach_a_position():
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()

    @fx.jit
    def f(p):
        x.grad = None
        (x[:, p] ** 2).sum().backward()

    for p in range(4):
        f(p)
        expected = np.zeros((3, 4), "float32")
        expected[:, p] = 2 * np.arange(12).reshape(3, 4)[:, p]
        np.testing.assert_array_equal(x.grad.numpy(), expected)
    assert f.cache_size() <= 2  # with a gradient before, or without


# what is noted ------------------------------------------------------------------------------------

OF_ONE = [
    lambda x: x.view(-1),
    lambda x: x.reshape(6),
    lambda x: x.transpose(0, 1),
    lambda x: torch.transpose(x, 0, 1),
    lambda x: x.narrow(0, 0, 1),
    lambda x: x.detach(),
]


@pytest.mark.parametrize("cut", OF_ONE)
@pytest.mark.parametrize("grad", [False, True])
def test_a_view_of_what_has_no_name_is_noted_no_more_than_other_tensors(cut, grad):
    started = torch.zeros(2)
    started[0] = 1.0
    y = torch.arange(6.0).reshape(2, 3).requires_grad_(grad)
    made = cut(y * 2)  # in `cut` it has a name, and its view is noted
    assert made._view.path
    before = (y * 2).detach().clone()
    view = (y * 2).view(-1)
    assert getattr(view, "_view", None) is None
    row = view[1:3]
    row += 5.0
    want = before.view(-1)
    want[1:3] += 5.0
    assert view.tolist() == want.tolist()
    if grad:
        view.sum().backward()
        assert y.grad.tolist() == [[2.0] * 3] * 2


def test_what_numpy_or_others_see_of_it_is_noted():
    torch.zeros(2)[0] = 1.0
    memory = np.zeros((2, 3))
    row = torch.from_numpy(memory).view(-1)
    row[4] = 7.0
    assert memory[1, 1] == 7.0
    first, second = (torch.zeros(2, 3) + 1).unbind()
    assert first._view is not None and second._view is not None
    low, high = first.numpy(), second.numpy()
    first += 1.0
    second += 2.0
    assert low.tolist() == [2.0] * 3 and high.tolist() == [3.0] * 3
    leaf = torch.ones(3).requires_grad_().view(3, 1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        leaf += 1.0
