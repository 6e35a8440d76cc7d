"""Inputs that do not fit a layer: an error of fx that names the layer by its path, or a result."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import fx
from fx.errors import FxError
from tests.nn.tables import one_a_class
from tests.robustness.targets import MORE

ROWS = [*one_a_class(), *MORE.values()]
NAMES = [type(make(fx.nn)).__name__ for make, *_ in ROWS]


class Model(fx.nn.Module):
    """One layer, called with whatever is given."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.inner = layer

    def forward(self, *inputs: Any) -> Any:
        return self.inner(*inputs)


def _wrong(shapes: list[tuple[int, ...]]) -> Any:
    """Inputs of which the first, or each, does not fit."""
    ones = [fx.ones(s) for s in shapes]
    first, rest = shapes[0], ones[1:]
    odd = [
        (), (0,), (7,), first[1:], first[:-1], (2, *first), (1, 1, 1, 1, *first), (*first, 1),
        (*first[:-1], 9), (9, *first[1:]),
        tuple(n + 1 for n in first), tuple(0 for _ in first), tuple(1 for _ in first),
    ]  # fmt: skip
    for shape in odd:
        yield [fx.ones(shape), *rest]
        yield [fx.ones(shape) for _ in shapes]
    for dtype in ("int64", "bool", "uint8", "complex64", "float64", "bfloat16"):
        yield [fx.ones(first, dtype=dtype), *rest]
        yield [fx.ones(s, dtype=dtype) for s in shapes]
    yield [fx.ones(first, device="meta"), *rest]
    yield [None, *rest]
    yield ["a", *rest]
    yield [ones[0].tolist(), *rest]


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_what_does_not_fit_is_named_with_its_layer(row: Any) -> None:
    make, *shapes = row
    for inputs in _wrong(shapes):
        model = Model(make(fx.nn))
        shown = [getattr(x, "spec", x) for x in inputs]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model(*inputs)
        except FxError as error:
            assert "in layer inner" in str(error), (shown, error)
        except Exception as error:
            raise AssertionError(f"{shown}: {type(error).__name__}: {error}") from error
