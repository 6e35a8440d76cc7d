"""The dialect in which native code is written: a small layer over llvmlite.

Everything is a function of an ``ir.IRBuilder``. ``types`` says how dtypes lie in registers and in
memory, ``values`` has integers and addresses, ``vectors`` and ``masks`` what is done to lanes,
``loops`` the one loop, ``functions`` what a kernel begins with, and ``machines`` the one that
is written for. An emitter imports it as ``v``:

    from fx.backends.cpu.llvm import ir as v

    def body(i, total):                                  # total += x[i : i + lanes]
        return [b.fadd(total, v.load(b, v.at(b, x, i, v.f32), v.f32, lanes))]

    (total,) = v.loop(b, 0, n, body, [v.zeros(v.f32, lanes)], step=lanes)
"""

from fx.backends.cpu.llvm.ir.functions import Frame, internal, kernel, table
from fx.backends.cpu.llvm.ir.halves import narrow, to_half, widen
from fx.backends.cpu.llvm.ir.loops import Turns, in_vectors, loop, part, turns
from fx.backends.cpu.llvm.ir.masks import (
    both,
    first_lanes,
    gather,
    load,
    load_first,
    load_item,
    prefetch,
    scatter,
    store,
    store_item,
)
from fx.backends.cpu.llvm.ir.parts import (
    gather_part,
    load_parts,
    scatter_parts,
    store_number,
    store_parts,
)
from fx.backends.cpu.llvm.ir.sizes import loaded, size
from fx.backends.cpu.llvm.ir.types import (
    FLAGS,
    NARROW,
    Splat,
    bit_width,
    compute_type,
    constant,
    declared,
    element_of,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    intrinsic,
    lanes_for,
    lanes_of,
    like,
    llvm_type,
    memory_type,
    number_of,
    numbers,
    pointer,
    size_of,
    storage_type,
    suffix,
    void,
    widened,
    zeros,
)
from fx.backends.cpu.llvm.ir.values import (
    Index,
    add,
    at,
    clear,
    const,
    copy,
    known,
    larger,
    room,
    smaller,
    split,
    sub,
    times,
)
from fx.backends.cpu.llvm.ir.vectors import (
    backwards,
    multiply_add,
    shuffle,
    splat,
    sums_of_lanes,
    transpose,
)
from fx.backends.cpu.llvm.machines import Machine, emitting_for, host, target
