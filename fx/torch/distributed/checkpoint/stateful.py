"""``torch.distributed.checkpoint.stateful``: objects that are a part of a state."""

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """What has a state that ``save`` takes and ``load`` gives back; no class need inherit it."""

    def state_dict(self) -> dict[str, Any]:
        """The state of this moment."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Be as the state says."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
