"""Named pairs: what a search along an axis found, and where."""

from __future__ import annotations

from typing import Any, NamedTuple

from fx.seen import face
from fx.tensor import Tensor


def shown(pair: Any, name: str, here: str) -> str:
    """A named tuple as PyTorch shows what ``name`` gives, where it is seen; else as ``here``."""
    parts = [f"{key}={value!r}" for key, value in zip(pair._fields, pair)]
    if face() == "torch":
        return f"torch.return_types.{name}(\n" + ",\n".join(parts) + ")"
    return f"{here}({', '.join(parts)})"


class Found(NamedTuple):
    """Elements and the places they were found at along an axis."""

    values: Tensor
    indices: Tensor

    def __repr__(self) -> str:
        return shown(self, type(self).__name__, "Found")

    def __reduce__(self) -> Any:
        return found, (type(self).__name__, tuple(self))


def _kind(name: str) -> type[Found]:
    return type(name, (Found,), {"__slots__": (), "__doc__": f"What ``{name}`` gives."})


_NAMES = "max min sort topk kthvalue median nanmedian mode cummax cummin".split()  # noqa: SIM905
_KINDS: dict[str, type[Found]] = {"Found": Found, **{name: _kind(name) for name in _NAMES}}
_pair: Any = tuple.__new__  # of a pair, without the function that takes it apart


def found(name: str, pair: Any) -> Found:
    """Values and indices as what the function of that name gives."""
    return _pair(_KINDS.get(name, Found), pair)  # type: ignore[no-any-return]
