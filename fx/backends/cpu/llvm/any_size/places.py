"""Gathers and scatters with an index an element, and classes as rows.

An index counts from the end where it is negative. Of one that is out of range ``bad`` gets the
position, the first of several, and nothing else is done with it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel of a name: a scatter's mode, or what has a method below.

    ``take`` and ``set`` move elements as unsigned integers of their size.
    """
    _Kernel(module, dtype, name)


class _Kernel:
    def __init__(self, module: ir.Module, dtype: Any, name: str) -> None:
        self.kind, self.signed = v.memory_type(dtype), dtype.kind == "i"
        self.real = dtype.kind == "f"
        kinds = [v.pointer, v.i64, v.i64, v.pointer]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        b = self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.table, begin, end, _ = function.args
        special = {
            "take": self._take, "take_one": self._take_one, "class": self._class,
            "pick": self._pick, "lay": self._lay,
        }  # fmt: skip
        task = special[name]() if name in special else self._scatter(name)
        v.loop(b, begin, end, task, name="task")
        b.ret_void()

    def _words(self, letters: str) -> list[Any]:
        b, found = self.b, []
        for i, letter in enumerate(letters):
            kind = v.pointer if letter == "a" else v.i64
            found.append(b.load(v.at(b, self.table, i, v.i64), typ=kind, align=8))
        return found

    def _load(self, base: Any, i: Any, kind: Any = None) -> Any:
        kind = kind or self.kind
        return self.b.load(v.at(self.b, base, i, kind), typ=kind, align=v.size_of(kind))

    def _store(self, x: Any, base: Any, i: Any) -> None:
        self.b.store(x, v.at(self.b, base, i, x.type), align=v.size_of(x.type))

    def _place(self, idx: Any, n: Any, bad: Any, at: Any, body: Any) -> None:
        """``body(i)`` with the index at a place, where that is in range."""
        b = self.b
        i = self._load(idx, at, v.i64)
        i = b.select(b.icmp_signed("<", i, v.const(0)), b.add(i, n), i)
        with b.if_else(b.icmp_unsigned("<", i, n)) as (inside, outside):
            with inside:
                body(i)
            with outside:
                first = self._load(bad, v.const(0), v.i64)
                before = b.icmp_unsigned("<", at, first)  # -1 is the largest
                self._store(b.select(before, at, first), bad, v.const(0))

    def _places(self, idx: Any, n: Any, m: Any, lanes: Any, bad: Any, body: Any) -> Any:
        """The task of a row: ``body(from, to)`` with offsets into (rows, n, lanes), (.., m, ..)."""
        b = self.b

        def task(a: Any) -> None:
            source, target = b.mul(a, b.mul(n, lanes)), b.mul(a, b.mul(m, lanes))

            def element(j: Any, lane: Any) -> None:
                at = b.add(target, b.add(b.mul(j, lanes), lane))
                self._place(idx, n, bad, at, lambda i: body(
                    b.add(source, b.add(b.mul(i, lanes), lane)), at
                ))  # fmt: skip

            v.loop(b, v.const(0), m, lambda j: v.loop(
                b, v.const(0), lanes, lambda lane: element(j, lane), name="lane"
            ), name="place")  # fmt: skip

        return task

    def _take(self) -> Any:
        """``x idx out n m lanes bad``: out[a, j, b] = x[a, idx[a, j, b], b]."""
        x, idx, out, n, m, lanes, bad = self._words("aaaiiia")
        return self._places(
            idx, n, m, lanes, bad, lambda i, at: self._store(self._load(x, i), out, at)
        )

    def _take_one(self) -> Any:
        """``x idx out n bad``: out[a] = x[a, idx[a]]."""
        x, idx, out, n, bad = self._words("aaaia")

        def task(a: Any) -> None:
            row = self.b.mul(a, n)
            put = lambda i: self._store(self._load(x, self.b.add(row, i)), out, a)
            self._place(idx, n, bad, a, put)

        return task

    def _scatter(self, mode: str) -> Any:
        """``out idx updates n m lanes bad``: out[a, idx[a, j, b], b] and an update combined."""
        out, idx, updates, n, m, lanes, bad = self._words("aaaiiia")

        def body(i: Any, at: Any) -> None:
            u = self._load(updates, at)
            self._store(u if mode == "set" else self._joined(mode, self._load(out, i), u), out, i)

        return self._places(idx, n, m, lanes, bad, body)

    def _joined(self, mode: str, x: Any, u: Any) -> Any:
        b = self.b
        if mode in ("add", "mul"):
            return getattr(b, f"f{mode}" if self.real else mode)(x, u)
        return b.select(self._before(u, x, mode == "max"), u, x)

    def _before(self, x: Any, y: Any, larger: bool) -> Any:
        """Whether x > y (or x < y), or x is NaN."""
        b, sign = self.b, ">" if larger else "<"
        if self.real:
            return b.or_(b.fcmp_ordered(sign, x, y), b.fcmp_unordered("uno", x, x))
        return (b.icmp_signed if self.signed else b.icmp_unsigned)(sign, x, y)

    def _class(self) -> Any:
        """``x out n bad``: of each number a row of n zeros with a one at its place."""
        b = self.b
        x, out, n, bad = self._words("aaia")

        def task(a: Any) -> None:
            i = self._load(x, a, v.i64)
            inside = b.icmp_unsigned("<", i, n)
            with b.if_then(b.not_(inside)):
                self._store(a, bad, v.const(0))
            row = b.mul(a, n)
            zero, one = (ir.Constant(self.kind, float(i) if self.real else i) for i in (0, 1))

            def place(j: Any) -> None:
                self._store(b.select(b.icmp_signed("==", i, j), one, zero), out, b.add(row, j))

            v.loop(b, v.const(0), n, place, name="place")

        return task

    def _at_target(self, y: Any, n: Any, lanes: Any, ignored: Any, t: Any) -> tuple[Any, Any, Any]:
        """The class of target t, its place in (rows, n, lanes), and whether it is counted."""
        b = self.b
        k = self._load(y, t, v.i64)
        row = b.udiv(t, lanes)
        at = b.add(b.mul(b.add(b.mul(row, n), k), lanes), b.sub(t, b.mul(row, lanes)))
        return k, at, b.icmp_signed("!=", k, ignored)

    def _pick(self) -> Any:
        """``x y w out count n lanes step ignored bad``: the losses of ``count`` targets, -x * w.

        x (rows, n, lanes) and the factor w[y * step] are those of the class; behind the losses come
        the factors, and both are 0 where the class is ``ignored``.
        """
        b = self.b
        x, y, w, out, count, n, lanes, step, ignored, bad = self._words("aaaaiiiiia")

        def put(t: Any, loss: Any, factor: Any) -> None:
            self._store(loss, out, t)
            self._store(factor, out, b.add(count, t))

        def task(t: Any) -> None:
            k, at, counted = self._at_target(y, n, lanes, ignored, t)
            with b.if_else(counted) as (known, left):
                with known, b.if_else(b.icmp_unsigned("<", k, n)) as (inside, outside):
                    with inside:
                        factor = self._load(w, b.mul(k, step))
                        put(t, b.fmul(b.fneg(self._load(x, at)), factor), factor)
                    with outside:
                        self._store(t, bad, v.const(0))
                with left:
                    put(t, *[ir.Constant(self.kind, 0.0)] * 2)

        return task

    def _lay(self) -> Any:
        """``ct y w out n lanes step each ignored``: -ct[t * each] * w at the class of target t."""
        b = self.b
        ct, y, w, out, n, lanes, step, each, ignored = self._words("aaaaiiiii")

        def task(t: Any) -> None:
            k, at, counted = self._at_target(y, n, lanes, ignored, t)
            with b.if_then(counted):
                g = b.fneg(self._load(ct, b.mul(t, each)))
                self._store(b.fmul(g, self._load(w, b.mul(k, step))), out, at)

        return task
