"""``x.item()`` in a compiled step: a number that is there when the step has run."""

import math
import warnings

import pytest

import fx
import fx.torch as torch
from fx.torch import nn
from tests.transforms.jitting.twins import expect_equal_twins


class Plain:
    """An object of the user's."""


def returned():
    return lambda x: (x.sum().item(), (x > 0.5).sum().item() * 2 - 1), lambda: None


def kept():
    losses, meter = [], {"sum": 0.0, "n": 0, "mean": 0.0}

    def step(x):
        losses.append(x.mean().item())
        meter["sum"] += x.sum().item() * x.size(0)
        meter["n"] += x.size(0)
        meter["mean"] = meter["sum"] / meter["n"]
        return x * 2

    return step, lambda: (losses, meter)


def met():
    def step(x):
        n = x.sum().item()
        return x * n + n, x + (n * 2 + 1), x.argmax().item() * x

    return step, lambda: None


def compared():
    s = Plain()
    s.best, s.bad = float("inf"), 0

    def step(x):
        loss = (x * x).sum().item()
        if loss < s.best:
            s.best, s.bad = loss, 0
        else:
            s.bad += 1
        return x, math.isnan(loss), max(loss, 0.5), round(loss, 3), math.exp(-loss)

    return step, lambda: (s.best, s.bad)


def of_a_buffer():
    net = nn.Module()
    net.register_buffer("n", torch.zeros(1))

    def step(x):
        before = net.n.item()
        net.n += 1
        return x * before, net.n.item(), before

    return step, lambda: net.n


def of_a_parameter():
    net = nn.Module()
    net.w = nn.Parameter(torch.zeros(1))

    def step(x):
        with torch.no_grad():
            net.w += 1
        return x * net.w.detach(), x.sum().item()

    return step, lambda: net.w.detach()


def of_an_argument_that_is_written():
    n = torch.zeros(())

    def step(x):
        before = n.item()
        n.add_(x.sum())
        return before, n.item(), x * before

    return step, lambda: n


def divided():
    def step(x):
        try:
            return x, 1 / x.sum().item()
        except ZeroDivisionError as error:
            return x, str(error)

    return step, lambda: None


def rates():
    w = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = ((w * x) ** 2).sum()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (1 + loss.item())
        optimizer.step()
        return loss.item()

    return step, lambda: (w.detach(), optimizer.param_groups[0]["lr"])


ELEMENTS = [
    returned, kept, met, compared, of_a_buffer, of_a_parameter,
    of_an_argument_that_is_written, divided, rates,
]  # fmt: skip


@pytest.mark.parametrize("make", ELEMENTS, ids=lambda make: make.__name__)
def test_elements_are_those_of_each_call(make):
    (eager, want), (step, got) = make(), make()
    step = fx.jit(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(24):  # more than there are answers to one question
            x = torch.tensor([0.3, -0.1]) * math.sin(i) * (i % 5)
            expect_equal_twins(eager(x), step(x))
            expect_equal_twins(want(), got())
    assert step.cache_size() == 1


@pytest.mark.parametrize("make", [returned, kept])
def test_what_is_only_kept_does_not_end_a_segment(make):
    step = fx.jit(make()[0])
    for _ in range(2):  # a program of other functions of this code gets its plan at a second call
        step(torch.ones(2))
    (program,) = [p for known in step.programs.values() for p in known]
    assert program.segments == 0 and program.plan is not None


def test_no_gradient_flows_through_an_element():
    w = nn.Parameter(torch.tensor([1.0, 2.0]))
    x = torch.tensor([0.5, 0.25], requires_grad=True)

    @fx.jit
    def f(x):
        return (x * (w * x).sum().item()).sum()

    for _ in range(3):
        w.grad = x.grad = None
        f(x).backward()
        assert w.grad is None
        assert x.grad.tolist() == [1.0, 1.0]


def test_elements_in_a_function_inside_another():
    inner = fx.jit(lambda x: (x * 2, x.sum().item() + 1))

    @fx.jit
    def outer(x):
        y, n = inner(x)
        return y * n, n

    for i in range(6):
        x = torch.tensor([1.0, 2.0]) * i
        y, n = outer(x)
        assert n == 3 * i + 1 and y.tolist() == [2.0 * i * n, 4.0 * i * n]


def test_elements_that_differ_from_lane_to_lane_are_refused_as_eagerly():
    f = fx.jit(lambda x: (x * 2, x.sum().item() + 1))
    assert f(torch.ones(2))[1] == 3.0
    for g in (f, f.function):
        with pytest.raises(fx.errors.BatchedValueError, match="differs from lane to lane"):
            fx.vmap(lambda x, g=g: g(x)[0] * g(x)[1])(fx.ones((3, 2)))


def test_a_result_that_gets_no_cotangent_gives_no_gradient():
    a, b = torch.ones(2, requires_grad=True), nn.Parameter(torch.ones(2))

    @fx.jit
    def f(x):
        return x * 3, (b * x.detach()).sum(), b.sum().item()

    for _ in range(3):
        a.grad = b.grad = None
        f(a)[0].sum().backward()
        assert a.grad.tolist() == [3.0, 3.0] and b.grad is None
        f(a)[1].backward()
        assert a.grad.tolist() == [3.0, 3.0] and b.grad.tolist() == [1.0, 1.0]


def test_an_integer_that_does_not_fit_is_refused_as_eagerly():
    f = fx.jit(lambda x, small: small + x.sum().item())
    small = torch.ones(2, dtype=torch.int8)
    assert f(torch.tensor([3, 4]), small).tolist() == [8, 8]
    for g in (f, f.function):
        with pytest.raises(fx.errors.DTypeError, match="700"):
            g(torch.tensor([300, 400]), small)
    assert f(torch.tensor([5, 6]), small).tolist() == [12, 12]


def squared(n):
    return n * n


# errors of Python's about elements, each before what the function changes after it
FAILING = {
    "a quotient by zero": (lambda n: 1.0 / n, 0.0),
    "a quotient of two": (lambda n: (n + 1) / n, 0.0),
    "no float": (lambda n: n**8 * n**9 + 0.5, 2**62),
    "no float, of products": (lambda n: (n * n * n * n * n * n * n * n) * (n**10) * 0.5, 2**62),
    "no float, of squares": (lambda n: squared(squared(squared(squared(squared(n))))) + 0.5, 2**62),
    "no root": (lambda n: math.sqrt(n), -1.0),
    "no logarithm": (lambda n: math.log(n) + 1, 0.0),
    "no integer": (lambda n: int(n) + 1, float("nan")),
    "a rest by zero": (lambda n: (n * 2) % n, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
def test_an_error_about_an_element_comes_where_python_has_it(name):
    compute, bad = FAILING[name]
    found = []
    for wrap in (lambda f: f, fx.jit):
        count, log = fx.nn.Buffer(fx.asarray(0)), []

        def step(x, count=count, log=log):
            log.append(compute(x.sum().item()))
            count.add_(1)
            return x * 2

        call = wrap(step)
        wrong, told = fx.asarray(bad), []
        good = fx.ones((), dtype=wrong.dtype)
        for x in (good, good, good, wrong, good, wrong, good):
            try:
                told.append(call(x).tolist())
            except (ArithmeticError, ValueError) as error:
                told.append(type(error).__name__)
            told.append((count.item(), list(log)))
        found.append(told)
    assert found[0] == found[1]
    assert any(isinstance(x, str) for x in found[0])
