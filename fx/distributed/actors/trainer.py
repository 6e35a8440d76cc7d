"""``Trainer``: a loop in actors of Ray, which become MPI's ranks and start again when one dies.

The one that trains is the launcher (``../launch/README.md``) of ranks that Ray has started: it
serves their wire-up, and a connection of each tells it who is dead, where Ray would need a minute.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fx.distributed import wiring
from fx.distributed.actors import engine
from fx.distributed.actors.configs import (
    FailureConfig,
    Result,
    RunConfig,
    ScalingConfig,
    TrainingFailedError,
)
from fx.distributed.actors.rank import LONGEST, Context, Rank
from fx.distributed.errors import DistError
from fx.distributed.launch.meeting import Place

_LOOK = 0.02  # seconds between two looks at what Ray knows
_FILE = "result.json"


class Trainer:
    """Runs a loop in ranks that are actors of Ray.

    Each rank has joined the world (``init_process_group``) when the loop begins; what it does there
    is what it would do under ``python -m fx.run``. When a rank fails all are ended, and start
    again in new processes, up to ``max_failures`` times; the loop goes on from
    ``get_checkpoint()``.

    Args:
        train_loop_per_worker: ``loop()``, or ``loop(config)`` where a config is given. Ray sends
            it to the ranks.
        scaling_config: how many ranks, and what each takes.
        run_config: the run's name, its folder, timeouts.
        failure_config: instead of that of ``run_config``.
        train_loop_config: what the loop takes.

    Raises:
        DistBackendError: from ``fit``, if Ray is not installed.

    Example:
        >>> import fx.ray
        >>> trainer = fx.ray.Trainer(lambda: None, fx.ray.ScalingConfig(num_workers=2))
        >>> trainer.scaling_config.num_workers  # trainer.fit() runs it
        2
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        failure_config: FailureConfig | None = None,
        *,
        train_loop_config: Any = None,
    ) -> None:
        self.loop = train_loop_per_worker
        self.given = () if train_loop_config is None else (train_loop_config,)
        self.scaling_config = scaling_config or ScalingConfig()
        self.run_config = run_config or RunConfig()
        self.failure_config = failure_config or self.run_config.failure_config
        self.name = self.run_config.name or f"run_{uuid.uuid4().hex[:8]}"

    def fit(self) -> Result:
        """Run the loop to its end.

        Raises:
            TrainingFailedError: if a rank fails and no attempt is left; its cause is what the
                rank raised.
            DistError: if the cluster has not the resources in time.
            DistBackendError: if Ray is not installed.
        """
        ray = engine()
        if not ray.is_initialized():
            ray.init(include_dashboard=False)
        base = self.run_config.storage_path or Path(tempfile.gettempdir()) / "fx_ray"
        folder = Path(base).absolute() / self.name
        folder.mkdir(parents=True, exist_ok=True)
        told = _Told(folder, self.scaling_config.num_workers)
        failures: list[str] = []
        while True:
            attempt = _Attempt(ray, self, told, folder, len(failures))
            try:
                attempt.run()
                break
            except _Failed as failed:
                failures.append(str(failed))
                most = self.failure_config.max_failures
                if 0 <= most < len(failures):
                    raise TrainingFailedError(
                        f"{self.name}: {failed}" + (f", after {most} restarts" if most else "")
                    ) from failed.__cause__
            finally:
                attempt.end()
        return Result(told.metrics, told.checkpoint, folder, told.history, failures)


class _Failed(Exception):
    """A rank failed; the cause is what it raised, if it did."""


class _Told:
    """What all ranks have reported; the last of it lies in the run's folder."""

    def __init__(self, folder: Path, size: int) -> None:
        self._file, self._size = folder / _FILE, size
        self.metrics: dict[str, Any] | None = None
        self.checkpoint: str | None = None
        self.history: list[dict[str, Any]] = []
        with suppress(FileNotFoundError):
            last = json.loads(self._file.read_text())
            self.metrics, self.checkpoint = last["metrics"], last["checkpoint"]
        self.begin()

    def begin(self) -> None:
        """Forget what only some have reported."""
        self._open: list[list[dict[str, Any]]] = [[] for _ in range(self._size)]

    def take(self, rank: int, message: dict[str, Any]) -> None:
        """A rank reports; what all have reported now counts."""
        self._open[rank].append(message)
        while all(self._open):
            said = [each.pop(0) for each in self._open]
            self.metrics = said[0]["metrics"]
            self.history.append(said[0]["metrics"])
            self.checkpoint = said[0]["checkpoint"] or self.checkpoint
            part = self._file.with_suffix(".part")
            part.write_text(json.dumps({"metrics": self.metrics, "checkpoint": self.checkpoint}))
            os.replace(part, self._file)


class _Line(wiring.Lines):
    """The connections of the ranks: what they report, and which of them have gone."""

    def __init__(self, host: str, size: int, told: _Told) -> None:
        super().__init__(host, 0, LONGEST)
        self.secrets = [secrets.token_hex(16) for _ in range(size)]
        self.lost: list[int] = []
        self._told = told

    def _answer(self, peer: wiring.Peer, line: str) -> None:
        message = json.loads(line)
        if peer.name is None:
            if message.get("rank") not in self.secrets:
                raise wiring.Refused("rank")
            peer.name = self.secrets.index(message["rank"])
        else:
            self._told.take(peer.name, message)

    def _gone(self, peer: wiring.Peer) -> None:
        self.lost.append(peer.name)


class _Attempt:
    """All ranks once: actors that are placed, wired, watched and ended."""

    def __init__(
        self, ray: Any, trainer: Trainer, told: _Told, folder: Path, restarts: int
    ) -> None:
        self._ray, self._trainer, self._told = ray, trainer, told
        self._folder, self._restarts = folder, restarts
        self._group: Any = None
        self._actors: list[Any] = []
        self._served: list[wiring.Lines] = []

    def run(self) -> None:
        """Until all ranks have ended well; ``_Failed`` if one does not."""
        self._told.begin()
        self._placed()
        try:
            places = self._ray.get([actor.where.remote() for actor in self._actors])
        except self._ray.exceptions.RayError as error:
            raise _Failed(f"a rank did not start: {error}") from error
        running = self._started(places)
        while running:
            for server in self._served:
                server.poll(0)
            self._line.poll(_LOOK)
            self._check_lost(running)
            done, _ = self._ray.wait([*running], num_returns=len(running), timeout=0)
            for each in done:
                self._check(running[each], each)
                del running[each]
        for _ in range(100):  # what was reported before the end, and may still be under way
            if not any(self._told._open):
                break
            self._line.poll(_LOOK)

    def _placed(self) -> None:
        ray, config = self._ray, self._trainer.scaling_config
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        needs = [config.resources] * config.num_workers
        self._group = placement_group(needs, strategy=config.placement_strategy)
        late = config.timeout.total_seconds()
        if not self._group.wait(late):
            raise DistError(
                f"{config.num_workers} ranks of {config.resources} ({config.placement_strategy}) "
                f"had no place within {late:g} s; the cluster has {_plain(ray.cluster_resources())}"
            )
        others = {k: v for k, v in config.resources.items() if k not in ("CPU", "memory")}
        actor = ray.remote(Rank)
        for index in range(config.num_workers):
            self._actors.append(
                actor.options(
                    num_cpus=config.resources["CPU"],
                    memory=config.resources.get("memory"),
                    resources=others,
                    max_restarts=0,
                    scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, index),
                ).remote()
            )

    def _started(self, places: list[tuple[str, str, int]]) -> dict[Any, int]:
        """Let all begin; for each call of Ray its rank. Those of one host stand together."""
        trainer, ray = self._trainer, self._ray
        nodes = [*dict.fromkeys(node for node, *_ in places)]
        order = sorted(range(len(places)), key=lambda i: nodes.index(places[i][0]))
        self._actors = [self._actors[i] for i in order]
        places = [places[i] for i in order]
        counts = [sum(node == place[0] for place in places) for node in nodes]
        here = ray.util.get_node_ip_address()
        alone = all(address == here for _, address, _ in places)
        here = "127.0.0.1" if alone else here
        server = wiring.Server(len(places), here, 0, counts)
        self._line = _Line(here, len(places), self._told)
        self._served = [server]
        running = {}
        first = 0
        for number, count in enumerate(counts):
            wires = [server.environment(first + local) for local in range(count)]
            place = Place(
                first, len(places), number, len(nodes), *places[0][1:], wires, self._restarts, 1
            )
            for local in range(count):
                rank = first + local
                threads, most = trainer.scaling_config.threads, trainer.failure_config.max_failures
                context = Context(
                    rank, len(places), local, count, number, trainer.name, self._folder,
                    self._restarts, trainer.scaling_config.resources.get("memory"),
                )  # fmt: skip
                call = self._actors[rank].run.remote(
                    trainer.loop, trainer.given,
                    place.variables(local, trainer.name, most, str(threads)),
                    (here, self._line.port), self._line.secrets[rank], context,
                    self._told.checkpoint, trainer.run_config.timeout,
                )  # fmt: skip
                running[call] = rank
            first += count
        return running

    def _check_lost(self, running: dict[Any, int]) -> None:
        """Whether a rank is dead that was to compute; what it raised counts first."""
        for rank in [rank for rank in self._line.lost if rank in running.values()]:
            call = next(call for call, its in running.items() if its == rank)
            done, _ = self._ray.wait([call], timeout=0.5)
            if done:
                self._check(rank, call)
            raise _Failed(f"rank {rank} is dead: its connection broke")

    def _check(self, rank: int, call: Any) -> None:
        errors = self._ray.exceptions
        try:
            self._ray.get(call)
        except errors.RayTaskError as error:
            cause = error.cause
            raise _Failed(f"rank {rank}: {type(cause).__name__}: {cause}") from error
        except errors.RayError as error:
            raise _Failed(f"rank {rank} is dead: {str(error).strip().splitlines()[0]}") from error

    def end(self) -> None:
        """End the actors, whatever they do, and give their place back."""
        for actor in self._actors:
            self._ray.kill(actor, no_restart=True)
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)
        for server in self._served:
            server.close()
        if self._served:
            self._line.close()


def _plain(resources: dict[str, float]) -> dict[str, float]:
    """Without Ray's own, such as an address."""
    return {k: v for k, v in resources.items() if ":" not in k}
