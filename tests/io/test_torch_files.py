"""PyTorch's files: what torch.save writes, fx.load reads, and the other way round."""

import io
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest

import fx
from fx.io.archive import ArchiveReader, ArchiveWriter

torch = pytest.importorskip("torch")

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
          "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]  # fmt: skip


def changed(file, change):
    """The archive with records that ``change(name, data)`` gives."""
    archive, out = ArchiveReader(file, "x"), io.BytesIO()
    writer = ArchiveWriter(out)
    for name in archive.entries:
        writer.add(name, change(name, archive.read(name)))
    writer.close()
    return out.getvalue()


SAVES = {
    "zip": {},
    "protocol 3": {"pickle_protocol": 3},
    "protocol 4": {"pickle_protocol": 4},
    "protocol 5": {"pickle_protocol": 5},
    "legacy": {"_use_new_zipfile_serialization": False},
}


def from_torch(value, save=None, **options):
    file = io.BytesIO()
    torch.save(value, file, **(save or {}))
    file.seek(0)
    return fx.load(file, **options)


def to_torch(value):
    file = io.BytesIO()
    fx.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def through_fx(value, **options):
    file = io.BytesIO()
    fx.save(value, file)
    return fx.load(file, **options)


def same(x, t):
    """The tensor of fx has dtype, shape and values of PyTorch's, bit for bit."""
    assert str(t.dtype) == f"torch.{x.dtype.name}"
    assert x.shape == tuple(t.shape)
    theirs = t.detach().resolve_conj().contiguous().reshape(-1)
    ours = np.ascontiguousarray(np.asarray(x.detach())).reshape(-1)
    assert ours.tobytes() == bytes(theirs.view(torch.uint8).numpy() if t.numel() else b"")
    assert x.requires_grad == t.requires_grad


def tensors(dtype):
    """Tensors of all kinds of layout."""
    d = getattr(torch, dtype)
    x = (torch.arange(24).reshape(4, 6) % 2).to(d) if dtype == "bool" else torch.arange(24).to(d)
    x = x.reshape(4, 6)
    return {
        "whole": x, "transposed": x.t(), "slice": x[1:3, 2:5], "row": x[2], "column": x[:, 3],
        "every second": x[::2, ::3], "0-d": x[1, 1], "expanded": x[:1].expand(5, 6),
        "permuted": x.reshape(2, 3, 4).permute(2, 0, 1), "copy": x.clone(),
        "nothing": x[:0], "no columns": x[:, :0],
    }  # fmt: skip


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_torch(dtype, save):
    wanted = tensors(dtype)
    found = from_torch(wanted, SAVES[save])
    for name, t in wanted.items():
        same(found[name], t)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_for_torch(dtype):
    mine = from_torch(tensors(dtype))
    theirs = to_torch(mine)
    for name, x in mine.items():
        same(x, theirs[name])
        if x.ndim > 1 and x.size and name != "every second":
            assert theirs[name].stride() == tensors(dtype)[name].stride()


@pytest.mark.parametrize("save", SAVES)
def test_views_share_memory(save):
    x = torch.arange(12.0).reshape(3, 4)
    found = from_torch([x, x.t(), x[1:]], SAVES[save])
    assert all(np.shares_memory(found[0]._a, y._a) for y in found[1:])


def test_views_share_memory_for_torch():
    x = fx.arange(12.0).reshape((3, 4))
    weight = fx.nn.Parameter(fx.ones(3))
    a, b, c, p, q = to_torch([x, x.T, x[1:], weight, weight])
    assert a.data_ptr() == b.data_ptr() == c.data_ptr() - 16
    assert p is q


def test_a_small_part_of_a_large_tensor_is_small_in_the_file():
    x = fx.zeros((1000, 1000))
    for part in (x[3], x[:, 3], x[::100, ::100]):
        file = io.BytesIO()
        fx.save([part], file)
        assert len(file.getvalue()) < 10_000


def test_reversed_views():
    x = fx.arange(6.0)[::-1]
    assert to_torch([x])[0].tolist() == [5, 4, 3, 2, 1, 0]


def test_requires_grad_parameters_and_conjugates():
    t = torch.tensor([1 + 2j, 3j])
    model = torch.nn.Linear(2, 3)
    wanted = [t.conj(), torch.ones(2, requires_grad=True), model.weight]
    for save in SAVES.values():
        z, leaf, weight = from_torch(wanted, save)
        same(z, wanted[0])
        same(leaf, wanted[1])
        same(weight, wanted[2])
        assert type(weight) is fx.nn.Parameter
        assert from_torch(t.conj().imag, save).tolist() == [-2, -3]
    leaf, weight = to_torch([fx.ones(2, requires_grad=True), fx.nn.Linear(2, 3).weight])
    assert leaf.requires_grad
    assert type(weight) is torch.nn.Parameter


PLAIN = [
    None, True, 3, -(2**31), 2**31, 2**100, -(2**300), 1.5, float("inf"), 1j, "text", "ümlaut", "",
    b"bytes", b"", bytearray(b"array"), (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [1, [2]], {},
    {"a": {"b": 1}}, {1: 2, (1, "x"): 3, None: 4}, set(), {1, 2}, OrderedDict(a=1),
    Counter("aab"), list(range(2000)),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda v: f"{v!r:.20}")
def test_plain_values(value):
    saves = list(SAVES.values())
    for save in saves[:1] if isinstance(value, bytearray) else saves:
        found = from_torch(value, save)
        assert found == value
        assert type(found) is type(value)
    if value != b"":
        assert through_fx(value) == value
    assert to_torch(value) == value


def test_plain_values_that_only_fx_restores():
    values = [defaultdict(list, a=[1]), deque([1, 2], 3), frozenset((1, 2)), np.arange(3),
              np.float32(2.5), np.array("text"), np.ones((2, 3), fx.bfloat16)]  # fmt: skip
    found = through_fx(values)
    assert str(found) == str(values)
    assert found[0].default_factory is list
    assert str(from_torch(values)) == str(values)


def test_values_of_torch():
    value = {"dtype": torch.float32, "device": torch.device("cpu"), "size": torch.Size([1, 2]),
             "meta": torch.empty(2, 3, device="meta")}  # fmt: skip
    found = from_torch(value)
    assert found["dtype"] == fx.float32
    assert found["device"] == fx.device("cpu")
    assert found["size"] == (1, 2)
    assert found["meta"].shape == (2, 3)
    assert found["meta"].device == "meta"
    again = to_torch(found)
    assert again["dtype"] is torch.float32
    assert again["device"] == torch.device("cpu")
    assert again["meta"].is_meta


def test_state_dicts_and_their_metadata():
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    mine = fx.nn.Sequential(fx.nn.Linear(2, 3), fx.nn.BatchNorm1d(3))
    state = from_torch(theirs.state_dict())
    assert type(state) is OrderedDict
    assert state._metadata == theirs.state_dict()._metadata
    mine.load_state_dict(state)
    back = to_torch(mine.state_dict())
    assert torch.nn.Sequential(*theirs).load_state_dict(back)
    for name, t in theirs.state_dict().items():
        assert torch.equal(back[name], t)


def test_optimizers_state():
    theirs = torch.nn.Linear(2, 3)
    adam = torch.optim.Adam(theirs.parameters(), lr=0.1)
    theirs(torch.ones(2)).sum().backward()
    adam.step()
    mine = fx.nn.Linear(2, 3)
    optimizer = fx.optim.Adam(mine.parameters())
    optimizer.load_state_dict(from_torch(adam.state_dict()))
    adam.load_state_dict(to_torch(optimizer.state_dict()))
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_map_location():
    x = {"x": torch.ones(2), "y": torch.zeros(3)}
    assert str(from_torch(x, map_location="meta")["x"].device) == "meta"
    assert str(from_torch(x, map_location=fx.device("cpu"))["x"].device) == "cpu"
    assert str(from_torch(x, map_location={"cpu": "meta"})["x"].device) == "meta"
    assert from_torch(x, map_location={"cuda:0": "cpu"})["x"].tolist() == [1, 1]
    seen = []

    def place(storage, tag):
        seen.append((storage.nbytes(), storage.size(), tag))
        return storage.cpu() if tag == "cpu" else None

    assert from_torch(x, map_location=place)["y"].tolist() == [0, 0, 0]
    assert sorted(seen) == [(8, 2, "cpu"), (12, 3, "cpu")]
    with pytest.raises(TypeError, match=r"map_location='cpu'"):
        from_torch(x, map_location=3)
    with pytest.raises(TypeError, match=r"must return the storage"):
        from_torch(x, map_location=lambda storage, tag: 3)


@pytest.mark.parametrize("save", ["zip", "legacy"])
def test_tensors_of_a_device_that_is_not_here(save):
    file = io.BytesIO()
    torch.save({"x": torch.ones(2)}, file, **SAVES[save])
    if save == "zip":
        data = changed(file, lambda name, data: data.replace(b"cpu", b"xpu"))
    else:
        data = file.getvalue().replace(b"cpu", b"xpu")
    with pytest.raises(fx.errors.DeviceError, match=r"'xpu'.*map_location='cpu'"):
        fx.load(io.BytesIO(data))
    assert fx.load(io.BytesIO(data), map_location="cpu")["x"].tolist() == [1, 1]


def test_big_endian_files():
    file = io.BytesIO()
    value = [torch.arange(3), torch.tensor([1 + 2j]), torch.ones(2, dtype=torch.bfloat16)]
    torch.save(value, file)

    def swap(name, data):
        if name.endswith("byteorder"):
            return b"big"
        if "/data/" not in name:
            return data
        width = {24: 8, 8: 4, 4: 2}[len(data)]
        return np.frombuffer(data, f"u{width}").byteswap().tobytes()

    for x, t in zip(fx.load(io.BytesIO(changed(file, swap))), value):
        same(x, t)


@pytest.mark.parametrize("mmap", [False, True])
def test_paths_and_mapped_files(tmp_path, mmap):
    path = tmp_path / "model.pt"
    x = torch.arange(3_000_000.0)
    torch.save({"x": x, "y": [x[5:10]]}, path)
    found = fx.load(path, mmap=mmap)
    same(found["x"], x)
    same(found["y"][0], x[5:10])
    fx.save(found, path.with_name("again.pth"))
    again = torch.load(path.with_name("again.pth"), mmap=mmap)
    assert torch.equal(again["x"], x)
    if mmap:  # a write of compiled code that owns the tensor must not reach the file
        found["x"]._a[0] = 7
        assert torch.load(path)["x"][0] == 0


def test_mmap_of_what_cannot_be_mapped(tmp_path):
    with pytest.raises(ValueError, match="needs the path"):
        from_torch([torch.ones(2)], mmap=True)
    with pytest.raises(ValueError, match="mmap=False"):
        from_torch([torch.ones(2)], SAVES["legacy"], mmap=True)


def test_a_compressed_archive():
    file, out = io.BytesIO(), io.BytesIO()
    torch.save([torch.zeros(1000)], file)
    source = zipfile.ZipFile(file)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name))
    assert fx.load(out)[0].shape == (1000,)


def test_several_pickles_of_legacy_files_in_one_file():
    file = io.BytesIO()
    for i in range(3):
        torch.save([torch.tensor(i)], file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert [fx.load(file)[0].item() for _ in range(3)] == [0, 1, 2]
