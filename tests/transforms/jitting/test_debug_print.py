"""``fx.debug.print``: at run time, in order, per lane under vmap, primal under grad."""

import pytest

import fx

X = fx.tensor([1.0, 2.0])


@pytest.fixture
def lines(capsys):
    return lambda: capsys.readouterr().out.splitlines()


def f(x, n=3):
    fx.debug.print("x = {}, n = {n}, sum = {s:.1f}", x, n=n, s=x.sum())
    return (x * x).sum()


LINE = "x = tensor([1., 2.]), n = 3, sum = 3.0"


def test_eagerly(lines):
    f(X)
    assert lines() == [LINE]


def test_in_every_call_of_a_jitted_function(lines):
    jitted = fx.jit(f)
    jitted(X)
    jitted(X + 1, 4)
    assert lines() == [LINE, "x = tensor([2., 3.]), n = 4, sum = 5.0"]


def test_under_transforms(lines):
    for transformed in (fx.grad(f), fx.grad(fx.jit(f)), fx.jit(fx.grad(f))):
        transformed(X)
        assert lines() == [LINE]
    fx.jvp(f, (X,), (X,))
    assert lines() == [LINE]
    leaf = X.detach().requires_grad_()
    fx.jit(f)(leaf).backward()
    assert len(lines()) == 1


def test_once_for_each_lane(lines):
    batch = fx.tensor([[1.0, 2.0], [3.0, 4.0]])
    for transformed in (fx.vmap(f), fx.vmap(fx.jit(f)), fx.jit(fx.vmap(f))):
        transformed(batch)
        assert lines() == [LINE, "x = tensor([3., 4.]), n = 3, sum = 7.0"]


def test_the_order_is_kept(lines):
    @fx.jit
    def g(x):
        fx.debug.print("start")
        y = x * 2
        fx.debug.print("y {}", y[1])
        z = fx.exp(x) @ x
        fx.debug.print("x {}", x[0])
        if x.sum() > 0:
            fx.debug.print("positive")
        return y + z

    for _ in range(2):
        g(X)
        assert lines() == ["start", "y 4.0", "x 1.0", "positive"]


def test_what_is_printed_need_not_be_returned(lines):
    @fx.jit
    def g(x):
        fx.debug.print("{}", (x * 3).sum())

    g(X)
    g(X)
    assert lines() == ["9.0"] * 2


def test_a_plain_print_is_staged(lines):
    @fx.jit
    def g(x):
        print("staging")
        return x * 2

    g(X)
    g(X)
    assert lines() == ["staging"]


def test_the_order_is_kept_through_loops_and_branches(lines):
    def f(x):
        fx.debug.print("start")

        def body(c, row):
            fx.debug.print("row {}", row)
            return c + row, c

        total, ys = fx.scan(body, fx.tensor(0.0), x)
        fx.debug.print("total {}", total)

        def more(v):
            fx.debug.print("ask {}", v)
            return v < 6

        def step(v):
            fx.debug.print("step {}", v)
            return v + 2

        last = fx.while_loop(more, step, total)
        small = lambda v: (fx.debug.print("small"), v)[1]
        large = lambda v: (fx.debug.print("large"), -v)[1]
        out = fx.cond(last > 5, large, small, last)
        fx.debug.print("end")
        return ys, out

    f(X)
    eager = lines()
    assert eager[1:3] == ["row 1.0", "row 2.0"] and eager[-2:] == ["large", "end"]
    jitted = fx.jit(f)
    for _ in range(2):
        jitted(X)
        assert lines() == eager


def told(x):
    fx.debug.print("{}", x[0])
    fx.debug.print("{}", x[0])
    return x * 2


LOOPS = {
    "fori": lambda x: fx.fori_loop(0, 2, lambda i, v: told(v), x).sum(),
    "scan": lambda x: (fx.scan(lambda c, r: (told(c) * r, r), x, x)[0] ** 2).sum(),
    "while": lambda x: fx.while_loop(lambda v: v.sum() < 10, lambda v: told(v) * v, x).sum(),
    "cond": lambda x: fx.cond(x.sum() > 0, told, lambda v: v, x).sum(),
    "linear cond": lambda x: fx.cond(x.sum() > 0, told, lambda v: v * 3, x * x).sum(),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_bodies_print_once_whatever_the_transform(loop, lines):
    g = LOOPS[loop]
    g(X)
    want = lines()
    assert want
    push = lambda x: fx.jvp(g, (x,), (x,))
    for f in (fx.jit(g), fx.grad(g), fx.jit(fx.grad(g)), fx.grad(fx.jit(g)), push, fx.jit(push)):
        f(X)
        assert lines() == want
