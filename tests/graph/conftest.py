"""Every graph that a pass makes in these tests is validated."""

import pytest

from fx.graph import manager


@pytest.fixture(autouse=True)
def _validated(monkeypatch):
    monkeypatch.setattr(manager, "always_validate", True)
