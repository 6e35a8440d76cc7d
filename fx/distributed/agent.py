"""A process's end of RPC: the connections over which workers ask each other to run functions.

A worker listens at one address. A connection carries one call at a time, and has a thread at each
end, so that calls within calls (A asks B, which asks A) find a thread that is free. A call beyond
``threads`` connections to a worker waits in a queue at the caller. Both ends of a connection prove
by HMAC that they know the store's key before anything is unpickled.
"""

from __future__ import annotations

import io
import pickle
import queue
import socket
import threading
import traceback
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from time import monotonic
from typing import Any, NamedTuple

from fx.distributed.errors import DistError, DistNetworkError
from fx.state import Cell
from fx.tensor import Tensor


class WorkerInfo(NamedTuple):
    """A worker: its name and its rank."""

    name: str
    id: int


class RemoteError(DistError):
    """The traceback of a function that failed in another worker; the cause of what is raised."""


class Call:
    """A request, and the future of its answer."""

    def __init__(self, what: str, message: bytes, seconds: float) -> None:
        self.what, self.message, self.seconds = what, message, seconds
        self.answer: futures.Future[Any] = futures.Future()
        self._end = monotonic() + seconds if seconds else None  # 0: no end

    def left(self) -> float | None:
        """Seconds until it is late; None if it never is."""
        return None if self._end is None else max(self._end - monotonic(), 0.0)

    def fail(self, error: BaseException) -> None:
        """Let this be what it met, if nothing has come yet."""
        with suppress(futures.InvalidStateError):  # it was late already
            self.answer.set_exception(error)

    def late(self) -> None:
        """Let it have failed because no answer came in time."""
        self.fail(DistError(f"RPC ran for more than set timeout ({self.seconds:g} s): {self.what}"))

    def settle(self, reply: bytes) -> None:
        """Read what the other worker answered."""
        try:
            value, error, shown = pickle.loads(reply)
            if error is not None:
                error.__cause__ = RemoteError(f"{self.what}\n{shown}")
                self.fail(error)
                return
            self.answer.set_result(value)
        except futures.InvalidStateError:
            pass
        except Exception as error:
            self.fail(error)


class Peer:
    """The connections from here to one worker, and the calls that wait for one."""

    def __init__(self, info: WorkerInfo, address: tuple[str, int], key: bytes, limit: int) -> None:
        self.info, self.address = info, address
        self._key, self._limit = key, limit
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._waiting = 0  # those there are; calls queued or under way

    def submit(self, call: Call) -> None:
        """Send it as soon as a connection is free."""
        with self._lock:
            self._waiting += 1
            fresh = self._threads < min(self._waiting, self._limit)
            self._threads += fresh
        self._calls.put(call)
        if fresh:
            threading.Thread(target=self._run, name="fx-rpc-calls", daemon=True).start()

    def close(self) -> None:
        """End the connections that have nothing to do."""
        with self._lock:
            for _ in range(self._threads):
                self._calls.put(None)

    def is_there(self) -> bool:
        """Whether somebody listens at its address."""
        try:
            socket.create_connection(self.address, 1.0).close()
        except OSError:
            return False
        return True

    def _run(self) -> None:
        line: Connection | None = None
        while (call := self._calls.get()) is not None:
            line = self._ask(call, line)
            del call  # its answer lives as long as somebody wants it
            with self._lock:
                self._waiting -= 1
        if line is not None:
            line.close()

    def _ask(self, call: Call, line: Connection | None) -> Connection | None:
        """Send a call and wait for its answer; the connection, if it can be used again."""
        if call.answer.done():  # late while it waited
            return line
        try:
            line = line or Client(self.address, authkey=self._key)
            line.send_bytes(call.message)
            if line.poll(call.left()):
                reply = line.recv_bytes()
                call.settle(reply)
                return line
            call.late()
        except AuthenticationError:
            call.fail(DistError(f"{self._named()} has another key; give every rank the same"))
        except (OSError, EOFError) as error:
            call.fail(
                DistNetworkError(
                    f"{self._named()} has died or was shut down, and does not answer {call.what} "
                    f"({error or 'the connection was closed'})"
                )
            )
        if line is not None:
            line.close()  # an answer that comes late is nobody's
        return None

    def _named(self) -> str:
        return f"worker {self.info.name!r} (rank {self.info.id})"


class Agent:
    """What this worker is to the others, and they to it."""

    def __init__(self, info: WorkerInfo, host: str, key: bytes, threads: int) -> None:
        self.info, self.peers = info, dict[int, Peer]()
        self.dropped: queue.SimpleQueue[Any] = queue.SimpleQueue()  # references to give back
        self.made = 0  # calls so far, without those of the shutdown
        self._key, self._threads = key, threads
        self._pending: set[Call] = set()
        self._lock = threading.Lock()
        self._serving: list[threading.Thread] = []
        self._listener = Listener((host, 0), backlog=128)
        self.address: tuple[str, int] = self._listener.address  # type: ignore[assignment]
        self._closed = False
        threading.Thread(target=self._accept, name="fx-rpc-listener", daemon=True).start()

    def meet(self, others: list[tuple[str, tuple[str, int]]]) -> None:
        """Learn the names and addresses of all workers, by rank."""
        for rank, (name, address) in enumerate(others):
            self.peers[rank] = Peer(WorkerInfo(name, rank), address, self._key, self._threads)

    def ask(
        self,
        rank: int,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        seconds: float,
        called: str = "",
        counted: bool = True,
    ) -> Call:
        """Ask a worker to call a function; arguments are what they are now.

        ``called`` is its name in messages, and ``counted`` whether a shutdown waits for it.

        Raises:
            DistError: if they cannot be pickled.
        """
        peer = self.peers[rank]
        called = called or named(function)
        try:
            message = pickled((following.context, function, args, kwargs), self)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DistError(
                f"{called} and its arguments cannot be sent ({error}); functions and classes go by "
                f"name: define them at the top of a module that all workers import"
            ) from error
        what = f"{called} on worker {peer.info.name!r} (rank {rank})"
        call = Call(what, message, seconds)
        if counted:
            with self._lock:
                self.made += 1
                self._pending.add(call)
            call.answer.add_done_callback(lambda _: self._forget(call))
        peer.submit(call)
        return call

    def wait_for_calls(self) -> None:
        """Wait until every call that was made from here has its answer, or is late."""
        while True:
            with self._lock:
                pending = list(self._pending)
            if not pending:
                return
            for call in pending:
                _, open_ = futures.wait([call.answer], call.left())
                if open_:
                    call.late()

    def close(self, wait: bool) -> None:
        """Leave; ``wait`` until the others have closed their connections to here."""
        self._closed = True
        for peer in self.peers.values():
            peer.close()
        with suppress(OSError):  # a thread that accepts does not see that its socket is closed
            socket.create_connection(self.address, 1.0).close()
        self._listener.close()
        for thread in self._serving if wait else ():
            thread.join(5.0)

    def _forget(self, call: Call) -> None:
        with self._lock:
            self._pending.discard(call)

    def _accept(self) -> None:
        while not self._closed:
            try:
                line = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(
                target=self._serve, args=(line,), name="fx-rpc-serve", daemon=True
            )
            thread.start()
            self._serving = [t for t in self._serving if t.is_alive()] + [thread]

    def _serve(self, line: Any) -> None:
        """Answer one connection until it is closed. Who does not know the key is not heard."""
        with line:
            try:
                deliver_challenge(line, self._key)
                answer_challenge(line, self._key)
                while True:
                    line.send_bytes(self._answer(line.recv_bytes()))
            except (OSError, EOFError, AuthenticationError):
                return

    def _answer(self, message: bytes) -> bytes:
        try:
            following.context, function, args, kwargs = pickle.loads(message)
            return pickled((function(*args, **kwargs), None, ""), self)
        except BaseException as error:
            shown = f"On worker {self.info.name!r} (rank {self.info.id}):\n"
            shown += traceback.format_exc()
            if isinstance(error, Exception):
                try:
                    reply = pickled((None, error, shown))
                    pickle.loads(reply)
                    return reply
                except Exception:
                    pass  # some exceptions cannot be made again
            return pickled((None, DistError(f"{type(error).__name__}: {error}"), shown))
        finally:
            following.context = None


_sending = threading.local()


class _Following(threading.local):
    """Which context of ``remote_gradients`` this thread is in; a call takes it along."""

    context: int | None = None


following = _Following()


class _Tracked(pickle.Pickler):
    """Pickles what requires grad as what a backward pass comes back through."""

    def __init__(self, out: Any, number: int, agent: Agent) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self._number, self._agent = number, agent

    def reducer_override(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or isinstance(x, Cell):  # the cells of a module stay cells
            return NotImplemented
        from fx.distributed.remote_gradients import noted  # which asks by calls

        how = noted(x, self._number, self._agent)
        return NotImplemented if how is None else how


def _read(x: Any) -> Any:
    """Arguments and results, in which parameters are their values."""
    if isinstance(x, Cell):
        return x.read()
    if type(x) in (list, tuple):
        return type(x)([_read(v) for v in x])
    return {k: _read(v) for k, v in x.items()} if type(x) is dict else x


def named(function: Any) -> str:
    """What a function is called in messages."""
    return str(getattr(function, "__qualname__", repr(function)))


def pickled(thing: Any, agent: Agent | None = None) -> bytes:
    """Bytes for another worker: only here may an ``RRef`` be pickled."""
    before = is_sending()
    _sending.now = True
    try:
        if agent is not None and following.context is not None:
            out = io.BytesIO()
            _Tracked(out, following.context, agent).dump(_read(thing))
            return out.getvalue()
        return pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
    finally:
        _sending.now = before


def is_sending() -> bool:
    """Whether this thread pickles for another worker."""
    return getattr(_sending, "now", False)


def host_for(master: str) -> str:
    """This machine's address, as whoever reaches ``master`` reaches it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((master or "127.0.0.1", 9))  # sends nothing
        return str(probe.getsockname()[0])
