"""One step of a pipeline in one rank: its list of actions, run on its stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx.distributed.pipelining.actions import (
    FORWARD,
    FULL,
    INPUT,
    RECV_B,
    RECV_F,
    SEND_B,
    SEND_F,
    WEIGHT,
    Action,
)  # fmt: skip
from fx.distributed.pipelining.channel import Channel, Passed
from fx.distributed.pipelining.stage import PipelineStage
from fx.tensor import Tensor


class Step:
    """A step under way.

    Args:
        stages: those of this rank, by their numbers.
        channel: to the other ranks.
        args, kwargs: of each micro-batch.
        targets: of each micro-batch, where the loss is computed.
        loss: the function and its keyword arguments; None: there is no loss.
        trains: whether there is a way back.
        keeps: whether results are kept.

    Attributes:
        outputs, losses: of each micro-batch, in the rank of the last stage.
    """

    def __init__(
        self,
        stages: dict[int, PipelineStage],
        channel: Channel,
        args: Sequence[tuple[Any, ...]],
        kwargs: Sequence[dict[str, Any]],
        targets: Sequence[Any] | None,
        loss: tuple[Callable[..., Any], dict[str, Any]] | None,
        trains: bool,
        keeps: bool,
    ) -> None:
        self.stages, self.channel = stages, channel
        self.args, self.kwargs, self.targets = args, kwargs, targets
        self.loss, self.trains, self.keeps = loss, trains, keeps
        self.outputs: dict[int, Any] = {}
        self.losses: dict[int, Tensor] = {}
        self._results: dict[tuple[int, int], Sequence[Tensor]] = {}  # that a stage waits for
        self._cotangents: dict[tuple[int, int], list[Tensor]] = {}
        self._do: dict[str, Callable[[int, int], None]] = {
            FORWARD: self._forward,
            FULL: self._backward,
            INPUT: self._input,
            WEIGHT: lambda s, m: self.stages[s].backward_weight(m),
            SEND_F: lambda s, m: channel.send_results(s, m, self._results.pop((s + 1, m))),
            SEND_B: lambda s, m: channel.send_cotangents(s, m, self._cotangents.pop((s - 1, m))),
            RECV_F: self._take_results,
            RECV_B: self._take_cotangents,
        }

    def run(self, actions: Sequence[Action]) -> None:
        """Do all of them, then wait until what was sent has gone."""
        for action in actions:
            self.channel.poll()
            self._do[action.kind](action.stage, action.microbatch)
        self.channel.end()

    def _take_results(self, s: int, m: int) -> None:
        self._results[s, m] = self.channel.take_results(s - 1, m)

    def _take_cotangents(self, s: int, m: int) -> None:
        self._cotangents[s, m] = self.channel.take_cotangents(s, m)

    def _forward(self, s: int, m: int) -> None:
        stage = self.stages[s]
        args, wanted = self.args[m], ()
        if s:
            args = tuple(self._results.pop((s, m)))
            wanted = tuple([p.requires_grad for p in self.channel.results[s - 1]])
        loss = None
        if stage.is_last and self.loss is not None and self.targets is not None:
            loss = (self.loss[0], self.targets[m], self.loss[1])
        out, passing, flags, value = stage.forward_one(
            m, args, self.kwargs[m], wanted, loss, self.trains
        )
        if stage.is_last:
            if self.keeps:
                self.outputs[m] = out
            if value is not None:
                self.losses[m] = value
            return
        self.channel.fix(s, m, tuple(
            [Passed(tuple(x.shape), x.dtype.name, f) for x, f in zip(passing, flags)]
        ))  # fmt: skip
        self._results[s + 1, m] = passing

    def _backward(self, s: int, m: int) -> None:
        self._came_back(s, m, self.stages[s].backward_one)

    def _input(self, s: int, m: int) -> None:
        self._came_back(s, m, self.stages[s].backward_input)

    def _came_back(self, s: int, m: int, way: Callable[[int, Any], list[Tensor]]) -> None:
        cts = None if self.stages[s].is_last else self._cotangents.pop((s, m))
        found = way(m, cts)
        if s:
            self._cotangents[s - 1, m] = found
