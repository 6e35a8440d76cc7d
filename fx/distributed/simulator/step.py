"""``simulate``: one step of a model, shared in some way, on a cluster.

All replicas do the same, so one of each stage stands for them; thousands of ranks take no longer
than eight. Computing and sending are two resources of a rank, which work side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fx.distributed.pipelining.actions import (
    FORWARD,
    FULL,
    INPUT,
    SEND_B,
    SEND_F,
    WEIGHT,
    Action,
    Order,
    with_messages,
)
from fx.distributed.pipelining.proof import prove
from fx.distributed.simulator.cluster import Cluster, not_negative
from fx.distributed.simulator.layers import Layer
from fx.distributed.simulator.report import Report, goodput, interval
from fx.distributed.simulator.strategy import SCHEDULES, Strategy
from fx.errors import ArgumentError

_DRAWS = 2000  # of steps, for the slowest of many ranks


def simulate(
    layers: Sequence[Layer],
    strategy: Strategy,
    cluster: Cluster,
    *,
    slots: float = 2.0,
    seed: int = 0,
) -> Report:
    """How long a step takes, what a rank holds, and how often to write a checkpoint.

    Args:
        layers: of the model, with the batch of one replica (``layers_of``).
        strategy: how ranks share the step.
        cluster: what they run on.
        slots: bytes of the optimizer's state for a byte of parameters: 2 for Adam, 0 for SGD.
        seed: of the draws of how long the slowest rank takes.

    Raises:
        ArgumentError: if there are fewer devices than ranks, or fewer layers than stages.

    Example:
        >>> import fx
        >>> from fx.distributed.simulator import Cluster, Link, Strategy, layers_of, simulate
        >>> model = fx.nn.Sequential(*[fx.nn.Linear(256, 256) for _ in range(8)])
        >>> layers = layers_of(model, fx.ones((64, 256)))
        >>> machine = Cluster(4, 8, 1e12, 1e11, 16e9, Link(5e-6, 1e11), Link(2e-5, 1e10))
        >>> one, all = [simulate(layers, Strategy(data=n), machine) for n in (1, 32)]
        >>> one.communication == 0.0, all.step_time > one.step_time, all.fits
        (True, True, True)
    """
    layers = list(layers)
    if not layers or not all(isinstance(x, Layer) for x in layers):
        raise ArgumentError(f"simulate: expected Layers, as layers_of gives, got {layers!r}")
    if strategy.ranks > cluster.ranks:
        raise ArgumentError(
            f"simulate: {strategy!r} has {strategy.ranks} ranks, and the cluster has "
            f"{cluster.ranks} devices"
        )
    if len(layers) < strategy.stages:
        raise ArgumentError(
            f"simulate: {len(layers)} layers cannot be {strategy.stages} stages; give smaller ones"
        )
    not_negative("simulate", slots=slots)
    return _Simulation(layers, strategy, cluster, slots).report(seed)


class _Passes(NamedTuple):
    """Seconds of a stage."""

    forward: float
    backward: float
    compute: float  # what of both is no message
    tail: float  # after the last backward pass, until gradients are summed


class _Simulation:
    def __init__(
        self, layers: list[Layer], strategy: Strategy, cluster: Cluster, slots: float
    ) -> None:
        self.strategy, self.cluster, self.slots = strategy, cluster, slots
        self.stages = _balanced(layers, strategy.stages, [sum(self.seconds(x)) for x in layers])

    # one layer ------------------------------------------------------------------------------------

    def alone(self, layer: Layer) -> tuple[float, float]:
        """Seconds of the forward and the backward pass of a micro-batch."""
        s, c = self.strategy, self.cluster
        times = layer.seconds or (
            max(layer.forward / c.flops, layer.forward_bytes / c.bandwidth),
            max(layer.backward / c.flops, layer.backward_bytes / c.bandwidth),
        )
        forward, backward = [t / (s.microbatches * s.tensor) for t in times]
        return forward, backward

    def computed(self, layer: Layer) -> tuple[float, float]:
        """The same with what is computed again."""
        forward, backward = self.alone(layer)
        return forward, backward + (forward if self.strategy.recompute else 0.0)

    def seconds(self, layer: Layer) -> tuple[float, float]:
        """The same with sums over tensor ranks."""
        s = self.strategy
        sums = s.exchanges * self.cluster.all_reduce(layer.passed / s.microbatches, s.tensor)
        forward, backward = self.computed(layer)
        return forward + sums, backward + sums

    def kept(self, layer: Layer) -> float:
        """Bytes that wait for the backward pass."""
        return layer.passed if self.strategy.recompute else layer.kept

    def gathered(self, layer: Layer) -> float:
        """Seconds until a replica has the parameters of a layer whole."""
        if self.strategy.zero < 3:
            return 0.0
        return self.cluster.all_gather(self.held(layer), self.strategy.data, self.strategy.tensor)

    def held(self, layer: Layer) -> float:
        """Bytes of parameters of a layer in a rank that has them whole."""
        return layer.parameters / self.strategy.tensor

    # one stage of one rank ------------------------------------------------------------------------

    def passes(self, stage: list[Layer]) -> _Passes:
        """The times of a stage: of a micro-batch, and of what follows on the last one."""
        back = stage[::-1]
        forward = self._one_by_one([(self.seconds(x)[0], self.gathered(x)) for x in stage])
        backward = self._one_by_one([(self.seconds(x)[1], self.gathered(x)) for x in back])
        compute = sum([sum(self.computed(x)) for x in stage])
        return _Passes(forward, backward, compute, self._tail(back, backward))

    def _one_by_one(self, work: list[tuple[float, float]]) -> float:
        """Seconds of layers, each run when its parameters are there."""
        sent = done = 0.0
        for compute, gather in work:
            sent = (sent if self.strategy.overlap else max(sent, done)) + gather
            done = max(done, sent) + compute
        return done

    def _tail(self, back: list[Layer], done: float) -> float:
        """Seconds from the end of the backward pass until all gradients are summed."""
        s = self.strategy
        if s.data == 1:
            return 0.0
        at, sent, waiting = 0.0, 0.0, 0.0
        for i, layer in enumerate(back):
            at += self.seconds(layer)[1]
            waiting += self.held(layer)
            if waiting >= s.bucket or i == len(back) - 1:
                sent = max(sent, at if s.overlap else done) + self.summed(waiting)
                waiting = 0.0
        return max(sent - done, 0.0)

    def summed(self, nbytes: float) -> float:
        """Seconds until gradients are summed over replicas."""
        s, c = self.strategy, self.cluster
        if s.zero >= 2:
            return c.reduce_scatter(nbytes, s.data, s.tensor)
        return c.all_reduce(nbytes, s.data, s.tensor)

    def update(self, stage: list[Layer]) -> tuple[float, float]:
        """Seconds of the optimizer, and of the parameters that come back from other replicas."""
        s, c = self.strategy, self.cluster
        nbytes = sum([self.held(x) for x in stage])
        own = nbytes / (s.data if s.zero else 1)
        back = c.all_gather(nbytes, s.data, s.tensor) if s.zero in (1, 2) else 0.0
        return own * (3 + 2 * self.slots) / c.bandwidth, back  # reads p, g, slots; writes p, slots

    # all stages -----------------------------------------------------------------------------------

    def report(self, seed: int) -> Report:
        s, c = self.strategy, self.cluster
        own = [[i for i in range(s.stages) if i % s.pipeline == r] for r in range(s.pipeline)]
        span, compute, waits = self._pipeline(own)
        updates = [[self.update(self.stages[i]) for i in stages] for stages in own]
        update = max([sum([t for t, _ in of_rank]) for of_rank in updates])
        back = max([sum([t for _, t in of_rank]) for of_rank in updates])
        late = self._straggling(compute + update, seed)
        parts = self._memory(own)
        memory = sum(parts.values())
        step = span + update + back + late
        layers = [x for stage in self.stages for x in stage]
        alone = s.microbatches * sum([sum(self.alone(x)) for x in layers]) * s.tensor
        alone += update * s.pipeline * s.tensor
        mtbf = c.mtbf / s.ranks
        written = sum([x.parameters for x in layers]) * (1 + self.slots) / c.storage
        every = interval(written, mtbf)
        return Report(
            step, compute + update, waits + back, span - compute - waits, late,
            memory, parts, memory <= c.memory, s.ranks,
            min(1.0, alone / (step * s.tensor * s.pipeline)), mtbf, written, every,
            goodput(every, written, c.restart + written, mtbf),
        )  # fmt: skip

    def _order(self) -> Order:
        s = self.strategy
        return with_messages(SCHEDULES[s.schedule](s.pipeline, s.virtual, s.microbatches))

    def _pipeline(self, own: list[list[int]]) -> tuple[float, float, float]:
        """Seconds until the slowest rank is through, and those in which it computes and waits."""
        s = self.strategy
        passes = [self.passes(stage) for stage in self.stages]
        passed = [
            self.cluster.send(stage[-1].passed / (s.microbatches * s.tensor), s.data * s.tensor)
            for stage in self.stages
        ]

        def cost(action: Action) -> float:
            stage, kind, _ = action
            if kind in (SEND_F, SEND_B):
                return passed[stage if kind == SEND_F else stage - 1]
            if kind == FORWARD:
                return passes[stage].forward
            share = {FULL: 1.0, INPUT: 0.5, WEIGHT: 0.5}.get(kind, 0.0)
            return passes[stage].backward * share

        order = self._order()
        ends = prove(order, s.stages, s.microbatches, cost).ends
        found = []
        for stages, actions in zip(own, order):
            mine = [passes[i] for i in stages]
            tail = sum([x.tail for x in mine])
            whole = s.microbatches * sum([x.forward + x.backward for x in mine]) + tail
            compute = s.microbatches * sum([x.compute for x in mine])
            found.append((max([ends[a] for a in actions]) + tail, compute, whole - compute))
        return max(found)

    def _straggling(self, compute: float, seed: int) -> float:
        """By how much the slowest of all ranks is late, as an average over many steps."""
        spread, ranks = self.cluster.spread, self.strategy.ranks
        if not spread or ranks == 1:
            return 0.0
        from scipy.special import ndtri

        uniform = np.random.default_rng(seed).random(_DRAWS)  # the largest of n: its n-th root
        slowest = np.exp(spread * ndtri(uniform ** (1 / ranks)) - spread**2 / 2)
        return float(compute * max(slowest.mean() - 1.0, 0.0))

    def _memory(self, own: list[list[int]]) -> dict[str, float]:
        """Bytes of the fullest rank, by what they are."""
        s = self.strategy
        cut = lambda level: s.data if s.zero >= level else 1
        live = prove(self._order(), s.stages, s.microbatches).live
        found = []
        for stages, held in zip(own, live):
            layers = [x for i in stages for x in self.stages[i]]
            parameters = sum([self.held(x) for x in layers])
            largest = max([self.held(x) for x in layers])
            kept = max([sum([self.kept(x) for x in self.stages[i]]) for i in stages]) * held
            kept += max([x.kept for x in layers]) if s.recompute else 0.0
            found.append(
                {
                    "parameters": parameters / cut(3) + (largest if s.zero == 3 else 0.0),
                    "gradients": parameters / cut(2) + (largest if s.zero >= 2 else 0.0),
                    "optimizer": parameters * self.slots / cut(1),
                    "activations": kept / (s.microbatches * s.tensor),
                }
            )
        return max(found, key=lambda parts: sum(parts.values()))


def _balanced(layers: list[Layer], count: int, weights: list[float]) -> list[list[Layer]]:
    """Layers in ``count`` runs, the slowest of which is as fast as it can be.

    By bisection of its time: as many layers as fit into it make a run.
    """
    low, high = max(weights), sum(weights)
    for _ in range(60):
        middle = (low + high) / 2
        if len(_runs(weights, middle, count)) <= count:
            high = middle
        else:
            low = middle
    cuts = _runs(weights, high * (1 + 1e-12), count)
    return [layers[a:b] for a, b in cuts]


def _runs(weights: list[float], most: float, count: int) -> list[tuple[int, int]]:
    """Runs of at most ``most`` each; with enough left that every one of ``count`` has a layer."""
    out, start, total = [], 0, 0.0
    for i, w in enumerate(weights):
        short = len(weights) - i <= count - len(out) - 1
        if i > start and (total + w > most or short):
            out.append((start, i))
            start, total = i, 0.0
        total += w
    return [*out, (start, len(weights))]
