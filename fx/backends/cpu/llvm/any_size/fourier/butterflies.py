"""Passes of Fourier transforms, each lane a transform of its own.

An element is two vectors, ``[real | imaginary]``, and the elements of a transform lie one after the
other. A pass of radix r goes from one buffer to another (Stockham): of a transform of r * m points
that is done s times side by side,

    out[(p r + j) s + q] = w ** (p j) * sum over t of in[(t m + p) s + q] e ** (-2 pi i t j / r)

for p < m, q < s, j < r, with w = e ** (-2 pi i / (r m)). What is left are transforms of m points,
r s of them side by side, and behind the last pass all elements stand in order.

Source: Van Loan, "Computational frameworks for the fast Fourier transform", 1992, section 1.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin, sqrt
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.fourier.words import RADICES

Pair = tuple[Any, Any]  # the real and the imaginary part


class Complex:
    """What is done to complex numbers in vectors of a kind."""

    def __init__(self, b: ir.IRBuilder, kind: ir.Type, width: int) -> None:
        self.b, self.kind, self.width = b, kind, width
        self.vector = ir.VectorType(kind, width)

    def add(self, x: Pair, y: Pair) -> Pair:
        """x + y."""
        return self.b.fadd(x[0], y[0]), self.b.fadd(x[1], y[1])

    def sub(self, x: Pair, y: Pair) -> Pair:
        """x - y."""
        return self.b.fsub(x[0], y[0]), self.b.fsub(x[1], y[1])

    def times(self, x: Pair, y: Pair) -> Pair:
        """x y, of which y is a root of one."""
        b = self.b
        real = v.multiply_add(b, x[0], y[0], b.fneg(b.fmul(x[1], y[1])))
        return real, v.multiply_add(b, x[0], y[1], b.fmul(x[1], y[0]))

    def number(self, x: float) -> Any:
        """A constant in every lane."""
        return v.constant(self.vector, x)

    def spread(self, at: Any, i: Any = 0) -> Any:
        """The number at a place of memory, in every lane."""
        return v.splat(
            self.b, v.load(self.b, v.at(self.b, at, i, self.kind), self.kind), self.width
        )

    def root(self, at: Any, i: int) -> Pair:
        """Root ``i`` of a table of pairs, in every lane."""
        return self.spread(at, 2 * i), self.spread(at, 2 * i + 1)

    def element(self, at: Any) -> Pair:
        """The element at an address."""
        return self._part(at), self._part(v.at(self.b, at, self.width, self.kind))

    def _part(self, at: Any) -> Any:
        return v.load(self.b, at, self.kind, self.width)

    def put(self, x: Pair, at: Any) -> None:
        """An element to an address."""
        v.store(self.b, x[0], at)
        v.store(self.b, x[1], v.at(self.b, at, self.width, self.kind))

    def at(self, base: Any, i: Any) -> Any:
        """The address of element i."""
        return v.at(self.b, base, v.times(self.b, i, 2 * self.width), self.kind)


# transforms of few points -----------------------------------------------------------------------


def _two(c: Complex, a: Sequence[Pair]) -> list[Pair]:
    return [c.add(a[0], a[1]), c.sub(a[0], a[1])]


def _four(c: Complex, a: Sequence[Pair]) -> list[Pair]:
    b, (s, d), (t, e) = c.b, _two(c, a[::2]), _two(c, a[1::2])
    down = b.fadd(d[0], e[1]), b.fsub(d[1], e[0])  # d - i e
    up = b.fsub(d[0], e[1]), b.fadd(d[1], e[0])
    return [c.add(s, t), down, c.sub(s, t), up]


def _eight(c: Complex, a: Sequence[Pair]) -> list[Pair]:
    """Of the even ones, and of the odd ones times the roots of one."""
    b, h = c.b, c.number(sqrt(0.5))
    even, (o0, o1, o2, o3) = _four(c, a[::2]), _four(c, a[1::2])
    sides = [
        (o0[0], o0[1], None), (b.fadd(o1[0], o1[1]), b.fsub(o1[1], o1[0]), h),
        (o2[1], b.fneg(o2[0]), None),
        (b.fsub(o3[1], o3[0]), b.fneg(b.fadd(o3[0], o3[1])), h),
    ]  # fmt: skip
    first, last = [], []
    for x, (real, imaginary, factor) in zip(even, sides, strict=True):
        if factor is None:
            first.append(c.add(x, (real, imaginary)))
            last.append(c.sub(x, (real, imaginary)))
            continue
        other = b.fneg(factor)
        for into, by in ((first, factor), (last, other)):
            into.append((v.multiply_add(b, real, by, x[0]), v.multiply_add(b, imaginary, by, x[1])))
    return first + last


def _on_circle(k: int, n: int) -> tuple[float, float]:
    """Cosine and sine of 2 pi k / n, of an angle of at most pi / 4 and so to the last digit."""
    quarter = (4 * k + n // 2) // n
    angle = (4 * k - quarter * n) * pi / (2 * n)
    near, far = cos(angle), sin(angle)
    return ((near, far), (-far, near), (-near, -far), (far, -near))[quarter % 4]


def _odd(c: Complex, a: Sequence[Pair]) -> list[Pair]:
    """Sums and differences of the points that are mirror images of each other."""
    b, r = c.b, len(a)
    half = range(1, r // 2 + 1)
    sums = [c.add(a[t], a[r - t]) for t in half]
    apart = [c.sub(a[t], a[r - t]) for t in half]
    total = a[0]
    for x in sums:
        total = c.add(total, x)
    out = [total] * r
    for k in half:
        real, turned = list(a[0]), [None, None]
        for t, s, d in zip(half, sums, apart, strict=True):
            near, far = map(c.number, _on_circle(k * t % r, r))
            for i in (0, 1):
                real[i] = v.multiply_add(b, s[i], near, real[i])
                last = turned[i]
                turned[i] = (
                    b.fmul(d[i], far) if last is None else v.multiply_add(b, d[i], far, last)
                )
        back = turned[1], b.fneg(turned[0])  # -i times the sum of sines
        out[k], out[r - k] = c.add(tuple(real), back), c.sub(tuple(real), back)
    return out


def points(c: Complex, a: Sequence[Pair]) -> list[Pair]:
    """The transform of so many elements that are in registers."""
    found = {2: _two, 4: _four, 8: _eight}.get(len(a), _odd)
    return found(c, a)


# passes -----------------------------------------------------------------------------------------


def _pass(module: ir.Module, kind: ir.Type, width: int, radix: int) -> ir.Function:
    """``(in, out, m, s, roots)``: one pass; roots are for p = 1 .. m - 1, j = 1 .. r - 1."""
    args = [v.pointer, v.pointer, v.i64, v.i64, v.pointer]
    function = v.internal(module, f"radix{radix}", args)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    source, target, m, s, roots = function.args
    c = Complex(b, kind, width)
    apart = b.mul(m, s)

    def butterflies(p: Any, roots: Any) -> None:
        start, first = b.mul(p, s), b.mul(p, b.mul(s, v.const(radix)))
        into = [c.at(target, b.add(first, b.mul(s, v.const(j)))) for j in range(radix)]

        def one(q: Any) -> None:
            here = c.at(source, b.add(start, q))
            given = [c.element(c.at(here, b.mul(apart, v.const(t)))) for t in range(radix)]
            for j, x in enumerate(points(c, given)):
                if roots is not None and j:
                    x = c.times(x, c.root(roots, j - 1))
                c.put(x, c.at(into[j], q))

        v.loop(b, 0, s, one, name="beside")

    butterflies(v.const(0), None)

    def further(p: Any) -> None:
        place = b.mul(b.sub(p, v.const(1)), v.const(2 * (radix - 1)))
        butterflies(p, v.at(b, roots, place, kind))

    v.loop(b, 1, m, further, name="p")
    b.ret_void()
    return function


def passes(module: ir.Module, kind: ir.Type, width: int) -> ir.Function:
    """``(in, other, table, plan) -> out``: all passes of a plan, to and fro between two buffers.

    ``plan`` is words: how many passes, and of each the radix, m, s and where in ``table``, in
    bytes, its roots are.
    """
    radices = {r: _pass(module, kind, width, r) for r in RADICES}
    function = ir.Function(module, ir.FunctionType(v.pointer, [v.pointer] * 4), "passes")
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    first, other, table, plan = function.args
    word = lambda i: b.load(v.at(b, plan, i, v.i64), typ=v.i64, align=8)

    def one(i: Any, source: Any, target: Any) -> list[Any]:
        start = b.mul(i, v.const(4))
        radix, m, s, where = [word(b.add(start, v.const(1 + k))) for k in range(4)]
        roots = v.at(b, table, where, v.i8)
        for r, function in radices.items():
            with b.if_then(b.icmp_signed("==", radix, v.const(r))):
                b.call(function, [source, target, m, s, roots])
        return [target, source]

    found = v.loop(b, 0, word(0), one, [first, other], name="pass")
    b.ret(found[0])
    return function
