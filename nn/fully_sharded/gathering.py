"""Parameters made whole by one message, let go of, and made whole again when somebody reads them.

A pullback keeps the whole parameters that its operation took. ``Gathered.release`` takes the arrays
out of these very tensors and lets them be ``Released``: who reads one, a pullback in the backward
pass, has all of them gathered again, from the parts of that forward pass. So nobody ever reads what
is not there, and between the passes a rank holds its parts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from fx.distributed.placed import Placed
from fx.distributed.placements import local_shape
from fx.tensor import Tensor, new_tensor

_array = Tensor._a  # the slot itself, which a Released tensor hides


class Released(Tensor):
    """A whole parameter without its values: to read them is to gather them."""

    __slots__ = ()

    @property
    def _a(self) -> Any:
        _array.__get__(self).fetch()
        return _array.__get__(self)


class Gathered:
    """The whole parameters of one forward pass.

    Args:
        parts: the parameters' values at that moment, tensors on the mesh.
        mesh: of the unit; a parameter that was cut before lies on more axes, these behind.
        axis: of the mesh, along which they are cut.
        dtype: of the whole floating ones; None: that of the parts.
        arrays: the whole ones, if they are here already.

    Attributes:
        live: whether the values are here.
    """

    def __init__(
        self,
        parts: Sequence[Any],
        mesh: Any,
        axis: int,
        dtype: Any,
        arrays: list[Any] | None = None,
    ) -> None:
        self.held = [p._a for p in parts]
        self.parts = [of_unit(a, mesh) for a in self.held]
        self.axis, self.dtype = axis, dtype
        self._here = arrays
        self.live = False
        self._tensors: list[Any] = []  # weak references: pullbacks keep what they need

    def of(self, parts: Sequence[Any]) -> bool:
        """Whether these parameters still have the values that were gathered."""
        return all(p._a is a for p, a in zip(parts, self.held, strict=True))

    def hand_out(self, tensors: Sequence[Tensor]) -> None:
        """Note the tensors that have the values, so that they can be taken back."""
        self._tensors = [ref(t) for t in tensors]
        self.live = True

    def arrays(self) -> list[np.ndarray]:
        """Gather: one message for all."""
        if self._here is not None:
            found, self._here = self._here, None
            return found
        locals_ = [_cast(a.local, self.dtype) for a in self.parts]
        ranks = self.parts[0].mesh.ranks(self.axis)
        rows = [np.zeros((_length(a, ranks.size), *a.shape[1:]), x.dtype)
                for a, x in zip(self.parts, locals_)]  # fmt: skip
        for row, x in zip(rows, locals_):
            row[: x.shape[0]] = x
        message = np.concatenate([row.reshape(-1).view(np.uint8) for row in rows])
        everyone = ranks.gather(message)  # (ranks, bytes)
        out, at = [], 0
        for a, row, held in zip(self.parts, rows, self.held):
            here = np.ascontiguousarray(everyone[:, at : at + row.nbytes]).reshape(-1)
            at += row.nbytes
            whole = here.view(row.dtype).reshape(ranks.size * row.shape[0], *a.shape[1:])
            out.append(of_mesh(whole[: a.shape[0]], held, a.mesh))
        return out

    def fetch(self) -> None:
        """Give every tensor that is still needed its values again."""
        if self.live:
            return
        self.live = True
        for made, array in zip(self._tensors, self.arrays(), strict=True):
            tensor = made()
            if tensor is not None:
                tensor.__class__ = Tensor
                tensor._a = array

    def release(self) -> None:
        """Take the values out of the tensors."""
        if not self.live:
            return
        self.live = False
        for made in self._tensors:
            tensor = made()
            if tensor is not None:
                tensor.__class__ = Released
                _array.__set__(tensor, self)


def _length(array: Any, count: int) -> int:
    """Rows that the largest part has."""
    return -(-array.shape[0] // count)  # type: ignore[no-any-return]


def _cast(x: np.ndarray, dtype: Any) -> np.ndarray:
    if dtype is None or x.dtype == dtype or not new_tensor(x).is_floating_point():
        return x
    return new_tensor(x).astype(dtype)._a  # type: ignore[no-any-return]


# what tensor parallel has cut before: its mesh has those axes first, then the unit's --------------


def of_unit(array: Placed, mesh: Any) -> Placed:
    """A parameter's array as the ranks of a unit see it: a part is their whole."""
    if array.mesh == mesh:
        return array
    shape, placements = before(array, mesh)
    k = len(placements)
    inner = local_shape(shape, placements, array.mesh.sizes[:k], array.mesh.place[:k])
    return Placed(array.local, inner, mesh, array.placements[k:])


def before(array: Placed, mesh: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The shape of the whole, and its placements along the axes in front of the unit's."""
    return array.shape, array.placements[: len(array.mesh.sizes) - len(mesh.sizes)]


def of_mesh(whole: Any, array: Placed, mesh: Any) -> Any:
    """What the unit has gathered, as it lies on the mesh of tensor parallel."""
    if array.mesh == mesh:
        return whole
    shape, placements = before(array, mesh)
    return Placed(whole, shape, array.mesh.outer, placements)
