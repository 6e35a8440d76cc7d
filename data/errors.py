"""The errors of the data room."""

from __future__ import annotations

from fx.errors import FxError, ShapeError


class DatasetError(ShapeError, AssertionError):
    """Datasets or tensors do not fit together."""


class CollateError(ShapeError):
    """The samples of a batch do not fit together."""


class WorkerError(FxError, RuntimeError):
    """A worker of a DataLoader died, or did not answer in time."""


class DataFileError(FxError, ValueError, RuntimeError):
    """A file of a dataset is missing, damaged, or not what it should be."""


class MissingFileError(DataFileError, FileNotFoundError):
    """The files of a dataset are not where they should be."""

    def __init__(self, message: str) -> None:
        super().__init__(message)

    def __str__(self) -> str:
        return str(self.args[0])
