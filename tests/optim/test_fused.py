"""The native update of all parameters: the rule's arithmetic, in memory that nobody else holds."""

import numpy as np
import pytest

import fx
from fx import optim
from fx.backends.cpu.llvm import parallel
from fx.optim import _fused

OPTIMIZERS = [
    lambda ps: optim.SGD(ps, lr=0.1),
    lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    lambda ps: optim.Adam(ps, lr=0.01, weight_decay=0.1),
    lambda ps: optim.AdamW(ps, lr=0.01, amsgrad=True),
    lambda ps: optim.RMSprop(ps, lr=0.01, momentum=0.5, centered=True),
    lambda ps: optim.Adadelta(ps, weight_decay=0.1),
]
SHAPES = [(3, 4), (5,), (), (0, 2), (40, 777)]


def parameters(dtype):
    rng = np.random.default_rng(0)
    return [fx.nn.Parameter(fx.tensor(rng.standard_normal(s).astype(dtype))) for s in SHAPES]


def train(make, dtype, steps=4):
    ps = parameters(dtype)
    optimizer = make(ps)
    rng = np.random.default_rng(1)
    for _ in range(steps):
        for p in ps:
            gradient = rng.standard_normal(p.shape[::-1]).astype(dtype)
            p.grad = fx.tensor(gradient).permute(tuple(range(p.ndim))[::-1])  # strided
        optimizer.step()
    return ps, optimizer


@pytest.fixture
def programs(monkeypatch):
    """The programs that the test makes."""
    found = {}
    monkeypatch.setattr(_fused, "_programs", found)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", OPTIMIZERS)
def test_equals_the_rule_one_parameter_at_a_time(make, dtype, programs, monkeypatch):
    ps, optimizer = train(make, dtype)
    assert sum(map(len, programs.values())) == 1
    monkeypatch.setattr(_fused, "jobs", lambda *args: None)
    slow, other = train(make, dtype)
    limits = {"rtol": 1e-12} if dtype == "float64" else {"rtol": 2e-5, "atol": 1e-6}
    for p, q in zip(ps, slow, strict=True):
        np.testing.assert_allclose(p.numpy(force=True), q.numpy(force=True), **limits)
        assert optimizer.state[p].keys() == other.state[q].keys()
        for name, slot in optimizer.state[p].items():
            np.testing.assert_allclose(slot.numpy(), other.state[q][name].numpy(), **limits)


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_writes_into_memory_that_nobody_else_holds(make):
    ps, optimizer = train(make, "float32", steps=2)
    addresses = [p.read()._a.ctypes.data for p in ps]
    for p in ps:
        p.grad = fx.ones(p.shape)
    optimizer.step()
    assert [p.read()._a.ctypes.data for p in ps] == addresses


@pytest.mark.parametrize(
    "look",
    [
        lambda p: p.detach(),
        lambda p: p.detach().T,
        lambda p: p.detach()[1:],
        lambda p: fx.tensor(p.detach().numpy()),
        lambda p: p.detach().numpy(),
        lambda p: p.read(),
        lambda p: p * 2,
    ],
)
def test_what_was_read_before_keeps_its_value(look):
    ps, optimizer = train(lambda ps: optim.Adam(ps, lr=0.1), "float32", steps=2)
    seen = look(ps[0])
    before = np.array(seen if isinstance(seen, np.ndarray) else seen.numpy(force=True))
    for p in ps:
        p.grad = fx.ones(p.shape)
    optimizer.step()
    np.testing.assert_array_equal(
        seen if isinstance(seen, np.ndarray) else seen.numpy(force=True), before
    )
    assert not np.array_equal(ps[0].numpy(force=True), parameters("float32")[0].numpy(force=True))


def test_a_graph_that_is_alive_keeps_its_residuals():
    w = fx.nn.Parameter(fx.ones(4))
    optimizer = optim.SGD([w], lr=1.0)
    loss = (w * w).sum()
    w.grad = fx.ones(4)
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    np.testing.assert_array_equal(w.grad.numpy(), 2)


def test_memory_of_the_caller_is_not_written_into():
    theirs = np.ones(4, np.float32)
    w = fx.nn.Parameter(fx.from_numpy(theirs))
    optimizer = optim.SGD([w], lr=1.0)
    w.grad = fx.ones(4)
    optimizer.step()
    np.testing.assert_array_equal(theirs, 1)
    np.testing.assert_array_equal(w.numpy(force=True), 0)


def test_a_new_learning_rate_is_no_new_program(programs):
    w = fx.nn.Parameter(fx.zeros(3))
    optimizer = optim.SGD([w], lr=1.0)
    for lr in (1.0, 0.5, 0.25):
        optimizer.param_groups[0]["lr"] = lr
        w.grad = -fx.ones(3)
        optimizer.step()
    np.testing.assert_array_equal(w.numpy(force=True), 1.75)
    optimizer.param_groups[0]["weight_decay"] = 1.0  # a switch, so another one
    optimizer.step()
    assert sum(map(len, programs.values())) == 2
    optimizer.param_groups[0]["maximize"] = True  # no number: which programs are for it is asked
    optimizer.step()
    np.testing.assert_array_equal(w.numpy(force=True), 0.921875)
    assert sum(map(len, programs.values())) == 3


def test_dtypes_and_a_tensor_for_the_learning_rate(programs):
    ps = [fx.nn.Parameter(fx.ones(3, dtype=d)) for d in (fx.float32, fx.float64, fx.float32)]
    optimizer = optim.SGD(ps, lr=0.5)
    for p in ps:
        p.grad = fx.ones_like(p)
    optimizer.step()
    assert sum(map(len, programs.values())) == 2
    optimizer.param_groups[0]["lr"] = fx.tensor(0.25)
    optimizer.step()
    for p in ps:
        np.testing.assert_array_equal(p.numpy(force=True), 0.25)


def test_bits_do_not_depend_on_threads():
    results = []
    for threads in (1, 2):
        fx.set_num_threads(threads)
        try:
            w = fx.nn.Parameter(fx.linspace(-1, 1, 1_000_003))
            optimizer = optim.Adam([w], lr=0.1)
            w.grad = fx.cos(w.detach())
            optimizer.step()
            results.append(w.numpy(force=True).tobytes())
        finally:
            fx.set_num_threads(2)
    assert results[0] == results[1]


@pytest.mark.parametrize(("sizes", "shared"), [([1_000_003], True), ([3, 5], False), ([7], False)])
def test_threads_share_large_updates_and_no_small_ones(sizes, shared):
    before = fx.get_num_threads()
    fx.set_num_threads(2)
    try:
        ps = [fx.nn.Parameter(fx.ones(n)) for n in sizes]
        optimizer = optim.Adam(ps, lr=0.1)
        for p in ps:
            p.grad = fx.ones_like(p)
        optimizer.step()
        words = parallel._native.words
        words[parallel.ALONE_UNTIL] = 0  # however busy this machine is
        asked = words[parallel.JOBS]
        optimizer.step()
        assert words[parallel.JOBS] - asked == shared
    finally:
        fx.set_num_threads(before)
