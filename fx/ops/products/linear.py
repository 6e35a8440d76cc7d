"""Products of vectors, matrices and tensors.

Source: Python Array API standard 2024.12, "Linear algebra functions".
"""

from __future__ import annotations

from math import prod
from typing import Any

from numpy import ndarray

import fx.prims.complex as complex_prims
import fx.prims.elementwise as elementwise
import fx.prims.linear as prims
import fx.prims.shape as shape_prims
from fx import limits
from fx.config import modes
from fx.dtypes import as_dtype, float32, float64
from fx.errors import AxisError, ShapeError
from fx.ops.autocasting import in_half, lowered
from fx.ops.axes import normal_axis, ordered_axes
from fx.ops.operands import argument, cast, operands, public
from fx.ops.shapes.manipulation import reshape, swapaxes
from fx.primitive import bind_two
from fx.prims.fused import along, elements, fuse
from fx.prims.reduction import sum
from fx.quick import quick
from fx.tensor import Tensor


def matmul(
    x: Any, other: Any, *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The matrix product over the last two axes; leading axes broadcast. ``x @ other`` is the same.

    Args:
        x: (*batch, m, k), or (k,).
        other: (*batch, k, n), or (k,).
        precision: accepted for JAX's sake: no product rounds its operands here.
        preferred_element_type: the dtype that the operands are converted to first.

    Returns:
        (*batch, m, n), without the axis of what was a vector.

    Raises:
        ShapeError: if the shapes do not fit.

    Example:
        >>> import fx
        >>> fx.matmul(fx.tensor([[1.0, 2.0], [3.0, 4.0]]), fx.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    if preferred_element_type is not None:
        x, other = _in_dtype("matmul", preferred_element_type, x, other)
    if modes.autocast is not None:
        x, other = lowered(x, other)
    if not (type(x) is type(other) is Tensor and x._a.dtype is other._a.dtype):
        x, other = operands("matmul", x, other)
    if type(x) is type(other) is Tensor:
        a, b = x._a, other._a
        if b.ndim > 1 < a.ndim:
            return _both(x, other)  # type: ignore[no-any-return]
        if a.ndim == 2 and a.shape[1:] == b.shape:
            return prims.mv(x, other)  # type: ignore[no-any-return]
    return _product("matmul", x, other)


_both = bind_two(prims.matmul, prims.matmul)


def _in_dtype(name: str, dtype: Any, *xs: Any) -> list[Tensor]:
    return [cast(argument(name, x), as_dtype(dtype)) for x in xs]


def _product(name: str, x: Tensor, y: Tensor) -> Tensor:
    """The matrix product of operands of one dtype, vectors allowed."""
    a, b = x._shape, y._shape
    if not a or not b:
        raise ShapeError(f"{name}: shapes {a} and {b}: a scalar has no matrix product; write x * y")
    if a[-1] != b[-2 if len(b) > 1 else -1]:
        raise ShapeError(
            f"{name}: shapes {a} and {b} do not fit: the last axis of the first has size {a[-1]}, "
            f"the {'last but one' if len(b) > 1 else 'only'} axis of the second "
            f"{b[-2 if len(b) > 1 else -1]}; perhaps one wants a transpose: x.mT"
        )
    if len(b) == 1 and len(a) == 2:
        return prims.mv(x, y)  # type: ignore[no-any-return]
    if len(a) == 1:
        x = shape_prims.reshaped(x, (1, a[0]))
    if len(b) == 1:
        y = shape_prims.reshaped(y, (b[0], 1))
    out = prims.matmul(x, y)
    if len(a) > 1 and len(b) > 1:
        return out
    *lead, m, n = out._shape
    if len(a) > 1:
        lead.append(m)
    elif len(b) > 1:
        lead.append(n)
    return shape_prims.reshaped(out, tuple(lead))


def _ranked(name: str, x: Any, y: Any, ranks: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Both operands, which must have the given numbers of axes."""
    x, y = operands(name, x, y)
    if (len(x._shape), len(y._shape)) != ranks:
        raise ShapeError(
            f"{name} takes tensors with {ranks[0]} and {ranks[1]} axes, got shapes {x.shape} and "
            f"{y.shape}; fx.matmul takes any"
        )
    return x, y


def mm(x: Any, mat2: Any) -> Tensor:
    """The product of two matrices, (m, k) by (k, n); see ``matmul``.

    Example:
        >>> import fx
        >>> fx.mm(fx.ones((2, 3)), fx.ones((3, 4))).shape
        (2, 4)
    """
    if modes.autocast is not None:
        x, mat2 = lowered(x, mat2)
    if type(x) is type(mat2) is Tensor:  # which fit, mostly
        a, b = x._a.shape, mat2._a.shape
        if len(a) == len(b) == 2 and a[1] == b[0] and x._a.dtype is mat2._a.dtype:
            return _both(x, mat2)  # type: ignore[no-any-return]
    return _product("mm", *_ranked("mm", x, mat2, (2, 2)))


def bmm(x: Any, mat2: Any) -> Tensor:
    """The products of two stacks of matrices, (b, m, k) by (b, k, n); see ``matmul``.

    Example:
        >>> import fx
        >>> fx.bmm(fx.ones((5, 2, 3)), fx.ones((5, 3, 4))).shape
        (5, 2, 4)
    """
    if modes.autocast is not None:
        x, mat2 = lowered(x, mat2)
    if type(x) is type(mat2) is Tensor:  # which fit, mostly
        a, b = x._a.shape, mat2._a.shape
        if len(a) == len(b) == 3 and a[0] == b[0] and a[2] == b[1]:
            return _both(x, mat2)  # type: ignore[no-any-return]
    x, mat2 = _ranked("bmm", x, mat2, (3, 3))
    a, b = x._shape, mat2._shape
    if a[0] != b[0]:
        raise ShapeError(f"bmm: the stacks {x.shape} and {mat2.shape} differ in number")
    return prims.matmul(x, mat2) if a[2] == b[1] else _product("bmm", x, mat2)


def mv(x: Any, vec: Any) -> Tensor:
    """The product of a matrix (m, k) and a vector (k,).

    Example:
        >>> import fx
        >>> fx.mv(fx.ones((2, 3)), fx.ones(3))
        tensor([3., 3.])
    """
    return _product("mv", *_ranked("mv", x, vec, (2, 1)))


def dot(
    x: Any, tensor: Any, *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The sum of products over the last axis of ``x`` and the last but one (or only) of ``tensor``.

    Args:
        x: (*A, k), or a scalar.
        tensor: (k,) or (*B, k, n), or a scalar.
        precision, preferred_element_type: as of ``matmul``.

    Returns:
        (*A,) or (*A, *B, n), as ``numpy.dot``.

    Raises:
        ShapeError: if the shapes do not fit.

    Example:
        >>> import fx
        >>> fx.dot(fx.tensor([1.0, 2.0]), fx.tensor([3.0, 4.0]))
        tensor(11.)
    """
    if preferred_element_type is not None:
        x, tensor = _in_dtype("dot", preferred_element_type, x, tensor)
    if type(x) is type(tensor) is Tensor:  # two vectors, mostly
        a, b = x._a, tensor._a
        if a.ndim == 1 and a.shape == b.shape and a.dtype is b.dtype and a.dtype in _SUMMED:
            return _sum_of_products(x, tensor, (0,), False)  # type: ignore[no-any-return]
    x, tensor = operands("dot", x, tensor)
    shape, other = x._shape, tensor._shape
    if not shape or not other:
        return elementwise.multiply(x, tensor)
    if len(shape) == 1 and shape == other and x._dtype in _SUMMED:
        return _sum_of_products(x, tensor, (0,), False)  # type: ignore[no-any-return]
    if len(other) <= 2:
        return _product("dot", x, tensor)
    return tensordot(x, tensor, ([x.ndim - 1], [tensor.ndim - 2]))


_SUMMED = frozenset((float32, float64))  # narrow ones would round each product
_sum_of_products = quick(
    along(
        "dot", lambda x, y, *, axes, keepdims: sum(x * y, axes=axes, keepdims=keepdims), "xx>r",
        torch_name="Dot",
    ),
    "axes", "keepdims", tensors=2,
)  # fmt: skip


def vdot(
    x: Any, other: Any, *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The sum of the products of all elements, those of ``x`` conjugated; see ``matmul``.

    Example:
        >>> import fx
        >>> fx.vdot(fx.tensor([1.0, 2.0]), fx.tensor([3.0, 4.0]))
        tensor(11.)
    """
    if preferred_element_type is not None:
        x, other = _in_dtype("vdot", preferred_element_type, x, other)
    x, other = operands("vdot", x, other)
    return vecdot(reshape(x, (-1,)), reshape(other, (-1,)))


@in_half
def vecdot(x1: Any, x2: Any, /, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """The sums of products along an axis, the elements of ``x1`` conjugated; the rest broadcasts.

    Args:
        x1, x2: tensors whose shapes broadcast, with the same size along the axis.
        axis: the axis, counted from the end.
        dim: PyTorch's word for ``axis``.

    Raises:
        ShapeError: if the sizes along the axis differ.

    Example:
        >>> import fx
        >>> fx.vecdot(fx.tensor([[1.0, 2.0], [3.0, 4.0]]), fx.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    x, y = operands("vecdot", x1, x2)
    axis = axis if dim is None else dim
    a, b = normal_axis("vecdot", axis, x.shape), normal_axis("vecdot", axis, y.shape)
    if x.shape[a] != y.shape[b]:
        raise ShapeError(
            f"vecdot: {x.shape} and {y.shape} must have the same size along axis {axis}, "
            f"got {x.shape[a]} and {y.shape[b]}"
        )
    if x.dtype.kind == "c":
        x = complex_prims.conj(x)
    x, y = swapaxes(x, a, -1), swapaxes(y, b, -1)
    rows = shape_prims.reshaped(x, (*x.shape[:-1], 1, x.shape[-1]))  # (*A, 1, k)
    columns = shape_prims.reshaped(y, (*y.shape, 1))  # (*B, k, 1)
    out = prims.matmul(rows, columns)
    return shape_prims.reshaped(out, out.shape[:-2])


def inner(
    x: Any, other: Any, *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The sums of products over the last axes: (*A, k) and (*B, k) give (*A, *B); see ``matmul``.

    Example:
        >>> import fx
        >>> fx.inner(fx.tensor([1.0, 2.0]), fx.tensor([3.0, 4.0]))
        tensor(11.)
    """
    if preferred_element_type is not None:
        x, other = _in_dtype("inner", preferred_element_type, x, other)
    x, other = operands("inner", x, other)
    if not x.ndim or not other.ndim:
        return elementwise.multiply(x, other)
    if x.shape[-1] != other.shape[-1]:
        raise ShapeError(
            f"inner: the last axes of {x.shape} and {other.shape} must have the same size"
        )
    return tensordot(x, other, ([-1], [-1]))


def outer(x: Any, vec2: Any) -> Tensor:
    """All products of an element of ``x`` and one of ``vec2``: (m,) and (n,) give (m, n).

    Example:
        >>> import fx
        >>> fx.outer(fx.tensor([1, 2]), fx.tensor([3, 4]))
        tensor([[3, 4],
                [6, 8]])
    """
    x, vec2 = operands("outer", x, vec2)
    if len(x._shape) != 1 or len(vec2._shape) != 1:
        x, vec2 = [shape_prims.reshaped(v, (prod(v._shape),)) for v in (x, vec2)]
    return _outer(x, vec2)  # type: ignore[no-any-return]


def _outer_products(x: Tensor, y: Tensor) -> Tensor:
    column = shape_prims.reshaped(x, (x._shape[0], 1))
    return _products(column, shape_prims.reshaped(y, (1, y._shape[0])))  # type: ignore[no-any-return]


def _outer_array(x: ndarray, y: ndarray) -> ndarray | None:
    if x.size * y.size > limits.OUTER_SHORT:
        return None
    return elementwise.multiply.cpu(x[:, None], y)  # type: ignore[no-any-return]


def _outer_vjp(needs: Any, x: Tensor, y: Tensor) -> Any:
    y_needed = None if needs[0] is None else y
    x_needed = None if needs[1] is None else x

    def pullback(ct: Tensor) -> Any:  # (m, n)
        dx = None if y_needed is None else prims.mv(ct, y_needed)
        return dx, None if x_needed is None else prims.mv(prims.swap_last(ct), x_needed)

    return pullback


_products = quick(elements("outer", lambda x, y: x * y, torch_name="Mul"), tensors=2)
_outer = quick(
    fuse("outer", cpu=_outer_array, reference=_outer_products, vjp=_outer_vjp, torch_name="Mul"),
    tensors=2,
)


@in_half
def tensordot(
    x1: Any, x2: Any, axes: Any = 2, *, dims: Any = None, precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:  # fmt: skip
    """The sums of products over several axes of each operand at once.

    Args:
        x1, x2: tensors.
        axes: how many of the last axes of ``x1`` go with the first of ``x2``, or a pair of
            sequences that name them.
        dims: PyTorch's word for ``axes``.
        precision, preferred_element_type: as of ``matmul``.

    Returns:
        a tensor with the other axes of ``x1``, then those of ``x2``.

    Raises:
        ShapeError: if axes that go together differ in size.

    Example:
        >>> import fx
        >>> fx.tensordot(fx.ones((2, 3, 4)), fx.ones((3, 4, 5)), 2).shape
        (2, 5)
    """
    if preferred_element_type is not None:
        x1, x2 = _in_dtype("tensordot", preferred_element_type, x1, x2)
    x, y = operands("tensordot", x1, x2)
    axes = axes if dims is None else dims
    if isinstance(axes, int):
        if not 0 <= axes <= min(x.ndim, y.ndim):
            raise AxisError(f"tensordot: {axes} axes do not fit shapes {x.shape} and {y.shape}")
        left, right = tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes))
    else:
        if not isinstance(axes, tuple | list) or len(axes) != 2:
            raise AxisError(
                f"tensordot: axes must be an int or a pair of axes for {x.shape} and {y.shape}, "
                f"got {axes!r:.60}; write axes=((-1,), (0,))"
            )
        first, second = axes
        left = ordered_axes("tensordot", first, x.shape)
        right = ordered_axes("tensordot", second, y.shape)
    together = [x.shape[a] for a in left], [y.shape[b] for b in right]
    if together[0] != together[1]:
        raise ShapeError(
            f"tensordot: axes {left} of {x.shape} have sizes {tuple(together[0])}, axes {right} of "
            f"{y.shape} have sizes {tuple(together[1])}; they must be equal"
        )
    rows = tuple([i for i in range(x.ndim) if i not in left])
    columns = tuple([i for i in range(y.ndim) if i not in right])
    k = prod(together[0])
    a, b = [x.shape[i] for i in rows], [y.shape[i] for i in columns]
    table = shape_prims.reshaped(shape_prims.transposed(x, (*rows, *left)), (prod(a), k))
    other = shape_prims.reshaped(shape_prims.transposed(y, (*right, *columns)), (k, prod(b)))
    return shape_prims.reshaped(prims.matmul(table, other), (*a, *b))


def kron(x: Any, other: Any) -> Tensor:
    """The Kronecker product: ``x`` with each element replaced by its product with all of ``other``.

    Example:
        >>> import fx
        >>> fx.kron(fx.tensor([1, 10]), fx.tensor([1, 2]))
        tensor([ 1,  2, 10, 20])
    """
    x, other = operands("kron", x, other)
    rank = max(x.ndim, other.ndim)
    a, b = [(1,) * (rank - len(s)) + s for s in (x.shape, other.shape)]
    wide = [n for m in a for n in (m, 1)]
    dense = [n for m in b for n in (1, m)]
    out = shape_prims.reshaped(x, tuple(wide)) * shape_prims.reshaped(other, tuple(dense))
    return shape_prims.reshaped(out, tuple([m * n for m, n in zip(a, b, strict=True)]))


__all__ = public(globals())
