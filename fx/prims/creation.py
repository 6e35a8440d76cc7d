"""Primitives that make a tensor from nothing, and the 0-d constants of weak scalars."""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from fx.devices import backend
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.sampling import Sample
from fx.quick import quick
from fx.spec import TensorSpec
from fx.tensor import Tensor, new_tensor


def _spec(*, shape, dtype, device, **params):
    return TensorSpec(shape, dtype, device)


def no_lanes(level, args, dims, **params):
    raise AssertionError("a primitive without arguments is never batched")


full = define(
    "full", kind="creation", spec=_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    batch=no_lanes,
    sample=lambda d: Sample(
        [], {"shape": d.shape(), "value": 1.5, "dtype": d.dtype, "device": "cpu"}
    ),
)  # fmt: skip
filled = quick(full, "shape", "value", "dtype", "device", tensors=0)
iota = define(  # start + step * index along one axis
    "iota", kind="creation", spec=_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    batch=no_lanes,
    sample=lambda d: Sample(
        [],
        {"shape": (s := d.shape(1)), "axis": d.axis(len(s)), "start": 1, "step": 2,
         "dtype": d.dtype, "device": "cpu"},
    ),
)  # fmt: skip
counted = quick(iota, "shape", "axis", "start", "step", "dtype", "device", tensors=0)


constants: dict[str, dict[Any, dict[Any, Tensor]]] = {}  # device -> dtype -> value -> tensor
_on_cpu = constants.setdefault("cpu", {})
_MOST = 4096  # scalars kept for a dtype


def constants_of(dtype: Any, device: str) -> dict[Any, Tensor]:
    """The 0-d tensors that were made before, by their (true) Python value."""
    by_dtype = constants.setdefault(device, {})
    found = by_dtype.get(dtype)
    return by_dtype.setdefault(dtype, {}) if found is None else found


def constant(value: Any, dtype: Any, device: str = "cpu") -> Tensor:
    """A 0-d tensor of a Python scalar; those that were used before are shared."""
    known = constants_of(dtype, device)
    key = value if value and type(value) is not complex else repr(value)
    found = known.get(key)  # as keys, -0.0 == 0.0 == 0j and 2-0j == 2+0j == 2.0
    if found is None:
        array = full.cpu(shape=(), value=value, dtype=dtype, device="cpu")
        found = new_tensor(backend(device).from_numpy(array))
        if len(known) > _MOST:
            known.clear()
        known[key] = found
    return found


def constant_like(value: Any, x: Tensor) -> Tensor:
    """``constant`` with the dtype and the device of ``x``."""
    if type(x) is Tensor and type(x._a) is ndarray:
        dtype = x._a.dtype
        known = _on_cpu.get(dtype)
        if known is not None and type(value) is not complex:
            found = known.get(value if value else repr(value))
            if found is not None:
                return found
        return constant(value, dtype)
    return constant(value, x.dtype, x.device.name)


def constants_like(values: Any, x: Tensor) -> Tensor:
    """An array of NumPy with the dtype and on the device of ``x``."""
    return new_tensor(backend(x.device.name).from_numpy(values.astype(x.dtype)))


def zeros_like_spec(spec: TensorSpec) -> Tensor:
    """Zeros of a spec."""
    return full(shape=spec.shape, value=0, dtype=spec.dtype, device=spec.device)
