"""``x.view(dtype)``: the bits of numbers as a dtype as wide, in one memory with them."""

import random

import numpy as np
import pytest

import fx
import fx.torch as face
from fx.errors import DTypeError
from fx.writing.noting import forget

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("first_writes_look_at_what_the_file_made")

PAIRS = [
    ("float32", "int32"), ("float64", "int64"), ("int16", "float16"), ("int8", "uint8"),
    ("float16", "bfloat16"), ("int64", "float64"),
]  # fmt: skip


def program(seed, library, jit=None):
    """Views of two dtypes of one memory, and writes into some of them."""
    forget()  # each program is the first that writes
    r = random.Random(seed)
    first, second = (getattr(library, name) for name in r.choice(PAIRS))
    if r.random() < 0.3:
        library.zeros(2)[0] = 1.0  # the first write of the program
    draws, count = [r.random() for _ in range(60)], r.randrange(2, 7)
    x = (library.arange(12) * 3 - 7).to(first).reshape(3, 4)

    def body(x):
        views, left = [x], iter(draws)

        def drawn(n):
            return int(next(left) * n)

        for _ in range(count):
            v, kind = views[drawn(len(views))], drawn(8)
            if kind <= 2:
                views.append(v.view(second if v.dtype == first else first))
            elif kind == 3 and v.ndim:
                views.append(v[drawn(v.shape[0])] if drawn(2) else v[..., ::2])
            elif kind == 4 and v.ndim == 2:
                views.append(v.T if drawn(2) else v.reshape(-1))
            elif kind == 5:
                v.fill_((1, 2, 5)[drawn(3)])
            elif kind == 6 and v.ndim:
                v[0] = (3, 4)[drawn(2)]
            elif kind == 7:
                v.add_(1) if drawn(2) else v.copy_(library.ones(v.shape, dtype=v.dtype))
        return tuple(views)

    return [x, *(body if jit is None else jit(body))(x)]


def same(got, expected):
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert (str(a.dtype), tuple(a.shape)) == (str(b.dtype), tuple(b.shape))
        if a.dtype.is_floating_point:  # NaN is NaN
            a, b = a.double(), b.double()
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("part", range(2))
def test_programs_write_what_torchs_do(part):
    for seed in range(part, 24, 2):
        expected = program(seed, torch)
        same(program(seed, face), expected)
        same(program(seed, face, fx.jit), expected)


def recorded(library, change):
    x = library.ones(3, requires_grad=True)
    h = x * 2
    v = h.view(library.int32)
    change(h, v)
    h.sum().backward()
    return [x.grad, h, v, v.view(library.float32)]


@pytest.mark.parametrize(
    "change",
    [
        lambda h, v: v.fill_(0),
        lambda h, v: h.mul_(3),
        lambda h, v: v.view(h.dtype).mul_(2),
        lambda h, v: h.detach().view(v.dtype)[1:].zero_(),
    ],
)
def test_bits_have_no_history_and_take_none(change):
    same(recorded(face, change), recorded(torch, change))


@pytest.mark.parametrize(
    "lines", ["w.view(torch.int32).add_(1 << 23)", "w.data.view(torch.int32)[0] = 5"]
)
def test_bits_of_a_parameter(lines):
    found = []
    for library in (face, torch):
        layer = library.nn.Linear(2, 2)
        with library.no_grad():
            layer.weight.fill_(1.0)
            exec(lines, {"torch": library, "w": layer.weight})
        (layer.weight * 3).sum().backward()
        found.append([layer.weight, layer.weight.grad])
    same(*found)


WINDOWS = """
def body():
    x = torch.arange(5)
    v = x.unfold(0, 2, 1).view(torch.float64)
    {}
    return x, v
"""


def test_bits_of_windows():
    for change in ("v[1, 0] = 2.0", "v[2:].fill_(1.0)", "x[1] = 9", "v.T[0, 1] = 3.0"):
        spaces = [{"torch": library} for library in (torch, face)]
        for space in spaces:
            exec(WINDOWS.format(change), space)
        expected, got = (space["body"]() for space in spaces)
        same(got, expected)
        same(fx.jit(spaces[1]["body"])(), expected)


def test_bits_of_numpys_memory():
    a = np.arange(6, dtype=np.float32)
    x, y = face.from_numpy(a), face.from_numpy(a.view(np.int32))
    y[0] = 5
    x[1] = 7.0
    assert a.view(np.int32)[0] == 5 == x.view(face.int32)[0] and a[1] == 7
    assert y[1] == int(np.float32(7.0).view(np.int32))


def test_other_widths_are_refused_by_name():
    x = face.ones(4)
    for wanted in ("int64", "float16", "complex64", "bool"):
        with pytest.raises(DTypeError, match=rf"view\({wanted}\) would read the bytes of float32"):
            x.view(getattr(face, wanted))
