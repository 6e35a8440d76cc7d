"""Types of PyTorch: tensors by dtype (``torch.LongTensor``), and who sees ``torch.Size``."""

from __future__ import annotations

from sys import _getframe
from types import FrameType
from typing import Any

from fx import dtypes, seen, tree
from fx.frames import is_internal
from fx.levels import live
from fx.ops.methods.torch_attributes import constructed
from fx.seen import TORCH, Size, TorchDType
from fx.staged_number import StagedNumber
from fx.tensor import Size as Count
from fx.tensor import Tensor
from fx.writing.who import imports_face, writes


class _OfDtype(type):
    """A class that stands for the tensors of one dtype."""

    dtype: Any

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return constructed(cls.dtype, args, device)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype == cls.dtype

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


def _of(name: str, dtype: Any) -> Any:
    doc = f"The tensors of dtype {dtype.name}: call it with sizes or values."
    return _OfDtype(name, (), {"dtype": dtype, "__doc__": doc, "__module__": __name__})


FloatTensor = _of("FloatTensor", dtypes.float32)
DoubleTensor = _of("DoubleTensor", dtypes.float64)
HalfTensor = _of("HalfTensor", dtypes.float16)
BFloat16Tensor = _of("BFloat16Tensor", dtypes.bfloat16)
LongTensor = _of("LongTensor", dtypes.int64)
IntTensor = _of("IntTensor", dtypes.int32)
ShortTensor = _of("ShortTensor", dtypes.int16)
CharTensor = _of("CharTensor", dtypes.int8)
ByteTensor = _of("ByteTensor", dtypes.uint8)
BoolTensor = _of("BoolTensor", dtypes.bool_)


dtype = TorchDType


class _Named:
    """A constant that is only a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class layout(_Named):
    """How elements lie in memory; there is one way."""


class memory_format(_Named):
    """Which axis moves fastest; fx chooses by itself, so these change nothing."""


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
preserve_format = memory_format("preserve_format")


# who sees them ----------------------------------------------------------------------------------

_own: dict[int, dict[str, Any]] = {}  # the names of fx's own modules, by their ids
_theirs: dict[int, dict[str, Any]] = {}  # those of modules that import fx.torch
_latest: Any = None  # the one of these that has asked last: it asks again
_MOST = 512


class _Sizes(dict[tuple[int, ...], Size]):
    """The ``torch.Size`` of each shape, made once."""

    def __missing__(self, shape: tuple[int, ...]) -> Size:
        if len(self) >= _MOST:
            self.clear()
        made = self[shape] = Size([int(n) for n in shape])
        return made  # type: ignore[no-any-return]


_sizes = _Sizes()


def _size_of(shape: tuple[Any, ...]) -> Size:
    """The sizes of what may be staged, of which some may stand for any."""
    if live and any(type(n) is StagedNumber for n in shape):
        return Size(shape)
    return _sizes[shape]


def _decided(name: str, plain: property) -> property:
    """The property of tensors that gives modules which import ``fx.torch`` PyTorch's objects."""
    get: Any = plain.fget

    def shape(self: Any) -> Any:
        space = _getframe(1).f_globals
        if space is _latest or (id(space) not in _own and _sees(_getframe(1))):
            return _size_of(get(self))
        return get(self)

    def dtype(self: Any) -> Any:
        space = _getframe(1).f_globals
        if space is _latest or (id(space) not in _own and _sees(_getframe(1))):
            return TORCH[self._a.dtype if type(self) is Tensor else get(self)]
        return get(self)

    if plain is Tensor.__dict__["_shape"]:
        return property(_plain_shape, doc=plain.__doc__)
    return property(shape if name == "shape" else dtype, doc=plain.__doc__)


def _plain_shape(self: Any) -> Any:
    """The shape of what no class has a rule of its own for: no size of it can be staged."""
    if _getframe(1).f_globals is _latest:
        return _sizes[self._a.shape]
    frame = _getframe(1)
    if id(frame.f_globals) not in _own and _sees(frame):
        return _sizes[self._a.shape]
    return self._a.shape


def _sees(frame: FrameType) -> bool:
    """Whether the code of a frame is of a module that imports ``fx.torch``."""
    global _latest
    space = frame.f_globals
    if id(space) in _theirs:
        _latest = space
        return True
    if is_internal(frame.f_code.co_filename):
        _own[id(space)] = space
        return False
    seen = writes(frame)
    if seen and imports_face(space):
        if len(_theirs) > _MOST:
            _theirs.clear()
        _latest = _theirs[id(space)] = space
    return seen


def _size(self: Any, dim: int | None = None) -> Any:
    """``x.size()`` and ``x.size(0)``."""
    if dim is not None:
        return self.shape[dim]
    space = _getframe(1).f_globals
    if space is _latest or (id(space) not in _own and _sees(_getframe(1))):
        return self.seen
    return self.shape


def install() -> None:
    """Let the modules of this process that import ``fx.torch`` see PyTorch's dtypes and sizes."""
    seen.watch(_decided)
    Count.__call__ = _size  # type: ignore[method-assign]
    tree.register_node(Size, lambda s: (tuple(s), None), lambda _, sizes: Size(sizes))
