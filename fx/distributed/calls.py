"""Calls of functions in other workers, by the agent that ``init_rpc`` starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from functools import wraps
from types import GenericAlias
from typing import Any

from fx.distributed.agent import Agent, Call, WorkerInfo
from fx.distributed.errors import DistError
from fx.errors import ArgumentError

UNSET_RPC_TIMEOUT = -1.0
agent: Agent | None = None  # of this worker, while it is one
seconds = 60.0  # of a call that names no timeout


class Future:
    """The answer to come of ``rpc_async``, or of whoever calls ``set_result``.

    Example:
        >>> from fx.torch.futures import Future
        >>> answer = Future()
        >>> twice = answer.then(lambda done: 2 * done.value())
        >>> answer.set_result(3)
        >>> twice.wait()
        6
    """

    def __init__(
        self,
        answer: futures.Future[Any] | None = None,
        call: Call | None = None,
        *,
        devices: Any = None,
    ) -> None:
        self._answer: futures.Future[Any] = futures.Future() if answer is None else answer
        self._call = call

    __class_getitem__ = classmethod(GenericAlias)  # Future[Tensor], as annotations have it

    def set_result(self, result: Any) -> None:
        """Give the answer to those that wait, once."""
        self._once(self._answer.set_result, result)

    def set_exception(self, result: BaseException) -> None:
        """Let those that wait raise."""
        self._once(self._answer.set_exception, result)

    def _once(self, tell: Callable[[Any], None], what: Any) -> None:
        try:
            tell(what)
        except futures.InvalidStateError as error:
            raise DistError("Future can only be marked completed once.") from error

    def done(self) -> bool:
        """Whether the answer is there, or what it failed with."""
        return self._answer.done()

    def wait(self) -> Any:
        """The answer, once it is there.

        Raises:
            DistError: if it does not come in the call's time, or the worker has died. What the
                function raised is raised here, with its traceback there as its cause.
        """
        if self._call is not None and not self._answer.done():
            _, late = futures.wait([self._answer], self._call.left())
            if late:
                self._call.late()
        return self._answer.result()

    def value(self) -> Any:
        """The answer, which must be there."""
        if not self.done():
            raise DistError("the value of a future that is not done; call wait() before")
        return self._answer.result()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of what a function gives of this one, called as soon as it is done."""
        callable_of(callback)
        out: futures.Future[Any] = futures.Future()

        def go_on(_: Any) -> None:
            try:
                out.set_result(callback(self))
            except Exception as error:
                out.set_exception(error)

        self._answer.add_done_callback(go_on)
        return Future(out)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call a function with this when it is done."""
        callable_of(callback)
        self._answer.add_done_callback(lambda _: callback(self))


def async_execution(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives a ``Future``, whose value is what its caller in another worker gets.

    The connection of that caller waits for it; calls of others go on.
    """

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        if not isinstance(out, Future):
            raise TypeError(
                f"async_execution: {getattr(function, '__qualname__', function)} must give a "
                f"Future, got {type(out).__name__}"
            )
        return out.wait()

    return called


def rpc_sync(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Any:
    """Call a function in another worker, and wait for what it gives.

    Args:
        to: the worker's name, rank or ``WorkerInfo``.
        func: a function or class that both import by the same name.
        args, kwargs: go by value, tensors too.
        timeout: in seconds; 0: none; that of ``init_rpc`` if it is left out.

    Raises:
        RuntimeError: before ``init_rpc``; if there is no such worker, it has died, or does not
            answer in time. What the function raised is raised here.
    """
    return rpc_async(to, func, args, kwargs, timeout).wait()


def rpc_async(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Future:
    """The same as ``rpc_sync``, but a ``Future``."""
    here = required()
    call = here.ask(
        rank_of(to), callable_of(func), tuple(args or ()), dict(kwargs or {}), time_of(timeout)
    )
    return Future(call.answer, call)


def get_worker_info(worker_name: str | WorkerInfo | None = None) -> WorkerInfo:
    """A worker by its name; this one if it is left out."""
    here = required()
    return here.info if worker_name is None else here.peers[rank_of(worker_name)].info


def required() -> Agent:
    if agent is None:
        raise DistError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
    return agent


def rank_of(to: str | int | WorkerInfo) -> int:
    here = required()
    for rank, peer in here.peers.items():
        if to in (rank, peer.info.name, peer.info):
            return rank
    there = ", ".join(f"{p.info.name!r} ({r})" for r, p in here.peers.items())
    what = "name" if isinstance(to, str) else "id"
    raise DistError(f"could not find destination {what} {to!r}; the workers are {there}")


def callable_of(function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(f"function should be callable, and is {function!r}")
    return function  # type: ignore[no-any-return]


def get_rpc_timeout() -> float:
    """The seconds that a call takes at most which names no timeout; 0: no end."""
    required()
    return seconds


def set_rpc_timeout(timeout: float) -> None:
    """Let calls from this worker that name no timeout take so many seconds at most; 0: no end."""
    global seconds
    required()
    seconds = time_of(timeout)


def time_of(timeout: float) -> float:
    if timeout == UNSET_RPC_TIMEOUT:
        return seconds
    if timeout < 0:
        raise ArgumentError(f"timeout is a number of seconds, or 0 for none, not {timeout!r}")
    return float(timeout)
