"""What a program that imports ``fx.torch`` may say to a tensor: operators and methods in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from sys import _getframe, getrefcount
from typing import Any
from weakref import WeakValueDictionary

import fx.ops.indexing.views as cuts
import fx.ops.methods.inplace as inplace
import fx.ops.methods.rebinding as rebinding
from fx.config import modes, no_grad, writing
from fx.dtypes import bool_
from fx.errors import DTypeError, InPlaceError, WriteError
from fx.frames import user_frame
from fx.levels import live
from fx.ops.methods.inplace import NAMES, line_for
from fx.state import Cell
from fx.tape import CELL, Leaf
from fx.tensor import Tensor
from fx.writing import data, views
from fx.writing.computing import computing, drawing, filling
from fx.writing.data import adopt, detach_, set_
from fx.writing.holders import CALLS, OPERATES, SETS, has_name
from fx.writing.items import put_all, set_item, with_item
from fx.writing.memory import own_memory
from fx.writing.parameters import follow_steps, keeping, leaving, seen, share, tell
from fx.writing.records import CUT, record_of
from fx.writing.resizing import resize_, resize_as_
from fx.writing.storing import recorded, records, renew, take
from fx.writing.who import writes
from fx.writing.written import begin_alone

# items ------------------------------------------------------------------------------------------


def __setitem__(self: Tensor, index: Any, value: Any) -> None:
    frame = _getframe(1)
    if not writes(frame):
        inplace.__setitem__(self, index, value)
    if (self._noted if self.written else getattr(self, "_view", None) or CUT).kept:
        tell(self)
    staged = live and modes.stage is not None
    if staged and getrefcount(self) <= _ALONE[0] and _is_detached(self):
        with no_grad():  # `x.data[i] = v`: nobody else could ask for the history
            set_item(self, index, value)
        return
    alone = not self.written and getrefcount(self) <= _NAMED[0] and has_name(frame, SETS)
    if alone and records(self, value):
        now = with_item(self, index, value)
        if getrefcount(self) <= _NAMED[0] and take(self, now):
            return
        del now
    set_item(self, index, value, alone)


def _with_setter(name: str) -> property:
    """``x.real`` or ``x.imag``, to which a script may assign."""
    part = Tensor.__dict__[name]

    def put(self: Tensor, value: Any) -> None:
        if not writes(_getframe(1)):
            raise InPlaceError(
                f"x.{name} = v would change x, and tensors never change; write "
                f"x = {'v + 1j * x.imag' if name == 'real' else 'x.real + 1j * v'}"
            )
        if name == "imag" and self.dtype.kind != "c":
            raise WriteError("imag is not implemented for tensors with non-complex dtypes.")
        set_item(views.noted(part.fget, self), ..., value)

    return property(part.fget, put, doc=part.__doc__)


def _is_detached(x: Any) -> bool:
    """Whether what is written into a tensor that nobody holds has a history that nobody sees."""
    record = getattr(x, "_view", None)
    if record is None or not record.cut or record.leaf is not None:
        return False
    family = record_of(x).family
    return not any(m is not x and m._view.cut for m in family.alive())


class _Probe:
    """Says how often an object is held that has no name, in the two ways in which it is written."""

    def __setitem__(self, index: Any, value: Any) -> None:
        _ALONE[0] = getrefcount(self)

    def __iadd__(self, other: Any) -> _Probe:
        _NAMED[1] = getrefcount(self)
        return self


_ALONE = [0, 0]
_NAMED = [0, 0]  # and of one that has one name, in `x[i] = v` and `x += v`


def _named() -> None:
    x = _Probe()
    x[0] = 1
    _NAMED[0] = _ALONE[0]
    x += 1


def _counting(self: Any, *args: Any, **kwargs: Any) -> None:
    _ALONE[1] = getrefcount(self)


# operators --------------------------------------------------------------------------------------

_OPERATORS = {
    "add": "+=", "sub": "-=", "mul": "*=", "truediv": "/=", "pow": "**=", "floordiv": "//=",
    "mod": "%=", "and": "&=", "or": "|=", "xor": "^=", "lshift": "<<=", "rshift": ">>=",
}  # fmt: skip


def _operator(name: str, sign: str) -> Callable[[Any, Any], Any]:
    pure = getattr(Tensor, f"__{name}__")
    put = computing(name)
    if name == "sub":
        pure = _less

    def method(self: Any, other: Any) -> Any:
        frame = _getframe(1)
        if not writes(frame):
            return NotImplemented
        alone = False
        if type(self) is Tensor:
            others = getrefcount(self) - _NAMED[1]
            alone = others < 0 or (others == 0 and has_name(frame, OPERATES))
            if alone and put is not None and not _have_history(other):
                begin_alone(self)
        if put is not None and self.written and put(self, other):
            return self
        if (self._noted if self.written else getattr(self, "_view", None) or CUT).kept:
            tell(self)
        value = pure(self.read() if self.written else self, other)
        if value is NotImplemented:
            return value
        if type(self) is Tensor and value._node is not None:  # its pullback may hold it
            others = getrefcount(self) - _NAMED[1]
            alone = others < 0 or (others == 0 and has_name(frame, OPERATES))
            if alone and take(self, value):
                return self
        return renew(self, sign, value, alone)

    method.__name__ = f"__i{name}__"
    return method


def _have_history(*others: Any) -> bool:
    """Whether what is written would be recorded, of a tensor that has no history."""
    return any(isinstance(x, Tensor) and x._node is not None for x in others)


def _less(x: Any, other: Any) -> Any:
    truth = other is True or other is False or getattr(other, "_dtype", None) is bool_
    if truth and x._dtype is not bool_:
        raise DTypeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
            "trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return x - other


def __dir__(self: Any) -> list[str]:
    found = inplace._dir(self)
    asking = user_frame(2)
    if asking is None or writes(asking):
        return found
    return [name for name in found if name not in NAMES]


# methods ----------------------------------------------------------------------------------------

# those of which the shape changes: what the tensor is from then on, as another view of the same
_LOOKS = {
    "t_": "t", "transpose_": "transpose", "swapaxes_": "swapaxes", "swapdims_": "swapaxes",
    "squeeze_": "squeeze", "unsqueeze_": "unsqueeze",
}  # fmt: skip


def _method(name: str, value_of: Any, work: Any = None, put: Any = None) -> Callable[..., Any]:
    """The method in place of that name.

    Args:
        value_of: what it makes of a tensor; None where ``work`` does more than to hold that.
        work: the whole of it.
        put: does it in memory that nobody else holds, where nothing is staged or recorded; False
            where that cannot be.
    """

    pure, other = rebinding.rule_of(name)

    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        if work is not None:
            return work(self, *args, **kwargs)
        if put is not None and put(self, *args, **kwargs):
            return self
        return renew(self, name, value_of(self, *args, **kwargs))

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        frame = _getframe(1)
        held = self.level == CELL
        if put is not None and held and writes(frame):
            if kwargs:
                done = put(self, *args, **kwargs)
            else:  # handing on keywords costs 0.1 µs, also where there are none
                done = put(self, args[0]) if len(args) == 1 else put(self, *args)
            if done:
                return self
        elif not writes(frame):
            raise InPlaceError(
                f"x.{name}() would change x, and tensors never change; write {line_for(name)} "
                f"(only code that imports fx.torch writes)"
            )
        if (self._noted if self.written else getattr(self, "_view", None) or CUT).kept:
            tell(self)
        staged = live and modes.stage is not None
        if staged and getrefcount(self) <= _ALONE[1] and _is_detached(self):
            with no_grad():
                return whole(self, *args, **kwargs)
        if work is not None:
            return work(self, *args, **kwargs)
        alone = False
        if type(self) is Tensor:
            others = getrefcount(self) - _ALONE[1] - 1
            way = f"{CALLS}{len(args) + len(kwargs)}"
            alone = others < 0 or (others == 0 and has_name(frame, way))
            if alone and put is not None and not _have_history(*args):
                begin_alone(self)
        if put is not None and not held and put(self, *args, **kwargs):
            return self
        if not pure or len(args) == other:
            value = value_of(self, *args, **kwargs)
        elif kwargs:  # with no name for what it is now, which would hold it
            value = getattr(self.read() if self.written else self, pure)(*args, **kwargs)
        else:
            value = getattr(self.read() if self.written else self, pure)(*args)
        node = self._node if type(self) is Tensor else None
        if node is not None and value._node is None and modes.record0 and type(node) is not Leaf:
            value = recorded(self, value)
        if type(self) is Tensor and value._node is not None:  # its pullback may hold it
            others = getrefcount(self) - _ALONE[1] - 1
            alone = others < 0 or (others == 0 and has_name(frame, way))
            if alone and take(self, value):
                return self
        return renew(self, name, value, alone)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = (work if value_of is None else value_of).__doc__
    method.work = whole  # type: ignore[attr-defined]
    return method


def _in_memory(put: Any, rebinding: Any) -> Callable[..., Any]:
    """The method in place of cells, which are bound again where ``put`` cannot do it."""

    @wraps(rebinding)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            done = put(self, *args, **kwargs)
        else:
            done = put(self, args[0]) if len(args) == 1 else put(self, *args)
        return self if done else rebinding(self, *args, **kwargs)

    return method


def _look(name: str) -> Callable[..., Any]:
    pure = _LOOKS[name]

    def work(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = views.noted(getattr(self, pure), *args, **kwargs)
        return self if out is self else adopt(self, out, name)

    work.__doc__ = f"Be ``self.{pure}(...)``, of the same elements."
    return work


def _put_copy(x: Any, source: Any, non_blocking: bool = False) -> bool:
    return put_all(x, source)


def _put_zeros(x: Any) -> bool:
    place = own_memory(x)
    if place is None:
        return put_all(x, 0)
    try:
        place.fill(0)
    except ValueError:  # it is read-only
        return put_all(x, 0)
    return True


def attach() -> None:
    """Put them on Tensor."""
    _named()
    _Probe()[0] = 1
    _Probe.add_ = _counting  # type: ignore[attr-defined]
    _Probe().add_(1)  # type: ignore[attr-defined]
    Tensor._renew = renew  # type: ignore[attr-defined]
    Tensor.__setitem__ = __setitem__  # type: ignore[attr-defined]
    Tensor.__dir__ = __dir__  # type: ignore[method-assign]
    for name in ("real", "imag"):
        setattr(Tensor, name, _with_setter(name))
    for name, sign in _OPERATORS.items():
        setattr(Tensor, f"__i{name}__", _operator(name, sign))
        if (put := computing(name)) is not None:
            method = getattr(Cell, f"__i{name}__")
            setattr(Cell, f"__i{name}__", _in_memory(put, method))
    works = {f.__name__: f for f in (set_, resize_, resize_as_, detach_, rebinding.share_memory_)}
    works.update((name, _look(name)) for name in _LOOKS)
    puts = {
        "copy_": _put_copy, "fill_": put_all, "zero_": _put_zeros,
        "masked_fill_": filling, "normal_": drawing("normal"), "uniform_": drawing("uniform"),
    }  # fmt: skip
    for name in NAMES:
        if name in works:
            setattr(Tensor, name, _method(name, None, works[name]))
        elif (value_of := rebinding.value_of(name)) is not None:
            put = puts.get(name) or computing(name[:-1])
            setattr(Tensor, name, _method(name, value_of, put=put))
            if put is not None:
                setattr(Cell, name, _in_memory(put, getattr(Cell, name)))
    cuts.share = share
    writing.watched, writing.stepped = WeakValueDictionary(), follow_steps
    writing.copy = Tensor.__dict__["copy_"].work
    Cell._renew = seen(Cell._renew)  # type: ignore[method-assign]
    Cell._set_node = keeping(Cell._set_node)  # type: ignore[method-assign]
    Cell._leave = leaving(Cell._leave)
    data.attach()
    views.attach()
