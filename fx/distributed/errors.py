"""What goes wrong between processes, by PyTorch's names."""

from __future__ import annotations

from fx.errors import DistError as DistError


class DistBackendError(DistError):
    """An engine is missing, or refuses what it was asked for."""


class DistNetworkError(DistError):
    """An address cannot be reached, or is taken."""


class DistStoreError(DistError):
    """A store did not answer, or not in time."""


class NotOnMesh(DistError, AttributeError):
    """A tensor that lies on no mesh has no parts: ``hasattr(x, "full_tensor")`` is False."""
