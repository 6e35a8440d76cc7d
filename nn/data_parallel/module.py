"""``DistributedDataParallel``: a model in every rank, and the mean of their gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from fx.config import is_grad_enabled, modes
from fx.distributed.errors import DistError
from fx.distributed.filling import refuse_staging
from fx.distributed.groups import world
from fx.distributed.uneven import Join
from fx.errors import ArgumentError
from fx.nn.base.module import Module
from fx.nn.data_parallel.joining import Hook, Joining
from fx.nn.data_parallel.reducer import Reducer
from fx.nn.data_parallel.values import NAME, same_models, take
from fx.nn.data_parallel.virtual import VirtualRanks
from fx.nn.layers.instance_norms import SyncBatchNorm

_BUCKET = 25  # MB of gradients that are averaged together


def _ranks_of(process_group: Any, device_mesh: Any) -> Any:
    if device_mesh is None:
        return process_group
    if process_group is not None:
        raise DistError("Cannot specify both process_group and device_mesh arguments.")
    if device_mesh.ndim != 1:
        raise DistError(
            f"Only 1D device mesh is supported, but got {device_mesh}; write mesh['name']"
        )
    return device_mesh.get_group(0)


class DistributedDataParallel(Module):
    """A module in each rank of a group: the same parameters, and the mean of all gradients.

    Each rank gives it batches of its own. ``.backward()`` averages the gradients over the ranks, so
    that the same optimizer step in each keeps them equal. All begin with what rank 0 has.

    Args:
        module: the model; ``state_dict`` has ``module.`` in front of its names.
        process_group: the ranks; None: all.
        broadcast_buffers: before each forward pass that follows one whose gradients are averaged,
            take the buffers of rank 0. False: each rank keeps its own, from the beginning on.
        forward_sync_buffers: the same, but all begin with rank 0's buffers even where it is False.
        init_sync: begin with what rank 0 has, and see that the models are alike.
        bucket_cap_mb: how many MB of gradients are averaged together.
        find_unused_parameters: look which parameters have no part in a forward pass.
        static_graph: the same parameters take part in every pass as in the first.
        virtual_ranks: let each process stand for several ranks, of which there are so many in all:
            ``micro_batches`` cuts its batch, and training has the same bits on 1, 2, 4 … of them.
        device_mesh: the ranks along its one axis, in place of ``process_group``.
        device_ids, output_device: None; modules are on the CPU.
        dim, check_reduction, gradient_as_bucket_view, batched_grad_copy: accepted; they change
            nothing here.

    Raises:
        ValueError: if virtual ranks do not divide among the processes, or go with what depends on
            how many processes there are.
        RuntimeError: if no parameter requires grad; in a forward pass, naming the parameters, if
            the pass before left some without a gradient.
        DistError: if the models of the ranks differ.

    Example:
        >>> import fx, fx.distributed as dist
        >>> dist.init_process_group("fake", rank=0, world_size=2)
        >>> model = fx.nn.parallel.DistributedDataParallel(fx.nn.Linear(3, 1))
        >>> model(fx.ones((4, 3))).sum().backward()
        >>> model.module.bias.grad
        tensor([4.])
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Any = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
        *,
        virtual_ranks: int | None = None,
    ) -> None:
        super().__init__()
        for name, value in (
            ("device_ids", device_ids),
            ("output_device", output_device),
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("mixed_precision", mixed_precision),
            ("skip_all_reduce_unused_params", skip_all_reduce_unused_params),
            ("bucket_cap_mb_list", bucket_cap_mb_list),
        ):
            if value:
                raise ArgumentError(f"{NAME}: {name} is not for modules on the CPU; leave it out")
        left_out = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(n, p) for n, p in module.named_parameters() if n not in left_out]
        trained = [(n, p) for n, p in named if p.requires_grad]
        if not trained:
            raise ArgumentError(
                f"{NAME} is not needed when a module doesn't have any parameter that requires a "
                f"gradient."
            )
        self.module = module
        self.process_group = world(_ranks_of(process_group, device_mesh))
        self.static_graph = static_graph
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.batched_grad_copy = batched_grad_copy
        if check_reduction:
            warnings.warn(
                "The `check_reduction` argument in `DistributedDataParallel` module is deprecated. "
                "Please avoid using it.",
                FutureWarning,
                stacklevel=2,
            )
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True  # whether the pass before was one that averages
        sync = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.broadcast_buffers = True if sync is None else bool(sync)
        self._ignored = left_out
        # rank-local buffers: only the deprecated name keeps them from the beginning on
        own_buffers = forward_sync_buffers is None and not self.broadcast_buffers
        if init_sync:
            same_models(self.process_group, named)
            buffers = [] if own_buffers else self._synced()
            take(self.process_group, [p for _, p in named] + buffers, 0)
        self._bucket_bytes = int((_BUCKET if bucket_cap_mb is None else bucket_cap_mb) * 2**20)
        self._reducer = self._reduces()
        self._joining: Joining | None = None
        self._hook_compiles = True
        if virtual_ranks is not None:
            self._reducer.virtual = self._virtual(virtual_ranks)

    def _reduces(self) -> Reducer:
        named = self.module.named_parameters()
        trained = [(n, p) for n, p in named if n not in self._ignored and p.requires_grad]
        looks = self.find_unused_parameters or self.static_graph
        return Reducer(self.process_group, trained, self._bucket_bytes, looks)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: a copy averages on its own, among the same ranks."""
        if self.process_group is not world():
            raise DistError(
                f"{NAME}: only a model of the default group is copied or pickled; copy its .module"
            )
        state = super().__getstate__()
        virtual = self._reducer.virtual
        state["_virtual_ranks"] = None if virtual is None else virtual.count
        for name in ("process_group", "_reducer", "_joining"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        count = state.pop("_virtual_ranks")
        super().__setstate__(state)
        self.process_group, self._joining = world(), None
        self._reducer = self._reduces()
        if count is not None:
            self._reducer.virtual = self._virtual(count)

    def _virtual(self, count: int) -> VirtualRanks:
        looks = "find_unused_parameters" if self.find_unused_parameters else "static_graph"
        layers = [m for m in self.module.modules() if isinstance(m, SyncBatchNorm)]
        for refused, what in (
            (self._reducer.looks, looks),
            (layers, "SyncBatchNorm, which needs all ranks at once,"),
            (self._synced() and not self.broadcast_buffers, "broadcast_buffers=False"),
        ):
            if refused:
                raise ArgumentError(f"{NAME}: {what} does not go with virtual_ranks; leave it out")
        return VirtualRanks(count, self.process_group)

    def micro_batches(self, *batch: Any) -> Iterator[Any]:
        """The batch of this process as those of its virtual ranks, one after the other.

        Each needs its forward and backward pass before the next. Behind the last one gradients are
        the means over all virtual ranks. What the block draws, it draws as that virtual rank.

        Args:
            batch: tensors, or trees of them, of one length that divides by the virtual ranks of
                this process. With k of them micro-batch j has the rows j, j + k, j + 2 k ..., as
                ``DistributedSampler(dataset, virtual_ranks=...)`` orders them.

        Returns:
            an iterator of what is given: of one thing its parts, of several tuples of parts.

        Raises:
            RuntimeError: if the module has no virtual ranks, or a micro-batch no forward pass.
            ShapeError: if lengths differ or do not divide.

        Example:
            >>> import fx, fx.distributed as dist
            >>> dist.init_process_group("fake", rank=0, world_size=2)
            >>> net = fx.nn.Linear(3, 1)
            >>> model = fx.nn.parallel.DistributedDataParallel(net, virtual_ranks=4)
            >>> for x, y in model.micro_batches(fx.ones((6, 3)), fx.zeros((6, 1))):
            ...     print(x.shape)
            ...     (model(x) - y).sum().backward()
            (3, 3)
            (3, 3)
            >>> net.bias.grad
            tensor([3.])
            >>> dist.destroy_process_group()
        """
        virtual = self._reducer.virtual
        if virtual is None:
            raise DistError(f"micro_batches: write {NAME}(module, virtual_ranks=...)")
        return virtual.turns(batch[0] if len(batch) == 1 else batch)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Iterable[str]
    ) -> None:
        """Leave parameters and buffers, by name, to each rank; before the module is wrapped."""
        module._ddp_params_and_buffers_to_ignore = list(params_and_buffers_to_ignore)  # type: ignore[attr-defined]

    def _set_static_graph(self) -> None:
        """``static_graph=True`` said later, before the first pass."""
        if self._reducer.virtual is not None:
            raise ArgumentError(f"{NAME}: static_graph does not go with virtual_ranks")
        self.static_graph = self._reducer.looks = True

    def register_comm_hook(self, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        """Let a function send the gradients, once a bucket: ``hook(state, bucket)``, once.

        Args:
            state: what the hook is given first; None for its process group means all ranks.
            hook: takes the state and a ``GradBucket``, and gives a ``Future`` of the tensor that
                every parameter's mean is cut of. ``fx.torch.distributed.algorithms.ddp_comm_hooks``
                has some. Those that keep no state compile under ``jit``; with others the step runs
                uncompiled.

        Raises:
            TypeError: if the hook is not callable.
            RuntimeError: if there is one already.
        """
        if not callable(hook):
            raise TypeError(f"Communication hook must be callable, got {type(hook).__name__}")
        if self._reducer.virtual is not None:
            raise DistError("register_comm_hook: virtual_ranks have their own way to add gradients")
        if self._reducer.hook is not None:
            raise DistError("register_comm_hook can only be called once: there is a hook already")
        self._reducer.hook = partial(hook, state)
        self._hook_compiles = bool(getattr(hook, "keeps_no_state", False))

    @property
    def forward_sync_buffers(self) -> bool:
        """Whether passes take the buffers of rank 0: the same as ``broadcast_buffers``."""
        return self.broadcast_buffers

    def _synced(self) -> list[Any]:
        return [b for n, b in self.module.named_buffers() if n not in self._ignored]

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        reducer = self._reducer
        stage = modes.stage
        if stage is not None and (reducer.looks or self._joining is not None):
            refuse_staging(stage, NAME)  # what the ranks tell each other chooses what they do
        if stage is not None and not self._hook_compiles:
            refuse_staging(stage, f"a communication hook of {NAME}")  # it may keep a state
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        if syncs:
            reducer.check_last()
        if self._joining is not None:
            Join.notify_join_context(self)
            self._joining.tell(syncs)
        before = self.require_forward_param_sync
        if stage is not None:
            before = reducer.synced.get(stage, before)
        virtual = reducer.virtual if is_grad_enabled() else None
        first = virtual is None or virtual.number == 0
        if before and self.broadcast_buffers and first:
            take(self.process_group, self._synced(), self._first())
        if virtual is not None:
            virtual.begin(reducer.params, self._synced())
        out = self._run(*inputs, **kwargs)
        if virtual is not None:
            virtual.end(self._synced())
        reducer.armed = syncs
        if syncs:
            out = reducer.prepare(out, self.static_graph)
        if stage is None:
            self.require_forward_param_sync = syncs
        else:
            reducer.synced[stage] = syncs
            stage.at_end(partial(self._check_staged, stage))
        return out

    def _run(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    def _check_staged(self, stage: Any) -> str:
        """Why a function that was staged cannot be compiled; nothing where it can."""
        last = self._reducer.synced[stage]
        if last != self.require_forward_param_sync and self.broadcast_buffers and self._synced():
            return f"whether the next pass takes buffers changes in it, by {NAME}.no_sync()"
        return self._reducer.check_staged()

    def _first(self) -> int:
        """The rank whose buffers all take."""
        return 0 if self._joining is None else self._joining.first

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose gradients stay this rank's own; the next pass averages their sum."""
        if self._reducer.virtual is not None:
            raise DistError(f"{NAME}.no_sync: gradients of virtual ranks are added in every step")
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """A block in which ranks may have different numbers of batches.

        A rank that is through takes part with zeros until the last one is; then all take that one's
        parameters and buffers.

        Args:
            divide_by_initial_world_size: the mean is over all ranks, not over those that go on.
            throw_on_early_termination: raise in all ranks when the first is through.
        """
        if not enable:
            yield
            return
        joining = self._joins(divide_by_initial_world_size, throw_on_early_termination)
        try:
            yield
            joining.shadow()
        finally:
            self._leave_join()

    def _joins(self, by_all: bool, throws: bool) -> Joining:
        if self._reducer.virtual is not None:
            raise DistError(f"{NAME}.join: virtual ranks have batches in every step")
        self._joining, self._reducer.joined = Joining(self, by_all, throws), True
        return self._joining

    def _leave_join(self) -> None:
        self._joining, self._reducer.joined = None, False
        self._reducer.divisor = None

    def join_hook(self, divide_by_initial_world_size: bool = True, **kwargs: Any) -> Hook:
        """What a rank that is through does in a block of ``Join``.

        Args:
            divide_by_initial_world_size: the mean is over all ranks, not over those that go on.
            kwargs: for other joinables.
        """
        return Hook(self._joins(divide_by_initial_world_size, False))

    @property
    def join_device(self) -> Any:
        """Where its messages lie."""
        return next(iter(self.module.parameters())).device

    @property
    def join_process_group(self) -> Any:
        """The ranks that average."""
        return self.process_group
