"""What the kernels of products share: their arguments, batches, and how results are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.gemm.epilogue import Place
from fx.backends.cpu.llvm.gemm.problem import Problem


class Frame:
    """Emits one kernel; attributes that end in ``_at`` are addresses while it does.

    Args:
        p: the product.
        width: the lanes of a vector.
        shape: the shape of the result.
        epilogue: what is computed from its elements, or None.
    """

    tasks: int
    scratch: int

    def __init__(self, p: Problem, width: int, shape: tuple[int, ...], epilogue: Any) -> None:
        self.p = p
        self.width = width
        self.shape = shape
        self.epilogue = epilogue
        self.extras = 0 if epilogue is None else len(epilogue.reads)
        self.kind = v.compute_type(p.x.dtype)
        self.size = v.size_of(self.kind)
        self.x_kind = v.memory_type(p.x.dtype)
        self.y_kind = v.memory_type(p.y.dtype)

    def emit(self, module: ir.Module, name: str, reads: int, writes: int) -> ir.Function:
        """The function of the contract."""
        kinds = [v.i64, v.i64, *[v.pointer] * (1 + reads + writes)]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        b = self.b = ir.IRBuilder(function.append_basic_block("entry"))
        begin, end, self.scratch_at, *arrays = function.args
        extra = self.extras
        self.x_at, self.y_at = arrays[0], arrays[min(1, reads - 1)]
        self.extra, self.writes = arrays[reads - extra : reads], arrays[reads:]
        shared = {a for i, j in inplace(self.epilogue) for a in (self.writes[i], self.extra[j])}
        for argument in function.args[2:]:
            if argument not in shared:
                argument.add_attribute("noalias")
        v.loop(b, begin, end, self.task, name="task")
        b.ret_void()
        return function

    def task(self, t: ir.Value) -> None:
        """Emit one task."""
        raise NotImplementedError

    def bases(
        self, batch: ir.Value, y_strides: Sequence[int], y_offset: int, y_kind: ir.Type
    ) -> tuple[ir.Value, ir.Value]:
        """The factors of one product of the batch."""
        b, p = self.b, self.p
        x, y, rest = v.const(p.x.offset), v.const(y_offset), batch
        for i in range(len(p.batch) - 1, -1, -1):
            size, of_x, _ = p.batch[i]
            place = rest
            if i > 0:
                rest, place = v.split(b, rest, size)
            x = v.add(b, x, v.times(b, place, of_x))
            y = v.add(b, y, v.times(b, place, y_strides[i]))
        return v.at(b, self.x_at, x, self.x_kind), v.at(b, self.y_at, y, y_kind)

    def finish(self, x: ir.Value, line: ir.Value, lane: ir.Value, mask: ir.Value | None) -> None:
        """Store one finished vector, or what the epilogue makes of it."""
        b, p, e = self.b, self.p, self.epilogue
        if e is None:
            memory = v.memory_type(p.out)
            place = v.add(b, v.times(b, line, p.n), lane)
            v.store(b, v.narrow(b, x, p.out), v.at(b, self.writes[0], place, memory), mask)
            return
        place = Place(b, line, lane, mask, self.width, self.shape, e.reads, self.extra)
        for y, value, base in zip(e.emit(b, x, place), e.writes, self.writes, strict=True):
            dtype = value.spec.dtype
            address = v.at(b, base, place.index, v.memory_type(dtype))
            v.store(b, v.narrow(b, y, dtype), address, mask)

    def finish_row(self, source: ir.Value, line: ir.Value, first: ir.Value, last: ir.Value) -> None:
        """The same for columns ``first`` to ``last`` of a row whose sums lie at ``source``."""
        b, width = self.b, self.width

        def one(j: ir.Value, mask: ir.Value | None) -> None:
            x = v.load(b, v.at(b, source, b.sub(j, first), self.kind), self.kind, width)
            self.finish(x, line, j, mask)

        tail = self.p.n % width
        stop = v.smaller(b, last, v.const(self.p.n - tail)) if tail else last
        v.loop(b, first, stop, lambda j: one(j, None), step=width, name="column")
        if tail:
            with b.if_then(b.icmp_signed("==", last, v.const(self.p.n))):
                one(v.const(self.p.n - tail), v.first_lanes(b, tail, width))


def inplace(epilogue: Any) -> tuple[tuple[int, int], ...]:
    """Which writes of an epilogue may be given the memory of which of its reads."""
    return getattr(epilogue, "inplace", ())
