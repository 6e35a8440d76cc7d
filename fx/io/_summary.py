"""SummaryWriter: event files for TensorBoard, by tensorboardX."""

from __future__ import annotations

from functools import wraps
from typing import Any

from fx import dtypes
from fx.ops.making.interop import readable
from fx.tensor import Tensor

try:
    import tensorboardX
except ModuleNotFoundError as error:
    if error.name != "tensorboardX":
        raise
    raise ModuleNotFoundError(
        'fx.SummaryWriter needs tensorboardX; write: pip install "fxgrad[tensorboard]"',
        name="tensorboardX",
    ) from None


class SummaryWriter(tensorboardX.SummaryWriter):  # type: ignore[misc]
    """Writes event files that TensorBoard shows; its methods take fx tensors.

    Args:
        *args, **kwargs: of ``tensorboardX.SummaryWriter``: ``log_dir``, ``comment``, ``flush_secs``
            ...

    Raises:
        ModuleNotFoundError: when it is first asked for, if tensorboardX is not installed.

    Example:
        >>> import fx, tempfile
        >>> with fx.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_scalar("loss", fx.tensor(0.5), 1)
        ...     writer.add_histogram("weights", fx.arange(10.0), 1)
    """


def _plain(value: Any) -> Any:
    """Tensors as what tensorboardX knows, inside of lists and dicts too."""
    if isinstance(value, Tensor):
        array = readable(value.detach(), "SummaryWriter")
        array = array.astype("float32") if array.dtype == dtypes.bfloat16 else array
        return array[()] if array.ndim else array
    if type(value) in (list, tuple):
        return type(value)(_plain(v) for v in value)
    if type(value) is dict:
        return {k: _plain(v) for k, v in value.items()}
    return value


def _taking_tensors(method: Any) -> Any:
    @wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *_plain(args), **_plain(kwargs))

    return wrapped


for _name in dir(tensorboardX.SummaryWriter):
    if _name.startswith("add_"):
        _method = getattr(tensorboardX.SummaryWriter, _name)
        setattr(SummaryWriter, _name, _taking_tensors(_method))
