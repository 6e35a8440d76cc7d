"""Arguments that a jitted function writes into: they are state, as a parameter is.

A tensor that is an argument is an input, whatever its name held before. One that the function
writes into is passed as the object that it is: what is stored in it after a call is seen outside.
"""

from __future__ import annotations

from typing import Any

from fx.config import modes
from fx.tensor import Tensor

_MOST = 4  # tensors that are compiled for, before the function runs as it is for others


class Writes:
    """The places, among the leaves of the arguments, of what is written into."""

    __slots__ = ("_met",)

    def __init__(self) -> None:
        self._met: dict[int, set[int]] = {}  # the ids of the tensors at each place

    def __contains__(self, place: int) -> bool:
        return place in self._met

    def argument(self, place: int, x: Tensor) -> Any:
        """What is passed for a tensor: itself if it is written into, else its value."""
        met = self._met.get(place)
        if met is None or modes.stage is not None or (len(met) >= _MOST and id(x) not in met):
            return x.read() if x.written else x
        if not x.written:
            if type(x) is not Tensor:
                return x
            from fx.writing.storing import begun

            begun(x)
        met.add(id(x))
        return x

    def note(self, stage: Any, value: Any) -> None:
        """The function that is being staged writes into the argument that ``value`` stands for."""
        signature = stage.call.signature
        source = stage.program.sources.get(value)
        part = ("tensor", getattr(source, "number", -1))
        place = signature.parts.index(part) if part in signature.parts else -1
        known = place in self._met
        if place < 0 or known or stage.outer is not None:
            stage.give_up("it writes into one of its arguments, another tensor in each call")
        self._met[place] = set()
        stage.postpone()
