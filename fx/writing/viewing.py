"""Viewing: what stands before the methods that give views, so that what they give is noted.

A method that the user calls is told by ``modes.views`` to note its result, in whatever primitive
makes it. The views that scripts take most have a quick way before that (``quick_views.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS
from sys import _getframe, getrefcount
from typing import Any
from weakref import ref

from numpy import ndarray

from fx.config import modes, writing
from fx.frames import is_internal, known
from fx.prims.shape import reshape
from fx.tape import Leaf
from fx.tensor import Tensor
from fx.writing.host import is_hosted, memories
from fx.writing.noting import SURELY, link
from fx.writing.quick_views import NAMES, Quick, quick_source

# of what these give PyTorch says that it is a view or raises, by strides that may be others here
ALWAYS = frozenset(("view", "view_as", "unflatten"))
# whose results share elements with one another, or lie upon themselves: noted also of a temporary
SHARED = frozenset(
    """
    expand expand_as broadcast_to chunk split split_with_sizes tensor_split hsplit
    vsplit dsplit unbind unstack unfold as_strided
    """.split()  # noqa: SIM905
)
# what gives the tensor itself where nothing is to be done
ITSELF = frozenset(("flatten", "real", "conj", "atleast_1d", "atleast_2d", "atleast_3d"))


def noting(
    function: Callable[..., Any], quick: Quick | None = None, cells: bool = False, begin: Any = None
) -> Callable[..., Any]:
    """A method, whose results are noted as views where the user calls it.

    Args:
        quick: how it is written out, if it is.
        cells: whether for cells; else for plain tensors.
        begin: called before what the user calls.
    """
    itself = function.__name__ in ITSELF
    way = SURELY if function.__name__ in ALWAYS else True
    most = 0 if function.__name__ in SHARED else _held_by_none()
    arguments, first = _signature(function)
    if quick is not None and arguments.split(", ")[1:] != quick.arguments.split(", ")[1:]:
        raise TypeError(f"{function.__name__} takes {arguments}; its quick way {quick.arguments}")
    sort = (cells, way is SURELY) if quick is not None else ()
    exec(_code(arguments, first, quick, *sort), _SPACE)
    steps = (None, None) if quick is None else (quick.primitive, quick.recorded)
    made = _SPACE.pop("make")(function, itself, way, most, begin, *steps)
    return wraps(function)(made)


def watch(kind: Any, name: str, quick: Quick | None) -> None:
    """Let a method or property of a class note the views that the user takes by it.

    Its quick way is written when it is first called, since the sources of all take 20 ms.
    """
    found = kind.__dict__.get(name) or Tensor.__dict__[name]

    def wrapped(way: Quick | None, begin: Any) -> Any:
        if not isinstance(found, property):
            return noting(found, way, kind is not Tensor, begin)
        get = noting(found.fget, way, kind is not Tensor, begin)  # type: ignore[arg-type]
        return property(get, found.fset, doc=found.__doc__)

    def begin() -> None:
        if kind.__dict__.get(name) is common:
            setattr(kind, name, wrapped(quick, None))

    common = wrapped(None, None if quick is None else begin)
    setattr(kind, name, common)


# gathering all arguments to hand them on takes 0.12 µs, a tenth of what a view takes
_VIEWING = """
def make(_function, _itself, _way, _most, _begin, _primitive, _recorded):
 def viewing({arguments}):
  global _latest{quick}
  _now = modes.__dict__  # one look at what the thread has: an attribute of it costs as much
  if _now["views"]:
   return _function({arguments})
  if type({self}) is Tensor and (
   not writing.started or (getrefcount({self}) <= _most and _is_own({self}))
  ):
   return _function({arguments})
  _frame = _getframe(1)
  if _frame.f_globals is not _latest:
   _name = _frame.f_code.co_filename
   _internal = known.get(_name)
   if _internal or (_internal is None and is_internal(_name)):
    return _function({arguments})
   _latest = _frame.f_globals  # of a module of the user's: it takes the next ones too
  if _begin is not None:
   _begin()
  _now["views"] = _way
  try:
   _out = _function({arguments})
   if _out is {self}:
    return _out if _itself else _alias(_out)
   if type(_out) is tuple and any(_x is {self} for _x in _out):
    return tuple([_alias(_x) if _x is {self} else _x for _x in _out])
   return _out
  finally:
   _now["views"] = False
 return viewing
"""


def _linked(x: Any, out: Any, primitive: Any, params: dict[str, Any], way: Any) -> Any:
    """What ``link`` makes of a view."""
    before, modes.views = modes.views, way
    try:
        return link(x, out, primitive, params)
    finally:
        modes.views = before


def _kept_as(x: Any, out: Any) -> Any:
    """A view that an optimizer's step is seen in wherever it is in what it was cut of."""
    out._view.kept = x._view.kept
    return out


def _signature(function: Callable[..., Any]) -> tuple[str, str]:
    """How a method takes its arguments, and the first one's name."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_argcount:
        return "self, *args, **kwargs", "self"
    names, count = code.co_varnames, code.co_argcount
    rest = [f"*{names[count]}"] if code.co_flags & CO_VARARGS else []
    taken = [*names[:count], *rest]
    keywords = code.co_kwonlyargcount or code.co_flags & CO_VARKEYWORDS
    if keywords or len(taken) > 2 or function.__defaults__:
        return f"{names[0]}, *args, **kwargs", names[0]
    return ", ".join(taken), names[0]


@cache  # a score of sources in all, since each takes 0.2 ms of the import
def _code(
    arguments: str, first: str, quick: Quick | None, cells: bool = False, surely: bool = False
) -> Any:
    sorts = () if quick is None else ("cell",) if cells else ("plain", "written")
    lines = "".join([quick_source(quick, first, sort, surely) for sort in sorts if quick])
    source = _VIEWING.format(arguments=arguments, self=first, quick=lines)
    return compile(source, __file__, "exec")  # code of fx's, not of the user's


def _held_by_none() -> int:
    """How often what has no name is held while a method of it runs; 0 where that cannot be told."""
    probe = _Probe()
    named: int = probe.count()
    alone: int = _Probe().count()
    return alone if alone < named else 0


class _Probe:
    def count(self, *args: Any, **kwargs: Any) -> int:
        return getrefcount(self)


def _is_own(x: Tensor) -> bool:
    """Whether a tensor that nobody holds has memory that nobody else sees.

    Then a view of it is a tensor like others, of which nothing is noted. What is written into that
    goes into a copy, since its array is one of NumPy's views.
    """
    if getattr(x, "_noted", None) is not None or type(x._node) is Leaf:
        return False
    array = x._a
    if type(array) is not ndarray:
        return False
    return (array.base is None and id(array) not in memories) or not is_hosted(array)


def _alias(x: Any) -> Any:
    """Another tensor of the same elements."""
    return reshape(x, shape=x._shape)


# the names of the sources: they share what they know of who called last
_SPACE: dict[str, Any] = {
    **NAMES, "_latest": None, "__name__": __name__, "modes": modes, "writing": writing,
    "ref": ref, "getrefcount": getrefcount, "_getframe": _getframe, "known": known,
    "is_internal": is_internal, "_is_own": _is_own, "_alias": _alias, "_linked": _linked,
    "_kept_as": _kept_as,
}  # fmt: skip
