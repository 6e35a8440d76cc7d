"""State that a compiled step reads and changes: tensors and numbers in attributes, lists, dicts."""

import warnings

import pytest

import fx
import fx.torch as torch
from fx.torch import nn
from tests.transforms.jitting.twins import expect_equal_twins


class Plain:
    """An object of the user's."""


class Layer(nn.Module):
    """What it computed last is an attribute."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((2, 2), 0.5))
        self.seen = None

    def forward(self, x):
        self.seen = (x @ self.weight).softmax(-1)
        return self.seen * x


class Running:
    """Running statistics, of which the call looks at attributes by way of a method."""

    def __init__(self):
        self.mean, self.count = torch.zeros(2), 0

    def __call__(self, x):
        self.count += 1
        self.mean = self.mean + (x - self.mean) / self.count
        return x - self.mean


def attribute():
    s = Plain()
    s.mean = torch.zeros(2)

    def step(x):
        s.mean = s.mean * 0.5 + x
        return s.mean * 2

    return step, lambda: s.mean


def running():
    s = Running()
    return lambda x: s(x), lambda: (s.mean, s.count)


def entries():
    kept = {"a": torch.zeros(2), "b": torch.ones(2)}

    def step(x):
        for name in kept:
            kept[name] = kept[name] * 0.9 + x
        return kept["a"] - kept["b"]

    return step, lambda: kept


def items():
    kept = [torch.zeros(2), torch.ones(2)]

    def step(x):
        for i, y in enumerate(kept):
            kept[i] = y * 0.9 + x
        return kept[0] * kept[1]

    return step, lambda: kept


def swapped():
    s = Plain()
    s.a, s.b = torch.zeros(2), torch.ones(2)

    def step(x):
        s.a, s.b = s.b + x, s.a
        return s.a * s.b

    return step, lambda: (s.a, s.b)


def enclosing():
    h, n = torch.zeros(2), 0

    def step(x):
        nonlocal h, n
        n += 1
        h = h / n + x
        return h

    return step, lambda: (h, n)


def branching():
    s = Plain()
    s.h, s.mode = torch.zeros(2), ""

    def step(x):
        if x.sum() > 4:
            s.h = x * 2
            s.mode = "large" if x.sum() > 8 else "small"
            return s.h + len(s.mode)
        return s.h * 3

    return step, lambda: (s.h, s.mode)


def written_before_read():
    layer = Layer()

    def step(x):
        y = layer(x)
        return y.sum() + (layer.seen**2).sum()

    return step, lambda: layer.seen.detach()


def counted_and_asked():
    s = Plain()
    s.n, s.losses = 0, []

    def step(x):
        s.n += 1
        y = x / s.n
        s.losses.append(y.sum().item())
        return y * s.n

    return step, lambda: (s.n, s.losses)


STATES = [
    attribute, running, entries, items, swapped, enclosing, branching, written_before_read,
    counted_and_asked,
]  # fmt: skip


@pytest.mark.parametrize("make", STATES, ids=lambda make: make.__name__)
def test_state_is_as_eagerly_and_the_step_stays_compiled(make):
    (eager, want), (step, got) = make(), make()
    step = fx.jit(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in (0, 1, 2, 3, 1, 2, 5, 0):
            x = torch.tensor([1.0, 2.0]) * i
            expect_equal_twins(eager(x), step(x))
            expect_equal_twins(want(), got())
    assert step.cache_size() == 1


def test_state_that_somebody_else_changes_is_seen():
    s, kept = Plain(), []
    s.mean = torch.zeros(2)

    @fx.jit
    def step(x):
        s.mean = s.mean * 0.5 + x
        return s.mean

    x, mean = torch.ones(2), [0.0, 0.0]
    for i in range(8):
        if i == 3:
            s.mean = torch.tensor([7.0, 8.0])
            mean = [7.0, 8.0]
        if i == 5:
            s.mean[0] = 3.0  # a write
            mean[0] = 3.0
        mean = [m * 0.5 + 1 for m in mean]
        kept.append((step(x), s.mean, mean))
    assert all(y.tolist() == m.tolist() == want for y, m, want in kept)


def test_a_flag_of_a_parameter_that_a_step_changes():
    net = nn.Linear(2, 1)

    @fx.jit
    def step(x, freeze):
        net.weight.requires_grad_(not freeze)
        net.zero_grad()
        net(x).sum().backward()
        return net.weight.requires_grad

    with pytest.warns(RuntimeWarning, match="it changes requires_grad of Linear.weight"):
        for freeze in (False, True, True, False, True, False):
            assert step(torch.ones(3, 2), freeze) is not freeze
            assert net.weight.requires_grad is not freeze
            assert (net.weight.grad is None) is freeze


def test_what_a_step_counts_in_a_module_is_a_change_for_others_and_hides_none():
    net = Layer()
    net.n, net.scale = 0, 1.0

    @fx.jit
    def step(x):
        net.n += 1
        return x * net.scale

    shown = fx.jit(lambda x: x * len("a" * net.n))
    x = torch.ones(2)
    for i in range(1, 12):
        if i % 4 == 0:
            net.scale = float(i)
        assert step(x).tolist() == [max(1.0, i // 4 * 4)] * 2
        if i % 3 == 0:
            assert net.n == i and shown(x).tolist() == [float(i)] * 2
    assert step.cache_size() == 3


def test_a_parameter_that_a_step_replaces():
    net = Layer()

    @fx.jit
    def step(x):
        net.weight = nn.Parameter(x.outer(x))
        return net(x).sum().detach()

    with pytest.warns(RuntimeWarning, match=r"it changes which tensor Layer.weight is"):
        for i in range(4):
            x = torch.tensor([1.0, 2.0]) * i
            assert step(x).item() == pytest.approx(net(x).sum().item())
            assert net.weight.tolist() == x.outer(x).tolist()


def test_constants_that_a_call_returns_are_its_own():
    @fx.jit
    def f(x):
        kept = torch.tensor([0.5, 0.25])
        return kept * 1, kept.view(2, 1), torch.zeros(2)

    found = [f(torch.ones(1)) for _ in range(4)]
    for y, z, zeros in found:
        y.add_(1)
        zeros.fill_(3)
        assert z.tolist() == [[0.5], [0.25]]
    assert [x.tolist() for x in f(torch.ones(1))] == [[0.5, 0.25], [[0.5], [0.25]], [0.0, 0.0]]


def test_what_an_earlier_segment_has_stopped_is_not_used_by_a_later_one():
    w, place = nn.Parameter(torch.ones(2)), torch.zeros(1, dtype=torch.long)

    @fx.jit
    def step(x):
        with torch.no_grad():
            y = x * w
            if int(place) > 1:
                y = y + w
            return y * w

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(4):
            place[0] = i
            assert step(torch.ones(2)).tolist() == [1.0 + (i > 1)] * 2
    assert step.cache_size() == 1


def test_a_place_to_narrow_at_is_an_input():
    kept = torch.zeros(2, 6)

    @fx.jit
    def step(x, n):
        kept.narrow(1, n, 2).add_(x)
        return kept.narrow(1, n, 2) * 2

    want = [[0.0] * 6, [0.0] * 6]
    for n in (0, 3, 4, 1, 2, 3):
        for row in want:
            row[n], row[n + 1] = row[n] + 1, row[n + 1] + 1
        assert step(torch.ones(2, 2), n).tolist() == [[2 * y for y in r[n : n + 2]] for r in want]
        assert kept.tolist() == want
    assert step.cache_size() == 1
    with pytest.raises(fx.errors.ShapeError, match="do not lie in axis 1"):
        step(torch.ones(2, 2), 5)


def test_a_leaf_that_shows_other_elements_keeps_its_gradient():
    x = torch.ones(3, requires_grad=True)
    x.data = torch.zeros(3) + 2

    @fx.jit
    def f(y):
        return (x * y).sum()

    with pytest.warns(RuntimeWarning, match="a leaf apart from the tensor whose elements it shows"):
        for i in (1.0, 2.0, 3.0):
            x.grad = None
            f(torch.ones(3) * i).backward()
            assert x.grad.tolist() == [i] * 3


def test_a_history_from_outside_that_a_write_would_replace():
    twins = pytest.importorskip("fx.testing.fuzz.twins")
    pytest.importorskip("torch")
    twins.agree(
        """
        x = torch.tensor([[-0.125, 1.25, -0.25], [-1.25, -1.875, 1.375]], requires_grad=True)
        y = x.clone()
        @jit
        def f(p):
            v = torch.squeeze(p)
            v.T[1:3] = torch.full((2, 2), -0.75)
            y.exp_().clamp_(max=3)
            return (v * 1).contiguous()
        a = f(y)
        b = f(y)
        c = f(b)
        a[...] *= b * 0.5
        with torch.no_grad():
            d = f(y)
            d.clamp_(min=0)
            for i in range(1):
                e = f(a)
        (a * a).mean().backward(retain_graph=True)
        """
    )
