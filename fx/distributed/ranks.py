"""The ranks along one axis of a mesh: communicator, eager messages, what compiled code reads.

Compiled code is kept on disk and serves any rank of any world, so it holds nothing of them: it
reads the *words* of an axis, whose address is the symbol ``fx.ranks.KEY``, when it runs.

| word | |
| --- | --- |
| 0 | the communicator's handle |
| 1 | the place of this rank |
| 2 | the rank that stands for none |
| 3 | nanoseconds that a wait may last; 0: for ever |
| 4 | the address of a record of the flight recorder |
| 5 | the handle of the communicator for messages from one rank to another |
| from 6 | handles of datatypes, in the order of ``DATATYPES`` |
| behind | handles of operations, in the order of ``OPERATIONS`` |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fx.devices import backend
from fx.distributed import agreement, counting, exchange, groups, mpi, recorder  # noqa: F401
from fx.distributed.errors import DistError
from fx.distributed.reductions import ReduceOp

collective: Any = backend("cpu").between_ranks()
collective.engine = mpi
known: dict[str, Any] = collective.axes
_TAG = 1 << 16  # of what goes from one rank to another in a mesh; groups have lower ones


class Ranks:
    """The ranks of a mesh's axis that this rank talks to.

    Args:
        key: the same on every rank of the mesh.
        members: their numbers in the world, in the order of the axis.
        index: the place of this rank among them.
        group: the process group that they are; None: the axis has a communicator of its own.
    """

    def __init__(self, key: str, members: Sequence[int], index: int, group: Any = None) -> None:
        self.key, self.size, self.index = key, len(members), index
        self.ranks, self.group = tuple(members), group
        self.spoiled = 0  # of a call that did not fit none is under way here: each waits
        self._left: list[Any] = []  # what MPI may still read and write for ever
        self.words = np.zeros(collective.WORDS, np.uint64)
        self.words[collective.INDEX] = index
        self.comm: Any = None if group is None else group.comm
        self.apart: Any = None if group is None else group.apart
        within = group or groups.group.WORLD
        self.limit = None if within is None else within.seconds
        if self.size > 1:
            if group is None:
                world = mpi.start().COMM_WORLD
                self.comm = world.Create_group(world.group.Incl(list(members)), tag=_TAG)
                self.apart = self.comm.Dup()
            for comm in (self.comm, self.apart):
                comm.Set_errhandler(mpi.start().ERRORS_RETURN)
            self._tell()
        collective.axes[key] = self

    def __repr__(self) -> str:
        return f"axis {self.key}: ranks {', '.join(map(str, self.ranks))}"

    def move(self, comm: Any, apart: Any) -> None:
        """Go on by other communicators."""
        self.comm, self.apart = comm, apart
        self._tell()

    def count(self) -> int:
        """The number of a call: along an axis of a mesh none is under way while one is compared."""
        return 0

    def close(self) -> None:
        """The communicator is gone: who still sends learns it from MPI."""
        nobody = mpi.start().COMM_NULL
        self.words[[collective.COMM, collective.APART]] = mpi.handle(nobody)
        self.comm = self.apart = nobody

    def _tell(self) -> None:
        self.words[collective.COMM] = mpi.handle(self.comm)
        self.words[collective.APART] = mpi.handle(self.apart)
        self.words[collective.LIMIT] = int((self.limit or 0) * 1e9)
        self.words[collective.RECORD] = recorder.slot(self.key)
        self.words[collective.NOBODY] = mpi.start().PROC_NULL % 2**64
        for dtype, word in collective.DATATYPES.items():
            found = mpi.start().BYTE if dtype is None else mpi.datatype(dtype)
            self.words[word] = mpi.handle(found)
        for (name, dtype), word in collective.OPERATIONS.items():
            self.words[word] = mpi.handle(mpi.operation(name, dtype))

    def leave(self, number: int, moving: Any, comm: Any, apart: Any) -> None:
        """Go on by other communicators: on these is the data of a call that did not fit."""
        self._left.append((moving, self.comm, self.apart))
        self.move(comm, apart)

    # eager messages: each waits, so that Ctrl-C ends it. Beside the data goes a comparison of what
    # is called, of the form in which compiled code begins: ranks that do not do the same are named

    def through(self, steps: Any) -> Any:
        """What steps of ``exchange.py`` come to."""
        try:
            while True:
                for request in next(steps):
                    if not mpi.wait(request.Test, self.limit):
                        raise DistError(
                            f"a message along axis {self.key} has waited {self.limit:g} s: not "
                            f"every rank came to it"
                        )
        except StopIteration as stop:
            return stop.value

    def _sent(self, out: Any, x: np.ndarray, name: str, *more: str, by: Any) -> Any:
        """The array into which requests bring a message; ``by`` asks for them."""

        def steps() -> Any:
            yield by()
            return out

        return self._compared(steps(), x, name, *more) if x.size else out

    def _compared(self, steps: Any, x: np.ndarray, name: str, *more: str) -> Any:
        said = (name, (x.dtype, x.shape), *more)
        return self.through(exchange.checked(self.group or self, said, steps))

    def reduce(self, x: np.ndarray, name: str) -> np.ndarray:
        """The sum, minimum or maximum, (*S) -> (*S)."""
        if counting.modes:
            counting.note("c10d_functional.all_reduce")
        if self.comm is None:
            return x
        dtype, x = x.dtype, np.ascontiguousarray(collective.widen(x)).reshape(x.shape)
        whole = exchange.by_pieces(self.size, x.nbytes, ReduceOp.SUM) and x.dtype.kind == "f"
        if name == "sum" and whole:  # as compiled code does it
            pieces = exchange.pieces(self.apart, _TAG, x, ReduceOp.SUM)
            return collective.narrowed(self._compared(pieces, x, "psum"), dtype)
        op = _operation(name, x.dtype)
        out = np.empty_like(x)
        ask = lambda: (self.comm.Iallreduce(mpi.buffer(x), mpi.buffer(out), op),)
        return collective.narrowed(self._sent(out, x, f"p{name}", by=ask), dtype)

    def gather(self, x: np.ndarray) -> np.ndarray:
        """The parts of all, (*S) -> (size, *S)."""
        if counting.modes:
            counting.note("c10d_functional.all_gather_into_tensor")
        if self.comm is None:
            return x.reshape(1, *x.shape)
        out = np.empty((self.size, *x.shape), x.dtype)
        to = [mpi.raw(out)[0], x.nbytes, mpi.start().BYTE]  # a message counts for each rank
        ask = lambda: (self.comm.Iallgather(_bytes(x), to),)
        return self._sent(out, x, "all_gather", by=ask)

    def reduce_scatter(self, x: np.ndarray) -> np.ndarray:
        """The own row of the sum, (size, *S) -> (*S)."""
        if counting.modes:
            counting.note("c10d_functional.reduce_scatter_tensor")
        _check_rows("psum_scatter", x, self.size)
        if self.comm is None:
            return x[0]
        dtype, shape = x.dtype, x.shape
        x = np.ascontiguousarray(collective.widen(x)).reshape(shape)
        out = np.empty(shape[1:], x.dtype)
        op = _operation("sum", x.dtype)
        rows = [mpi.raw(x)[0], out.size, mpi.datatype(x.dtype)]
        ask = lambda: (self.comm.Ireduce_scatter_block(rows, mpi.buffer(out), op),)
        return collective.narrowed(self._sent(out, x, "psum_scatter", by=ask), dtype)

    def exchange(self, x: np.ndarray) -> np.ndarray:
        """Row j to rank j, (size, *S) -> (size, *S)."""
        if counting.modes:
            counting.note("c10d_functional.all_to_all_single")
        _check_rows("all_to_all", x, self.size)
        if self.comm is None:
            return x
        out = np.empty(x.shape, x.dtype)
        count = x.nbytes // self.size
        byte = mpi.start().BYTE
        ends = [[_bytes(x)[0], count, byte], [mpi.raw(out)[0], count, byte]]
        return self._sent(out, x, "all_to_all", by=lambda: (self.comm.Ialltoall(*ends),))

    def broadcast(self, x: np.ndarray, source: int) -> np.ndarray:
        """What one of them holds."""
        if counting.modes:
            counting.note("c10d_functional.broadcast")
        if self.comm is None:
            return x
        out = np.array(x, order="C")
        ask = lambda: (self.comm.Ibcast(mpi.raw(out), root=source),)
        return self._sent(out, x, "pbroadcast", f"source={source}", by=ask)

    def permute(self, x: np.ndarray, sources: Sequence[int]) -> np.ndarray:
        """What ``sources[index]`` holds, zeros where that is -1."""
        if counting.modes:
            counting.note("c10d_functional.permute_tensor")
        source = sources[self.index]
        own = source == self.index
        out = np.array(x) if own else np.zeros(x.shape, x.dtype)
        if self.comm is None:
            return out

        def ask() -> Any:
            requests = []
            if not own and source >= 0:
                requests.append(self.apart.Irecv(mpi.raw(out), source, _TAG))
            if not own and self.index in sources:
                requests.append(self.apart.Isend(_bytes(x), sources.index(self.index), _TAG))
            return tuple(requests)

        return self._sent(out, x, "ppermute", f"sources={tuple(sources)}", by=ask)


def _operation(name: str, dtype: Any) -> Any:
    found = mpi.operation(name, dtype)
    if found is None:
        from fx.errors import DTypeError

        raise DTypeError(f"p{name}: MPI has no {name} of {np.dtype(dtype).name}")
    return found


def _bytes(x: np.ndarray) -> Any:
    return mpi.raw(np.ascontiguousarray(x))


def _check_rows(name: str, x: np.ndarray, size: int) -> None:
    if not x.ndim or x.shape[0] != size:
        from fx.errors import ShapeError

        raise ShapeError(
            f"{name}: axis 0 of shape {x.shape} must have a row for each of {size} ranks"
        )
