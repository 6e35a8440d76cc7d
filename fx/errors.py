"""The errors that fx raises: each says what came in, what was expected and the line to write.

Every class also derives from the built-in that a user of NumPy, PyTorch or JAX would catch, so
``except ValueError`` goes on working.
"""

from __future__ import annotations

from pickle import UnpicklingError
from types import TracebackType
from typing import Any

from numpy.linalg import LinAlgError as _LinAlgError

from fx.frames import users_only
from fx.modes import modes


class FxError(Exception):
    """The root of all errors that fx itself raises; its traceback shows the user's frames.

    One that passes through Modules says in which layer of the model it was raised.
    """

    layer: str = ""  # "encoder.0.fc: Linear(...)"

    def __str__(self) -> str:
        text = super().__str__()
        trace = _traceback.__get__(self)
        if trace is not None:
            from fx.wording import in_users_words

            text = in_users_words(text, trace)
        return f"{text}\n  in layer {self.layer}" if self.layer else text

    @property
    def __traceback__(self) -> TracebackType | None:
        return users_only(_traceback.__get__(self))

    @__traceback__.setter
    def __traceback__(self, trace: TracebackType | None) -> None:
        _traceback.__set__(self, trace)


_traceback: Any = BaseException.__dict__["__traceback__"]


class ShapeError(FxError, ValueError, RuntimeError):
    """Shapes do not fit together."""


class ArgumentError(FxError, ValueError, RuntimeError):
    """An argument has a value that means nothing here."""


class DTypeError(FxError, TypeError, RuntimeError):
    """A dtype is not accepted here."""


class DeviceError(FxError, RuntimeError):
    """Tensors live on different devices, or a device has no kernel or does not exist."""


class AxisError(FxError, ValueError, IndexError, RuntimeError):
    """An axis is out of range or named twice."""


class IndexingError(FxError, IndexError, RuntimeError):
    """An index does not fit the tensor it indexes."""


class LinAlgError(FxError, _LinAlgError, RuntimeError):
    """A matrix is singular or not positive definite, or an iteration does not converge."""


class DivisionError(FxError, RuntimeError, ZeroDivisionError):
    """Integers are divided by 0."""


DIVIDED_BY_0 = (
    "integers are divided by 0 (ZeroDivisionError); write y.where(y != 0, 1) for the divisor y, "
    "or divide floats"
)


class InPlaceError(FxError, TypeError):
    """A tensor was asked to change; tensors are immutable."""


class WriteError(InPlaceError, RuntimeError):
    """A tensor cannot be written to here, for the reasons that PyTorch names."""


class _OfStaging(FxError):
    """What the same lines may not raise where nothing is staged.

    The innermost jitted function that is being staged takes note: if it handles the error and goes
    on, it goes on where it would not.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        stage = modes.stage
        while stage is not None and not stage.refused(self):
            stage = stage.outer


class EscapedTracerError(_OfStaging, RuntimeError):
    """A tracer was used after the transform that made it had returned."""


class BatchedValueError(FxError, TypeError, RuntimeError):
    """Python asked for one concrete value of a tensor that has one value per lane."""


class BackwardError(FxError, RuntimeError):
    """``backward`` or ``grad`` cannot run on what it was given."""


class RegistrationError(FxError, TypeError):
    """A primitive lacks a rule."""


class TreeError(FxError, ValueError):
    """Pytrees do not have the same structure."""


class DistError(FxError, RuntimeError):
    """Something between the ranks of a group or mesh went wrong."""


class StateError(FxError, RuntimeError, ValueError):
    """A state dict does not fit the module, optimizer or scheduler that is to load it."""


class StagingError(_OfStaging, RuntimeError):
    """A function cannot be staged, or Python asked for a value that is not known while it is."""


class CheckError(FxError, AssertionError):
    """A compiled call gives something else than the function does eagerly (``jit``'s ``check``)."""


class GraphError(FxError, RuntimeError):
    """A graph is not valid, or a pass failed or made one that is not."""


class CompileError(FxError, RuntimeError):
    """LLVM refuses the code that a graph became: a fault of the compiler, not of the graph."""


class DonatedError(FxError, RuntimeError):
    """A tensor was used after its memory had been donated to a jitted function."""


class FileFormatError(FxError, UnpicklingError, ValueError, RuntimeError):
    """A file is damaged or hostile, or holds what may not or cannot be loaded."""
