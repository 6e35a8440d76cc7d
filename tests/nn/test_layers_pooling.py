"""Places of maxima, unpooling, fractional and adaptive pooling: torch's, and what is refused."""

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, IndexingError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check, close

F, T = fx.nn.functional, torch.nn.functional

SHAPES = {1: (2, 3, 7), 2: (2, 3, 6, 7), 3: (1, 2, 4, 6, 5)}


def both(name, x, *args, **kwargs):
    """What the layer of that name gives here and in torch."""
    ours = getattr(fx.nn, name)(*args, **kwargs)
    theirs = getattr(torch.nn, name)(*args, **kwargs)
    return ours(fx.tensor(x)), theirs(torch.tensor(x))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["MaxPool", "AdaptiveMaxPool"])
@pytest.mark.parametrize("size", [2, 3])
def test_places(rank, kind, size):
    (x,) = arrays(SHAPES[rank])
    got, expected = both(f"{kind}{rank}d", x, size, return_indices=True)
    close(got[0], expected[0], "values")
    close(got[1], expected[1], "places")
    name = f"{'adaptive_' if kind[0] == 'A' else ''}max_pool{rank}d_with_indices"
    again = getattr(F, name)(fx.tensor(x), size)
    close(again[1], expected[1], name)


def test_places_of_one_sample_and_of_nan():
    (x,) = arrays((3, 6, 7))
    x[0, 1, 2] = np.nan
    for name in ("MaxPool2d", "AdaptiveMaxPool2d"):
        got, expected = both(name, x, 4 if name[0] == "A" else 3, return_indices=True)
        close(got[0], expected[0], name)
        close(got[1], expected[1], name)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, None),
        ({}, (2, 2, 6, 7, 7)),
        ({}, (7, 6, 7)),
        ({"stride": 3}, (7, 7, 8)),
        ({"padding": 1}, (6, 6, 7)),
    ],
    ids=str,
)
def test_unpooling(rank, options, size):
    shape = (2, 2, 6, 6, 6)[: rank + 2]
    if size is not None:
        size = size[: rank + 2] if len(size) == 5 else size[:rank]
        shape = (2, 2, *size[-rank:])
    (x,) = arrays(shape)
    values, places = getattr(T, f"max_pool{rank}d")(
        torch.tensor(x), 2, **options, return_indices=True
    )
    ours = getattr(fx.nn, f"MaxUnpool{rank}d")(2, **options)
    theirs = getattr(torch.nn, f"MaxUnpool{rank}d")(2, **options)
    assert repr(ours) == repr(theirs)
    check(
        lambda v: ours(v, fx.tensor(places.numpy()), size),
        lambda v: theirs(v, places, None if size is None else list(size)),
        values.numpy(),
    )


def test_unpooling_one_sample_under_jit_and_vmap():
    (x,) = arrays((4, 3, 6, 6))
    pool, unpool = fx.nn.MaxPool2d(2, return_indices=True), fx.nn.MaxUnpool2d(2)

    def round_trip(x):
        return unpool(*pool(x))

    x = fx.tensor(x)
    expected = round_trip(x)
    close(fx.jit(round_trip)(x), expected)
    close(fx.vmap(round_trip)(x), expected)
    close(fx.stack([round_trip(v) for v in x]), expected)


def test_unpooling_refuses():
    v, i = fx.ones((1, 1, 2, 2)), fx.zeros((1, 1, 2, 2), dtype="int64")
    with pytest.raises(DTypeError, match="max_unpool2d: indices must be integers, got float32"):
        F.max_unpool2d(v, v, 2)
    with pytest.raises(ShapeError, match=r"must have the shape of the input, \(1, 1, 2, 2\)"):
        F.max_unpool2d(v, i[0], 2)
    with pytest.raises(ShapeError, match=r"invalid output_size \(9, 4\)"):
        F.max_unpool2d(v, i, 2, output_size=(9, 4))
    with pytest.raises(IndexingError, match=r"outside of the 16 places .* output_size=x\.shape"):
        F.max_unpool2d(v, i + 99, 2)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"output_size": 3},
        {"output_ratio": 0.6},
        {"output_size": (4, 5, 2)},
        {"output_ratio": (0.5, 0.8, 0.7)},
        {"output_size": 1},
    ],
    ids=str,
)
def test_fractional_max_pool(rank, options):
    options = {k: v[:rank] if isinstance(v, tuple) else v for k, v in options.items()}
    (x,) = arrays((2, 3, 9, 8, 7)[: rank + 2])
    u = np.random.default_rng(1).random((2, 3, rank))
    name = f"FractionalMaxPool{rank}d"
    ours = getattr(fx.nn, name)(2, **options, return_indices=True, _random_samples=fx.tensor(u))
    theirs = getattr(torch.nn, name)(
        2, **options, return_indices=True, _random_samples=torch.tensor(u)
    )
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["_random_samples"]
    assert repr(ours) == repr(theirs)
    close(ours(fx.tensor(x))[1], theirs(torch.tensor(x))[1], "places")
    check(lambda x: ours(x)[0], lambda x: theirs(x)[0], x)
    close(fx.jit(lambda x: ours(x)[0])(fx.tensor(x)), ours(fx.tensor(x))[0], "jit")


def test_fractional_max_pool_draws_and_refuses():
    x = fx.tensor(arrays((20, 9, 9), seed=3)[0])
    pool = fx.nn.FractionalMaxPool2d(2, output_ratio=0.5)
    fx.manual_seed(0)
    first, second = pool(x), pool(x)
    assert not bool((first == second).all())
    fx.manual_seed(0)
    close(pool(x), first)
    fx.manual_seed(0)
    close(fx.jit(pool)(x), first, "jit")
    for make in (fx.nn.FractionalMaxPool2d, fx.nn.FractionalMaxPool3d):
        with pytest.raises(ValueError, match="requires specifying either an output size or a"):
            make(2)
        with pytest.raises(ValueError, match="only one of output_size and output_ratio"):
            make(2, output_size=2, output_ratio=0.5)
        with pytest.raises(ValueError, match=r"output_ratio must be between 0 and 1 \(got 1.5\)"):
            make(2, output_ratio=1.5)
    with pytest.raises(ShapeError, match=r"fractional_max_pool2d: \(9, 9\) windows of \(2, 2\)"):
        F.fractional_max_pool2d(x, 2, output_size=9)
    with pytest.raises(ValueError, match="requires specifying either an output_size"):
        F.fractional_max_pool2d(x, 2)


@pytest.mark.parametrize("name", ["max_pool1d", "avg_pool1d"])
def test_windows_larger_than_the_input_in_ceil_mode(name):
    (x,) = arrays((1, 1, 3))
    ours, theirs = getattr(F, name), getattr(T, name)
    with pytest.raises(ShapeError, match="does not fit into an input of shape"):
        ours(fx.tensor(x), 4)
    with pytest.raises(ShapeError, match="does not fit into an input of shape"):
        ours(fx.tensor(x), 5, 2, ceil_mode=True)
    check(lambda x: ours(x, 4, 2, ceil_mode=True), lambda x: theirs(x, 4, 2, ceil_mode=True), x)


def test_adaptive_pooling_refuses():
    with pytest.raises(ShapeError, match="adaptive_max_pool2d: output_size must be an int or 2"):
        F.adaptive_max_pool2d(fx.ones((1, 1, 4, 4)), (1, 2, 3))
    with pytest.raises(ShapeError, match="expected spatial sizes of at least 1"):
        F.adaptive_max_pool1d(fx.ones((1, 1, 0)), 2)


@pytest.mark.parametrize("window, padding, dilation", [(2, 0, 1), (3, 1, 1), (5, 2, 3), (4, 2, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_maxima_without_places_are_those_with_places(window, padding, dilation, dtype):
    x = np.random.default_rng(window).normal(size=(2, 3, 40_000)).astype(dtype)
    x[0, 0, [0, 7, 39_999]], x[1, 1, 4:20] = np.nan, -np.inf
    options = {"stride": 1, "padding": padding, "dilation": dilation}
    given = fx.asarray(x)
    want = F.max_pool1d(given, window, return_indices=True, **options)[0].numpy()
    for seen in (given, given.requires_grad_()):  # what is recorded needs the places
        found = F.max_pool1d(seen, window, **options).detach().numpy()
        assert np.array_equal(found, want, equal_nan=True)
    assert np.array_equal(F.max_pool1d(fx.asarray(x[1]), window, **options).numpy(), want[1])
    peer = torch.nn.functional.max_pool1d(torch.tensor(x[1:]), window, **options).numpy()
    assert np.array_equal(want[1:], peer)
