"""Building blocks of LLVM IR: loops, vectors, masked rows.

``Emitter`` wraps an ``IRBuilder`` with what the kernels of this package need. Integers in Python
stand for i64 constants wherever an i64 is taken, and arithmetic on two of them gives one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.conv.target import scalar_type

I1, I8, I32, I64 = (ir.IntType(n) for n in (1, 8, 32, 64))
PTR = ir.PointerType()

Index = Any  # an int or an i64 value


class _Same(ir.Constant):  # type: ignore[misc]  # llvmlite has no types
    """A vector that one word stands for: a fraction of the text, which is parsed fast."""

    def __init__(self, kind: Any, word: str) -> None:
        super().__init__(kind.element, None)
        self.type = kind
        self.constant = (ir.Constant(I32, 0),) * kind.count  # what shuffles check
        self.word = word

    def get_reference(self) -> str:
        return self.word


class Emitter:
    """Emits into one function.

    Args:
        function: the ``ir.Function`` to fill.
        dtype: the name of the dtype of its floats.
    """

    def __init__(self, function: Any, dtype: str) -> None:
        self.function = function
        self.module = function.module
        self.dtype = dtype
        self.scalar, self.itemsize = scalar_type(dtype)
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

    # integers -----------------------------------------------------------------------------------

    def i(self, x: Index) -> Any:
        """An i64 value."""
        return ir.Constant(I64, x) if isinstance(x, int) else x

    def add(self, *terms: Index) -> Index:
        """The sum of i64 values; constants are added here and now."""
        known = sum([t for t in terms if isinstance(t, int)])
        out: Any = None
        for t in terms:
            if not isinstance(t, int):
                out = t if out is None else self.b.add(out, t, flags=("nsw",))
        if out is None:
            return known
        return self.b.add(out, self.i(known), flags=("nsw",)) if known else out

    def mul(self, x: Index, y: Index) -> Index:
        """The product of i64 values."""
        if isinstance(x, int) and isinstance(y, int):
            return x * y
        if isinstance(x, int):
            x, y = y, x
        if isinstance(y, int):
            if y == 0:
                return 0
            if y == 1:
                return x
        return self.b.mul(x, self.i(y), flags=("nsw",))

    def sub(self, x: Index, y: Index) -> Index:
        """x - y."""
        if isinstance(y, int):
            return self.add(x, -y)
        return self.b.sub(self.i(x), y, flags=("nsw",))

    def divmod(self, x: Index, y: int) -> tuple[Index, Index]:
        """Quotient and remainder of x >= 0 by a constant."""
        if y == 1:
            return x, 0
        if isinstance(x, int):
            return divmod(x, y)
        return self.b.udiv(x, self.i(y)), self.b.urem(x, self.i(y))

    def least(self, x: Index, y: Index) -> Index:
        """The smaller one."""
        if isinstance(x, int) and isinstance(y, int):
            return min(x, y)
        x, y = self.i(x), self.i(y)
        return self.b.select(self.b.icmp_signed("<", x, y), x, y)

    def most(self, x: Index, y: Index) -> Index:
        """The larger one."""
        if isinstance(x, int) and isinstance(y, int):
            return max(x, y)
        x, y = self.i(x), self.i(y)
        return self.b.select(self.b.icmp_signed(">", x, y), x, y)

    # control ------------------------------------------------------------------------------------

    def loop(
        self,
        start: Index,
        stop: Index,
        body: Callable[..., Sequence[Any] | None],
        carried: Sequence[Any] = (),
        step: int = 1,
    ) -> list[Any]:
        """``for i in range(start, stop, step): carried = body(i, *carried)``; the last carried."""
        b = self.b
        if isinstance(start, int) and isinstance(stop, int):
            if start >= stop:
                return list(carried)
            if start + step >= stop:
                return list(body(start, *carried) or ())
            sure = True
        else:
            sure = False
        start, stop = self.i(start), self.i(stop)
        before = b.block
        head = b.append_basic_block("loop")
        done = b.append_basic_block("done")
        if sure:
            b.branch(head)
        else:
            b.cbranch(b.icmp_signed("<", start, stop), head, done)
        b.position_at_end(head)
        i = b.phi(I64)
        i.add_incoming(start, before)
        phis = []
        for value in carried:
            phi = b.phi(value.type)
            phi.add_incoming(value, before)
            phis.append(phi)
        new = list(body(i, *phis) or ())
        after = b.add(i, self.i(step), flags=("nsw",))
        tail = b.block
        b.cbranch(b.icmp_signed("<", after, stop), head, done)
        i.add_incoming(after, tail)
        for phi, value in zip(phis, new, strict=True):
            phi.add_incoming(value, tail)
        b.position_at_end(done)
        if sure or not new:
            return new
        out = []
        for first, last in zip(carried, new):
            phi = b.phi(first.type)
            phi.add_incoming(first, before)
            phi.add_incoming(last, tail)
            out.append(phi)
        return out

    def sums(
        self, stop: int, body: Callable[..., Sequence[Any]], count: int, lanes: int, each: int
    ) -> list[Any]:
        """``count`` vectors of sums that ``body(i, *sums)`` adds to, for i in range(stop).

        Each turn adds ``each`` products to a sum. After ``limits.CONV_SUM`` of them the sums go
        to memory and start anew: a long chain of additions loses digits.
        """
        part = max(1, limits.CONV_SUM // max(each, 1))
        zeros = [self.zero(lanes)] * count
        if stop <= part:
            return self.loop(0, stop, body, zeros)
        held = self.room(lanes * count)
        places = [self.at(held, i * lanes) for i in range(count)]
        for place in places:
            self.store(self.zero(lanes), place)

        def some(first: Any) -> None:
            found = self.loop(first, self.least(self.add(first, part), stop), body, zeros)
            for value, place in zip(found, places, strict=True):
                self.store(self.b.fadd(self.load(place, lanes), value), place)

        self.loop(0, stop, some, step=part)
        return [self.load(place, lanes) for place in places]

    # memory -------------------------------------------------------------------------------------

    def at(self, pointer: Any, index: Index, type_: Any = None) -> Any:
        """The address of element ``index`` of floats at ``pointer``."""
        if isinstance(index, int) and index == 0:
            return pointer
        return self.b.gep(pointer, [self.i(index)], source_etype=type_ or self.scalar)

    def room(self, count: int) -> Any:
        """Memory for ``count`` floats on the stack of this call."""
        kind = ir.ArrayType(self.scalar, count)
        with self.b.goto_entry_block():
            found = self.b.alloca(kind)
            found.align = 64
            found.type = PTR  # llvmlite gives it a typed pointer
        return found

    def load(self, pointer: Any, lanes: int = 1) -> Any:
        """A scalar, or a vector at any address."""
        kind = self.scalar if lanes == 1 else ir.VectorType(self.scalar, lanes)
        return self.b.load(pointer, typ=kind, align=self.itemsize)

    def store(self, value: Any, pointer: Any) -> None:
        """Store a scalar or a vector at any address."""
        self.b.store(value, pointer, align=self.itemsize)

    # vectors ------------------------------------------------------------------------------------

    def vector(self, lanes: int) -> Any:
        """The type of a vector."""
        return ir.VectorType(self.scalar, lanes)

    def zero(self, lanes: int) -> Any:
        """A vector of zeros."""
        return _Same(self.vector(lanes), "zeroinitializer")

    def splat(self, value: Any, lanes: int) -> Any:
        """A vector of one value."""
        kind = ir.VectorType(value.type, lanes)
        nothing = _Same(kind, "poison")
        one = self.b.insert_element(nothing, value, ir.Constant(I32, 0))
        mask = _Same(ir.VectorType(I32, lanes), "zeroinitializer")
        return self.b.shuffle_vector(one, nothing, mask)

    def shuffle(self, x: Any, y: Any, places: Sequence[int]) -> Any:
        """Elements of x and y, side by side, at these places."""
        mask = ir.Constant(ir.VectorType(I32, len(places)), list(places))
        return self.b.shuffle_vector(x, x if y is None else y, mask)

    def muladd(self, x: Any, y: Any, z: Any) -> Any:
        """x * y + z, in one instruction where the CPU has it."""
        return self.b.fadd(self.b.fmul(x, y, flags=("contract",)), z, flags=("contract",))

    def load_first(self, pointer: Any, lanes: int, count: int) -> Any:
        """The first ``count`` elements at ``pointer``, then zeros."""
        if count >= lanes:
            return self.load(pointer, lanes)
        mask = ir.Constant(ir.VectorType(I1, lanes), [int(j < count) for j in range(lanes)])
        return self.load_where(pointer, lanes, mask)

    def load_where(self, pointer: Any, lanes: int, mask: Any) -> Any:
        """Elements where the mask is set, zeros elsewhere; only the former are touched."""
        kind = self.vector(lanes)
        name = f"llvm.masked.load.v{lanes}f{8 * self.itemsize}.p0"
        load = self._declare(name, kind, (PTR, I32, ir.VectorType(I1, lanes), kind))
        align = ir.Constant(I32, self.itemsize)
        return self.b.call(load, [pointer, align, mask, self.zero(lanes)])

    def apart(self, pointer: Any, step: int, lanes: int) -> Any:
        """Elements ``step`` apart (at most 4), picked out of as many vectors side by side."""
        if step == 1:
            return self.load(pointer, lanes)
        parts = [self.load(self.at(pointer, v * lanes), lanes) for v in range(step)]
        out = parts[0]
        held = [i * step for i in range(lanes)]  # where in ``out`` what lane i wants is, if it is
        for v in range(1, step):
            places = []
            for i in range(lanes):
                at = i * step - v * lanes
                if at < 0:
                    places.append(held[i])
                    held[i] = i
                elif at < lanes:
                    places.append(lanes + at)
                    held[i] = i
                else:
                    places.append(0)
            out = self.shuffle(out, parts[v], places)
        return out

    def store_apart(self, value: Any, pointer: Any, step: int, count: int) -> None:
        """Store the first ``count`` lanes ``step`` apart, and touch nothing between them."""
        lanes = value.type.count
        if step > 4:
            for i in range(count):
                one = self.b.extract_element(value, ir.Constant(I32, i))
                self.store(one, self.at(pointer, i * step))
            return
        for first in range(0, (count - 1) * step + 1, lanes):
            mask = [int(i % step == 0 and i // step < count) for i in range(first, first + lanes)]
            wide = value
            if step > 1:
                places = [(first + i) // step if mask[i] else 0 for i in range(lanes)]
                wide = self.shuffle(value, None, places)
            at = self.at(pointer, first)
            if all(mask):
                self.store(wide, at)
            else:
                self.store_where(wide, at, ir.Constant(ir.VectorType(I1, lanes), mask))

    def store_where(self, value: Any, pointer: Any, mask: Any) -> None:
        """Store the elements where the mask is set, and touch no others."""
        kind = value.type
        name = f"llvm.masked.store.v{kind.count}f{8 * self.itemsize}.p0"
        store = self._declare(name, ir.VoidType(), (kind, PTR, I32, mask.type))
        self.b.call(store, [value, pointer, ir.Constant(I32, self.itemsize), mask])

    def _declare(self, name: str, result: Any, args: Sequence[Any]) -> Any:
        found = self.module.globals.get(name)
        if found is None:
            found = ir.Function(self.module, ir.FunctionType(result, args), name)
        return found


def table(module: Any, name: str, numbers: Sequence[int]) -> Any:
    """A constant array of i64 in the module; its address."""
    kind = ir.ArrayType(I64, len(numbers))
    found = ir.GlobalVariable(module, kind, name)
    found.global_constant = True
    found.linkage = "internal"
    found.initializer = ir.Constant(kind, [int(n) for n in numbers])
    found.type = PTR
    return found


def internal(module: Any, name: str, args: Sequence[Any], inline: bool = False) -> Any:
    """A new void function that only this module sees; pointers do not alias one another."""
    found = ir.Function(module, ir.FunctionType(ir.VoidType(), list(args)), name)
    found.linkage = "internal"
    found.attributes.add("alwaysinline" if inline else "noinline")
    found.attributes.add("nounwind")
    for arg in found.args:
        if arg.type == PTR:
            arg.add_attribute("noalias")
    return found


def kernel(module: Any, name: str, pointers: int) -> Any:
    """The function of a step: ``void (i64 begin, i64 end, ptr scratch, ptr ...)``."""
    kind = ir.FunctionType(ir.VoidType(), [I64, I64] + [PTR] * (1 + pointers))
    found = ir.Function(module, kind, name)
    found.attributes.add("nounwind")
    return found
