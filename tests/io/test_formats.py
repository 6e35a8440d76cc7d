"""safetensors, .npz and .npy; prefixes; whole objects."""

import copy
import io
from collections import OrderedDict

import numpy as np
import pytest

import fx
from fx import nn
from fx.dtypes import ALL
from fx.errors import DTypeError, FileFormatError


def tensors():
    """One of each dtype, and of some layouts."""
    x = fx.arange(12.0).reshape((3, 4))
    found = {d.name: (fx.arange(6) % 2).astype(d).reshape((2, 3)) for d in ALL}
    return found | {"t": x.T, "column": x[:, 1], "0-d": fx.tensor(2.5), "empty": fx.zeros((0, 3))}


def same(found, wanted):
    assert set(found) == set(wanted)
    for name, x in wanted.items():
        assert found[name].dtype == x.dtype, name
        assert found[name].shape == x.shape
        assert np.asarray(found[name]).tobytes() == np.asarray(x).tobytes()


# safetensors ------------------------------------------------------------------------------------


def test_safetensors(tmp_path):
    wanted = {k: v for k, v in tensors().items() if v.dtype != fx.complex128}
    fx.save(wanted, tmp_path / "x.safetensors")
    same(fx.load(tmp_path / "x.safetensors"), wanted)
    data = fx.io.safetensors.save(wanted)
    same(fx.io.safetensors.load(data), wanted)
    same(fx.load(io.BytesIO(data)), wanted)


def test_safetensors_of_others_and_for_others(tmp_path):
    theirs = pytest.importorskip("safetensors.numpy")
    arrays = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.ones(2, bool)}
    theirs.save_file(arrays, tmp_path / "theirs.safetensors", {"k": "v"})
    same(fx.load(tmp_path / "theirs.safetensors"), {k: fx.asarray(v) for k, v in arrays.items()})
    assert fx.io.safetensors.load_metadata(tmp_path / "theirs.safetensors") == {"k": "v"}
    path = tmp_path / "mine.safetensors"
    fx.io.safetensors.save_file(nn.Linear(2, 3).state_dict(), path, {"made by": "fx"})
    assert sorted(theirs.load_file(path)) == ["bias", "weight"]
    assert fx.io.safetensors.load_metadata(path) == {"made by": "fx"}


def test_safetensors_refuses(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(DTypeError, match=r"complex64"):
        fx.save({"x": fx.ones(2, dtype=fx.complex128)}, path)
    with pytest.raises(DTypeError, match=r"dict of tensors by name, got list"):
        fx.save([fx.ones(2)], path)
    with pytest.raises(DTypeError, match=r"str\(value\)"):
        fx.io.safetensors.save_file({"x": fx.ones(2)}, path, {"epoch": 3})
    path.write_bytes(b"\x10\0\0\0\0\0\0\0{" + b"x" * 30)
    with pytest.raises(FileFormatError, match=r"x\.safetensors: "):
        fx.load(path)


def test_safetensors_on_a_device(tmp_path):
    fx.save({"x": fx.ones(2)}, tmp_path / "x.safetensors")
    found = fx.io.safetensors.load_file(tmp_path / "x.safetensors", device="meta")
    assert str(found["x"].device) == "meta"


# NumPy ------------------------------------------------------------------------------------------


def test_npz(tmp_path):
    wanted = tensors()
    fx.save(wanted, tmp_path / "x.npz")
    same(fx.load(tmp_path / "x.npz"), wanted)
    theirs = np.load(tmp_path / "x.npz")
    for name, x in wanted.items():
        assert theirs[name].tobytes() == np.asarray(x).tobytes()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_of_numpy(save):
    file = io.BytesIO()
    arrays = {"a": np.arange(6.0).reshape(2, 3), "f": np.arange(6).reshape(2, 3).T,
              "big": np.arange(3, dtype=">i4"), "flags": np.array([True, False])}  # fmt: skip
    save(file, **arrays)
    file.seek(0)
    found = fx.load(file)
    for name, x in arrays.items():
        assert found[name].dtype == x.dtype.newbyteorder("=")
        assert found[name].tolist() == x.tolist()


@pytest.mark.parametrize("name", [d.name for d in ALL] + ["t", "column", "0-d", "empty"])
def test_npy(name, tmp_path):
    x = tensors()[name]
    fx.save(x, tmp_path / "x.npy")
    same({"x": fx.load(tmp_path / "x.npy")}, {"x": x})
    assert np.load(tmp_path / "x.npy").tobytes() == np.asarray(x).tobytes()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([{}], object), "allow_pickle"),
        (np.array(["text"]), r"'<U4', which is none of fx"),
        (np.zeros(2, "f4,i4"), "none of fx"),
        (np.zeros(2, "M8[s]"), "none of fx"),
    ],
)
def test_npy_refuses(array, message):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    file.seek(0)
    with pytest.raises(FileFormatError, match=message):
        fx.load(file)


def test_npz_refuses(tmp_path):
    with pytest.raises(DTypeError, match=r"dict of tensors by name"):
        fx.save(fx.ones(2), tmp_path / "x.npz")


def test_headers_that_promise_too_much():
    file = io.BytesIO()
    np.save(file, np.zeros(2))
    data = file.getvalue().replace(b"(2,)", b"(9,)")
    with pytest.raises(FileFormatError, match=r"has 72 bytes, and the file holds 16"):
        fx.load(io.BytesIO(data))


# prefixes ---------------------------------------------------------------------------------------


def test_strip_prefix():
    state = OrderedDict({"module._orig_mod.a.w": 1, "module._orig_mod.a.b": 2})
    state._metadata = OrderedDict(
        {"": 0, "module": 1, "module._orig_mod": 2, "module._orig_mod.a": 3}
    )
    found = fx.io.strip_prefix(state)
    assert list(found) == ["a.w", "a.b"]
    assert type(found) is OrderedDict
    assert found._metadata["a"] == 3
    assert fx.io.strip_prefix(state, "module.") == {"_orig_mod.a.w": 1, "_orig_mod.a.b": 2}
    mixed = {"module.a": 1, "b": 2}
    assert fx.io.strip_prefix(mixed) is mixed


def test_load_strips_prefixes_wherever_state_dicts_are():
    file = io.BytesIO()
    model = nn.Linear(2, 3)
    fx.save({"model": {f"module.{k}": v for k, v in model.state_dict().items()}, "n": 1}, file)
    assert list(fx.load(file, strip_prefix=True)["model"]) == ["weight", "bias"]
    assert list(fx.load(file, strip_prefix="mod")["model"]) == ["ule.weight", "ule.bias"]
    assert list(fx.load(file)["model"]) == ["module.weight", "module.bias"]


# whole objects ----------------------------------------------------------------------------------


class Net(nn.Module):
    """A model with ties, buffers, settings and state."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
        self.tied = nn.Linear(3, 3)
        self.tied.weight = self.inner[0].weight
        self.kind = fx.float32
        self.scale = 2.0

    def forward(self, x):
        return self.tied(self.inner(x)) * self.scale


def test_a_whole_model_and_its_optimizer():
    model = Net()
    optimizer = fx.optim.Adam(model.parameters(), lr=0.1)
    model(fx.ones((4, 3))).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    fx.save({"model": model, "optimizer": optimizer}, file)
    with pytest.raises(FileFormatError, match=r"asks for .*\.Net, .*weights_only=False"):
        fx.load(file)
    found = fx.load(file, weights_only=False)
    again = found["model"]
    assert type(again) is Net
    assert again.tied.weight is again.inner[0].weight
    assert again.kind == fx.float32
    assert again.tied.bias.name == model.tied.bias.name
    assert found["optimizer"].param_groups[0]["params"][0] is again.inner[0].weight
    x = fx.ones((4, 3))
    assert (again.eval()(x) == copy.deepcopy(model).eval()(x)).all()
    for net, adam in ((model, optimizer), (again, found["optimizer"])):
        net.eval()
        adam.zero_grad()
        net(x).sum().backward()
        adam.step()
    assert (again.tied.weight == model.tied.weight).all()


def test_a_model_of_torch_is_refused_by_name():
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save(torch.nn.Linear(2, 3), file)
    for weights_only in (True, False):
        with pytest.raises(FileFormatError, match=r"torch\.nn\.modules\.linear\.Linear"):
            fx.load(file, weights_only=weights_only)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: t.ones(2, 2).to_sparse(), "to_dense"),
        (lambda t: t.quantize_per_tensor(t.ones(2), 0.1, 0, t.qint8), "quantised"),
        (lambda t: t.ones(2).to(t.float8_e4m3fn), "float8_e4m3fn"),
    ],
)
def test_kinds_of_tensors_that_fx_does_not_have(make, message):
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save(make(torch), file)
    for weights_only in (True, False):
        with pytest.raises(FileFormatError, match=message):
            fx.load(file, weights_only=weights_only)


def test_files_of_older_pytorch_hold_storages_at_once():
    from tests.io.fuzzing import LEGACY

    found = fx.load(LEGACY)
    assert found["part"].tolist() == [[5, 6], [9, 10]]
    assert found["z"].tolist() == [1 - 2j]
    assert type(found["weight"]) is nn.Parameter
    assert str(fx.load(LEGACY, weights_only=False)) == str(found)


def test_large_files_use_wide_fields(tmp_path, monkeypatch):
    """Sizes beyond 4 GB, as a smaller limit makes them of small files."""
    from fx.io import archive

    monkeypatch.setattr(archive, "_LIMIT", 1000)
    x = fx.arange(1000.0)
    path = tmp_path / "x.pt"
    fx.save({"x": x, "y": x[:10] + 1}, path)
    monkeypatch.undo()
    assert fx.load(path)["y"].tolist() == (x[:10] + 1).tolist()
    torch = pytest.importorskip("torch")
    assert torch.load(path)["x"].tolist() == x.tolist()
