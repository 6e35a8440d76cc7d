"""Lanes: a program that draws gives the same numbers under vmap and in a loop over lane(i)."""

import numpy as np
import pytest

import fx
from fx import random
from fx.errors import DTypeError
from fx.random.lanes import Replay


def same(x, y):
    return np.asarray(x).tobytes() == np.asarray(y).tobytes()


def loop(program):
    """``vmap`` as a loop over lanes."""

    def looped(x):
        rows = []
        for i in range(x.shape[0]):
            with random.lane(i):
                rows.append(program(x[i]))
        return fx.stack(rows)

    return looped


def after_seed(function, *args):
    fx.manual_seed(11)
    return function(*args)


def noisy(x):
    y = x * fx.rand(x.shape[-1])
    return y + fx.randn(2, 1).sum() + fx.randint(5, ()).astype(fx.float32)


def dropped(x):
    mask = fx.bernoulli(fx.full(x.shape, 0.5))
    return (x * mask).sum() ** 2 + fx.normal(x, 1.0).sum()


X = fx.asarray(np.arange(1.0, 13.0, dtype=np.float32).reshape(4, 3))
Y = fx.stack([X, X + 20.0])

PROGRAMS = {
    "plain": noisy,
    "multinomial": lambda x: fx.multinomial(x, 2),
    "permutation": lambda x: x[fx.randperm(3)],
    "gradient": fx.grad(dropped),
    "jvp": lambda x: fx.jvp(dropped, (x,), (x * 2.0,))[1],
    "second": fx.grad(lambda x: fx.grad(dropped)(x).sum()),
    "seeded": lambda x: fx.manual_seed(3) and noisy(x),
    "own generator": lambda x: noisy(x) + fx.rand(3, generator=fx.Generator().manual_seed(1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_vmap_is_the_loop(name):
    program = PROGRAMS[name]
    mapped = after_seed(fx.vmap(program), X)
    assert same(mapped, after_seed(loop(program), X))
    assert same(mapped, after_seed(fx.vmap(program, chunk_size=3), X))
    rows = []
    for i in range(4):  # seeded anew for each lane
        fx.manual_seed(11)
        with random.lane(i):
            rows.append(program(X[i]))
    assert same(mapped, fx.stack(rows))


def test_lanes_draw_different_numbers():
    x = np.asarray(fx.vmap(lambda x: fx.rand(50))(X))
    assert len(set(x.ravel())) > 195
    y = np.asarray(fx.vmap(lambda x: fx.rand(50), randomness="same")(X))
    assert (y == y[0]).all()
    assert same(
        after_seed(fx.vmap(lambda x: fx.rand(5), randomness="same"), X)[0], after_seed(fx.rand, 5)
    )


def test_lane_0_of_one_level_is_the_plain_program():
    assert same(after_seed(fx.vmap(noisy), X[:1])[0], after_seed(noisy, X[0]))


@pytest.mark.parametrize("outer", [fx.vmap, loop])
@pytest.mark.parametrize("inner", [fx.vmap, loop])
def test_nested_lanes(outer, inner):
    expected = after_seed(fx.vmap(fx.vmap(noisy)), Y)
    assert same(after_seed(outer(inner(noisy)), Y), expected)
    assert len({np.asarray(row).tobytes() for pair in expected for row in pair}) == 8


@pytest.mark.parametrize("outer", [fx.vmap, loop])
@pytest.mark.parametrize("inner", [fx.vmap, loop])
def test_draws_before_between_and_after_lanes(outer, inner):
    def program(y):
        a = fx.rand(())
        b = inner(noisy)(y)
        c = fx.rand(())
        return b * a + c + inner(noisy)(y)

    def script(outer, y):
        x = fx.rand(())
        y = outer(program)(y) + x
        z = outer(program)(y)
        return fx.stack([y, z, y * fx.rand(())])

    def with_vmap(y):
        def program(y):
            a = fx.rand(())
            b = fx.vmap(noisy)(y)
            c = fx.rand(())
            return b * a + c + fx.vmap(noisy)(y)

        x = fx.rand(())
        y = fx.vmap(program)(y) + x
        z = fx.vmap(program)(y)
        return fx.stack([y, z, y * fx.rand(())])

    assert same(after_seed(script, outer, Y), after_seed(with_vmap, Y))


def test_two_loops_after_one_another_draw_different_numbers():
    first, second = loop(noisy)(X), loop(noisy)(X)
    assert not same(first, second)
    a, b = fx.vmap(noisy)(X), fx.vmap(noisy)(X)
    assert not same(a, b)


def test_lanes_that_draw_more_than_the_first():
    def draws(n):
        return [np.asarray(fx.rand(2)) for _ in range(n)]

    fx.manual_seed(0)
    found = []
    for i, n in enumerate((1, 3, 2)):
        with random.lane(i):
            found.append(draws(n))
    after = fx.rand(2)
    fx.manual_seed(0)
    mapped = [np.asarray(fx.vmap(lambda x: fx.rand(2))(X[:3])) for _ in range(3)]
    for i, rows in enumerate(found):
        for n, row in enumerate(rows):
            assert same(row, mapped[n][i])
    assert same(after, fx.rand(2))


def test_an_error_ends_a_lane():
    with pytest.raises(ZeroDivisionError), random.lane(3):
        fx.rand(2)
        raise ZeroDivisionError
    fx.manual_seed(0)
    x = fx.rand(2)
    assert same(x, random.uniform(random.key(0), 2))


def test_rules_of_custom_functions_draw_in_their_lanes():
    @fx.custom_vjp
    def noise(x):
        return x + fx.rand(3)

    noise.defvjp(lambda x: (x + fx.rand(3), None), lambda _, ct: (ct,))

    def program(x):
        return noise(x) * fx.rand(3)

    expected = after_seed(loop(loop(program)), Y)
    assert same(after_seed(fx.vmap(fx.vmap(program)), Y), expected)
    assert same(after_seed(lambda y: fx.vjp(fx.vmap(fx.vmap(program)), y)[0], Y), expected)
    inner = after_seed(fx.vmap(lambda y: fx.vjp(fx.vmap(program), y)[0]), Y)
    assert same(inner, expected)


def test_replay_draws_what_was_drawn():
    def program():
        return [fx.rand(3), fx.vmap(noisy)(X), loop(noisy)(X), fx.randn(2)]

    fx.manual_seed(1)
    replay = Replay()
    with replay:
        first = program()
    state = fx.get_rng_state()
    fx.manual_seed(8)
    fx.rand(4)
    for _ in range(2):
        with replay:
            again = program()
        assert all(same(a, b) for a, b in zip(first, again, strict=True))
    assert np.asarray(fx.get_rng_state()).tolist() == [8, 0, 0, 1, 0, 0]
    fx.manual_seed(1)
    assert all(same(a, b) for a, b in zip(first, program(), strict=True))
    assert same(fx.get_rng_state(), state)


def test_replay_keeps_its_lane():
    fx.manual_seed(1)
    with random.lane(2):
        replay = Replay()
        with replay:
            first = fx.rand(3)
    with replay:
        assert same(fx.rand(3), first)


def test_every_direction_of_a_jacobian_sees_the_same_draws():
    def program(x):
        return x * x * fx.rand(3)

    x = X[0]
    u = after_seed(fx.rand, 3)
    expected = np.diag(2 * np.asarray(x) * np.asarray(u))
    for jacobian in (fx.jacfwd, fx.jacrev):
        np.testing.assert_allclose(after_seed(jacobian(program), x), expected, rtol=1e-6)
        chunked = after_seed(jacobian(program, chunk_size=2), x)
        np.testing.assert_allclose(chunked, expected, rtol=1e-6)


def test_checkpoint_draws_the_same():
    def program(x):
        return (fx.sin(x) * fx.rand(3)).sum() * fx.rand(())

    kept = fx.checkpoint(program)
    for transform in (
        lambda f: fx.grad(lambda x: f(x[0]) + f(x[1])),
        lambda f: fx.vmap(fx.grad(f)),
        lambda f: fx.grad(lambda x: fx.vmap(f)(x).sum()),
        lambda f: loop(fx.grad(f)),
    ):
        expected = after_seed(transform(program), X)
        np.testing.assert_allclose(after_seed(transform(kept), X), expected, rtol=1e-6)
    np.testing.assert_allclose(
        after_seed(fx.vmap(fx.grad(kept)), X), after_seed(loop(fx.grad(program)), X), rtol=1e-6
    )


def test_refusals():
    with pytest.raises(DTypeError, match=r"lane: the index is an int, got 0.5"):
        random.lane(0.5)
    with pytest.raises(ValueError, match="lane: the index must not be negative, got -1"):
        random.lane(-1)
    with pytest.raises(ValueError, match="randomness must be 'different' or 'same', got 'error'"):
        fx.vmap(noisy, randomness="error")
