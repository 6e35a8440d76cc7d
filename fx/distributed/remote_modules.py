"""Modules and optimizers whose parameters other workers have, for ``remote_gradients``."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from fx.distributed import calls
from fx.distributed.references import RRef, remote
from fx.distributed.remote_gradients import get_gradients
from fx.errors import ArgumentError

_lock = threading.Lock()  # of the gradients that parameters have while an optimizer steps


class DistributedOptimizer:
    """An optimizer in each worker that has some of the parameters.

    Args:
        optimizer_class: of ``fx.optim``; one for the parameters of each worker.
        params_rref: references to parameters, each in its owner.
        *args, **kwargs: of ``optimizer_class``.

    Source: ``torch.distributed.optim.DistributedOptimizer``.

    Example:
        >>> import fx
        >>> import fx.distributed.rpc as rpc
        >>> from fx.distributed import remote_gradients as remote
        >>> from fx.distributed.remote_modules import DistributedOptimizer, RemoteModule
        >>> rpc.init_rpc("me", rank=0, world_size=1)
        >>> layer = RemoteModule("me", fx.nn.Linear, (3, 1))
        >>> optimizer = DistributedOptimizer(fx.optim.SGD, layer.remote_parameters(), lr=0.5)
        >>> before = layer(fx.ones((2, 3)))
        >>> with remote.context() as number:
        ...     remote.backward(number, [layer(fx.ones((2, 3))).mean()])
        ...     optimizer.step(number)
        >>> (layer(fx.ones((2, 3))) - before).round(decimals=4).tolist()
        [[-2.0], [-2.0]]
        >>> del layer, optimizer
        >>> rpc.shutdown()
    """

    def __init__(
        self, optimizer_class: type, params_rref: Sequence[RRef], *args: Any, **kwargs: Any
    ) -> None:
        owned: dict[int, list[RRef]] = {}
        for ref in params_rref:
            if not isinstance(ref, RRef):
                raise TypeError(f"DistributedOptimizer: expected RRefs, got {type(ref).__name__}")
            owned.setdefault(ref.owner().id, []).append(ref)
        if not owned:
            raise ArgumentError("optimizer got an empty parameter list")
        self.remote_optimizers = [
            remote(rank, _Local, (optimizer_class, refs, args, kwargs))
            for rank, refs in owned.items()
        ]
        for one in self.remote_optimizers:
            one.rpc_sync().ready()  # what its class says of the options is raised here

    def step(self, context_id: int) -> None:
        """Step in all workers, by the gradients of a context.

        Raises:
            DistError: if there is no such context.
        """
        asked = [one.rpc_async().step(context_id) for one in self.remote_optimizers]
        for future in asked:
            future.wait()


class _Local:
    """The optimizer of one worker."""

    def __init__(self, kind: Any, refs: Sequence[RRef], args: Any, kwargs: Any) -> None:
        self._params = [ref.local_value() for ref in refs]
        self._optimizer = kind(self._params, *args, **kwargs)

    def ready(self) -> None:
        """Nothing: to ask for it is to wait until the optimizer is made."""

    def step(self, number: int) -> None:
        """Step by the gradients of a context; those in ``grad`` stay."""
        found = {id(p): ct for p, ct in get_gradients(number).items()}
        with _lock:
            before = [p.grad for p in self._params]
            try:
                for p in self._params:
                    p.grad = found.get(id(p))
                self._optimizer.step()
            finally:
                for p, grad in zip(self._params, before, strict=True):
                    p.grad = grad


class RemoteModule:
    """A module that another worker makes and keeps; calls of it are calls there.

    Args:
        remote_device: the worker's name, with ``/cpu`` behind it or without.
        module_cls: the class, which both import by the same name.
        args, kwargs: what it is made of.

    Source: ``torch.distributed.nn.RemoteModule``.
    """

    def __init__(
        self, remote_device: str, module_cls: Any, args: Any = None, kwargs: Any = None
    ) -> None:
        worker, _, device = str(remote_device).partition("/")
        if worker.startswith("rank:"):
            worker = int(worker[5:])  # type: ignore[assignment]
        if device not in ("", "cpu"):
            raise ArgumentError(f"RemoteModule: modules lie on the CPU here, not on {device!r}")
        self.on, self.device = worker, device or "cpu"
        self.module_rref = remote(worker, module_cls, tuple(args or ()), dict(kwargs or {}))
        self.module_rref.rpc_sync().train(True)  # made, or it is said here why not

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module_rref.rpc_sync().__call__(*args, **kwargs)

    __call__ = forward

    def forward_async(self, *args: Any, **kwargs: Any) -> calls.Future:
        """The same, a ``Future``."""
        return self.module_rref.rpc_async().__getattr__("__call__")(*args, **kwargs)  # type: ignore[no-any-return]

    def remote_parameters(self, recurse: bool = True) -> list[RRef]:
        """A reference to each parameter, for ``DistributedOptimizer``."""
        return calls.rpc_sync(self.on, _parameters, (self.module_rref, recurse))  # type: ignore[no-any-return]

    def get_module_rref(self) -> RRef:
        """A reference to the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> RemoteModule:
        """Let it train."""
        self.module_rref.rpc_sync().train(mode)
        return self

    def eval(self) -> RemoteModule:
        """Let it not."""
        return self.train(False)


def _parameters(ref: RRef, recurse: bool) -> list[RRef]:
    return [RRef(p) for p in ref.local_value().parameters(recurse)]
