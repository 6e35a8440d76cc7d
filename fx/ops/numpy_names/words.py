"""NumPy's names of what answers questions, writes text, and of its windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fx import dtypes
from fx.config import default_dtype
from fx.errors import ArgumentError
from fx.ops.axes import integer
from fx.ops.convert import as_tensor
from fx.ops.making.creation import ones
from fx.ops.making.ranges import arange
from fx.ops.operands import argument
from fx.ops.pointwise.composed import clip
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import copysign, nextafter, sqrt
from fx.ops.products.linear import matmul
from fx.ops.shapes.broadcasting import broadcast_shapes
from fx.prims.compare import stop_gradient
from fx.tensor import Tensor


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two tensors broadcast and have equal elements then: a bool tensor ().

    Example:
        >>> import fx
        >>> bool(fx.array_equiv(fx.tensor([1, 2]), fx.tensor([[1, 2], [1, 2]])))
        True
    """
    x, y = argument("array_equiv", a1), argument("array_equiv", a2)
    try:
        broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return as_tensor(False)
    return (x == y).all()


def array_repr(
    arr: Any, max_line_width: int | None = None, precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:  # fmt: skip
    """How a tensor is printed, as text; options in place of those of ``fx.set_printoptions``.

    Example:
        >>> import fx
        >>> fx.array_repr(fx.tensor([0.125]), precision=2)
        'tensor([0.12])'
    """
    from fx.ops.methods.printing import get_printoptions, set_printoptions

    x, before = argument("array_repr", arr), get_printoptions()
    sci = None if suppress_small is None else not suppress_small
    given = {"linewidth": max_line_width, "precision": precision, "sci_mode": sci}
    try:
        set_printoptions(**{k: v for k, v in given.items() if v is not None})
        return repr(x)
    finally:
        set_printoptions(**before)


def array_str(
    a: Any, max_line_width: int | None = None, precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:  # fmt: skip
    """The elements alone as text, as NumPy writes them.

    Example:
        >>> import fx
        >>> fx.array_str(fx.tensor([1, 2]))
        '[1 2]'
    """
    x = argument("array_str", a).detach().numpy()
    return np.array_str(x, max_line_width, precision, suppress_small)


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "greedy") -> tuple[Any, str]:
    """In which order ``einsum`` had best multiply: pairs of operands, and a table of the cost.

    Args:
        subscripts, operands: those of ``einsum``; only shapes are looked at.
        optimize: those of ``numpy.einsum_path``; ``"auto"`` is ``"greedy"``.

    Source: ``numpy.einsum_path``.

    Example:
        >>> import fx
        >>> x = fx.ones((2, 3))
        >>> fx.einsum_path("ij,jk,kl->il", x, x.mT, x)[0]
        ['einsum_path', (0, 1), (0, 1)]
    """
    shapes = lambda x: np.broadcast_to(np.zeros(()), x.shape) if isinstance(x, Tensor) else x
    given = [shapes(subscripts), *map(shapes, operands)]
    path, text = np.einsum_path(*given, optimize="greedy" if optimize == "auto" else optimize)
    return list(path), text


def frompyfunc(
    func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None
) -> Callable[..., Any]:
    """A function of numbers as one of tensors, which broadcast: ``fx.vectorize``.

    Args:
        func: takes and returns tensors ().
        nin, nout: how many it takes and returns.
        identity: None, for the result has no reductions.

    Raises:
        ArgumentError: if it is called with, or returns, another number; if there is an identity.

    Example:
        >>> import fx
        >>> f = fx.frompyfunc(lambda x, y: fx.maximum(x, y) * 2, 2, 1)
        >>> f(fx.tensor([1, 5]), 3)
        tensor([ 6, 10])
    """
    from fx.ops.numpy_names.applying import vectorize

    if identity is not None:
        raise ArgumentError("frompyfunc: the result has no reductions; leave identity out")

    def scalar(*numbers: Any) -> Any:
        found = func(*numbers)
        count = len(found) if isinstance(found, tuple) else 1
        if count != nout:
            raise ArgumentError(f"frompyfunc: nout={nout}, but {count} came back")
        return found

    every = vectorize(scalar)

    def called(*tensors: Any) -> Any:
        if len(tensors) != nin:
            raise ArgumentError(f"frompyfunc: nin={nin}, got {len(tensors)}")
        return every(*[argument("frompyfunc", x) for x in tensors])

    return called


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is another, or of a kind of NumPy's, such as ``numpy.floating``.

    Args:
        arg1: a dtype, or a kind.
        arg2: a dtype, or a kind.

    Example:
        >>> import fx, numpy
        >>> fx.issubdtype(fx.bfloat16, numpy.floating), fx.issubdtype(fx.int32, fx.int64)
        (True, False)
    """

    def seen(dtype: Any) -> Any:  # NumPy knows bfloat16 as a mere row of bytes
        if isinstance(dtype, type) and issubclass(dtype, np.generic):
            return dtype
        return dtypes.as_dtype(dtype)

    a, b = seen(arg1), seen(arg2)
    if isinstance(a, np.dtype) and a == dtypes.bfloat16 and not isinstance(b, np.dtype):
        return a.type is b or (issubclass(np.float16, b) and b is not np.float16)
    return bool(np.issubdtype(a, b))


def iterable(y: Any) -> bool:
    """Whether ``iter(y)`` works; a tensor () has nothing to iterate over.

    Example:
        >>> import fx
        >>> fx.iterable([1]), fx.iterable(fx.tensor(1.0))
        (True, False)
    """
    if isinstance(y, Tensor):
        return y.ndim > 0
    try:
        iter(y)
    except TypeError:
        return False
    return True


def promote_types(a: Any, b: Any) -> Any:
    """The dtype in which two dtypes meet.

    Raises:
        DTypeError: if there is none.

    Example:
        >>> import fx
        >>> fx.promote_types(fx.int32, fx.float32).name
        'float32'
    """
    return dtypes.promote_types(dtypes.as_dtype(a), dtypes.as_dtype(b))


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Write tensors to an ``.npz`` file, those without a name as arr_0, arr_1 ...

    Raises:
        ArgumentError: if a name is such a one.

    Source: ``numpy.savez``; ``fx.load`` reads it.

    Example:
        >>> import fx, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fx.savez(folder + "/x.npz", fx.ones(2), y=fx.zeros(1))
        ...     sorted(fx.load(folder + "/x.npz"))
        ['arr_0', 'y']
    """
    named = {f"arr_{k}": x for k, x in enumerate(args)}
    if named.keys() & kwds.keys():
        raise ArgumentError(
            f"savez: {', '.join(named.keys() & kwds.keys())} stands for two tensors"
        )
    arrays = {k: argument("savez", x).detach().numpy() for k, x in (named | kwds).items()}
    np.savez(file, **arrays)


def spacing(x: Any, /) -> Tensor:
    """The distance to the next number away from 0, with the sign of x; NaN of infinities.

    Example:
        >>> import fx
        >>> fx.spacing(fx.tensor(1.0)) == fx.finfo(fx.float32).eps
        tensor(True)
    """
    x = argument("spacing", x)
    x = x if x.dtype in dtypes.FLOATING else x.astype(default_dtype())
    x = stop_gradient(x)  # it is constant between powers of 2
    size = absolute(x)
    return copysign(nextafter(size, copysign(x * 0 + float("inf"), size)) - size, x)


def matvec(x1: Any, x2: Any, /) -> Tensor:
    """Matrices (*B, m, n) times vectors (*B, n): (*B, m).

    Example:
        >>> import fx
        >>> fx.matvec(fx.ones((2, 3)), fx.arange(3.0))
        tensor([3., 3.])
    """
    return matmul(argument("matvec", x1), argument("matvec", x2)[..., None])[..., 0]  # type: ignore[no-any-return]


def vecmat(x1: Any, x2: Any, /) -> Tensor:
    """Vectors (*B, m), conjugated, times matrices (*B, m, n): (*B, n).

    Example:
        >>> import fx
        >>> fx.vecmat(fx.arange(2.0), fx.ones((2, 3)))
        tensor([1., 1., 1.])
    """
    return matmul(argument("vecmat", x1).conj()[..., None, :], argument("vecmat", x2))[..., 0, :]  # type: ignore[no-any-return]


def _symmetric(name: str, ours: str, says: str) -> Callable[[int], Tensor]:
    def window(M: int) -> Tensor:
        from fx.signal import windows

        return getattr(windows, ours)(M)  # type: ignore[no-any-return]

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"""{says}, of M points: ``fx.signal.windows.{ours}``.

    Example:
        >>> import fx
        >>> fx.{name}(5).shape
        (5,)
    """
    return window


bartlett = _symmetric("bartlett", "bartlett", "A triangle whose ends are 0")
blackman = _symmetric("blackman", "blackman", "A window of three terms, flat at its ends")
hamming = _symmetric("hamming", "hamming", "A wave that keeps 0.08 at its ends")
hanning = _symmetric("hanning", "hann", "A wave from 0 to 1 and back")


def kaiser(M: int, beta: Any) -> Tensor:
    """Kaiser's window of M points; ``beta``, a number or a tensor (), says how narrow it is.

    Source: ``numpy.kaiser``; differentiable in ``beta``, unlike ``fx.signal.windows.kaiser``.

    Example:
        >>> import fx
        >>> fx.kaiser(3, 0.0)
        tensor([1., 1., 1.])
    """
    from fx.special import i0e

    M, b = integer("kaiser", "M", M), argument("kaiser", beta)
    b = b if b.dtype in dtypes.FLOATING else b.astype(default_dtype())
    if M < 2:
        return ones(max(M, 0), dtype=b.dtype, device=b.device)
    x = arange(M, dtype=b.dtype, device=b.device) * (2.0 / (M - 1)) - 1.0
    bow = sqrt(clip(1.0 - x * x, 0.0, None))
    b = absolute(b)
    shrunk = ((bow - 1.0) * b).exp()  # i0 itself overflows for a large beta
    return i0e(bow * b) / i0e(b) * shrunk  # type: ignore[no-any-return]
