"""``donate_argnums``: memory is taken over, and what was donated says so."""

import numpy as np
import pytest

import fx
from fx.errors import DonatedError


def test_the_result_takes_the_memory():
    update = fx.jit(lambda p, g: p - 0.1 * g, donate_argnums=0)
    p, g = fx.zeros(1000) + 1.0, fx.ones(1000)
    place = p.numpy().ctypes.data
    for i in range(3):
        p = update(p, g)
        np.testing.assert_allclose(p.numpy(), 1.0 - 0.1 * (i + 1), rtol=1e-6)
        assert p.numpy().ctypes.data == place


def test_a_donated_tensor_cannot_be_used_again():
    update = fx.jit(lambda p: p + 1.0, donate_argnums=0)
    p = fx.ones(3) * 2.0
    update(p)
    for use in (
        lambda: p + 1,
        lambda: p.numpy(),
        lambda: fx.sin(p),
        lambda: repr(p),
        lambda: update(p),
    ):
        with pytest.raises(DonatedError, match=r"donated to .*test_donation.py:\d+.*x\.clone\(\)"):
            use()


def test_memory_that_somebody_else_sees_is_left_alone():
    update = fx.jit(lambda p: p + 1.0, donate_argnums=0)
    array = np.zeros(4, np.float32)
    np.testing.assert_array_equal(update(fx.from_numpy(array)).numpy(), np.ones(4))
    np.testing.assert_array_equal(array, np.zeros(4))
    p = fx.zeros(4) + 0.0
    view = p.reshape(2, 2)
    update(p)
    np.testing.assert_array_equal(view.numpy(), np.zeros((2, 2)))


def test_trees_are_donated_leaf_by_leaf():
    step = fx.jit(
        lambda params, x: ({k: v * 2.0 for k, v in params.items()}, x), donate_argnums=(0,)
    )
    params, x = {"w": fx.ones(3) + 0.0, "b": fx.ones(()) + 0.0}, fx.ones(2)
    new, same = step(params, x)
    np.testing.assert_array_equal(new["w"].numpy(), [2, 2, 2])
    np.testing.assert_array_equal((x + same).numpy(), [2, 2])
    with pytest.raises(DonatedError):
        params["w"] + 1


def test_a_transform_around_donates_nothing():
    f = fx.jit(lambda x: (x * x).sum(), donate_argnums=0)
    x = fx.tensor([1.0, 2.0])
    np.testing.assert_array_equal(fx.grad(f)(x).numpy(), [2, 4])
    np.testing.assert_array_equal((x + 0).numpy(), [1, 2])


FUNCTIONS = [
    lambda: lambda p, x: p,
    lambda: lambda p, x: (p, x),
    lambda: lambda p, x: (x, p * 2),
    lambda: lambda p, x: {"p": p, "sum": (p + x).sum(), "again": p},
    lambda: lambda p, x: p + x if p.sum() > 0 else x,
    lambda: lambda p, x: fx.reshape(p, (2, 2)),
]
SETTINGS = [(), (0,), (1,), (0, 1)]


@pytest.mark.parametrize("make", FUNCTIONS, ids=range(len(FUNCTIONS)))
@pytest.mark.parametrize("first", SETTINGS, ids=str)
@pytest.mark.parametrize("second", SETTINGS, ids=str)
def test_functions_of_one_code_donate_each_what_they_are_told_to(make, first, second):
    function = make()
    jitted = [(fx.jit(function, donate_argnums=given), given) for given in (first, second)]
    for f, given in (*jitted, *jitted, *reversed(jitted)):
        p, x = fx.arange(4.0) + 1, fx.arange(4.0) - 2
        want = fx.tree.map(lambda t: t.tolist(), function(p, x))
        assert fx.tree.map(lambda t: t.tolist(), f(p, x)) == want
        for i, argument in enumerate((p, x)):
            if i in given:
                with pytest.raises(DonatedError):
                    argument.tolist()
            else:
                argument.tolist()


@pytest.mark.parametrize("failing", ["index", "divisor"])
def test_what_fails_late_leaves_cells_as_they_were(failing):
    """Cells lend their memory to their next values only behind the last step that may fail."""
    state, table = fx.nn.Buffer(fx.arange(512, dtype=fx.float32)), fx.asarray([7, 0, 3])

    @fx.jit
    def step(i):
        state.copy_(fx.sin(state) * 3 + 1)
        late = i + (state.sum() * 0).astype(fx.int64)
        return table[late + 2] if failing == "index" else 5 // table[late]

    for _ in range(4):
        step(fx.asarray(0))
    before = state.numpy().copy()
    with pytest.raises(IndexError if failing == "index" else ZeroDivisionError):
        step(fx.asarray(1))
    np.testing.assert_array_equal(state.numpy(), before)
    step(fx.asarray(0))
    assert not np.array_equal(state.numpy(), before)
