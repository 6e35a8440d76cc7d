"""``ZeroRedundancyOptimizer``: each rank keeps the state of its part of the parameters (ZeRO-1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fx.config import modes
from fx.distributed.errors import DistError
from fx.distributed.filling import refuse_staging
from fx.distributed.groups import world
from fx.distributed.messages import gather_object
from fx.distributed.uneven import Join, Joinable, JoinHook
from fx.errors import ArgumentError
from fx.nn.data_parallel.values import take
from fx.optim.lbfgs import LBFGS
from fx.optim.optimizer import Optimizer, with_hooks
from fx.transaction import whole


class _Steps(JoinHook):
    """A rank that is through steps its part as long as others go on."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        self._optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is shared out: a rank steps its own parameters, and all take them.

    Every rank has all parameters and gradients, as ``DistributedDataParallel`` leaves them. Each
    parameter belongs to one rank, so that their sizes are about even; the others keep no state of
    it. The numbers are those of the same optimizer in each rank, bit for bit.

    Args:
        params: as for any optimizer, the same in all ranks.
        optimizer_class: the optimizer, which treats each parameter by itself.
        process_group: the ranks; None: all.
        parameters_as_bucket_view: accepted; it changes nothing here.
        overlap_with_ddp: False.
        **defaults: the options of ``optimizer_class``.

    Raises:
        TypeError: if ``optimizer_class`` is no class of an optimizer.
        ValueError: if it looks at all parameters at once, as LBFGS, or ``overlap_with_ddp``.

    Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
    Models" (2020), stage 1; ``torch.distributed.optim.ZeroRedundancyOptimizer``.

    Example:
        >>> import fx, fx.distributed as dist
        >>> from fx.optim.zero_redundancy import ZeroRedundancyOptimizer
        >>> dist.init_process_group("fake", rank=0, world_size=2)
        >>> model = fx.nn.Linear(3, 2)
        >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), fx.optim.Adam, lr=0.1)
        >>> [tuple(p.shape) for p in optimizer.optim.param_groups[0]["params"]]  # rank 1: the bias
        [(2, 3)]
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
            raise TypeError(
                f"ZeroRedundancyOptimizer: optimizer_class is a class such as fx.optim.Adam, not "
                f"{optimizer_class!r}"
            )
        if issubclass(optimizer_class, LBFGS):
            raise ArgumentError(
                "ZeroRedundancyOptimizer: LBFGS looks at all parameters at once, and a rank has "
                "the state of some; use LBFGS itself"
            )
        if overlap_with_ddp:
            raise ArgumentError(
                "ZeroRedundancyOptimizer: the step follows the backward pass here; leave out "
                "overlap_with_ddp"
            )
        self.process_group = world(process_group)
        self.optim: Any = None  # the optimizer of this rank's part
        self._owned: list[list[Any]] = [[] for _ in self.process_group.ranks]
        self._loads = [0] * len(self._owned)  # elements that each rank steps
        self._consolidated: dict[int, Any] | None = None
        super().__init__(params, defaults)
        self.optim = optimizer_class([self._part(g) for g in self.param_groups], **defaults)
        for group, own in zip(self.param_groups, self.optim.param_groups):
            _share(own, group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own; every rank does."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in sorted(group["params"], key=lambda p: p.size, reverse=True):
            rank = min(range(len(self._loads)), key=self._loads.__getitem__)
            self._owned[rank].append(p)
            self._loads[rank] += p.size
        if self.optim is not None:
            self.optim.add_param_group(self._part(group))
            _share(self.optim.param_groups[-1], group)

    def _part(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """A group with this rank's parameters alone."""
        mine = set(map(id, self._owned[self.process_group.rank()]))
        own = [i for i, p in enumerate(group["params"]) if id(p) in mine]
        out = {**group, "params": [group["params"][i] for i in own]}
        if "param_names" in group:
            out["params"] = [(group["param_names"][i], group["params"][i]) for i in own]
            del out["param_names"]
        return out

    @with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step this rank's part, and take the others'. Every rank calls it.

        Args:
            closure: computes the loss and its gradients first; its result is returned.
        """
        if modes.stage is not None:
            refuse_staging(modes.stage, "ZeroRedundancyOptimizer.step")
        Join.notify_join_context(self)
        pairs = list(zip(self.param_groups, self.optim.param_groups))
        for group, own in pairs:
            _share(group, own)
        loss = self.optim.step(closure)
        for group, own in pairs:
            _share(own, group)
        for rank, owned in enumerate(self._owned):
            take(self.process_group, owned, rank)
        self._consolidated = None
        return loss

    # uneven ranks -------------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank that is through does in a block of ``Join``."""
        return _Steps(self)

    @property
    def join_device(self) -> Any:
        """Where its messages lie."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The ranks that step."""
        return self.process_group

    # state --------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state of all parts in one rank, whose ``state_dict`` gives it until a step.

        Args:
            to: the rank, by its number in the group.
        """
        group = self.process_group
        here = group.rank() == to
        parts: list[Any] | None = [None] * group.size() if here else None
        if group.comm is None:
            raise DistError("consolidate_state_dict: the backend 'fake' has nobody to ask")
        gather_object(self._own_state(), parts, group=group, group_dst=to)
        self._consolidated = None
        if parts is not None:
            self._consolidated = {number: held for part in parts for number, held in part.items()}

    def _own_state(self) -> dict[int, Any]:
        """The state of this rank's parameters by their numbers among all."""
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        own = [numbers[id(p)] for p in self.optim._parameters()]
        return {own[i]: held for i, held in self.optim.state_dict()["state"].items()}

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters, as that of ``optimizer_class`` itself.

        Raises:
            RuntimeError: if it was not gathered here since the last step.
        """
        if self._consolidated is None:
            raise DistError(
                f"Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.process_group.rank()})` on all ranks beforehand "
                f"if you meant to save the global state."
            )
        return {**super().state_dict(), "state": dict(sorted(self._consolidated.items()))}

    @whole
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over this rank's part of the state of all parameters.

        Raises:
            StateError: as that of ``optimizer_class``.
        """
        found = dict(state_dict)
        super().load_state_dict({**found, "state": {}})
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        own = {numbers[id(p)]: i for i, p in enumerate(self.optim._parameters())}
        state = {own[n]: held for n, held in found["state"].items() if n in own}
        groups, at = [], 0
        for options, group in zip(found["param_groups"], self.optim.param_groups):
            size = len(group["params"])
            part = {**options, "params": list(range(at, at + size))}
            if "param_names" in group:
                part["param_names"] = group["param_names"]
            groups.append(part)
            at += size
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        modes.transaction.set(self, "_consolidated", None)


def _share(source: Mapping[str, Any], target: dict[str, Any]) -> None:
    """Give a group the options of another."""
    for name, value in source.items():
        if name in ("params", "param_names"):
            continue
        if name not in target or target[name] is not value:
            target[name] = value
