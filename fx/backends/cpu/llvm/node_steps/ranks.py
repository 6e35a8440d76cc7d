"""Messages between the ranks of a mesh: MPI's functions, called from compiled code.

A step posts its message and tests it until it is through; after a while of tests in vain it
sleeps between them, until the limit of the axis. Nothing about ranks stands in the code: it reads
the words of the axis (``fx/backends/cpu/collective.py``). What MPI reports is told as an unfit
value is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu import collective
from fx.backends.cpu.collective import COMM, DATATYPES, INDEX, LIMIT, OPERATIONS, RECORD
from fx.backends.cpu.llvm import externals
from fx.backends.cpu.llvm.failures import LOST
from fx.backends.cpu.llvm.ir import Frame, at, clear, copy, i8, i64, pointer, store_item
from fx.backends.cpu.llvm.node_steps.checked import CheckedStep
from fx.backends.cpu.llvm.node_steps.kernel import SpecialStep, has_elements
from fx.compiler.step import Step
from fx.dtypes import int64
from fx.graph.ir import Node

i32 = ir.IntType(32)
_SPINS = 200  # tests in vain, before the core is left to others for a while
_WORKED = 3000  # nanoseconds; a test that took longer has moved bytes
_NAP = 10  # microseconds
_LATE = -1  # the code of a wait that found no end within the limit
# the words of a record, and its states (``fx/distributed/recorder.py``)
_SEQUENCE, _BYTES, _BEGAN, _ENDED, _STATE = 0, 8, 16, 40, 48
_BEGUN, _DONE, _FAILED = 1, 2, 3
_TAG = 71
# a message takes longer than a step that keeps Python's lock may
_LATENCY, _BYTE = 30_000.0, 0.2  # nanoseconds

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
}


def _register() -> None:
    def finder(name: str) -> Callable[[], int]:
        whole = f"MPI_{name}" + "_c" * (name != "Test")  # those that count in 64 bits
        return lambda: collective.engine.address(whole)  # type: ignore[no-any-return]

    for name, types in _FUNCTIONS.items():
        externals.register(f"fx.mpi.{name}", ir.FunctionType(i32, types), finder(name))
    for name, types in (("usleep", [i32]), ("clock_gettime", [i32, pointer])):
        externals.register(f"fx.{name}", ir.FunctionType(i32, types), externals.of_library(name))


_register()


class _Messages:
    """What the kernel of a message is made of."""

    def __init__(self, frame: Frame, node: Node) -> None:
        self.b, self.node = frame.b, node
        self.words = externals.ranks(frame.b.module, node.params["axis"])
        self.comm = self.word(COMM)
        self.codes: list[Any] = []
        self.requests: list[Any] = []
        self.behind: list[Callable[[], None]] = []  # what is done when they are through

    def word(self, place: int) -> Any:
        """A word of the axis."""
        return self.b.load(at(self.b, self.words, place, i64), typ=i64)

    def datatype(self, dtype: Any) -> Any:
        """The handle of a dtype; of bytes for None."""
        return self.word(DATATYPES[dtype])

    def post(self, name: str, *args: Any) -> None:
        """Begin a message."""
        b = self.b
        if not self.requests:
            self._record_begin()
        with b.goto_entry_block():
            request = b.alloca(i64)
        request.type = pointer
        b.store(i64(0), request)
        function = externals.declare(b.module, f"fx.mpi.{name}")
        self.codes.append(b.call(function, [*args, self.comm, request]))
        self.requests.append(request)

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
        late = b.icmp_signed("==", found, i32(_LATE))
        state = b.select(bad, i64(_FAILED), i64(_DONE))
        self._record(_STATE, b.select(late, i64(_BEGUN), state))

    def _seconds(self) -> Any:
        b, double = self.b, ir.DoubleType()
        return b.fmul(b.sitofp(b.call(_now(b.module), []), double), double(1e-9))

    def finish(self, status: Any) -> None:
        """Wait for what was begun, and tell what MPI reports."""
        b = self.b
        found = i32(0)
        for code, request in zip(self.codes, self.requests):
            waited = b.call(_wait(b.module), [request, code, self.word(LIMIT)])
            found = b.select(b.icmp_signed("!=", waited, i32(0)), waited, found)
        bad = b.icmp_signed("!=", found, i32(0))
        if self.requests:
            self._record_end(found, bad)
        store_item(b, b.select(bad, i64(LOST), i64(0)), status, i64(0), int64)
        store_item(b, b.sext(found, i64), status, i64(1), int64)


def _wait(module: ir.Module) -> ir.Function:
    """Test a request until it is through; the code of what was posted, of a test, or ``_LATE``.

    As ``fx.distributed.mpi.wait`` does; the limit is in nanoseconds, 0: none.
    """
    name = "fx_wait"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(i32, [pointer, i32, i64]), name)
    function.linkage = "internal"
    request, posted, limit = function.args
    start, test, look, again, slow, rest, nap, done = [
        function.append_basic_block(n)
        for n in ("start", "test", "look", "again", "slow", "rest", "nap", "done")
    ]
    b = ir.IRBuilder(start)
    room = [b.alloca(t) for t in (i32, ir.ArrayType(i64, 16), i64, i64)]
    for each in room:
        each.type = pointer
    flag, state, began, last = room
    now = lambda: b.call(_now(module), [])
    for place, zero in ((flag, i32(0)), (began, i64(0)), (last, i64(0))):
        b.store(zero, place)
    b.cbranch(b.icmp_signed("==", posted, i32(0)), test, done)
    b.position_at_end(test)
    turn = b.phi(i64)
    code = b.call(externals.declare(module, "fx.mpi.Test"), [request, flag, state])
    b.cbranch(b.icmp_signed("==", code, i32(0)), look, done)
    b.position_at_end(look)
    b.cbranch(b.icmp_signed("!=", b.load(flag, typ=i32), i32(0)), done, again)
    b.position_at_end(again)
    following = b.add(turn, i64(1))
    b.cbranch(b.icmp_unsigned("<", turn, i64(_SPINS)), test, slow)
    b.position_at_end(slow)
    time = now()
    first = b.load(began, typ=i64)
    first = b.select(b.icmp_signed("==", first, i64(0)), time, first)
    b.store(first, began)
    over = b.icmp_signed(">", b.sub(time, first), limit)
    b.cbranch(b.and_(over, b.icmp_signed("!=", limit, i64(0))), done, rest)
    b.position_at_end(rest)
    worked = b.icmp_signed(">", b.sub(time, b.load(last, typ=i64)), i64(_WORKED))
    b.store(time, last)
    b.cbranch(worked, test, nap)
    b.position_at_end(nap)
    b.call(externals.declare(module, "fx.usleep"), [i32(_NAP)])
    b.store(now(), last)
    b.branch(test)
    turn.add_incoming(i64(0), start)
    for block in (again, rest, nap):
        turn.add_incoming(following, block)
    b.position_at_end(done)
    out = b.phi(i32)
    for value, block in ((posted, start), (code, test), (code, look), (i32(_LATE), slow)):
        out.add_incoming(value, block)
    b.ret(out)
    return function


_MONOTONIC = 1  # of clock_gettime


def _now(module: ir.Module) -> ir.Function:
    """Nanoseconds of the clock that only goes on."""
    name = "fx_now"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(i64, []), name)
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block())
    clock = b.alloca(ir.ArrayType(i64, 2))
    clock.type = pointer
    b.call(externals.declare(module, "fx.clock_gettime"), [i32(_MONOTONIC), clock])
    seconds, more = (b.load(at(b, clock, i, i64), typ=i64) for i in (0, 1))
    b.ret(b.add(b.mul(seconds, i64(10**9)), more))
    return function


class _MessageStep(CheckedStep):
    words = (LOST,)


Post = Callable[[_Messages, Sequence[Any], Sequence[Any], Any], None]


def _message(node: Node, post: Post, scratch: int = 0) -> Step | None:
    """A step that begins messages and waits for them; the last values are tokens."""
    if not has_elements(node) or type(node.params["axis"]) is not str:
        return None

    def body(frame: Frame) -> None:
        b, ends = frame.b, [*frame.writes]
        status, token, reads = ends.pop(), ends.pop(), frame.reads[:-1]
        messages = _Messages(frame, node)
        post(messages, reads, ends, frame.scratch)
        store_item(b, i8(0), token, i64(0), node.outs[-1].spec.dtype)
        messages.finish(status)
        for end in messages.behind:
            end()
        b.ret_void()

    name, nbytes = node.primitive.name.removesuffix("_after"), sum(v.spec.nbytes for v in node.outs)
    failure = f"{name} along axis {node.params['axis']}: MPI gave up with its code %lld"
    failure += f" ({_LATE}: not every rank came to it within the timeout of the group)"
    return _MessageStep(node, body, failure, cost=_LATENCY + _BYTE * nbytes, scratch=scratch)


# one a primitive ----------------------------------------------------------------------------------


def _reduction(name: str) -> Callable[[Node], Step | None]:
    def step(node: Node) -> Step | None:
        if node.primitive.name == "unshard_after":
            if node.params["how"] == "rows":
                return _gather(node)
            sent = node.inputs[:1]
        else:
            sent = node.inputs[:-1]
        dtype = sent[0].spec.dtype
        if any(v.spec.dtype != dtype for v in sent) or (name, dtype) not in OPERATIONS:
            return None
        sizes = [v.spec.nbytes for v in sent]
        alone = node.params["size"] == 1

        def post(m: _Messages, reads: Any, writes: Any, scratch: Any) -> None:
            b = m.b
            if alone:
                for x, out, n in zip(reads, writes, sizes):
                    copy(b, out, x, n)
                return
            x, out = reads[0], writes[0]
            if len(sizes) > 1:  # side by side, as one message
                x, out = scratch, at(b, scratch, i64(sum(sizes)), i8)
                for source, place, n in zip(reads, _starts(sizes), sizes):
                    copy(b, at(b, x, i64(place), i8), source, n)
                m.behind.append(lambda: _unpack(b, out, writes, sizes))
            count = i64(sum(sizes) // dtype.itemsize)
            m.post("Iallreduce", x, out, count, m.datatype(dtype), m.word(OPERATIONS[name, dtype]))

        return _message(node, post, 2 * sum(sizes) if len(sizes) > 1 and not alone else 0)

    return step


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:i]) for i in range(len(sizes))]


def _unpack(b: Any, source: Any, writes: Sequence[Any], sizes: Sequence[int]) -> None:
    for out, place, n in zip(writes, _starts(sizes), sizes):
        copy(b, out, at(b, source, i64(place), i8), n)


def _to_all(function: str) -> Callable[[Node], Step | None]:
    """Bytes of each rank to each."""

    def step(node: Node) -> Step | None:
        nbytes, size = node.outs[0].spec.nbytes, node.params["size"]

        def post(m: _Messages, reads: Any, writes: Any, scratch: Any) -> None:
            if size == 1:
                copy(m.b, writes[0], reads[0], nbytes)
                return
            end = [i64(nbytes // size), m.datatype(None)]
            m.post(function, reads[0], *end, writes[0], *end)

        return _message(node, post)

    return step


_gather = _to_all("Iallgather")


def _scatter(node: Node) -> Step | None:
    spec, size = node.outs[0].spec, node.params["size"]
    if ("sum", spec.dtype) not in OPERATIONS:
        return None

    def post(m: _Messages, reads: Any, writes: Any, scratch: Any) -> None:
        if size == 1:
            copy(m.b, writes[0], reads[0], spec.nbytes)
            return
        kind, op = m.datatype(spec.dtype), m.word(OPERATIONS["sum", spec.dtype])
        m.post("Ireduce_scatter_block", reads[0], writes[0], i64(spec.size), kind, op)

    return _message(node, post)


def _broadcast(node: Node) -> Step | None:
    nbytes, params = node.outs[0].spec.nbytes, node.params

    def post(m: _Messages, reads: Any, writes: Any, scratch: Any) -> None:
        copy(m.b, writes[0], reads[0], nbytes)
        if params["size"] > 1:
            m.post("Ibcast", writes[0], i64(nbytes), m.datatype(None), i32(params["source"]))

    return _message(node, post)


def _permute(node: Node) -> Step | None:
    nbytes, sources = node.outs[0].spec.nbytes, node.params["sources"]

    def post(m: _Messages, reads: Any, writes: Any, scratch: Any) -> None:
        b, index, count = m.b, m.word(INDEX), i64(nbytes)
        source, to = i32(_NOBODY), i32(_NOBODY)
        for i, s in enumerate(sources):
            here = b.icmp_signed("==", index, i64(i))
            source = b.select(here, i32(s if s >= 0 else _NOBODY), source)
            if i in sources:
                to = b.select(here, i32(sources.index(i)), to)
        clear(b, writes[0], nbytes)
        own = b.icmp_signed("==", b.sext(source, i64), index)
        with b.if_then(own):
            copy(b, writes[0], reads[0], nbytes)
        if len(sources) == 1:
            return
        nobody = b.trunc(m.word(collective.NOBODY), i32)
        source = b.select(b.or_(own, b.icmp_signed("<", source, i32(0))), nobody, source)
        to = b.select(b.or_(own, b.icmp_signed("<", to, i32(0))), nobody, to)
        m.post("Irecv", writes[0], count, m.datatype(None), source, i32(_TAG))
        m.post("Isend", reads[0], count, m.datatype(None), to, i32(_TAG))

    return _message(node, post)


_NOBODY = -1


# what needs no message ---------------------------------------------------------------------------


def _index(node: Node) -> Step | None:
    axis = node.params["axis"]
    if type(axis) is not str:
        return None

    def body(frame: Frame) -> None:
        b = frame.b
        words = externals.ranks(b.module, axis)
        store_item(b, b.load(at(b, words, INDEX, i64), typ=i64), frame.writes[0], i64(0), int64)
        b.ret_void()

    return SpecialStep(node, body, cost=5.0)


def _shard(node: Node) -> Step | None:
    if node.params["how"] != "rows" or not has_elements(node):
        return None
    nbytes = node.out.spec.nbytes

    def body(frame: Frame) -> None:
        b, (x, lane) = frame.b, frame.reads
        start = b.mul(b.load(lane, typ=i64), i64(nbytes))
        copy(b, frame.writes[0], at(b, x, start, i8), nbytes)
        b.ret_void()

    return SpecialStep(node, body, cost=5.0 + 0.1 * nbytes)


def _as_it_is(node: Node) -> Step | None:
    """A part that is the whole already."""
    if node.params["how"] != "first" or type(node.params["axis"]) is not str:
        return None
    nbytes = node.out.spec.nbytes
    if not nbytes:
        return None

    def body(frame: Frame) -> None:
        copy(frame.b, frame.writes[0], frame.reads[0], nbytes)
        frame.b.ret_void()

    return SpecialStep(node, body, cost=5.0 + 0.1 * nbytes)


STEPS: dict[str, Callable[[Node], Step | None]] = {
    "psum_after": _reduction("sum"),
    "pmax_after": _reduction("max"),
    "pmin_after": _reduction("min"),
    "unshard_after": _reduction("sum"),
    "all_gather_after": _gather,
    "all_to_all_after": _to_all("Ialltoall"),
    "psum_scatter_after": _scatter,
    "pbroadcast_after": _broadcast,
    "ppermute_after": _permute,
    "mesh_index": _index,
    "shard": _shard,
    "unshard": _as_it_is,
}
