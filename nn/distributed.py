"""``DistributedDataParallel``: a model in every rank, and the mean of their gradients."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fx import tree
from fx.config import is_grad_enabled, modes, no_grad
from fx.distributed import exchange, staged
from fx.distributed.errors import DistError
from fx.distributed.filling import array_of, refuse_staging
from fx.distributed.groups import world
from fx.distributed.messages import all_gather_object
from fx.distributed.reductions import ReduceOp
from fx.distributed.work import Work
from fx.errors import ArgumentError
from fx.nn.base.module import Module
from fx.tape import Select
from fx.tensor import Tensor, new_tensor

_BUCKET = 25  # MB of gradients that are averaged together
_NAME = "DistributedDataParallel"


class DistributedDataParallel(Module):
    """A module in each rank of a group: the same parameters, and the mean of all gradients.

    Each rank gives it batches of its own. ``.backward()`` averages the gradients over the ranks, so
    that the same optimizer step in each keeps them equal. All begin with what rank 0 has.

    Args:
        module: the model; ``state_dict`` has ``module.`` in front of its names.
        process_group: the ranks; None: all.
        broadcast_buffers: before each forward pass that follows one whose gradients are averaged,
            take the buffers of rank 0. Also called ``forward_sync_buffers``.
        init_sync: begin with what rank 0 has, and see that the models are alike.
        bucket_cap_mb: how many MB of gradients are averaged together.
        find_unused_parameters: look which parameters have no part in a forward pass.
        static_graph: the same parameters take part in every pass as in the first.
        device_ids, output_device: None; modules are on the CPU.
        dim, check_reduction, gradient_as_bucket_view, batched_grad_copy: accepted; they change
            nothing here.

    Raises:
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
    ) -> None:
        super().__init__()
        for name, value in (
            ("device_ids", device_ids),
            ("output_device", output_device),
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh),
            ("skip_all_reduce_unused_params", skip_all_reduce_unused_params),
            ("bucket_cap_mb_list", bucket_cap_mb_list),
        ):
            if value:
                raise ArgumentError(f"{_NAME}: {name} is not for modules on the CPU; leave it out")
        left_out = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(n, p) for n, p in module.named_parameters() if n not in left_out]
        trained = [(n, p) for n, p in named if p.requires_grad]
        if not trained:
            raise ArgumentError(
                f"{_NAME} is not needed when a module doesn't have any parameter that requires a "
                f"gradient."
            )
        self.module = module
        self.process_group = world(process_group)
        self.static_graph = static_graph
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view  # gradients are views anyway
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
        if init_sync:
            _same_models(self.process_group, named)
            take(self.process_group, [p for _, p in named] + self._synced(), 0)
        cap = int((_BUCKET if bucket_cap_mb is None else bucket_cap_mb) * 2**20)
        looks = find_unused_parameters or static_graph
        self._reducer = _Reducer(self.process_group, trained, cap, looks)
        self._joining: _Joining | None = None

    def _synced(self) -> list[Any]:
        return [b for n, b in self.module.named_buffers() if n not in self._ignored]

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        reducer = self._reducer
        stage = modes.stage
        if stage is not None and (reducer.looks or self._joining is not None):
            refuse_staging(stage, _NAME)  # what the ranks tell each other chooses what they do
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        if syncs:
            reducer.check_last()
        if self._joining is not None:
            self._joining.tell(syncs)
        before = self.require_forward_param_sync
        if stage is not None:
            before = reducer.synced.get(stage, before)
        if before and self.broadcast_buffers:
            take(self.process_group, self._synced(), self._first())
        out = self.module(*inputs, **kwargs)
        reducer.armed = syncs
        if syncs:
            reducer.prepare(out if reducer.looks else None, self.static_graph)
        if stage is None:
            self.require_forward_param_sync = syncs
        else:
            reducer.synced[stage] = syncs
            stage.at_end(partial(self._check_staged, stage))
        return out

    def _check_staged(self, stage: Any) -> str:
        """Why a function that was staged cannot be compiled; nothing where it can."""
        last = self._reducer.synced[stage]
        if last != self.require_forward_param_sync and self.broadcast_buffers and self._synced():
            return f"whether the next pass takes buffers changes in it, by {_NAME}.no_sync()"
        return self._reducer.check_staged()

    def _first(self) -> int:
        """The rank whose buffers all take."""
        return 0 if self._joining is None else self._joining.first

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose gradients stay this rank's own; the next pass averages their sum."""
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
        joining = _Joining(self, divide_by_initial_world_size, throw_on_early_termination)
        self._joining = joining
        try:
            yield
            joining.shadow()
        finally:
            self._joining = None
            self._reducer.divisor = None


class _Reducer:
    """Averages gradients in buckets, each as soon as its last gradient is there, in one order."""

    def __init__(self, group: Any, named: list[tuple[str, Any]], cap: int, looks: bool) -> None:
        self.group, self.looks = group, looks
        self.names = [n for n, _ in named]
        self.params = [p for _, p in named]
        self.buckets = _cut(self.params, cap)
        self.divisor: int | None = None  # other than the number of ranks
        self.armed = False  # whether the next backward pass is averaged
        self._unused: set[int] = set()  # without a part in this pass
        self._static: set[int] | None = None  # and in every one
        self._waiting: set[int] = set()
        self._works: list[Work] = []
        self._started = False
        self._staged = False  # whether the pass is one of a function that is being staged
        self.synced: Any = WeakKeyDictionary()  # by stage: whether its last pass averages
        for i, p in enumerate(self.params):
            p.register_post_accumulate_grad_hook(partial(self._ready, i))

    def check_last(self) -> None:
        """Refuse a new pass where the last one was averaged in part."""
        if self._staged or not (self.armed and self._started and self._waiting):
            return
        self.armed = self._started = False
        for work in self._works:
            work.wait()
        names = ", ".join(self.names[i] for i in sorted(self._waiting))
        raise DistError(
            "Expected to have finished reduction in the prior iteration before starting a new one: "
            f"no gradient came for {names}; "
            + (
                "with static_graph=True every pass has the parts of the first"
                if self._static is not None
                else f"write {_NAME}(module, find_unused_parameters=True)"
            )
        )

    def prepare(self, out: Any, static: bool) -> None:
        """Await the gradients of a pass, whose result tells which (None: all)."""
        if static and self._static is not None:
            self._unused = self._static
        else:
            self._unused = set() if out is None else self._without_part(out)
            if static:
                self._static = self._unused
        self._waiting = set(range(len(self.params))) - self._unused
        self._works, self._started = [], False
        self._staged = modes.stage is not None

    def check_staged(self) -> str:
        """Why the averages of a staged function cannot be nodes of it; nothing where they can."""
        armed, self.armed = self.armed, False
        if not (armed and self._staged and self._waiting):
            return ""
        names = ", ".join(self.names[i] for i in sorted(self._waiting))
        return f"no gradient comes in it for {names} of a {_NAME}"

    def _without_part(self, out: Any) -> set[int]:
        """The parameters that no tensor of a result was computed from."""
        nodes = [x._node for x in tree.leaves(out) if isinstance(x, Tensor) and x._node is not None]
        seen = set(map(id, nodes))
        while nodes:
            for parent in nodes.pop().parents:
                node = parent.of if type(parent) is Select else parent
                if node is not None and id(node) not in seen:
                    seen.add(id(node))
                    nodes.append(node)
        return {i for i, p in enumerate(self.params) if id(p._node) not in seen}

    def _ready(self, i: int, p: Any) -> None:
        """The gradient of a parameter is there."""
        if not self.armed or self._staged != (modes.stage is not None):
            return
        if i in self._unused:
            raise DistError(
                f"{self.names[i]} has a gradient, and had no part in the "
                + ("first pass: static_graph=True is wrong here" if self._static is not None
                   else "result: return every tensor that a loss is made of from forward")
            )  # fmt: skip
        self._started = True
        self._waiting.discard(i)
        if self._staged:
            if not self._waiting:
                self._average()
            return
        while len(self._works) < len(self.buckets):
            bucket = self.buckets[len(self._works)]
            if not self._waiting.isdisjoint(bucket):
                break
            self.begin(bucket)
        if not self._waiting:
            self._finish()

    def begin(self, bucket: list[int], zeros: bool = False) -> None:
        """Average a bucket; one without gradients here takes part with zeros."""
        params = [self.params[i] for i in bucket]
        flat = np.zeros(sum(p.size for p in params), params[0]._dtype)
        at = 0
        for i, p in zip(bucket, params):
            held = None if zeros or i in self._unused else p.grad
            if held is not None:
                flat[at : at + p.size] = array_of(held, _NAME).reshape(-1)
            at += p.size
        op = ReduceOp.AVG if self.divisor is None else ReduceOp.PREMUL_SUM(1 / self.divisor)
        key = ("gradients", f"bucket {len(self._works)}", flat.dtype.name, flat.size)
        steps = exchange.checked(self.group, key, exchange.reduce_all(self.group, flat, op), True)
        self._works.append(
            Work(self.group, "gradients", steps, lambda out: out, flat.nbytes).begin()
        )

    def _finish(self) -> None:
        """Give every parameter its mean."""
        self.armed = False
        used = self.used_anywhere()
        for bucket, work in zip(self.buckets, self._works):
            out, at = work._value if work.wait() else None, 0
            for i in bucket:
                p, at = self.params[i], at + self.params[i].size
                if used is not None and not used[i]:
                    continue
                value = new_tensor(out[at - p.size : at].reshape(p._shape))
                with no_grad():
                    held = p.grad
                    if held is None:
                        p.grad = value
                    else:
                        held._renew("all_reduce", value)

    def _average(self) -> None:
        """The means of all gradients as nodes of a function that is being staged."""
        self.armed = False
        held = [p.grad for p in self.params]
        values = [staged.value_of(g, _NAME) for g in held]
        for g, mean in zip(held, staged.reduce_all(self.group, values, ReduceOp.AVG)):
            with no_grad():
                g._renew("all_reduce", mean)

    def used_anywhere(self, here: bool = True) -> Any:
        """Which parameters had a part in the pass of some rank; None: all."""
        if not self.looks:
            return None
        mine = [int(here and i not in self._unused) for i in range(len(self.params))]
        return now(self.group, exchange.reduce_all(self.group, np.array(mine), ReduceOp.MAX))

    def shadow(self) -> None:
        """Take part in the averages of a pass with zeros."""
        self._works = []
        for bucket in self.buckets:
            self.begin(bucket, zeros=True)
        self.used_anywhere(here=False)
        for work in self._works:
            work.wait()


def _cut(params: list[Any], cap: int) -> list[list[int]]:
    """Numbers of parameters in buckets of one dtype and so many bytes, the last ones first."""
    made: list[list[int]] = []
    filled: dict[Any, tuple[list[int], int]] = {}
    for i in reversed(range(len(params))):
        p = params[i]
        bucket, size = filled.get(p._dtype, ([], 0))
        if not bucket or size + p.nbytes > cap:
            bucket, size = [], 0
            made.append(bucket)
        bucket.append(i)
        filled[p._dtype] = bucket, size + p.nbytes
    return made


class _Joining:
    """What ranks with different numbers of batches tell each other before each pass."""

    def __init__(self, model: DistributedDataParallel, by_all: bool, throws: bool) -> None:
        self.model, self.by_all, self.throws = model, by_all, throws
        self.group = model.process_group
        self.first, self.passes = 0, 0

    def tell(self, syncs: bool) -> None:
        """This rank begins a pass."""
        self.passes += 1
        self._agree(1, syncs)

    def _agree(self, goes_on: int, syncs: bool) -> tuple[int, bool]:
        """How many ranks go on, and whether they average."""
        size, rank = self.group.size(), self.group.rank()
        mine = np.zeros((2, size), np.int64)
        mine[:, rank] = goes_on, syncs
        told = now(self.group, exchange.reduce_all(self.group, mine, ReduceOp.SUM))
        going = np.flatnonzero(told[0])
        if self.throws and 0 < len(going) < size:
            raise DistError("Detected at least one rank that exhausted inputs.")
        if len(going):
            self.first = int(going[-1])
        self.model._reducer.divisor = None if self.by_all else max(len(going), 1)
        return len(going), bool(told[1].any())

    def shadow(self) -> None:
        """This rank is through: take part in what others do, then take the last one's values."""
        model = self.model
        while True:
            going, syncs = self._agree(0, False)
            if not going:
                break
            if model.require_forward_param_sync and model.broadcast_buffers:
                take(self.group, model._synced(), self.first)
            if syncs:
                model._reducer.shadow()
        size, rank = self.group.size(), self.group.rank()
        last = now(
            self.group,
            exchange.reduce_all(self.group, np.array([self.passes * size + rank]), ReduceOp.MAX),
        )
        named = [p for n, p in model.module.named_parameters() if n not in model._ignored]
        take(self.group, named + model._synced(), int(last[0]) % size)


# what ranks exchange ------------------------------------------------------------------------------


def now(group: Any, steps: Any) -> Any:
    """The result of an exchange."""
    return Work(group, _NAME, steps, lambda out: out).begin().value()


def take(group: Any, cells: list[Any], root: int) -> None:
    """Give parameters and buffers the values of one rank."""
    if modes.stage is not None:
        values = [staged.value_of(c, _NAME) for c in cells]
        for c, value in zip(cells, staged.broadcast(group, values, root)):
            with no_grad():
                c._renew("broadcast", value)
        return
    by_dtype: dict[Any, list[Any]] = {}
    for cell in cells:
        by_dtype.setdefault(cell._dtype, []).append(cell)
    for dtype, members in by_dtype.items():
        flat = np.concatenate([array_of(c, _NAME).reshape(-1) for c in members])
        key = ("the module's values", np.dtype(dtype).name, flat.size)
        steps = exchange.checked(group, key, exchange.broadcast(group, flat, root))
        whole, at = now(group, steps), 0
        for c in members:
            at += c.size
            if group.rank() != root:
                with no_grad():
                    c._renew("broadcast", new_tensor(whole[at - c.size : at].reshape(c._shape)))


def _same_models(group: Any, named: list[tuple[str, Any]]) -> None:
    """Refuse models whose parameters differ.

    Raises:
        DistError: naming the first difference.
    """
    mine = [(n, f"{p._dtype.name}{list(p._shape)}", p.requires_grad) for n, p in named]
    listed: list[Any] = [None] * group.size()
    all_gather_object(listed, mine, group)
    for rank, other in zip(group.ranks, listed):
        for a, b in zip(listed[0], other):
            if a != b:
                raise DistError(
                    f"the models differ: {a[0]} is {a[1]} in rank {group.ranks[0]}, and {b[0]} "
                    f"{b[1]} in rank {rank}" + (": one requires grad" if a[:2] == b[:2] else "")
                )
        if len(listed[0]) != len(other):
            raise DistError(
                f"the models differ: rank {group.ranks[0]} has {len(listed[0])} parameters, and "
                f"rank {rank} has {len(other)}"
            )
