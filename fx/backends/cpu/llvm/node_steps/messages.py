"""Messages between ranks: MPI's functions, called from compiled code, and how it waits for them.

A message is posted and tested until it is through. Between tests the core is left to others; after
a while without a byte the wait sleeps, and looks whether a signal came. It ends at the limit of the
axis. Code reads the words of the axis (``fx/backends/cpu/collective.py``) when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from fx.backends.cpu import collective
from fx.backends.cpu.collective import APART, COMM, DATATYPES, LIMIT, RECORD
from fx.backends.cpu.llvm import externals
from fx.backends.cpu.llvm.failures import LOST
from fx.backends.cpu.llvm.ir import Frame, at, i8, i32, i64, pointer, store_item
from fx.dtypes import int64
from fx.graph.ir import Node

_SPINS = 20  # tests in vain, before the core is left to others between them
_WORKED = 3000  # nanoseconds; a test that took longer has moved bytes, or comes first after a nap
_YIELDS = 200_000  # nanoseconds without a byte, before it sleeps between tests
_NAP, _LONGEST = 20, 1000  # microseconds of the first naps, and of those in a long wait
_SHARE = 64  # of the time without a byte a nap may add one part in so many
_LOOKS = 100  # naps from one look for signals to the next
LATE = -1  # the code of a wait that found no end within the limit
INTERRUPTED = -2  # and of one in which a signal's handler raised
# the words of a record, and its states (``fx/distributed/recorder.py``)
_SEQUENCE, _BYTES, _BEGAN, _ENDED, _STATE = 0, 8, 16, 40, 48
_BEGUN, _DONE, _FAILED = 1, 2, 3

# handles are ints or pointers, by the library: as 64 bits in a register they are both
_ENDS = [pointer, i64, i64, pointer, i64, i64, i64, pointer]
_FUNCTIONS = {
    "Iallreduce": [pointer, pointer, i64, i64, i64, i64, pointer],
    "Ireduce_scatter_block": [pointer, pointer, i64, i64, i64, i64, pointer],
    "Iallgather": _ENDS,
    "Ialltoall": _ENDS,
    "Ibcast": [pointer, i64, i64, i32, i64, pointer],
    "Isend": [pointer, i64, i64, i32, i32, i64, pointer],
    "Irecv": [pointer, i64, i64, i32, i32, i64, pointer],
    "Test": [pointer, pointer, pointer],
    "Get_count": [pointer, i64, pointer],
}
_LIBRARY = {
    "usleep": [i32],
    "clock_gettime": [i32, pointer],
    "sched_yield": [],
    "PyGILState_Ensure": [],
    "PyGILState_Release": [i32],
    "PyErr_CheckSignals": [],
}


def _register() -> None:
    def finder(name: str) -> Callable[[], int]:
        whole = f"MPI_{name}" + "_c" * (name != "Test")  # those that count in 64 bits
        return lambda: collective.engine.address(whole)  # type: ignore[no-any-return]

    for name, types in _FUNCTIONS.items():
        externals.register(f"fx.mpi.{name}", ir.FunctionType(i32, types), finder(name))
    for name, types in _LIBRARY.items():
        externals.register(f"fx.{name}", ir.FunctionType(i32, types), externals.of_library(name))


_register()


class Messages:
    """What the kernel of a message is made of."""

    def __init__(self, frame: Frame, node: Node) -> None:
        self.b, self.node = frame.b, node
        axis = node.params["axis"] if "axis" in node.params else node.params["among"]
        self.words = externals.ranks(frame.b.module, axis)
        # codes and requests that nobody waited for yet, and bytes that must come
        self._asked: list[tuple[Any, Any, int | None]] = []
        self._count: Any = None  # the place of the bytes of a message that had others; -1
        self._found: Any = None  # the place of the first code that is not 0
        self.behind: list[Callable[[], None]] = []  # what is done when they are through

    def word(self, place: int) -> Any:
        """A word of the axis."""
        return self.b.load(at(self.b, self.words, place, i64), typ=i64)

    def datatype(self, dtype: Any) -> Any:
        """The handle of a dtype; of bytes for None."""
        return self.word(DATATYPES[dtype])

    def post(
        self, name: str, *args: Any, comm: int | None = None, expects: int | None = None
    ) -> None:
        """Begin a message; its last arguments are the communicator and the request.

        Args:
            comm: the word of the communicator; None: that of such messages.
            expects: how many bytes must come.
        """
        b = self.b
        if self._found is None:
            self._found = self._local(i32)
            b.store(i32(0), self._found)
            self._record_begin()
        request = self._local(i64)
        b.store(i64(0), request)
        function = externals.declare(b.module, f"fx.mpi.{name}")
        if comm is None:
            comm = APART if name in ("Isend", "Irecv") else COMM
        self._asked.append((b.call(function, [*args, self.word(comm), request]), request, expects))

    def _local(self, kind: Any) -> Any:
        with self.b.goto_entry_block():
            place = self.b.alloca(kind)
        place.type = pointer
        return place

    def wait(self) -> Any:
        """Wait for what was begun; the first code that was not 0 so far."""
        b = self.b
        state = self._local(ir.ArrayType(i64, 16)) if self._asked else None
        for code, request, expects in self._asked:
            waited = b.call(_wait(b.module), [request, code, self.word(LIMIT), state])
            if expects is not None:
                self._check_count(waited, state, expects)
            before = b.load(self._found, typ=i32)
            first = b.icmp_signed("==", before, i32(0))
            b.store(b.select(first, waited, before), self._found)
        self._asked = []
        return b.load(self._found, typ=i32)

    def _check_count(self, code: Any, state: Any, expects: int) -> None:
        """Note the bytes of a message that came, if they are not as many as must come."""
        b = self.b
        if self._count is None:
            self._count = self._local(i64)
            with b.goto_entry_block():
                b.store(i64(-1), self._count)
        place = self._local(i64)
        with b.if_then(b.icmp_signed("==", code, i32(0)), likely=True):
            count = externals.declare(b.module, "fx.mpi.Get_count")
            b.call(count, [state, self.datatype(None), place])
            found = b.load(place, typ=i64)
            with b.if_then(b.icmp_signed("!=", found, i64(expects)), likely=False):
                b.store(found, self._count)

    def wrong_count(self) -> Any:
        """The bytes of a message that had others than must come, or -1; None: nobody looked."""
        return None if self._count is None else self.b.load(self._count, typ=i64)

    @contextmanager
    def then(self) -> Iterator[None]:
        """A block behind what was begun: it runs where that went well."""
        with self.b.if_then(self.b.icmp_signed("==", self.wait(), i32(0)), likely=True):
            yield
            self.wait()

    def _record(self, place: int, value: Any) -> None:
        """A word of the flight recorder's record (``fx/distributed/recorder.py``)."""
        b = self.b
        b.store(value, at(b, b.inttoptr(self.word(RECORD), pointer), i64(place), i8))

    def _record_begin(self) -> None:
        b, record = self.b, self.b.inttoptr(self.word(RECORD), pointer)
        nbytes = sum(v.spec.nbytes for v in self.node.inputs[:-1])
        sequence = b.load(at(b, record, i64(_SEQUENCE), i8), typ=i64)
        self._record(_SEQUENCE, b.add(sequence, i64(1)))
        self._record(_BYTES, i64(nbytes))
        self._record(_BEGAN, self._seconds())
        self._record(_STATE, i64(_BEGUN))

    def _record_end(self, found: Any, bad: Any) -> None:
        """A wait that found no end is one that has begun."""
        b = self.b
        self._record(_ENDED, self._seconds())
        late = b.icmp_signed("==", found, i32(LATE))
        state = b.select(bad, i64(_FAILED), i64(_DONE))
        self._record(_STATE, b.select(late, i64(_BEGUN), state))

    def _seconds(self) -> Any:
        b, double = self.b, ir.DoubleType()
        return b.fmul(b.sitofp(b.call(_now(b.module), []), double), double(1e-9))

    def finish(self, status: Any) -> Any:
        """Wait for what was begun, and tell what MPI reports; whether that went wrong."""
        b = self.b
        found = i32(0) if self._found is None else self.wait()
        bad = b.icmp_signed("!=", found, i32(0))
        if self._found is not None:
            self._record_end(found, bad)
        store_item(b, b.select(bad, i64(LOST), i64(0)), status, i64(0), int64)
        store_item(b, b.sext(found, i64), status, i64(1), int64)
        return bad


def _function(module: ir.Module, name: str, result: Any, args: list[Any]) -> tuple[Any, bool]:
    """A function of a module, and whether it is new."""
    found = module.globals.get(name)
    if found is not None:
        return found, False
    made = ir.Function(module, ir.FunctionType(result, args), name)
    made.linkage = "internal"
    return made, True


def _wait(module: ir.Module) -> ir.Function:
    """Test a request until it is through; the code of what was posted, of a test, or one of ours.

    As ``fx.distributed.mpi.wait`` does; the limit is in nanoseconds, 0: none. ``state`` has room
    for what MPI says of the message.
    """
    function, new = _function(module, "fx_wait", i32, [pointer, i32, i64, pointer])
    if not new:
        return function
    request, posted, limit, state = function.args
    names = "start test look again slow rest moved idle leave nap signals done"
    block = {name: function.append_basic_block(name) for name in names.split()}
    b = ir.IRBuilder(block["start"])
    call = lambda name, *args: b.call(externals.declare(module, f"fx.{name}"), args)
    now = lambda: b.call(_now(module), [])
    flag, cold, began, last, since = (_place(b, kind) for kind in (i32, i32, i64, i64, i64))
    b.store(i32(0), flag)
    b.store(i32(0), cold)
    b.store(i64(0), began)
    b.cbranch(b.icmp_signed("==", posted, i32(0)), block["test"], block["done"])
    b.position_at_end(block["test"])
    turn, naps = b.phi(i64), b.phi(i64)
    code = call("mpi.Test", request, flag, state)
    b.cbranch(b.icmp_signed("==", code, i32(0)), block["look"], block["done"])
    b.position_at_end(block["look"])
    b.cbranch(b.icmp_signed("!=", b.load(flag, typ=i32), i32(0)), block["done"], block["again"])
    b.position_at_end(block["again"])
    following = b.add(turn, i64(1))
    b.cbranch(b.icmp_unsigned("<", turn, i64(_SPINS)), block["test"], block["slow"])
    b.position_at_end(block["slow"])  # the time of a test, since the last one
    time, first = now(), b.icmp_signed("==", b.load(began, typ=i64), i64(0))
    for place in (began, last, since):
        b.store(b.select(first, time, b.load(place, typ=i64)), place)
    over = b.icmp_signed(">", b.sub(time, b.load(began, typ=i64)), limit)
    over = b.and_(over, b.icmp_signed("!=", limit, i64(0)))
    b.cbranch(over, block["done"], block["rest"])
    b.position_at_end(block["rest"])
    worked = b.icmp_signed(">", b.sub(time, b.load(last, typ=i64)), i64(_WORKED))
    b.cbranch(worked, block["moved"], block["idle"])
    b.position_at_end(block["moved"])
    b.store(time, last)
    woken = b.icmp_signed("!=", b.load(cold, typ=i32), i32(0))
    b.store(b.select(woken, b.load(since, typ=i64), time), since)
    b.store(i32(0), cold)
    b.branch(block["test"])
    b.position_at_end(block["idle"])
    waited = b.sub(time, b.load(since, typ=i64))
    long = b.icmp_signed(">", waited, i64(_YIELDS))
    b.cbranch(long, block["nap"], block["leave"])
    b.position_at_end(block["leave"])
    call("sched_yield")
    b.store(now(), last)
    b.branch(block["test"])
    b.position_at_end(block["nap"])
    share = b.sdiv(waited, i64(1000 * _SHARE))
    share = b.select(b.icmp_signed("<", share, i64(_NAP)), i64(_NAP), share)
    share = b.select(b.icmp_signed(">", share, i64(_LONGEST)), i64(_LONGEST), share)
    call("usleep", b.trunc(share, i32))
    b.store(now(), last)
    b.store(i32(1), cold)
    slept = b.add(naps, i64(1))
    looks = b.icmp_unsigned("==", b.urem(slept, i64(_LOOKS)), i64(0))
    b.cbranch(looks, block["signals"], block["test"])
    b.position_at_end(block["signals"])  # what a handler raises stays with the thread
    lock = call("PyGILState_Ensure")
    raised = call("PyErr_CheckSignals")
    call("PyGILState_Release", lock)
    b.cbranch(b.icmp_signed("!=", raised, i32(0)), block["done"], block["test"])
    turn.add_incoming(i64(0), block["start"])
    naps.add_incoming(i64(0), block["start"])
    for name in ("again", "moved", "leave", "nap", "signals"):
        turn.add_incoming(following, block[name])
        naps.add_incoming(slept if name in ("nap", "signals") else naps, block[name])
    b.position_at_end(block["done"])
    out = b.phi(i32)
    ends = {"start": posted, "test": code, "look": code, "slow": i32(LATE)}
    for name, value in (ends | {"signals": i32(INTERRUPTED)}).items():
        out.add_incoming(value, block[name])
    b.ret(out)
    return function


def _place(b: ir.IRBuilder, kind: Any) -> Any:
    place = b.alloca(kind)
    place.type = pointer
    return place


_MONOTONIC = 1  # of clock_gettime


def _now(module: ir.Module) -> ir.Function:
    """Nanoseconds of the clock that only goes on."""
    function, new = _function(module, "fx_now", i64, [])
    if new:
        b = ir.IRBuilder(function.append_basic_block())
        clock = _place(b, ir.ArrayType(i64, 2))
        b.call(externals.declare(module, "fx.clock_gettime"), [i32(_MONOTONIC), clock])
        seconds, more = (b.load(at(b, clock, i, i64), typ=i64) for i in (0, 1))
        b.ret(b.add(b.mul(seconds, i64(10**9)), more))
    return function
