"""The schedules: a pipeline's stages, how they are run, and what a step gives.

``step`` cuts the batch, runs this rank's list of actions, scales and sums gradients, and puts the
results together. A schedule of one's own is a file of actions: ``_load_csv``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, ClassVar

from fx.config import is_grad_enabled, no_grad
from fx.distributed.errors import DistError
from fx.distributed.filling import array_of
from fx.distributed.messages import all_gather_object
from fx.distributed.pipelining import orders
from fx.distributed.pipelining.actions import (
    COMPUTES,
    Order,
    forward_only,
    homes,
    read_csv,
    with_messages,
    write_csv,
)  # fmt: skip
from fx.distributed.pipelining.channel import Channel, Said
from fx.distributed.pipelining.microbatches import (
    merge_chunks,
    split_args_kwargs_into_chunks,
    split_tensor,
)  # fmt: skip
from fx.distributed.pipelining.proof import prove
from fx.distributed.pipelining.running import Step
from fx.distributed.pipelining.stage import PipelineStage
from fx.errors import ArgumentError, BackwardError
from fx.prims.creation import zeros_like_spec


class _Schedule:
    """What all schedules do; ``_of`` makes the order of one."""

    _of: ClassVar[Callable[[int, int, int], Order]]

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None,
        args_chunk_spec: Any,
        kwargs_chunk_spec: Any,
        output_merge_spec: Any,
        scale_grads: bool,
    ) -> None:
        name = type(self).__name__
        if not stages or not all(isinstance(s, PipelineStage) for s in stages):
            raise ArgumentError(f"{name}: expected PipelineStages, got {stages!r}")
        if isinstance(n_microbatches, bool) or not isinstance(n_microbatches, int):
            raise ArgumentError(f"{name}: n_microbatches is an int, got {n_microbatches!r}")
        if n_microbatches < 1:
            raise ArgumentError(f"{name}: n_microbatches is 1 or more, got {n_microbatches}")
        first = stages[0]
        for s in stages:
            if s.num_stages != first.num_stages or s.group is not first.group:
                raise ArgumentError(f"{name}: the stages are of different pipelines")
            if s.tied != first.tied:
                raise ArgumentError(f"{name}: the stages differ in what is tied")
        ranks = first.group_size
        if first.num_stages % ranks:
            raise ArgumentError(
                f"{name}: {first.num_stages} stages do not divide among {ranks} ranks; every rank "
                f"has as many"
            )
        self.group, self.rank, self.pp_group_size = first.group, first.group_rank, ranks
        self._stages = {s.stage_index: s for s in stages}
        self._num_stages, self._n_microbatches = first.num_stages, n_microbatches
        self._tied = first.tied
        self._loss_fn, self._has_backward = loss_fn, loss_fn is not None
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec, self.scale_grads = output_merge_spec, scale_grads
        self._said, self._compared = Said(), set[bool]()
        self._take(type(self)._of(ranks, first.num_stages // ranks, n_microbatches))

    def _take(self, order: Order) -> None:
        """Have an order of computing actions, with the messages that it needs."""
        whole = with_messages(order)
        if len(whole) != self.pp_group_size:
            raise ArgumentError(
                f"the schedule is for {len(whole)} ranks, and the group has {self.pp_group_size}"
            )
        prove(whole, self._num_stages, self._n_microbatches)
        home = homes(whole)
        mine = sorted([s for s, rank in home.items() if rank == self.rank])
        if mine != sorted(self._stages):
            raise ArgumentError(
                f"{type(self).__name__}: rank {self.rank} has stages {sorted(self._stages)}, and "
                f"is to have {mine}, of {self._num_stages} in {self.pp_group_size} ranks"
            )
        self.pipeline_order = dict(enumerate(order))
        self._home, self._whole, self._ahead = home, whole, forward_only(whole)

    def _dump_csv(self, filename: Any) -> None:
        """Write the computing actions: a row a rank."""
        write_csv([*self.pipeline_order.values()], filename)

    def _load_csv(self, filename: Any, format: str = "compute_only") -> None:
        """Run the actions of such a file from now on.

        Raises:
            ArgumentError: if they are not whole, in no order that ends, or for other stages.
        """
        if format not in ("compute_only", "compute_comms"):
            raise ArgumentError(f"format is 'compute_only' or 'compute_comms', got {format!r}")
        order = read_csv(filename)
        if format == "compute_comms":
            prove(order, self._num_stages, self._n_microbatches)
        self._take([[a for a in actions if a.kind in COMPUTES] for actions in order])

    # a step ---------------------------------------------------------------------------------------

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run a batch through the pipeline, forward and, where there is a ``loss_fn``, back.

        All ranks call it. Gradients are added to ``grad`` of the parameters of each stage.

        Args:
            args: of the model, in the rank of the first stage.
            target: what ``loss_fn`` takes besides the results, in the rank of the last stage.
            losses: a list that is filled with the loss of each micro-batch, in that rank.
            return_outputs: whether that rank returns the results.
            loss_kwargs: more arguments of ``loss_fn``.
            kwargs: of the modules of this rank's stages.

        Returns:
            the results of all micro-batches together in the rank of the last stage, else None.

        Raises:
            ShapeError: if the batch does not divide.
            DistError: if micro-batches do not pass alike, or the ranks run different schedules.
        """
        if self._has_backward and not is_grad_enabled():
            raise BackwardError(
                "step() requires gradients to be enabled for backward computation; it should not "
                "be used under no_grad(). Please call eval() instead."
            )
        trains = self._has_backward
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs, trains)

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The same without a way back; losses are computed where there is a ``target``."""
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs, False)

    def _run(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Any,
        losses: list[Any] | None,
        return_outputs: bool,
        loss_kwargs: dict[str, Any] | None,
        trains: bool,
    ) -> Any:
        count, last = self._n_microbatches, self._num_stages - 1 in self._stages
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        if trains and last and target is None:
            raise ArgumentError("step: the rank of the last stage gives target=, for loss_fn")
        cut_args, cut_kwargs = split_args_kwargs_into_chunks(
            args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec
        )
        targets = None if target is None else split_tensor(target, 0, count, "target")
        self._compare(trains)
        loss = None if self._loss_fn is None else (self._loss_fn, loss_kwargs or {})
        keeps = last and return_outputs
        channel = Channel(self.group, self._home, count, self._said)
        step = Step(self._stages, channel, cut_args, cut_kwargs, targets, loss, trains, keeps)
        before = self._set_aside() if trains else []
        try:
            step.run((self._whole if trains else self._ahead)[self.rank])
            if trains:
                self._finish(channel)
        finally:
            for s in self._stages.values():
                s.clear()
            self._add_back(before)
        if losses is not None and last:
            losses[:] = [step.losses[m] for m in sorted(step.losses)]
        if not keeps:
            return None
        return merge_chunks([step.outputs[m] for m in range(count)], self._output_merge_spec)

    def _compare(self, trains: bool) -> None:
        """Refuse ranks that run other schedules; once for each kind of step."""
        if trains in self._compared:
            return
        mine = (*self._kind(trains), self._tied_values())
        everyone: list[Any] = [mine]
        if self.group.size() > 1:
            everyone = [None] * self.group.size()
            all_gather_object(everyone, mine, self.group)
        for rank, other in zip(self.group.ranks, everyone):
            if other[:-1] != everyone[0][:-1]:
                raise DistError(
                    f"the ranks run different steps: rank {self.group.ranks[0]} "
                    f"{_said_of(*everyone[0])}, and rank {rank} {_said_of(*other)}"
                )
        for number, names in enumerate(self._tied):
            values = {v for *_, told in everyone for n, v in told if n == number}
            if len(values) > 1:
                raise DistError(
                    f"the parameters tied as {names} do not begin with the same values; copy them "
                    f"from one stage to the others"
                )
        self._compared.add(trains)

    def _kind(self, trains: bool) -> tuple[str, int, int, bool]:
        return type(self).__name__, self._n_microbatches, self._num_stages, trains

    def _tied_values(self) -> list[tuple[int, str]]:
        """The numbers of what is tied here, with hashes of the values."""
        return [
            (number, sha256(array_of(self._stages[s].parameter(name), "tied")).hexdigest())
            for number, names in enumerate(self._tied)
            for s, name in names.items()
            if s in self._stages
        ]

    # gradients ------------------------------------------------------------------------------------

    def _parameters(self) -> list[Any]:
        """Those of all stages here, each once."""
        found = {id(p): p for s in self._stages.values() for p in s._module.parameters()}
        return [p for p in found.values() if p.requires_grad]

    def _set_aside(self) -> list[tuple[Any, Any]]:
        """What is there before the step: scaled, summed and averaged is what the step adds."""
        held = [(p, p.grad) for p in self._parameters()]
        held = [(p, None if g is None else g.detach()) for p, g in held]
        for p, _ in held:
            p.grad = None
        return held

    def _add_back(self, before: list[tuple[Any, Any]]) -> None:
        with no_grad():
            for p, g in before:
                if g is not None:
                    p.grad = g if p.grad is None else g + p.grad

    def _finish(self, channel: Channel) -> None:
        """Sum the gradients of tied parameters, average those of data parallel stages, scale."""
        with no_grad():
            if self.scale_grads and self._n_microbatches > 1:
                for p in self._parameters():
                    if p.grad is not None:
                        p.grad = p.grad / self._n_microbatches
            for number, names in enumerate(self._tied):
                self._sum_tied(channel, number, names)
        channel.end()
        for s in self._stages.values():
            s.average()

    def _sum_tied(self, channel: Channel, number: int, names: dict[int, str]) -> None:
        here = [self._stages[s].parameter(names[s]) for s in sorted(names) if s in self._stages]
        if not here:
            return
        once = {id(p): p for p in here}.values()
        parts = [zeros_like_spec(p.spec) if p.grad is None else p.grad.detach() for p in once]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        ranks = list(dict.fromkeys([self._home[s] for s in sorted(names)]))
        total = channel.sum_over(ranks, number, total)
        for p in once:
            if p.requires_grad:
                p.grad = total


def _said_of(name: str, count: int, stages: int, trains: bool, *_: Any) -> str:
    verb = "trains" if trains else "only goes forward"
    return f"{verb} by {name} with {count} microbatches and {stages} stages"


class PipelineScheduleSingle(_Schedule):
    """A schedule of one stage in each rank.

    Args:
        stage: that of this rank.
        n_microbatches: into how many a batch is cut.
        loss_fn: ``loss_fn(output, target)``; None: there is no way back.
        args_chunk_spec, kwargs_chunk_spec: a ``TensorChunkSpec`` for each argument; by default
            tensors are cut along axis 0, and all else is handed on.
        output_merge_spec: how the results are put together; by default along axis 0.
        scale_grads: whether gradients are divided by ``n_microbatches``, for losses that are means.

    Raises:
        ArgumentError: if the stages and ranks, or the number of micro-batches, do not fit.
    """

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        super().__init__(
            [stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec,
            output_merge_spec, scale_grads,
        )  # fmt: skip


class PipelineScheduleMulti(_Schedule):
    """A schedule of several stages in each rank; arguments as of ``PipelineScheduleSingle``.

    Args:
        stages: those of this rank.
    """

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec,
            output_merge_spec, scale_grads,
        )  # fmt: skip


class ScheduleGPipe(PipelineScheduleSingle):
    """All micro-batches forward, then all back: all activations are held."""

    _of = staticmethod(orders.gpipe)


class Schedule1F1B(PipelineScheduleSingle):
    """One forward, one back: rank ``r`` of ``p`` holds ``p - r`` micro-batches."""

    _of = staticmethod(orders.one_f_one_b)


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """GPipe with several stages a rank, the earliest first."""

    _of = staticmethod(orders.looped_bfs)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B with several stages a rank."""

    _of = staticmethod(orders.interleaved)


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """The same, where the cotangents of weights fill the time in which a rank would wait."""

    _of = staticmethod(orders.interleaved_zero_bubble)


class ScheduleZBVZeroBubble(PipelineScheduleMulti):
    """Two stages a rank, first and last in rank 0: no bubble where F, I and W take as long."""

    _of = staticmethod(orders.zbv)


_CLASSES: tuple[Any, ...] = (
    Schedule1F1B, ScheduleInterleaved1F1B, ScheduleGPipe, ScheduleLoopedBFS,
    ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble,
)  # fmt: skip


def get_schedule_class(schedule_name: str) -> type[_Schedule]:
    """The schedule of a name, as ``"1F1B"`` or ``"ZBVZeroBubble"``; small letters will do.

    Raises:
        ArgumentError: if there is none.
    """
    names = {c.__name__.removeprefix("Schedule"): c for c in _CLASSES}
    for name, found in names.items():
        if name.lower() == schedule_name.lower():
            return found  # type: ignore[no-any-return]
    raise ArgumentError(
        f"Unknown schedule name '{schedule_name}'. The valid options are {list(names)}"
    )
