"""The table of errors against float64."""

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks import accuracy
from benchmarks.networks import NETWORKS, build


def test_rows_of_a_function():
    value, gradients = accuracy.function("product", lambda t, x, y: x @ y, (5, 300), (300, 4))
    assert value.title == "product"
    assert gradients.title == "product: gradients"
    for row in value, gradients:
        for error in row.eager, row.compiled, row.peer:
            assert 1e-9 < error < 1e-5
        assert row.shown().count("|") == 6


def test_an_error_is_seen_and_what_is_zero_is_left_out():
    right = [np.array([1.0, 4.0]), np.array([1e-17])]
    row = accuracy.compared(
        "x", [[right[0] + 0.4, right[1] + 1], right], [right[0] + 0.2, right[1]], right
    )
    assert (row.eager, row.compiled, row.peer) == pytest.approx((0.1, 0.0, 0.05))
    assert row.worst == pytest.approx(2)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_the_same_in_both(name):
    import torch

    import fx.torch

    theirs, mine = (build(t, name).state_dict() for t in (torch, fx.torch))
    assert {k: tuple(v.shape) for k, v in mine.items()} == {
        k: tuple(v.shape) for k, v in theirs.items()
    }
