"""Levels: which running transform a tracer belongs to.

Every running ``grad``, ``jvp`` or ``vmap`` owns a fresh even number, greater than that of any
transform started before it, so the highest level among the arguments of an operation is the
innermost transform that has to see it. The odd number above a level is the tape of ``.backward()``
inside that transform; the tape outside every transform is level 0.
"""

from __future__ import annotations

from itertools import count
from types import TracebackType
from typing import Any, ClassVar

from fx.dtypes import DType
from fx.errors import EscapedTracerError
from fx.frames import user_line
from fx.modes import Newest, modes
from fx.spec import TensorSpec
from fx.tensor import Tensor

_numbers = count(2, 2)
live: dict[int, Level] = {}
_started: dict[int, str] = {}  # where the last transforms that have returned were called
_REMEMBERED = 256


class Level:
    """One running transform.

    Args:
        transform: its name, for messages (``"grad"``).
        size: the number of lanes, for ``vmap``.
        axis_name: the name of the mapped axis, for collectives.
    """

    __slots__ = ("axis_name", "below", "line", "number", "size", "transform")

    def __init__(self, transform: str, size: int = 0, axis_name: Any = None) -> None:
        self.transform = transform
        self.size = size
        self.axis_name = axis_name
        self.number = Newest.number = next(_numbers)
        self.below = modes.level
        self.line = user_line()

    def __enter__(self) -> Level:
        live[self.number] = self
        modes.level = self.number
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        modes.level = self.below
        live.pop(self.number, None)
        _started[self.number] = self.line
        if len(_started) > _REMEMBERED:
            _started.pop(next(iter(_started)), None)


class Tracer(Tensor):
    """A tensor inside a running transform: a value of a lower level, and what the transform adds.

    A subclass implements ``process`` (run a primitive at its level) and ``concrete``. ``fuses``
    says that it runs a primitive as it is on the values below: a fused one may come as one.
    ``known`` is False where nothing is computed, only written down.
    """

    __slots__ = ("level", "value")
    transform: ClassVar[str] = "a transform"
    fuses: ClassVar[bool] = False
    known: ClassVar[bool] = True

    level: int  # type: ignore[misc] # a slot here, a class variable of plain tensors
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

    @property
    def size(self) -> Any:
        """The number of elements, which a script may call for sizes; see ``Tensor.size``."""
        found = None if modes.stage is None else modes.stage.called(self)
        return Tensor.size.fget(self) if found is None else found  # type: ignore[attr-defined]

    def concrete(self) -> Tensor:
        """The tensor of the level below."""
        return self.value

    def graft(self, value: Any, cut: bool, below: Any) -> Any:
        """``value`` with what this transform knows of this tensor, whose place it takes.

        Args:
            value: of this level or a lower one.
            cut: whether forward mode does not see it either.
            below: the same for the values a level below: ``below(value, old, cut)``.
        """
        return value

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Run a primitive at this tracer's level, the highest among ``args``."""
        raise NotImplementedError


def check_live(tracer: Tracer) -> None:
    """Refuse a tracer whose transform has returned.

    Raises:
        EscapedTracerError: naming the transform's line and what to return instead.
    """
    if tracer.level & ~1 not in live:
        made = getattr(tracer._node, "primitive", None)
        spec = TensorSpec(tracer.shape, tracer.dtype)
        raise EscapedTracerError(
            f"a value {spec!r}{f' made by {made.name}' if made else ''} inside "
            f"{tracer.transform} (started at {_started.get(tracer.level & ~1, '<unknown>')}) was "
            f"used after the transform had returned. Such values live only while it runs: return "
            f"it from the transformed function (has_aux=True gives a second result) instead of "
            f"storing it in a global, a list or an attribute"
        )
