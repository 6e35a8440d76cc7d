"""Readers of dataset files: what they read, and that nothing in a file can hurt."""

import gzip
import pickle
import random
import resource
import struct
from typing import ClassVar

import numpy as np
import pytest

import fx
from fx.data import DataFileError, DataLoader, MissingFileError
from fx.data.datasets import (
    CIFAR10,
    CIFAR100,
    MNIST,
    DatasetFolder,
    FashionMNIST,
    ImageFolder,
    bundled,
    read_idx,
)
from fx.data.datasets.bundled import NAMES
from tests import thorough

RNG = np.random.default_rng(0)
KINDS = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def idx(array, kind=8):
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape)
    return head + array.astype(KINDS[kind]).tobytes()


def write_mnist(folder, n=5, pack=lambda data: data, end=""):
    folder.mkdir(parents=True, exist_ok=True)
    pictures, classes = RNG.integers(0, 256, (n, 28, 28)), RNG.integers(0, 10, n)
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte{end}").write_bytes(pack(idx(pictures)))
        (folder / f"{part}-labels-idx1-ubyte{end}").write_bytes(pack(idx(classes)))
    return pictures, classes


class Python2(pickle._Pickler):
    """Pickles as the files were pickled: strings of Python 2, arrays of an old NumPy."""

    dispatch: ClassVar[dict] = dict(pickle._Pickler.dispatch)

    def save_str(self, text):
        data = text.encode("latin1")
        self.write(pickle.BINSTRING + struct.pack("<i", len(data)) + data)

    dispatch[str] = save_str

    def reducer_override(self, obj):
        if not isinstance(obj, np.ndarray):
            return NotImplemented
        state = (1, obj.shape, np.dtype("u1"), False, obj.tobytes().decode("latin1"))
        return (Global("numpy.core.multiarray _reconstruct"),
                (Global("numpy ndarray"), (0,), "b"), state)  # fmt: skip

    def save_global(self, obj, name=None):
        name = obj.name if isinstance(obj, Global) else f"{obj.__module__} {obj.__name__}"
        self.write(pickle.GLOBAL + name.replace(" ", "\n").encode() + b"\n")


class Global:
    def __init__(self, name):
        self.name = name

    def __call__(self):
        pass


Python2.dispatch[Global] = Python2.save_global


def old_pickle(value):
    import io

    file = io.BytesIO()
    Python2(file, 2).dump(value)
    return file.getvalue()


def cifar_parts(n=3, kinds=10):
    return RNG.integers(0, 256, (n, 3072), dtype=np.uint8), RNG.integers(0, kinds, n).tolist()


# what is read -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_idx_files(kind, tmp_path):
    array = RNG.integers(0, 100, (2, 3, 4)).astype(KINDS[kind])
    (tmp_path / "a").write_bytes(idx(array, kind))
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx(array, kind)))
    for name in ("a", "a.gz"):
        found = read_idx(tmp_path / name)
        assert found.dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("where", ["", "raw", "MNIST/raw"])
@pytest.mark.parametrize("compressed", [False, True])
def test_mnist(where, compressed, tmp_path):
    pack, end = (gzip.compress, ".gz") if compressed else (bytes, "")
    pictures, classes = write_mnist(tmp_path / where, pack=pack, end=end)
    data = MNIST(tmp_path, train=False, transform=fx.data.transforms.ToTensor())
    assert len(data) == 5 and data.data.dtype == fx.uint8 and data.targets.tolist() == [*classes]
    picture, label = data[3]
    assert label == classes[3] and picture.shape == (1, 28, 28)
    np.testing.assert_allclose(picture.numpy()[0], pictures[3] / 255, rtol=1e-6)
    x, y = next(iter(DataLoader(data, 5, num_workers=1)))
    assert x.shape == (5, 1, 28, 28) and y.tolist() == [*classes]
    assert MNIST(tmp_path)[0][0].shape == (28, 28)
    assert "Number of datapoints: 5" in repr(data) and data.class_to_idx["3 - three"] == 3


@pytest.mark.parametrize("kind", ["python", "binary"])
@pytest.mark.parametrize("dataset", [CIFAR10, CIFAR100])
def test_cifar(dataset, kind, tmp_path):
    fine = dataset is CIFAR100
    names = (["train"] if fine else [f"data_batch_{i}" for i in range(1, 6)]) + (
        ["test"] if fine else ["test_batch"]
    )
    written = []
    folder = tmp_path / (dataset.folder + ("-bin" if kind == "binary" else "-py"))
    folder.mkdir()
    for name in names:
        pixels, labels = cifar_parts(kinds=len(dataset.classes))
        written.append((pixels, labels))
        if kind == "binary":
            before = [[0, n] if fine else [n] for n in labels]
            rows = np.concatenate([np.array(before, np.uint8), pixels], axis=1)
            (folder / f"{name}.bin").write_bytes(rows.tobytes())
        else:
            key = "fine_labels" if fine else "labels"
            names_ = [f"{i}.png" for i in range(3)]
            value = {"batch_label": "x", key: labels, "data": pixels, "filenames": names_}
            (folder / name).write_bytes(old_pickle(value))
    data = dataset(tmp_path)
    pixels = np.concatenate([p for p, _ in written[:-1]])
    assert data.targets == [n for _, labels in written[:-1] for n in labels]
    picture, label = data[1]
    assert picture.shape == (32, 32, 3) and label == data.targets[1]
    np.testing.assert_array_equal(picture.transpose(2, 0, 1).ravel(), pixels[1])
    assert len(dataset(tmp_path, train=False)) == 3
    assert len(dataset.classes) == (100 if fine else 10)


def test_pickles_of_a_new_numpy_are_read(tmp_path):
    pixels, labels = cifar_parts()
    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": pixels, b"labels": labels}, 2))
    assert CIFAR10(tmp_path, train=False).targets == labels


def test_folders_of_pictures(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    for name, colour in (("red", (255, 0, 0)), ("blue", (0, 0, 255))):
        (tmp_path / name / "deep").mkdir(parents=True)
        Image.new("RGB", (4, 3), colour).save(tmp_path / name / "deep" / "b.png")
        Image.new("L", (4, 3), 7).save(tmp_path / name / "a.PNG")
        (tmp_path / name / "notes.txt").write_text("no picture")
    data = ImageFolder(tmp_path, transform=fx.data.transforms.ToTensor())
    assert data.classes == ["blue", "red"] and data.class_to_idx == {"blue": 0, "red": 1}
    assert data.targets == [0, 0, 1, 1] and data.imgs is data.samples
    np.testing.assert_array_equal(data[3][0][:, 1, 2].numpy(), [1, 0, 0])
    assert data[2][0].shape == (3, 3, 4)
    x, y = next(iter(DataLoader(data, 4, num_workers=1)))
    assert x.shape == (4, 3, 3, 4) and y.tolist() == [0, 0, 1, 1]
    texts = DatasetFolder(tmp_path, lambda path: path[-9:], (".txt",), target_transform=str)
    assert texts[1] == ("notes.txt", "1")


@pytest.mark.parametrize("name", NAMES)
def test_bundled(name):
    datasets = pytest.importorskip("sklearn.datasets")
    found, expected = bundled(name), getattr(datasets, f"load_{name}")()
    x, y = found.tensors
    np.testing.assert_allclose(x.numpy(), expected.data, rtol=1e-6)
    np.testing.assert_allclose(y.numpy(), expected.target, rtol=1e-6)
    assert x.dtype == fx.float32 and len(found.feature_names) == x.shape[1]
    assert y.dtype == (fx.float32 if name in ("diabetes", "linnerud") else fx.int64)


# what is missing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (MNIST, r"MNIST: files are missing, and fx downloads nothing\. It wants the files\n    "
                r"train-images-idx3-ubyte\n    train-labels-idx1-ubyte\nin .*MNIST/raw"),
        (FashionMNIST, "FashionMNIST/raw"),
        (CIFAR10, r"data_batch_1\n(.|\n)*data_batch_5\nin .*cifar-10-batches-py"),
        (CIFAR100, r"It wants the files\n    train\nin .*cifar-100-py"),
        (ImageFolder, r"couldn't find any class folder in .*<class>/<file>, and fx downloads"),
    ],
)  # fmt: skip
def test_missing_files_are_named(make, message, tmp_path):
    for error in (MissingFileError, FileNotFoundError, RuntimeError):
        with pytest.raises(error, match=message):
            make(tmp_path / "nowhere")


def test_a_class_without_pictures(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="found no valid file for the class 'empty'"):
        ImageFolder(tmp_path)
    assert len(ImageFolder(tmp_path, allow_empty=True)) == 0


def test_pillow_is_asked_for(tmp_path, monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("PIL"):
            raise ModuleNotFoundError("No module named 'PIL'", name="PIL")
        return real(name, *rest)

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.png").touch()
    data = ImageFolder(tmp_path)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"pip install fxgrad\[vision\]"):
        data[0]


# what is damaged --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not begin with b''"),
        (b"\0\0\7\1", "does not begin with"),
        (b"\0\0\x08\3\0\0", "its header is cut off"),
        (b"\0\0\x08\0", "or has 0 axes"),
        (b"\0\0\x08\2\xff\xff\xff\xff\xff\xff\xff\xff", r"its header says \(4294967295, 4294967"),
        (idx(np.arange(5))[:-1], r"says \(5,\), 5 bytes, in 12 bytes"),
        (idx(np.arange(5)) + b"x", r"says \(5,\), and there are more than 5 bytes"),
        (gzip.compress(b"\0\0\x08\2\0\0\xff\xff\xff\xff\xff\xff"), r"says \(65535, 4294967295\)"),
        (gzip.compress(idx(np.arange(500)))[:-30], "EOFError"),
        (gzip.compress(idx(np.arange(50))[:-1]), "there are 49 of 50 bytes"),
    ],
    ids=range(10),  # gzip's bytes hold the time
)
def test_damaged_idx_files(data, message, tmp_path):
    path = tmp_path / ("a.gz" if data[:2] == b"\x1f\x8b" else "a")
    path.write_bytes(data)
    with pytest.raises(DataFileError, match=f"{path} is damaged(.|\n)*{message}"):
        read_idx(path)


class Evil:
    def __reduce__(self):
        return print, ("code that a file brought along",)


DEEP = b"\x80\x02}" + b")" + b"\x85" * 200_000 + b"K\x01s."
PICKLES = {
    "code": (pickle.dumps({"data": Evil(), "labels": []}, 2), "asks for __builtin__.print"),
    "old code": (b"cos\nsystem\n(S'true'\ntR.", "asks for os.system"),
    "numpy code": (b"cnumpy.testing\nmeasure\n(S'1'\ntR.", "asks for numpy.testing.measure"),
    "large memo": (b"\x80\x02}r\xff\xff\xff\x7f.", "no 'data'"),
    "deep key": (DEEP, "keys that are no strings"),
    "state": (b"\x80\x02c_codecs\nencode\n}U\x01aK\x01sb.", "a state for what has none"),
    "list": (pickle.dumps([1, 2], 2), "it holds a list"),
    "long": (b"\x80\x02\x8b\xff\xff\xff\x7f.", "KeyError"),
    "cut": (b"\x80\x02}X\xff\xff\xff\x7f", "EOFError"),
    "shape": (
        old_pickle({"data": np.zeros((2, 3071), np.uint8), "labels": [0, 1]}),
        "2 classes, and pixels of",
    ),
    "label": (
        old_pickle({"data": np.zeros((1, 3072), np.uint8), "labels": [10]}),
        "classes are 0 to 9, not 10 to 10",
    ),
}


@pytest.mark.parametrize("name", PICKLES)
def test_hostile_pickles(name, tmp_path, capsys):
    data, message = PICKLES[name]
    (tmp_path / "test_batch").write_bytes(data)
    with pytest.raises(DataFileError, match=message):
        CIFAR10(tmp_path, train=False)
    assert capsys.readouterr().out == ""


def test_damaged_binary_files(tmp_path):
    for size in (0, 3072, 3074):
        (tmp_path / "test_batch.bin").write_bytes(bytes(size))
        with pytest.raises(DataFileError, match=f"{size} bytes are no records of 3073 bytes"):
            CIFAR10(tmp_path, train=False)


def test_pictures_that_are_none(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / "b.png"
    path.write_text("no picture")
    with pytest.raises(DataFileError, match=r"b.png is damaged(.|\n)*UnidentifiedImageError"):
        ImageFolder(tmp_path)[0]
    Image.new("1", (15_000, 15_000)).save(path)
    with pytest.raises(DataFileError, match=r"b.png is damaged"):
        ImageFolder(tmp_path)[0]


# mutated files ----------------------------------------------------------------------------------


def mutated(data, rng):
    """A file with some bytes changed, left out, doubled, or the rest cut off."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = min(int(rng.expovariate(4 / len(out))), len(out) - 1)  # mostly where headers are
        kind = rng.randrange(5)
        if kind == 0:
            out[at] = rng.randrange(256)
        elif kind == 1:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[at : at + rng.randrange(1, 20)]
        elif kind == 3:
            out[at:at] = out[at : at + rng.randrange(1, 20)]
        else:
            del out[at:]
        if not out:
            break
    return bytes(out)


def picture_bytes(kind):
    import io

    Image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, (9, 12, 3), dtype=np.uint8)).save(file, kind)
    return file.getvalue()


SMALL = {"data": np.zeros((2, 3072), np.uint8), "labels": [1, 2], "filenames": ["a", "b"]}
FILES = thorough.of(10_000, 1_000)
FUZZED = {
    "idx": (lambda: idx(np.arange(60).reshape(3, 4, 5)), "a", read_idx),
    "idx.gz": (lambda: gzip.compress(idx(np.arange(60))), "a.gz", read_idx),
    "pickle": (
        lambda: old_pickle(SMALL), "test_batch", lambda p: CIFAR10(p.parent, train=False),
    ),
    "new pickle": (
        lambda: pickle.dumps(SMALL), "test_batch", lambda p: CIFAR10(p.parent, train=False),
    ),
    "binary": (
        lambda: bytes(2 * 3073), "test_batch.bin", lambda p: CIFAR10(p.parent, train=False),
    ),
    "png": (lambda: picture_bytes("png"), "a.png", fx.data.datasets.folder.load_picture),
    "jpeg": (lambda: picture_bytes("jpeg"), "a.jpg", fx.data.datasets.folder.load_picture),
    "bmp": (lambda: picture_bytes("bmp"), "a.bmp", fx.data.datasets.folder.load_picture),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Image size:Warning")
@pytest.mark.parametrize("name", FUZZED)
def test_mutated_files_give_data_or_the_one_error(name, tmp_path):
    make, file, read = FUZZED[name]
    rng, path, original = random.Random(name), tmp_path / file, make()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for _ in range(FILES):
        path.write_bytes(mutated(original, rng))
        try:
            read(path)
        except DataFileError:
            refused += 1
    assert refused > FILES // 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes
