"""The CPU's table of kernels: each name in one file, and none that no primitive asks for."""

import gc
from importlib import import_module
from keyword import iskeyword
from pkgutil import iter_modules

import numpy as np
import pytest

import fx.prims
from fx.backends import cpu
from fx.errors import RegistrationError
from fx.primitive import Primitive, registry
from fx.prims.fused import fuse

NAMES = {name: file for file, names in cpu.KERNELS.items() for name in names.split()}


def test_each_name_stands_in_one_file():
    assert sum(len(names.split()) for names in cpu.KERNELS.values()) == len(NAMES)
    for name, file in NAMES.items():
        module = import_module(f"fx.backends.cpu.{file}")
        assert callable(getattr(module, name + "_" * iskeyword(name), None)), (file, name)


def test_each_kernel_is_that_of_a_primitive():
    for module in iter_modules(fx.prims.__path__):
        import_module(f"fx.prims.{module.name}")
    import_module("fx.nn.functional.grids")  # its primitives stand beside their use
    gc.unfreeze()  # tests freeze what was imported
    objects = gc.get_objects()  # fused ones are in no list; a weak proxy has no class any more
    found = [p for p in objects if issubclass(type(p), Primitive)]
    gc.freeze()
    asked = {p.name for p in found if p.cpu is cpu.kernel_for(p)}
    assert asked == set(NAMES)
    assert {name for names in cpu.FORMULAS.values() for name in names.split()} <= {
        p.name for p in found if p.formula is not None
    }


def test_what_nobody_has_a_kernel_for_is_refused():
    with pytest.raises(RegistrationError, match="primitive 'twisted' lacks its cpu rule"):
        fuse("twisted", reference=lambda x: x)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "name, peer",
    [("relu", lambda x: np.maximum(x, x.dtype.type(0))), ("reciprocal", np.reciprocal)],
)
def test_what_is_compiled_from_some_size_on_has_numpys_bits(name, peer, dtype):
    x = np.random.default_rng(0).standard_normal(1 << 14) * 3
    x[:7] = 0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -1e-40
    x = x.astype(dtype)
    with np.errstate(all="ignore"):
        assert registry[name].cpu(x).tobytes() == peer(x).tobytes()
