"""Vectors of 64 bytes of real numbers as values, for kernels under Numba."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

_BITS = 512


class Vector(types.Type):
    """As many numbers of a dtype as 64 bytes hold."""

    def __init__(self, dtype):  # type: ignore[no-untyped-def]
        self.dtype, self.count = dtype, _BITS // dtype.bitwidth
        super().__init__(name=f"vector({dtype})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        element = manager.lookup(kind.dtype).get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, kind.count))


_CONTRACT = ("contract",)  # a product and a sum may be one instruction


def _place(context, builder, pointer, kind):  # type: ignore[no-untyped-def]
    return builder.bitcast(pointer, context.get_value_type(kind).as_pointer())


@intrinsic
def read(_context, pointer):  # type: ignore[no-untyped-def]
    """The vector from a place on."""
    kind = Vector(pointer.dtype)

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        found = builder.load(_place(context, builder, args[0], kind))
        found.align = kind.dtype.bitwidth // 8
        return found

    return kind(pointer), emit


@intrinsic
def write(_context, pointer, vector):  # type: ignore[no-untyped-def]
    """Put a vector there."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        place = _place(context, builder, args[0], vector)
        builder.store(args[1], place).align = vector.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(pointer, vector), emit


@intrinsic
def minus_product(_context, x, a, b):  # type: ignore[no-untyped-def]
    """x - a b."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        product = builder.fmul(args[1], args[2], flags=_CONTRACT)
        return builder.fsub(args[0], product, flags=_CONTRACT)

    return x(x, a, b), emit


@intrinsic
def times(_context, x, y):  # type: ignore[no-untyped-def]
    """x y."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.fmul(args[0], args[1])

    return x(x, y), emit


@intrinsic
def quotient(_context, number, x):  # type: ignore[no-untyped-def]
    """A number divided by each of x."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        vector = ir.Constant(args[1].type, ir.Undefined)
        for i in range(x.count):
            vector = builder.insert_element(vector, args[0], ir.Constant(ir.IntType(32), i))
        return builder.fdiv(vector, args[1])

    return x(number, x), emit


@intrinsic
def root(_context, x):  # type: ignore[no-untyped-def]
    """The square root."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        kind = args[0].type
        name = f"llvm.sqrt.v{x.count}f{x.dtype.bitwidth}"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind]), name
        )
        return builder.call(function, [args[0]])

    return x(x), emit
