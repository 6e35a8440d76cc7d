"""Registering a backend: what is refused, and a package that brings one."""

import os
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import numpy as np
import pytest

import fx
from fx.errors import DeviceError, RegistrationError

SAMPLE = Path(__file__).parent.parent / "sample_backend"


class Array:
    def __init__(self, memory):
        self.memory = np.asarray(memory)

    shape = property(lambda self: self.memory.shape)
    dtype = property(lambda self: self.memory.dtype)
    ndim = property(lambda self: self.memory.ndim)


def backend(**hooks):
    """A backend of its own array type that runs NumPy's kernels, with other hooks where given."""
    kind = type("Array", (Array,), {})

    def kernel_for(primitive):
        def kernel(*arrays, **params):
            out = primitive.cpu(*[a.memory for a in arrays], **params)
            return tuple(map(kind, out)) if primitive.multiple else kind(out)

        return kernel

    own = {
        "ARRAY": kind, "from_numpy": lambda a: kind(a.copy()), "to_numpy": lambda a: a.memory,
        "kernel_for": kernel_for,
    }  # fmt: skip
    return types.SimpleNamespace(**{k: v for k, v in (own | hooks).items() if v is not None})


@pytest.mark.parametrize(("name", "module", "words"), [
    ("cpu", {}, "there is a device 'cpu' already"),
    ("two words", {}, "called by one word"),
    ("odd", {"to_numpy": None}, "'odd' lacks to_numpy"),
    ("odd", {"ARRAY": None, "kernel_for": None}, "lacks ARRAY, kernel_for"),
    ("odd", {"ARRAY": np.ndarray}, "which is that of another device"),
    ("odd", {"ARRAY": 3}, "expected the type of its arrays"),
    ("odd", {"device_count": lambda: 2}, "device_count and device_index, or neither"),
])  # fmt: skip
def test_registration_refuses(unregistered, name, module, words):
    with pytest.raises(RegistrationError, match=words):
        fx.register_backend(name, backend(**module))
    with pytest.raises(DeviceError, match="there is no device 'odd'"):
        fx.device("odd")


def test_a_name_is_taken_once(unregistered):
    fx.register_backend("odd", backend())
    assert fx.ones(2, device="odd").cpu().tolist() == [1.0, 1.0]
    with pytest.raises(RegistrationError, match="there is a device 'odd' already"):
        fx.register_backend("odd", backend())


def test_a_primitive_without_a_kernel_there_is_named(unregistered):
    fx.register_backend("odd", backend(kernel_for=lambda primitive: None))
    with pytest.raises(DeviceError, match=r"'odd' has no kernel for full; .* x.to\('cpu'\)"):
        fx.ones(2, device="odd")


@pytest.mark.parametrize(("wrong", "words"), [
    (lambda out: out.reshape(-1)[:1], r"gave float32\[1\].* as a result of exp, expected"),
    (lambda out: out.astype("float64"), "gave float64.* as a result of exp, expected float32"),
])  # fmt: skip
def test_a_wrong_result_is_named(unregistered, wrong, words):
    module = backend()
    right = module.kernel_for

    def kernel_for(primitive):
        kernel = right(primitive)
        if primitive.name != "exp":
            return kernel
        return lambda *arrays, **params: module.ARRAY(wrong(kernel(*arrays, **params).memory))

    module.kernel_for = kernel_for
    fx.register_backend("odd", module)
    x = fx.ones((2, 3), device="odd")
    assert (x + x).cpu().tolist() == [[2.0] * 3] * 2
    for _ in range(2):
        with pytest.raises(DeviceError, match=words):
            fx.exp(x)


def test_a_result_of_another_library_is_named(unregistered):
    module = backend()
    module.kernel_for = lambda primitive: lambda *arrays, **params: [1, 2]
    fx.register_backend("odd", module)
    with pytest.raises(
        DeviceError, match="gave a list as a result of full, expected its own Array"
    ):
        fx.ones(2, device="odd")


def test_an_installed_package_brings_a_device(tmp_path):
    """As pip leaves it: the package, and what its metadata say of entry points."""
    shutil.copytree(SAMPLE / "sample_backend", tmp_path / "sample_backend")
    about = tomllib.loads((SAMPLE / "pyproject.toml").read_text())["project"]
    told = tmp_path / f"sample_backend-{about['version']}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Name: {about['name']}\nVersion: {about['version']}\n")
    points = "\n".join([
        f"[{group}]\n" + "\n".join([f"{k} = {v}" for k, v in entries.items()])
        for group, entries in about["entry-points"].items()
    ])  # fmt: skip
    (told / "entry_points.txt").write_text(points)
    path = os.pathsep.join([str(tmp_path), str(Path(fx.__file__).parent.parent)])
    command = [sys.executable, "-m", "fx.testing", "--device", "sample", "--examples", "1"]
    names = ["tanh", "take", "device_put"]
    done = subprocess.run(
        [*command, *names], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tanh" in done.stdout and "x" not in done.stdout.splitlines()[-1].split()[1]
