"""Work: a collective under way, in one or more steps, each of which waits for requests of MPI."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any

from fx.distributed import counting, mpi, recorder
from fx.distributed.errors import DistBackendError, DistError
from fx.distributed.timeouts import span
from fx.frames import user_line
from fx.tensor import Tensor

Steps = Generator[tuple[Any, ...], None, Any]  # yields what must be complete before it goes on


class Work:
    """What a collective with ``async_op=True`` gives: ``wait()`` until its results are there.

    Tensors that it writes have their old values until then, and those that it reads must not be
    written to.
    """

    def __init__(
        self, group: Any, what: str, steps: Steps, fill: Callable[[Any], Any], size: int = 0
    ) -> None:
        self._group, self._what, self._size = group, what, size
        self._token = 0  # of the flight recorder
        self._steps, self._fill = steps, fill
        self._requests: tuple[Any, ...] = ()
        self._value: Any = None
        self._done = False
        self._error: BaseException | None = None
        self._then: list[Callable[[], Any]] = []
        self._source = -1

    def begin(self) -> Work:
        """Ask for what the first step needs."""
        self._token = recorder.begin(self._what, self._size, self._group.group_name)
        if counting.modes:
            counting.note_of_group(self._what)
        self._group.pending.add(self)  # MPI holds no reference to the memory that it works on
        self._test()
        return self

    @classmethod
    def complete(cls, group: Any, what: str, value: Any) -> Work:
        """A work that is done: what a compiled function does runs in its order anyway."""
        work = cls(group, what, iter(()), lambda out: out)  # type: ignore[arg-type]
        work._value, work._done = value, True
        return work

    def _test(self) -> bool:
        """Go on as far as can be without waiting; whether the end is reached."""
        if self._done:
            return True
        try:
            while True:
                for request in self._requests:
                    if not request.Test():
                        return False
                self._requests = next(self._steps)
        except StopIteration as stop:
            try:
                self._value = self._fill(stop.value)
            except Exception as error:
                self._error = error
        except Exception as error:
            self._error = named(error, self._what, self._group)
        self._done = True
        self._requests = ()
        recorder.end(self._token, self._error is not None)
        self._group.pending.discard(self)
        for function in self._then:
            function()
        return True

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is complete; True.

        Raises:
            DistError: if it is not in time, naming it, and what it met.
        """
        late = self._group.timeout if timeout is None else span(timeout, "wait")
        seconds = late.total_seconds()
        if not self._done and not mpi.wait(self._test, seconds):
            raise DistError(
                f"{self._what} of {self._group!r} at {user_line()} has waited {seconds:g} s: not "
                f"every rank came to it"
            )
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """The same as ``wait``."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it is complete, or has failed."""
        return self._test()

    def is_success(self) -> bool:
        """Whether it is complete and has not failed."""
        return self._test() and self._error is None

    def exception(self) -> BaseException | None:
        """What it failed with."""
        return self._error

    def source_rank(self) -> int:
        """Whose message a ``recv`` from any rank got."""
        return self._source

    def result(self) -> list[Tensor]:
        """The tensors that it gives, once it is complete."""
        self.wait()
        return _flat(self._value)

    def value(self) -> Any:
        """What the same call without ``async_op`` gives."""
        self.wait()
        return self._value

    def get_future(self) -> Future:
        """The same as a future."""
        return Future(self)


class Future:
    """A work by the names of ``torch.futures.Future``; what follows runs when somebody waits."""

    def __init__(self, work: Any, function: Callable[[Any], Any] | None = None) -> None:
        self._work, self._function = work, function
        self._result: list[Any] = []

    def done(self) -> bool:
        """Whether the value is there."""
        return bool(
            self._work.is_completed() if isinstance(self._work, Work) else self._work.done()
        )

    def wait(self) -> Any:
        """The value, once it is there: a list of tensors, or what ``then``'s function gave."""
        if not self._result:
            if self._function is None:
                self._result.append(self._work.result())
            else:
                self._work.wait()
                self._result.append(self._function(self._work))
        return self._result[0]

    def value(self) -> Any:
        """The same as ``wait``."""
        return self.wait()

    def then(self, callback: Callable[[Any], Any]) -> Future:
        """A future of what a function gives of this one."""
        return Future(self, callback)

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        """Call a function with this when the work is complete."""
        at: Any = self
        while not isinstance(at, Work):
            at = at._work
        if at.is_completed():
            callback(self)
        else:
            at._then.append(lambda: callback(self))


def named(error: BaseException, what: str, group: Any) -> BaseException:
    """An error of MPI in words."""
    if type(error).__module__.partition(".")[0] != "mpi4py":
        return error
    said = DistBackendError(
        f"{what} of {group!r}: {str(error).splitlines()[0]}; set FX_DIST_DEBUG=1 to compare what "
        f"the ranks call"
    )
    said.__cause__ = error
    return said


def _flat(value: Any) -> list[Tensor]:
    if value is None:
        return []
    if isinstance(value, Tensor):
        return [value]
    return [leaf for part in value for leaf in _flat(part)]
