"""Interpolation, grids, windows and pixels against torch's functions, and what is refused."""

from itertools import product

import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu.llvm import any_size
from fx.errors import DTypeError, ShapeError
from fx.nn.functional import grids

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check, close

F, T = fx.nn.functional, torch.nn.functional


def same(name, *inputs, **options):
    """Values and gradients of a function of that name."""
    check(
        lambda *a: getattr(F, name)(*a, **options),
        lambda *a: getattr(T, name)(*a, **options),
        *inputs,
    )


# interpolation ----------------------------------------------------------------------------------

# where a factor gives the same or twice the size, torch's gradient of "nearest" is not that of its
# values: these sizes and factors keep away from that
SPATIAL = {
    "nearest": [(7,), (4, 6), (4, 4, 5)],
    "nearest-exact": [(7,), (4, 6), (4, 4, 5)],
    "area": [(7,), (4, 6), (4, 4, 5)],
    "linear": [(7,), (1,)],
    "bilinear": [(4, 6)],
    "bicubic": [(4, 6)],
    "trilinear": [(2, 3, 4)],
}
TARGETS = [
    {"size": 3},
    {"size": 9},
    {"size": (5, 6, 8)},
    {"scale_factor": 2},
    {"scale_factor": 1.3},
    {"scale_factor": (2.3, 1.0, 0.5)},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("mode", SPATIAL)
def test_interpolate(mode, target):
    for sizes in SPATIAL[mode]:
        options = {k: v[: len(sizes)] if isinstance(v, tuple) else v for k, v in target.items()}
        same("interpolate", *arrays((1, 2, *sizes)), mode=mode, **options)
        if mode.endswith(("linear", "cubic")):
            same("interpolate", *arrays((1, 2, *sizes)), mode=mode, align_corners=True, **options)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_interpolate_with_antialias(mode):
    for target in (
        {"size": (3, 2)},
        {"size": (9, 6)},
        {"scale_factor": 0.4},
        {"scale_factor": 1.3},
    ):
        same("interpolate", *arrays((1, 2, 7, 6)), mode=mode, antialias=True, **target)


def test_nearest_places_are_torchs_for_many_sizes():
    for n, m, mode in product((3, 10, 49), (2, 7, 30, 98, 1000), ("nearest", "nearest-exact")):
        x = np.arange(float(n), dtype="float32")[None, None]
        got = F.interpolate(fx.tensor(x), m, mode=mode)
        close(got, T.interpolate(torch.tensor(x), m, mode=mode), f"{n} to {m}, {mode}")


def test_interpolate_refuses():
    x = fx.ones((1, 1, 4, 4))
    with pytest.raises(ShapeError, match=r"there are the modes nearest, .*; got 'linear'"):
        F.interpolate(x, 2, mode="linear")
    with pytest.raises(ShapeError, match="modes none; got 'nearest'"):
        F.interpolate(fx.ones((2, 2)), 2)
    with pytest.raises(ValueError, match="align_corners option can only be set with"):
        F.interpolate(x, 2, align_corners=True)
    with pytest.raises(ValueError, match="either size or scale_factor should be defined"):
        F.interpolate(x)
    with pytest.raises(ValueError, match="only one of size or scale_factor should be defined"):
        F.interpolate(x, 2, 2)
    with pytest.raises(ShapeError, match="size must be a number or 2 of them"):
        F.interpolate(x, (2, 2, 2))
    with pytest.raises(ValueError, match="antialias is restricted to the modes"):
        F.interpolate(x, 2, antialias=True)
    with pytest.raises(ValueError, match="lanczos takes antialias=True"):
        F.interpolate(x, 2, mode="lanczos")
    with pytest.raises(ShapeError, match="sizes should be greater than 0"):
        F.interpolate(x, scale_factor=0.1)


@pytest.mark.parametrize("name", ["upsample", "upsample_nearest", "upsample_bilinear"])
def test_older_names_of_interpolate(name):
    (x,) = arrays((1, 2, 3, 4))
    with pytest.warns(UserWarning, match=f"nn.functional.{name} is deprecated"):
        got = getattr(F, name)(fx.tensor(x), scale_factor=2)
    with pytest.warns(UserWarning, match="is deprecated"):
        close(got, getattr(T, name)(torch.tensor(x), scale_factor=2))


# grids ------------------------------------------------------------------------------------------

IMAGES = {2: ((2, 3, 4, 5), (2, 3, 4, 2)), 3: ((2, 2, 3, 4, 5), (2, 3, 2, 2, 3))}


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "rank"), [("bilinear", 2), ("bilinear", 3), ("bicubic", 2)])
def test_grid_sample(mode, rank, padding, corners):
    x, grid = arrays(*IMAGES[rank])
    options = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    same("grid_sample", x, grid, **options)
    same("grid_sample", x[:, :, :1, :1], grid, **options)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("rank", [2, 3])
def test_grid_sample_of_the_nearest(rank, padding):
    x, grid = arrays(*IMAGES[rank])
    for corners in (True, False):
        options = {"mode": "nearest", "padding_mode": padding, "align_corners": corners}
        check(
            lambda x, options=options: F.grid_sample(x, fx.tensor(grid), **options),
            lambda x, options=options: T.grid_sample(x, torch.tensor(grid), **options),
            x,
        )


def test_grid_sample_outside_of_everything():
    x = arrays((1, 2, 3, 4))[0]
    far = np.array([1e30, -1e30, 3.0, -3.0, 1.0, -1.0, 0.0])
    grid = np.stack(np.meshgrid(far, far), -1)[None]
    for padding in ("zeros", "border"):
        options = {"padding_mode": padding, "align_corners": False}
        got = F.grid_sample(fx.tensor(x), fx.tensor(grid), **options)
        close(got, T.grid_sample(torch.tensor(x), torch.tensor(grid), **options), padding)
    nan = F.grid_sample(fx.tensor(x), fx.tensor(grid * np.nan), align_corners=False)
    assert bool((nan == 0).all())


@pytest.mark.parametrize("corners", [True, False])
def test_affine_grid_under_all_transforms(corners):
    for theta, size in (((2, 2, 3), (2, 1, 4, 5)), ((2, 3, 4), (2, 1, 3, 4, 5))):
        same("affine_grid", *arrays(theta), size=size, align_corners=corners)
    theta, x = (fx.tensor(a) for a in arrays((3, 1, 2, 3), (3, 1, 2, 4, 4)))

    def warp(theta, x):
        grid = F.affine_grid(theta, x.shape, align_corners=corners)
        return F.grid_sample(x, grid, align_corners=corners)

    expected = fx.stack([warp(t, v) for t, v in zip(theta, x)])
    close(fx.vmap(warp)(theta, x), expected)
    close(fx.jit(fx.vmap(warp))(theta, x), expected)


def test_grid_sample_of_narrow_images():
    x, grid = arrays((1, 2, 40, 50), (1, 3, 4, 2), dtype="float32")
    expected = F.grid_sample(
        fx.tensor(x), fx.tensor(grid).astype("float16").astype("float32"), align_corners=False
    )
    got = F.grid_sample(
        fx.tensor(x, dtype="float16"), fx.tensor(grid, dtype="float16"), align_corners=False
    )
    assert got.dtype == fx.float16
    np.testing.assert_allclose(got.astype("float32").numpy(), expected.numpy(), atol=5e-3)


def test_grids_refuse():
    x, grid = fx.ones((1, 1, 3, 3)), fx.zeros((1, 2, 2, 2))
    with pytest.warns(UserWarning, match="the default of align_corners is False in grid_sample"):
        F.grid_sample(x, grid)
    with pytest.raises(ValueError, match=r"expected mode to be .*but got: 'cubic'"):
        F.grid_sample(x, grid, "cubic")
    with pytest.raises(ValueError, match=r"expected padding_mode to be .*but got: 'wrap'"):
        F.grid_sample(x, grid, padding_mode="wrap")
    with pytest.raises(DTypeError, match=r"got float32 and float64; write grid\.astype"):
        F.grid_sample(x, grid.astype("float64"), align_corners=True)
    with pytest.raises(ShapeError, match=r"grid_sample takes an input .*got \(1, 1, 3, 3\)"):
        F.grid_sample(x, fx.zeros((1, 2, 2, 3)), align_corners=True)
    with pytest.raises(ValueError, match="bicubic takes images"):
        F.grid_sample(x[None], fx.zeros((1, 2, 2, 2, 3)), "bicubic", align_corners=True)
    with pytest.raises(ShapeError, match=r"expected theta \(batch, 2, 3\)"):
        F.affine_grid(fx.ones((2, 2, 3)), (1, 1, 3, 3), True)
    with pytest.raises(DTypeError, match="expected theta to have floating point type, got int64"):
        F.affine_grid(fx.ones((1, 2, 3), dtype="int64"), (1, 1, 3, 3), True)


# windows and pixels -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": (3, 2), "stride": 2, "padding": (1, 0)},
        {"kernel_size": 2, "dilation": (1, 2), "padding": 2, "stride": (3, 1)},
    ],
    ids=str,
)
def test_unfold_and_fold(options):
    (x,) = arrays((2, 3, 5, 6))
    same("unfold", x, **options)
    columns = T.unfold(torch.tensor(x), **options).numpy()
    same("fold", columns, output_size=(5, 6), **options)


def test_rearranging_refuses():
    x = fx.ones((1, 6, 4, 4))
    with pytest.raises(ShapeError, match=r"unfold: a window \(5, 5\) with dilation \(1, 1\) does"):
        F.unfold(x, 5)
    with pytest.raises(ShapeError, match=r"unfold takes an input \(batch, channels, height, width"):
        F.unfold(x[0, 0], 2)
    with pytest.raises(ShapeError, match=r"of a multiple of 4 elements, 3 \* 3 = 9 of them"):
        F.fold(fx.ones((1, 4, 8)), 4, 2)
    with pytest.raises(ShapeError, match="must be divisible by the square of upscale_factor 2"):
        F.pixel_shuffle(x, 2)
    with pytest.raises(ShapeError, match="must be divisible by downscale_factor 3"):
        F.pixel_unshuffle(x, 3)
    with pytest.raises(ShapeError, match="must be divisible by groups 4"):
        F.channel_shuffle(x, 4)
    with pytest.raises(ShapeError, match="pixel_shuffle: upscale_factor must be positive, got 0"):
        F.pixel_shuffle(x, 0)
    for name in ("ReflectionPad2d", "ZeroPad2d"):
        with pytest.raises(ShapeError, match=f"{name}: padding must be an int or 4 ints"):
            getattr(fx.nn, name)((1, 2))
    with pytest.raises(ShapeError, match=r"ReplicationPad1d takes an input \(batch, channels, len"):
        fx.nn.ReplicationPad1d(1)(fx.ones(3))
    with pytest.raises(ShapeError, match="reach beyond axis"):
        fx.nn.ReflectionPad1d(3)(fx.ones((1, 3)))


# products and distances -------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_pdist_and_cdist(p):
    (x,) = arrays((5, 3))
    a, b = arrays((2, 4, 3), (2, 5, 3))
    if p == 0:  # whose derivative is 0 everywhere
        close(F.pdist(fx.tensor(x), p), T.pdist(torch.tensor(x), p))
        close(fx.cdist(fx.tensor(a), fx.tensor(b), p), torch.cdist(*map(torch.tensor, (a, b)), p))
        return
    same("pdist", x, p=p)
    check(lambda a, b: fx.cdist(a, b, p), lambda a, b: torch.cdist(a, b, p), a, b)


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("shape", [(150, 3), (70, 100), (5, 2, 20, 9)])
def test_distances_of_many_rows(p, shape):
    (x,) = arrays(shape)
    x[..., 0, :] = x[..., -1, :]
    exact = "donot_use_mm_for_euclid_dist"
    peer = lambda a, b: torch.cdist(a, b, p, compute_mode=exact)
    check(lambda a, b: fx.cdist(a, b, p), peer, x, x[..., 2:, :])
    if len(shape) == 2:
        same("pdist", x, p=p)
        x[3] = np.nan
        found = F.pdist(fx.tensor(x), p).numpy()
        np.testing.assert_array_equal(np.isnan(found), np.isnan(T.pdist(torch.tensor(x), p)))


def test_distances_of_no_features_are_0():
    for p in (0.5, 1, 2, float("inf")):
        assert fx.cdist(fx.ones((2, 0)), fx.ones((3, 0)), p).tolist() == [[0.0] * 3] * 2
        assert F.pdist(fx.ones((3, 0)), p).tolist() == [0.0] * 3


def test_distances_of_equal_vectors_have_no_nan():
    x = fx.ones((3, 4))
    for f in (F.pdist, lambda x: fx.cdist(x, x), lambda x: F.pairwise_distance(x, x, eps=0.0)):
        assert bool((fx.grad(lambda x, f=f: f(x).sum())(x) == 0).all())


def test_conv_tbc():
    x, w, b = arrays((7, 2, 3), (2, 3, 4), (4,))
    same("conv_tbc", x, w, b, pad=1)


def test_products_refuse():
    with pytest.raises(ShapeError, match=r"which takes \(\.\.\., 2\) and \(\.\.\., 3\)"):
        F.bilinear(fx.ones((5, 3)), fx.ones((5, 3)), fx.ones((4, 2, 3)))
    with pytest.raises(ShapeError, match="with the same leading sizes"):
        F.bilinear(fx.ones((5, 2)), fx.ones((6, 3)), fx.ones((4, 2, 3)))
    with pytest.raises(ValueError, match=r"in1_features must be > 0"):
        fx.nn.Bilinear(0, 3, 2)
    with pytest.raises(ShapeError, match="cosine_similarity"):
        F.cosine_similarity(fx.ones((2, 3)), fx.ones((2, 4)))
    with pytest.raises(ShapeError, match=r"pdist takes \(rows, features\)"):
        F.pdist(fx.ones(3))
    with pytest.raises(ShapeError, match="conv_tbc takes an input"):
        F.conv_tbc(fx.ones((7, 2)), fx.ones((2, 3, 4)), fx.ones(4))


# kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_resampled_image_has_the_bits_of_the_composed_one(mode, dtype, monkeypatch):
    x = np.random.default_rng(0).normal(size=(2, 3, 7, 9)).astype(dtype)

    def run():
        f = lambda x: F.interpolate(x, size=(5, 20), mode=mode)
        return f(fx.tensor(x)).numpy(), fx.grad(lambda x: (f(x) ** 2).sum())(fx.tensor(x)).numpy()

    with limits.given(EARLY_CALLS=0):
        compiled = run()
    monkeypatch.setattr(any_size, "if_ready", lambda *_: None)
    composed = run()
    np.testing.assert_array_equal(compiled[0], composed[0])
    close(*[fx.tensor(g) for g in (compiled[1], composed[1])])


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "rank"), [
    ("nearest", 2), ("nearest", 3), ("bilinear", 2), ("bilinear", 3), ("bicubic", 2),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sampled_image_is_the_composed_one(mode, rank, padding, corners, dtype):
    rng = np.random.default_rng(0)
    sample, how = grids._samples[rank], {"mode": mode, "padding": padding, "corners": corners}
    for sizes in ((4, 5, 6), (3, 1, 2), (1, 1, 1)):
        x = fx.tensor(rng.normal(size=(2, 3, *sizes[-rank:])).astype(dtype))
        points = rng.normal(size=(2, 40, rank)).astype(dtype)
        points[1, :7, 0] = 1, -1, 1.2, -1.2, 3, -3, 5.5  # ends, and turned back more than once
        usual = fx.tensor(points)
        points[0, :5, 0] = np.nan, np.inf, -np.inf, 1e30, -1e30
        points = fx.tensor(points)
        assert sample.cpu(x.numpy(), points.numpy(), **how) is not None
        close(sample(x, points, **how), grids._sampled(x, points, **how))
        ct = fx.tensor(rng.normal(size=(2, 3, 40)).astype(dtype))
        assert grids._sample_grad.cpu(ct.numpy(), x.numpy(), usual.numpy(), **how) is not None
        found = grids._sample_grad(ct, x, usual, **how)
        wanted = grids._sampled_grad(ct, x, usual, **how)
        for a, b in zip(found, wanted, strict=True):
            size = max(float(abs(b).max()), 1.0)  # addends of both signs cancel
            close(a / size, b / size)


def test_what_lies_outside_of_an_image_takes_nothing_of_its_cotangent():
    x, far = fx.ones((1, 1, 3, 3)), fx.full((1, 1, 1, 2), 9.0)
    ct = fx.full((1, 1, 1), float("inf"))
    for mode in ("nearest", "bilinear", "bicubic"):
        how = {"mode": mode, "padding": "zeros", "corners": False}
        dx, _ = grids._sample_grad(ct, x, far.reshape(1, 1, 2), **how)
        assert bool((dx == 0).all()), mode
