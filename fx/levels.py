"""Levels: which running transform a tracer belongs to.

Every running ``grad``, ``jvp`` or ``vmap`` owns a fresh even number, greater than that of any
transform started before it, so the highest level among the arguments of an operation is the
innermost transform that has to see it. The odd number above a level is the tape of ``.backward()``
inside that transform; the tape outside every transform is level 0.
"""

from __future__ import annotations

import sys
from itertools import count
from os.path import dirname, sep
from types import FrameType, TracebackType
from typing import Any, ClassVar

from fx.dtypes import DType
from fx.errors import EscapedTracerError
from fx.spec import TensorSpec
from fx.tensor import Tensor

_numbers = count(2, 2)
_newest = 0
live: dict[int, Level] = {}

HOME = dirname(__file__) + sep
_USERS = (HOME + "examples" + sep,)  # files below HOME that are a user's code


def is_internal(filename: str) -> bool:
    """Whether a file belongs to fx itself (its examples count as a user's code)."""
    return filename.startswith(HOME) and not filename.startswith(_USERS)


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost running frame that is not fx's own."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_line(depth: int = 2) -> str:
    """``file:line`` of the innermost running frame that is not fx's own."""
    frame = user_frame(depth)
    return "<unknown>" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def newest_level() -> int:
    """The highest level that exists, the odd one of the newest transform."""
    return _newest + 1


class Level:
    """One running transform.

    Args:
        transform: its name, for messages (``"grad"``).
        size: the number of lanes, for ``vmap``.
        axis_name: the name of the mapped axis, for collectives.
    """

    __slots__ = ("axis_name", "frame", "number", "size", "transform")

    def __init__(self, transform: str, size: int = 0, axis_name: Any = None) -> None:
        global _newest
        self.transform = transform
        self.size = size
        self.axis_name = axis_name
        self.number = _newest = next(_numbers)
        self.frame = user_line()

    def __enter__(self) -> Level:
        live[self.number] = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del live[self.number]


class Tracer(Tensor):
    """A tensor inside a running transform: a value of a lower level, and what the transform adds.

    A subclass implements ``process`` (run a primitive at its level) and ``concrete``.
    """

    __slots__ = ("level", "origin", "value")
    transform: ClassVar[str] = "a transform"

    level: int
    value: Tensor

    @property
    def _a(self) -> Any:
        """The array below, for Python code that asks for concrete values."""
        check_live(self)
        return self.concrete()._a

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> DType[Any]:
        return self.value.dtype

    @property
    def device(self) -> Any:
        return self.value.device

    def concrete(self) -> Tensor:
        """The tensor of the level below."""
        return self.value

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Run a primitive at this tracer's level, the highest among ``args``."""
        raise NotImplementedError


def check_live(tracer: Tracer) -> None:
    """Refuse a tracer whose transform has returned.

    Raises:
        EscapedTracerError: naming the transform's line and what to return instead.
    """
    if tracer.level & ~1 not in live:
        spec = TensorSpec(tracer.value.shape, tracer.value.dtype)
        level, made = _describe(tracer)
        raise EscapedTracerError(
            f"a value {spec!r} made{made} inside {level} was used after the transform had "
            f"returned. Values made inside a transform live only while it runs: return it from the "
            f"transformed function (has_aux=True gives a second result) instead of storing it in a "
            f"global, a list or an attribute"
        )


def _describe(tracer: Tracer) -> tuple[str, str]:
    made = f" by {tracer.origin.name}" if getattr(tracer, "origin", None) is not None else ""
    return tracer.transform, made
