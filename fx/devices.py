"""Devices: names, the objects that carry them, and the one place where a device is chosen.

A backend is a folder below ``fx/backends`` with a module that defines ``ARRAY`` (the type of its
arrays) and ``from_numpy``, ``to_numpy``. It is loaded when its device is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType, TracebackType
from typing import Any

from fx.config import default_device, modes
from fx.errors import DeviceError

_BACKENDS = {"cpu": "fx.backends.cpu", "meta": "fx.backends.meta"}
_loaded: dict[str, ModuleType] = {}
device_of_array: dict[type, str] = {}  # the array type of each loaded backend -> device name


_ACCELERATORS = ("cuda", "mps", "xpu", "hpu", "tpu")
_INSTEAD = "; write device = '{0}' if torch.{0}.is_available() else 'cpu'"


class Device:
    """A device, as ``x.device`` and ``fx.device("cpu")`` give it; a context manager as well.

    Inside ``with fx.device("meta"):`` new tensors of this thread live on that device.

    Example:
        >>> import fx
        >>> with fx.device("meta"):
        ...     fx.zeros((1000, 1000)).device
        device(type='meta')
    """

    __slots__ = ("_saved", "name")

    name: str

    def __init__(self, name: Any) -> None:
        if isinstance(name, Device):
            name = name.name
        kind = str(name).partition(":")[0]
        if kind not in _BACKENDS:
            raise DeviceError(
                f"there is no device {name!r}; expected one of {', '.join(map(repr, _BACKENDS))}"
                f"{_INSTEAD.format(kind) if kind in _ACCELERATORS else ''}"
            )
        self.name = kind
        self._saved: tuple[str | None, ...] = ()

    @property
    def type(self) -> str:
        """The device's kind, ``"cpu"`` or ``"meta"``."""
        return self.name

    @property
    def index(self) -> None:
        """Always None: these devices are not numbered."""
        return None

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
        return f"device(type={self.name!r})"

    def __str__(self) -> str:
        return self.name


def as_device(device: Any = None) -> Device:
    """The device that ``device`` names; the default device for None."""
    if isinstance(device, Device):
        return device
    return Device(default_device() if device is None else device)


def backend(name: str) -> Any:
    """The backend module of a device, loaded when first asked for."""
    found = _loaded.get(name)
    if found is None:
        found = _loaded[name] = import_module(_BACKENDS[name])
        device_of_array[found.ARRAY] = name
    return found
