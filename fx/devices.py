"""Devices: names, the objects that carry them, and the one place where a device is chosen.

A backend is a module with the hooks that ``fx/backends/README.md`` lists. It is loaded when its
device is first asked for: fx's own, those of ``register_backend``, and those that packages
declare as entry points of the group ``fx.backends``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Any

import numpy as np

from fx.config import default_device, modes
from fx.errors import DeviceError, RegistrationError
from fx.frames import count_as_internal
from fx.modes import Defaults
from fx.spec import TensorSpec

_BACKENDS: dict[str, Any] = {"cpu": "fx.backends.cpu", "meta": "fx.backends.meta"}
_loaded: dict[str, Any] = {}  # by the whole name, "fake:1"
# the array type of each loaded backend -> its device's name, or what names the device of an array
device_of_array: dict[type, Any] = {}

_HOOKS = ("ARRAY", "from_numpy", "to_numpy", "kernel_for")
_FACTS = ("shape", "dtype", "ndim")  # of an array
_ENTRY_POINTS = "fx.backends"
_ACCELERATORS = ("cuda", "mps", "xpu", "hpu", "tpu")
_INSTEAD = "; write device = '{0}' if torch.{0}.is_available() else 'cpu'"


class Device:
    """A device, as ``x.device`` and ``fx.device("cpu")`` give it; a context manager as well.

    Inside ``with fx.device("meta"):`` new tensors of this thread live on that device. Where a kind
    has several devices, ``"kind"`` is the first of them, ``"kind:0"``.

    Raises:
        DeviceError: if there is no such device.

    Example:
        >>> import fx
        >>> with fx.device("meta"):
        ...     fx.zeros((1000, 1000)).device
        device(type='meta')
    """

    __slots__ = ("_saved", "name")

    name: str

    def __init__(self, name: Any) -> None:
        self.name = name.name if isinstance(name, Device) else _full_name(str(name))
        self._saved: tuple[str | None, ...] = ()

    @property
    def type(self) -> str:
        """The device's kind, such as ``"cpu"`` or ``"meta"``."""
        return self.name.partition(":")[0]

    @property
    def index(self) -> int | None:
        """Its number among the devices of its kind; None where these are not numbered."""
        number = self.name.partition(":")[2]
        return int(number) if number else None

    def __enter__(self) -> Device:
        self._saved = (*self._saved, modes.device)
        modes.device = self.name
        return self

    def __exit__(
        self,
        kind: Any,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        *rest, modes.device = self._saved
        self._saved = tuple(rest)

    def __eq__(self, other: object) -> bool:
        return self.name == (other.name if isinstance(other, Device) else other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        number = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{number})"

    def __str__(self) -> str:
        return self.name


def _full_name(name: str) -> str:
    """The name of a device that there is, with its number where its kind has numbers."""
    kind, _, number = name.partition(":")
    if not is_known(name) and not _declared(kind):
        raise DeviceError(
            f"there is no device {name!r}; expected one of {', '.join(map(repr, _BACKENDS))}"
            f"{_INSTEAD.format(kind) if kind in _ACCELERATORS else ''}"
        )
    count = _count(kind)
    if count is None:
        return kind
    if number and not (number.isdecimal() and int(number) < count):
        raise DeviceError(
            f"there is no device {name!r}: {kind} has {count}, {kind}:0 to {kind}:{count - 1}"
        )
    return f"{kind}:{int(number or 0)}"


def as_device(device: Any = None) -> Device:
    """The device that ``device`` names; the default device for None."""
    if isinstance(device, Device):
        return device
    return Device(default_device() if device is None else device)


def set_default_device(device: Any) -> None:
    """Set the device of new tensors, for all threads.

    Example:
        >>> import fx
        >>> fx.set_default_device("meta")
        >>> fx.zeros(3).device
        device(type='meta')
        >>> fx.set_default_device("cpu")
    """
    Defaults.device = as_device(device).name


def is_known(name: str) -> bool:
    """Whether a device's kind is known by now: nothing is searched or imported for the name."""
    return name.partition(":")[0] in _BACKENDS


def name_of(array: Any) -> str:
    """The name of the device on which an array lies."""
    found = device_of_array[type(array)]
    return found if type(found) is str else found(array)


# backends ---------------------------------------------------------------------------------------


def register_backend(name: str, module: Any) -> None:
    """Make a device known, by the backend that runs it.

    Args:
        name: of the device, as ``fx.device(name)`` and ``x.to(name)`` will say it.
        module: the backend, or its dotted name, which is imported when the device is first asked
            for. ``fx/backends/README.md`` lists the hooks that it must have.

    Raises:
        RegistrationError: if there is such a device already, or the backend lacks a hook.

    Example:
        >>> import fx
        >>> fx.register_backend("cpu", "my_package.device")
        Traceback (most recent call last):
        fx.errors.RegistrationError: there is a device 'cpu' already; choose another name
    """
    if not (isinstance(name, str) and name.isidentifier()):
        raise RegistrationError(f"a device is called by one word, got {name!r}")
    if name in _BACKENDS:
        raise RegistrationError(f"there is a device {name!r} already; choose another name")
    if not isinstance(module, str):
        _check_hooks(name, module)
    _BACKENDS[name] = module


def _declared(name: str) -> bool:
    """Whether an installed package declares a backend of that name; it is known from then on."""
    from importlib.metadata import entry_points

    for found in entry_points(group=_ENTRY_POINTS, name=name):
        register_backend(name, found.value)
        return True
    return False


def _check_hooks(name: str, module: Any) -> None:
    lacks = [hook for hook in _HOOKS if not hasattr(module, hook)]
    if lacks:
        raise RegistrationError(
            f"the backend of {name!r} lacks {', '.join(lacks)}; it must have {', '.join(_HOOKS)}"
        )
    if not isinstance(module.ARRAY, type):
        raise RegistrationError(
            f"the backend of {name!r} has ARRAY = {module.ARRAY!r}, expected the type of its arrays"
        )
    if hasattr(module, "device_count") != hasattr(module, "device_index"):
        raise RegistrationError(
            f"the backend of {name!r} must have device_count and device_index, or neither"
        )
    taken = device_of_array.get(module.ARRAY)
    if taken is not None:
        raise RegistrationError(
            f"the backend of {name!r} has the array type {module.ARRAY.__name__}, which is that of "
            f"another device; give it a type of its own"
        )


def _module(kind: str) -> Any:
    """The backend of a kind of devices, loaded when first asked for."""
    found = _BACKENDS[kind]
    if isinstance(found, str):
        module = import_module(found)
        _check_hooks(kind, module)
        _BACKENDS[kind] = found = module
    if found.ARRAY not in device_of_array:
        numbered = hasattr(found, "device_count")
        if kind not in ("cpu", "meta"):
            for place in getattr(found, "__path__", None) or [getattr(found, "__file__", "")]:
                if place:
                    count_as_internal(place)
        device_of_array[found.ARRAY] = _namer(kind, found) if numbered else kind
    return found


def _namer(kind: str, module: Any) -> Callable[[Any], str]:
    return lambda array: f"{kind}:{module.device_index(array)}"


def _count(kind: str) -> int | None:
    """How many devices of a kind there are; None where they are not numbered."""
    if kind in ("cpu", "meta"):  # known without being loaded
        return None
    module = _module(kind)
    return module.device_count() if hasattr(module, "device_count") else None


class _Numbered:
    """A backend as one of its devices has it."""

    def __init__(self, module: Any, index: int) -> None:
        self.ARRAY, self.to_numpy = module.ARRAY, module.to_numpy
        self.kernel_for, self.index = module.kernel_for, index
        self._from_numpy = module.from_numpy

    def from_numpy(self, array: np.ndarray) -> Any:
        """A copy on this device."""
        return self._from_numpy(array, self.index)


def backend(name: str) -> Any:
    """The backend of a device, loaded when first asked for."""
    found = _loaded.get(name)
    if found is None:
        kind, _, number = name.partition(":")
        module = _module(kind)
        found = _loaded[name] = _Numbered(module, int(number)) if number else module
    return found


def moved(array: Any, name: str) -> Any:
    """An array on the device of that name; itself where it lies there."""
    here = name_of(array)
    return array if here == name else backend(name).from_numpy(backend(here).to_numpy(array))


def kernel_of(primitive: Any, name: str) -> Any:
    """The kernel of a primitive on a device; what it gives at first is compared with the spec.

    Raises:
        DeviceError: if there is none, or it gives another number of results, another shape, dtype
            or device.
    """
    if primitive.anywhere:
        return primitive.cpu
    kernel = backend(name).kernel_for(primitive)
    if kernel is None:
        raise DeviceError(
            f"the backend of {name!r} has no kernel for {primitive.name}; bring the tensors to "
            f"another device first: x.to('cpu')"
        )

    def first(*arrays: Any, **params: Any) -> Any:
        out = kernel(*arrays, **params)
        found = out if primitive.multiple else (out,)
        wanted = primitive.spec(*[_spec_of(a) for a in arrays], **params)
        wanted = wanted if primitive.multiple else (wanted,)
        if len(found) != len(wanted):
            raise DeviceError(
                f"the backend of {name!r} gave {len(found)} results of {primitive.name}, "
                f"expected {len(wanted)}"
            )
        for array, spec in zip(found, wanted, strict=True):
            _check_result(primitive.name, name, array, spec)
        primitive.kernels[name] = kernel
        return out

    return first


def _spec_of(array: Any) -> TensorSpec:
    return TensorSpec(array.shape, array.dtype, name_of(array))


def _check_result(what: str, name: str, array: Any, spec: Any) -> None:
    if type(array) not in device_of_array:
        raise DeviceError(
            f"the backend of {name!r} gave a {type(array).__name__} as a result of {what}, "
            f"expected its own {backend(name).ARRAY.__name__}"
        )
    lacks = [fact for fact in _FACTS if not hasattr(array, fact)]
    if lacks:
        raise DeviceError(
            f"an array of the backend of {name!r} has no {', '.join(lacks)}; it must have "
            f"{', '.join(_FACTS)}"
        )
    got = _spec_of(array)
    if (got.shape, got.dtype, got.device) != (spec.shape, spec.dtype, name):
        raise DeviceError(
            f"the backend of {name!r} gave {got!r} as a result of {what}, expected "
            f"{spec.dtype.name}{list(spec.shape)} on {name}"
        )
