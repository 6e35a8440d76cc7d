"""The fake device, known while a test of this folder runs."""

import pytest

import fx.devices
from fx.primitive import registry
from tests.devices import hostfake


@pytest.fixture(scope="session")
def fake():
    """The backend of ``fake:0`` and ``fake:1``."""
    if "fake" not in fx.devices._BACKENDS:
        fx.devices.register_backend("fake", hostfake)
    return hostfake


@pytest.fixture
def unregistered():
    """Takes devices of the test out again."""
    before = dict(fx.devices._BACKENDS), dict(fx.devices.device_of_array), dict(fx.devices._loaded)
    yield
    tables = fx.devices._BACKENDS, fx.devices.device_of_array, fx.devices._loaded
    gone = set(fx.devices._BACKENDS) - set(before[0])
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)
    for primitive in registry.values():
        for name in [n for n in primitive.kernels if n.partition(":")[0] in gone]:
            del primitive.kernels[name]
