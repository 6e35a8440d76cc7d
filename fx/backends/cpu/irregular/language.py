"""What kernels under Numba are written in: kinds of arguments, and functions of raw pointers.

Numba is told nothing that needs its runtime: no arrays, no exceptions, no objects. A pointer is
indexed as an array is, from 0 on, and knows no end.
"""

import inspect
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import _dynfunc, njit, types
from numba.core import cgutils, codegen, compiler, compiler_lock, extending
from numba.core.compiler import Flags
from numba.core.cpu_options import FastMathOptions
from numba.core.registry import cpu_target

ARRAY = "elements of the kernel's dtype"
PARTS = "real numbers of the width of their parts"
INT64S, INT32S, UINT32S, FLOAT64S = (
    types.CPointer(kind) for kind in (types.int64, types.int32, types.uint32, types.float64)
)
INT, FLOAT = types.int64, types.float64

_OPTIONS = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inline = njit(**_OPTIONS)  # a function that kernels call
expanded = njit(**_OPTIONS, inline="always")  # and one that LLVM finds too large to inline

_ELEMENTS = {
    "b": types.int8, "h": types.int16, "i": types.int32, "l": types.int64,
    "B": types.uint8, "H": types.uint16, "I": types.uint32, "L": types.uint64,
    "q": types.int64, "Q": types.uint64,
    "f": types.float32, "d": types.float64, "F": types.complex64, "D": types.complex128,
}  # fmt: skip
_PARTS = {"F": "f", "D": "d"}


@extending.intrinsic
def offset(_context, pointer, count):  # type: ignore[no-untyped-def]
    """The pointer ``count`` elements further."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        kind = context.get_value_type(signature.args[0].dtype)
        return builder.gep(args[0], [args[1]], source_etype=kind)

    return pointer(pointer, types.int64), emit


@extending.intrinsic
def width_of(_context, pointer):  # type: ignore[no-untyped-def]
    """The bits of an element, a constant."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return ir.Constant(ir.IntType(64), pointer.dtype.bitwidth)

    return types.int64(pointer), emit


@extending.intrinsic
def as_int32s(_context, pointer):  # type: ignore[no-untyped-def]
    """The same memory as int32s."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], context.get_value_type(INT32S))

    return INT32S(pointer), emit


@extending.intrinsic
def like(_context, pointer, number):  # type: ignore[no-untyped-def]
    """A number as an element of what a pointer points to."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return context.cast(builder, args[1], signature.args[1], signature.return_type)

    return pointer.dtype(pointer, number), emit


@extending.intrinsic
def call(_context, address, arguments):  # type: ignore[no-untyped-def]
    """Call a void function at an address as Fortran does: with pointers, to numbers as well.

    ``arguments`` is a tuple of pointers, of int64 (an INTEGER, or the code of a CHARACTER) and of
    elements.
    """
    kinds = list(arguments)

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        given = []
        for i, kind in enumerate(kinds):
            value = builder.extract_value(args[1], i)
            if not isinstance(kind, types.CPointer):
                if isinstance(kind, types.Integer):
                    value = builder.trunc(value, ir.IntType(32))
                place = cgutils.alloca_once(builder, value.type)
                builder.store(value, place)
                value = place
            given.append(value)
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in given])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), emit


@extending.intrinsic
def exchange(_context, pointer, value):  # type: ignore[no-untyped-def]
    """Put an int64 in a place that several threads look at; what was there."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.atomic_rmw("xchg", args[0], args[1], "seq_cst")

    return types.int64(pointer, types.int64), emit


@extending.intrinsic
def count_of(_context, address):  # type: ignore[no-untyped-def]
    """What a function at an address, of no argument, gives: a C int."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(ir.IntType(32), [])
        found = builder.call(builder.inttoptr(args[0], kind.as_pointer()), [])
        return builder.sext(found, ir.IntType(64))

    return types.int64(types.int64), emit


@extending.intrinsic
def set_count(_context, address, count):  # type: ignore[no-untyped-def]
    """Call a void function of a C int at an address."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)])
        count = builder.trunc(args[1], ir.IntType(32))
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [count])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), emit


def text_of(
    function: Callable[..., Any], char: str, name: str, loose: Set[str] = frozenset()
) -> str:
    """The IR of a kernel: ``void name(ptr words, i64 begin, i64 end, ptr scratch)``.

    Args:
        function: takes the first and the last of its tasks, and then what its annotations say. The
            words are those arguments, 8 bytes each: an address, a number, or the address of a
            FLOAT.
        char: NumPy's letter of its elements.
        name: what the kernel is called.
        loose: what LLVM may do to floats, its fast-math flags.
    """
    kinds = list(inspect.signature(function).parameters.values())[2:]
    own = {
        ARRAY: types.CPointer(_ELEMENTS[char]),
        PARTS: types.CPointer(_ELEMENTS[_PARTS.get(char, char)]),
    }
    given = [own.get(p.annotation, p.annotation) for p in kinds]
    flags = Flags()
    flags.nrt = flags.enable_pyobject = flags.enable_looplift = flags.boundscheck = False
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    flags.error_model = "numpy"
    flags.fastmath = FastMathOptions(set(loose))
    with _only_text():
        made = compiler.compile_extra(
            cpu_target.typing_context, cpu_target.target_context, function,
            (types.int64, types.int64, *given), types.void, flags, {},
        )  # fmt: skip
        made.library.__class__ = _KernelLibrary
        made.library.finalize()
    return made.library.get_llvm_str() + _wrapper(made.fndesc.llvm_func_name, given, name)


class _KernelLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """What is read as text: it gets no machine code."""

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _HelperLibrary(_KernelLibrary):
    """What kernels inline: it is optimised in each of them."""

    def _optimize_final_module(self) -> None:
        pass


@contextmanager
def _only_text() -> Iterator[None]:
    """Numba makes no more of the functions of this package than a kernel's text needs.

    Each of them would be optimised for itself, and get machine code that nobody calls: a third of
    the time. Functions that are others' too (Numba's own) are compiled as ever.
    """
    context, package = cpu_target.target_context, __name__.rpartition(".")[0] + "."
    usual = context.get_executable

    def executable(library, described, env):  # type: ignore[no-untyped-def]
        if not described.modname.startswith(package):
            return usual(library, described, env)
        library.__class__ = _HelperLibrary
        library.finalize()
        module, name = described.lookup_module(), described.qualname
        return _dynfunc.make_function(module, name, "", 0, env, (library,))  # is never called

    with compiler_lock.global_compiler_lock:
        context.get_executable = executable
        try:
            yield
        finally:
            del context.get_executable


def _wrapper(inner: str, kinds: list[Any], name: str) -> str:
    """The kernel around what Numba makes of its function."""
    lines, args = [], []
    for i, kind in enumerate(kinds):
        read = "i64" if kind is INT else "ptr"
        lines += [
            f"%at{i} = getelementptr i64, ptr %words, i64 {i}",
            f"%x{i} = load {read}, ptr %at{i}",
        ]
        if kind is FLOAT:
            lines.append(f"%f{i} = load double, ptr %x{i}")
        args.append(f"double %f{i}" if kind is FLOAT else f"{read} %x{i}")
    call = ", ".join(["ptr %none", "ptr %none", "i64 %begin, i64 %end", *args])
    body = "\n  ".join(["%none = alloca [2 x ptr]", *lines, f"call i32 @{inner}({call})"])
    return (
        f"\ndefine void @{name}(ptr %words, i64 %begin, i64 %end, ptr %scratch) {{\n"
        f"  {body}\n  ret void\n}}\n"
    )
