"""Formulas as Python writes them: numbers, integers and masks that emit LLVM IR.

A value is a scalar or a vector; a Python number stands for itself in every lane. Each operation is
rounded by itself and nothing is contracted or reordered, so that a lane's bits depend neither on
the number of lanes nor on what stands around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from llvmlite import ir

from fx.backends.cpu.llvm.ir import bit_width, constant, element_of, i1, intrinsic, like, target


class Term:
    """A value and the builder that emits what is done with it."""

    __slots__ = ("b", "v")
    __array_ufunc__ = None  # NumPy's numbers leave operators to it

    def __init__(self, b: Any, v: Any) -> None:
        self.b = b
        self.v = v

    def lift(self, x: Any) -> Any:
        """The LLVM value of a term or of a Python number of this term's type."""
        return x.v if isinstance(x, Term) else constant(self.v.type, x)

    @property
    def type(self) -> ir.Type:
        """The LLVM type."""
        return self.v.type

    @property
    def scalar(self) -> ir.Type:
        """The LLVM type of an element."""
        return element_of(self.v.type)

    @property
    def width(self) -> int:
        """Bits an element."""
        return bit_width(element_of(self.v.type))


class Mask(Term):
    """Booleans: i1 a lane."""

    __slots__ = ()

    def __and__(self, o: Any) -> Mask:
        return Mask(self.b, self.b.and_(self.v, self.lift(o)))

    def __or__(self, o: Any) -> Mask:
        return Mask(self.b, self.b.or_(self.v, self.lift(o)))

    def __xor__(self, o: Any) -> Mask:
        return Mask(self.b, self.b.xor(self.v, self.lift(o)))

    def __invert__(self) -> Mask:
        return Mask(self.b, self.b.xor(self.v, self.lift(1)))

    def pick(self, x: Any, y: Any) -> Any:
        """x where true, y elsewhere; at least one of them is a term."""
        term = x if isinstance(x, Term) else y
        return type(term)(self.b, self.b.select(self.v, term.lift(x), term.lift(y)))


class Arithmetic(Term):
    """What integers and floating-point numbers have in common."""

    __slots__ = ()
    prefix = ""  # of the builder's methods
    comparison = "icmp_signed"

    def _op(self, name: str, o: Any) -> Self:
        return type(self)(self.b, getattr(self.b, self.prefix + name)(self.v, self.lift(o)))

    def _test(self, op: str, o: Any, comparison: str = "") -> Mask:
        compare = getattr(self.b, comparison or self.comparison)
        return Mask(self.b, compare(op, self.v, self.lift(o)))

    def __add__(self, o: Any) -> Self:
        return self._op("add", o)

    def __sub__(self, o: Any) -> Self:
        return self._op("sub", o)

    def __rsub__(self, o: Any) -> Self:
        return type(self)(self.b, self.lift(o)) - self

    def __mul__(self, o: Any) -> Self:
        return self._op("mul", o)

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, o: Any) -> Mask:
        return self._test("<", o)

    def __le__(self, o: Any) -> Mask:
        return self._test("<=", o)

    def __gt__(self, o: Any) -> Mask:
        return self._test(">", o)

    def __ge__(self, o: Any) -> Mask:
        return self._test(">=", o)

    def eq(self, o: Any) -> Mask:
        """Whether equal."""
        return self._test("==", o)


class Int(Arithmetic):
    """Integers; the operators are those of signed ones."""

    __slots__ = ()

    def __and__(self, o: Any) -> Int:
        return self._op("and_", o)

    def __or__(self, o: Any) -> Int:
        return self._op("or_", o)

    def __xor__(self, o: Any) -> Int:
        return self._op("xor", o)

    def __lshift__(self, o: Any) -> Int:
        return self._op("shl", o)

    def __rshift__(self, o: Any) -> Int:
        return self._op("ashr", o)

    def lshr(self, o: Any) -> Int:
        """Shift right, zeros from the left."""
        return self._op("lshr", o)

    def __neg__(self) -> Int:
        return 0 - self

    def ne(self, o: Any) -> Mask:
        """Whether different."""
        return self._test("!=", o)

    def below(self, o: Any) -> Mask:
        """Whether less, as unsigned numbers."""
        return self._test("<", o, "icmp_unsigned")

    def to(self, scalar: ir.IntType, signed: bool = True) -> Int:
        """Converted to another width."""
        target = like(self.type, scalar)
        if scalar.width == self.width:
            return self
        if scalar.width < self.width:
            return Int(self.b, self.b.trunc(self.v, target))
        return Int(self.b, (self.b.sext if signed else self.b.zext)(self.v, target))

    def to_float(self, scalar: ir.Type, signed: bool = True) -> Num:
        """The nearest number."""
        target = like(self.type, scalar)
        return Num(self.b, (self.b.sitofp if signed else self.b.uitofp)(self.v, target))

    def as_float(self) -> Num:
        """The same bits as a number."""
        scalar = ir.FloatType() if self.width == 32 else ir.DoubleType()
        return Num(self.b, self.b.bitcast(self.v, like(self.type, scalar)))


class Num(Arithmetic):
    """Floating-point numbers; comparisons are false for NaN."""

    __slots__ = ()
    prefix = "f"
    comparison = "fcmp_ordered"

    def __truediv__(self, o: Any) -> Num:
        return self._op("div", o)

    def __rtruediv__(self, o: Any) -> Num:
        return Num(self.b, self.lift(o)) / self

    def __neg__(self) -> Num:
        return Num(self.b, self.b.fneg(self.v))

    def __abs__(self) -> Num:
        return self.call("fabs")

    def ne(self, o: Any) -> Mask:
        """Whether different, or NaN."""
        return self._test("!=", o, "fcmp_unordered")

    def isnan(self) -> Mask:
        """Whether NaN."""
        return Mask(self.b, self.b.fcmp_unordered("uno", self.v, self.v))

    def call(self, name: str, *others: Any) -> Num:
        """An intrinsic of this type."""
        return Num(self.b, intrinsic(self.b, name, self.type, [self.v, *map(self.lift, others)]))

    def fma(self, y: Any, z: Any) -> Num:
        """self * y + z, rounded once, everywhere."""
        return self.call("fma", y, z)

    def mad(self, y: Any, z: Any) -> Num:
        """self * y + z, rounded once where that is one instruction."""
        return self.fma(y, z) if target().fma else self * y + z

    def sqrt(self) -> Num:
        """The square root, rounded exactly."""
        return self.call("sqrt")

    def rint(self) -> Num:
        """The nearest whole number, the even one of two."""
        return self.call("roundeven")

    def copysign(self, o: Any) -> Num:
        """With the sign of the other."""
        return self.call("copysign", o)

    def smaller(self, o: Any) -> Num:
        """The other where that is less, else self: NaN stays NaN."""
        o = Num(self.b, self.lift(o))
        return (self > o).pick(o, self)

    def larger(self, o: Any) -> Num:
        """The other where that is greater, else self: NaN stays NaN."""
        o = Num(self.b, self.lift(o))
        return (self < o).pick(o, self)

    def bits(self) -> Int:
        """The same bits as an integer."""
        return Int(self.b, self.b.bitcast(self.v, like(self.type, ir.IntType(self.width))))

    def to(self, scalar: ir.Type) -> Num:
        """Converted to another precision."""
        target = like(self.type, scalar)
        if target == self.type:
            return self
        grow = bit_width(scalar) > self.width
        return Num(self.b, (self.b.fpext if grow else self.b.fptrunc)(self.v, target))

    def to_int(self, scalar: ir.IntType) -> Int:
        """Truncated; the value must be in range."""
        return Int(self.b, self.b.fptosi(self.v, like(self.type, scalar)))

    def full(self, value: Any) -> Num:
        """A constant of this type."""
        return Num(self.b, constant(self.type, value))


def polynomial(x: Num, coefficients: Sequence[float]) -> Num:
    """sum(c[i] * x ** i) by Horner's rule."""
    total: Num = x.full(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total.mad(x, c)
    return total


def estrin(x: Num, coefficients: Sequence[float]) -> Num:
    """The same sum in pairs: more instructions, a shorter chain."""
    terms: list[Num] = [x.full(c) for c in coefficients]
    while len(terms) > 1:
        pairs = [terms[i + 1].mad(x, terms[i]) for i in range(0, len(terms) - 1, 2)]
        terms = pairs + terms[2 * len(pairs) :]
        x = x * x
    return terms[0]


def any_lane(b: Any, mask: Any) -> Any:
    """One i1: whether some lane of a mask is true."""
    if mask.type == i1:
        return mask
    bits = ir.IntType(mask.type.count)
    return b.icmp_unsigned("!=", b.bitcast(mask, bits), ir.Constant(bits, 0))


def rarely(mask: Mask, formula: Callable[[], Sequence[Any]], *usual: Any) -> list[Any]:
    """What ``formula()`` gives where the mask is true, ``usual`` elsewhere; a branch around it."""
    b = mask.b
    here, rare, after = b.block, b.append_basic_block("rare"), b.append_basic_block("usual")
    b.cbranch(any_lane(b, mask.v), rare, after)
    b.position_at_end(rare)
    found = [mask.pick(x, y) for x, y in zip(formula(), usual, strict=True)]
    rare = b.block
    b.branch(after)
    b.position_at_end(after)
    out = []
    for x, y in zip(usual, found, strict=True):
        phi = b.phi(x.type)
        phi.add_incoming(x.v, here)
        phi.add_incoming(y.v, rare)
        out.append(type(x)(b, phi))
    return out
