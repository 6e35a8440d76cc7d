"""Arguments of layers and functions: torch's names, order and defaults."""

import inspect

import pytest

import fx

torch = pytest.importorskip("torch")

from tests.nn.tables import LAYERS

EMPTY = inspect.Parameter.empty
MADE = sorted({type(row[0](fx.nn)).__name__ for row in LAYERS} | {"Embedding", "EmbeddingBag"})
MORE = ["FractionalMaxPool2d", "FractionalMaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]
NAMES = [
    name
    for name in fx.nn.functional.__all__
    if inspect.isfunction(getattr(torch.nn.functional, name, None))
    and list(inspect.signature(getattr(torch.nn.functional, name)).parameters) != ["args", "kwargs"]
    and not name.endswith("_with_indices")
]
NAMES_OF_INIT = [
    name for name in fx.nn.init.__all__ if name.endswith("_") and name != "bias_uniform_"
]


def arguments(function):
    """Names, defaults and kinds; nothing is written into an ``out``."""
    return [
        (p.name, None if p.default is EMPTY else p.default, p.kind)
        for p in inspect.signature(function).parameters.values()
        if p.name != "out"
    ]


@pytest.mark.parametrize("name", [*MADE, *MORE, "CrossMapLRN2d"])
def test_layers(name):
    ours, theirs = getattr(fx.nn, name), getattr(torch.nn, name)
    if theirs.__init__ is not torch.nn.Module.__init__:
        assert arguments(ours) == arguments(theirs)
    got, expected = arguments(ours.forward), arguments(theirs.forward)
    assert [a[0] for a in got] == [a[0] for a in expected]


@pytest.mark.parametrize("name", NAMES)
def test_functions(name):
    assert arguments(getattr(fx.nn.functional, name)) == arguments(
        getattr(torch.nn.functional, name)
    )


@pytest.mark.parametrize("name", NAMES_OF_INIT)
def test_initialisers(name):
    got = arguments(getattr(fx.nn.init, name))
    expected = arguments(getattr(torch.nn.init, name))
    assert got[: len(expected)] == expected
