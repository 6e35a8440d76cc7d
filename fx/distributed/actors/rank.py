"""What an actor does around the loop, and what the loop may ask and say.

The actor keeps a connection to the one that trains: lines of JSON, the first of which is its
secret. When the connection breaks the actor is dead.

    {"rank": secret}
    {"metrics": {"loss": 0.5}, "checkpoint": "/shared/run/3"}
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from fx.distributed.errors import DistError
from fx.errors import ArgumentError

LONGEST = 1 << 20  # bytes of one report


@dataclass(frozen=True)
class Context:
    """What a rank of a ``Trainer`` is, by the names of ``ray.train.get_context()``."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    node_rank: int
    name: str
    storage: Path
    restarts: int
    memory: float | None  # bytes that it was promised, if it asked

    def get_world_rank(self) -> int:
        """The number of this rank."""
        return self.rank

    def get_world_size(self) -> int:
        """How many there are."""
        return self.size

    def get_local_rank(self) -> int:
        """The number among those of this host."""
        return self.local_rank

    def get_local_world_size(self) -> int:
        """How many this host has."""
        return self.local_size

    def get_node_rank(self) -> int:
        """The number of this host."""
        return self.node_rank

    def get_experiment_name(self) -> str:
        """What the run is called."""
        return self.name

    def get_storage(self) -> Path:
        """The folder of the run, ``storage_path/name``, which all hosts see."""
        return self.storage


_context: Context | None = None
_checkpoint: str | None = None
_trainer: socket.socket | None = None


def get_context() -> Context:
    """What this rank is.

    Raises:
        DistError: outside of the loop of a ``Trainer``.

    Example:
        >>> import fx.ray
        >>> from fx.distributed import DistError
        >>> try:
        ...     fx.ray.get_context()
        ... except DistError as error:
        ...     print(error)
        get_context: this process is no rank of an fx.ray.Trainer
    """
    if _context is None:
        raise DistError("get_context: this process is no rank of an fx.ray.Trainer")
    return _context


def get_checkpoint() -> str | None:
    """The last checkpoint that all ranks have reported, by rank 0; None without one.

    Raises:
        DistError: outside of the loop of a ``Trainer``.
    """
    get_context()
    return _checkpoint


def report(metrics: dict[str, Any], checkpoint: Any = None) -> None:
    """Tell the ``Trainer`` how it goes. All ranks call it equally often; nobody waits.

    Args:
        metrics: numbers (or tensors of one element) and texts by their names.
        checkpoint: the path of a folder or a file that is complete when all ranks have come to
            this report; the next attempt begins with it.

    Raises:
        TypeError: if something is neither number nor text.
        DistError: outside of the loop of a ``Trainer``, or if it has gone.
    """
    get_context()
    told = {name: _plain(name, value) for name, value in metrics.items()}
    path = None if checkpoint is None else os.path.abspath(os.fspath(checkpoint))
    _say({"metrics": told, "checkpoint": path})


def _plain(name: str, value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"report: {name!r} is a number or a text, not a {type(value).__name__}")


def _say(message: dict[str, Any]) -> None:
    assert _trainer is not None
    line = json.dumps(message).encode() + b"\n"
    if len(line) > LONGEST:
        raise ArgumentError(f"report: {len(line)} bytes; a report has at most {LONGEST}")
    try:
        _trainer.sendall(line)
    except OSError as error:
        raise DistError(f"report: the trainer has gone ({error})") from None


class Rank:
    """The actor: ``where`` it is, then ``run`` the loop, once."""

    def __init__(self) -> None:
        self._held: socket.socket | None = None

    def where(self) -> tuple[str, str, int]:
        """The host's number in the cluster, its address, and a port that is kept free there."""
        import ray

        from fx.distributed.launch.meeting import held

        address = ray.util.get_node_ip_address()
        self._held = held(address, 0)
        return ray.get_runtime_context().get_node_id(), address, self._held.getsockname()[1]

    def run(
        self,
        loop: Callable[..., Any],
        given: tuple[Any, ...],
        variables: dict[str, str],
        trainer: tuple[str, int],
        secret: str,
        context: Context,
        checkpoint: str | None,
        timeout: timedelta,
    ) -> None:
        """Join the world and run the loop; what it raises is raised."""
        global _context, _checkpoint, _trainer
        os.environ.update(variables)
        import fx
        from fx import distributed
        from fx.distributed.wiring import watched

        fx.random.seed()
        fx.set_num_threads(int(variables["FX_NUM_THREADS"]))
        _trainer = watched(socket.create_connection(trainer, 30))
        _trainer.settimeout(None)
        _context, _checkpoint = context, checkpoint
        _say({"rank": secret})
        distributed.init_process_group(timeout=timeout)
        loop(*given)
        if distributed.is_initialized():
            distributed.barrier()  # a rank that fails late is no success of the others
