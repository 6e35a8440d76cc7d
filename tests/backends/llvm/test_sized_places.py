"""Places that are known, in one line with others: in which row they are depends on the size.

The numbers that stand for sizes while a program is planned are large: place 5 of three rows of n
is in the first row for them, and in the second for n = 4.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fx

MADE = {
    "fewer": lambda x: x[:, :-1], "later": lambda x: x[:, 1:], "computed": lambda x: x[:, :-1] + 1,
    "rows": lambda x: (x * 2)[:-1], "flip": lambda x: fx.flip(x, -1), "turned": lambda x: x.mT,
    "padded": lambda x: fx.pad(x, ((0, 0), (1, 0))), "joined": lambda x: fx.concat([x, x + 1], -1),
    "more": lambda x: x[:, :, None] * fx.arange(3.0), "all": lambda x: x * 1,
}  # fmt: skip
TAKEN = {
    "one": lambda x: x.reshape(-1)[5], "some": lambda x: x.reshape(-1)[4:6] * 2,
    "from": lambda x: x.reshape(-1)[5:], "last": lambda x: x.reshape(-1)[-4:],
    "pairs": lambda x: x.reshape(-1)[:6].reshape(2, 3)[1],
    "set": lambda x: x.reshape(-1).at[4].set(9),
}  # fmt: skip


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("taken", TAKEN)
def test_a_place_in_one_line(made, taken):
    def f(x):
        return TAKEN[taken](MADE[made](x))

    driven = fx.jit(f)
    for n in (11, 13, 4, 5, 17):
        x = fx.tensor(np.random.default_rng(n).normal(size=(3, n)).astype("f"))
        np.testing.assert_array_equal(driven(x).numpy(), f(x).numpy(), str(n))


def test_a_place_in_a_line_of_a_length_that_is_a_number():
    x = fx.tensor(np.random.default_rng(0).normal(size=(3, 23)).astype("f"))
    for lengths in itertools.permutations((4, 22, 11, 2)):
        f = fx.jit(lambda x, n: x[..., :n].reshape(-1)[..., 5] * 2)
        for n in (*lengths, 3, 10):
            assert float(f(x, n)) == 2 * float(x[..., :n].reshape(-1)[5]), (lengths, n)
