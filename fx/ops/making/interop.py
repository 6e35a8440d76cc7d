"""Between fx and everybody else: ``fx.tensor``, NumPy, pickle and copy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import fx.prims.compare as compare
from fx import dtypes
from fx.config import writing
from fx.devices import backend
from fx.errors import BackwardError, DTypeError
from fx.levels import Tracer, check_live
from fx.ops.convert import as_tensor, from_array, to_device
from fx.spec import TensorSpec
from fx.tape import CELL, Leaf
from fx.tensor import Tensor, new_tensor

# in ---------------------------------------------------------------------------------------------


def tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Make a tensor of ``data``: a copy, with no history.

    Args:
        data: a number, a nested list, an array of any library, or a tensor. Python floats take the
            default dtype and Python ints int64; an array keeps its dtype.
        dtype: the dtype of the result.
        device: where it lives; the default device (for a tensor: its own) unless told.
        requires_grad: whether ``.backward()`` accumulates a gradient for it.

    Raises:
        ShapeError: for a ragged list.
        DTypeError: for what holds no numbers, or ``requires_grad`` with a dtype that is not
            floating.

    Example:
        >>> import fx
        >>> fx.tensor([[1, 2.5], [3, 4]])
        tensor([[1.0000, 2.5000],
                [3.0000, 4.0000]])
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Tensor):
        if data.level > 0 or data._node is not None:
            data = _warned_detach(data)
        out = as_tensor(data, wanted)
        if device is not None:
            out = to_device(out, device)
        if type(out) is Tensor:
            out = new_tensor(out._a.copy() if isinstance(out._a, np.ndarray) else out._a)
    else:
        out = as_tensor(data, wanted, device, "tensor")
        if type(out) is not Tensor or out._node is not None:
            out = _warned_detach(out)
        if isinstance(data, (list, tuple)):
            pass  # it was read into memory of its own
        elif isinstance(out._a, np.ndarray) and (
            writing.enabled or not isinstance(data, (int, float, complex))
        ):
            out = new_tensor(out._a.copy())
        else:
            out = new_tensor(out._a)  # a 0-d constant is shared, and must not get a leaf
    return with_grad(out, "tensor") if requires_grad else out


def _warned_detach(x: Tensor) -> Tensor:
    """``x`` without history, with a warning where a gradient is lost."""
    if _has_history(x):
        warnings.warn(
            "fx.tensor copies and detaches, so no gradient flows through it: write fx.asarray(x) "
            "to keep the gradient, or x.detach() to say that none is wanted",
            stacklevel=3,
        )
    return compare.stop_gradient(x)


def _has_history(x: Any) -> bool:
    """Whether a derivative passes through ``x`` on any tape or in any transform."""
    while isinstance(x, Tracer):
        below = getattr(x, "value", None)
        if below is None or x._node is not None or hasattr(x, "tangent"):
            return True
        x = below
    return x._node is not None


def with_grad(x: Tensor, what: str) -> Tensor:
    """Let a new tensor require grad.

    Raises:
        DTypeError: if it is neither floating nor complex.
    """
    if x._dtype not in dtypes.INEXACT:
        raise DTypeError(
            f"{what}: only floating and complex tensors can require grad, got {x.dtype.name}; "
            f"write dtype=fx.float32"
        )
    return x.requires_grad_()  # type: ignore[no-any-return]


def asarray(obj: Any, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Convert ``obj`` to a tensor, without a copy where that is possible.

    A tensor stays itself, with its history. The tensor of a NumPy array shares its memory: do not
    change the array afterwards.

    Args:
        obj: a tensor, an array, a number, or a nested sequence of these.
        dtype: the dtype to cast to.
        device: where the result lives.
        copy: True copies always, False refuses to copy, None copies where it must.

    Raises:
        ValueError: if ``copy=False`` and a copy is needed.

    Source: Python Array API standard 2024.12, ``asarray``.

    Example:
        >>> import fx
        >>> x = fx.asarray([1, 2, 3])
        >>> fx.asarray(x) is x
        True
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    out = as_tensor(obj, wanted, device, "asarray")
    if device is not None:
        out = to_device(out, device)
    if copy is False and not _shares(obj, out):
        raise ValueError(
            f"asarray: {type(obj).__name__} cannot become a {out.dtype.name} tensor on "
            f"{out.device} without a copy; leave copy=None"
        )
    if writing.enabled and isinstance(obj, int | float | complex) and type(out) is Tensor:
        return new_tensor(out._a.copy()) if isinstance(out._a, np.ndarray) else out
    if copy and isinstance(obj, Tensor) and out is obj:
        return clone(obj)
    if copy and type(out) is Tensor and isinstance(out._a, np.ndarray) and _shares(obj, out):
        return new_tensor(out._a.copy())
    return out


def _shares(obj: Any, out: Tensor) -> bool:
    if isinstance(obj, Tensor):
        return out is obj
    if isinstance(obj, (bool, int, float, complex, list, tuple)):
        return False
    if not isinstance(out._a, np.ndarray):
        return False
    try:
        return np.shares_memory(np.asarray(obj), out._a)
    except TypeError:  # bfloat16 of a library whose arrays NumPy cannot read
        return True


def from_numpy(array: np.ndarray) -> Tensor:
    """The tensor that shares the memory of a NumPy array.

    The tensor never writes to it; if you change the array, the tensor's values change under fx, and
    what was computed from it before does not follow.

    Args:
        array: of any dtype that fx has; one of another byte order is copied.

    Raises:
        TypeError: if it is no NumPy array.
        DTypeError: for a dtype that fx does not have.

    Example:
        >>> import fx, numpy as np
        >>> fx.from_numpy(np.arange(3.0))
        tensor([0., 1., 2.], dtype=fx.float64)
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"from_numpy takes a numpy.ndarray, got {type(array).__name__}; "
            f"write fx.asarray(x) or fx.tensor(x)"
        )
    return from_array(array, "cpu")


# out --------------------------------------------------------------------------------------------


def readable(x: Tensor, what: str) -> np.ndarray:
    """A read-only view of the values of ``x``, for code that no derivative can pass through.

    Raises:
        BackwardError: if ``x`` requires grad or is differentiated by a running transform.
        BatchedValueError: inside ``vmap``.
        DeviceError: on ``meta``.
    """
    if x.level == CELL:
        x = x.read()
    if isinstance(x, Tracer):
        check_live(x)
        if _has_history(x):
            raise BackwardError(
                f"{what} of {x!r} inside {x.transform} would lose the derivative; "
                f"write x.detach().numpy() if that is what you want, or stay with fx functions"
            )
        return readable(x.concrete(), what)
    if x._node is not None:
        raise BackwardError(
            f"{what} of a tensor that requires grad would lose its history; "
            f"write x.detach().numpy()"
        )
    view: np.ndarray = backend(x.device.name).to_numpy(x._a).view()
    view.flags.writeable = False
    return view


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The values as a NumPy array that shares memory and cannot be written to.

    Args:
        force: whether to detach first.

    Raises:
        BackwardError: if it requires grad; write ``x.detach().numpy()``.
    """
    return readable(compare.stop_gradient(self) if force else self, "x.numpy()")


def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """What ``np.asarray(x)`` takes: a read-only view, a copy only where one is asked for."""
    array = readable(self, "np.asarray(x)")
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(
                f"np.asarray: {array.dtype.name} cannot become {np.dtype(dtype).name} without "
                f"a copy; leave copy=None"
            )
        return array.astype(dtype)
    return array.copy() if copy else array


# pickle and copy --------------------------------------------------------------------------------


def reduce_tensor(x: Tensor) -> Any:
    """What ``pickle`` keeps: values, dtype, whether it requires grad; history is dropped."""
    if x.level == CELL:
        value = x.read()
        return type(x), (new_tensor(value._a), value._node is not None)
    if isinstance(x, Tracer):
        raise TypeError(
            f"{x!r} lives only while its transform runs and cannot be pickled; "
            f"return it from the transformed function, or pickle x.detach() outside"
        )
    array = x._a
    if isinstance(array, TensorSpec):
        return _rebuild, (array.shape, array.dtype.name, x._node is not None)
    array = backend(x.device.name).to_numpy(array)
    name = array.dtype.name
    if array.dtype.kind == "V":  # no reader should need ml_dtypes to read the bytes
        array = array.view(np.uint16)
    return _rebuild, (array, name, x._node is not None)


def _rebuild(stored: Any, dtype: str, requires_grad: bool) -> Tensor:
    found = dtypes.as_dtype(dtype)
    if isinstance(stored, tuple):
        backend("meta")
        out = new_tensor(TensorSpec(stored, found, "meta"))
    else:
        out = new_tensor(stored if stored.dtype is found else stored.view(found))
    return with_grad(out, "unpickling") if requires_grad else out


def __copy__(self: Tensor) -> Tensor:
    """Another tensor of the same memory and history; that of a leaf is a leaf of its own."""
    if type(self) is not Tensor:
        return _copied_other(self)
    out = new_tensor(self._a)
    if isinstance(self._node, Leaf):
        return out.requires_grad_()  # type: ignore[no-any-return]
    out._node = self._node
    return out


def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """Another leaf with a copy of the gradient; the memory is shared unless a program may write.

    Raises:
        BackwardError: for the result of recorded operations, whose history cannot be copied.
    """
    if id(self) in memo:
        return memo[id(self)]  # type: ignore[no-any-return]
    node = self._node if type(self) is Tensor else None
    if node is not None and not isinstance(node, Leaf):
        raise BackwardError(
            f"deepcopy: a tensor computed from others ({node!r}) has a history that cannot be "
            f"copied; only leaves can be: write copy.deepcopy(x.detach())"
        )
    out = memo[id(self)] = __copy__(self)
    if writing.enabled and type(out) is Tensor and type(out._a) is np.ndarray:
        out._a = out._a.copy("K")
    if node is not None and node.grad is not None:
        out._node.grad = compare.stop_gradient(node.grad)
    return out


def _copied_other(x: Tensor) -> Tensor:
    """A tracer is its own copy; a cell is another cell."""
    if isinstance(x, Tracer):
        return x
    cls, args = reduce_tensor(x)
    return cls(*args)  # type: ignore[no-any-return]


def clone(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """The same values as a new tensor through which gradients flow."""
    return compare.astype(self, dtype=self._dtype)
