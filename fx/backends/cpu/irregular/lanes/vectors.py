"""Vectors of real numbers, as long as the CPU has them, as values, for kernels under Numba.

They are added, subtracted, multiplied and divided by operators, compared to give masks, and
chosen from by these. A product and a sum may be one instruction.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from fx.backends.cpu.llvm.machines import lane_bytes

BITS = 8 * lane_bytes()
MANY_REGISTERS = BITS == 512  # 32 of them, else 16


class Vector(types.Type):
    """As many numbers of a dtype as ``BITS`` are."""

    def __init__(self, dtype):  # type: ignore[no-untyped-def]
        self.dtype, self.count = dtype, BITS // dtype.bitwidth
        super().__init__(name=f"vector({dtype})")


class Mask(types.Type):
    """A bit for each lane."""

    def __init__(self, count):  # type: ignore[no-untyped-def]
        self.count = count
        super().__init__(name=f"mask({count})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        element = manager.lookup(kind.dtype).get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, kind.count))


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, ir.VectorType(ir.IntType(1), kind.count))


_CONTRACT = ("contract",)  # a product and a sum may be one instruction


# memory ------------------------------------------------------------------------------------------


def _place(context, builder, pointer, kind):  # type: ignore[no-untyped-def]
    return builder.bitcast(pointer, context.get_value_type(kind).as_pointer())


def _read(context, builder, pointer, kind):  # type: ignore[no-untyped-def]
    found = builder.load(_place(context, builder, pointer, kind))
    found.align = kind.dtype.bitwidth // 8
    return found


def _write(context, builder, pointer, vector, kind):  # type: ignore[no-untyped-def]
    place = _place(context, builder, pointer, kind)
    builder.store(vector, place).align = kind.dtype.bitwidth // 8


@intrinsic
def read(_context, pointer):  # type: ignore[no-untyped-def]
    """The vector from a place on."""
    kind = Vector(pointer.dtype)

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _read(context, builder, args[0], kind)

    return kind(pointer), emit


@intrinsic
def write(_context, pointer, vector):  # type: ignore[no-untyped-def]
    """Put a vector there."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        _write(context, builder, args[0], args[1], vector)
        return context.get_dummy_value()

    return types.void(pointer, vector), emit


@intrinsic
def turned(_context, source, step, target, other):  # type: ignore[no-untyped-def]
    """A square of as many vectors as one has lanes, ``step`` elements apart, transposed.

    It is put where they are ``other`` elements apart.
    """
    kind = Vector(source.dtype)

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        def at(pointer, step, i):  # type: ignore[no-untyped-def]
            far = builder.mul(step, ir.Constant(ir.IntType(64), i))
            element = context.get_value_type(kind.dtype)
            return builder.gep(pointer, [far], source_etype=element)

        n = kind.count
        rows = [_read(context, builder, at(args[0], args[1], i), kind) for i in range(n)]
        half = n // 2
        while half:  # exchange the off-diagonal squares of this size
            for i in range(n):
                if not i & half:
                    x, y = rows[i], rows[i + half]
                    low = [n + k - half if k & half else k for k in range(n)]
                    high = [n + k if k & half else k + half for k in range(n)]
                    masks = [ir.Constant(ir.VectorType(ir.IntType(32), n), m) for m in (low, high)]
                    rows[i], rows[i + half] = (builder.shuffle_vector(x, y, m) for m in masks)
            half //= 2
        for i, row in enumerate(rows):
            _write(context, builder, at(args[2], args[3], i), row, kind)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), emit


@intrinsic
def spread(_context, pointer, number):  # type: ignore[no-untyped-def]
    """A number, as an element of what a pointer points to, in all lanes."""
    kind = Vector(pointer.dtype)

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        one = context.cast(builder, args[1], signature.args[1], kind.dtype)
        vector = ir.Constant(context.get_value_type(kind), ir.Undefined)
        for i in range(kind.count):
            vector = builder.insert_element(vector, one, ir.Constant(ir.IntType(32), i))
        return vector

    return kind(pointer, number), emit


# numbers -----------------------------------------------------------------------------------------


def _of_two(name):  # type: ignore[no-untyped-def]
    @intrinsic
    def function(_context, x, y):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return getattr(builder, name)(args[0], args[1], flags=_CONTRACT)

        return x(x, y), emit

    return function


def _compared(sign, ordered=True):  # type: ignore[no-untyped-def]
    @intrinsic
    def function(_context, x, y):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
            compare = builder.fcmp_ordered if ordered else builder.fcmp_unordered
            return compare(sign, args[0], args[1])

        return Mask(x.count)(x, y), emit

    return function


def _of_masks(name):  # type: ignore[no-untyped-def]
    @intrinsic
    def function(_context, x, y):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return getattr(builder, name)(args[0], args[1])

        return x(x, y), emit

    return function


def _operator(operation, kind, function):  # type: ignore[no-untyped-def]
    @overload(operation)
    def overloaded(x, y):  # type: ignore[no-untyped-def]
        if isinstance(x, kind) and x == y:
            return lambda x, y: function(x, y)
        return None


for _operation, _name in {
    operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv",
}.items():  # fmt: skip
    _operator(_operation, Vector, _of_two(_name))
for _operation, _sign in {
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==",
}.items():  # fmt: skip
    _operator(_operation, Vector, _compared(_sign))
_operator(operator.ne, Vector, _compared("!=", ordered=False))
for _operation, _name in {operator.and_: "and_", operator.or_: "or_"}.items():
    _operator(_operation, Mask, _of_masks(_name))


@intrinsic
def pick(_context, mask, x, y):  # type: ignore[no-untyped-def]
    """x where the mask says so, else y."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.select(*args)

    return x(mask, x, y), emit


@intrinsic
def any_of(_context, mask):  # type: ignore[no-untyped-def]
    """Whether there is a lane of which the mask says so."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        bits = ir.IntType(mask.count)
        return builder.icmp_unsigned("!=", builder.bitcast(args[0], bits), ir.Constant(bits, 0))

    return types.boolean(mask), emit


@intrinsic
def total_of(_context, x):  # type: ignore[no-untyped-def]
    """The sum of the lanes, halves with halves."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        (vector,), half = args, x.count // 2
        while half:
            kind = ir.VectorType(ir.IntType(32), half)
            low, high = (
                builder.shuffle_vector(vector, vector, ir.Constant(kind, [*range(k, k + half)]))
                for k in (0, half)
            )
            vector, half = builder.fadd(low, high), half // 2
        return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))

    return x.dtype(x), emit


def _called(name, count):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        kind, x = args[0].type, signature.args[0]
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(kind, [kind] * count),
            f"llvm.{name}.v{x.count}f{x.dtype.bitwidth}",
        )
        return builder.call(function, args)

    return emit


@intrinsic
def root(_context, x):  # type: ignore[no-untyped-def]
    """The square root."""
    return x(x), _called("sqrt", 1)


@intrinsic
def size_of(_context, x):  # type: ignore[no-untyped-def]
    """The absolute value."""
    return x(x), _called("fabs", 1)


@intrinsic
def power_below(_context, x):  # type: ignore[no-untyped-def]
    """The largest power of 2 that is not above x > 0: its exponent's bits."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        wide = x.dtype.bitwidth
        kind = ir.VectorType(ir.IntType(wide), x.count)
        mask = 0x7F800000 if wide == 32 else 0x7FF0000000000000
        bits = builder.and_(builder.bitcast(args[0], kind), ir.Constant(kind, [mask] * x.count))
        return builder.bitcast(bits, args[0].type)

    return x(x), emit


@intrinsic
def with_sign(_context, x, y):  # type: ignore[no-untyped-def]
    """x with the sign of y."""
    return x(x, y), _called("copysign", 2)


@intrinsic
def larger(_context, x, y):  # type: ignore[no-untyped-def]
    """The larger one, and the other one of a NaN."""
    return x(x, y), _called("maxnum", 2)
