"""How tensors come to a collective, and how its results come to tensors.

What is a place already (a parameter, a buffer, ``p.grad``, ``p.data``, a tensor that was written),
and any tensor of a module that writes, is filled in place by the mechanism of writes. Everything
else keeps its value: the result is given back, and a line that would throw it away is refused.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from fx.config import modes, no_grad
from fx.errors import DeviceError, DTypeError, FxError, InPlaceError, ShapeError
from fx.frames import is_internal
from fx.ops.shapes.joining import stack
from fx.state import Cell
from fx.tape import CELL
from fx.tensor import PLAIN, Tensor, new_tensor
from fx.writing.inplace import user_writes

Array = np.ndarray[Any, Any]


def array_of(x: Any, what: str) -> Array:
    """The elements of a tensor, in a row; without a copy, where they lie so.

    Raises:
        TypeError: if it is no tensor.
        DeviceError: if it is not on the CPU.
        FxError: if it stands for a value inside of a transform.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{what}: expected a Tensor, got {type(x).__name__}")
    stage = modes.stage
    if stage is not None:
        refuse_staging(stage, what)
    value = x.read() if x.level == CELL else x  # type: ignore[attr-defined]
    if value.level != PLAIN:
        refuse_inside(what, x, value)
    array = value._a
    if type(array) is not np.ndarray:
        raise DeviceError(f"{what}: {x.spec!r} is not on the CPU; write x.to('cpu') first")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def refuse_inside(what: str, x: Any, value: Any) -> None:
    """Refuse what stands for a value inside of a transform."""
    raise FxError(
        f"{what}: {x.spec!r} is a value inside {value.transform}, and other processes see numbers "
        f"alone; call it outside, or name an axis and write fx.psum(x, axis_name)"
    )


def each_of(listed: Any, what: str, each: Callable[[Any, str], Any]) -> list[Any]:
    """What ``each`` gives of the tensors of a list."""
    if isinstance(listed, Tensor) or not isinstance(listed, Sequence):
        raise TypeError(f"{what}: expected a list of tensors, got {type(listed).__name__}")
    return [each(x, what) for x in listed]


def refuse_staging(stage: Any, what: str) -> None:
    """Let the function that is being staged run as it is."""
    give_up = getattr(stage, "give_up", None)
    if give_up is None:
        raise FxError(f"{what}: other processes see numbers alone; call it outside")
    give_up(f"it calls {what}, which talks to other processes")


def stacked(arrays: Sequence[Any], size: int, what: str) -> Any:
    """Arrays, or tensors, of one spec, one a rank, side by side.

    Raises:
        ShapeError, DTypeError: if they differ, or are not as many as there are ranks.
    """
    if len(arrays) != size:
        raise ShapeError(f"{what}: a list of {len(arrays)} tensors, and the group has {size} ranks")
    for a in arrays[1:]:
        fits(a, arrays[0].shape, arrays[0].dtype, what)
    return stack(arrays) if isinstance(arrays[0], Tensor) else np.stack(arrays)


def fits(x: Any, shape: tuple[int, ...], dtype: Any, what: str) -> None:
    """Refuse another shape or dtype.

    Raises:
        ShapeError, DTypeError: saying both sides.
    """
    given, kind = (x.shape, x.dtype) if isinstance(x, np.ndarray) else (x._shape, x._dtype)
    if tuple(given) != tuple(shape):
        raise ShapeError(f"{what}: expected shape {tuple(shape)}, got {tuple(given)}")
    if kind != dtype:
        raise DTypeError(f"{what}: expected dtype {np.dtype(dtype).name}, got {kind.name}")


class Place:
    """Where a result goes: into a tensor, or back to the caller.

    Made when the collective is called: ``filled`` may run much later, when somebody waits.
    """

    __slots__ = ("name", "tensor", "writes")

    def __init__(self, tensor: Tensor, name: str) -> None:
        self.tensor, self.name = tensor, name
        self.writes = isinstance(tensor, Cell) or tensor.written or user_writes()

    def filled(self, array: Array | Tensor) -> Tensor:
        """The tensor with these values, or one that has them."""
        value = array if isinstance(array, Tensor) else new_tensor(np.asarray(array, order="C"))
        if not self.writes:
            return value
        with no_grad():
            return self.tensor._renew(self.name, value)


def kept(places: Sequence[Place], name: str, write: str) -> None:
    """Refuse to compute what the user's line throws away.

    Args:
        write: the line to write instead.
    """
    if all(place.writes for place in places):
        return
    frame: FrameType | None = sys._getframe(1)
    room = None if frame is None else frame.f_globals
    while frame is not None and frame.f_globals is room:
        frame = frame.f_back  # who called the collective
    if frame is not None and not is_internal(frame.f_code.co_filename) and _drops(frame):
        raise InPlaceError(
            f"{name} gives its result, and tensors keep their values here; this line throws it "
            f"away: write {write}"
        )


def _drops(frame: FrameType) -> bool:
    """Whether a frame throws away what the call that it is in gives."""
    code, at = frame.f_code.co_code, frame.f_lasti + 2
    while code[at] == _CACHE:
        at += 2
    return code[at] == _POP


_CACHE, _POP = dis.opmap.get("CACHE", 0), dis.opmap["POP_TOP"]


def into(listed: Any, name: str) -> Callable[[Any], list[Tensor]]:
    """What fills a list: the tensors in it, or its entries."""
    places = [Place(x, name) for x in listed]

    def fill(arrays: Any) -> list[Tensor]:
        out = [place.filled(a) for place, a in zip(places, arrays)]
        if isinstance(listed, list):
            listed[:] = out
        return out

    return fill
