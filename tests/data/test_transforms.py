"""Transforms of pictures: against torch and pillow, and under vmap, jit and grad."""

import numpy as np
import pytest

import fx
from fx.data import transforms as T
from fx.data.transforms import functional as F
from fx.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(1)
X = RNG.uniform(size=(3, 13, 10)).astype(np.float32)
BYTES = RNG.integers(0, 256, (13, 10, 3), dtype=np.uint8)


def close(a, b, tolerance=1e-5):
    b = b.numpy() if isinstance(b, torch.Tensor) else b
    np.testing.assert_allclose(np.asarray(a.numpy()), b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [(7, 20), (26, 5), (13, 4), (1, 1)])
@pytest.mark.parametrize(
    ("mode", "antialias"),
    [
        ("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True),
        ("nearest", False), ("nearest-exact", False),
    ],
)  # fmt: skip
def test_resize_is_torchs(size, mode, antialias):
    x = torch.tensor(X)[None]
    expected = torch.nn.functional.interpolate(x, size, mode=mode, antialias=antialias)[0]
    close(F.resize(fx.asarray(X), size, mode, antialias=antialias), expected)


def test_resize_of_pictures_is_pillows():
    Image = pytest.importorskip("PIL.Image")
    picture = Image.fromarray(BYTES)
    expected = np.asarray(picture.resize((6, 8), Image.Resampling.BILINEAR)).astype(int)
    out = T.Resize((8, 6))(picture)
    assert isinstance(out, Image.Image) and out.size == (6, 8)
    assert np.abs(np.asarray(out).astype(int) - expected).max() <= 1
    assert T.Resize(20)(BYTES).shape == (26, 20, 3) and T.Resize(20)(BYTES).dtype == np.uint8
    assert F.resize(fx.asarray(X), 8, max_size=9).shape == (3, 9, 7)


@pytest.mark.parametrize("padding", [1, (2,), (1, 2), (1, 2, 3, 4)])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_pad_is_numpys(padding, mode):
    p = (padding,) if isinstance(padding, int) else padding
    left, top, right, bottom = (p * 4)[:4] if len(p) < 4 else p
    expected = np.pad(X, [(0, 0), (top, bottom), (left, right)], mode)
    close(F.pad(fx.asarray(X), padding, padding_mode=mode), expected, 0)


def test_crops():
    x = fx.asarray(X)
    close(F.crop(x, 2, 3, 4, 5), X[:, 2:6, 3:8], 0)
    outside = np.pad(X, [(0, 0), (2, 9), (3, 9)])[:, 0:9, 0:20]
    close(F.crop(x, -2, -3, 9, 20), outside, 0)
    top, left = fx.tensor(-2), fx.tensor(-3)
    close(F.crop(x, top, left, 9, 20), outside, 0)
    close(fx.jit(lambda i, j: F.crop(x, i, j, 9, 20))(top, left), outside, 0)
    close(F.center_crop(x, (5, 4)), X[:, 4:9, 3:7], 0)
    assert F.center_crop(x, 17).shape == (3, 17, 17)
    close(F.hflip(x), X[..., ::-1], 0)
    close(F.vflip(x), X[:, ::-1], 0)
    close(F.erase(x, 1, 2, 3, 4, 0.5)[:, 1:4, 2:6], np.full((3, 3, 4), 0.5), 0)


def test_to_tensor_and_back():
    Image = pytest.importorskip("PIL.Image")
    expected = BYTES.transpose(2, 0, 1) / 255
    for picture in (BYTES, Image.fromarray(BYTES)):
        out = T.ToTensor()(picture)
        assert out.dtype == fx.float32
        close(out, expected, 1e-6)
        np.testing.assert_array_equal(T.ToPILImage()(out), BYTES)
        assert T.PILToTensor()(picture).dtype == fx.uint8
    assert T.ToTensor()(BYTES[..., 0]).shape == (1, 13, 10)
    assert T.ToTensor()(X.astype(np.float64)).dtype == fx.float64
    assert F.convert_image_dtype(fx.tensor([255], dtype=fx.uint8)).tolist() == [1.0]
    assert F.convert_image_dtype(fx.tensor([1.0]), fx.uint8).tolist() == [255]
    assert F.convert_image_dtype(fx.tensor([3], dtype=fx.uint8), fx.int16).tolist() == [384]


def test_normalize():
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    expected = (X - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    close(T.Normalize(mean, std)(fx.asarray(X)), expected)
    close(F.normalize(fx.asarray(X)[None], mean, std), expected[None])
    with pytest.raises(DTypeError, match=r"takes a floating picture, got uint8; write to_tensor"):
        F.normalize(F.pil_to_tensor(BYTES), mean, std)
    with pytest.raises(ValueError, match="std is 0"):
        F.normalize(fx.asarray(X), mean, (1, 0, 1))
    assert repr(T.Normalize(mean, std)) == f"Normalize(mean={mean}, std={std})"


def test_rotation_by_right_angles_moves_pixels():
    square = X[:, :9, :9]
    for turns in range(4):
        for mode in ("nearest", "bilinear"):
            out = F.rotate(fx.asarray(square), 90 * turns, mode)
            close(out, np.rot90(square, turns, (1, 2)), 1e-4)
    assert F.rotate(F.pil_to_tensor(BYTES), 30).dtype == fx.uint8


def test_colours_are_those_of_pillow():
    Image, Enhance = pytest.importorskip("PIL.Image"), pytest.importorskip("PIL.ImageEnhance")
    picture, x = Image.fromarray(BYTES), F.pil_to_tensor(BYTES)
    for name, function in (
        ("Brightness", F.adjust_brightness),
        ("Contrast", F.adjust_contrast),
        ("Color", F.adjust_saturation),
    ):
        for factor in (0.0, 0.4, 1.0, 1.7):
            expected = np.asarray(getattr(Enhance, name)(picture).enhance(factor)).astype(int)
            out = function(x, factor).numpy().transpose(1, 2, 0).astype(int)
            assert np.abs(out - expected).max() <= 2, (name, factor)
    grey = F.rgb_to_grayscale(x).numpy()[0].astype(int)
    assert np.abs(grey - np.asarray(picture.convert("L")).astype(int)).max() <= 1
    close(F.adjust_hue(F.adjust_hue(fx.asarray(X), 0.3), -0.3), X, 1e-4)
    close(F.adjust_hue(fx.asarray(X), 1 / 3), np.roll(X, 1, 0), 1e-4)


def test_blur_is_a_convolution():
    x = torch.tensor(X)[:, None]
    line = torch.exp(-0.5 * (torch.arange(-2.0, 3) / 1.5) ** 2)
    line = line / line.sum()
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2), mode="reflect")
    expected = torch.nn.functional.conv2d(padded, (line[:, None] * line)[None, None])[:, 0]
    close(F.gaussian_blur(fx.asarray(X), 5, 1.5), expected)
    with pytest.raises(ValueError, match="should be an odd and positive number"):
        F.gaussian_blur(fx.asarray(X), 4)


RANDOM = {
    "crop": lambda k, x: F.random_crop(k, x, 6),
    "padded crop": lambda k, x: F.random_crop(k, x, (13, 10), padding=3, padding_mode="reflect"),
    "hflip": F.random_horizontal_flip,
    "vflip": F.random_vertical_flip,
    "resized crop": lambda k, x: F.random_resized_crop(k, x, 7),
    "impossible crop": lambda k, x: F.random_resized_crop(k, x, 7, scale=(4.0, 5.0)),
    "rotation": lambda k, x: F.random_rotation(k, x, 40, "bilinear"),
    "erasing": lambda k, x: F.random_erasing(k, x, p=0.8),
    "erasing with noise": lambda k, x: F.random_erasing(k, x, value="random"),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_transforms_vmap_jit_and_differ(name):
    function = RANDOM[name]
    keys = fx.random.split(fx.random.key(3), 6)
    batch = fx.asarray(np.broadcast_to(X, (6, *X.shape)).copy())
    loop = [function(keys[i], batch[i]).numpy() for i in range(6)]
    mapped = fx.vmap(function)(keys, batch)
    np.testing.assert_allclose(mapped.numpy(), loop, rtol=1e-5, atol=1e-5)
    jitted = fx.jit(fx.vmap(function))(keys, batch)
    np.testing.assert_allclose(jitted.numpy(), loop, rtol=1e-4, atol=1e-4)
    if name != "impossible crop":
        assert len({a.tobytes() for a in loop}) > 1
    gradient = fx.grad(lambda x: fx.sum(function(keys[0], x) ** 2))(batch[0])
    assert gradient.shape == X.shape and bool(fx.isfinite(gradient).all())


@pytest.mark.parametrize("name", ["resize", "normalize", "rotate", "hue", "blur"])
def test_plain_transforms_vmap_and_jit(name):
    function = {
        "resize": lambda x: F.resize(x, (5, 21)),
        "normalize": lambda x: F.normalize(x, [0.5], [0.25]),
        "rotate": lambda x: F.rotate(x, 20.0),
        "hue": lambda x: F.adjust_hue(x, 0.2),
        "blur": lambda x: F.gaussian_blur(x, 3),
    }[name]
    batch = fx.asarray(RNG.uniform(size=(4, *X.shape)).astype(np.float32))
    expected = np.stack([function(batch[i]).numpy() for i in range(4)])
    for mapped in (function, fx.vmap(function), fx.jit(fx.vmap(function))):
        np.testing.assert_allclose(mapped(batch).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_a_random_crop_is_a_part_of_the_picture():
    x = fx.arange(130).reshape(1, 13, 10)
    corners = set()
    for i in range(60):
        out = F.random_crop(fx.random.key(i), x, (12, 8)).numpy()[0]
        top, left = divmod(int(out[0, 0]), 10)
        np.testing.assert_array_equal(out, x.numpy()[0, top : top + 12, left : left + 8])
        corners.add((top, left))
    assert corners == {(i, j) for i in range(2) for j in range(3)}
    with pytest.raises(ShapeError, match=r"\(14, 14\) is larger than input image size \(13, 10\)"):
        F.random_crop(fx.random.key(0), x, 14)
    assert F.random_crop(fx.random.key(0), x, 14, pad_if_needed=True).shape == (1, 14, 14)


@pytest.mark.parametrize(
    "transform",
    [
        T.RandomCrop(8, padding=2), T.RandomHorizontalFlip(), T.RandomVerticalFlip(),
        T.RandomResizedCrop(5), T.RandomRotation(10), T.RandomErasing(), T.RandomGrayscale(0.5),
        T.ColorJitter(0.3, 0.3, 0.3, 0.2), T.GaussianBlur(3), T.CenterCrop(4), T.Pad(1),
        T.Grayscale(3), T.Resize(6), T.RandomApply([T.Pad(1)]),
        T.RandomChoice([T.Pad(1), T.Resize(4)], [1, 2]), T.RandomOrder([T.Pad(1), T.Resize(4)]),
        T.Lambda(lambda x: x), T.ConvertImageDtype(fx.float64),
    ],
    ids=lambda t: type(t).__name__,
)  # fmt: skip
def test_transforms_take_all_kinds_of_pictures_and_repeat_with_the_seed(transform):
    Image = pytest.importorskip("PIL.Image")
    outs = []
    for picture in (BYTES, Image.fromarray(BYTES), F.pil_to_tensor(BYTES)):
        if isinstance(transform, T.ConvertImageDtype) and not isinstance(picture, fx.Tensor):
            continue
        fx.manual_seed(5)
        out = transform(picture)
        kinds = (Image.Image, np.ndarray, fx.Tensor)
        assert [isinstance(out, k) for k in kinds] == [isinstance(picture, k) for k in kinds]
        array = out.numpy() if isinstance(out, fx.Tensor) else F.pil_to_tensor(out).numpy()
        outs.append(array)
        np.testing.assert_array_equal(array, outs[0])
    assert isinstance(repr(transform), str)


def test_a_pipeline_in_worker_processes():
    pipeline = T.Compose([
        T.RandomCrop(8, padding=2), T.RandomHorizontalFlip(), T.ToTensor(),
        T.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)),
    ])  # fmt: skip

    class Pictures(fx.data.Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, index):
            return pipeline(BYTES), index

    runs = []
    for workers in (0, 1, 2):
        fx.manual_seed(1)
        loader = fx.data.DataLoader(Pictures(), 4, shuffle=True, num_workers=workers)
        runs.append([(x.numpy(), y.tolist()) for x, y in loader])
    for run in runs[1:]:
        for (x, y), (a, b) in zip(run, runs[0], strict=True):
            assert y == b
            np.testing.assert_array_equal(x, a)
    assert "RandomHorizontalFlip(p=0.5)" in repr(pipeline)
