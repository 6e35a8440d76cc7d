"""``torch.distributed.launcher.api``: the launcher of ``python -m fx.run``, called by a program."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from fx.distributed.launch import calls
from fx.distributed.launch.job import Job
from fx.distributed.launch.options import UsageError, options
from fx.errors import ArgumentError, DistError
from fx.torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

_REFUSED = [
    "logs_specs",
    "log_line_prefix_template",
    "numa_options",
    "duplicate_stdout_filters",
    "duplicate_stderr_filters",
    "virtual_local_rank",
]


@dataclass
class LaunchConfig:
    """How ranks are started; the flags of ``python -m fx.run`` have the same names.

    Args:
        min_nodes, max_nodes: how many hosts take part.
        nproc_per_node: ranks on this host.
        run_id: the job's name, the same on all hosts.
        role: the ranks' name in logs.
        rdzv_endpoint: ``host:port`` where the hosts meet.
        rdzv_backend: ``"c10d"``, or ``"static"``; one host asks neither.
        rdzv_configs: ``timeout``, ``join_timeout`` and ``last_call_timeout`` in seconds.
        rdzv_timeout: an older place of ``rdzv_configs["timeout"]``.
        max_restarts: how often the ranks start again after a death.
        monitor_interval: seconds between two looks at the ranks.
        start_method: ``"spawn"``: new interpreters, which import what they call by its name;
            ``"fork"``: as this process is.
        local_addr: this host's address, as the others reach it.
        signals_to_handle: sent on to the ranks.
        shutdown_timeout: seconds from SIGTERM to SIGKILL at the end; 30.
        metrics_cfg, event_log_handler: accepted; nothing is measured.
        virtual_local_rank: False.
        logs_specs, log_line_prefix_template, numa_options, duplicate_stdout_filters,
            duplicate_stderr_filters: None; ``python -m fx.run --redirects`` writes files.

    Raises:
        ValueError: if what is to be left out is given.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        for name in _REFUSED:
            if getattr(self, name):
                raise ArgumentError(
                    f"LaunchConfig: {name} is not there; leave it out, or write python -m fx.run "
                    f"--redirects, --tee, --local-ranks-filter"
                )
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"))
        elif self.shutdown_timeout < 0:
            raise ArgumentError(
                f"shutdown_timeout must be non-negative, got {self.shutdown_timeout}"
            )

    def _flags(self) -> list[str]:
        least, most = self.min_nodes, self.max_nodes
        conf = {k: v for k, v in self.rdzv_configs.items() if k != "rank"}
        out = {
            "nnodes": f"{least}:{most}" if least != most else least,
            "nproc-per-node": self.nproc_per_node,
            "role": self.role,
            "max-restarts": self.max_restarts,
            "monitor-interval": self.monitor_interval,
            "signals-to-handle": self.signals_to_handle,
            "shutdown-timeout": self.shutdown_timeout,
            "rdzv-conf": ",".join(f"{k}={v}" for k, v in conf.items()),
            "rdzv-id": self.run_id or "none",
            "start-method": self.start_method,
        }
        if most > 1:
            out["rdzv-backend"] = self.rdzv_backend
            out["rdzv-endpoint"] = self.rdzv_endpoint
            if self.rdzv_backend == "static":
                host, _, port = self.rdzv_endpoint.rpartition(":")
                if not port.isdecimal():
                    raise ArgumentError(
                        f"LaunchConfig: rdzv_endpoint is host:port, got {self.rdzv_endpoint!r}"
                    )
                out |= {"master-addr": host, "master-port": port}
                out["node-rank"] = self.rdzv_configs.get("rank", 0)
        if self.local_addr is not None:
            out["local-addr"] = self.local_addr
        return [f"--{name}={value}" for name, value in out.items()]


class elastic_launch:
    """Starts ranks that call a function, or run a program: ``elastic_launch(config, f)(*args)``.

    Args:
        config: how many, and where.
        entrypoint: a function, which ``start_method="spawn"`` finds by its name; or a program.
        health_check_server: None.

    Example:
        >>> from fx.torch.distributed.launcher.api import LaunchConfig, elastic_launch
        >>> config = LaunchConfig(1, 1, 2, start_method="fork", max_restarts=0)
        >>> elastic_launch(config, pow)(2, 3)
        {0: 8, 1: 8}
    """

    def __init__(
        self,
        config: LaunchConfig,
        entrypoint: Callable[..., Any] | str | None,
        health_check_server: Any = None,
    ) -> None:
        self._told = config, entrypoint, health_check_server

    def __call__(self, *args: Any) -> dict[int, Any]:
        """What each rank of this host gave, by its number; see ``launch_agent``."""
        config, entrypoint, server = self._told
        return launch_agent(config, entrypoint, list(args), server)


def launch_agent(
    config: LaunchConfig,
    entrypoint: Callable[..., Any] | str | None,
    args: list[Any],
    health_check_server: Any = None,
) -> dict[int, Any]:
    """Run a function, or a program, in as many ranks as a ``LaunchConfig`` says.

    Args:
        config: how many, and where.
        entrypoint: a function, or a program.
        args: its arguments.
        health_check_server: None.

    Returns:
        what the function gave in each rank of this host, by the rank's number; None of a program.

    Raises:
        ChildFailedError: if a rank of this host failed, and no restart was left.
        DistError: if another host did.
        ValueError: if the config cannot be.
        KeyboardInterrupt: if a signal ended the launcher.
    """
    if health_check_server is not None:
        raise ArgumentError("launch_agent: health_check_server is not there; leave it out")
    if not entrypoint:
        raise ArgumentError(f"launch_agent: a function or a program is expected, got {entrypoint}")
    name = entrypoint if isinstance(entrypoint, str) else entrypoint.__name__
    command = [name, *map(str, args)] if isinstance(entrypoint, str) else [name]
    try:
        told = options([*config._flags(), "--no-python", *command])
    except UsageError as error:
        raise ArgumentError(f"LaunchConfig: {error}") from None
    if not isinstance(entrypoint, str):
        told.call = entrypoint, tuple(args)
    with closing(Job(told)) as job:
        code = job.run()
        if code > 128:
            raise KeyboardInterrupt(f"launch_agent was ended by signal {code - 128}")
        if code and not job.failed:
            raise DistError(f"{name}: {job.meeting.stopped}")
        if code:
            failures = {
                each.rank: ProcessFailure(
                    each.local_rank, each.pid, each.result(), str(each.folder / "error.json")
                )
                for each in job.failed
            }
            raise ChildFailedError(name, failures)
        return {r.rank: calls.value(r.folder) if told.call else None for r in job.ranks.ranks}
