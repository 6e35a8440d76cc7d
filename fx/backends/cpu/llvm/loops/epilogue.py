"""Epilogues of products as code: what follows a product, for the vectors that are being stored."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from fx.backends.cpu.llvm.ir import Splat, const, constant, llvm_type, load, splat, storage_type
from fx.backends.cpu.llvm.vecmath.casts import rounded, term
from fx.backends.cpu.llvm.vecmath.table import EMIT, load_convert
from fx.compiler.epilogue import Epilogue
from fx.compiler.maps import Form, strides_of


class NestEpilogue(Epilogue):
    """A nest as ``gemm.epilogue`` wants it."""

    def emit(self, b: Any, x: Any, at: Any) -> list[Any]:
        """The vectors to store for the elements ``x`` of the product."""
        dtype = self.product.spec.dtype
        x = rounded(term(b, x, dtype), dtype).v
        values: list[Any] = []
        for i, e in enumerate(self.nest.exprs):
            if e.kind == "const":
                scalar = constant(llvm_type(e.dtype), np.frombuffer(e.data, dtype=e.dtype)[0])
                values.append(Splat(ir.VectorType(scalar.type, at.width), scalar))
            elif e.kind == "load":
                if e.data[0] in self.of_product:
                    values.append(x)
                else:
                    pointer = at.pointers[self.places[e.data[0]]]
                    values.append(self._load(b, pointer, i, e.dtype, at))
            else:
                args = [values[a] for a in e.args]
                dtypes = [self.nest.exprs[a].dtype for a in e.args]
                values.append(EMIT[e.name](b, dtypes, e.dtype, args, dict(e.data)))
        out = []
        for (w, _, _), i in zip(sorted(self.nest.outputs), self.order):
            y = values[i]
            if self.nest.writes[w][0].kind == "b":
                y = b.zext(y, ir.VectorType(ir.IntType(8), at.width))
            out.append(y)
        return [*out, x] if self.kept else out

    def _load(self, b: Any, pointer: Any, i: int, dtype: Any, at: Any) -> Any:
        form = self.forms[i]
        kind = storage_type(dtype)
        if form == _dense(at.shape):
            offset = at.index
        else:
            offset = const(form[0])
            for axis, c in form[1]:
                place = at.axes()[axis]
                offset = b.add(offset, b.mul(place, const(c)) if c != 1 else place)
        address = b.gep(pointer, [offset], source_etype=kind)
        if dict(form[1]).get(at.axis, 0) == 0:
            return splat(b, load_convert(b, b.load(address, typ=kind), dtype), at.width)
        return load_convert(b, load(b, address, kind, at.width, at.mask), dtype)


def _dense(shape: tuple[int, ...]) -> Form:
    return 0, tuple([(i, s) for i, (s, n) in enumerate(zip(strides_of(shape), shape)) if n > 1])
