"""The means of gradients: buckets, each sent as soon as its last gradient is there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fx import tree
from fx.config import modes, no_grad
from fx.distributed import averaged, exchange, staged
from fx.distributed.errors import DistError
from fx.distributed.filling import array_of
from fx.distributed.reductions import ReduceOp
from fx.distributed.work import Future, Work
from fx.nn.data_parallel.buckets import GradBucket
from fx.nn.data_parallel.results import watched
from fx.nn.data_parallel.values import NAME, now
from fx.nn.data_parallel.virtual import VirtualRanks
from fx.tape import Select
from fx.tensor import Tensor, new_tensor


class Reducer:
    """Averages gradients in buckets, each as soon as its last gradient is there, in one order."""

    def __init__(self, group: Any, named: list[tuple[str, Any]], cap: int, looks: bool) -> None:
        self.group, self.looks = group, looks
        self.names = [n for n, _ in named]
        self.params = [p for _, p in named]
        self.buckets = _cut(self.params, cap)
        self.divisor: int | None = None  # other than the number of ranks
        self.armed = False  # whether the next backward pass is averaged
        self._unused: set[int] = set()  # without a part in this pass
        self._apart: set[int] = set()  # with gradients that were added up since the last average
        self._static: set[int] | None = None  # and in every one
        self._waiting: set[int] = set()
        self._works: list[Any] = []  # of the buckets that are sent: works, or futures of a hook
        self.hook: Callable[[GradBucket], Future] | None = None
        self.joined = False  # whether ranks that are through take part with zeros
        self.virtual: VirtualRanks | None = None
        last = self.params[self.buckets[-1][0]]._dtype
        self._native = staged.native_means(group, last)
        self._started = False
        self._staged = False  # whether the pass is one of a function that is being staged
        self._context: Any = None  # of torch.distributed.autograd, where gradients lie; else: grad
        self._lock = RLock()  # a context's gradients come in several threads
        self.synced: Any = WeakKeyDictionary()  # by stage: whether its last pass averages
        for i, p in enumerate(self.params):
            p.register_post_accumulate_grad_hook(partial(self._ready, i))
        averaged.enter(self, [p._node for p in self.params])

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
                else f"write {NAME}(module, find_unused_parameters=True)"
            )
        )

    def prepare(self, out: Any, static: bool) -> Any:
        """Await the gradients of a pass; the result, which may tell later what has a part in it."""
        self._works, self._started, self._context = [], False, None
        self._staged = modes.stage is not None
        first = self.looks and self._static is None
        self._expect(self._without_part(_nodes(out)) if first else self._static or set())
        if not first:
            return out

        def begun(used: list[Any]) -> None:
            unused = self._without_part(used)
            if static:
                self._static = unused
            if self.armed:
                self._expect(unused)

        return watched(out, begun)

    def _expect(self, unused: set[int]) -> None:
        self._unused = unused
        self._waiting = set(range(len(self.params))) - unused

    def check_staged(self) -> str:
        """Why the averages of a staged function cannot be nodes of it; nothing where they can."""
        armed, self.armed = self.armed, False
        if not (armed and self._staged and self._waiting):
            return ""
        names = ", ".join(self.names[i] for i in sorted(self._waiting))
        return f"no gradient comes in it for {names} of a {NAME}"

    def _without_part(self, nodes: list[Any]) -> set[int]:
        """The parameters that nothing of what these nodes record was computed from."""
        seen = set(map(id, nodes))
        while nodes:
            for parent in nodes.pop().parents:
                node = parent.of if type(parent) is Select else parent
                if node is not None and id(node) not in seen:
                    seen.add(id(node))
                    nodes.append(node)
        return {i for i, p in enumerate(self.params) if id(p._node) not in seen}

    def ready_in(self, context: Any, i: int) -> None:
        """The gradient of a parameter is there, in a context of ``torch.distributed.autograd``."""
        with self._lock:
            if self._context is context and i not in self._waiting:
                raise DistError(
                    f"{self.names[i]} has a gradient in a context of torch.distributed.autograd "
                    f"behind the average of {NAME}: a parameter takes part in one forward pass, "
                    f"and find_unused_parameters does not see what lies behind a call"
                )
            if not self.armed:
                return
            if self.virtual is not None or (self._started and self._context is not context):
                raise DistError(
                    f"{NAME}: a context of torch.distributed.autograd has all gradients of a pass, "
                    f"without virtual_ranks"
                )
            self._context = context
            self._ready(i, self.params[i])

    def _grad(self, i: int) -> Any:
        p = self.params[i]
        return p.grad if self._context is None else self._context.gradients.get(p._node)

    def _ready(self, i: int, p: Any) -> None:
        """The gradient of a parameter is there."""
        if not self.armed or self._staged != (modes.stage is not None):
            if self.looks:
                self._apart.add(i)
            return
        if i in self._unused:
            raise DistError(
                f"{self.names[i]} has a gradient, and had no part in the "
                + ("first pass: static_graph=True is wrong here" if self._static is not None
                   else "result: return every tensor that a loss is made of from forward")
            )  # fmt: skip
        self._started = True
        self._waiting.discard(i)
        if self.virtual is not None and not self.virtual.last:
            if not self._waiting:
                self.armed = False
                self.virtual.add(self.params)
            return
        if self._staged:
            if not self._waiting:
                self._average()
            return
        while len(self._works) < len(self.buckets):
            bucket = self.buckets[len(self._works)]
            if not self._waiting.isdisjoint(bucket):
                break
            if self._native and bucket is self.buckets[-1] and self._plain():
                self._mean(bucket)
                break
            self.begin(bucket)
        if not self._waiting:
            self._finish()

    def _plain(self) -> bool:
        """Whether every rank has every gradient, and wants their means."""
        return not (self.hook or self.looks or self.joined or self.virtual or self._context)

    def _mean(self, bucket: list[int]) -> None:
        """Average the last bucket at once: nothing is left that could go on meanwhile."""
        held = [self.params[i].grad for i in bucket]
        key = ("gradients", "the last bucket", *[(g._dtype, g._shape) for g in held])
        now(self.group, exchange.agreed(self.group, key))
        with no_grad():
            means = self._native(*[g.read() for g in held])  # type: ignore[misc]
            for g, mean in zip(held, means):
                g._renew("all_reduce", mean)

    def begin(self, bucket: list[int], zeros: bool = False) -> None:
        """Average a bucket; one without gradients here takes part with zeros."""
        params, virtual = [self.params[i] for i in bucket], self.virtual
        dtype = params[0]._dtype
        wide = dtype if virtual is None else exchange.collective.widen(np.empty(0, dtype)).dtype
        flat = exchange.collective.empty((sum(p.size for p in params),), wide)
        at = 0
        for i, p in zip(bucket, params):
            # that of earlier passes too, where this has none
            held = None if zeros else self._grad(i)
            if virtual is not None:
                held = virtual.sum_of(i, p)
            here = flat[at : at + p.size]
            here[...] = 0 if held is None else array_of(held, NAME).reshape(-1)
            at += p.size
        if self.hook is not None:
            self._works.append(self._hooked(bucket, new_tensor(flat)))
            return
        op = ReduceOp.AVG if self.divisor is None else ReduceOp.PREMUL_SUM(1 / self.divisor)
        steps = exchange.reduce_all(self.group, flat, op)
        if virtual is not None:
            steps = exchange.mean_in_order(self.group, flat, virtual.terms, dtype)
        key = ("gradients", f"bucket {len(self._works)}", flat.dtype.name, flat.size)
        steps = exchange.checked(self.group, key, steps, True)
        self._works.append(
            Work(self.group, "gradients", steps, lambda out: out, flat.nbytes).begin()
        )

    def _hooked(self, bucket: list[int], flat: Tensor) -> Future:
        """What a communication hook makes of a bucket."""
        assert self.hook is not None
        number, last = self.buckets.index(bucket), bucket is self.buckets[-1]
        with no_grad():
            found = self.hook(GradBucket(number, flat, [self.params[i] for i in bucket], last))
        if not callable(getattr(found, "wait", None)):
            raise TypeError(
                f"Communication hook: return annotation should be torch.futures.Future; it gave "
                f"{type(found).__name__}, write work.get_future().then(lambda fut: fut.value()[0])"
            )
        return found

    def _finish(self) -> None:
        """Give every parameter its mean."""
        self.armed = False
        if self.virtual is not None:
            self.virtual.waits = False
        self._fill(self.used_anywhere())

    def _fill(self, used: Any) -> None:
        """Give the parameters that were used anywhere their means."""
        for bucket, work in zip(self.buckets, self._works):
            out, at = _array(work, bucket, self.params), 0
            for i in bucket:
                p, at = self.params[i], at + self.params[i].size
                if used is not None and not used[i]:
                    continue
                value = new_tensor(out[at - p.size : at].reshape(p._shape))
                with no_grad():
                    held = p.grad
                    if self._context is not None:
                        self._context.put(p._node, value)
                    elif held is None:
                        p.grad = value
                    else:
                        held._renew("all_reduce", value)

    def _average(self) -> None:
        """The means of all gradients as nodes of a function that is being staged."""
        self.armed = False
        held = [p.grad for p in self.params]
        values = [staged.value_of(g, NAME) for g in held]
        if self.virtual is not None:
            self.virtual.waits = False
            sums = [self.virtual.sum_of(i, p) for i, p in enumerate(self.params)]
            dtypes = [p._dtype for p in self.params]
            means = staged.means_in_order(self.group, sums, self.virtual.terms, dtypes)
        elif self.hook is None:
            means = staged.reduce_each(self.group, values, ReduceOp.AVG)
        else:
            means = list(values)
            for bucket in self.buckets:
                move = lambda flat, bucket=bucket: self._hooked(bucket, flat).wait()
                with no_grad():
                    found = staged.side_by_side([values[i] for i in bucket], move)
                for i, mean in zip(bucket, found):
                    means[i] = mean
        for g, mean in zip(held, means):
            with no_grad():
                g._renew("all_reduce", mean)

    def used_anywhere(self, here: bool = True) -> Any:
        """Which parameters had a part in a pass of some rank since the last average; None: all."""
        if not self.looks:
            return None
        apart = {i for i in self._apart if self.params[i].grad is not None}
        self._apart.clear()
        unused = self._unused - apart
        mine = [int(here and i not in unused) for i in range(len(self.params))]
        return now(self.group, exchange.reduce_all(self.group, np.array(mine), ReduceOp.MAX))

    def shadow(self, takes: bool) -> None:
        """Take part in the averages of a pass with zeros.

        Args:
            takes: whether this rank's gradients become the means too.
        """
        self._works = []
        for bucket in self.buckets:
            self.begin(bucket, zeros=True)
        used = self.used_anywhere(here=False)
        if takes:
            self._fill(used)
        for work in self._works:
            work.wait()


def _array(work: Any, bucket: list[int], params: list[Any]) -> Any:
    """The means of a bucket, (elements,)."""
    if isinstance(work, Work):
        return work._value if work.wait() else None
    found = work.wait()
    size = sum(params[i].size for i in bucket)
    if not isinstance(found, Tensor) or found.shape != (size,):
        raise TypeError(
            f"Communication hook: its future gives the bucket's tensor of shape ({size},), got "
            f"{found!r}; write .then(lambda fut: fut.value()[0])"
        )
    return array_of(found, NAME).astype(params[bucket[0]]._dtype, copy=False)


def _nodes(out: Any) -> list[Any]:
    """The nodes of the tensors of a result."""
    return [x._node for x in tree.leaves(out) if isinstance(x, Tensor) and x._node is not None]


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
