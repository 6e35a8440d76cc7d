"""What a ``Trainer`` is told and what it gives, by the names of ``ray.train``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from fx.distributed.errors import DistError
from fx.errors import ArgumentError


class TrainingFailedError(DistError):
    """A rank failed, and no attempt was left; the cause is what it raised."""


@dataclass(frozen=True, kw_only=True)
class ScalingConfig:
    """How many ranks there are, and what each takes of the cluster.

    Args:
        num_workers: ranks.
        use_gpu: False; no tensor of fx lies on a GPU.
        resources_per_worker: of each rank, by Ray's names; one CPU unless told. It has as many
            threads as CPUs.
        placement_strategy: how ranks lie on hosts: ``"PACK"``, ``"SPREAD"``, ``"STRICT_PACK"`` or
            ``"STRICT_SPREAD"``.
        timeout: how long the cluster may take to have that much free.

    Raises:
        ArgumentError: if it cannot be.

    Example:
        >>> from fx.ray import ScalingConfig
        >>> ScalingConfig(num_workers=2, resources_per_worker={"CPU": 4}).threads
        4
    """

    num_workers: int = 1
    use_gpu: bool = False
    resources_per_worker: Mapping[str, float] | None = None
    placement_strategy: str = "PACK"
    timeout: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        if type(self.num_workers) is not int or self.num_workers < 1:
            raise ArgumentError(f"num_workers is a positive int, got {self.num_workers!r}")
        if self.use_gpu:
            raise ArgumentError("use_gpu: no tensor of fx lies on a GPU; leave it out")
        if self.placement_strategy not in _STRATEGIES:
            raise ArgumentError(
                f"placement_strategy is one of {', '.join(_STRATEGIES)}, got "
                f"{self.placement_strategy!r}"
            )

    @property
    def resources(self) -> dict[str, float]:
        """What a rank takes."""
        return {"CPU": 1} | dict(self.resources_per_worker or {})

    @property
    def threads(self) -> int:
        """How many threads a rank computes with."""
        return max(1, int(self.resources["CPU"]))


_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


@dataclass(frozen=True, kw_only=True)
class FailureConfig:
    """What a failure of a rank means.

    Args:
        max_failures: how often all ranks start again; -1: for ever.
    """

    max_failures: int = 0


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a run is called, where it keeps what it learned, and what a failure means.

    Args:
        name: of the run. A second one of this name goes on from the first one's last checkpoint.
        storage_path: a folder that all hosts see; what is known of the run lies in
            ``storage_path/name``.
        failure_config: see ``FailureConfig``.
        timeout: how long a rank waits for the others in each collective.
    """

    name: str | None = None
    storage_path: str | Path | None = None
    failure_config: FailureConfig = field(default_factory=FailureConfig)
    timeout: timedelta = timedelta(minutes=30)


@dataclass(frozen=True)
class Result:
    """What a run gave: the last of what all ranks reported, by rank 0.

    ``metrics`` and ``checkpoint`` are the last; ``history`` has all metrics, in their order, also
    those that were reported before a failure and again behind it; ``failures`` says what went
    wrong on the way.
    """

    metrics: dict[str, Any] | None
    checkpoint: str | None
    path: Path
    history: list[dict[str, Any]]
    failures: list[str]
